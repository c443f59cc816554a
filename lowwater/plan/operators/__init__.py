"""Operators of a plan, one module per operator, and their parts.

The binder builds a logical tree per output query. The rules turn its leaves into LFTAs and leave the rest to the high
level. Both trees consist of these nodes, so every engine and EXPLAIN read the same objects. Nodes are immutable and
picklable, and every node states its own facts (`base.Node`). `lowwater.plan.tree` walks the nodes.

Every row of a stream has its fields and `_last`: the largest source timestamp (ns) that could still have changed the
row (SEMANTICS I1). The `_last` of a punctuation is a promise: no later row has a smaller `_last`.
"""

from lowwater.plan.fields import ROWS, Field, Item, Place, exprs_of, off_clock, written
from lowwater.plan.operators.aggregation import (
    MOST_COLUMNS,
    Aggregate,
    Aggregation,
    Group,
    Lfta,
    LftaInput,
    Partial,
    Running,
    Sampling,
    group_last,
)
from lowwater.plan.operators.base import Copies, Facts, Key, Leaf, Node, Physical, Punctuation, Unary
from lowwater.plan.operators.join import FilterJoin, Join, JoinKind, WatchJoin, Window
from lowwater.plan.operators.rows import ANY_LINK, Bucket, Cut, Expand, Map, Sample, Source, Union

__all__ = [
    "ANY_LINK",
    "MOST_COLUMNS",
    "ROWS",
    "Aggregate",
    "Aggregation",
    "Bucket",
    "Copies",
    "Cut",
    "Expand",
    "Facts",
    "Field",
    "FilterJoin",
    "Group",
    "Item",
    "Join",
    "JoinKind",
    "Key",
    "Leaf",
    "Lfta",
    "LftaInput",
    "Map",
    "Node",
    "Partial",
    "Physical",
    "Place",
    "Punctuation",
    "Running",
    "Sample",
    "Sampling",
    "Source",
    "Unary",
    "Union",
    "WatchJoin",
    "Window",
    "exprs_of",
    "group_last",
    "off_clock",
    "written",
]
