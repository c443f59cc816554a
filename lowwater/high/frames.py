"""What the operators of the lowering share: the form of their DataFrames, filters that keep punctuation, counts.

Every DataFrame of the lowering has the fields of its node, `_last` (ns), the event time that `clock` derives from it,
the order of its rows where a reader asks for it, and the ticks of rows where none waits, so that any operator can stand
on any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.expr import Expr
from lowwater.high.clock import ET, LAST, TICK
from lowwater.high.columns import is_row
from lowwater.high.expressions import beforehand, lower, plain
from lowwater.high.order import ORDER
from lowwater.plan.nodes import Item, Node


@dataclass
class Counts:
    """Counts that operators take of their rows; they come out with the progress of the query.

    Attributes:
        operators: names of the observed points, in the order of lowering: number, kind and query.
    """

    operators: list[str] = field(default_factory=list)

    def observe(self, frame: DataFrame, kind: str, node: Node, **counts: Column) -> DataFrame:
        """Lets rows pass and aggregates them by these expressions."""
        name = f"{len(self.operators)}:{kind}:{node.query}"
        self.operators.append(name)
        return frame.observe(name, *(count.alias(label) for label, count in counts.items()))

    def filtered(self, frame: DataFrame, node: Node, predicate: Expr | None) -> DataFrame:
        """The rows of which a predicate is true; rows before and after are counted."""
        if predicate is None:
            return frame
        names = frame.columns
        frame, test = beforehand(frame, predicate, "_kept")
        passed = F.count_if(F.coalesce(lower(test), F.lit(False)))
        frame = self.observe(frame, "filter", node, rows_in=F.count(F.lit(1)), rows_out=passed)
        frame = keep(frame, test)
        return frame if test is predicate else frame.select(*(plain(name) for name in names))


def keep(frame: DataFrame, predicate: Expr | None) -> DataFrame:
    """The rows of which a predicate is true.

    Spark pushes a filter that does not read the event time below the watermark, where it would drop punctuation. The
    CASE over the event time holds it above; `run` excludes the rule that pushes as well.
    """
    if predicate is None:
        return frame
    return frame.filter(F.when(is_row(F.col(ET)), lower(predicate)).otherwise(F.lit(False)))


def project(frame: DataFrame, items: tuple[Item, ...]) -> DataFrame:
    """The named expressions, then the control columns."""
    return frame.select(*(lower(item.expr).alias(item.name) for item in items), *control(frame))


def control(frame: DataFrame) -> list[str]:
    """The columns that every operator carries along."""
    return [name for name in (LAST, ET, ORDER, TICK) if name in frame.columns]
