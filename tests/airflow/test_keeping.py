"""The operators of looks: what they find, run and tell, over a lake, without Airflow's own processes."""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lowwater.errors import CaptureError, GapError, LakeError, LowwaterError
from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.replay.schedule.due import statuses
from tests.lake.damage import data_files, flip, publish
from tests.replay.test_looks import CHAINED, at, deliver, ingested, lake_of

FAR = '[schedule]\nlook_back = "36500d"'


class Task:
    """The parts of a context that operators use."""

    def __init__(self, tries: int = 1, begin: int = 0, cleared: int = 0) -> None:
        """The number of its try, when its run began, ns, and how often tasks of that were cleared."""
        self.dag_id, self.task_id, self.map_index = "keep_q", "interval", 1
        self.run_id = "scheduled__2026-01-01T00:00:00+00:00"
        self.try_number, self.begin, self.cleared = tries, datetime.fromtimestamp(begin / 1e9, UTC), cleared
        self.left: dict[str, Any] = {}
        self.whole: list[str] = []  # partition keys of its events
        self.task = SimpleNamespace(outlets=[object()])
        self.events: dict[Any, Any] = defaultdict(
            lambda: SimpleNamespace(extra=None, add=lambda *_, **__: None, add_partitions=self.whole.extend)
        )

    def xcom_push(self, key: str, value: Any) -> None:
        self.left[key] = value

    @property
    def context(self) -> Any:
        run = SimpleNamespace(start_date=self.begin, clear_number=self.cleared)
        return {"ti": self, "outlet_events": self.events, "dag_run": run}


