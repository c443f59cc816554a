"""Runs queries with windows of rows: operators of `stream/` over the rows of slices in order of arrival.

Rows are counted over all links of a query (SEMANTICS I4), so its whole high plan runs in one place, where the rows meet
in order of arrival (docs/adr/0028).
"""

from __future__ import annotations

from typing import Any

from lowwater.catalog.state_json import load_state, write_state
from lowwater.catalog.streams import LAST, TICK
from lowwater.errors import LawError
from lowwater.high.slices.canonical_order import links_of
from lowwater.high.slices.evaluate import Counts, Leaves
from lowwater.high.slices.physical.chained_operators import frame_of
from lowwater.high.slices.values import Frame
from lowwater.high.source.row_groups import LINK_BITS, PLACE
from lowwater.high.state_handover import StateHandover, state_file, write_state_file
from lowwater.plan.fields import ROWS
from lowwater.plan.operators import LftaInput, Node
from lowwater.plan.properties.state import ROW
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.tree import walk
from lowwater.reference.plan import Operators
from lowwater.stream.operators import MOST, Life, Promise, Row, StreamOperator
from lowwater.stream.values import Values

OF_LINK = -1
"""Stands for all leaves of a link whose rows bring the numbers of their records."""

ArrivedRow = tuple[int, str, int, int, Values]
"""A waiting row of an LFTA, in sort order: arrival (ns), link, number of the leaf, place, values."""


