"""The inputs of an interval of a query set: which packets of which links its stages read, and how far it reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath

from lowwater.catalog.time import Reported, Skews, link_skews
from lowwater.config import Config
from lowwater.lake.ingestion.record_options import planned_skews
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures, life_of
from lowwater.lake.ledgers.coverage import gaps
from lowwater.lake.packets import DuplicateRule, HashedLink, LinkRead, PacketFiles, packet_files
from lowwater.plan import operators as ops, properties, queryset, temporal
from lowwater.quality.links import LinkScan, scan_link
from lowwater.reference.clock import Disorder


@dataclass(frozen=True)
class LowInputs:
    """The inputs of an interval of a query set."""

    lake: Lake
    plan: queryset.Plan
    config: Config
    start: int
    end: int
    captures: Mapping[str, Sequence[Capture]]  # link -> its captures in the order of T1
    # link -> first instant after its end, ns; links that go on are not in it
    ends: Mapping[str, int] = field(default_factory=dict)
    files_are_life: bool = False  # whether the life of a link begins with its files: of `run` (T5)
    handed: bool = False  # whether queries with a state pass it from interval to interval

    @cached_property
    def judging(self) -> Config:
        """The settings with the skews that links have within what the interval reads."""
        turning = [name for name in self.plan.links if self.config.link(name).turns]
        if not turning:
            return self.config
        starts = self.link_starts(self.plan.queries)
        links = {
            name: self.config.link(name).judging(starts.get(name, self.start), self.start, self.end) for name in turning
        }
        return self.config.model_copy(update={"links": {**self.config.links, **links}})

    @cached_property
    def lfta_starts(self) -> dict[str, int]:
        """LFTA -> first timestamp that it reads for any output query (I2), ns."""
        starts: dict[str, int] = {}
        for query in self.plan.queries:
            for name, start in self._read_from(query).items():
                starts[name] = min(start, starts.get(name, start))
        return starts

    def link_starts(self, queries: Sequence[queryset.QueryPlan]) -> dict[str, int]:
        """Link -> first timestamp that some queries read, ns."""
        return dict(self._all_starts) if queries is self.plan.queries else self._starts(queries)

    @cached_property
    def _all_starts(self) -> dict[str, int]:
        return self._starts(self.plan.queries)

    def _starts(self, queries: Sequence[queryset.QueryPlan]) -> dict[str, int]:
        starts: dict[str, int] = {}
        for query in queries:
            needed = self._read_from(query)
            for lfta in query.lftas:
                for link in lfta.links:
                    starts[link] = min(needed[lfta.name], starts.get(link, self.start))
        return starts

    def _read_from(self, query: queryset.QueryPlan) -> dict[str, int]:
        return properties.read_from(query.high, self.start, self.handed and properties.hands_over(query.high))

    def reported(self) -> dict[str, Reported]:
        """Link -> its life and the gaps of its coverage in what the interval reads (T5)."""
        found = {}
        for link, start in self.link_starts(self.plan.queries).items():
            settings, captures = self.config.link(link), Captures.of(self.captures.get(link, ()))
            since, until = life_of(settings)
            if self.files_are_life:
                since, until = max(since, captures.begin or 0), min(until, captures.end or 0)
            life = max(start, since), min(self.end, until, self.ends.get(link, temporal.END_OF_TIME))
            told = gaps(link, captures, settings, *life) if life[0] < life[1] else []
            found[link] = Reported(life, tuple((gap.since, gap.until) for gap in told))
        return found

    def disorder(self, query: queryset.QueryPlan) -> dict[str, tuple[int, Mapping[str, int]]]:
        """Link -> its skew and the disorder of its other attributes, where the high level judges lateness (T8)."""
        lateness = {link: disorder_of(self.judging, link, query.lftas) for link in query.links}
        return {link: (each.skew, each.attributes) for link, each in lateness.items() if each.attributes}

    @property
    def packets(self) -> int:
        """The approximate number of packets that the low stage reads: all of captures that overlap the read ranges."""
        starts = self.link_starts(self.plan.queries)
        ledger = {link: Captures.of(self.captures.get(link, ())) for link in starts}
        return sum(
            ledger[link][at].packets for link, start in starts.items() for at in ledger[link].meeting(start, self.end)
        )

    def read(self, link: str, start: int) -> LinkRead:
        """Reads the packets of a link from a timestamp on, in canonical order, without dropped copies (D4)."""
        read, rule = self._read(link, start), self.config.link(link).duplicates
        if rule == "keep":
            return read
        return replace(
            read, copies=DuplicateRule(rule.window, rule.action == "drop", self._hashed(link, start, rule.window))
        )

    def _read(self, link: str, start: int) -> LinkRead:
        captures, settings = self.captures.get(link, ()), self.config.link(link)
        table = self.lake.table_of(link, settings.kind != "pcap")
        if table not in self._files:
            self._files[table] = PacketFiles.of_table(table)
        return packet_files(self._files[table], link, captures, settings, start, self.start, self.end)

    def _hashed(self, link: str, start: int, window: int) -> HashedLink:
        """The files among which earlier packets of a read from `start` on are looked for (D2)."""
        skews = planned_skews(self.judging, self.plan, link)
        return HashedLink(self._read(link, min(start, self.start - skews.longest) - window), skews)

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
        return read, planned_skews(self.judging, self.plan, link)


def arrival_lag(config: Config, links: Sequence[str], plan: ops.Node) -> int:
    """The time (ns) by which an epoch of a plan evaluated by arrival ends later: the largest skew of its links;
    otherwise 0."""
    return max(config.link(link).longest_skew for link in links) if properties.by_arrival(plan) else 0


def last_instant(config: Config, query: queryset.QueryPlan, latest: int) -> int:
    """The largest `_last` (ns) of a query whose last packet is at `latest` (ns)."""
    last = properties.horizon(query.logical, latest) + arrival_lag(config, query.links, query.logical)
    return min(last, temporal.END_OF_TIME - 1)


def disorder_of(config: Config, link: str, lftas: Sequence[ops.Lfta]) -> Disorder:
    """The lateness that a link allows: of its clock, and of other attributes as its settings say, else the protocol."""
    layouts = [lfta.layout for lfta in lftas if link in lfta.links and lfta.layout is not None]
    skews, own = link_skews(config, link, next(iter(layouts), None)), config.link(link).skews
    attributes = {f"{layout.protocol}.{name}": own.get(name, band) for layout in layouts for name, band in layout.bands}
    return Disorder(skews.rest, attributes, dict(skews.values), skews.column, config.link(link).delay, skews.turns)