def _red(look: Any) -> int:
    """How many of the hours that a look has found cannot start: those without a capture, which are odd."""
    return sum((parse_instant(each["start"]) - at(0)) // HOUR % 2 for each in look.execute(Task().context))


@pytest.mark.slow
def test_looks_ingest_what_is_new_and_find_what_can_run(plugins: None, tmp_path: Path) -> None:
    from lowwater_airflow.keeping import IngestNew, KeepInterval, LookAtSet

    lake = lake_of(tmp_path, [0], more=FAR).lake.root
    common: Any = {"lake": lake, "queries": tmp_path}
    deliver(tmp_path / "captures", 2)
    growing = tmp_path / "captures" / f"p_{format_instant(at(3))[:13].replace('-', '')}.pcap"
    growing.write_bytes(b"no capture at all")
    os.utime(growing, (1 << 33, 1 << 33))  # still being written, however slow the machine is

    task = Task()
    assert IngestNew(task_id="ingest", **common).execute(task.context) == []
    (event,) = task.events.values()
    assert event.extra["packets"] == {"p": 1} and task.task.outlets
    again = Task()
    os.utime(growing, (1 << 33, (1 << 33) + 1))
    assert IngestNew(task_id="ingest", **common).execute(again.context) == [] and not again.task.outlets
    begun = read_captures(open_lake(lake), ["p"])["p"][1].ingested_at - 10**6
    for tries, pauses in ((2, 0), (1, 1)):  # a disk was full when a first one had ingested what it told nobody
        again = Task(tries, begun)
        os.utime(growing, (1 << 33, (1 << 33) + 1 + tries))
        IngestNew(task_id="ingest", **common).again(again.context, None, 0.0, pauses)
        told = [event.extra for event in again.events.values()]
        assert again.task.outlets and told == [{"captures": ["p_20241004T02.pcap"], "packets": {"p": 1}}]
    task = Task()
    found = LookAtSet(task_id="look", query_set="q", **common).execute(task.context)
    hours = [{"start": format_instant(at(hour)), "end": format_instant(at(hour + 1))} for hour in range(3)]
    edition = {"edition": found[0]["edition"], "intervals": 1}
    assert found[:3] == [each | edition | {"title": each["start"]} for each in hours], "and no reason"
    assert task.left["found"]["more"] == 0
    later = LookAtSet(task_id="look", query_set="q", **common).execute(Task().context)
    assert format_instant(at(1)) not in {each["start"] for each in later}, "it is red once"

    lake_of(tmp_path / "many", range(0, 44, 2), more=FAR)
    many: Any = {"query_set": "q", "lake": tmp_path / "many" / "lake", "queries": tmp_path / "many"}
    assert [_red(LookAtSet(task_id="look", **many)) for _ in range(3)] == [20, 2, 0], "no task is lost"

    blocked = KeepInterval(task_id="interval", query_set="q", **common, **found[1])
    with pytest.raises(GapError, match="cannot start: link 'p': no capture covers 20"):
        blocked.execute(Task().context)
    beyond = KeepInterval(task_id="interval", query_set="q", **common, **found[3])
    os.utime(growing, (10**9, 10**9))  # it is complete by now
    with pytest.raises(GapError, match=r"no capture covers .*; link 'p': p_20241004T03.pcap lies there, and is"):
        beyond.execute(Task().context)


@pytest.mark.slow
def test_a_task_names_the_refused_files_that_have_none_and_the_note_a_folder_that_is_not_there(
    plugins: None, tmp_path: Path
) -> None:
    """The files of a link whose recorder has written nonsense, and of one whose folder is not mounted."""
    from lowwater_airflow.keeping import IngestNew, RefusedFile
    from lowwater_airflow.notes import look_text
    from lowwater_airflow.operators import MOST_TOLD, IngestCaptures

    lake = lake_of(tmp_path, [0], more=FAR).lake.root
    with (tmp_path / "lake" / "lowwater.toml").open("a") as settings:
        settings.write(f'[links.away]\ncaptures = "{tmp_path}/away/p_%Y.pcap"\nrotation = "1h"\n')
    names = []
    for hour in range(1, MOST_TOLD + 3):
        deliver(tmp_path / "captures", hour)
        names.append(f"p_{format_instant(at(hour))[:13].replace('-', '')}.pcap")
        (path := tmp_path / "captures" / names[-1]).write_bytes(b"no capture")
        os.utime(path, ns=(at(hour + 1),) * 2)
    asked: Any = {"task_id": "ingest", "lake": lake}
    span = {"data_interval_start": datetime.fromtimestamp(at(0) / 1e9, UTC)}
    span["data_interval_end"] = datetime.fromtimestamp(at(100) / 1e9, UTC)
    task = Task()
    refused = IngestNew(**asked, queries=tmp_path).execute(task.context)
    paths = [["p", str(tmp_path / "captures" / name)] for name in names]
    for found in (refused, IngestCaptures(**asked).execute(Task().context | span)):
        assert [each["title"] for each in found] == [*(f"p {name}" for name in names[:MOST_TOLD]), "2 more files"]
        assert [file for each in found for file in each["files"]] == paths
    both = f"2 files are refused: p {names[-2]}: .*not a capture.*; p {names[-1]}: "
    with pytest.raises(CaptureError, match=both):
        RefusedFile(task_id="refused", lake=lake, **refused[-1]).execute(Task().context)
    deliver(tmp_path / "captures", MOST_TOLD + 2)
    with pytest.raises(CaptureError, match=names[-2]):
        RefusedFile(task_id="refused", lake=lake, **refused[-1]).execute(Task(cleared=1).context)
    assert read_captures(open_lake(lake), ["p"])["p"][-1].path.endswith(names[-1]), "a cleared task tries again"
    note_of_all = look_text(
        {
            (
                "refused",
                at,
            ): ("failed", None)
            for at in range(MOST_TOLD + 1)
        },
        {("ingest", -1, "return_value"): refused},
    )
    assert note_of_all.startswith(f"{MOST_TOLD + 2} refused; p {names[0]}: "), note_of_all
    note = look_text({}, {("ingest", -1, "found"): task.left["found"]})
    assert note == f"link 'away': folder {tmp_path}/away: is not there"


@pytest.mark.nightly
@pytest.mark.slow
def test_an_interval_of_a_look_is_left_to_the_next_after_an_edit(plugins: None, tmp_path: Path) -> None:
    """Its process says so, and does not run it by another text."""
    from airflow.sdk.exceptions import AirflowSkipException

    from lowwater_airflow.keeping import KeepInterval, LookAtSet

    lake = lake_of(tmp_path, [0], more=FAR).lake.root
    common: Any = {"lake": lake, "queries": tmp_path, "query_set": "q"}
    found = LookAtSet(task_id="look", **common).execute(Task().context)[0]
    path, text = tmp_path / "q.gsql", (tmp_path / "q.gsql").read_text()
    path.write_text(text.replace("count(*)", "sum(len)"))
    task = Task()
    with pytest.raises(AirflowSkipException, match="the next look runs it"):
        KeepInterval(task_id="interval", **common, **found).execute(task.context)
    assert statuses(lake, tmp_path)[0].state == "missing"
    outcome = KeepInterval(task_id="interval", **common, **found).execute(Task(cleared=1).context)
    assert outcome["state"] == "provisional", "an edit may be what mends it"
    path.write_text(text)
    assert KeepInterval(task_id="interval", **common, **found).execute(Task().context)["committed"]


@pytest.mark.slow
def test_a_task_asks_the_lake_when_it_runs_and_not_when_it_was_made(
    plugins: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the look has found: a capture has come since, or a part of a stretch has one, or all is done by now."""
    from lowwater_airflow.keeping import KeepInterval
    from lowwater_airflow.whole import partition_key

    lake = lake_of(tmp_path, [0, 4], more=FAR).lake.root
    common: Any = {"task_id": "interval", "lake": lake, "queries": tmp_path, "query_set": "q"}
    stretch = {"start": format_instant(at(1)), "end": format_instant(at(4)), "title": "three hours", "intervals": 3}

    def run() -> tuple[Any, Any]:
        task = Task()
        return KeepInterval(**common, **stretch).execute(task.context), task

    with pytest.raises(GapError, match=r"^cannot start: link 'p': no capture covers 2024-10-04T01:00:00Z to .*T04:00"):
        run()
    deliver(tmp_path / "captures", 2)
    ingested(tmp_path)
    with pytest.raises(GapError, match=r"2 intervals: 2024-10-04T01:00:00Z: .*; 2024-10-04T03:00:00Z: link 'p': no "):
        run()
    assert [row.state for row in statuses(lake, tmp_path)] == [
        *("missing", "missing", "provisional", "missing", "missing")
    ]
    for hour in (1, 3):
        deliver(tmp_path / "captures", hour)
    ingested(tmp_path)
    outcome, task = run()
    keys = [partition_key(at(hour)) for hour in (1, 2, 3)]
    assert outcome["state"] == "done" and task.whole == keys, outcome
    caplog.clear()
    outcome, task = run()
    assert outcome["state"] == "done" and not outcome["committed"] and "starting" not in caplog.text
    assert task.whole == keys, "a try that died before it told has told nobody"


@pytest.mark.slow
def test_the_mapped_task_of_an_interval_is_made_with_its_outlets(plugins: None, tmp_path: Path) -> None:
    from airflow.sdk import DAG

    from lowwater_airflow.keeping import KeepInterval
    from lowwater_airflow.operators import published

    found = {"start": format_instant(at(0)), "end": format_instant(at(1)), "title": "an hour"}
    common: Any = {"task_id": "interval", "lake": tmp_path, "queries": tmp_path, "query_set": "q"}
    with DAG("keep_q"):
        mapped = KeepInterval.partial(**common, outlets=[*published("q")]).expand_kwargs([found])
    task = mapped.unmap(found)
    assert (task.start, [each.name for each in task.outlets]) == (
        found["start"],
        ["tables of q", "whole intervals of q"],
    )


@pytest.mark.slow
def test_a_run_of_a_chained_set_waits_for_the_one_before_by_the_plan(
    plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its DAG knows. It fails with the reason where that one has ended and published nothing."""
    from lowwater_airflow import sensor

    lake_of(tmp_path, [0, 1])
    (tmp_path / "q.gsql").write_text(CHAINED, encoding="utf-8")
    at_work: set[int] = set()
    monkeypatch.setattr(sensor, "_runs", lambda dag, start: dag == "replay_q" and start in at_work)

    def look(hour: int, only: tuple[str, ...] = ()) -> dict[str, Any]:
        span = at(hour), at(hour + 1)
        trigger = sensor.LinksTrigger(str(tmp_path / "lake"), str(tmp_path), "q", *span, 0.0, list(only), "replay_q")
        kind, arguments = trigger.serialize()
        assert kind.endswith(".LinksTrigger")
        return sensor.LinksTrigger(**arguments).look()

    at_work.add(at(0))
    assert look(0)["status"] == "ready"
    assert look(1, only=("stale",)) == {
        "status": "waiting",
        "missing": [f"the run of {format_instant(at(0))}, before it in its chain, is at work"],
    }, "what it is may change by then"
    at_work.clear()
    failed = look(1)
    assert (
        failed["status"] == "gap"
        and f"interval of {format_instant(at(0))}, which is not published" in failed["message"]
    )
    assert look(1, only=("stale",)) == {"status": "skip", "message": "skipped: the interval is not stale"}


@pytest.mark.slow
def test_the_note_of_a_look(plugins: None) -> None:
    from lowwater_airflow.notes import look_text

    found = {("look", -1, "found"): {"stuck": 0, "waits": 0, "more": 0, "days": "7d"}}
    assert look_text({("look", -1): ("success", None)}, found) == "nothing to do in the last 7d"
    tasks = {
        ("look", -1): ("success", None),
        ("interval", 0): ("success", "2026-01-01T00:00:00Z done"),
        ("interval", 1): ("failed", "2026-01-01T01:00:00Z"),
        ("interval", 2): ("success", "2026-01-01T02:00:00Z held"),
    }
    left = {
        ("interval", 0, "return_value"): {"state": "done", "reason": ""},
        ("interval", 1, "why"): "cannot start: no capture",
        ("interval", 2, "return_value"): {"state": "held", "reason": "its audit warned"},
        ("look", -1, "return_value"): [{"title": f"2026-01-01T0{at}:00:00Z", "intervals": 1} for at in range(3)],
        ("look", -1, "found"): {"stuck": 3, "waits": 1, "more": 0, "example": "2025-12-31T00:00:00Z: a gap"}
        | {"waiting": "2026-01-01T03:00:00Z: may report", "failed": 1, "failure": "2025-12-30: audit", "untold": 2},
    }
    assert look_text(tasks, left) == (
        "1 done, 1 cannot start, 1 held, 3 cannot start, as before (2025-12-31T00:00:00Z: a gap), "
        "1 failed, as before (2025-12-30: audit), 2 more cannot start: the next look has their tasks, "
        "1 wait (2026-01-01T03:00:00Z: may report); "
        "2026-01-01T01:00:00Z: no capture; 2026-01-01T02:00:00Z held: its audit warned"
    )
    year = {"title": "2025-01-01T00:00:00Z to 2025-11-28T19:00:00Z (7,963 intervals)", "intervals": 7963}
    left = {("look", -1, "return_value"): [year], ("interval", 0, "why"): "cannot start: link 'p': no capture"}
    assert look_text({("look", -1): ("success", None), ("interval", 0): ("failed", None)}, left) == (
        f"7,963 cannot start; {year['title']}: link 'p': no capture"
    )
    tasks = {("ingest", -1): ("success", None), ("refused", 0): ("failed", "p x.pcap")}
    left = {("refused", 0, "why"): "no capture", ("ingest", -1, "found"): {"files": 2}}
    assert look_text(tasks, left) == "2 files ingested, 1 refused; p x.pcap: no capture"
    assert look_text({("look", -1): ("failed", None)}, {("look", -1, "why"): "full"}) == "failed in look: full"


@pytest.mark.slow
def test_the_clock_begins_no_run_of_an_interval_and_a_backfill_does(plugins: None) -> None:
    from airflow.timetables.base import TimeRestriction
    from pendulum import UTC, datetime

    from lowwater_airflow.timetables import WhenAsked

    times = WhenAsked("0 * * * *", timezone="UTC")
    begin, end = datetime(2026, 1, 1, tz=UTC), datetime(2026, 1, 1, 2, tz=UTC)
    clock = TimeRestriction(begin, end, catchup=False)
    assert times.next_dagrun_info(last_automated_data_interval=None, restriction=clock) is None
    asked = times.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(begin, end, catchup=True)
    )
    assert asked is not None and asked.data_interval is not None and asked.data_interval.start == begin
    assert WhenAsked.deserialize(times.serialize()).summary == "when asked"


@pytest.mark.slow
def test_what_looks_tells_why_it_fails(plugins: None, tmp_path: Path) -> None:
    from lowwater_airflow.keeping import IngestNew, LookAtSet

    for work in (
        IngestNew(task_id="ingest", lake=tmp_path / "none", queries=tmp_path),
        LookAtSet(task_id="look", lake=tmp_path / "none", queries=tmp_path, query_set="q"),
    ):
        task = Task()
        with pytest.raises(LowwaterError):
            work.execute(task.context)
        assert "none" in task.left["why"]


@pytest.mark.slow
def test_each_night_compares_a_share_of_all_bytes_and_fails_where_one_is_damaged(plugins: None, tmp_path: Path) -> None:
    from lowwater_airflow.operators import VerifyLake

    lake = publish(tmp_path) / "lake"
    found = VerifyLake(task_id="verify", lake=lake, days=1)._verify()
    assert found["files"] == found["compared"] == len(data_files(lake)) and found["bytes"] > 0
    some = VerifyLake(task_id="verify", lake=lake, days=2)._verify()
    assert 0 < some["compared"] < found["files"]
    flip(data_files(lake, "tables/flows")[0])
    with pytest.raises(LakeError, match="1 file is not as written"):
        VerifyLake(task_id="verify", lake=lake, days=1)._verify()
