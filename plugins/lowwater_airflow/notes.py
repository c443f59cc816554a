"""Writes the note of every run: its interval and what was published, since a green run may still be incomplete; of a
look, what it did for which intervals.

It listens to Airflow's scheduler, in whose transactions it reads only Airflow's database: what tasks and the reader of
DAG files have stored there. A lake may not answer, and then everything would stand.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.configuration import conf
from airflow.listeners import hookimpl
from sqlalchemy.orm import object_session

from lowwater.lake.words import BLOCKED, DONE, PROVISIONAL
from lowwater.terminal import shown
from lowwater_airflow import assets, pools
from lowwater_airflow.checks import of_versions
from lowwater_airflow.policy import MAPPED_BY

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

log = logging.getLogger(__name__)
DAGS = ("replay_", "capture_ingest", "backfill_")
"""Prefixes of the names of DAGs whose runs have an interval."""
MARK = "Interval "
"""Prefix of our line in a note; lines of users stay."""
BATCHES = "backfill_"
"""Prefix of the names of DAGs whose runs are of a batch of intervals."""
LOOKS = ("keep_", "lowwater_ingest")
"""Prefixes of the names of DAGs whose runs are looks."""
LOOK = "Look: "
"""Our line in the note of a look."""
FATES = "fates"
"""Key under which a task stores what has become of the intervals of its batch: name, state, reason and number of those
that follow one another and are alike, and of a single one the address of its page."""
FOUND = "found"
"""Key under which a look stores what it leaves, or has ingested, and how much."""
NAMED = 3
"""Most intervals that a note names."""
ONE = "interval"
"""Task that runs an interval as a whole."""
WHY = "why"
"""Key under which a task stores why its interval is not published."""
LACKS = "This Airflow: "
"""Prefix of our line about what Airflow lacks."""
PAGES = "lowwater"
"""Where the pages are, below Airflow's own address."""
RUN_VIEW, TASK_VIEW = "plugin/lowwater_interval", "plugin/lowwater_task"
"""Our pages of a run and of a task, below the addresses of these."""
LONGEST_LACKS = 400
LONGEST_WHY = 120
LONGEST = 900
"""Largest length of a note, characters; Airflow stores 1,000."""


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    """Writes the bounds of the interval when the run begins, and what Airflow lacks; what is known of it stays."""
    _write_lacking(dag_run)
    _write(dag_run, "", keep=True)
    _make_assets(dag_run)


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """Writes the published state of the interval, or what the look did."""
    _write_look(dag_run)
    text, ran = _published(dag_run)
    _write(dag_run, text, keep=not ran)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Writes the failed task and the reason."""
    _write_look(dag_run)
    _write(dag_run, _failed(dag_run))


def _write(dag_run: DagRun, text: str, keep: bool = False) -> None:
    """Writes what became of the interval; with `keep` only if nothing is known of it yet."""
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    if not dag_run.dag_id.startswith(DAGS) or start is None or end is None or not _writable(dag_run):
        return
    if keep and any(re.match(rf"{MARK}\S*Z to \S*Z\S*: ", line) for line in (dag_run.note or "").splitlines()):
        return
    bounds = f"{start:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ}"
    page = f"{_root()}/{address_of(dag_run.dag_id, dag_run.run_id)}/{RUN_VIEW}"
    links = {bounds: page} if dag_run.dag_id.startswith((DAGS[0], BATCHES)) else {}
    links |= _pages(_left(dag_run, ONE, FATES)) if text else {}
    _put(dag_run, MARK, one_line(f"{MARK}{bounds}: {text}") if text else f"{MARK}{bounds}", links)


def _make_assets(dag_run: DagRun) -> None:
    """Makes the assets of the tables that the run publishes."""
    session = object_session(dag_run)
    prefix, mark, query_set = dag_run.dag_id.partition("_")
    if session is not None and dag_run.dag is not None and prefix + mark in (DAGS[0], LOOKS[0], BATCHES):
        assets.make(session, query_set, assets.named_in(dag_run.dag))


def _write_lacking(dag_run: DagRun) -> None:
    """Makes the pool of the tasks if somebody has removed it, and writes what else Airflow lacks for these runs."""
    session = object_session(dag_run)
    if not dag_run.dag_id.startswith((*DAGS, *LOOKS)) or session is None:
        return
    told = [made] if (made := pools.make(session)) else []
    told += [each.text for each in of_versions()]
    if told:
        _put(dag_run, LACKS, one_line(LACKS + "; ".join(told))[:LONGEST_LACKS])


def _put(dag_run: DagRun, mark: str, line: str, links: Mapping[str, str] = MappingProxyType({})) -> None:
    """Puts a line with our mark on top of the note, in the place of the one before. `links`: words of the line ->
    address to which they lead; the first ones, as long as they take at most half of the note."""
    others = [line for line in (dag_run.note or "").splitlines() if not line.startswith(mark)]
    room = LONGEST - len("\n".join(others))
    led: list[tuple[str, str]] = []
    space = 0
    for words, address in links.items():
        place = rf"(?<!\[)(?<! to ){re.escape(words)}(?! to |\])"  # not inside of a range, or of a link
        more = len(f"[]({address})")
        if space + more <= room // 2 and re.search(place, line):
            led.append((place, f"[{words}]({address})"))
            space += more
    line = line[: room - space]
    for place, link in led:
        line = re.sub(place, link, line, count=1)
    dag_run.note = "\n".join([line, *others])


def _root() -> str:
    """The path below which Airflow's own pages are; empty for the root of its host."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def address_of(dag: str, run: str, task: str = "", index: int | None = None) -> str:
    """Address of a run, or of a task of it, below that of Airflow's own pages. `index`: of a mapped task; else -1 or
    None.

    Example:
        >>> address_of("keep_q", "scheduled__2026-01-01T00:00:00+00:00", "interval", 3)
        'dags/keep_q/runs/scheduled__2026-01-01T00%3A00%3A00%2B00%3A00/tasks/interval/mapped/3'
    """
    found = f"dags/{quote(dag, safe='')}/runs/{quote(run, safe='')}"
    found += f"/tasks/{quote(task, safe='')}" if task else ""
    return found if index is None or index < 0 else f"{found}/mapped/{index}"


