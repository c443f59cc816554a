"""A published interval is rolled back to an earlier version: an act in the ledger, which stands until it is lifted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from lowwater_generator import GeneratedCapture

from lowwater.errors import LakeError
from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.runs import last_published
from lowwater.lake.results.pins import pinned
from lowwater.lake.results.publish import ROLLED_BACK_NOTE, publish
from lowwater.lake.results.subscription import subscribe
from tests.replay.deskmaker import AS_IT_IS, CHANGED, FIRST, SECOND, copy_desk, hour, make_lake, set_query, version
from tests.replay.support import lowwater, replay_range, states

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

AT = ("--at", "2026-01-01T00:00Z")


@pytest.fixture(scope="module")
def changed(
    captures: list[GeneratedCapture], tmp_path_factory: pytest.TempPathFactory, runner: Runner
) -> tuple[Path, int]:
    """A lake whose first hour was published again by a changed query, and the version of `talkers` before."""
    lake = make_lake(tmp_path_factory.mktemp("changed"), captures, runner)
    before = version(lake)
    set_query(lake, CHANGED)
    replay_range(lake, runner, *FIRST, query_set="talkers")
    return lake, before


@pytest.fixture
def lake(changed: tuple[Path, int], tmp_path: Path) -> Path:
    return copy_desk(changed[0], tmp_path / "lake")


def shown(lake: Path) -> dict[tuple[int, str], str]:
    return {key: state for key, state in states(lake, "talkers").items() if key[0] < 2}


@pytest.mark.slow
def test_rows_come_back_and_the_act_is_recorded(
    lake: Path, changed: tuple[Path, int], runner: Runner, captures: list[GeneratedCapture], tmp_path: Path
) -> None:
    before = changed[1]
    wrong, other = hour(lake, FIRST), hour(lake, SECOND)
    with subscribe(lake, "talkers", after="", history=False) as changes:
        told = ("--to", before, "--because", "it loses short packets", "--by", "ann")
        said = lowwater("rollback", "talkers", "--lake", lake, *AT, *told, "--dry-run")
        assert said.code == 0 and hour(lake, FIRST) == wrong, "a dry run changes nothing"
        assert lowwater("rollback", "talkers", "--lake", lake, *AT, *told).code == 0
        change = changes.poll()
        assert change is not None and change.restated and (change.start, change.end) == FIRST
        assert sum(batch.num_rows for batch in change.batches()) == len(hour(lake, FIRST))
    original = DeltaTable(str(lake / "tables/talkers"), version=before).to_pyarrow_table().to_pylist()
    assert sorted((row["tb"], row["srcIP"], row["packets"]) for row in original) == sorted(
        (row["tb"], row["srcIP"], row["packets"])
        for row in DeltaTable(str(lake / "tables/talkers")).to_pyarrow_table().to_pylist()
    )
    assert hour(lake, FIRST) != wrong and hour(lake, SECOND) == other
    commit = DeltaTable(str(lake / "tables/talkers")).history(1)[0]
    assert json.loads(commit[ROLLED_BACK_NOTE]) == {"version": before, "by": "ann", "why": "it loses short packets"}
    row = last_published(open_lake(lake), "talkers", "talkers", *FIRST)
    assert row is not None and row.state == "rolled back" and row.rows == len(hour(lake, FIRST))
    assert json.loads(row.accounting)["rolled_back"]["by"] == "ann"
    pins = pinned(open_lake(lake), "talkers")
    assert pins is not None and pins.tables["talkers"] == version(lake) and not pins.unfinished


@pytest.mark.slow
def test_a_run_that_ended_between_two_tables_is_run_again_and_moves_the_pins(
    lake: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other table was right already: had the ledger the first row alone, the interval would count as done."""
    DeltaTable(str(lake / "tables/talkers")).delete(f'"_last" < {FIRST[1]}')

    def ends(lake: Lake, query_set: str, query: str, *rest: Any) -> Any:
        if query == "totals":
            raise KeyboardInterrupt
        return publish(lake, query_set, query, *rest)

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr("lowwater.replay.interval.publish", ends)
        replay_range(lake, runner, *FIRST, query_set="talkers")
    assert shown(lake)[0, "talkers"] == "damaged"
    (outcome,) = replay_range(lake, runner, *FIRST, query_set="talkers")
    assert outcome.committed and shown(lake)[0, "talkers"] == "done"
    pins = pinned(open_lake(lake), "talkers")
    assert pins is not None and pins.tables == {
        name: DeltaTable(str(lake / "tables" / name)).version() for name in ("talkers", "totals")
    }


