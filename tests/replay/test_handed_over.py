"""CLOSING_WHEN, the sampling operator and windows of rows in a lake: states go from interval to interval."""

from __future__ import annotations

import json
import pickle
import pickletools
import shutil
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

import pytest
from lowwater_generator import GeneratedCapture, generate

from lowwater.catalog.state_json import read_state, write_state
from lowwater.errors import LakeError, LowwaterError
from lowwater.instants import HOUR
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow, record_replays
from lowwater.lake.results.pins import publishing
from lowwater.lake.results.publish import Audited, publish
from lowwater.lake.results.streams import fingerprint, state_folder
from lowwater.lake.words import DONE
from lowwater.replay.job import Job
from lowwater.replay.schedule.backfill import Order, backfill
from lowwater.replay.schedule.due import DueSelection, due, statuses
from tests.replay.support import (
    END,
    HOURS,
    QUERIES,
    START,
    ingest_all,
    leftovers,
    replay_range,
    table_rows,
    write_settings,
)

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

TEXT = """DEFINE { query_name 'hosts'; }
SELECT tb, srcIP, count(*) AS cnt, sum(len) AS bytes, running_sum(len) AS total, FIRST(destPort) AS port
FROM main1.DataProtocol
GROUP BY time/1500 AS tb, srcIP
CLOSING_WHEN count(*) = 0 OR running_sum(len) > 4000
"""

SAMPLED = """;
DEFINE { query_name 'sampled'; }
SELECT tb, srcIP, destIP, UMAX(sum(len), ssthreshold()) AS bytes, init_threshold() AS began, packet_count() AS offered
FROM main1.DataProtocol
WHERE ssample(len, 6) = TRUE
GROUP BY time/2700 AS tb, srcIP, destIP
SUPERGROUP tb, srcIP
HAVING ssfinal_clean(sum(len)) = TRUE
CLEANING_WHEN ssdo_clean() = TRUE
CLEANING_BY ssclean_with(sum(len)) = TRUE
"""

COUNTED = """;
DEFINE { query_name 'counted'; }
SELECT wid, srcIP, count(*) AS cnt, sum(len) AS bytes, LAST(destPort) AS port
FROM main1.TCP [RANGE 50 ROWS, SLIDE 30 ROWS] WHERE len > 60 GROUP BY srcIP;
DEFINE { query_name 'parted'; }
SELECT tb, wid, destIP, count(*) AS cnt, max(len) AS longest
FROM main1.DataProtocol [RANGE 9 ROWS, PARTITION BY destIP] GROUP BY time/2700 AS tb
"""

SHOWN = ("tb", "srcIP", "destIP", "bytes", "began", "offered")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[GeneratedCapture]:
    """Three hours of one link with few packets."""
    return generate(tmp_path_factory.mktemp("captures"), START, HOURS, ["main1"], rate=0.5, seed=7)


def lake_of(folder: Path, captures: list[GeneratedCapture], length: str, text: str = TEXT) -> Path:
    folder.mkdir()
    query = folder / "chain.gsql"
    query.write_text(text, encoding="utf-8")
    write_settings(folder, length=length, sets={"chain": query})
    ingest_all(folder, [each for each in captures if each.link == "main1"])
    return folder


@pytest.mark.slow
def test_hours_in_order_are_the_whole(captures: list[GeneratedCapture], tmp_path: Path, runner: Runner) -> None:
    hours, whole = (
        lake_of(tmp_path / name, captures, length, TEXT + SAMPLED + COUNTED)
        for name, length in (("hours", "1h"), ("whole", "3h"))
    )
    with pytest.raises(LakeError, match="query hosts: the interval of 2026-01-01T01:00:00Z continues from the state"):
        replay_range(hours, runner, START + HOUR, START + 2 * HOUR, query_set="chain")
    replay_range(hours, runner, START, END, query_set="chain")
    replay_range(whole, runner, START, END, query_set="chain")
    for query in ("counted", "parted", "hosts", "sampled"):
        rows = table_rows(whole, query)
        assert table_rows(hours, query) == rows and len(rows) > 10
        folders = list((hours / "state" / "chain" / query).iterdir())
        assert len(folders) == 3
        for folder in folders:
            (file,) = (each for each in folder.iterdir() if each.name != "digests.json")
            assert_plain(file.read_bytes())
    # Some supergroup began an epoch with what the one before had left.
    assert len({row[sorted((*SHOWN, "_last")).index("began")] for row in rows}) > 1
    assert leftovers(hours) == []
    found = replay_range(hours, runner, START, END, query_set="chain")
    assert not any(outcome.committed for outcome in found)
    assert chained(hours) == ["done"] * 12


