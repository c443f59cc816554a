"""EXPLAIN: a plan as text, stable and readable in a diff.

Reads the same plan objects as the engines. Shows both levels, the temporal properties that were inferred, the
punctuation that each operator emits, how far back each source is read, and why each operator was chosen.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from lowwater.catalog.expr import show
from lowwater.plan.nodes import Field, Group, Item, Join, Lfta, LftaInput, Map, Node, Union, Window
from lowwater.plan.queryset import Plan, QueryPlan
from lowwater.plan.ranges import read_from
from lowwater.plan.temporal import Step, Temporal

HOUR = 3_600_000_000_000
WIDTH = 112
_SAMPLE = 495_000 * HOUR  # an hour of 2026: read ranges are functions, shown for an interval that begins on the hour


def explain(plan: Plan) -> str:
    """The plan of a query set as text, at most 120 columns wide."""
    parts = [_query(query) for query in plan.queries]
    parts.append("\n".join(["low level", *(line for lfta in plan.lftas for line in _lfta(lfta))]))
    return "\n".join(_wrap(line) for line in "\n\n".join(parts).splitlines()) + "\n"


def _wrap(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    if len(line) <= WIDTH:
        return line
    return "\n".join(textwrap.wrap(line, WIDTH, subsequent_indent=f"{indent}      ", break_long_words=False))


def _query(query: QueryPlan) -> str:
    lines = [f"query {query.name}"]
    lines += [f"  | {line}" for line in query.text.split("\n\n")[-1].splitlines()]
    lines.append("  high level")
    lines += [f"    {line}" for line in _high(query.high)]
    lines.append("  read range of an interval that begins on the hour")
    for name, start in read_from(query.high, _SAMPLE).items():
        lines.append(f"    {name}: {_duration(_SAMPLE - start)} before the interval")
    return "\n".join(lines)


def _high(node: Node) -> Iterator[str]:
    """An operator, then its inputs, indented."""
    if isinstance(node, LftaInput):
        yield from _leaf(node)
        return
    if isinstance(node, Map):
        yield f"select {_items(node.items)}" + (f" where {show(node.predicate)}" if node.predicate else "")
        reason = "stateless: rows and punctuation pass through"
    elif isinstance(node, Group):
        yield f"aggregate by {_items(node.keys)}: {_aggregates(node)}"
        if node.having:
            yield f"  having {show(node.having)}"
        reason = "Spark streaming aggregation; a group closes at the end of its epoch"
    elif isinstance(node, Union):
        yield f"merge of {len(node.branches)} inputs"
        reason = "Spark union; the watermark is the least promise of the inputs"
    elif isinstance(node, Join):
        yield f"{node.kind} {node.left_alias}, {node.right_alias} on {_window(node.window)}"
        if node.equalities:
            yield f"  and {', '.join(f'{show(a)} = {show(b)}' for a, b in node.equalities)} (NULL = NULL)"
        if node.residual:
            yield f"  and {show(node.residual)}"
        reason = f"Spark stream-stream join; {'equality of' if node.window.equality else 'band on'} temporal columns"
    else:
        raise TypeError(type(node).__name__)
    yield f"  by: {reason}"
    yield f"  punctuation: {_promise(node.fields)}"
    for child in node.inputs():
        yield from (f"  {line}" for line in _high(child))


def _leaf(node: LftaInput) -> Iterator[str]:
    lfta = node.lfta
    if len(lfta.links) > 1:
        yield f"merge of LFTA {lfta.name} over {', '.join(lfta.links)}"
        yield "  by: Spark union; the watermark is the least promise of the links"
    else:
        yield f"LFTA {lfta.name} on {'every link' if lfta.links == ('*',) else lfta.links[0]}"


def _lfta(lfta: Lfta) -> Iterator[str]:
    kind = "aggregation" if lfta.aggregates else "selection"
    yield f"  {lfta.name}: {kind} LFTA of {lfta.protocol} on {', '.join(lfta.links)}"
    items = [_item(key) for key in lfta.keys]
    chosen = [key.name for key in lfta.keys] if lfta.aggregates else items
    partials = [f"{p.function}({show(p.argument) if p.argument else '*'}) AS {p.name}" for p in lfta.partials]
    yield f"    | SELECT {', '.join([*chosen, *partials])}"
    yield f"    | FROM [{', '.join(lfta.links)}].{lfta.protocol}"
    if lfta.predicate:
        yield f"    | WHERE {show(lfta.predicate)}"
    if lfta.aggregates:
        yield f"    | GROUP BY {', '.join(items)}"
    if lfta.member:
        yield f"    packets: {show(lfta.member)}"
    if lfta.aggregates:
        yield f"    table: {lfta.slots} slots, direct-mapped; a collision ejects the old group as a partial row"
        yield "    flush: immediate, at the tick whose promise closes the epoch"
    else:
        yield "    by: a selection needs no table; temporal values are saved before the predicate"
    yield f"    punctuation: {_promise(lfta.fields)}, from (tick - skew) and the oldest open group"


def _window(window: Window) -> str:
    left, right = show(window.left), show(window.right)
    if window.equality:
        return f"{left} = {right}"
    return f"{left} - {window.below} <= {right} <= {left} + {window.above}"


def _aggregates(node: Group) -> str:
    shown = [f"{a.name} = {a.function}({show(a.argument) if a.argument else '*'})" for a in node.aggregates] or [
        "distinct keys"
    ]
    return ", ".join(shown)


def _promise(fields: tuple[Field, ...]) -> str:
    shown = [f"{f.name} {_property(f.temporal)}" for f in fields if f.temporal]
    return ", ".join(shown) if shown else "its clock only: no output column is temporal"


def _property(time: Temporal) -> str:
    direction = "increasing" if time.increasing else "decreasing"
    steps = []
    for component in time.components:
        steps.append("clock" + "".join(f" {_step(step)}" for step in component))
    return f"{direction} ({'; '.join(steps)})"


def _step(step: Step) -> str:
    if step.op == "neg":
        return "negated"
    if step.op == "add":
        return f"{'-' if step.by < 0 else '+'} {abs(step.by)}"
    return f"{'/' if step.op == 'div' else '*'} {step.by}"


def _items(items: tuple[Item, ...]) -> str:
    return ", ".join(_item(item) for item in items)


def _item(item: Item) -> str:
    text = show(item.expr)
    return text if text == item.name else f"{text} AS {item.name}"


def _duration(ns: int) -> str:
    seconds = ns / 1e9
    return f"{seconds:g} s"
