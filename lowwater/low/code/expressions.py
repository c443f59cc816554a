"""Compiles bound expressions to statements of a row loop. Names are positional, and no query text enters the code.

Below `low.code.kernel`. Every value has its words, a NULL test and a test whether a V2 failure took part in it.
Operands are always evaluated, without short circuit, so `failed` does not depend on the order of conjuncts; only CASE
has an order. Calls, lists and operations on strings are host values: `low.evaluate` computes them beside
the kernel, and the kernel reads them as columns. A string is then a number, equal for equal strings. The value of a
parameter is an argument, so no source holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from lowwater.catalog import expr as ex, schemas
from lowwater.catalog.values import words_from_ip
from lowwater.errors import LowwaterError
from lowwater.low.runtime.arithmetic import MAX, MIN, truncate
from lowwater.plan.temporal import END_OF_TIME

# Operands of generated code

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


def width(type_: ex.Type) -> int:
    """Returns the number of words of a value."""
    return 3 if type_ is ex.Type.IP else 1


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


def as_float(type_: ex.Type, word: str) -> str:
    """Returns the code of a number as a float."""
    return word if type_ is ex.Type.FLOAT else f"float({word})"


def of_constant(expr: ex.Const) -> Operand:
    """Returns the operand of a literal; an address has three words.

    Raises:
        LowwaterError: the literal does not fit 64 bits.
    """
    value = expr.value
    if value is None:
        word = {ex.Type.BOOL: FALSE, ex.Type.FLOAT: "0.0"}.get(expr.type, "0")
        return Operand((word,) * width(expr.type), TRUE, least=0, most=0)
    if isinstance(value, bytes):
        return Operand(tuple(f"({word})" for word in words_from_ip(value)))
    if expr.type is ex.Type.FLOAT:
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


# Partial evaluation for one link. The name of the link is a constant there, so a comparison with it has one result for
# all packets.


def of_link(expr: ex.Expr, link: str) -> ex.Expr:
    """Returns the expression for packets of one link: `interface` is a constant, and its comparisons are folded."""

    def change(node: ex.Expr) -> ex.Expr:
        if isinstance(node, ex.Column) and node.name == "interface":
            return ex.Const(ex.Type.STRING, link)
        if isinstance(node, ex.OneOf) and isinstance(node.operand, ex.Const) and not node.operand.param:
            value = node.operand.value
            return ex.Const(ex.Type.BOOL, None if value is None else node.holds()(value))
        if isinstance(node, ex.Binary) and isinstance(node.left, ex.Const) and isinstance(node.right, ex.Const):
            return _fold(node, node.left, node.right)
        return node

    return ex.rewrite(expr, change)


def _fold(node: ex.Binary, left: ex.Const, right: ex.Const) -> ex.Expr:
    if node.op not in ex.COMPARISON or ex.Type.STRING not in (left.type, right.type):
        return node
    # The result of a parameter stays a parameter: its value is an argument of the kernel.
    param = (
        f"{left.param or left.value!r} {node.op} {right.param or right.value!r}" if left.param or right.param else ""
    )
    if left.value is None or right.value is None:
        return ex.Const(ex.Type.BOOL, None)
    return ex.Const(ex.Type.BOOL, ex.COMPARE[node.op](str(left.value), str(right.value)), param)


def is_hosted(expr: ex.Expr) -> bool:
    """Whether an expression is a host value, computed beside the kernel: a call, a list, a string or its comparison.

    A CASE of strings is not a host value.
    """
    if isinstance(expr, ex.Call | ex.OneOf):
        return True
    if isinstance(expr, ex.Column | ex.Const):
        return expr.type is ex.Type.STRING
    return not isinstance(expr, ex.Case) and any(child.type is ex.Type.STRING for child in expr.children())


def kernel_arguments(expr: ex.Expr) -> list[ex.Expr]:
    """Returns the parts of a host value's arguments that the kernel computes."""
    parts: list[ex.Expr] = []
    for child in expr.children():
        if is_hosted(child):
            parts += kernel_arguments(child)
        elif not isinstance(child, ex.Column | ex.Const):
            parts.append(child)
    return parts


# Integer operators. A column has the bounds of its stored type, so a port plus 1 needs no test.

Bounded = tuple[str, int, int]
"""Code of a result, with its lower and upper bound."""

