"""The code of a group's key: its words, where they lie in the table, how they are read again when the group leaves.

Below `low.code.aggregation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Const, Expr, Type, columns_of
from lowwater.catalog.packets import stored
from lowwater.low.code.eviction import Epoch
from lowwater.low.code.expressions import Emitter
from lowwater.low.code.key_layout import Packing, Place
from lowwater.low.code.partial_evaluation import of_link
from lowwater.low.code.rows import Output
from lowwater.low.code.values import FALSE, TRUE, Value, indented
from lowwater.plan.operators import Field, Lfta

Read = tuple[int, list[str], str]
"""Number of an output column, the code of its words in slot s, and of whether it is NULL."""


@dataclass
class Keys:
    """The key of one LFTA.

    Attributes:
        words: names of its words.
        before: the statements before a block of records.
        lines: the statements that make them of record i.
        outputs: the columns, `reads` how they are read again.
        epochs: the temporal keys.
    """

    words: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)

    def add(self, column: Field, type_: Type, places: list[Place], half: str | None) -> None:
        """Another column; `half` of the first word says whether it is NULL, None where it never is.

        Args:
            column: output column of the LFTA.
            type_: type of its values.
            places: words of the slot that hold a value, first to last.
            half: half of the first word that has a bit for each column that is NULL; None where the column never is.
        """
        bit = len(self.outputs)
        if column.temporal is not None and not column.temporal.origin:
            self.epochs.append(Epoch(bit, places[0], column.temporal.increasing))
        null = FALSE if half is None else f"({Place(0, half).read()} & {1 << bit} != 0)"
        self.reads.append((bit, [read_as(type_, place.read()) for place in places], null))
        self.outputs.append(Output(type_, half is not None))


def key_code(emit: Emitter, lfta: Lfta, link: str) -> Keys:
    """The code of the key; where nothing of a record is NULL, without asking of each column."""
    exprs = [of_link(item.expr, link) for item in lfta.keys]
    keys = Keys()
    texts = _texts(emit, exprs, lfta, keys)
    keys.words = [f"w{at}" for at in range(len(texts))]
    asked = emit.taken() + _assigned(keys.words, texts)
    # A hosted value says itself whether it is NULL.
    keys.before, test = ([], TRUE) if emit.hosted else emit.test_whole(stored(columns_of(*exprs)))
    if test == TRUE:
        keys.lines = asked
    else:
        whole = emit.whole()
        texts = _texts(whole, exprs, lfta, None)
        plain = whole.taken() + _assigned(keys.words, texts)
        keys.lines = [f"if {test}:", *indented(plain), "else:", *indented(asked)]
    return keys


def _texts(emit: Emitter, exprs: list[Expr], lfta: Lfta, keys: Keys | None) -> list[str]:
    """The code of the words; the columns are added to `keys`."""
    packing = Packing(len(exprs))
    for bit, expr in enumerate(exprs):
        if expr.type is Type.STRING and isinstance(expr, Const):
            if keys is not None:
                keys.outputs.append(Output.fixed(expr))
            continue
        value = emit.value(expr)
        packing.null(bit, value.null)
        places = [packing.add(text, narrow) for text, narrow in key_words(expr.type, value)]
        if keys is not None:
            keys.add(lfta.fields[bit], expr.type, places, None if value.null == FALSE else packing.half)
    return packing.words()


def _assigned(words: list[str], texts: list[str]) -> list[str]:
    return [f"{word} = {text}" for word, text in zip(words, texts, strict=True)]


def read_as(type_: Type, place: str) -> str:
    """A word of the table as a column has it."""
    return f"real({place})" if type_ is Type.FLOAT else place


def key_words(type_: Type, value: Value) -> list[tuple[str, bool]]:
    """The words of a key and which are narrow; NULL keys have zero words, so that equal keys have equal words (V1)."""
    if type_ is Type.IP:
        return [(_stored(type_, word, value.null), at == 0) for at, word in enumerate(value.words)]
    narrow = type_ in (Type.BOOL, Type.STRING) or (type_ is Type.INT and value.narrow)
    return [(_stored(type_, value.words[0], value.null), narrow)]


def _stored(type_: Type, word: str, null: str) -> str:
    word = {Type.FLOAT: f"bits({word})", Type.BOOL: f"int({word})"}.get(type_, word)
    if null == FALSE:
        return word
    return "0" if null == TRUE else f"(0 if {null} else {word})"
