"""Everything that must not change a row, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from lowwater.low import Flush, Policy

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Choice:
    """Settings of one evaluation that the law ignores; durations in ns.

    Attributes:
        interval: length of the intervals; None for one.
        period: of the heartbeats, `policy` when they are made.
        chunk_rows: packets that a kernel takes at once; `task_packets` those of a chunk of a link.
        slots: size of the group tables; `adjacent` whether a group may lie in the slot after its own.
        flush: when groups of closed epochs leave them.
        tick: virtual time of a micro-batch, `batches` the most of them.
        partitions: of every shuffle.
        few: whether few rows are replayed as such, else as many rows are.
    """

    interval: int | None
    period: int
    policy: Policy
    chunk_rows: int
    task_packets: int
    slots: int
    adjacent: bool
    flush: Flush
    tick: int
    batches: int
    partitions: int
    few: bool


def choices(
    intervals: tuple[int | None, ...] = (None, 10 * SECOND, 60 * SECOND, 7 * SECOND),
) -> st.SearchStrategy[Choice]:
    """Any settings."""
    return st.builds(
        Choice,
        st.sampled_from(intervals),
        st.sampled_from((SECOND // 10, SECOND, 5 * SECOND, 61 * SECOND)),
        st.sampled_from(list(Policy)),
        st.sampled_from((1, 7, 65536)),
        st.sampled_from((8, 19, 1 << 22)),
        st.sampled_from((1, 2, 4, 1024)),
        st.booleans(),
        st.sampled_from([Flush.parse(text) for text in ("immediate", "slow 1", "slow 3", "oop-slow 2 2", "lazy 1")]),
        st.sampled_from((SECOND, 10 * SECOND, 900 * SECOND)),
        st.sampled_from((1, 2, 5)),
        st.sampled_from((1, 2, 3)),
        st.booleans(),
    )
