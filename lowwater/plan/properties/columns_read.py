"""Which columns of LFTAs a plan reads, where the low level hands on more than that.

Beside the planner; `replay.checks` and the states of intervals ask it what a link has to keep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from lowwater.catalog.expr import Column, columns_of
from lowwater.plan.operators import Lfta, LftaInput, Map, Node, Union
from lowwater.plan.tree import lftas_of, walk


def lftas_as_read(highs: Sequence[Node]) -> list[Lfta]:
    """Returns the LFTAs of high plans without the columns that they only hand on and that nothing above them reads.

    A union of two protocols by arrival, for example, hands on all columns of both.
    """
    wanted: dict[int, set[str]] = defaultdict(set)
    for high in highs:
        wanted[id(high)] |= {field.name for field in high.fields}
    read: dict[str, set[str]] = defaultdict(set)
    for node in reversed(list(walk(*highs))):  # readers before what they read
        names = wanted[id(node)]
        if isinstance(node, LftaInput):
            read[node.lfta.name] |= names
        elif isinstance(node, Union):
            for branch in node.branches:
                places = zip(node.fields, branch.fields, strict=True)
                wanted[id(branch)] |= {own.name for field, own in places if field.name in names}
        else:
            exprs = list(node.exprs())
            if isinstance(node, Map):
                exprs = [item.expr for item in node.items if item.name in names]
                exprs += [node.predicate] if node.predicate is not None else []
                names = set()
            below = names | {name.rpartition(".")[2] for name in columns_of(*exprs)}
            for child in node.inputs():
                wanted[id(child)] |= below
    return [
        replace(lfta, keys=tuple(k for k in lfta.keys if k.name in read[lfta.name] or not isinstance(k.expr, Column)))
        for lfta in lftas_of(*highs)
    ]
