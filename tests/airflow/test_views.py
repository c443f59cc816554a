"""The review pages inside Airflow's own application: behind its login, by its rights, in its navigation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.replay.support import ROOT
from tests.review.asgi import ask
from tests.review.ledgers import make

# Warnings are those of Airflow and of what it imports.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


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
        "/task": "/task",
        "/results/index.html": "/results/index.html",
        "/results/{set_name}": "/results/q",
        **{
            f"/results/{{set_name}}/{{query}}{last}": f"/results/q/flows{last.replace('{form}', 'csv')}"
            for last in (
                *("", "/plot.json", "/plots.json", "/rows.{form}", "/diff"),
                *("/packets", "/packets.pcapng", "/evidence.zip"),
            )
        },
        "/act/{kind}/{name}": "/act/run/q",
        "/write/index.html": "/write/index.html",
        "/write/check": "/write/check",
        "/write/sql.html": "/write/sql.html",
        "/assets/{name:path}": "/assets/review.css",
        "/docs/{name:path}": "/docs/index.html",
        "/{address:path}": "/index.html",
    }
    assert {route.path for route in view.routes} == set(paths)  # nothing is mounted, and no route is left out
    for route in view.routes:
        asked = [each.call for each in _all(route.dependant)]
        assert get_user in asked
        for method in route.methods:
            assert ask(view, paths[route.path], method, query="dag_id=replay_q&run_id=x&task_id=t").status == 401
        assert route.methods <= {"GET", "HEAD"} or route.path == "/act/{kind}/{name}", "only acts write"


def _all(dependant: Any) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each
        yield from _all(each)


def test_nothing_is_mounted_without_a_lake(plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater_airflow.views import LowwaterReview

    monkeypatch.delenv("LOWWATER_LAKE", raising=False)
    assert LowwaterReview().fastapi_apps == []


MANAGER = """
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class OneDag(SimpleAuthManager):
    # As a manager of rights for each DAG has it: this user may see one, and every view.
    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        if user.get_name() == "somebody":
            return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
        if user.get_name() == "boss":
            return True
        if user.get_name() == "half" and method == "PUT":
            return details is not None and details.id in ("replay_q", "capture_ingest")
        return method == "GET" and details is not None and details.id == "replay_q"
"""
ASK = """
import json, sys
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.utils.db import upgradedb
from lowwater.instants import parse_instant
from lowwater.storage.paths import lake_path
from tests.review.asgi import ask

upgradedb()
app = create_app(apps="core")
token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="guest", role="VIEWER"))
known = {"Authorization": f"Bearer {token}"}
found = {}
for path in sys.argv[2:]:
    address, _, query = path.partition("?")
    got = ask(app, f"/lowwater/{address}", query=query, headers=known)
    head = ask(app, f"/lowwater/{address}", "HEAD", query=query, headers=known)
    stranger = ask(app, f"/lowwater/{address}", query=query, headers={})
    found[path] = {
        "statuses": [got.status, head.status, stranger.status],
        "to": got.headers.get("location", ""),
        "told": "other" in got.text or "secret" in got.text,
    }


def login(name, role="VIEWER"):
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=name, role=role))
    return {"Authorization": f"Bearer {token}"}


def sealed(page):
    return page.partition('name="seal" value="')[2].partition('"')[0]


def act(who, body, headers=(), path="/lowwater/act/skew/main1"):
    sent = ask(app, path, "POST", headers={**login(who), **dict(headers)}, body=body.encode())
    return [sent.status, sent.text.partition('<main')[2]]


SKEW = "/lowwater/act/skew/main1"
pages = {who: ask(app, SKEW, query="bound=7s", headers=login(who)).text for who in ("guest", "half", "boss")}
seal = sealed(pages["boss"])
good = f"bound=7s&seal={seal}"
from airflow.models import Log
from airflow.utils.session import create_session
from sqlalchemy import select

acts = {
    "pages": pages,
    "stranger": ask(app, SKEW, "POST", headers={}, body=good.encode()).status,
    "guest": act("guest", good),
    "half": act("half", good),
    "no seal": act("boss", "bound=7s"),
    "wrong bound": act("boss", f"bound=8s&seal={seal}"),
    "other site": act("boss", good, {"Sec-Fetch-Site": "cross-site"}),
    "other origin": act("boss", good, {"Origin": "https://evil.example", "Host": "airflow"}),
    "unknown dag": act("boss", "start=2025-01-01T00:00:00Z&end=2025-01-01T01:00:00Z", path="/lowwater/act/run/q"),
}
with create_session() as session:
    acts["logged before"] = len(session.scalars(select(Log.event)).all())
