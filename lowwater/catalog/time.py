"""The time of a link: when a record arrives, whether it is late, what the link promises, what its captures cover.

Each of these rules (SEMANTICS T2, T4, T5, T8) is one function, which every part of the engine calls: kernels with the
numbers of a record (`low.code.compiler` copies the text into them), ledgers, audits and tools with columns. The oracle
does not: the reference engine (`reference.clock`, `stream.records`) and the SQL of the tests state the rules in their
own words. Else an error of this module would be in both, and no test would see it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog import expr as ex, schemas
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.catalog.values import pack_ip, parse_mac, parse_whole, words_from_ip
from lowwater.errors import ConfigError

if TYPE_CHECKING:
    from lowwater.config import Config

Value = int | str | bytes
Instants = npt.NDArray[np.int64]


def arrival_times(timestamps: Instants, clock: int = -1) -> Instants:
    """Returns a(r) of successive sane records (T2), ns; `clock` is the largest timestamp before them.

    Example:
        >>> arrival_times(np.array([4, 9, 7]), 5).tolist()
        [5, 9, 9]
    """
    found: Instants = np.maximum.accumulate(timestamps)
    if len(found) and found[0] < clock:
        np.maximum(found, clock, out=found)
    return found


@overload
def is_late(arrival: int, timestamp: int, skew: int) -> bool: ...
@overload
def is_late(arrival: Instants, timestamp: Instants, skew: int | Instants) -> npt.NDArray[np.bool_]: ...
def is_late(arrival: Any, timestamp: Any, skew: Any) -> Any:
    """Whether a record is a violation (T2): a(r) - ts(r) > skew(L), all in one unit."""
    return arrival - timestamp > skew


def promise_at(clock: int, skew: int, delay: int = 0) -> int:
    """Returns what a link promises at a clock (T2): no later record that is admitted has a smaller timestamp, ns."""
    return clock - delay - skew


def clock_of(promise: int, skew: int, delay: int = 0) -> int:
    """Returns the clock at which a link makes a promise, ns: the inverse of `promise_at`."""
    return promise + skew + delay


def tick_after(instant: int, period: int) -> int:
    """Returns the first tick after an instant (T2), ns; ticks precede the records that arrive with them."""
    return (instant // period + 1) * period


def tick_from(instant: int, period: int) -> int:
    """Returns the first tick at or after an instant, ns."""
    return -(-instant // period) * period


def ticks_up_to(instants: Instants, first: int | Instants, until: int | Instants, period: int | Instants) -> Instants:
    """Returns the last tick of lulls (T4) at or before instants, ns. A lull is stored as first tick, last tick, period.

    The promise rises with the ticks. No instant is before the first tick; the period of a single tick is 0.

    Example:
        >>> ticks_up_to(np.array([37, 99]), 10, 60, 10).tolist()
        [30, 60]
    """
    step: Any = np.maximum(period, 1)
    ticks: Instants = first + (np.minimum(instants, until) - first) // step * step
    return ticks


LONG_SILENCE = 3
"""A silence is long if it lasts so many of the pauses that are usual."""


LOST_BYTES = 512
"""Most bytes of damage that count as a record lost."""


def is_hole(length: int, lasts: int | None, pause: int) -> bool:
    """Whether damage is a hole in the coverage of its capture (T5), and not a record that is lost.

    Args:
        length: its bytes.
        lasts: from the clock before it to the first record behind it, ns; None where one of them is not known.
        pause: the longest time between two records around it, ns.
    """
    return length > LOST_BYTES or lasts is None or lasts > LONG_SILENCE * pause


def joined_coverage(
    begins: Sequence[int], ends: Sequence[int], whole: Sequence[bool], tolerance: int
) -> list[tuple[int, int]]:
    """Joins the coverage of captures, in the order of its begin, over pauses of at most a tolerance (T5).

    Args:
        begins, ends: the coverage [begin, end) of each capture, ns.
        whole: whether the capture ended cleanly; after one that did not, every pause is a gap.

    Example:
        >>> joined_coverage([0, 12, 25], [10, 20, 30], [True, False, True], 5)
        [(0, 20), (25, 30)]
    """
    joined: list[tuple[int, int]] = []
    ended_well = False  # whether the capture at the end of the last range ended cleanly
    for begin, end, ends_well in zip(begins, ends, whole, strict=True):
        if end <= begin:
            continue
        if not joined or begin > joined[-1][1] + (tolerance if ended_well else 0):
            joined.append((begin, end))
            ended_well = ends_well
        elif end > joined[-1][1]:
            joined[-1] = joined[-1][0], end
            ended_well = ends_well
    return joined


def uncovered(covered: Sequence[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the gaps (T5) in [start, end), ns: what none of some ranges covers, which are disjoint and in order.

    Example:
        >>> [*uncovered([(0, 20), (25, 30)], 10, 40)]
        [(20, 25), (30, 40)]
    """
    for at in range(bisect_right(covered, start, key=itemgetter(1)), len(covered)):  # of thousands, it copies none
        begins, ends = covered[at]
        if begins >= end:
            break
        if start < begins:
            yield start, begins
        start = ends
    if start < end:
        yield start, end


@dataclass(frozen=True)
class Reported:
    """What is known of a link in a range of time: its life, and the gaps in its coverage, ns, in order (T5)."""

    life: tuple[int, int]  # as much of [since, until) as lies in the range
    gaps: tuple[tuple[int, int], ...] = ()

    def lives(self, begin: int, end: int) -> bool:
        """Whether [begin, end) meets the life."""
        return self.life[0] < self.life[1] and begin < self.life[1] and end > self.life[0]

    @property
    def begins(self) -> int:
        """The first instant of the life that no gap holds, ns: a life without `since` begins in 1970."""
        return self.gaps[0][1] if self.gaps and self.gaps[0][0] <= self.life[0] else self.life[0]

    def whole(self, begin: int, end: int) -> bool:
        """Whether no gap meets [begin, end)."""
        return not any(begin < until and end > since for since, until in self.gaps)