@pytest.mark.slow
def test_it_stands_until_inputs_change_or_it_is_lifted(
    lake: Path, changed: tuple[Path, int], runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise LakeError("the store is slow")

    wrong = hour(lake, FIRST)
    told = ("--to", changed[1], "--because", "no")
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, *told).code == 0
    right, at = hour(lake, FIRST), version(lake)
    assert shown(lake)[0, "talkers"] == "rolled back" and shown(lake)[0, "totals"] == "done"
    said = lowwater("status", "--lake", lake)
    assert "rolled back" in said.out and "to version" in " ".join(said.out.split())
    said = lowwater("plan", "--lake", lake, "--to", "2026-01-01T01:00Z")
    assert said.out == "nothing is due\n"
    (outcome,) = replay_range(lake, runner, *FIRST, query_set="talkers")
    assert (outcome.state, outcome.committed) == ("rolled back", False) and "no" in outcome.reason
    assert (hour(lake, FIRST), version(lake)) == (right, at)
    notes = lowwater("rows", "talkers", "--lake", lake, "--to", "2026-01-01T01:00Z", "--limit", 1).err
    assert "is rolled back" in notes
    with monkeypatch.context() as broken, pytest.raises(LakeError, match="slow"):
        broken.setattr("lowwater.replay.interval._confirmed", fails)
        replay_range(lake, runner, *FIRST, query_set="talkers")
    (outcome,) = replay_range(lake, runner, *FIRST, query_set="talkers")
    assert (outcome.state, outcome.committed) == ("rolled back", False) and hour(lake, FIRST) == right
    assert shown(lake)[0, "talkers"] == "rolled back"
    # Other inputs are other rows: what was refused says nothing about them.
    set_query(lake, AS_IT_IS)
    assert shown(lake)[0, "talkers"] == "stale"
    set_query(lake, CHANGED)
    assert shown(lake)[0, "talkers"] == "rolled back"
    said = lowwater("rollback", "talkers", "--lake", lake, *AT, "--lift", "--because", "it was right")
    assert said.code == 0 and shown(lake)[0, "talkers"] == "stale"
    assert "lifted" in lowwater("plan", "--lake", lake, "--to", "2026-01-01T01:00Z").out
    (outcome,) = replay_range(lake, runner, *FIRST, query_set="talkers")
    assert (outcome.state, outcome.committed) == ("done", True) and hour(lake, FIRST) == wrong
    assert shown(lake)[0, "talkers"] == "done"


@pytest.mark.slow
def test_intervals_of_another_length_do_not_publish_what_was_refused(
    lake: Path, changed: tuple[Path, int], runner: Runner
) -> None:
    """Counterexample: an hour was rolled back, then the length was two hours: the next backfill published the refused
    rows again from the same inputs, and nobody was told."""

    def set_length(before: str, length: str) -> None:
        settings = (lake / "lowwater.toml").read_text()
        (lake / "lowwater.toml").write_text(settings.replace(f'length = "{before}"', f'length = "{length}"'))

    wrong, both = hour(lake, FIRST), (FIRST[0], SECOND[1])
    told = ("--to", changed[1], "--because", "no")
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, *told).code == 0
    right, at = hour(lake, FIRST), version(lake)
    set_length("1h", "2h")
    said = lowwater("backfill", "--lake", lake, "--to", "2026-01-01T02:00Z")
    assert said.code == 1 and (hour(lake, FIRST), version(lake)) == (right, at)
    assert "talkers is rolled back from 2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z, to version" in said.err
    lift = "lowwater rollback talkers --at 2026-01-01T00:00:00Z --lift"
    assert lift in said.err and lift in " ".join(lowwater("status", "--lake", lake).out.split())
    with pytest.raises(LakeError, match="rolled back"):
        replay_range(lake, runner, *both, query_set="talkers")
    set_query(lake, AS_IT_IS)  # other inputs: what was refused says nothing about them
    assert "cannot start" not in lowwater("plan", "--lake", lake, "--to", "2026-01-01T02:00Z").out
    set_query(lake, CHANGED)
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, "--lift", "--because", "it was right").code == 0
    assert lowwater("backfill", "--lake", lake, "--to", "2026-01-01T02:00Z").code == 0
    assert hour(lake, FIRST) == wrong
    # And back: no part is published of what is rolled back as a whole.
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, "--to", at, "--because", "no").code == 0
    set_length("2h", "1h")
    assert lowwater("backfill", "--lake", lake, "--to", "2026-01-01T02:00Z").code == 1
    assert hour(lake, FIRST) == right
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, "--lift", "--because", "it was right").code == 0
    assert lowwater("backfill", "--lake", lake, "--to", "2026-01-01T02:00Z").code == 0
    assert hour(lake, FIRST) == wrong


