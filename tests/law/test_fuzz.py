"""The tools of `fuzz`: a ledger that is gone on from, and failing cases made small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.law.cases import Case, case
from tests.law.compare import REFERENCE, Difference, rows_of
from tests.law.fuzz import BUDGET, fuzz, run_case, show, summary
from tests.law.fuzz import rows_of as ledger_rows
from tests.law.reduce import PLAIN, reduced


def test_a_run_goes_on_behind_the_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"seed": 50, "engine": "reference", "version": "another grammar"}\n', encoding="utf-8")
    for _ in range(2):
        fuzz(2, REFERENCE, ledger, None, 60)
    assert [row["seed"] for row in ledger_rows(ledger)] == [0, 1, 2, 3]
    assert summary(ledger) == 0
    assert "4 cases on reference" in capsys.readouterr().out


def test_a_case_that_fails_is_made_small() -> None:
    def fails(small: Case) -> bool:
        return any(packet.kind == "udp" for packets in small.world.packets.values() for packet in packets)

    small = reduced(case(0), fails, 2000)
    assert [packet.kind for packets in small.world.packets.values() for packet in packets] == ["udp"]
    assert (len(small.asked), small.choice, small.world.cuts) == (1, PLAIN, ())


def test_a_difference_is_found_and_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An engine that loses the last row of every query."""

    def losing(gathered: object, query: str, *more: str) -> object:
        found = rows_of(gathered, query, *more)  # type: ignore[arg-type]
        for row in sorted(found, key=repr)[-1:]:
            del found[row]
        return found

    monkeypatch.setitem(BUDGET, REFERENCE, 5)
    seed = next(seed for seed in range(99) if run_case(seed, REFERENCE).rows)
    monkeypatch.setattr("tests.law.compare.rows_of", losing)
    assert show(seed, REFERENCE, None) == 1
    said = capsys.readouterr().out
    assert Difference.__name__ in said and "missing 1 x" in said and "Case(world=World(" in said
