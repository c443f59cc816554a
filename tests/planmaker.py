"""Small builders of logical plans, for tests that need no parser and no binder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowwater.catalog.expr import COMPARISON, LOGICAL, Binary, Column, Const, Expr, Type, Unary
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.catalog.schemas import TYPES
from lowwater.plan.operators import Aggregate, Field, Group, Item, Join, JoinKind, Map, Node, Source, Union, Window
from lowwater.plan.temporal import CLOCK, Step, Temporal, infer

SECOND = 1_000_000_000


def const(value: int | float | bool | str | bytes | None, type_: Type = Type.INT) -> Const:
    kinds = {bool: Type.BOOL, float: Type.FLOAT, str: Type.STRING, bytes: Type.IP}
    return Const(kinds.get(type(value), type_), value)


def op(left: Expr, symbol: str, right: Expr | int) -> Binary:
    """`left symbol right`; FLOAT where a side is, BOOL where the operator compares."""
    other = right if isinstance(right, Expr) else const(right)
    kind = Type.FLOAT if Type.FLOAT in (left.type, other.type) else left.type
    return Binary(Type.BOOL if symbol in COMPARISON + LOGICAL else kind, symbol, left, other)


def neg(operand: Expr) -> Unary:
    return Unary(operand.type, "-", operand)


def packet(name: str) -> Expr:
    """A column of the packet protocols over stored columns (`time`, `SYN`, `len`, ...)."""
    return PROTOCOLS["ETH"].columns[name]


def source(query: str, *links: str, alias: str = "p", protocol: str = "ETH") -> Source:
    fields = tuple(Field(n, t, CLOCK if n == "timestamp" else None) for n, t in TYPES.items())
    return Source(query, fields, alias, tuple(sorted(links)), protocol, PROTOCOLS[protocol].member)


def column(node: Node, name: str) -> Column:
    """A column of a stream, for the operator above it."""
    return Column(next(f.type for f in node.fields if f.name == name), name)


def select(query: str, below: Node, items: Mapping[str, Expr], where: Expr | None = None) -> Map:
    made = tuple(Item(name, expr) for name, expr in items.items())
    return Map(query, _fields(made, below.fields), below, where, made)


def group(
    query: str,
    below: Node,
    keys: Mapping[str, Expr],
    aggregates: Mapping[str, tuple[str, Expr | None]],
    where: Expr | None = None,
    having: Expr | None = None,
    items: Mapping[str, Expr] | None = None,
) -> Group:
    """An aggregation; without items it selects the keys, then the aggregates."""
    made = tuple(Item(name, expr) for name, expr in keys.items())
    key_fields = _fields(made, below.fields)
    sums = tuple(
        Aggregate(name, function, over, _result(function, over)) for name, (function, over) in aggregates.items()
    )
    results = {f.name: f.type for f in key_fields} | {a.name: a.type for a in sums}
    chosen = items or {name: Column(type_, name) for name, type_ in results.items()}
    out = tuple(Item(name, expr) for name, expr in chosen.items())
    return Group(query, _fields(out, key_fields), below, where, made, key_fields, sums, having, out)


def union(query: str, *branches: Node) -> Union:
    """A merge; a field progresses where it does in every branch."""
    fields = []
    for aligned in zip(*(branch.fields for branch in branches), strict=True):
        times = [f.temporal for f in aligned if f.temporal]
        merged = times[0].joined(*times[1:]) if len(times) == len(aligned) else None
        fields.append(Field(aligned[0].name, aligned[0].type, merged))
    return Union(query, tuple(fields), branches)


def join(
    query: str,
    kind: JoinKind,
    left: Node,
    right: Node,
    on: tuple[Expr, Expr],
    items: Mapping[str, Expr],
    band: tuple[int, int] = (0, 0),
    equal: Sequence[tuple[Expr, Expr]] = (),
    residual: Expr | None = None,
) -> Join:
    """A join of aliases A and B with `on[0] - band[0] <= on[1] <= on[0] + band[1]`; columns are `A.x` and `B.x`."""
    pairs = (("A", left), ("B", right))
    known = {f"{alias}.{f.name}": f.temporal for alias, node in pairs for f in node.fields if f.temporal}
    left_time, right_time = infer(on[0], known), infer(on[1], known)
    assert left_time and right_time, "a join needs a temporal expression of each side"
    window = Window(on[0], on[1], left_time, right_time, *band, equality=not any(band))
    made = tuple(Item(name, expr) for name, expr in items.items())
    progress = _progress(kind, window)
    fields = tuple(Field(i.name, i.expr.type, infer(i.expr, progress)) for i in made)
    return Join(query, fields, kind, left, right, "A", "B", window, tuple(equal), residual, made)


def sides(left: Node, right: Node) -> dict[str, Column]:
    """The columns that expressions over a join of two streams may read."""
    pairs = (("A", left), ("B", right))
    return {f"{alias}.{f.name}": Column(f.type, f"{alias}.{f.name}") for alias, node in pairs for f in node.fields}


def _progress(kind: JoinKind, window: Window) -> dict[str, Temporal]:
    rising = window.left_time.increasing
    ahead, behind = (-window.above, -window.below) if rising else (window.below, window.above)
    progress = {}
    if isinstance(window.left, Column) and (window.equality or not kind.keeps_right):
        progress[window.left.name] = window.left_time.joined(window.right_time.then(Step("add", ahead)))
    if isinstance(window.right, Column) and (window.equality or not kind.keeps_left):
        progress[window.right.name] = window.right_time.joined(window.left_time.then(Step("add", behind)))
    return progress


def _fields(items: tuple[Item, ...], below: tuple[Field, ...]) -> tuple[Field, ...]:
    times = {f.name: f.temporal for f in below if f.temporal}
    return tuple(Field(item.name, item.expr.type, infer(item.expr, times)) for item in items)


def _result(function: str, over: Expr | None) -> Type:
    if function == "avg":
        return Type.FLOAT
    return over.type if over else Type.INT
