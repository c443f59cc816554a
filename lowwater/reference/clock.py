"""Virtual time: feeds records, and makes the promises of the ticks between them (SEMANTICS T2, T8).

Between `stream.records` and the operators of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lowwater.plan.fields import ROWS
from lowwater.plan.temporal import END_OF_TIME
from lowwater.stream.operators import LEAST, MOST, Life, Promise, Row, StreamOperator
from lowwater.stream.packet_source import SourceOperator
from lowwater.stream.records import Record
from lowwater.stream.values import Value, Values

PERIODIC, DATA_DRIVEN, NONE = "periodic", "data-driven", "none"
POLICIES = (PERIODIC, DATA_DRIVEN, NONE)


@dataclass(frozen=True)
class Disorder:
    """How late the records of a link may be.

    Attributes:
        skew: of their timestamps, ns.
        attributes: of temporal attributes that are no function of the clock, in their unit, by origin.
        groups: skews (ns) of values of a column; of every other value it is `skew`.
        column: the column of the packets, whose values these are.
    """

    skew: int
    attributes: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[Value, int] = field(default_factory=dict)
    column: str = ""

    @property
    def longest(self) -> int:
        """The largest skew of any value, which the link's promise keeps (SEMANTICS T8)."""
        return max([self.skew, *self.groups.values()])

    @property
    def shortest(self) -> int:
        """The smallest skew of any value."""
        return min([self.skew, *self.groups.values()])


@dataclass(frozen=True)
class RecordSelection:
    """Which records an evaluation takes.

    Attributes:
        start: the start of the interval, ns; `end` its end.
        resumed: whether what lies before the start has been taken by the interval before.
        by_arrival: whether records belong to the interval of their arrival, not of their timestamp.
        carried: whether a state is left for the next interval.
    """

    start: int
    end: int
    resumed: bool
    by_arrival: bool
    carried: bool

    def takes(self, record: Record, read_from: int) -> bool:
        """Whether a record is fed."""
        instant = record.arrival if self.by_arrival else record.timestamp
        return (self.start if self.resumed else read_from) <= instant < self.end


@dataclass(frozen=True)
class SourcePort:
    """A port of a source that reads a link.

    Attributes:
        pick: the source's columns from a record's values; the number of the record is the last of these.
        attributes: origin -> the attribute in the direction of its progress, from the same values.
        groupwise: whether the source is promised for each value of the column on its own.
        numbered: whether the source counts its records.
        judged: whether a late timestamp is a violation: not where progress is by other attributes alone.
    """

    source: SourceOperator
    port: int
    pick: Callable[[Values], Values]
    attributes: Mapping[str, Callable[[Values], int | None]]
    groupwise: bool
    numbered: bool
    judged: bool


@dataclass
class Link:
    """One link in virtual time.

    Attributes:
        group: the value of a record whose skew counts; None where all records have one skew.
        seen: the largest arrival, None before the first record.
        records: how many there were; `highest` the largest values of its attributes, by source and origin.
    """

    name: str
    disorder: Disorder
    feeds: list[SourcePort]
    group: Callable[[Values], Value] | None = None
    seen: int | None = None
    records: int = 0
    highest: dict[tuple[str, str], int] = field(default_factory=dict)


