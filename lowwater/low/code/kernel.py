"""The kernel of a link, as Python source that numba compiles or Python runs: one pass over its packets for all LFTAs.

Between `low.code.expressions` (expressions) and `low.code.compiler` (loading). For every record: is it in order, is a
promise due before it, which minute counts it, the bits of the prefilter; then each LFTA's signature, the rest of its
predicate, and its row or its group. Every outcome is counted by name (SEMANTICS A1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.catalog.expr import Const, Expr, Param, conjuncts
from lowwater.low.code.aggregation import BLOCK as BLOCK
from lowwater.low.code.aggregation import Grouping, taken_name
from lowwater.low.code.conjunct_sampling import Drawing, Drawn
from lowwater.low.code.eviction import FROM, SIZE, Epoch
from lowwater.low.code.expressions import OUTCOME, OWN_SKEW, Emitter, Inputs, node_name
from lowwater.low.code.filters import Prefilter, Test, divided, filtering
from lowwater.low.code.partial_evaluation import of_link
from lowwater.low.code.rows import Output
from lowwater.low.code.selection import nothing, selecting
from lowwater.low.code.values import indented
from lowwater.low.settings import LowSettings
from lowwater.plan.operators import Lfta
from lowwater.plan.prefilter import choose_prefilters

SKEW, LOWEST, STOP, START, PERIOD, DUE, BASE, CLOCK, SEEN, TICK, LATE, REASON, TOUCHED, PLACES = range(14)
"""Places of the state of a link; the ones from SEEN on are what the kernel answers."""

ENDED, UNORDERED, PROMISE, MINUTES = range(4)
"""Why a kernel stopped before a record: it did not; arrivals decrease; a promise is due; counts lack its minute."""

MINUTE = 60_000_000_000

_HEAD = f"""    skew, lowest, stop, start = link[{SKEW}], link[{LOWEST}], link[{STOP}], link[{START}]
    period, due, base, clock = link[{PERIOD}], link[{DUE}], link[{BASE}], link[{CLOCK}]
    seen, tick, lates, reason, done = link[{SEEN}], link[{TICK}], 0, {ENDED}, end
    minute, here, touched = -{MINUTE}, 0, 0"""

_RECORD = f"""a = int(at[i])
t = int(ts[i])
if a < clock:
    reason, done = {UNORDERED}, i
    break
clock = a
if a - t > SKEW:
    LATE
    late[lates] = i
    lates += 1
    continue
if t < lowest or t >= stop:
    continue
DUE
place = 0
if t >= start:
    if t < minute or t >= minute + {MINUTE}:
        here = t // {MINUTE} - base + 1
        if here < 1 or here >= counts.shape[0]:
            reason, done = {MINUTES}, i
            break
        minute = t // {MINUTE} * {MINUTE}
    place = here
