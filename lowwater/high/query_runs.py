"""Runs the high stage of one interval: describes the parts of output queries over the rows of LFTAs; its settings,
results and statistics.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.expr import Expr
from lowwater.catalog.schemas import STREAM_TYPES
from lowwater.catalog.watchlists import read_watchlist
from lowwater.columns.files import FINEST, HourFiles, Share, file_schema
from lowwater.errors import LowwaterError, error_of_query
from lowwater.high.closing import ReadOnce, stored_promises
from lowwater.high.handover import SharedState
from lowwater.high.operators import StateHandover, links_of
from lowwater.high.part import Part, PartOutcome, StoredLeaf
from lowwater.high.runner import Outcomes, PlanParts, Runner, Source
from lowwater.high.streams import StoredStream, StreamFiles, timeline_of
from lowwater.high.timeline import Timeline, TimeSlice, choose_chain, choose_slices, rows_of
from lowwater.plan.operators import Cut, LftaInput, Node, WatchJoin, leaf_name, leaves, walk, with_leaves
from lowwater.plan.properties import hands_over, placed_leaves
from lowwater.plan.rules import NUMBER_COLUMN
from lowwater.plan.shares import Stage, by_slices, fragment_plan, stages_of, texts, waits_for_promises
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX
from lowwater.storage import paths
from lowwater.storage.paths import lake_path, local, make_folders

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
    """Row counts of one operator of a query over all rows that were read (SEMANTICS A1).

    Its kind is filter, group, join or lookup; names are rows_in, rows_out, groups, left_unmatched, right_unmatched.
    """

    query: str
    kind: str
    counts: dict[str, int]


@dataclass
class HighResult:
    """The result of one output query.

    Attributes:
        files: parquet files of rows and punctuation; ticks define the order across files.
        rows: number of data rows that the interval owns.
        seconds: until its last plan was evaluated.
        batches: number of parts evaluated, over all plans of the query.
        state_rows: largest number of rows that a part read, plus the rows and groups it left for the next.
    """

    files: list[str] = field(default_factory=list)
    rows: int = 0
    punctuation: int = 0
    seconds: float = 0.0
    batches: int = 0
    operators: list[OperatorCounts] = field(default_factory=list)
    state_rows: int = 0


# A runner evaluates the parts, each once the promises of its sources have closed it. `low` writes the input files,
# the lake stores the result. At the closing tick the sources promise the end of time, so every row comes out; only
# rows that the interval owns are kept (SEMANTICS I1).

FEW_SHARES = 4
"""Rows that the low level divided otherwise are read once for each of so many shares, and exchanged for more. A slice
of a plan with a state has the rows of so many parts.
"""

FEW_ROWS = 1 << 13
"""Rows of a file on average, below which the shares of a slice are put into one."""

Inputs = Mapping[tuple[str, str], list[str]]
Behind = Mapping[str, tuple[LftaInput | Cut, dict[Source, StoredStream]]]
"""Name of a leaf -> the leaf and its stored streams."""


@dataclass(frozen=True)
class _Plan(PlanParts):
    """A plan in parts.

    Attributes:
        cuts: the parts and stages before it that feed it.
        shared: its state, if it has one and is evaluated by shares.
    """

    cuts: Mapping[Source, StoredStream]
    timeline: Timeline
    shared: SharedState | None


Plans = Generator[_Plan, list[PartOutcome] | LowwaterError, None]
"""The plans of a query, one after another; each is answered with what its evaluation gave."""


@dataclass(frozen=True)
class _Run:
    """State that the output queries of one run share."""

    runner: Runner
    feeds: Mapping[Source, StoredStream]
    promises: ReadOnce
    start: int
    end: int
    work: Path
    rows: PurePath
    settings: HighSettings
    carries: Mapping[str, StateHandover]
    published: bool

    def outcomes(self, queries: Mapping[str, Node]) -> dict[str, HighResult | LowwaterError]:
        """Runs queries; the plans that come next in each of them are evaluated together."""
        began = time.monotonic()
        results = {name: HighResult() for name in queries}
        errors: dict[str, LowwaterError] = {}
        waiting = {name: self._plans(name, node, results[name]) for name, node in queries.items()}
        outcomes: Outcomes = {}
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
            cuts = {source: feed for plan in plans.values() for source, feed in plan.cuts.items()}
            outcomes = self.runner.evaluate(plans, chain(self.promises, stored_promises(cuts))) if plans else {}
        return {**results, **errors}

    def _plans(self, query: str, node: Node, result: HighResult) -> Plans:
        """Yields the plans of a query's parts and their stages."""
        parts, top = fragment_plan(node)
        part_feeds: dict[str, StoredStream] = {}
        for part in parts:
            everything = self._everything(query, part.name, part.node)
            yield from self._staged(query, part.node, part_feeds, everything, result)
            part_feeds[part.name] = StoredStream.scan(everything.files)
        stream = _opened(self.rows / query / "rows", top, (self.start, self.end), self.end, self.published)
        yield from self._staged(query, top, part_feeds, stream, result)
        result.files, result.rows, result.punctuation = stream.files, stream.rows, stream.punctuation

    def stages(self, node: Node, part_feeds: Mapping[str, StoredStream]) -> list[Stage]:
        """Divides a plan into stages, of which each is evaluated by shares; one stage where the rows are few."""
        if self.settings.shares != 1:
            feeding = self._feeding(node, part_feeds)
            if any(shares > 1 for _, shares in self._slices(node, feeding, True)):
                return [part for stage in stages_of(node, _stored_by(feeding)) for part in self._exchanged(stage)]
        return [Stage("", node, (), False, "")]

    def _exchanged(self, stage: Stage) -> list[Stage]:
        """Divides a stage as the low level divided its rows; rows that it divided otherwise are exchanged first."""
        if not stage.keys:
            return [stage]
        lftas = [leaf for leaf in leaves(stage.node) if isinstance(leaf, LftaInput)]
        placed = placed_leaves(stage.node) | {leaf.lfta.name for leaf in lftas if leaf.lfta.placed}
        behind = {leaf.lfta.name: (leaf, self._behind(leaf, {})) for leaf in lftas}
        rows = {name: sum(feed.rows for feed in group.values()) for name, (_, group) in behind.items()}
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
        before = [Stage(moved[name], behind[name][0], (), True, "rows are exchanged") for name in moved]
        cuts = {name: Cut(behind[name][0].query, behind[name][0].fields, moved[name]) for name in moved}
        keys = tuple({moved.get(leaf, leaf): expr for leaf, expr in key.items()} for key in keys)
        return [*before, replace(stage, node=with_leaves(stage.node, cuts), keys=keys)]

    def _everything(self, query: str, name: str, node: Node) -> StreamFiles:
        """Opens the stream of a part or stage. It keeps every row: only rows of its consumers show whether the interval
        owns them."""
        return _opened(self.rows / query / name, node, (-END_OF_TIME, INT64_MAX), END_OF_TIME)

    def _staged(
        self, query: str, node: Node, part_feeds: Mapping[str, StoredStream], stream: StreamFiles, result: HighResult
    ) -> Plans:
        """Yields the stages of a plan."""
        feeds, stages = dict(part_feeds), self.stages(node, part_feeds)
        for at, stage in enumerate(stages):
            out = (
                stream if not stage.name else self._everything(query, f"{stream.folder.name}-{stage.name}", stage.node)
            )
            divided = next((keys for later in stages[at + 1 :] if (keys := _keys_of(later, stage.name))), ())
            plan = self._sliced(query, stage, feeds, out, divided)
            if plan is not None:
                outcomes = yield plan
                if plan.shared is not None and not _is_whole(plan.shared, outcomes):
                    paths.remove_tree(out.folder)
                    make_folders(out.folder)
                    plan = self._sliced(query, replace(stage, keys=(), anywhere=False), feeds, out, divided)
                    assert plan is not None
                    outcomes = yield plan
                if isinstance(outcomes, LowwaterError):
                    raise outcomes
                for file, rows in _gathered(plan.parts, outcomes):
                    out.take(file, rows)
                _add_counts(outcomes, result)
                out.close(plan.timeline.closing, plan.timeline)
            if stage.name:
                feeds[stage.name] = StoredStream.scan(out.files)

    def _sliced(
        self,
        query: str,
        stage: Stage,
        part_feeds: Mapping[str, StoredStream],
        stream: StreamFiles,
        divided: tuple[Expr, ...],
    ) -> _Plan | None:
        """Divides a stage into parts, slices of time x shares; None where there is nothing to do."""
        node = stage.node
        behind = self._feeding(node, part_feeds)
        feeds = [feed for _, group in behind.values() for feed in group.values()]
        rows, handed = any(feed.rows for feed in feeds), hands_over(node)
        if not rows and not handed:
            stream.close(self.end)
            return None
        carry = self.carries.get(query, StateHandover(end=self.end))
        start = carry.start if handed and (carry.start or not rows) else None
        timeline = timeline_of(feeds, self.end, self.settings.tick, start)
        chained = not by_slices(node)
        lists = {(join.file, join.columns): _watch_table(join) for join in walk(node) if isinstance(join, WatchJoin)}
        stored = _stored(node, behind)
        step = None if waits_for_promises(node) else self.settings.tick
        settings = stream.owned, timeline, step, stream.published
        keys = {name: tuple(key[name] for key in stage.keys) for name in behind if _keys_of(stage, name)}
        slices = self._slices(node, behind, bool(stage.keys) or stage.anywhere)
        carries, shared = [carry], None
        if chained and (width := slices[0][1]) > 1:
            shared = SharedState(stage, carry, self.work / query / f"{stream.folder.name}-states", width)
            carries = shared.divided()
        tasks = []
        for number, (slice_, shares) in enumerate(slices):
            for at in range(shares):
                name, share = (
                    (f"{number:05d}", None) if shares == 1 else (f"{number:05d}-{at:02d}", Share(at, shares, keys))
                )
                read = {leaf: each.narrowed(leaf, slice_, share) for leaf, each in stored.items()}
                place = carries[at] if chained else None
                tasks.append(Part(node, slice_, read, lists, stream.folder, name, *settings, place, share, divided))
        sources = {source: feed for _, group in behind.values() for source, feed in group.items()}
        cuts = {source: feed for source, feed in sources.items() if source not in self.feeds}
        return _Plan(tasks, sources, self.end, cuts, timeline, shared)

    def _slices(self, node: Node, behind: Behind, divided: bool) -> list[tuple[TimeSlice, int]]:
        """Chooses slices of the time of a plan, each with its number of shares; `divided` if something divides rows."""
        ends: Counter[int] = Counter()
        for _, group in behind.values():
            for feed in group.values():
                ends.update(feed.ends)
        if by_slices(node):
            slices = choose_slices(node, ends, max(1, -(-ends.total() // self.settings.slice_rows)))
            return [(slice_, self._shares(rows_of(slice_, ends)) if divided else 1) for slice_ in slices]
        shares = self._shares(ends.total()) if divided else 1
        # Longer slices make fewer parts, but a share may have most of the rows.
        rows = self.settings.slice_rows * min(shares, FEW_SHARES)
        slices = choose_chain(behind, ends, max(1, -(-ends.total() // rows)))
        return [(slice_, shares) for slice_ in slices]

    def _shares(self, rows: int) -> int:
        """Chooses the number of shares of a slice that reads so many rows, a power of two: few rows are one part."""
        if self.settings.shares:
            return self.settings.shares
        shares = 1
        while shares < FINEST and rows > shares * self.settings.slice_rows:
            shares *= 2
        return shares if rows >= 2 * self.settings.slice_rows else 1

    def _feeding(self, node: Node, part_feeds: Mapping[str, StoredStream]) -> Behind:
        """Finds the stored streams of the leaves of a plan."""
        return {leaf_name(leaf): (leaf, self._behind(leaf, part_feeds)) for leaf in leaves(node)}

    def _behind(self, leaf: LftaInput | Cut, part_feeds: Mapping[str, StoredStream]) -> dict[Source, StoredStream]:
        if isinstance(leaf, Cut):
            return {(leaf.name, ""): part_feeds[leaf.name]}
        return {(leaf.lfta.name, link): self.feeds[leaf.lfta.name, link] for link in leaf.lfta.links}


def _opened(folder: PurePath, node: Node, owned: tuple[int, int], closing: int, published: bool = False) -> StreamFiles:
    make_folders(folder)
    return StreamFiles(folder, node.fields, owned, closing, published)


def _is_whole(shared: SharedState, outcomes: list[PartOutcome] | LowwaterError) -> bool:
    """Whether the outcomes are those of the whole plan, with one state. An error of a share may be none of the whole:
    the plan is then evaluated once more, in one part for each slice, which decides.
    """
    return isinstance(outcomes, list) and shared.merged([each.notes for each in outcomes[-shared.shares :]])


def _by(feeds: Iterable[StoredStream]) -> tuple[str, ...]:
    """Returns by what the files of a leaf are divided; empty if by nothing, or by several things."""
    by = {chunk.by for feed in feeds for chunk in feed.chunks if chunk.by}
    return next(iter(by)) if len(by) == 1 else ()


def _stored_by(behind: Behind) -> dict[str, frozenset[str]]:
    """Leaf -> by what its files are divided, without leaves whose files are not."""
    found = {name: frozenset(_by(group.values())) for name, (_, group) in behind.items()}
    return {name: by for name, by in found.items() if by}


def _keys_of(stage: Stage, leaf: str) -> tuple[Expr, ...]:
    """Returns what divides the rows of a leaf of a stage; empty for nothing, or if the leaf is of another stage."""
    return tuple(key[leaf] for key in stage.keys if leaf in key) if all(leaf in key for key in stage.keys) else ()


def _gathered(parts: Sequence[Part], outcomes: Sequence[PartOutcome]) -> Iterator[tuple[str, int]]:
    """Yields the files of parts with their rows; shares of a slice with few rows each leave one file an hour."""
    for _, members in groupby(zip(parts, outcomes, strict=True), key=lambda member: member[0].slice_.start):
        slices = list(members)
        part, files = slices[0][0], {file: rows for _, outcome in slices for file, rows in outcome.files.items()}
        if part.share is not None and len(files) > 1 and sum(files.values()) < len(files) * FEW_ROWS:
            schema = file_schema(part.node.fields, part.published)
            with HourFiles(part.folder, f"{part.name}-shares", schema, part.divided) as out:
                for file in files:
                    out.write(pq.read_table(local(lake_path(file)), schema=schema))
            paths.remove(*map(lake_path, files))
            files = {str(path): rows for path, rows in out.files.items()}
        yield from files.items()


def _add_counts(outcomes: Sequence[PartOutcome], result: HighResult) -> None:
    """Adds the counts of parts to the result of their query."""
    result.batches += len(outcomes)
    result.state_rows = max(result.state_rows, *(outcome.read + outcome.held for outcome in outcomes))
    for points in zip(*(outcome.points for outcome in outcomes), strict=True):
        total: Counter[str] = Counter()
        for _, _, counts in points:
            total.update(counts)
        kind, query, _ = points[0]
        result.operators.append(OperatorCounts(query, kind, dict(total)))


def _stored(node: Node, behind: Behind) -> dict[str, StoredLeaf]:
    """Describes the stored rows of each leaf of a plan."""
    links, placed = links_of(node), placed_leaves(node)
    stored = {}
    for name, (leaf, group) in behind.items():
        lfta = leaf.lfta if isinstance(leaf, LftaInput) else None
        numbers = [links.index(link) for link in lfta.links] if lfta else [0]
        chunks = [
            (number, chunk) for number, feed in zip(numbers, group.values(), strict=True) for chunk in feed.chunks
        ]
        record = NUMBER_COLUMN if lfta and lfta.placed else ""
        stored[name] = StoredLeaf(lfta.stored if lfta else leaf.fields, chunks, name in placed, record)
    return stored


def _watch_table(node: WatchJoin) -> pa.Table:
    """Reads a watch list as a table with the columns of the operator.

    Raises:
        ConfigError: the file of the list cannot be read, or a line of it is wrong.
    """
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
    work: Path,
    settings: HighSettings | None = None,
    carries: Mapping[str, StateHandover] | None = None,
    failures: dict[str, LowwaterError] | None = None,
    published: bool = False,
    rows: PurePath | None = None,
) -> dict[str, HighResult]:
    """Runs every output query over the LFTA rows of one interval.

    Args:
        queries: output query -> high plan.
        inputs: (LFTA, link) -> parquet files in order of `_tick`: paths, or addresses in the lake.
        start, end: the interval, ns; rows with `_last` in [start, end) are kept.
        work: folder for rows, parts and files of the runner, with a folder for each query; the caller removes it.
        carries: query -> its place in a chain, for queries with a state.
        failures: filled with query -> its error; None lets the first error end the run.
        published: whether rows are written in published types instead of stream types.
        rows: folder of the lake for rows and parts, where tasks run on other machines; None for `work`.

    Raises:
        ValueOverflowError: if an integer sum does not fit 64 bits, and errors end the run.
        LowwaterError: if an input cannot be read or the runner fails.
    """
    settings = settings or HighSettings()
    lftas = {leaf.lfta for node in queries.values() for leaf in leaves(node) if isinstance(leaf, LftaInput)}
    feeds = {
        (lfta.name, link): StoredStream.scan(_files(inputs, lfta.name, link)) for lfta in lftas for link in lfta.links
    }
    with closing(ReadOnce(runner.promises(feeds))) as promises:
        run = _Run(runner, feeds, promises, start, end, work, rows or work, settings, carries or {}, published)
        outcomes = run.outcomes(queries)
    results = {}
    for name in queries:
        result = outcomes[name]
        if isinstance(result, HighResult):
            results[name] = result
        elif failures is None:
            raise result
        else:
            failures[name] = result
    return results
