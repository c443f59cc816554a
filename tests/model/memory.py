"""A lake in memory: all that `status`, `plan` and `why` read of a lake is answered from a `Product` and from what was
published of it. The code that asks is the product's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from lowwater.catalog.time import is_late
from lowwater.config import Config
from lowwater.instants import HOUR, format_instant
from lowwater.lake import layout, locks, open_tables, tables, words
from lowwater.lake.ledgers import files, intervals, late, missing, runs, statements
from lowwater.lake.ledgers.captures import Capture, Captures, life_of, read_captures
from lowwater.lake.packets import PacketFiles
from lowwater.plan import queryset
from lowwater.replay.job import IntervalInputs, Job
from lowwater.replay.names import config_links, set_context
from lowwater.replay.schedule import due, looks, why
from lowwater.storage import paths
from tests.model.product import Product, Row
from tests.model.rules.facts import Facts, Link, Query, Settings, Span

Record = tuple[str, str, int]
"""A record that is in the rows of an interval: link, content, position."""
SET, FILE = "s", "s.gsql"
ROOT = Path("/a lake in memory")
LAKE = layout.Lake(ROOT)
_NUMBERS = count(1)


@dataclass
class Memory(Product):
    """A lake without a disk, with what was published of a query set."""

    replays: list[runs.ReplayRow] = field(default_factory=list)
    rows: dict[int, frozenset[Record]] = field(default_factory=dict)  # number of a publication -> its records
    spoiled: dict[tuple[str, Span], str] = field(default_factory=dict)  # query, interval -> what became of its rows
    settings: Settings = field(default_factory=lambda: Settings({}, []))
    config: Config = field(default_factory=Config)
    state: int = 0  # another one where something of the lake is
    _written: object = None  # what was written, and the settings, when it got its number
    _asked: dict[str, Any] = field(default_factory=dict)  # what was computed in this state

    def job(self, settings: Settings, moment: int, through_end: bool = False) -> Job:
        """The query set by the settings of the moment, which is that of the last look."""
        self.settings, self.config = settings, config_of(settings)
        written = [row["attempt"] for row in self.contents], len(self.seen), len(self.said), len(self.replays)
        if (state := (*written, settings)) != self._written:
            self._written, self.state, self._asked = state, next(_NUMBERS), {}
        plan = plan_of(tuple(sorted(settings.links)), tuple(settings.queries))
        # Who looks at a lake whose links say since when they live expects what comes then.
        passed = moment if any(settings.links[name].since is not None for name in plan.links) else 0
        job = _Job(LAKE, self.config, SET, plan, settings.interval, passed=passed, through_end=through_end)
        ASKED.memory, ASKED.job = self, job
        return job

    def captures(self, link: Link) -> Captures:
        found = self.once("captures", lambda: read_captures(LAKE, self.settings.links, self.config))
        captures: Captures = found.get(link.name, Captures())
        return captures

    # Its tables.

    def table(self, path: PurePath) -> pa.Table | None:
        """The rows of a ledger; None where it is not there."""
        if path == LAKE.contents and self.contents:
            schema = layout.CONTENTS
            return pa.table({each.name: [row.get(each.name) for row in self.contents] for each in schema}, schema)
        if path == LAKE.sightings and self.seen:
            links = self.settings.links
            return files.table_of(self.named(row, links[row.links[0]]) if row.links else row for row in self.seen)
        if path == LAKE.statements and self.said:
            return tables.table_of(self.said, layout.STATEMENTS)
        if path == LAKE.replays and self.replays:
            return tables.table_of(self.replays, layout.REPLAYS)
        return None

    def packets(self) -> PacketFiles:
        """The files of `packets/`: one for each attempt and hour of arrival."""
        return self.once("packets", lambda: PacketFiles(LAKE.packets, dict(map(self._files_of, self.contents))))

    def once(self, what: str, compute: Callable[[], Any]) -> Any:
        """What is computed once in each state of the lake."""
        if what not in self._asked:
            self._asked[what] = compute()
        return self._asked[what]

    def _files_of(self, row: Row) -> tuple[str, list[dict[str, Any]]]:
        if "files" not in row:
            row["files"] = [*self._files(row)]
        return row["attempt"], row["files"]

    def _files(self, row: Row) -> Iterator[dict[str, Any]]:
        for hour in sorted(set((arrivals := row["records"].column("arrival").to_numpy()) // HOUR)):
            part = row["records"].filter(pa.array(arrivals // HOUR == hour))
            bounds = {}
            for name in ("timestamp", "arrival"):
                values = part.column(name).to_numpy()
                bounds |= {f"min.{name}": int(values.min()), f"max.{name}": int(values.max())}
            about = {"path": f"{hour}/0-{row['attempt']}", "folder": LAKE.packets, "size_bytes": 0, "rows": part}
            keys = {"num_records": part.num_rows, "partition.link": row["link"], "partition.hour": int(hour)}
            yield {**about, **keys, **bounds}

    def ingest(self, facts: Facts, settings: Settings, moment: int, killed: int = 0) -> None:
        """Takes in what a history has found so far, as `step`."""
        self.job(settings, moment)
        self.step(facts, settings, killed)

    # What runs do.

    def run_all(self, settings: Settings, moment: int) -> None:
        """Runs all that is due and can start, the oldest first, until nothing is."""
        done = set[Span]()
        while True:
            found = looks._Look(self.job(settings, moment), moment).findings().runs
            if not (found := tuple(each for each in found if (each.start, each.end) not in done)):
                return
            for each in found:
                done.add((each.start, each.end))
                self.run(settings, moment, (each.start, each.end))

    def run(
        self, settings: Settings, moment: int, span: Span, only: str | None = None, through_end: bool = False
    ) -> bool:
        """Publishes an interval of all queries, or of one where the run died then. Returns whether it could start."""
        job = self.job(settings, moment, through_end)
        captures = job.captures()
        inputs = job.inputs(*span, captures)
        if inputs.lacking():
            return False
        state, reason = inputs.state([gap for gap in inputs.gaps() if inputs.passes(gap)])
        for query in job.plan.queries:
            if only in (None, query.name):
                key, at = inputs.key(query), next(_NUMBERS)
                self.rows[at] = frozenset(self.records(captures, inputs, query.links))
                accounting = json.dumps({"inputs": key.summary})
                about = SET, query.name, *span, runs.PUBLISH, state, at, reason, key.digest, len(self.rows[at])
                self.replays.append(runs.ReplayRow(*about, accounting=accounting, publication=at))
                self.spoiled.pop((query.name, span), None)
        return True

    def records(
        self, captures: Mapping[str, Captures], inputs: IntervalInputs, links: Sequence[str]
    ) -> Iterator[Record]:
        """Yields the records that a run has in its rows."""
        known = {row["attempt"]: row["records"] for row in self.contents}
        for link in links:
            settings = inputs.config.link(link)
            since, until = life_of(settings)
            for capture, clock in zip(captures[link], captures[link].clocks, strict=True):
                part = known[capture.attempt].slice(0, capture.packets)
                stamps, arrivals = (part.column(name).to_numpy() for name in ("timestamp", "arrival"))
                own = ~is_late(np.maximum(arrivals, clock), stamps, settings.skew)
                own &= (stamps >= max(since, inputs.start)) & (stamps < min(until, inputs.end))
                for at in part.column("position").to_numpy()[own].tolist():
                    yield link, capture.capture, at

    def visible(self, query: str, span: Span) -> frozenset[Record]:
        """The records that the last publication of an interval has."""
        found = [row for row in self.replays if row.query == query and row.interval == span]
        return self.rows[found[-1].publication or 0] if found else frozenset()

    def spoil(self, span: Span, what: str) -> None:
        """Another program does something to what was published of an interval."""
        for row in self.replays:
            if row.interval == span:
                self.spoiled[row.query, span] = what

    def damages(self, query: str, rows: Sequence[runs.ReplayRow]) -> dict[Span, str]:
        return {span: what for (name, span), what in self.spoiled.items() if name == query}

    # What people do.

    def roll_back(self, settings: Settings, moment: int, span: Span, number: int) -> bool:
        """Makes an earlier version of an interval visible, of all queries. Returns whether there is one."""
        job = self.job(settings, moment)
        inputs, past = job.inputs(*span, job.captures()), runs.Publications(LAKE, SET)
        made = []
        for query in job.plan.queries:
            last = past.last(query.name, *span)
            of = (row for row in self.replays if row.query == query.name and row.interval == span)
            versions = [row for row in of if row.state != words.ROLLED_BACK]
            if last is None or len(versions) < number:
                return False
            key, at = inputs.key(query), next(_NUMBERS)
            self.rows[at] = self.rows[versions[number - 1].publication or 0]
            about = {"state": words.ROLLED_BACK, "reason": "rolled back", "finished_at": at, "publication": at}
            accounting = json.dumps({"inputs": key.summary})
            rows = versions[number - 1].rows
            made.append(replace(last, **about, digest=key.digest, accounting=accounting, rows=rows))
        self.replays += made
        for row in made:
            self.spoiled.pop((row.query, span), None)
        return True

    def lift(self, settings: Settings, moment: int, span: Span) -> None:
        job = self.job(settings, moment)
        past = runs.Publications(LAKE, SET)
        for query in job.plan.queries:
            last = past.last(query.name, *span)
            if last is not None and last.state == words.ROLLED_BACK and last.digest:
                self.replays.append(replace(last, digest="", reason="lifted", finished_at=next(_NUMBERS)))

    def accept(self, settings: Settings, moment: int, cause: str, link: str) -> None:
        """Accepts all that is missing of a link for a cause, of every interval."""
        job = self.job(settings, moment)
        captures = job.captures()
        known, rows = job.known_missing(captures), self.status(job)
        for span in {(row.start, row.end) for row in rows}:
            for found in job.inputs(*span, captures, known).all_missing():
                if (found.link, found.cause) == (link, cause):
                    for defect in found.defects:
                        said = statements.about_defect(statements.ACCEPT, link, cause, defect, "me", "")
                        self.said.append(replace(said, at=self.next_number()))

    # What commands say.

    def status(self, job: Job) -> list[intervals.StatusRow]:
        return [*intervals.set_status(due.expected(job, job.captures()), runs.read_replays(LAKE, SET))]

    def words(self, settings: Settings, moment: int) -> dict[Span, Told]:
        """What is told of each interval of the present length."""
        job = self.job(settings, moment)
        by_span = tables.grouped(((row.start, row.end), row) for row in self.status(job))
        found, length = dict[Span, Told](), settings.interval
        for (start, end), rows in by_span.items():
            worst = intervals.gravest(rows)
            if start % length == end % length == 0:
                for at in range(start, end, length):
                    found[at, at + length] = Told(worst.shown, worst.why, worst.intervals)
        look = looks._Look(job, moment).findings()
        for each in look.runs:
            for at in range(each.start, each.end, length):
                found[at, at + length].due = True
        for left in look.waits:
            for at in range(left.due.start, left.due.end, length):
                if found[at, at + length].word not in words.VISIBLE:
                    found[at, at + length].word = words.WAITING
        return found

    def why_differs(self, told: Mapping[Span, Told]) -> Iterator[str]:
        """Yields what `why` says otherwise of the gravest interval, or that it knows nothing to do."""
        if not told:
            return
        span, mine = min(told.items(), key=lambda each: (words.gravity(each[1].word), each[0]))
        found = why.why(ROOT, SET, ROOT, span[0])
        if found.word != mine.word and mine.word != words.WAITING:
            yield f"why says {found.word} at {format_instant(span[0])}, and status {mine.word}"
        if not found.steps and found.word != words.DONE:
            yield f"why knows no step at {format_instant(span[0])}, which is {found.word}"


@dataclass
class Told:
    """What commands say of an interval."""

    word: str
    why: str = ""
    intervals: int = 1  # more than one in a stretch, which is one line
    due: bool = False  # whether a look would run it


class _Job(Job):
    """What every command reads of the ledgers is read once in each state of the lake."""

    def captures(self) -> dict[str, Captures]:
        found: dict[str, Captures] = ASKED.memory.once(f"captures {self.plan.links}", super().captures)
        return found

    def known_missing(self, captures: Mapping[str, Sequence[Capture]]) -> missing.KnownMissing:
        known: missing.KnownMissing = ASKED.memory.once("missing", lambda: super(_Job, self).known_missing(captures))
        return known


class _Asked:
    """The lake of the moment."""

    memory: Memory
    job: Job


ASKED = _Asked()


class _Table:
    """`deltalake.DeltaTable` of a ledger."""

    def __init__(self, path: PurePath, rows: pa.Table, state: int) -> None:
        self.rows, self._state, self._path = rows, state, path

    def version(self) -> int:
        return self._state

    def metadata(self) -> Any:
        return SimpleNamespace(id=str(self._path), configuration={})

    def files(self) -> pa.Table:
        """As `tables.files_of`: a file for each link."""
        links = self.rows.column("link").unique().to_pylist()
        return pa.table({"path": [f"{link} {self._state}" for link in links], "partition.link": links})


_OPENED: dict[PurePath, _Table | None] = {}


def _newest(path: PurePath, follow: bool = True) -> _Table | None:
    memory, known = ASKED.memory, _OPENED.get(path)
    if known is None or known.version() != memory.state:
        rows = memory.table(path)
        known = _OPENED[path] = None if rows is None else _Table(path, rows, memory.state)
    return known


def _read_rows(path: PurePath, schema: pa.Schema, predicate: Any = None) -> pa.Table:
    table = _newest(path)
    if table is None:
        return schema.empty_table()
    rows = table.rows if predicate is None else table.rows.filter(predicate)
    return rows.select(schema.names).cast(schema)


def _files_dataset(path: PurePath, parts: Sequence[tuple[str, Any]], schema: pa.Schema) -> pads.Dataset:
    table = _newest(path)
    assert table is not None
    links = [name.rpartition(" ")[0] for name, _ in parts]
    return pads.dataset(table.rows.filter(pads.field("link").isin(links)))


def _stored_records(link: str, row: Mapping[str, Any], names: Sequence[str] = ("timestamp", "arrival")) -> pa.Table:
    return row["rows"].slice(0, row["num_records"]).select([*names])


@contextmanager
def in_memory() -> Iterator[None]:
    """Lets the product's code read the lake of the moment, `ASKED`, in place of one on a disk."""
    replaced: list[tuple[Any, str, Any]] = [
        *[(module, "newest", _newest) for module in (open_tables, tables)],
        (tables, "read_rows", _read_rows),
        (tables, "files_dataset", _files_dataset),
        (tables, "files_of", lambda table: table.files()),
        (PacketFiles, "of", lambda lake: ASKED.memory.packets()),
        *[(module, "stored_records", _stored_records) for module in (late, missing)],
        (looks, "due", lambda job, selection: due._due_now(job, selection, [])),
        (locks, "at_work", lambda lake, query_set: {}),
        (due, "damages", lambda lake, query, rows: ASKED.memory.damages(query, rows)),
        (paths, "has_folder", lambda folder: True),
        (Job, "open", lambda *_: ASKED.job),
        (why, "said_of", lambda *_: []),
    ]
    with ExitStack() as stack:
        for place, name, value in replaced:
            stack.enter_context(patch.object(place, name, value))
        yield


