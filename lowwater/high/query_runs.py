"""The high level of one interval: the parts of output queries over the rows of LFTAs, settings and results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import groupby, repeat
from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.expr import Expr
from lowwater.catalog.schemas import STREAM_TYPES
from lowwater.catalog.watchlists import read_watchlist
from lowwater.columns.files import FINEST, HourFiles, Share, file_schema
from lowwater.errors import LowwaterError, error_of_query
from lowwater.high import handover, operators
from lowwater.high.closing import Arriving, Source, least_promise, never_closed
from lowwater.high.levels import Outcomes, Step, Steps, Task
from lowwater.high.part import Part, PartOutcome, StoredLeaf, added, evaluate_part
from lowwater.high.runner import Runner
from lowwater.high.streams import StoredStream, StreamFiles, timeline_of
from lowwater.high.timeline import ALL_TIME, ROW_COUNT_UNIT, Timeline, TimeSlice, choose_chain, choose_slices, rows_of
from lowwater.instants import format_instant
from lowwater.limits import TIMELINE_TICKS
from lowwater.plan import properties, rules, temporal
from lowwater.plan.operators import Cut, Field, LftaInput, Node, WatchJoin, leaves, walk, with_leaves
from lowwater.plan.shares import Stage, by_slices, fragment_plan, stages_of, texts, waits_for_promises
from lowwater.storage import paths

# Plain data, which `replay` and the command line read.


@dataclass(frozen=True)
class HighSettings:
    """Settings of the high stage; rows do not depend on them.

    Attributes:
        tick: time between ticks, ns of virtual time; rows and punctuation come at multiples of it.
        slice_rows: approximate number of rows of a part.
        shares: number of shares of each slice; 0 to choose it by its rows.
    """

    tick: int = 900_000_000_000
    slice_rows: int = 250_000
    shares: int = 0


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
"""Rows that the low level divided otherwise are read once for each of so many shares, and exchanged for more. A slice
of a plan with a state has the rows of so many parts.
"""

FEW_ROWS = 1 << 13
"""Rows of a file on average, below which the shares of a slice are put into one."""

Inputs = Mapping[Source, Sequence[str]]
Behind = Mapping[str, tuple[LftaInput | Cut, dict[Source, StoredStream]]]
"""Name of a leaf -> the leaf and its stored streams."""

HighOutcome = tuple[dict[str, HighResult], dict[str, LowwaterError]]
"""Query -> its result, and query -> its error."""

Slices = list[tuple[list[TimeSlice], int]]
"""The slices of each part, and its number of shares."""

Parts = Generator[list[Task], Outcomes, None]
"""The work of a query: yields the parts that have been closed, as tasks, and is sent the outcomes of those that have
ended."""

Lists = Mapping[tuple[str, tuple[Field, ...]], pa.Table | LowwaterError]
"""(file, columns) of a watch list -> its rows, or why they cannot be read."""


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
        lists: of all queries, since they lie on the machine of the command (`read_lists`).
        most, again: as of `evaluate_part`.
        coming: whether the low level that makes the inputs is at work; then parts close as its files come.
    """

    queries: Mapping[str, Node]
    inputs: Inputs
    start: int
    end: int
    folder: PurePath
    settings: HighSettings = field(default_factory=HighSettings)
    carries: Mapping[str, operators.StateHandover] = field(default_factory=dict)
    published: bool = False
    lists: Lists = field(default_factory=dict)
    most: int = 0
    again: bool = False
    coming: bool = False

    @property
    def what(self) -> str:
        return f"high level of {', '.join(self.queries)}"

    def steps(self) -> Steps:
        """Begins the queries; their result is query -> result, and query -> error."""
        lftas = {leaf.lfta for node in self.queries.values() for leaf in leaves(node) if isinstance(leaf, LftaInput)}
        files = {(lfta.name, link): _files(self.inputs, lfta.name, link) for lfta in lftas for link in lfta.links}
        return _Run(self, Arriving(files, self.coming)).steps()


