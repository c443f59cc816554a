"""Queries with windows of rows on Spark: the operators of the reference engine, hosted in one bucket (SEMANTICS I4).

One form of the lowering (`lower`). Such a query is evaluated by arrival, and rows are counted over all of its links, so
all of it above the low level is in one place, where its rows meet in order of arrival (docs/adr/0028).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.expr import Type
from lowwater.catalog.states import read_state, write_state
from lowwater.errors import LawError
from lowwater.high.buckets import BUCKET, bucketed
from lowwater.high.carry import Carry, leave_state, state_file
from lowwater.high.chunk import LINK_BITS, PLACE
from lowwater.high.clock import ET, LAST, TICK, EventClock
from lowwater.high.columns import event_time
from lowwater.high.expressions import SPARK_TYPES, plain
from lowwater.high.frames import Counts
from lowwater.high.order import links_of
from lowwater.plan.nodes import LftaInput, Node
from lowwater.plan.state import ROW, ROWS
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.tree import walk
from lowwater.reference.operators import MOST, Life, Operator, Promise, Row
from lowwater.reference.plan import Operators

LEAF = "_leaf"
OF_LINK = -1
"""Stands for the leaves of a link whose rows bring the numbers of their records."""

AT_LAST, AT_PLACE, AT_LEAF, AT_VALUES = 2, 3, 4, 5
"""Places in the rows of the machine; before them the bucket and the event time, from the last on all columns."""

Arrived = tuple[int, str, int, int, tuple[Any, ...]]
"""A row of an LFTA, in the order of its turn: arrival (ns), link, number of the leaf, place, values."""


def lower_by_arrival(
    node: Node, frames: Mapping[str, DataFrame], clock: EventClock, counts: Counts, carry: Carry
) -> DataFrame:
    """The rows of a query: its fields, `_last`, the instant at which each was final as its tick, event time.

    Args:
        node: high plan of the query.
        frames: rows of each LFTA, by its name, with their place.
        clock: of the query.
        counts: of the query.
        carry: what is handed over from interval to interval.
    """
    leaves = leaves_of(node)
    rows = counts.observe(_together(leaves, frames), "rows", node, rows_in=F.count(F.lit(1)))
    found = bucketed(
        node,
        rows,
        ArrivalMachine(node, carry),
        [*((f.name, SPARK_TYPES[f.type]) for f in node.fields), (LAST, "bigint"), (TICK, "bigint")],
        clock,
        counts,
        wake=bool(carry.held or carry.kept),
    )
    found = counts.observe(found, "by arrival", node, rows_out=F.count(F.lit(1)))
    return found.withColumn(ET, event_time(clock, F.col(LAST)))


def leaves_of(node: Node) -> tuple[LftaInput, ...]:
    """The LFTAs that a plan reads, each once."""
    found = {each.lfta.name: each for each in walk(node) if isinstance(each, LftaInput)}
    return tuple(found.values())


def _together(leaves: tuple[LftaInput, ...], frames: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of all leaves, each with the columns of its own, NULL in those of the others."""
    parts = []
    for number, leaf in enumerate(leaves):
        columns = [
            (plain(f.name) if at == number else F.lit(None).cast(SPARK_TYPES[f.type])).alias(f"_{at}_{f.name}")
            for at, other in enumerate(leaves)
            for f in other.lfta.stored
        ]
        own: list[Column | str] = [F.lit(0).alias(BUCKET), ET, LAST, PLACE, F.lit(number).alias(LEAF)]
        parts.append(frames[leaf.lfta.name].select(*own, *columns))
    return reduce(DataFrame.union, parts)


def _counted(leaf: LftaInput) -> bool:
    """Whether the rows of a leaf have numbers."""
    return any(field.name == ROW for field in leaf.fields)


class _Given(Operator):
    """Collects what a query gives: rows of the interval, and those that a later one owns.

    Attributes:
        rows: each with the last instant (ns) that could change it: of what an arrival lets go that is the arrival, and
            `_last` may be later, since an epoch of the clock would have ended then.
        later: rows of a later interval.
        arrival: (ns) of the record that is evaluated; END_OF_TIME while none is.
    """

    def __init__(self, end: int) -> None:
        super().__init__()
        self.rows: list[tuple[Row, int]] = []
        self.later: list[Row] = []
        self.arrival = END_OF_TIME
        self._end = end

    def row(self, port: int, row: Row) -> None:
        """Keeps a row."""
        if row.last < self._end:
            self.rows.append((row, min(row.last, self.arrival)))
        else:
            self.later.append(row)


@dataclass
class Progress:
    """State of the machine.

    Attributes:
        waiting: rows whose turn has not come.
        operators: what the operators keep, by name; None before the first row.
        numbers: records that each leaf has counted.
        records: rows of each leaf and link; of leaves whose rows bring the numbers of their records, by the link alone,
            the records of the intervals before.
        read: per link, the records of this interval as far as rows have brought their numbers.
        later: rows that a later interval owns.
    """

    waiting: list[Arrived]
    operators: Any
    numbers: dict[int, int]
    records: dict[tuple[int, str], int]
    read: dict[str, int]
    later: list[tuple[tuple[Any, ...], int]]


