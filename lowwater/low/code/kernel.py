"""Generates the kernel of a link: its filters, and one pass over its packets for all LFTAs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lowwater.catalog.expr import Const, Expr, Param, Type, columns_of, conjunction, conjuncts, show, walk
from lowwater.catalog.schemas import stored
from lowwater.low.code.aggregation import BLOCK as BLOCK, FROM, SIZE, Epoch, Grouping, taken_name
from lowwater.low.code.expressions import (
    FALSE,
    OUTCOME,
    OWN_SKEW,
    TRUE,
    Emitter,
    Inputs,
    both,
    either,
    indented,
    is_hosted,
    node_name,
    of_link,
)
from lowwater.low.code.row_buffers import OutputColumn
from lowwater.low.settings import LowSettings
from lowwater.plan.operators import Lfta
from lowwater.plan.properties import PREFILTER_LIMIT, choose_prefilters, cost

# Filters: the prefilter once a packet, then the rest of each LFTA's predicate (A1). A predicate that is not true counts
# as `failed` if a failure of V2 took part in any of its conjuncts. So a conjunct that can fail is evaluated even after
# another one is false, and so is a conjunct that is cheaper than a branch. The others are evaluated in the order of the
# predicate, until one is false. For sampled records all conjuncts are evaluated and counted.

# Counts of conjuncts, over a sample of the records. The position in the chunk alone decides whether a record is in the
# sample, so a pass over the same chunks takes the same sample. No outcome depends on it. Counting all records would
# cost more than the counts are worth.

STRETCH, ROUND = 128, 4096
"""The first STRETCH of every ROUND records of a chunk are in the sample: neighbours, since traffic alternates."""

DRAWN = f"drawn = (i & {ROUND - 1}) < {STRETCH}"


@dataclass(frozen=True)
class ConjunctCounts:
    """Positions in the vector `draws` of the two counts of a conjunct.

    Attributes:
        asked: position of the number of records for which it was evaluated.
        true: position of the number of records for which it is true.
    """

    conjunct: Expr
    asked: int
    true: int


@dataclass
class ConjunctSampler:
    """Assigns the counts of a kernel to positions in the vector `draws`.

    Args:
        bits: the number of conjuncts in the prefilter, which are counted over all records of the link.
    """

    bits: int
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = 1 + self.bits

    @property
    def sampling(self) -> list[str]:
        """The statements that decide whether a record is in the sample, and count its prefilter bits."""
        count = ["draws[0] += 1", f"for b in range({self.bits}):", "    draws[1 + b] += (met >> b) & 1"]
        return [DRAWN, "if drawn:", *indented(count if self.bits else count[:1])]

    def counting(self, tests: Mapping[Expr, str]) -> list[str]:
        """Returns the statements that count the rest of an LFTA's predicate over the sampled records that reach it.

        Args:
            tests: conjunct -> code of its test.
        """
        if not tests:
            return []
        begin, self.size = self.size, self.size + 1 + len(tests)
        counts = [f"draws[{begin + 1 + at}] += 1 if {test} else 0" for at, test in enumerate(tests.values())]
        return ["if drawn:", *indented([f"draws[{begin}] += 1", *counts])]

    def positions(
        self, parts: Sequence[Expr], bits: Mapping[Expr, int], rest: Sequence[Expr], begin: int
    ) -> list[ConjunctCounts]:
        """Returns the positions of the counts of a predicate's conjuncts.

        Args:
            parts: all conjuncts, in order.
            bits: conjunct in the prefilter -> its bit.
            rest: the other conjuncts, in the order in which `counting` got them.
            begin: the size of the vector when `counting` got them.
        """
        at = {part: begin + 1 + place for place, part in enumerate(rest)}
        return [
            ConjunctCounts(p, 0, 1 + bits[p]) if p in bits else ConjunctCounts(p, begin, at[p])
            for p in dict.fromkeys(parts)
        ]


OUTCOMES = 6
NOT_OF_PROTOCOL, FILTERED, FAILED, SAMPLED_OUT, SHED, ACCEPTED = range(OUTCOMES)
"""Outcomes of a record (SEMANTICS A1)."""


@dataclass(frozen=True)
class LftaSignature:
    """The tests of one LFTA: prefilter bits and further conjuncts, for its protocol and for its predicate.

    Attributes:
        member: mask of the bits of its protocol.
        member_rest: the other conjuncts of its protocol; None for none.
        predicate: mask of the bits of its predicate.
        may_fail: mask of the bits of its predicate that can fail.
    """

    member: int
    member_rest: Expr | None
    predicate: int
    predicate_rest: tuple[Expr, ...]
    may_fail: int


@dataclass(frozen=True)
class PrefilterCode:
    """The prefilter of a kernel as code.

    Attributes:
        lines: the statements that compute `met` and, if a conjunct can fail, `faults`.
        bit_of: conjunct -> its bit.
    """

    lines: list[str]
    signatures: list[LftaSignature]
    bit_of: dict[Expr, int]

    @staticmethod
    def of(bits: Sequence[Expr], split: Sequence[tuple[list[Expr], list[Expr]]], inputs: Inputs) -> PrefilterCode:
        """Generates the prefilter of some conjuncts.

        Args:
            bits: the prefilter bits of the plan, as the link sees them. A bit that needs a host value stays with the
                LFTAs.
        """
        bit_of = {bit: at for at, bit in enumerate(bits) if not any(is_hosted(node) for node in walk(bit))}
        emit = Emitter(inputs)
        words = {at: emit.value(bit) for bit, at in bit_of.items()}
        may_fail = sum(1 << at for at, value in words.items() if value.failed != FALSE)
        lines = emit.take_lines()
        if words:
            lines.append("met = " + " | ".join(_flag(at, value.words[0]) for at, value in words.items()))
        if may_fail:
            faults = [_flag(at, value.failed) for at, value in words.items() if value.failed != FALSE]
            lines.append("faults = " + " | ".join(faults))
        signatures = []
        for member, predicate in split:
            masks = [
                sum(1 << at for at in {bit_of[part] for part in parts if part in bit_of})
                for parts in (member, predicate)
            ]
            rests = [[part for part in parts if part not in bit_of] for parts in (member, predicate)]
            member_rest, predicate_rest = conjunction(rests[0]), tuple(dict.fromkeys(rests[1]))
            signatures.append(LftaSignature(masks[0], member_rest, masks[1], predicate_rest, may_fail & masks[1]))
        return PrefilterCode(lines, signatures, bit_of)


def _flag(at: int, test: str) -> str:
    return f"({word(1 << at)} if {test} else 0)"


def word(mask: int) -> str:
    """Returns a mask of 64 bits as a signed literal."""
    return f"({mask - (1 << 64)})" if mask >> 63 else str(mask)


@dataclass(frozen=True)
class RecordTest:
    """The code that decides about a record for one LFTA.

    Attributes:
        before: the statements that `member` needs.
        member: the test whether the record is of the protocol.
        between: the statements that `accepts` needs.
        accepts: the test whether the predicate is true.
        early: a test, without statements, that already rejects a record; FALSE for none.
        thinned: the code of what sampling and load shedding do with a record: 0 to keep it, else the outcome (O5);
            empty without them.
    """

    number: int
    before: list[str]
    member: str
    between: list[str]
    accepts: str
    failed: str
    early: str
    thinned: str

    def around(self, accepted: list[str]) -> list[str]:
        """Returns the statements for a record, around the statements for an accepted one."""
        on_accept = [_count(self.number, ACCEPTED), *accepted]
        outcome = self._rejected()
        body = (
            on_accept
            if self.accepts == TRUE
            else [f"if {self.accepts}:", *indented(on_accept), "else:", *indented(outcome)]
        )
        body = [*self.between, *body]
        if self.thinned:
            place = _count(self.number, self.thinned)
            body = [f"if {self.thinned} != 0:", f"    {place}", "else:", *indented(body)]
        if self.early != FALSE:
            on_reject = self._unlike(outcome)
            body = [f"if {self.early}:", *indented(on_reject), "else:", *indented(body)]
        elif self.member != TRUE:
            body = [f"if {self.member}:", *indented(body), "else:", f"    {_count(self.number, NOT_OF_PROTOCOL)}"]
        return [*self.before, *body]

    def _rejected(self) -> list[str]:
        return _either(self.failed, [_count(self.number, FAILED)], [_count(self.number, FILTERED)])

    def _unlike(self, outcome: list[str]) -> list[str]:
        return _either(self.member, outcome, [_count(self.number, NOT_OF_PROTOCOL)])


def _either(test: str, met: list[str], other: list[str]) -> list[str]:
    if test == TRUE:
        return met
    return other if test == FALSE else [f"if {test}:", *indented(met), "else:", *indented(other)]


def _count(number: int, outcome: int | str) -> str:
    return f"counts[place, {OUTCOMES * number} + {outcome}] += 1"


def filter_code(
    emit: Emitter, signature: LftaSignature, number: int, sampler: ConjunctSampler, thinned: str = ""
) -> RecordTest:
    """Generates the test of a signature and of the remaining conjuncts.

    Args:
        thinned: as in `RecordTest`.
    """
    member, faulty = _bits(signature.member), FALSE
    if signature.member_rest is not None:
        member = both(member, emit.value(signature.member_rest).words[0])
    before = emit.take_lines()
    later, first = split_conjuncts(signature.predicate_rest)
    values = [emit.value(part) for part in first]
    faulty = either(*(value.failed for value in values))
    failed = either(f"faults & {word(signature.may_fail)} != 0" if signature.may_fail else FALSE, faulty)
    early = FALSE
    if signature.member_rest is None and faulty == FALSE and not thinned:
        # The remaining conjuncts cannot fail, so the bits alone may reject.
        mask = signature.member | signature.predicate
        early = f"met & {word(mask)} != {word(mask)}" if mask else FALSE
    accepts = both(TRUE if early != FALSE else _bits(signature.predicate), *(value.words[0] for value in values))
    between, tests = emit.take_lines(), {part: value.words[0] for part, value in zip(first, values, strict=True)}
    for part in later:
        tests[part] = emit.value(part).words[0]
        lines = emit.take_lines()
        if accepts == TRUE:
            between, accepts = [*between, *lines], tests[part]
            continue
        # After an earlier conjunct is false, this one is evaluated for sampled records only.
        between += [f"go = {accepts}", "if go | drawn:", *indented([*lines, f"go = {both('go', tests[part])}"])]
        accepts = "go"
    return RecordTest(number, before, member, between + sampler.counting(tests), accepts, failed, early, thinned)


def split_conjuncts(parts: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    """Divides conjuncts into those that are evaluated only while the others are true, and those that always are.

    The second kind can fail (V2) or is cheap.
    """
    probe = Emitter(Inputs())
    always = {part for part in parts if cost(part) < PREFILTER_LIMIT or probe.value(part).failed != FALSE}
    return [part for part in parts if part not in always], [part for part in parts if part in always]


def _bits(mask: int) -> str:
    return f"(met & {word(mask)} == {word(mask)})" if mask else TRUE


# The kernel: one pass over the packets of a link for all LFTAs. For every record the kernel checks the order, stops if
# a promise is due, finds the minute that counts it, and computes the bits of the prefilter. Then, for each LFTA, it
# tests the signature and the rest of the predicate, and makes a row or updates a group. Every outcome is counted by
# name (SEMANTICS A1).

# Selections: an accepted record becomes a row at once (000 section 4.3)


def selection_code(
    emit: Emitter, lfta: Lfta, link: str, number: int
) -> tuple[list[str], list[str], list[OutputColumn]]:
    """Generates the code of a selection.

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