_CHECKED_FUNCTIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "<<": "shl", ">>": "shr"}


def checked_operation(op: str, a: str, b: str) -> str:
    """Returns the call of `low.runtime.arithmetic` that gives the result and whether it failed."""
    return f"{_CHECKED_FUNCTIONS[op]}({a}, {b})"


def plain_operation(op: str, a: str, left: Operand, b: str = "", right: Operand | None = None) -> Bounded | None:
    """Returns the code of an operator that cannot fail, with the bounds of its result; None if it can fail.

    Args:
        op: the operator of GSQL; `neg` for unary minus.
        b: code of the right operand; empty for a unary operator.
        right: bounds of the right operand; None for a unary operator.
    """
    if op == "~":
        return f"~{a}", -left.most - 1, -left.least - 1
    if op == "neg":
        return _if_fits(f"-{a}", -left.most, -left.least)
    assert right is not None
    if op in ("&", "|"):
        return _bitwise(op, f"{a} {op} {b}", left, right)
    if op == "+":
        return _if_fits(f"{a} + {b}", left.least + right.least, left.most + right.most)
    if op == "-":
        return _if_fits(f"{a} - {b}", left.least - right.most, left.most - right.least)
    if op == "*":
        ends = [x * y for x in (left.least, left.most) for y in (right.least, right.most)]
        return _if_fits(f"{a} * {b}", min(ends), max(ends))
    return None if right.literal is None else _by_constant(op, a, left, right.literal)


def _if_fits(text: str, least: int, most: int) -> Bounded | None:
    return (text, least, most) if least >= MIN and most <= MAX else None


def _bitwise(op: str, text: str, left: Operand, right: Operand) -> Bounded:
    if op == "&":
        tops = [side.most for side in (left, right) if side.least >= 0]
        return (text, 0, min(tops)) if tops else (text, MIN, MAX)
    if left.least >= 0 and right.least >= 0:
        return text, 0, (1 << max(left.most, right.most).bit_length()) - 1
    return text, MIN, MAX


def _by_constant(op: str, a: str, left: Operand, b: int) -> Bounded | None:
    if op == "/" and b not in (0, -1):
        text = f"{a} // ({b})" if left.least >= 0 and b > 0 else f"truncate({a}, ({b}))"
        ends = [truncate(left.least, b), truncate(left.most, b)]
        return text, min(ends), max(ends)
    if op == "%" and b > 0 and left.least >= 0:
        return f"{a} % ({b})", 0, min(left.most, b - 1)
    if op == ">>" and 0 <= b < 64:
        return f"{a} >> ({b})", left.least >> b, left.most >> b
    if op == "<<" and 0 <= b < 63 and left.least >= 0:
        return _if_fits(f"{a} << ({b})", left.least << b, left.most << b)
    return None


_FLOAT_FUNCTIONS = {"/": "fdiv", "%": "fmod"}
_PYTHON_OPERATORS = {"=": "==", "<>": "!="}
OUTCOME = "outcome"
NODE_COLUMNS = (schemas.SAMPLING_RATE, OUTCOME)
"""Columns `<name> <node>` with the results of sampling and load shedding for one node (O5)."""

OWN_SKEW = "skew"
"""Column with the skew of every record, ns, for a link with several skews (T8). It is computed, not stored."""


def node_name(number: int) -> str:
    """Returns the name of a node in generated names."""
    return f"n{number}"


_CLOCKS = {"timestamp": "t", "arrival": "a"}


@dataclass
class Inputs:
    """The columns and parameters that the code of one kernel reads, without repetition.

    Attributes:
        columns: stored columns, in the order of the arguments `c<n>` (values) and `m<n>` (validity, a bit a record).
        params: parameters, in the order of the arguments `p<n>_<word>`.
    """

    columns: list[str] = field(default_factory=list)
    params: list[ex.Const | ex.Param] = field(default_factory=list)

    def column(self, name: str) -> int:
        """Returns the number of a column, and adds it if it is new.

        Raises:
            LowwaterError: packets have no such column.
        """
        if not schemas.is_stored(name) and name.split()[0] not in (*NODE_COLUMNS, OWN_SKEW, schemas.RECORD_NUMBER):
            raise LowwaterError(f"the low level has no column '{name}'", "bind the query to the packet catalog")
        if name not in self.columns:
            self.columns.append(name)
        return self.columns.index(name)

    def param(self, value: ex.Const | ex.Param) -> Operand:
        """Returns the words of a parameter, and adds it if it is new. Its value is not looked at."""
        if value not in self.params:
            self.params.append(value)
        at = self.params.index(value)
        return Operand(tuple(f"p{at}_{word}" for word in range(width(value.type))))


