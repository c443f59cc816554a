"""Lists the generated kernels of a plan for a reader, with comments that explain the names.

Beside `low.code.kernel`; `lowwater explain --kernel` prints it. The compiled source has no comments, so it holds no
names of queries, and plans that differ in names alone share a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lowwater.catalog.expr import Const, Expr, Param, show
from lowwater.low.code.eviction import FROM, SIZE
from lowwater.low.code.kernel import NodeProgram, Program, generate
from lowwater.low.code.partial_evaluation import of_link
from lowwater.low.settings import LowSettings
from lowwater.plan.operators import Lfta
from lowwater.plan.prefilter import choose_prefilters

_LINE_LENGTH = 110


def list_kernels(lftas: Sequence[Lfta], settings: LowSettings) -> str:
    """Returns the kernels of all links that some LFTAs read; links with the same kernel share a listing.

    Raises:
        UnsupportedError: an expression cannot run at the low level.
    """
    links_by_listing: dict[str, list[str]] = {}
    for link in sorted({link for lfta in lftas for link in lfta.links}):
        reading = [lfta for lfta in lftas if link in lfta.links and lfta.kind == "pcap"]
        if reading:
            links_by_listing.setdefault(_listing(reading, link, settings), []).append(link)
    parts = [f"{_comment(f'kernel of {_links(links)}')}\n{text}" for text, links in links_by_listing.items()]
    return "\n\n".join(parts)


def _links(links: Sequence[str]) -> str:
    return f"link{'s' if len(links) > 1 else ''} {', '.join(links)}"


def _comment(text: str) -> str:
    """Returns a comment line. Characters that cannot be printed become `?`, so no name can end the comment."""
    printable = "".join(letter if letter.isprintable() else "?" for letter in text)
    return f"# {printable if len(printable) <= _LINE_LENGTH else printable[: _LINE_LENGTH - 3] + '...'}"


def _listing(lftas: Sequence[Lfta], link: str, settings: LowSettings) -> str:
    program = generate(lftas, link, settings)
    notes = ["a: arrival of record i, t: its timestamp, ns; arithmetic: lowwater/low/runtime/arithmetic.py"]
    notes += [
        f"c{at}[i]: {name}; m{at}: a bit a record, 1 where it is not NULL" for at, name in enumerate(program.columns)
    ]
    notes += [f"p{at}_0: {_parameter(param)}" for at, param in enumerate(program.params)]
    notes += list(_bits(lftas, link))
    for number, (lfta, node) in enumerate(zip(lftas, program.nodes, strict=True)):
        notes += _node(number, lfta, node, link)
    lines = [*map(_comment, notes), *_functions(program, lftas)]
    return "\n".join(lines) + "\n"


def _parameter(param: Const | Param) -> str:
    return f"${param.name}" if isinstance(param, Param) else f"${param.param}"


def _bits(lftas: Sequence[Lfta], link: str) -> Iterator[str]:
    for prefilter in choose_prefilters(lftas):
        if link in prefilter.links:
            for at, (bit, shared) in enumerate(zip(prefilter.bits, prefilter.shared, strict=True)):
                yield f"bit {at} of bits: {show(of_link(bit, link))}; asked by {shared}"


def _node(number: int, lfta: Lfta, node: NodeProgram, link: str) -> list[str]:
    kind = f"aggregation, {node.width} words a group of which {node.key} are the key" if node.width else "selection"
    notes = [f"node {number}: LFTA {lfta.name}, {kind}; s{number}[{FROM}]: first timestamp, s{number}[{SIZE}]: rows"]
    notes += [f"  predicate: {show(of_link(lfta.predicate, link))}"] if lfta.predicate is not None else []
    names = [(field.name, f"o{number}_{at}") for at, field in enumerate(lfta.fields)]
    columns = ((name, place) for (name, place), output in zip(names, node.outputs, strict=True) if output.written)
    notes.append(f"  rows: {', '.join(f'{place} = {name}' for name, place in columns)}")
    exprs = [(key.name, key.expr) for key in lfta.keys]
    exprs += [
        (f"{part.name}: {part.function} of", part.argument) for part in lfta.partials if part.argument is not None
    ]
    notes += [f"  {name} {show(expr)}" for name, expr in exprs]
    return notes + [f"  beside: {_beside(number, node, at)}" for at in range(len(node.beside))]


def _beside(number: int, node: NodeProgram, at: int) -> str:
    value, _, part = node.beside[at].partition(".")
    expr: Expr = node.hosted[int(value)]
    return f"hn{number}_{at} = {'whether it failed of ' if part == 'failed' else ''}{show(expr)}"


def _functions(program: Program, lftas: Sequence[Lfta]) -> Iterator[str]:
    about: Mapping[str, str] = {f"s{number}": lfta.name for number, lfta in enumerate(lftas)}
    for function in program.functions:
        yield ""
        for line in function.text.split("\n"):
            test = line.strip().removeprefix("if t >= ").partition("[")[0]
            if line.strip().startswith("if t >= s") and test in about:
                indent = line[: len(line) - len(line.lstrip())]
                yield f"{indent}{_comment(f'LFTA {about[test]}')}"
            yield line
