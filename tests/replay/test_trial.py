"""Changed queries and skews run beside the lake, are compared, and are promoted without a second evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lowwater_generator import GeneratedCapture

from lowwater.errors import LakeError, LowwaterError
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_heartbeats, read_replays
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.replay.job import TrialChanges
from lowwater.replay.trial import drop_trial, folder_of, open_trial, trials
from tests.replay.deskmaker import CHANGED, FIRST, SECOND, copy_desk, hour, make_lake, set_query, version
from tests.replay.support import lowwater, replay_range

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

TO = ("--from", "2026-01-01T00:00Z", "--to", "2026-01-01T02:00Z")


@pytest.fixture(scope="module")
def published(captures: list[GeneratedCapture], tmp_path_factory: pytest.TempPathFactory, runner: Runner) -> Path:
    return make_lake(tmp_path_factory.mktemp("published"), captures, runner)


@pytest.fixture
def lake(published: Path, tmp_path: Path) -> Path:
    return copy_desk(published, tmp_path / "lake")


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    file = tmp_path / "new" / "talkers.gsql"
    file.parent.mkdir()
    file.write_text(CHANGED, encoding="utf-8")
    return file


@pytest.mark.slow
def test_a_plan_with_changes_says_what_they_make_stale(lake: Path, changed: Path) -> None:
    assert "stale" not in lowwater("plan", "--lake", lake, *TO).out
    said = lowwater("plan", "--lake", lake, "--with", changed, "--skew", "main1=5s", *TO)
    words = " ".join(said.out.split())
    assert said.code == 0 and "2 intervals to run" in words
    assert "query talkers has changed" in words and "skew was 1s, is 5s" in words


@pytest.mark.nightly
@pytest.mark.slow
def test_a_trial_is_compared_and_promoted(lake: Path, changed: Path, runner: Runner) -> None:
    before = {(query, at): hour(lake, at, query) for query in ("talkers", "totals") for at in (FIRST, SECOND)}
    at = version(lake)
    ledger = len(read_replays(open_lake(lake)))
    said = lowwater("try", "short", "--lake", lake, "--with", changed, *TO, "--limit", 2)
    assert said.code == 3, said
    assert "talkers, 2 intervals: 0 added" in said.out and "totals, 2 intervals: 0 added, 0 gone, 0 changed" in said.out
    assert len([line for line in said.out.splitlines() if line[0] in "+-~"]) == 2
    assert version(lake) == at and len(read_replays(open_lake(lake))) == ledger, "the lake is as it was"
    assert {(query, at): hour(lake, at, query) for query, at in before} == before
    assert not list((folder_of(open_lake(lake), "short") / "packets").glob("*")), "packets are shared"
    assert lowwater("try", "--lake", lake).out == f"short: query set talkers --with {changed}\n"

    said = lowwater("rows", "totals", "--lake", lake / "tries" / "short", "--limit", "1")
    assert said.code == 0 and said.out, "readers of results read a trial"

    said = lowwater("try", "short", "--lake", lake, "--with", changed, "--promote")
    assert said.code == 1 and "not promoted: query talkers has changed" in said.err and "hint: " in said.err
    assert version(lake) == at

    trial = open_trial(lake, "short", changed.parent)
    tried = {
        bounds: fingerprint(stream_files(trial.tried.lake.stream("talkers"), *bounds)) for bounds in (FIRST, SECOND)
    }
    beats = read_heartbeats(trial.tried.lake, "talkers", *FIRST)
    set_query(lake, CHANGED)
    rows = {bounds: hour(folder_of(open_lake(lake), "short"), bounds) for bounds in (FIRST, SECOND)}
    said = lowwater("try", "short", "--lake", lake, "--with", changed, "--promote")
    assert said.code == 0 and said.out.count("done") == 2, said
    assert {bounds: hour(lake, bounds) for bounds in rows} == rows
    assert {bounds: fingerprint(stream_files(open_lake(lake).stream("talkers"), *bounds)) for bounds in rows} == tried
    assert read_heartbeats(open_lake(lake), "talkers", *FIRST).equals(beats)
    ran = [row for row in read_replays(open_lake(lake))[ledger:] if row.stage in ("low", "high")]
    assert {row.finished_at for row in ran} == {
        row.finished_at for row in read_replays(trial.tried.lake) if row.stage in ("low", "high")
    }, "what the trial has computed is not computed again"
    assert "nothing to promote" in lowwater("try", "short", "--lake", lake, "--with", changed, "--promote").out
    assert "2026-01-01T00:00:00Z" not in lowwater("plan", "--lake", lake, *TO).out
    assert "nothing is due" in lowwater("plan", "--lake", lake, *TO).out
    outcomes = replay_range(lake, runner, FIRST[0], SECOND[1], query_set="talkers")
    assert [outcome.committed for outcome in outcomes] == [False, False]
    assert lowwater("try", "short", "--lake", lake, "--drop").out == "trial short is dropped\n"
    assert trials(open_lake(lake)) == [] and {bounds: hour(lake, bounds) for bounds in rows} == rows


@pytest.mark.slow
def test_what_is_published_so_does_not_run(lake: Path, runner: Runner) -> None:
    """A wider skew of an ordered link: other inputs, the same rows. The skew that the lake has: nothing to run."""
    said = lowwater("try", "wide", "--lake", lake, "--query-set", "talkers", "--skew", "main1=5s", *TO)
    assert said.code == 0 and "0 added, 0 gone, 0 changed" in said.out, said
    said = lowwater("try", "same", "--lake", lake, "--query-set", "talkers", "--skew", "main1=1s", *TO)
    assert said.code == 0 and said.out.startswith("nothing to run"), said
    said = lowwater("try", "../out", "--lake", lake, "--drop")
    assert said.code == 1 and "no name of a trial" in said.err
    (folder_of(open_lake(lake), "wide") / "trial.json").write_text("[]")  # type: ignore[attr-defined]
    with pytest.raises(LakeError, match="it describes no trial"):
        drop_trial(open_lake(lake), "wide")


CHAIN = """DEFINE {{ query_name 'chain'; }}
SELECT tb, srcIP, count(*) AS n, running_sum(len) AS total FROM main1.TCP {where}GROUP BY time/1500 AS tb, srcIP
CLOSING_WHEN running_sum(len) > 4000
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_a_query_that_hands_on_a_state_is_promoted_with_it(
    captures: list[GeneratedCapture], changed: Path, tmp_path: Path, runner: Runner
) -> None:
    """The first hour is promoted; the second one goes on from its state, as if the lake had computed both."""
    was, is_ = CHAIN.format(where=""), CHAIN.format(where="WHERE len > 60 ")
    lake = make_lake(tmp_path / "was", captures, runner, was)
    whole = make_lake(tmp_path / "is", captures, runner, is_)
    changed.write_text(is_, encoding="utf-8")
    to = ("--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z")
    said = lowwater("try", "chained", "--lake", lake, "--with", changed, *to)
    assert said.code == 3 and "chain, 1 interval" in said.out, said
    set_query(lake, is_)
    said = lowwater("try", "chained", "--lake", lake, "--with", changed, "--promote")
    assert said.code == 0 and said.out.count("done") == 1, said
    assert hour(lake, FIRST, "chain") == hour(whole, FIRST, "chain")
    (outcome,) = replay_range(lake, runner, *SECOND, query_set="talkers")
    assert outcome.committed and hour(lake, SECOND, "chain") == hour(whole, SECOND, "chain")
    assert hour(lake, SECOND, "chain") and "nothing is due" in lowwater("plan", "--lake", lake, *TO).out