class Emitter:
    """Collects the statements that evaluate expressions over record `i`. Each expression is evaluated once.

    Args:
        clocked: whether the loop has the timestamp and the arrival of the record as `t` and `a`.
        valid: whether no stored column of the record is NULL.

    Attributes:
        lines: the statements so far, without the indentation of the loop.
        beside: their columns, in the order of the arguments `h<prefix>_<n>` (values) and `g<prefix>_<n>` (validity). A
            column is `<k>.<part>` of host value k: the number of a word, or `failed`.
    """

    def __init__(self, inputs: Inputs, prefix: str = "", clocked: bool = True, valid: bool = False) -> None:
        self.lines: list[str] = []
        self.hosted: list[ex.Expr] = []
        self.beside: list[str] = []
        self._inputs = inputs
        self._prefix = self._node = prefix
        self._clocked = clocked
        self._valid = valid
        self._values: dict[ex.Expr, Operand] = {}
        self._loaded: dict[str, Operand] = {}
        self._names = 0

    def value(self, expr: ex.Expr) -> Operand:
        """Emits the statements that evaluate an expression, and returns the names of its value."""
        if expr not in self._values:
            self._values[expr] = self._evaluate(expr)
        return self._values[expr]

    def name(self, text: str) -> str:
        """Emits an assignment of some code to a new name, and returns the name. A literal or a name stays as it is."""
        if text.isidentifier():
            return text
        name = self._fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def second_loop(self) -> Emitter:
        """Returns an emitter for a second loop over the same records, which shares the host values of this one."""
        other = Emitter(self._inputs, f"{self._prefix}b", self._clocked)
        other.hosted, other.beside, other._node = self.hosted, self.beside, self._node
        return other

    def without_nulls(self) -> Emitter:
        """Returns an emitter for records in which no stored column is NULL."""
        other = Emitter(self._inputs, f"{self._prefix}w", self._clocked, valid=True)
        other._node = self._node
        return other

    def test_not_null(self, names: Iterable[str]) -> tuple[list[str], str]:
        """Generates the test that none of some stored columns is NULL.

        Returns:
            The statements before each block of records, and the test.
        """
        places = [self._inputs.column(name) for name in names if schemas.stored_field(name).nullable]
        if not places:
            return [], TRUE

        def bits(at: str) -> str:
            return " & ".join(f"m{place}[{at}]" for place in places)

        # Most blocks have no NULL at all. The bits are tested eight records at a time, including those around the ends.
        whole = f"{self._prefix}whole"
        before = [f"{whole} = 255", "for eight in range(begin >> 3, until >> 3):", f"    {whole} &= {bits('eight')}"]
        before += ["if until & 7 != 0:", f"    {whole} &= {bits('until >> 3')}"]
        return before, f"{whole} == 255 or ({bits('i >> 3')}) >> (i & 7) & 1 == 1"

    def take_lines(self) -> list[str]:
        """Returns the statements since the last call, and removes them."""
        lines, self.lines = self.lines, []
        return lines

    def _fresh(self) -> str:
        self._names += 1
        return f"{self._prefix}v{self._names}"

    def _evaluate(self, expr: ex.Expr) -> Operand:
        if is_hosted(expr):
            return self._hosted(expr)
        if isinstance(expr, ex.Param) or (isinstance(expr, ex.Const) and expr.param):
            return self._inputs.param(expr)
        if isinstance(expr, ex.Const):
            return of_constant(expr)
        if isinstance(expr, ex.Column):
            return self._column(expr.name)
        if isinstance(expr, ex.Unary):
            return self._unary(expr)
        if isinstance(expr, ex.Case):
            return self._case(expr)
        if isinstance(expr, ex.Binary):
            if expr.op in ex.LOGICAL:
                return self._logical(expr)
            if expr.op in ex.COMPARISON:
                return self._comparison(expr)
            return self._arithmetic(expr)
        raise TypeError(type(expr).__name__)

    def _load(self, name: str) -> Operand:
        if name not in self._loaded:
            self._loaded[name] = self._read(name)
        return self._loaded[name]

    def _read(self, name: str) -> Operand:
        if name in _CLOCKS and self._clocked:
            return Operand((_CLOCKS[name],), least=0, most=END_OF_TIME)
        if name == schemas.SAMPLING_RATE:
            at = self._inputs.column(f"{schemas.SAMPLING_RATE} {self._node}")
            return Operand((self.name(f"float(c{at}[i])"),))
        at = self._inputs.column(name)
        if name == schemas.RECORD_NUMBER:
            return Operand((self.name(f"int(c{at}[i])"),), least=0, most=END_OF_TIME)
        stored_as = schemas.stored_field(name)
        null = self.name(f"(m{at}[i >> 3] >> (i & 7)) & 1 == 0") if stored_as.nullable and not self._valid else FALSE
        if pa.types.is_floating(stored_as.type):
            return Operand((self.name(f"float(c{at}[i])"),), null)
        if pa.types.is_boolean(stored_as.type):
            return Operand((self.name(both(negation(null), self.name(f"c{at}[i] != 0"))),), null)
        half = 1 << (stored_as.type.bit_width - 1)
        bounds = (0, END_OF_TIME) if name in _CLOCKS else (-half, half - 1)
        return Operand((self.name(f"int(c{at}[i])"),), null, FALSE, *bounds)

    def _hosted(self, expr: ex.Expr) -> Operand:
        """Reads a host value from its columns. A failure of its kernel arguments takes part in it."""
        number = len(self.hosted)
        self.hosted.append(expr)
        conversion = {ex.Type.FLOAT: "float", ex.Type.BOOL: "bool"}.get(expr.type, "int")
        places = [self._beside(f"{number}.{part}") for part in range(width(expr.type))]
        words = tuple(self.name(f"{conversion}(h{at}[i])") for at in places)
        failed = [self.value(part).failed for part in kernel_arguments(expr)]
        if any(isinstance(node, ex.Call) for node in ex.walk(expr)):
            failed.append(self.name(f"bool(h{self._beside(f'{number}.failed')}[i])"))
        return Operand(words, self.name(f"not g{places[0]}[i]"), self.name(either(*failed)))

    def _beside(self, name: str) -> str:
        self.beside.append(name)
        return f"{self._node}_{len(self.beside) - 1}"

    def _column(self, name: str) -> Operand:
        if not (names := schemas.address_parts(name)):
            return self._load(name)
        parts = [self._load(part) for part in names]
        null = self.name(either(*(part.null for part in parts)))
        return Operand(tuple(part.words[0] for part in parts), null)

    def _unary(self, expr: ex.Unary) -> Operand:
        inner = self.value(expr.operand)
        if expr.op == "IS NULL":
            return Operand((inner.null,), FALSE, inner.failed)
        word = inner.words[0]
        if expr.op == "NOT":
            return Operand((self.name(both(negation(inner.null), negation(word))),), inner.null, inner.failed)
        if expr.type is ex.Type.FLOAT:
            text = f"summed({word})" if expr.op == ex.SUMMED else f"-{word}"
            return Operand((self.name(text),), inner.null, inner.failed)
        plain = plain_operation("~" if expr.op == "~" else "neg", word, inner)
        if plain is not None:
            text, least, most = plain
            return Operand((self.name(text),), inner.null, inner.failed, least, most)
        return self._call(f"negate({word})", inner)

    def _case(self, expr: ex.Case) -> Operand:
        """Evaluates a CASE. Only failures of conditions up to the first true one, and of its value, take part."""
        result = self.value(expr.otherwise)
        for when, then in reversed(expr.branches):
            # The word of a NULL condition is False.
            test, value = self.value(when), self.value(then)
            met = test.words[0]
            words = tuple(self._conditional(met, a, b) for a, b in zip(value.words, result.words, strict=True))
            failed = either(test.failed, self._conditional(met, value.failed, result.failed))
            bounds = min(value.least, result.least), max(value.most, result.most)
            result = Operand(words, self._conditional(met, value.null, result.null), self.name(failed), *bounds)
        return result

    def _conditional(self, test: str, met: str, other: str) -> str:
        return met if met == other else self.name(f"({met} if {test} else {other})")

    def _call(self, text: str, *operands: Operand) -> Operand:
        word, fault = self._fresh(), self._fresh()
        self.lines.append(f"{word}, {fault} = {text}")
        null = either(*(operand.null for operand in operands))
        failed = either(*(operand.failed for operand in operands), both(fault, negation(null)))
        return Operand((word,), self.name(either(null, fault)), self.name(failed))

    def _arithmetic(self, expr: ex.Binary) -> Operand:
        expr = self._merge_divisions(expr)
        left, right = self.value(expr.left), self.value(expr.right)
        if expr.type is ex.Type.IP:
            return self._address_bits(expr.op, left, right)
        a, b = left.words[0], right.words[0]
        null, failed = self.name(either(left.null, right.null)), self.name(either(left.failed, right.failed))
        if expr.type is ex.Type.FLOAT:
            a, b = as_float(expr.left.type, a), as_float(expr.right.type, b)
            if expr.op in _FLOAT_FUNCTIONS:
                return self._call(f"{_FLOAT_FUNCTIONS[expr.op]}({a}, {b})", left, right)
            return self._call(f"finite({a} {expr.op} {b})", left, right)
        plain = plain_operation(expr.op, a, left, b, right)
        if plain is not None:
            text, least, most = plain
            return Operand((self.name(text),), null, failed, least, most)
        return self._call(checked_operation(expr.op, a, b), left, right)

    def _address_bits(self, op: str, left: Operand, right: Operand) -> Operand:
        """Combines the bits of two addresses of one IP version; two versions are a failure (V2)."""
        null = either(left.null, right.null)
        fault = self.name(both(f"({left.words[0]} != {right.words[0]})", negation(null)))
        bits = (self.name(f"{a} {op} {b}") for a, b in zip(left.words[1:], right.words[1:], strict=True))
        failed = self.name(either(left.failed, right.failed, fault))
        return Operand((left.words[0], *bits), self.name(either(null, fault)), failed)

    def _merge_divisions(self, expr: ex.Binary) -> ex.Binary:
        """Turns `x / a / b` into one division if x is not negative; minutes are two divisions of nanoseconds."""
        inner = expr.left
        if not (expr.op == "/" and expr.type is ex.Type.INT and isinstance(inner, ex.Binary) and inner.op == "/"):
            return expr
        divisors = [by.value for by in (inner.right, expr.right) if isinstance(by, ex.Const) and not by.param]
        numbers = [number for number in divisors if type(number) is int and number > 0]
        if len(numbers) < 2 or self.value(inner.left).least < 0 or numbers[0] * numbers[1] > MAX:
            return expr
        return ex.Binary(ex.Type.INT, "/", inner.left, ex.Const(ex.Type.INT, numbers[0] * numbers[1]))

    def _comparison(self, expr: ex.Binary) -> Operand:
        left, right = self.value(expr.left), self.value(expr.right)
        null = self.name(either(left.null, right.null))
        failed = self.name(either(left.failed, right.failed))
        if ex.Type.IP in (expr.left.type, expr.right.type):
            test = compare_addresses(expr.op, left.words, right.words)
        else:
            a, b = left.words[0], right.words[0]
            if ex.Type.FLOAT in (expr.left.type, expr.right.type):
                a, b = as_float(expr.left.type, a), as_float(expr.right.type, b)
            elif expr.left.type is ex.Type.BOOL:
                a, b = f"int({a})", f"int({b})"
            test = f"({a} {_PYTHON_OPERATORS.get(expr.op, expr.op)} {b})"
        return Operand((self.name(both(negation(null), test)),), null, failed)

    def _logical(self, expr: ex.Binary) -> Operand:
        left, right = self.value(expr.left), self.value(expr.right)
        (a,), (b,) = left.words, right.words
        failed = self.name(either(left.failed, right.failed))
        if expr.op == "OR":
            word = self.name(either(a, b))
            return Operand((word,), self.name(both(either(left.null, right.null), negation(word))), failed)
        # NULL unless a side is false. The word of a NULL is False, so "not false" means "true or NULL".
        null = either(both(left.null, either(b, right.null)), both(right.null, either(a, left.null)))
        return Operand((self.name(both(a, b)),), self.name(null), failed)
