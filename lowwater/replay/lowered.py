"""What the engines do not run yet: every construct that plans has a name and a place to be refused by.

Between the planner and the engines: `run` and `replay` ask before anything starts, so that no run fails half way;
`check` and `explain` say it as notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowwater.catalog.expr import Binary, Call, Expr, Param, StateCall, Type, columns_of, place_of, walk
from lowwater.errors import UnsupportedError, in_order, raise_all
from lowwater.plan.nodes import (
    Aggregate,
    Aggregation,
    Bucket,
    Expand,
    FilterJoin,
    Group,
    Join,
    JoinKind,
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
from lowwater.plan.text import Note

AGGREGATES = ("count", "sum", "min", "max", "avg")

_PARTIALS = (*AGGREGATES, "and_aggr", "or_aggr", "xor_aggr")
"""What the tables of the low level keep."""

OPERATORS: dict[type[Node], str] = {
    Running: "CLOSING_WHEN",
    Sampling: "the sampling operator (CLEANING_WHEN, superaggregates, stateful functions)",
    Bucket: "a sliding window, or a window of rows",
    Expand: "CUBE, ROLLUP and GROUPING_SETS",
    FilterJoin: "FILTER_JOIN",
    WatchJoin: "WATCHLIST_JOIN",
}

NOT_RUN = "planned, but not run by the engines yet"
_NO_PYTHON = "declared without Python: name its file by a line MODULE"
_NO_VALUE = "no value"

_HINTS: dict[type[Node], str] = {
    Bucket: "a tumbling window runs: RANGE without SLIDE",
    Expand: "write a query for each grouping",
    FilterJoin: "a join on a band of time finds these rows, each as often as it matches",
    WatchJoin: "write the keys of the list into WHERE: srcIP IN ['10.0.0.1', '10.0.0.2']",
}
_ONLY = f"the aggregates that run are {', '.join(AGGREGATES)}"
_INSTEAD = {
    "count_distinct": "SELECT DISTINCT the value in a query of its own, and count(*) the rows of that",
}
"""Aggregates that have another form which runs."""


@dataclass(frozen=True)
class Missing:
    """Why the engines do not run a query.

    Attributes:
        query: its name.
        what: construct, as messages name it; `$name` of a parameter.
        why: what it is or has.
        place: line and column in the text; (0, 0) for unknown.
        hint: what runs instead, or nothing.
    """

    query: str
    what: str
    why: str
    place: Place
    hint: str = ""

    @property
    def valueless(self) -> bool:
        """Whether it is a parameter without a value."""
        return self.why == _NO_VALUE

    def __str__(self) -> str:
        return f"{self.what} {'has' if self.valueless else 'is'} {self.why}"


def require_lowered(plan: Plan) -> None:
    """Checks that the engines run every operator and expression of a plan.

    Raises:
        UnsupportedError: one that they do not run, with the query, the level and the place.
        QueryError: a parameter without a value.
        QueryErrors: several of these.
    """
    raise_all(
        in_order(
            [
                UnsupportedError(f"query {each.query}: {each}", each.hint, file, *each.place)
                for file, each in _missing(plan)
            ]
        )
    )


def not_run(plan: Plan) -> tuple[Note, ...]:
    """What the engines do not run of a plan, as notes; a parameter may get its value yet."""
    found = sorted((each for _, each in _missing(plan) if not each.valueless), key=lambda each: each.place)
    return tuple(Note(each.query, f"{each}{f'; {each.hint}' if each.hint else ''}", each.place) for each in found)


def _missing(plan: Plan) -> list[tuple[str, Missing]]:
    """What is missing, with the file of its query; each construct once."""
    files = {each.name: each.file for each in (*plan.queries, *plan.internal)}
    found: dict[tuple[str, str, Place], tuple[str, Missing]] = {}
    for query in plan.queries:
        for each in _of_query(query):
            file = files.get(each.query, query.file)
            found.setdefault((file, each.what, each.place), (file, each))
    return list(found.values())


def _of_query(query: QueryPlan) -> Iterator[Missing]:
    for node in walk_plan(query.high):
        kind = OPERATORS.get(type(node))
        if kind:
            hint = _HINTS.get(type(node), "")
            yield Missing(node.query, kind, NOT_RUN, getattr(node, "place", (0, 0)), hint)
        elif isinstance(node, LftaInput):
            yield from _in_lfta(node.query, node.lfta)
        else:
            yield from _in_node(node)


def _in_lfta(query: str, lfta: Lfta) -> Iterator[Missing]:
    if lfta.kind != "pcap":
        yield Missing(query, f"protocol {lfta.protocol} of {lfta.kind} records", NOT_RUN, lfta.place, "packets run")
        return
    if lfta.group:
        what = f"a skew for each value of {lfta.group} ([links.NAME.group_skew])"
        yield Missing(query, what, NOT_RUN, lfta.place, "give the link one skew that admits all of them")
    for partial in lfta.partials:
        if partial.function not in _PARTIALS:
            yield Missing(query, f"the aggregate {partial.function}", NOT_RUN, partial.place, _ONLY)
    for expr in (lfta.predicate, *(key.expr for key in lfta.keys), *(p.argument for p in lfta.partials)):
        yield from _in_expr(query, expr)


def _in_node(node: Node) -> Iterator[Missing]:
    exprs: list[Expr | None] = []
    if isinstance(node, Map):
        exprs = [node.predicate, *(item.expr for item in node.items)]
    elif isinstance(node, Join):
        sides = [expr for pair in node.equalities for expr in pair]
        exprs = [node.residual, node.window.left, node.window.right, *sides, *(item.expr for item in node.items)]
        yield from _across(node)
        if origin := node.window.left_time.origin:
            what = f"a join on {origin}, which is no function of the clock"
            yield Missing(node.query, what, NOT_RUN, place_of(node.window.left, node.window.right))
    elif isinstance(node, Aggregation):
        exprs = [node.predicate, node.having, *(item.expr for item in (*node.keys, *node.items))]
        for aggregate in node.aggregates:
            exprs += [aggregate.argument, *aggregate.more]
            yield from _of_aggregate(node.query, aggregate)
        if isinstance(node, Group) and all(f.temporal.origin for f in node.key_fields if f.temporal):
            place = place_of(*(key.expr for key in node.keys))
            yield Missing(node.query, "an epoch that is no function of the clock", NOT_RUN, place)
    elif not isinstance(node, Union):
        raise TypeError(type(node).__name__)
    for expr in exprs:
        yield from _in_expr(node.query, expr)


def _across(node: Join) -> Iterator[Missing]:
    """Calls in the condition of an outer join that are over both sides: Spark evaluates Python before or after one."""
    if node.kind is JoinKind.INNER or node.residual is None:
        return
    for call in walk(node.residual):
        if isinstance(call, Call) and len({name.partition(".")[0] for name in columns_of(call)}) > 1:
            what = f"the function {call.function.name} of both sides of an outer join"
            yield Missing(node.query, what, NOT_RUN, call.place, "call it on each side, and compare what it gives")


def _of_aggregate(query: str, aggregate: Aggregate) -> Iterator[Missing]:
    if aggregate.udaf is not None:
        hint = _INSTEAD.get(aggregate.function, _ONLY)
        yield Missing(query, f"the aggregate {aggregate.function}", NOT_RUN, aggregate.place, hint)


def _in_expr(query: str, expr: Expr | None) -> Iterator[Missing]:
    for node in walk(expr) if expr is not None else ():
        if isinstance(node, StateCall) or (isinstance(node, Call) and node.function.value is None):
            why = NOT_RUN if isinstance(node, StateCall) else _NO_PYTHON
            yield Missing(query, f"the function {node.function.name}", why, node.place)
        elif isinstance(node, Param):
            yield Missing(query, f"${node.name}", _NO_VALUE, node.place, f"give --param {node.name}=VALUE")
        elif isinstance(node, Binary) and node.op in ("&", "|") and node.type is Type.IP:
            hint = "compare with the ends of the range: srcIP BETWEEN '10.0.0.0' AND '10.0.0.255'"
            yield Missing(query, f"{node.op} of addresses", NOT_RUN, place_of(node), hint)
