"""The tools of `fuzz`: a ledger that is gone on from, and failing cases made small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.law import fuzz as module
from tests.law.compare import REFERENCE, Difference, rows_of
from tests.law.fuzz import BUDGET, again, following, fuzz, keep, rows_of as ledger_rows, run_case, show, summary


@pytest.mark.slow
def test_a_run_goes_on_behind_the_ledger_and_what_was_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept.csv")
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"seed": 50, "engine": "reference", "version": "another grammar"}\n', encoding="utf-8")
    for _ in range(2):
        fuzz(following(2, REFERENCE, ledger), REFERENCE, ledger)
    assert [row["seed"] for row in ledger_rows(ledger)] == [0, 1, 2, 3]
    assert summary(ledger) == 0
    assert "4 cases on reference" in capsys.readouterr().out
    assert keep(ledger) == 0 and not ledger.exists()
    assert again(REFERENCE, REFERENCE, ledger, least=2) == [2, 3]
    for name, least in (("ledger.jsonl", 0), ("other.jsonl", 40)):
        fuzz(following(1, REFERENCE, tmp_path / name, least), REFERENCE, tmp_path / name)
    assert [row["seed"] for each in (ledger, tmp_path / "other.jsonl") for row in ledger_rows(each)] == [4, 40]
    assert summary(ledger) == 0
    assert "kept: 4 cases on reference, seeds 0 to 3" in capsys.readouterr().out


@pytest.mark.slow
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