@pytest.mark.slow
def test_a_trial_of_another_length_is_not_promoted_over_a_roll_back(
    lake: Path, changed: tuple[Path, int], tmp_path: Path
) -> None:
    """What a person refused stays away, also as a part of a longer interval that was tried (S7)."""
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, "--to", changed[1], "--because", "no").code == 0
    right, at = hour(lake, FIRST), version(lake)
    settings = (lake / "lowwater.toml").read_text()
    (lake / "lowwater.toml").write_text(settings.replace('length = "1h"', 'length = "2h"'))
    file = tmp_path / "talkers.gsql"
    file.write_text(CHANGED, encoding="utf-8")
    tried = ("try", "longer", "--lake", lake, "--with", file)
    said = lowwater(*tried, "--from", "2026-01-01T00:00Z", "--to", "2026-01-01T02:00Z")
    assert said.code == 3, said
    said = lowwater(*tried, "--promote")
    assert said.code == 1 and "not promoted" in said.err, said
    assert "talkers is rolled back from 2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z" in said.err
    assert (hour(lake, FIRST), version(lake)) == (right, at)
    lift = ("rollback", "talkers", "--lake", lake, *AT, "--lift", "--because", "it was right")
    assert lowwater(*lift).code == 0 and lowwater(*tried, "--promote").code == 0
    assert hour(lake, FIRST) != right


@pytest.mark.slow
def test_what_cannot_be_rolled_back_is_refused(lake: Path, changed: tuple[Path, int]) -> None:
    because = ("--because", "no")
    newest = version(lake)
    said = lowwater("rollback", "talkers", "--lake", lake, *AT, "--to", 0, *because)
    assert said.code == 1 and "in version 0 the interval of 2026-01-01T00:00:00Z is not published" in said.err
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, *because).code == 2
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, "--to", 1, "--because", " ").code == 2
    assert version(lake) == newest


@pytest.mark.slow
def test_history_lists_what_diff_and_rollback_may_be_given(lake: Path, changed: tuple[Path, int]) -> None:
    before, newest = changed[1], version(lake)
    said = lowwater("history", "talkers", "--lake", lake, "--json")
    last, *earlier = json.loads(said.out)
    assert (last["version"], last["what"], last["state"]) == (newest, "published", "done")
    assert (last["start"], last["end"], last["rows"]) == (*FIRST, len(hour(lake, FIRST)))
    assert last["why"] == ["query talkers has changed"]
    assert [(each["start"], each["why"]) for each in earlier] == [
        (SECOND[0], ["first publication"]),
        (FIRST[0], ["first publication"]),
    ]
    table = lowwater("history", "talkers", "--lake", lake, *AT).out
    assert "query talkers has changed" in table and "2026-01-01T01:00:00Z" not in table
    by_number = lowwater("diff", "talkers", "--lake", lake, "--from", before).out
    assert lowwater("diff", "talkers", "--lake", lake, "--from", "previous").out == by_number
    of_hour = lowwater("diff", "talkers", "--lake", lake, *AT, "--from", "previous")
    assert of_hour.out.startswith(f"talkers: version {earlier[1]['version']} to {newest},") and of_hour.code == 3
    made = format_instant(earlier[0]["at"])
    assert lowwater("diff", "talkers", "--lake", lake, "--from", made, "--with", before).code == 0
    said = lowwater("diff", "talkers", "--lake", lake, "--from", "2020-01-01T00:00Z")
    assert said.code == 1 and "no version of 2020-01-01T00:00:00Z or before" in said.err
    said = lowwater("diff", "talkers", "--lake", lake, "--at", "2026-01-01T01:00Z", "--from", "previous")
    assert said.code == 1 and "no version of the interval of 2026-01-01T01:00:00Z before the newest one" in said.err
    assert lowwater("diff", "talkers", "--lake", lake, "--from", "last").code == 2
    right = hour(changed[0], FIRST)
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, "--to", "previous", "--because", "no").code == 0
    assert hour(lake, FIRST) != right
    newest_first = json.loads(lowwater("history", "talkers", "--lake", lake, "--json", "--limit", "1").out)
    assert [(each["what"], each["why"][0].startswith("to version")) for each in newest_first] == [("rolled back", True)]
    DeltaTable(str(lake / "tables/talkers")).delete("packets > 1")
    foreign = json.loads(lowwater("history", "talkers", "--lake", lake, "--json", "--limit", "1").out)[0]
    assert foreign["what"] == "changed by another program" and foreign["why"][0].startswith("delete")