settings = open(sys.argv[1]).read()
acts["done"] = act("boss", good, {"Sec-Fetch-Site": "same-origin"})
acts["again"] = act("boss", good)
acts["settings"] = [settings, open(sys.argv[1]).read()]
with create_session() as session:
    acts["log"] = [[row.event, row.owner, json.loads(row.extra)] for row in session.scalars(select(Log))]
import time
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import ReplayRow, read_replays, record_replays

lake = open_lake(lake_path(sys.argv[1]).parent)
begin, end = parse_instant("2025-01-01T00:00:00Z"), parse_instant("2025-01-01T01:00:00Z")
of = {row.query for row in read_replays(lake, "q", (begin, end)) if row.query}
now, account = time.time_ns(), '{"verdict": "warned"}'
warned = [ReplayRow("q", name, begin, end, "audit", "done", now, accounting=account) for name in of]
record_replays(lake, warned)
ONE, PATH = "start=2025-01-01T00:00:00Z&end=2025-01-01T01:00:00Z", "/lowwater/act/approve/q"
asked = {who: ask(app, PATH, query=ONE, headers=login(who)).text for who in ("guest", "boss")}
acts["asked"] = asked
acts["approved"] = act("boss", f"{ONE}&seal={sealed(asked['boss'])}", path=PATH)
rows = [row for row in read_replays(lake, "q", (begin, end)) if row.stage == "audit"]
acts["consents"] = [json.loads(row.accounting).get("consent") for row in rows if row.finished_at > now]
with create_session() as session:
    logged = session.scalars(select(Log).where(Log.event == "lowwater_approve"))
    acts["approvals"] = [[row.owner, row.dag_id] for row in logged]
from tests.airflow.rights import everything

plugins = json.loads(ask(app, "/api/v2/plugins", headers=known).text)["plugins"]
views = sorted(view["destination"] for each in plugins for view in each["external_views"])
print(json.dumps({"found": found, "views": views, "acts": acts, **everything(app, login, seal)}), file=sys.stderr)
"""
WANTED = {
    "index.html": 200,
    "assets/review.css": 200,
    "../lowwater.toml": 404,
    "set/q.html": 200,
    "set/other.html": 404,
    "query/other/secret.html": 404,
    "interval/other/2025-01-01T000000Z_2025-01-01T010000Z.html": 404,
    "act/skew/main1?bound=7s": 200,
    "act/run/other?start=2025-01-01T00:00:00Z&end=2025-01-01T01:00:00Z": 404,
    "docs/q/page.html": 200,
    "docs/other/page.html": 404,
    "docs/index.html": 404,
    "dag?dag_id=replay_q": 307,
    "run?dag_id=replay_q&run_id=x": 307,
    "task?dag_id=replay_q&run_id=x&task_id=interval&map_index=-1": 307,
    "task?dag_id=replay_q&run_id=x&task_id=interval&map_index=7": 307,
    "dag?dag_id=replay_other": 403,
    "run?dag_id=replay_other&run_id=x": 403,
    "task?dag_id=replay_other&run_id=x&task_id=interval&map_index=0": 403,
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What Airflow's own application answers, without its other processes.

    Its auth manager lets the user see one of two DAGs. Somebody who is not logged in asks too.
    """
    folder = tmp_path_factory.mktemp("rights")
    root, queries = make(folder, 3)
    with (root / "lowwater.toml").open("a") as settings:
        settings.write("[query_sets.other]\n")
    (queries / "other.gsql").write_text("DEFINE { query_name 'secret'; }\nSELECT time, len FROM main1.UDP\n")
    for name in ("index.html", "other/page.html", "q/page.html"):
        path = root / "reports" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("page")
    (folder / "one_dag.py").write_text(MANAGER)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
    environment |= {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__AUTH_MANAGER": "one_dag.OneDag",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "var" / "no-plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "guest:viewer",
        "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64,
        "LOWWATER_LAKE": str(root),
        "LOWWATER_QUERIES": str(queries),
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT), environment.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", ASK, str(root / "lowwater.toml"), *WANTED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stderr.splitlines()[-1])