class Clock:
    """Feeds records and makes promises.

    Args:
        links: in virtual time.
        holders: operators that keep rows until a promise, with the smallest skew below each input.
        span: which records are taken.
        life: the life of the links; told to operators when it is over.
        period: ns between ticks; `policy` when promises are made.

    Attributes:
        tick: at which rows and promises that are made now are emitted, ns.
        numbers: records that each source with windows of rows has counted.
    """

    def __init__(
        self,
        links: Iterable[Link],
        holders: list[tuple[StreamOperator, list[int]]],
        span: RecordSelection,
        life: Life,
        period: int,
        policy: str,
    ) -> None:
        self.tick = 0
        self.numbers: dict[str, int] = {}
        self._links = {link.name: link for link in links}
        self._holders, self._span, self._life = holders, span, life
        self._period, self._policy = period, policy
        self._done = -1

    def record(self, record: Record) -> None:
        """One record arrives: the ticks up to it come first, then it is fed or counted as a violation."""
        if self._span.by_arrival and not self._span.takes(record, 0):
            return
        self._advance(record.arrival)
        link = self._links[record.link]
        link.seen = record.arrival
        self.tick = self._after(record.arrival)
        link.records += 1
        row = Row(
            (),
            record.arrival if self._span.by_arrival else record.timestamp,
            (record.timestamp, link.name, link.records),
        )
        for feed in link.feeds:
            self._feed(feed, link, record, row)

    def close(self) -> None:
        """The ticks after the last record, then the closing promise (SEMANTICS T6).

        Of an interval that leaves a state it is the interval's end, else it releases everything.
        """
        end = self._span.end
        latest = max((link.seen for link in self._links.values() if link.seen is not None), default=None)
        closing = 0 if latest is None else self._after(latest)
        if end < END_OF_TIME:
            self._advance(end - 1)
            closing = max(closing, end)
        elif self._life.over == END_OF_TIME and latest is not None:
            self._life.over = latest + 1
        if self._span.carried and self._life.over > end:
            self._promise(closing, [(link, end - self._behind(link)) for link in self._links.values()])
            return
        self.tick = closing
        for link in self._links.values():
            for feed in link.feeds:
                for origin in (*feed.attributes, *([ROWS] if feed.numbered else [])):
                    feed.source.receive(feed.port, Promise(MOST, origin, (), self._life.over - 1))
        self._promise(closing, [(link, END_OF_TIME) for link in self._links.values()])

    def state(self) -> Any:
        """What the next interval goes on from."""
        return [self.numbers, {name: (link.records, link.highest) for name, link in self._links.items()}]

    def restore(self, state: Any) -> None:
        """Goes on from where another interval ended."""
        self.numbers, links = state
        for name, (records, highest) in links.items():
            self._links[name].records, self._links[name].highest = records, highest

    def _feed(self, feed: SourcePort, link: Link, record: Record, row: Row) -> None:
        source, number = feed.source, 0
        if feed.numbered:
            number = self.numbers.get(source.name, 0)
            self.numbers[source.name] = number + 1
        values = (*record.values, number)
        if self._violates(feed, link, record, values):
            source.violation(feed.port, record.arrival)
        elif self._span.takes(record, source.read_from):
            source.receive(feed.port, row._replace(values=feed.pick(values)))
        for origin in feed.attributes:
            highest = link.highest.get((source.name, origin))
            if highest is not None:
                slack = link.disorder.attributes.get(origin, 0)
                source.receive(feed.port, Promise(highest - slack, origin, (), record.arrival))
        if feed.numbered:
            source.announce(Promise(number + 1, ROWS, (), record.arrival))

    def _violates(self, feed: SourcePort, link: Link, record: Record, values: Values) -> bool:
        """Whether a record is late in an attribute that counts (SEMANTICS T2, T8); notes its attributes."""
        skew = link.disorder.skew
        if link.group is not None:
            skew = link.disorder.groups.get(link.group(values), skew)
        late = feed.judged and record.arrival - record.timestamp > skew
        for origin, pick in feed.attributes.items():
            value = pick(values)
            if value is not None:
                attribute = feed.source.name, origin
                highest = max(value, link.highest.get(attribute, LEAST))
                link.highest[attribute] = highest
                late = late or highest - value > link.disorder.attributes.get(origin, 0)
        return late

    def _behind(self, link: Link) -> int:
        """How far the promise of a complete interval lags behind its end."""
        return link.disorder.longest if self._span.by_arrival else 0

    def _after(self, instant: int) -> int:
        return (instant // self._period + 1) * self._period

    def _advance(self, instant: int) -> None:
        """Makes the promises of the ticks up to and including an instant."""
        if self._policy == DATA_DRIVEN:
            promises = [
                (link, link.seen - link.disorder.longest) for link in self._links.values() if link.seen is not None
            ]
            if promises and self._done < self.tick <= instant:
                self._promise(self.tick, promises)
        elif self._policy == PERIODIC:
            latest = instant // self._period * self._period
            while self._done < latest:
                tick = min(self._due(), latest)
                self._promise(tick, [(link, tick - link.disorder.longest) for link in self._links.values()])

    def _due(self) -> int:
        """The next tick at which a promise releases a row; the ticks before it change nothing but the clock (T4)."""
        next_tick = END_OF_TIME
        for operator, skews in self._holders:
            for port, promise in operator.due():
                if promise <= self._span.end:
                    tick = -(-(promise + skews[port]) // self._period) * self._period
                    next_tick = min(next_tick, max(tick, self._done + self._period))
        return next_tick

    def _promise(self, tick: int, promises: Iterable[tuple[Link, int]]) -> None:
        self._done = self.tick = tick
        capped = [(link, i if i == END_OF_TIME else min(i, self._span.end)) for link, i in promises]
        for link, instant in capped:
            for feed in link.feeds:
                feed.source.receive(feed.port, Promise(instant))
        self._promise_groups({link.name: instant for link, instant in capped})

    def _promise_groups(self, promised: Mapping[str, int]) -> None:
        """Promises the values that have skews of their own, where all links of a source promise something (T8)."""
        feeds = [feed for link in self._links.values() for feed in link.feeds]
        for source in dict.fromkeys(feed.source for feed in feeds if feed.groupwise):
            disorder = {name: self._links[name].disorder for name in source.links}
            for value in dict.fromkeys(value for link_disorder in disorder.values() for value in link_disorder.groups):
                if disorder.keys() <= promised.keys():
                    least = min(
                        promised[n] + link_disorder.longest - link_disorder.groups.get(value, link_disorder.skew)
                        for n, link_disorder in disorder.items()
                    )
                    source.announce(Promise(min(least, self._span.end), "", (value,)))
