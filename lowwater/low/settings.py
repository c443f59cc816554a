"""What a run of the low level is told, and what it answers.

The public data of `low`, read by `lake` and `replay`; everything here pickles, because links run in worker processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from lowwater.catalog.skews import Skews
from lowwater.errors import ConfigError
from lowwater.low.runtime.flush import IMMEDIATE, Flush


class Policy(StrEnum):
    """When promises are made (SEMANTICS T2); never which rows.

    On demand they are made as periodic ones, and those that nobody waits for are left out when all links are done.
    """

    PERIODIC = "periodic"
    ON_DEMAND = "on-demand"
    DATA_DRIVEN = "data-driven"
    NONE = "none"

    @property
    def made(self) -> Policy:
        """The policy by which the promises of one link are made."""
        return Policy.PERIODIC if self is Policy.ON_DEMAND else self


@dataclass(frozen=True)
class LowSettings:
    """Settings of one link's run; the law ignores all but the skew.

    Attributes:
        skew: bound on the disorder of the link, ns (T2); the largest where its records have several.
        skews: the skews of its records, where they are not all the same (T8).
        period: between ticks, ns.
        policy: of heartbeats.
        chunk_rows: records handled at once; with the tables it bounds the memory.
        slots: size of every group table in place of the planned one, a power of two.
        compiled: by numba; otherwise plain Python (small tests, and links with few records).
        few: records of a link up to which its code is plain Python, unless machine code of it is there; 0 for never.
        shed: most packets of a second of timestamps that an LFTA takes; None for all (O5).
        adjacent: whether a group may also lie in the slot after its own (002, section 6, footnote).
        flush: when groups of closed epochs leave.
        texts: distinct strings (and 256 times as many characters) that an LFTA keeps numbers of; with more its groups
            leave the table.
        task_packets: most packets of a link in one task; a link with more is divided into chunks.
    """

    skew: int
    period: int = 1_000_000_000
    policy: Policy = Policy.PERIODIC
    chunk_rows: int = 65_536
    slots: int | None = None
    compiled: bool = True
    few: int = 50_000
    shed: int | None = None
    adjacent: bool = False
    flush: Flush = IMMEDIATE
    texts: int = 1 << 18
    task_packets: int = 1 << 22
    skews: Skews | None = None

    def __post_init__(self) -> None:
        if self.skew < 0:
            raise ConfigError(f"the skew is {self.skew} ns", "give a duration of 0 or more")
        if self.period <= 0:
            raise ConfigError(f"the heartbeat period is {self.period} ns", "give a duration above 0")
        if self.chunk_rows <= 0:
            raise ConfigError(f"chunk_rows is {self.chunk_rows}", "give 1 or more")
        if self.few < 0:
            raise ConfigError(f"few is {self.few}", "give 0 or more")
        if self.task_packets <= 0:
            raise ConfigError(f"task_packets is {self.task_packets}", "give 1 or more")
        if self.slots is not None and (self.slots <= 0 or self.slots & (self.slots - 1)):
            raise ConfigError(f"a group table of {self.slots} slots", "give a power of two")


@dataclass(frozen=True)
class Bounds:
    """Which records a run reads and owns, ns since the epoch.

    Attributes:
        read_from: first timestamp that an LFTA processes, by its name (I2).
        start: begin of the owned interval.
        end: its end, and that of every read range; END_OF_TIME where unbounded.
        grains: clock between two promises that the readers of an LFTA can use, by its name; 1 where it is not said.
        entered: of a chunk, the link's clock before its first record; -1 where none is before it.
        left: of a chunk, the link's clock after its last record; None where the link ends with it.
        before: of a chunk, how many records of the link at most are before it.
    """

    read_from: dict[str, int]
    start: int
    end: int
    grains: Mapping[str, int] = field(default_factory=dict)
    entered: int = -1
    left: int | None = None
    before: int = 0


@dataclass(frozen=True)
class LftaStatistics:
    """Totals of one LFTA over its whole read range.

    Attributes:
        lfta: its name.
        rows_out: rows written, punctuation not among them.
        punctuations: stored punctuation rows; a lull is one (T4).
        ejections: rows that left the table before their epoch closed, `collisions` of them for another group.
        spared: promises that were left out of the stream because nobody waits for them.
    """

    lfta: str
    rows_out: int
    punctuations: int
    ejections: int
    collisions: int
    spared: int = 0


VIOLATIONS = pa.schema(
    [
        pa.field("capture", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("arrival", pa.int64(), nullable=False),
        pa.field("lateness", pa.int64(), nullable=False),
    ]
)
"""Records later than the skew whose arrival lies in the owned interval (T2, A1)."""

MINUTES = pa.schema(
    [
        pa.field("lfta", pa.string(), nullable=False),
        pa.field("minute", pa.int64(), nullable=False),  # of the timestamp, since the epoch
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in ("sane", "not_of_protocol", "filtered", "failed", "sampled_out", "shed", "accepted")
        ),
    ]
)
"""Accounting of A1 over the sane records whose timestamp lies in the owned interval."""

WORK = pa.schema(
    [
        pa.field("lfta", pa.string(), nullable=False),
        pa.field("minute", pa.int64(), nullable=False),  # of the link's clock, since the epoch
        pa.field("shape", pa.string(), nullable=False),  # what the LFTA computes: `statistics.shape`
        pa.field("records", pa.int64(), nullable=False),  # that the kernel of the link was called for
        pa.field("rows_out", pa.int64(), nullable=False),
        pa.field("punctuations", pa.int64(), nullable=False),  # a lull is one
        pa.field("ejections", pa.int64(), nullable=False),
        pa.field("collisions", pa.int64(), nullable=False),
        pa.field("groups", pa.int64()),  # most in the table at once; NULL for a selection, as the next
        pa.field("slots", pa.int64()),
        pa.field("nanoseconds", pa.int64(), nullable=False),  # processor time: see docs/tuning.md
        pa.field("beat_nanoseconds", pa.int64(), nullable=False),  # of these, for promises
        pa.field("period", pa.int64()),  # between ticks, ns; NULL for another policy
        pa.field("conjuncts", pa.list_(pa.string()), nullable=False),  # of its predicate
        pa.field("asked", pa.list_(pa.int64()), nullable=False),  # drawn records of which each was evaluated
        pa.field("met", pa.list_(pa.int64()), nullable=False),  # of these, for how many it is true
    ]
)
"""What the LFTAs did, by minute; depends on tables, chunks and the machine, so no result may rest on it."""


@dataclass(frozen=True)
class LinkResult:
    """What the pass over one link says besides the rows.

    Attributes:
        link: its name.
        sane: records in order whose timestamp is owned; `violating` ones, whose arrival is.
        statistics: one per LFTA, in the order given.
        minutes: schema MINUTES, by LFTA and minute.
        violations: schema VIOLATIONS, in canonical order.
        work: schema WORK, by LFTA and minute; `statistics.merge_work` adds those of several passes. Two results that
            differ in it alone are equal.
    """

    link: str
    sane: int
    violating: int
    statistics: tuple[LftaStatistics, ...]
    minutes: pa.Table
    violations: pa.Table
    work: pa.Table = field(compare=False)
