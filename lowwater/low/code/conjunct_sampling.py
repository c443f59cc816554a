"""The records that are drawn to count how often each conjunct is true, as code, and where their counts lie.

Beside `low.code.filters`. Which records are drawn depends on their place in the chunk alone, so a pass over the same
chunks draws the same ones; no outcome depends on it. Counting the others as well would cost more than they tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.low.code.values import indented

STRETCH, ROUND = 128, 4096
"""Of every ROUND records of a chunk the first STRETCH are drawn: neighbours, since traffic alternates."""

DRAWN = f"drawn = (i & {ROUND - 1}) < {STRETCH}"


@dataclass(frozen=True)
class Drawn:
    """Where the counts of a conjunct lie: of the drawn records that were asked, and of those of which it is true."""

    conjunct: Expr
    asked: int
    true: int


@dataclass
class Drawing:
    """The counts of a kernel.

    Args:
        bits: conjuncts of the prefilter; they are counted over all records of the link.

    Attributes:
        size: the size of the vector `draws`.
    """

    bits: int
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = 1 + self.bits

    @property
    def first(self) -> list[str]:
        """The statements that draw a record and count its bits."""
        count = ["draws[0] += 1", f"for b in range({self.bits}):", "    draws[1 + b] += (met >> b) & 1"]
        return [DRAWN, "if drawn:", *indented(count if self.bits else count[:1])]

    def counted(self, tests: Mapping[Expr, str]) -> list[str]:
        """The statements that count what is left of one LFTA's predicate, of the records that come so far."""
        if not tests:
            return []
        begin, self.size = self.size, self.size + 1 + len(tests)
        counts = [f"draws[{begin + 1 + at}] += 1 if {test} else 0" for at, test in enumerate(tests.values())]
        return ["if drawn:", *indented([f"draws[{begin}] += 1", *counts])]

    def places(self, parts: Sequence[Expr], known: Mapping[Expr, int], rest: Sequence[Expr], begin: int) -> list[Drawn]:
        """Where the conjuncts of a predicate are counted.

        Args:
            parts: all of them, in order.
            known: those in the prefilter, with their bits.
            rest: the others in the order in which `counted` had them, which began at `begin`.
        """
        at = {part: begin + 1 + place for place, part in enumerate(rest)}
        return [Drawn(p, 0, 1 + known[p]) if p in known else Drawn(p, begin, at[p]) for p in dict.fromkeys(parts)]
