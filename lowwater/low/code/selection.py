"""The code of a selection: an accepted record is a row at once (000 section 4.3).

Between `low.code.expressions` (expressions) and `low.code.kernel` (the loop).
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.catalog.expr import Const, Expr, Type, columns_of
from lowwater.catalog.packets import stored
from lowwater.low.code.eviction import FROM
from lowwater.low.code.expressions import Emitter
from lowwater.low.code.partial_evaluation import of_link
from lowwater.low.code.rows import Output
from lowwater.low.code.values import FALSE, TRUE, indented
from lowwater.plan.operators import Lfta


def selecting(emit: Emitter, lfta: Lfta, link: str, number: int) -> tuple[list[str], list[str], list[Output]]:
    """The statements before a block of records and for one that is accepted, and the columns of its row.

    Args:
        emit: of the node, after its predicate.
        lfta: the node; its keys are the columns.
        link: its name.
        number: the number of the node in the kernel.
    """
    exprs = [of_link(item.expr, link) for item in lfta.keys]
    outputs = [_output(emit, expr, lfta.numbered) for expr in exprs]
    lines = _writes(emit, exprs, outputs, number)
    # A hosted value says itself whether it is NULL.
    before, test = ([], TRUE) if emit.hosted else emit.test_whole(stored(columns_of(*exprs)))
    if test != TRUE:
        plain = _writes(emit.whole(), exprs, outputs, number)
        lines = [f"if {test}:", *indented(plain), "else:", *indented(lines)]
    lines += _finished(number, "a" if lfta.arrival else "t")
    return before, [f"if {arriving(number)}:", *indented(lines)] if lfta.arrival else lines, outputs


def _output(emit: Emitter, expr: Expr, nullable: bool) -> Output:
    if expr.type is Type.STRING and isinstance(expr, Const):
        return Output.fixed(expr)
    return Output(expr.type, nullable or emit.value(expr).null != FALSE)


def _writes(emit: Emitter, exprs: Sequence[Expr], outputs: Sequence[Output], number: int) -> list[str]:
    """The statements that evaluate the columns and write them."""
    writes: list[str] = []
    for at, (expr, output) in enumerate(zip(exprs, outputs, strict=True)):
        if output.written:
            value = emit.value(expr)
            words = [f"int({value.words[0]})"] if expr.type is Type.BOOL else list(value.words)
            writes += output.lines(f"{number}_{at}", words, value.null, f"size{number}")
    return [*emit.taken(), *writes]


def arriving(number: int) -> str:
    """The test that a record arrives within what an LFTA by arrival reads: others are only counted."""
    return f"(a >= s{number}[{FROM}]) & (a < stop)"


def nothing(outputs: Sequence[Output], number: int) -> list[str]:
    """The statements for a record that is not taken, where all are rows: a row of NULL."""
    writes = []
    for at, output in enumerate(outputs):
        if output.written:
            writes += output.lines(f"{number}_{at}", ["0"], TRUE, f"size{number}")
    return [f"if {arriving(number)}:", *indented([*writes, *_finished(number, "a")])]


def _finished(number: int, last: str) -> list[str]:
    return [f"k{number}[size{number}] = tick", f"l{number}[size{number}] = {last}", f"size{number} += 1"]