@pytest.mark.slow
def test_history_knows_its_versions_whatever_the_clocks_say(
    lake: Path, changed: tuple[Path, int], runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counterexample: a machine whose clock is an hour ahead published an hour, and another one published it again: the
    newest version had the rows, and the reason, of the one before."""
    real = time.time_ns
    for text, ahead in ((AS_IT_IS, HOUR), (CHANGED, 0)):
        set_query(lake, text)
        with monkeypatch.context() as clock:
            clock.setattr(time, "time_ns", lambda ahead=ahead: real() + ahead)
            replay_range(lake, runner, *FIRST, query_set="talkers")
    told = json.loads(lowwater("history", "talkers", "--lake", lake, *AT, "--json").out)
    as_it_is, left_out = len(hour(changed[0], FIRST)), told[1]["rows"]
    assert [each["rows"] for each in told[:2]] == [as_it_is, left_out] and left_out > as_it_is
    assert [each["why"] for each in told] == [["query talkers has changed"]] * 3 + [["first publication"]]


@pytest.mark.slow
def test_damage_is_said_everywhere_and_made_again_but_not_over_a_roll_back(
    lake: Path, changed: tuple[Path, int], runner: Runner
) -> None:
    """Another program deletes rows of a published hour, as of a table that was restored."""
    right, other = hour(lake, FIRST), hour(lake, SECOND)
    cut = DeltaTable(str(lake / "tables/talkers"))
    cut.delete(f'"_last" < {FIRST[1]}')
    assert shown(lake) == {
        (0, "talkers"): "damaged",
        (0, "totals"): "done",
        (1, "talkers"): shown(lake)[1, "talkers"],
        (1, "totals"): shown(lake)[1, "totals"],
    }
    span = ("--to", "2026-01-01T01:00Z")
    said = lowwater("plan", "--lake", lake, *span, "--only", "damaged")
    assert "DELETE by delta-rs" in " ".join(said.out.split())
    said = lowwater("streams", "--lake", lake)
    assert "damaged    2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z: version" in said.out
    assert "is damaged: version" in lowwater("rows", "talkers", "--lake", lake, *span).err
    counted = 'lowwater_intervals{query_set="talkers",state="damaged"} 1.0'
    assert counted in lowwater("metrics", "--lake", lake).out
    (outcome,) = replay_range(lake, runner, *FIRST, query_set="talkers")
    assert (outcome.state, outcome.verdict, outcome.committed) == ("done", "warned", True)
    pages = " ".join(each.read_text() for each in (lake / "reports" / "talkers").rglob("*queries*.html"))
    assert "the published rows of the interval were damaged: version" in pages and "DELETE by delta-rs" in pages
    assert (hour(lake, FIRST), hour(lake, SECOND)) == (right, other) and shown(lake)[0, "talkers"] == "done"
    told = ("--to", changed[1], "--because", "no")
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, *told).code == 0
    DeltaTable(str(lake / "tables/talkers")).delete(f'"_last" < {FIRST[1]}')
    said = " ".join(lowwater("plan", "--lake", lake, *span).out.split())
    assert "its rows are damaged, and a person chose them" in said and "--lift" in said
    with pytest.raises(LakeError, match="rolled back, and damaged since"):
        replay_range(lake, runner, *FIRST, query_set="talkers")
    assert lowwater("rollback", "talkers", "--lake", lake, *AT, *told).code == 0
    assert shown(lake)[0, "talkers"] == "rolled back"
