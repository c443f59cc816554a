"""Generates the code of a group table: look-up, update of the partial aggregates, eviction (000 section 4.4).

Between `low.code.expressions` (expressions) and `low.code.kernel` (the loop). On a collision, the functions of
`low.code.eviction` evict a group. A row of the table holds the key words of `low.code.key_layout` and the partial
aggregates. A mask precedes nullable partial aggregates: its bits tell the partial aggregates that have seen a value.
"""

from __future__ import annotations

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
"""Number of records in a block. The groups of a block are queued, then looked up together."""

_EVICTION_TABLE = "table"
"""The group table in the functions of `low.code.eviction`: the name of their parameter."""
_TICK = "(a // period + 1) * period"


def taken_name(number: int, at: int) -> str:
    """Returns the part of an array name for an argument column of the user-defined sub-aggregates.

    Args:
        number: the number of the node in the kernel.
        at: the position of the column; 0 is the ticket.
    """
    return f"{number}_u{at}"


@dataclass(frozen=True)
class _Cell:
    """A partial aggregate in a row of the table.

    Attributes:
        partial: the partial aggregate.
        fold: the merge of two values; None for a count.
        at: the position of its first word in the row.
        bit: the position of its bit in the mask.
        value: its argument.
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
        lfta: the LFTA.
        link: the name of its link.
        number: the number of the node in the kernel.
        settings: the settings of the low level.

    Attributes:
        before: the statements before a block of records.
        lines: the statements that queue the key of an accepted record.
        drain: two loops over the queue. The first loop loads all slots into the cache in parallel, so that the second
            loop does not wait for memory.
        outputs: the columns of its rows.
        taken: the columns that a record adds for user-defined sub-aggregates: the ticket of its group, then arguments.
        epochs: its temporal keys.
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
                self.outputs.append(OutputColumn(Type.INT))
                continue
            if isinstance(argument, Const):
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
        """Returns the code of the increment of a count: 1, or 0 if the argument is NULL."""
        if partial.argument is None:
            return "1"
        expr = of_link(partial.argument, self.link)
        if isinstance(expr, Const):
            return "0" if expr.value is None else "1"
        if expr.type is Type.STRING:
            # A test for NULL, because the value itself would number every string.
            return self.emit.name(f"0 if {self.emit.value(Unary(Type.BOOL, 'IS NULL', expr)).words[0]} else 1")
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
            if cell.fold is not None and cell.fold.sums and cell.partial.type is Type.INT:
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
        if cell.partial.type is Type.FLOAT:
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
    if cell.partial.type is Type.IP:
        return compare_addresses(fold.sign, cell.value.words, tuple(places))
    old = f"real({places[0]})" if cell.partial.type is Type.FLOAT else places[0]
    return f"({cell.value.words[0]} {fold.sign} {old})"


def _write(table: str, cell: _Cell) -> list[str]:
    words = [f"bits({word})" if cell.partial.type is Type.FLOAT else word for word in cell.value.words]
    return [f"{table}[s, {cell.at + k}] = {word}" for k, word in enumerate(words)]
