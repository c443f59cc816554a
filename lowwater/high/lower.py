"""The Spark lowering: plan nodes become streaming DataFrames (see `frames` for their form).

Between the plan and `run`. Punctuation rows end right above the watermark of their source; what they leave is the
watermark, and Spark's default policy, the minimum over the sources, is the promise of a union (SEMANTICS P3).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.high.clock import ET, EventClock
from lowwater.high.columns import is_row
from lowwater.high.expressions import plain
from lowwater.high.frames import CONTROL, Counts, project
from lowwater.high.group import lower_group
from lowwater.high.join import lower_join
from lowwater.high.source import Reel
from lowwater.plan.nodes import Cut, Group, Join, LftaInput, Map, Node, Union


class Lowering:
    """Lowers the plan of one Spark query.

    Args:
        session: the session that the query will run in.
        clock: of the query.
        reels: the source behind each leaf, by `leaf_name`.
    """

    def __init__(self, session: SparkSession, clock: EventClock, reels: Mapping[str, Reel]) -> None:
        self.session = session
        self.clock = clock
        self.reels = reels
        self.counts = Counts()

    def frame(self, node: Node) -> DataFrame:
        """The streaming DataFrame of a node and all below it."""
        if isinstance(node, LftaInput | Cut):
            return self._leaf(node)
        inputs = [self.frame(below) for below in node.inputs()]
        if isinstance(node, Map):
            return project(self.counts.filtered(inputs[0], node, node.predicate), node.items)
        if isinstance(node, Union):
            branches = [_rename(frame, own, node) for frame, own in zip(inputs, node.branches, strict=True)]
            return reduce(DataFrame.union, branches)
        if isinstance(node, Group):
            return lower_group(node, inputs[0], self.clock, self.counts)
        if isinstance(node, Join):
            return lower_join(node, inputs[0], inputs[1], self.clock, self.counts)
        raise TypeError(type(node).__name__)

    def _leaf(self, node: LftaInput | Cut) -> DataFrame:
        return self.reels[leaf_name(node)].open(self.session).filter(is_row(F.col(ET)))


def leaf_name(node: LftaInput | Cut) -> str:
    """The key of a leaf's sources."""
    return node.lfta.name if isinstance(node, LftaInput) else node.name


def _rename(frame: DataFrame, own: Node, merged: Node) -> DataFrame:
    pairs = zip(own.fields, merged.fields, strict=True)
    return frame.select(*(plain(mine.name).alias(theirs.name) for mine, theirs in pairs), *CONTROL)
