"""The tools of `fuzz`: a ledger that is gone on from, and failing cases made small."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

from lowwater.low import Policy
from lowwater.replay.run_command import RunResults
from tests.law import fuzz as module
from tests.law.cases import Case, case
from tests.law.compare import REFERENCE, Difference, compare_ticks, rows_of
from tests.law.fuzz import BUDGET, again, following, fuzz, keep, run_case, show, summary
from tests.law.fuzz import rows_of as ledger_rows
from tests.law.questions import Question
from tests.law.reduce import PLAIN, reduced


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


def test_a_ledger_with_differences_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept.csv")
    ledger = tmp_path / "ledger.jsonl"
    found = module.Outcome(0, REFERENCE, module.DIFFERENT, "why")
    ledger.write_text(json.dumps(vars(found)) + "\n", encoding="utf-8")
    assert keep(ledger) == 1 and ledger.exists() and not module.KEPT.exists()


@pytest.mark.parametrize(
    ("last", "tick", "allowed"), [(10, 25, 5), (10, 12, 5 + 4 + 3)], ids=["let go by a promise", "by an arrival"]
)
def test_a_tick_may_be_one_later_and_no_more(last: int, tick: int, allowed: int) -> None:
    drawn = case(0)
    choice = replace(drawn.choice, policy=str(Policy.PERIODIC), flush="immediate", pace=(5, 1), period=3)
    asked = Question("q", "DEFINE{query_name 'q';} SELECT time, len FROM main1.TCP", "")
    run = replace(drawn, asked=(asked,), choice=choice, world=replace(drawn.world, skews={"main1": 4}))

    def gathered(at: int) -> RunResults:
        columns = {"x": [1], "_last": [last], "_tick": [at]}
        return cast("RunResults", SimpleNamespace(rows={"q": [pa.table(columns)]}))

    compare_ticks(run, gathered(tick + allowed), gathered(tick))
    with pytest.raises(AssertionError, match="query q"):
        compare_ticks(run, gathered(tick + allowed + 1), gathered(tick))


def test_a_case_that_fails_is_made_small() -> None:
    def fails(small: Case) -> bool:
        return any(packet.kind == "udp" for packets in small.world.packets.values() for packet in packets)

    small = reduced(case(0), fails, 2000)
    assert [packet.kind for packets in small.world.packets.values() for packet in packets] == ["udp"]
    assert (len(small.asked), small.choice, small.world.cuts) == (1, PLAIN, ())


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
