"""From query files to a plan: the door of the planner.

Parses, binds and splits the queries of a set. The result is what every engine, EXPLAIN and the digest of inputs read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from lowwater.catalog.protocols import LINK, PROTOCOLS, Protocol
from lowwater.errors import LowwaterError
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_statement
from lowwater.plan.bind.queries import Bound, Statements, bind_texts
from lowwater.plan.context import Context, Links
from lowwater.plan.operators import Key, Lfta, Node, Source
from lowwater.plan.prefilter import Prefilter, choose_prefilters
from lowwater.plan.properties.keys import unique_key
from lowwater.plan.properties.placing import with_numbers
from lowwater.plan.properties.state import counts_rows
from lowwater.plan.rewriter import Rewriter
from lowwater.plan.rules import LEVELS, LOGICAL, Setting
from lowwater.plan.text import Note, nearest
from lowwater.plan.tree import lftas_of, walk


@dataclass(frozen=True)
class QueryPlan:
    """One output query.

    Attributes:
        name: the name of the query and its table.
        text: canonical text of the query and of all that it reads, for the digest of inputs (S1).
        logical: plan before the split; the reference engine runs it.
        high: plan after the split; its leaves are the LFTAs.
        file: that its text stands in.
        internal: whether nobody sees it: it is planned to be read by others, and explained.
        key: columns that no two of its rows have in common: as DEFINE says, else as the plan shows; None for unknown.
        parts: what `text` is made of, each with what it is: `query flows`, `parameter $n`, `protocol LOG`.
    """

    name: str
    text: str
    logical: Node
    high: Node
    file: str = ""
    internal: bool = False
    key: tuple[str, ...] | None = None
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def lftas(self) -> list[Lfta]:
        return lftas_of(self.high)

    @property
    def links(self) -> list[str]:
        return sorted({link for lfta in self.lftas for link in lfta.links})


@dataclass(frozen=True)
class Plan:
    """The output queries of a query set, in the order of their text.

    Attributes:
        queries: the outputs.
        internal: the queries that only others read, in the order of their text.
        prefilters: of all links.
        notes: what is worth knowing, such as an option that changes nothing.
        setting: what the rules knew of the queries.

    """

    queries: tuple[QueryPlan, ...]
    internal: tuple[QueryPlan, ...] = ()
    prefilters: tuple[Prefilter, ...] = ()
    notes: tuple[Note, ...] = ()
    setting: Setting = field(default_factory=Setting, compare=False, repr=False)

    @property
    def lftas(self) -> list[Lfta]:
        return lftas_of(*(query.high for query in self.queries))

    @property
    def links(self) -> list[str]:
        return sorted({link for query in self.queries for link in query.links})

    def only(self, name: str) -> Plan:
        """The plan of one of its queries.

        Raises:
            LowwaterError: no output query has this name.
        """
        chosen = tuple(query for query in self.queries if query.name == name)
        if not chosen:
            names = [query.name for query in self.queries]
            raise LowwaterError(f"no output query is called {name}", nearest(name, names))
        notes = [note for note in self.notes if note.query == name]
        return _planned(chosen, self.internal, notes, self.setting)


def plan_files(paths: Sequence[Path], links: Links, slots: int | None = None, context: Context | None = None) -> Plan:
    """Plans the queries of some files as one query set.

    Args:
        paths: `.gsql` files, UTF-8.
        links: what FROM may name.
        slots: size of every group table, over what the queries say; for tests of the law.
        context: functions, protocols and parameters; the built-in ones where it is not given.

    Raises:
        LowwaterError: a file cannot be read.
        QueryError: a text has no meaning; QueryErrors for several.
    """
    texts = [(str(path), read_query(path)) for path in paths]
    folders = tuple(dict.fromkeys(path.parent for path in paths))
    return plan_texts(texts, links, slots, context, folders)


def read_query(path: Path) -> str:
    """The text of a query file.

    Raises:
        LowwaterError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise LowwaterError(f"query file {path} cannot be read: {reason}") from None


def plan_texts(
    texts: Iterable[tuple[str, str]],
    links: Links,
    slots: int | None = None,
    context: Context | None = None,
    folders: Sequence[Path] = (),
) -> Plan:
    """Plans query texts, each with the name of its file.

    Args:
        texts: (file, text).
        links: what FROM may name.
        slots: size of every group table, for tests of the law.
        context: as for `plan_files`.
        folders: where libraries of queries (`library/query`) are looked for.
    """
    bound = bind_texts(texts, folders, replace(context or Context(), links=links), slots)
    statements, context = bound.statements, bound.context
    setting = _setting(bound)
    rewriter = Rewriter(LOGICAL, setting)
    logical = {name: rewriter.rewrite(node) for name, node in bound.plans.items()}
    setting = replace(setting, arriving=frozenset(name for name, node in logical.items() if counts_rows(node)))
    levels = replace(setting, several=_several(logical.values()))
    # An output that counts rows is evaluated by arrival, with all that it reads.
    rewriters = {arrival: Rewriter(LEVELS, replace(levels, arrival=arrival)) for arrival in (False, True)}
    plans: list[QueryPlan] = []
    below: dict[str, list[str]] = {}
    keys: dict[int, Key] = {}
    printed = cache(lambda name: print_statement(statements[name][0]))
    for name, node in bound.plans.items():
        whole = logical[name]
        _, text = statements[name]
        below[name] = _below(node, name, below)
        used = [statements[each][0] for each in (*below[name], name)]
        extra = _extra_inputs([*below[name], name], statements, context)
        texts_below = [(f"query {each}", printed(each)) for each in (*below[name], name)]
        named = [*_named_inputs(whole, used, context), *texts_below]
        canonical = _canonical([part for _, part in extra], [part for _, part in named])
        key = bound.keys[name].with_derived(unique_key(whole, keys), [field.name for field in whole.fields])
        high = rewriters[name in setting.arriving].rewrite(whole)
        plans.append(QueryPlan(name, canonical, whole, high, text.file, name in bound.hidden, key, (*extra, *named)))
    plans = [
        replace(plan, high=high) for plan, high in zip(plans, with_numbers([plan.high for plan in plans]), strict=True)
    ]
    order = {name: at for at, name in enumerate(statements)}
    plans.sort(key=lambda plan: order[plan.name])
    outputs = tuple(plan for plan in plans if not plan.internal)
    if not outputs:
        raise LowwaterError("the query files hold no output query", "write a SELECT, or remove a visibility 'internal'")
    return _planned(outputs, tuple(plan for plan in plans if plan.internal), bound.notes, setting)


