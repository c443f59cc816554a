"""`lowwater why`: what makes an interval what it is; and the commands that it names make it `done`."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lowwater.instants import format_instant
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import statuses
from tests.replay.support import lowwater
from tests.replay.test_looks import TEXT, at, deliver, ingested, lake_of
from tests.replay.test_statement_log import BACK, odd, run

pytestmark = pytest.mark.slow


def why(folder: Path, hour: int) -> dict[str, Any]:
    about = ("why", "q", format_instant(at(hour, 20)), "--lake", folder / "lake", "--queries", folder)
    said, text = lowwater(*about, "--json"), lowwater(*about)
    assert said.code == text.code == 0, (said, text)
    found = json.loads(said.out)
    assert f"{found['word']}, {found['means']}" in text.out
    shown = next(row for row in statuses(folder / "lake", folder) if row.start <= at(hour) < row.end)
    assert (found["word"], found["reason"]) == (shown.shown, shown.why), "status says the same"
    return dict(found)


def follow(folder: Path, hour: int) -> str:
    """Runs the commands of an answer, and returns the word then."""
    for step in why(folder, hour)["steps"]:
        if step["command"]:
            words = shlex.split(step["command"])[1:]
            said = lowwater(*words, *(() if words[0] == "ingest" else ("--queries", folder)))
            assert said.code == 0, (step, said)
    return str(why(folder, hour)["word"])


def changed(folder: Path, job: Job) -> None:
    run(job, 0)
    (folder / "q.gsql").write_text(TEXT.replace("count(*)", "sum(len)"), encoding="utf-8")


def spilled(folder: Path, job: Job) -> None:
    run(job, 0)
    odd(folder / "captures", "odd.pcap", 0)
    ingested(folder)


def rolled_back(folder: Path, job: Job) -> None:
    changed(folder, job)
    run(job, 0)
    said = lowwater(
        *BACK, "--to", "previous", "--because", "no", "--by", "eve", "--lake", job.lake.root, "--queries", folder
    )
    assert said.code == 0, said


def failed(folder: Path, job: Job) -> None:
    record_replays(job.lake, [ReplayRow("q", "", at(0), at(1), "low", "failed", time.time_ns(), "the disk was full")])


def harmed(folder: Path, job: Job) -> None:
    run(job, 0)
    for file in (job.lake.root / "tables" / "hosts").rglob("*.parquet"):
        file.unlink()


CASES: dict[str, tuple[Callable[[Path, Job], None], str, list[str]]] = {
    "never run": (lambda folder, job: None, "missing", ["backfill"]),
    "another text": (changed, "stale", ["backfill"]),
    "a file that no pattern claims": (spilled, "incomplete", ["accept", "backfill"]),
    "a roll back": (rolled_back, "rolled back", ["rollback", "backfill"]),
    "an error": (failed, "failed", ["", "backfill"]),
    "files that are gone": (harmed, "damaged", ["backfill"]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_commands_that_it_names_make_it_done(name: str, tmp_path: Path) -> None:
    make, word, commands = CASES[name]
    make(tmp_path, lake_of(tmp_path, [0, 1, 2]))
    found = why(tmp_path, 0)
    assert found["word"] == word
    assert [step["command"].partition(" ")[2].partition(" ")[0] for step in found["steps"]] == commands
    assert found["error"] == ("the disk was full" if word == "failed" else "")
    assert follow(tmp_path, 0) == "done" and why(tmp_path, 0)["steps"] == []


def test_what_differs_is_named_by_query_file_setting_and_capture(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0, 1])
    run(job, 0)
    (whole,) = why(tmp_path, 0)["queries"]
    assert whole["have"] == whole["want"] and whole["differs"] == [] and "query hosts" in whole["text"]
    changed(tmp_path, job)
    (tmp_path / "lake" / "lowwater.toml").write_text(
        (tmp_path / "lake" / "lowwater.toml").read_text(encoding="utf-8") + 'skew = "5s"\n', encoding="utf-8"
    )
    (query,) = why(tmp_path, 0)["queries"]
    assert query["have"] == whole["want"] != query["want"] and query["text"] != whole["text"]
    assert query["differs"] == ["query hosts has changed", "link p: skew was 1s, is 5s"]


def test_a_done_hour_says_what_it_is_made_of_and_who_accepted_what(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0, 1])
    spilled(tmp_path, job)
    assert follow(tmp_path, 0) == "done"
    found = why(tmp_path, 0)
    (link,) = found["links"]
    assert (link["link"], link["skew"], found["reads"]["packets"]) == ("p", 10**9, 1)
    assert [(Path(file["path"]).suffix, file["packets"]) for file in link["files"]] == [(".pcap", 1)]
    (defect,) = found["defects"]
    assert (defect["cause"], defect["remedy"], defect["accepted"][1]) == ("unread", "", "TEXT")
    (said,) = found["statements"]
    assert (said["statement"]["act"], said["statement"]["why"], said["in_force"]) == ("accept", "TEXT", True)


def test_an_hour_that_lacks_a_capture_says_which_and_is_done_once_it_came(tmp_path: Path) -> None:
    lake_of(tmp_path, [0, 2])
    found = why(tmp_path, 1)
    assert found["word"] == "cannot start" and found["stops"]
    (gap,) = found["defects"]
    assert (gap["cause"], gap["link"], gap["start"], gap["end"], gap["stops"]) == ("gap", "p", at(1), at(2), True)
    assert 'policy = "publish"' in gap["remedy"] and "--lake DIR" not in gap["remedy"]
    deliver(tmp_path / "captures", 1)
    assert follow(tmp_path, 1) == "done"


def test_an_hour_that_waits_for_a_person_is_published_by_the_command(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0, 2], policy="publish", more="[schedule]\napproval = true")
    assert run(job, 1) == "held"
    (step, *others) = [each for each in why(tmp_path, 1)["steps"] if "--stage publish" in each["command"]]
    assert not others
    said = lowwater(*shlex.split(step["command"])[1:], "--queries", tmp_path)
    assert said.code == 0 and why(tmp_path, 1)["word"] == "incomplete", said
    (approval,) = [each["statement"] for each in why(tmp_path, 1)["statements"]]
    assert approval["act"] == "approve"


def test_a_chain_leads_to_the_interval_that_is_the_cause(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0, 2, 3, 4])
    (tmp_path / "q.gsql").write_text(f"{TEXT.rstrip()}, srcIP CLOSING_WHEN count(*) = 0\n", encoding="utf-8")
    run(job, 0)
    found = why(tmp_path, 3)
    assert [(each["start"], each["word"]) for each in found["before"]] == [(at(2), "missing"), (at(1), "cannot start")]
    assert any(format_instant(at(1)) in step["command"] for step in found["steps"])
    deliver(tmp_path / "captures", 1)
    ingested(tmp_path)
    assert follow(tmp_path, 3) == "done"


def test_an_instant_without_an_interval_and_a_set_that_is_not_there_are_one_line(tmp_path: Path) -> None:
    lake_of(tmp_path, [0])
    of = ("--lake", tmp_path / "lake", "--queries", tmp_path)
    said = lowwater("why", "q", "2020-01-01", *of)
    assert said.code == 1 and "it has no interval at 2020-01-01T00:00:00Z; its intervals are from" in said.err
    said = lowwater("why", "r", format_instant(at(0)), *of)
    assert said.code == 1 and "there is no query set 'r'" in said.err
