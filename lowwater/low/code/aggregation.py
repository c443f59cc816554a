"""Generates the code of a group table: look-up, update of the partial aggregates, eviction (000 section 4.4).

Between `low.code.expressions` (expressions) and `low.code.kernel` (the loop). On a collision, the functions of
`low.code.aggregation` evict a group. A row of the table holds the key words of `low.code.aggregation` and the partial
aggregates. A mask precedes nullable partial aggregates: its bits tell the partial aggregates that have seen a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from lowwater.catalog import expr as ex, schemas
from lowwater.catalog.functions import Fold
from lowwater.errors import UnsupportedError
from lowwater.low.code.expressions import (
    FALSE,
    TRUE,
    Emitter,
    Operand,
    both,
    compare_addresses,
    either,
    indented,
    negation,
    of_link,
)
from lowwater.low.code.row_buffers import OutputColumn
from lowwater.low.settings import LowSettings
from lowwater.plan.operators import MOST_COLUMNS, Field, Lfta, Partial

# Layout of a group's row. Two values of 32 bits share a word, so that a five-tuple fits into a cache line.


@dataclass(frozen=True)
class WordPlace:
    """The place of a value in a row: word `at`, or a half of it (`low_half`, `high_half`)."""

    at: int
    half: str = ""

    def read(self, slot: str = "s") -> str:
        """Returns the code that reads the value from the table."""
        text = f"int(table[{slot}, {self.at}])"
        return f"{self.half}({text})" if self.half else text


class KeyLayout:
    """Lays out the key words of a table.

    The mask of NULL keys comes first, so that the first word of a used slot is not 0.

    Args:
        keys: the number of keys.

    Attributes:
        used: the bit of the mask that every used slot has.
        half: the half of the first word that holds the mask; empty for the entire word.
    """

    def __init__(self, keys: int) -> None:
        narrow = keys <= 30
        self.used = 1 << (30 if narrow else 62)
        self.half = "low_half" if narrow else ""
        self._flags: list[str] = []
        self._words: list[list[str]] = []
        self._open: int | None = None
        self._add("", narrow)

    def add(self, text: str, narrow: bool) -> WordPlace:
        """Returns a place for the value of some code; a narrow value is signed with 32 bits."""
        return self._add(text, narrow)

    def null(self, bit: int, test: str) -> None:
        """Adds the test whether key number `bit` is NULL."""
        if test != FALSE:
            self._flags.append(f"{1 << bit}" if test == TRUE else f"({1 << bit} if {test} else 0)")

    def words(self) -> list[str]:
        """Returns the code of every word of a record's key."""
        mask = " | ".join([str(self.used), *self._flags])
        words = []
        for parts in self._words:
            texts = [text or f"({mask})" for text in parts]
            words.append(f"halves({texts[0]}, {texts[1]})" if len(texts) == 2 else texts[0])
        return words

    def _add(self, text: str, narrow: bool) -> WordPlace:
        if not narrow:
            self._words.append([text])
            return WordPlace(len(self._words) - 1)
        if self._open is None:
            # The upper half is 0 until a second narrow value comes.
            self._words.append([text, "0"])
            self._open = len(self._words) - 1
            return WordPlace(self._open, "low_half")
        at, self._open = self._open, None
        self._words[at][1] = text
        return WordPlace(at, "high_half")


def hash_of(words: list[str]) -> str:
    """Returns the code of the hash of a group."""
    mixed = (f"mix({word}, {_factor(2 * at)}, {_factor(2 * at + 1)})" for at, word in enumerate(words))
    return f"fold({' ^ '.join(mixed)})"


def _factor(at: int) -> int:
    """Returns an odd 31-bit number, a different one for each position of a key."""
    return int.from_bytes(hashlib.sha256(b"lowwater %d" % at).digest()[:4], "big") >> 2 << 1 | 1


# Groups that leave the table: at a collision, in steps, or at a promise (002, section 6). `leave` turns a group into a
# row, `release` evicts groups of closed epochs, and `survey` counts these groups and finds the oldest one. `filled` of
# `low.code.compiler` gives them the slots to visit.