counts[place, counts.shape[1] - 1] += 1
seen = a"""

_DUE = f"""if a >= due:
    reason, done = {PROMISE}, i
    break"""

_TICKING = """if a >= tick:
    tick = (a // period + 1) * period"""

_TAIL = f"""    link[{TOUCHED}] ^= touched
    link[{CLOCK}], link[{SEEN}], link[{TICK}], link[{LATE}], link[{REASON}] = clock, seen, tick, lates, reason"""


@dataclass(frozen=True)
class Function:
    """A function of generated source; an entry is called from outside."""

    name: str
    text: str
    entry: bool = False


@dataclass(frozen=True)
class NodeProgram:
    """What the code of one LFTA reads and writes besides the packets.

    Attributes:
        outputs: columns of its rows.
        width: words of a row of its table; 0 for a selection.
        key: the first of them, which are its key.
        epochs: temporal keys of its groups.
        taken: what every record brings to sub-aggregates of users, as `low.runtime.states` says; empty without any.
        hosted: the values that are computed beside the kernel, `beside` their columns, as the Emitter has them.
        drawn: where the conjuncts of its predicate are counted, in order.
    """

    outputs: tuple[Output, ...]
    width: int
    key: int
    epochs: tuple[Epoch, ...]
    taken: tuple[Output, ...]
    hosted: tuple[Expr, ...]
    beside: tuple[str, ...]
    drawn: tuple[Drawn, ...]


@dataclass(frozen=True)
class Program:
    """The generated kernel of a link.

    Attributes:
        functions: in order of definition; the last is `kernel`.
        columns: as of the Inputs; `params` too.
        nodes: one a LFTA.
        draws: how many counts of drawn records there are.
    """

    functions: tuple[Function, ...]
    columns: tuple[str, ...]
    params: tuple[Const | Param, ...]
    nodes: tuple[NodeProgram, ...]
    draws: int


def generate(lftas: Sequence[Lfta], link: str, settings: LowSettings) -> Program:
    """Generates the kernel of some LFTAs for one link (000 section 4.1: compiled low-level queries).

    Raises:
        UnsupportedError: for min or max of texts, or for more than 60 keys or partials.
    """
    inputs = Inputs()
    prefilter = prefilter_of(lftas, link, inputs)
    functions: list[Function] = []
    nodes: list[NodeProgram] = []
    parameters: list[str] = []
    before: list[str] = []
    drains: list[str] = []
    ticking = [] if all(lfta.aggregates for lfta in lftas) else _TICKING.split("\n")
    drawing = Drawing(len(prefilter.known))
    asks = any(each.predicate or each.predicate_rest for each in prefilter.signatures)
    skew = "skew" if settings.skews is None else f"int(c{inputs.column(OWN_SKEW)}[i])"
    loop = [*ticking, *prefilter.lines, *(drawing.first if asks else [])]
    late: list[str] = []
    for number, lfta in enumerate(lftas):
        emit = Emitter(inputs, node_name(number))
        drawn = _drawn(lfta, link, prefilter, number, drawing)
        thins = lfta.sample is not None or settings.shed is not None
        thinned = f"int(c{inputs.column(f'{OUTCOME} {node_name(number)}')}[i])" if thins else ""
        outputs: Sequence[Output]
        if lfta.aggregates:
            test = filtering(emit, prefilter.signatures[number], number, drawing, thinned)
            group = Grouping(emit, lfta, link, number, settings)
            functions += [Function(name, "\n".join(lines), entry) for name, lines, entry in group.functions()]
            accepted, outputs, epochs, width = group.lines, group.outputs, tuple(group.epochs), group.width
            key, taken = group.key, tuple(group.taken)
            before += group.before
            drains += group.drain
        else:
            test = filtering(emit, prefilter.signatures[number], number, drawing, thinned)
            whole, accepted, outputs = selecting(emit, lfta, link, number)
            before += whole
            epochs, width, key, taken = (), 0, 0, ()
        hosted, beside = tuple(emit.hosted), tuple(emit.beside)
        nodes.append(NodeProgram(tuple(outputs), width, key, epochs, taken, hosted, beside, drawn))
        loop += _of_node(lfta, number, test, accepted, outputs)
        late += nothing(outputs, number) if lfta.numbered else []
        names = [name for at, output in enumerate(outputs) for name in output.parameters(f"{number}_{at}")]
        parameters += [
            f"s{number}",
            *([f"t{number}", f"q{number}"] if width else []),
            *(name for at, output in enumerate(taken) for name in output.parameters(taken_name(number, at))),
            f"k{number}",
            *([] if width else [f"l{number}"]),
        ]
        parameters += [*names, *(f"{kind}n{number}_{at}" for at in range(len(emit.beside)) for kind in "hg")]
    # A promise that is due precedes whatever becomes a row.
    first = [*_DUE.split("\n"), *ticking, *late] if late else []
    loop = [*_record(skew, first), *loop]
    functions.append(Function("kernel", _kernel(loop, before, drains, parameters, inputs, len(lftas)), True))
    return Program(tuple(functions), tuple(inputs.columns), tuple(inputs.params), tuple(nodes), drawing.size)


def _record(skew: str, late: list[str]) -> list[str]:
    """What is asked of every record, with the statements for one that is late."""
    lines: list[str] = []
    for line in _RECORD.replace("SKEW", skew).split("\n"):
        places = {"    LATE": indented(late), "DUE": _DUE.split("\n")}
        lines += places.get(line, [line])
    return lines


def _of_node(lfta: Lfta, number: int, test: Test, accepted: list[str], outputs: Sequence[Output]) -> list[str]:
    """What an LFTA makes of a record in order: by arrival all are counted, whenever they arrive."""
    if not lfta.arrival:
        return [f"if t >= s{number}[{FROM}]:", *indented(test.around(accepted))]
    if not lfta.numbered:
        return test.around(accepted)
    other = [f"if size{number} == before:", *indented(nothing(outputs, number))]
    return [f"before = size{number}", *test.around(accepted), *other]


def _drawn(lfta: Lfta, link: str, prefilter: Prefilter, number: int, drawing: Drawing) -> tuple[Drawn, ...]:
    """Where the conjuncts of a predicate will be counted, once the drawing gets to its node."""
    later, first = divided(prefilter.signatures[number].predicate_rest)
    parts = [of_link(part, link) for part in conjuncts(lfta.predicate)]
    return tuple(drawing.places(parts, prefilter.known, [*first, *later], drawing.size))


def prefilter_of(lftas: Sequence[Lfta], link: str, inputs: Inputs) -> Prefilter:
    """The prefilter of the plan as code, and what of it each LFTA asks for."""
    chosen = next((each for each in choose_prefilters(lftas) if link in each.links), None)
    bits = [] if chosen is None else [of_link(bit, link) for bit in chosen.bits]
    split = [
        (
            [of_link(part, link) for part in conjuncts(lfta.member)],
            [of_link(part, link) for part in conjuncts(lfta.predicate)],
        )
        for lfta in lftas
    ]
    return Prefilter.of(bits, split, inputs)


def _kernel(
    loop: list[str], before: list[str], drains: list[str], parameters: list[str], inputs: Inputs, nodes: int
) -> str:
    words = [word for value in inputs.params for word in inputs.param(value).words]
    columns = [f"{kind}{at}" for at in range(len(inputs.columns)) for kind in "cm"]
    names = ["begin", "end", "block", "at", "ts", "link", "counts", "late", "draws", *parameters, *words, *columns]
    sizes = [f"    size{k} = s{k}[{SIZE}]" for k in range(nodes)]
    ends = [f"    s{k}[{SIZE}] = size{k}" for k in range(nodes)]
    head = [f"def kernel({', '.join(names)}):", *_HEAD.split("\n"), *sizes]
    pieces = [f"while begin < end and reason == {ENDED}:", "    until = min(begin + block, end)"]
    pieces += [*indented(before), "    for i in range(begin, until):", *indented(indented(loop)), *indented(drains)]
    pieces += ["    begin = until"]
    return "\n".join([*head, *indented(pieces), *ends, _TAIL, "    return done"])