# Settings and queries.


def config_of(settings: Settings) -> Config:
    """The settings as `lowwater.toml` has them, as far as a file does not lie on a disk."""
    return _config(
        tuple(_section(link) for link in settings.links.values()), settings.interval, f"{settings.patience}ns"
    )


@cache
def _config(links: tuple[tuple[str, tuple[tuple[str, str], ...]], ...], length: int, patience: str) -> Config:
    names = [name for name, _ in links]
    sections = {name: dict(lines) for name, lines in links}
    sets = {"every": names} if len(names) > 1 else {}
    given = {"links": sections, "sets": sets, "interval": {"length": f"{length}ns"}, "replay": {"patience": patience}}
    return Config.model_validate({**given, "query_sets": {SET: {"files": [FILE]}}})


def _section(link: Link) -> tuple[str, tuple[tuple[str, str], ...]]:
    durations = {"skew": link.skew, "max_jump": link.jump, "gap_tolerance": link.gap_tolerance}
    lines = {name: f"{value}ns" for name, value in durations.items()}
    lines |= {name: format_instant(at) for name in ("since", "until") if (at := getattr(link, name)) is not None}
    lines |= {"policy": link.policy, **({"outside": link.outside} if link.outside else {})}
    return link.name, tuple(lines.items())


@cache
def plan_of(links: tuple[str, ...], queries: tuple[Query, ...]) -> queryset.Plan:
    """The plan of the queries of a set."""
    sets = {"every": [*links]} if len(links) > 1 else {}
    config = Config.model_validate({"links": {name: {} for name in links}, "sets": sets})
    texts = "\n".join(_text(query, links) for query in queries)
    return queryset.plan_texts([(FILE, texts)], config_links(config, links), context=set_context(config, SET))


def _text(query: Query, links: Sequence[str]) -> str:
    one = query.links[0] if query.links is not None else links[0] if len(links) == 1 else "[every]"
    counted = f"count(*) + {query.text} AS c"
    if query.back:
        minutes = query.back // (60 * 10**9)
        window = f"[RANGE {2 * minutes} min, SLIDE {minutes} min, WA time]"
        return f"DEFINE {{ query_name {query.name}; }} SELECT wid, {counted} FROM {one}.ETH {window};"
    return f"DEFINE {{ query_name {query.name}; }} SELECT tb, {counted} FROM {one}.ETH GROUP BY time/60 AS tb;"
