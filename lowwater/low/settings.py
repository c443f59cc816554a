"""Settings and results of the low level: the public data of `lowwater.low`, and the policies by which groups are
flushed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from lowwater.catalog import expr as ex, schemas
from lowwater.catalog.time import Skews
from lowwater.errors import ConfigError
from lowwater.plan.operators import Lfta

# Flush policies (002, section 6). No policy changes rows. The code of `low.code.aggregation` and `low.runtime.node`
# read them. A group that stays in the table delays the promise of the stream (P2).


class FlushKind(StrEnum):
    """The kinds of flush policies.

    With IMMEDIATE all groups leave at the promise. With SLOW and OOP_SLOW a group leaves every so many records, in
    order or not. With LAZY groups leave when a collision needs their slot.
    """

    IMMEDIATE = "immediate"
    SLOW = "slow"
    OOP_SLOW = "oop-slow"
    LAZY = "lazy"


_PARAMETERS = {
    FlushKind.IMMEDIATE: (),
    FlushKind.SLOW: ("every",),
    FlushKind.OOP_SLOW: ("every", "windows"),
    FlushKind.LAZY: ("windows",),
}
_MAX_NUMBER = 1_000_000


@dataclass(frozen=True)
class Flush:
    """A flush policy.

    `slow` is the policy of Gigascope: one group leaves every so many records. All remaining ones leave at the next
    close, and also before a collision ejects a group of an open epoch. `oop-slow` keeps no order, and groups may stay
    for some windows. With `lazy` groups leave at collisions only.

    Attributes:
        every: the number of records between two groups that leave.
        windows: how long a group may stay after its epoch has closed, in lengths of its window.

    Example:
        >>> Flush.parse("oop-slow 160 2")
        Flush(kind=<FlushKind.OOP_SLOW: 'oop-slow'>, every=160, windows=2)
    """

    kind: FlushKind = FlushKind.IMMEDIATE
    every: int = 1
    windows: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.every <= _MAX_NUMBER and 0 <= self.windows <= _MAX_NUMBER):
            hint = f"give 1 to {_MAX_NUMBER:,} records, and 0 to {_MAX_NUMBER:,} windows: flush of [replay]"
            raise ConfigError(f"the flush policy {self} is out of bounds", hint)

    @staticmethod
    def parse(text: str) -> Flush:
        """Returns the policy that a text names: a kind, then its numbers.

        Raises:
            ConfigError: the text names no policy.
        """
        word, *numbers = text.split() or [""]
        kinds = {str(kind): kind for kind in FlushKind}
        if (
            word not in kinds
            or len(numbers) != len(_PARAMETERS[kinds[word]])
            or not all(n.isdecimal() for n in numbers)
        ):
            forms = ", ".join(f'"{" ".join((kind, *map(str.upper, _PARAMETERS[kind])))}"' for kind in FlushKind)
            raise ConfigError(f"the flush policy {text!r} is not known", f"write one of {forms}")
        kind = kinds[word]
        parameters = dict(zip(_PARAMETERS[kind], map(int, numbers), strict=True))
        return Flush(kind, **({"windows": 1} if kind is FlushKind.SLOW else {}) | parameters)

    def __str__(self) -> str:
        return " ".join([self.kind, *(str(getattr(self, name)) for name in _PARAMETERS[self.kind])])

    @property
    def steps(self) -> bool:
        """Whether groups leave between promises."""
        return self.kind in (FlushKind.SLOW, FlushKind.OOP_SLOW)

    @property
    def ordered(self) -> bool:
        """Whether groups of closed epochs leave before any group of an open epoch."""
        return self.kind is FlushKind.SLOW

    @property
    def waits(self) -> bool:
        """Whether a group may stay after its epoch has closed."""
        return self.windows > 0


IMMEDIATE = Flush()
"""The policy by which every group leaves at the promise that closes its epoch."""


# Settings and results. Everything here can be pickled, because links run in worker processes.


class Policy(StrEnum):
    """When promises are made (SEMANTICS T2). A policy never changes rows.

    With ON_DEMAND a link makes periodic promises; when all links are done, those that no reader needs are removed.
    """

    PERIODIC = "periodic"
    ON_DEMAND = "on-demand"
    DATA_DRIVEN = "data-driven"
    NONE = "none"

    @property
    def per_link(self) -> Policy:
        """The policy by which one link makes its promises."""
        return Policy.PERIODIC if self is Policy.ON_DEMAND else self


@dataclass(frozen=True)
class LowSettings:
    """Settings of the run of one link. Only the skew changes rows.

    Attributes:
        skew: maximum lateness of the link, ns (T2); the largest one if its records have several.
        skews: the skews of its records; None if all have the same.
        delay: by how much its promises come later than they could, ns (T2).
        period: time between ticks, ns.
        chunk_rows: number of records handled at once; with the tables it bounds the memory.
        slots: slots of every group table instead of the planned number, a power of two; None for the planned number.
        compiled: whether numba compiles the kernel; if not, it runs as plain Python (small tests, links with few
            records).
        few: most records of a link for which plain Python runs, unless machine code exists; 0 for never.
        shed: most packets that an LFTA keeps of a second of timestamps; None for all (O5).
        adjacent: whether a group may also use the next slot (002, section 6, footnote).
        texts: distinct strings (and 256 times as many characters) that an LFTA numbers. Beyond that, its groups leave
            the table and the numbers start again.
        task_packets: most packets of a link in one task; a link with more is divided into chunks.
        shared_rows: rows of an epoch, within a chunk, from which they are written by share (`plan.shares`).
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
    shared_rows: int = 1 << 16
    skews: Skews | None = None
    delay: int = 0

    def __post_init__(self) -> None:
        if self.skew < 0:
            raise ConfigError(f"the skew is {self.skew} ns", "give a duration of 0 or more")
        if self.delay < 0:
            raise ConfigError(f"the delay is {self.delay} ns", "give a duration of 0 or more")
        if self.period <= 0:
            raise ConfigError(f"the heartbeat period is {self.period} ns", "give a duration above 0")
        if self.chunk_rows <= 0:
            raise ConfigError(f"chunk_rows is {self.chunk_rows}", "give 1 or more")
        if self.few < 0:
            raise ConfigError(f"few is {self.few}", "give 0 or more")
        if self.shared_rows <= 0:
            raise ConfigError(f"shared_rows is {self.shared_rows}", "give 1 or more")
        if self.task_packets <= 0:
            raise ConfigError(f"task_packets is {self.task_packets}", "give 1 or more")
        if self.slots is not None and (self.slots <= 0 or self.slots & (self.slots - 1)):
            raise ConfigError(f"a group table of {self.slots} slots", "give a power of two")


