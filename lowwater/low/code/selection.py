"""Generates the code of a selection: an accepted record becomes a row at once (000 section 4.3).

Between `low.code.expressions` and `low.code.kernel` (the loop).
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.catalog.expr import Const, Expr, Type, columns_of
from lowwater.catalog.packets import stored
from lowwater.low.code.eviction import FROM
from lowwater.low.code.expressions import Emitter
from lowwater.low.code.operands import FALSE, TRUE, indented
from lowwater.low.code.partial_evaluation import of_link
from lowwater.low.code.row_buffers import OutputColumn
from lowwater.plan.operators import Lfta


def selection_code(
    emit: Emitter, lfta: Lfta, link: str, number: int
) -> tuple[list[str], list[str], list[OutputColumn]]:
    """Generates the code of a selection.

    Args:
        emit: the emitter of the node, after its predicate.
        lfta: the LFTA; its keys are the columns.
        link: the name of the link.
        number: the number of the node in the kernel.

    Returns:
        The statements before a block of records, the statements for an accepted record, and the columns of its row.
    """
    exprs = [of_link(item.expr, link) for item in lfta.keys]
    outputs = [_output(emit, expr, lfta.numbered) for expr in exprs]
    lines = _writes(emit, exprs, outputs, number)
    # The columns of a host value already say where it is NULL.
    before, test = ([], TRUE) if emit.hosted else emit.test_not_null(stored(columns_of(*exprs)))
    if test != TRUE:
        plain = _writes(emit.without_nulls(), exprs, outputs, number)
        lines = [f"if {test}:", *indented(plain), "else:", *indented(lines)]
    lines += _end_of_row(number, "a" if lfta.arrival else "t")
    return before, [f"if {arrival_test(number)}:", *indented(lines)] if lfta.arrival else lines, outputs


def _output(emit: Emitter, expr: Expr, nullable: bool) -> OutputColumn:
    if expr.type is Type.STRING and isinstance(expr, Const):
        return OutputColumn.fixed(expr)
    return OutputColumn(expr.type, nullable or emit.value(expr).null != FALSE)


def _writes(emit: Emitter, exprs: Sequence[Expr], outputs: Sequence[OutputColumn], number: int) -> list[str]:
    """Returns the statements that evaluate the columns and write them."""
    writes: list[str] = []
    for at, (expr, output) in enumerate(zip(exprs, outputs, strict=True)):
        if output.written:
            value = emit.value(expr)
            words = [f"int({value.words[0]})"] if expr.type is Type.BOOL else list(value.words)
            writes += output.lines(f"{number}_{at}", words, value.null, f"size{number}")
    return [*emit.take_lines(), *writes]


def arrival_test(number: int) -> str:
    """Returns the test that a record arrives within the read range of an LFTA by arrival."""
    return f"(a >= s{number}[{FROM}]) & (a < stop)"


def null_row(outputs: Sequence[OutputColumn], number: int) -> list[str]:
    """Returns the statements for a rejected record of an LFTA that numbers all records: they write a row of NULLs."""
    lines = []
    for at, output in enumerate(outputs):
        if output.written:
            lines += output.lines(f"{number}_{at}", ["0"], TRUE, f"size{number}")
    return [f"if {arrival_test(number)}:", *indented([*lines, *_end_of_row(number, "a")])]


def _end_of_row(number: int, last: str) -> list[str]:
    return [f"k{number}[size{number}] = tick", f"l{number}[size{number}] = {last}", f"size{number} += 1"]
