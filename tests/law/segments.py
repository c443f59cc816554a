"""What is unusual about TCP segments (SEMANTICS O12), by looking at all segments before each: an oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import duckdb

FIN, SYN, RST, ACK = 1, 2, 4, 16
PLAIN = SYN | FIN | RST
MS = 1_000_000


class Segment(NamedTuple):
    """A segment, and what was said of it; those of another connection are not before it."""

    time: int
    up: bool
    seq: int
    ack: int
    window: int
    flags: int
    length: int
    bits: int = 0
    trip: int | None = None
    began: int = 0

    @property
    def end(self) -> int:
        return (self.seq + self.length + bool(self.flags & (SYN | FIN))) % 2**32


def below(x: int, y: int) -> bool:
    """Whether a number comes before another one."""
    return 0 < (y - x) % 2**32 <= 2**31


def furthest(side: Sequence[Segment]) -> Segment | None:
    """The segment whose end is next."""
    found: Segment | None = None
    for each in side:
        if not each.bits & 64 and (found is None or not found.end or below(found.end, each.end)):
            found = each
    return found


def unbroken(before: Sequence[Segment], up: bool) -> int:
    """The end of what a direction has sent without a hole, as far as the other has not acknowledged more."""
    found = 0
    for at, each in enumerate(before):
        side = [one for one in before[: at + 1] if one.up == up]
        if each.up == up and not each.bits & 64 and (not found or each.seq == found):
            last = furthest(side)
            found = last.end if last else 0
        if each.up != up and each.flags & ACK and found and below(found, each.ack):
            last = furthest(side)
            found = last.end if last else 0
    return found


def duplicates(before: Sequence[Segment], up: bool) -> int:
    """The number of duplicate ACKs of a direction in a row; below 0 where the last one told of unseen segments."""
    count, acked = 0, 0
    for at, each in enumerate(before):
        if each.up == up:
            if each.bits & 16:
                count = 1 if count < 0 else count + 1
            count = 0 if each.ack != acked else count
            acked = each.ack
        elif each.flags & ACK:
            limit = unbroken(before[:at], up)
            last = furthest([one for one in before[:at] if one.up == up])
            if limit and below(limit, each.ack) and limit == (last.end if last else 0):
                count = -1
    return count


def first_number(before: Sequence[Segment], up: bool) -> int | None:
    """The number of the SYN of a direction, or what stands for it."""
    found: int | None = None
    for each in before:
        if each.up == up and (found is None or each.flags & (SYN | ACK) == SYN | ACK):
            found = each.seq if each.flags & SYN else (each.seq - 1) % 2**32
        elif each.flags & ACK and found is None:
            found = (each.ack - 1) % 2**32
    return found


def says(before: Sequence[Segment], now: Segment) -> int:
    """The bits of a segment, without those of connections."""
    ours, theirs = ([each for each in before if each.up is up] for up in (now.up, not now.up))
    last, other = (side[-1] if side else None for side in (ours, theirs))
    top = furthest(ours)
    following = top.end if top else 0
    plain, bits = not now.flags & PLAIN, 0
    if now.length == 1 and now.seq == following and other and other.window == 0:
        bits |= 64
    else:
        bits |= 32 * (plain and now.window == 0)
        bits |= 2 * (following != 0 and below(following, now.seq) and not now.flags & RST)
        bits |= 8 * (plain and now.length < 2 and (now.seq + 1) % 2**32 == following)
        acked, window = (last.ack, last.window) if last else (0, 2**32 - 1)
        if plain and not now.length and now.seq == following and now.ack == acked:
            told = other.bits if other else 0
            if now.window and now.window != window:
                bits |= 2048
            elif now.window == window:
                bits |= (256 if told & 8 else 16) if now.window else 128 * bool(told & 64)
    limit = unbroken(before, not now.up)
    if now.flags & ACK and limit and below(limit, now.ack):
        end = furthest(theirs)
        bits |= 4 * (limit != (end.end if end else 0) or duplicates(before, not now.up) == 0)
    if (now.length or now.flags & (SYN | FIN)) and not bits & 8:
        bits |= again(before, now, top, other)
    return bits


def again(before: Sequence[Segment], now: Segment, top: Segment | None, other: Segment | None) -> int:
    """What a segment with data, SYN or FIN repeats."""
    acked = other.ack if other else 0
    if now.length and acked and not below(acked, (now.seq + now.length) % 2**32):
        return 16384
    if top is None or not top.end or not below(now.seq, top.end):
        return 0
    if now.length > 1 and (now.seq + 1) % 2**32 == top.end:
        return 0
    seen = [*before, now]  # what the segment acknowledges may have ended the duplicate ACKs
    if other and duplicates(seen, not now.up) >= 2 and acked == now.seq and now.time - other.time < 20 * MS:
        return 1024
    trip = next((each.trip for each in before if each.trip), 3 * MS)
    return 512 if now.time - top.time < trip and now.end != top.end else 1


def analysed(rows: Sequence[Segment], gap: int) -> Iterator[Segment]:
    """The segments of a partition, with what is said of each."""
    before: list[Segment] = []
    for row in rows:
        begins = 0
        if before and row.time - before[-1].time > gap:
            before = []
        number = first_number(before, row.up)
        if row.flags & (SYN | ACK) == SYN and number is not None and number != row.seq:
            before, begins = [], 8192
        if row.flags & (SYN | ACK) == SYN | ACK and number is not None and before and number != row.seq:
            begins = 8192
        now = row._replace(bits=says(before, row) | begins)
        syns = [each.time for each in before if each.flags & (SYN | ACK) == SYN]
        if now.flags & (SYN | ACK) == ACK and syns and not any(each.trip for each in before):
            now = now._replace(trip=now.time - syns[-1] or None)
        before.append(now)
        first = before[0]
        client = first.up != (first.flags & (SYN | ACK) == SYN | ACK)
        yield now._replace(bits=now.bits | 65536 * (now.up == client), began=first.time)


def _texts(text: str, gap: int) -> str:
    numbers = [[int(each) for each in row.split(",")] for row in text.split(";")]
    rows = [Segment(time, bool(up), *others[:5]) for time, up, *others in numbers]
    return ";".join(f"{row.bits},{'' if row.trip is None else row.trip},{row.began}" for row in analysed(rows, gap))


def add_segments(connection: duckdb.DuckDBPyConnection) -> None:
    """Gives a database `segments(text, gap)`: of segments the bits and the times of handshakes."""
    there = connection.execute("SELECT count(*) FROM duckdb_functions() WHERE function_name = 'segments'").fetchall()
    if there == [(0,)]:
        connection.create_function("segments", _texts, ["VARCHAR", "BIGINT"], "VARCHAR")
