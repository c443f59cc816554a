"""A look finds what can run and says why the rest cannot; looks alone bring a lake to what a quiet backfill makes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from lowwater.cli.backfills import watch_lake
from lowwater.config import load_config
from lowwater.errors import LakeError
from lowwater.high.process import InProcess
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.ledgers.intervals import approve
from lowwater.lake.ledgers.runs import Publications, ReplayRow, read_replays, record_replays
from lowwater.replay import upgrade
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule import looks
from lowwater.replay.schedule.backfill import backfill
from lowwater.replay.schedule.due import UNAPPROVED, DueSelection, due, statuses, timeless
from lowwater.replay.schedule.looks import Findings, Left, Looker, keep_told
from tests.capturemaker import pcap_bytes, udp
from tests.replay.month import Month, compare
from tests.replay.support import lowwater

BEGIN = 480_000 * HOUR
MINUTE = 60 * SECOND
TEXT = "DEFINE { query_name 'hosts'; }\nSELECT tb, count(*) AS packets FROM p.DataProtocol GROUP BY time/3600 AS tb\n"
pytestmark = pytest.mark.slow


def lake_of(folder: Path, hours: Iterable[int], policy: str = "fail", more: str = "") -> Job:
    """A lake with captures of some hours of one link whose life began at BEGIN."""
    captures, lake = folder / "captures", folder / "lake"
    for path in (captures, lake):
        path.mkdir(parents=True, exist_ok=True)
    (folder / "q.gsql").write_text(TEXT, encoding="utf-8")
    (lake / "lowwater.toml").write_text(
        f'[query_sets.q]\nfiles = ["{folder}/q.gsql"]\n{more}\n[links.p]\nrotation = "1h"\npolicy = "{policy}"\n'
        f'captures = "../captures/p_%Y%m%dT%H.pcap"\nsince = "{format_instant(BEGIN)}"\n',
        encoding="utf-8",
    )
    for hour in hours:
        deliver(captures, hour)
    return ingested(folder)


def deliver(captures: Path, hour: int) -> None:
    begin = BEGIN + hour * HOUR
    path = captures / f"p_{format_instant(begin)[:13].replace('-', '')}.pcap"
    path.write_bytes(pcap_bytes([(begin + 5 * SECOND, udp("10.0.0.1", "10.0.0.2", 1, 2))], nanoseconds=True))
    os.utime(path, ns=(begin + HOUR, begin + HOUR))


def ingested(folder: Path) -> Job:
    said = lowwater("ingest", "--lake", folder / "lake")
    assert said.code == 0, said
    return Job.open(folder / "lake", "q", folder)


def at(hour: float, minute: int = 0) -> int:
    return BEGIN + round(hour * HOUR) + minute * MINUTE


def look(job: Job, now: int) -> Findings:
    """A look of which somebody hears."""
    found = looks.look(job, now)
    keep_told(job.lake.root, "q", [each for each in found.stuck if each.news])
    return found


def ran(found: Findings) -> list[int]:
    return [(each.start - BEGIN) // HOUR for each in found.runs]


def left(found: Iterable[Left]) -> list[tuple[int, int, bool]]:
    return [((each.due.start - BEGIN) // HOUR, each.due.intervals, each.news) for each in found]


def test_hours_that_passed_without_a_capture_wait_and_then_cannot_start_and_are_told_once(tmp_path: Path) -> None:
    """The hours before the first coverage, from `since` on, and those behind the last, as soon as they are over."""
    job = lake_of(tmp_path, [2])
    assert [row.start for row in statuses(tmp_path / "lake", tmp_path)] == [BEGIN, at(2)]
    found = look(job, at(4, 5))
    assert (ran(found), left(found.stuck), left(found.waits)) == ([2], [(0, 2, True)], [(3, 1, False)])
    assert "may report until" in found.waits[0].why and "link 'p': no capture covers" in found.waits[0].why
    found = look(job, at(4, 20))
    assert left(found.stuck) == [(0, 2, False), (3, 1, True)] and not found.waits
    look(job, at(5, 5))
    assert statuses(tmp_path / "lake", tmp_path)[-1].end == at(4), "an hour whose link may still report is not yet told"
    found = look(job, at(6, 20))
    assert left(found.stuck) == [(0, 2, False), (3, 1, False), (4, 2, True)]
    rows = statuses(tmp_path / "lake", tmp_path)  # who asks without a clock is told the same
    assert [((row.start - BEGIN) // HOUR, row.intervals, row.shown) for row in rows] == [
        (0, 2, "cannot start"),
        (2, 1, "missing"),
        (3, 3, "cannot start"),
    ]
    shutil.rmtree(tmp_path / "lake" / "_looks")
    assert len(statuses(tmp_path / "lake", tmp_path)) == 2


def test_the_folder_that_is_not_there_is_named_with_the_hour_that_lacks_its_file(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0, 2])
    folder = tmp_path / "captures"
    folder.rename(tmp_path / "unmounted")
    said = lowwater("ingest", "--lake", tmp_path / "lake")
    found = looks.look(Job.open(job.lake.root, "q", tmp_path), at(5))
    (between, behind) = (each.why for each in found.stuck)
    assert f"; link 'p': folder {folder}: is not there" in behind and "folder" not in between, said
    assert statuses(tmp_path / "lake", tmp_path)[-1].why.endswith(f"folder {folder}: is not there")


def test_an_edit_between_the_look_and_the_run_waits_for_the_next_look(tmp_path: Path) -> None:
    """Airflow opens a query set anew for each interval of a look: no two of them run by different texts."""
    job = lake_of(tmp_path, [0, 1])
    settings = tmp_path / "lake" / "lowwater.toml"
    edits = {
        tmp_path / "q.gsql": ("count(*) AS packets", "count(*) AS packets, sum(len) AS bytes"),
        settings: ("[links.p]", '[links.p]\nskew = "2s"'),
    }
    for path, (old, new) in edits.items():
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(old, new), encoding="utf-8")
        (left_to_next,) = [looks.edited(Job.open(job.lake.root, "q", tmp_path), at(1), at(2), job.edition)]
        assert left_to_next is not None and "the next look runs it" in left_to_next.reason
        path.write_text(text, encoding="utf-8")
        deliver(tmp_path / "captures", 3)
        assert looks.edited(ingested(tmp_path), at(1), at(2), job.edition) is None, "a file is no edit"


def test_what_nobody_heard_is_news_again(tmp_path: Path) -> None:
    """A process may end before it tells, and a task of Airflow is tried again."""
    job = lake_of(tmp_path, [0, 2])
    for by in ("one", "two", "two"):
        found = looks.look(job, at(3, 20), by)
        assert left(found.stuck) == [(1, 1, True)], "nobody heard, or it is the second try"
        if by == "two":
            keep_told(job.lake.root, "q", found.stuck, by)
    assert left(looks.look(job, at(3, 21), "three").stuck) == [(1, 1, False)]


def test_another_cause_is_news_and_other_instants_are_not() -> None:
    told = "link 'p1': no capture covers 2026-01-01T00:00:00Z to 2026-01-01T01:00:00.5Z"
    assert timeless(told) == timeless(told.replace("T01:00:00.5Z", "T02:00:00Z"))
    assert timeless(told) != timeless(told.replace("p1", "p2"))


def failure(job: Job, when: int, repeats: bool) -> None:
    """Records a failure on the present inputs, as a run does."""
    inputs = job.inputs(at(0), at(1), job.captures())
    tried = job.attempted({query.name: inputs.digest(query) for query in job.plan.queries})
    account = f'{{"tried": "{tried}", "repeats": {str(repeats).lower()}}}'
    row = ReplayRow("q", "", at(0), at(1), "low", "failed", when, "disk", accounting=account)
    record_replays(job.lake, [row])


def test_what_failed_is_tried_again_after_growing_pauses_or_on_other_inputs(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0, 1])
    for minute in (0, 1, 3):
        failure(job, at(2, minute), repeats=False)
    assert ran(look(job, at(2, 6))) == [1]
    assert f"it is tried again at {format_instant(at(2, 7))}" in look(job, at(2, 6)).waits[0].why
    assert ran(look(job, at(2, 7))) == [0, 1]
    failure(job, at(2, 8), repeats=True)
    found = look(job, at(9))
    assert ran(found)[0] == 1 and found.stuck[0].why.startswith("failed: low: disk; it is tried again once its inputs")
    assert not found.stuck[0].news and found.stuck[0].failed, "the run has told that it failed"
    (tmp_path / "q.gsql").write_text(TEXT.replace("count(*)", "sum(len)"), encoding="utf-8")
    assert ran(look(Job.open(tmp_path / "lake", "q", tmp_path), at(9)))[:2] == [0, 1]


def test_what_its_audit_refused_is_tried_again_under_other_limits(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0])
    failure(job, at(1, 20), repeats=True)
    assert not look(job, at(4)).runs
    settings = tmp_path / "lake" / "lowwater.toml"
    settings.write_text(settings.read_text() + "\n[thresholds]\nmalformed = 0.5\n", encoding="utf-8")
    assert ran(look(Job.open(tmp_path / "lake", "q", tmp_path), at(4))) == [0]


def test_a_clock_that_was_years_ahead_is_forgotten_by_the_next_look(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0])
    look(job, at(5 * 365 * 24))
    look(job, at(2, 20))
    assert [((row.start - BEGIN) // HOUR, row.intervals) for row in statuses(tmp_path / "lake", tmp_path)] == [
        (0, 1),
        (1, 1),
    ]


def test_wrong_settings_of_one_link_hold_up_no_other(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0])
    settings, told = tmp_path / "lake" / "lowwater.toml", list[str]()
    settings.write_text(
        f'{settings.read_text()}\n[links.other]\nanonymise = "gone.key"\ncaptures = "../captures/p_%Y%m%dT%H.pcap"\n',
        encoding="utf-8",
    )
    deliver(tmp_path / "captures", 1)
    looker = Looker(job.lake.root, (), tmp_path, lambda line, _: told.append(line), clock=lambda: at(3))
    result = looker.look()
    assert [(row.due.start - BEGIN) // HOUR for row in result.results] == [0, 1] and not result.sound
    assert "gone.key" in result.faults["other"]
    assert not looker.look().sound and sum("link 'other' waits" in line for line in told) == 1


def test_a_late_file_is_taken_and_its_hours_run(tmp_path: Path) -> None:
    lake_of(tmp_path, [0, 2])
    now, said = at(3, 30), list[str]()
    looker = Looker(tmp_path / "lake", (), tmp_path, lambda line, _: said.append(line), clock=lambda: now)
    (found,) = looker.look().found
    assert ran(found) == [0, 2] and left(found.stuck) == [(1, 1, True)]
    deliver(tmp_path / "captures", 1)
    deliver(tmp_path / "captures", 3)
    now = at(4, 1)
    result = looker.look()
    hours = {(each.due.start - BEGIN) // HOUR: each.state for each in result.results}
    assert hours == {0: "done", 1: "done", 2: "done", 3: "provisional"} and result.sound, said
    assert not looker.look().results


def test_a_policy_that_changes_makes_no_whole_interval_stale_and_an_upgrade_keeps_older_digests(tmp_path: Path) -> None:
    """What older versions published had in its digest the life as it is set, also the policy without a gap."""
    job = lake_of(tmp_path, [0, 1, 3], policy="publish")
    captures = job.captures()
    for hour in (0, 1, 2):
        (query,) = job.plan.queries
        key = job.inputs(at(hour), at(hour + 1), captures).key(query)
        older = [each.digest for each in upgrade._older(key, job)]
        assert key.digest not in older and (older[0] == older[1]) == (hour == 2)
        for number, digest in enumerate(older):
            row = ReplayRow("q", "hosts", at(hour), at(hour + 1), "publish", "done", number, digest=digest, rows=1)
            record_replays(job.lake, [row])
            assert not job.inputs(at(hour), at(hour + 1), captures).published(query)
            assert upgrade._keep(job.lake, tmp_path, lambda name, error: pytest.fail(f"{name}: {error}")) == 1
            assert job.inputs(at(hour), at(hour + 1), captures).published(query)
            assert job.inputs(at(hour), at(hour + 1), captures, past=Publications(job.lake, "q")).published(query)
    settings = tmp_path / "lake" / "lowwater.toml"
    settings.write_text(settings.read_text().replace('"publish"', '"wait"'))
    changed = Job.open(tmp_path / "lake", "q", tmp_path)
    gap = changed.inputs(at(2), at(3), captures)
    assert not gap.published(changed.plan.queries[0])


CHAINED = """DEFINE { query_name 'hosts'; }
SELECT tb, srcIP, running_sum(len) AS total FROM p.DataProtocol
GROUP BY time/3600 AS tb, srcIP CLOSING_WHEN count(*) = 0
"""


def test_a_chain_over_a_link_that_has_delivered_nothing_yet_runs_anew(tmp_path: Path) -> None:
    """There is no state to continue; it waited for the interval before the life of the link."""
    job = lake_of(tmp_path, [0])
    settings = tmp_path / "lake" / "lowwater.toml"
    settings.write_text(
        f'{settings.read_text()}\n[links.e]\npolicy = "publish"\nrotation = "1h"\nsince = "{format_instant(BEGIN)}"\n'
        'captures = "../captures/e_%Y%m%dT%H.pcap"\n',
        encoding="utf-8",
    )
    (tmp_path / "q.gsql").write_text(CHAINED.replace("p.Data", "e.Data"), encoding="utf-8")
    looker = Looker(job.lake.root, (), tmp_path, lambda *_: None, clock=lambda: at(3, 20))
    (found,) = (result := looker.look()).found
    assert not found.stuck and result.results[0].due.start == BEGIN and result.results[0].state == "incomplete"
    assert [row.shown for row in statuses(job.lake.root, tmp_path)] == ["incomplete"]


def test_a_link_that_goes_on_after_all_makes_what_ended_with_its_coverage_stale(tmp_path: Path) -> None:
    """Idle epochs end with the life of the links (O4)."""
    job = lake_of(tmp_path, [0], policy="publish")

    def digests(text: str) -> list[str]:
        (tmp_path / "q.gsql").write_text(text, encoding="utf-8")
        now = Job.open(job.lake.root, "q", tmp_path)
        spans = [now.inputs(at(hour), at(hour + 1), now.captures()) for hour in (0, 2)]
        return [inputs.digest(now.plan.queries[0]) for inputs in spans]

    before = [digests(text) for text in (TEXT, CHAINED)]
    deliver(tmp_path / "captures", 5)
    ingested(tmp_path)
    (plain, chained), (plain_now, chained_now) = before, [digests(text) for text in (TEXT, CHAINED)]
    assert plain_now == plain and chained_now[0] == chained[0] and chained_now[1] != chained[1]


def test_a_watch_waits_for_settings_that_are_gone_and_looks_as_soon_as_the_lake_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the settings of a lake without any it would publish all hours anew, and look after ten minutes."""
    lake = lake_of(tmp_path, [], more='[schedule]\nevery = "7s"\nlook_back = "36500d"').lake.root
    away, settings = tmp_path / "away", tmp_path / "lake" / "lowwater.toml"
    steps = iter([(settings, away), (away, settings), (lake, away), (away, lake)])
    pauses: list[float] = []

    def pause(seconds: float, _: object) -> None:
        pauses.append(seconds)
        if (step := next(steps, None)) is None:
            raise KeyboardInterrupt
        os.rename(*step)

    monkeypatch.setattr("lowwater.processes.pause", pause)
    with pytest.raises(KeyboardInterrupt):
        watch_lake(lake, (), tmp_path, 1, False, None)
    told = capsys.readouterr().err
    assert told.count("lowwater.toml: was there, and is gone") == told.count("there is no lake") == 1
    assert pauses == [7, 14, 7, 14, 7]


