"""The stages of one interval as functions of their inputs: low, high, and the reference engine.

`replay.run_command` and `interval` both call them, so there is one way to evaluate an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lowwater.capture.tables.reader import TaskMap
from lowwater.catalog.expr import columns_of
from lowwater.catalog.schemas import THINNED_BY, stored
from lowwater.catalog.time import Skews, link_skews
from lowwater.config import Config
from lowwater.errors import ConfigError, LowwaterError, error_of_query
from lowwater.high.operators import StateHandover
from lowwater.high.query_runs import HighResult, HighSettings, run_high
from lowwater.high.runner import Runner
from lowwater.instants import SECOND
from lowwater.lake.ingestion.record_options import planned_skews
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.packets import CopyRule, HashedLink, LinkRead, PacketFiles, hashed_link, packet_files
from lowwater.low import Bounds, LowSettings, Policy
from lowwater.plan.operators import Lfta, Node, Source
from lowwater.plan.properties import ROW, by_arrival, hands_over, horizon, needed_granularity, read_from, value_schema
from lowwater.plan.queryset import Plan, QueryPlan
from lowwater.plan.shares import low_shares
from lowwater.plan.temporal import END_OF_TIME
from lowwater.quality.links import LinkScan, scan_link
from lowwater.reference import Disorder, ReferenceResult, evaluate
from lowwater.replay.stages.low_tasks import (
    LowOutcome,
    LowTask,
    by_link,
    links_to_compile,
    low_tasks,
    on_demand,
    run_tasks,
)
from lowwater.replay.tuning import Tuning, tuned_lftas
from lowwater.stream.records import packet_samplings


@dataclass(frozen=True)
class LowInputs:
    """The inputs of an interval of a query set.

    Attributes:
        lake: lake with the packets.
        plan: plan of the queries.
        config: settings of the links.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        captures: link -> its captures in the order of T1.
        ends: link -> first instant after its end, ns; links that go on are not in it.
        handed: whether queries with a state pass it from interval to interval.
    """

    lake: Lake
    plan: Plan
    config: Config
    start: int
    end: int
    captures: Mapping[str, Sequence[Capture]]
    ends: Mapping[str, int] = field(default_factory=dict)
    handed: bool = False

    @cached_property
    def lfta_starts(self) -> dict[str, int]:
        """LFTA -> first timestamp that it reads for any output query (I2), ns."""
        starts: dict[str, int] = {}
        for query in self.plan.queries:
            for name, start in self._read_from(query).items():
                starts[name] = min(start, starts.get(name, start))
        return starts

    def link_starts(self, queries: Sequence[QueryPlan]) -> dict[str, int]:
        """Link -> first timestamp that some queries read, ns."""
        starts: dict[str, int] = {}
        for query in queries:
            needed = self._read_from(query)
            for lfta in query.lftas:
                for link in lfta.links:
                    starts[link] = min(needed[lfta.name], starts.get(link, self.start))
        return starts

    def _read_from(self, query: QueryPlan) -> dict[str, int]:
        return read_from(query.high, self.start, self.handed and hands_over(query.high))

    def carry(self, query: QueryPlan, earlier_state: Path | None, state_folder: Path) -> StateHandover:
        """The place of the interval in the chain of a query: earlier state, and folder for the next one."""
        ends = [self.ends[link] for link in query.links if link in self.ends]
        latest = max(ends) - 1 if ends and len(ends) == len(query.links) else None
        late = arrival_lag(self.config, query.links, query.high)
        if not (self.handed and hands_over(query.high)):
            return StateHandover(end=self.end, latest=latest, late=late, disorder=self._disorder(query))
        return StateHandover(self.start, self.end, latest, late, earlier_state, state_folder, self._disorder(query))

    def _disorder(self, query: QueryPlan) -> dict[str, tuple[int, Mapping[str, int]]]:
        """Link -> its skew and the disorder of its other attributes, where the high level judges lateness (T8)."""
        lateness = {link: _disorder(self.config, link, query.lftas) for link in query.links}
        return {link: (each.skew, each.attributes) for link, each in lateness.items() if each.attributes}

    @property
    def packets(self) -> int:
        """The approximate number of packets that the low stage reads: all packets of captures that overlap the read
        ranges."""
        starts = self.link_starts(self.plan.queries)
        ledger = {link: Captures.of(self.captures.get(link, ())) for link in starts}
        return sum(
            ledger[link][at].packets for link, start in starts.items() for at in ledger[link].meeting(start, self.end)
        )

    def read(self, link: str, start: int) -> LinkRead:
        """Reads the packets of a link from a timestamp on, in canonical order, without dropped copies (D4)."""
        settings = self.config.link(link)
        read = self._read(link, start)
        if settings.duplicates == "keep":
            return read
        window = settings.duplicates.window
        return replace(
            read, copies=CopyRule(window, settings.duplicates.action == "drop", self._hashed(link, start, window))
        )

    def _read(self, link: str, start: int) -> LinkRead:
        captures, settings = self.captures.get(link, ()), self.config.link(link)
        table = self.lake.table_of(link, settings.kind != "pcap")
        if table not in self._files:
            self._files[table] = PacketFiles.of_table(table)
        return packet_files(self._files[table], link, captures, settings, start, self.start, self.end)

    def _hashed(self, link: str, start: int, window: int) -> HashedLink:
        """The files among which earlier packets of a read from `start` on are looked for (D2)."""
        skews = planned_skews(self.config, self.plan, link)
        return hashed_link(self._read(link, min(start, self.start - skews.longest) - window), skews)

    @cached_property
    def _files(self) -> dict[PurePath, PacketFiles]:
        return {}

    def scan(self, link: str) -> LinkScan:
        """Counts the records of a link in the interval, independently of every engine (A1)."""
        return scan_link(*self.to_scan(link))

    def to_scan(self, link: str) -> tuple[LinkRead, Skews]:
        """Returns what `scan_link` takes of a link."""
        read = self.read(link, self.start)
        if read.copies is not None:
            others = [
                self._hashed(other, self.start - read.copies.own.skews.longest, read.copies.window)
                for other in self.plan.links
                if other != link and self.config.link(other).compared == self.config.link(link).compared
            ]
            read = replace(read, copies=replace(read.copies, others=tuple(others)))
        return read, planned_skews(self.config, self.plan, link)


@dataclass(frozen=True)
class LowResult:
    """The outcomes of the low stage for each link, links sorted."""

    outcomes: tuple[LowOutcome, ...]

    @property
    def files(self) -> dict[tuple[str, str], list[str]]:
        """(LFTA, link) -> files of its stream."""
        return {
            (name, outcome.result.link): list(paths)
            for outcome in self.outcomes
            for name, paths in outcome.files.items()
        }


def arrival_lag(config: Config, links: Sequence[str], plan: Node) -> int:
    """The time (ns) by which an epoch of a plan evaluated by arrival ends later: the largest skew of its links;
    otherwise 0."""
    return max(config.link(link).longest_skew for link in links) if by_arrival(plan) else 0


def last_instant(config: Config, query: QueryPlan, latest: int) -> int:
    """The largest `_last` (ns) of a query whose last packet is at `latest` (ns)."""
    last = horizon(query.logical, latest) + arrival_lag(config, query.links, query.logical)
    return min(last, END_OF_TIME - 1)


def low_stage(
    inputs: LowInputs,
    settings: LowSettings,
    folder: PurePath,
    runner: TaskMap,
    tunings: Mapping[str, Tuning] = MappingProxyType({}),
    say: Callable[[str], None] = lambda _: None,
) -> LowResult:
    """Runs every LFTA over every link that it reads: a task for each link, or for each chunk of a large one.

    Args:
        settings: settings of the kernels; each link has its own skew.
        tunings: LFTA -> recommended settings.
        say: called with a line for each kernel that must be compiled.
    """
    starts = inputs.lfta_starts
    grains = {
        name: grain for name, (grain, _) in needed_granularity(*(query.high for query in inputs.plan.queries)).items()
    }
    keys = low_shares([query.high for query in inputs.plan.queries])
    tasks: list[LowTask] = []
    for link, lftas in by_link(tuned_lftas(inputs.plan.lftas, tunings)).items():
        mine = {lfta.name: starts[lfta.name] for lfta in lftas}
        bounds = Bounds(mine, inputs.start, inputs.end, {lfta.name: grains[lfta.name] for lfta in lftas})
        link_settings = inputs.config.link(link)
        arriving = any(lfta.arrival for lfta in lftas)
        read = inputs.read(link, _whole_seconds(inputs, link, min(mine.values()), arriving))
        skews = planned_skews(inputs.config, inputs.plan, link) if link_settings.group_skew else None
        chosen = replace(
            settings,
            skew=link_settings.longest_skew,
            shed=link_settings.shed,
            skews=skews,
            delay=link_settings.delay,
            policy=settings.policy.per_link,
        )
        tasks += low_tasks(read, lftas, bounds, chosen, folder, keys)
    for link, count in links_to_compile(tasks).items():
        say(f"  compiling the kernel of link {link}, once: {count} LFTA{'s' if count > 1 else ''}")
    outcomes = tuple(run_tasks(tasks, runner))
    if settings.policy is Policy.ON_DEMAND:
        outcomes = on_demand(outcomes, inputs.plan.lftas, [query.high for query in inputs.plan.queries])
    return LowResult(outcomes)


def _whole_seconds(inputs: LowInputs, link: str, start: int, arriving: bool) -> int:
    """The first timestamp to read from a link; with load shedding a whole second, since packets are counted by second
    (O5).

    Packets that arrive after the start may have an earlier timestamp.

    Raises:
        ConfigError: the interval does not end with a second.
    """
    link_settings = inputs.config.link(link)
    if link_settings.shed is None:
        return start
    if inputs.end < END_OF_TIME and inputs.end % SECOND:
        message = f"link {link} sheds load by the second, and the interval ends within one"
        raise ConfigError(message, "use intervals of whole seconds")
    return max(0, start - link_settings.longest_skew * arriving) // SECOND * SECOND


def high_stage(
    runner: Runner,
    inputs: LowInputs,
    files: Mapping[tuple[str, str], list[str]],
    folder: Path,
    settings: Mapping[str, Any],
    states: Mapping[str, Path] = MappingProxyType({}),
    failures: dict[str, LowwaterError] | None = None,
    published: bool = False,
    rows: PurePath | None = None,
) -> dict[str, HighResult]:
    """Runs every output query over the streams of the low stage.

    Args:
        files: (LFTA, link) -> files of its stream.
        folder: folder for rows and files of the runner; the caller removes it.
        settings: fields of `HighSettings` other than the defaults.
        states: query -> folder with the earlier state; `state_folders` names the folders of the next one.
        failures: filled with query -> its error; queries in it are skipped. None lets the first error end the stage.
        published: whether rows are written in published types instead of stream types.
        rows: folder of the lake for rows, where tasks run on other machines; None for `folder`.
    """
    queries = {query.name: query.high for query in inputs.plan.queries if query.name not in (failures or {})}
    folders = state_folders(inputs.plan, folder)
    carries = {
        query.name: inputs.carry(query, states.get(query.name), folders[query.name]) for query in inputs.plan.queries
    }
    chosen = HighSettings(**settings)
    bounds = inputs.start, inputs.end
    return run_high(runner, queries, files, *bounds, folder, chosen, carries, failures, published, rows)


def state_folders(plan: Plan, folder: Path) -> dict[str, Path]:
    """Query -> folder where `high_stage` writes its state."""
    return {query.name: folder / "states" / str(number) for number, query in enumerate(plan.queries)}


@dataclass(frozen=True)
class ReferenceRows:
    """The results of the reference engine for an interval.

    Attributes:
        rows: query -> its fields with `_last` and `_tick`.
        results: query -> punctuation and accounting.
        scans: scan of each link.
    """

    rows: dict[str, pa.Table]
    results: dict[str, ReferenceResult]
    scans: tuple[LinkScan, ...]


def reference_stage(
    inputs: LowInputs,
    period: int,
    policy: Policy,
    states: Mapping[str, str | None] = MappingProxyType({}),
    failures: dict[str, LowwaterError] | None = None,
) -> ReferenceRows:
    """Runs every output query on the reference engine, from the packets and the logical plan.

    Args:
        period: heartbeat period, ns.
        policy: heartbeat policy; on-demand makes the periodic promises, since no stream is stored.
        states: query -> state of the interval before (SEMANTICS I4).
        failures: as for `high_stage`.
    """
    rows: dict[str, pa.Table] = {}
    results: dict[str, ReferenceResult] = {}
    for query in (query for query in inputs.plan.queries if query.name not in (failures or {})):
        try:
            results[query.name] = result = _evaluated(inputs, query, period, policy, states.get(query.name))
            rows[query.name] = _table(query, result)
        except Exception as error:
            if failures is None:
                raise
            failures[query.name] = error_of_query(query.name, error)
            results.pop(query.name, None)
    scans = tuple(inputs.scan(link) for link in inputs.plan.links)
    return ReferenceRows(rows, results, scans)


def _evaluated(inputs: LowInputs, query: QueryPlan, period: int, policy: Policy, state: str | None) -> ReferenceResult:
    starts = read_from(query.logical, inputs.start)
    links = inputs.link_starts([query])
    link_settings = {link: inputs.config.link(link) for link in links}
    packets = {
        link: _packets(inputs, query.logical, link, start if state is None else inputs.start)
        for link, start in links.items()
    }
    disorder = {link: _disorder(inputs.config, link, query.lftas) for link in link_settings}
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
        _over(inputs, list(links)),
        packet_samplings=packet_samplings(query.logical, packets, skews, budgets),
    )


def _disorder(config: Config, link: str, lftas: Sequence[Lfta]) -> Disorder:
    """The lateness that a link allows: of its clock, and of other attributes as its settings say, else the protocol."""
    layouts = [lfta.layout for lfta in lftas if link in lfta.links and lfta.layout is not None]
    skews, own = link_skews(config, link, next(iter(layouts), None)), config.link(link).skews
    attributes = {f"{layout.protocol}.{name}": own.get(name, band) for layout in layouts for name, band in layout.bands}
    return Disorder(skews.rest, attributes, dict(skews.values), skews.column, config.link(link).delay)


def _over(inputs: LowInputs, links: Sequence[str]) -> int:
    """The first instant after the end of some links, ns; END_OF_TIME if one goes on (SEMANTICS T5)."""
    return max((inputs.ends.get(link, END_OF_TIME) for link in links), default=END_OF_TIME)


def _table(query: QueryPlan, result: ReferenceResult) -> pa.Table:
    columns = [*value_schema(query.logical.fields)]
    columns += [pa.field("_last", pa.int64()), pa.field("_tick", pa.int64())]
    schema = pa.schema(columns)
    values = [list(column) for column in zip(*result.rows, strict=True)] or [[] for _ in query.logical.fields]
    arrays = [pa.array(column, f.type) for column, f in zip([*values, result.lasts, result.ticks], schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _packets(inputs: LowInputs, node: Node, link: str, start: int) -> Iterable[pa.RecordBatch]:
    thinned = inputs.config.link(link).shed is not None
    read = [*_columns(node), *planned_skews(inputs.config, inputs.plan, link).columns, *(THINNED_BY if thinned else ())]
    start = _whole_seconds(inputs, link, start, by_arrival(node))
    batches = inputs.read(link, start).batches(list(dict.fromkeys(read)))
    return list(batches) if thinned else batches  # they are read twice


def _columns(node: Node) -> list[str]:
    """The stored columns that a logical plan reads of packets."""
    if isinstance(node, Source):
        thinned = THINNED_BY if node.sample else ()
        return stored([*(f.name for f in node.fields if f.name != ROW), *columns_of(node.member), *thinned])
    return list(dict.fromkeys(name for child in node.inputs() for name in _columns(child)))