def _planned(
    outputs: tuple[QueryPlan, ...], internal: tuple[QueryPlan, ...], notes: Sequence[Note], setting: Setting
) -> Plan:
    prefilters = choose_prefilters(lftas_of(*(query.high for query in outputs)))
    return Plan(outputs, internal, prefilters, tuple(notes), setting)


def _several(plans: Iterable[Node]) -> frozenset[str]:
    """The queries that read packets in more than one place."""
    counts: dict[str, int] = {}
    for node in walk(*plans):
        for below in node.inputs():
            if isinstance(below, Source):
                counts[node.query] = counts.get(node.query, 0) + 1
    return frozenset(query for query, count in counts.items() if count > 1)


def _setting(bound: Bound) -> Setting:
    return Setting(
        bound.slots,
        bound.thresholds,
        bound.selections,
        bound.private,
        catalog=bound.context.catalog,
        ordered=frozenset(node.query for node in walk(*bound.plans.values()) if node.order_dependent),
    )


def _below(node: Node, name: str, known: Mapping[str, list[str]]) -> list[str]:
    """The queries that a query reads, in the order of their reading."""
    found: dict[str, None] = {}
    stack = list(node.inputs())
    seen: set[int] = set()
    for part in stack:
        if id(part) in seen:
            continue
        seen.add(id(part))
        if part.query != name and part.query in known:
            found.update(dict.fromkeys([*known[part.query], part.query]))
        else:
            stack.extend(part.inputs())
    return list(found)


def _named_inputs(plan: Node, statements: Sequence[syntax.Statement], context: Context) -> list[tuple[str, str]]:
    """What a plan took from definitions beside the queries, each with its name: declared protocols, link properties."""
    found: dict[tuple[str, str], None] = {}
    asks = any(_has_property(expr) for statement in statements for expr in syntax.expressions_of(statement))
    for source in walk(plan):
        if not isinstance(source, Source):
            continue
        protocol = context.protocols[source.protocol]
        if protocol is not PROTOCOLS.get(source.protocol):
            digest = sha256(_declared(protocol).encode()).hexdigest()
            found[f"protocol {protocol.name}", f"protocol {protocol.name} {digest}"] = None
        for link in source.links if asks else ():
            for word, value in sorted(context.links.of(context.links.properties, link, {}).items()):
                found[f"property {word} of link {link}", f"property {link} {word} = {value!r}"] = None
    return list(found)


def _declared(protocol: Protocol) -> str:
    """What rows depend on of a declared protocol; the column `link` that none declared is no part of it."""
    hidden = sorted(protocol.hidden - {LINK})
    columns = {name: expr for name, expr in protocol.columns.items() if name != LINK or LINK not in protocol.hidden}
    # The order of a set differs from process to process.
    return repr(replace(protocol, columns=columns, hidden=frozenset())) + (repr(hidden) if hidden else "")


def _has_property(expr: syntax.Expression) -> bool:
    return isinstance(expr, syntax.Property) or any(_has_property(child) for child in syntax.children(expr))


def _extra_inputs(names: Sequence[str], statements: Statements, context: Context) -> list[tuple[str, str]]:
    """What else the rows of queries depend on, each with its name: parameters, declared functions, the dialect."""
    declared = {param.name for name in names for param in getattr(statements[name][0], "params", ())}
    values = [(name, context.params[name]) for name in sorted(declared) if name in context.params]
    extra = [(f"parameter ${name}", f"${name} = {value!r}") for name, value in values]
    extra += [("a declared function", f"functions {digest}") for digest in context.digests]
    if context.dialect != "lowwater":
        extra.append(("the dialect", f"dialect {context.dialect}"))
    return extra


def _canonical(extra: Sequence[str], named: Sequence[str]) -> str:
    """The text of queries with everything that they name and that rows depend on (S1)."""
    return "\n\n".join([*(["\n".join(extra)] if extra else []), *named])


def source_links(plan: Node) -> dict[str, tuple[str, ...]]:
    """Links of every source of a logical plan, by `query.alias`."""
    return {f"{node.query}.{node.alias}": node.links for node in walk(plan) if isinstance(node, Source)}
