"""Rows of a source that a row of another source precedes."""

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
    """Rows of the left source that a row of the right source with equal keys precedes by `range` at most (O6).

    Both are packets of one link. `_last` is the last instant at which such a row may still come: the end of the left
    row's own unit of t; where t decreases that of t - range.

    Attributes:
        left: what is filtered; `right` is what it is looked up in; both are read on the same links.
        keys: (over the left row, over the right row).
        left_time: over the left row; `right_time` over the right row: the attribute t of FILTER_JOIN(t, range).
        range: in units of the attribute.
        items: over the left row.
        algorithm: as DEFINE asks, for EXPLAIN; the rows do not depend on it.
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
        """What is filtered, and what it is looked up in."""
        return (self.left, self.right)

    def over(self, *inputs: Node) -> Self:
        """The join of others."""
        left, right = inputs
        return replace(self, left=left, right=right)

    def exprs(self) -> tuple[Expr, ...]:
        """Times, keys and items."""
        ties = [expr for pair in self.keys for expr in pair]
        return written(self.left_time, self.right_time, *ties, *exprs_of(self.items))

    def physical(self) -> Physical:
        """By slices."""
        return Physical("semi join in slices", "a promise ends the wait of the rows of a slice")

    @property
    def time(self) -> Temporal:
        """The attribute t of FILTER_JOIN(t, range) as a temporal attribute."""
        times = {f"{self.right_alias}.{field.name}": field.temporal for field in self.right.fields if field.temporal}
        time = infer(self.right_time, times)
        assert time is not None
        return time

    def reads_from(self, start: int) -> tuple[int, ...]:
        """From where the rows are needed that are final at `start`, and the keys that may let them pass."""
        time = self.time
        if time.origin:
            return 0, 0
        value = time.promise(start)
        left = value if time.increasing else value + self.range
        right = value - self.range if time.increasing else value + self.range
        return max(0, time.first(left)), max(0, time.first(right))

    def ends(self, latest: int) -> list[int]:
        """The last instant at which a row may still come that lets the last row pass."""
        final = self.final(0)
        return [final(latest)] if final else []

    def final(self, port: int) -> Final | None:
        """What is filtered waits for what may still let it pass."""
        time = self.time
        if port or time.origin:
            return None
        reach = 0 if time.increasing else self.range
        return lambda last: max(last, time.last(time.latest(last) - reach))

    def origins(self) -> tuple[str, ...]:
        """That of t, where it is a column."""
        if not isinstance(self.right_time, Column):
            return ("",)
        name = self.right_time.name.removeprefix(f"{self.right_alias}.")
        return (off_clock([field for field in self.right.fields if field.name == name]),)

    def grain(self) -> int:
        """What its reader asks for."""
        return 0
