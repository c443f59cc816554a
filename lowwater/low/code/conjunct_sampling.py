"""Generates the code that counts how often each conjunct is true, over a sample of the records.

Beside `low.code.filters`. The position in the chunk alone decides whether a record is in the sample, so a pass over the
same chunks takes the same sample. No outcome depends on it. Counting all records would cost more than the counts are
worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.low.code.operands import indented

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
