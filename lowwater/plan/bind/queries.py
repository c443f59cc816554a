"""Binds a query set: parses its files, makes a logical plan of each statement, and reads what the statements say of
each other.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from lowwater import config, limits
from lowwater.catalog import expr as ex, functions, native
from lowwater.catalog.protocols import LOG_KINDS, READY
from lowwater.errors import QueryError, full, nearest, raise_all, sort_errors
from lowwater.gsql import nodes as syntax, parser
from lowwater.gsql.printer import print_operand
from lowwater.plan import operators as ops, properties, temporal
from lowwater.plan.bind import durations, expressions, grouping, joins, over, top
from lowwater.plan.bind.names import Declared, Names, declare
from lowwater.plan.bind.sources import BoundSource, default_name, expand_stars, make_map, name_items, source_fields
from lowwater.plan.context import Context
from lowwater.plan.dialect import gigascope
from lowwater.plan.text import BelowError, Note, Text, attempt_all, place_of, spot

# Options of DEFINE. An option of the public compilers works, has no effect and gets a note, or is refused by name
# (shared rules of GSQL, section 3). Any other entry is text for `#name`.

WORKS = (
    "query_name",
    "visibility",
    "aggregate_slots",
    "select_lfta",
    "lfta_cost",
    "dialect",
    "keys",
    "extra_keys",
    "algorithm",
    "filename",
    "refresh_interval",
    "sample",
    "sample_seed",
)

KEYS = ("keys", "extra_keys")

_RATE = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")

TEXT = ("comment", "title", "namespace", "_referenced_ifaces")

NO_EFFECT = {
    "slow_flush": "an LFTA flushes when a promise closes the epoch; a run's rows do not depend on it",
    "hfta_slow_flush": "results are emitted when the promise allows",
    "max_lfta_disorder": "the skew of a link bounds its disorder, and every open epoch is kept",
    "max_hfta_disorder": "the skew of a link bounds its disorder, and every open epoch is kept",
    "real_time": "the clock of a replay is virtual, and temporal values are saved before any predicate",
    "num_bloom": "FILTER_JOIN is exact, whatever the algorithm",
    "bloom_size": "FILTER_JOIN is exact, whatever the algorithm",
    "print_warnings": "what is not counted is recorded with its reason",
    "reusable": "a run computes every query once",
    "liveness_timeout": "a gap in the coverage of a link is a failed node",
}

REFUSED = {
    "no_temporal_aggr": (
        "an aggregation without a temporal group-by variable, which would never close",
        "add an epoch such as time/60 AS tb to GROUP BY",
    ),
    "lfta_aggregation": (
        "lfta_aggregation: its partial groups would depend on the size of a table",
        "leave it out: the high level completes the groups",
    ),
}


def options(statement: syntax.Statement) -> Mapping[str, str]:
    """Returns the entries of the DEFINE block: option -> value as written."""
    return dict(getattr(statement, "defines", ()))


def check_options(statement: syntax.Statement, text: Text) -> list[str]:
    """Checks the options of a statement. Returns notes on options without effect and on likely misspellings.
    Raises UnsupportedError if an option is refused, since its rows could be wrong, and QueryError if an option does not
    take its value."""
    notes = []
    names = (*WORKS, *TEXT, *NO_EFFECT, *REFUSED)
    entries = options(statement)
    for name, value in entries.items():
        if name in REFUSED:
            what, hint = REFUSED[name]
            raise text.unsupported(place_of(statement), f"Lowwater does not run {what}", hint)
        if name in NO_EFFECT:
            notes.append(f"DEFINE {name} changes nothing: {NO_EFFECT[name]}")
        elif name not in names:
            close = difflib.get_close_matches(name, names, 1, 0.75)
            if close:
                notes.append(f"DEFINE {name} is only text for #{name}: did you mean {close[0]}?")
        if name == "visibility" and value.lower() not in ("internal", "external"):
            notes.append(f"visibility {value!r} hides nothing: 'internal' does")
        if name == "dialect" and value not in ("lowwater", "gigascope"):
            raise text.error(place_of(statement), f"dialect {value!r} is unknown", "write lowwater or gigascope")
        if name == "algorithm" and value not in ("hash", "bloom"):
            raise text.error(place_of(statement), f"algorithm {value!r} is unknown", "write hash or bloom")
    if isinstance(statement, syntax.Merge) and statement.slack is not None:
        notes.append("SLACK changes nothing: the skew of a link bounds its disorder")
    return notes


def slots_of(statement: syntax.Statement, text: Text) -> int | None:
    """Reads `aggregate_slots`, the size of the group tables of a query. Returns the number of slots, rounded up to a
    power of two; None if the option is absent."""
    written = options(statement).get("aggregate_slots", "")
    if not written:
        return None
    if not written.isdigit() or len(written) > 9 or not 1 <= int(written) <= 1 << 24:
        raise text.error(place_of(statement), f"aggregate_slots {written!r} is not a number from 1 to {1 << 24}")
    return 1 << (int(written) - 1).bit_length()


def sample_of(statement: syntax.Statement, text: Text, kind: str) -> ops.Sample | None:
    """Reads `sample` and `sample_seed`, the share of the packets that a query reads (SEMANTICS O5); None if it reads
    all packets. `kind`: the kind of the source's records, such as `pcap`.
    Raises UnsupportedError if the records are not packets, and QueryError if the rate is not above 0 and at most 1, or
    the seed is not a whole number."""
    entries, place = options(statement), place_of(statement)
    written, seed = entries.get("sample", ""), entries.get("sample_seed", "0")
    if not seed.isdigit() or int(seed) >= 1 << 63:
        hint = "write a whole number of 0 or more, such as '1'"
        raise text.error(place, f"sample_seed {seed!r} is not a whole number", hint)
    if "sample" not in entries:
        return None
    hint = "write a share above 0 and up to 1, such as sample '0.01'"
    no_share = text.error(place, f"sample {written!r} is not a share of the packets", hint)
    if len(written) > 20 or not _RATE.fullmatch(written):
        raise no_share
    if kind != "pcap":
        raise text.unsupported(place, "Lowwater samples packets only", "leave out DEFINE sample")
    if not 0 < float(written) <= 1:
        raise no_share
    return ops.Sample(float(written), int(seed))


def threshold_of(statement: syntax.Statement, text: Text) -> int | None:
    """Reads `lfta_cost`, the cost from which a function is not LFTA-safe; None if the option is absent."""
    written = options(statement).get("lfta_cost", "")
    if not written:
        return None
    if written.upper() in functions.Cost.__members__:
        return functions.Cost[written.upper()]
    if not written.isdigit() or len(written) > 9:
        hint = f"write {', '.join(functions.Cost.__members__)}, or a number"
        raise text.error(place_of(statement), f"lfta_cost {written!r} is unknown", hint)
    return int(written)


def keys_of(named: Named, names: Sequence[str]) -> properties.StatedKeys:
    """Reads `keys` and `extra_keys`, the unique key that a query states.
    Raises QueryError if a key is not a column of the query."""
    statement, text = named
    entries = options(statement)
    written = {word: [part.strip() for part in entries.get(word, "").split(",") if part.strip()] for word in KEYS}
    for word, keys in written.items():
        for key in keys:
            if key not in names:
                raise text.error(place_of(statement), f"{word}: the query has no column {key}", nearest(key, names))
    return properties.StatedKeys(*(tuple(keys) for keys in written.values()))


# Statements. Each query gets one complete tree, with the queries that it reads inlined. `plan.rules` splits the tree
# into the low level and the high level.


@dataclass
class Binder:
    """Binds the statements of one query set."""

    context: Context
    statements: Mapping[str, tuple[syntax.Statement, Text]]  # query name -> (statement, file that holds it)
    bound: dict[str, ops.Node] = field(default_factory=dict)  # query name -> logical plan, for every query bound so far
    failed: set[str] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)

    def query(self, name: str) -> ops.Node:
        """Binds a query; those that it reads were bound before, or have failed.
        Raises QueryError if the text of the query has an error, and BelowError if a query that it reads has errors."""
        if name in self.bound:
            return self.bound[name]
        statement, text = self.statements[name]
        try:
            node = self._statement(name, statement, text)
        except QueryError:
            self.failed.add(name)
            raise
        self.bound[name] = node
        return node

    def _statement(self, name: str, statement: syntax.Statement, text: Text) -> ops.Node:
        names = Names.of(statement, self.context, text)
        if isinstance(statement, syntax.Select):
            node = self._select(name, statement, text, names)
        elif isinstance(statement, syntax.Merge):
            node = self._merge(name, statement, text, names)
        else:
            raise TypeError(type(statement).__name__)
        self.notes += [Note(name, note, place) for place, note in names.notes.items()]
        return node

    def _select(self, name: str, statement: syntax.Select, text: Text, names: Names) -> ops.Node:
        if statement.top is not None:
            inner = self._select(name, top.with_hidden(statement, statement.top, text), text, names)
            return top.first_rows(statement.top, inner, text)
        if statement.join == "WATCHLIST_JOIN":
            return self._watched(name, statement, text, names)
        sources = attempt_all([partial(self._source, name, ref, text) for ref in statement.sources])
        links = tuple(sorted({link for source in sources for link in source.links}))
        names = replace(names, links=links, assumed=tuple(source.alias for source in sources if source.assumed))
        if statement.join == "FILTER_JOIN":
            self._check_lookup(statement, sources, text)
            return joins.bind_filter_join(name, statement, text, sources, names)
        statement = self._by_all(statement, sources)
        grouped = self._grouped(statement, sources)
        if statement.having is not None and not statement.group_by and not self._has_aggregates(statement):
            raise text.error(place_of(statement.having), "HAVING filters groups, and there are none", "write WHERE")
        if statement.distinct and not grouped:
            statement, grouped = _as_groups(statement, sources, text), True
        elif statement.distinct:
            # Two rows of an aggregation differ in a group-by variable, so they are equal only where SELECT omits one.
            message = "Lowwater does not run SELECT DISTINCT of an aggregation"
            raise text.unsupported(statement.place, message, "name the aggregation and select DISTINCT from it")
        if statement.join:
            return joins.bind_join(name, statement, text, sources, names, grouped)
        source = sources[0]
        columns, units = {source.alias: source.columns}, source.time_units()
        scope = expressions.Scope(text, columns, where="a query without GROUP BY", names=names, units=units)
        if grouped:
            return grouping.bind_group(name, statement, scope, source)
        return _selection(name, statement, scope, source)

    def _by_all(self, statement: syntax.Select, sources: Sequence[BoundSource]) -> syntax.Select:
        """Writes GROUP BY ALL as the select items without aggregates, unless a column is called so."""
        first = statement.group_by[0] if len(statement.group_by) == 1 else None
        name = first.expression if isinstance(first, syntax.SelectItem) and not first.alias else None
        if not isinstance(name, syntax.Name) or name.qualifier or name.name.upper() != "ALL":
            return statement
        if any(name.name in source.columns for source in sources):
            return statement
        summed = {item.alias for item in statement.items if item.alias and self._aggregates(item.expression)}
        keys = tuple(
            replace(item, alias=item.alias or default_name(item.expression, at))
            for at, item in enumerate(statement.items)
            if not item.hidden
            and not self._aggregates(item.expression)
            and not isinstance(item.expression, syntax.Literal)
            and summed.isdisjoint(syntax.names(item.expression))
        )
        return replace(statement, group_by=keys)

    def _grouped(self, statement: syntax.Select, sources: Sequence[BoundSource]) -> bool:
        cleaning = (statement.cleaning_when, statement.cleaning_by)
        clauses = (statement.having, statement.closing_when, *cleaning, statement.supergroup or None)
        windowed = statement.window is not None or (not statement.join and sources[0].window is not None)
        grouped = statement.group_by or windowed or any(clause is not None for clause in clauses)
        return bool(grouped or self._has_aggregates(statement))

    def _has_aggregates(self, statement: syntax.Select) -> bool:
        exprs = [*(item.expression for item in statement.items), *([statement.having] if statement.having else [])]
        return any(self._aggregates(expr) for expr in exprs)

    def _aggregates(self, node: syntax.Expression) -> bool:
        if isinstance(node, syntax.Call) and self.context.catalog.aggregates_named(node.name):
            return True
        return any(self._aggregates(child) for child in syntax.children(node))

    def _watched(self, name: str, statement: syntax.Select, text: Text, names: Names) -> ops.Node:
        left, right = statement.sources
        watch = self._watch(right, text)
        source = self._source(name, left, text)
        self._check_lookup(statement, [source], text)
        names = replace(names, links=source.links)
        return joins.bind_watch_join(name, statement, text, source, watch, right.alias or right.name, names)

    def _check_lookup(self, statement: syntax.Select, sources: Sequence[BoundSource], text: Text) -> None:
        """Raises an error if FILTER_JOIN or WATCHLIST_JOIN has a window or groups: both select single rows."""
        windowed = statement.window or any(source.window for source in sources)
        if windowed or statement.distinct or self._grouped(statement, sources):
            hint = "name the join as a query, and aggregate that"
            raise text.error(statement.place, f"{statement.join} has only SELECT, FROM and WHERE", hint)

    def _watch(self, ref: syntax.SourceRef, text: Text) -> joins.Watch:
        entry = self.statements.get(ref.name)
        if entry is None or not isinstance(entry[0], syntax.Watchlist):
            watch_lists = [name for name, (other, _) in self.statements.items() if isinstance(other, syntax.Watchlist)]
            raise text.error(ref.place, f"no watch list is called {ref.name}", nearest(ref.name, watch_lists))
        if ref.name in self.failed:
            raise BelowError(f"watch list {ref.name} has errors")
        return joins.declare_watch(ref.name, entry[0], entry[1], self.context.folders)

    def _merge(self, name: str, statement: syntax.Merge, text: Text, names: Names) -> ops.Node:
        sides = attempt_all([partial(self._source, name, ref, text) for ref in statement.sources])
        by_alias = {side.alias: side for side in sides}
        if len(by_alias) < len(sides):
            raise text.error(statement.place, "two sources of MERGE have one name", "give each a range variable")
        if statement.slack is not None:
            first = statement.columns[0]
            merged_on = sides[0].columns.get(first.name)
            unit = None if merged_on is None else durations.unit_in(merged_on, sides[0].time_units())
            expressions.Scope(text, {}, names=names).constant(statement.slack, "SLACK", (first, unit))
        branches, position = [], -1
        for column, side in zip(statement.columns, sides, strict=True):
            if side.window is not None:
                hint = "put the window into the query that aggregates the merged stream"
                raise text.error(side.window.place, "a source of MERGE has no window", hint)
            if column.qualifier != side.alias:
                raise text.error(column.place, f"the merge column of {side.alias} is called {column.qualifier}")
            branch, index = _branch(name, column, side, text)
            if position not in (-1, index):
                raise text.error(column.place, f"{column.name} stands at another position in {side.alias}")
            position = index
            branches.append(branch)
        _check_union(branches, "MERGE", statement.place, text)
        merged = _merged([branch.fields[position].temporal for branch in branches])
        if merged is None:
            raise text.error(statement.place, "the merge columns progress in opposite directions")
        fields = tuple(
            ops.Field(f.name, f.type, merged if i == position else None, f.declared)
            for i, f in enumerate(branches[0].fields)
        )
        return ops.Union(name, fields, tuple(branches))

    def _source(self, query: str, ref: syntax.SourceRef, text: Text) -> BoundSource:
        if ref.union:
            return self._union(query, ref, text)
        if ref.host:
            hint = "links have names of their own: link.PROTOCOL"
            raise text.unsupported(ref.place, f"Lowwater knows no hosts, so {ref.host} cannot stand here", hint)
        name = f"{ref.library}_{ref.name}" if ref.library else ref.name
        if not ref.links and not ref.bracketed and name in self.statements:
            return self._stream(name, ref, text)
        link = self._bare_link(ref)
        protocol = self.context.protocols.get("DataProtocol" if link else ref.name)
        if ref.library or protocol is None:
            kind = "protocol" if ref.links else "query, protocol or link"
            candidates = [*self._protocols_like(ref.name), *([] if ref.links else self.statements)]
            candidates += [] if ref.links else self.context.links.names or []
            a_set = not ref.links and ref.name in self.context.links.sets
            hint = self.context.links.without(ref.name, ()) if a_set else nearest(ref.name, candidates)
            if ref.links and not hint:
                hint = f"there are: {', '.join(known for known in self.context.protocols if known not in READY)}"
            raise text.error(ref.place, f"no {kind} is called {ref.name}", hint)
        links = self.context.links.read([ref.name]) if link else self._links(ref, protocol.kind, text)
        if lacking := self.context.links.lacking(links):
            message = "link {} has no section in the settings any more, and some of its captures are of link {} now"
            raise text.error(ref.place, message.format(*lacking), "name both, or give the first its section back")
        self._check_kinds(ref, protocol.kind, links, text)
        # The interface name of a capture may hold `.` and `/`; a range variable may not.
        alias = ref.alias or re.sub(r"\W", "_", ref.name)
        fields = source_fields(protocol)
        node = ops.Source(query, fields, alias, links, protocol.name, protocol.member, protocol.kind, place=spot(ref))
        node = replace(node, layout=protocol.layout, sample=sample_of(self.statements[query][0], text, protocol.kind))
        groups = {self.context.links.of(self.context.links.groups, link, "") for link in links}
        if len(groups) == 1 and (column := protocol.columns.get(group := groups.pop())) is not None:
            node = replace(node, group=column.name if isinstance(column, ex.Column) else group)
        units = {a.name: a.unit for a in protocol.attributes if a.unit is None or not a.clock}
        assumed = link and self.context.links.names is None
        return BoundSource(alias, node, protocol.columns, ref.window, units, assumed, protocol.hidden)

    def _stream(self, name: str, ref: syntax.SourceRef, text: Text) -> BoundSource:
        if isinstance(self.statements[name][0], syntax.Watchlist):
            raise text.error(ref.place, f"{name} is a watch list", "join it: WATCHLIST_JOIN FROM protocol p, list w")
        if name in self.failed:
            raise BelowError(f"query {name} has errors")
        node = self.query(name)
        columns: dict[str, ex.Expr] = {f.name: ex.Column(f.type, f.name) for f in node.fields}
        return BoundSource(ref.alias or ref.name, node, columns, ref.window)

    def _bare_link(self, ref: syntax.SourceRef) -> bool:
        """Whether a source names a link without a protocol. The source then reads DataProtocol."""
        if ref.links or ref.bracketed or ref.library or ref.name in self.context.protocols:
            return False
        links = self.context.links.names
        if links is not None:
            return self.context.links.holds(ref.name)
        # Without a list of links, a name close to a protocol or a query is a misspelling of that name.
        return not nearest(ref.name, [*self._protocols_like(ref.name), *self.statements]).startswith("did")

    def _protocols_like(self, name: str) -> list[str]:
        """Returns the protocols that a name may be meant for; logs by their tool only, since a link may be `flows`."""
        return [known for known in self.context.protocols if known not in READY or name[:3].upper() == known[:3]]

    def _union(self, query: str, ref: syntax.SourceRef, text: Text) -> BoundSource:
        """Binds `A UNION B as M`. Links of one protocol become one source, other streams the inputs of a Union."""
        parts = (replace(ref, union=(), window=None, alias=""), *ref.union)
        sides = _by_protocol(attempt_all([partial(self._source, query, part, text) for part in parts]), ref, text)
        alias = ref.alias or sides[0].alias
        if len(sides) == 1 and isinstance(whole := sides[0].node, ops.Source):
            return replace(sides[0], alias=alias, node=replace(whole, alias=alias), window=ref.window, assumed=False)
        packets = all(isinstance(side.node, ops.Source) for side in sides)
        branches = [side.stream(query, names=side.whole() if packets else None) for side in sides]
        _check_union(branches, "UNION", ref.place, text)
        fields = tuple(
            ops.Field(f.name, f.type, _merged([branch.fields[at].temporal for branch in branches]), f.declared)
            for at, f in enumerate(branches[0].fields)
        )
        united = ops.Union(query, fields, tuple(branches))
        columns: dict[str, ex.Expr] = {f.name: ex.Column(f.type, f.name) for f in fields}
        if not packets:
            distinct = getattr(self.statements[query][0], "distinct", False)
            if any(part.distinct for part in ref.union) and not distinct:
                said = "UNION keeps equal rows, as UNION ALL in SQL: write SELECT DISTINCT, or ALL if that is meant"
                self.notes.append(Note(query, said, (ref.place.line, ref.place.column)))
            return BoundSource(alias, united, columns, ref.window)
        # A query may use any alias of a packet column, also over the union.
        first = sides[0]
        columns |= {n: columns[c] for n in first.columns if (c := first.canonical(n)) in columns}
        hidden = frozenset[str]().union(*(side.hidden for side in sides))
        return BoundSource(alias, united, columns, ref.window, hidden=hidden)

    def _links(self, ref: syntax.SourceRef, kind: str, text: Text) -> tuple[str, ...]:
        links = self.context.links
        if not ref.links or (ref.links == ("default",) and "default" not in links.sets):
            if links.names is None:
                return (ops.ANY_LINK,)
            # A protocol without a link reads every link of its kind of records but those of another protocol.
            chosen = {
                name
                for name in links.names
                if _holds(links.of(links.kinds, name, "pcap"), kind)
                and links.of(links.protocols, name, ref.name) == ref.name
            }
            if not chosen:
                raise text.error(ref.place, f"{ref.name} reads all links of {kind} records, and there are none")
            return links.read(chosen)
        chosen = set()
        for name in ref.links:
            if ref.bracketed and name in links.sets:
                group = links.read(links.sets[name])
            elif links.holds(name):
                group = links.read([name])
            else:
                candidates = [*(links.names or ()), *(links.sets if ref.bracketed else ())]
                kind = "link or set" if ref.bracketed else "link"
                message = f"{kind} {name} has no capture" if links.remedy else f"no {kind} is called {name}"
                alone = not ref.bracketed or links.remedy  # sets have settings of their own
                hint = links.without(name, candidates) if alone else nearest(name, candidates)
                raise text.error(ref.place, message, hint)
            twice = chosen.intersection(group)
            if twice:
                message = f"[{', '.join(ref.links)}] lists {min(twice)} twice, which would count its packets twice"
                raise text.error(ref.place, message, "name every link once")
            chosen.update(group)
        return tuple(sorted(chosen))

    def _check_kinds(self, ref: syntax.SourceRef, kind: str, links: Sequence[str], text: Text) -> None:
        if self.context.links.names is None:
            return
        for link in links:
            link_kind = self.context.links.of(self.context.links.kinds, link, "pcap")
            if not _holds(link_kind, kind):
                hint = f"write kind = '{kind}' in {config.section_of(link)}, or --kind {link}={kind}"
                message = f"{ref.name} reads {kind} records, and link {link} has {link_kind} records"
                raise text.error(ref.place, message, hint if kind in LOG_KINDS else "")


def _holds(link: str, protocol: str) -> bool:
    """Whether a link of one kind can hold the records of a protocol of another kind. Links of parquet and JSON lines
    hold the records of a `csv` protocol: all are read by position or name."""
    return protocol == "other" or link == protocol or (link in ("parquet", "json") and protocol == "csv")


def _branch(query: str, column: syntax.Name, side: BoundSource, text: Text) -> tuple[ops.Node, int]:
    """Binds one input of MERGE. Returns the input and the position of its merge column."""
    expressions.Scope(text, {side.alias: side.columns}).bind(column)
    branch = side.stream(query)
    names = [f.name for f in branch.fields]
    index = names.index(side.canonical(column.name))
    if branch.fields[index].temporal is None:
        raise text.error(column.place, f"{column.name} of {side.alias} is not temporal: it cannot be merged on")
    return branch, index


def _merged(times: Sequence[temporal.Temporal | None]) -> temporal.Temporal | None:
    """Finds the progress of a column of merged streams: the least progress of the inputs (P3). Returns the progress;
    None if an input has none or the inputs progress differently."""
    progresses = [time for time in times if time is not None]
    if not progresses or len(progresses) < len(times) or not all(progresses[0].alike(time) for time in progresses):
        return None
    return progresses[0].merged(*progresses[1:])


def _selection(query: str, statement: syntax.Select, scope: expressions.Scope, source: BoundSource) -> ops.Node:
    written = expand_stars(statement.items, [source], scope.text)
    aliases = {item.alias: print_operand(item.expression) for item in written if item.alias}
    hints = {name: f"{name} is the name of a select item: write {text}" for name, text in aliases.items()}
    scope = replace(scope, aliases=hints)
    named = {item.alias: partial(scope.bind, item.expression) for item in written if item.alias}
    scope = replace(scope, named=named)

    def where() -> ex.Expr:
        return scope.predicate(statement.where, "WHERE") if statement.where else ex.Const(ex.Type.BOOL, True)

    windows = over.RowWindows(query, scope.text)
    items_scope = replace(scope, on_over=windows.bind)
    steps: list[Callable[[], ex.Expr]] = [where, *(partial(items_scope.bind, item.expression) for item in written)]
    predicate, *bound = attempt_all(steps)
    items = name_items(written, bound, scope.text)
    return windows.applied(items, partial(make_map, query, source.node, predicate if statement.where else None))


def _as_groups(statement: syntax.Select, sources: Sequence[BoundSource], text: Text) -> syntax.Select:
    """Rewrites SELECT DISTINCT as GROUP BY of the select items: each distinct row appears when its epoch closes."""
    hidden = tuple(item for item in statement.items if item.hidden)
    shown = [item for item in statement.items if not item.hidden]
    written = expand_stars(shown, sources, text, statement.using)
    named = name_items(written, [ex.Const(ex.Type.BOOL, True)] * len(written), text)
    keys = tuple(
        syntax.SelectItem(item.expression, name.name, item.place) for item, name in zip(written, named, strict=True)
    )
    chosen = tuple(syntax.SelectItem(syntax.Name(key.alias), "", key.place) for key in keys)
    return replace(statement, items=(*chosen, *hidden), group_by=keys)


def _by_protocol(sides: Sequence[BoundSource], ref: syntax.SourceRef, text: Text) -> list[BoundSource]:
    """Merges the sides of a UNION that read packets of one protocol into one side with all their links."""
    merged: list[BoundSource] = []
    of: dict[str, int] = {}
    for side in sides:
        node = side.node
        if isinstance(node, ops.Source) and node.protocol in of:
            first = merged[of[node.protocol]]
            assert isinstance(first.node, ops.Source)
            if set(first.node.links) & set(node.links):
                raise text.error(ref.place, "UNION lists a link twice, which would count its packets twice")
            links = tuple(sorted((*first.node.links, *node.links)))
            group = node.group if node.group == first.node.group else ""
            merged[of[node.protocol]] = replace(first, node=replace(first.node, links=links, group=group))
        else:
            if isinstance(node, ops.Source):
                of[node.protocol] = len(merged)
            merged.append(side)
    return merged


def _check_union(branches: Sequence[ops.Node], word: str, place: syntax.Place, text: Text) -> None:
    first = branches[0].fields
    for branch in branches[1:]:
        if len(branch.fields) != len(first):
            raise text.error(place, f"the inputs of {word} have {len(first)} and {len(branch.fields)} columns")
        for a, b in zip(first, branch.fields, strict=True):
            if a.type is not b.type:
                raise text.error(place, f"{word} pairs {a.name} ({a.type}) with {b.name} ({b.type})")


# Loads query files: parses them, names their statements and adds the queries of libraries.
Named = tuple[syntax.Statement, Text]


@dataclass
class Texts:
    """The contents of the query files."""

    # query name -> (statement, file that holds it), in the order of the files, libraries last
    statements: dict[str, Named] = field(default_factory=dict)
    protocols: list[Declared] = field(default_factory=list)
    library: frozenset[str] = frozenset()  # names of the queries that come from libraries


def read_texts(texts: Iterable[tuple[str, str]], folders: Sequence[Path]) -> Texts:
    """Parses query files, names their statements and adds the library queries that they read. Raises QueryError for a
    syntax error, a missing or duplicate query name, or a missing library. `texts`: pairs of file name and GSQL text."""
    contents = Texts()
    attempt_all([partial(_add, contents, file, source, "") for file, source in texts])
    _add_libraries(contents, folders)
    return contents


def _add(contents: Texts, file: str, source: str, library: str) -> None:
    parsed = parser.parse(source, file, tuple(native.NATIVE))
    text = Text(file, source)
    contents.protocols += [(protocol, file, source) for protocol in parsed.protocols]

    def add(number: int, statement: syntax.Statement) -> None:
        unnamed = sum("query_name" not in options(each) for each in parsed.statements[:number])
        name = _name(statement, unnamed, text)
        name = f"{library}_{name}" if library else name  # the binder looks `library/query` up under this name
        _refuse_taken(name, contents.statements, statement, text)
        contents.statements[name] = (statement, text)

    attempt_all([partial(add, number, statement) for number, statement in enumerate(parsed.statements)])


def name_of_file(file: str) -> str:
    """The name of the first query of a file, where its text gives none."""
    name = Path(file).name.split(".", 1)[0].replace("-", "_") or "default_query"
    return f"q{name}" if name[0].isdigit() else name


def _name(statement: syntax.Statement, unnamed: int, text: Text) -> str:
    """Returns the name of a query; `unnamed`: how many of its file stand before it and have none."""
    entries, place = options(statement), place_of(statement)
    name = entries.get("query_name", "")
    if not name and "query_name" in entries:
        raise text.error(place, "query_name is empty", "give a name of letters, digits and _, or leave query_name out")
    if not name and unnamed == 0:
        name = name_of_file(text.file)
    if not name:
        hint = "write DEFINE { query_name 'x'; } before it"
        raise text.error(place, "a second query of one file needs a name", hint)
    # The name becomes a folder of the lake and a file of `run`, so it must be one path component.
    if not (name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()):
        raise text.error(place, f"query name {name!r}: only letters, digits and _ can be used, a letter first")
    if name.startswith("_"):
        raise text.error(place, f"query name {name}: names that begin with _ are Lowwater's own")
    if len(name) > limits.QUERY_NAME_CHARACTERS:
        length = f"it has {len(name)} characters, at most {limits.QUERY_NAME_CHARACTERS} are a file name"
        raise text.error(place, f"query name {name[:20]}...: {length}", "shorten it")
    if (lower := name.lower()) in RESERVED:
        written = f"`lowwater run` writes a file {lower}, {RESERVED[lower]}, beside its rows"
        hint = f"give it another name: DEFINE {{ query_name '{name}_of'; }}"
        raise text.error(place, f"no query can be called {name}: {written}", hint)
    return name


def _refuse_taken(name: str, statements: Mapping[str, Named], statement: syntax.Statement, text: Text) -> None:
    """Raises an error if the name is taken. The check ignores case, since some file systems do."""
    if name in statements:
        raise text.error(place_of(statement), f"two queries are called {name}", "give one of them another query_name")
    other = next((query for query in statements if query.lower() == name.lower()), None)
    if other is not None:
        message = f"the names of the queries {other} and {name} differ in case only"
        folded = "where a file system folds case, both would be one table and one file"
        raise text.error(place_of(statement), message, f"give one of them another query_name: {folded}")


def _add_libraries(contents: Texts, folders: Sequence[Path]) -> None:
    """Adds every library query that the statements read, also through other library queries."""
    added: dict[str, None] = {}
    pending = list(contents.statements.values())
    while pending:
        statement, text = pending.pop(0)
        for ref in _library_refs(statement):
            name = f"{ref.library}_{ref.name}"
            if name in contents.statements:
                continue
            before = set(contents.statements)
            path = _library_file(ref, folders, text)
            _add(contents, str(path), parser.read_text(path), ref.library)
            if name not in contents.statements:
                raise text.error(ref.place, f"{path} holds no query called {ref.name}")
            new = [key for key in contents.statements if key not in before]
            added.update(dict.fromkeys(new))
            pending += [contents.statements[key] for key in new]
    contents.library = frozenset(added)


def _library_refs(statement: syntax.Statement) -> list[syntax.SourceRef]:
    sources: tuple[syntax.SourceRef, ...] = getattr(statement, "sources", ())
    return [ref for source in sources for ref in (source, *source.union) if ref.library]


def _library_file(ref: syntax.SourceRef, folders: Sequence[Path], text: Text) -> Path:
    # The parser accepts only letters, digits and _ in both names, so the path stays inside the folder.
    relative = Path(ref.library) / f"{ref.name}.gsql"
    roots = [folder.resolve() for folder in folders]
    above = [parent / "qlib" for root in roots for parent in (root, *root.parents)]
    places = [place / relative for place in dict.fromkeys((*folders, *above))]
    for path in places:
        if path.is_file():
            return path
    hint = f"a library is a folder beside the query file, or in a folder qlib there or above: qlib/{relative}"
    raise text.error(ref.place, f"there is no query {ref.name} in library {ref.library}", hint)


# Reserved names. The binder refuses these names, and `replay.run_command` writes files with them. A lake has no such
# conflict: `tables/`, `streams/`, `lfta/` and `state/` hold queries only, and the ledgers lie beside these folders.

VIOLATIONS = "skew_violations"
HEARTBEATS = "heartbeats"
MALFORMED = "malformed"
SUMMARY = "summary"

RESERVED = {
    VIOLATIONS: "the packets that were refused",
    HEARTBEATS: "what every node promised",
    MALFORMED: "the records that cannot be read",
    SUMMARY: "the counts of the run",
}
"""File names in the folder of `lowwater run`, of any format, and their content."""


# The query set. The module rewrites a plan only for the `gigascope` dialect.

Statements = Mapping[str, Named]
SHOWN = 4
"""Queries at each end of a long circle that an error names."""


@dataclass(frozen=True)
class Bound:
    """The bound queries of a query set."""

    statements: Statements  # query -> (statement, file that holds it), in the order of the files, libraries last
    plans: Mapping[str, ops.Node]  # query -> logical plan; each query comes before its readers
    notes: Sequence[Note]
    context: Context  # the functions, links and protocols that queries may name, with the declared protocols
    hidden: frozenset[str]  # queries without a table: those with `visibility 'internal'`, and those of libraries
    private: frozenset[str]  # hidden queries that exactly one source reads
    selections: frozenset[str]  # queries with `select_lfta`
    slots: Mapping[str, int]  # query -> number of slots of its group tables, for queries with `aggregate_slots`
    thresholds: Mapping[str, int]  # query -> cost from which a function is not LFTA-safe, for queries with `lfta_cost`
    keys: Mapping[str, properties.StatedKeys]  # query -> the unique key that its DEFINE states


def bind_texts(texts: Iterable[tuple[str, str]], folders: Sequence[Path], context: Context, slots: int | None) -> Bound:
    """Parses and binds query files as one query set. `folders`: to search for query libraries (`library/query`).
    `slots`: the number of slots of every group table, instead of `aggregate_slots`; None keeps the options.
    Raises QueryError if a file has an error, and QueryErrors if the files have several errors."""
    read = read_texts(texts, folders)
    if read.protocols:
        context = replace(context, protocols=declare(read.protocols, context.protocols))
    plans, notes = _bind(read.statements, context)
    sizes, thresholds = _asked(read.statements, slots)
    chosen = {name: options(read.statements[name][0]) for name in plans}
    hidden = {name for name in plans if is_hidden(name, read)}
    readers = Counter(query for statement, _ in read.statements.values() for query in _reads(statement))
    return Bound(
        read.statements,
        plans,
        notes,
        context,
        frozenset(hidden),
        frozenset(name for name in hidden if readers[name] == 1),
        frozenset(name for name in plans if "select_lfta" in chosen[name]),
        sizes,
        thresholds,
        {name: keys_of(read.statements[name], [field.name for field in plan.fields]) for name, plan in plans.items()},
    )


def is_hidden(name: str, read: Texts) -> bool:
    """Whether a query has no table."""
    return name in read.library or options(read.statements[name][0]).get("visibility", "").lower() == "internal"


def _bind(statements: Statements, context: Context) -> tuple[dict[str, ops.Node], list[Note]]:
    """Binds all queries and reports the errors of all of them together. Returns the logical plans, each query before
    its readers, and the notes in the order of the files."""
    binder = Binder(context, statements)
    errors: list[QueryError] = []
    notes: list[Note] = []

    def attempt(step: Callable[[], object]) -> bool:
        try:
            step()
        except BelowError:
            return False
        except QueryError as error:
            errors.append(error)
            return False
        return True

    for name, (statement, text) in statements.items():
        sound = attempt(partial(_note, notes, name, statement, text))
        if sound and isinstance(statement, syntax.Watchlist):
            sound = attempt(partial(joins.declare_watch, name, statement, text, context.folders))
        if not sound:
            binder.failed.add(name)
            if full(errors):
                break
    order, circles = _order(statements)
    for name in order:
        if full(errors):
            break
        statement, text = statements[name]
        if isinstance(statement, syntax.Watchlist) or name in binder.failed:
            continue
        if name in circles:
            binder.failed.add(name)
            errors.append(text.error(place_of(statement), f"query {name} reads itself: {circles[name]}"))
        elif attempt(partial(binder.query, name)):
            dialect = options(statement).get("dialect", context.dialect)
            if dialect == "gigascope" and attempt(partial(_refuse_nulls, binder.bound[name], text)):
                binder.bound[name] = gigascope(binder.bound[name])
    raise_all(sort_errors(errors))
    bound = {name: binder.bound[name] for name in order if name in binder.bound}
    at = {name: number for number, name in enumerate(statements)}
    return bound, sorted((*notes, *binder.notes), key=lambda note: (at[note.query], note.place))


def _refuse_nulls(node: ops.Node, text: Text) -> None:
    for each in ops.walk(node):
        if isinstance(each, ops.Over | ops.Fill):
            word = "OVER" if isinstance(each, ops.Over) else "FILL"
            hint = f"leave out dialect 'gigascope': {word} gives NULL, which the dialect lacks"
            raise text.unsupported(syntax.Place(*each.place), f"the dialect of the old compilers has no {word}", hint)


def _note(notes: list[Note], name: str, statement: syntax.Statement, text: Text) -> None:
    notes.extend(Note(name, note) for note in check_options(statement, text))


def _order(statements: Statements) -> tuple[list[str], dict[str, str]]:
    """Sorts the queries so that each comes before its readers. Iterates, since a long chain would exceed the stack.
    Returns the queries in order, and query -> its circle in words, for at least one query of each circle."""
    order: dict[str, None] = {}
    circles: dict[str, str] = {}
    for root in statements:
        if root in order:
            continue
        stack = [(root, iter(_reads(statements[root][0])))]
        active = {root: 0}
        while stack:
            name, reading = stack[-1]
            for query in reading:
                if query in active:
                    if name not in circles:
                        circles[name] = _circle([name, *list(active)[active[query] :]])
                elif query in statements and query not in order:
                    active[query] = len(stack)
                    stack.append((query, iter(_reads(statements[query][0]))))
                    break
            else:
                order.setdefault(name)
                del active[name]
                stack.pop()
    return list(order), circles


def _circle(names: Sequence[str]) -> str:
    """The queries of a circle, of a long one the first and the last."""
    if (others := len(names) - 2 * SHOWN) > 1:
        names = [*names[:SHOWN], f"{others} others", *names[-SHOWN:]]
    return " -> ".join(names)


def _reads(statement: syntax.Statement) -> list[str]:
    refs = [ref for source in getattr(statement, "sources", ()) for ref in (source, *source.union)]
    named = [ref for ref in refs if not ref.links and not ref.bracketed]
    return [f"{ref.library}_{ref.name}" if ref.library else ref.name for ref in named]


def _asked(statements: Statements, slots: int | None) -> tuple[dict[str, int], dict[str, int]]:
    """Reads `aggregate_slots` and `lfta_cost` of every query. Reports the errors of all queries together."""

    def asked(statement: syntax.Statement, text: Text) -> tuple[int | None, int | None]:
        return slots or slots_of(statement, text), threshold_of(statement, text)

    read = attempt_all([partial(asked, statement, text) for statement, text in statements.values()])
    found = dict(zip(statements, read, strict=True))
    sizes = {name: size for name, (size, _) in found.items() if size}
    return sizes, {name: threshold for name, (_, threshold) in found.items() if threshold is not None}
