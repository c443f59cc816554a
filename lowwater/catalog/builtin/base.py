"""Provides helpers for the families of built-in functions: 64-bit ranges, sums, bytes of strings.

At the bottom of `lowwater.catalog.builtin`.
"""

from __future__ import annotations

import math
from typing import Any

from lowwater.catalog.expr import SUMMABLE, Type
from lowwater.errors import ValueOverflowError

EVERY = tuple(Type)
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


class Stateless:
    """Base of the built-in aggregates. Their states hold only memory, so `destroy` has nothing to free."""

    def destroy(self, state: Any) -> None:
        """Does nothing."""


def summable(value: float) -> float:
    """Returns a float in the range of sums; NaN outside it (`catalog.expr.SUMMED`)."""
    return value if abs(value) <= SUMMABLE else math.nan


def finite(value: float) -> float | None:
    """Returns a finite value; None for infinity or NaN (V2)."""
    return value if math.isfinite(value) else None


def in_range(value: int) -> int | None:
    """Returns an integer; None if it exceeds 64 bits (V2)."""
    return value if INT64_MIN <= value <= INT64_MAX else None


def exact(value: int, name: str) -> int:
    """Returns an exact sum.

    Args:
        value: the sum, an integer of any size.
        name: the name of the aggregate, for the message.

    Raises:
        ValueOverflowError: the sum exceeds 64 bits (O3).
    """
    if in_range(value) is None:
        raise ValueOverflowError(
            f"{name}: the sum {value} does not fit 64 bits", "sum a smaller unit or shorter epochs"
        )
    return value


def octets(text: str) -> bytes:
    """Returns the bytes of a string: one byte per character if all are below 256, as in payloads; else UTF-8.

    Example:
        >>> octets("a\\xff").hex()
        '61ff'
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
