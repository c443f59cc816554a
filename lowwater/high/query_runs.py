"""The high level of one interval: the parts of output queries over the rows of LFTAs, settings and results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import repeat
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lowwater.catalog.expr import Expr
from lowwater.catalog.schemas import STREAM_TYPES
from lowwater.catalog.time import Reported
from lowwater.catalog.watchlists import read_watchlist
from lowwater.columns.files import EVERYTHING, FINEST, Share
from lowwater.errors import LowwaterError, error_of_query
from lowwater.high import operators
from lowwater.high.closing import Arriving, Source, least_promise, never_closed
from lowwater.high.part import Part, StoredLeaf, added, evaluate_part, gather, slice_files
from lowwater.high.runner import Outcomes, Step, Steps, Task, Tasks
from lowwater.high.streams import StoredStream, StreamFiles, timeline_of
from lowwater.high.timeline import ALL_TIME, ROW_COUNT_UNIT, Timeline, TimeSlice, choose_chain, choose_slices, rows_of
from lowwater.limits import TIMELINE_TICKS
from lowwater.plan import properties, rules, temporal
from lowwater.plan.operators import Cut, Field, Fill, LftaInput, Node, WatchJoin, leaves, walk, with_leaves
from lowwater.plan.shares import Stage, by_slices, fragment_plan, stages_of, texts, waits_for_promises
from lowwater.storage import paths

if TYPE_CHECKING:
    from lowwater.high.handover import SharedState

# Plain data, which `replay` and the command line read.


@dataclass(frozen=True)
class HighSettings:
    """Settings of the high stage; rows do not depend on them.

    Attributes:
        tick: time between ticks, ns of virtual time; rows and punctuation come at multiples of it.
        slice_rows: approximate number of rows of a part.
        shares: number of shares of each slice; 0 to choose it by its rows.
        most: as of `evaluate_part`.
    """

    tick: int = 900_000_000_000
    slice_rows: int = 250_000
    shares: int = 0
    most: int = 0


@dataclass(frozen=True)
class OperatorCounts:
    """Row counts of one operator of a query over all rows that were read (SEMANTICS A1); kinds and names are those of
    `evaluate.OPERATORS`."""

    query: str
    kind: str
    counts: dict[str, int]


@dataclass
class HighResult:
    """The result of one output query.

    Attributes:
        files: of rows and punctuation; ticks define the order across files.
        rows: number of data rows that the interval owns.
        seconds: until its last plan was evaluated.
        batches: number of parts evaluated, over all plans of the query; each slice of one counts.
        state_rows: largest number of rows that a slice of a part read, plus the rows and groups it left for the next.
        states: what the interval leaves to the next one, as of `StoredState.files`.
    """

    files: list[str] = field(default_factory=list)
    rows: int = 0
    punctuation: int = 0
    seconds: float = 0.0
    batches: int = 0
    operators: list[OperatorCounts] = field(default_factory=list)
    state_rows: int = 0
    states: dict[str, bytes] = field(default_factory=dict)


# Parts are evaluated once the promises of their sources have closed them. `low` writes the input files, and may be at
# work still; the lake stores the result. At the closing tick the sources promise the end of time, so every row comes
# out; only rows that the interval owns are kept (SEMANTICS I1).

RESULT = "rows"
"""Folder of the rows of a query; others are named as the plans that others read."""

FEW_SHARES = 4
"""Rows that the low level divided otherwise are read once for each of so many shares. For more they are exchanged, but
those that have to stay in order. A slice of a plan with a state has the rows of so many parts.
"""

Behind = Mapping[str, tuple[LftaInput | Cut, dict[Source, StoredStream]]]
"""Name of a leaf -> the leaf and its stored streams."""

Results = dict[str, HighResult | LowwaterError]
"""Query -> its result, or its error: others go on."""

Slices = list[tuple[list[TimeSlice], int]]
"""The slices of each part, and its number of shares."""


@dataclass(frozen=True)
class HighLevel:
    """The high level of one interval.

    Attributes:
        queries: output query -> high plan.
        inputs: (LFTA, link) -> parquet files in order of `_tick`: paths, or addresses in the lake.
        start, end: the interval, ns; rows with `_last` in [start, end) are kept.
        folder: folder for rows and parts, with a folder for each query, of this machine, or of the lake where tasks
            run on other machines; the caller removes it.
        carries: query -> its place in a chain, for queries with a state.
        published: whether rows are written in published types instead of stream types.
        coming: the inputs that a low level at work makes: parts close as their files come. The others are there.
        lists: (file, columns) of a watch list -> its rows, or why they cannot be read, which is an error of its query;
            they lie on the machine of the command.
    """

    queries: Mapping[str, Node]
    inputs: Mapping[Source, Sequence[str]]
    start: int
    end: int
    folder: PurePath
    settings: HighSettings = field(default_factory=HighSettings)
    carries: Mapping[str, operators.StateHandover] = field(default_factory=dict)
    published: bool = False
    coming: Collection[Source] = frozenset()
    reported: Mapping[str, Reported] = field(default_factory=dict)
    lists: dict[tuple[str, tuple[Field, ...]], pa.Table | LowwaterError] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for join in (each for node in self.queries.values() for each in walk(node) if isinstance(each, WatchJoin)):
            try:
                self.lists[join.file, join.columns] = _watch_table(join)
            except LowwaterError as error:
                self.lists[join.file, join.columns] = error

    @property
    def what(self) -> str:
        return f"high level of {', '.join(self.queries)}"

    def steps(self) -> Steps:
        """Runs the queries side by side, each as far as promises have closed its parts; returns `Results`."""
        arriving, began, owners = Arriving(self._files(), self.coming), time.monotonic(), dict[Task, str]()
        queries = {name: _Query(self, arriving, name, node) for name, node in self.queries.items()}
        waiting = {name: query.parts() for name, query in queries.items()}
        results, ended, read = Results(), 0, 0
        outcomes: Outcomes | None = None
        while True:
            due: list[Task] = []
            arriving.look()
            for name, parts in [*waiting.items()]:
                mine = {task: each for task, each in (outcomes or {}).items() if owners[task] == name}
                try:
                    tasks = (next(parts) if outcomes is None else parts.send(mine)).tasks
                except StopIteration:
                    queries[name].result.seconds = time.monotonic() - began
                    results[name] = queries[name].result
                    del waiting[name]
                except Exception as error:  # noqa: BLE001 - whatever a query does is its own failure
                    results[name] = error_of_query(name, error)
                    del waiting[name]
                else:
                    owners |= dict.fromkeys(tasks, name)
                    due += tasks
            if not waiting:
                return {name: results[name] for name in queries}
            about: dict[str, int | str] = {"parts": ended, "closed": len(owners), "rows": read, **arriving.promises()}
            outcomes = yield Step(sorted(due, key=lambda task: -task.args[0].weight), about)
            ended, read = ended + len(outcomes), read + sum(getattr(each, "read", 0) for each in outcomes.values())

    def _files(self) -> dict[Source, Sequence[str]]:
        lftas = {leaf.lfta for node in self.queries.values() for leaf in leaves(node) if isinstance(leaf, LftaInput)}
        sources = [(lfta.name, link) for lfta in lftas for link in lfta.links]
        for name, link in sources:
            if (name, link) not in self.inputs:
                raise LowwaterError(f"the low stage left no stream of {name} on link {link}", "run the low stage first")
        return {source: self.inputs[source] for source in sources}


class _Closed(NamedTuple):
    """What promises have closed of a stage: whether all of it, and what gives rows their ticks, if there are any."""

    whole: bool = False
    timeline: Timeline | None = None
    slices: Slices = []  # noqa: RUF012 - nobody adds to it


@dataclass
class _Query:
    """A query at work; `feeds` are the stored streams of LFTAs, `made` those of its plans before, by name."""

    level: HighLevel
    arriving: Arriving
    name: str
    node: Node
    result: HighResult = field(default_factory=HighResult)

    def __post_init__(self) -> None:
        self.settings, self.feeds = self.level.settings, dict(self.arriving.streams)
        self.made: dict[str, dict[Source, StoredStream]] = {}
        self.carry = self.level.carries.get(self.name, operators.StateHandover(end=self.level.end))

    def parts(self) -> Steps:
        """Yields the parts of the query: of its fragments, and each in stages, which all feed those behind them."""
        fragments, top = fragment_plan(self.node)
        for name, plan in [*((each.name, each.node) for each in fragments), (RESULT, top)]:
            # Stages need all rows, or those of a slice that promises have closed.
            while not any(self._closed(Stage("", plan, (), False, ""))[::2]):
                yield Step()
            stages = self._stages(plan)
            for at, stage in enumerate(stages):
                out = self._opened(f"{name}-{stage.name}" if stage.name else name, stage.node)
                divided = next((keys for later in stages[at + 1 :] if (keys := _keys_of(later, stage.name))), ())
                yield from self._run(stage, out, divided)
                if out.folder.name != RESULT:
                    feed = stage.name or name
                    self.made[feed] = self._sources(stage.node)
                    # What reads no row makes none, and promises what its sources do, when they do it.
                    if (
                        out.rows
                        or properties.hands_over(stage.node)
                        or any(each.rows for each in self.made[feed].values())
                    ):
                        self.made[feed] = {(feed, ""): StoredStream().add(*out.files)}
        self.result.files, self.result.rows, self.result.punctuation = out.files, out.rows, out.punctuation

    def _opened(self, name: str, node: Node) -> StreamFiles:
        """Opens the stream of a plan. One that others read keeps every row: only theirs show whether the interval owns
        them."""
        folder, level = self.level.folder / self.name / name, self.level
        paths.make_folders(folder)
        if name == RESULT:
            return StreamFiles(folder, node.fields, (level.start, level.end), level.end, level.published)
        return StreamFiles(folder, node.fields, (-temporal.END_OF_TIME, temporal.INT64_MAX), temporal.END_OF_TIME)

    def _run(self, stage: Stage, out: StreamFiles, divided: tuple[Expr, ...]) -> Steps:
        """Yields the parts of a stage as they are closed, and writes its stream."""
        tasks, ended, closed, failure = list[Task](), dict[Task, Any](), _Closed(), None
        shared, begin, number = None, -ALL_TIME, 0
        while not (closed.whole or failure) or len(ended) < len(tasks):
            due: list[Task] = []
            if not (closed.whole or failure):
                closed = self._closed(stage, begin)
                if closed.slices and not by_slices(stage.node) and (width := closed.slices[0][1]) > 1:
                    # Only a state by shares needs what loads numba.
                    from lowwater.high.handover import SharedState

                    shared = SharedState(stage, self.carry, width)
                parts = self._parts(stage, closed, out, divided, shared, number)
                due = [partial(evaluate_part, part, most=self.settings.most) for part in parts]
                begin, number = closed.slices[-1][0][-1].end if due else begin, number + len(closed.slices)
                tasks += due
            ended.update((yield Step(due)))
            failure = next((ended[task] for task in tasks if isinstance(ended.get(task), Exception)), None)
        outcomes = [ended[task] for task in tasks]
        states = shared.merged(outcomes) if shared and not failure else None
        if shared and states is None:  # an error of a share may be none of the whole: one part decides
            paths.remove_tree(out.folder)
            paths.make_folders(out.folder)
            yield from self._run(replace(stage, keys=(), anywhere=False), out, divided)
            return
        if failure:
            raise failure
        if closed.timeline is None:  # there was nothing to do
            out.close(self.level.end)
            return
        result = self.result
        result.states |= states or {name: left for each in outcomes for name, left in each.states.items()}
        slices = slice_files([task.args[0] for task in tasks], outcomes)
        few = [each for each in slices if each.few]
        gathering = Tasks(self.name, out.folder, [partial(gather, each) for each in few])
        gathered = iter((yield from gathering.steps()))
        for files in (next(gathered) if each.few else each.files for each in slices):
            out.files += files
            out.rows += sum(files.values())
        paths.remove(*(paths.lake_path(file) for each in few for file in each.files))
        result.batches += sum(len(task.args[0].slices) for task in tasks)
        result.state_rows = max(result.state_rows, *(outcome.most for outcome in outcomes))
        for kind, of, counts in reduce(added, [outcome.points for outcome in outcomes]):
            result.operators.append(OperatorCounts(of, kind, dict(counts)))
        out.close(closed.timeline.closing, closed.timeline)

    def _stages(self, node: Node) -> list[Stage]:
        """Divides a plan into stages, of which each is evaluated by shares; one stage where the rows are few."""
        if self.settings.shares != 1:
            behind = self._behind(node)
            if any(shares > 1 for _, shares in self._slices(node, behind, FINEST)):
                stored = {name: frozenset(by) for name, (_, group) in behind.items() if (by := _by(group.values()))}
                return [part for stage in stages_of(node, stored) for part in self._exchanged(stage, behind)]
        return [Stage("", node, (), False, "")]

    def _exchanged(self, stage: Stage, behind: Behind) -> list[Stage]:
        """Divides a stage as the low level divided its rows; rows that it divided otherwise are exchanged first."""
        if not stage.keys:
            return [stage]
        lftas = {leaf.lfta.name: leaf for leaf in leaves(stage.node) if isinstance(leaf, LftaInput)}
        placed = properties.placed_leaves(stage.node) | {name for name, leaf in lftas.items() if leaf.lfta.placed}
        rows = {name: sum(feed.rows for feed in behind[name][1].values()) for name in lftas}
        keys, agreed = stage.keys, set[str]()
        for name in sorted(rows, key=lambda name: -rows[name]):
            named = {texts([key[name]])[0]: key for key in keys if name in key}
            by = _by(behind[name][1].values())
            stored = tuple(named[text] for text in by if text in named)
            if stored and len(stored) == len(by) and (not agreed or stored == keys):
                keys, agreed = stored, agreed | {name}
        apart = [name for name in rows if name not in agreed | placed and any(name in key for key in keys)]
        moved = {name: f"{name}-exchanged" for name in apart if self._shares(rows[name]) > FEW_SHARES}
        if not moved:
            return [replace(stage, keys=keys)]
        before = [Stage(moved[name], lftas[name], (), True, "rows are exchanged") for name in moved]
        cuts = {name: Cut(lftas[name].query, lftas[name].fields, moved[name]) for name in moved}
        keys = tuple({moved.get(leaf, leaf): expr for leaf, expr in key.items()} for key in keys)
        return [*before, replace(stage, node=with_leaves(stage.node, cuts), keys=keys)]

    def _closed(self, stage: Stage, begin: int = -ALL_TIME) -> _Closed:
        """Finds what promises have closed of a stage, from `begin` (ns) on."""
        node, end, behind, feeds = stage.node, self.level.end, self._behind(stage.node), self._sources(stage.node)
        rows, handed = any(feed.rows for feed in feeds.values()), properties.hands_over(node)
        whole, until, filled = self.arriving.whole(feeds), ALL_TIME, _fills(node)
        if not (rows or (whole and (handed or filled))) or not (whole or self._early(node, feeds)):
            return _Closed(whole)
        if whole and least_promise(feeds.values(), end) < temporal.END_OF_TIME:
            raise never_closed(self.name, feeds)
        start = self.carry.start if handed and (self.carry.start or not rows) else None
        if not start and _fills(self.node):
            # Epochs without rows come in time where stages before have none. The steps of a timeline from 1970 on would
            # be long; a link without a record has no life to begin.
            lives = (each.begins for each in self.level.reported.values() if each.life[0] < each.life[1])
            start = max(self.level.start, min(lives, default=0))
        timeline = timeline_of(feeds.values(), end, self.settings.tick, start)
        if not whole:
            until = int(timeline.promises[:-1].max(initial=-ALL_TIME))
        slices = self._slices(node, behind, self._widest(stage, behind), begin, until)
        return _Closed(whole, timeline, slices)

    def _early(self, node: Node, feeds: Mapping[Source, StoredStream]) -> bool:
        """Whether slices of a plan can be closed while files are still to come: no plan that needs all rows first, and
        rows that have the ticks of the whole timeline, whose steps may get longer, and whose end has one of its own."""
        end, tick = self.level.end, self.settings.tick
        alone = by_slices(node) and not (properties.hands_over(node) or _fills(node))
        if not self.arriving.news or not alone or any(not link for _, link in feeds) or end == temporal.END_OF_TIME:
            return False
        first = min(properties.read_from(node, self.level.start).values())
        return (end - first) // tick <= TIMELINE_TICKS and all(
            feed.latest <= end // tick * tick for feed in feeds.values()
        )

    def _parts(
        self,
        stage: Stage,
        closed: _Closed,
        out: StreamFiles,
        divided: tuple[Expr, ...],
        shared: SharedState | None,
        first: int,
    ) -> list[Part]:
        """Describes the parts of slices, numbered from `first`."""
        if closed.timeline is None or not closed.slices:
            return []
        node, behind = stage.node, self._behind(stage.node)
        stored, lists = _stored(node, behind), self._lists(node)
        step = None if waits_for_promises(node) else self.settings.tick
        settings = out.owned, closed.timeline, step, out.published
        reported = self.level.reported if _fills(node) else {}
        keys = {name: tuple(key[name] for key in stage.keys) for name in behind if _keys_of(stage, name)}
        places: Iterable[operators.StateHandover | None] = repeat(None) if by_slices(node) else [self.carry]
        parts = []
        for number, (span, shares) in enumerate(closed.slices, first):
            for at, place in zip(range(shares), shared.divided() if shared else places, strict=False):
                name = f"{number:05d}" if shares == 1 else f"{number:05d}-{at:02d}"
                share = None if shares == 1 else Share(at, shares, keys)
                read = {leaf: each.narrowed(leaf, span, share) for leaf, each in stored.items()}
                own = place, share, divided, reported
                parts.append(Part(node, span, read, lists, out.folder, name, *settings, *own))
        return parts

    def _lists(self, node: Node) -> dict[tuple[str, tuple[Field, ...]], pa.Table]:
        found = {}
        for join in (each for each in walk(node) if isinstance(each, WatchJoin)):
            rows = found[join.file, join.columns] = self.level.lists[join.file, join.columns]
            if isinstance(rows, Exception):
                raise rows
        return found

    def _widest(self, stage: Stage, behind: Behind) -> int:
        """Returns the most shares of a stage: rows that nothing has divided by its keys are read by each of them."""
        if not (stage.keys or stage.anywhere):
            return 1
        for name, (_, group) in behind.items():
            by = texts(_keys_of(stage, name))
            chunks = [chunk for feed in group.values() for chunk in feed.chunks if chunk.known(by) == EVERYTHING]
            if by and not self.settings.shares and self._shares(sum(chunk.size for chunk in chunks)) > FEW_SHARES:
                return FEW_SHARES
        return FINEST

    def _slices(self, node: Node, behind: Behind, widest: int, begin: int = -ALL_TIME, until: int = ALL_TIME) -> Slices:
        """Chooses the slices of each part of a plan in [begin, until), ns, and its number of shares, of which there are
        at most `widest`. Before all rows are there, a slice has the rows of a part at least."""
        ends: Counter[int] = Counter()
        for _, group in behind.values():
            for feed in group.values():
                ends.update(feed.ends)
        if by_slices(node):
            unit, rows = ROW_COUNT_UNIT, self.settings.slice_rows
            mine = {at: count for at, count in ends.items() if (at + 1) * unit > begin and at * unit < until}
            total = sum(mine.values())
            most = max(1, -(-total // rows)) if until == ALL_TIME else total // rows
            slices = choose_slices(node, mine, most, begin, until) if most else []
            return [([slice_], min(self._shares(rows_of(slice_, ends)), widest)) for slice_ in slices]
        shares = min(self._shares(ends.total()), widest)
        # Longer slices make fewer parts, but a share may have most of the rows.
        rows = self.settings.slice_rows * min(shares, FEW_SHARES)
        return [(choose_chain(behind, ends, max(1, -(-ends.total() // rows))), shares)]

    def _shares(self, rows: int) -> int:
        """Chooses the number of shares of a slice that reads so many rows, a power of two: few rows are one part."""
        if self.settings.shares:
            return self.settings.shares
        shares = 1
        while shares < FINEST and rows > shares * self.settings.slice_rows:
            shares *= 2
        return shares if rows >= 2 * self.settings.slice_rows else 1

    def _behind(self, node: Node) -> Behind:
        """Finds the stored streams of the leaves of a plan."""
        behind: dict[str, tuple[LftaInput | Cut, dict[Source, StoredStream]]] = {}
        for leaf in leaves(node):
            if isinstance(leaf, Cut):
                behind[leaf.name] = leaf, self.made[leaf.name]
            else:
                name = leaf.lfta.name
                behind[name] = leaf, {(name, link): self.feeds[name, link] for link in leaf.lfta.links}
        return behind

    def _sources(self, node: Node) -> dict[Source, StoredStream]:
        """Finds the stored streams below a plan."""
        return {source: feed for _, group in self._behind(node).values() for source, feed in group.items()}


def _by(feeds: Iterable[StoredStream]) -> tuple[str, ...]:
    """Returns by what the files of a leaf are divided; empty if by nothing, or by several things."""
    by = {chunk.by for feed in feeds for chunk in feed.chunks if chunk.by}
    return next(iter(by)) if len(by) == 1 else ()


def _keys_of(stage: Stage, leaf: str) -> tuple[Expr, ...]:
    """Returns what divides the rows of a leaf of a stage; empty for nothing, or if the leaf is of another stage."""
    return tuple(key[leaf] for key in stage.keys if leaf in key) if all(leaf in key for key in stage.keys) else ()


def _stored(node: Node, behind: Behind) -> dict[str, StoredLeaf]:
    """Describes the stored rows of each leaf of a plan."""
    links, placed = operators.links_of(node), properties.placed_leaves(node)
    stored = {}
    for name, (leaf, group) in behind.items():
        lfta = leaf.lfta if isinstance(leaf, LftaInput) else None
        numbers = [links.index(link) for link in lfta.links] if lfta else [0] * len(group)
        chunks = [
            (number, chunk) for number, feed in zip(numbers, group.values(), strict=True) for chunk in feed.chunks
        ]
        record = rules.NUMBER_COLUMN if lfta and lfta.placed else ""
        stored[name] = StoredLeaf(lfta.stored if lfta else leaf.fields, chunks, name in placed, record)
    return stored


def _fills(node: Node) -> bool:
    """Whether a plan makes groups of epochs without rows."""
    return any(isinstance(part, Fill) for part in walk(node))


def _watch_table(node: WatchJoin) -> pa.Table:
    """Reads a watch list as a table with the columns of the operator."""
    rows = read_watchlist(node.file, [(f.name.removeprefix(f"{node.watch_alias}."), f.type) for f in node.columns])
    columns = zip(*rows, strict=True) if rows else ([] for _ in node.columns)
    arrays = [pa.array(list(values), STREAM_TYPES[f.type]) for values, f in zip(columns, node.columns, strict=True)]
    return pa.table(arrays, names=[f.name for f in node.columns])
