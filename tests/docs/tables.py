"""The tables of the language reference that are made from the catalog, so that they cannot go stale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction, Cost, Function
from lowwater.catalog.meanings import AGGREGATES, FUNCTIONS, STATES
from lowwater.catalog.protocols import ALIASES, PROTOCOLS
from lowwater.plan.bind.queries import NO_EFFECT
from lowwater.plan.bind.sources import source_fields
from lowwater.plan.operators import temporals
from lowwater.plan.temporal import infer
from tests.edges import CASES, shown

Shape = tuple[str, ...]
"""Types of the arguments, then of the result; T where every type can stand."""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def columns() -> str:
    """The columns of the packet protocols."""
    protocol = PROTOCOLS["ETH"]
    known = temporals(source_fields(protocol))
    names: dict[str, list[str]] = {}
    for alias, name in ALIASES.items():
        names.setdefault(name, []).append(alias)
    return _table(
        ("column", "type", "temporal", "other names"),
        (
            (name, expr.type.value, "increasing" if infer(expr, known) else "", ", ".join(names.get(name, ())))
            for name, expr in protocol.columns.items()
            if name not in ALIASES
        ),
    )


def functions() -> str:
    """The functions that are shipped: one row for each name."""
    rows: dict[tuple[str, bool, Cost, bool], list[Function]] = {}
    for one in CATALOG.functions:
        if one.predicate or not _also_predicate(one):
            rows.setdefault((one.name, one.predicate, one.cost, one.lfta), []).append(one)
    return _table(
        ("function", "value", "cost", "LFTA-legal"),
        (
            (
                _calls(name, predicate, [(*one.parameters, one.returns) for one in ones]),
                "; ".join([FUNCTIONS[name], *_marks(ones)]),
                cost.name,
                "yes" if lfta else "no",
            )
            for (name, predicate, cost, lfta), ones in rows.items()
        ),
    )


def aggregates() -> str:
    """The aggregates that are shipped."""
    rows: dict[str, list[AggregateFunction]] = {}
    for one in CATALOG.aggregates:
        rows.setdefault(one.name, []).append(one)
    return _table(
        ("aggregate", "value", "split"),
        (
            (
                _calls(name, False, [(*one.parameters, one.returns) for one in ones]),
                "; ".join([AGGREGATES[name], *_notes(ones[0])]),
                _split(ones[0]),
            )
            for name, ones in rows.items()
        ),
    )


def states() -> str:
    """The stateful functions of the sampling operator."""
    rows: dict[tuple[str, str], list[Shape]] = {}
    for one in CATALOG.states:
        rows.setdefault((one.name, one.state), []).append((*one.parameters, one.returns))
    return _table(
        ("function", "value", "state"),
        ((_calls(name, False, shapes), STATES[name], f"`{state}`") for (name, state), shapes in rows.items()),
    )


def no_effect() -> str:
    """The options of DEFINE that change nothing."""
    return _table(("entry", "why it changes nothing"), ((f"`{name}`", why) for name, why in NO_EFFECT.items()))


def _also_predicate(one: Function) -> bool:
    named = CATALOG.named(one.name)
    return any(isinstance(each, Function) and each.predicate and each.parameters == one.parameters for each in named)


def _calls(name: str, predicate: bool, shapes: Iterable[Shape]) -> str:
    left, right = ("[", "]") if predicate else ("(", ")")
    return ", ".join(f"`{name}{left}{', '.join(types)}{right}: {result}`" for *types, result in _general(list(shapes)))


def _general(shapes: list[Shape]) -> list[Shape]:
    """The shapes, those that differ by one type that can be any written once with T."""
    reached: dict[Shape, dict[str, Shape]] = {}
    for shape in shapes:
        for kind, template in _templates(shape):
            reached.setdefault(template, {})[kind] = shape
    found: list[Shape] = []
    for shape in shapes:
        whole = [each for each, kinds in reached.items() if len(kinds) == len(Type) and shape in kinds.values()]
        found.append(whole[0] if whole else tuple(str(kind) for kind in shape))
    return list(dict.fromkeys(found))


def _templates(shape: Shape) -> Iterator[tuple[str, Shape]]:
    for kind in Type:
        places = [at for at, each in enumerate(shape) if each == kind]
        for count in range(len(places), 0, -1):
            for chosen in combinations(places, count):
                yield kind, tuple("T" if at in chosen else str(each) for at, each in enumerate(shape))


def _marks(ones: Sequence[Function]) -> Iterator[str]:
    if any(one.partial for one in ones):
        yield "may fail"
    if any(one.monotone for one in ones):
        yield "of a temporal value it is temporal"
    for at in ones[0].constant:
        yield f"argument {at + 1} is a constant" + (", the name of a file" if at in ones[0].files else "")
    yield from _limits(ones)


def _limits(ones: Sequence[Function] | Sequence[AggregateFunction]) -> Iterator[str]:
    limits = dict(pair for one in ones for pair in one.limits)
    for at, limit in sorted(limits.items()):
        yield f"a constant argument {at + 1} is {limit.says}"


def _split(one: AggregateFunction) -> str:
    if one.native is not None and one.native.parts is not None:
        return f"as {one.native.parts.left} and {one.native.parts.right}"
    return f"{one.sub}, then {one.sup}" if one.sub else "no"


def _notes(one: AggregateFunction) -> Iterator[str]:
    if one.running:
        yield "needs CLOSING_WHEN"
    if one.ordered:
        yield "in canonical order"
    if len(one.parameters) > one.taken:
        yield "the last argument is a constant"
    yield from _limits([one])


def values() -> str:
    """The edges of values, in both dialects."""
    cells = ((f"`{case.text}`".replace("|", "\\|"), shown(case.value), case.old) for case in CASES)
    return _table(
        ("expression", "value", "in dialect 'gigascope'"),
        ((text, value, "" if shown(old) == value else shown(old)) for text, value, old in cells),
    )


TABLES: dict[str, Callable[[], str]] = {
    "columns": columns, "functions": functions, "aggregates": aggregates, "states": states, "no_effect": no_effect,
    "values": values,
}  # fmt: skip
