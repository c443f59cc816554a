"""Checks before a run: what no engine runs, what costs too much, columns that no link keeps, rows that hide what was
shed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lowwater.catalog import expr as ex, protocols
from lowwater.catalog.schemas import FRAME, HEAD, KEPT, PAYLOAD, SAMPLING_RATE, UNNAMED, stored
from lowwater.config import Config, Link, Replay, section_of
from lowwater.errors import QueryError, UnsupportedError, raise_all, sort_errors
from lowwater.low import needed_columns
from lowwater.plan import operators as ops, properties, queryset
from lowwater.plan.text import Note

# `run` and `replay` check before they start, so that no run fails midway; `check` and `explain` print the same as
# notes. What costs too much: windows and groupings that multiply rows too often.

MOST_COPIES = Replay().copies


Finding = tuple[Note, str]
"""What is wrong with a query, and a hint."""


def _refuse(plan: queryset.Plan, findings: Iterable[Finding]) -> None:
    """Raises QueryError for a finding, with query and place; QueryErrors for several."""
    files = {query.name: query.file for query in (*plan.queries, *plan.internal)}
    raise_all(
        sort_errors(
            [
                QueryError(f"query {note.query}: {note.text}", hint, files.get(note.query, ""), *note.place)
                for note, hint in findings
            ]
        )
    )


def _as_notes(findings: Iterable[Finding]) -> tuple[Note, ...]:
    return tuple(replace(note, text=f"{note.text}; {hint}") for note, hint in findings)


def require_affordable(plan: queryset.Plan, most: int) -> None:
    """Raises QueryError if an operator makes more than a number of rows from one row, QueryErrors for several."""
    _refuse(plan, _exceeding(plan, most))


def cost_notes(plan: queryset.Plan, most: int = MOST_COPIES) -> tuple[Note, ...]:
    """The findings of `require_affordable` as notes."""
    return _as_notes(_exceeding(plan, most))


def _exceeding(plan: queryset.Plan, most: int) -> Iterator[Finding]:
    """Yields each operator above the limit once: a note about its factor, and a hint."""
    reported: set[tuple[str, ops.Place]] = set()
    for query in plan.queries:
        for node, factor, total in properties.copies(query.logical):
            if total > most and (node.query, factor.place) not in reported:
                reported.add((node.query, factor.place))
                with_windows = f", {total:,} with the windows below" if total > factor.times else ""
                text = f"each row is in {factor.times:,} {factor.what}{with_windows}; {most:,} are allowed"
                hint = f"{factor.less}, or allow more: copies = {total} in [replay], --copies {total} of run"
                yield Note(node.query, text, factor.place), hint


# What an engine does not run, with its name and place.

REFERENCE = "reference"
"""The name of the reference engine; every other name is of the engine whose runners evaluate."""

NOT_RUN = "planned, but not run by the engines yet"
_NO_PYTHON = "declared without Python: name its file by a line MODULE"
_NO_VALUE = "no value"


@dataclass(frozen=True)
class Missing:
    """A construct that an engine does not run."""

    query: str
    what: str  # the construct, as messages name it; `$name` for a parameter
    why: str  # the reason, after "is" or "has" in the message
    place: ops.Place  # its line and column in the text; (0, 0) if unknown
    hint: str = ""  # the remedy; empty without one

    @property
    def valueless(self) -> bool:
        """Whether the construct is a parameter without a value."""
        return self.why == _NO_VALUE

    def __str__(self) -> str:
        return f"{self.what} {'has' if self.valueless else 'is'} {self.why}"


def require_lowered(plan: queryset.Plan, engine: str = "") -> None:
    """Checks that an engine runs every operator and expression of a plan.
    Raises UnsupportedError if the engine does not run a construct; the error has its query and place, QueryError if a
    parameter has no value, and QueryErrors if the plan has several of these mistakes."""
    refused = [
        UnsupportedError(f"query {missing.query}: {missing}", missing.hint, file, *missing.place)
        for file, missing in _missing(plan, engine)
    ]
    raise_all(sort_errors(refused))


def not_run(plan: queryset.Plan) -> tuple[Note, ...]:
    """Returns the unsupported constructs of a plan as notes, without parameters: they may get a value later."""
    every = [missing for _, missing in _missing(plan) if not missing.valueless]
    every.sort(key=lambda missing: missing.place)
    return tuple(
        Note(missing.query, f"{missing}{f'; {missing.hint}' if missing.hint else ''}", missing.place)
        for missing in every
    )


def _missing(plan: queryset.Plan, engine: str = "") -> list[tuple[str, Missing]]:
    """Returns (file, missing construct) pairs, without duplicates."""
    files = {owner.name: owner.file for owner in (*plan.queries, *plan.internal)}
    first: dict[tuple[str, str, ops.Place], tuple[str, Missing]] = {}
    for query in plan.queries:
        for missing in _of_query(query) if engine != REFERENCE else _of_reference(query):
            file = files.get(missing.query, query.file)
            first.setdefault((file, missing.what, missing.place), (file, missing))
    return list(first.values())


def _of_reference(query: queryset.QueryPlan) -> Iterator[Missing]:
    """Yields the constructs that no engine runs; the reference engine runs every operator."""
    for node in ops.walk(query.logical):
        if isinstance(node, ops.Source):
            yield from _unreadable(node.query, node)
        yield from _in_node(node)
    yield from _by_arrival(query)


def _by_arrival(query: queryset.QueryPlan) -> Iterator[Missing]:
    """Yields what needs the order of times, where the query takes records in order of arrival (SEMANTICS I4)."""
    if properties.by_arrival(query.logical):
        for node in ops.walk(query.logical):
            if isinstance(node, ops.Over | ops.Fill):
                word = "OVER" if isinstance(node, ops.Over) else "FILL"
                why = f"not run where windows of rows, or attributes of their own, make {query.name} go by arrival"
                hint = "read it in a query without them"
                yield Missing(node.query, word, why, node.place, hint)


def _of_query(query: queryset.QueryPlan) -> Iterator[Missing]:
    yield from _by_arrival(query)
    for node in ops.walk(query.high):
        if isinstance(node, ops.LftaInput):
            yield from _in_lfta(node.query, node.lfta)
        else:
            yield from _in_node(node)


def _unreadable(query: str, source: ops.Source | ops.Lfta) -> Iterator[Missing]:
    """Yields the protocol of a source whose records no reader gives."""
    what = f"protocol {source.protocol} of {source.kind} records"
    if source.kind not in ("pcap", "csv", *protocols.LOG_KINDS):
        hint = "packets run, and records of csv, JSON lines and parquet, read by get_csv_... functions"
        yield Missing(query, what, NOT_RUN, source.place, hint)
    elif source.layout is not None and source.layout.refused:
        hint = "declare an increasing field of the record, such as: uint time get_csv_uint_pos1 (increasing);"
        yield Missing(query, what, f"not read: {source.layout.refused}", source.place, hint)


def _in_lfta(query: str, lfta: ops.Lfta) -> Iterator[Missing]:
    yield from _unreadable(query, lfta)
    for partial in lfta.partials:
        if partial.udaf is None and partial.native is None:
            yield Missing(query, f"the aggregate {partial.function}", _NO_PYTHON, partial.place)
    for expr in (lfta.predicate, *(key.expr for key in lfta.keys), *(p.argument for p in lfta.partials)):
        if expr is not None:
            yield from _in_expr(query, expr)


def _in_node(node: ops.Node) -> Iterator[Missing]:
    if isinstance(node, ops.Aggregation):
        for aggregate in node.all_aggregates:
            if aggregate.udaf is not None and aggregate.udaf.make is None:
                yield Missing(node.query, f"the aggregate {aggregate.function}", _NO_PYTHON, aggregate.place)
    for expr in node.exprs():
        yield from _in_expr(node.query, expr)


def _in_expr(query: str, expr: ex.Expr) -> Iterator[Missing]:
    for part in ex.walk(expr):
        if isinstance(part, ex.Call | ex.StateCall) and part.function.value is None:
            yield Missing(query, f"the function {part.function.name}", _NO_PYTHON, part.place)
        elif isinstance(part, ex.Param):
            yield Missing(query, f"${part.name}", _NO_VALUE, part.place, f"give --param {part.name}=VALUE")


# A row over a link with `shed` is an estimate (SEMANTICS O5), and its sampling rate must be in it.

Rates = Mapping[str, frozenset[ops.Source]]
"""Column -> sources from whose sampling rate it is computed."""

_NONE: frozenset[ops.Source] = frozenset()


def require_marked(plan: queryset.Plan, config: Config) -> None:
    """Checks that published rows carry the sampling rate of every source that sheds load.
    Raises QueryError if the rows of a query do not carry it; QueryErrors for several sources."""
    _refuse(plan, _unmarked(plan, config, allowed=False))


def estimate_notes(plan: queryset.Plan, config: Config) -> tuple[Note, ...]:
    """The findings of `require_marked` as notes, and those that the settings allow."""
    allowed = (note for note, _ in _unmarked(plan, config, allowed=True))
    return (*_as_notes(_unmarked(plan, config, allowed=False)), *allowed)


def _unmarked(plan: queryset.Plan, config: Config, allowed: bool) -> Iterator[Finding]:
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


def _hint(node: ops.Node, source: ops.Source, link: str) -> str:
    column = SAMPLING_RATE if source.alias == source.protocol else f"{source.alias}.{SAMPLING_RATE}"
    grouped = any(isinstance(below, ops.Aggregation) and below.query == source.query for below in ops.walk(node))
    column = f"min({column}) AS rate" if grouped else f"{column} AS rate"
    handed = "" if source.query == node.query else f" of query {source.query}, and hand it on"
    accept = f"unmarked_estimates = true in {section_of(link)}"
    return f"add {column} to SELECT{handed}, or accept rows without a mark: {accept}"


def _shown(node: ops.Node) -> Iterator[ops.Source]:
    """Yields the sources whose packets may be in the rows: not those in which FILTER_JOIN only searches."""
    stack, seen = [node], set()
    while stack:
        at = stack.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        if isinstance(at, ops.Source):
            yield at
        stack += [at.left] if isinstance(at, ops.FilterJoin) else at.inputs()


def rates_of(node: ops.Node) -> Rates:
    """Returns the sources from whose sampling rate each column of a plan is computed, inputs before readers."""
    known: dict[int, Rates] = {}
    for at in ops.walk(node):
        known[id(at)] = _rates(at, [known[id(below)] for below in at.inputs()])
    return known[id(node)]


def _rates(node: ops.Node, below: list[Rates]) -> Rates:
    if isinstance(node, ops.Source):
        return {SAMPLING_RATE: frozenset([node])}
    if isinstance(node, ops.Union):
        columns: dict[str, frozenset[ops.Source]] = {}
        for branch, rates in zip(node.branches, below, strict=True):
            for field, own in zip(node.fields, branch.fields, strict=True):
                columns[field.name] = columns.get(field.name, _NONE) | rates.get(own.name, _NONE)
        return columns
    inputs: Rates = below[0] if below else {}
    if isinstance(node, ops.TwoInputs):
        sides = zip(node.sides, below, strict=True)
        inputs = {f"{alias}.{name}": sources for (alias, _), rates in sides for name, sources in rates.items()}
    if isinstance(node, ops.WatchJoin):
        inputs = {**inputs, **{f"{node.alias}.{name}": sources for name, sources in inputs.items()}}
    if isinstance(node, ops.Aggregation):
        computed = {key.name: _of(inputs, key.expr) for key in node.keys}
        for aggregate in node.all_aggregates:
            computed[aggregate.name] = _of(inputs, *aggregate.arguments)
        inputs = computed
    if isinstance(node, ops.Map | ops.Top | ops.Aggregation | ops.Join | ops.FilterJoin | ops.WatchJoin):
        return {item.name: _of(inputs, item.expr) for item in node.items}
    return inputs


def _of(rates: Rates, *exprs: ex.Expr) -> frozenset[ops.Source]:
    return _NONE.union(*(rates.get(name, _NONE) for name in ex.columns_of(*exprs)))


# Where a link does not keep a column, every value is NULL (`docs/packets.md`), which would otherwise look like a
# result. `run` keeps what its queries read.

SAMPLED = "sampling"
"""What the settings call the digests by which packets are sampled."""


def optional_columns(lftas: Sequence[ops.Lfta]) -> set[str]:
    """The columns that LFTAs read and only some links store."""
    return {name for name in needed_columns(lftas) if name in KEPT.names}


def applications_of(columns: Collection[str]) -> list[str]:
    """The applications, as named in the settings, whose fields are among optional columns."""
    return sorted({name.partition("_")[0] for name in columns if name not in UNNAMED})


def content_of(columns: Collection[str]) -> list[str]:
    """What of a packet must be kept for some optional columns, as the ledger names it."""
    named = [PAYLOAD] * (FRAME in columns) + [SAMPLED] * (HEAD in columns)
    return [*named, *applications_of(columns)]


def setting_lines(link: Link, columns: Collection[str]) -> list[str]:
    """The lines of the settings by which a link keeps some optional columns too; empty if it keeps them."""
    kept = [*link.applications, *([PAYLOAD] if link.payload is not None else []), *([SAMPLED] if link.sampling else [])]
    lacking = [content for content in content_of(columns) if content not in kept]
    added = [name for name in lacking if name not in (PAYLOAD, SAMPLED)]
    lines = ['payload = "all"'] * (PAYLOAD in lacking) + ["sampling = true"] * (SAMPLED in lacking)
    return [*lines, *([f"applications = {json.dumps(sorted({*link.applications, *added}))}"] if added else [])]


def lines_to_add(plans: Iterable[queryset.Plan], config: Config) -> dict[str, list[str]]:
    """Link in the settings -> the lines by which it keeps all columns that queries read; without links that do."""
    read: dict[str, set[str]] = defaultdict(set)
    for lfta in (lfta for plan in plans for lfta in plan.read_lftas):
        for link in lfta.links:
            if config.link(link).kind == "pcap":
                read[_section(config, link)] |= optional_columns([lfta])
    lines = {link: setting_lines(config.link(link), columns) for link, columns in sorted(read.items())}
    return {link: added for link, added in lines.items() if added}


def require_kept(plan: queryset.Plan, config: Config) -> None:
    """Checks that every link keeps the columns that queries read of it.
    Raises QueryError if a link does not keep a column; QueryErrors for several."""
    _refuse(plan, _unkept(plan, config))


def unkept_notes(plan: queryset.Plan, config: Config) -> tuple[Note, ...]:
    """The findings of `require_kept` as notes."""
    return _as_notes(_unkept(plan, config))


def _unkept(plan: queryset.Plan, config: Config) -> Iterator[Finding]:
    for query in plan.queries:
        yield from _unkept_of(query, config)


def _unkept_of(query: queryset.QueryPlan, config: Config) -> Iterator[Finding]:
    """Yields a note, and a hint, for each setting that links of a query lack."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    places: dict[tuple[str, ...], tuple[int, int]] = {}
    for lfta in properties.lftas_as_read([query.high]):
        for link in lfta.links:
            settings = None if link == ops.ANY_LINK else config.link(link)
            if settings is None or settings.kind != "pcap":
                continue
            read = optional_columns([lfta])
            for line in setting_lines(settings, read):
                columns = tuple(sorted(_named(lfta, line)))
                found.setdefault(columns, {})[_section(config, link)] = line
                places.setdefault(columns, _place(lfta, columns))
    for columns, lines in found.items():
        names = ", ".join(lines)
        keeps = "keeps" if len(lines) == 1 else "keep"
        text = f"link {names} {keeps} no {', '.join(columns)}, so every value of it would be NULL"
        hidden = [link for link in lines if config.link(link).anonymise is not None]
        add = "; ".join(f"{line} in {section_of(link)}" for link, line in lines.items() if link not in hidden)
        hint = f"write {add}, and run `lowwater ingest`, which reads their captures again; or name other links in FROM"
        if hidden:
            again = "take its captures in twice, as two links, or name other links in FROM"
            hint = f"link {', '.join(hidden)} hides addresses: {again}"
        yield Note(query.name, text, places[columns]), hint


