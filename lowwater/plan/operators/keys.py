"""Derives which output columns carry a unique key of the input."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type, Unary, columns_of
from lowwater.plan.fields import Field, Item


def key_through(
    key: Sequence[Collection[str]], items: Sequence[Item], fields: Sequence[Field]
) -> tuple[str, ...] | None:
    """Returns the output columns that carry a key, in order; None if the items do not determine a column of the key.

    Args:
        key: for every column of the key, the columns that are equal to it, itself included.
        items: select items over the rows with the key.
        fields: the output columns of the items.
    """
    chosen: set[str] = set()
    for equal in key:
        images = [item.name for item, field in zip(items, fields, strict=True) if _image_of(item.expr, field) in equal]
        if not images:
            return None
        chosen.add(images[0])
    return tuple(field.name for field in fields if field.name in chosen)


def _image_of(expr: Expr, field: Field) -> str | None:
    """Returns the column that the value of an expression determines; None if two column values may give one value.

    Overflow is NULL (V2), so sums and products count only where the result is temporal. Then every real instant has its
    own value in 64 bits.
    """
    if isinstance(expr, Column):
        return expr.name
    if isinstance(expr, Unary) and (expr.op, expr.type) in (("~", Type.INT), ("NOT", Type.BOOL)):
        return _image_of(expr.operand, field)
    if field.temporal is not None and affine(expr):
        return columns_of(expr)[0]
    return None


def affine(expr: Expr) -> bool:
    """Returns whether an expression is an integer column, negated, shifted or scaled by constants other than 0."""
    if isinstance(expr, Column):
        return expr.type is Type.INT
    if isinstance(expr, Unary):
        return expr.op == "-" and affine(expr.operand)
    if not isinstance(expr, Binary) or expr.op not in ("+", "-", "*"):
        return False
    sides = (expr.left, expr.right)
    constants = [side.value for side in sides if isinstance(side, Const)]
    return len(constants) == 1 and (expr.op != "*" or constants[0] != 0) and any(affine(side) for side in sides)
