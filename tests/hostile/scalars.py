"""Random scalar expressions: the text in GSQL, and the value for a packet by Python's exact integers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.hostile.traffic import Packet

Value = Any
LOW, HIGH = -(1 << 63), (1 << 63) - 1
COLUMNS = ("len", "srcPort", "destPort", "ttl", "id", "flags", "total_length", "protocol", "window", "tos")
WIDE = ("sequence_number", "ack_number", "timestamp_us")
CONSTANTS = (0, 1, 2, 3, 7, 10, 63, 64, 255, 1000, 65535, 1 << 31, (1 << 32) - 1, 1 << 62, HIGH)


@dataclass(frozen=True)
class Scalar:
    """An expression."""

    text: str
    of: Callable[[Packet], Value]

    def on(self, side: str = "") -> str:
        """The text, its columns those of a side such as `A.`."""
        return self.text.replace("{0}", side)


def checked(value: int) -> int | None:
    """An integer of 64 bits, else NULL."""
    return value if LOW <= value <= HIGH else None


def column(name: str) -> Scalar:
    """A column of the packet."""
    return Scalar("{0}" + name, lambda packet: packet.fields.get(name))


def constant(value: int) -> Scalar:
    """A literal; GSQL has no negative ones."""
    return Scalar(str(value), lambda packet: value)


def _divide(a: int, b: int) -> int | None:
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return checked(quotient if (a < 0) == (b < 0) else -quotient)


def _remainder(a: int, b: int) -> int | None:
    if b == 0:
        return None
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _shift_left(a: int, b: int) -> int | None:
    return checked(a << b) if 0 <= b <= 63 else None


def _shift_right(a: int, b: int) -> int | None:
    return a >> b if 0 <= b <= 63 else None


BINARY: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: checked(a + b),
    "-": lambda a, b: checked(a - b),
    "*": lambda a, b: checked(a * b),
    "/": _divide,
    "%": _remainder,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "<<": _shift_left,
    ">>": _shift_right,
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def binary(operator: str, left: Scalar, right: Scalar, table: dict[str, Callable[[Any, Any], Any]] = BINARY) -> Scalar:
    """Two operands; NULL where either is."""

    def of(packet: Packet) -> Value:
        a, b = left.of(packet), right.of(packet)
        return None if a is None or b is None else table[operator](a, b)

    return Scalar(f"({left.text} {operator} {right.text})", of)


def integer(rng: random.Random, depth: int = 2) -> Scalar:
    """An integer expression."""
    roll = rng.random()
    if depth == 0 or roll < 0.35:
        return column(rng.choice(COLUMNS)) if rng.random() < 0.8 else column(rng.choice(WIDE))
    if roll < 0.45:
        return constant(rng.choice(CONSTANTS))
    if roll < 0.52:
        inner = integer(rng, depth - 1)
        return Scalar(f"(~{inner.text})", lambda packet: None if (value := inner.of(packet)) is None else ~value)
    if roll < 0.58:
        inner = integer(rng, depth - 1)
        return Scalar(f"(0 - {inner.text})", lambda p: None if (value := inner.of(p)) is None else checked(-value))
    if roll < 0.66:
        condition, one, two = boolean(rng, depth - 1), integer(rng, depth - 1), integer(rng, depth - 1)
        text = f"CASE WHEN {condition.text} THEN {one.text} ELSE {two.text} END"
        return Scalar(text, lambda packet: (one if condition.of(packet) is True else two).of(packet))
    operator = rng.choice(list(BINARY))
    right = integer(rng, depth - 1)
    if operator in ("<<", ">>") and rng.random() < 0.8:
        right = constant(rng.choice((0, 1, 5, 31, 32, 62, 63, 64, 1000)))
    return binary(operator, integer(rng, depth - 1), right)


def boolean(rng: random.Random, depth: int = 2) -> Scalar:
    """A condition of three values."""
    roll = rng.random()
    if depth == 0 or roll < 0.4:
        right = constant(rng.choice(CONSTANTS)) if rng.random() < 0.6 else integer(rng, max(depth - 1, 0))
        return binary(rng.choice(list(COMPARE)), integer(rng, max(depth - 1, 0)), right, COMPARE)
    if roll < 0.5:
        return column(rng.choice(("SYN", "ACK", "RST", "FIN", "PSH")))
    if roll < 0.58:
        inner, negated = integer(rng, depth - 1), rng.random() < 0.5
        text = f"({inner.text} IS {'NOT ' if negated else ''}NULL)"
        return Scalar(text, lambda packet: (inner.of(packet) is None) != negated)
    if roll < 0.68:
        return _listed(rng, depth)
    if roll < 0.76:
        inner, low, high = integer(rng, depth - 1), constant(rng.choice(CONSTANTS)), constant(rng.choice(CONSTANTS))
        both = _and(binary(">=", inner, low, COMPARE), binary("<=", inner, high, COMPARE))
        return Scalar(f"({inner.text} BETWEEN {low.text} AND {high.text})", both.of)
    if roll < 0.84:
        inner = boolean(rng, depth - 1)
        return Scalar(f"(NOT {inner.text})", lambda packet: None if (v := inner.of(packet)) is None else not v)
    left, right = boolean(rng, depth - 1), boolean(rng, depth - 1)
    return _and(left, right) if rng.random() < 0.5 else _or(left, right)


def _listed(rng: random.Random, depth: int) -> Scalar:
    inner = integer(rng, depth - 1)
    values = [rng.choice(CONSTANTS) for _ in range(rng.randrange(1, 5))]
    negated = rng.random() < 0.3

    def of(packet: Packet) -> bool | None:
        value = inner.of(packet)
        return None if value is None else (value in values) != negated

    return Scalar(f"({inner.text} {'NOT ' if negated else ''}IN [{', '.join(map(str, values))}])", of)


def _and(left: Scalar, right: Scalar) -> Scalar:
    def of(packet: Packet) -> bool | None:
        values = (left.of(packet), right.of(packet))
        return False if False in values else None if None in values else True

    return Scalar(f"({left.text} AND {right.text})", of)


def _or(left: Scalar, right: Scalar) -> Scalar:
    def of(packet: Packet) -> bool | None:
        values = (left.of(packet), right.of(packet))
        return True if True in values else None if None in values else False

    return Scalar(f"({left.text} OR {right.text})", of)


def wrapped(rng: random.Random, depth: int = 2) -> Scalar:
    """An expression of the dialect `gigascope` over `uint` columns: 32 bits that wrap (docs/dialect.md)."""
    if depth == 0 or rng.random() < 0.3:
        if rng.random() < 0.3:
            return constant(rng.choice([value for value in CONSTANTS if value < 1 << 32]))
        return column(rng.choice([name for name in COLUMNS if name != "id"]))
    left, right, operator = wrapped(rng, depth - 1), wrapped(rng, depth - 1), rng.choice("+-*")
    exact = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
    return binary(operator, left, right, {operator: lambda a, b: exact[operator](a, b) & 0xFFFFFFFF})
