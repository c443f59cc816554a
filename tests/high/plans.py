"""Hand-made plan nodes of the high level and a plain-Python oracle of joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowwater.catalog.expr import Expr, Type
from lowwater.plan.operators import Aggregate, Field, Group, Item, Join, JoinKind, Map, Node, Window
from lowwater.plan.temporal import Temporal
from lowwater.stream.operators import by_columns
from tests.high.streams import Row, column, epoch


def select(below: Node, predicate: Expr | None, items: Mapping[str, Expr], fields: Sequence[Field]) -> Map:
    return Map("q", tuple(fields), below, predicate, tuple(Item(name, expr) for name, expr in items.items()))


def group(
    below: Node,
    keys: Sequence[tuple[Field, Expr]],
    aggregates: Sequence[Aggregate],
    having: Expr | None = None,
    predicate: Expr | None = None,
    query: str = "q",
) -> Group:
    """A Group that gives its keys and aggregates as they are."""
    key_fields = tuple(field for field, _ in keys)
    fields = (*key_fields, *(Field(a.name, a.type) for a in aggregates))
    items = tuple(Item(f.name, column(f.name, f.type)) for f in fields)
    grouped = tuple(Item(field.name, expr) for field, expr in keys)
    return Group(query, fields, below, grouped, key_fields, predicate, tuple(aggregates), having, items)


def join(
    kind: JoinKind,
    left: Node,
    right: Node,
    below: int = 0,
    above: int = 0,
    times: tuple[Temporal, Temporal] = (epoch(10), epoch(10)),
    on: str | None = "k",
    residual: Expr | None = None,
    name: str = "tb",
) -> Join:
    """A join of two streams with columns tb, k and x, on `l.tb - below <= r.tb <= l.tb + above` and equal k."""
    sides, equality = (column(f"l.{name}"), column(f"r.{name}")), not (below or above)
    window = Window(*sides, *times, below, above, equality, kind.mutual)
    equalities = ((column(f"l.{on}"), column(f"r.{on}")),) if on else ()
    temporal = times[0].joined(times[1]) if below == above == 0 else None
    outputs = [
        (f"l.{name}", temporal), (f"r.{name}", temporal), ("l.k", None), ("r.k", None), ("l.x", None), ("r.x", None),
    ]  # fmt: skip
    fields = tuple(Field(label.replace(".", "_"), Type.INT, time) for label, time in outputs)
    items = tuple(Item(label.replace(".", "_"), column(label)) for label, _ in outputs)
    return Join("q", fields, left, right, "l", "r", kind, window, equalities, residual, items)


def sum_of(name: str, expr: Expr) -> Aggregate:
    return Aggregate(name, "sum", expr, Type.INT)


COUNT = Aggregate("n", "count", None, Type.INT)

Match = Callable[[dict[str, Any], dict[str, Any]], bool]
"""Whether two rows meet."""


def joined(
    left: Sequence[Row], right: Sequence[Row], node: Join, names: Sequence[str], match: Match
) -> list[tuple[Any, ...]]:
    """The rows of a join as nested loops: tb, tb, k, k, x, x, `_last`; V1 for the columns of a missing side. An anti
    join has only the left rows that nothing meets, a semi join the others (O8), ASOF the nearest pair of each, with
    ONCE if each is the nearest of the other (O9)."""
    window = node.window
    place = by_columns(node.right.fields)
    order = sorted(range(len(right)), key=lambda i: place(right[i][0]), reverse=node.latest)
    lefts = [(dict(zip(names, values, strict=True)), last) for values, last in left]
    rights = [(dict(zip(names, values, strict=True)), last) for values, last in right]
    rows: list[tuple[Any, ...]] = []
    met: set[int] = set()
    place = by_columns(node.left.fields)
    rivals = sorted(lefts, key=lambda row: place(tuple(row[0].values())), reverse=node.exchanged().latest)

    def nearest(own: Mapping[str, Any], others: Sequence[tuple[dict[str, Any], int]]) -> dict[str, Any]:
        return min(others, key=lambda other: (abs(other[0]["tb"] - own["tb"]), other[0]["tb"]))[0]

    for a, a_last in lefts:
        found = [i for i in order if match(a, rights[i][0])]
        if node.kind.mutual and found:
            b = nearest(a, [rights[i] for i in found])
            if nearest(b, [left for left in rivals if match(left[0], b)]) is not a:
                found = []
        met.update(found)
        ends = window.last_left(a["tb"])
        if node.kind.nearest and found:
            b, _ = rights[min(found, key=lambda i: (abs(rights[i][0]["tb"] - a["tb"]), rights[i][0]["tb"]))]
            rows.append((a["tb"], b["tb"], a["k"], b["k"], a["x"], b["x"], ends))
        elif node.kind.pairs:
            pairs = [rights[i] for i in found]
            rows += [(a["tb"], b["tb"], a["k"], b["k"], a["x"], b["x"], max(a_last, last)) for b, last in pairs]
        if node.kind.keeps_left if not found else node.kind is JoinKind.SEMI:
            rows.append((a["tb"], None, a["k"], None, a["x"], None, ends))
    for i, (b, _) in enumerate(rights):
        if node.kind.keeps_right and i not in met:
            rows.append((None, b["tb"], None, b["k"], None, b["x"], node.window.last_right(b["tb"])))
    return rows