def test_a_refused_file_is_tried_again_once_its_schema_or_the_settings_are_others(tmp_path: Path) -> None:
    """Once, for who looks again and again, and for who looks once; an older file that is put in their place has an old
    last write."""
    log, schema, settings = (tmp_path / name for name in ("l.csv", "l.schema", "lowwater.toml"))
    log.write_text("time,bytes\n1,2\n", encoding="utf-8")
    settings.write_text('[links.l]\nkind = "csv"\nschemas = "l.schema"\ncaptures = "*.csv"\n', encoding="utf-8")
    text = "PROTOCOL LOG { uint time get_csv_uint (increasing); uint a get_csv_uint; }"
    schema.write_text(text, encoding="utf-8")
    for path in (log, schema, settings):
        os.utime(path, ns=(BEGIN, BEGIN))
    again = Looker(tmp_path, (), tmp_path, lambda *_: None)

    def refused() -> list[int]:
        once = Looker(tmp_path, (), tmp_path, lambda *_: None, alone=True)
        return [len(looker.ingest(load_config(tmp_path)).refusals) for looker in (once, again)]

    assert (refused(), refused()) == ([1, 1], [0, 0])
    for path, old, new, both in ((schema, " a ", " b ", [1, 1]), (settings, "*.csv", "*.csv", [1, 0])):
        (other := tmp_path / "other").write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        os.utime(other, ns=(BEGIN, BEGIN))
        other.replace(path)
        assert (refused(), refused()) == (both, [0, 0])


