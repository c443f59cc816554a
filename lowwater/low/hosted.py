"""Values beside the kernel: texts as numbers, calls of functions, and what compares texts, a chunk at a time.

Between the columns of a chunk and the kernel of an LFTA, which knows numbers only. A value is computed once for each
distinct combination of its arguments, and only for the records whose outcome it can change.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lowwater.catalog.calls import Coded, apply, called
from lowwater.catalog.expr import Binary, Call, Column, Const, Expr, Type, Unary, conjunction, conjuncts, walk
from lowwater.catalog.values import words_from_ip
from lowwater.low.codegen import ON_TEXT, hosted, of_link
from lowwater.low.columns import Columns, Pair
from lowwater.low.compiler import load
from lowwater.low.kernel import Program, generate
from lowwater.low.output import column
from lowwater.low.settings import LowSettings
from lowwater.plan.nodes import Item, Lfta

Flags = npt.NDArray[np.bool_]
_DTYPES: dict[Type, type[np.generic]] = {Type.BOOL: np.bool_, Type.FLOAT: np.float64}


class _Alone:
    """The kernel of one expression, for what a hosted value takes from the kernel's side."""

    def __init__(self, lfta: Lfta, expr: Expr, compiled: bool) -> None:
        keys = (Item("_value", expr),)
        alone = replace(lfta, member=None, predicate=None, keys=keys, partials=(), aggregates=False)
        self.program = generate(alone, "")
        self._kernel = load(self.program, compiled)

    def words(self, parameters: list[npt.NDArray[np.generic]], rows: int) -> npt.NDArray[np.int64]:
        out = np.empty((rows, self.program.width), np.int64)
        unused = [np.zeros(rows, np.int64) for _ in range(4)]
        arrivals, ticks, stamps, lasts = unused
        everything, outcome = np.ones(rows, np.bool_), np.zeros(rows, np.uint8)
        self._kernel(0, rows, everything, arrivals, 1, outcome, out, ticks, 0, stamps, lasts, *parameters)
        return out


class Host:
    """The parameters of one LFTA's kernel on a link, and the texts that their numbers stand for.

    Args:
        lfta: the node.
        program: its kernel.
        link: its name.
        settings: of the run.

    Attributes:
        texts: by number; a number stays as it is until `forget`.
    """

    def __init__(self, lfta: Lfta, program: Program, link: str, settings: LowSettings) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._characters = 0
        self._lfta, self._settings = lfta, settings
        self._program = program
        self._alone: dict[Expr, _Alone] = {}
        self._gate = _gate(lfta, link) if program.hosted else None

    @property
    def full(self) -> bool:
        """Whether the texts are so many that they are to be forgotten before the next chunk."""
        return len(self.texts) > self._settings.texts or self._characters >> 8 > self._settings.texts

    def forget(self) -> None:
        """Drops all texts; no number of theirs may be in use."""
        self.texts.clear()
        self._numbers.clear()
        self._characters = 0

    def parameters(self, columns: Columns, ok: Flags) -> list[npt.NDArray[np.generic]]:
        """The parameters of the kernel for a chunk; hosted values are NULL where they cannot change an outcome.

        Args:
            columns: of the chunk.
            ok: which of its records are processed.
        """
        if not self._program.hosted:
            return [part for name in self._program.columns for part in columns.pair(name)]
        wanted = ok.copy()
        if self._gate is not None:
            gate = _Chunk(self, columns).coded(self._gate)
            wanted &= np.array([value is True for value in gate.values], np.bool_)[gate.index]
        chunk = _Chunk(self, columns.where(wanted))
        found: list[npt.NDArray[np.generic]] = []
        for name in self._program.columns:
            found += columns.pair(name) if name[0] != "#" else _spread(chunk.hosted(self._program, name), wanted)
        return found

    def number(self, text: str) -> int:
        """The number of a text, a new one if it has none."""
        at = self._numbers.get(text)
        if at is None:
            at = self._numbers[text] = len(self.texts)
            self.texts.append(text)
            self._characters += len(text)
        return at

    def alone(self, expr: Expr) -> _Alone:
        """The kernel of an expression of its own."""
        if expr not in self._alone:
            self._alone[expr] = _Alone(self._lfta, expr, self._settings.compiled)
        return self._alone[expr]


