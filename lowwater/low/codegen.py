"""Bound expressions to the statements of a row loop: names are positional, literals are numbers, no text of a query.

Below `low.kernel`. Every value has its words, whether it is NULL and whether a V2 failure took part in it; operands are
all evaluated (no short circuit), so `failed` does not depend on the order of conjuncts. CASE alone has an order. What
has no words here, calls and whatever is over texts, is computed beside the kernel (`low.hosted`) and read as a column;
a text is a number then, equal for equal texts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from lowwater.catalog.expr import (
    COMPARISON,
    LOGICAL,
    Binary,
    Call,
    Case,
    Column,
    Const,
    Expr,
    Type,
    Unary,
    rewrite,
    walk,
)
from lowwater.catalog.packets import ADDRESSES, READABLE, stored
from lowwater.catalog.values import words_from_ip
from lowwater.errors import LowwaterError

TRUE, FALSE = "True", "False"

_INT_CALL = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "<<": "shl", ">>": "shr"}
_FLOAT_CALL = {"/": "fdiv", "%": "fmod"}
_PYTHON = {"=": "==", "<>": "!="}
ON_TEXT: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Value:
    """Names or literals of one evaluated expression.

    Attributes:
        words: three for an address (family, high, low), else one; a NULL boolean has the word False.
        null: whether it is NULL.
        failed: whether a failure of V2 took part in it.
    """

    words: tuple[str, ...]
    null: str = FALSE
    failed: str = FALSE


def width(type_: Type) -> int:
    """Words that a value takes in a group table or an output row."""
    return 3 if type_ is Type.IP else 1


def either(*parts: str) -> str:
    """The disjunction of boolean names, simplified where one is a literal."""
    rest = [part for part in dict.fromkeys(parts) if part != FALSE]
    if TRUE in rest:
        return TRUE
    return f"({' or '.join(rest)})" if len(rest) > 1 else (rest[0] if rest else FALSE)


def both(*parts: str) -> str:
    """The conjunction of boolean names, simplified where one is a literal."""
    rest = [part for part in dict.fromkeys(parts) if part != TRUE]
    if FALSE in rest:
        return FALSE
    return f"({' and '.join(rest)})" if len(rest) > 1 else (rest[0] if rest else TRUE)


def negation(part: str) -> str:
    """The negation of a boolean name, simplified where it is a literal."""
    return {TRUE: FALSE, FALSE: TRUE}.get(part, f"(not {part})")


def of_link(expr: Expr, link: str) -> Expr:
    """The expression as packets of one link see it: `interface` is its name, comparisons of constants are folded."""

    def change(node: Expr) -> Expr:
        if isinstance(node, Column) and node.name == "interface":
            return Const(Type.STRING, link)
        if isinstance(node, Binary) and isinstance(node.left, Const) and isinstance(node.right, Const):
            return _fold(node, node.left, node.right)
        return node

    return rewrite(expr, change)


def _fold(node: Binary, left: Const, right: Const) -> Expr:
    if node.op not in COMPARISON or Type.STRING not in (left.type, right.type):
        return node
    if left.value is None or right.value is None:
        return Const(Type.BOOL, None)
    return Const(Type.BOOL, ON_TEXT[node.op](str(left.value), str(right.value)))


def hosted(expr: Expr) -> bool:
    """Whether a value is computed beside the kernel: a call, a text, or what compares texts; not a CASE of texts."""
    if isinstance(expr, Call):
        return True
    if isinstance(expr, Column | Const):
        return expr.type is Type.STRING
    return not isinstance(expr, Case) and any(child.type is Type.STRING for child in expr.children())


def computed(expr: Expr) -> list[Expr]:
    """What the kernel computes of the arguments of a hosted value."""
    found: list[Expr] = []
    for child in expr.children():
        if hosted(child):
            found += computed(child)
        elif not isinstance(child, Column | Const):
            found.append(child)
    return found


class Emitter:
    """Collects the statements that evaluate expressions over record `i`; an expression is evaluated once.

    Attributes:
        lines: statements so far, without the loop's indentation.
        columns: columns read, in the order of the kernel's parameters `c<n>` (values) and `m<n>` (validity): stored
            ones, and `#<k>.<part>` of hosted value k: its words by number, and `failed`.
        hosted: the hosted values.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.columns: list[str] = []
        self.hosted: list[Expr] = []
        self._done: dict[Expr, Value] = {}
        self._loaded: dict[str, Value] = {}
        self._names = 0

    def value(self, expr: Expr) -> Value:
        """Emits what evaluates `expr` and returns the names of the result."""
        if expr not in self._done:
            self._done[expr] = self._evaluate(expr)
        return self._done[expr]

    def name(self, text: str) -> str:
        """Emits an assignment of `text` to a new name; literals and names stay as they are."""
        if text in (TRUE, FALSE) or text.isidentifier():
            return text
        name = self._fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def _fresh(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _evaluate(self, expr: Expr) -> Value:
        if hosted(expr):
            return self._hosted(expr)
        if isinstance(expr, Const):
            return _constant(expr)
        if isinstance(expr, Column):
            return self._column(expr.name)
        if isinstance(expr, Unary):
            return self._unary(expr)
        if isinstance(expr, Case):
            return self._case(expr)
        if isinstance(expr, Binary):
            if expr.op in LOGICAL:
                return self._logical(expr)
            if expr.op in COMPARISON:
                return self._comparison(expr)
            return self._arithmetic(expr)
        raise TypeError(type(expr).__name__)

    def _load(self, name: str) -> Value:
        if name not in self._loaded:
            if name not in READABLE.names:
                raise LowwaterError(f"the low level has no column '{name}'", "bind the query to the packet catalog")
            at = self._parameter(name)
            null = self.name(f"not m{at}[i]") if READABLE.field(name).nullable else FALSE
            self._loaded[name] = Value((self.name(f"int(c{at}[i])"),), null)
        return self._loaded[name]

    def _parameter(self, name: str) -> int:
        self.columns.append(name)
        return len(self.columns) - 1

    def _hosted(self, expr: Expr) -> Value:
        """The value as columns; a failure of what the kernel computes for it takes part in it."""
        own = f"#{len(self.hosted)}"
        self.hosted.append(expr)
        read = {Type.FLOAT: "float", Type.BOOL: "bool"}.get(expr.type, "int")
        places = [self._parameter(f"{own}.{part}") for part in range(width(expr.type))]
        words = tuple(self.name(f"{read}(c{at}[i])") for at in places)
        failed = [self.value(part).failed for part in computed(expr)]
        if any(isinstance(node, Call) for node in walk(expr)):
            failed.append(self.name(f"bool(c{self._parameter(f'{own}.failed')}[i])"))
        return Value(words, self.name(f"not m{places[0]}[i]"), self.name(either(*failed)))

    def _column(self, name: str) -> Value:
        parts = [self._load(part) for part in (stored([name]) if name in ADDRESSES else [name])]
        null = self.name(either(*(part.null for part in parts)))
        return Value(tuple(part.words[0] for part in parts), null)

    def _unary(self, expr: Unary) -> Value:
        inner = self.value(expr.operand)
        if expr.op == "IS NULL":
            return Value((inner.null,), FALSE, inner.failed)
        word = inner.words[0]
        if expr.op == "NOT":
            return Value((self.name(both(negation(inner.null), negation(word))),), inner.null, inner.failed)
        if expr.op == "~":
            return Value((self.name(f"~{word}"),), inner.null, inner.failed)
        if expr.type is Type.FLOAT:
            return Value((self.name(f"-{word}"),), inner.null, inner.failed)
        return self._call(f"negate({word})", inner)

    def _case(self, expr: Case) -> Value:
        """Of the failures only those of the conditions up to the first that is true, and of the value beside it."""
        result = self.value(expr.otherwise)
        for when, then in reversed(expr.branches):
            # The word of a condition that is NULL is False.
            test, value = self.value(when), self.value(then)
            met = test.words[0]
            words = (self._chosen(met, a, b) for a, b in zip(value.words, result.words, strict=True))
            failed = either(test.failed, self._chosen(met, value.failed, result.failed))
            result = Value(tuple(words), self._chosen(met, value.null, result.null), self.name(failed))
        return result

    def _chosen(self, test: str, met: str, other: str) -> str:
        return met if met == other else self.name(f"({met} if {test} else {other})")

    def _call(self, text: str, *operands: Value) -> Value:
        word, fault = self._fresh(), self._fresh()
        self.lines.append(f"{word}, {fault} = {text}")
        null = either(*(one.null for one in operands))
        failed = either(*(one.failed for one in operands), both(fault, negation(null)))
        return Value((word,), self.name(either(null, fault)), self.name(failed))

    def _arithmetic(self, expr: Binary) -> Value:
        left, right = self.value(expr.left), self.value(expr.right)
        a, b = left.words[0], right.words[0]
        if expr.type is Type.FLOAT:
            a, b = _as_float(expr.left, a), _as_float(expr.right, b)
            if expr.op in _FLOAT_CALL:
                return self._call(f"{_FLOAT_CALL[expr.op]}({a}, {b})", left, right)
        elif expr.op in _INT_CALL:
            return self._call(f"{_INT_CALL[expr.op]}({a}, {b})", left, right)
        null, failed = either(left.null, right.null), either(left.failed, right.failed)
        return Value((self.name(f"{a} {expr.op} {b}"),), self.name(null), self.name(failed))

    def _comparison(self, expr: Binary) -> Value:
        left, right = self.value(expr.left), self.value(expr.right)
        null = self.name(either(left.null, right.null))
        failed = self.name(either(left.failed, right.failed))
        if Type.IP in (expr.left.type, expr.right.type):
            test = compare_addresses(expr.op, left.words, right.words)
        else:
            a, b = left.words[0], right.words[0]
            if Type.FLOAT in (expr.left.type, expr.right.type):
                a, b = _as_float(expr.left, a), _as_float(expr.right, b)
            elif expr.left.type is Type.BOOL:
                a, b = f"int({a})", f"int({b})"
            test = f"({a} {_PYTHON.get(expr.op, expr.op)} {b})"
        return Value((self.name(both(negation(null), test)),), null, failed)

    def _logical(self, expr: Binary) -> Value:
        left, right = self.value(expr.left), self.value(expr.right)
        (a,), (b,) = left.words, right.words
        failed = self.name(either(left.failed, right.failed))
        if expr.op == "OR":
            word = self.name(either(a, b))
            return Value((word,), self.name(both(either(left.null, right.null), negation(word))), failed)
        # NULL unless a side is false; the word of a NULL is False, so "not false" is "true or NULL".
        null = either(both(left.null, either(b, right.null)), both(right.null, either(a, left.null)))
        return Value((self.name(both(a, b)),), self.name(null), failed)


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


def _as_float(expr: Expr, word: str) -> str:
    return word if expr.type is Type.FLOAT else f"float({word})"


def _constant(expr: Const) -> Value:
    value = expr.value
    if value is None:
        word = {Type.BOOL: FALSE, Type.FLOAT: "0.0"}.get(expr.type, "0")
        return Value((word,) * max(width(expr.type), 1), TRUE)
    if isinstance(value, bytes):
        return Value(tuple(f"({word})" for word in words_from_ip(value)))
    if expr.type is Type.FLOAT:
        text = repr(float(value)).replace("inf", "1e999")
        return Value((f"({text})",))
    if isinstance(value, bool):
        return Value((TRUE if value else FALSE,))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return Value((f"({value})",))
    raise LowwaterError(f"the literal {value!r} has no 64-bit value", "write a smaller number")
