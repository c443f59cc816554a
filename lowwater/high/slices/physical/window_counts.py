"""Counts rows of windows of rows by columns: many equal rows are one step of the operators above.

`arrival` uses it where a query only counts: one LFTA, windows that count the rows of a condition and follow one
another, and count(*) above them. Then the rows of a window that have equal columns differ in nothing, so Arrow counts
them, and the operators take each combination once (docs/adr/0028).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.expr import Const, Type, columns_of
from lowwater.catalog.streams import LAST
from lowwater.high.slices.values import Frame, concat_frames
from lowwater.high.source.row_groups import LINK_BITS, PLACE
from lowwater.plan.fields import ROWS
from lowwater.plan.operators import Bucket, Group, LftaInput, Node
from lowwater.plan.tree import walk
from lowwater.reference.plan import Operators
from lowwater.stream.groups import GroupOperator
from lowwater.stream.maps import BucketOperator
from lowwater.stream.operators import Promise
from lowwater.stream.values import Value, Values

_EXACT = (Type.INT, Type.BOOL, Type.IP, Type.MAC)
"""Types whose equality in Arrow is that of Python."""
_AT = "_at"
"""Column with the place of a row: groups are opened in the order of their first rows."""


class WindowCounts:
    """The windows of a query that only counts.

    Args:
        bucket: windows over the LFTA.
        group: the aggregation over them.
        plan: the operators of the query.
    """

    def __init__(self, bucket: Bucket, group: Group, plan: Operators) -> None:
        windows, groups = plan.operator(bucket), plan.operator(group)
        assert isinstance(windows, BucketOperator) and isinstance(groups, GroupOperator)
        self._windows, self._groups, self._range = windows, groups, bucket.range
        read = set(columns_of(*(key.expr for key in group.keys)))
        self._columns = [f.name for f in bucket.input.fields if f.name in read]
        self._places = [at for at, f in enumerate(bucket.fields) if f.name in self._columns]
        self._width = len(bucket.fields)
        self._frames: list[Frame] = []

    def take(self, frame: Frame) -> None:
        """Stores rows until their arrival is passed."""
        self._frames.append(Frame({name: frame[name] for name in (*self._columns, LAST, PLACE)}, frame.rows))

    @property
    def held(self) -> int:
        """The number of stored rows."""
        return sum(frame.rows for frame in self._frames)

    def advance(self, until: int, arrived: Callable[[int], None]) -> dict[int, int]:
        """Counts the rows that arrived before an instant, and closes the windows that they fill.

        Args:
            until: the instant, ns.
            arrived: is told the arrival (ns) of the last row of a window before the window closes.

        Returns:
            Number of the link -> number of its rows, in the order of their first rows.
        """
        if not self._frames:
            return {}
        frame = concat_frames(self._frames)
        before = pc.less(frame[LAST], until)
        now, later = frame.where(before), frame.where(pc.invert(before))
        self._frames = [later] if later.rows else []
        if not now.rows:
            return {}
        table = pa.table(now.columns)
        table = table.take(pc.sort_indices(table, [(LAST, "ascending"), (PLACE, "ascending")]))
        self._count(table, arrived)
        links, first, rows = np.unique(table[PLACE].to_numpy() >> LINK_BITS, return_index=True, return_counts=True)
        return {int(links[at]): int(rows[at]) for at in np.argsort(first)}

    def _count(self, table: pa.Table, arrived: Callable[[int], None]) -> None:
        position = 0
        while position < table.num_rows:
            number = self._windows.counted
            size = min(table.num_rows - position, self._range - number % self._range)
            part = table.slice(position, size)
            for values, rows in self._combinations(part, number // self._range):
                self._groups.add_equal(values, rows)
            self._windows.counted = number + size
            position += size
            if self._windows.counted % self._range == 0:
                arrival = part[LAST][size - 1].as_py()
                arrived(arrival)
                self._windows.emit(Promise(number + size, ROWS, (), arrival))

    def _combinations(self, part: pa.Table, window: int) -> Iterator[tuple[Values, int]]:
        """Values of a row as the aggregation reads it, and the number of equal rows, in the order of the first ones."""
        if not self._columns:
            yield (*[None] * (self._width - 1), window), part.num_rows
            return
        part = part.select(self._columns).append_column(_AT, pa.array(np.arange(part.num_rows)))
        counted = part.group_by(self._columns, use_threads=False).aggregate([([], "count_all"), (_AT, "min")])
        counted = counted.sort_by(f"{_AT}_min")
        columns = [counted[name].to_pylist() for name in (*self._columns, "count_all")]
        for *combination, rows in zip(*columns, strict=True):
            values: list[Value] = [None] * self._width
            for place, value in zip(self._places, combination, strict=True):
                values[place] = value
            values[-1] = window
            yield tuple(values), rows


def window_counts(node: Node, leaves: Sequence[LftaInput], plan: Operators) -> WindowCounts | None:
    """Returns the windows of a query that only counts; None for any other query.

    Args:
        node: high plan of the query.
        leaves: its LFTAs.
        plan: the operators of the query.
    """
    nodes = set(walk(node))
    buckets = [below for below in nodes if isinstance(below, Bucket)]
    readers = [above for above in nodes for below in above.inputs() if below in (*leaves, *buckets)]
    if len(leaves) != 1 or len(buckets) != 1 or len(readers) != 2 or leaves[0].lfta.placed or leaves[0].lfta.whole:
        return None
    bucket, group = buckets[0], next((above for above in readers if isinstance(above, Group)), None)
    if group is None or group.input != bucket or bucket.input != leaves[0] or group.predicate is not None:
        return None
    tumbling = bucket.rows and bucket.range == bucket.slide and not bucket.partition
    if not tumbling or not isinstance(bucket.counted, Const) or bucket.counted.value is not True:
        return None
    stored = {f.name: f.type for f in leaves[0].lfta.stored}
    read = columns_of(*(key.expr for key in group.keys), *(a.argument for a in group.aggregates))
    types = [stored.get(name) for name in read if name != bucket.name]
    only_counts = all(a.native is not None and a.native.fold is None and a.argument is None for a in group.aggregates)
    return WindowCounts(bucket, group, plan) if only_counts and all(kind in _EXACT for kind in types) else None