FROM, SIZE, COLLISIONS, EJECTIONS, ALIVE, OLD, OLDEST, SINCE, EVERY, POSITION, ALL, TICKETS, TAKEN, BOUNDS = range(14)
"""Positions in a node's state. From BOUNDS on, for each temporal key: the bound of closed epochs, the bound of the
oldest epoch, and the earliest value in the table."""

FunctionText = tuple[str, list[str], bool]
"""Name, lines, and whether it is called from outside of generated code."""


@dataclass(frozen=True)
class Epoch:
    """A temporal key.

    Attributes:
        column: the number of its output column.
    """

    column: int
    place: WordPlace
    increasing: bool

    @property
    def before(self) -> str:
        return "<" if self.increasing else ">"


def eviction_functions(number: int, epochs: Sequence[Epoch], writes: list[str], rows: str) -> list[FunctionText]:
    """Returns the functions of one node.

    Args:
        writes: the statements that write the group in slot s as row `size`.
        rows: the parameters that hold rows, after a comma.
    """
    return [
        _precedes(number, epochs),
        _leave(number, len(epochs), writes, rows),
        _release(number, rows),
        _survey(number, epochs),
    ]


def _precedes(k: int, epochs: Sequence[Epoch]) -> FunctionText:
    """The test whether a group precedes the bounds at a position: any of its temporal keys does."""
    tests = [f"{e.place.read()} {e.before} state[at + {BOUNDS + j}]" for j, e in enumerate(epochs)]
    text = " or ".join([f"state[{ALL}] != 0", *tests])
    return f"precedes{k}", [f"def precedes{k}(table, s, state, at):", f"    return {text}"], False


def _leave(k: int, count: int, writes: list[str], rows: str) -> FunctionText:
    """The function that turns a group into row `size`."""
    lines = [*writes, f"k{k}[size] = tick"]
    lines += [f"if state[{OLD}] > 0 and precedes{k}(table, s, state, 0):", f"    state[{OLD}] -= 1"]
    lines += [f"if state[{OLDEST}] > 0 and precedes{k}(table, s, state, {count}):", f"    state[{OLDEST}] -= 1"]
    lines += ["table[s, 0] = 0", f"state[{ALIVE}] -= 1", "return size + 1"]
    return f"leave{k}", [f"def leave{k}(table, s, state, tick, size{rows}):", *indented(lines)], False


def _release(k: int, rows: str) -> FunctionText:
    """The function that evicts at most `most` groups of closed epochs, from where the last call ended."""
    text = f"""def release{k}(table, state, most, tick, size{rows}):
    first, slots = state[{POSITION}], table.shape[0]
    for lap in range(2):
        for s in filled(table, 0 if lap else first, first if lap else slots):
            if most <= 0 or state[{OLD}] <= 0:
                return size
            if table[s, 0] != 0 and precedes{k}(table, s, state, 0):
                size = leave{k}(table, s, state, tick, size{rows})
                most -= 1
                state[{POSITION}] = (s + 1) & (slots - 1)
    return size"""
    return f"release{k}", text.split("\n"), True


def _survey(k: int, epochs: Sequence[Epoch]) -> FunctionText:
    """The function that counts groups of closed epochs and of the oldest epoch, and finds the earliest values."""
    count = len(epochs)
    lines = [f"def survey{k}(table, state):", f"    first, old, oldest, left = True, 0, 0, state[{ALIVE}]"]
    loop = ["if table[s, 0] == 0:", "    continue"]
    for j, epoch in enumerate(epochs):
        earliest = f"state[{BOUNDS + 2 * count + j}]"
        loop += [f"v = {epoch.place.read()}", f"if first or v {epoch.before} {earliest}:", f"    {earliest} = v"]
        # With one temporal key the oldest epoch has its earliest value, so one pass counts it.
        loop += ["    oldest = 1", f"elif v == {earliest}:", "    oldest += 1"] if count == 1 else []
    loop += ["first = False", f"if precedes{k}(table, s, state, 0):", "    old += 1"]
    loop += [f"if precedes{k}(table, s, state, {count}):", "    oldest += 1"] if count != 1 else []
    loop += ["left -= 1", "if left == 0:", "    break"]
    lines += ["    for s in filled(table, 0, table.shape[0]):", *indented(indented(loop))]
    lines += [f"    state[{OLD}] = old", f"    state[{OLDEST}] = oldest", "    return old"]
    return f"survey{k}", lines, True