def test_consent_is_for_one_audit(tmp_path: Path) -> None:
    job = lake_of(tmp_path, [0, 2], policy="publish", more="[schedule]\napproval = true")
    runner = InProcess()

    def run() -> str:
        now = Job.open(job.lake.root, "q", tmp_path)
        return replay(now, at(1), at(2), None, Progress(quiet=True), runner, ask=True)[0].state

    (begun,) = due(job, DueSelection(at(1), at(2)))
    assert [each.state for each in backfill([job], [begun], runner=runner)] == ["held"], "a backfill asks as well"
    (held,) = due(job, DueSelection(at(1), at(2)))
    assert held.blocked == UNAPPROVED and not begun.blocked
    assert [row.state for row in statuses(job.lake.root, tmp_path)] == ["missing", "held", "missing"]
    found = look(job, at(3, 30))
    assert ran(found) == [0, 2] and "a person must approve" in found.waits[0].why
    approve(job.lake, "q", at(1), at(2), "ann")
    assert ran(look(job, at(3, 30))) == [0, 1, 2]
    assert statuses(job.lake.root, tmp_path)[1].reason == "approved by ann; the next look publishes it"
    (tmp_path / "q.gsql").write_text(TEXT.replace("count(*)", "sum(len)"), encoding="utf-8")
    assert run() == "held", "what was approved was another audit"
    approve(job.lake, "q", at(1), at(2), "ann")
    assert run() == "incomplete"
    (made,) = {row.timings for row in read_replays(job.lake, "q", (at(1), at(2))) if row.stage == "publish"}
    assert "low" not in made, "it is published as it was audited"
    with pytest.raises(LakeError, match="does not wait"):
        approve(job.lake, "q", at(1), at(2), "ann")


