"""Partial groups add up, and promises hold and are maximal, for any table, flush policy, chunking and disorder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import and_, or_, xor
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lowwater.low import Flush, LowSettings, Policy
from lowwater.low.settings import FlushKind
from lowwater.plan.operators import Lfta, group_last
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import each_push
from tests.lftamaker import SECOND, Row, col, count, data, lit, make, op, partial, promises, records, run

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
    LowSettings,
    skew=st.sampled_from([0, SECOND, 12 * SECOND]),
    period=st.sampled_from([SECOND, 300_000_000, 7 * SECOND]),
    policy=st.sampled_from([policy for policy in Policy if policy.per_link is policy]),
    chunk_rows=st.integers(1, 9),
    slots=st.sampled_from([1, 2, 4, 16]),
    adjacent=st.booleans(),
    flush=FLUSHES,
    compiled=st.just(False),
)


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


def keys(lfta: Lfta, packet: Row) -> tuple[Any, ...]:
    """The group of a packet, by the text of the queries above."""
    stamp, port = packet["timestamp"], packet["destPort"]
    return {
        "up": (stamp // (10 * SECOND), port),
        "down": (5000 - stamp // SECOND, port),
        "both": (stamp // 1_000_000 // 700, -(stamp // SECOND // 3)),
    }[lfta.name]


def key_of(lfta: Lfta, row: Row) -> tuple[Any, ...]:
    return tuple(row[key.name] for key in lfta.keys)


CUTS = st.lists(st.integers(1, 50), max_size=4)
"""Where a link is divided into chunks."""


@pytest.mark.slow
@given(packets=links(), settings=SETTINGS, cuts=CUTS)
def test_partial_rows_add_up_to_the_full_aggregate(packets: list[Row], settings: LowSettings, cuts: list[int]) -> None:
    streams, result = run(ALL, records(packets), settings, cuts=cuts)
    kept = sane(packets, settings.skew)
    for lfta in ALL:
        whole, found = Counter(keys(lfta, packet) for packet in kept), Counter[tuple[Any, ...]]()
        for row in data(streams[lfta.name]):
            found[key_of(lfta, row)] += row["cnt"]
        assert found == whole
    sums: dict[tuple[Any, ...], int] = {}
    for row in data(streams["up"]):
        if row["sum"] is not None:
            sums[key_of(UP, row)] = sums.get(key_of(UP, row), 0) + row["sum"]
    full: dict[tuple[Any, ...], int] = {}
    for packet in kept:
        if packet["id"] is not None:
            full[keys(UP, packet)] = full.get(keys(UP, packet), 0) + packet["id"]
    assert sums == full
    for stats in result.statistics:
        assert stats.collisions <= stats.ejections <= stats.rows_out


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


@pytest.mark.slow
@given(packets=links(), settings=SETTINGS)
def test_bits_of_partials_merge_to_those_of_the_group(packets: list[Row], settings: LowSettings) -> None:
    merge: dict[str, Callable[[int, int], int]] = {"and_aggr": and_, "or_aggr": or_, "xor_aggr": xor}
    parts = [*(partial(name, col("id")) for name in merge), partial("and_aggr", col("len"), "plain")]
    lfta = make("bits", {"tb": op(col("time"), "/", lit(10))}, parts)
    whole: dict[int, list[int]] = {}
    for packet in sane(packets, settings.skew):
        values = whole.setdefault(packet["timestamp"] // (10 * SECOND), [])
        values += [] if packet["id"] is None else [packet["id"]]
    rows = data(run([lfta], records(packets), settings)[0]["bits"])
    for name, how in merge.items():
        found: dict[int, list[int]] = {tb: [] for tb in whole}
        for row in rows:
            found[row["tb"]] += [] if row[name] is None else [row[name]]
        assert {tb: reduce(how, found[tb]) for tb in found if found[tb]} == {
            tb: reduce(how, values) for tb, values in whole.items() if values
        }
    assert {row["plain"] for row in rows} <= {60}


@pytest.mark.slow
@pytest.mark.parametrize(("flush", "adjacent"), each_push([("oop-slow 3 1", False), ("slow 2", True)], 2))
def test_compiled_tables_write_the_same_stream(flush: str, adjacent: bool) -> None:
    packets: list[Row] = []
    for at in range(400):
        stamp = START + at * SECOND // 3 - at % 5 * SECOND
        packets.append({"timestamp": stamp, "destPort": at * 7 % 11, "id": (None, 5, (1 << 63) - 1)[at % 3]})
    settings = LowSettings(4 * SECOND, slots=4, adjacent=adjacent, flush=Flush.parse(flush), chunk_rows=32)
    plain, compiled = (
        run([UP], records(packets), replace(settings, compiled=kind), batch_rows=100) for kind in (False, True)
    )
    assert plain[0] == compiled[0]
    assert plain[1].statistics == compiled[1].statistics
