"""Describes one operator of the high level.

`describe` walks the plan and calls this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lowwater.catalog.expr import conjuncts
from lowwater.catalog.records import field_name
from lowwater.gsql.printer import print_expression
from lowwater.plan.explain import syntax
from lowwater.plan.explain.model import OperatorInfo
from lowwater.plan.explain.model_parts import ColumnInfo, Match, Named, Progress, PunctuationInfo, Sliding
from lowwater.plan.explain.spell import high, steps
from lowwater.plan.operators import (
    Aggregate,
    Aggregation,
    Bucket,
    Expand,
    Field,
    FilterJoin,
    Group,
    Item,
    Join,
    LftaInput,
    Map,
    Node,
    Physical,
    Punctuation,
    Running,
    Sampling,
    WatchJoin,
    Window,
)
from lowwater.plan.properties.cost import unsafe
from lowwater.plan.rules import Setting
from lowwater.plan.rules.levels import whole_reason


def describe_operator(node: Node, reader: Node | None, inputs: Sequence[int], setting: Setting) -> OperatorInfo:
    """Returns the description of an operator.

    Args:
        node: the operator.
        reader: the operator that reads it; None for the output of a query.
        inputs: positions of its inputs in the list of operators.
        setting: the setting of its query, for the reasons of the split.
    """
    chosen = _physical(node, setting.arrival)
    plain = OperatorInfo(
        node.label,
        node.query,
        chosen.operator,
        chosen.reason,
        tuple(inputs),
        columns_info(node.fields),
        punctuation_info(node.punctuation(reader)),
    )
    return replace(plain, **_details(node), high=stays_high(node, setting))


def _physical(node: Node, by_arrival: bool) -> Physical:
    """Returns how the high level runs an operator; a query by arrival runs all operators in one place."""
    if not by_arrival or isinstance(node, LftaInput):
        return node.physical()
    what = "windows number rows" if isinstance(node, Bucket) and node.rows else "the query reads rows"
    return Physical("slices in order", f"{what} in order of arrival, so one process runs the whole query")


def stream_of(query: str, node: Node) -> OperatorInfo:
    """Returns the description of a stream: the rows of a query with its own description."""
    promise = punctuation_info(node.punctuation(None))
    reason = "it has its own description; the evaluation of each output above recomputes it"
    return OperatorInfo("stream", query, "stream", reason, (), columns_info(node.fields), promise, reads=query)


def columns_info(fields: Sequence[Field]) -> tuple[ColumnInfo, ...]:
    """Returns the columns with their temporal properties."""
    return tuple(ColumnInfo(field_name(f.name), f.type.value, _progress(f)) for f in fields)


def _progress(field: Field) -> Progress | None:
    time = field.temporal
    if time is None:
        return None
    return Progress("increasing" if time.increasing else "decreasing", steps(time), time.origin)


def punctuation_info(promise: Punctuation) -> PunctuationInfo:
    """Returns the description of a punctuation."""
    return PunctuationInfo(promise.columns, promise.joint, promise.reason, promise.groupwise)


def stays_high(node: Node, setting: Setting) -> str:
    """Returns why an LFTA does not run an operator directly above a selection LFTA, or runs only a part of it.

    Empty for every other operator.
    """
    below = node.inputs()[0] if node.inputs() else None
    if isinstance(node, Map | Bucket | Expand) and isinstance(below, LftaInput) and not below.lfta.aggregates:
        return "; ".join(dict.fromkeys(_unsafe(node, setting))) if isinstance(node, Map) else ""
    if not isinstance(node, Aggregation):
        return ""
    while isinstance(below, Bucket | Expand) or (isinstance(below, Map) and below is not node.input):
        below = below.inputs()[0]
    if not isinstance(below, LftaInput) or below.lfta.aggregates or below.query != node.query:
        return ""
    if isinstance(node, Running):
        return "CLOSING_WHEN carries a group from epoch to epoch, and a table that evicts groups cannot"
    if isinstance(node, Sampling):
        return "sampling reads the rows of a supergroup in canonical order in one process"
    if isinstance(node.input, Bucket) and node.input.rows:
        return "windows count the rows of all links together, in order of arrival"
    return whole_reason(node, node.keys, setting)


def _unsafe(node: Map, setting: Setting) -> list[str]:
    exprs = [*conjuncts(node.predicate), *(item.expr for item in node.items)]
    return [reason for expr in exprs if (reason := unsafe(expr, setting.threshold(node.query)))]


def _details(node: Node) -> dict[str, Any]:
    """Returns attribute of OperatorInfo -> value, for the attributes of one kind of operator.

    Raises:
        TypeError: DETAILS has no entry for an operator with expressions.
    """
    if type(node) in DETAILS:
        return DETAILS[type(node)](node)
    if node.exprs():
        raise TypeError(f"EXPLAIN does not know {type(node).__name__}")
    return {}


def _lfta(node: LftaInput) -> dict[str, Any]:
    return {"reads": node.lfta.name, "links": node.lfta.links}


def _map(node: Map) -> dict[str, Any]:
    return {"predicate": high(node.predicate), "items": _named(node.items)}


def _bucket(node: Bucket) -> dict[str, Any]:
    names = tuple(item.name for item in node.partition)
    return {"window": Sliding(high(node.attribute), node.range, node.slide, node.rows, names, high(node.counted))}


def _expand(node: Expand) -> dict[str, Any]:
    return {"sets": node.sets}


def _join(node: Join) -> dict[str, Any]:
    return {"aliases": (node.left_alias, node.right_alias), "match": _match(node), "items": _named(node.items)}


def _filter_join(node: FilterJoin) -> dict[str, Any]:
    keys = " AND ".join(f"{high(left)} = {high(right)}" for left, right in node.keys)
    time = f"{high(node.right_time)} <= {high(node.left_time)} <= {high(node.right_time)} + {node.range}"
    some = f"some {node.right_alias} with {keys} and {time} ({node.algorithm})"
    return {"aliases": (node.left_alias, node.right_alias), "lookup": some, "items": _named(node.items)}


def _watch_join(node: WatchJoin) -> dict[str, Any]:
    equalities = [f"{high(key)} = {name}" for key, name in node.keys]
    rows = " AND ".join([*equalities, *(high(part) for part in conjuncts(node.residual))])
    where = f"{rows}; rows of {node.file}, an input of the run by its hash"
    aliases = (node.alias, node.watch_alias)
    return {"aliases": aliases, "lookup": where, "items": _named(node.items), "reads": node.watchlist}


def _aggregation(node: Aggregation) -> dict[str, Any]:
    return {
        "predicate": high(node.predicate),
        "keys": _named(node.keys),
        "aggregates": _aggregates(node.aggregates),
        "having": high(node.having),
        "items": _named(node.items),
    }


def _running(node: Running) -> dict[str, Any]:
    return {**_aggregation(node), "closing": high(node.closing)}


def _sampling(node: Sampling) -> dict[str, Any]:
    return {
        **_aggregation(node),
        "supergroup": node.supergroup,
        "supers": _aggregates(node.supers, over=True),
        "cleaning_when": high(node.cleaning_when),
        "cleaning_by": high(node.cleaning_by),
        "states": tuple(f"{state.name} of {state.state}" for state in node.states),
    }


def _named(items: Sequence[Item]) -> tuple[Named, ...]:
    return tuple(Named(item.name, high(item.expr)) for item in items)


def _aggregates(aggregates: Sequence[Aggregate], over: bool = False) -> tuple[Named, ...]:
    return tuple(Named(a.name, print_expression(syntax.aggregate_call(a, over))) for a in aggregates)


def _match(node: Join) -> Match:
    window = node.window
    left, right = _promises(window)
    return Match(
        "equality" if window.equality else "band",
        print_expression(syntax.band(window)),
        left,
        right,
        tuple(f"{high(a)} = {high(b)}" for a, b in node.equalities),
        high(node.residual),
    )


def _promises(window: Window) -> tuple[str, str]:
    """Returns the promises of both sides' attributes as text, from the promises of both sides (P4)."""
    rising = window.left_time.increasing
    least, ahead, behind = ("min", window.above, window.below) if rising else ("max", window.below, window.above)
    left, right = high(window.left), high(window.right)
    sign = -1 if rising else 1
    return (
        f"{least}({left}, {_shifted(right, sign * ahead)})",
        f"{least}({right}, {_shifted(left, sign * behind)})",
    )


def _shifted(text: str, by: int) -> str:
    if not by:
        return text
    return f"{text} {'-' if by < 0 else '+'} {abs(by)}"


DETAILS: dict[type[Node], Callable[[Any], dict[str, Any]]] = {
    LftaInput: _lfta,
    Map: _map,
    Group: _aggregation,
    Running: _running,
    Sampling: _sampling,
    Bucket: _bucket,
    Expand: _expand,
    Join: _join,
    FilterJoin: _filter_join,
    WatchJoin: _watch_join,
}
"""Operator -> its details; an operator without expressions needs no entry."""