def _writable(dag_run: DagRun) -> bool:
    """Whether the run is one of a scheduler: `airflow dags test` has none, and no notes."""
    return object_session(dag_run) is not None


def _write_look(dag_run: DagRun) -> None:
    if not dag_run.dag_id.startswith(LOOKS) or not _writable(dag_run):
        return
    left = _all_left(dag_run)
    found = left.get(("look", -1, FOUND))
    if isinstance(found, dict) and found.get("lacks"):
        _put(dag_run, LACKS, one_line(f"{LACKS}{found['lacks']}")[:LONGEST_LACKS])
    links = {
        title: f"{_root()}/{address_of(dag_run.dag_id, dag_run.run_id, ONE, index)}/{TASK_VIEW}"
        for index in range(len(left.get((MAPPED_BY[ONE], -1, "return_value")) or ()))
        if (title := str(_made(left, ONE, index).get("title", "")))
    }
    for (task, _, key), value in left.items():
        links |= _pages(value) if (task, key) == (ONE, FATES) else {}
    _put(dag_run, LOOK, one_line(LOOK + look_text(_tasks(dag_run), left)), links)


def _pages(fates: Any) -> dict[str, str]:
    """Name of an interval of a batch -> address of its page."""
    return {name: f"{_root()}/{PAGES}/{page[0]}" for name, _, _, _, *page in fates or () if page}


def look_text(
    tasks: Mapping[tuple[str, int], tuple[str | None, str | None]], left: Mapping[tuple[str, int, str], Any]
) -> str:
    """Says what a look did.

    Args:
        tasks: (task, map index) -> state and label.
        left: (task, map index, key) -> the value that it stored.
    """
    counts: Counter[str] = Counter()
    named = []
    for (task, index), (state, label) in sorted(tasks.items()):
        why = left.get((task, index, WHY))
        if task in MAPPED_BY and index >= 0:
            outcome = left.get((task, index, "return_value"))
            done = outcome.get("state") if isinstance(outcome, dict) and state == "success" else None
            if fates := left.get((task, index, FATES)):
                for name, word, reason, number, *_ in fates:
                    counts[word] += number
                    if word not in (DONE, PROVISIONAL):
                        named.append(fate_text(name, word, reason))
                continue
            made = _made(left, task, index)
            title = str(made.get("title") or label or index)
            word = done or ("refused" if task == "refused" and state == "failed" else str(state))
            if state == "failed" and str(why).startswith(BLOCKED):
                word = BLOCKED
            counts[word] += int(made.get("intervals") or len(made.get("files", "1")))
            if word not in (DONE, PROVISIONAL) and (task, state) != ("refused", "success"):
                reason = why or (outcome or {}).get("reason") or word
                named.append(f"{title}{f' {done}' if done else ''}: {_short(str(reason).removeprefix(f'{BLOCKED}: '))}")
        elif state == "failed":
            named.append(f"failed in {task}" + (f": {why}" if why else ""))
    found = left.get(("look", -1, FOUND))
    found = found if isinstance(found, dict) else {}
    parts = [f"{count:,} {state}" for state, count in counts.items()]
    ingested = left.get(("ingest", -1, FOUND)) or {}
    named = [*ingested.get("waits", ()), *named]
    if files := ingested.get("files"):
        parts.insert(0, f"{files:,} file{'s' * (files > 1)} ingested")
    if found.get("stuck"):
        parts.append(f"{found['stuck']:,} cannot start, as before ({found.get('example', '')})")
    if found.get("failed"):
        parts.append(f"{found['failed']:,} failed, as before ({found.get('failure', '')})")
    if found.get("untold"):
        parts.append(f"{found['untold']:,} more cannot start: the next look has their tasks")
    if found.get("waits"):
        parts.append(f"{found['waits']:,} wait ({found.get('waiting', '')})")
    if found.get("more"):
        parts.append(f"{found['more']:,} more are due")
    if not parts and not named:
        parts = ["nothing to do" + (f" in the last {found['days']}" if "days" in found else "")]
    more = len(named) - NAMED
    said = [", ".join(parts)] if parts else []
    return "; ".join([*said, *named[:NAMED], *([f"and {more} more"] if more > 0 else [])])


