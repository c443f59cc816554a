"""A query that fails in `run`, whatever the cause, ends itself and no other query of the set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lowwater.replay import row_files, run_command
from tests.breadth import some
from tests.replay.test_overflow import ENGINES, ran

GOOD = "DEFINE { query_name 'good'; } SELECT time, len FROM a.UDP;\n"
FUNCTIONS = """MODULE 'odd.py';
int FUN [LFTA_LEGAL, COST LOW] low_odd (int);
int FUN [COST EXPENSIVE] high_odd (int);
int UDAF odd_of int (int);
"""
PYTHON = """def low_odd(x): raise KeyError(x)
high_odd = low_odd
class odd_of:
    def initialize(self): return 0
    def iterate(self, state, x): raise KeyError(x)
    def output(self, state): return state
    def destroy(self, state): pass
"""
FAILING = {
    "watch list": "DEFINE { query_name 'w'; filename 'w.csv'; refresh_interval '60'; }\n"
    "WATCHLIST FIELDS { IP address (key); uint n; };\nDEFINE { query_name 'bad'; } "
    "SELECT p.time, w.n WATCHLIST_JOIN FROM a.UDP p, w w WHERE p.srcIP = w.address",
    "function at the low level": "DEFINE { query_name 'bad'; } SELECT time, low_odd(len) AS x FROM a.UDP",
    "function at the high level": "DEFINE { query_name 'bad'; } SELECT time, high_odd(len) AS x FROM a.UDP",
    "aggregate": "DEFINE { query_name 'bad'; } SELECT tb, odd_of(len) AS x FROM a.UDP GROUP BY time/60 AS tb",
    "idle epochs": "DEFINE { query_name 'bad'; } SELECT tb, count(*) AS n FROM a.UDP GROUP BY timestamp_ms AS tb "
    "CLOSING_WHEN FALSE",
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cause", some(FAILING, 2))
def test_others_are_written(cause: str, engine: str, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("10.0.0.1,1\n10.0.0.1,many\n", encoding="utf-8")
    (tmp_path / "odd.py").write_text(PYTHON, encoding="utf-8")
    (tmp_path / "odd.fun").write_text(FUNCTIONS, encoding="utf-8")
    bad = FAILING[cause].replace("'w.csv'", f"'{tmp_path / 'w.csv'}'")
    said = ran(tmp_path, engine, GOOD + bad, "--functions", str(tmp_path / "odd.fun"))
    assert said.code == 1 and "query bad" in said.err, said.err
    assert f"the results of the other queries are in {tmp_path / 'out'}" in said.err
    assert (tmp_path / "out" / "good.csv").read_text().count("\n") == 5
    assert not (tmp_path / "out" / "bad.csv").exists()


@pytest.mark.parametrize(
    ("engine", "stage"),
    [
        ("reference", "evaluate"),
        ("reference", "write_rows"),
        pytest.param("process", "low_level", marks=pytest.mark.slow),
    ],
)
def test_a_fault_of_ours_is_of_its_query(
    engine: str, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage that fails for the query `bad` as no error that we know does."""
    module: Any = row_files if stage == "write_rows" else run_command
    if stage == "evaluate":
        from lowwater.reference import engine as module
    real = getattr(module, stage)

    def failing(first: Any, *more: Any, **options: Any) -> Any:
        plan = getattr(first, "plan", None)
        names = [query.name for query in plan.queries] if plan is not None else [getattr(first, "query", "")]
        names += Path(more[1]).name.split(".") if stage == "write_rows" else []
        if "bad" in names:
            raise ValueError("'interface' is not in list")
        return real(first, *more, **options)

    monkeypatch.setattr(module, stage, failing)
    said = ran(tmp_path, engine, GOOD + "DEFINE { query_name 'bad'; } SELECT time, srcPort FROM a.UDP")
    assert said.code == 1 and "query bad: ValueError: 'interface' is not in list" in said.err, said.err
    assert "this is a fault of Lowwater" in said.err
    assert (tmp_path / "out" / "good.csv").read_text().count("\n") == 5
    assert not (tmp_path / "out" / "bad.csv").exists()