class _IntervalRows(StreamOperator):
    """Collects the output of a query: rows of the interval, and rows of later intervals.

    Attributes:
        rows: (row, instant in ns at which it was final). A row released by an arrival is final then, although its
            `_last` may be later, where an epoch of the clock would have ended.
        later: rows of a later interval.
        arrival: arrival of the present record, ns; END_OF_TIME between records.
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


class ArrivalChain:
    """Runs a query over the slices of an interval in order of arrival.

    Args:
        node: high plan of the query.
        carry: place of the interval in the chain of the query.

    Raises:
        LowwaterError: the state that the interval before left cannot be read.
        LawError: the state is of another instant.
    """

    def __init__(self, node: Node, carry: StateHandover) -> None:
        self._node, self._carry = node, carry
        self._over = END_OF_TIME if carry.latest is None else carry.latest + 1
        self._plan = Operators(range(0), {}, Life(self._over, carry.late))
        self._given = _IntervalRows(carry.end)
        self._plan.operator(node).connect(self._given, 0)
        self._leaves = [(leaf, self._plan.fed[leaf.lfta.name]) for leaf in row_leaves(node)]
        self._links = links_of(node)
        self._waiting: list[ArrivedRow] = []
        # Number of records of each leaf.
        self._numbers: dict[int, int] = {}
        # Number of rows of each (leaf, link) before this interval; leaves whose rows bring record numbers share the
        # entry OF_LINK of their link. `_read` is the number of records of a link in this interval.
        self._records: dict[tuple[int, str], int] = {}
        self._read: dict[str, int] = {}
        if carry.earlier is not None:
            self._restore(load_state(state_file(carry.earlier, node.query)))

    def take(self, name: str, frame: Frame) -> int:
        """Stores rows of an LFTA until their arrival is passed; returns their number."""
        number, leaf = next((at, leaf) for at, (leaf, _) in enumerate(self._leaves) if leaf.lfta.name == name)
        values = zip(*(frame[f.name].to_pylist() for f in leaf.lfta.stored), strict=True)
        rows = zip(frame[LAST].to_pylist(), frame[PLACE].to_pylist(), values, strict=True)
        self._waiting += [
            (last, self._links[place >> LINK_BITS], number, place, row_values) for last, place, row_values in rows
        ]
        return frame.rows

    def advance(self, promise: int) -> Frame:
        """Returns the rows that a promise (ns) makes final: fields, `_last`, and as tick the instant at which they were
        final.

        The last promise writes the state.
        """
        until = min(promise, self._carry.end)
        for arrived in sorted(
            (waiting for waiting in self._waiting if waiting[0] < until), key=lambda waiting: waiting[:4]
        ):
            self._given.arrival = arrived[0]
            self._feed(*arrived)
        self._given.arrival = END_OF_TIME
        self._waiting = [waiting for waiting in self._waiting if waiting[0] >= until]
        if promise >= END_OF_TIME and self._over <= self._carry.end:
            self._end()
        else:
            self._say(Promise(until - self._carry.late))
        rows, self._given.rows = self._given.rows, []
        if promise >= END_OF_TIME and self._carry.left is not None:
            write_state_file(state_file(self._carry.left, self._node.query), write_state(self._state()))
        return frame_of(self._node.fields, [row for row, _ in rows], **{TICK: [final for _, final in rows]})

    @property
    def held(self) -> int:
        """The number of stored rows and groups."""
        in_operators = sum(1 for operator in self._plan.named.values() for _ in operator.state_rows())
        return len(self._waiting) + len(self._given.later) + in_operators

    def _state(self) -> list[Any]:
        records = dict(self._records)
        for link, count in self._read.items():
            records[OF_LINK, link] = records.get((OF_LINK, link), 0) + count
        operators = {name: operator.state() for name, operator in self._plan.named.items()}
        later = [(row.values, row.last) for row in self._given.later]
        return [self._carry.end, operators, self._numbers, records, later]

    def _restore(self, state: Any) -> None:
        at, operators, self._numbers, self._records, later = state
        if at != self._carry.start:
            raise LawError(f"the state of query {self._node.query} is of {at} ns, not of {self._carry.start} ns")
        for name, operator in self._plan.named.items():
            operator.restore(operators[name])
        for values, last in later:
            self._given.row(0, Row(values, last))

    def _feed(self, arrival: int, link: str, number: int, place: int, values: Values) -> None:
        leaf, fed = self._leaves[number]
        stamp = values[-1]
        counted, at = _counted(leaf), self._numbers.get(number, 0)
        if stamp is not None:
            before = self._before(leaf, link, number, place)
            fed.receive(0, Row((*values, at) if counted else values, arrival, (stamp, link, before)))
        if counted:
            self._numbers[number] = at + 1
            fed.receive(0, Promise(at + 1, ROWS, (), arrival))

    def _before(self, leaf: LftaInput, link: str, number: int, place: int) -> int:
        """The number of rows (or of records, where several leaves read the link) before a row on its link."""
        if not leaf.lfta.placed:
            before = self._records.get((number, link), 0)
            self._records[number, link] = before + 1
            return before
        number_on_link = place & ((1 << LINK_BITS) - 1)
        self._read[link] = max(self._read.get(link, 0), number_on_link + 1)
        return self._records.get((OF_LINK, link), 0) + number_on_link

    def _end(self) -> None:
        """Promises the end of time, since the links have ended."""
        for leaf, fed in self._leaves:
            if _counted(leaf):
                fed.receive(0, Promise(MOST, ROWS, (), self._over - 1))
        self._say(Promise(END_OF_TIME))

    def _say(self, promise: Promise) -> None:
        for _, fed in self._leaves:
            fed.receive(0, promise)


def by_arrival(node: Node, chain: ArrivalChain, leaves: Leaves, counts: Counts, promise: int) -> Frame:
    """Evaluates a slice: returns the rows that its records and its closing promise release.

    Args:
        node: high plan of the query.
        chain: state of the query after the earlier slices.
        leaves: LFTA -> its rows.
        counts: counts of the slice.
        promise: closing promise of the slice, ns.
    """
    read, emitted = counts.point("rows", node, "rows_in"), counts.point("by arrival", node, "rows_out")
    for name, frames in leaves.items():
        for frame in frames():
            read["rows_in"] += chain.take(name, frame)
    frame_out = chain.advance(promise)
    emitted["rows_out"] += frame_out.rows
    return frame_out


def row_leaves(node: Node) -> list[LftaInput]:
    """The LFTAs that a plan reads, without duplicates."""
    by_name = {leaf.lfta.name: leaf for leaf in walk(node) if isinstance(leaf, LftaInput)}
    return list(by_name.values())


def _counted(leaf: LftaInput) -> bool:
    """Whether the rows of a leaf are numbered."""
    return any(field.name == ROW for field in leaf.fields)
