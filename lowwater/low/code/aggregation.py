"""The code of an aggregation: look up a record's group in the table, update it, let groups leave (000 section 4.4).

Between `low.code.expressions` (expressions) and `low.code.kernel` (the loop). A collision ejects a group, by the
functions of `low.code.eviction`. A row of the table is the key words of `low.code.key_layout`, then, where a partial
may have seen no value, the mask of those that have, then the partials.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lowwater.catalog.expr import Const, Type, Unary
from lowwater.catalog.functions import Fold
from lowwater.errors import UnsupportedError
from lowwater.low.code.eviction import (
    ALIVE,
    COLLISIONS,
    EJECTIONS,
    EVERY,
    OLD,
    OLDEST,
    SINCE,
    TAKEN,
    TICKETS,
    Epoch,
    eviction_functions,
)
from lowwater.low.code.expressions import Emitter
from lowwater.low.code.group_keys import key_code, read_as
from lowwater.low.code.key_layout import hash_of
from lowwater.low.code.operands import FALSE, TRUE, Operand, both, compare_addresses, either, indented, negation
from lowwater.low.code.partial_evaluation import of_link
from lowwater.low.code.row_buffers import OutputColumn
from lowwater.low.settings import LowSettings
from lowwater.plan.operators import MOST_COLUMNS, Lfta, Partial

BLOCK = 128
"""Records whose groups are queued before they are looked up."""

_TICK = "(a // period + 1) * period"


def taken_name(number: int, at: int) -> str:
    """What a column of that which records of a node bring to sub-aggregates of users is called in names."""
    return f"{number}_u{at}"


@dataclass(frozen=True)
class _Cell:
    """A partial in the table: its words from `at` on, its bit in the mask, and its argument; no fold is a count."""

    partial: Partial
    fold: Fold | None
    at: int
    bit: int
    value: Operand

    @property
    def nullable(self) -> bool:
        return self.value.null != FALSE

    @property
    def place(self) -> str:
        return f"table[s, {self.at}]"

    @property
    def places(self) -> list[str]:
        return [f"int(table[s, {self.at + k}])" for k in range(len(self.value.words))]


@dataclass
class Grouping:
    """The table of one LFTA as code.

    Args:
        emit: of the node, after its predicate.
        number: the number of the node in the kernel.

    Attributes:
        before: the statements before a block of records.
        lines: the statements for a record that is accepted: its key is queued.
        drain: the loops over the queue. The first touches the slots, so that all of them are on their way from memory
            at once, and the second does not wait for each.
        outputs: the columns of its rows.
        taken: what a record brings to the sub-aggregates of users: the ticket of its group, and their arguments.
        epochs: its temporal keys.
        width: words of a row of the table.
        key: words of a key.
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
        # The first and the last word: a row may be longer than a line of the cache.
        ends = (f"t{self.number}[q{self.number}[j, {self.key}], {at}]" for at in (0, self.width - 1))
        touch = f"touched ^= {' ^ '.join(ends)}"
        loop = f"for j in range(queued{self.number}):"
        # By its own name: a second one for the same array is counted as a reference, in every round.
        body = [re.sub(r"\btable\b", f"t{self.number}", line) for line in body]
        self.drain = [loop, f"    {touch}", loop, *indented(body)]

    @property
    def parameters(self) -> list[str]:
        """Arrays that hold its rows, besides the ticks."""
        return [name for at, output in enumerate(self.outputs) for name in output.parameters(f"{self.number}_{at}")]

    def _queue(self, words: list[str]) -> list[str]:
        k = self.number
        lines = [f"s = {hash_of(words)} & (t{k}.shape[0] - 1)"]
        lines += [f"q{k}[queued{k}, {at}] = {value}" for at, value in enumerate([*words, "s", "i"])]
        return [*lines, f"queued{k} += 1"]

    def _dequeue(self, words: list[str]) -> list[str]:
        k = self.number
        names = [*words, "s", "i"]
        lines = [f"{name} = int(q{k}[j, {at}])" for at, name in enumerate(names)]
        return [*lines, "a = int(at[i])", "t = int(ts[i])"]

    def _cells(self, words: list[str]) -> list[_Cell]:
        own = [None if partial.udaf is not None else self._argument(partial) for partial in self.lfta.partials]
        self._seen = len(words)
        masked = any(isinstance(argument, Operand) and argument.null != FALSE for argument in own)
        self._ticket = self._seen + masked
        at = self._ticket + (None in own)
        cells: list[_Cell] = []
        for bit, (partial, argument) in enumerate(zip(self.lfta.partials, own, strict=True)):
            if argument is None:
                self._reads.append((len(self.outputs), [f"int(table[s, {self._ticket}])"], FALSE))
                self.outputs.append(OutputColumn(Type.INT))
                continue
            if isinstance(argument, Const):
                self.outputs.append(OutputColumn.fixed(argument))
                continue
            cell = _Cell(partial, partial.native.fold if partial.native is not None else None, at, bit, argument)
            cells.append(cell)
            at += len(argument.words)
            null = f"int(table[s, {self._seen}]) & {1 << bit} == 0" if cell.nullable else FALSE
            self._reads.append((len(self.outputs), [read_as(partial.type, place) for place in cell.places], null))
            self.outputs.append(OutputColumn(partial.type, cell.nullable))
        self.width = at
        if None in own:
            self._takes = self._take()
        return cells

    def _take(self) -> list[str]:
        """The statements that queue what a record brings to the sub-aggregates of users."""
        k = self.number
        ticket = f"int(table[s, {self._ticket}])"
        columns: list[tuple[OutputColumn, tuple[str, ...], str]] = [(OutputColumn(Type.INT), (ticket,), FALSE)]
        for partial in self.lfta.partials:
            if partial.udaf is None or partial.argument is None:
                continue
            expr = of_link(partial.argument, self.link)
            if expr.type is Type.STRING and isinstance(expr, Const):
                columns.append((OutputColumn.fixed(expr), (), FALSE))
                continue
            value = self.emit.value(expr)
            words = (f"int({value.words[0]})",) if expr.type is Type.BOOL else tuple(value.words)
            columns.append((OutputColumn(expr.type, value.null != FALSE), words, value.null))
        self.taken = [output for output, _, _ in columns]
        lines = [f"taken = int(s{k}[{TAKEN}])", f"s{k}[{TAKEN}] += 1"]
        for at, (output, words, null) in enumerate(columns):
            lines += output.lines(taken_name(k, at), words, null, "taken") if output.written else []
        return lines

    def _argument(self, partial: Partial) -> Operand | Const:
        """What a record brings to a partial; a constant text brings itself."""
        native = partial.native
        if native is not None and native.fold is None:
            return Operand((self._counted(partial),))
        if partial.argument is None or native is None or native.parts is not None:
            raise UnsupportedError(f"the aggregate {partial.function} in the low level", "select the rows instead")
        expr = of_link(partial.argument, self.link)
        if expr.type is Type.STRING:
            if not isinstance(expr, Const):
                raise UnsupportedError(f"{partial.function} of texts in the low level", "count them")
            return expr
        value = self.emit.value(expr)
        if partial.type is Type.FLOAT and expr.type is not Type.FLOAT:
            return Operand((self.emit.name(f"float({value.words[0]})"),), value.null)
        if partial.type is Type.BOOL:
            return Operand((self.emit.name(f"int({value.words[0]})"),), value.null)
        return value

    def _counted(self, partial: Partial) -> str:
        """What one record adds to a count: 1, or with an argument only where that is not NULL."""
        if partial.argument is None:
            return "1"
        expr = of_link(partial.argument, self.link)
        if isinstance(expr, Const):
            return "0" if expr.value is None else "1"
        if expr.type is Type.STRING:
            # Asked as a test, so that the texts themselves are not numbered.
            return self.emit.name(f"0 if {self.emit.value(Unary(Type.BOOL, 'IS NULL', expr)).words[0]} else 1")
        null = self.emit.value(expr).null
        return "1" if null == FALSE else self.emit.name(f"0 if {null} else 1")

    def _probe(self, words: list[str], cells: list[_Cell]) -> list[str]:
        """The look-up: afterwards `same` says whether the slot s holds the group and can take the record."""
        k, slots = self.number, "(table.shape[0] - 1)"
        lines = [f"same = {_holds('s', words)}"]
        if self.settings.adjacent:
            # The neighbour takes the group if it has it, or if the slot is taken and the neighbour is to be had.
            better = f"table[z, 0] == 0 or (precedes{k}(table, z, s{k}, 0) and not precedes{k}(table, s, s{k}, 0))"
            inner = [f"z = (s + 1) & {slots}", f"same = {_holds('z', words)}"]
            inner += [f"if same or (table[s, 0] != 0 and ({better})):", "    s = z"]
            lines += ["if not same:", *indented(inner)]
        lines += ["full = False"]
        for cell in cells:
            if cell.fold is not None and cell.fold.sums and cell.partial.type is Type.INT:
                # A partial sum that would leave 64 bits leaves the table instead, so that no sum is ever wrapped (O3).
                grown = f"add({cell.places[0]}, {cell.value.words[0]})[1]"
                lines.append(f"full = full or same and {grown} and {negation(cell.value.null)}")
        leave = [f"s{k}[{EJECTIONS}] += 1", f"if not full:\n    s{k}[{COLLISIONS}] += 1"]
        if self.settings.flush.ordered:
            # Groups of closed epochs go first where one of an open epoch has to (002, Figure 7).
            test = f"not full and s{k}[{OLD}] > 0 and not precedes{k}(table, s, s{k}, 0)"
            leave += [
                f"if {test}:",
                f"    size{k} = release{k}(table, s{k}, s{k}[{OLD}], {_TICK}, size{k}{self._rows})",
            ]
        leave += [f"size{k} = leave{k}(table, s, s{k}, {_TICK}, size{k}{self._rows})"]
        leave = [part for line in leave for part in line.split("\n")]
        return [*lines, "if full or (not same and table[s, 0] != 0):", *indented(leave), "same = same and not full"]

    @property
    def _rows(self) -> str:
        return "".join(f", {name}" for name in (f"k{self.number}", *self.parameters))

    def _update(self, cell: _Cell) -> list[str]:
        fold, better = cell.fold, TRUE
        if fold is None:
            return [f"{cell.place} += {cell.value.words[0]}"]
        if fold.picks:
            change, better = _write(cell), _better(cell, fold)
        else:
            change = self._folded(cell, fold)
        if not cell.nullable:
            return [f"if {better}:", *indented(change)] if better != TRUE else change
        seen, bit = f"table[s, {self._seen}]", 1 << cell.bit
        if better != TRUE:
            better = either(f"({seen} & {bit}) == 0", better)
        change = [*change, f"{seen} |= {bit}"]
        return [f"if {both(negation(cell.value.null), better)}:", *indented(change)]

    def _folded(self, cell: _Cell, fold: Fold) -> list[str]:
        word = cell.value.words[0]
        if cell.partial.type is Type.FLOAT:
            return [f"{cell.place} = bits(real({cell.place}) {fold.sign} {word})"]
        if not cell.nullable or fold.neutral == 0:
            return [f"{cell.place} {fold.sign}= {word}"]
        # A partial that has seen no value holds 0, which this fold does not leave out.
        seen = f"table[s, {self._seen}] & {1 << cell.bit}"
        return [f"{cell.place} = {cell.place} {fold.sign} {word} if {seen} else {word}"]

    def _start(self, words: list[str], cells: list[_Cell]) -> list[str]:
        k = self.number
        lines = [f"table[s, {at}] = {word}" for at, word in enumerate(words)]
        nullable = [cell for cell in cells if cell.nullable]
        if nullable:
            flags = (f"({1 << cell.bit} if {negation(cell.value.null)} else 0)" for cell in nullable)
            lines.append(f"table[s, {self._seen}] = {' | '.join(flags)}")
        for cell in cells:
            for line in _write(cell):
                target, word = line.split(" = ", 1)
                lines.append(line if not cell.nullable else f"{target} = 0 if {cell.value.null} else {word}")
        # A new group of the oldest epoch, or of an older one, is found by the next survey.
        fresh = [
            f"if s{k}[{OLDEST}] > 0 and precedes{k}(table, s, s{k}, {len(self.epochs)}):",
            f"    s{k}[{OLDEST}] = 0",
        ]
        ticket = [f"s{k}[{TICKETS}] += 1", f"table[s, {self._ticket}] = s{k}[{TICKETS}]"] if self.taken else []
        return [*lines, *ticket, f"s{k}[{ALIVE}] += 1", *(fresh if self.epochs else [])]

    def _step(self) -> list[str]:
        """One old group leaves every so many records (002, section 6)."""
        k = self.number
        call = f"size{k} = release{k}(table, s{k}, 1, {_TICK}, size{k}{self._rows})"
        inner = [f"s{k}[{SINCE}] += 1", f"if s{k}[{SINCE}] >= s{k}[{EVERY}]:", f"    s{k}[{SINCE}] = 0", f"    {call}"]
        return [f"if s{k}[{OLD}] > 0:", *indented(inner)]

    def functions(self) -> list[tuple[str, list[str], bool]]:
        """The functions beside the loop: name, text, whether they are called from outside."""
        return eviction_functions(self.number, self.epochs, self._row_lines(), self._rows)

    def _row_lines(self) -> list[str]:
        """The statements that write the group of slot s as a row."""
        parts = ((self.outputs[at], f"{self.number}_{at}", words, null) for at, words, null in self._reads)
        return [line for output, name, words, null in parts for line in output.lines(name, words, null)]


def _holds(slot: str, words: list[str]) -> str:
    return " | ".join(f"(table[{slot}, {at}] ^ {word})" for at, word in enumerate(words)) + " == 0"


def _better(cell: _Cell, fold: Fold) -> str:
    if cell.partial.type is Type.IP:
        return compare_addresses(fold.sign, cell.value.words, tuple(cell.places))
    old = f"real({cell.places[0]})" if cell.partial.type is Type.FLOAT else cell.places[0]
    return f"({cell.value.words[0]} {fold.sign} {old})"


def _write(cell: _Cell) -> list[str]:
    words = [f"bits({word})" if cell.partial.type is Type.FLOAT else word for word in cell.value.words]
    return [f"table[s, {cell.at + k}] = {word}" for k, word in enumerate(words)]