# The key of a group

ColumnRead = tuple[int, list[str], str]
"""Number of an output column, the code of its words in slot s, and the code of its NULL test."""


@dataclass
class GroupKey:
    """The key of one LFTA, as code.

    Attributes:
        before: the statements before a block of records.
        lines: the statements that compute the words of record i.
        reads: how each output column is read from the table.
    """

    words: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    outputs: list[OutputColumn] = field(default_factory=list)
    reads: list[ColumnRead] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)

    def add(self, column: Field, type_: ex.Type, places: list[WordPlace], half: str | None) -> None:
        """Adds an output column.

        Args:
            places: the words of the slot that hold a value, first to last.
            half: the half of the first word that holds the mask of NULL keys; None for a column without NULL.
        """
        bit = len(self.outputs)
        if column.temporal is not None and not column.temporal.origin:
            self.epochs.append(Epoch(bit, places[0], column.temporal.increasing))
        null = FALSE if half is None else f"({WordPlace(0, half).read()} & {1 << bit} != 0)"
        self.reads.append((bit, [read_as(type_, place.read()) for place in places], null))
        self.outputs.append(OutputColumn(type_, half is not None))


def key_code(emit: Emitter, lfta: Lfta, link: str) -> GroupKey:
    """Generates the code of the key, with a fast branch for records without NULL."""
    exprs = [of_link(item.expr, link) for item in lfta.keys]
    keys = GroupKey()
    texts = _word_code(emit, exprs, lfta, keys)
    keys.words = [f"w{at}" for at in range(len(texts))]
    general = emit.take_lines() + _assignments(keys.words, texts)
    # The columns of a host value already say where it is NULL.
    keys.before, test = ([], TRUE) if emit.hosted else emit.test_not_null(schemas.stored(ex.columns_of(*exprs)))
    if test == TRUE:
        keys.lines = general
    else:
        non_null = emit.without_nulls()
        texts = _word_code(non_null, exprs, lfta, None)
        plain = non_null.take_lines() + _assignments(keys.words, texts)
        keys.lines = [f"if {test}:", *indented(plain), "else:", *indented(general)]
    return keys


def _word_code(emit: Emitter, exprs: list[ex.Expr], lfta: Lfta, keys: GroupKey | None) -> list[str]:
    """Returns the code of the words, and adds the columns to `keys` unless it is None."""
    layout = KeyLayout(len(exprs))
    for bit, expr in enumerate(exprs):
        if expr.type is ex.Type.STRING and isinstance(expr, ex.Const):
            if keys is not None:
                keys.outputs.append(OutputColumn.fixed(expr))
            continue
        value = emit.value(expr)
        layout.null(bit, value.null)
        places = [layout.add(text, narrow) for text, narrow in key_words(expr.type, value)]
        if keys is not None:
            keys.add(lfta.fields[bit], expr.type, places, None if value.null == FALSE else layout.half)
    return layout.words()


def _assignments(words: list[str], texts: list[str]) -> list[str]:
    return [f"{word} = {text}" for word, text in zip(words, texts, strict=True)]


def read_as(type_: ex.Type, place: str) -> str:
    """Returns the code that turns a word of the table into a value of a column."""
    return f"real({place})" if type_ is ex.Type.FLOAT else place


def key_words(type_: ex.Type, value: Operand) -> list[tuple[str, bool]]:
    """Returns the words of a key, and whether each is narrow.

    The words of a NULL key are 0, so that equal keys have equal words (V1).
    """
    if type_ is ex.Type.IP:
        return [(_stored(type_, word, value.null), at == 0) for at, word in enumerate(value.words)]
    narrow = type_ in (ex.Type.BOOL, ex.Type.STRING) or (type_ is ex.Type.INT and value.narrow)
    return [(_stored(type_, value.words[0], value.null), narrow)]


