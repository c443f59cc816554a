"""IN lists of any length: one operator, the values of the equalities that short lists are, a limit that says so."""

from __future__ import annotations

import csv
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.expr import Binary, Column, Const, Expr, OneOf, Unary, walk
from lowwater.catalog.values import Type, pack_ip
from lowwater.limits import IN_VALUES as LONGEST
from lowwater.low.code.expressions import of_link
from lowwater.low.settings import LowSettings
from lowwater.plan.bind.expressions import SHORT, any_of, binary
from lowwater.stream.values import Faults, compile_expr
from tests import capturemaker as maker
from tests.lftamaker import data, make, records, run
from tests.replay.support import lowwater

SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
INTS = st.none() | st.integers(-30, 30) | st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 53, (1 << 53) + 1])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.0, 7.0, 9007199254740992.0])


def lists(kind: Type) -> Any:
    values = {
        Type.INT: INTS | FLOATS,
        Type.FLOAT: INTS | FLOATS,
        Type.STRING: st.none() | st.text("ab", max_size=2),
        Type.IP: st.none() | st.integers(0, 30).map(lambda last: pack_ip(f"10.0.0.{last}")),
    }[kind]
    return st.lists(values, min_size=1, max_size=60)


def constant(value: Any, kind: Type) -> Const:
    return Const(Type.FLOAT if isinstance(value, float) else Type.INT if isinstance(value, int) else kind, value)


def equalities(operand: Expr, values: list[Any]) -> list[Expr]:
    found = [binary("=", operand, constant(value, operand.type)) for value in values]
    return [each for each in found if each is not None]


def either(equals: list[Expr]) -> Expr:
    return reduce(lambda left, right: Binary(Type.BOOL, "OR", left, right), equals)


@pytest.mark.parametrize("kind", [Type.INT, Type.FLOAT, Type.STRING, Type.IP])
@given(given=st.data())
def test_a_list_has_the_value_of_its_equalities(kind: Type, given: st.DataObject) -> None:
    column = Column(kind, "x")
    values = given.draw(lists(kind))
    equals = equalities(column, values)
    whole = any_of(column, equals)
    assert len(equals) > SHORT or not any(isinstance(node, OneOf) for node in walk(whole))
    drawn = {Type.INT: INTS, Type.FLOAT: FLOATS | st.none()}
    operands = drawn[kind] if kind in drawn else lists(kind).map(lambda some: some[0])
    for negated in (False, True):
        one, other = (Unary(Type.BOOL, "NOT", each) if negated else each for each in (whole, either(equals)))
        x = given.draw(operands)
        asked, expected = (compile_expr(each, ["x"], Faults())((x,)) for each in (one, other))
        assert asked is expected, (x, values)


def test_a_list_of_links_is_known_for_each_link() -> None:
    links = Column(Type.STRING, "interface")
    whole = any_of(links, equalities(links, [f"main{number}" for number in range(40)]))
    assert [of_link(whole, link) for link in ("main7", "other")] == [Const(Type.BOOL, True), Const(Type.BOOL, False)]


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_low_level_has_the_values_of_the_reference(compiled: bool) -> None:
    column = Column(Type.INT, "id")
    half = Binary(Type.INT, "/", Const(Type.INT, 100), column)
    exprs: dict[str, Expr] = {
        "ints": any_of(column, equalities(column, [*range(0, 60, 2), 1.0, 2.5])),
        "nulls": any_of(column, equalities(column, [*range(0, 60, 2), None])),
        "calculated": any_of(half, equalities(half, list(range(40)))),
        "not": Unary(Type.BOOL, "NOT", any_of(column, equalities(column, list(range(40))))),
    }
    packets = [{"timestamp": 5, "id": value} for value in (None, 0, 1, 2, 3, 58, 60, -1)]
    rows = data(run([make("q", exprs)], records(packets), LowSettings(skew=0, compiled=compiled))[0]["q"])
    for packet, row in zip(packets, rows, strict=True):
        expected = {n: compile_expr(e, ["id"], Faults())((packet["id"],)) for n, e in exprs.items()}
        assert {name: row[name] for name in exprs} == expected, packet


def query(folder: Path, where: str) -> Path:
    path = folder / "q.gsql"
    path.write_text(f"DEFINE {{ query_name 'q'; }}\nSELECT time, srcPort, len FROM UDP WHERE {where}\n")
    return path


def numbers(count: int) -> str:
    return ", ".join(str(number) for number in range(count))


@pytest.mark.parametrize("count", [600, pytest.param(LONGEST, marks=pytest.mark.slow)])
def test_long_lists_plan(tmp_path: Path, count: int) -> None:
    path = query(tmp_path, f"destPort IN [{numbers(count)}] AND srcPort NOT IN ({numbers(count - 1)}, NULL)")
    said = lowwater("check", path)
    assert said.code == 0 and "no error" in said.out, said.err
    shown = lowwater("explain", path)
    assert shown.code == 0 and f"destPort IN [{numbers(count)}]" in " ".join(shown.out.replace("|", " ").split())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["reference", pytest.param("process", marks=pytest.mark.slow)])
def test_long_lists_run(tmp_path: Path, engine: str) -> None:
    """600 of 1,000 source ports, through LFTAs and above a derived table, whose predicate the high level asks."""
    frames = [(START + n * SECOND // 10, maker.udp("10.0.0.1", "10.0.0.2", n, 53, b"x")) for n in range(1, 1001)]
    capture = tmp_path / "a.pcap"
    capture.write_bytes(maker.pcap_bytes(frames))
    path = tmp_path / "q.gsql"
    addresses = ", ".join(f"'10.0.{n // 256}.{n % 256}'" for n in range(600))
    path.write_text(
        f"DEFINE {{ query_name 'low'; }}\nSELECT time, srcPort, srcIP FROM UDP WHERE srcPort IN [{numbers(600)}];\n"
        "DEFINE { query_name 'high'; }\nSELECT tb, sum(n) AS total FROM counts "
        f"WHERE port IN [{numbers(300)}] AND address IN [{addresses}] GROUP BY tb;\n"
        "DEFINE { query_name 'counts'; visibility 'internal'; }\nSELECT tb, port, address, count(*) AS n FROM UDP "
        "GROUP BY time/100 AS tb, srcPort AS port, srcIP AS address\n"
    )
    said = lowwater("run", path, "--capture", f"a={capture}", "--out", tmp_path / "out", "--engine", engine)
    assert said.code == 0, said.err
    with (tmp_path / "out" / "low.csv").open(newline="") as file:
        assert [int(row["srcPort"]) for row in csv.DictReader(file)] == list(range(1, 600))
    with (tmp_path / "out" / "high.csv").open(newline="") as file:
        assert sum(int(row["total"]) for row in csv.DictReader(file)) == 299
