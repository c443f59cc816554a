"""The values of generated code: the names and literals that stand for an evaluated expression.

Below `low.code.expressions`, which makes them, and the writers of rows and tables, which use them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.catalog.expr import Const, Type
from lowwater.catalog.values import words_from_ip
from lowwater.errors import LowwaterError
from lowwater.low.runtime.arithmetic import MAX, MIN

TRUE, FALSE = "True", "False"


@dataclass(frozen=True)
class Value:
    """Names or literals of one evaluated expression.

    Attributes:
        words: three for an address (family, high, low), else one; a NULL boolean has the word False.
        null: whether it is NULL.
        failed: whether a failure of V2 took part in it.
        least: no word of an integer is below it, `most` none above; so arithmetic that cannot fail is not asked.
    """

    words: tuple[str, ...]
    null: str = FALSE
    failed: str = FALSE
    least: int = MIN
    most: int = MAX

    @property
    def narrow(self) -> bool:
        """Whether every word has 32 bits, with sign."""
        return self.least >= -(1 << 31) and self.most < 1 << 31

    @property
    def literal(self) -> int | None:
        """The one value that it can have, if it is known and not NULL."""
        return self.least if self.least == self.most and self.null == FALSE else None


def width(type_: Type) -> int:
    """Words that a value takes."""
    return 3 if type_ is Type.IP else 1


def either(*parts: str) -> str:
    """The disjunction of boolean names, simplified where one is a literal."""
    rest = [part for part in dict.fromkeys(parts) if part != FALSE]
    if TRUE in rest:
        return TRUE
    return _joined(" | ", rest) if rest else FALSE


def both(*parts: str) -> str:
    """The conjunction of boolean names, simplified where one is a literal."""
    rest = [part for part in dict.fromkeys(parts) if part != TRUE]
    if FALSE in rest:
        return FALSE
    return _joined(" & ", rest) if rest else TRUE


LONGEST = 64
"""Operands of one chain in the code: Python compiles a chain as deep as it is long."""


def _joined(op: str, parts: list[str]) -> str:
    while len(parts) > 1:
        atoms = [_atom(part) for part in parts]
        parts = [_chain(op, atoms[at : at + LONGEST]) for at in range(0, len(atoms), LONGEST)]
    return parts[0]


def _chain(op: str, atoms: list[str]) -> str:
    return f"({op.join(atoms)})" if len(atoms) > 1 else atoms[0]


def _atom(part: str) -> str:
    # Without a branch: what is tested has no effect, and a wrong guess costs more than a needless test.
    return part if part.isidentifier() or _enclosed(part) else f"({part})"


def _enclosed(part: str) -> bool:
    """Whether one pair of brackets is around all of it."""
    depth = 0
    for at, letter in enumerate(part):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return at == len(part) - 1 and part[0] == "("
    return False


def negation(part: str) -> str:
    """The negation of a boolean name, simplified where it is a literal."""
    return {TRUE: FALSE, FALSE: TRUE}.get(part, f"(not {part})")


def compare_addresses(op: str, left: tuple[str, ...], right: tuple[str, ...]) -> str:
    """The test of two addresses by family, then by their 128 bits without sign."""
    equal = " and ".join(f"{a} == {b}" for a, b in zip(left, right, strict=True))
    if op == "=":
        return f"({equal})"
    if op == "<>":
        return f"(not ({equal}))"
    (family, high, low), (family2, high2, low2) = left, right
    strict = op[0]
    # MIN turned into the sign bit makes the signed order of words the unsigned one.
    last = f"({low} ^ MIN) {op} ({low2} ^ MIN)"
    words = f"({high} ^ MIN) {strict} ({high2} ^ MIN) or ({high} == {high2} and {last})"
    return f"({family} {strict} {family2} or ({family} == {family2} and ({words})))"


def as_float(type_: Type, word: str) -> str:
    """A number as a float."""
    return word if type_ is Type.FLOAT else f"float({word})"


def of_constant(expr: Const) -> Value:
    """A literal of the query as a literal of the code; an address is its three words."""
    value = expr.value
    if value is None:
        word = {Type.BOOL: FALSE, Type.FLOAT: "0.0"}.get(expr.type, "0")
        return Value((word,) * width(expr.type), TRUE, least=0, most=0)
    if isinstance(value, bytes):
        return Value(tuple(f"({word})" for word in words_from_ip(value)))
    if expr.type is Type.FLOAT:
        text = repr(float(value)).replace("inf", "1e999")
        return Value((f"({text})",))
    if isinstance(value, bool):
        return Value((TRUE if value else FALSE,))
    if isinstance(value, int) and MIN <= value <= MAX:
        return Value((f"({value})",), least=value, most=value)
    raise LowwaterError(f"the literal {value!r} has no 64-bit value", "write a smaller number")


def indented(lines: list[str]) -> list[str]:
    """The lines of a block one level deeper."""
    return [f"    {line}" for line in lines]
