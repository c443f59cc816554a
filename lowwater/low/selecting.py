"""The code of a selection: an accepted record is a row at once (000 section 4.3).

Between `low.codegen` (expressions) and `low.kernel` (the loop).
"""

from __future__ import annotations

from lowwater.catalog.expr import Const, Type
from lowwater.low.codegen import Emitter
from lowwater.low.folding import of_link
from lowwater.low.rows import Output
from lowwater.low.words import FALSE
from lowwater.plan.nodes import Lfta


def selecting(emit: Emitter, lfta: Lfta, link: str, number: int) -> tuple[list[str], list[Output]]:
    """The statements for a record that is accepted, and the columns of its row.

    Args:
        emit: of the node, after its predicate.
        lfta: the node; its keys are the columns.
        link: its name.
        number: of the node in the kernel.
    """
    outputs: list[Output] = []
    writes: list[str] = []
    for at, item in enumerate(lfta.keys):
        expr = of_link(item.expr, link)
        if expr.type is Type.STRING and isinstance(expr, Const):
            outputs.append(Output.fixed(expr))
            continue
        value = emit.value(expr)
        outputs.append(Output(expr.type, value.null != FALSE))
        words = [f"int({value.words[0]})"] if expr.type is Type.BOOL else list(value.words)
        writes += [
            line.replace("size", f"size{number}") for line in outputs[-1].lines(f"{number}_{at}", words, value.null)
        ]
    writes += [f"k{number}[size{number}] = tick", f"l{number}[size{number}] = t", f"size{number} += 1"]
    return [*emit.taken(), *writes], outputs
