"""Generates the code of a group's key: computing its words, storing them, and reading them when the group leaves.

Below `low.code.aggregation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Const, Expr, Type, columns_of
from lowwater.catalog.packets import stored
from lowwater.low.code.eviction import Epoch
from lowwater.low.code.expressions import Emitter
from lowwater.low.code.key_layout import KeyLayout, WordPlace
from lowwater.low.code.operands import FALSE, TRUE, Operand, indented
from lowwater.low.code.partial_evaluation import of_link
from lowwater.low.code.row_buffers import OutputColumn
from lowwater.plan.operators import Field, Lfta

ColumnRead = tuple[int, list[str], str]
"""Number of an output column, the code of its words in slot s, and the code of its NULL test."""


@dataclass
class GroupKey:
    """The key of one LFTA, as code.

    Attributes:
        words: names of its words.
        before: the statements before a block of records.
        lines: the statements that compute the words of record i.
        outputs: the output columns of the keys.
        reads: how each output column is read from the table.
        epochs: the temporal keys.
    """

    words: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    outputs: list[OutputColumn] = field(default_factory=list)
    reads: list[ColumnRead] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)

    def add(self, column: Field, type_: Type, places: list[WordPlace], half: str | None) -> None:
        """Adds an output column.

        Args:
            column: the output column of the LFTA.
            type_: the type of its values.
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
    keys.before, test = ([], TRUE) if emit.hosted else emit.test_not_null(stored(columns_of(*exprs)))
    if test == TRUE:
        keys.lines = general
    else:
        non_null = emit.without_nulls()
        texts = _word_code(non_null, exprs, lfta, None)
        plain = non_null.take_lines() + _assignments(keys.words, texts)
        keys.lines = [f"if {test}:", *indented(plain), "else:", *indented(general)]
    return keys


def _word_code(emit: Emitter, exprs: list[Expr], lfta: Lfta, keys: GroupKey | None) -> list[str]:
    """Returns the code of the words, and adds the columns to `keys` unless it is None."""
    layout = KeyLayout(len(exprs))
    for bit, expr in enumerate(exprs):
        if expr.type is Type.STRING and isinstance(expr, Const):
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


def read_as(type_: Type, place: str) -> str:
    """Returns the code that turns a word of the table into a value of a column."""
    return f"real({place})" if type_ is Type.FLOAT else place


def key_words(type_: Type, value: Operand) -> list[tuple[str, bool]]:
    """Returns the words of a key, and whether each is narrow.

    The words of a NULL key are 0, so that equal keys have equal words (V1).
    """
    if type_ is Type.IP:
        return [(_stored(type_, word, value.null), at == 0) for at, word in enumerate(value.words)]
    narrow = type_ in (Type.BOOL, Type.STRING) or (type_ is Type.INT and value.narrow)
    return [(_stored(type_, value.words[0], value.null), narrow)]


def _stored(type_: Type, word: str, null: str) -> str:
    word = {Type.FLOAT: f"bits({word})", Type.BOOL: f"int({word})"}.get(type_, word)
    if null == FALSE:
        return word
    return "0" if null == TRUE else f"(0 if {null} else {word})"
