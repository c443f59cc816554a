"""The expressions of an operator of any kind.

Below `describe` and `gsql`.
"""

from __future__ import annotations

from lowwater.catalog.expr import Expr
from lowwater.plan.nodes import (
    Aggregation,
    Bucket,
    FilterJoin,
    Join,
    LftaInput,
    Map,
    Node,
    Running,
    Sampling,
    WatchJoin,
)


def exprs_of(node: Node) -> list[Expr]:
    """Every expression of an operator, without those of its inputs; of an LFTA's rows, those of the LFTA."""
    found: list[Expr | None] = []
    if isinstance(node, LftaInput):
        lfta = node.lfta
        found += [lfta.predicate, *(key.expr for key in lfta.keys), *(partial.argument for partial in lfta.partials)]
    elif isinstance(node, Map):
        found += [node.predicate, *(item.expr for item in node.items)]
    elif isinstance(node, Bucket):
        found += [node.attribute, *(item.expr for item in node.partition)]
    elif isinstance(node, Join):
        pairs = [expr for pair in node.equalities for expr in pair]
        found += [node.window.left, node.window.right, *pairs, node.residual, *(item.expr for item in node.items)]
    elif isinstance(node, FilterJoin):
        found += [*(expr for pair in node.keys for expr in pair), *(item.expr for item in node.items)]
    elif isinstance(node, WatchJoin):
        found += [*(mine for mine, _ in node.keys), node.residual, *(item.expr for item in node.items)]
    elif isinstance(node, Aggregation):
        found += _of_aggregation(node)
    return [expr for expr in found if expr is not None]


def _of_aggregation(node: Aggregation) -> list[Expr | None]:
    aggregates = [*node.aggregates, *(node.supers if isinstance(node, Sampling) else ())]
    found = [node.predicate, node.having, *(key.expr for key in node.keys), *(item.expr for item in node.items)]
    found += [expr for aggregate in aggregates for expr in (aggregate.argument, *aggregate.more)]
    if isinstance(node, Running):
        found.append(node.closing)
    if isinstance(node, Sampling):
        found += [node.cleaning_when, node.cleaning_by]
    return found
