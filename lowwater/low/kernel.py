"""The row loop of one LFTA on one link, as Python source that numba compiles or Python runs.

Between `low.codegen` (expressions) and `low.compiler` (loading). A loop gives every record an outcome; an aggregation
has a direct-mapped table and ejects the old group on a collision (000 section 4.4); a selection writes rows.
A row of words is: the mask of NULL keys with USED, the key words, and of an aggregation the mask of partials that have
seen a value, then the partial words.
"""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import dataclass

from lowwater.catalog.expr import Const, Expr, Type, Unary
from lowwater.errors import UnsupportedError
from lowwater.low import arith
from lowwater.low.codegen import FALSE, TRUE, Emitter, Value, both, compare_addresses, either, negation, of_link, width
from lowwater.plan.nodes import Lfta, Partial

UNREAD, NOT_OF_PROTOCOL, FILTERED, FAILED, ACCEPTED = range(5)
"""Outcomes of a record (SEMANTICS A1); UNREAD ones are violations or outside the read range."""

COLLISIONS, EJECTIONS, ALIVE = range(3)
"""Places of the counters that an aggregation keeps."""

USED = 1 << 62
_MOST = 60

_SELECTION = "begin, end, ok, at, period, outcome, out, ticks, size, stamps, lasts"
_AGGREGATION = "begin, end, ok, at, period, outcome, out, ticks, size, table, counters"


@dataclass(frozen=True)
class Slot:
    """Where an output column lies: word `at` of a row and the bit of its mask, or, at 0, `constant` for a text."""

    type: Type
    at: int
    bit: int
    mask: int = 0
    constant: str | None = None


@dataclass(frozen=True)
class Program:
    """A generated kernel.

    Attributes:
        body: source of the function `kernel`, without the arithmetic.
        columns: as of the Emitter, in the order of its trailing parameters (values, then validity, of each).
        width: words of a row.
        slots: of the output columns.
        aggregates: whether it keeps a table.
        hosted: the values that are computed beside it.
    """

    body: str
    columns: tuple[str, ...]
    width: int
    slots: tuple[Slot, ...]
    aggregates: bool
    hosted: tuple[Expr, ...] = ()


def generate(lfta: Lfta, link: str) -> Program:
    """Generates the kernel of an LFTA for one link (000 section 4.1: compiled low-level queries).

    Raises:
        UnsupportedError: for min or max of texts, or for more than 60 keys or partials.
    """
    emit = Emitter()
    _outcomes(emit, lfta, link)
    slots, words, size = _keys(emit, lfta, link)
    if lfta.aggregates:
        extra, size = _partials(emit, lfta, link, words)
        slots += extra
    else:
        emit.lines += [f"out[size, {at}] = {word}" for at, word in enumerate(words)]
        emit.lines += ["ticks[size] = (at[i] // period + 1) * period", "lasts[size] = stamps[i]", "size += 1"]
    parameters = "".join(f", c{at}, m{at}" for at in range(len(emit.columns)))
    shared = _AGGREGATION if lfta.aggregates else _SELECTION
    head = [f"def kernel({shared}{parameters}):", "    for i in range(begin, end):"]
    body = [*head, *(f"        {line}" for line in emit.lines), "    return size", ""]
    return Program("\n".join(body), tuple(emit.columns), size, tuple(slots), lfta.aggregates, tuple(emit.hosted))


def source(program: Program, compiled: bool) -> str:
    """The whole module: the arithmetic of V2, then the kernel, decorated for numba or left as plain Python."""
    options = 'error_model="numpy", nogil=True'
    helper, entry = (f"@njit({options})\n", f"@njit(cache=True, {options})\n") if compiled else ("", "")
    head = "from __future__ import annotations\nimport math\nimport numpy as np\n"
    head += "from numba import njit\n" if compiled else ""
    head += f"MIN = {arith.MIN}\nMAX = {arith.MAX}\n"
    functions = [inspect.getsource(member) for _, member in inspect.getmembers(arith, inspect.isfunction)]
    return head + "".join(f"\n\n{helper}{text}" for text in functions) + f"\n\n{entry}{program.body}"


def _outcomes(emit: Emitter, lfta: Lfta, link: str) -> None:
    emit.lines += ["if not ok[i]:", "    continue"]
    if lfta.member is not None:
        member = emit.value(of_link(lfta.member, link))
        emit.lines += [f"if not {member.words[0]}:", f"    outcome[i] = {NOT_OF_PROTOCOL}", "    continue"]
    if lfta.predicate is not None:
        kept = emit.value(of_link(lfta.predicate, link))
        outcome = f"{FAILED} if {kept.failed} else {FILTERED}"
        emit.lines += [f"if not {kept.words[0]}:", f"    outcome[i] = {outcome}", "    continue"]
    emit.lines += [f"outcome[i] = {ACCEPTED}"]


