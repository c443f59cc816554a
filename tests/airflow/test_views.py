"""The review pages inside a running Airflow: behind its login, in its navigation, read with a real browser."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lowwater_expectations import SUITES

from lowwater.instants import HOUR, format_instant
from tests.airflow.chromium import browser, follow, frame
from tests.airflow.conftest import prepare, script
from tests.replay.support import ROOT
from tests.review.asgi import ask
from tests.review.ledgers import HOSTILE, START, make

# Warnings are those of Airflow and of what it imports.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
HOURS, FAILED = 30, 5


@pytest.fixture
def view(plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The mounted app over a small lake, in this process."""
    from lowwater_airflow.views import LowwaterReview

    root, queries = make(tmp_path, 3)
    monkeypatch.setenv("LOWWATER_LAKE", str(root))
    monkeypatch.setenv("LOWWATER_QUERIES", str(queries))
    (mounted,) = LowwaterReview().fastapi_apps
    assert mounted["url_prefix"] == "/lowwater"
    return mounted["app"]


def test_no_route_answers_who_is_not_logged_in(view: Any) -> None:
    from airflow.api_fastapi.core_api.security import get_user

    paths = {
        "/": "/",
        "/dag": "/dag",
        "/run": "/run",
        "/results/index.html": "/results/index.html",
        **{
            f"/results/{{set_name}}/{{query}}{last}": f"/results/q/flows{last.replace('{form}', 'csv')}"
            for last in ("", "/plot.json", "/rows.{form}", "/packets", "/packets.pcapng", "/diff")
        },
        "/assets/{name:path}": "/assets/review.css",
        "/docs/{name:path}": "/docs/index.html",
        "/{address:path}": "/index.html",
    }
    assert {route.path for route in view.routes} == set(paths)  # nothing is mounted, and no route is left out
    for route in view.routes:
        asked = [each.call for each in _all(route.dependant)]
        assert get_user in asked
        assert ask(view, paths[route.path], query="dag_id=replay_q&run_id=x").status == 401


def _all(dependant: Any) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each
        yield from _all(each)


def test_nothing_is_mounted_without_a_lake(plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater_airflow.views import LowwaterReview

    monkeypatch.delenv("LOWWATER_LAKE", raising=False)
    assert LowwaterReview().fastapi_apps == []


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Airflow over synthetic ledgers with one failed audit."""
    folder = tmp_path_factory.mktemp("views")
    root, queries = make(folder, HOURS, frozenset({FAILED}))
    made = script("home").Home(folder / "airflow", root, queries)
    try:
        prepare(made)
        made.start()
        made.ready("replay_q")
        yield made
    finally:
        made.stop()
    assert not made.running()


@pytest.fixture(scope="module")
def page(home: Any) -> Iterator[Any]:
    """A page of Chromium, logged in."""
    with browser(home) as found:
        yield found


def test_the_calendar_a_failed_audit_and_its_rows(page: Any, home: Any) -> None:
    page.goto(f"{home.address}/")
    page.get_by_role("link", name="Lowwater").first.click()
    inside = frame(page)
    inside.get_by_role("heading", name="January 2025", level=1).wait_for(timeout=60_000)
    cells = inside.locator("td a[aria-label]")
    assert cells.count() == HOURS
    failed = inside.get_by_role("link", name="1 Jan 05:00, failed", exact=True)
    inside = follow(page, failed, "1 Jan 2025, 05:00 to 06:00 UTC", "/lowwater/interval/q/")
    assert inside.locator(".finding.critical").count() == len(SUITES)
    assert inside.locator(".finding.critical td", has_text=HOSTILE).count() >= 5
    assert "/lowwater/interval/q/" in page.url  # what is shown can be linked to


def test_the_skew_review_and_the_plan(page: Any, home: Any) -> None:
    page.goto(f"{home.address}/plugin/lowwater")
    inside = frame(page)
    follow(page, inside.get_by_role("link", name="Skew review"), "Skew review", "/lowwater/skew/index.html")
    follow(page, inside.get_by_role("link", name="main1"), "Skew of main1", "/lowwater/skew/main1.html")
    assert inside.locator("svg .bar").count() > 10
    assert inside.locator("tr.chosen").count() == 1
    follow(page, inside.get_by_role("link", name="Overview").first, "January 2025", "/lowwater/index.html")
    follow(page, inside.get_by_role("link", name="q", exact=True).first, "Query set q", "/lowwater/set/q")
    assert inside.locator("svg .node.lfta").count() == 1


def test_the_pages_of_a_dag_and_of_a_run(page: Any, home: Any) -> None:
    start, end = START + FAILED * HOUR, START + (FAILED + 1) * HOUR
    bounds = {"data_interval_start": format_instant(start), "data_interval_end": format_instant(end)}
    home.ask("PATCH", "dags/replay_q", {"is_paused": True})
    run = home.ask("POST", "dags/replay_q/dagRuns", {"logical_date": format_instant(start), **bounds})
    page.goto(f"{home.address}/dags/replay_q/plugin/lowwater_set")
    frame(page).get_by_role("heading", name="Query set q").wait_for(timeout=60_000)
    page.goto(f"{home.address}/dags/replay_q/runs/{run['dag_run_id']}/plugin/lowwater_interval")
    frame(page).get_by_role("heading", name="1 Jan 2025, 05:00 to 06:00 UTC").wait_for(timeout=60_000)


def test_what_an_airflow_of_the_demo_writes_is_for_its_user_only(home: Any) -> None:
    """Logs of its parts, database, token and settings, of the Airflow that runs for the tests before."""
    modes = {}
    for path in [home.folder, *home.folder.rglob("*")]:
        with suppress(FileNotFoundError):  # SQLite's journal comes and goes
            found = path.lstat().st_mode
            modes[path.relative_to(home.folder.parent).as_posix()] = 0 if stat.S_ISLNK(found) else stat.S_IMODE(found)
    for name in ("airflow", "airflow/airflow.db", "airflow/airflow.log", "airflow/airflow.cfg", "airflow/token"):
        assert modes[name]
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def test_dark_is_dark(page: Any, home: Any) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{home.address}/lowwater/index.html")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark, light) == ("rgb(18, 27, 32)", "rgb(244, 247, 248)")


CORE = """
import json, sys
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from tests.replay.support import ROOT
from tests.review.asgi import ask

app = create_app(apps="core")
token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="admin", role="VIEWER"))
known = {"Authorization": f"Bearer {token}"}
found = {}
for path in ("index.html", "assets/review.css", "dag", "run", "../lowwater.toml"):
    query = "dag_id=replay_q&run_id=x"
    answers = [ask(app, f"/lowwater/{path}", query=query, headers=headers) for headers in ({}, known)]
    found[path] = [answer.status for answer in answers] + [answers[1].headers.get("location", "")]
