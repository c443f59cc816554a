"""Describes a plan once, for all forms of EXPLAIN.

Reads the same plan objects as the engines. A query that is published, or that has several readers, has its own
description, and its readers name its stream. A query with one reader is described in the place where it is read. No
function here recurses over operators or visits a shared operator twice, since chains of queries may be long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowwater.catalog.expr import Expr, conjuncts
from lowwater.catalog.records import field_name
from lowwater.gsql.printer import print_expression
from lowwater.plan import operators as ops
from lowwater.plan.explain import gsql, model
from lowwater.plan.explain.gsql import HighText, high, low, low_text, params_of, spelled, steps
from lowwater.plan.levels import Setting, whole_reason
from lowwater.plan.properties import Prefilter, by_arrival, carried_state, needed_granularity, read_from, unsafe
from lowwater.plan.queryset import Plan, QueryPlan
from lowwater.plan.shares import all_stages, fragment_plan, low_shares, shown

# Describes one operator of the high level. `describe` walks the plan and calls this module.


def describe_operator(
    node: ops.Node, reader: ops.Node | None, inputs: Sequence[int], setting: Setting
) -> model.OperatorInfo:
    """Returns the description of an operator.

    Args:
        reader: the operator that reads it; None for the output of a query.
    """
    chosen = _physical(node, setting.arrival)
    plain = model.OperatorInfo(
        node.label,
        node.query,
        chosen.operator,
        chosen.reason,
        tuple(inputs),
        columns_info(node.fields),
        punctuation_info(node.punctuation(reader)),
    )
    return replace(plain, **_details(node), high=stays_high(node, setting))


def _physical(node: ops.Node, by_arrival: bool) -> ops.Physical:
    """Returns how the high level runs an operator; a query by arrival runs all operators in one place."""
    if not by_arrival or isinstance(node, ops.LftaInput):
        return node.physical()
    what = "windows number rows" if isinstance(node, ops.Bucket) and node.rows else "the query reads rows"
    return ops.Physical("slices in order", f"{what} in order of arrival, so one process runs the whole query")


def stream_of(query: str, node: ops.Node) -> model.OperatorInfo:
    """Returns the description of a stream: the rows of a query with its own description."""
    promise = punctuation_info(node.punctuation(None))
    reason = "it has its own description; the evaluation of each output above recomputes it"
    return model.OperatorInfo("stream", query, "stream", reason, (), columns_info(node.fields), promise, reads=query)


def columns_info(fields: Sequence[ops.Field]) -> tuple[model.ColumnInfo, ...]:
    """Returns the columns with their temporal properties."""
    return tuple(model.ColumnInfo(field_name(f.name), f.type.value, _progress(f)) for f in fields)


def _progress(field: ops.Field) -> model.Progress | None:
    time = field.temporal
    if time is None:
        return None
    return model.Progress("increasing" if time.increasing else "decreasing", steps(time), time.origin)


def punctuation_info(promise: ops.Punctuation) -> model.PunctuationInfo:
    """Returns the description of a punctuation."""
    return model.PunctuationInfo(promise.columns, promise.joint, promise.reason, promise.groupwise)


def stays_high(node: ops.Node, setting: Setting) -> str:
    """Returns why an LFTA does not run an operator directly above a selection LFTA, or runs only a part of it.

    Empty for every other operator.
    """
    below = node.inputs()[0] if node.inputs() else None
    if (
        isinstance(node, ops.Map | ops.Bucket | ops.Expand)
        and isinstance(below, ops.LftaInput)
        and not below.lfta.aggregates
    ):
        return "; ".join(dict.fromkeys(_unsafe(node, setting))) if isinstance(node, ops.Map) else ""
    if not isinstance(node, ops.Aggregation):
        return ""
    while isinstance(below, ops.Bucket | ops.Expand) or (isinstance(below, ops.Map) and below is not node.input):
        below = below.inputs()[0]
    if not isinstance(below, ops.LftaInput) or below.lfta.aggregates or below.query != node.query:
        return ""
    if isinstance(node, ops.Running):
        return "CLOSING_WHEN carries a group from epoch to epoch, and a table that evicts groups cannot"
    if isinstance(node, ops.Sampling):
        return "sampling reads the rows of a supergroup in canonical order in one process"
    if isinstance(node.input, ops.Bucket) and node.input.rows:
        return "windows count the rows of all links together, in order of arrival"
    return whole_reason(node, node.keys, setting)


def _unsafe(node: ops.Map, setting: Setting) -> list[str]:
    exprs = [*conjuncts(node.predicate), *(item.expr for item in node.items)]
    return [reason for expr in exprs if (reason := unsafe(expr, setting.threshold(node.query)))]


def _details(node: ops.Node) -> dict[str, Any]:
    """Returns attribute of OperatorInfo -> value, for the attributes of one kind of operator.

    Raises:
        TypeError: DETAILS has no entry for an operator with expressions.
    """
    if type(node) in DETAILS:
        return DETAILS[type(node)](node)
    if node.exprs():
        raise TypeError(f"EXPLAIN does not know {type(node).__name__}")
    return {}


def _lfta(node: ops.LftaInput) -> dict[str, Any]:
    return {"reads": node.lfta.name, "links": node.lfta.links}


def _map(node: ops.Map) -> dict[str, Any]:
    return {"predicate": high(node.predicate), "items": _named(node.items)}


def _bucket(node: ops.Bucket) -> dict[str, Any]:
    names = tuple(item.name for item in node.partition)
    return {"window": model.Sliding(high(node.attribute), node.range, node.slide, node.rows, names, high(node.counted))}


def _expand(node: ops.Expand) -> dict[str, Any]:
    return {"sets": node.sets}


def _join(node: ops.Join) -> dict[str, Any]:
    return {"aliases": (node.left_alias, node.right_alias), "match": _match(node), "items": _named(node.items)}


def _filter_join(node: ops.FilterJoin) -> dict[str, Any]:
    keys = " AND ".join(f"{high(left)} = {high(right)}" for left, right in node.keys)
    time = f"{high(node.right_time)} <= {high(node.left_time)} <= {high(node.right_time)} + {node.range}"
    some = f"some {node.right_alias} with {keys} and {time} ({node.algorithm})"
    return {"aliases": (node.left_alias, node.right_alias), "lookup": some, "items": _named(node.items)}


def _watch_join(node: ops.WatchJoin) -> dict[str, Any]:
    equalities = [f"{high(key)} = {name}" for key, name in node.keys]
    rows = " AND ".join([*equalities, *(high(part) for part in conjuncts(node.residual))])
    where = f"{rows}; rows of {node.file}, an input of the run by its hash"
    aliases = (node.alias, node.watch_alias)
    return {"aliases": aliases, "lookup": where, "items": _named(node.items), "reads": node.watchlist}


def _aggregation(node: ops.Aggregation) -> dict[str, Any]:
    return {
        "predicate": high(node.predicate),
        "keys": _named(node.keys),
        "aggregates": _aggregates(node.aggregates),
        "having": high(node.having),
        "items": _named(node.items),
    }


def _running(node: ops.Running) -> dict[str, Any]:
    return {**_aggregation(node), "closing": high(node.closing)}


def _sampling(node: ops.Sampling) -> dict[str, Any]:
    return {
        **_aggregation(node),
        "supergroup": node.supergroup,
        "supers": _aggregates(node.supers, over=True),
        "cleaning_when": high(node.cleaning_when),
        "cleaning_by": high(node.cleaning_by),
        "states": tuple(f"{state.name} of {state.state}" for state in node.states),
    }


def _named(items: Sequence[ops.Item]) -> tuple[model.Named, ...]:
    return tuple(model.Named(item.name, high(item.expr)) for item in items)


def _aggregates(aggregates: Sequence[ops.Aggregate], over: bool = False) -> tuple[model.Named, ...]:
    return tuple(model.Named(a.name, print_expression(gsql.aggregate_call(a, over))) for a in aggregates)


def _match(node: ops.Join) -> model.Match:
    window = node.window
    left, right = _promises(window)
    return model.Match(
        "equality" if window.equality else "band",
        print_expression(gsql.band(window)),
        left,
        right,
        tuple(f"{high(a)} = {high(b)}" for a, b in node.equalities),
        high(node.residual),
    )


def _promises(window: ops.Window) -> tuple[str, str]:
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


DETAILS: dict[type[ops.Node], Callable[[Any], dict[str, Any]]] = {
    ops.LftaInput: _lfta,
    ops.Map: _map,
    ops.Group: _aggregation,
    ops.Running: _running,
    ops.Sampling: _sampling,
    ops.Bucket: _bucket,
    ops.Expand: _expand,
    ops.Join: _join,
    ops.FilterJoin: _filter_join,
    ops.WatchJoin: _watch_join,
}
"""Operator -> its details; an operator without expressions needs no entry."""


# Describes the low level: every LFTA and every prefilter. `describe` calls this module.


def describe_lftas(plan: Plan) -> tuple[model.LftaInfo, ...]:
    """Returns the description of every LFTA of the outputs, in order of first use."""
    granularities = needed_granularity(*(query.high for query in plan.queries))
    shares = low_shares([query.high for query in plan.queries])
    return tuple(
        _low_lfta(lfta, *granularities[lfta.name], plan.prefilters, shares.get(lfta.name, ((),))[0])
        for lfta in plan.lftas
    )


def _low_lfta(
    lfta: ops.Lfta, granularity: int, asked_by: str, prefilters: Sequence[Prefilter], shares: Sequence[Expr]
) -> model.LftaInfo:
    return model.LftaInfo(
        lfta.name,
        "aggregation" if lfta.aggregates else "selection",
        lfta.links,
        lfta.protocol,
        lfta.kind,
        low_text(lfta),
        columns_info(lfta.fields),
        punctuation_info(lfta.punctuation),
        granularity,
        asked_by,
        member=low(lfta.member, lfta.kind),
        predicate=low(lfta.predicate, lfta.kind),
        keys=tuple(model.Named(key.name, low(key.expr, lfta.kind)) for key in lfta.keys),
        partials=tuple(model.Named(partial.name, _partial(partial, lfta)) for partial in lfta.partials),
        slots=lfta.slots if lfta.aggregates else 0,
        flush="when punctuation closes the epoch; a collision evicts the old group as a partial row"
        if lfta.aggregates
        else "",
        signatures=_signatures(lfta, prefilters),
        sample=f"{lfta.sample.rate!r}, seed {lfta.sample.seed}" if lfta.sample else "",
        arrival=_arrival(lfta),
        shares=tuple(map(high, shares)),
        clock=_clock(lfta),
    )


def _clock(lfta: ops.Lfta) -> str:
    if lfta.kind == "pcap":
        return "packet time"
    return field_name(lfta.layout.clock) if lfta.layout and lfta.layout.clock else "the records' clock"


def _arrival(lfta: ops.Lfta) -> str:
    if not lfta.arrival:
        return ""
    if lfta.whole:
        return "an interval takes the records that arrive in it; every record is a row, since all of them make progress"
    rows = "; a rejected record is a row of NULL, because windows count every record" if lfta.numbered else ""
    return f"an interval takes the records that arrive in it{rows}"


def _partial(partial: ops.Partial, lfta: ops.Lfta) -> str:
    argument = spelled(partial.argument, lfta.kind) if partial.argument is not None else None
    return print_expression(gsql.aggregate_call(ops.Aggregate(partial.name, partial.function, argument, partial.type)))


def _signatures(lfta: ops.Lfta, prefilters: Sequence[Prefilter]) -> tuple[model.SignatureInfo, ...]:
    return tuple(
        model.SignatureInfo(prefilter.links, signature.bits, f"{signature.mask:#x}", low(signature.rest, lfta.kind))
        for prefilter in prefilters
        for signature in prefilter.signatures
        if signature.lfta == lfta.name
    )


def describe_prefilters(plan: Plan) -> tuple[model.PrefilterInfo, ...]:
    """Returns the description of every prefilter, with the number of LFTAs that share a bit."""
    records = {lfta.name: lfta.kind for lfta in plan.lftas}
    return tuple(
        model.PrefilterInfo(
            prefilter.links,
            tuple(signature.lfta for signature in prefilter.signatures),
            tuple(
                model.BitInfo(low(bit, records[prefilter.signatures[0].lfta]), count)
                for bit, count in zip(prefilter.bits, prefilter.shared, strict=True)
            ),
        )
        for prefilter in plan.prefilters
    )


HOUR = 3_600_000_000_000
SAMPLE = 495_000 * HOUR
"""Start (ns) of a sample interval, on an hour of 2026: a read range is a function of the interval."""

DEEPEST = 8
"""Largest depth of queries described in place; a deeper query has its own description."""


def describe(plan: Plan) -> model.Description:
    """Returns the contents of EXPLAIN for a plan."""
    setting = plan.setting
    borders = _Borders.of(plan)
    queries = [_query(query, plan, borders, setting) for query in (*plan.queries, *plan.internal)]
    return model.Description(
        model.VERSION,
        tuple(queries),
        describe_lftas(plan),
        describe_prefilters(plan),
    )


def own_text(query: QueryPlan) -> str:
    """Returns the canonical text of a query without the queries that it reads."""
    return query.text.split("\n\n")[-1]


@dataclass
class _Borders:
    """Decides which queries have a description of their own, and where the others are described.

    Attributes:
        own: id of the last operator -> its query, for the queries with a description of their own.
        within: query -> the query that describes it in place.
        unread: queries that no output reads.
    """

    own: dict[int, str] = field(default_factory=dict)
    within: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    @staticmethod
    def of(plan: Plan) -> _Borders:
        borders = _Borders({id(query.high): query.name for query in plan.queries})
        nodes = list(ops.walk(*(query.high for query in plan.queries)))
        readers: dict[int, int] = {}
        for node in nodes:
            for below in node.inputs():
                readers[id(below)] = readers.get(id(below), 0) + 1
        hidden = {id(query.high): query.name for query in plan.internal}
        borders.own |= {key: name for key, name in hidden.items() if readers.get(key, 0) > 1}
        seen = borders._places(nodes, hidden)
        for query in plan.internal:
            if query.name not in borders.own.values() and query.name not in borders.within:
                borders._merged(query, plan, seen)
        return borders

    def _places(self, nodes: Sequence[ops.Node], hidden: Mapping[int, str]) -> dict[str, str]:
        """Returns query of an operator -> the query that describes the operator; visits readers first."""
        homes: dict[int, tuple[str, int]] = {}
        seen: dict[str, str] = {}
        for node in reversed(nodes):
            key = id(node)
            if key in self.own:
                homes[key] = (self.own[key], 0)
            home, depth = homes[key]
            seen.setdefault(node.query, home)
            if key in hidden and key not in self.own:
                if depth > DEEPEST:
                    self.own[key] = hidden[key]
                    home, depth = hidden[key], 0
                else:
                    self.within[hidden[key]] = home
            for below in node.inputs():
                homes.setdefault(id(below), (home, depth + (below.query != node.query)))
        return seen

    def _merged(self, query: QueryPlan, plan: Plan, seen: Mapping[str, str]) -> None:
        """Places a query whose last operator the rules merged with its reader."""
        text = own_text(query)
        home = seen.get(query.name) or next(
            (other.name for other in plan.queries if text in other.text.split("\n\n")[:-1]), ""
        )
        if home:
            self.within[query.name] = home
        else:
            self.unread.add(query.name)


def _query(query: QueryPlan, plan: Plan, borders: _Borders, setting: Setting) -> model.QueryInfo:
    output = query in plan.queries
    notes = tuple(str(note) for note in plan.notes if note.query == query.name)
    if query.name in borders.unread:
        notes += ("no output query reads it, so it is not run",)
    within = borders.within.get(query.name, "")
    if within or query.name in borders.unread:
        return model.QueryInfo(query.name, query.file, output, own_text(query), within, notes)
    nodes = list(ops.walk(query.high))
    params = params_of(*(expr for node in nodes for expr in node.exprs()))
    operators = _operators(query, borders, replace(setting, arrival=by_arrival(query.high)))
    streams = {key: f"{name}_high" for key, name in borders.own.items() if key != id(query.high)}
    return model.QueryInfo(
        query.name,
        query.file,
        output,
        own_text(query),
        notes=notes,
        parameters=tuple(f"{high(param)} {param.type.value}" for param in params.values()),
        operators=operators,
        cut=_cut(query.high, operators, query.name),
        lftas=tuple(lfta.name for lfta in query.lftas),
        high=HighText(query.name, streams).text(query.high),
        again=tuple(dict.fromkeys(op.reads for op in operators if op.kind == "stream")) if output else (),
        parts=_parts(query.high) if output else (),
        shares=_shares(query.high) if output else (),
        state=tuple(carried_state(query.high)) if output else (),
        reads=_reads(query) if output else (),
    )


def _operators(query: QueryPlan, borders: _Borders, setting: Setting) -> tuple[model.OperatorInfo, ...]:
    """Returns the operators, readers first, down to the streams of queries with descriptions of their own."""
    order: dict[int, tuple[ops.Node, ops.Node | None]] = {}
    stack: list[tuple[ops.Node, ops.Node | None]] = [(query.high, None)]
    while stack:
        node, reader = stack.pop()
        if id(node) in order:
            continue
        order[id(node)] = (node, reader)
        if reader is None or id(node) not in borders.own:
            stack += [(below, node) for below in reversed(node.inputs())]
    at = {key: position for position, key in enumerate(order)}
    operators = []
    for key, (node, reader) in order.items():
        if reader is not None and key in borders.own:
            operators.append(stream_of(borders.own[key], node))
        else:
            inputs = [at[id(below)] for below in node.inputs()]
            operators.append(describe_operator(node, reader, inputs, setting))
    return tuple(operators)


def _cut(high: ops.Node, operators: Sequence[model.OperatorInfo], name: str) -> str:
    """Returns a summary of the work below and above the cut between the levels."""
    if isinstance(high, ops.LftaInput):
        return f"none: LFTA {high.lfta.name} does the whole query"
    leaves = [op for op in operators if op.kind == "lfta"]
    if not leaves:
        return f"none: {name} reads the streams of queries only"
    kinds = {node.lfta.name: node.lfta.aggregates for node in ops.walk(high) if isinstance(node, ops.LftaInput)}
    sums = [leaf.reads for leaf in leaves if kinds[leaf.reads]]
    rows = [leaf.reads for leaf in leaves if not kinds[leaf.reads]]
    parts = [f"sub-aggregates in LFTA {', '.join(sums)}"] if sums else []
    parts += [f"selection in LFTA {', '.join(rows)}"] if rows else []
    above = list(dict.fromkeys(op.kind for op in operators if op.kind not in ("lfta", "stream")))
    return f"{' and '.join(parts)}; {', '.join(above)} above"


def _parts(high: ops.Node) -> tuple[model.CutInfo, ...]:
    parts, _ = fragment_plan(high)
    return tuple(model.CutInfo(part.node.label, part.node.query, part.reader.label, part.why) for part in parts)


def _shares(high: ops.Node) -> tuple[model.SharesInfo, ...]:
    stages = all_stages(high)
    return tuple(model.SharesInfo(tuple(map(shown, stage.keys)), stage.why, stage.anywhere) for stage in stages)


def _reads(query: QueryPlan) -> tuple[model.ReadRange, ...]:
    starts = read_from(query.high, SAMPLE)
    return tuple(model.ReadRange(name, SAMPLE - start if start else None) for name, start in starts.items())