def fate_text(name: str, state: str, reason: str) -> str:
    """What has become of an interval, or of some that are alike."""
    why = reason.removeprefix(f"{state}: ")
    return f"{name} {state}: {_short(why)}" if why and state not in (DONE, PROVISIONAL) else f"{name} {state}"


def _short(why: str) -> str:
    """The begin of a reason, so that a note has room for others; the page of the interval has all of it."""
    return why if len(why) <= LONGEST_WHY else f"{why[: LONGEST_WHY - 1].rstrip()}…"


def _made(left: Mapping[tuple[str, int, str], Any], task: str, index: int) -> dict[str, Any]:
    """The arguments of a mapped task, which the task before it has returned."""
    made = left.get((MAPPED_BY[task], -1, "return_value"))
    return dict(made[index]) if isinstance(made, list) and index < len(made) else {}


def one_line(text: str) -> str:
    """Returns a note as one line. Airflow shows it as Markdown: names of files in it are no links, and load no image.

    Example:
        >>> one_line("a:\n![x](http://evil.example)\u202e <b>")
        'a: ! [x] (http://evil.example)\\u202e <b>'
    """
    plain = " ".join(shown(text).split())  # Airflow leaves HTML out
    return plain.replace("](", "] (").replace("![", "! [")


def _published(dag_run: DagRun) -> tuple[str, bool]:
    """What became of the interval, and whether the run did it: one that was skipped leaves what was known."""
    if dag_run.dag_id.startswith(BATCHES):
        return _fates(dag_run) or str(_left(dag_run, ONE, WHY) or "nothing is due"), True
    if not dag_run.dag_id.startswith(DAGS[0]):
        return "", True
    # A skipped task still has its result of an earlier run.
    states = _states(dag_run)
    last = ONE if ONE in states else "publish"
    ran = states.get(last) != "skipped"
    outcome = _left(dag_run, last, "return_value") if ran else None
    if isinstance(outcome, dict) and "state" in outcome:
        reason = outcome.get("reason")
        return f"{outcome['state']}: {reason}" if reason else str(outcome["state"]), True
    return str(_left(dag_run, ONE if last == ONE else "wait", WHY) or "skipped"), False


def _fates(dag_run: DagRun) -> str:
    """What has become of each interval of a batch."""
    fates = _left(dag_run, ONE, FATES) or ()
    counts = Counter[str]()
    for _, state, _, number, *_ in fates:
        counts[state] += number
    said = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    return "; ".join([said, *(fate_text(name, state, why) for name, state, why, *_ in fates)]) if fates else ""


def _failed(dag_run: DagRun) -> str:
    if dag_run.dag_id.startswith(BATCHES) and (fates := _fates(dag_run)):
        return fates
    failed = [task for task, state in _states(dag_run).items() if state == "failed"]
    if not failed:
        return "failed"
    why = _left(dag_run, failed[0], WHY)
    prefix = "held: audited and not published; " if failed[0] in ("approve", "publish") else ""
    return f"{prefix}failed in {failed[0]}" + (f": {why}" if why else "")


def _states(dag_run: DagRun) -> dict[str, str | None]:
    return {task: state for (task, _), (state, _) in _tasks(dag_run).items()}


def _tasks(dag_run: DagRun) -> dict[tuple[str, int], tuple[str | None, str | None]]:
    """(task, map index) -> state and label."""
    session = object_session(dag_run)
    if session is None:
        return {}
    # Without this session, the call would open its own and end the scheduler's, and the note would be lost.
    return {
        (each.task_id, each.map_index): (each.state, each.rendered_map_index)
        for each in dag_run.get_task_instances(session=session)
    }


def _all_left(dag_run: DagRun) -> dict[tuple[str, int, str], Any]:
    """(task, map index, key) -> the value that a task of a run stored."""
    from airflow.models.xcom import XComModel

    session = object_session(dag_run)
    if session is None:
        return {}
    values: Any = session.scalars(XComModel.get_many(run_id=dag_run.run_id, dag_ids=dag_run.dag_id))
    return {(each.task_id, each.map_index, each.key): XComModel.deserialize_value(each) for each in values}


def _left(dag_run: DagRun, task: str, key: str) -> Any:
    """The value that a task of a run stored under a key; None without one."""
    from airflow.models.xcom import XComModel

    session = object_session(dag_run)
    if session is None:
        return None
    query = XComModel.get_many(run_id=dag_run.run_id, key=key, task_ids=task, dag_ids=dag_run.dag_id)
    value = session.scalars(query).first()
    return None if value is None else XComModel.deserialize_value(value)