SKEW, LOWEST, STOP, START, PERIOD, DUE, BASE, CLOCK, SEEN, TICK, LATE, REASON, TOUCHED, PLACES = range(14)
"""Positions in the state of a link; the kernel writes those from SEEN on."""

ENDED, UNORDERED, PROMISE, MINUTE_ENDS = range(4)
"""Reasons for which the kernel stops before a record: none, arrivals decrease, a promise is due, or the window of
minutes does not hold its timestamp."""

MINUTE = 60_000_000_000

_HEAD = f"""    skew, lowest, stop, start = link[{SKEW}], link[{LOWEST}], link[{STOP}], link[{START}]
    period, due, base, clock = link[{PERIOD}], link[{DUE}], link[{BASE}], link[{CLOCK}]
    seen, tick, lates, reason, done = link[{SEEN}], link[{TICK}], 0, {ENDED}, end
    minute, here, touched = -{MINUTE}, 0, 0"""

_ORDER = f"""a = int(at[i])
t = int(ts[i])
if a < clock:
    reason, done = {UNORDERED}, i
    break
clock = a"""

_LATE = """late[lates] = i
lates += 1
continue"""

_COUNT = f"""place = 0
if t >= start:
    if t < minute or t >= minute + {MINUTE}:
        here = t // {MINUTE} - base + 1
        if here < 1 or here >= counts.shape[0]:
            reason, done = {MINUTE_ENDS}, i
            break
        minute = t // {MINUTE} * {MINUTE}
    place = here
counts[place, counts.shape[1] - 1] += 1
seen = a"""