@dataclass(frozen=True)
class Skews:
    """The skews of a link's records: one for all, or one for each value of a column (T8); picklable.

    The column is one of packets, or a field of the protocol of other records.
    """

    rest: int  # the skew of records with none of the values, ns
    # the column that `values` compares, by its name in expressions; empty if all records have one skew
    column: str = ""
    values: tuple[tuple[Value, int], ...] = ()  # (value, skew in ns) pairs
    # (instant, skew from it on) pairs, ns, by the own time of records; `rest` holds before. None beside `values`
    turns: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def parse(link: str, rest: int, column: str, texts: Mapping[str, int], layout: RecordLayout | None = None) -> Skews:
        """Parses the skews in a link's settings, where values are texts.
        Raises ConfigError if the records have no such column, or a text is not a value of its type.

        Args:
            rest: the skew of records with none of the values, ns.
            column: the column of packets, or the field of other records, whose values have skews.
            texts: text of a value -> its skew, ns.
            layout: fields of the link's records; None for packets.
        """
        # Workers import the rules of this module without the settings.
        from lowwater.config import section_of

        where = section_of(link, "group_skew")
        if layout is not None:
            kinds = {each.name: each for each in layout.fields if each.type in _RECORD_EXAMPLES}
            if column not in kinds:
                message = f"{where}: {layout.protocol} has no field {column!r} of integers, texts or addresses"
                raise ConfigError(message, f"name one of {', '.join(kinds)}")
            of = kinds[column]
            return Skews(rest, of.stored, tuple((_of_field(where, of, text), skew) for text, skew in texts.items()))
        if column not in schemas.TYPES or column not in (*schemas.ADDRESSES, *schemas.READABLE.names):
            raise ConfigError(f"{where}: packets have no column {column!r}", "name one of docs/packets.md")
        return Skews(rest, column, tuple((_parsed(where, column, text), skew) for text, skew in texts.items()))

    @property
    def longest(self) -> int:
        """The largest skew, ns. The promises of the link wait for it."""
        return max(self._all)

    @property
    def shortest(self) -> int:
        """The smallest skew, ns."""
        return min(self._all)

    @property
    def _all(self) -> list[int]:
        return [self.rest, *(skew for _, skew in (*self.values, *self.turns))]

    @property
    def columns(self) -> list[str]:
        if self.turns:
            return ["timestamp"]
        return schemas.stored([self.column]) if self.column else []

    def of(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Returns the skew of every record of a batch, ns; shape (records)."""
        skews = np.full(batch.num_rows, self.rest, np.int64)
        for since, skew in self.turns:
            skews[batch.column("timestamp").to_numpy() >= since] = skew
        for value, skew in self.values:
            skews[self._has(batch, value)] = skew
        return skews

    def _has(self, batch: pa.RecordBatch, value: Value) -> npt.NDArray[np.bool_]:
        parts = words_from_ip(value) if isinstance(value, bytes) else (value,)
        equal_rows = np.ones(batch.num_rows, np.bool_)
        for name, part in zip(self.columns, parts, strict=True):
            equal = pc.equal(batch.column(name), pa.scalar(part, batch.column(name).type))
            equal_rows &= pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
        return equal_rows


def link_skews(config: Config, link: str, layout: RecordLayout | None = None) -> Skews:
    """Returns the skews of a link's records (SEMANTICS T8). Raises ConfigError if `group_skew` names an unknown column
    or a wrong value, or the link also sheds load. `layout`: fields of its records; None for packets."""
    settings = config.link(link)
    if settings.group_skew is None:
        return Skews(settings.skew, turns=settings.turns)
    if settings.shed is not None:
        raise ConfigError(f"link {link}: shed and group_skew cannot be set together", "leave one of them out")
    return Skews.parse(link, settings.skew, settings.group_skew.column, settings.group_skew.values, layout)


_EXAMPLES = {ex.Type.IP: "10.0.0.1", ex.Type.MAC: "02:00:00:00:00:01", ex.Type.INT: "7"}


def _parsed(where: str, column: str, text: str) -> Value:
    try:
        return _value(column, text)
    except (ValueError, OverflowError, pa.ArrowException):
        kind = schemas.TYPES[column]
        raise ConfigError(
            f"{where}: {text!r:.80} is no {kind} that {column} can have", f"write one as '{_EXAMPLES[kind]}'"
        ) from None


_RECORD_EXAMPLES = {ex.Type.IP: "10.0.0.1", ex.Type.INT: "7", ex.Type.STRING: "udp"}


def _of_field(where: str, of: RecordField, text: str) -> Value:
    try:
        if of.type == ex.Type.IP:
            return pack_ip(text)
        return text if of.type == ex.Type.STRING else _whole(parse_whole(text))
    except (ValueError, OverflowError):
        message = f"{where}: {text!r:.80} is no {of.type} that {of.name} can have"
        raise ConfigError(message, f"write one as '{_RECORD_EXAMPLES[of.type]}'") from None


def _whole(number: int) -> int:
    """Returns a number if 64 bits hold it."""
    return int(np.int64(number))


def _value(column: str, text: str) -> Value:
    if column in schemas.ADDRESSES:
        return pack_ip(text)
    kind = schemas.TYPES[column]
    value: Value = parse_mac(text) if kind is ex.Type.MAC else text if kind is ex.Type.STRING else parse_whole(text)
    pa.scalar(value, schemas.READABLE.field(column).type)
    return value
