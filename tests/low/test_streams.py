"""Rows, promises, lulls and accounting of LFTAs against naive oracles, on random links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import and_, or_, xor
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.expr import Type
from lowwater.low import Flush, LowSettings, Policy
from lowwater.plan.operators import Lfta, Partial
from lowwater.plan.temporal import END_OF_TIME
from tests.lftamaker import SECOND, Row, col, count, data, lit, make, op, partial, promises, records, run
from tests.low.test_tables import BOTH, CUTS, SETTINGS, check_promises

START, END, BEFORE = 100 * SECOND, 160 * SECOND, 90 * SECOND
BUCKET = op(col("time"), "/", lit(10))

GROUPS = make(
    "groups",
    {"tb": BUCKET, "srcIP": col("srcIP"), "port": col("destPort")},
    [
        count(), partial("sum", col("id")), partial("min", col("ttl")), partial("max", col("srcIP"), "most"),
        Partial("known", "count", col("id"), Type.INT), partial("and_aggr", col("id")), partial("or_aggr", col("ttl")),
        partial("xor_aggr", col("id")),
    ],
    predicate=op(op(lit(60), "/", col("len")), "<", lit(2)),
    protocol="DataProtocol",
)  # fmt: skip
BACKWARD = make("backward", {"left": op(lit(1000), "-", col("time")), "port": col("destPort")}, [count()])
ROWS = make("rows", {"ms": col("timestamp_ms"), "len": col("len")}, predicate=op(col("len"), ">", lit(40)))
SILENT = make("silent", {"time": col("time")}, predicate=op(col("len"), "<", lit(0)))
UNTIMED = make("untimed", {"len": col("len")})
ALL = (GROUPS, BACKWARD, ROWS, SILENT, UNTIMED)


@st.composite
def links(draw: st.DrawFn) -> list[Row]:
    """Packets of a link with disorder, lulls and late records."""
    packets, clock = [], draw(st.integers(88, 105)) * SECOND
    for _ in range(draw(st.integers(0, 40))):
        clock += draw(st.sampled_from([0, 1, SECOND // 3, SECOND, 5 * SECOND])) + draw(st.integers(0, 3))
        back = draw(st.sampled_from([0, 0, SECOND // 2, SECOND, SECOND + 1, 4 * SECOND]))
        version = draw(st.sampled_from([4, 4, 6, None]))
        packet = {
            "timestamp": max(0, clock - back),
            "ipversion": version,
            "len": draw(st.sampled_from([0, 30, 60, 90])),
        }
        if version is not None:
            packet |= {"srcIP_hi": 0 if version == 4 else -1, "srcIP_lo": draw(st.integers(0, 2))}
        packet |= {name: draw(st.none() | st.integers(0, 3)) for name in ("destPort", "ttl")}
        packet["id"] = draw(st.sampled_from([None, 1, -5, (1 << 63) - 2, -(1 << 63)]))
        packets.append(packet)
    return packets


AT_ONCE = SETTINGS.map(lambda settings: replace(settings, adjacent=False, flush=Flush()))
"""A group that is held back keeps promises down, which `naive` does not know."""
GRAINS = st.sampled_from([1, 1, 1, SECOND // 2, 4 * SECOND, 60 * SECOND])
ENDS = st.sampled_from([END, END + 1, END_OF_TIME])


def sane(packets: list[Row], skew: int, end: int) -> list[Row]:
    """Records that are in order and inside the read range, with their arrival."""
    kept, clock = [], 0
    for packet in packets:
        clock = max(clock, packet["timestamp"])
        if clock - packet["timestamp"] <= skew and BEFORE <= packet["timestamp"] < end:
            kept.append({**packet, "arrival": clock})
    return kept


def address(packet: Row) -> bytes:
    low: int = packet["srcIP_lo"]
    return b"\4" + low.to_bytes(4, "big") if packet["ipversion"] == 4 else b"\6" + b"\xff" * 8 + low.to_bytes(8, "big")


def grouped(packets: list[Row]) -> dict[tuple[Any, ...], list[Any]]:
    """The aggregate of GROUPS, without bound on the integers."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for packet in packets:
        if packet["ipversion"] is not None and packet["len"] > 30:  # 60 / len < 2
            key = (packet["timestamp"] // (10 * SECOND), address(packet), packet["destPort"])
            groups.setdefault(key, []).append(packet)
    parts = {
        key: [[1, p["id"], p["ttl"], address(p), int(p["id"] is not None), p["id"], p["ttl"], p["id"]] for p in group]
        for key, group in groups.items()
    }
    return {key: total(rows) for key, rows in parts.items()}


def total(parts: list[list[Any]]) -> list[Any]:
    columns = [[value for value in column if value is not None] for column in zip(*parts, strict=True)]
    bits = [lambda column, step=step: reduce(step, column) for step in (and_, or_, xor)]
    merge: tuple[Callable[[list[Any]], Any], ...] = (sum, sum, min, max, sum, *bits)
    return [how(column) if column else None for how, column in zip(merge, columns, strict=True)]


def merged(rows: list[Row]) -> dict[tuple[Any, ...], list[Any]]:
    groups: dict[tuple[Any, ...], list[list[Any]]] = {}
    for row in rows:
        values = [row[partial.name] for partial in GROUPS.partials]
        groups.setdefault((row["tb"], row["srcIP"], row["port"]), []).append(values)
    return {key: total(parts) for key, parts in groups.items()}


def expand(stream: list[Row]) -> list[tuple[int, int]]:
    """(tick, promise) at every tick of the punctuations."""
    found = []
    for row in promises(stream):
        for tick in range(row["_tick"], row["_until"] + 1, row["_period"] or 1):
            found.append((tick, row["_last"] + tick - row["_tick"]))
    return found


def said(lfta: Lfta, ticks: list[tuple[int, int]], grain: int = 1) -> list[tuple[int, int]]:
    """The ticks whose promise changes a promised field by as much as readers need; all know where the range begins."""
    kept, old = [], BEFORE
    for tick, promise in ticks:
        timed = any(field.temporal for field in lfta.fields)
        changes = (lfta.promises(promise) != lfta.promises(old)) if timed else promise > old
        if changes and promise // grain > old // grain:
            kept.append((tick, promise))
            old = promise
    return kept


def naive(lfta: Lfta, kept: list[Row], settings: LowSettings, end: int, grain: int = 1) -> list[tuple[int, int]]:
    """Every tick one by one, by the text of T2; then the closing."""
    period = settings.period
    arrivals = [packet["arrival"] for packet in kept]
    last = max(arrivals, default=None)
    after = 0 if last is None else (last // period + 1) * period
    closing = after if end == END_OF_TIME else max(after, end)
    until = last or 0 if end == END_OF_TIME else max(end - 1, last or 0)
    ticks = []
    if settings.policy is not Policy.NONE:
        for tick in range(BEFORE // period * period, until + 1, period):
            promise = tick - settings.skew
            if settings.policy is Policy.DATA_DRIVEN:
                promise = max((arrival for arrival in arrivals if arrival < tick), default=0) - settings.skew
            if promise > BEFORE and promise < end and tick < closing:
                ticks.append((tick, promise))
    return [*said(lfta, ticks, grain), (closing, end)]


@pytest.mark.slow
@given(packets=links(), settings=SETTINGS, end=ENDS, cuts=CUTS)
def test_partials_add_up_whatever_the_settings(
    packets: list[Row], settings: LowSettings, end: int, cuts: list[int]
) -> None:
    streams, result = run((*ALL, BOTH), records(packets), settings, START, end, BEFORE, cuts=cuts)
    kept = sane(packets, settings.skew, end)
    assert merged(data(streams["groups"])) == grouped(kept)
    backward, both = Counter[tuple[int, Any]](), Counter[tuple[int, int]]()
    for row in data(streams["backward"]):
        backward[row["left"], row["port"]] += row["cnt"]
    for row in data(streams["both"]):
        both[row["ms"], row["back"]] += row["cnt"]
    assert backward == Counter((1000 - p["timestamp"] // SECOND, p["destPort"]) for p in kept)
    assert both == Counter((p["timestamp"] // 700_000_000, -(p["timestamp"] // SECOND // 3)) for p in kept)
    wanted = [(p["timestamp"] // 1_000_000, p["len"], p["timestamp"]) for p in kept if p["len"] > 40]
    assert [(row["ms"], row["len"], row["_last"]) for row in data(streams["rows"])] == wanted
    assert data(streams["silent"]) == []
    for stats in result.statistics:
        stream = streams[stats.lfta]
        assert (stats.rows_out, stats.punctuations) == (len(data(stream)), len(promises(stream)))
        assert stats.collisions <= stats.ejections <= stats.rows_out


@pytest.mark.slow
@given(packets=links(), settings=AT_ONCE, end=ENDS, cuts=CUTS, grain=GRAINS)
def test_promises_are_kept_and_those_of_every_tick_as_often_as_readers_need_them(
    packets: list[Row], settings: LowSettings, end: int, cuts: list[int], grain: int
) -> None:
    streams, _ = run(ALL, records(packets), settings, START, end, BEFORE, cuts=cuts, grain=grain)
    kept = sane(packets, settings.skew, end)
    for lfta in ALL:
        stream, wanted = streams[lfta.name], naive(lfta, kept, settings, end, grain)
        assert said(lfta, expand(stream)[:-1], grain) + expand(stream)[-1:] == wanted
        check_promises(lfta, stream, cuts)
        assert promises(stream)[-1] == stream[-1]
        assert grain == 1 or cuts or len(promises(stream)) <= 2 + 2 * len(wanted)


@pytest.mark.slow
@given(packets=links(), settings=SETTINGS, end=ENDS, cuts=CUTS)
def test_every_record_is_accounted_for(packets: list[Row], settings: LowSettings, end: int, cuts: list[int]) -> None:
    whole = run(ALL, records(packets), settings, START, end, BEFORE)[1]
    result = run(ALL, records(packets), settings, START, end, BEFORE, cuts=cuts)[1]
    assert (result.minutes, result.violations) == (whole.minutes, whole.violations)
    owned = [packet for packet in sane(packets, settings.skew, end) if packet["timestamp"] >= START]
    assert result.sane == len(owned)
    for lfta in ALL:
        rows = [row for row in result.minutes.to_pylist() if row["lfta"] == lfta.name]
        for row in rows:
            assert row["sane"] == row["not_of_protocol"] + row["filtered"] + row["failed"] + row["accepted"]
        assert {row["minute"]: row["sane"] for row in rows} == Counter(p["timestamp"] // (60 * SECOND) for p in owned)
    groups = [row for row in result.minutes.to_pylist() if row["lfta"] == "groups"]
    known = [p for p in owned if p["ipversion"] is not None]
    assert sum(row["failed"] for row in groups) == sum(p["len"] == 0 for p in known)
    assert sum(row["filtered"] for row in groups) == sum(p["len"] == 30 for p in known)  # 60/30 < 2 is false
    late, clock = [], 0
    for position, packet in enumerate(packets):
        clock = max(clock, packet["timestamp"])
        if clock - packet["timestamp"] > settings.skew and START <= clock < end:
            late.append((position, clock - packet["timestamp"]))
    assert [(row["position"], row["lateness"]) for row in result.violations.to_pylist()] == late
    assert result.violating == len(late)


@pytest.mark.slow
@given(packets=links(), settings=SETTINGS)
def test_accepted_records_are_the_partial_counts(packets: list[Row], settings: LowSettings) -> None:
    streams, result = run([GROUPS], records(packets), settings, BEFORE, END, BEFORE)
    accepted = sum(row["accepted"] for row in result.minutes.to_pylist())
    assert accepted == sum(row["cnt"] for row in data(streams["groups"]))


@pytest.mark.slow
def test_compiled_and_plain_kernels_write_the_same_stream() -> None:
    packets: list[Row] = []
    for at in range(300):
        version = (4, 4, 6, None)[at % 4]
        packet = {"timestamp": 95 * SECOND + at * SECOND // 4 - at % 3 * SECOND // 2, "ipversion": version}
        packet |= {"len": (60, 90, 0, 30, 61)[at % 5], "id": (None, 7, (1 << 63) - 1)[at % 3]}
        packet |= {"destPort": at % 7 or None, "ttl": at % 9 or None}
        if version is not None:
            packet |= {"srcIP_hi": 0 if version == 4 else -1, "srcIP_lo": at % 6}
        packets.append(packet)
    batch = records(packets)
    plain, compiled = (
        run(ALL, batch, LowSettings(SECOND, slots=4, chunk_rows=64, compiled=kind), START, END, BEFORE, batch_rows=50)
        for kind in (False, True)
    )
    assert plain[0] == compiled[0]
    assert plain[1].statistics == compiled[1].statistics
    assert merged(data(compiled[0]["groups"])) == grouped(sane(packets, SECOND, END))


def test_data_driven_promises_advance_though_nothing_passes() -> None:
    packets = [{"timestamp": at * SECOND + 1, "len": 60} for at in (101, 104, 109)]
    settings = LowSettings(skew=SECOND, policy=Policy.DATA_DRIVEN, compiled=False)
    stream = run([SILENT], records(packets), settings, START, END)[0]["silent"]
    assert [(row["_tick"] // SECOND, row["time"]) for row in stream] == [(105, 103), (110, 108), (160, 160)]
