"""What the engines do not run yet: every construct that plans has a name and a place to be refused by.

Between the planner and the engines: `run` and `replay` ask before anything starts, so that no run fails half way.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowwater.catalog.expr import Binary, Call, Column, Expr, Param, StateCall, Type, walk
from lowwater.catalog.protocols import PAYLOAD
from lowwater.errors import UnsupportedError, raise_all
from lowwater.plan.nodes import (
    Aggregation,
    Bucket,
    Expand,
    FilterJoin,
    Group,
    Join,
    Lfta,
    LftaInput,
    Map,
    Node,
    Place,
    Running,
    Sampling,
    Union,
    WatchJoin,
)
from lowwater.plan.queryset import Plan, QueryPlan
from lowwater.plan.split import walk as walk_plan

AGGREGATES = ("count", "sum", "min", "max", "avg")

OPERATORS: dict[type[Node], str] = {
    Running: "CLOSING_WHEN",
    Sampling: "the sampling operator (CLEANING_WHEN, superaggregates, stateful functions)",
    Bucket: "a sliding window, or a window of rows",
    Expand: "CUBE, ROLLUP and GROUPING_SETS",
    FilterJoin: "FILTER_JOIN",
    WatchJoin: "WATCHLIST_JOIN",
}


def require_lowered(plan: Plan) -> None:
    """Checks that the engines run every operator and expression of a plan.

    Raises:
        UnsupportedError: one that they do not run, with the query, the level and the place.
        QueryError: a parameter without a value.
        QueryErrors: several of these.
    """
    found: dict[tuple[str, str, Place], UnsupportedError] = {}
    for query in plan.queries:
        files = {each.name: each.file for each in (*plan.queries, *plan.internal)}
        for owner, level, what, place in _missing(query):
            file = files.get(owner, query.file)
            message = f"query {owner}: {what} {'is' if what[0] != '$' else 'has'} {level}"
            key = (file, what, place)
            found.setdefault(key, UnsupportedError(message, _hint(what), file, *place))
    raise_all(sorted(found.values(), key=lambda error: (error.file, error.line, error.column)))


def _hint(what: str) -> str:
    if what.startswith("$"):
        return f"give --param {what[1:]}=VALUE"
    return "`lowwater explain` shows the plan; this operator is not lowered in this version"


NOT_RUN = "planned, but not run by the engines yet"


def _missing(query: QueryPlan) -> Iterator[tuple[str, str, str, Place]]:
    for node in walk_plan(query.high):
        kind = OPERATORS.get(type(node))
        if kind:
            yield node.query, NOT_RUN, kind, getattr(node, "place", (0, 0))
            continue
        if isinstance(node, LftaInput):
            yield from _in_lfta(node.query, node.lfta)
            continue
        yield from ((node.query, level, what, place) for level, what, place in _in_node(node))


def _in_lfta(query: str, lfta: Lfta) -> Iterator[tuple[str, str, str, Place]]:
    if lfta.kind != "pcap":
        yield query, NOT_RUN, f"protocol {lfta.protocol} of {lfta.kind} records", (0, 0)
        return
    if lfta.group:
        yield query, NOT_RUN, f"a skew for each value of {lfta.group} ([links.NAME.group_skew])", (0, 0)
    for partial in lfta.partials:
        if partial.function not in AGGREGATES:
            yield query, NOT_RUN, f"the aggregate {partial.function} at the low level", (0, 0)
    exprs = [lfta.predicate, *(key.expr for key in lfta.keys), *(p.argument for p in lfta.partials)]
    for expr in exprs:
        yield from ((query, level, what, place) for level, what, place in _in_expr(expr))
        for column in walk(expr) if expr is not None else ():
            if isinstance(column, Column) and column.name == PAYLOAD:
                yield query, "planned, but ingest does not keep payloads yet", "the payload (TCP_data)", (0, 0)


def _in_node(node: Node) -> Iterator[tuple[str, str, Place]]:
    exprs: list[Expr | None] = []
    if isinstance(node, Map):
        exprs = [node.predicate, *(item.expr for item in node.items)]
    elif isinstance(node, Join):
        sides = [expr for pair in node.equalities for expr in pair]
        exprs = [node.residual, node.window.left, node.window.right, *sides, *(item.expr for item in node.items)]
        if node.window.left_time.origin:
            yield NOT_RUN, f"a join on {node.window.left_time.origin}, which is no function of the clock", (0, 0)
    elif isinstance(node, Aggregation):
        items = [*node.keys, *node.items]
        exprs = [node.predicate, node.having, *(item.expr for item in items)]
        for aggregate in node.aggregates:
            exprs += [aggregate.argument, *aggregate.more]
            text = aggregate.argument is not None and aggregate.argument.type is Type.STRING
            if aggregate.udaf is not None or (text and aggregate.function != "count"):
                of = " of strings" if text and aggregate.udaf is None else ""
                yield NOT_RUN, f"the aggregate {aggregate.function}{of}", aggregate.place
        if isinstance(node, Group) and all(f.temporal.origin for f in node.key_fields if f.temporal):
            yield NOT_RUN, "an epoch that is no function of the clock", (0, 0)
    elif not isinstance(node, Union):
        raise TypeError(type(node).__name__)
    for expr in exprs:
        yield from _in_expr(expr)


def _in_expr(expr: Expr | None) -> Iterator[tuple[str, str, Place]]:
    for node in walk(expr) if expr is not None else ():
        if isinstance(node, Call) and node.function.value is None and node.function.origin != "built-in":
            yield (
                "declared without Python: name its file by a line MODULE",
                f"the function {node.function.name}",
                node.place,
            )
        elif isinstance(node, Call | StateCall):
            yield NOT_RUN, f"the function {node.function.name}", node.place
        elif isinstance(node, Param):
            yield "no value", f"${node.name}", (0, 0)
        elif isinstance(node, Binary) and node.op in ("&", "|") and node.type is Type.IP:
            yield NOT_RUN, f"{node.op} of addresses", (0, 0)
