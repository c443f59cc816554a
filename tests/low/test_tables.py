"""Partial groups add up, and promises hold and are maximal, for any table, flush policy, chunking and disorder."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from lowwater.low import Flush, LowSettings, Policy
from lowwater.low.settings import FlushKind
from lowwater.plan.operators import Lfta
from lowwater.plan.temporal import END_OF_TIME
from tests.lftamaker import SECOND, Row, col, count, data, lit, make, op, partial, promises, records, run
from tests.plan.batch_values import group_last

START = 1000 * SECOND
UP = make("up", {"tb": op(col("time"), "/", lit(10)), "port": col("destPort")}, [count(), partial("sum", col("id"))])
DOWN = make("down", {"left": op(lit(5000), "-", col("time")), "port": col("destPort")}, [count()])
BOTH = make(
    "both",
    {"ms": op(col("timestamp_ms"), "/", lit(700)), "back": op(lit(0), "-", op(col("time"), "/", lit(3)))},
    [count(), partial("min", col("id"))],
)
ALL = (UP, DOWN, BOTH)

FLUSHES = st.one_of(
    st.just(Flush()),
    st.builds(Flush, st.just(FlushKind.SLOW), st.integers(1, 5), st.just(1)),
    st.builds(Flush, st.just(FlushKind.OOP_SLOW), st.integers(1, 5), st.integers(0, 3)),
    st.builds(Flush, st.just(FlushKind.LAZY), st.just(1), st.integers(0, 3)),
)
SETTINGS = st.builds(
    LowSettings, skew=st.sampled_from([0, SECOND, 12 * SECOND]),
    period=st.sampled_from([SECOND, 300_000_000, 7 * SECOND]),
    policy=st.sampled_from([policy for policy in Policy if policy.per_link is policy]), chunk_rows=st.integers(1, 9),
    slots=st.sampled_from([1, 2, 4, 16]), adjacent=st.booleans(), flush=FLUSHES, compiled=st.just(False),
)  # fmt: skip


@st.composite
def links(draw: st.DrawFn) -> list[Row]:
    """Packets in order within 12 s, most of them within one."""
    packets, clock = [], START
    for _ in range(draw(st.integers(0, 50))):
        clock += draw(st.sampled_from([0, 1, SECOND // 4, SECOND, 4 * SECOND, 25 * SECOND]))
        back = draw(st.sampled_from([0, 0, 0, SECOND, 5 * SECOND, 12 * SECOND]))
        value = draw(st.sampled_from([None, 3, (1 << 63) - 1, -(1 << 63)]))
        packets.append({"timestamp": clock - back, "destPort": draw(st.none() | st.integers(0, 5)), "id": value})
    return packets


def sane(packets: list[Row], skew: int) -> list[Row]:
    kept, clock = [], 0
    for packet in packets:
        clock = max(clock, packet["timestamp"])
        if clock - packet["timestamp"] <= skew:
            kept.append(packet)
    return kept


CUTS = st.lists(st.integers(1, 50), max_size=4)
"""Where a link is divided into chunks."""


def check_promises(lfta: Lfta, stream: list[Row], cuts: list[int]) -> int:
    """Holds each row against the promises before it, which rise but where a chunk begins; the last one."""
    promise, tick, closed = -1, -1, False
    for row in stream:
        assert row["_tick"] > tick or (row["_tick"] == tick and not closed)
        if row["_kind"] == "row":
            if lfta.aggregates:
                assert row["_last"] == group_last(lfta.fields, tuple(row[field.name] for field in lfta.fields))
            assert row["_last"] >= promise
            tick, closed = row["_tick"], False
        else:
            assert row["_last"] >= promise if cuts else row["_last"] > promise
            assert tuple(row[field.name] for field in lfta.fields) == lfta.promises(row["_last"])
            tick, closed = row["_until"], True
            promise = row["_last"] + tick - row["_tick"]
    return promise


@pytest.mark.slow
@given(packets=links(), settings=SETTINGS, cuts=CUTS)
def test_no_row_is_below_a_promise_and_the_ticks_go_on(
    packets: list[Row], settings: LowSettings, cuts: list[int]
) -> None:
    streams, _ = run(ALL, records(packets), settings, cuts=cuts)
    assert all(check_promises(lfta, streams[lfta.name], cuts) == END_OF_TIME for lfta in ALL)


@pytest.mark.slow
@given(packets=links(), settings=SETTINGS, choice=st.integers(0, 1000))
def test_a_promise_cannot_be_raised(packets: list[Row], settings: LowSettings, choice: int) -> None:
    """A continuation makes a row with every value just as promised, so one unit more would be broken by it."""
    settings = replace(settings, policy=Policy.PERIODIC)
    streams, _ = run(ALL, records(packets), settings)
    for lfta in ALL:
        said = promises(streams[lfta.name])[:-1]
        if not said:
            continue
        chosen = said[choice % len(said)]
        tick, clock, before = chosen["_tick"], 0, []
        for packet in packets:
            clock = max(clock, packet["timestamp"])
            if clock >= tick:
                break
            before.append(packet)
        # One packet at the instant of the tick, then one as late as it may be.
        more = [*before, {"timestamp": tick, "id": 1}, {"timestamp": tick - settings.skew, "id": 1}]
        times = [field.name for field in lfta.fields if field.temporal]
        later = [row for row in data(run([lfta], records(more), settings)[0][lfta.name]) if row["_tick"] > tick]
        assert any(all(row[name] == chosen[name] for name in times) for row in later)


def test_slow_flush_lets_one_group_go_every_so_many_records() -> None:
    stamps = [START + at for at in range(8)] + [START + 10 * SECOND + at for at in range(9)]
    stamps.append(START + 30 * SECOND)
    packets = [{"timestamp": stamp, "destPort": at % 8, "id": 0} for at, stamp in enumerate(stamps)]
    settings = LowSettings(0, flush=Flush.parse("oop-slow 3 9"), slots=4096, compiled=False)
    stream = run([UP], records(packets), settings)[0]["up"]
    # Eight groups are closed at 1010 s; nine records then release three of them.
    assert [row["cnt"] for row in data(stream) if row["_tick"] == START + 11 * SECOND] == [1, 1, 1]


def test_lazy_flush_keeps_a_closed_epoch_for_its_windows() -> None:
    packets = [{"timestamp": START + at * 10 * SECOND, "destPort": 1, "id": 0} for at in range(6)]
    settings = LowSettings(0, flush=Flush.parse("lazy 2"), slots=64, compiled=False)
    stream = run([UP], records(packets), settings)[0]["up"]
    ticks = [(row["tb"], row["_tick"] // SECOND) for row in data(stream)][:3]
    assert ticks == [(100, 1030), (101, 1040), (102, 1050)]
    assert [row["tb"] for row in promises(stream) if row["_tick"] >= START + 30 * SECOND][:2] == [101, 102]