def test_a_user_of_fewer_rights_sees_the_query_sets_of_the_dags_that_it_may_see(answers: Any) -> None:
    found = {path: answer["statuses"][:2] for path, answer in answers["found"].items()}
    assert found == {path: [code, code] for path, code in WANTED.items()}
    assert [path for path, answer in answers["found"].items() if answer["told"] and "assets/" not in path] == []


def test_airflow_mounts_the_pages_behind_its_login(answers: Any) -> None:
    assert {answer["statuses"][2] for answer in answers["found"].values()} == {401}
    assert answers["found"]["dag?dag_id=replay_q"]["to"] == "set/q.html"
    assert answers["views"] == ["dag", "dag_run", "nav", "task_instance"]


def test_nobody_writes_without_a_permission_a_seal_and_a_form_of_ours(answers: Any) -> None:
    """The skew of a link that two query sets read: who may edit one of their DAGs only may not change it."""
    acts = answers["acts"]
    hidden = "You may not edit a DAG that you do not see"
    assert all(hidden in acts["pages"][who] and "disabled" in acts["pages"][who] for who in ("guest", "half"))
    assert "disabled" not in acts["pages"]["boss"] and "the event lowwater_set_skew" in acts["pages"]["boss"]
    assert acts["stranger"] == 401
    refused = ("guest", "half", "no seal", "wrong bound", "other site", "other origin", "unknown dag")
    assert {name: acts[name][0] for name in refused} == dict.fromkeys(refused, 403)
    assert "Airflow has no DAG replay_q" in acts["unknown dag"][1]
    assert "Another site sent this form" in acts["other site"][1] and "Another site" in acts["other origin"][1]
    assert "Something has changed since" in acts["wrong bound"][1]
    assert acts["logged before"] == 0


def test_a_skew_is_written_and_is_in_the_audit_log(answers: Any) -> None:
    """The form is good for one time: afterwards it says what would be done now."""
    acts = answers["acts"]
    assert acts["done"][0] == 200 and "The skew of main1 is 7s: 3 published intervals become stale." in acts["done"][1]
    assert 'href="../../act/backfill/q?start=2025-01-01T00:00:00Z&amp;end=2025-01-01T03:00:00Z' in acts["done"][1]
    assert acts["again"][0] == 403 and "in force already" in acts["again"][1]
    before, after = acts["settings"]
    assert after == before.replace("[links.main1]\n", '[links.main1]\nskew = "7s"\n')
    about = {"link": "main1", "before_ns": 10**9, "after_ns": 7 * 10**9}
    assert acts["log"] == [["lowwater_set_skew", "boss", about]]


def test_a_person_approves_what_a_look_has_left(answers: Any) -> None:
    """No run asks for it: the consent is kept with the audit, and the next look publishes."""
    acts = answers["acts"]
    assert "You may not approve intervals of" in acts["asked"]["guest"]
    assert "The next look publishes the interval" in acts["asked"]["boss"]
    assert acts["approved"][0] == 200 and "You have approved it" in acts["approved"][1]
    assert set(acts["consents"]) == {"boss"} and acts["approvals"] == [["boss", "keep_q"]]


def test_each_role_sees_and_does_what_airflow_lets_it(answers: Any) -> None:
    """No role: nothing. A viewer sees and does nothing; a user, an operator and an admin do what Airflow lets them."""
    roles = answers["roles"]
    assert set(roles["None"].values()) == {"refused"}
    for role, may in (("VIEWER", False), ("USER", True), ("OP", True), ("ADMIN", True)):
        shown = {address: about for address, about in roles[role].items() if "/act/" not in address}
        assert "refused" not in shown.values() and set(shown) == {each for each in roles["None"] if "/act/" not in each}
        acts = {about for address, about in roles[role].items() if address.startswith("GET /lowwater/act/")}
        assert acts == {"allowed" if may else "refused"}, role
    sent = answers["acted"]
    assert set(map(tuple, sent.values())) == {(403,) * 5}, "a seal of somebody else, of another act, or none"


def test_no_forged_login_is_one(answers: Any) -> None:
    tokens = answers["tokens"]
    assert tokens.pop("good") == [200] * 3
    assert {name: status for name, status in tokens.items() if not set(status) <= {401, 403}} == {}


def test_no_request_is_a_failure_of_the_views(answers: Any) -> None:
    assert answers["failed"] == []
