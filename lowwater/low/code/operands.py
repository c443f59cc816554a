"""Operands of generated code: the names and literals that stand for an evaluated expression.

Below `low.code.expressions`, which makes them; the generators of rows and tables use them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.catalog.expr import Const, Type
from lowwater.catalog.values import words_from_ip
from lowwater.errors import LowwaterError
from lowwater.low.runtime.arithmetic import MAX, MIN

TRUE, FALSE = "True", "False"


@dataclass(frozen=True)
class Operand:
    """The names or literals of one evaluated expression.

    Attributes:
        words: three for an address (version, high, low), else one. The word of a NULL boolean is False.
        null: the test whether it is NULL.
        failed: the test whether a failure of V2 took part in it.
        least, most: bounds of an integer's word. Arithmetic whose bounds fit into 64 bits needs no test.
    """

    words: tuple[str, ...]
    null: str = FALSE
    failed: str = FALSE
    least: int = MIN
    most: int = MAX

    @property
    def narrow(self) -> bool:
        """Whether every word is signed with 32 bits."""
        return self.least >= -(1 << 31) and self.most < 1 << 31

    @property
    def literal(self) -> int | None:
        """The only possible value, if it is known and not NULL."""
        return self.least if self.least == self.most and self.null == FALSE else None


def width(type_: Type) -> int:
    """Returns the number of words of a value."""
    return 3 if type_ is Type.IP else 1


def either(*parts: str) -> str:
    """Returns the disjunction of boolean operands, without literals."""
    rest = [part for part in dict.fromkeys(parts) if part != FALSE]
    if TRUE in rest:
        return TRUE
    return _balanced(" | ", rest) if rest else FALSE


def both(*parts: str) -> str:
    """Returns the conjunction of boolean operands, without literals."""
    rest = [part for part in dict.fromkeys(parts) if part != TRUE]
    if FALSE in rest:
        return FALSE
    return _balanced(" & ", rest) if rest else TRUE


MAX_CHAIN = 64
"""Most operands of one chain in the code: Python's compiler recurses once per operand of a chain."""


def _balanced(op: str, parts: list[str]) -> str:
    while len(parts) > 1:
        atoms = [_atom(part) for part in parts]
        parts = [_chain(op, atoms[at : at + MAX_CHAIN]) for at in range(0, len(atoms), MAX_CHAIN)]
    return parts[0]


def _chain(op: str, atoms: list[str]) -> str:
    return f"({op.join(atoms)})" if len(atoms) > 1 else atoms[0]


def _atom(part: str) -> str:
    # `|` and `&` instead of `or` and `and`: a mispredicted branch costs more than a needless test.
    return part if part.isidentifier() or _enclosed(part) else f"({part})"


def _enclosed(part: str) -> bool:
    """Whether one pair of brackets encloses the entire text."""
    depth = 0
    for at, letter in enumerate(part):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return at == len(part) - 1 and part[0] == "("
    return False


def negation(part: str) -> str:
    """Returns the negation of a boolean operand; a literal is inverted."""
    return {TRUE: FALSE, FALSE: TRUE}.get(part, f"(not {part})")


def compare_addresses(op: str, left: tuple[str, ...], right: tuple[str, ...]) -> str:
    """Returns the comparison of two addresses, by IP version, then by their unsigned 128 bits."""
    equal = " and ".join(f"{a} == {b}" for a, b in zip(left, right, strict=True))
    if op == "=":
        return f"({equal})"
    if op == "<>":
        return f"(not ({equal}))"
    (family, high, low), (family2, high2, low2) = left, right
    strict = op[0]
    # With the sign bit flipped (`^ MIN`), the signed order of words is their unsigned order.
    last = f"({low} ^ MIN) {op} ({low2} ^ MIN)"
    words = f"({high} ^ MIN) {strict} ({high2} ^ MIN) or ({high} == {high2} and {last})"
    return f"({family} {strict} {family2} or ({family} == {family2} and ({words})))"


def as_float(type_: Type, word: str) -> str:
    """Returns the code of a number as a float."""
    return word if type_ is Type.FLOAT else f"float({word})"


def of_constant(expr: Const) -> Operand:
    """Returns the operand of a literal; an address has three words.

    Raises:
        LowwaterError: the literal does not fit 64 bits.
    """
    value = expr.value
    if value is None:
        word = {Type.BOOL: FALSE, Type.FLOAT: "0.0"}.get(expr.type, "0")
        return Operand((word,) * width(expr.type), TRUE, least=0, most=0)
    if isinstance(value, bytes):
        return Operand(tuple(f"({word})" for word in words_from_ip(value)))
    if expr.type is Type.FLOAT:
        text = repr(float(value)).replace("inf", "1e999")
        return Operand((f"({text})",))
    if isinstance(value, bool):
        return Operand((TRUE if value else FALSE,))
    if isinstance(value, int) and MIN <= value <= MAX:
        return Operand((f"({value})",), least=value, most=value)
    raise LowwaterError(f"the literal {value!r} has no 64-bit value", "write a smaller number")


def indented(lines: list[str]) -> list[str]:
    """Returns the lines of a block, one level deeper."""
    return [f"    {line}" for line in lines]
