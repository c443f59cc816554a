"""The stages of one interval as functions of their inputs: low with its tasks, high, and the reference engine.

`replay.run_command` and `interval` both call them, so there is one way to evaluate an interval. A task of the low stage
knows which of its promises no query waits for (003; SEMANTICS T2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater import errors
from lowwater.catalog import schemas
from lowwater.catalog.expr import columns_of
from lowwater.catalog.time import is_late, ticks_up_to
from lowwater.columns.files import FEWEST, Choices, DividedWriter, only_rows
from lowwater.high.levels import Steps, every
from lowwater.high.operators import StateHandover, StoredState
from lowwater.high.query_runs import HighLevel, HighResult, HighSettings, high_results, read_lists
from lowwater.high.runner import Runner
from lowwater.instants import SECOND
from lowwater.lake.ingestion.record_options import planned_skews
from lowwater.lake.packets import DroppedCopies, LinkRead, divide
from lowwater.lake.tables import safe_name
from lowwater.limits import FRAME_BATCH_ROWS, GROUP_ROWS, SHARED_GROUP_ROWS
from lowwater.low import Bounds, LinkResult, LowSettings, Policy, compiles, merge_results, needed_columns, run_link
from lowwater.low.predicate import Predicate
from lowwater.low.run import LoadCounter, PacketSampling
from lowwater.low.runtime.heartbeat import PunctuationRun, punctuation_batch
from lowwater.plan import properties, shares, temporal
from lowwater.plan.operators import Lfta, LftaInput, Node, Source, lftas_of, walk
from lowwater.plan.queryset import QueryPlan
from lowwater.quality.links import LinkScan
from lowwater.reference import ReferenceResult, evaluate
from lowwater.replay.stages.inputs import LowInputs, arrival_lag, disorder_of
from lowwater.replay.tuning import Tuning, tuned_lftas
from lowwater.storage import paths
from lowwater.storage.paths import lake_path, locals_of
from lowwater.stream.records import packet_samplings

# A task for each chunk of a link, with a file of rows for each LFTA, in this process or on Spark (docs/adr/0012).


@dataclass(frozen=True)
class LowTask:
    """A pass over a chunk of one link; a small link is one chunk."""

    link: str
    read: LinkRead  # packets of the chunk, in canonical order
    lftas: tuple[Lfta, ...]
    bounds: Bounds  # bounds of the interval, of every read range, and of the chunk, ns
    settings: LowSettings
    folder: PurePath  # folder for the files: of this machine, or of the lake for tasks on other machines
    number: int = 0
    # LFTA -> its sampling of a link that sheds load
    thinnings: Mapping[str, PacketSampling] = field(default_factory=dict)
    # LFTA -> what may divide its rows by share (`plan.shares`)
    keys: Mapping[str, Choices] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """Packets to read; the heaviest tasks start first."""
        return self.read.packets

    @property
    def label(self) -> str:
        """The link and the number of the chunk, from 1."""
        return f"{self.link} {self.number + 1}"

    def path(self, lfta: Lfta) -> PurePath:
        """The file of the rows of an LFTA."""
        return self.folder / safe_name(lfta.name) / f"{safe_name(self.link)}-{self.number}.parquet"


@dataclass(frozen=True)
class LowOutcome:
    """The result of a link or of a chunk: its accounting, and the files of each LFTA in the order of chunks."""

    result: LinkResult
    files: dict[str, tuple[str, ...]]


def links_to_compile(tasks: Sequence[LowTask]) -> dict[str, int]:
    """The links whose kernels must be compiled first, each with its number of LFTAs."""
    records: Counter[str] = Counter()
    for task in tasks:
        records[task.link] += task.read.packets
    first = {task.link: task for task in reversed(tasks)}
    return {
        link: len(first[link].lftas)
        for link, count in records.items()
        if compiles(first[link].lftas, link, first[link].settings, count)
    }


def _merged_outcome(parts: Sequence[LowOutcome]) -> LowOutcome:
    files = {name: tuple(path for part in parts for path in part.files[name]) for name in parts[0].files}
    return LowOutcome(merge_results([part.result for part in parts]), files)


def run_low(task: LowTask) -> LowOutcome:
    """Runs all LFTAs of a link in one pass over the packets of a chunk.
    Raises LakeError if the files cannot be written."""
    sinks = {
        lfta.name: StreamWriter(
            task.path(lfta),
            properties.stream_schema(lfta.fields),
            task.keys.get(lfta.name, ()),
            task.bounds.grains.get(lfta.name, 1),
            task.settings.shared_rows,
        )
        for lfta in task.lftas
    }
    try:
        columns = needed_columns(task.lftas, task.settings.shed is not None, task.settings.skews)
        dropped = DroppedCopies()
        batches = task.read.batches(
            columns, FRAME_BATCH_ROWS if schemas.FRAME in columns else GROUP_ROWS, dropped=dropped
        )

        def write(name: str, batch: pa.RecordBatch) -> None:
            sinks[name].write(batch)

        settings = task.settings, write, task.thinnings, task.read.packets
        result = run_link(task.lftas, task.link, batches, task.bounds, *settings)
        for sink in sinks.values():
            sink.close()
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"link {task.link}: {task.folder} cannot be written: {reason}"
        raise errors.LakeError(message, "make room on the disk") from None
    files: dict[str, tuple[str, ...]] = {name: (str(sink.path),) for name, sink in sinks.items()}
    return LowOutcome(replace(result, duplicates=dropped.owned), files)


def count_loads(task: LowTask) -> dict[str, LoadCounter]:
    """Counts, for each LFTA, the packets of every second in a chunk of a link that sheds load (SEMANTICS O5). Only the
    protocol counts: the prefilter depends on the other queries of the set."""
    budget = task.settings.shed
    assert budget is not None
    selections = {lfta.name: (lfta.member, PacketSampling.of(lfta.sample, task.link)) for lfta in task.lftas}
    loads = {pair: LoadCounter(pair[1], budget) for pair in selections.values()}
    members = {member: Predicate(member, None) for member, _ in loads}
    tests = {member: predicate.test(task.link) for member, predicate in members.items()}
    tested = (name for predicate in members.values() for name in predicate.columns)
    read = ("timestamp", "arrival", *schemas.THINNED_BY)
    for batch in task.read.batches(list(dict.fromkeys([*schemas.THINNED_BY, *tested])), GROUP_ROWS):
        stamps, arrivals, lengths, heads = (batch.column(name).to_numpy() for name in read)
        sane = ~is_late(arrivals, stamps, task.settings.skew)
        for member, test in tests.items():
            chosen = sane & test(batch)
            for (of, _), load in loads.items():
                if of == member:
                    load.add(stamps[chosen], lengths[chosen], heads[chosen])
    return {name: loads[pair] for name, pair in selections.items()}


class StreamWriter:
    """Writes a stream to a parquet file: small batches of rows become row groups, its promises others, whose order is
    that of their ticks (SEMANTICS P5). `keys` may divide its rows by share, from so many rows as `shared` of so long a
    time as `grain`, ns: its readers begin slices at multiples of it."""

    def __init__(
        self,
        path: PurePath,
        schema: pa.Schema,
        keys: Choices = (),
        grain: int = 1,
        shared: int = LowSettings.shared_rows,
    ) -> None:
        self.path = path
        # The high level reads a file as soon as it has its name.
        self._open = paths.draft(path).with_suffix(".open")
        options = {"compression": "zstd", "compression_level": 1}
        fewest = min(FEWEST, -(-shared // 8))
        # What waits is one group, and not one and a small rest, unless the batches of a large table are larger.
        self._writer = DividedWriter(self._open, schema, keys, 2 * GROUP_ROWS, fewest, **options)
        self._schema, self._keys, self._grain, self._least = schema, keys, grain, shared
        self._waiting: list[pa.RecordBatch] = []
        self._promises: list[pa.RecordBatch] = []
        self._rows = 0
        self._epochs: set[int] = set()

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes a batch of data rows, or one of promises."""
        if batch.column("_kind")[0].as_py() != schemas.ROW:
            self._promises.append(batch)
            if sum(map(len, self._promises)) >= GROUP_ROWS:
                self._promise()
            return
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._keys:
            self._epochs.update((np.unique(batch.column(schemas.LAST).to_numpy()) // self._grain).tolist())
        if self._rows >= (SHARED_GROUP_ROWS if self._shared else GROUP_ROWS):
            self._flush()

    def close(self) -> None:
        self._flush()
        self._promise()
        self._writer.close()
        paths.take(self._open, self.path)

    @property
    def _shared(self) -> bool:
        """Whether slices of time would have too many of the waiting rows, so that shares divide them."""
        return 0 < len(self._epochs) * self._least <= self._rows

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write(pa.Table.from_batches(self._waiting, self._schema), self._shared)
        self._waiting, self._rows = [], 0
        self._epochs.clear()

    def _promise(self) -> None:
        if self._promises:
            self._writer.write(pa.Table.from_batches(self._promises, self._schema), divided=False)
        self._promises = []


def by_link(lftas: Sequence[Lfta]) -> dict[str, tuple[Lfta, ...]]:
    """Link -> LFTAs that read it, links sorted."""
    links = sorted({link for lfta in lftas for link in lfta.links})
    return {link: tuple(lfta for lfta in lftas if link in lfta.links) for link in links}


# Heartbeats on demand. `low` has made the promises of every tick. A query that reads several streams, of links or
# LFTAs, releases a row when the least of their promises has passed it. So a promise is stored only at a tick where it
# releases rows of the query. A query that reads one stream waits for no other promise.

Instants = npt.NDArray[np.int64]
NO_TICK = (1 << 63) - 1
StreamName = tuple[str, str]
"""An LFTA and a link."""


@dataclass(frozen=True)
class Promises:
    """The promises of a stream as runs of ticks; within a run the promise rises with the ticks (T4)."""

    first: Instants  # first tick of each run, ns, ascending
    until: Instants  # last tick of each run, ns
    period: Instants  # time between ticks of a run, ns; 0 for a single tick
    promise: Instants  # promise at the first tick, ns; every tick promises more than the ticks before it

    @staticmethod
    def of(runs: Iterable[tuple[int, int, int, int]]) -> Promises:
        """Builds promises from runs: first tick, last tick, period, promise."""
        columns = np.array([*runs], np.int64).reshape(-1, 4).T
        return Promises(*(np.ascontiguousarray(column) for column in columns))

    def first_ticks_past(self, instants: Instants) -> Instants:
        """The first tick that promises more than each instant; NEVER where none does."""
        most = self.promise + self.until - self.first
        at = np.searchsorted(most, instants, side="right")
        run = np.minimum(at, len(most) - 1)
        period = np.maximum(self.period[run], 1)
        ahead = np.maximum(instants + 1 - self.promise[run], 0)
        tick = self.first[run] + -(-ahead // period) * period
        return np.where(at < len(most), tick, NO_TICK) if len(most) else np.full(len(instants), NO_TICK, np.int64)

    def latest(self, tick: int) -> tuple[int, int]:
        """The last tick up to a given one, with the number of its run."""
        run = int(np.searchsorted(self.first, tick, side="right")) - 1
        ticks = ticks_up_to(np.array([tick]), self.first[run], self.until[run], self.period[run])
        return run, int(ticks[0])

    def runs_to_keep(self, ticks: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Run -> first and last tick to keep, so that the last tick up to each given tick stays."""
        spans: dict[int, tuple[int, int]] = {}
        for run, tick in map(self.latest, ticks):
            first, last = spans.get(run, (tick, tick))
            spans[run] = min(tick, first), max(tick, last)
        return spans


class Demand:
    """The promises that the rows of a query wait for, of every stream that it reads."""

    def __init__(self, plan: Node, promises: Mapping[StreamName, Promises]) -> None:
        self._plan, self.promises = plan, promises
        self._read: dict[str, set[int]] = {name: set() for name, _ in promises}

    def add(self, lfta: str, lasts: Instants) -> None:
        self._read[lfta] = self._greatest_per_tick([*self._read[lfta], *self._greatest_per_tick(lasts)])

    def tick_spans(self, name: StreamName) -> Iterator[tuple[int, int]]:
        """Yields, for a stream, spans of ticks (first, latest) that must contain a promise."""
        lasts = np.array([*self._lasts_waiting], np.int64)
        firsts = self.promises[name].first_ticks_past(lasts)
        return zip(firsts.tolist(), self._release_ticks(lasts).tolist(), strict=True)

    @cached_property
    def _lasts_waiting(self) -> set[int]:
        """The `_last` of rows, and of results that operators make of them, that wait for a promise."""
        lasts_of: dict[int, set[int]] = {}
        for node in walk(self._plan):
            if isinstance(node, LftaInput):
                lasts_of[id(node)] = self._read[node.lfta.name]
                continue
            ends = [(node.final(port), lasts_of[id(below)]) for port, below in enumerate(node.inputs())]
            results = {end(last) if end else last for end, lasts in ends for last in lasts}
            lasts_of[id(node)] = self._greatest_per_tick([last for last in results if last < temporal.END_OF_TIME])
        return set().union(*lasts_of.values())

    def _release_ticks(self, lasts: Instants) -> Instants:
        """The tick at which the least promise has passed each `_last`."""
        ticks: Instants = np.maximum.reduce([each.first_ticks_past(lasts) for each in self.promises.values()])
        return ticks

    def _greatest_per_tick(self, lasts: Sequence[int] | Instants) -> set[int]:
        """The greatest `_last` released at each tick; its promise releases the others too."""
        values = np.sort(np.array(lasts, np.int64))
        ticks = self._release_ticks(values)
        edges = np.append(ticks[1:] != ticks[:-1], True)[: len(ticks)] & (ticks < NO_TICK)
        return set(values[edges].tolist())


def fewest_ticks(spans: Iterable[tuple[int, int]]) -> list[int]:
    """The smallest set of ticks with one in every span, each as late as possible; ascending.

    Example:
        >>> fewest_ticks([(1, 4), (3, 9), (5, 7), (6, 6)])
        [4, 6]
    """
    ticks: list[int] = []
    for first, latest in sorted(spans, key=lambda span: span[1]):
        if not ticks or first > ticks[-1]:
            ticks.append(latest)
    return ticks


# The last step of `low` under the policy `on-demand`: promises that no query waits for are removed. Rows do not
# change.

StayingTicks = Mapping[int, tuple[int, int]]
"""Number of a stored run of promises -> first and last tick of it that stay."""


@dataclass(frozen=True)
class Thinning:
    """The streams of the low stage from which promises are removed, by whom they are read, and the folder for what
    stays."""

    outcomes: tuple[LowOutcome, ...]
    lftas: tuple[Lfta, ...]
    plans: tuple[Node, ...]
    folder: PurePath


def on_demand(task: Thinning) -> tuple[LowOutcome, ...]:
    """Rewrites the streams of the low stage so that they keep only needed promises; returns the new outcomes. Those of
    an LFTA of which some reader waits for LFTAs that did not run keep all.
    Raises LakeError if a stream cannot be read or written."""
    ran = {lfta.name for lfta in task.lftas}
    read = [{lfta.name for lfta in lftas_of(plan)} for plan in task.plans]
    unknown = set().union(*(names for names in read if not names <= ran))
    plans = [plan for plan, names in zip(task.plans, read, strict=True) if names <= ran]
    try:
        stored = LowResult(task.outcomes).files
        files = {name: locals_of(map(lake_path, each)) for name, each in stored.items()}
        promises = {name: _promises(each) for name, each in files.items()}
        demands = [_demand(plan, files, promises) for plan in plans]
        spared: dict[StreamName, int] = {}
        for lfta in task.lftas:
            folder = task.folder / safe_name(lfta.name)
            for name in files.keys() & {(lfta.name, link) for link in lfta.links}:
                targets = [folder / lake_path(path).name for path in stored[name]]
                if lfta.name in unknown:
                    for path, target in zip(stored[name], targets, strict=True):
                        paths.take(lake_path(path), target)
                    continue
                spans = [span for demand in demands if name in demand.promises for span in demand.tick_spans(name)]
                staying = promises[name].runs_to_keep(fewest_ticks(spans))
                spared[name] = _thin(lfta, [*zip(files[name], targets, strict=True)], staying, promises[name])
    except (OSError, pa.ArrowException) as error:
        message = f"surplus punctuation cannot be removed from the streams of the low stage: {error}"
        raise errors.LakeError(message, "make room on the disk") from None
    return tuple(_counted(outcome, spared, task.folder) for outcome in task.outcomes)


def _promises(paths: Sequence[Path]) -> Promises:
    runs: list[tuple[int, int, int, int]] = []
    names = ["_tick", "_until", "_period", "_last"]
    for batch in _batches(paths, False, names):
        runs += zip(*(batch[name].to_pylist() for name in names), strict=True)
    return Promises.of(runs)


def _batches(paths: Sequence[Path], rows: bool, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the data rows of streams of this stage, or their promises, which are in row groups of their own."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            groups = [group for group in range(file.num_row_groups) if only_rows(file, group) == rows]
            yield from file.iter_batches(row_groups=groups, columns=columns)


def _demand(plan: Node, files: Mapping[StreamName, Sequence[Path]], promises: Mapping[StreamName, Promises]) -> Demand:
    leaves = {leaf.lfta.name: leaf.lfta for leaf in walk(plan) if isinstance(leaf, LftaInput)}
    read = [(lfta.name, link) for lfta in leaves.values() for link in lfta.links]
    demand = Demand(plan, {name: promises[name] for name in read} if len(read) > 1 else {})
    for name in demand.promises:
        for batch in _batches(files[name], True, ["_last"]):
            demand.add(name[0], batch["_last"].to_numpy())
    return demand


def _thin(lfta: Lfta, files: Sequence[tuple[Path, PurePath]], requested: StayingTicks, promises: Promises) -> int:
    """Rewrites a stream; returns the number of promises removed. The closing one stays (SEMANTICS T6)."""
    total, number = len(promises.first), 0
    staying = {**requested, total - 1: (int(promises.first[-1]), int(promises.until[-1]))}
    for path, target in files:
        number = _thin_file(lfta, path, target, staying, promises, number)
    return total - len(staying)


def _thin_file(lfta: Lfta, path: Path, target: PurePath, staying: StayingTicks, promises: Promises, number: int) -> int:
    """Rewrites a file whose first promise has this number; returns the number after its last promise."""
    sink = StreamWriter(target, properties.stream_schema(lfta.fields))
    for batch in _batches([path], True):
        sink.write(batch)
    after: int = number + sum(batch.num_rows for batch in _batches([path], False, ["_kind"]))
    if kept := [_part(promises, staying[at], at) for at in range(number, after) if at in staying]:
        sink.write(punctuation_batch(lfta, kept, int(promises.period.max())))
    sink.close()
    return after


def _part(promises: Promises, ticks: tuple[int, int], run: int) -> PunctuationRun:
    """The part of a run of promises between two ticks."""
    return PunctuationRun(0, int(promises.promise[run]) + ticks[0] - int(promises.first[run]), *ticks)


def _counted(outcome: LowOutcome, spared: Mapping[StreamName, int], folder: PurePath) -> LowOutcome:
    """The outcome with the counts of the remaining promises, and its files in another folder."""
    statistics = []
    for counts in outcome.result.statistics:
        out = spared.get((counts.lfta, outcome.result.link), 0)
        statistics.append(replace(counts, punctuations=counts.punctuations - out, spared=out))
    files = {
        name: tuple(str(folder / safe_name(name) / lake_path(path).name) for path in each)
        for name, each in outcome.files.items()
    }
    return LowOutcome(replace(outcome.result, statistics=tuple(statistics)), files)


@dataclass(frozen=True)
class LowResult:
    """The outcomes of the low stage for each link, links sorted."""

    outcomes: tuple[LowOutcome, ...]

    @property
    def files(self) -> dict[StreamName, list[str]]:
        """(LFTA, link) -> files of its stream."""
        return {(name, each.result.link): list(paths) for each in self.outcomes for name, paths in each.files.items()}


@dataclass(frozen=True)
class LowLevel:
    """The low level of one interval: a task for each chunk of a link.

    Attributes:
        tasks: of the chunks, those of a link in order.
        lftas, plans: LFTAs and high plans of the query set.
        demanded: whether promises that no plan waits for are removed in the end.
    """

    tasks: tuple[LowTask, ...]
    lftas: tuple[Lfta, ...]
    plans: tuple[Node, ...]
    folder: PurePath
    demanded: bool
    what: str = "low"

    @property
    def files(self) -> dict[StreamName, list[str]]:
        """(LFTA, link) -> files of its stream, which have these names once they are whole."""
        files: dict[StreamName, list[str]] = {}
        for task in self.tasks:
            for lfta in task.lftas:
                path = replace(task, folder=self.folder).path(lfta)
                files.setdefault((lfta.name, task.link), []).append(str(path))
        return files

    def steps(self) -> Steps:
        """On links that shed load, the packets of every second are counted first, over all chunks (SEMANTICS O5). Early
        chunks of all links come first, since the least promise of the links closes parts."""
        shedding, loads = [task for task in self.tasks if task.settings.shed is not None], dict[str, Any]()
        for task, of_task in zip(shedding, (yield from every(count_loads, shedding, "counted")), strict=True):
            of_link = loads.get(task.link)
            loads[task.link] = {name: of_link[name].also(load) if of_link else load for name, load in of_task.items()}
        thinned = {link: {name: load.thinning() for name, load in of_link.items()} for link, of_link in loads.items()}
        whole = [replace(task, thinnings=thinned.get(task.link, {})) for task in self.tasks]
        ordered = sorted(whole, key=lambda task: (task.number, -task.weight))
        links: dict[str, list[LowOutcome]] = {task.link: [] for task in self.tasks}
        for outcome in (yield from every(run_low, ordered, "chunks")):
            links[outcome.result.link].append(outcome)
        outcomes = tuple(map(_merged_outcome, links.values()))
        if self.demanded:
            (outcomes,) = yield from every(
                on_demand, [Thinning(outcomes, self.lftas, self.plans, self.folder)], "thinned"
            )
        return LowResult(outcomes)


def low_level(
    inputs: LowInputs,
    settings: LowSettings,
    folder: PurePath,
    tunings: Mapping[str, Tuning] = MappingProxyType({}),
    say: Callable[[str], None] = lambda _: None,
    only: Container[str] | None = None,
) -> LowLevel:
    """Divides the links of an interval into chunks of about `task_packets`, over which every LFTA runs that reads the
    link. `say`: called with a line for each kernel that must be compiled. `only`: names of the LFTAs to run; None for
    all. Their rows are as if all ran: what all queries of the set read is read.
    Raises LakeError if packets cannot be read."""
    queries = [query.high for query in inputs.plan.queries]
    starts, grains, keys = inputs.lfta_starts, properties.needed_granularity(*queries), shares.low_shares(queries)
    demanded = settings.policy is Policy.ON_DEMAND
    tasks: list[LowTask] = []
    ran = [lfta for lfta in tuned_lftas(inputs.plan.lftas, tunings) if only is None or lfta.name in only]
    for link, lftas in by_link(ran).items():
        mine = {lfta.name: starts[lfta.name] for lfta in lftas}
        bounds = Bounds(mine, inputs.start, inputs.end, {lfta.name: grains[lfta.name][0] for lfta in lftas})
        link_settings = inputs.config.link(link)
        arriving = any(lfta.arrival for lfta in lftas)
        read = inputs.read(link, _whole_seconds(inputs, link, min(mine.values()), arriving))
        chosen = replace(
            settings,
            skew=link_settings.longest_skew,
            shed=link_settings.shed,
            skews=planned_skews(inputs.config, inputs.plan, link) if link_settings.group_skew else None,
            delay=link_settings.delay,
            policy=settings.policy.per_link,
        )
        for number, part in enumerate(divide(read, chosen.task_packets)):
            own = replace(bounds, entered=part.entered, left=part.left, before=part.before)
            where = folder / "all" if demanded else folder
            tasks.append(LowTask(link, part, lftas, own, chosen, where, number, keys=keys))
    for link, count in links_to_compile(tasks).items():
        say(f"  compiling the kernel of link {link}, once: {count} LFTA{'s' if count > 1 else ''}")
    return LowLevel(tuple(tasks), tuple(ran), tuple(queries), folder, demanded)


def low_stage(
    inputs: LowInputs,
    settings: LowSettings,
    folder: PurePath,
    runner: Runner,
    say: Callable[[str], None] = lambda _: None,
) -> LowResult:
    """Runs the low level of an interval by itself; arguments and errors as of `low_level`."""
    with runner.levels() as start:
        result: LowResult = start(low_level(inputs, settings, folder, say=say)).result()
    return result


def _whole_seconds(inputs: LowInputs, link: str, start: int, arriving: bool) -> int:
    """The first timestamp to read from a link; with load shedding a whole second, since packets are counted by second
    (O5). Packets that arrive after the start may have an earlier timestamp.
    Raises ConfigError if the interval does not end with a second."""
    link_settings = inputs.config.link(link)
    if link_settings.shed is None:
        return start
    if inputs.end < temporal.END_OF_TIME and inputs.end % SECOND:
        message = f"link {link} sheds load by whole seconds, and the interval ends within a second"
        raise errors.ConfigError(message, "use intervals of whole seconds")
    return max(0, start - link_settings.longest_skew * arriving) // SECOND * SECOND


def high_level(
    runner: Runner,
    inputs: LowInputs,
    files: Mapping[tuple[str, str], list[str]],
    folder: PurePath,
    settings: Mapping[str, Any],
    states: Mapping[str, StoredState] = MappingProxyType({}),
    failures: Collection[str] = (),
    published: bool = False,
    coming: bool = False,
) -> HighLevel:
    """Describes the high level for a runner: every output query but those of `failures`, over the streams of the low
    level, by (LFTA, link); `coming` as of `HighLevel`. `folder`: for rows, of the lake where tasks run on other
    machines; the caller removes it. `settings`: fields of `HighSettings`. `published`: whether rows are written in
    published types instead of stream types."""
    queries = {query.name: query.high for query in inputs.plan.queries if query.name not in failures}
    carries = {query.name: _handover(inputs, query, states.get(query.name)) for query in inputs.plan.queries}
    chosen, lists, about = HighSettings(**settings), read_lists(queries), (runner.most, runner.again, coming)
    return HighLevel(queries, files, inputs.start, inputs.end, folder, chosen, carries, published, lists, *about)


def high_stage(
    runner: Runner,
    inputs: LowInputs,
    files: Mapping[tuple[str, str], list[str]],
    folder: PurePath,
    settings: Mapping[str, Any],
    states: Mapping[str, StoredState] = MappingProxyType({}),
    failures: dict[str, errors.LowwaterError] | None = None,
) -> dict[str, HighResult]:
    """Runs the high level by itself, as of `high_level`. `failures`: filled with query -> its error; None lets the
    first error end the stage."""
    with runner.levels() as start:
        level = high_level(runner, inputs, files, folder, settings, states, failures or ())
        return high_results(start(level).result(), failures)


@dataclass(frozen=True)
class ReferenceRows:
    """The results of the reference engine for an interval."""

    rows: dict[str, pa.Table]  # query -> its fields with `_last` and `_tick`
    results: dict[str, ReferenceResult]  # query -> punctuation and accounting
    scans: tuple[LinkScan, ...]


def _handover(inputs: LowInputs, query: QueryPlan, earlier: StoredState | None) -> StateHandover:
    """The place of the interval in the chain of a query."""
    ends = [inputs.ends[link] for link in query.links if link in inputs.ends]
    latest = max(ends) - 1 if ends and len(ends) == len(query.links) else None
    late = arrival_lag(inputs.config, query.links, query.high)
    if not (inputs.handed and properties.hands_over(query.high)):
        return StateHandover(end=inputs.end, latest=latest, late=late, disorder=inputs.disorder(query))
    return StateHandover(inputs.start, inputs.end, latest, late, earlier, True, inputs.disorder(query))


def reference_stage(
    inputs: LowInputs,
    period: int,
    policy: Policy,
    states: Mapping[str, str | None] = MappingProxyType({}),
    failures: dict[str, errors.LowwaterError] | None = None,
) -> ReferenceRows:
    """Runs every output query on the reference engine, from the packets and the logical plan, from the states of the
    interval before (SEMANTICS I4). Of `policy` on-demand makes the periodic promises, since no stream is stored.
    `failures` as of `high_stage`."""
    rows: dict[str, pa.Table] = {}
    results: dict[str, ReferenceResult] = {}
    for query in (query for query in inputs.plan.queries if query.name not in (failures or {})):
        try:
            results[query.name] = result = _evaluated(inputs, query, period, policy, states.get(query.name))
            rows[query.name] = _table(query, result)
        except Exception as error:
            if failures is None:
                raise
            failures[query.name] = errors.error_of_query(query.name, error)
            results.pop(query.name, None)
    scans = tuple(inputs.scan(link) for link in inputs.plan.links)
    return ReferenceRows(rows, results, scans)


def _evaluated(inputs: LowInputs, query: QueryPlan, period: int, policy: Policy, state: str | None) -> ReferenceResult:
    starts = properties.read_from(query.logical, inputs.start)
    links = inputs.link_starts([query])
    link_settings = {link: inputs.config.link(link) for link in links}
    packets = {
        link: _packets(inputs, query.logical, link, start if state is None else inputs.start)
        for link, start in links.items()
    }
    disorder = {link: disorder_of(inputs.config, link, query.lftas) for link in links}
    skews = {link: settings.skew for link, settings in link_settings.items()}
    budgets = {link: settings.shed for link, settings in link_settings.items() if settings.shed is not None}
    return evaluate(
        query.logical,
        packets,
        disorder,
        inputs.start,
        inputs.end,
        starts,
        period,
        str(policy.per_link),
        state,
        # The first instant after the end of the links, where none goes on (SEMANTICS T5).
        max((inputs.ends.get(link, temporal.END_OF_TIME) for link in links), default=temporal.END_OF_TIME),
        packet_samplings=packet_samplings(query.logical, packets, skews, budgets),
    )


def _table(query: QueryPlan, result: ReferenceResult) -> pa.Table:
    columns = [*properties.value_schema(query.logical.fields)]
    columns += [pa.field("_last", pa.int64()), pa.field("_tick", pa.int64())]
    schema = pa.schema(columns)
    values = [list(column) for column in zip(*result.rows, strict=True)] or [[] for _ in query.logical.fields]
    arrays = [pa.array(column, f.type) for column, f in zip([*values, result.lasts, result.ticks], schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _packets(inputs: LowInputs, node: Node, link: str, start: int) -> Iterable[pa.RecordBatch]:
    thinned = inputs.config.link(link).shed is not None
    read = [
        *_columns(node),
        *planned_skews(inputs.config, inputs.plan, link).columns,
        *(schemas.THINNED_BY if thinned else ()),
    ]
    start = _whole_seconds(inputs, link, start, properties.by_arrival(node))
    batches = inputs.read(link, start).batches(list(dict.fromkeys(read)))
    return list(batches) if thinned else batches  # they are read twice


def _columns(node: Node) -> list[str]:
    """The stored columns that a logical plan reads of packets."""
    if isinstance(node, Source):
        thinned = schemas.THINNED_BY if node.sample else ()
        return schemas.stored(
            [*(f.name for f in node.fields if f.name != properties.ROW), *columns_of(node.member), *thinned]
        )
    return list(dict.fromkeys(name for child in node.inputs() for name in _columns(child)))