plugins = json.loads(ask(app, "/api/v2/plugins", headers=known).text)["plugins"]
found["views"] = sorted(view["destination"] for each in plugins for view in each["external_views"])
print(json.dumps(found), file=sys.stderr)
"""


MANAGER = """
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class OneDag(SimpleAuthManager):
    # As a manager of rights for each DAG has it: this user may see one, and every view.
    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        return method == "GET" and details is not None and details.id == "replay_q"
"""
FEWER = """
import json, sys
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from tests.review.asgi import ask

app = create_app(apps="core")
token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="guest", role="VIEWER"))
known = {"Authorization": f"Bearer {token}"}
found = {}
for path in sys.argv[1:]:
    address, _, query = path.partition("?")
    got = ask(app, f"/lowwater/{address}", query=query, headers=known)
    head = ask(app, f"/lowwater/{address}", "HEAD", query=query, headers=known)
    found[path] = [got.status, head.status, "other" in got.text or "secret" in got.text]
print(json.dumps(found), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of an Airflow that has not run yet."""
    folder = tmp_path_factory.mktemp("migrated")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
    environment |= {"AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "airflow.db"


def answers(code: str, arguments: list[str], environment: dict[str, str], migrated: Path) -> Any:
    """What a program prints that asks an Airflow's application, with a database of its own."""
    folder = Path(environment["AIRFLOW_HOME"])
    folder.mkdir()
    shutil.copy(migrated, folder)
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stderr.splitlines()[-1])


def test_a_user_of_fewer_rights_sees_the_query_sets_of_the_dags_that_it_may_see(tmp_path: Path, migrated: Path) -> None:
    """In Airflow's own application, under an auth manager that lets the user see one of two DAGs."""
    root, queries = make(tmp_path, 3)
    with (root / "lowwater.toml").open("a") as settings:
        settings.write("[query_sets.other]\n")
    (queries / "other.gsql").write_text("DEFINE { query_name 'secret'; }\nSELECT time, len FROM main1.UDP\n")
    for name in ("index.html", "other/page.html", "q/page.html"):
        path = root / "reports" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("page")
    (tmp_path / "one_dag.py").write_text(MANAGER)
    environment = _of_airflow(tmp_path, root, queries) | {"AIRFLOW__CORE__AUTH_MANAGER": "one_dag.OneDag"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    wanted = {
        "index.html": 200,
        "set/q.html": 200,
        "set/other.html": 404,
        "query/other/secret.html": 404,
        "interval/other/2025-01-01T000000Z_2025-01-01T010000Z.html": 404,
        "docs/q/page.html": 200,
        "docs/other/page.html": 404,
        "docs/index.html": 404,
        "dag?dag_id=replay_q": 307,
        "dag?dag_id=replay_other": 403,
        "run?dag_id=replay_other&run_id=x": 403,
    }
    found = answers(FEWER, list(wanted), environment, migrated)
    assert found == {path: [code, code, False] for path, code in wanted.items()}


def _of_airflow(folder: Path, root: Path, queries: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
    return environment | {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "var" / "no-plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:viewer",
        "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64,
        "LOWWATER_LAKE": str(root),
        "LOWWATER_QUERIES": str(queries),
        "PYTHONPATH": os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")]),
    }


def test_airflow_mounts_the_pages_behind_its_login(tmp_path: Path, migrated: Path) -> None:
    """In Airflow's own application, without its other processes."""
    root, queries = make(tmp_path, 3)
    environment = _of_airflow(tmp_path, root, queries)
    assert answers(CORE, [], environment, migrated) == {
        "index.html": [401, 200, ""],
        "assets/review.css": [401, 200, ""],
        "dag": [401, 307, "set/q.html"],
        "run": [401, 200, ""],
        "../lowwater.toml": [401, 404, ""],
        "views": ["dag", "dag_run", "nav"],
    }
