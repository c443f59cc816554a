"""Windows: sliding ones of time, and those of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from lowwater.catalog.expr import Expr, columns_of
from lowwater.plan.fields import ROWS, Item, Place, exprs_of, temporal_names, written
from lowwater.plan.operators.base import Copies, Facts, Node, Physical, Punctuation, Unary

OPEN_WINDOW = "the first window that is still open"


@dataclass(frozen=True)
class Bucket(Unary, facts=Facts("windows", passes=True, waits=False, outlives="", promise=OPEN_WINDOW)):
    """Tags each row with the windows it belongs to, one row out for each (WID; 002, Figure A-2).

    Window w holds the values v of the attribute with w*slide <= v < w*slide + range.

    Attributes:
        attribute: over the input row; for a window of rows the number of the row.
        range: in units of the attribute; `slide` too.
        name: output column of the window's number; the other fields are the input's.
        rows: whether the attribute counts rows.
        partition: over the input row; rows are counted in each partition.
    """

    attribute: Expr
    range: int
    slide: int
    name: str
    rows: bool = False
    partition: tuple[Item, ...] = ()
    place: Place = field(default=(0, 0), compare=False)

    @property
    def pane(self) -> int:
        """The length of the panes of which all windows are made, in units of the attribute (002, section 4.1)."""
        return gcd(self.range, self.slide)

    def exprs(self) -> tuple[Expr, ...]:
        """The attribute and the partition."""
        return written(self.attribute, *exprs_of(self.partition))

    def physical(self) -> Physical:
        """Rows go through, some of them several times."""
        return Physical("expansion", "stateless: one row out for each window")

    def origins(self) -> tuple[str, ...]:
        """Rows, or the clock."""
        return (ROWS,) if self.rows else ("",)

    def state(self) -> str:
        """Windows of rows count from the first row on."""
        return "rows are numbered from the beginning of the chain" if self.rows else ""

    def punctuation(self, reader: Node | None) -> Punctuation:
        """The number of the window: its reader groups by it, and the other columns are only carried."""
        if not temporal_names(self.fields):
            return super().punctuation(reader)
        return Punctuation((self.name,), False, self.groupwise(), self.facts.promise)

    def groupwise(self) -> tuple[str, ...]:
        """The partition, since rows are counted in each; else those of the input."""
        return tuple([item.name for item in self.partition]) if self.rows else self.input.groupwise()

    def looks_at(self, below: Node) -> set[str]:
        """The columns of the attribute."""
        return set(columns_of(self.attribute))

    def copies(self) -> Copies:
        """One row for each window that overlaps."""
        times = -(-self.range // self.slide)
        return Copies(times, "overlapping windows", "use a longer SLIDE or a shorter RANGE", self.place)
