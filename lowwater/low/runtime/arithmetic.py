"""Arithmetic of SEMANTICS V2 for kernels: total functions that say whether they failed.

Below `low.code.expressions`; `low.code.compiler` copies this source into every kernel. The same text runs compiled
(64-bit words) and as plain Python (unbounded integers), so overflow is asked before the operation, never read from a
wrapped result.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lowwater.catalog.expr import SUMMABLE

MIN = -9223372036854775808
MAX = 9223372036854775807


def truncate(a: int, b: int) -> int:
    """`a / b` toward zero; b is not 0, and not -1 where a is MIN."""
    q = a // b
    if a % b != 0 and (a < 0) != (b < 0):
        q += 1
    return q


def negate(a: int) -> tuple[int, bool]:
    """`-a`, or failed for MIN."""
    if a == MIN:
        return 0, True
    return -a, False


def add(a: int, b: int) -> tuple[int, bool]:
    """`a + b`, or failed where it leaves 64 bits."""
    if (b > 0 and a > MAX - b) or (b < 0 and a < MIN - b):
        return 0, True
    return a + b, False


def sub(a: int, b: int) -> tuple[int, bool]:
    """`a - b`, or failed where it leaves 64 bits."""
    if (b < 0 and a > MAX + b) or (b > 0 and a < MIN + b):
        return 0, True
    return a - b, False


def mul(a: int, b: int) -> tuple[int, bool]:
    """`a * b`, or failed where it leaves 64 bits."""
    if -2147483648 <= a <= 2147483647 and -2147483648 <= b <= 2147483647:
        return a * b, False
    if b == 0:
        return 0, False
    if b == -1:
        return negate(a)
    low = truncate(MIN if b > 0 else MAX, b)
    high = truncate(MAX if b > 0 else MIN, b)
    if a < low or a > high:
        return 0, True
    return a * b, False


def div(a: int, b: int) -> tuple[int, bool]:
    """`a / b` toward zero, or failed for b = 0 and for MIN / -1."""
    if b == 0 or (b == -1 and a == MIN):
        return 0, True
    return truncate(a, b), False


def mod(a: int, b: int) -> tuple[int, bool]:
    """The remainder of `div`, with the sign of a, or failed for b = 0."""
    if b == 0:
        return 0, True
    if b == -1:
        return 0, False
    return a - truncate(a, b) * b, False


def shl(a: int, n: int) -> tuple[int, bool]:
    """`a << n`, or failed outside 0 <= n < 64 and where it leaves 64 bits."""
    if n < 0 or n >= 64 or a > MAX >> n or a < MIN >> n:
        return 0, True
    return a << n, False


def shr(a: int, n: int) -> tuple[int, bool]:
    """Arithmetic `a >> n`, or failed outside 0 <= n < 64."""
    if n < 0 or n >= 64:
        return 0, True
    return a >> n, False


def finite(x: float) -> tuple[float, bool]:
    """`x`, or failed where it is infinite or NaN."""
    if math.isfinite(x):
        return x, False
    return 0.0, True


def summed(x: float) -> float:
    """A float as sums take it (`catalog.expr.SUMMED`)."""
    if abs(x) <= SUMMABLE:
        return x
    return math.nan


def fdiv(a: float, b: float) -> tuple[float, bool]:
    """`a / b`, or failed for b = 0 and where it is not finite."""
    if b == 0.0:
        return 0.0, True
    return finite(a / b)


def fmod(a: float, b: float) -> tuple[float, bool]:
    """The remainder of `a / b` with the sign of a, or failed for b = 0 and where it is not finite."""
    if b == 0.0 or math.isinf(a):
        return 0.0, True
    return finite(math.fmod(a, b))


def bits(x: float) -> int:
    """The 64 bits of a float as a table word; both zeros have the same."""
    return int(np.float64(x + 0.0).view(np.int64))


def real(word: int) -> float:
    """The float of a table word."""
    return float(np.int64(word).view(np.float64))


def mix(word: int, a: int, b: int) -> int:
    """A key word as 63 bits, by two odd factors below 2**31: no overflow, which numba takes for granted."""
    return ((word & 4294967295) * a) ^ (((word >> 32) & 4294967295) * b)


def fold(h: int) -> int:
    """The hash of a group, from the exclusive or of its mixed words."""
    h = ((h ^ (h >> 32)) & 4294967295) * 1540483477
    return h ^ (h >> 31)


def halves(low: int, high: int) -> int:
    """Two numbers of 32 bits with sign as one word."""
    return (low & 4294967295) | (high << 32)


def low_half(word: int) -> int:
    """The first of `halves`."""
    return ((word & 4294967295) ^ 2147483648) - 2147483648


def high_half(word: int) -> int:
    """The second of `halves`."""
    return word >> 32


def put_address(out: npt.NDArray[np.uint8], at: int, family: int, high: int, low: int) -> int:
    """Writes an address as `catalog.values` has it: a byte of family, then 4 or 16; where the next one begins."""
    at &= 2147483647  # never negative, so nobody asks each index whether it counts from the end, and bytes become words
    out[at] = family & 255
    if family == 4:
        for k in range(4):
            out[at + 1 + k] = (low >> (24 - 8 * k)) & 255
        return at + 5
    for k in range(8):
        out[at + 1 + k] = (high >> (56 - 8 * k)) & 255
        out[at + 9 + k] = (low >> (56 - 8 * k)) & 255
    return at + 17
