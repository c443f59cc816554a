"""Bound expressions to the statements of a row loop: names are positional, literals are numbers, no text of a query.

Below `low.code.kernel`. Every value has its words, whether it is NULL and whether a V2 failure took part in it;
operands are all evaluated (no short circuit), so `failed` does not depend on the order of conjuncts. CASE alone has an
order. What has no words here, calls and whatever is over texts, is computed beside the kernel (`low.runtime.hosted`)
and read as a column; a text is a number then, equal for equal texts. The value of a parameter is an argument, so it is
in no source.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lowwater.catalog.expr import (
    COMPARISON,
    LOGICAL,
    SUMMED,
    Binary,
    Call,
    Case,
    Column,
    Const,
    Expr,
    Param,
    Type,
    Unary,
    walk,
)
from lowwater.catalog.packets import ADDRESSES, READABLE, RECORD_NUMBER, SAMPLING_RATE, stored
from lowwater.errors import LowwaterError
from lowwater.low.code.integers import checked, unchecked
from lowwater.low.code.partial_evaluation import computed, hosted
from lowwater.low.code.values import (
    FALSE,
    TRUE,
    Value,
    as_float,
    both,
    compare_addresses,
    either,
    negation,
    of_constant,
    width,
)
from lowwater.low.runtime.arithmetic import MAX
from lowwater.plan.temporal import END_OF_TIME

_FLOAT_CALL = {"/": "fdiv", "%": "fmod"}
_PYTHON = {"=": "==", "<>": "!="}
OUTCOME = "outcome"
OF_NODE = (SAMPLING_RATE, OUTCOME)
"""What sampling and load shedding say of every record for one node: columns `<name> <node>` (O5)."""

OWN_SKEW = "skew"
"""The skew of every record, ns, where a link has several (T8): a column that is not stored."""


def node_name(number: int) -> str:
    """What a node of a kernel is called in names."""
    return f"n{number}"


_CLOCKS = {"timestamp": "t", "arrival": "a"}


@dataclass
class Inputs:
    """What the code of one kernel reads of packets and of the run, each once.

    Attributes:
        columns: stored ones, in the order of the parameters `c<n>` (values) and `m<n>` (validity, a bit a record).
        params: values of `$param`, in the order of the parameters `p<n>_<word>`.
    """

    columns: list[str] = field(default_factory=list)
    params: list[Const | Param] = field(default_factory=list)

    def column(self, name: str) -> int:
        """The number of a column."""
        if name not in READABLE.names and name.split()[0] not in (*OF_NODE, OWN_SKEW, RECORD_NUMBER):
            raise LowwaterError(f"the low level has no column '{name}'", "bind the query to the packet catalog")
        if name not in self.columns:
            self.columns.append(name)
        return self.columns.index(name)

    def param(self, value: Const | Param) -> Value:
        """The words of a parameter; what it may be is not looked at."""
        if value not in self.params:
            self.params.append(value)
        at = self.params.index(value)
        return Value(tuple(f"p{at}_{word}" for word in range(width(value.type))))


class Emitter:
    """Collects the statements that evaluate expressions over record `i`; an expression is evaluated once.

    Args:
        inputs: the inputs of the kernel.
        prefix: the prefix of the names, where a kernel has several emitters.
        clocked: whether the loop has the timestamp and the arrival of the record as `t` and `a`.
        valid: whether no stored column of the record is NULL.

    Attributes:
        lines: statements so far, without the loop's indentation.
        hosted: the values that are computed beside the kernel.
        beside: the columns of these, in the order of the parameters `h<prefix>_<n>` (values) and `g<prefix>_<n>`
            (validity): `<k>.<part>` of hosted value k: its words by number, and `failed`.
    """

    def __init__(self, inputs: Inputs, prefix: str = "", clocked: bool = True, valid: bool = False) -> None:
        self.lines: list[str] = []
        self.hosted: list[Expr] = []
        self.beside: list[str] = []
        self._inputs = inputs
        self._prefix = self._own = prefix
        self._clocked = clocked
        self._valid = valid
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
        if text.isidentifier():
            return text
        name = self._fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def again(self) -> Emitter:
        """An emitter for another loop over the same records, whose hosted values are this one's too."""
        other = Emitter(self._inputs, f"{self._prefix}b", self._clocked)
        other.hosted, other.beside, other._own = self.hosted, self.beside, self._own
        return other

    def whole(self) -> Emitter:
        """An emitter for records in which no stored column is NULL."""
        other = Emitter(self._inputs, f"{self._prefix}w", self._clocked, valid=True)
        other._own = self._own
        return other

    def test_whole(self, names: Iterable[str]) -> tuple[list[str], str]:
        """The test that none of some stored columns is NULL, and the statements for it before each block of records."""
        places = [self._inputs.column(name) for name in names if READABLE.field(name).nullable]
        if not places:
            return [], TRUE

        def bits(at: str) -> str:
            return " & ".join(f"m{place}[{at}]" for place in places)

        # Mostly a whole block has no NULL. Its bits are asked eight records at a time, of those about its ends too.
        whole = f"{self._prefix}whole"
        before = [f"{whole} = 255", "for eight in range(begin >> 3, until >> 3):", f"    {whole} &= {bits('eight')}"]
        before += ["if until & 7 != 0:", f"    {whole} &= {bits('until >> 3')}"]
        return before, f"{whole} == 255 or ({bits('i >> 3')}) >> (i & 7) & 1 == 1"

    def taken(self) -> list[str]:
        """The statements since the last time, which is where the next ones go."""
        lines, self.lines = self.lines, []
        return lines

    def _fresh(self) -> str:
        self._names += 1
        return f"{self._prefix}v{self._names}"

    def _evaluate(self, expr: Expr) -> Value:
        if hosted(expr):
            return self._hosted(expr)
        if isinstance(expr, Param) or (isinstance(expr, Const) and expr.param):
            return self._inputs.param(expr)
        if isinstance(expr, Const):
            return of_constant(expr)
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
            self._loaded[name] = self._read(name)
        return self._loaded[name]

    def _read(self, name: str) -> Value:
        if name in _CLOCKS and self._clocked:
            return Value((_CLOCKS[name],), least=0, most=END_OF_TIME)
        if name == SAMPLING_RATE:
            at = self._inputs.column(f"{SAMPLING_RATE} {self._own}")
            return Value((self.name(f"float(c{at}[i])"),))
        at = self._inputs.column(name)
        if name == RECORD_NUMBER:
            return Value((self.name(f"int(c{at}[i])"),), least=0, most=END_OF_TIME)
        stored_as = READABLE.field(name)
        null = self.name(f"(m{at}[i >> 3] >> (i & 7)) & 1 == 0") if stored_as.nullable and not self._valid else FALSE
        half = 1 << (stored_as.type.bit_width - 1)
        bounds = (0, END_OF_TIME) if name in _CLOCKS else (-half, half - 1)
        return Value((self.name(f"int(c{at}[i])"),), null, FALSE, *bounds)

    def _hosted(self, expr: Expr) -> Value:
        """The value as columns; a failure of what the kernel computes for it takes part in it."""
        own = len(self.hosted)
        self.hosted.append(expr)
        read = {Type.FLOAT: "float", Type.BOOL: "bool"}.get(expr.type, "int")
        places = [self._beside(f"{own}.{part}") for part in range(width(expr.type))]
        words = tuple(self.name(f"{read}(h{at}[i])") for at in places)
        failed = [self.value(part).failed for part in computed(expr)]
        if any(isinstance(node, Call) for node in walk(expr)):
            failed.append(self.name(f"bool(h{self._beside(f'{own}.failed')}[i])"))
        return Value(words, self.name(f"not g{places[0]}[i]"), self.name(either(*failed)))

    def _beside(self, name: str) -> str:
        self.beside.append(name)
        return f"{self._own}_{len(self.beside) - 1}"

    def _column(self, name: str) -> Value:
        if name not in ADDRESSES:
            return self._load(name)
        parts = [self._load(part) for part in stored([name])]
        null = self.name(either(*(part.null for part in parts)))
        return Value(tuple(part.words[0] for part in parts), null)

    def _unary(self, expr: Unary) -> Value:
        inner = self.value(expr.operand)
        if expr.op == "IS NULL":
            return Value((inner.null,), FALSE, inner.failed)
        word = inner.words[0]
        if expr.op == "NOT":
            return Value((self.name(both(negation(inner.null), negation(word))),), inner.null, inner.failed)
        if expr.type is Type.FLOAT:
            text = f"summed({word})" if expr.op == SUMMED else f"-{word}"
            return Value((self.name(text),), inner.null, inner.failed)
        found = unchecked("~" if expr.op == "~" else "neg", word, inner)
        if found is not None:
            text, least, most = found
            return Value((self.name(text),), inner.null, inner.failed, least, most)
        return self._call(f"negate({word})", inner)

    def _case(self, expr: Case) -> Value:
        """Of the failures only those of the conditions up to the first that is true, and of the value beside it."""
        result = self.value(expr.otherwise)
        for when, then in reversed(expr.branches):
            # The word of a condition that is NULL is False.
            test, value = self.value(when), self.value(then)
            met = test.words[0]
            words = tuple(self._chosen(met, a, b) for a, b in zip(value.words, result.words, strict=True))
            failed = either(test.failed, self._chosen(met, value.failed, result.failed))
            bounds = min(value.least, result.least), max(value.most, result.most)
            result = Value(words, self._chosen(met, value.null, result.null), self.name(failed), *bounds)
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
        expr = self._one_division(expr)
        left, right = self.value(expr.left), self.value(expr.right)
        if expr.type is Type.IP:
            return self._masked(expr.op, left, right)
        a, b = left.words[0], right.words[0]
        null, failed = self.name(either(left.null, right.null)), self.name(either(left.failed, right.failed))
        if expr.type is Type.FLOAT:
            a, b = as_float(expr.left.type, a), as_float(expr.right.type, b)
            if expr.op in _FLOAT_CALL:
                return self._call(f"{_FLOAT_CALL[expr.op]}({a}, {b})", left, right)
            return self._call(f"finite({a} {expr.op} {b})", left, right)
        found = unchecked(expr.op, a, left, b, right)
        if found is not None:
            text, least, most = found
            return Value((self.name(text),), null, failed, least, most)
        return self._call(checked(expr.op, a, b), left, right)

    def _masked(self, op: str, left: Value, right: Value) -> Value:
        """Bits of two addresses of one family; of two families there is no value (V2)."""
        null = either(left.null, right.null)
        fault = self.name(both(f"({left.words[0]} != {right.words[0]})", negation(null)))
        bits = (self.name(f"{a} {op} {b}") for a, b in zip(left.words[1:], right.words[1:], strict=True))
        failed = self.name(either(left.failed, right.failed, fault))
        return Value((left.words[0], *bits), self.name(either(null, fault)), failed)

    def _one_division(self, expr: Binary) -> Binary:
        """`x / a / b` as one division, where x is not negative: seconds and minutes are divisions of nanoseconds."""
        inner = expr.left
        if not (expr.op == "/" and expr.type is Type.INT and isinstance(inner, Binary) and inner.op == "/"):
            return expr
        by = [each.value for each in (inner.right, expr.right) if isinstance(each, Const) and not each.param]
        numbers = [each for each in by if type(each) is int and each > 0]
        if len(numbers) < 2 or self.value(inner.left).least < 0 or numbers[0] * numbers[1] > MAX:
            return expr
        return Binary(Type.INT, "/", inner.left, Const(Type.INT, numbers[0] * numbers[1]))

    def _comparison(self, expr: Binary) -> Value:
        left, right = self.value(expr.left), self.value(expr.right)
        null = self.name(either(left.null, right.null))
        failed = self.name(either(left.failed, right.failed))
        if Type.IP in (expr.left.type, expr.right.type):
            test = compare_addresses(expr.op, left.words, right.words)
        else:
            a, b = left.words[0], right.words[0]
            if Type.FLOAT in (expr.left.type, expr.right.type):
                a, b = as_float(expr.left.type, a), as_float(expr.right.type, b)
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
