"""Evaluates one expression over a chunk of records, with generated code of its own.

Beside the kernel of a link: for arguments of host values that a kernel can compute, and for conditions without a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lowwater.catalog.expr import Const, Expr, Param, Type
from lowwater.catalog.values import words_from_ip
from lowwater.errors import LowwaterError
from lowwater.low.code.compiler import load
from lowwater.low.code.expressions import Emitter, Inputs, indented
from lowwater.low.code.kernel import GeneratedFunction
from lowwater.low.code.row_buffers import Array, OutputColumn, RowBuffer
from lowwater.low.runtime.chunk_columns import ChunkColumns


class ExpressionKernel:
    """An expression, compiled to a function of columns.

    Args:
        expr: the expression.
        compiled: whether numba compiles it.

    Attributes:
        columns: the stored columns that it reads.
        hosted, beside: its host values and their columns, as in the Emitter.
    """

    def __init__(self, expr: Expr, compiled: bool) -> None:
        inputs = Inputs()
        emit = Emitter(inputs, clocked=False)
        value = emit.value(expr)
        self._output = OutputColumn(expr.type, nullable=True)
        words = [f"int({value.words[0]})"] if expr.type is Type.BOOL else list(value.words)
        body = [*emit.lines, *self._output.lines("0", words, value.null), "size += 1"]
        names = [
            "rows",
            *self._output.parameters("0"),
            *(f"{kind}_{at}" for at in range(len(emit.beside)) for kind in "hg"),
        ]
        names += [word for param in inputs.params for word in inputs.param(param).words]
        names += [f"{kind}{at}" for at in range(len(inputs.columns)) for kind in "cm"]
        lines = [f"def evaluate({', '.join(names)}):", "    size = 0", "    for i in range(rows):"]
        text = "\n".join([*lines, *indented(indented(body)), "    return size"])
        self.columns = tuple(inputs.columns)
        self.hosted, self.beside = tuple(emit.hosted), tuple(emit.beside)
        self._params = arguments(inputs.params)
        self._code = load([GeneratedFunction("evaluate", text, True)], compiled)["evaluate"]

    def of(self, columns: ChunkColumns, beside: Sequence[Array], texts: Sequence[str]) -> pa.Array:
        """Returns the values of all records, in the types of streams.

        Args:
            columns: the columns of the records.
            beside: values and validity of every column of host values.
            texts: the strings that numbers stand for, by number.
        """
        rows = RowBuffer([self._output], columns.rows, lasts=False)
        stored_columns = [part for name in self.columns for part in columns.pair(name)]
        self._code(columns.rows, *rows.arrays[1:], *beside, *self._params, *stored_columns)
        return rows.columns(columns.rows, texts)[0]


def arguments(params: Sequence[Const | Param]) -> list[Any]:
    """Returns the values of parameters as words.

    Raises:
        LowwaterError: a parameter has no value.
    """
    words: list[Any] = []
    for param in params:
        if isinstance(param, Param):
            raise LowwaterError(f"the parameter ${param.name} has no value", f"give --param {param.name}=VALUE")
        value = param.value
        if isinstance(value, bytes):
            words += words_from_ip(value)
        else:
            # The same type for every value, since numba would compile the kernel again for another type.
            words.append(float(value) if param.type is Type.FLOAT and isinstance(value, int) else value)
    return words