def test_an_hour_over_which_another_length_was_published_is_stale(tmp_path: Path) -> None:
    """Counterexample: a length and a query were tried and taken back. `status` called the hours `done`, nothing was
    due, and the rows were those of the other query."""
    job, runner = lake_of(tmp_path, range(5)), InProcess()
    settings = job.lake.root / "lowwater.toml"
    text = settings.read_text(encoding="utf-8")

    def ran_as(length: str, item: str, end: int) -> Job:
        settings.write_text(f'[interval]\nlength = "{length}"\n{text}', encoding="utf-8")
        (tmp_path / "q.gsql").write_text(TEXT.replace("count(*)", item), encoding="utf-8")
        now = Job.open(job.lake.root, "q", tmp_path)
        replay(now, at(0), at(end), None, Progress(quiet=True), runner)
        return now

    ran_as("1h", "count(*)", 4)
    ran_as("4h", "sum(len)", 4)
    now = ran_as("1h", "count(*)", 1)
    rows = statuses(job.lake.root, tmp_path)
    assert [row.state for row in rows] == ["done", "stale", "stale", "stale", "missing"]
    assert rows[1].reason == (f"it was published since as a part of {format_instant(at(0))} to {format_instant(at(4))}")
    backfill([now], due(now, DueSelection(None, at(4))), runner=runner)
    assert [row.state for row in statuses(job.lake.root, tmp_path)] == [*["done"] * 4, "missing"]
    table = lowwater("rows", "hosts", "--lake", job.lake.root, "--queries", tmp_path, "--format", "csv").out
    assert [line.rpartition(",")[2] for line in table.splitlines()] == ["packets", *["1"] * 4]
    told = lowwater("report", "--lake", job.lake.root, "--queries", tmp_path).out
    assert told.count(": passed") == 4, "the audit of the four hours is of rows that are gone"