@dataclass(frozen=True)
class Bounds:
    """The records that a run reads and owns, ns since the epoch.

    Attributes:
        read_from: LFTA -> first timestamp that it processes (I2).
        end: end of the owned interval and of every read range, exclusive; END_OF_TIME if unbounded.
        grains: LFTA -> clock time between two promises that its readers can use, ns; 1 for a missing LFTA.
        entered: of a chunk: the link's clock before its first record; -1 for the first chunk.
        left: of a chunk: the link's clock after its last record; None for the last chunk.
        before: of a chunk: the most records of the link that can precede it.
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
    """Totals of one LFTA over its entire read range.

    Attributes:
        rows_out: rows written, without punctuation.
        punctuations: stored punctuation rows; a lull is one (T4).
        ejections: groups that left the table before their epoch closed.
        collisions: the ejections that made room for another group.
        spared: promises removed from the stream because no reader needs them.
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
        pa.field("minute", pa.int64(), nullable=False),  # minute of the timestamp, since the epoch
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in ("sane", "not_of_protocol", "filtered", "failed", "sampled_out", "shed", "accepted")
        ),
    ]
)
"""Counts of A1 over the sane records whose timestamp lies in the owned interval."""

WORK = pa.schema(
    [
        pa.field("lfta", pa.string(), nullable=False),
        pa.field("minute", pa.int64(), nullable=False),  # minute of the link's clock, since the epoch
        pa.field("shape", pa.string(), nullable=False),  # digest of what the LFTA computes: `statistics.shape`
        pa.field("records", pa.int64(), nullable=False),  # records that the kernel of the link read
        pa.field("rows_out", pa.int64(), nullable=False),
        pa.field("punctuations", pa.int64(), nullable=False),  # a lull counts once
        pa.field("ejections", pa.int64(), nullable=False),
        pa.field("collisions", pa.int64(), nullable=False),
        pa.field("groups", pa.int64()),  # most in the table at once; NULL for a selection, as `slots`
        pa.field("slots", pa.int64()),
        pa.field("nanoseconds", pa.int64(), nullable=False),  # processor time: see docs/tuning.md
        pa.field("beat_nanoseconds", pa.int64(), nullable=False),  # the part of `nanoseconds` for promises
        pa.field("period", pa.int64()),  # ns between ticks; NULL for other policies
        pa.field("conjuncts", pa.list_(pa.string()), nullable=False),  # conjuncts of its predicate
        pa.field("asked", pa.list_(pa.int64()), nullable=False),  # sampled records for which the conjunct was evaluated
        pa.field("met", pa.list_(pa.int64()), nullable=False),  # sampled records for which it is true
    ]
)
"""Work of the LFTAs, by minute. It depends on tables, chunks and the machine, so no result may use it."""


@dataclass(frozen=True)
class LinkResult:
    """The result of the pass over one link, besides the rows.

    Attributes:
        sane: records in order whose timestamp is owned.
        violating: late records whose arrival is owned.
        minutes: counts in the schema MINUTES, by LFTA and minute.
        violations: late records in the schema VIOLATIONS, in canonical order.
        duplicates: copies that are dropped, whose timestamp is owned.
        work: schema WORK, by LFTA and minute; `statistics.merge_work` adds several passes. It does not take part in
            comparisons of results.
    """

    link: str
    sane: int
    violating: int
    statistics: tuple[LftaStatistics, ...]
    minutes: pa.Table
    violations: pa.Table
    work: pa.Table = field(compare=False)
    duplicates: int = 0


IDENTITY = ("capture", "position", "timestamp", "arrival")


def needed_columns(lftas: Sequence[Lfta], shed: bool = False, skews: Skews | None = None) -> list[str]:
    """Returns the columns of `packets/` that a pass reads: identity, clock, then the columns of expressions.

    Args:
        shed: whether the link sheds load, which needs the columns that identify packets (O5).
        skews: the skews of the link's records, if they are not all the same (T8).
    """
    names: dict[str, None] = dict.fromkeys([*IDENTITY, *(skews.columns if skews else ())])
    for lfta in lftas:
        items = [item.expr for item in lfta.keys]
        columns = ex.columns_of(lfta.member, lfta.predicate, *items, *(part.argument for part in lfta.partials))
        names.update(dict.fromkeys(schemas.stored(columns)))
        names.update(dict.fromkeys(schemas.THINNED_BY if shed or lfta.sample else ()))
    return list(names)
