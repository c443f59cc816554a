"""Sub-aggregates of users in the low level: partial rows add up for any table, flush policy, chunking and disorder."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.expr import Expr, Type
from lowwater.catalog.functions import AggregateFunction, Udaf
from lowwater.errors import LowwaterError
from lowwater.low import Flush, LowSettings
from lowwater.plan.operators import Partial
from tests.breadth import each_push
from tests.lftamaker import SECOND, Row, col, count, data, lit, make, op, partial, records, run
from tests.low.test_host_columns import QUERY
from tests.low.test_tables import CUTS, SETTINGS, START, UP, sane

EARLY = 1 << 62


class Gather:
    """All values, as a text."""

    def initialize(self) -> list[Any]:
        return []

    def iterate(self, state: list[Any], value: Any = "row") -> list[Any]:
        return [*state, value.hex() if isinstance(value, bytes) else value]

    def output(self, state: list[Any]) -> str:
        return json.dumps(state)

    def destroy(self, state: list[Any]) -> None:
        return None


class Largest(Gather):
    """The largest value, which is none where there were no values."""

    def output(self, state: list[Any]) -> Any:
        return max(state, default=None)


class Wrong(Gather):
    def output(self, state: list[Any]) -> Any:
        return "no number"


def own(name: str, kind: type[Udaf], argument: Expr | None, returns: Type) -> Partial:
    parameters = () if argument is None else (argument.type,)
    udaf = AggregateFunction(kind.__name__, parameters, returns, kind, taken=len(parameters), origin="mine.def")
    return Partial(name, kind.__name__, argument, returns, udaf)


PORT, KEY = col("srcPort"), op(col("time"), "/", lit(10))
LFTA = make(
    "own", {"tb": KEY, "port": col("destPort")},
    [own("ports", Gather, PORT, Type.STRING), count(), own("rows", Gather, None, Type.STRING),
     own("texts", Gather, QUERY, Type.STRING), own("fixed", Gather, lit("a"), Type.STRING),
     own("addresses", Gather, col("srcIP"), Type.STRING), own("largest", Largest, PORT, Type.INT),
     partial("sum", col("id")), own("whether", Gather, op(PORT, ">", lit(1)), Type.STRING),
     own("root", Largest, op(PORT, "/", lit(2.0)), Type.FLOAT)],
)  # fmt: skip
GATHERED = ("ports", "rows", "texts", "fixed", "addresses", "whether")


@st.composite
def links(draw: st.DrawFn) -> list[Row]:
    packets, clock = [], START
    for _ in range(draw(st.integers(0, 40))):
        clock += draw(st.sampled_from([0, SECOND // 4, SECOND, 25 * SECOND]))
        row: Row = {"timestamp": clock - draw(st.sampled_from([0, 0, 5 * SECOND])), "ipversion": 4, "srcIP_hi": 0}
        row |= {"destPort": draw(st.none() | st.integers(0, 3)), "srcPort": draw(st.none() | st.integers(0, 3))}
        row |= {"dns_query": draw(st.sampled_from([None, "", "a", "b"])), "srcIP_lo": draw(st.integers(0, 2))}
        # Sums that leave 64 bits eject their group, whose states begin again.
        packets.append(row | {"id": draw(st.sampled_from([None, 1, EARLY]))})
    return packets


def expected(packet: Row, name: str) -> list[Any]:
    port = packet["srcPort"]
    found = {
        "ports": port,
        "rows": "row",
        "texts": packet["dns_query"],
        "fixed": "a",
        "addresses": (b"\x04" + packet["srcIP_lo"].to_bytes(4, "big")).hex(),
        "whether": None if port is None else port > 1,
    }[name]
    return [] if found is None else [found]


@pytest.mark.slow
@given(packets=links(), settings=SETTINGS, cuts=CUTS, texts=st.sampled_from([0, 1, 1 << 20]))
def test_states_add_up(packets: list[Row], settings: LowSettings, cuts: list[int], texts: int) -> None:
    rows = data(run([LFTA], records(packets), replace(settings, texts=texts), cuts=cuts)[0]["own"])
    kept = sane(packets, settings.skew)
    for name in GATHERED:
        whole, found = Counter[Any](), Counter[Any]()
        for packet in kept:
            key = packet["timestamp"] // (10 * SECOND), packet["destPort"]
            whole.update((*key, each) for each in expected(packet, name))
        for row in rows:
            found.update((row["tb"], row["port"], each) for each in json.loads(row[name]))
        assert found == whole
    for row in rows:
        ports = json.loads(row["ports"])
        assert len(json.loads(row["rows"])) == row["cnt"]
        assert row["largest"] == max(ports, default=None)
        assert row["root"] == (max(ports) / 2 if ports else None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flush", "adjacent"), each_push([("slow 2", True), ("oop-slow 3 1", False), ("immediate", False)], 3)
)
def test_compiled_tables_write_the_same_streams_and_states(flush: str, adjacent: bool) -> None:
    packets: list[Row] = [
        {
            "timestamp": START + at * SECOND // 3 - at % 5 * SECOND, "destPort": at * 7 % 11,
            "srcPort": None if at % 4 == 0 else at % 7, "dns_query": (None, "a", "b\u00e9")[at % 3],
            "ipversion": 4 if at % 2 else None, "srcIP_hi": 0, "srcIP_lo": at % 5, "id": (None, 5, EARLY)[at % 3],
        }
        for at in range(300)
    ]  # fmt: skip
    settings = LowSettings(4 * SECOND, slots=4, adjacent=adjacent, flush=Flush.parse(flush), chunk_rows=32)
    plain, compiled = (
        run([LFTA, UP], records(packets), replace(settings, compiled=kind), batch_rows=100) for kind in (False, True)
    )
    assert plain[0] == compiled[0] and plain[1].statistics == compiled[1].statistics
    assert len(data(plain[0]["own"])) > 20


def test_python_that_gives_another_type_is_named() -> None:
    lfta = make("q", {"time": col("time")}, [own("bad", Wrong, PORT, Type.INT)])
    with pytest.raises(LowwaterError, match=r"the function Wrong \(mine.def\) fails"):
        run([lfta], records([{"timestamp": START, "srcPort": 1}]), LowSettings(0, compiled=False))