def _keys(emit: Emitter, lfta: Lfta, link: str) -> tuple[list[Slot], list[str], int]:
    """Emits the words of the keys; NULL keys have zero words, so that equal keys have equal words (V1)."""
    slots, words, nulls = [], ["w0"], []
    for bit, item in enumerate(lfta.keys):
        expr = of_link(item.expr, link)
        if expr.type is Type.STRING and isinstance(expr, Const):
            slots.append(_constant_slot(expr))
            continue
        value = emit.value(expr)
        slots.append(Slot(expr.type, len(words), bit))
        for word in value.words:
            emit.lines.append(f"w{len(words)} = {_stored(expr.type, word, value.null)}")
            words.append(f"w{len(words)}")
        nulls.append((bit, value.null))
    if len(lfta.keys) > _MOST or len(lfta.partials) > _MOST:
        raise UnsupportedError(f"more than {_MOST} columns in '{lfta.name}'", "split the query")
    emit.lines.append(f"w0 = {USED}" + "".join(_flag(bit, null) for bit, null in nulls if null != FALSE))
    return slots, words, len(words)


def _flag(bit: int, test: str) -> str:
    return f" | {1 << bit}" if test == TRUE else f" | ({1 << bit} if {test} else 0)"


def _stored(type_: Type, word: str, null: str) -> str:
    word = {Type.FLOAT: f"bits({word})", Type.BOOL: f"int({word})"}.get(type_, word)
    if null == FALSE:
        return word
    return "0" if null == TRUE else f"0 if {null} else {word}"


def _constant_slot(expr: Const) -> Slot:
    return Slot(Type.STRING, 0, 0, constant=None if expr.value is None else str(expr.value))


@dataclass(frozen=True)
class _Cell:
    """A partial in the table: its slot, its argument, and the words of the latter."""

    partial: Partial
    slot: Slot
    value: Value

    @property
    def nullable(self) -> bool:
        return self.value.null != FALSE


def _partials(emit: Emitter, lfta: Lfta, link: str, words: list[str]) -> tuple[list[Slot], int]:
    seen = len(words)
    size = seen + 1
    slots: list[Slot] = []
    cells: list[_Cell] = []
    for bit, partial in enumerate(lfta.partials):
        if partial.function == "count":
            cell = _Cell(partial, Slot(Type.INT, size, bit, seen), Value((_counted(emit, partial, link),)))
        else:
            assert partial.argument is not None
            expr = of_link(partial.argument, link)
            if expr.type is Type.STRING:
                if not isinstance(expr, Const):
                    raise UnsupportedError(f"{partial.function} of texts in the low level", "count them")
                slots.append(_constant_slot(expr))
                continue
            value = emit.value(expr)
            if partial.type is Type.FLOAT and expr.type is not Type.FLOAT:
                value = Value((emit.name(f"float({value.words[0]})"),), value.null)
            if partial.type is Type.BOOL:
                value = Value((emit.name(f"int({value.words[0]})"),), value.null)
            cell = _Cell(partial, Slot(partial.type, size, bit, seen), value)
        cells.append(cell)
        slots.append(cell.slot)
        size += width(cell.slot.type)
    _probe(emit, words, cells)
    emit.lines.append("if same:")
    emit.lines += _indented([line for cell in cells for line in _update(cell)] or ["pass"])
    emit.lines.append("else:")
    emit.lines += _indented(_start(words, seen, cells))
    return slots, size


def _counted(emit: Emitter, partial: Partial, link: str) -> str:
    """What one record adds to a count: 1, or with an argument only where that is not NULL."""
    if partial.argument is None:
        return "1"
    expr = of_link(partial.argument, link)
    if isinstance(expr, Const):
        return "0" if expr.value is None else "1"
    if expr.type is Type.STRING:
        # Asked as a test, so that the texts themselves are not numbered.
        return emit.name(f"0 if {emit.value(Unary(Type.BOOL, 'IS NULL', expr)).words[0]} else 1")
    null = emit.value(expr).null
    return emit.name(f"0 if {null} else 1")


