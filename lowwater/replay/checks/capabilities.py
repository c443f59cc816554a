"""Finds the constructs of a plan that an engine does not run, with their names and places.

Between the planner and the engines. `run` and `replay` check a plan before they start, so that no run fails midway.
`check` and `explain` report the constructs as notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowwater.catalog.expr import Call, Expr, Param, StateCall, walk
from lowwater.catalog.logs import LOG_KINDS
from lowwater.errors import UnsupportedError, raise_all, sort_errors
from lowwater.plan.operators import (
    Aggregate,
    Aggregation,
    Lfta,
    LftaInput,
    Node,
    Place,
    Source,
)
from lowwater.plan.queryset import Plan, QueryPlan
from lowwater.plan.text import Note
from lowwater.plan.tree import walk as walk_plan

REFERENCE = "reference"
"""The name of the reference engine; every other name is of the engine whose runners evaluate."""

NOT_RUN = "planned, but not run by the engines yet"
_NO_PYTHON = "declared without Python: name its file by a line MODULE"
_NO_VALUE = "no value"


@dataclass(frozen=True)
class Missing:
    """A construct that an engine does not run.

    Attributes:
        query: the name of its query.
        what: the construct, as messages name it; `$name` for a parameter.
        why: the reason, after "is" or "has" in the message.
        place: its line and column in the text; (0, 0) if unknown.
        hint: the remedy; empty without one.
    """

    query: str
    what: str
    why: str
    place: Place
    hint: str = ""

    @property
    def valueless(self) -> bool:
        """Whether the construct is a parameter without a value."""
        return self.why == _NO_VALUE

    def __str__(self) -> str:
        return f"{self.what} {'has' if self.valueless else 'is'} {self.why}"


def require_lowered(plan: Plan, engine: str = "") -> None:
    """Checks that an engine runs every operator and expression of a plan.

    Raises:
        UnsupportedError: the engine does not run a construct; the error has its query and place.
        QueryError: a parameter has no value.
        QueryErrors: the plan has several of these mistakes.
    """
    raise_all(
        sort_errors(
            [
                UnsupportedError(f"query {missing.query}: {missing}", missing.hint, file, *missing.place)
                for file, missing in _missing(plan, engine)
            ]
        )
    )


def not_run(plan: Plan) -> tuple[Note, ...]:
    """Returns the unsupported constructs of a plan as notes, without parameters: they may get a value later."""
    every = [missing for _, missing in _missing(plan) if not missing.valueless]
    every.sort(key=lambda missing: missing.place)
    return tuple(
        Note(missing.query, f"{missing}{f'; {missing.hint}' if missing.hint else ''}", missing.place)
        for missing in every
    )


def _missing(plan: Plan, engine: str = "") -> list[tuple[str, Missing]]:
    """Returns (file, missing construct) pairs, without duplicates."""
    files = {owner.name: owner.file for owner in (*plan.queries, *plan.internal)}
    first: dict[tuple[str, str, Place], tuple[str, Missing]] = {}
    for query in plan.queries:
        for missing in _of_query(query) if engine != REFERENCE else _of_reference(query):
            file = files.get(missing.query, query.file)
            first.setdefault((file, missing.what, missing.place), (file, missing))
    return list(first.values())


def _of_reference(query: QueryPlan) -> Iterator[Missing]:
    """Yields the constructs that no engine runs: functions without Python, parameters without value, other records.

    The reference engine runs every operator.
    """
    for node in walk_plan(query.logical):
        if isinstance(node, Source):
            yield from _unreadable(node.query, node)
        for expr in node.exprs():
            yield from _without_python(node.query, expr)
        for aggregate in (*node.aggregates, *getattr(node, "supers", ())) if isinstance(node, Aggregation) else ():
            yield from _of_aggregate(node.query, aggregate)


def _unreadable(query: str, source: Source | Lfta) -> Iterator[Missing]:
    """Yields the protocol of a source whose records no reader gives."""
    what = f"protocol {source.protocol} of {source.kind} records"
    if source.kind not in ("pcap", "csv", *LOG_KINDS):
        yield Missing(query, what, NOT_RUN, source.place, "packets run, and records of csv, JSON lines and parquet")
    elif source.layout is not None and source.layout.refused:
        hint = "declare an increasing field of the record, such as: uint time get_csv_uint_pos1 (increasing);"
        yield Missing(query, what, f"not read: {source.layout.refused}", source.place, hint)


def _without_python(query: str, expr: Expr) -> Iterator[Missing]:
    for part in walk(expr):
        if isinstance(part, Call | StateCall) and part.function.value is None:
            yield Missing(query, f"the function {part.function.name}", _NO_PYTHON, part.place)
        elif isinstance(part, Param):
            yield Missing(query, f"${part.name}", _NO_VALUE, part.place, f"give --param {part.name}=VALUE")


def _of_query(query: QueryPlan) -> Iterator[Missing]:
    for node in walk_plan(query.high):
        if isinstance(node, LftaInput):
            yield from _in_lfta(node.query, node.lfta)
        else:
            yield from _in_node(node)


def _in_lfta(query: str, lfta: Lfta) -> Iterator[Missing]:
    yield from _unreadable(query, lfta)
    for partial in lfta.partials:
        if partial.udaf is None and partial.native is None:
            yield Missing(query, f"the aggregate {partial.function}", _NO_PYTHON, partial.place)
    for expr in (lfta.predicate, *(key.expr for key in lfta.keys), *(p.argument for p in lfta.partials)):
        yield from _in_expr(query, expr)


def _in_node(node: Node) -> Iterator[Missing]:
    if isinstance(node, Aggregation):
        for aggregate in (*node.aggregates, *getattr(node, "supers", ())):
            yield from _of_aggregate(node.query, aggregate)
    for expr in node.exprs():
        yield from _in_expr(node.query, expr)


def _of_aggregate(query: str, aggregate: Aggregate) -> Iterator[Missing]:
    if aggregate.udaf is not None and aggregate.udaf.make is None:
        yield Missing(query, f"the aggregate {aggregate.function}", _NO_PYTHON, aggregate.place)


def _in_expr(query: str, expr: Expr | None) -> Iterator[Missing]:
    for node in walk(expr) if expr is not None else ():
        if isinstance(node, StateCall | Call) and node.function.value is None:
            yield Missing(query, f"the function {node.function.name}", _NO_PYTHON, node.place)
        elif isinstance(node, Param):
            yield Missing(query, f"${node.name}", _NO_VALUE, node.place, f"give --param {node.name}=VALUE")
