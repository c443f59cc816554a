"""Describes a plan once, for all forms of EXPLAIN.

Reads the same plan objects as the engines. A query that is published, or that has several readers, has its own
description, and its readers name its stream. A query with one reader is described in the place where it is read. No
function here recurses over operators or visits a shared operator twice, since chains of queries may be long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lowwater.plan.explain.gsql import HighText
from lowwater.plan.explain.low import describe_lftas, describe_prefilters
from lowwater.plan.explain.model import VERSION, CutInfo, Description, OperatorInfo, QueryInfo, ReadRange, SharesInfo
from lowwater.plan.explain.operators import describe_operator, stream_of
from lowwater.plan.explain.spell import high, params_of
from lowwater.plan.fragments import fragment_plan
from lowwater.plan.operators import LftaInput, Node
from lowwater.plan.properties.state import by_arrival, carried_state, read_from
from lowwater.plan.queryset import Plan, QueryPlan
from lowwater.plan.rules import Setting
from lowwater.plan.shares import all_stages, shown
from lowwater.plan.tree import walk

HOUR = 3_600_000_000_000
SAMPLE = 495_000 * HOUR
"""Start (ns) of a sample interval, on an hour of 2026: a read range is a function of the interval."""

DEEPEST = 8
"""Largest depth of queries described in place; a deeper query has its own description."""


def describe(plan: Plan) -> Description:
    """Returns the contents of EXPLAIN for a plan."""
    setting = plan.setting
    borders = _Borders.of(plan)
    queries = [_query(query, plan, borders, setting) for query in (*plan.queries, *plan.internal)]
    return Description(
        VERSION,
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
        """Returns the borders of a plan."""
        borders = _Borders({id(query.high): query.name for query in plan.queries})
        nodes = list(walk(*(query.high for query in plan.queries)))
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

    def _places(self, nodes: Sequence[Node], hidden: Mapping[int, str]) -> dict[str, str]:
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


def _query(query: QueryPlan, plan: Plan, borders: _Borders, setting: Setting) -> QueryInfo:
    output = query in plan.queries
    notes = tuple(str(note) for note in plan.notes if note.query == query.name)
    if query.name in borders.unread:
        notes += ("no output query reads it, so it is not run",)
    within = borders.within.get(query.name, "")
    if within or query.name in borders.unread:
        return QueryInfo(query.name, query.file, output, own_text(query), within, notes)
    nodes = list(walk(query.high))
    params = params_of(*(expr for node in nodes for expr in node.exprs()))
    operators = _operators(query, borders, replace(setting, arrival=by_arrival(query.high)))
    streams = {key: f"{name}_high" for key, name in borders.own.items() if key != id(query.high)}
    return QueryInfo(
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


def _operators(query: QueryPlan, borders: _Borders, setting: Setting) -> tuple[OperatorInfo, ...]:
    """Returns the operators, readers first, down to the streams of queries with descriptions of their own."""
    order: dict[int, tuple[Node, Node | None]] = {}
    stack: list[tuple[Node, Node | None]] = [(query.high, None)]
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


def _cut(high: Node, operators: Sequence[OperatorInfo], name: str) -> str:
    """Returns a summary of the work below and above the cut between the levels."""
    if isinstance(high, LftaInput):
        return f"none: LFTA {high.lfta.name} does the whole query"
    leaves = [op for op in operators if op.kind == "lfta"]
    if not leaves:
        return f"none: {name} reads the streams of queries only"
    kinds = {node.lfta.name: node.lfta.aggregates for node in walk(high) if isinstance(node, LftaInput)}
    sums = [leaf.reads for leaf in leaves if kinds[leaf.reads]]
    rows = [leaf.reads for leaf in leaves if not kinds[leaf.reads]]
    parts = [f"sub-aggregates in LFTA {', '.join(sums)}"] if sums else []
    parts += [f"selection in LFTA {', '.join(rows)}"] if rows else []
    above = list(dict.fromkeys(op.kind for op in operators if op.kind not in ("lfta", "stream")))
    return f"{' and '.join(parts)}; {', '.join(above)} above"


def _parts(high: Node) -> tuple[CutInfo, ...]:
    parts, _ = fragment_plan(high)
    return tuple(CutInfo(part.node.label, part.node.query, part.reader.label, part.why) for part in parts)


def _shares(high: Node) -> tuple[SharesInfo, ...]:
    stages = all_stages(high)
    return tuple(SharesInfo(tuple(map(shown, stage.keys)), stage.why, stage.anywhere) for stage in stages)


def _reads(query: QueryPlan) -> tuple[ReadRange, ...]:
    starts = read_from(query.high, SAMPLE)
    return tuple(ReadRange(name, SAMPLE - start if start else None) for name, start in starts.items())