def _probe(emit: Emitter, words: list[str], cells: list[_Cell]) -> None:
    """Emits the look-up: afterwards `same` says whether the slot s holds the group and can take the record."""
    mixed = (f"mix({word}, {_factor(2 * at)}, {_factor(2 * at + 1)})" for at, word in enumerate(words))
    emit.lines.append(f"s = fold({' ^ '.join(mixed)}) & (table.shape[0] - 1)")
    emit.lines.append("same = " + " and ".join(f"table[s, {at}] == {word}" for at, word in enumerate(words)))
    emit.lines += ["full = False"]
    sums = [cell for cell in cells if cell.partial.function == "sum" and cell.slot.type is Type.INT]
    for cell in sums:
        # A partial sum that would leave 64 bits leaves the table instead, so that no sum is ever wrapped (O3).
        grown = f"add(int(table[s, {cell.slot.at}]), {cell.value.words[0]})[1]"
        emit.lines.append(f"full = full or {both('same', negation(cell.value.null), grown)}")
    emit.lines += [
        "if full or (not same and table[s, 0] != 0):",
        "    for k in range(table.shape[1]):",
        "        out[size, k] = table[s, k]",
        "    ticks[size] = (at[i] // period + 1) * period",
        "    size += 1",
        f"    counters[{EJECTIONS}] += 1",
        "    if not full:",
        f"        counters[{COLLISIONS}] += 1",
        f"    counters[{ALIVE}] -= 1",
        "same = same and not full",
    ]


def _factor(at: int) -> int:
    """An odd 31-bit number, another one for each place of a key."""
    return int.from_bytes(hashlib.sha256(b"lowwater %d" % at).digest()[:4], "big") >> 2 << 1 | 1


def _update(cell: _Cell) -> list[str]:
    place = f"table[s, {cell.slot.at}]"
    (word, *_), function, type_ = cell.value.words, cell.partial.function, cell.slot.type
    if function == "count":
        return [f"{place} += {word}"]
    if function == "sum":
        change = [f"{place} += {word}"] if type_ is Type.INT else [f"{place} = bits(real({place}) + {word})"]
        better = TRUE
    elif function in _BITS:
        return _bits(cell)
    else:
        change, better = _write(cell), _better(cell)
    seen = f"table[s, {cell.slot.mask}]"
    if not cell.nullable:
        return [f"if {better}:", *_indented(change)] if better != TRUE else change
    if better != TRUE:
        better = either(f"({seen} & {1 << cell.slot.bit}) == 0", better)
    change = [*change, f"{seen} |= {1 << cell.slot.bit}"]
    return [f"if {both(negation(cell.value.null), better)}:", *_indented(change)]


_BITS = {"and_aggr": "&", "or_aggr": "|", "xor_aggr": "^"}


def _bits(cell: _Cell) -> list[str]:
    place, seen, bit = f"table[s, {cell.slot.at}]", f"table[s, {cell.slot.mask}]", 1 << cell.slot.bit
    word = f"int({cell.value.words[0]})"
    joined = f"{place} {_BITS[cell.partial.function]} {word}"
    if not cell.nullable:
        return [f"{place} = {joined}"]
    change = [f"{place} = {joined} if {seen} & {bit} != 0 else {word}", f"{seen} |= {bit}"]
    return [f"if {negation(cell.value.null)}:", *_indented(change)]


def _better(cell: _Cell) -> str:
    op = "<" if cell.partial.function == "min" else ">"
    places = tuple(f"int(table[s, {cell.slot.at + k}])" for k in range(len(cell.value.words)))
    if cell.slot.type is Type.IP:
        return compare_addresses(op, cell.value.words, places)
    old = f"real({places[0]})" if cell.slot.type is Type.FLOAT else places[0]
    return f"({cell.value.words[0]} {op} {old})"


def _write(cell: _Cell) -> list[str]:
    words = [f"bits({word})" if cell.slot.type is Type.FLOAT else word for word in cell.value.words]
    return [f"table[s, {cell.slot.at + k}] = {word}" for k, word in enumerate(words)]


def _start(words: list[str], seen: int, cells: list[_Cell]) -> list[str]:
    flags = "".join(_flag(cell.slot.bit, negation(cell.value.null)) for cell in cells if cell.value.null != TRUE)
    lines = [f"table[s, {at}] = {word}" for at, word in enumerate(words)]
    lines.append(f"table[s, {seen}] = 0{flags}")
    for cell in cells:
        for line in _write(cell):
            target, word = line.split(" = ", 1)
            lines.append(line if not cell.nullable else f"{target} = 0 if {cell.value.null} else {word}")
    return [*lines, f"counters[{ALIVE}] += 1"]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
