"""Queries that run by order of arrival (docs/adr/0028): windows of rows, and progress by an attribute that is no
function of the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog import expr as ex, state_json
from lowwater.catalog.schemas import LAST, TICK
from lowwater.catalog.time import is_late
from lowwater.columns.files import LINK_BITS, PLACE
from lowwater.columns.values import Frame, concat_frames
from lowwater.errors import LawError
from lowwater.high.operators import StateHandover, frame_of, links_of
from lowwater.plan import operators as ops, properties, temporal
from lowwater.reference.engine import Operators
from lowwater.stream.groups import GroupOperator
from lowwater.stream.maps import BucketOperator
from lowwater.stream.operators import MOST, Life, Promise, Row, StreamOperator
from lowwater.stream.values import Value, Values

# Where a query only counts (one LFTA, windows that count the rows of a condition and follow one another, count(*)
# above them), the rows of a window that have equal columns differ in nothing: Arrow counts them, and the operators
# take each combination once.

_EXACT = (ex.Type.INT, ex.Type.BOOL, ex.Type.IP, ex.Type.MAC, ex.Type.INSTANT)
"""Types whose equality in Arrow is that of Python."""
_AT = "_at"
"""Column with the place of a row: groups are opened in the order of their first rows."""


class WindowCounts:
    """The windows of a query that only counts, and the aggregation over them; `columns` are those that it reads."""

    def __init__(self, bucket: ops.Bucket, group: ops.Group, plan: Operators) -> None:
        windows, groups = plan.operator(bucket), plan.operator(group)
        assert isinstance(windows, BucketOperator) and isinstance(groups, GroupOperator)
        self._windows, self._groups, self._range = windows, groups, bucket.range
        read = set(ex.columns_of(*(key.expr for key in group.keys)))
        self.columns = [f.name for f in bucket.input.fields if f.name in read]
        self._places = [at for at, f in enumerate(bucket.fields) if f.name in self.columns]
        self._width = len(bucket.fields)

    def count(self, frame: Frame, given: IntervalRows) -> dict[int, int]:
        """Counts rows that have arrived, and closes the windows that they fill; returns number of the link -> number of
        its rows, in the order of their first rows."""
        table = pa.table(frame.columns).sort_by([(LAST, "ascending"), (PLACE, "ascending")])
        position = 0
        while position < table.num_rows:
            number = self._windows.counted
            size = min(table.num_rows - position, self._range - number % self._range)
            part = table.slice(position, size)
            for values, equal in self._combinations(part, number // self._range):
                self._groups.add_equal(values, equal)
            self._windows.counted = number + size
            position += size
            if self._windows.counted % self._range == 0:
                given.arrival = part[LAST][size - 1].as_py()
                self._windows.emit(Promise(number + size, ops.ROWS, (), given.arrival))
        links, first, rows = np.unique(table[PLACE].to_numpy() >> LINK_BITS, return_index=True, return_counts=True)
        return {int(links[at]): int(rows[at]) for at in np.argsort(first)}

    def _combinations(self, part: pa.Table, window: int) -> Iterator[tuple[Values, int]]:
        """Values of a row as the aggregation reads it, and the number of equal rows, in the order of the first ones."""
        if not self.columns:
            yield (*[None] * (self._width - 1), window), part.num_rows
            return
        part = part.select(self.columns).append_column(_AT, pa.array(np.arange(part.num_rows)))
        counted = part.group_by(self.columns, use_threads=False).aggregate([([], "count_all"), (_AT, "min")])
        counted = counted.sort_by(f"{_AT}_min")
        columns = [counted[name].to_pylist() for name in (*self.columns, "count_all")]
        for *combination, rows in zip(*columns, strict=True):
            values: list[Value] = [None] * self._width
            for place, value in zip(self._places, combination, strict=True):
                values[place] = value
            values[-1] = window
            yield tuple(values), rows


def window_counts(node: ops.Node, leaves: Sequence[ops.LftaInput], plan: Operators) -> WindowCounts | None:
    """Returns the windows of a high plan over these leaves, if its query only counts; else None."""
    nodes = set(ops.walk(node))
    buckets = [below for below in nodes if isinstance(below, ops.Bucket)]
    readers = [above for above in nodes for below in above.inputs() if below in (*leaves, *buckets)]
    if len(leaves) != 1 or len(buckets) != 1 or len(readers) != 2 or leaves[0].lfta.placed or leaves[0].lfta.whole:
        return None
    bucket, group = buckets[0], next((above for above in readers if isinstance(above, ops.Group)), None)
    if group is None or group.input != bucket or bucket.input != leaves[0] or group.predicate is not None:
        return None
    tumbling = bucket.rows and bucket.range == bucket.slide and not bucket.partition
    if not tumbling or not isinstance(bucket.counted, ex.Const) or bucket.counted.value is not True:
        return None
    stored = {f.name: f.type for f in leaves[0].lfta.stored}
    read = ex.columns_of(*(key.expr for key in group.keys), *(a.argument for a in group.aggregates))
    types = [stored.get(name) for name in read if name != bucket.name]
    only_counts = all(a.native is not None and a.native.fold is None and a.argument is None for a in group.aggregates)
    return WindowCounts(bucket, group, plan) if only_counts and all(kind in _EXACT for kind in types) else None


# Rows are counted, and values promised, over all links of a query (SEMANTICS I4, T8), so its whole high plan runs in
# one place, where the rows meet in order of arrival (docs/adr/0028).

OF_LINK = -1
"""Stands for all leaves of a link whose rows bring the numbers of their records."""


class IntervalRows(StreamOperator):
    """Collects the output of a query: `rows` of the interval, each with the instant (ns) at which it was final, and
    `later` rows. One that a record released is final at its `arrival`, although an epoch of the clock may end later."""

    def __init__(self, end: int) -> None:
        super().__init__()
        self.rows: list[tuple[Row, int]] = []
        self.later: list[Row] = []
        self.arrival = temporal.END_OF_TIME
        self._end = end

    def row(self, port: int, row: Row) -> None:
        if row.last < self._end:
            self.rows.append((row, min(row.last, self.arrival)))
        else:
            self.later.append(row)


class ArrivalChain:
    """Runs the high plan of a query over the slices of an interval in order of arrival.

    Raises:
        LawError: the state that the interval before left is of another instant.
    """

    def __init__(self, node: ops.Node, carry: StateHandover) -> None:
        self._node, self._carry = node, carry
        self._over = temporal.END_OF_TIME if carry.latest is None else carry.latest + 1
        self._plan = Operators(range(0), {}, Life(self._over, carry.late))
        self._given = IntervalRows(carry.end)
        self._plan.operator(node).connect(self._given, 0)
        by_name = {leaf.lfta.name: leaf for leaf in ops.walk(node) if isinstance(leaf, ops.LftaInput)}
        self._leaves = [(leaf, self._plan.fed[name]) for name, leaf in by_name.items()]
        self._progress = [LeafProgress(leaf, self._plan.origins, carry.disorder) for leaf, _ in self._leaves]
        self._links = links_of(node)
        self._window_counts = window_counts(node, [leaf for leaf, _ in self._leaves], self._plan)
        # Rows of each leaf that are held until their arrival is passed.
        self._waiting: list[list[Frame]] = [[] for _ in self._leaves]
        # Number of records of each leaf.
        self._numbers: dict[int, int] = {}
        # Number of rows of each (leaf, link) before this interval; leaves whose rows bring record numbers share the
        # entry OF_LINK of their link. `_read` is the number of records of a link in this interval.
        self._records: dict[tuple[int, str], int] = {}
        self._read: dict[str, int] = {}
        if carry.earlier is not None:
            self._restore(carry.earlier.of(node.query))

    def take(self, name: str, frame: Frame) -> int:
        """Stores rows of an LFTA until their arrival is passed; returns their number."""
        number, leaf = next((at, leaf) for at, (leaf, _) in enumerate(self._leaves) if leaf.lfta.name == name)
        names = self._window_counts.columns if self._window_counts else [f.name for f in leaf.lfta.stored]
        if frame.rows:
            self._waiting[number].append(Frame({each: frame[each] for each in (*names, LAST, PLACE)}, frame.rows))
        return frame.rows

    def advance(self, promise: int) -> Frame:
        """Returns the rows that a promise (ns) makes final: fields, `_last`, and as tick the instant at which they were
        final.
        """
        until = min(promise, self._carry.end)
        passed = [(number, self._passed(number, until)) for number, frames in enumerate(self._waiting) if frames]
        if self._window_counts is not None:
            for _, frame in passed:
                for link, rows in self._window_counts.count(frame, self._given).items():
                    key = 0, self._links[link]
                    self._records[key] = self._records.get(key, 0) + rows
                    self._numbers[0] = self._numbers.get(0, 0) + rows
        else:
            arrived = [row for number, frame in passed for row in self._rows_of(number, frame)]
            for row in sorted(arrived, key=lambda row: row[:4]):
                self._given.arrival = row[0]
                self._feed(*row)
        self._given.arrival = temporal.END_OF_TIME
        if promise >= temporal.END_OF_TIME and self._over <= self._carry.end:
            self._end()
        else:
            self._say(Promise(until - self._carry.late))
        made, self._given.rows = self._given.rows, []
        return frame_of(self._node.fields, [row for row, _ in made], **{TICK: [final for _, final in made]})

    def _passed(self, number: int, until: int) -> Frame:
        """Takes the rows of a leaf that arrived before an instant (ns)."""
        frame = concat_frames(self._waiting[number])
        before = pc.less(frame[LAST], until)
        later = frame.where(pc.invert(before))
        self._waiting[number] = [later] if later.rows else []
        return frame.where(before)

    def _rows_of(self, number: int, frame: Frame) -> Iterator[tuple[int, str, int, int, Values]]:
        """Yields rows of a leaf, in sort order: arrival (ns), link, number of the leaf, place, values."""
        values = zip(*(frame[f.name].to_pylist() for f in self._leaves[number][0].lfta.stored), strict=True)
        for last, place, row in zip(frame[LAST].to_pylist(), frame[PLACE].to_pylist(), values, strict=True):
            yield last, self._links[place >> LINK_BITS], number, place, row

    @property
    def held(self) -> int:
        """The number of stored rows and groups."""
        in_operators = sum(1 for operator in self._plan.named.values() for _ in operator.state_rows())
        return sum(frame.rows for frames in self._waiting for frame in frames) + len(self._given.later) + in_operators

    def state(self) -> bytes:
        """The state for the interval after."""
        records = dict(self._records)
        for link, count in self._read.items():
            records[OF_LINK, link] = records.get((OF_LINK, link), 0) + count
        operators = {name: operator.state() for name, operator in self._plan.named.items()}
        later = [(row.values, row.last) for row in self._given.later]
        state = [self._carry.end, operators, self._numbers, records, later]
        # Queries that only count rows keep the form of earlier versions.
        highest = [progress.highest for progress in self._progress]
        attributes = any(progress.attributes for progress in self._progress)
        return state_json.write_state([*state, highest] if attributes else state).encode()

    def _restore(self, state: Any) -> None:
        at, operators, self._numbers, self._records, later, *highest = state
        for progress, values in zip(self._progress, highest[0] if highest else (), strict=bool(highest)):
            progress.highest = values
        if at != self._carry.start:
            raise LawError(f"the state of query {self._node.query} is of {at} ns, not of {self._carry.start} ns")
        for name, operator in self._plan.named.items():
            operator.restore(operators[name])
        for values, last in later:
            self._given.row(0, Row(values, last))

    def _feed(self, arrival: int, link: str, number: int, place: int, values: Values) -> None:
        leaf, fed = self._leaves[number]
        stamp = values[-1]
        progress, at = self._progress[number], self._numbers.get(number, 0)
        late = progress.take(link, arrival, values) if stamp is not None else False
        if stamp is not None:
            before = self._before(leaf, link, number, place)
            if not late:
                fed.receive(0, Row((*values, at) if progress.counted else values, arrival, (stamp, link, before)))
        for promise in progress.promises(link, arrival):
            fed.receive(leaf.lfta.links.index(link), promise)
        if progress.counted:
            self._numbers[number] = at + 1
            fed.emit(Promise(at + 1, ops.ROWS, (), arrival))

    def _before(self, leaf: ops.LftaInput, link: str, number: int, place: int) -> int:
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
        for (_, fed), progress in zip(self._leaves, self._progress, strict=True):
            for origin in (*progress.attributes, *([ops.ROWS] if progress.counted else [])):
                for port in range(fed.ports):
                    fed.receive(port, Promise(MOST, origin, (), self._over - 1))
        self._say(Promise(temporal.END_OF_TIME))

    def _say(self, promise: Promise) -> None:
        for _, fed in self._leaves:
            for port in range(fed.ports):
                fed.receive(port, promise)


class LeafProgress:
    """The progress of one leaf by attributes that are no functions of the clock (SEMANTICS T8).

    Args:
        origins: attributes by which operators of the query make progress; the clock is the empty string.

    Attributes:
        counted: whether the rows of the leaf are numbered.
        attributes: origin -> (place in the row, whether it increases).
        highest: link -> origin -> largest value so far, negated where the attribute decreases.
    """

    def __init__(
        self, leaf: ops.LftaInput, origins: AbstractSet[str], disorder: Mapping[str, tuple[int, Mapping[str, int]]]
    ) -> None:
        self.counted = any(column.name == properties.ROW for column in leaf.fields)
        self.attributes: dict[str, tuple[int, bool]] = {}
        for at, (key, column) in enumerate(zip(leaf.lfta.keys, leaf.fields, strict=False) if leaf.lfta.whole else ()):
            time = column.temporal
            if isinstance(key.expr, ex.Column) and time and time.origin in origins - {"", ops.ROWS}:
                self.attributes[time.origin] = at, time.increasing
        self.highest: dict[str, dict[str, int]] = {}
        self._stamp = next((at for at, column in enumerate(leaf.lfta.stored) if column.name == properties.TIMESTAMP), 0)
        self._whole, self._disorder = leaf.lfta.whole, disorder
        self._judged = leaf.lfta.whole and (not self.attributes or bool(origins & {"", ops.ROWS}))

    def take(self, link: str, arrival: int, values: Values) -> bool:
        """Takes the attributes of a record; returns whether it violates (T2, T8): it is late in an attribute, or in a
        clock that counts, or has no value of an attribute."""
        if not self._whole:
            return False
        skew, allowed = self._disorder[link]
        stamp = values[self._stamp]
        late = self._judged and isinstance(stamp, int) and is_late(arrival, stamp, skew)
        highest = self.highest.setdefault(link, {})
        for origin, (at, increasing) in self.attributes.items():
            value = values[at]
            if not isinstance(value, int):
                late = True
            else:
                value = value if increasing else -value
                highest[origin] = max(value, highest.get(origin, value))
                late = late or is_late(highest[origin], value, allowed.get(origin, 0))
        return late

    def promises(self, link: str, arrival: int) -> Iterator[Promise]:
        """Yields what a link promises of each attribute after a record, at its arrival (ns)."""
        if self.attributes:
            allowed = self._disorder[link][1]
            for origin, value in self.highest.get(link, {}).items():
                yield Promise(value - allowed.get(origin, 0), origin, (), arrival)