@dataclass
class _Plan:
    """A stage at work. `begin`: up to which it is divided, ns; `whole`: whether it is as a whole. Without a timeline
    there is nothing to do."""

    query: str
    stage: Stage
    behind: Behind
    out: StreamFiles
    divided: tuple[Expr, ...]
    parts: list[Part] = field(default_factory=list)
    slices: int = 0
    begin: int = -ALL_TIME
    whole: bool = False
    timeline: Timeline | None = None
    shared: handover.SharedState | None = None

    @property
    def sources(self) -> dict[Source, StoredStream]:
        return {source: feed for _, group in self.behind.values() for source, feed in group.items()}

    def states(self, outcomes: Sequence[PartOutcome]) -> dict[str, bytes] | None:
        """Returns what the whole plan leaves; None where the outcomes are not those of the whole."""
        if self.shared is not None:
            return None if any(each.error for each in outcomes) else self.shared.merged(outcomes)
        return {name: state for outcome in outcomes for name, state in outcome.states.items()}


@dataclass
class _Run:
    """The output queries of one interval at work; `closed` and `ended` count parts."""

    level: HighLevel
    arriving: Arriving
    closed: int = 0
    ended: int = 0
    news: bool = False  # whether files have come at the last look

    @property
    def settings(self) -> HighSettings:
        return self.level.settings

    def steps(self) -> Steps:
        """Runs the queries side by side, each as far as promises have closed its parts."""
        began, owners = time.monotonic(), dict[Task, str]()
        results, errors = {name: HighResult() for name in self.level.queries}, dict[str, LowwaterError]()
        waiting = {name: self._plans(name, node, results[name]) for name, node in self.level.queries.items()}
        outcomes: Outcomes | None = None
        while True:
            due: list[Task] = []
            self.news = self.arriving.look()
            for name, parts in [*waiting.items()]:
                mine = {task: each for task, each in (outcomes or {}).items() if owners[task] == name}
                try:
                    tasks = next(parts) if outcomes is None else parts.send(mine)
                except StopIteration:
                    results[name].seconds = time.monotonic() - began
                    del waiting[name]
                except Exception as error:  # noqa: BLE001 - whatever a query does is its own failure
                    errors[name] = error_of_query(name, error)
                    del waiting[name]
                else:
                    owners |= dict.fromkeys(tasks, name)
                    due += tasks
            if not waiting:
                # The first error is that of the first query, whichever failed first.
                failed = {name: errors[name] for name in self.level.queries if name in errors}
                return {name: result for name, result in results.items() if name not in failed}, failed
            self.closed += len(due)
            outcomes = yield Step(due, {"parts": self.ended, "closed": self.closed, **self._promised()})
            self.ended += len(outcomes)

    def _promised(self) -> dict[str, str]:
        """Link -> the least promise of its streams."""
        least: dict[str, int] = {}
        for (_, link), feed in self.arriving.streams.items():
            least[link] = min(feed.promise, least.get(link, temporal.END_OF_TIME))
        return {link: format_instant(promise) for link, promise in least.items()
                if -temporal.END_OF_TIME < promise < temporal.END_OF_TIME}  # fmt: skip

    def _plans(self, query: str, node: Node, result: HighResult) -> Parts:
        """Yields the parts of a query: of its fragments, and each in stages, which all feed those behind them."""
        fragments, top = fragment_plan(node)
        feeds: dict[str, StoredStream] = {}
        for name, plan in [*((each.name, each.node) for each in fragments), (RESULT, top)]:
            behind = self._feeding(plan, feeds)
            sources = [source for _, group in behind.values() for source in group]
            # Stages need all rows, or those of a slice that promises have closed.
            while not (self.arriving.whole(sources) or self._early(plan, behind, -ALL_TIME)[0]):
                yield []
            stages = self._stages(plan, feeds)
            for at, stage in enumerate(stages):
                out = self._opened(query, f"{name}-{stage.name}" if stage.name else name, stage.node)
                divided = next((keys for later in stages[at + 1 :] if (keys := _keys_of(later, stage.name))), ())
                yield from self._run(query, stage, feeds, out, divided, result)
                if out.folder.name != RESULT:
                    feeds[stage.name or name] = StoredStream.scan(out.files)
        result.files, result.rows, result.punctuation = out.files, out.rows, out.punctuation

    def _opened(self, query: str, name: str, node: Node) -> StreamFiles:
        """Opens the stream of a plan. One that others read keeps every row: only theirs show whether the interval owns
        them."""
        folder = self.level.folder / query / name
        paths.make_folders(folder)
        if name == RESULT:
            owned = self.level.start, self.level.end
            return StreamFiles(folder, node.fields, owned, self.level.end, self.level.published)
        return StreamFiles(folder, node.fields, (-temporal.END_OF_TIME, temporal.INT64_MAX), temporal.END_OF_TIME)

    def _run(
        self,
        query: str,
        stage: Stage,
        feeds: Mapping[str, StoredStream],
        out: StreamFiles,
        divided: tuple[Expr, ...],
        result: HighResult,
    ) -> Parts:
        """Yields the parts of a stage as they are closed, and writes its stream."""
        plan = _Plan(query, stage, self._feeding(stage.node, feeds), out, divided)
        work = partial(evaluate_part, most=self.level.most, again=self.level.again)
        tasks, ended = list[Task](), dict[Task, PartOutcome]()
        while True:
            last = plan.whole or any(outcome.error for outcome in ended.values())
            due = [] if last else [Task(work, part) for part in self._closed(plan)]
            tasks += due
            if len(ended) == len(tasks) and (last or plan.whole):
                break
            ended.update((yield due))
        outcomes = [ended[task] for task in tasks]
        states = plan.states(outcomes)
        if states is None:  # an error of a share may be none of the whole: one part decides
            paths.remove_tree(out.folder)
            paths.make_folders(out.folder)
            yield from self._run(query, replace(stage, keys=(), anywhere=False), feeds, out, divided, result)
            return
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        if plan.timeline is None:  # there was nothing to do
            out.close(self.level.end)
            return
        result.states |= states
        for file, rows in _gathered(plan.parts, outcomes):
            out.files.append(file)
            out.rows += rows
        result.batches += sum(len(part.slices) for part in plan.parts)
        result.state_rows = max(result.state_rows, *(outcome.most for outcome in outcomes))
        for kind, of, counts in reduce(added, [outcome.points for outcome in outcomes]):
            result.operators.append(OperatorCounts(of, kind, dict(counts)))
        out.close(plan.timeline.closing, plan.timeline)

    def _stages(self, node: Node, feeds: Mapping[str, StoredStream]) -> list[Stage]:
        """Divides a plan into stages, of which each is evaluated by shares; one stage where the rows are few."""
        if self.settings.shares != 1:
            feeding = self._feeding(node, feeds)
            if any(shares > 1 for _, shares in self._slices(node, feeding, True)):
                stored = {name: frozenset(by) for name, (_, group) in feeding.items() if (by := _by(group.values()))}
                return [part for stage in stages_of(node, stored) for part in self._exchanged(stage, feeding)]
        return [Stage("", node, (), False, "")]

    def _exchanged(self, stage: Stage, feeding: Behind) -> list[Stage]:
        """Divides a stage as the low level divided its rows; rows that it divided otherwise are exchanged first."""
        if not stage.keys:
            return [stage]
        lftas = {leaf.lfta.name: leaf for leaf in leaves(stage.node) if isinstance(leaf, LftaInput)}
        placed = properties.placed_leaves(stage.node) | {name for name, leaf in lftas.items() if leaf.lfta.placed}
        rows = {name: sum(feed.rows for feed in feeding[name][1].values()) for name in lftas}
        keys, agreed = stage.keys, set[str]()
        for name in sorted(rows, key=lambda name: -rows[name]):
            named = {texts([key[name]])[0]: key for key in keys if name in key}
            by = _by(feeding[name][1].values())
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

    def _closed(self, plan: _Plan) -> list[Part]:
        """Makes the parts of a plan that promises have closed since the last look, slices of time x shares."""
        node, feeds, end = plan.stage.node, plan.sources, self.level.end
        divided = bool(plan.stage.keys) or plan.stage.anywhere
        plan.whole = self.arriving.whole(feeds)
        if not plan.whole:
            slices, timeline = self._early(node, plan.behind, plan.begin, divided)
            return self._parts(plan, slices, timeline) if timeline and slices else []
        rows, handed = any(feed.rows for feed in feeds.values()), properties.hands_over(node)
        if not rows and not handed:
            return []
        if least_promise(feeds.values(), end) < temporal.END_OF_TIME:
            raise never_closed(plan.query, feeds)
        carry = self._carry(plan.query)
        start = carry.start if handed and (carry.start or not rows) else None
        plan.timeline = timeline_of(feeds.values(), end, self.settings.tick, start)
        return self._parts(plan, self._slices(node, plan.behind, divided, plan.begin), plan.timeline)

    def _carry(self, query: str) -> operators.StateHandover:
        return self.level.carries.get(query, operators.StateHandover(end=self.level.end))

    def _early(self, node: Node, behind: Behind, begin: int, divided: bool = False) -> tuple[Slices, Timeline | None]:
        """Chooses the slices from `begin` (ns) on that promises have closed while files are still to come, with a
        timeline that gives their rows the ticks of the whole one; none for a plan that needs all rows first."""
        end, tick = self.level.end, self.settings.tick
        feeds = [feed for _, group in behind.values() for feed in group.values()]
        alone = by_slices(node) and not properties.hands_over(node)
        alone = alone and not any(isinstance(leaf, Cut) for leaf, _ in behind.values())
        if not self.news or not alone or end == temporal.END_OF_TIME or not any(feed.rows for feed in feeds):
            return [], None
        # What comes later may make the step of the ticks longer, or have the closing one.
        first = min(properties.read_from(node, self.level.start).values())
        if (end - first) // tick > TIMELINE_TICKS or any(feed.latest > end // tick * tick for feed in feeds):
            return [], None
        timeline = timeline_of(feeds, end, tick)
        until = int(timeline.promises[:-1].max(initial=-ALL_TIME))
        return self._slices(node, behind, divided, begin, until), timeline

    def _parts(self, plan: _Plan, slices: Slices, timeline: Timeline) -> list[Part]:
        """Describes the parts of slices, which follow those that a plan has."""
        node, out = plan.stage.node, plan.out
        stored, lists = _stored(node, plan.behind), self._lists(node)
        step = None if waits_for_promises(node) else self.settings.tick
        settings = out.owned, timeline, step, out.published
        keys = {name: tuple(key[name] for key in plan.stage.keys) for name in plan.behind if _keys_of(plan.stage, name)}
        places: Iterable[operators.StateHandover | None] = repeat(None)
        if not by_slices(node):
            carry, width = self._carry(plan.query), slices[0][1]
            plan.shared = handover.SharedState(plan.stage, carry, width) if width > 1 else None
            places = plan.shared.divided() if plan.shared else [carry]
        parts = []
        for number, (span, shares) in enumerate(slices, plan.slices):
            for at, place in zip(range(shares), places, strict=False):
                name = f"{number:05d}" if shares == 1 else f"{number:05d}-{at:02d}"
                share = None if shares == 1 else Share(at, shares, keys)
                read = {leaf: each.narrowed(leaf, span, share) for leaf, each in stored.items()}
                parts.append(Part(node, span, read, lists, out.folder, name, *settings, place, share, plan.divided))
        plan.slices += len(slices)
        plan.begin = slices[-1][0][-1].end
        plan.parts += parts
        return parts

    def _lists(self, node: Node) -> dict[tuple[str, tuple[Field, ...]], pa.Table]:
        found = {}
        for join in walk(node):
            if isinstance(join, WatchJoin):
                rows = self.level.lists[join.file, join.columns]
                if isinstance(rows, Exception):
                    raise rows
                found[join.file, join.columns] = rows
        return found

    def _slices(
        self, node: Node, behind: Behind, divided: bool, begin: int = -ALL_TIME, until: int = ALL_TIME
    ) -> Slices:
        """Chooses the slices of each part of a plan in [begin, until), ns, and its number of shares; `divided` if
        something divides rows. Before all rows are there, a slice has the rows of a part at least."""
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
            return [([slice_], self._shares(rows_of(slice_, ends)) if divided else 1) for slice_ in slices]
        shares = self._shares(ends.total()) if divided else 1
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

    def _feeding(self, node: Node, feeds: Mapping[str, StoredStream]) -> Behind:
        """Finds the stored streams of the leaves of a plan."""
        behind: dict[str, tuple[LftaInput | Cut, dict[Source, StoredStream]]] = {}
        for leaf in leaves(node):
            if isinstance(leaf, Cut):
                behind[leaf.name] = leaf, {(leaf.name, ""): feeds[leaf.name]}
            else:
                name = leaf.lfta.name
                behind[name] = leaf, {(name, link): self.arriving.streams[name, link] for link in leaf.lfta.links}
        return behind