@dataclass(frozen=True)
class ArrivalMachine:
    """A query as a machine: takes rows in order of arrival, and promises what the clock of arrivals says.

    Attributes:
        node: high plan of the query.
        carry: start and end of the interval, how late records may be, states.
    """

    node: Node
    carry: Carry

    def begin(self) -> Any:
        """The state that the interval before left, or none."""
        if self.carry.held is None:
            return self._kept(Progress([], None, {}, {}, {}, []))
        text = state_file(self.carry.held, self.node.query).read_text(encoding="utf-8")
        at, operators, numbers, records, later = read_state(text)
        if at != self.carry.start:
            raise LawError(f"the state of query {self.node.query} is of {at} ns, not of {self.carry.start} ns")
        return self._kept(Progress([], operators, numbers, records, {}, later))

    def take(self, state: Any, rows: Iterable[tuple[Any, ...]]) -> None:
        """Keeps rows until their turn."""
        progress = self._resumed(state)
        for row in rows:
            number, place = row[AT_LEAF], row[AT_PLACE]
            begin, end = self._columns[number]
            values = tuple(row[AT_VALUES + begin : AT_VALUES + end])
            progress.waiting.append((row[AT_LAST], self._links[place >> LINK_BITS], number, place, values))
        state[:] = self._kept(progress)

    def advance(self, state: Any, promise: int) -> Iterator[tuple[Any, ...]]:
        """The rows that are final; with the last promise, the state is left behind."""
        progress = self._resumed(state)
        evaluation = _Evaluation(self.node, self.carry, progress)
        evaluation.run(promise)
        for row, final in evaluation.given.rows:
            yield (*row.values, row.last, final)
        state[:] = self._kept(progress)
        if promise >= END_OF_TIME and self.carry.kept is not None:
            records = dict(progress.records)
            for link, count in progress.read.items():
                records[OF_LINK, link] = records.get((OF_LINK, link), 0) + count
            parts = (progress.operators, progress.numbers, records, progress.later)
            leave_state(state_file(self.carry.kept, self.node.query), write_state([self.carry.end, *parts]))

    def _resumed(self, state: Any) -> Progress:
        return Progress(*(read_state(state[0]) if self._as_text else state))

    def _kept(self, progress: Progress) -> list[Any]:
        parts = [getattr(progress, part.name) for part in fields(progress)]
        return [write_state(parts)] if self._as_text else parts

    @cached_property
    def _links(self) -> list[str]:
        return links_of(self.node)

    @cached_property
    def _columns(self) -> list[tuple[int, int]]:
        """Of each leaf where its columns begin and end."""
        found, begin = [], 0
        for leaf in leaves_of(self.node):
            end = begin + len(leaf.lfta.stored)
            found.append((begin, end))
            begin = end
        return found

    @cached_property
    def _as_text(self) -> bool:
        # What is pickled has a NaN of its own for each key, and none of them would be found again.
        known = (f for each in walk(self.node) for f in (*each.fields, *getattr(each, "key_fields", ())))
        return any(field.type is Type.FLOAT for field in known)


class _Evaluation:
    """One step of a query: the operators as they were, the rows whose turn has come, a promise.

    Args:
        node: high plan.
        carry: of the interval.
        progress: where the last step ended; where this one does, once it has run.
    """

    def __init__(self, node: Node, carry: Carry, progress: Progress) -> None:
        over = END_OF_TIME if carry.latest is None else carry.latest + 1
        self._carry, self._progress, self._over = carry, progress, over
        self._plan = Operators(range(0), {}, Life(over, carry.late))
        self.given = _Given(carry.end)
        self._plan.operator(node).connect(self.given, 0)
        if progress.operators is not None:
            for name, each in self._plan.named.items():
                each.restore(progress.operators[name])
        self._leaves = [(leaf, self._plan.fed[leaf.lfta.name]) for leaf in leaves_of(node)]

    def run(self, promise: int) -> None:
        """Takes the rows that arrived before a promise (ns), then promises."""
        progress, until = self._progress, min(promise, self._carry.end)
        for values, last in progress.later:
            self.given.row(0, Row(values, last))
        for arrived in sorted((each for each in progress.waiting if each[0] < until), key=lambda each: each[:4]):
            self.given.arrival = arrived[0]
            self._feed(*arrived)
        self.given.arrival = END_OF_TIME
        progress.waiting = [each for each in progress.waiting if each[0] >= until]
        if promise >= END_OF_TIME and self._over <= self._carry.end:
            self._end()
        else:
            self._say(Promise(until - self._carry.late))
        progress.operators = {name: each.state() for name, each in self._plan.named.items()}
        progress.later = [(row.values, row.last) for row in self.given.later]

    def _feed(self, arrival: int, link: str, number: int, place: int, values: tuple[Any, ...]) -> None:
        leaf, fed = self._leaves[number]
        stamp = values[-1]
        counted, at = _counted(leaf), self._progress.numbers.get(number, 0)
        if stamp is not None:
            before = self._before(leaf, link, number, place)
            fed.receive(0, Row((*values, at) if counted else values, arrival, (stamp, link, before)))
        if counted:
            self._progress.numbers[number] = at + 1
            fed.receive(0, Promise(at + 1, ROWS, (), arrival))

    def _before(self, leaf: LftaInput, link: str, number: int, place: int) -> int:
        """How many rows, or records where several leaves read the link, precede a row on its link."""
        progress = self._progress
        if not leaf.lfta.placed:
            before = progress.records.get((number, link), 0)
            progress.records[number, link] = before + 1
            return before
        own = place & ((1 << LINK_BITS) - 1)
        progress.read[link] = max(progress.read.get(link, 0), own + 1)
        return progress.records.get((OF_LINK, link), 0) + own

    def _end(self) -> None:
        """The links have ended: nothing comes any more."""
        for leaf, fed in self._leaves:
            if _counted(leaf):
                fed.receive(0, Promise(MOST, ROWS, (), self._over - 1))
        self._say(Promise(END_OF_TIME))

    def _say(self, promise: Promise) -> None:
        for _, fed in self._leaves:
            fed.receive(0, promise)
