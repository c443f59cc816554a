"""The canonical order of rows (SEMANTICS O1), as a hidden column that operators carry to those that ask for it.

Beside the lowering (`lower`). The place of a packet is its link and its number in the LFTA's stream of that link, which
is in order of capture and position; its order is (timestamp, place). Numbers of two LFTAs say nothing of each other, so
branches that read one link bring the numbers of its records (`plan.placing`). Rows of queries go by (temporal value,
columns).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from lowwater.high.chunk import LINK_BITS, PLACE
from lowwater.high.clock import LAST
from lowwater.high.expressions import plain
from lowwater.high.temporal import long
from lowwater.plan.nodes import Field, FilterJoin, LftaInput, Node
from lowwater.plan.ordering import PASSING, order_dependent
from lowwater.plan.tree import lftas_of

ORDER = "_order"


def wants_order(node: Node) -> bool:
    """Whether an operator needs the order, or the link, of the rows that it reads."""
    return isinstance(node, FilterJoin) or order_dependent(node)


def of_packets(node: Node, query: str) -> bool:
    """Whether rows of an operator are packets to a reader in this query, each in its place."""
    if node.query != query:
        return False
    if isinstance(node, PASSING):
        return all(of_packets(below, query) for below in node.inputs())
    return isinstance(node, LftaInput) and not node.lfta.aggregates


def placed(node: Node, ordered: bool = False) -> set[str]:
    """The LFTAs below an operator whose rows must bring their place."""
    if isinstance(node, LftaInput):
        wanted = node.lfta.arrival or (ordered and not node.lfta.aggregates)
        return {node.lfta.name} if wanted else set()
    passes = ordered and isinstance(node, PASSING)
    asked = passes or wants_order(node)
    return {name for below in node.inputs() for name in placed(below, asked and below.query == node.query)}


def links_of(node: Node) -> list[str]:
    """The links that a query reads, whose places are their numbers in the order of their names."""
    return sorted({link for lfta in lftas_of(node) for link in lfta.links})


def of_place() -> Column:
    """The order of packets."""
    return F.struct(F.col(LAST), F.col(PLACE))


def of_branch(number: int, branches: int) -> Column:
    """The order of packets of one branch of a union: a packet of several branches goes by their number."""
    order = plain(ORDER)
    own = order[PLACE].bitwiseAND(long((1 << LINK_BITS) - 1))
    place = F.shiftleft(link_of(order), LINK_BITS) + own * long(branches) + long(number)
    return F.struct(order[LAST], place.alias(PLACE))


def by_columns(fields: Sequence[Field]) -> Column:
    """The order of rows that are no packets."""
    temporal = [f.name for f in fields if f.temporal][:1]
    return F.struct(*(plain(name).alias(f"_{i}") for i, name in enumerate((*temporal, *(f.name for f in fields)))))


def link_of(order: Column) -> Column:
    """The link of a packet, as its number."""
    return F.shiftright(order[PLACE], LINK_BITS)
