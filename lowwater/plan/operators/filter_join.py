"""Semi join: rows of a source that a matching row of another source precedes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from lowwater.catalog.expr import Column, Expr
from lowwater.plan.fields import Item, Place, exprs_of, off_clock, written
from lowwater.plan.operators.base import Facts, Final, Node, Physical
from lowwater.plan.operators.map import CARRIED_THROUGH
from lowwater.plan.temporal import Temporal, infer


@dataclass(frozen=True)
class FilterJoin(Node, facts=Facts("FILTER_JOIN", passes=False, waits=True, outlives="", promise=CARRIED_THROUGH)):
    """Semi join: keeps a left row if a right row with equal keys precedes it by at most `range` (O6).

    Both sides are packets of one link. `_last` of a left row is the last instant at which its match may still come.
    That is the end of the left row's unit of t; for a decreasing t it is the end of the unit t - range.

    Attributes:
        left: the rows to filter.
        right: the rows to search for a match, on the same links.
        left_alias: prefix of the left columns.
        right_alias: prefix of the right columns.
        keys: pairs of equal expressions (over the left row, over the right row).
        left_time: the attribute t of FILTER_JOIN(t, range) over the left row.
        right_time: the attribute t over the right row.
        range: the largest distance of two matching rows, in units of the attribute.
        items: the output columns over the left row.
        algorithm: the algorithm that DEFINE asks for, shown by EXPLAIN; it does not change the rows.
        place: line and column in the text of the query.
    """

    left: Node
    right: Node
    left_alias: str
    right_alias: str
    keys: tuple[tuple[Expr, Expr], ...]
    left_time: Expr
    right_time: Expr
    range: int
    items: tuple[Item, ...]
    algorithm: str
    place: Place = field(default=(0, 0), compare=False)

    def inputs(self) -> tuple[Node, ...]:
        """Returns the left and the right input."""
        return (self.left, self.right)

    def over(self, *inputs: Node) -> Self:
        """Returns the join over two other inputs with the same columns."""
        left, right = inputs
        return replace(self, left=left, right=right)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the times, keys and items."""
        ties = [expr for pair in self.keys for expr in pair]
        return written(self.left_time, self.right_time, *ties, *exprs_of(self.items))

    def physical(self) -> Physical:
        """Returns a semi join by slices of time."""
        return Physical("semi join in slices", "rows of a slice wait until a promise passes their window")

    @property
    def time(self) -> Temporal:
        """The temporal property of the attribute t of FILTER_JOIN(t, range)."""
        times = {f"{self.right_alias}.{field.name}": field.temporal for field in self.right.fields if field.temporal}
        time = infer(self.right_time, times)
        assert time is not None
        return time

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Returns the first instants (ns) of the left rows final at `start` and of their possible matches."""
        time = self.time
        if time.origin:
            return 0, 0
        value = time.promise(start)
        left = value if time.increasing else value + self.range
        right = value - self.range if time.increasing else value + self.range
        return max(0, time.first(left)), max(0, time.first(right))

    def ends(self, latest: int) -> list[int]:
        """Returns the last instant (ns) at which a match of the last left row may still come."""
        final = self.final(0)
        return [final(latest)] if final else []

    def final(self, port: int) -> Final | None:
        """Returns when a left row is final: at the end of the wait for its match."""
        time = self.time
        if port or time.origin:
            return None
        reach = 0 if time.increasing else self.range
        return lambda last: max(last, time.last(time.latest(last) - reach))

    def origins(self) -> tuple[str, ...]:
        """Returns the origin of t where t is a column; else the clock."""
        if not isinstance(self.right_time, Column):
            return ("",)
        name = self.right_time.name.removeprefix(f"{self.right_alias}.")
        return (off_clock([field for field in self.right.fields if field.name == name]),)

    def grain(self) -> int:
        """Returns 0: the reader decides."""
        return 0
