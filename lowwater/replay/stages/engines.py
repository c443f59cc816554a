"""The stages of one interval as functions of their inputs: low with its tasks, high, and the reference engine.

`replay.run_command` and `interval` both call them, so there is one way to evaluate an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater import errors
from lowwater.catalog import schemas
from lowwater.catalog.expr import columns_of
from lowwater.catalog.time import Reported, is_late
from lowwater.cluster import TaskRun
from lowwater.columns.files import Choices, StreamWriter
from lowwater.high.operators import StateHandover, StoredState
from lowwater.high.query_runs import HighLevel, HighResult, HighSettings, Results
from lowwater.high.runner import Runner, Tasks
from lowwater.instants import SECOND
from lowwater.lake.ingestion.record_options import planned_skews
from lowwater.lake.packets import DroppedCopies, LinkRead, divide
from lowwater.lake.tables import safe_name
from lowwater.limits import FRAME_BATCH_ROWS, GROUP_ROWS
from lowwater.low import Bounds, LinkResult, LowSettings, Policy, compiles, merge_results, needed_columns, run_link
from lowwater.low.demand import StreamName, thin
from lowwater.low.predicate import Predicate
from lowwater.low.run import LoadCounter, PacketSampling
from lowwater.low.settings import LftaStatistics
from lowwater.plan import properties, shares, temporal
from lowwater.plan.operators import Fill, Lfta, Node, Source, walk
from lowwater.plan.queryset import QueryPlan
from lowwater.quality.links import LinkScan
from lowwater.replay.stages.inputs import LowInputs, arrival_lag, disorder_of
from lowwater.replay.tuning import Tuning, tuned_lftas
from lowwater.stream.records import packet_samplings
from lowwater.threads import TaskMap

if TYPE_CHECKING:
    from lowwater.reference.engine import ReferenceResult

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
    # LFTA -> time, ns, of which a part of a query has all rows but for shares
    spans: Mapping[str, int] = field(default_factory=dict)

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


def run_low(task: LowTask) -> LinkResult:
    """Runs all LFTAs of a link in one pass over the packets of a chunk, and writes their files.
    Raises LakeError if the files cannot be written."""
    sinks = {
        lfta.name: StreamWriter(
            task.path(lfta),
            properties.stream_schema(lfta.fields),
            task.keys.get(lfta.name, ()),
            task.spans.get(lfta.name, 1),
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
    return replace(result, duplicates=dropped.owned)


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


def on_demand(task: tuple[Mapping[StreamName, Sequence[tuple[str, str]]], tuple[Lfta, ...], tuple[Node, ...]]) -> Any:
    """Moves streams to their places, without promises that no query waits for; arguments and result as of `thin`.
    Raises LakeError if a stream cannot be read or written."""
    try:
        return thin(*task)
    except (OSError, pa.ArrowException) as error:
        message = f"surplus punctuation cannot be removed from the streams of the low stage: {error}"
        raise errors.LakeError(message, "make room on the disk") from None


@dataclass(frozen=True)
class LowResult:
    """The result of the low level: of each link, links sorted; (LFTA, link) -> files of its stream; where its tasks
    have run, as of `Running`."""

    links: tuple[LinkResult, ...]
    files: dict[StreamName, list[str]]
    runs: Sequence[TaskRun] = ()


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

    @property
    def files(self) -> dict[StreamName, list[str]]:
        """(LFTA, link) -> files of its stream, which have these names once they are whole."""
        return self._files([replace(task, folder=self.folder) for task in self.tasks])

    @staticmethod
    def _files(tasks: Iterable[LowTask]) -> dict[StreamName, list[str]]:
        files: dict[StreamName, list[str]] = {}
        for task, lfta in [(each, lfta) for each in tasks for lfta in each.lftas]:
            files.setdefault((lfta.name, task.link), []).append(str(task.path(lfta)))
        return files

    def thinned(self, tasks: TaskMap) -> list[LowTask]:
        """The tasks of the chunks. On links that shed load, the packets of every second are counted first, over all
        chunks (SEMANTICS O5)."""
        shedding, loads = [task for task in self.tasks if task.settings.shed is not None], dict[str, Any]()
        for task, of_task in zip(shedding, tasks(count_loads, shedding), strict=True):
            of_link = loads.get(task.link)
            loads[task.link] = {name: of_link[name].also(load) if of_link else load for name, load in of_task.items()}
        thinned = {link: {name: load.thinning() for name, load in of_link.items()} for link, of_link in loads.items()}
        return [replace(task, thinnings=thinned.get(task.link, {})) for task in self.tasks]

    def spared(self, links: Iterable[LinkResult], tasks: TaskMap) -> Iterator[LinkResult]:
        """Gives files their names without promises that no plan waits for; yields the links with the counts of the
        others."""
        files, made = self.files, self._files(self.tasks)
        moved = {name: [*zip(made[name], files[name], strict=True)] for name in files}
        (spared,) = tasks(on_demand, [(moved, self.lftas, self.plans)])
        return (replace(link, statistics=tuple(_spared(link, spared))) for link in links)


def low_stage(
    level: LowLevel,
    runner: Runner,
    beside: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda _: None,
) -> LowResult:
    """Runs the low level. `beside`: called once its tasks are at work, `tell` as of `Running.result`.
    Raises LowwaterError if one of them fails, or the runner."""
    if not level.tasks:
        beside()
        return LowResult((), {})
    # Early chunks of all links come first, since the least promise of the links closes parts.
    ordered = sorted(level.thinned(runner.tasks("count of packets")), key=lambda task: (task.number, -task.weight))
    with runner.levels() as begin:
        running = begin(Tasks("low", level.folder, [partial(run_low, task) for task in ordered]))
        beside()
        found = running.result(tell)
    names = dict.fromkeys(task.link for task in level.tasks)
    links = [merge_results([each for each in found if each.link == name]) for name in names]
    if level.demanded:
        links = [*level.spared(links, runner.tasks("promises on demand"))]
    return LowResult(tuple(links), level.files, running.runs)


def _spared(link: LinkResult, spared: Mapping[StreamName, int]) -> Iterator[LftaStatistics]:
    """Yields the statistics of a link with the counts of the remaining promises."""
    for counts in link.statistics:
        out = spared.get((counts.lfta, link.link), 0)
        yield replace(counts, punctuations=counts.punctuations - out, spared=out)


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
    spans = shares.undivided_spans(queries)
    demanded = settings.policy is Policy.ON_DEMAND
    tasks: list[LowTask] = []
    ran = [lfta for lfta in tuned_lftas(inputs.plan.lftas, tunings) if only is None or lfta.name in only]
    for link in sorted({link for lfta in ran for link in lfta.links}):
        lftas = tuple(lfta for lfta in ran if link in lfta.links)
        mine = {lfta.name: starts[lfta.name] for lfta in lftas}
        bounds = Bounds(mine, inputs.start, inputs.end, {lfta.name: grains[lfta.name][0] for lfta in lftas})
        link_settings = inputs.judging.link(link)
        several, arriving = bool(link_settings.group_skew or link_settings.turns), any(lfta.arrival for lfta in lftas)
        read = inputs.read(link, _whole_seconds(inputs, link, min(mine.values()), arriving))
        chosen = replace(
            settings,
            skew=link_settings.longest_skew,
            shed=link_settings.shed,
            skews=planned_skews(inputs.judging, inputs.plan, link) if several else None,
            delay=link_settings.delay,
            policy=settings.policy.per_link,
        )
        if compiles(lftas, link, chosen, read.packets):
            say(f"  compiling the kernel of link {link}, once: {len(lftas)} LFTA{'s' if len(lftas) > 1 else ''}")
        for number, part in enumerate(divide(read, chosen.task_packets)):
            own = replace(bounds, entered=part.entered, left=part.left, before=part.before)
            where = folder / "all" if demanded else folder
            tasks.append(LowTask(link, part, lftas, own, chosen, where, number, keys=keys, spans=spans))
    return LowLevel(tuple(tasks), tuple(ran), tuple(queries), folder, demanded)


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
    inputs: LowInputs,
    files: Mapping[StreamName, list[str]],
    folder: PurePath,
    settings: Mapping[str, Any],
    states: Mapping[str, StoredState] = MappingProxyType({}),
    failures: Container[str] = (),
    published: bool = False,
    coming: Collection[StreamName] = frozenset(),
) -> HighLevel:
    """Describes the high level over the streams of the low one, by (LFTA, link): every output query but those of
    `failures`. `settings`: fields of `HighSettings`; `folder`, `published` and `coming` as of `HighLevel`."""
    chosen = [query for query in inputs.plan.queries if query.name not in failures]
    carries = {query.name: _handover(inputs, query, states.get(query.name)) for query in chosen}
    queries, about = {query.name: query.high for query in chosen}, (inputs.start, inputs.end, folder)
    return HighLevel(queries, files, *about, HighSettings(**settings), carries, published, coming, _reported(inputs))


def high_results(found: Results, failures: dict[str, errors.LowwaterError] | None = None) -> dict[str, HighResult]:
    """Returns the results of queries, and notes their errors; without `failures` the first error is raised."""
    results = {}
    for query, result in found.items():
        if isinstance(result, HighResult):
            results[query] = result
        elif failures is None:
            raise result
        else:
            failures[query] = result
    return results


def _reported(inputs: LowInputs) -> Mapping[str, Reported]:
    """What is known of the links, where a query has groups without rows."""
    nodes = (node for query in inputs.plan.queries for node in walk(query.logical))
    return inputs.reported() if any(isinstance(node, Fill) for node in nodes) else {}


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
    begun, leaves = (properties.states_of(query.high, instant) for instant in (inputs.start, inputs.end))
    return StateHandover(inputs.start, inputs.end, latest, late, earlier, True, begun, leaves, inputs.disorder(query))


def reference_stage(
    inputs: LowInputs,
    period: int,
    policy: Policy,
    states: Mapping[str, str | None] = MappingProxyType({}),
    failures: dict[str, errors.LowwaterError] | None = None,
) -> ReferenceRows:
    """Runs every output query on the reference engine, from the packets and the logical plan, from the states of the
    interval before (SEMANTICS I4). Of `policy` on-demand makes the periodic promises, since no stream is stored.
    `failures` as of `high_results`."""
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
    from lowwater.reference.engine import evaluate  # seldom

    starts = properties.read_from(query.logical, inputs.start)
    links = inputs.link_starts([query])
    link_settings = {link: inputs.judging.link(link) for link in links}
    packets = {
        link: _packets(inputs, query.logical, link, start if state is None else inputs.start)
        for link, start in links.items()
    }
    disorder = {link: disorder_of(inputs.judging, link, query.lftas) for link in links}
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
        reported=_reported(inputs),
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
        *source_columns(node),
        *planned_skews(inputs.judging, inputs.plan, link).columns,
        *(schemas.THINNED_BY if thinned else ()),
    ]
    start = _whole_seconds(inputs, link, start, properties.by_arrival(node))
    batches = inputs.read(link, start).batches(list(dict.fromkeys(read)))
    return list(batches) if thinned else batches  # they are read twice


def source_columns(node: Node) -> list[str]:
    """The stored columns that a logical plan reads of packets."""
    if isinstance(node, Source):
        thinned = schemas.THINNED_BY if node.sample else ()
        return schemas.stored(
            [*(f.name for f in node.fields if f.name != properties.ROW), *columns_of(node.member), *thinned]
        )
    return list(dict.fromkeys(name for child in node.inputs() for name in source_columns(child)))
