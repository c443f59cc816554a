"""The Spark lowering: plan nodes become streaming DataFrames (see `frames` for their form).

Between the plan and `run`. Punctuation rows end right above the watermark of their source; what they leave is the
watermark, and Spark's default policy, the minimum over the sources, is the promise of a union (SEMANTICS P3).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.high.arrival import leaves_of, lower_by_arrival
from lowwater.high.carry import Carry
from lowwater.high.clock import ET, EventClock
from lowwater.high.columns import is_row
from lowwater.high.expand import lower_expand
from lowwater.high.expressions import plain
from lowwater.high.frames import Counts, control, project
from lowwater.high.group import finish
from lowwater.high.order import ORDER, by_columns, of_branch, of_packets, of_place, wants_order
from lowwater.high.python_group import lower_python_group
from lowwater.high.running import lower_running
from lowwater.high.sampling import lower_sampling
from lowwater.high.source import Reel
from lowwater.high.watch import lower_watch_join
from lowwater.high.windows import lower_bucket
from lowwater.plan.cuts import keeps_python
from lowwater.plan.nodes import (
    Bucket,
    Cut,
    Expand,
    Group,
    LftaInput,
    Map,
    Node,
    Running,
    Sampling,
    Union,
    WatchJoin,
)
from lowwater.plan.state import counts_rows
from lowwater.plan.tree import walk


class Lowering:
    """Lowers the plan of one Spark query.

    Args:
        session: the session that the query will run in.
        clock: of the query.
        reels: the source behind each leaf, by `leaf_name`.
        carry: what is handed over from interval to interval.
    """

    def __init__(
        self, session: SparkSession, clock: EventClock, reels: Mapping[str, Reel], carry: Carry | None = None
    ) -> None:
        self.session = session
        self.carry = carry or Carry()
        self.clock = clock
        self.reels = reels
        self.counts = Counts()

    def query(self, node: Node) -> DataFrame:
        """The streaming DataFrame of a whole query."""
        if not counts_rows(node):
            return self.frame(node)
        reels = {leaf.lfta.name: self.reels[leaf_name(leaf)] for leaf in leaves_of(node)}
        frames = {name: reel.open(self.session).filter(is_row(F.col(ET))) for name, reel in reels.items()}
        return lower_by_arrival(node, frames, self.clock, self.counts, self.carry)

    def frame(self, node: Node, ordered: bool = False) -> DataFrame:
        """The streaming DataFrame of a node and all below it.

        Args:
            node: of the plan.
            ordered: whether a reader in the same query asks for the order that the rows have of themselves.
        """
        if isinstance(node, LftaInput | Cut):
            return self._leaf(node, ordered)
        if isinstance(node, Union):
            return self._union(node, ordered)
        passes = ordered and isinstance(node, Map | Bucket | Expand | WatchJoin)
        inputs = [self._read(node, below, passes or wants_order(node)) for below in node.inputs()]
        if isinstance(node, Map):
            return project(self.counts.filtered(inputs[0], node, node.predicate), node.items)
        if isinstance(node, WatchJoin):
            return lower_watch_join(node, inputs[0], self.session, self.counts)
        if isinstance(node, Bucket):
            return lower_bucket(node, inputs[0])
        if isinstance(node, Expand):
            return lower_expand(node, inputs[0])
        if isinstance(node, Group):
            frame = self.counts.filtered(inputs[0], node, node.predicate)
            return finish(node, lower_python_group(node, frame, self.clock, self.counts), self.counts)
        if isinstance(node, Running):
            frame = self.counts.filtered(inputs[0], node, node.predicate)
            return finish(node, lower_running(node, frame, self.clock, self.counts, self.carry), self.counts)
        if isinstance(node, Sampling):
            return lower_sampling(node, inputs[0], self.clock, self.counts, self.carry)
        raise TypeError(type(node).__name__)

    def _leaf(self, node: LftaInput | Cut, ordered: bool) -> DataFrame:
        frame = self.reels[leaf_name(node)].open(self.session).filter(is_row(F.col(ET)))
        return frame.withColumn(ORDER, of_place()) if ordered and of_packets(node, node.query) else frame

    def _read(self, node: Node, below: Node, ordered: bool) -> DataFrame:
        """An input with the order that its rows have for their reader (O1), if that is asked for."""
        frame = self.frame(below, ordered and below.query == node.query)
        return frame.withColumn(ORDER, by_columns(below.fields)) if ordered and ORDER not in frame.columns else frame

    def _union(self, node: Union, ordered: bool) -> DataFrame:
        ordered = ordered and of_packets(node, node.query)
        branches = [_rename(self.frame(branch, ordered), branch, node) for branch in node.branches]
        if ordered:
            count = len(branches)
            branches = [branch.withColumn(ORDER, of_branch(i, count)) for i, branch in enumerate(branches)]
        return reduce(DataFrame.union, branches)


def python_state(node: Node) -> bool:
    """Whether an operator of a plan keeps its state in Python."""
    return counts_rows(node) or any(keeps_python(each) for each in walk(node))


def leaves(node: Node) -> list[LftaInput | Cut]:
    """The leaves below an operator, each as often as it is read."""
    if isinstance(node, LftaInput | Cut):
        return [node]
    return [leaf for below in node.inputs() for leaf in leaves(below)]


def leaf_name(node: LftaInput | Cut) -> str:
    """The key of a leaf's sources."""
    return node.lfta.name if isinstance(node, LftaInput) else node.name


def _rename(frame: DataFrame, own: Node, merged: Node) -> DataFrame:
    pairs = zip(own.fields, merged.fields, strict=True)
    return frame.select(*(plain(mine.name).alias(theirs.name) for mine, theirs in pairs), *control(frame))
