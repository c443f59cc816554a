"""What the families of shipped functions share: groups of types, ranges of integers, octets of strings.

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
    """Base of the shipped aggregates: their states hold memory only, so that nothing is to be freed."""

    def destroy(self, state: Any) -> None:
        """Nothing."""


def summable(value: float) -> float:
    """A float as sums take it (`catalog.expr.SUMMED`)."""
    return value if abs(value) <= SUMMABLE else math.nan


def finite(value: float) -> float | None:
    """The value; None where it is infinite or NaN (V2)."""
    return value if math.isfinite(value) else None


def in_range(value: int) -> int | None:
    """The value; None where 64 bits do not hold it (V2)."""
    return value if INT64_MIN <= value <= INT64_MAX else None


def exact(value: int, name: str) -> int:
    """The value of an exact sum.

    Raises:
        ValueOverflowError: if 64 bits do not hold it (O3).
    """
    if in_range(value) is None:
        raise ValueOverflowError(
            f"{name}: the sum {value} does not fit 64 bits", "sum a smaller unit or shorter epochs"
        )
    return value


def octets(text: str) -> bytes:
    """The bytes of a string: one a character where all are below 256, as in payloads; else UTF-8.

    Example:
        >>> octets("a\\xff").hex()
        '61ff'
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
