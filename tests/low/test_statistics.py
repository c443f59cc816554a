"""Statistics add up, equal those of plain models over the same packets, and no order of conjuncts changes a result."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.catalog.expr import Const, Expr, Type, conjunction, show
from lowwater.catalog.values import pack_ip
from lowwater.low import Bounds, LowSettings, Policy
from lowwater.low.code.kernel import ROUND, STRETCH
from lowwater.low.run import _LinkPass
from lowwater.low.runtime.statistics import merge_work, shape
from lowwater.plan.operators import Lfta
from tests.breadth import examples
from tests.lftamaker import SECOND, Row, col, count, lit, make, op, records, run
from tests.low.test_kernels import CONJUNCTS, PACKETS
from tests.low.test_tables import ALL, SETTINGS, links, sane

PORTS = make("ports", {"port": col("destPort"), "id": col("id")}, [count()])
REST: list[Expr] = [
    op(col("srcPort"), "<", Const(Type.INT, 30, "most")),
    op(col("destPort"), ">", Const(Type.INT, 20, "least")),
    op(col("srcIP"), "<>", lit(pack_ip("0.0.0.1"))),
    op(col("destIP"), "=", lit(pack_ip("0.0.0.2"))),
]
"""Parameters keep them out of the prefilter, and what addresses cost; addresses are put off."""


def of(work: pa.Table, lfta: str) -> list[Row]:
    return [row for row in work.to_pylist() if row["lfta"] == lfta]


@pytest.mark.slow
@given(packets=links(), settings=SETTINGS, cuts=st.lists(st.integers(1, 49), max_size=3))
def test_the_minutes_add_up_to_the_pass(packets: list[Row], settings: LowSettings, cuts: list[int]) -> None:
    _, result = run(ALL, records(packets), settings, cuts=cuts)
    for statistics in result.statistics:
        mine = of(result.work, statistics.lfta)
        for name in ("rows_out", "punctuations", "ejections", "collisions"):
            assert sum(row[name] for row in mine) == getattr(statistics, name)
        assert sum(row["records"] for row in mine) == len(packets)
        assert all(0 <= row["groups"] <= row["slots"] == settings.slots for row in mine)
        assert all(row["nanoseconds"] >= row["beat_nanoseconds"] >= 0 for row in mine)
        assert len({row["minute"] for row in mine}) == len(mine)
    outcomes = result.minutes.to_pylist()
    assert all(row["sane"] == sum(row[name] for name in list(row)[3:]) for row in outcomes)
    assert sum(row["sane"] for row in outcomes) == len(ALL) * len(sane(packets, settings.skew))
    twice = merge_work([result.work, result.work])
    assert [row["records"] for row in twice.to_pylist()] == [2 * row["records"] for row in result.work.to_pylist()]
    assert twice.column("groups") == result.work.column("groups")


@cache
def slot(slots: int, port: int | None, number: int) -> int:
    """Where the table puts a group: a pass over one record of it is asked."""
    bounds = Bounds({"ports": 0}, 0, 1 << 62)
    plain = LowSettings(skew=0, policy=Policy.NONE, slots=slots, compiled=False)
    link = _LinkPass([PORTS], "L", bounds, plain, lambda _, __: None, {})
    link._chunk(records([{"timestamp": 1, "destPort": port, "id": number}]))
    (taken,) = np.flatnonzero(link._nodes[0].operator.arguments[1][:, 0])
    return int(taken)


@given(
    packets=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3), st.integers(0, 3)), max_size=40),
    slots=st.sampled_from([1, 2, 4, 8]),
    chunk=st.integers(1, 20),
)
def test_collisions_and_groups_are_those_of_a_plain_table(
    packets: list[tuple[int, int, int]], slots: int, chunk: int
) -> None:
    rows = [{"timestamp": at * SECOND, "destPort": port, "id": number} for at, port, number in sorted(packets)]
    choice = LowSettings(skew=0, policy=Policy.NONE, slots=slots, chunk_rows=chunk, compiled=False)
    _, result = run([PORTS], records(rows), choice)
    table: dict[int, tuple[int, int]] = {}
    expected: dict[int, dict[str, int]] = {}
    for at, port, number in sorted(packets):
        minute = expected.setdefault(at // 60, {"records": 0, "collisions": 0, "ejections": 0, "groups": 0})
        place = slot(slots, port, number)
        collides = table.get(place, (port, number)) != (port, number)
        table[place] = port, number
        done = {"records": 1, "collisions": collides, "ejections": collides}
        minute |= {name: minute[name] + more for name, more in done.items()} | {"groups": len(table)}
    found = {row["minute"]: {name: row[name] for name in ("records", "collisions", "ejections", "groups")}
             for row in of(result.work, "ports") if row["records"]}  # fmt: skip
    assert found == expected


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(seed=st.integers(0, 2**32), order=st.permutations(REST))
def test_selectivities_are_those_of_the_drawn_records(seed: int, order: list[Expr]) -> None:
    size = ROUND + 3 * STRETCH
    random = np.random.default_rng(seed)
    ports = {name: random.integers(0, 100, size) for name in ("srcPort", "destPort", "ttl")}
    values = {**ports, **{name: random.integers(0, 4, size) for name in ("srcIP_lo", "destIP_lo")}}
    packet = {"ipversion": 4, "srcIP_hi": 0, "destIP_hi": 0}
    rows = [{**packet, "timestamp": at, **{name: int(each[at]) for name, each in values.items()}} for at in range(size)]
    cheap = op(col("ttl"), "<", lit(60))
    lfta = make("q", {"time": col("time")}, predicate=conjunction([order[0], cheap, *order[1:]]))
    (row,) = of(run([lfta], records(rows), LowSettings(skew=0, compiled=False), batch_rows=size)[1].work, "q")
    drawn = np.arange(size) % ROUND < STRETCH
    some = drawn & (values["ttl"] < 60)
    tests = {REST[0]: values["srcPort"] < 30, REST[1]: values["destPort"] > 20}
    tests |= {REST[2]: values["srcIP_lo"] != 1, REST[3]: values["destIP_lo"] == 2}
    expected = {show(part): (some.sum(), (some & true).sum()) for part, true in tests.items()}
    expected[show(cheap)] = (drawn.sum(), some.sum())
    found = dict(zip(row["conjuncts"], zip(row["asked"], row["met"], strict=True), strict=True))
    assert found == expected


@pytest.mark.slow
@given(
    packets=PACKETS,
    orders=st.lists(st.permutations([*CONJUNCTS, *REST]), min_size=2, max_size=2),
    chunk=st.integers(1, 9),
)
def test_no_order_of_conjuncts_changes_rows_or_accounts(packets: list[Row], orders: Any, chunk: int) -> None:
    choice = LowSettings(skew=30 * SECOND, compiled=False, chunk_rows=chunk)
    addresses = {"srcIP_hi": 0, "destIP_hi": 0, "destIP_lo": 2}
    packets = [{**packet, **addresses, "srcIP_lo": at % 3, "srcPort": at % 40} for at, packet in enumerate(packets)]
    first: Lfta = make("q", {"time": col("time")}, [count()], predicate=conjunction(orders[0]))
    second = replace(first, predicate=conjunction(orders[1]))
    assert shape(first) == shape(second)
    (streams, result), (others, other) = (run([lfta], records(packets), choice) for lfta in (first, second))
    assert streams == others
    assert result.minutes == other.minutes and result.statistics == other.statistics


def test_what_an_lfta_computes_is_its_shape() -> None:
    assert len({shape(lfta) for lfta in ALL}) == len(ALL)
    assert shape(replace(ALL[0], slots=1024)) == shape(ALL[0])