def _by(feeds: Iterable[StoredStream]) -> tuple[str, ...]:
    """Returns by what the files of a leaf are divided; empty if by nothing, or by several things."""
    by = {chunk.by for feed in feeds for chunk in feed.chunks if chunk.by}
    return next(iter(by)) if len(by) == 1 else ()


def _keys_of(stage: Stage, leaf: str) -> tuple[Expr, ...]:
    """Returns what divides the rows of a leaf of a stage; empty for nothing, or if the leaf is of another stage."""
    return tuple(key[leaf] for key in stage.keys if leaf in key) if all(leaf in key for key in stage.keys) else ()


def _gathered(parts: Sequence[Part], outcomes: Sequence[PartOutcome]) -> Iterator[tuple[str, int]]:
    """Yields the files of parts with their rows; shares of a slice with few rows each leave one file an hour."""
    for _, members in groupby(zip(parts, outcomes, strict=True), key=lambda member: member[0].slices[0].start):
        slices = list(members)
        part, files = slices[0][0], {file: rows for _, outcome in slices for file, rows in outcome.files.items()}
        if part.share is not None and len(files) > 1 and sum(files.values()) < len(files) * FEW_ROWS:
            schema = file_schema(part.node.fields, part.published)
            with HourFiles(part.folder, f"{part.name}-shares", schema, part.divided) as out:
                for file in files:
                    out.write(pq.read_table(paths.local(paths.lake_path(file)), schema=schema))
            paths.remove(*map(paths.lake_path, files))
            files = {str(path): rows for path, rows in out.files.items()}
        yield from files.items()


