"""The edges of values (`tests/edges.py`) in every engine, at both levels and in both dialects."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random

import pytest

from tests.capturemaker import pcap_bytes, tcp
from tests.edges import CASES, SUMS, Value, query
from tests.replay.support import lowwater

SECOND = 1_000_000_000
ENGINES = ["reference", pytest.param("process", marks=pytest.mark.slow)]


def _cells(line: dict[str, str]) -> list[str]:
    return [line[f"v{at}"] for at in range(len(CASES))]


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_and_level_gives_the_values_of_the_table(engine: str, tmp_path: Path) -> None:
    capture, out = tmp_path / "a.pcap", tmp_path / "out"
    capture.write_bytes(pcap_bytes([(SECOND, tcp("10.0.0.1", "10.0.0.2", 1024, 80))]))
    queries = tmp_path / "edges.gsql"
    asked = [(level, dialect) for level in (False, True) for dialect in ("lowwater", "gigascope")]
    queries.write_text(";\n".join(query(level, dialect) for level, dialect in asked))
    said = lowwater("run", queries, "--capture", f"main1={capture}", "--out", out, "--engine", engine)
    assert said.code == 0, said.err
    for level, dialect in asked:
        with (out / f"{'groups' if level else 'packets'}_{dialect}.csv").open() as file:
            (line,) = csv.DictReader(file)
        found = dict(zip((case.text for case in CASES), _cells(line), strict=True))
        expected = {case.text: _text(case.old if dialect == "gigascope" else case.value) for case in CASES}
        assert found == expected, (level, dialect)


FORMS = {
    "split": "}} SELECT tb, {sums} FROM main1.TCP GROUP BY time/60 AS tb",
    "whole": "select_lfta 'yes'; }} SELECT tb, {sums} FROM main1.TCP GROUP BY time/60 AS tb",
    "running": "}} SELECT tb, srcIP, {sums} FROM main1.TCP GROUP BY time/60 AS tb, srcIP CLOSING_WHEN count(*) = 0",
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_sum_of_floats_is_a_function_of_the_set_of_values(engine: str, tmp_path: Path) -> None:
    most = max(len(values) for _, values, _ in SUMS)
    frames = [(SECOND + at, tcp("10.0.0.1", "10.0.0.2", at, 80)) for at in range(most)]
    capture, out, queries = tmp_path / "a.pcap", tmp_path / "out", tmp_path / "sums.gsql"
    capture.write_bytes(pcap_bytes(frames, nanoseconds=True))
    sums = []
    for number, (_, values, _) in enumerate(SUMS):
        branches = " ".join(f"WHEN srcPort = {at} THEN {value!r}" for at, value in enumerate(values))
        sums += [f"{function}(CASE {branches} END) AS {function}{number}" for function in ("sum", "avg")]
    texts = [f"DEFINE {{ query_name '{form}'; " + text.format(sums=", ".join(sums)) for form, text in FORMS.items()]
    queries.write_text(";\n".join(texts).replace("}}", "}"))
    said = lowwater("run", queries, "--capture", f"main1={capture}", "--out", out, "--engine", engine)
    assert said.code == 0, said.err
    for form in FORMS:
        with (out / f"{form}.csv").open() as file:
            line = next(csv.DictReader(file))
        for number, (what, values, total) in enumerate(SUMS):
            mean = None if total is None else total / len(values)
            for cell, expected in ((line[f"sum{number}"], total), (line[f"avg{number}"], mean)):
                found = float(cell) if cell else None
                assert found == (None if expected is None else pytest.approx(expected, rel=1e-9)), (what, form)


_WRAPPED = {
    "where": "SELECT time, srcPort FROM main1.TCP WHERE [srcPort*1000000] < 1000000000",
    "having": "SELECT tb, srcPort, [sum([len*30000000])] AS s FROM main1.TCP GROUP BY time/10 AS tb, srcPort "
    "HAVING [sum([len*30000000])] < 2000000000",
    "closing": "SELECT tb, srcPort, count(*) AS n FROM main1.TCP GROUP BY time/10 AS tb, srcPort "
    "CLOSING_WHEN [sum([len*30000000])] < 1000000000",
    "sampling": "SELECT tb, srcPort, count(*) AS n, [sum$([len*30000000])] AS s FROM main1.TCP "
    "GROUP BY time/10 AS tb, srcPort CLEANING_WHEN [sum$([len*30000000])] < 2000000000 "
    "CLEANING_BY [sum([len*30000000])] < 2000000000",
    "join": "SELECT A.time, A.srcPort, B.destPort, [A.srcPort*99000000] AS x INNER_JOIN FROM main1.TCP A, main2.TCP B "
    "WHERE A.time = B.time AND [A.srcPort*268435456] = [B.destPort*268435456] AND "
    "[A.srcPort*99000000] < [B.destPort*77000000]",
    "filter_join": "SELECT S.time, S.srcPort, [S.srcPort*99000000] AS x FILTER_JOIN(time, 2) "
    "FROM main1.TCP S, main1.TCP A "
    "WHERE [S.srcPort*268435456] = [A.destPort*268435456] AND [S.srcPort*1000000] < 1000000000",
    "watch_join": "SELECT p.time, p.srcPort, w.least, [p.srcPort*99000000] AS x WATCHLIST_JOIN "
    "FROM main1.TCP p, ports w WHERE [p.srcPort*268435456] = w.high AND [p.srcPort*1000000] < [w.least*99000000]",
}
"""Queries of each operator; what stands in brackets wraps in the old dialect."""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_operator_wraps_in_the_old_dialect(engine: str, tmp_path: Path) -> None:
    random = Random(5)
    for link in ("main1", "main2"):
        frames = [
            (SECOND + at * SECOND // 20, tcp("10.0.0.1", "10.0.0.2", random.randrange(64), random.randrange(64)))
            for at in range(400)
        ]
        (tmp_path / f"{link}.pcap").write_bytes(pcap_bytes(frames, nanoseconds=True))
    watched = tmp_path / "ports.csv"
    watched.write_text("".join(f"{number << 28},{17 * number}\n" for number in range(16)))
    texts = [
        f"DEFINE {{ query_name 'ports'; filename '{watched}'; refresh_interval '60'; }}\n"
        "WATCHLIST FIELDS { ullong high (key); uint least; }"
    ]
    for name, text in _WRAPPED.items():
        plain = text.replace("[", "((").replace("]", ") & 4294967295)")
        texts.append(f"DEFINE {{ query_name '{name}_plain'; }}\n{plain}")
        old = text.replace("[", "(").replace("]", ")")
        texts.append(f"DEFINE {{ query_name '{name}_old'; dialect 'gigascope'; }}\n{old}")
    queries, out = tmp_path / "wrapped.gsql", tmp_path / "out"
    queries.write_text(";\n".join(texts))
    links = [option for link in ("main1", "main2") for option in ("--capture", f"{link}={tmp_path / f'{link}.pcap'}")]
    said = lowwater("run", queries, *links, "--out", out, "--engine", engine)
    assert said.code == 0, said.err
    for name in _WRAPPED:
        rows = (out / f"{name}_plain.csv").read_text()
        assert rows.count("\n") > 5, name
        assert (out / f"{name}_old.csv").read_text() == rows, name
