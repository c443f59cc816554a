"""The review pages inside Airflow: in its navigation, on each DAG, run and task, behind its login; and notes of runs.

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

from lowwater.instants import parse_instant
from lowwater.storage.paths import lake_path
from lowwater_airflow import database, notes, pools
from lowwater_airflow.checks import notices
from lowwater_airflow.policy import MAPPED_BY
from lowwater_airflow.timetables import DaysWhenAsked, WhenAsked

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI
    from lowwater_review import Ledgers

DAG = "replay_"
"""Prefix of the name of a query set's DAG of intervals."""
KEEP = "keep_"
"""Prefix of the name of the DAG that keeps a query set right."""
BACKFILL = "backfill_"
"""Prefix of the name of the DAG that runs days of intervals."""


def _icon(name: str) -> str:
    return f"{notes.PAGES}/assets/{name}.svg"


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
            "href": f"{notes.PAGES}/index.html",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "lowwater",
            "icon": _icon("lowwater"),
        },
        {
            "name": "Lowwater",
            "href": f"{notes.PAGES}/dag?dag_id={{DAG_ID}}",
            "destination": "dag",
            "url_route": "lowwater_set",
            "icon": _icon("lowwater"),
        },
        {
            "name": "Lowwater",
            "href": f"{notes.PAGES}/run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": notes.RUN_VIEW.removeprefix("plugin/"),
            "icon": _icon("lowwater"),
        },
        {
            "name": "Lowwater",
            "href": f"{notes.PAGES}/task?dag_id={{DAG_ID}}&run_id={{RUN_ID}}"
            "&task_id={TASK_ID}&map_index={MAP_INDEX}",
            "destination": "task_instance",
            "url_route": notes.TASK_VIEW.removeprefix("plugin/"),
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
        return [{"app": make_app(lake_path(root)), "url_prefix": f"/{notes.PAGES}", "name": "Lowwater review"}]


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
    return create(ledgers, allowed, _redirects(ledgers, visibility), visibility, _host(root), notices, "../")


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
    """Redirects from a DAG, a run or a task to its pages, for users who may see the DAG."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import APIRouter, Depends
    from fastapi.responses import RedirectResponse, Response
    from lowwater_review.app import HEADERS, METHODS, page_response

    from lowwater.lake.tables import interval_page, safe_name

    router, permission = APIRouter(), Depends(visibility)

    def lead(dag_id: str, bounds: tuple[int, int] | None, sees: Any) -> Response:
        """Leads to the page of an interval, ns; of several, or of none, to that of the query set."""
        snapshot = ledgers.now()
        name = next((dag_id.removeprefix(each) for each in (DAG, KEEP, BACKFILL) if dag_id.startswith(each)), "")
        job = snapshot.jobs.get(name)
        if job is None:
            return page_response(ledgers, "index.html", sees, notices)
        address = f"set/{safe_name(name)}.html"
        if bounds and (bounds[1] - bounds[0] == job.length or (name, *bounds) in snapshot.keys):
            address = interval_page(name, *bounds)
        return RedirectResponse(address, headers=HEADERS)

    @router.api_route("/dag", methods=METHODS, dependencies=[Depends(requires_access_dag("GET"))])
    def dag(dag_id: str, sees: Any = permission) -> Response:
        return lead(dag_id, None, sees)

    @router.api_route("/run", methods=METHODS, dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))])
    def run(dag_id: str, run_id: str, sees: Any = permission) -> Response:
        return lead(dag_id, interval_of_run(dag_id, run_id), sees)

    needed = [Depends(requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE))]

    @router.api_route("/task", methods=METHODS, dependencies=needed)
    def task(dag_id: str, run_id: str, task_id: str, map_index: str = "", sees: Any = permission) -> Response:
        bounds = interval_of_task(dag_id, run_id, task_id, int(map_index)) if map_index.isdecimal() else None
        return lead(dag_id, bounds or interval_of_run(dag_id, run_id), sees)

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


def interval_of_task(dag_id: str, run_id: str, task_id: str, map_index: int) -> tuple[int, int] | None:
    """The time, ns, that a mapped task of a look has got; None for another task."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    source = MAPPED_BY.get(task_id)
    if source is None:
        return None
    with create_session() as session:
        asked = XComModel.get_many(run_id=run_id, key="return_value", task_ids=source, dag_ids=dag_id)
        value = session.scalars(asked).first()
        made = None if value is None else XComModel.deserialize_value(value)
    if not isinstance(made, list) or map_index >= len(made) or "start" not in made[map_index]:
        return None
    return parse_instant(made[map_index]["start"]), parse_instant(made[map_index]["end"])
