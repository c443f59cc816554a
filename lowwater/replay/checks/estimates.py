"""Refuses rows that do not say that load was shed.

Between the planner and the engines. A row over a link with `shed` is an estimate (SEMANTICS O5), and its sampling rate
must be in it. `run` and `replay` check before they start; `check` and `explain` print notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowwater.catalog.expr import Expr, columns_of
from lowwater.catalog.packets import SAMPLING_RATE
from lowwater.config import Config, section_of
from lowwater.errors import QueryError, raise_all, sort_errors
from lowwater.plan.operators import Aggregation, FilterJoin, Join, Map, Node, Source, Union, WatchJoin
from lowwater.plan.queryset import Plan
from lowwater.plan.text import Note
from lowwater.plan.tree import walk

Rates = Mapping[str, frozenset[Source]]
"""Column -> sources from whose sampling rate it is computed."""

_NONE: frozenset[Source] = frozenset()


def require_marked(plan: Plan, config: Config) -> None:
    """Checks that published rows carry the sampling rate of every source that sheds load.

    Raises:
        QueryError: the rows of a query do not carry it, with query and place; QueryErrors for several sources.
    """
    files = {query.name: query.file for query in (*plan.queries, *plan.internal)}
    raise_all(
        sort_errors(
            [
                QueryError(f"query {note.query}: {note.text}", hint, files.get(note.query, ""), *note.place)
                for note, hint in _unmarked(plan, config, allowed=False)
            ]
        )
    )


def estimate_notes(plan: Plan, config: Config) -> tuple[Note, ...]:
    """The findings of `require_marked` as notes, and those that the settings allow."""
    refused = [Note(note.query, f"{note.text}; {hint}", note.place) for note, hint in _unmarked(plan, config, False)]
    return (*refused, *(note for note, _ in _unmarked(plan, config, allowed=True)))


def _unmarked(plan: Plan, config: Config, allowed: bool) -> Iterator[tuple[Note, str]]:
    """Yields each output query with a source whose packets are shed and whose rate no column carries, and a hint."""
    links = {
        name for name, link in config.links.items() if link.shed is not None and link.unmarked_estimates == allowed
    }
    for query in plan.queries:
        sources = {source for source in _shown(query.logical) if links.intersection(source.links)}
        if not sources:
            continue
        rates = rates_of(query.logical)
        carried = _NONE.union(*rates.values())
        for source in sorted(sources - carried, key=lambda source: (source.query, source.alias)):
            shedding = sorted(links.intersection(source.links))
            of = f" ({source.alias} of query {source.query})" if source.query != query.name else f" ({source.alias})"
            text = f"link {', '.join(shedding)} sheds load{of}, and no column of the rows comes from {SAMPLING_RATE}"
            yield Note(query.name, text, source.place), _hint(query.logical, source, shedding[0])


def _hint(node: Node, source: Source, link: str) -> str:
    column = SAMPLING_RATE if source.alias == source.protocol else f"{source.alias}.{SAMPLING_RATE}"
    grouped = any(isinstance(below, Aggregation) and below.query == source.query for below in walk(node))
    column = f"min({column}) AS rate" if grouped else f"{column} AS rate"
    handed = "" if source.query == node.query else f" of query {source.query}, and hand it on"
    accept = f"unmarked_estimates = true in {section_of(link)}"
    return f"add {column} to SELECT{handed}, or accept rows without a mark: {accept}"


def _shown(node: Node) -> Iterator[Source]:
    """Yields the sources whose packets may be in the rows: not those in which FILTER_JOIN only searches."""
    stack, seen = [node], set()
    while stack:
        at = stack.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        if isinstance(at, Source):
            yield at
        stack += [at.left] if isinstance(at, FilterJoin) else at.inputs()


def rates_of(node: Node) -> Rates:
    """Returns the sources from whose sampling rate each column of a plan is computed, inputs before readers."""
    known: dict[int, Rates] = {}
    for at in walk(node):
        known[id(at)] = _rates(at, [known[id(below)] for below in at.inputs()])
    return known[id(node)]


def _rates(node: Node, below: list[Rates]) -> Rates:
    if isinstance(node, Source):
        return {SAMPLING_RATE: frozenset([node])}
    if isinstance(node, Union):
        columns: dict[str, frozenset[Source]] = {}
        for branch, rates in zip(node.branches, below, strict=True):
            for field, own in zip(node.fields, branch.fields, strict=True):
                columns[field.name] = columns.get(field.name, _NONE) | rates.get(own.name, _NONE)
        return columns
    inputs: Rates = below[0] if below else {}
    if isinstance(node, Join | FilterJoin):
        sides = zip((node.left_alias, node.right_alias), below, strict=True)
        inputs = {f"{alias}.{name}": sources for alias, rates in sides for name, sources in rates.items()}
    if isinstance(node, WatchJoin):
        inputs = {**inputs, **{f"{node.alias}.{name}": sources for name, sources in inputs.items()}}
    if isinstance(node, Aggregation):
        computed = {key.name: _of(inputs, key.expr) for key in node.keys}
        for aggregate in (*node.aggregates, *getattr(node, "supers", ())):
            given = [argument for argument in (aggregate.argument, *aggregate.more) if argument is not None]
            computed[aggregate.name] = _of(inputs, *given)
        inputs = computed
    if isinstance(node, Map | Aggregation | Join | FilterJoin | WatchJoin):
        return {item.name: _of(inputs, item.expr) for item in node.items}
    return inputs


def _of(rates: Rates, *exprs: Expr) -> frozenset[Source]:
    return _NONE.union(*(rates.get(name, _NONE) for name in columns_of(*exprs)))