def test_what_waits_for_consent_does_not_ask_queries_that_the_set_had_before(tmp_path: Path) -> None:
    """Counterexample: a query was renamed. Each look ran the hour again and held it, and nobody could approve it."""
    job = lake_of(tmp_path, [0, 2], policy="publish", more="[schedule]\napproval = true")
    runner = InProcess()
    replay(job, at(1), at(2), None, Progress(quiet=True), runner)
    (tmp_path / "q.gsql").write_text(TEXT.replace("'hosts'", "'senders'"), encoding="utf-8")
    job = Job.open(job.lake.root, "q", tmp_path)
    (held,) = replay(job, at(1), at(2), None, Progress(quiet=True), runner, ask=True)
    assert held.state == "held"
    found = look(job, at(3, 30))
    assert ran(found) == [0, 2] and [each.why for each in found.waits] == [UNAPPROVED]
    approve(job.lake, "q", at(1), at(2), "ann")
    assert replay(job, at(1), at(2), None, Progress(quiet=True), runner, ask=True)[0].state == "incomplete"


@pytest.mark.nightly
def test_a_month_of_faults_is_what_a_quiet_backfill_makes(tmp_path: Path) -> None:
    """The short form: `python -m tests.replay.month` has the long one."""
    month = Month(tmp_path / "month", days=1, length=12 * HOUR, seed=4, sets=("pair",), unlucky=0.7)
    month.run()
    counts = compare(month)
    assert counts["provisional"] == 2 and month.kills and month.full, (counts, month)


def test_files_that_lie_there_are_waited_for(tmp_path: Path) -> None:
    """After a pause, Airflow begins with the ingest and the looks at once."""
    job = lake_of(tmp_path, [0])
    deliver(tmp_path / "captures", 1)
    broken = tmp_path / "captures" / f"p_{format_instant(at(2))[:13].replace('-', '')}.pcap"
    broken.write_bytes(b"no capture at all")
    os.utime(broken, ns=(at(3), at(3)))
    planned = lowwater("plan", "--lake", tmp_path / "lake").out
    assert f"link 'p': 2 files not ingested yet, p_{format_instant(at(1))[:13].replace('-', '')}.pcap the" in planned
    found = look(job, at(4))
    assert left(found.stuck) == [] and "lies there, and is not ingested yet" in found.waits[0].why, found
    said = lowwater("ingest", "--lake", tmp_path / "lake")
    assert said.code == 1, said
    found = look(Job.open(tmp_path / "lake", "q", tmp_path), at(4))
    assert ran(found) == [0, 1] and left(found.stuck) == [(2, 1, True)], "a file that was refused brings nothing"