@pytest.mark.slow
@pytest.mark.parametrize("where", ["outside", "linked"])
def test_a_trial_of_somebody_else_names_no_file_of_the_machine(tmp_path: Path, where: str) -> None:
    """Whoever goes on with it has not named the file; whoever names it has."""
    secret = tmp_path / "home" / "q.gsql"
    secret.parent.mkdir()
    secret.write_text("xyzzy", encoding="utf-8")
    lake = open_lake(tmp_path / "lake")
    folder = tmp_path / "lake" / "tries" / "theirs"
    folder.mkdir(parents=True)
    named = secret
    if where == "linked":
        named = folder / "q.gsql"
        named.symlink_to(secret)
    text = {"query_set": "q", "files": [str(named)], "skews": {"main1": 5}}
    (folder / "trial.json").write_text(json.dumps(text), encoding="utf-8")
    with pytest.raises(LakeError, match="nothing is read there") as refused:
        open_trial(lake.root, "theirs", tmp_path / "queries")
    assert "xyzzy" not in str(refused.value) and f"--with {named} --skew main1=5ns" in str(refused.value.hint)
    for given in (None, TrialChanges((named,), {"main1": 5})):
        queries = secret.parent if given is None else tmp_path / "queries"
        with pytest.raises(LowwaterError) as unplanned:
            open_trial(lake.root, "theirs", queries, None if given is None else "q", given)
        assert "nothing is read there" not in str(unplanned.value)


@pytest.mark.slow
def test_a_trial_takes_the_rows_of_lftas_that_the_lake_has(lake: Path, changed: Path) -> None:
    """Of a changed query the LFTA runs; those of the others are copied, with their accounts."""
    said = lowwater("try", "short", "--lake", lake, "--with", changed, *TO)
    assert said.code == 3 and "totals, 2 intervals: 0 added, 0 gone, 0 changed" in said.out, said
    trial = open_trial(lake, "short", changed.parent)
    rows = [row for row in read_replays(trial.tried.lake) if row.stage == "low"]
    lows = [json.loads(row.accounting) for row in rows]
    assert [(each["ran"], each["taken"]) for each in lows] == [(["talkers"], ["totals"])] * 2
    for bounds in (FIRST, SECOND):
        ours, theirs = (
            read_heartbeats(at, "talkers", *bounds).to_pylist() for at in (open_lake(lake), trial.tried.lake)
        )
        assert [row for row in ours if row["lfta"] == "totals"] == [row for row in theirs if row["lfta"] == "totals"]
    # Where the lake has them no more, they run.
    drop_trial(open_lake(lake), "short")
    for file in (lake / "lfta").glob("talkers/totals*/interval=*/*"):
        file.unlink()
    said = lowwater("try", "short", "--lake", lake, "--with", changed, *TO)
    assert said.code == 3 and "totals, 2 intervals: 0 added, 0 gone, 0 changed" in said.out, said
    trial = open_trial(lake, "short", changed.parent)
    lows = [json.loads(row.accounting) for row in read_replays(trial.tried.lake) if row.stage == "low"]
    assert [(each["ran"], each["taken"]) for each in lows] == [(["talkers", "totals"], [])] * 2
