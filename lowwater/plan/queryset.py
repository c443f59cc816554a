"""Plans the queries of a query set: the entry of the planner.

Parses, binds and rewrites the queries. Every engine, EXPLAIN and the digest of inputs read the resulting Plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

from lowwater.catalog import expr as ex, localdays, protocols
from lowwater.errors import LowwaterError, nearest
from lowwater.gsql import nodes as syntax
from lowwater.gsql.parser import read_text
from lowwater.gsql.printer import print_statement
from lowwater.limits import PLAN_OPERATORS
from lowwater.link_names import family_of
from lowwater.plan import operators as ops, rules
from lowwater.plan.bind.queries import Bound, Statements, bind_texts, is_hidden, options, read_texts
from lowwater.plan.context import Context, Links
from lowwater.plan.properties import Prefilter, by_arrival, choose_prefilters, lftas_as_read, unique_key
from lowwater.plan.text import Note, place_of
from lowwater.revisions import LFTA, revised


@dataclass(frozen=True)
class QueryPlan:
    """The plan of one query."""

    name: str
    text: str  # the canonical text of the query and of everything that it reads, for the digest of inputs (S1)
    logical: ops.Node  # the plan before the split; the reference engine runs it
    high: ops.Node  # the plan after the split; its leaves are the LFTAs
    file: str = ""
    internal: bool = False  # whether only other queries read it, so that it has no table
    key: tuple[str, ...] | None = None  # a unique key of its rows: from DEFINE, else from the plan; None if unknown
    # the parts of `text`, as (label, text): `query flows`, `parameter $n`, `protocol LOG`
    parts: tuple[tuple[str, str], ...] = ()

    @cached_property
    def lftas(self) -> list[ops.Lfta]:
        return ops.lftas_of(self.high)

    @cached_property
    def files(self) -> list[str]:
        """Paths of the files that its functions read, such as prefix tables."""
        return files_read(expr for node in ops.walk(self.logical) for expr in node.exprs())

    @cached_property
    def links(self) -> list[str]:
        return sorted({link for lfta in self.lftas for link in lfta.links})


@dataclass(frozen=True)
class Plan:
    """The plan of a query set."""

    queries: tuple[QueryPlan, ...]
    internal: tuple[QueryPlan, ...] = ()  # the queries that only other queries read, in the order of their text
    prefilters: tuple[Prefilter, ...] = ()
    notes: tuple[Note, ...] = ()  # remarks, such as an option without effect
    setting: rules.Setting = field(default_factory=rules.Setting, compare=False, repr=False)

    @cached_property
    def lftas(self) -> list[ops.Lfta]:
        return ops.lftas_of(*(query.high for query in self.queries))

    @cached_property
    def read_lftas(self) -> list[ops.Lfta]:
        """The LFTAs, with the columns that something above them reads."""
        return lftas_as_read([query.high for query in self.queries])

    @cached_property
    def links(self) -> list[str]:
        return sorted({link for query in self.queries for link in query.links})

    def only(self, name: str) -> Plan:
        """Returns the plan of one output query. Raises LowwaterError if no output query has this name."""
        outputs = tuple(query for query in self.queries if query.name == name)
        if not outputs:
            names = [query.name for query in self.queries]
            raise LowwaterError(f"no output query is called {name}", nearest(name, names))
        notes = [note for note in self.notes if note.query == name]
        return _make_plan(outputs, self.internal, notes, self.setting)

    def without(self, names: Container[str]) -> Plan:
        """Returns the plan of the output queries that do not have these names; itself where none has."""
        outputs = tuple(query for query in self.queries if query.name not in names)
        if len(outputs) == len(self.queries):
            return self
        return _make_plan(outputs, self.internal, self.notes, self.setting)


def plan_files(paths: Sequence[Path], links: Links, slots: int | None = None, context: Context | None = None) -> Plan:
    """Plans the queries of some UTF-8 files as one query set. `slots`: the number of slots of every group table,
    instead of what the queries say; for tests of the law. `context`: functions, protocols and parameters.
    Raises LowwaterError if a file cannot be read, and QueryError if a query is wrong; QueryErrors for several mistakes.
    """
    texts = [(str(path), read_text(path)) for path in paths]
    folders = tuple(dict.fromkeys(path.parent for path in paths))
    return plan_texts(texts, links, slots, context, folders)


def table_names(paths: Sequence[Path]) -> list[str]:
    """The queries of some files that have a table: what the files say, without planning them.
    Raises LowwaterError if a file cannot be read, and QueryError if a file is no GSQL."""
    read = read_texts([(str(path), read_text(path)) for path in paths], [path.parent for path in paths])
    statements = ((name, statement) for name, (statement, _) in read.statements.items())
    return [name for name, of in statements if not isinstance(of, syntax.Watchlist) and not is_hidden(name, read)]


def plan_texts(
    texts: Iterable[tuple[str, str]],
    links: Links,
    slots: int | None = None,
    context: Context | None = None,
    folders: Sequence[Path] = (),
) -> Plan:
    """Plans query texts, as (name of the file, text), as one query set. `folders`: folders with libraries of queries
    (`library/query`)."""
    bound = bind_texts(texts, folders, replace(context or Context(), links=links), slots)
    _require_small(bound)
    statements, context = bound.statements, bound.context
    setting = _setting(bound)
    rewriter = rules.Rewriter(rules.LOGICAL, setting)
    logical = {name: rewriter.rewrite(node) for name, node in bound.plans.items()}
    setting = replace(setting, arriving=frozenset(name for name, node in logical.items() if by_arrival(node)))
    levels = replace(setting, several=_queries_with_many_sources(logical.values()))
    # An output that makes progress with records only is evaluated by arrival, with all queries that it reads.
    rewriters = {arrival: rules.Rewriter(rules.LEVELS, replace(levels, arrival=arrival)) for arrival in (False, True)}
    plans: list[QueryPlan] = []
    upstream: dict[str, list[str]] = {}
    keys: dict[int, ops.Key] = {}
    printed = cache(lambda name: print_statement(statements[name][0]))
    for name, node in bound.plans.items():
        plan = logical[name]
        _, text = statements[name]
        upstream[name] = _upstream(node, name, upstream)
        read = [*upstream[name], name]
        extra = _extra_inputs(plan, read, statements, context)
        named = _named_inputs(plan, [statements[query][0] for query in read], context)
        named += [(f"query {query}", printed(query)) for query in read]
        texts_of_inputs = [*(["\n".join(text for _, text in extra)] if extra else []), *(text for _, text in named)]
        canonical = "\n\n".join(texts_of_inputs)
        key = bound.keys[name].with_derived(unique_key(plan, keys), [field.name for field in plan.fields])
        high = rewriters[name in setting.arriving].rewrite(plan)
        plans.append(QueryPlan(name, canonical, plan, high, text.file, name in bound.hidden, key, (*extra, *named)))
    highs = rules.with_numbers([plan.high for plan in plans])
    plans = [replace(plan, high=high) for plan, high in zip(plans, highs, strict=True)]
    order = {name: at for at, name in enumerate(statements)}
    plans.sort(key=lambda plan: order[plan.name])
    outputs = tuple(plan for plan in plans if not plan.internal)
    if not outputs:
        raise LowwaterError("the query files hold no output query", "write a SELECT, or remove a visibility 'internal'")
    return _make_plan(outputs, tuple(plan for plan in plans if plan.internal), bound.notes, setting)


def _require_small(bound: Bound) -> None:
    """Refuses queries that read so many of each other that planning takes minutes: each is planned with all below."""
    operators = 0
    for name, node in bound.plans.items():
        operators += sum(1 for _ in ops.walk(node))
        if operators > PLAN_OPERATORS:
            statement, text = bound.statements[name]
            message = f"query {name}: the plans up to it have {operators:,} operators, more than {PLAN_OPERATORS:,}"
            hint = "each query repeats the plan of what it reads: let fewer queries read other queries"
            raise text.error(place_of(statement), message, hint)


def _make_plan(
    outputs: tuple[QueryPlan, ...], internal: tuple[QueryPlan, ...], notes: Sequence[Note], setting: rules.Setting
) -> Plan:
    prefilters = choose_prefilters(ops.lftas_of(*(query.high for query in outputs)))
    return Plan(outputs, internal, prefilters, tuple(notes), setting)


def _queries_with_many_sources(plans: Iterable[ops.Node]) -> frozenset[str]:
    """Returns the queries that read packets in more than one place."""
    readers = [node.query for node in ops.walk(*plans) for below in node.inputs() if isinstance(below, ops.Source)]
    return frozenset(query for query, count in Counter(readers).items() if count > 1)


def _setting(bound: Bound) -> rules.Setting:
    return rules.Setting(
        bound.slots,
        bound.thresholds,
        bound.selections,
        bound.private,
        catalog=bound.context.catalog,
        ordered=frozenset(node.query for node in ops.walk(*bound.plans.values()) if node.order_dependent),
    )


def _upstream(node: ops.Node, name: str, upstream: Mapping[str, list[str]]) -> list[str]:
    """Returns the queries that a query reads, directly or indirectly, in the order of their evaluation."""
    names: dict[str, None] = {}
    stack = list(node.inputs())
    visited: set[int] = set()
    for part in stack:
        if id(part) in visited:
            continue
        visited.add(id(part))
        if part.query != name and part.query in upstream:
            names.update(dict.fromkeys([*upstream[part.query], part.query]))
        else:
            stack.extend(part.inputs())
    return list(names)


def _named_inputs(plan: ops.Node, statements: Sequence[syntax.Statement], context: Context) -> list[tuple[str, str]]:
    """Returns the definitions that a plan depends on, as (label, text): declared protocols, link properties, zones."""
    inputs: dict[tuple[str, str], None] = {}
    reads_properties = any(_has_property(expr) for statement in statements for expr in syntax.expressions_of(statement))
    for source in ops.walk(plan):
        if not isinstance(source, ops.Source):
            continue
        protocol = context.protocols[source.protocol]
        if protocol is not protocols.PROTOCOLS.get(source.protocol):
            digest = sha256(_protocol_text(protocol).encode()).hexdigest()
            inputs[f"protocol {protocol.name}", f"protocol {protocol.name} {digest}"] = None
        owners = {link if link in context.links.properties else family_of(link) for link in source.links}
        for link in sorted(owners) if reads_properties else ():
            for word, value in sorted(context.links.properties.get(link, {}).items()):
                inputs[f"property {word} of link {link}", f"property {link} {word} = {value!r}"] = None
    zones = zones_read(expr for node in ops.walk(plan) for expr in node.exprs())
    return [*inputs, *zones.items()]


def files_read(exprs: Iterable[ex.Expr]) -> list[str]:
    """Returns the paths of the files that functions of some expressions read, sorted."""
    calls = (part for expr in exprs for part in ex.walk(expr) if isinstance(part, ex.Call))
    arguments = (call.arguments[place] for call in calls for place in call.function.files)
    return sorted({each.value for each in arguments if isinstance(each, ex.Const) and isinstance(each.value, str)})


def zones_read(exprs: Iterable[ex.Expr]) -> dict[str, str]:
    """Returns the days of the time zones that some expressions read, as (label, text), as definitions of a plan."""
    zones = sorted({zone for expr in exprs for zone in _zones(expr)})
    return {f"days of {zone}": f"days of {zone} {localdays.local_days(zone).digest}" for zone in zones}


def _zones(expr: ex.Expr) -> list[str]:
    """Returns the time zones whose days an expression computes."""
    steps = [part for part in ex.walk(expr) if isinstance(part, ex.Call) and part.function.step]
    zones = [step.arguments[1] for step in steps]
    return [zone.value for zone in zones if isinstance(zone, ex.Const) and isinstance(zone.value, str)]


def _protocol_text(protocol: protocols.Protocol) -> str:
    """Returns the parts of a declared protocol that rows depend on; not the columns `LATER` that nobody declared."""
    hidden = sorted(protocol.hidden - protocols.LATER)
    undeclared = protocol.hidden & protocols.LATER
    columns = {name: expr for name, expr in protocol.columns.items() if name not in undeclared}
    # The order of a set differs between processes.
    stored = {name: type_ for name, type_ in protocol.stored.items() if name not in protocols.LATER}
    text = repr(replace(protocol, columns=columns, stored=stored, hidden=frozenset()))
    text += repr(hidden) if hidden else ""
    return text if protocol.layout is None else f"{text} {protocol.layout}"


def _has_property(expr: syntax.Expression) -> bool:
    return isinstance(expr, syntax.Property) or any(_has_property(child) for child in syntax.children(expr))


def _extra_inputs(
    plan: ops.Node, names: Sequence[str], statements: Statements, context: Context
) -> list[tuple[str, str]]:
    """Returns further inputs of queries, as (label, text): parameters, declared functions, the dialect, rules that have
    changed."""
    declared = {param.name for name in names for param in getattr(statements[name][0], "params", ())}
    values = [(name, context.params[name]) for name in sorted(declared) if name in context.params]
    extra = [(f"parameter ${name}", f"${name} = {value!r}") for name, value in values]
    extra += [("a declared function", f"functions {digest}") for digest in context.digests]
    if context.dialect != "lowwater":
        extra.append(("the dialect", f"dialect {context.dialect}"))
    return extra + [(each.key, each.what) for each in revised(_ruled(plan, names, statements, context))]


def _ruled(
    plan: ops.Node, names: Sequence[str], statements: Statements, context: Context
) -> Iterator[tuple[str, object, str]]:
    """Yields what of a plan has rules of its own, as (name, part, dialect of its query): its operators, the low level,
    calls of functions and aggregates."""
    dialects = {name: str(options(statements[name][0]).get("dialect", context.dialect)) for name in names}
    yield LFTA, plan, dialects[names[-1]]
    for node in ops.walk(plan):
        dialect = dialects.get(node.query, "")
        yield node.facts.label, node, dialect
        for call in (part for expr in node.exprs() for part in ex.walk(expr)):
            if isinstance(call, ex.Call | ex.StateCall):
                yield f"function {call.function.name}", call, dialect
        for aggregate in node.all_aggregates if isinstance(node, ops.Aggregation) else ():
            yield f"aggregate {aggregate.function}", aggregate, dialect


def source_links(plan: ops.Node) -> dict[str, tuple[str, ...]]:
    """Returns the links of every source of a logical plan, by `query.alias`."""
    return {f"{node.query}.{node.alias}": node.links for node in ops.walk(plan) if isinstance(node, ops.Source)}
