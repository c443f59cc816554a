"""The prefilter and the signatures as code: cheap conjuncts once a packet, then what is left for each LFTA (A1).

Between `low.code.expressions` (expressions) and `low.code.kernel` (the loop). A predicate that is not true is `failed`
where a failure of V2 took part in any of its conjuncts, so what can fail is evaluated even where another one has
decided, and so is what costs less than a branch. The others are asked in the order of the predicate, as long as
nothing has decided. Of the records that are drawn every conjunct is asked and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.catalog.expr import Expr, conjunction, walk
from lowwater.low.code.conjunct_sampling import Drawing
from lowwater.low.code.expressions import Emitter, Inputs
from lowwater.low.code.partial_evaluation import hosted
from lowwater.low.code.values import FALSE, TRUE, both, either, indented
from lowwater.plan.properties.cost import PREFILTER_LIMIT, cost

OUTCOMES = 6
NOT_OF_PROTOCOL, FILTERED, FAILED, SAMPLED_OUT, SHED, ACCEPTED = range(OUTCOMES)
"""Outcomes of a record (SEMANTICS A1)."""


@dataclass(frozen=True)
class Signature:
    """What one LFTA asks of a record: bits and what is left, of its protocol and of its predicate."""

    member: int
    member_rest: Expr | None
    predicate: int
    predicate_rest: tuple[Expr, ...]
    may_fail: int


@dataclass(frozen=True)
class Prefilter:
    """The conjuncts that are computed once a packet.

    Attributes:
        lines: the statements that make `met` and, where any can fail, `faults`.
        signatures: the signatures of the LFTAs, in order.
        known: the bit of each conjunct.
    """

    lines: list[str]
    signatures: list[Signature]
    known: dict[Expr, int]

    @staticmethod
    def of(bits: Sequence[Expr], split: Sequence[tuple[list[Expr], list[Expr]]], inputs: Inputs) -> Prefilter:
        """The prefilter of some conjuncts.

        Args:
            bits: of the plan, as the link sees them; those that need more than the kernel has stay with the LFTAs.
            split: the conjuncts of the protocol and of the predicate of each LFTA.
            inputs: the inputs of the kernel.
        """
        known = {bit: at for at, bit in enumerate(bits) if not any(hosted(node) for node in walk(bit))}
        emit = Emitter(inputs)
        words = {at: emit.value(bit) for bit, at in known.items()}
        may_fail = sum(1 << at for at, value in words.items() if value.failed != FALSE)
        lines = emit.taken()
        if words:
            lines.append("met = " + " | ".join(_flag(at, value.words[0]) for at, value in words.items()))
        if may_fail:
            faults = [_flag(at, value.failed) for at, value in words.items() if value.failed != FALSE]
            lines.append("faults = " + " | ".join(faults))
        signatures = []
        for member, predicate in split:
            masks = [
                sum(1 << at for at in {known[part] for part in parts if part in known}) for parts in (member, predicate)
            ]
            rests = [[part for part in parts if part not in known] for parts in (member, predicate)]
            left = conjunction(rests[0]), tuple(dict.fromkeys(rests[1]))
            signatures.append(Signature(masks[0], left[0], masks[1], left[1], may_fail & masks[1]))
        return Prefilter(lines, signatures, known)


def _flag(at: int, test: str) -> str:
    return f"({word(1 << at)} if {test} else 0)"


def word(mask: int) -> str:
    """A mask of 64 bits as a word with sign."""
    return f"({mask - (1 << 64)})" if mask >> 63 else str(mask)


@dataclass(frozen=True)
class Test:
    """The code that decides about a record of one LFTA.

    Attributes:
        member: whether it is of the protocol; `before` the statements that this needs besides the bits.
        kept: whether the predicate is true; `between` the statements for it.
        failed: whether a failure took part in it.
        early: a test without statements that tells that it is rejected; FALSE where there is none.
        thinned: what sampling and load shedding say of a record of the protocol: 0, or the outcome (O5); else empty.
    """

    number: int
    before: list[str]
    member: str
    between: list[str]
    kept: str
    failed: str
    early: str
    thinned: str

    def around(self, accepted: list[str]) -> list[str]:
        """The statements for a record, with those for one that is accepted."""
        taken = [_count(self.number, ACCEPTED), *accepted]
        outcome = self._rejected()
        body = taken if self.kept == TRUE else [f"if {self.kept}:", *indented(taken), "else:", *indented(outcome)]
        body = [*self.between, *body]
        if self.thinned:
            place = _count(self.number, self.thinned)
            body = [f"if {self.thinned} != 0:", f"    {place}", "else:", *indented(body)]
        if self.early != FALSE:
            refused = self._unlike(outcome)
            body = [f"if {self.early}:", *indented(refused), "else:", *indented(body)]
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


def filtering(emit: Emitter, signature: Signature, number: int, drawing: Drawing, thinned: str = "") -> Test:
    """The code of a signature and of what is left beside it.

    Args:
        emit: of the node.
        signature: what is asked.
        number: the number of the node in the kernel.
        drawing: counts what is left of the predicate.
        thinned: as of the Test.
    """
    member, faulty = _bits(signature.member), FALSE
    if signature.member_rest is not None:
        member = both(member, emit.value(signature.member_rest).words[0])
    before = emit.taken()
    later, first = divided(signature.predicate_rest)
    asked = [emit.value(part) for part in first]
    faulty = either(*(value.failed for value in asked))
    failed = either(f"faults & {word(signature.may_fail)} != 0" if signature.may_fail else FALSE, faulty)
    early = FALSE
    if signature.member_rest is None and faulty == FALSE and not thinned:
        # Nothing that is left can fail, so the bits alone may reject.
        mask = signature.member | signature.predicate
        early = f"met & {word(mask)} != {word(mask)}" if mask else FALSE
    kept = both(TRUE if early != FALSE else _bits(signature.predicate), *(value.words[0] for value in asked))
    between, found = emit.taken(), {part: value.words[0] for part, value in zip(first, asked, strict=True)}
    for part in later:
        found[part] = emit.value(part).words[0]
        lines = emit.taken()
        if kept == TRUE:
            between, kept = [*between, *lines], found[part]
            continue
        # What an earlier one has decided is asked only of a drawn record.
        between += [f"go = {kept}", "if go | drawn:", *indented([*lines, f"go = {both('go', found[part])}"])]
        kept = "go"
    return Test(number, before, member, between + drawing.counted(found), kept, failed, early, thinned)


def divided(parts: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    """The conjuncts that are put off until the others are true, and those that are always asked: they may fail (V2), or
    they are cheap."""
    probe = Emitter(Inputs())
    asked = {part for part in parts if cost(part) < PREFILTER_LIMIT or probe.value(part).failed != FALSE}
    return [part for part in parts if part not in asked], [part for part in parts if part in asked]


def _bits(mask: int) -> str:
    return f"(met & {word(mask)} == {word(mask)})" if mask else TRUE
