"""Generates the filters of a kernel: the prefilter once a packet, then the rest of each LFTA's predicate (A1).

Between `low.code.expressions` and `low.code.kernel` (the loop). A predicate that is not true counts as `failed` if a
failure of V2 took part in any of its conjuncts. So a conjunct that can fail is evaluated even after another one is
false, and so is a conjunct that is cheaper than a branch. The others are evaluated in the order of the predicate, until
one is false. For sampled records all conjuncts are evaluated and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr, conjunction, walk
from lowwater.low.code.expressions import FALSE, TRUE, Emitter, Inputs, both, either, indented, is_hosted
from lowwater.plan.properties import PREFILTER_LIMIT, cost

# Generates the code that counts how often each conjunct is true, over a sample of the records. The position in the
# chunk alone decides whether a record is in the sample, so a pass over the same chunks takes the same sample. No
# outcome depends on it. Counting all records would cost more than the counts are worth.

STRETCH, ROUND = 128, 4096
"""The first STRETCH of every ROUND records of a chunk are in the sample: neighbours, since traffic alternates."""

DRAWN = f"drawn = (i & {ROUND - 1}) < {STRETCH}"


@dataclass(frozen=True)
class ConjunctCounts:
    """Positions in the vector `draws` of the two counts of a conjunct.

    Attributes:
        conjunct: the conjunct.
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

    Attributes:
        size: the size of the vector so far.
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
        predicate_rest: the other conjuncts of its predicate.
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
        signatures: the signatures of the LFTAs, in order.
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
            split: the conjuncts of the protocol and of the predicate, for each LFTA.
            inputs: the inputs of the kernel.
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
        number: the number of the LFTA in the kernel.
        before: the statements that `member` needs.
        member: the test whether the record is of the protocol.
        between: the statements that `accepts` needs.
        accepts: the test whether the predicate is true.
        failed: the test whether a failure took part in the predicate.
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
        emit: the emitter of the node.
        signature: the tests of the LFTA.
        number: the number of the node in the kernel.
        sampler: counts the remaining conjuncts.
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
