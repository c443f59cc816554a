"""Everything that must not change a row, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from lowwater.low import Policy

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Choice:
    """Settings of one evaluation that the law ignores; durations in ns."""

    interval: int | None
    long: int | None
    order: int | None
    period: int
    policy: str
    chunk_rows: int
    task_packets: int
    slots: int
    adjacent: bool
    flush: str
    pace: tuple[int, int]
    partitions: int
    few: bool
    kills: tuple[int, ...] = ()

    @property
    def shares(self) -> int:
        """Shares of each slice, 0 for as many as its rows ask for."""
        return Random(repr(self)).choice((0, 0, 1, 2, 3, 5, 64))

    @property
    def shared_rows(self) -> int:
        """Rows of an epoch from which the low level writes them by share; it follows from the rest as well."""
        return Random(repr(self) + "low").choice((1, 5, 1 << 16))

    @property
    def together(self) -> int:
        """Most intervals of a batch where rows are published, 0 where they are not; it follows from the rest as well.
        `fuzz` publishes wherever processes are killed, and in a quarter of the other cases."""
        return Random(repr(self) + "together").choice((1, 2, 3, 5) if self.kills else (*9 * (0,), 2, 3, 5))

    @property
    def high(self) -> dict[str, int]:
        """Settings of the high level."""
        return {"tick": self.pace[0], "slice_rows": 40 if self.few else 4, "shares": self.shares}


_KILLS = st.sets(st.integers(0, 7), min_size=1, max_size=3).map(lambda numbers: tuple(sorted(numbers)))


def choices(span: int) -> st.SearchStrategy[Choice]:
    """Any settings for packets over `span` ns, with few enough intervals."""
    shares = st.integers(span // 9 + SECOND, span + SECOND)
    return st.builds(
        Choice,
        st.one_of(st.none(), st.sampled_from((max(7 * SECOND, span // 9), 60 * SECOND)), shares),
        st.one_of(st.none(), st.none(), st.integers(span // 3 + SECOND, span + SECOND)),
        st.one_of(st.none(), st.integers(0, 99)),
        st.sampled_from((SECOND // 10, SECOND, 5 * SECOND, 61 * SECOND)),
        st.sampled_from([str(policy) for policy in (Policy.PERIODIC, *Policy)]),
        st.sampled_from((1, 7, 65536)),
        st.sampled_from((8, 19, 1 << 22)),
        st.sampled_from((1, 2, 4, 1024)),
        st.booleans(),
        st.sampled_from((*["immediate"] * 3, "slow 1", "slow 3", "oop-slow 2 2", "lazy 1")),
        st.sampled_from(
            ((SECOND, 1), (10 * SECOND, 2), (SECOND, 5), (900 * SECOND, 5), *[(span // 4 + SECOND, 64)] * 2)
        ),
        st.sampled_from((1, 2, 3)),
        st.booleans(),
        st.integers(0, 5).flatmap(lambda number: st.just(()) if number else _KILLS),
    )
