"""Host values, computed beside the kernel a chunk at a time: numbers of strings, function calls, string comparisons.

Between the columns of a chunk and the kernel of an LFTA, which works with numbers only. A value is computed once for
every distinct combination of its arguments, and only for records whose outcome it can change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lowwater.catalog.calls import DictionaryColumn, apply_python, call_function
from lowwater.catalog.expr import (
    COMPARE,
    Binary,
    Call,
    Column,
    Const,
    Expr,
    OneOf,
    Type,
    Unary,
    conjunction,
    conjuncts,
    walk,
)
from lowwater.catalog.values import words_from_ip
from lowwater.low.code.partial_evaluation import is_hosted, of_link
from lowwater.low.evaluate import ExpressionKernel
from lowwater.low.runtime.chunk_columns import ChunkColumns, Pair
from lowwater.low.settings import LowSettings

Flags = npt.NDArray[np.bool_]
_DTYPES: dict[Type, type[np.generic]] = {Type.BOOL: np.bool_, Type.FLOAT: np.float64}


class Host:
    """The host values of one node, and the strings that their numbers stand for.

    Args:
        hosted: the host values.
        beside: their columns, as in the Emitter.
        gate: a condition without which no host value of a record matters; None for none.
        settings: the settings of the run.

    Attributes:
        texts: string of each number; a number keeps its meaning until `forget`.
    """

    def __init__(self, hosted: Sequence[Expr], beside: Sequence[str], gate: Expr | None, settings: LowSettings) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._characters = 0
        self._hosted, self._beside, self._gate = hosted, beside, gate
        self._settings = settings
        self._alone: dict[Expr, ExpressionKernel] = {}

    @property
    def needed(self) -> bool:
        """Whether there are host values."""
        return bool(self._hosted)

    @property
    def full(self) -> bool:
        """Whether there are so many strings that they must be forgotten before the next chunk."""
        return len(self.texts) > self._settings.texts or self._characters >> 8 > self._settings.texts

    def forget(self) -> None:
        """Drops all strings; none of their numbers may be in use."""
        self.texts.clear()
        self._numbers.clear()
        self._characters = 0

    def parameters(self, columns: ChunkColumns, ok: Flags) -> list[npt.NDArray[np.generic]]:
        """Computes the columns of host values of a chunk; NULL where they cannot change an outcome.

        Args:
            columns: the columns of the chunk.
            ok: shape (records), which records are processed.
        """
        if not self.needed:
            return []
        mask = ok.copy()
        if self._gate is not None:
            gate = _Chunk(self, columns).coded(self._gate)
            mask &= np.array([value is True for value in gate.values], np.bool_)[gate.index]
        chunk = _Chunk(self, columns.where(mask))
        arrays: list[npt.NDArray[np.generic]] = []
        for name in self._beside:
            arrays += _spread(chunk.hosted(self._hosted, name), mask)
        return arrays

    def number(self, text: str) -> int:
        """Returns the number of a string, a new one if it has none."""
        at = self._numbers.get(text)
        if at is None:
            at = self._numbers[text] = len(self.texts)
            self.texts.append(text)
            self._characters += len(text)
        return at

    def alone(self, expr: Expr) -> ExpressionKernel:
        """Returns the code that evaluates one expression by itself."""
        if expr not in self._alone:
            self._alone[expr] = ExpressionKernel(expr, self._settings.compiled)
        return self._alone[expr]


def gate_of(member: Expr | None, predicate: Expr | None, link: str) -> Expr | None:
    """Returns the condition without which no host value of a record matters; None for none.

    Conjuncts that the kernel computes are enough, as long as no other one can fail, since failures are counted (A1).

    Args:
        member: the condition of the protocol; None for all packets.
        predicate: the predicate of the LFTA; None for none.
        link: the name of the link.
    """
    members = conjuncts(None if member is None else of_link(member, link))
    parts = conjuncts(None if predicate is None else of_link(predicate, link))
    plain = [part for part in parts if not any(is_hosted(node) for node in walk(part))]
    others = (node for part in parts for node in walk(part))
    infallible = not any(isinstance(node, Call) and (node.function.partial or _is_users(node)) for node in others)
    return conjunction(members + (plain if infallible else []))


def _is_users(call: Call) -> bool:
    return call.function.origin != "built-in"


def _spread(pair: Pair, mask: Flags) -> Pair:
    """Puts the values of selected records at their positions in the chunk."""
    if mask.all():
        return pair
    values, valid = np.zeros(len(mask), pair[0].dtype), np.zeros(len(mask), np.bool_)
    values[mask], valid[mask] = pair
    return values, valid


class _Chunk:
    """The host values of some records; each is computed once."""

    def __init__(self, host: Host, columns: ChunkColumns) -> None:
        self._host = host
        self._columns = columns
        self._coded: dict[Expr, DictionaryColumn] = {}
        self._pairs: dict[tuple[Expr, str], Pair] = {}

    def hosted(self, hosted: Sequence[Expr], name: str) -> Pair:
        """Returns the column `<k>.<part>` of host values."""
        number, _, part = name.partition(".")
        expr = hosted[int(number)]
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

    def coded(self, expr: Expr) -> DictionaryColumn:
        """Returns any expression over the records, dictionary-encoded."""
        if expr not in self._coded:
            self._coded[expr] = self._evaluate(expr)
        return self._coded[expr]

    def _evaluate(self, expr: Expr) -> DictionaryColumn:
        rows = self._columns.rows
        if isinstance(expr, Const):
            value = float(expr.value) if expr.type is Type.FLOAT and isinstance(expr.value, int) else expr.value
            return DictionaryColumn.constant(value, rows)
        if isinstance(expr, Column):
            return self._columns.coded(expr.name)
        if not is_hosted(expr):
            return self._from_kernel(expr)
        arguments = [self.coded(argument) for argument in expr.children()]
        if isinstance(expr, Call):
            return call_function(expr.function, arguments, rows)
        if isinstance(expr, Unary):
            (operand,) = arguments
            return DictionaryColumn([value is None for value in operand.values], operand.index, operand.failed)
        if isinstance(expr, OneOf):
            return apply_python(expr.holds(), arguments, rows)
        if isinstance(expr, Binary):
            return apply_python(COMPARE[expr.op], arguments, rows)
        raise TypeError(type(expr).__name__)

    def _from_kernel(self, expr: Expr) -> DictionaryColumn:
        alone = self._host.alone(expr)
        beside = [part for name in alone.beside for part in self.hosted(alone.hosted, name)]
        return DictionaryColumn.of(alone.of(self._columns, beside, self._host.texts))