def _section(config: Config, link: str) -> str:
    """The link in whose section of the settings those of a link stand: that of its file, for an interface."""
    return link if link in config.links else link.partition("/")[0]


def _expressions(lfta: ops.Lfta) -> list[ex.Expr]:
    items = [item.expr for item in lfta.keys]
    partials = [partial.argument for partial in lfta.partials]
    return [expr for expr in (lfta.member, lfta.predicate, *items, *partials) if expr is not None]


def _named(lfta: ops.Lfta, line: str) -> set[str]:
    """The columns of expressions of an LFTA that a setting keeps; the setting itself for sampling."""
    if line.startswith(SAMPLED):
        return {"digest for sampling"}
    kept = [FRAME] if line.startswith(PAYLOAD) else [name for name in KEPT.names if name not in UNNAMED]
    columns = [node.name for expr in _expressions(lfta) for node in ex.walk(expr) if isinstance(node, ex.Column)]
    return {name for name in columns if set(stored([name])).intersection(kept)}


def _place(lfta: ops.Lfta, columns: Collection[str]) -> tuple[int, int]:
    """The first place at which one of some columns is read; that of the source if no expression has one."""
    nodes = (node for expr in _expressions(lfta) for node in ex.walk(expr) if isinstance(node, ex.Column))
    return next((node.place for node in nodes if node.name in columns and node.place != (0, 0)), lfta.place)