_DUE = f"""if a >= due:
    reason, done = {PROMISE}, i
    break"""

_TICKING = """if a >= tick:
    tick = tick_after(a, period)"""

_TAIL = f"""    link[{TOUCHED}] ^= touched
    link[{CLOCK}], link[{SEEN}], link[{TICK}], link[{LATE}], link[{REASON}] = clock, seen, tick, lates, reason"""


@dataclass(frozen=True)
class GeneratedFunction:
    """A function of generated source. An entry is called from outside of generated code."""

    name: str
    text: str
    entry: bool = False


@dataclass(frozen=True)
class NodeProgram:
    """The inputs and outputs of the code of one LFTA, besides the packets.

    Attributes:
        width: the number of words of a row of its table; 0 for a selection.
        key: the number of these words that are the key.
        taken: the columns that records pass to users' sub-aggregates (`low.runtime.node`); empty without any.
        hosted, beside: the host values and their columns, as in the Emitter.
        drawn: the positions of the counts of its predicate's conjuncts, in order.
    """

    outputs: tuple[OutputColumn, ...]
    width: int
    key: int
    epochs: tuple[Epoch, ...]
    taken: tuple[OutputColumn, ...]
    hosted: tuple[Expr, ...]
    beside: tuple[str, ...]
    drawn: tuple[ConjunctCounts, ...]


