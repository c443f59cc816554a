"""Which output columns of a query no two of its rows have in common: its unique key, derived from the plan.

Beside the plan nodes; the audit holds the rows of a run against it. A key is named only where it follows from the
operators: groups are told apart by their GROUP BY variables, joined rows by the keys of both inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type, Unary, columns_of
from lowwater.plan.nodes import Field, Group, Item, Join, JoinKind, Map, Node
from lowwater.plan.tree import walk

Key = tuple[str, ...] | None


def unique_key(node: Node, known: dict[int, Key] | None = None) -> Key:
    """The columns of a unique key of a node's rows, in the order of its fields; NULL equals NULL.

    Args:
        node: a logical plan.
        known: keys by the identity of operators that live on, kept from call to call where plans share queries.

    Returns:
        Names of output columns, as few as the plan shows; None where none follows from the plan.
    """
    found = {} if known is None else known
    for part in walk(node, done=found):
        found[id(part)] = _key(part, found)
    return found[id(node)]


def _key(node: Node, found: Mapping[int, Key]) -> Key:
    if isinstance(node, Group):
        return _carried([{key.name} for key in node.keys], node.items, node.fields)
    if isinstance(node, Map):
        below = found[id(node.input)]
        return None if below is None else _carried([{name} for name in below], node.items, node.fields)
    if isinstance(node, Join):
        return _of_join(node, found)
    return None


def _carried(key: Sequence[Collection[str]], items: Sequence[Item], fields: Sequence[Field]) -> tuple[str, ...] | None:
    """The output columns that carry a key: of each of its columns, or of an equal one, an image that determines it."""
    chosen: set[str] = set()
    for equal in key:
        images = [item.name for item, field in zip(items, fields, strict=True) if _image_of(item.expr, field) in equal]
        if not images:
            return None
        chosen.add(images[0])
    return tuple(field.name for field in fields if field.name in chosen)


def _image_of(expr: Expr, field: Field) -> str | None:
    """The one column whose value the expression's value determines; None where two values may have one image.

    Overflow gives NULL (V2), so sums and products count only where the result is temporal: then every sane instant has
    a value of its own in 64 bits.
    """
    if isinstance(expr, Column):
        return expr.name
    if isinstance(expr, Unary) and (expr.op, expr.type) in (("~", Type.INT), ("NOT", Type.BOOL)):
        return _image_of(expr.operand, field)
    if field.temporal is not None and _affine(expr):
        return columns_of(expr)[0]
    return None


def _affine(expr: Expr) -> bool:
    """Whether an expression is an integer column, negated, shifted or scaled by constants other than 0."""
    if isinstance(expr, Column):
        return expr.type is Type.INT
    if isinstance(expr, Unary):
        return expr.op == "-" and _affine(expr.operand)
    if not isinstance(expr, Binary) or expr.op not in ("+", "-", "*"):
        return False
    sides = (expr.left, expr.right)
    constants = [side.value for side in sides if isinstance(side, Const)]
    return len(constants) == 1 and (expr.op != "*" or constants[0] != 0) and any(_affine(side) for side in sides)


@dataclass(frozen=True)
class _Side:
    """One side of an equality that every pair of a join satisfies.

    Attributes:
        bare: the column that it is, which takes the other side's value where its own is missing (V1); else None.
        told: the column that its value determines, if any.
    """

    bare: str | None
    told: str | None

    @staticmethod
    def of(expr: Expr, temporal: bool) -> _Side:
        if isinstance(expr, Column):
            return _Side(expr.name, expr.name)
        return _Side(None, columns_of(expr)[0] if temporal and _affine(expr) else None)


_Tie = tuple[_Side, _Side]


def _of_join(node: Join, known: Mapping[int, Key]) -> tuple[str, ...] | None:
    """The key of a join of keyed inputs: the key of one side, and what of the other's it does not determine."""
    left, right = known[id(node.left)], known[id(node.right)]
    if left is None or right is None:
        return None
    left_key = tuple(f"{node.left_alias}.{name}" for name in left)
    right_key = tuple(f"{node.right_alias}.{name}" for name in right)
    ties = [(_Side.of(a, temporal=False), _Side.of(b, temporal=False)) for a, b in node.equalities]
    if node.window.equality:
        ties.append((_Side.of(node.window.left, temporal=True), _Side.of(node.window.right, temporal=True)))
    turned = [(b, a) for a, b in ties]
    found = [
        (*left_key, *_undetermined(right_key, left_key, ties, node.kind.keeps_right)),
        (*right_key, *_undetermined(left_key, right_key, turned, node.kind.keeps_left)),
    ]
    equal = _equal_columns(node.kind, ties)
    carried = [
        _carried([equal.get(name, {name}) for name in key], node.items, node.fields)
        for key in found
        if node.kind is not JoinKind.OUTER or _sides_differ(node, key, ties)
    ]
    return min((key for key in carried if key is not None), key=len, default=None)


def _undetermined(other: Sequence[str], base: Sequence[str], ties: Sequence[_Tie], keeps_other: bool) -> list[str]:
    """The columns of one side's key that the key of the base side does not tell.

    An equality tells them in a pair; in an unmatched row of the other side the base side's bare column does, which
    takes the value that its one equality gives (V1). `ties` have the base side first.
    """
    bare = [side.bare for side, _ in ties]
    needed = []
    for name in other:
        telling = [side.bare for side, its in ties if its.told == name]
        if not any(not keeps_other or (column in base and bare.count(column) == 1) for column in telling):
            needed.append(name)
    return needed


def _sides_differ(node: Join, key: Collection[str], ties: Sequence[_Tie]) -> bool:
    """Whether an unmatched row of the left side never has the key of an unmatched row of the right side.

    Two such rows with equal keys would satisfy every equality that the key shows, so they would have met where there is
    no other condition. Or the key has a clock of one side, which the other side's rows leave NULL.
    """
    bare = [side.bare for tie in ties for side in tie]
    if node.residual is None and node.window.equality:
        shown = [tie for tie in ties if any(side.bare in key and bare.count(side.bare) == 1 for side in tie)]
        if len(shown) == len(ties):
            return True
    clocks = [
        f"{alias}.{field.name}"
        for alias, side in ((node.left_alias, node.left), (node.right_alias, node.right))
        for field in side.fields
        if field.temporal is not None
    ]
    return any(name in key and name not in bare for name in clocks)


def _equal_columns(kind: JoinKind, ties: Sequence[_Tie]) -> dict[str, set[str]]:
    """Columns that are equal in every joined row, unmatched ones included: each with itself among them."""
    bare = [side.bare for tie in ties for side in tie]
    equal: dict[str, set[str]] = {}
    for left, right in ties:
        # Of several equalities of one column only one gives the missing value (V1), so the others need not hold.
        always = kind is JoinKind.INNER or bare.count(left.bare) == bare.count(right.bare) == 1
        if left.bare and right.bare and always:
            merged = equal.get(left.bare, {left.bare}) | equal.get(right.bare, {right.bare})
            equal.update(dict.fromkeys(merged, merged))
    return equal
