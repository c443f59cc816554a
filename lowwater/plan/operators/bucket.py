"""Window assigners: sliding windows of time, and windows of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from lowwater.catalog.expr import Expr, columns_of
from lowwater.plan.fields import ROWS, Item, Place, exprs_of, temporal_names, written
from lowwater.plan.operators.base import Copies, Facts, Node, Physical, Punctuation, Unary

OPEN_WINDOW = "the first window that is still open"


@dataclass(frozen=True)
class Bucket(Unary, facts=Facts("windows", passes=True, waits=False, outlives="", promise=OPEN_WINDOW)):
    """Window assigner: outputs one row per window that a row belongs to (WID; 002, Figure A-2).

    Window w holds the values v of the attribute with w*slide <= v < w*slide + range.

    Attributes:
        attribute: expression over the input row; for a window of rows the number of the row.
        range: length of a window, in units of the attribute.
        slide: distance between the starts of two windows, in units of the attribute.
        name: output column with the number of the window; the other output columns are the input's.
        rows: whether the attribute counts rows.
        partition: expressions over the input row; every partition counts its rows separately.
        counted: condition over the input row; only rows for which it is true are counted and are in windows. None for
            a window of rows counts every record of the links, unless there is a partition.
        place: line and column in the text of the query.
    """

    attribute: Expr
    range: int
    slide: int
    name: str
    rows: bool = False
    partition: tuple[Item, ...] = ()
    counted: Expr | None = None
    place: Place = field(default=(0, 0), compare=False)

    @property
    def every_record(self) -> bool:
        """Whether the windows count every record of the links, also those that the source does not take."""
        return self.rows and not self.partition and self.counted is None

    @property
    def pane(self) -> int:
        """The length of a pane, in units of the attribute; every window consists of whole panes (002, section 4.1)."""
        return gcd(self.range, self.slide)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the attribute, the expressions of the partition and the condition of what is counted."""
        return written(self.attribute, *exprs_of(self.partition), self.counted)

    def physical(self) -> Physical:
        """Returns a stateless expansion of rows."""
        return Physical("expansion", "stateless, one output row per window")

    def origins(self) -> tuple[str, ...]:
        """Returns the count of rows; of other windows the reader makes the progress."""
        return (ROWS,) if self.rows else ()

    def state(self) -> str:
        """Returns the reason of a window of rows: it counts rows from the first one on."""
        return "row numbers count from the first interval of the chain" if self.rows else ""

    def punctuation(self, reader: Node | None) -> Punctuation:
        """Returns a promise of the window number: its reader groups by this column and only carries the others."""
        if not temporal_names(self.fields):
            return super().punctuation(reader)
        return Punctuation((self.name,), False, self.groupwise(), self.facts.promise)

    def groupwise(self) -> tuple[str, ...]:
        """Returns the partition of a window of rows; else the groupwise columns of the input."""
        return tuple([item.name for item in self.partition]) if self.rows else self.input.groupwise()

    def looks_at(self, below: Node) -> set[str]:
        """Returns the columns of the attribute."""
        return set(columns_of(self.attribute))

    def copies(self) -> Copies:
        """Returns one row per overlapping window."""
        times = -(-self.range // self.slide)
        return Copies(times, "overlapping windows", "use a longer SLIDE or a shorter RANGE", self.place)
