"""One expression over a chunk of records, by generated code of its own.

Beside the kernel of a link: what hosted values take from the kernel's side, and conditions without a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.expr import Const, Expr, Param, Type
from lowwater.catalog.values import words_from_ip
from lowwater.errors import LowwaterError
from lowwater.low.code.compiler import load
from lowwater.low.code.expressions import Emitter, Inputs
from lowwater.low.code.kernel import Function
from lowwater.low.code.rows import Output, Rows
from lowwater.low.code.values import indented
from lowwater.low.runtime.columns import Columns

Array = npt.NDArray[np.generic]


class Evaluation:
    """An expression as a function of columns.

    Attributes:
        columns: stored ones that it reads.
        hosted: the values that are computed beside it, `beside` their columns, as the Emitter has them.
    """

    def __init__(self, expr: Expr, compiled: bool) -> None:
        inputs = Inputs()
        emit = Emitter(inputs, clocked=False)
        value = emit.value(expr)
        self._output = Output(expr.type, nullable=True)
        words = [f"int({value.words[0]})"] if expr.type is Type.BOOL else list(value.words)
        body = [*emit.lines, *self._output.lines("0", words, value.null), "size += 1"]
        names = [
            "rows",
            *self._output.parameters("0"),
            *(f"{kind}_{at}" for at in range(len(emit.beside)) for kind in "hg"),
        ]
        names += [word for one in inputs.params for word in inputs.param(one).words]
        names += [f"{kind}{at}" for at in range(len(inputs.columns)) for kind in "cm"]
        lines = [f"def evaluate({', '.join(names)}):", "    size = 0", "    for i in range(rows):"]
        text = "\n".join([*lines, *indented(indented(body)), "    return size"])
        self.columns = tuple(inputs.columns)
        self.hosted, self.beside = tuple(emit.hosted), tuple(emit.beside)
        self._params = arguments(inputs.params)
        self._code = load([Function("evaluate", text, True)], compiled)["evaluate"]

    def of(self, columns: Columns, beside: Sequence[Array], texts: Sequence[str]) -> pa.Array:
        """The values of the records, in the types of streams.

        Args:
            columns: the columns of the records.
            beside: values and validity of every column of hosted values.
            texts: that numbers stand for.
        """
        rows = Rows([self._output], columns.rows, lasts=False)
        read = [part for name in self.columns for part in columns.pair(name)]
        self._code(columns.rows, *rows.arrays[1:], *beside, *self._params, *read)
        return rows.columns(columns.rows, texts)[0]


def arguments(params: Sequence[Const | Param]) -> list[Any]:
    """The values of parameters as words.

    Raises:
        LowwaterError: one has no value.
    """
    found: list[Any] = []
    for param in params:
        if isinstance(param, Param):
            raise LowwaterError(f"the parameter ${param.name} has no value", f"give --param {param.name}=VALUE")
        value = param.value
        if isinstance(value, bytes):
            found += words_from_ip(value)
        else:
            # One type for every value, or the kernel is compiled for another one.
            found.append(float(value) if param.type is Type.FLOAT and isinstance(value, int) else value)
    return found
