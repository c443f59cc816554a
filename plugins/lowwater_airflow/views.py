"""The review pages inside Airflow: in its navigation, on each DAG and run, behind its login; and the notes of runs.

Airflow loads this plugin in every process, so the web app and its dependencies are imported only in the web server,
when the app is requested.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from lowwater.storage.paths import lake_path
from lowwater_airflow import database, notes, pools
from lowwater_airflow.checks import notices
from lowwater_airflow.timetables import DaysWhenAsked, WhenAsked

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI
    from lowwater_review import Ledgers

PREFIX = "lowwater"
DAG = "replay_"
"""Prefix of the name of a query set's DAG of intervals."""
KEEP = "keep_"
"""Prefix of the name of the DAG that keeps a query set right."""
BACKFILL = "backfill_"
"""Prefix of the name of the DAG that runs days of intervals."""


def _icon(name: str) -> str:
    return f"{PREFIX}/assets/{name}.svg"


class LowwaterReview(AirflowPlugin):
    """Mounts the pages at `/lowwater` if LOWWATER_LAKE names a lake.

    Addresses have no leading slash, so that they stay below a prefix of Airflow's own address.
    """

    name = "lowwater_review"
    listeners: list[Any] = [notes, pools]  # noqa: RUF012 - as Airflow declares it
    timetables: list[Any] = [WhenAsked, DaysWhenAsked]  # noqa: RUF012 - as Airflow declares it
    external_views: list[Any] = [  # noqa: RUF012 - as Airflow declares it
        {
            "name": "Lowwater",
            "href": f"{PREFIX}/index.html",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "lowwater",
            "icon": _icon("lowwater"),
        },
        {
            "name": "Lowwater",
            "href": f"{PREFIX}/dag?dag_id={{DAG_ID}}",
            "destination": "dag",
            "url_route": "lowwater_set",
            "icon": _icon("lowwater"),
        },
        {
            "name": "Lowwater",
            "href": f"{PREFIX}/run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "lowwater_interval",
            "icon": _icon("lowwater"),
        },
    ]

    @cached_property
    def fastapi_root_middlewares(self) -> list[Any]:  # type: ignore[override]
        return database.middlewares()

    @cached_property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        root = os.environ.get("LOWWATER_LAKE")
        if not root:
            return []
        return [{"app": make_app(lake_path(root)), "url_prefix": f"/{PREFIX}", "name": "Lowwater review"}]


def make_app(root: PurePath) -> FastAPI:
    """Builds the pages of a lake for users of Airflow who may see its plugins."""
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import get_user, requires_access_view
    from fastapi import Depends
    from lowwater_review import Ledgers
    from lowwater_review.app import create

    from lowwater_airflow.settings import query_folder

    ledgers = Ledgers(root, query_folder(root))
    allowed = [Depends(get_user), Depends(requires_access_view(AccessView.PLUGINS))]
    visibility = _query_set_visibility()
    return create(ledgers, allowed, _redirects(ledgers, visibility), visibility, _host(root), notices)


def _host(root: PurePath) -> Callable[..., Any]:
    """A dependency that returns what does the acts of the user."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, Request

    from lowwater_airflow.acts import AirflowHost

    user_dependency = Depends(get_user)

    def host(request: Request, user: Any = user_dependency) -> AirflowHost:
        return AirflowHost(root, request, user)

    # The module's annotations are texts, and `Request` is no name of it.
    host.__annotations__["request"] = Request
    return host


def _query_set_visibility() -> Callable[..., Callable[[str], bool]]:
    """A dependency that tells which query sets a user may see: those whose DAGs the user may see."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.models import DagModel
    from fastapi import Depends, Request
    from lowwater_review.results.answers import PERSON

    user_dependency = Depends(get_user)

    def seen(request: Request, user: Any = user_dependency) -> Callable[[str], bool]:
        request.scope[PERSON] = user.get_id()

        @cache
        def sees(name: str) -> bool:
            details = DagDetails(id=DAG + name, team_name=DagModel.get_team_name(DAG + name))
            return get_auth_manager().is_authorized_dag(method="GET", details=details, user=user)

        return sees

    # The module's annotations are texts, and `Request` is no name of it.
    seen.__annotations__["request"] = Request
    return seen


def _redirects(ledgers: Ledgers, visibility: Callable[..., Callable[[str], bool]]) -> APIRouter:
    """Redirects from a DAG or a run to its pages, for users who may see the DAG."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import APIRouter, Depends
    from fastapi.responses import RedirectResponse, Response
    from lowwater_review.app import HEADERS, METHODS, page_response

    from lowwater.lake.tables import interval_label, safe_name

    router, permission = APIRouter(), Depends(visibility)

    @router.api_route("/dag", methods=METHODS, dependencies=[Depends(requires_access_dag("GET"))])
    def dag(dag_id: str, sees: Any = permission) -> Response:
        name = dag_id.removeprefix(KEEP).removeprefix(BACKFILL).removeprefix(DAG)
        if name == dag_id or name not in ledgers.now().jobs:
            return page_response(ledgers, "index.html", sees, notices)
        return RedirectResponse(f"set/{safe_name(name)}.html", headers=HEADERS)

    @router.api_route("/run", methods=METHODS, dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))])
    def run(dag_id: str, run_id: str, sees: Any = permission) -> Response:
        name, bounds = dag_id.removeprefix(DAG), interval_of_run(dag_id, run_id)
        for prefix in (KEEP, BACKFILL):  # runs of many intervals
            if dag_id.startswith(prefix) and (many := dag_id.removeprefix(prefix)) in ledgers.now().jobs:
                return RedirectResponse(f"set/{safe_name(many)}.html", headers=HEADERS)
        if name == dag_id or bounds is None or name not in ledgers.now().jobs:
            return page_response(ledgers, "index.html", sees, notices)
        address = f"interval/{safe_name(name)}/{interval_label(*bounds)}.html"
        return RedirectResponse(address, headers=HEADERS)

    return router


def interval_of_run(dag_id: str, run_id: str) -> tuple[int, int] | None:
    """The data interval of a run, ns; None without the run or an interval."""
    from airflow.models import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        dag_run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if dag_run is None or dag_run.data_interval_start is None or dag_run.data_interval_end is None:
            return None
        start, end = (round(bound.timestamp()) for bound in (dag_run.data_interval_start, dag_run.data_interval_end))
    return start * 10**9, end * 10**9