def _stored(type_: ex.Type, word: str, null: str) -> str:
    word = {ex.Type.FLOAT: f"bits({word})", ex.Type.BOOL: f"int({word})"}.get(type_, word)
    if null == FALSE:
        return word
    return "0" if null == TRUE else f"(0 if {null} else {word})"


BLOCK = 128
"""Number of records in a block. The groups of a block are queued, then looked up together."""

_EVICTION_TABLE = "table"
"""The group table in the functions of `low.code.aggregation`: the name of their parameter."""
_TICK = "tick_after(a, period)"


def taken_name(number: int, at: int) -> str:
    """Returns the part of an array name for an argument column of the user-defined sub-aggregates.

    Args:
        at: the position of the column; 0 is the ticket.
    """
    return f"{number}_u{at}"


@dataclass(frozen=True)
class _Cell:
    """A partial aggregate in a row of the table.

    Attributes:
        fold: the merge of two values; None for a count.
        at: the position of its first word in the row.
        bit: the position of its bit in the mask.
    """

    partial: Partial
    fold: Fold | None
    at: int
    bit: int
    value: Operand

    @property
    def nullable(self) -> bool:
        return self.value.null != FALSE

    def place(self, table: str) -> str:
        """Returns the code of its first word in the slot `s` of a table."""
        return f"{table}[s, {self.at}]"

    def places(self, table: str) -> list[str]:
        """Returns the code of all its words in the slot `s` of a table, as integers."""
        return [f"int({table}[s, {self.at + k}])" for k in range(len(self.value.words))]