@dataclass(frozen=True)
class Program:
    """The generated kernel of a link.

    Attributes:
        functions: the functions, in order of definition; the last is `kernel`.
        columns, params: as in Inputs.
        draws: the size of the vector of counts of sampled records.
    """

    functions: tuple[GeneratedFunction, ...]
    columns: tuple[str, ...]
    params: tuple[Const | Param, ...]
    nodes: tuple[NodeProgram, ...]
    draws: int


def generate(lftas: Sequence[Lfta], link: str, settings: LowSettings) -> Program:
    """Generates the kernel of some LFTAs for one link (000 section 4.1: compiled low-level queries).

    Raises:
        UnsupportedError: min or max of strings, or more than 60 keys or partials.
    """
    inputs = Inputs()
    prefilter = prefilter_of(lftas, link, inputs)
    functions: list[GeneratedFunction] = []
    nodes: list[NodeProgram] = []
    parameters: list[str] = []
    before: list[str] = []
    drains: list[str] = []
    ticking = [] if all(lfta.aggregates for lfta in lftas) else _TICKING.split("\n")
    sampler = ConjunctSampler(len(prefilter.bit_of))
    has_predicate = any(signature.predicate or signature.predicate_rest for signature in prefilter.signatures)
    skew = "skew" if settings.skews is None else f"int(c{inputs.column(OWN_SKEW)}[i])"
    loop = [*ticking, *prefilter.lines, *(sampler.sampling if has_predicate else [])]
    late: list[str] = []
    for number, lfta in enumerate(lftas):
        emit = Emitter(inputs, node_name(number))
        drawn = _count_positions(lfta, link, prefilter, number, sampler)
        thins = lfta.sample is not None or settings.shed is not None
        thinned = f"int(c{inputs.column(f'{OUTCOME} {node_name(number)}')}[i])" if thins else ""
        outputs: Sequence[OutputColumn]
        if lfta.aggregates:
            test = filter_code(emit, prefilter.signatures[number], number, sampler, thinned)
            group = Grouping(emit, lfta, link, number, settings)
            functions += [GeneratedFunction(name, "\n".join(lines), entry) for name, lines, entry in group.functions()]
            accepted, outputs, epochs, width = group.lines, group.outputs, tuple(group.epochs), group.width
            key, taken = group.key, tuple(group.taken)
            before += group.before
            drains += group.drain
        else:
            test = filter_code(emit, prefilter.signatures[number], number, sampler, thinned)
            block_lines, accepted, outputs = selection_code(emit, lfta, link, number)
            before += block_lines
            epochs, width, key, taken = (), 0, 0, ()
        hosted, beside = tuple(emit.hosted), tuple(emit.beside)
        nodes.append(NodeProgram(tuple(outputs), width, key, epochs, taken, hosted, beside, drawn))
        loop += _node_lines(lfta, number, test, accepted, outputs)
        late += accepted if lfta.whole else null_row(outputs, number) if lfta.numbered else []
        names = [name for at, output in enumerate(outputs) for name in output.parameters(f"{number}_{at}")]
        parameters += [
            f"s{number}",
            *([f"t{number}", f"q{number}"] if width else []),
            *(name for at, output in enumerate(taken) for name in output.parameters(taken_name(number, at))),
            f"k{number}",
            *([] if width else [f"l{number}"]),
        ]
        parameters += [*names, *(f"{kind}n{number}_{at}" for at in range(len(emit.beside)) for kind in "hg")]
    # A promise that is due comes before the row of a late record.
    first = [*_DUE.split("\n"), *ticking, *late] if late else []
    loop = [*_record_lines(skew, first), *loop]
    functions.append(GeneratedFunction("kernel", _kernel(loop, before, drains, parameters, inputs, len(lftas)), True))
    return Program(tuple(functions), tuple(inputs.columns), tuple(inputs.params), tuple(nodes), sampler.size)


