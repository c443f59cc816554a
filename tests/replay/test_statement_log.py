"""`lowwater log`: each act of a person is one statement, with who, when and why, and whether it is in force."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lowwater.high.process import InProcess
from lowwater.instants import format_instant
from lowwater.lake.layout import STATEMENTS, Lake
from lowwater.lake.ledgers.statements import ACCEPT, Defect, about_defect, accepted, state
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import lowwater
from tests.replay.test_looks import SECOND, TEXT, at, ingested, lake_of

pytestmark = pytest.mark.slow
Line = tuple[str, str, str, bool]
ME = "me"
BACK = ("rollback", "hosts", "--at", format_instant(at(0)))


def log(folder: Path, *more: object) -> list[Line]:
    """(act, person, why, in force) of each statement."""
    said = lowwater("log", "--lake", folder / "lake", "--queries", folder, "--json", *more)
    assert said.code == 0, said
    return [(each["act"], each["person"], each["why"], each["in_force"]) for each in json.loads(said.out)]


def run(job: Job, hour: int, ask: bool = True) -> str:
    now = Job.open(job.lake.root, "q", job.lake.root.parent)
    return replay(now, at(hour), at(hour + 1), None, Progress(quiet=True), InProcess(), ask=ask)[0].state


def act(folder: Path, *words: object) -> None:
    said = lowwater(*words, "--lake", folder / "lake")
    assert said.code == 0, said


def odd(folder: Path, name: str, hour: int, second: int = 600) -> Path:
    path = folder / name
    packet = at(hour) + second * SECOND, udp("10.0.0.1", "10.0.0.2", 1, 2)
    path.write_bytes(pcap_bytes([packet], nanoseconds=True))
    os.utime(path, ns=(at(hour + 1), at(hour + 1)))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lake of three hours, in which each kind of act was done once; those of files were taken back."""
    job = lake_of(tmp_path, [0, 1, 2], policy="publish", more="[schedule]\napproval = true")
    queries = ("--queries", tmp_path)
    assert run(job, 0) == "done"
    odd(tmp_path / "captures", "odd.pcap", 0)
    ingested(tmp_path)
    hour = ("--interval", format_instant(at(0)), "--cause", "unread", *queries)
    act(tmp_path, "accept", "q", *hour, "--why", "a test", "--by", "ann")
    act(tmp_path, "accept", "q", *hour, "--undo", "--by", "bob")
    act(tmp_path, "set-aside", "odd.pcap", "--reason", "of a bench", "--by", "cid")
    spare = odd(tmp_path, "spare.pcap", 4)
    covers = f"{format_instant(at(4))}/{format_instant(at(5))}"
    act(tmp_path, "ingest", "--link", "p", spare, "--covers", covers, "--why", "by the clock of the tap", "--by", "dot")
    assert run(job, 3) == "held"
    act(tmp_path, "replay", "q", "--from", format_instant(at(3)), "--to", format_instant(at(4)), "--stage", "publish")
    (tmp_path / "q.gsql").write_text(TEXT.replace("count(*)", "sum(len)"), encoding="utf-8")
    run(job, 0)
    back = (*BACK, *queries)
    act(tmp_path, *back, "--to", "previous", "--because", "counts were right", "--by", "eve")
    return tmp_path


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: ME)


def act_lines() -> list[Line]:
    return [
        ("accept", "ann", "a test", False),
        ("undo", "bob", "", True),
        ("set aside", "cid", "of a bench", True),
        ("covers", "dot", "by the clock of the tap", True),
        ("approve", ME, "", False),  # the query was changed
        ("roll back", "eve", "counts were right", True),
    ]


def test_each_act_is_told_in_order_with_who_and_why_and_whether_it_is_in_force(folder: Path) -> None:
    assert log(folder) == act_lines()
    queries = ("--queries", folder)
    shown = " ".join(lowwater("log", "--lake", folder / "lake", *queries).out.split())
    for text in ("no; until bob said 'undo'", "../captures/odd.pcap", "no; its inputs have changed since"):
        assert text in shown, shown
    # What is said later takes the place of it; what was said stays.
    act(folder, "set-aside", "odd.pcap", "--undo", "--by", "fay")
    act(
        folder, "rollback", "hosts", "--at", format_instant(at(0)), *queries, "--lift", "--because", "no", "--by", "gil"
    )
    later = log(folder)
    assert [each[:3] for each in later[:6]] == [each[:3] for each in act_lines()]
    assert [each[3] for each in later] == [False, True, False, True, False, False, True, True]
    assert later[6:] == [("count again", "fay", "", True), ("lift", "gil", "no", True)]
    run(Job.open(folder / "lake", "q", folder), 0, ask=False)
    assert log(folder)[-1] == ("lift", "gil", "no", False), "it ran"


def test_the_log_is_chosen_by_link_set_and_time(folder: Path) -> None:
    acts = [line[0] for line in act_lines()]
    assert [line[0] for line in log(folder, "--link", "p", "--set", "q")] == acts
    assert log(folder, "--link", "other") == []
    assert [line[0] for line in log(folder, "--from", format_instant(at(3)))] == ["covers", "approve"]
    assert [line[0] for line in log(folder, "--to", format_instant(at(3)))] == [*acts[:3], "roll back"]
    said = lowwater("log", "--lake", folder / "lake", "--queries", folder, "--set", "r")
    assert said.code == 1 and "there is no query set 'r'" in said.err


def test_acts_of_a_lake_that_kept_no_statements_of_them_are_told_from_where_they_lie(folder: Path) -> None:
    """Acceptances, coverage and set-asides are statements alone; the others lie in the ledger of runs, too."""
    lake = Lake(folder / "lake")
    kept = DeltaTable(str(lake.statements)).to_pyarrow_table()
    shutil.rmtree(lake.statements)
    old = pa.schema(list(STATEMENTS)[:10])
    rows = kept.filter(pa.compute.is_in(kept["act"], pa.array(["accept", "undo"]))).select(old.names).cast(old)
    write_deltalake(str(lake.statements), rows)
    wanted = [line for line in act_lines() if line[0] not in ("covers", "set aside")]
    assert sorted(log(folder)) == sorted(wanted)
    act(folder, "set-aside", "odd.pcap", "--reason", "odd", "--by", "fay")  # the table gets its columns
    assert ("set aside", "fay", "odd", True) in log(folder)
    state(lake, [about_defect(ACCEPT, "p", "drops", Defect("x", at(0), at(1), 1), "hal", "ok")])
    assert [each.person for each in accepted(lake).values()] == ["hal"]


def test_an_act_that_did_not_end_never_took_effect(folder: Path) -> None:
    lost = odd(folder, "lost.pcap", 4, 700)
    lost.write_bytes(b"no capture at all")
    covers = f"{format_instant(at(4))}/{format_instant(at(6))}"
    said = lowwater("ingest", "--lake", folder / "lake", "--link", "p", lost, "--covers", covers, "--by", "hal")
    assert said.code == 1, said
    assert log(folder)[-1] == ("covers", "hal", "", False)
