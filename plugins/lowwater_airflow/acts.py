"""Does the acts of the review pages inside Airflow: for the user of a request, by Airflow's own REST interface.

Airflow's routes are called in this process with the login of the user. So its permissions decide, its checks refuse,
and its audit log has each act. Only a skew is in no route of Airflow: it is written after the same permissions were
asked for, with an entry in the audit log.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import dropwhile, takewhile
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.lake.layout import lake_to_read, open_lake
from lowwater.lake.ledgers.intervals import approve, awaited
from lowwater.lake.ledgers.runs import read_replays
from lowwater.lake.query_sets import KINDS
from lowwater.replay.schedule.due import Due
from lowwater.replay.schedule.skew_review import write_skew
from lowwater_airflow.database import paused

if TYPE_CHECKING:
    from fastapi import Request
    from lowwater_review import Act

INGEST = "capture_ingest"
DAG = "replay_"
DAYS = "backfill_"
"""Beginning of the id of a DAG whose runs are days of intervals; no set has one whose intervals are held."""
APPROVAL = "approve"
"""Id of the task that waits for consent."""
PARALLEL = 2
"""Runs of a backfill from the pages that are at work at once."""
BUSY = 10
"""Tries more where Airflow's database is busy, one each second."""
STRETCHES = (
    "It ends before a stretch in which nothing is recorded: what is due behind is for another backfill, or for "
    "`lowwater backfill`, which runs a stretch as one interval."
)
SET_SKEW, APPROVED = "lowwater_set_skew", "lowwater_approve"
"""Events of the audit log."""
KEEP = "keep_"


class Refused(LowwaterError):
    """Airflow refused an act; the message is its own."""


