"""The canonical order of rows (SEMANTICS O1) for the operators of a slice that need it.

Packets are ordered by (timestamp, PLACE). PLACE is the number of the link and the number of the row in the LFTA's
stream of that link, which is in order of capture and position. Numbers of different LFTAs cannot be compared, so
branches that read one link use the numbers of its records (`plan.properties.record_numbers`). Rows of queries are
ordered by (temporal value, columns).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.streams import LAST
from lowwater.high.slices.values import Frame
from lowwater.high.source.row_groups import LINK_BITS, PLACE
from lowwater.plan.operators import LftaInput, Node, Union
from lowwater.plan.tree import lftas_of, walk
from lowwater.stream.operators import order_key
from lowwater.stream.values import Values

ORDER = "#"
"""Prefix of the columns that define the order of rows; no field has it."""
_OWN = (1 << LINK_BITS) - 1


def of_packets(node: Node, query: str) -> bool:
    """Whether rows of an operator are packets in canonical order to a reader in this query."""
    if node.query != query:
        return False
    if node.facts.passes:
        return all(of_packets(below, query) for below in node.inputs())
    return isinstance(node, LftaInput) and not node.lfta.aggregates


def links_of(node: Node) -> list[str]:
    """The links that a query reads, sorted; PLACE contains their index."""
    return sorted({link for lfta in lftas_of(node) for link in lfta.links})


def link_of(place: pa.Array) -> pa.Array:
    """The numbers of the links of packets."""
    return pc.shift_right(place, LINK_BITS)


def of_branch(place: pa.Array, number: int, branches: int) -> pa.Array:
    """The PLACE of packets of one branch of a union; a packet in several branches is ordered by the number of the
    branch."""
    link = pc.shift_left(link_of(place), LINK_BITS)
    return pc.add(link, pc.add(pc.multiply(pc.bit_wise_and(place, _OWN), branches), number))


def ordered_inputs(node: Node) -> set[tuple[int, int]]:
    """The inputs, as (identity of the reader, number), whose rows are ordered by their columns from there on.

    At these inputs the rows of an order-dependent operator stop being packets of another query.
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
    """Adds columns that define the order of rows, independent of later changes of their fields."""
    columns = {name: column for name, column in frame.columns.items() if not name.startswith(ORDER)}
    temporal = [f.name for f in node.fields if f.temporal][:1]
    names = (*temporal, *(f.name for f in node.fields))
    return Frame(columns | {f"{ORDER}{at}": frame[name] for at, name in enumerate(names)}, frame.rows)


def order_of(frame: Frame) -> list[str]:
    """The columns that define the order of rows for an order-dependent reader."""
    return [name for name in frame.columns if name.startswith(ORDER)] or [LAST, PLACE]


def orders(frame: Frame) -> Iterator[tuple[Any, ...]]:
    """Yields sort keys of rows that compare in canonical order."""
    names = order_of(frame)
    rows = zip(*(frame[name].to_pylist() for name in names), strict=True)
    # Instants and places are never NULL.
    return rows if PLACE in names else (tuple([order_key(value) for value in row]) for row in rows)


def tuples(node: Node, frame: Frame) -> Iterator[Values]:
    """Yields the fields of each row as a tuple of Python values."""
    columns = [frame[f.name].to_pylist() for f in node.fields]
    return zip(*columns, strict=True) if columns else iter([()] * frame.rows)