def assert_plain(state: bytes) -> None:
    """What a lake keeps of a state is the canonical text of plain values, of which pickle reads not even one opcode."""
    with pytest.raises(ValueError, match="at position 0, opcode"):
        list(pickletools.genops(state))
    text = state.decode("ascii")
    assert json.loads(text) and write_state(read_state(text)) == text


def chained(lake: Path) -> list[str]:
    """The states of the chain's intervals, but of the hour in which the captures end."""
    return [row.state for row in statuses(lake, QUERIES) if row.query_set == "chain" and row.start < END]


@pytest.mark.slow
def test_a_mended_hour_makes_those_after_it_stale_and_a_backfill_mends_them(
    captures: list[GeneratedCapture], tmp_path: Path, runner: Runner
) -> None:
    """Of a set without `chain_start` too: its chain begins with the first coverage (I4), so its hours have an order."""
    cut, *others = [each for each in captures if each.link == "main1"]
    whole = lake_of(tmp_path / "whole", captures, "3h")
    hours = lake_of(tmp_path / "hours", others, "1h")
    settings = hours / "lowwater.toml"
    settings.write_text(settings.read_text(encoding="utf-8").replace('"fail"', '"exclude"'), encoding="utf-8")
    part = tmp_path / "part.pcap"
    part.write_bytes(cut.path.read_bytes()[: cut.path.stat().st_size // 2])
    ingest_all(hours, [replace(cut, path=part)])

    def newest_first() -> list[tuple[int, str]]:
        job = Job.open(hours, "chain", QUERIES)
        tried = backfill([job], due(job, DueSelection(None, END)), 2, Order.NEWEST, runner=runner)
        return [((each.due.start - START) // HOUR, each.state) for each in tried]

    assert newest_first() == [(0, "incomplete"), (1, "done"), (2, "done")]
    before = table_rows(hours, "hosts")
    ingest_all(hours, [cut])
    # What rests on a publication is stale once that is another one, so one backfill mends the hours behind it too.
    assert [newest_first() for _ in range(2)] == [[(0, "done"), (1, "done"), (2, "done")], []]
    replay_range(whole, runner, START, END, query_set="chain")
    assert table_rows(hours, "hosts") == table_rows(whole, "hosts") != before
    assert chained(hours) == ["done"] * 3
    assert leftovers(hours) == []


PLAIN = """;
DEFINE { query_name 'plain'; }
SELECT tb, count(*) AS cnt FROM main1.DataProtocol GROUP BY time/60 AS tb
"""
CHANGES = "the state of the interval before changes"


@pytest.fixture
def recorded(captures: list[GeneratedCapture], tmp_path: Path) -> Path:
    """A lake with two queries, one of which hands a state over; its hours are recorded as published in order."""
    lake = lake_of(tmp_path / "recorded", captures, "1h", TEXT + PLAIN)
    record(lake, *range(HOURS))
    return lake


def record(lake: Path, *hours: int, digest: str = "") -> None:
    """Publishes hours without rows, one after another, of the inputs that they have now, or of others."""
    for hour in hours:
        job = Job.open(lake, "chain", QUERIES)
        span = START + hour * HOUR, START + (hour + 1) * HOUR
        inputs = job.inputs(*span, job.captures())
        with publishing(job.lake, "chain", [query.name for query in job.plan.queries]) as act:
            for query in job.plan.queries:
                name, of = query.name, digest or inputs.digest(query)
                audited = {span: Audited(of, fingerprint([]))}
                done = publish(job.lake, "chain", name, query.high.fields, audited, act)[span]
                kept = json.dumps({"inputs": inputs.key(query).summary})
                row = ReplayRow("chain", name, *span, PUBLISH, DONE, time_ns(), digest=of, rows=0, accounting=kept)
                record_replays(job.lake, [replace(row, publication=done.number)])
                state_folder(job.lake, "chain", name, *span, of).mkdir(parents=True, exist_ok=True)


def made_of_others(lake: Path, hour: int) -> None:
    """Records that an hour was published from other inputs than it has now, and those behind it in order after it."""
    record(lake, hour, digest="1" * 64)
    record(lake, *range(hour + 1, HOURS))


def planned(lake: Path, first: int = 0, last: int = HOURS, *kinds: str) -> list[tuple[int, str, str]]:
    """What of some hours is due: hours, states, and the queries with the reasons."""
    found = due(Job.open(lake, "chain", QUERIES), DueSelection(START + first * HOUR, START + last * HOUR, kinds))
    told = [f"{', '.join(each.queries)}: {'; '.join(each.reasons)}" for each in found]
    return [((each.start - START) // HOUR, each.state, said) for each, said in zip(found, told, strict=True)]


@pytest.mark.slow
def test_plan_tells_of_the_hours_that_become_stale_while_those_before_them_run(recorded: Path) -> None:
    """Nothing of hours 1 and 2 has changed yet; their states will, one after another, once hour 0 is made anew."""
    assert planned(recorded) == []
    made_of_others(recorded, 0)
    first, *behind = planned(recorded)
    assert first[:2] == (0, "stale") and first[2].startswith("hosts, plain: ") and CHANGES not in first[2]
    assert behind == [(hour, "stale", f"hosts: {CHANGES}") for hour in (1, 2)], "plain takes up no state"
    # What is not asked for does not run, and changes nothing behind it.
    assert [hour for hour, _, _ in planned(recorded, 0, 2)] == [0, 1]
    assert planned(recorded, 1, HOURS) == []
    assert [hour for hour, _, _ in planned(recorded, 0, HOURS, "stale")] == [0, 1, 2]
    assert planned(recorded, 0, HOURS, "missing", "failed") == []
    made_of_others(recorded, 1)
    assert [hour for hour, _, _ in planned(recorded)] == [0, 1, 2]
    record(recorded, *range(HOURS))
    assert planned(recorded) == []


@pytest.mark.slow
def test_an_hour_whose_state_is_gone_is_made_again_and_changes_nothing_behind_it(recorded: Path) -> None:
    """Every other part of an hour is made anew with it; a state was not, so that no later hour could ever run."""
    (folder,) = (recorded / "state" / "chain" / "hosts").glob(f"{START}-*")
    folder.rmdir()
    assert planned(recorded) == [(0, "stale", "hosts: the state that it left is not in the lake")]
    folder.mkdir()
    assert planned(recorded) == []


@pytest.mark.slow
def test_a_state_that_is_spoilt_is_told_and_made_again(
    captures: list[GeneratedCapture], tmp_path: Path, runner: Runner
) -> None:
    lake, whole = (lake_of(tmp_path / name, captures, length) for name, length in (("lake", "1h"), ("whole", "3h")))
    replay_range(lake, runner, START, START + 2 * HOUR, query_set="chain")
    found = (lake / "state" / "chain" / "hosts").glob(f"{START + HOUR}-*/*")
    (file,) = (each for each in found if each.name != "digests.json")
    before = file.read_text()
    file.write_text(before[:-1])
    with pytest.raises(LowwaterError, match="a state cannot be read") as caught:
        replay_range(lake, runner, START + 2 * HOUR, END, query_set="chain")
    assert f"remove the folder {file.parent}, and `lowwater backfill` makes it again" in caught.value.hint
    shutil.rmtree(file.parent)
    replay_range(lake, runner, START, END, query_set="chain")
    replay_range(whole, runner, START, END, query_set="chain")
    assert file.read_text() == before and chained(lake) == ["done"] * 3
    assert table_rows(lake, "hosts") == table_rows(whole, "hosts")


class Trap:
    """What leaves a file behind when its pickle is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


@pytest.mark.nightly
@pytest.mark.slow
def test_states_of_an_older_lake_are_made_anew_and_never_loaded(
    captures: list[GeneratedCapture], tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, whole = (lake_of(tmp_path / name, captures, length) for name, length in (("lake", "1h"), ("whole", "3h")))
    with monkeypatch.context() as older:
        # An older lake has publications of other digests, and their states in folders without a form, as pickles.
        for module in ("lowwater.lake.results.streams", "lowwater.replay.job"):
            older.setattr(f"{module}.FORM", 1)
        replay_range(lake, runner, START, START + 2 * HOUR, query_set="chain")
        assert chained(lake)[:2] == ["done", "done"]
    loaded = tmp_path / "loaded"
    states = lake / "state" / "chain" / "hosts"
    for folder in list(states.iterdir()):
        for file in folder.iterdir():
            file.write_bytes(pickle.dumps(Trap(loaded)))
        folder.rename(folder.with_suffix(""))
    before = {folder.name for folder in states.iterdir()}
    assert len(before) == 2 and not any("." in name for name in before)

    stale = [row for row in statuses(lake, QUERIES) if row.query_set == "chain" and row.start < END]
    assert [row.state for row in stale][:2] == ["stale", "stale"]
    assert "the form of states" in stale[0].why
    with pytest.raises(LakeError, match="continues from the state of the interval of 2026-01-01T00:00:00Z"):
        replay_range(lake, runner, START + HOUR, START + 2 * HOUR, query_set="chain")
    replay_range(lake, runner, START, END, query_set="chain")
    replay_range(whole, runner, START, END, query_set="chain")
    assert chained(lake) == ["done"] * 3
    assert table_rows(lake, "hosts") == table_rows(whole, "hosts")
    assert not before & {folder.name for folder in states.iterdir()}, "what nothing reads any more is removed"
    assert not loaded.exists()
    pickle.loads(pickle.dumps(Trap(loaded)))
    assert loaded.exists(), "the trap works"