def _stored(node: Node, behind: Behind) -> dict[str, StoredLeaf]:
    """Describes the stored rows of each leaf of a plan."""
    links, placed = operators.links_of(node), properties.placed_leaves(node)
    stored = {}
    for name, (leaf, group) in behind.items():
        lfta = leaf.lfta if isinstance(leaf, LftaInput) else None
        numbers = [links.index(link) for link in lfta.links] if lfta else [0]
        chunks = [
            (number, chunk) for number, feed in zip(numbers, group.values(), strict=True) for chunk in feed.chunks
        ]
        record = rules.NUMBER_COLUMN if lfta and lfta.placed else ""
        stored[name] = StoredLeaf(lfta.stored if lfta else leaf.fields, chunks, name in placed, record)
    return stored


def _watch_table(node: WatchJoin) -> pa.Table:
    """Reads a watch list as a table with the columns of the operator."""
    rows = read_watchlist(node.file, [(f.name.removeprefix(f"{node.watch_alias}."), f.type) for f in node.columns])
    columns = zip(*rows, strict=True) if rows else ([] for _ in node.columns)
    arrays = [pa.array(list(values), STREAM_TYPES[f.type]) for values, f in zip(columns, node.columns, strict=True)]
    return pa.table(arrays, names=[f.name for f in node.columns])