class AirflowHost:
    """Does acts for the user of one request."""

    def __init__(self, root: PurePath, request: Request, user: Any) -> None:
        self._root, self._user = root, user
        names = ("authorization", "cookie")
        self._login = {name: request.headers[name] for name in names if name in request.headers}

    def refusal(self, act: Act) -> str:
        """Says why the user may not do the act, or why Airflow cannot do it now."""
        for dag, method, entity, words in self._needed(act):
            if not self._may(dag, method, entity):
                named = dag if self._may(dag, "GET", None) else "a DAG that you do not see"
                return f"You may not {words} {named}: ask who manages Airflow."
        if act.kind == "skew":
            return ""
        dag = _dag(act)
        if act.kind == APPROVAL and self._asked_by_look(act):
            return ""
        paused = _dag_paused(dag)
        if paused is None:
            return f"Airflow has no DAG {dag}."
        if paused:
            return f"The DAG {dag} is paused: nothing runs before somebody unpauses it."
        assert act.span is not None
        run = run_of(dag, *act.span) if act.kind != "backfill" else None
        if act.kind == "backfill" and act.work and not _in_airflow(act, dag):
            return (
                f"Nothing is recorded in what is due here, and Airflow would make a run of each interval: {act.command}"
            )
        if act.kind == APPROVAL:
            waits = run is not None and run.waits
            why = f"No run of {dag} waits for approval of this interval: run it again, and that run asks."
            return "" if waits else why
        if run is not None and run.active:
            return f"The run {run.run_id} is at work on it, or queued."
        asks = act.kind == "backfill" or (run is not None and run.orphan)
        if asks and (going := _backfill_going_on(dag)):
            return f"Backfill {going} of {dag} goes on: wait for its end, or cancel it in Airflow."
        return ""

    def effects(self, act: Act) -> Sequence[str]:
        dag = _dag(act)
        if act.kind == "skew":
            return [f"Airflow's audit log gets the event {SET_SKEW}."]
        assert act.span is not None
        if act.kind == "backfill":
            entries = self._ask("POST", "backfills/dry_run", _backfill_body(act, dag))["total_entries"]
            days = "; a run is a day of intervals" if dag.startswith(DAYS) else ""
            made = f"Airflow makes a backfill of {entries} runs of {dag}, {_parallel(act)} at a time{days}."
            left = len(act.work) - len(_in_airflow(act, dag))
            return [made, *([STRETCHES] if left else [])]
        run = run_of(dag, *act.span)
        if act.kind == APPROVAL and self._asked_by_look(act):
            return [
                f"The audit gets your consent, with your name, and Airflow's audit log the event {APPROVED}.",
                "The next look publishes the interval, unless its inputs change until then.",
            ]
        if act.kind == APPROVAL:
            return [f"The task {APPROVAL} of {dag} gets your consent, with your name."]
        if run is None:
            return [f"Airflow makes a new run of {dag}."]
        if run.orphan:
            return [f"The run {run.run_id} is of a backfill that was cancelled, so a new backfill takes it over."]
        return [f"Airflow clears the tasks of the run {run.run_id} and runs them again."]

    def seal(self, text: str) -> str:
        """Signs a text for the user with Airflow's secret key."""
        from airflow.configuration import conf

        key = conf.get_mandatory_value("api", "secret_key")
        signed = f"lowwater\0{self._user.get_name()}\0{text}"
        return hmac.new(key.encode(), signed.encode(), sha256).hexdigest()

    def perform(self, act: Act) -> str:
        """Does the act; returns a sentence about what was done.
        Raises LowwaterError: Airflow refused it, or the settings cannot be written."""
        if act.kind == "skew":
            return self._set_skew(act)
        dag = _dag(act)
        assert act.span is not None
        if act.kind == APPROVAL and self._asked_by_look(act):
            return self._approve(act)
        run = run_of(dag, *act.span)
        if act.kind == "backfill" or (act.kind == "run" and run is not None and run.orphan):
            if act.kind == "run" and run is not None and run.stuck:
                # A backfill leaves out what is in the queue, and Airflow never takes this run out of it.
                self._ask("PATCH", f"dags/{dag}/dagRuns/{run.run_id}", {"state": "failed"})
            with paused(dag):
                made = self._ask("POST", "backfills", _backfill_body(act, dag))
            return f"Airflow made backfill {made['id']} of {dag}."
        if act.kind == APPROVAL:
            assert run is not None
            path = f"dags/{dag}/dagRuns/{run.run_id}/taskInstances/{APPROVAL}/-1/hitlDetails"
            self._ask("PATCH", path, {"chosen_options": ["Approve"], "params_input": {}})
            return f"The run {run.run_id} goes on and publishes the interval."
        if run is not None:
            body = {"dry_run": False, "dag_run_id": run.run_id, "only_failed": False}
            self._ask("POST", f"dags/{dag}/clearTaskInstances", body)
            return f"Airflow runs {run.run_id} again."
        start, end = map(format_instant, act.span)
        bounds = {"logical_date": start, "data_interval_start": start, "data_interval_end": end}
        made = self._ask("POST", f"dags/{dag}/dagRuns", bounds)
        return f"Airflow made the run {made['dag_run_id']}."

    def _asked_by_look(self, act: Act) -> bool:
        """Whether the interval waits for approval, and no run of it asks for that: a look has left it."""
        assert act.span is not None
        run = run_of(DAG + act.name, *act.span)
        if run is not None and (run.waits or run.active):
            return False
        rows = read_replays(lake_to_read(self._root), act.name, act.span)
        return bool(awaited(row for row in rows if (row.interval_start, row.interval_end) == act.span))

    def _approve(self, act: Act) -> str:
        assert act.span is not None
        start, end = map(format_instant, act.span)
        keep = KEEP + act.name
        # A store may take long, and over SQLite nobody else writes meanwhile: the ledger has the name too.
        approve(open_lake(self._root, make=False), act.name, *act.span, self._user.get_name())
        with self._logged(APPROVED, {"query_set": act.name, "from": start, "to": end}, keep):
            pass
        if _dag_paused(keep) is not False or not self._may(keep, "POST", "RUN"):
            return "You have approved it; the next look publishes the interval."
        made = self._ask("POST", f"dags/{keep}/dagRuns", {"logical_date": None})
        return f"You have approved it; the run {made['dag_run_id']} of {keep} looks, and publishes the interval."

    @contextmanager
    def _logged(self, event: str, about: dict[str, Any], dag: str | None = None) -> Iterator[None]:
        """Writes an entry of the audit log with what the block does; where that fails there is none."""
        from airflow.models import Log
        from airflow.utils.session import create_session

        name = self._user.get_name()
        with create_session() as session:  # it commits at its end
            session.add(Log(event=event, owner=name, owner_display_name=name, dag_id=dag, extra=json.dumps(about)))
            session.flush()
            yield

    def _set_skew(self, act: Act) -> str:
        assert act.change is not None
        about = {"link": act.change.link, "before_ns": act.change.before, "after_ns": act.change.after}
        with self._logged(SET_SKEW, about):
            write_skew(self._root, act.change)
        return f"The skew of {act.change.link} is {act.fields['bound']}: {act.change.effect}."

    def _needed(self, act: Act) -> Iterator[tuple[str, str, str | None, str]]:
        """The permissions of an act: DAG, method, what of the DAG, and words for a refusal."""
        if act.kind == "skew":
            yield INGEST, "PUT", None, "edit"
            yield from ((DAG + name, "PUT", None, "edit") for name in act.query_sets)
            return
        dag = _dag(act)
        if act.kind == APPROVAL:
            yield dag, "PUT", "HITL_DETAIL", "approve intervals of"
            return
        yield dag, "POST", "RUN", "start runs of"
        if act.kind == "run":
            yield dag, "PUT", "TASK_INSTANCE", "clear tasks of"

    def _may(self, dag: str, method: Any, entity: str | None) -> bool:
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
        from airflow.models import DagModel

        access = DagAccessEntity[entity] if entity else None
        details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
        manager = get_auth_manager()
        return manager.is_authorized_dag(method=method, access_entity=access, details=details, user=self._user)

    def _ask(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """Calls a route of Airflow's REST interface with the login of the user, from a thread of the server.
        Raises Refused: Airflow's answer is an error."""
        import anyio
        import anyio.from_thread
        import httpx

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=_airflow(), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://airflow", timeout=60) as client:
                answer = await client.request(method, f"/api/v2/{path}", json=body, headers=self._login)
                # A backfill that met a busy database may be there in part, so only other requests are sent again.
                for _ in range(0 if path == "backfills" else BUSY):
                    if answer.status_code != 503:
                        break
                    await anyio.sleep(1)  # SQLite has one writer at a time
                    answer = await client.request(method, f"/api/v2/{path}", json=body, headers=self._login)
                return answer

        answer = anyio.from_thread.run(send)
        if answer.is_error:
            raise Refused(f"Airflow answered {answer.status_code}: {_detail(answer)}")
        return answer.json()


def _airflow() -> Any:
    """The application that serves Airflow's routes in this process."""
    from airflow.api_fastapi import main

    return main.app


def _detail(answer: Any) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return str(answer.text[:200])
    return detail if isinstance(detail, str) else json.dumps(detail)[:400]


def _dag(act: Act) -> str:
    """The DAG whose runs do an act: a backfill is one of days of intervals, where the query set has such a DAG and it
    is not paused, as a new DAG is."""
    days, each = DAYS + act.name, DAG + act.name
    if act.kind != "backfill" or (paused := _dag_paused(days)) is None:
        return each
    return each if paused and _dag_paused(each) is False else days


def _parallel(act: Act) -> int:
    return 1 if act.in_order else PARALLEL


def _in_airflow(act: Act, dag: str) -> list[Due]:
    """The due intervals of which Airflow makes a backfill. Where each has a run, up to the next stretch without
    records, which would have a run for each of its intervals there, while `lowwater backfill` runs it as one."""
    if dag.startswith(DAYS):
        return sorted(act.work, key=lambda each: each.start)
    work = act.work[::-1] if act.fields.get("order") == "newest" else act.work
    behind = dropwhile(lambda each: each.intervals > 1, work)
    return sorted(takewhile(lambda each: each.intervals == 1, behind), key=lambda each: each.start)


def _backfill_body(act: Act, dag: str) -> dict[str, Any]:
    """What Airflow's route takes: from the first interval that is due to the last one. Days run what is due of them
    within the time that was asked for."""
    assert act.span is not None
    work = _in_airflow(act, dag)
    first, last = (work[0].start, work[-1].start) if work else (act.span[0], act.span[0])
    only = [kind for kind in act.fields.get("only", "").split(",") if kind]
    if dag.startswith(DAYS):
        asked = {"only": only or None, **dict(zip(("from", "to"), map(format_instant, act.span), strict=True))}
    else:
        if not only and work and all(each.state in KINDS for each in work):
            only = list(KINDS)  # a run of an interval that is not due ends at once
        asked = {"only": only} if only else {}
    return {
        "dag_id": dag,
        "from_date": format_instant(first),
        "to_date": format_instant(last),
        "run_backwards": act.fields.get("order") == "newest",
        "max_active_runs": _parallel(act),
        "reprocess_behavior": "completed",
        "dag_run_conf": asked,
    }


class _Run:
    """A run of an interval, as far as an act depends on it.

    Attributes:
        run_id: id of the run.
        active: whether it is queued or running and does not wait for consent.
        waits: whether it waits for consent.
        orphan: whether it is of a backfill that was cancelled; Airflow never starts such a run after it was cleared.
        stuck: whether such a run was cleared, so that it is queued for ever.
    """

    def __init__(self, run_id: str, state: str, waits: bool, orphan: bool) -> None:
        self.run_id, self.waits, self.orphan = run_id, waits, orphan
        self.stuck = orphan and state == "queued"
        self.active = not waits and not self.stuck and state in ("queued", "running")


def run_of(dag: str, start: int, end: int) -> _Run | None:
    """Finds the newest run of an interval."""
    from airflow.models import DagRun, TaskInstance
    from airflow.models.backfill import Backfill
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from lowwater_airflow.settings import moment

    with create_session() as session:
        chosen = select(DagRun).where(
            DagRun.dag_id == dag,
            DagRun.data_interval_start == moment(start),
            DagRun.data_interval_end == moment(end),
        )
        run = session.scalar(chosen.order_by(DagRun.id.desc()).limit(1))
        if run is None:
            return None
        backfill = session.get(Backfill, run.backfill_id) if run.backfill_id else None
        orphan = backfill is not None and bool(backfill.is_paused) and backfill.completed_at is not None
        waiting = select(TaskInstance.state).where(
            TaskInstance.dag_id == dag, TaskInstance.run_id == run.run_id, TaskInstance.task_id == APPROVAL
        )
        waits = session.scalar(waiting) == "awaiting_input"
        return _Run(run.run_id, str(run.state), waits, orphan)


def _dag_paused(dag: str) -> bool | None:
    """Whether a DAG is paused; None if there is none."""
    from airflow.models import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag, DagModel.is_stale.is_(False)))


def _backfill_going_on(dag: str) -> int | None:
    from airflow.models.backfill import Backfill
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return session.scalar(select(Backfill.id).where(Backfill.dag_id == dag, Backfill.completed_at.is_(None)))
