"""The canonical order of rows (SEMANTICS O1): the place of a packet, which rows bring to the operators that ask for it.

Below the operators of a slice. The place of a packet is its link and its number in the LFTA's stream of that link,
which is in order of capture and position; its order is (timestamp, place). Numbers of two LFTAs say nothing of each
other, so branches that read one link bring the numbers of its records (`plan.properties.placing`). Rows of queries go
by (temporal value, columns).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.streams import LAST
from lowwater.high.slices.values import Frame
from lowwater.high.source.row_groups import LINK_BITS, PLACE
from lowwater.plan.operators import FilterJoin, LftaInput, Node, Union
from lowwater.plan.tree import lftas_of, walk
from lowwater.stream.operators import order_key
from lowwater.stream.values import Values

ORDER = "#"
"""Begins the names of columns that rows go by; of no field."""
_OWN = (1 << LINK_BITS) - 1


def placed_leaves(node: Node, ordered: bool = False) -> set[str]:
    """The LFTAs below an operator whose rows must bring their place."""
    if isinstance(node, LftaInput):
        needs_place = node.lfta.arrival or (ordered and not node.lfta.aggregates)
        return {node.lfta.name} if needs_place else set()
    passes = ordered and node.facts.passes
    below_ordered = passes or isinstance(node, FilterJoin) or node.order_dependent
    return {
        name for below in node.inputs() for name in placed_leaves(below, below_ordered and below.query == node.query)
    }


def of_packets(node: Node, query: str) -> bool:
    """Whether rows of an operator are packets to a reader in this query, each in its place."""
    if node.query != query:
        return False
    if node.facts.passes:
        return all(of_packets(below, query) for below in node.inputs())
    return isinstance(node, LftaInput) and not node.lfta.aggregates


def links_of(node: Node) -> list[str]:
    """The links that a query reads, whose places are their numbers in the order of their names."""
    return sorted({link for lfta in lftas_of(node) for link in lfta.links})


def link_of(place: pa.Array) -> pa.Array:
    """The links of packets, as their numbers."""
    return pc.shift_right(place, LINK_BITS)


def of_branch(place: pa.Array, number: int, branches: int) -> pa.Array:
    """The places of packets of one branch of a union: a packet of several branches goes by their number."""
    link = pc.shift_left(link_of(place), LINK_BITS)
    return pc.add(link, pc.add(pc.multiply(pc.bit_wise_and(place, _OWN), branches), number))


def ordered_inputs(node: Node) -> set[tuple[int, int]]:
    """The inputs, by the identity of their reader and their number, whose rows go by their columns from there on.

    They are where the rows of an operator that sees their order begin to be rows of its query, and no packets.
    """
    inputs = set()
    for operator in walk(node):
        if operator.order_dependent:
            reader, below = operator, operator.inputs()[0]
            while below.query == operator.query and below.facts.passes and not isinstance(below, Union):
                reader, below = below, below.inputs()[0]
            if not of_packets(below, operator.query):
                inputs.add((id(reader), 0))
    return inputs


def with_order(node: Node, frame: Frame) -> Frame:
    """The rows of an operator with what they go by in further columns, whatever becomes of their fields."""
    columns = {name: column for name, column in frame.columns.items() if not name.startswith(ORDER)}
    temporal = [f.name for f in node.fields if f.temporal][:1]
    names = (*temporal, *(f.name for f in node.fields))
    return Frame(columns | {f"{ORDER}{at}": frame[name] for at, name in enumerate(names)}, frame.rows)


def order_of(frame: Frame) -> list[str]:
    """The columns that rows go by for a reader that sees their order."""
    return [name for name in frame.columns if name.startswith(ORDER)] or [LAST, PLACE]


def orders(frame: Frame) -> Iterator[tuple[Any, ...]]:
    """What rows go by, in a form that compares as canonical order does."""
    names = order_of(frame)
    rows = zip(*(frame[name].to_pylist() for name in names), strict=True)
    # Instants and places are never NULL.
    return rows if PLACE in names else (tuple([order_key(value) for value in row]) for row in rows)


def tuples(node: Node, frame: Frame) -> Iterator[Values]:
    """The fields of an operator's rows as Python values, a tuple a row."""
    columns = [frame[f.name].to_pylist() for f in node.fields]
    return zip(*columns, strict=True) if columns else iter([()] * frame.rows)
