"""Runs the high stage of one interval: the parts of output queries over the rows of LFTAs, settings and results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
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
from lowwater.high.closing import PlanParts, closed_parts
from lowwater.high.part import Part, PartOutcome, StoredLeaf, added, evaluate_part
from lowwater.high.runner import Promises, Runner, Source
from lowwater.high.streams import StoredStream, StreamFiles, timeline_of
from lowwater.high.timeline import Timeline, TimeSlice, choose_chain, choose_slices, rows_of
from lowwater.plan import properties, rules, temporal
from lowwater.plan.operators import Cut, LftaInput, Node, WatchJoin, leaves, walk, with_leaves
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


# Parts are evaluated once the promises of their sources have closed them. `low` writes the input files, the lake stores
# the result. At the closing tick the sources promise the end of time, so every row comes out; only rows that the
# interval owns are kept (SEMANTICS I1).

RESULT = "rows"
"""Folder of the rows of a query; others are named as the plans that others read."""

FEW_SHARES = 4
"""Rows that the low level divided otherwise are read once for each of so many shares, and exchanged for more. A slice
of a plan with a state has the rows of so many parts.
"""

FEW_ROWS = 1 << 13
"""Rows of a file on average, below which the shares of a slice are put into one."""

Inputs = Mapping[tuple[str, str], list[str]]
Behind = Mapping[str, tuple[LftaInput | Cut, dict[Source, StoredStream]]]
"""Name of a leaf -> the leaf and its stored streams."""

Outcomes = list[PartOutcome] | LowwaterError
"""Those of the parts of a plan in order, or its first error."""


@dataclass(frozen=True)
class _Plan(PlanParts):
    """A plan in parts; `shared` is its state, if it has one and is evaluated by shares."""

    timeline: Timeline
    shared: handover.SharedState | None

    def states(self, outcomes: Outcomes) -> dict[str, bytes] | None:
        """Returns what the whole plan leaves; None where the outcomes are not those of the whole."""
        if isinstance(outcomes, LowwaterError):
            return None
        if self.shared is not None:
            return self.shared.merged(outcomes)
        return {name: state for outcome in outcomes for name, state in outcome.states.items()}


Plans = Generator[_Plan, Outcomes, None]
"""The plans of a query, one after another; each is answered with what its evaluation gave."""


@dataclass(frozen=True)
class _Run:
    """What the output queries of one run share; `promised` has the promise of each source so far, ns, `read` yields
    more."""

    runner: Runner
    feeds: Mapping[Source, StoredStream]
    read: Iterator[Promises]
    start: int
    end: int
    folder: PurePath
    settings: HighSettings
    carries: Mapping[str, operators.StateHandover]
    published: bool
    promised: dict[Source, int] = field(default_factory=dict)

    def results(self, queries: Mapping[str, Node], errors: dict[str, LowwaterError]) -> dict[str, HighResult]:
        """Runs queries; the plans that come next in each of them are evaluated together."""
        began = time.monotonic()
        results = {name: HighResult() for name in queries}
        waiting = {name: self._plans(name, node, results[name]) for name, node in queries.items()}
        outcomes: dict[str, Outcomes] = {}
        while waiting:
            plans = {}
            for name, following in waiting.items():
                try:
                    plans[name] = following.send(outcomes[name]) if name in outcomes else next(following)
                except StopIteration:
                    results[name].seconds = time.monotonic() - began
                except Exception as error:  # noqa: BLE001 - whatever a query does is its own failure
                    errors[name] = error if error is outcomes.get(name) else error_of_query(name, error)
            waiting = {name: waiting[name] for name in plans}
            outcomes = self._evaluated(plans)
        return {name: result for name, result in results.items() if name not in errors}

    def _evaluated(self, plans: Mapping[str, _Plan]) -> dict[str, Outcomes]:
        """Evaluates the parts of plans, of different queries, as promises close them."""
        found: dict[str, list[PartOutcome]] = {query: [] for query in plans}
        tasks = self.runner.tasks(f"high level of {', '.join(plans)}")
        work = partial(evaluate_part, most=self.runner.most, again=self.runner.again)
        for closed in closed_parts(plans, self.promised, self.read):
            chosen = [each for each in closed if not any(outcome.error for outcome in found[each[0]])]
            for (query, _), outcome in zip(chosen, tasks(work, [part for _, part in chosen]), strict=True):
                found[query].append(outcome)
        errors = {query: [each.error for each in outcomes if each.error] for query, outcomes in found.items()}
        return {query: errors[query][0] if errors[query] else outcomes for query, outcomes in found.items()}

    def _plans(self, query: str, node: Node, result: HighResult) -> Plans:
        """Yields the plans of a query: of its fragments, and each in stages, which all feed those behind them."""
        fragments, top = fragment_plan(node)
        feeds: dict[str, StoredStream] = {}
        for name, plan in [*((each.name, each.node) for each in fragments), (RESULT, top)]:
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
        folder = self.folder / query / name
        paths.make_folders(folder)
        if name == RESULT:
            return StreamFiles(folder, node.fields, (self.start, self.end), self.end, self.published)
        return StreamFiles(folder, node.fields, (-temporal.END_OF_TIME, temporal.INT64_MAX), temporal.END_OF_TIME)

    def _run(
        self,
        query: str,
        stage: Stage,
        feeds: Mapping[str, StoredStream],
        out: StreamFiles,
        divided: tuple[Expr, ...],
        result: HighResult,
    ) -> Plans:
        """Yields the plan of a stage, and writes its stream."""
        plan = self._sliced(query, stage, feeds, out, divided)
        if plan is None:
            out.close(self.end)
            return
        outcomes = yield plan
        states = plan.states(outcomes)
        if states is None and plan.shared is not None:  # an error of a share may be none of the whole: one part decides
            paths.remove_tree(out.folder)
            paths.make_folders(out.folder)
            yield from self._run(query, replace(stage, keys=(), anywhere=False), feeds, out, divided, result)
            return
        if isinstance(outcomes, LowwaterError):
            raise outcomes
        result.states |= states or {}
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

    def _sliced(
        self, query: str, stage: Stage, feeds: Mapping[str, StoredStream], out: StreamFiles, divided: tuple[Expr, ...]
    ) -> _Plan | None:
        """Divides a stage into parts, slices of time x shares; None where there is nothing to do."""
        node, behind = stage.node, self._feeding(stage.node, feeds)
        sources = {source: feed for _, group in behind.values() for source, feed in group.items()}
        rows, handed = any(feed.rows for feed in sources.values()), properties.hands_over(node)
        if not rows and not handed:
            return None
        carry = self.carries.get(query, operators.StateHandover(end=self.end))
        start = carry.start if handed and (carry.start or not rows) else None
        timeline = timeline_of(sources.values(), self.end, self.settings.tick, start)
        lists = {(join.file, join.columns): _watch_table(join) for join in walk(node) if isinstance(join, WatchJoin)}
        stored = _stored(node, behind)
        step = None if waits_for_promises(node) else self.settings.tick
        settings = out.owned, timeline, step, out.published
        keys = {name: tuple(key[name] for key in stage.keys) for name in behind if _keys_of(stage, name)}
        slices = self._slices(node, behind, bool(stage.keys) or stage.anywhere)
        width, shared = slices[0][1], None
        places: Iterable[operators.StateHandover | None] = repeat(None) if by_slices(node) else [carry]
        if not by_slices(node) and width > 1:
            shared = handover.SharedState(stage, carry, width)
            places = shared.divided()
        parts = []
        for number, (span, shares) in enumerate(slices):
            for at, place in zip(range(shares), places, strict=False):
                name = f"{number:05d}" if shares == 1 else f"{number:05d}-{at:02d}"
                share = None if shares == 1 else Share(at, shares, keys)
                read = {leaf: each.narrowed(leaf, span, share) for leaf, each in stored.items()}
                parts.append(Part(node, span, read, lists, out.folder, name, *settings, place, share, divided))
        self.promised.update({source: feed.promise for source, feed in sources.items() if source not in self.feeds})
        return _Plan(parts, sources, self.end, timeline, shared)

    def _slices(self, node: Node, behind: Behind, divided: bool) -> list[tuple[list[TimeSlice], int]]:
        """Chooses the slices of each part of a plan and its number of shares; `divided` if something divides rows."""
        ends: Counter[int] = Counter()
        for _, group in behind.values():
            for feed in group.values():
                ends.update(feed.ends)
        if by_slices(node):
            slices = choose_slices(node, ends, max(1, -(-ends.total() // self.settings.slice_rows)))
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
                behind[name] = leaf, {(name, link): self.feeds[name, link] for link in leaf.lfta.links}
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


def _files(inputs: Inputs, lfta: str, link: str) -> list[str]:
    if (lfta, link) not in inputs:
        raise LowwaterError(f"the low stage left no stream of {lfta} on link {link}", "run the low stage first")
    return inputs[lfta, link]


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
    """Runs every output query over the LFTA rows of one interval.

    Args:
        queries: output query -> high plan.
        inputs: (LFTA, link) -> parquet files in order of `_tick`: paths, or addresses in the lake.
        start, end: the interval, ns; rows with `_last` in [start, end) are kept.
        folder: folder for rows and parts, with a folder for each query, of this machine, or of the lake where tasks
            run on other machines; the caller removes it.
        carries: query -> its place in a chain, for queries with a state.
        failures: filled with query -> its error; None lets the first error end the run.
        published: whether rows are written in published types instead of stream types.

    Raises:
        LowwaterError: an input cannot be read, the runner fails, or a query, and errors end the run.
    """
    settings = settings or HighSettings()
    lftas = {leaf.lfta for node in queries.values() for leaf in leaves(node) if isinstance(leaf, LftaInput)}
    feeds = {
        (lfta.name, link): StoredStream.scan(_files(inputs, lfta.name, link)) for lfta in lftas for link in lfta.links
    }
    with closing(runner.promises(feeds)) as read:
        run = _Run(runner, feeds, read, start, end, folder, settings, carries or {}, published)
        errors = {} if failures is None else failures
        results = run.results(queries, errors)
    if failures is None and errors:
        raise next(errors[name] for name in queries if name in errors)
    return results