def _files(inputs: Inputs, lfta: str, link: str) -> Sequence[str]:
    if (lfta, link) not in inputs:
        raise LowwaterError(f"the low stage left no stream of {lfta} on link {link}", "run the low stage first")
    return inputs[lfta, link]


def read_lists(queries: Mapping[str, Node]) -> Lists:
    """Reads the watch lists of queries."""
    lists: dict[tuple[str, tuple[Field, ...]], pa.Table | LowwaterError] = {}
    for join in (each for node in queries.values() for each in walk(node) if isinstance(each, WatchJoin)):
        try:
            lists[join.file, join.columns] = _watch_table(join)
        except LowwaterError as error:  # of its query alone
            lists[join.file, join.columns] = error
    return lists


def high_results(ended: HighOutcome, failures: dict[str, LowwaterError] | None = None) -> dict[str, HighResult]:
    """Returns the results of the queries. `failures`: filled with query -> its error; with None the first is raised."""
    results, errors = ended
    if failures is None and errors:
        raise next(iter(errors.values()))
    if failures is not None:
        failures |= errors
    return results


def run_high(
    runner: Runner,
    queries: Mapping[str, Node],
    inputs: Inputs,
    start: int,
    end: int,
    folder: PurePath,
    settings: HighSettings | None = None,
    carries: Mapping[str, operators.StateHandover] | None = None,
    failures: dict[str, LowwaterError] | None = None,
    published: bool = False,
) -> dict[str, HighResult]:
    """Runs the high level of an interval by itself; arguments as of `HighLevel` and `high_results`.
    Raises LowwaterError if an input cannot be read, the runner fails, or a query, and errors end the run."""
    chosen, lists = settings or HighSettings(), read_lists(queries)
    level = HighLevel(
        queries, inputs, start, end, folder, chosen, carries or {}, published, lists, runner.most, runner.again
    )
    with runner.levels() as begin:
        return high_results(begin(level).result(), failures)