@dataclass
class Grouping:
    """The code of the group table of one LFTA.

    Args:
        emit: the emitter of the node, after its predicate.

    Attributes:
        before: the statements before a block of records.
        lines: the statements that queue the key of an accepted record.
        drain: two loops over the queue. The first loop loads all slots into the cache in parallel, so that the second
            loop does not wait for memory.
        taken: the columns that a record adds for user-defined sub-aggregates: the ticket of its group, then arguments.
        width: the number of words of a table row.
        key: the number of words of a key.
    """

    emit: Emitter
    lfta: Lfta
    link: str
    number: int
    settings: LowSettings
    outputs: list[OutputColumn] = field(default_factory=list)
    taken: list[OutputColumn] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    width: int = 0
    key: int = 0
    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    drain: list[str] = field(default_factory=list)
    _reads: list[tuple[int, list[str], str]] = field(default_factory=list)
    _seen: int = 0
    _ticket: int = 0
    _takes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert max(len(self.lfta.keys), len(self.lfta.partials)) <= MOST_COLUMNS, self.lfta.name
        keys = key_code(self.emit, self.lfta, self.link)
        words, self.key = keys.words, len(keys.words)
        self.outputs, self.epochs, self._reads = keys.outputs, keys.epochs, keys.reads
        self.before = [f"queued{self.number} = 0", *keys.before]
        self.lines = [*keys.lines, *self._queue(words)]
        self.emit = self.emit.second_loop()
        cells = self._cells(words)
        body = self._dequeue(words) + self.emit.take_lines() + self._probe(words, cells)
        body += ["if same:", *indented([line for cell in cells for line in self._update(cell)] or ["pass"])]
        body += ["else:", *indented(self._start(words, cells)), *self._takes]
        if self.settings.flush.steps:
            body += self._step()
        # The first and the last word, because a row may be longer than a cache line.
        ends = (f"{self._table}[q{self.number}[j, {self.key}], {at}]" for at in (0, self.width - 1))
        touch = f"touched ^= {' ^ '.join(ends)}"
        loop = f"for j in range(queued{self.number}):"
        self.drain = [loop, f"    {touch}", loop, *indented(body)]

    @property
    def _table(self) -> str:
        """The group table in the loop: the parameter of the kernel.

        The code assigns no second name to the array: numba would count a reference to the array in every iteration.
        """
        return f"t{self.number}"

    @property
    def parameters(self) -> list[str]:
        """The names of the arrays that hold its rows, without the ticks."""
        return [name for at, output in enumerate(self.outputs) for name in output.parameters(f"{self.number}_{at}")]

    def _queue(self, words: list[str]) -> list[str]:
        k = self.number
        lines = [f"s = {hash_of(words)} & ({self._table}.shape[0] - 1)"]
        lines += [f"q{k}[queued{k}, {at}] = {value}" for at, value in enumerate([*words, "s", "i"])]
        return [*lines, f"queued{k} += 1"]

    def _dequeue(self, words: list[str]) -> list[str]:
        k = self.number
        names = [*words, "s", "i"]
        lines = [f"{name} = int(q{k}[j, {at}])" for at, name in enumerate(names)]
        return [*lines, "a = int(at[i])", "t = int(ts[i])"]

    def _cells(self, words: list[str]) -> list[_Cell]:
        arguments = [None if partial.udaf is not None else self._argument(partial) for partial in self.lfta.partials]
        self._seen = len(words)
        masked = any(isinstance(argument, Operand) and argument.null != FALSE for argument in arguments)
        self._ticket = self._seen + masked
        at = self._ticket + (None in arguments)
        cells: list[_Cell] = []
        for bit, (partial, argument) in enumerate(zip(self.lfta.partials, arguments, strict=True)):
            if argument is None:
                self._reads.append((len(self.outputs), [f"int({_EVICTION_TABLE}[s, {self._ticket}])"], FALSE))
                self.outputs.append(OutputColumn(ex.Type.INT))
                continue
            if isinstance(argument, ex.Const):
                self.outputs.append(OutputColumn.fixed(argument))
                continue
            cell = _Cell(partial, partial.native.fold if partial.native is not None else None, at, bit, argument)
            cells.append(cell)
            at += len(argument.words)
            null = f"int({_EVICTION_TABLE}[s, {self._seen}]) & {1 << bit} == 0" if cell.nullable else FALSE
            words_read = [read_as(partial.type, place) for place in cell.places(_EVICTION_TABLE)]
            self._reads.append((len(self.outputs), words_read, null))
            self.outputs.append(OutputColumn(partial.type, cell.nullable))
        self.width = at
        if None in arguments:
            self._takes = self._take()
        return cells

    def _take(self) -> list[str]:
        """Returns the statements that queue the arguments of user-defined sub-aggregates."""
        k = self.number
        ticket = f"int({self._table}[s, {self._ticket}])"
        columns: list[tuple[OutputColumn, tuple[str, ...], str]] = [(OutputColumn(ex.Type.INT), (ticket,), FALSE)]
        for partial in self.lfta.partials:
            if partial.udaf is None or partial.argument is None:
                continue
            expr = of_link(partial.argument, self.link)
            if expr.type is ex.Type.STRING and isinstance(expr, ex.Const):
                columns.append((OutputColumn.fixed(expr), (), FALSE))
                continue
            value = self.emit.value(expr)
            words = (f"int({value.words[0]})",) if expr.type is ex.Type.BOOL else tuple(value.words)
            columns.append((OutputColumn(expr.type, value.null != FALSE), words, value.null))
        self.taken = [output for output, _, _ in columns]
        lines = [f"taken = int(s{k}[{TAKEN}])", f"s{k}[{TAKEN}] += 1"]
        for at, (output, words, null) in enumerate(columns):
            lines += output.lines(taken_name(k, at), words, null, "taken") if output.written else []
        return lines

    def _argument(self, partial: Partial) -> Operand | ex.Const:
        """Returns the argument of a partial aggregate; the constant itself for a constant string.

        Raises:
            UnsupportedError: the low level does not compute the aggregate.
        """
        native = partial.native
        if native is not None and native.fold is None:
            return Operand((self._counted(partial),))
        if partial.argument is None or native is None or native.parts is not None:
            raise UnsupportedError(f"the aggregate {partial.function} in the low level", "select the rows instead")
        expr = of_link(partial.argument, self.link)
        if expr.type is ex.Type.STRING:
            if not isinstance(expr, ex.Const):
                raise UnsupportedError(f"{partial.function} of texts in the low level", "count them")
            return expr
        value = self.emit.value(expr)
        if partial.type is ex.Type.FLOAT and expr.type is not ex.Type.FLOAT:
            return Operand((self.emit.name(f"float({value.words[0]})"),), value.null)
        if partial.type is ex.Type.BOOL:
            return Operand((self.emit.name(f"int({value.words[0]})"),), value.null)
        return value

    def _counted(self, partial: Partial) -> str:
        """Returns the code of the increment of a count: 1, or 0 if the argument is NULL."""
        if partial.argument is None:
            return "1"
        expr = of_link(partial.argument, self.link)
        if isinstance(expr, ex.Const):
            return "0" if expr.value is None else "1"
        if expr.type is ex.Type.STRING:
            # A test for NULL, because the value itself would number every string.
            return self.emit.name(f"0 if {self.emit.value(ex.Unary(ex.Type.BOOL, 'IS NULL', expr)).words[0]} else 1")
        null = self.emit.value(expr).null
        return "1" if null == FALSE else self.emit.name(f"0 if {null} else 1")

    def _probe(self, words: list[str], cells: list[_Cell]) -> list[str]:
        """Returns the look-up. It sets `same`: whether the slot `s` holds the group and can add the record."""
        k, table = self.number, self._table
        lines = [f"same = {_holds(table, 's', words)}"]
        if self.settings.adjacent:
            # The neighbour replaces slot `s` if it holds the group. It also does if `s` is occupied, and the neighbour
            # is free or, unlike `s`, of a closed epoch.
            older = f"precedes{k}({table}, z, s{k}, 0) and not precedes{k}({table}, s, s{k}, 0)"
            better = f"{table}[z, 0] == 0 or ({older})"
            inner = [f"z = (s + 1) & ({table}.shape[0] - 1)", f"same = {_holds(table, 'z', words)}"]
            inner += [f"if same or ({table}[s, 0] != 0 and ({better})):", "    s = z"]
            lines += ["if not same:", *indented(inner)]
        lines += ["full = False"]
        for cell in cells:
            if cell.fold is not None and cell.fold.sums and cell.partial.type is ex.Type.INT:
                # The group leaves the table before a partial sum exceeds 64 bits, so that no sum wraps around (O3).
                overflows = f"add({cell.places(table)[0]}, {cell.value.words[0]})[1]"
                lines.append(f"full = full or same and {overflows} and {negation(cell.value.null)}")
        leave = [f"s{k}[{EJECTIONS}] += 1", f"if not full:\n    s{k}[{COLLISIONS}] += 1"]
        if self.settings.flush.ordered:
            # Groups of closed epochs leave before a group of an open epoch (002, Figure 7).
            test = f"not full and s{k}[{OLD}] > 0 and not precedes{k}({table}, s, s{k}, 0)"
            leave += [
                f"if {test}:",
                f"    size{k} = release{k}({table}, s{k}, s{k}[{OLD}], {_TICK}, size{k}{self._rows})",
            ]
        leave += [f"size{k} = leave{k}({table}, s, s{k}, {_TICK}, size{k}{self._rows})"]
        leave = [part for line in leave for part in line.split("\n")]
        return [*lines, f"if full or (not same and {table}[s, 0] != 0):", *indented(leave), "same = same and not full"]

    @property
    def _rows(self) -> str:
        return "".join(f", {name}" for name in (f"k{self.number}", *self.parameters))

    def _update(self, cell: _Cell) -> list[str]:
        fold, better = cell.fold, TRUE
        if fold is None:
            return [f"{cell.place(self._table)} += {cell.value.words[0]}"]
        if fold.picks:
            change, better = _write(self._table, cell), _better(self._table, cell, fold)
        else:
            change = self._folded(cell, fold)
        if not cell.nullable:
            return [f"if {better}:", *indented(change)] if better != TRUE else change
        seen, bit = f"{self._table}[s, {self._seen}]", 1 << cell.bit
        if better != TRUE:
            better = either(f"({seen} & {bit}) == 0", better)
        change = [*change, f"{seen} |= {bit}"]
        return [f"if {both(negation(cell.value.null), better)}:", *indented(change)]

    def _folded(self, cell: _Cell, fold: Fold) -> list[str]:
        word, place = cell.value.words[0], cell.place(self._table)
        if cell.partial.type is ex.Type.FLOAT:
            return [f"{place} = bits(real({place}) {fold.sign} {word})"]
        if not cell.nullable or fold.neutral == 0:
            return [f"{place} {fold.sign}= {word}"]
        # A partial aggregate without a value holds 0, and 0 is not neutral for this fold.
        seen = f"{self._table}[s, {self._seen}] & {1 << cell.bit}"
        return [f"{place} = {place} {fold.sign} {word} if {seen} else {word}"]

    def _start(self, words: list[str], cells: list[_Cell]) -> list[str]:
        k, table = self.number, self._table
        lines = [f"{table}[s, {at}] = {word}" for at, word in enumerate(words)]
        nullable = [cell for cell in cells if cell.nullable]
        if nullable:
            flags = (f"({1 << cell.bit} if {negation(cell.value.null)} else 0)" for cell in nullable)
            lines.append(f"{table}[s, {self._seen}] = {' | '.join(flags)}")
        for cell in cells:
            for line in _write(table, cell):
                target, word = line.split(" = ", 1)
                lines.append(line if not cell.nullable else f"{target} = 0 if {cell.value.null} else {word}")
        # The next survey must find a new group of the oldest or an older epoch.
        fresh = [
            f"if s{k}[{OLDEST}] > 0 and precedes{k}({table}, s, s{k}, {len(self.epochs)}):",
            f"    s{k}[{OLDEST}] = 0",
        ]
        ticket = [f"s{k}[{TICKETS}] += 1", f"{table}[s, {self._ticket}] = s{k}[{TICKETS}]"] if self.taken else []
        return [*lines, *ticket, f"s{k}[{ALIVE}] += 1", *(fresh if self.epochs else [])]

    def _step(self) -> list[str]:
        """Returns the statements that evict one old group every `EVERY` records (002, section 6)."""
        k = self.number
        call = f"size{k} = release{k}({self._table}, s{k}, 1, {_TICK}, size{k}{self._rows})"
        inner = [f"s{k}[{SINCE}] += 1", f"if s{k}[{SINCE}] >= s{k}[{EVERY}]:", f"    s{k}[{SINCE}] = 0", f"    {call}"]
        return [f"if s{k}[{OLD}] > 0:", *indented(inner)]

    def functions(self) -> list[tuple[str, list[str], bool]]:
        """Returns the functions of the eviction: (name, lines, whether code outside the kernel calls it)."""
        return eviction_functions(self.number, self.epochs, self._row_lines(), self._rows)

    def _row_lines(self) -> list[str]:
        """Returns the statements that write the group of the slot `s` as a row."""
        parts = ((self.outputs[at], f"{self.number}_{at}", words, null) for at, words, null in self._reads)
        return [line for output, name, words, null in parts for line in output.lines(name, words, null)]


def _holds(table: str, slot: str, words: list[str]) -> str:
    return " | ".join(f"({table}[{slot}, {at}] ^ {word})" for at, word in enumerate(words)) + " == 0"


def _better(table: str, cell: _Cell, fold: Fold) -> str:
    places = cell.places(table)
    if cell.partial.type is ex.Type.IP:
        return compare_addresses(fold.sign, cell.value.words, tuple(places))
    old = f"real({places[0]})" if cell.partial.type is ex.Type.FLOAT else places[0]
    return f"({cell.value.words[0]} {fold.sign} {old})"


def _write(table: str, cell: _Cell) -> list[str]:
    words = [f"bits({word})" if cell.partial.type is ex.Type.FLOAT else word for word in cell.value.words]
    return [f"{table}[s, {cell.at + k}] = {word}" for k, word in enumerate(words)]