def _record_lines(skew: str, late: list[str]) -> list[str]:
    """Returns the statements for every record, before those of the LFTAs.

    Args:
        skew: the code of the record's skew, ns.
    """
    lines = [*_ORDER.split("\n"), f"if is_late(a, t, {skew}):", *indented([*late, *_LATE.split("\n")])]
    lines += ["if t < lowest or t >= stop:", "    continue"]
    return [*lines, *_DUE.split("\n"), *_COUNT.split("\n")]


def _node_lines(
    lfta: Lfta, number: int, test: RecordTest, accepted: list[str], outputs: Sequence[OutputColumn]
) -> list[str]:
    """Returns the statements of an LFTA for a record in order; an LFTA by arrival counts all records."""
    if not lfta.arrival:
        return [f"if t >= s{number}[{FROM}]:", *indented(test.around(accepted))]
    if lfta.whole or not lfta.numbered:
        return test.around(accepted)
    other = [f"if size{number} == before:", *indented(null_row(outputs, number))]
    return [f"before = size{number}", *test.around(accepted), *other]


def _count_positions(
    lfta: Lfta, link: str, prefilter: PrefilterCode, number: int, sampler: ConjunctSampler
) -> tuple[ConjunctCounts, ...]:
    """Returns the positions of the counts of a predicate's conjuncts, which `filter_code` assigns afterwards."""
    deferred, always = split_conjuncts(prefilter.signatures[number].predicate_rest)
    parts = [of_link(part, link) for part in conjuncts(lfta.predicate)]
    return tuple(sampler.positions(parts, prefilter.bit_of, [*always, *deferred], sampler.size))


def prefilter_of(lftas: Sequence[Lfta], link: str, inputs: Inputs) -> PrefilterCode:
    """Generates the prefilter of the plan for one link, with the signatures of the LFTAs."""
    prefilter = next((candidate for candidate in choose_prefilters(lftas) if link in candidate.links), None)
    bits = [] if prefilter is None else [of_link(bit, link) for bit in prefilter.bits]
    split = [
        (
            [of_link(part, link) for part in conjuncts(lfta.member)],
            [of_link(part, link) for part in conjuncts(lfta.predicate)],
        )
        for lfta in lftas
    ]
    return PrefilterCode.of(bits, split, inputs)


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


# Listings of kernels. The compiled source has no comments, so it holds no names of queries, and plans that differ in
# names alone share a kernel.

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
    notes = ["a: arrival of record i, t: its timestamp, ns; is_late, tick_after: lowwater/catalog/time.py"]
    notes.append("arithmetic: lowwater/low/runtime/arithmetic.py")
    notes += [
        f"c{at}[i]: {name}; m{at}: a bit a record, 1 where it is not NULL" for at, name in enumerate(program.columns)
    ]
    notes += [f"p{at}_0: {_parameter(param)}" for at, param in enumerate(program.params)]
    notes += list(_kernel_bits(lftas, link))
    for number, (lfta, node) in enumerate(zip(lftas, program.nodes, strict=True)):
        notes += _node(number, lfta, node, link)
    lines = [*map(_comment, notes), *_functions(program, lftas)]
    return "\n".join(lines) + "\n"


def _parameter(param: Const | Param) -> str:
    return f"${param.name}" if isinstance(param, Param) else f"${param.param}"


def _kernel_bits(lftas: Sequence[Lfta], link: str) -> Iterator[str]:
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
