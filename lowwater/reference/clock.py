"""Virtual time: feeds records to sources and makes the promises of ticks (SEMANTICS T2, T8).

Takes the records of `stream.records`; the operators of a plan receive them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowwater.plan import operators as ops, temporal
from lowwater.stream.operators import LEAST, MOST, Life, Promise, Row, StreamOperator
from lowwater.stream.records import Record, SourceOperator
from lowwater.stream.values import Value, Values

PERIODIC, DATA_DRIVEN, NONE = "periodic", "data-driven", "none"
POLICIES = (PERIODIC, DATA_DRIVEN, NONE)


@dataclass(frozen=True)
class Disorder:
    """The lateness that a link allows."""

    skew: int  # largest lateness of timestamps, ns
    # origin -> allowed disorder of a temporal attribute other than the clock, in its unit
    attributes: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[Value, int] = field(default_factory=dict)  # value of `column` -> skew, ns; other values have `skew`
    column: str = ""  # column of packets that `groups` refers to; empty without groups
    delay: int = 0  # by how much promises come later than they could, ns (T2)
    turns: Sequence[tuple[int, int]] = ()  # (instant, skew from it on) pairs, ns, by the own time of records

    @property
    def lag(self) -> int:
        """How far a promise is behind its tick, ns."""
        return self.longest + self.delay

    @property
    def longest(self) -> int:
        """The largest skew of any value; the promise of the link allows for it (SEMANTICS T8)."""
        return max([self.skew, *self.groups.values(), *(skew for _, skew in self.turns)])

    @property
    def least_lag(self) -> int:
        """How far the promise of the value with the smallest skew is behind its tick, ns."""
        return min([self.skew, *self.groups.values(), *(skew for _, skew in self.turns)]) + self.delay


@dataclass(frozen=True)
class RecordSelection:
    """The records that an evaluation feeds."""

    start: int
    end: int
    resumed: bool  # whether the evaluation continues a state, so that earlier records are not fed again
    by_arrival: bool  # whether records belong to the interval of their arrival, not of their timestamp
    carried: bool  # whether the evaluation leaves a state for the next interval

    def takes(self, record: Record, read_from: int) -> bool:
        """Whether a record is fed."""
        instant = record.arrival if self.by_arrival else record.timestamp
        return (self.start if self.resumed else read_from) <= instant < self.end


@dataclass(frozen=True)
class SourcePort:
    """The port of a source that reads a link."""

    source: SourceOperator
    port: int
    # selects the columns of the source from the values of a record, which end with the number of the record
    pick: Callable[[Values], Values]
    # origin -> selects the attribute from the same values, negated where it decreases
    attributes: Mapping[str, Callable[[Values], int | None]]
    groupwise: bool  # whether each value of the column has its own promises
    numbered: bool  # whether the source counts its records
    judged: bool  # whether a late timestamp is a violation; not where only other attributes progress


@dataclass
class Link:
    """The state of one link in virtual time.

    Attributes:
        group: selects the value that determines the skew of a record; None where all records have one skew.
        seen: largest arrival, ns; None before the first record.
        highest: (source, origin) -> largest value of the attribute.
    """

    name: str
    disorder: Disorder
    feeds: list[SourcePort]
    group: Callable[[Values], Value] | None = None
    seen: int | None = None
    records: int = 0
    highest: dict[tuple[str, str], int] = field(default_factory=dict)


class Clock:
    """The clock of an evaluation: feeds records and makes promises.

    Args:
        holders: operators that keep rows until a promise, with the smallest skew (ns) below each input.
        life: end of the links; set at the closing where it is unknown.

    Attributes:
        tick: tick of the rows and promises that are emitted now, ns.
        numbers: source with windows of rows -> number of its records.
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
        """Takes one record: makes the ticks up to its arrival, then feeds it or counts it as a violation."""
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
        """Makes the ticks after the last record, then the closing promise (SEMANTICS T6).

        In an interval that leaves a state, the closing promise is the end of the interval; otherwise it releases
        everything.
        """
        end = self._span.end
        latest = max((link.seen for link in self._links.values() if link.seen is not None), default=None)
        closing = 0 if latest is None else self._after(latest)
        if end < temporal.END_OF_TIME:
            self._advance(end - 1)
            closing = max(closing, end)
        elif self._life.over == temporal.END_OF_TIME and latest is not None:
            self._life.over = latest + 1
        if self._span.carried and self._life.over > end:
            self._promise(closing, [(link, end - self._behind(link)) for link in self._links.values()])
            return
        self.tick = closing
        for link in self._links.values():
            for feed in link.feeds:
                for origin in (*feed.attributes, *([ops.ROWS] if feed.numbered else [])):
                    feed.source.receive(feed.port, Promise(MOST, origin, (), self._life.over - 1))
        self._promise(closing, [(link, temporal.END_OF_TIME) for link in self._links.values()])

    def state(self) -> Any:
        return [self.numbers, {name: (link.records, link.highest) for name, link in self._links.items()}]

    def restore(self, state: Any) -> None:
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
            source.announce(Promise(number + 1, ops.ROWS, (), record.arrival))

    def _violates(self, feed: SourcePort, link: Link, record: Record, values: Values) -> bool:
        """Whether a record is late in an attribute that counts, or has no value of it (SEMANTICS T2, T8).

        Updates the highest values. The oracle states the rule itself, and does not ask `catalog.time`.
        """
        skew = link.disorder.skew
        if link.group is not None:
            skew = link.disorder.groups.get(link.group(values), skew)
        for since, from_then in link.disorder.turns:
            skew = from_then if record.timestamp >= since else skew
        late = feed.judged and record.arrival - record.timestamp > skew
        for origin, pick in feed.attributes.items():
            value = pick(values)
            if value is None:
                late = True
            else:
                attribute = feed.source.name, origin
                highest = max(value, link.highest.get(attribute, LEAST))
                link.highest[attribute] = highest
                late = late or highest - value > link.disorder.attributes.get(origin, 0)
        return late

    def _behind(self, link: Link) -> int:
        """The time by which the promise of a complete interval trails its end, ns."""
        return link.disorder.longest if self._span.by_arrival else 0

    def _after(self, instant: int) -> int:
        return (instant // self._period + 1) * self._period

    def _advance(self, instant: int) -> None:
        """Makes the promises of the ticks up to and including an instant."""
        if self._policy == DATA_DRIVEN:
            promises = [(link, link.seen - link.disorder.lag) for link in self._links.values() if link.seen is not None]
            if promises and self._done < self.tick <= instant:
                self._promise(self.tick, promises)
        elif self._policy == PERIODIC:
            latest = instant // self._period * self._period
            while self._done < latest:
                tick = min(self._due(), latest)
                self._promise(tick, [(link, tick - link.disorder.lag) for link in self._links.values()])

    def _due(self) -> int:
        """The next tick at which a promise releases a row; earlier ticks only move the clock (T4)."""
        next_tick = temporal.END_OF_TIME
        for operator, skews in self._holders:
            for port, promise in operator.due():
                if promise <= self._span.end:
                    tick = -(-(promise + skews[port]) // self._period) * self._period
                    next_tick = min(next_tick, max(tick, self._done + self._period))
        return next_tick

    def _promise(self, tick: int, promises: Iterable[tuple[Link, int]]) -> None:
        self._done = self.tick = tick
        capped = [(link, i if i == temporal.END_OF_TIME else min(i, self._span.end)) for link, i in promises]
        for link, instant in capped:
            for feed in link.feeds:
                feed.source.receive(feed.port, Promise(instant))
        self._promise_groups({link.name: instant for link, instant in capped})

    def _promise_groups(self, promised: Mapping[str, int]) -> None:
        """Makes the promises of values with their own skew, where all links of a source promise something (T8)."""
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