def _gate(lfta: Lfta, link: str) -> Expr | None:
    """What must be true of a record before a hosted value matters; None where any may.

    A conjunct that the kernel computes decides it, as long as no other one can fail: a failure is counted (A1).
    """
    member = conjuncts(None if lfta.member is None else of_link(lfta.member, link))
    parts = conjuncts(None if lfta.predicate is None else of_link(lfta.predicate, link))
    plain = [part for part in parts if not any(hosted(node) for node in walk(part))]
    others = (node for part in parts for node in walk(part))
    sure = not any(isinstance(node, Call) and (node.function.partial or _declared(node)) for node in others)
    return conjunction(member + (plain if sure else []))


def _declared(call: Call) -> bool:
    return call.function.origin != "built-in"


def _spread(pair: Pair, wanted: Flags) -> Pair:
    """Values of the wanted records at their places in the chunk."""
    if wanted.all():
        return pair
    values, valid = np.zeros(len(wanted), pair[0].dtype), np.zeros(len(wanted), np.bool_)
    values[wanted], valid[wanted] = pair
    return values, valid


class _Chunk:
    """The hosted values over some records, each computed once."""

    def __init__(self, host: Host, columns: Columns) -> None:
        self._host = host
        self._columns = columns
        self._coded: dict[Expr, Coded] = {}
        self._pairs: dict[tuple[Expr, str], Pair] = {}

    def hosted(self, program: Program, name: str) -> Pair:
        """The parameter `#<k>.<part>` of a program."""
        number, _, part = name[1:].partition(".")
        expr = program.hosted[int(number)]
        if (expr, part) not in self._pairs:
            self._pairs[expr, part] = self._pair(expr, part)
        return self._pairs[expr, part]

    def _pair(self, expr: Expr, part: str) -> Pair:
        coded = self.coded(expr)
        if part == "failed":
            failed = np.array(coded.failed or [False] * len(coded.values), np.bool_)[coded.index]
            return failed, np.ones(len(failed), np.bool_)
        valid = np.array([value is not None for value in coded.values], np.bool_)
        words = [0 if value is None else self._word(expr.type, value, int(part)) for value in coded.values]
        return np.array(words, _DTYPES.get(expr.type, np.int64))[coded.index], valid[coded.index]

    def _word(self, kind: Type, value: object, part: int) -> object:
        if kind is Type.STRING:
            return self._host.number(str(value))
        return words_from_ip(value)[part] if isinstance(value, bytes) else value

    def coded(self, expr: Expr) -> Coded:
        """Any expression over the records."""
        if expr not in self._coded:
            self._coded[expr] = self._evaluate(expr)
        return self._coded[expr]

    def _evaluate(self, expr: Expr) -> Coded:
        rows = self._columns.rows
        if isinstance(expr, Const):
            value = float(expr.value) if expr.type is Type.FLOAT and isinstance(expr.value, int) else expr.value
            return Coded.constant(value, rows)
        if isinstance(expr, Column):
            return self._columns.coded(expr.name)
        if not hosted(expr):
            return self._from_kernel(expr)
        arguments = [self.coded(argument) for argument in expr.children()]
        if isinstance(expr, Call):
            return called(expr.function, arguments, rows)
        if isinstance(expr, Unary):
            (operand,) = arguments
            return Coded([value is None for value in operand.values], operand.index, operand.failed)
        if isinstance(expr, Binary):
            return apply(ON_TEXT[expr.op], arguments, rows)
        raise TypeError(type(expr).__name__)

    def _from_kernel(self, expr: Expr) -> Coded:
        alone = self._host.alone(expr)
        parameters: list[npt.NDArray[np.generic]] = []
        for name in alone.program.columns:
            parameters += self._columns.pair(name) if name[0] != "#" else self.hosted(alone.program, name)
        words = alone.words(parameters, self._columns.rows)
        (slot,) = alone.program.slots
        return Coded.of(column(words, slot, self._host.texts))
