"""What is due is known before anything runs: which intervals, why, how much, what keeps them from starting (T5, T6)."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pytest

from lowwater.instants import HOUR, SECOND
from lowwater.lake.keys import differences
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.tables import create
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due, outdated_audits
from lowwater.replay.schedule.links import LinkReadiness, link_readiness
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import END, HOURS, QUERIES, START, lowwater, write_settings

pytestmark = pytest.mark.slow


def job(lake: Path) -> Job:
    return Job.open(lake, "demo", QUERIES)


def parts(lake: Path, query: str, hour: int = 1) -> object:
    opened = job(lake)
    inputs = opened.inputs(START + hour * HOUR, START + (hour + 1) * HOUR, opened.captures())
    # As it is kept: JSON in the ledger.
    return json.loads(json.dumps(inputs.key(opened.plan.only(query).queries[0]).summary))


def changed(before: object, lake: Path, query: str = "flows", hour: int = 1) -> list[str]:
    assert isinstance(before, dict)
    now = parts(lake, query, hour)
    assert isinstance(now, dict)
    return differences(before, now, job(lake).captures())


def test_what_was_never_run_is_missing(lake: Path) -> None:
    found = due(job(lake), DueSelection(None, END))
    assert [((each.start - START) // HOUR, each.state, each.reasons) for each in found] == [
        (hour, "missing", ("never run",)) for hour in range(HOURS)
    ]
    assert {each.queries for each in found} == {("flows", "full_flow")}
    assert {each.blocked for each in found} == {""}
    assert {each.seconds for each in found} == {None}
    captures = [each for rows in job(lake).captures().values() for each in rows]
    assert 0.9 * sum(each.packets for each in captures) < sum(each.packets for each in found)


def test_a_failure_and_an_estimate_come_from_the_ledger(lake: Path) -> None:
    opened = job(lake)
    first, second = START, START + HOUR
    rows = [
        ReplayRow("demo", "", first, first + HOUR, "low", "done", 1, timings='{"low": 2.0}'),
        ReplayRow("demo", "flows", first, first + HOUR, "high", "done", 2, timings='{"low": 2.0, "high": 5.0}'),
        ReplayRow("demo", "", second, second + HOUR, "audit", "failed", 3, reason="flows: a row is not owned"),
    ]
    record_replays(opened.lake, rows)
    found = due(opened, DueSelection(None, END))
    assert [each.state for each in found] == ["missing", "failed", "missing"]
    assert found[0].reasons == ("high was the last stage that ran", "low was the last stage that ran")
    assert found[1].reasons == ("audit: flows: a row is not owned",)
    assert [each.seconds for each in found] == [7.0, 7.0, 7.0]


def test_a_set_that_was_taken_out_of_the_settings_is_no_error(lake: Path, tmp_path: Path) -> None:
    """Counterexample: `backfill` and `watch --once` failed for ever, with one line of standard error for each call."""
    rows = [ReplayRow("retired", "old", START, START + HOUR, "publish", "done", 1, digest="ab")]
    record_replays(open_lake(lake), rows)
    folder = tmp_path / "queries"
    folder.mkdir()
    settings = (lake / "lowwater.toml").read_text()
    write_settings(lake, sets={"totals": folder / "totals.gsql"})
    (folder / "totals.gsql").write_text(
        "DEFINE { query_name 'totals'; } SELECT tb, count(*) FROM main1.TCP GROUP BY time/60 AS tb"
    )
    span = ("--lake", lake, "--queries", folder, "--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z")
    said = lowwater("backfill", *span)
    assert (said.code, said.out) == (0, "done 1\n") and "retired" not in said.err
    said = lowwater("status", "--lake", lake, "--queries", folder)
    assert "query set retired: neither the settings nor" in said.out and not said.err
    # Its file in the folder, or a line of the settings, and it is there again. Without any set in the settings another
    # folder may have been meant.
    (folder / "retired.gsql").write_text("no GSQL")
    assert lowwater("backfill", *span).code == 1
    (folder / "retired.gsql").unlink()
    (lake / "lowwater.toml").write_text(settings.replace("[query_sets.demo]", "[query_sets.retired]"))
    assert "retired" in lowwater("plan", *span).out
    (lake / "lowwater.toml").write_text("")
    assert "there is no query set 'retired'" in lowwater("backfill", *span).err


def test_a_set_whose_tables_are_those_of_another_is_not_planned(lake: Path, tmp_path: Path) -> None:
    """Counterexample: a query set got another name. `plan` had all of its intervals to run, and each one failed."""
    file = tmp_path / "totals.gsql"
    file.write_text("DEFINE { query_name 'totals'; } SELECT tb, count(*) FROM main1.TCP GROUP BY time/60 AS tb")
    write_settings(lake, sets={"named": file})
    create(lake / "tables" / "totals", pa.schema([("n", pa.int64())]), owner="before")
    for command in ("plan", "backfill"):
        said = lowwater(command, "--lake", lake)
        assert said.code == 1 and not said.out
        assert "query set named: table 'totals' belongs to query set 'before'" in said.err
        assert "`lowwater rename set` before named" in said.err
    write_settings(lake, sets={"before": file})
    assert "never run" in lowwater("plan", "--lake", lake).out


def test_audits_of_queries_and_lengths_that_the_set_had_before_are_not_outdated(lake: Path) -> None:
    """Counterexample: a query with a suite was taken out of its set. `plan` asked to audit its hours again for ever."""

    def audit(query: str, end: int) -> ReplayRow:
        return ReplayRow("demo", query, START, end, "audit", "done", 1, accounting='{"suite": "of before"}')

    opened = job(lake)
    record_replays(open_lake(lake), [audit("gone", START + HOUR), audit("flows", START + HOUR // 2)])
    assert outdated_audits(opened, DueSelection()) == []
    record_replays(open_lake(lake), [audit("flows", START + HOUR)])
    assert outdated_audits(opened, DueSelection()) == [(START, START + HOUR)]


@pytest.mark.parametrize(
    ("old", "new", "query", "said"),
    [
        ("sum(len) AS bytes", "max(len) AS bytes", "flows", "query flows has changed"),
        ("FROM main2.DataProtocol", "FROM main1.DataProtocol", "full_flow", "link main2 is no longer read"),
        ("time/10 AS tb, protocol", "time / 10 AS tb,\n  protocol", "flows", ""),
    ],
)
def test_a_changed_text_is_named(old: str, new: str, query: str, said: str, lake: Path, tmp_path: Path) -> None:
    before = {name: parts(lake, name) for name in ("flows", "full_flow")}
    text = (QUERIES / "demo.gsql").read_text(encoding="utf-8")
    path = tmp_path / "demo.gsql"
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    write_settings(lake, sets={"demo": path})
    after = {name: parts(lake, name) for name in ("flows", "full_flow")}
    assert {name for name in after if after[name] != before[name]} == ({query} if said else set())
    assert not said or said in changed(before[query], lake, query)


@pytest.mark.parametrize(
    ("call", "old", "new"),
    [
        ("getlpmid(srcIP, '{}')", "10.0.0.0/8 7", "10.0.0.0/8 8"),
        ("int_to_string_map(protocol, '{}')", "6,tcp", "6,TCP"),
    ],
)
def test_a_file_of_a_function_is_an_input(call: str, old: str, new: str, lake: Path, tmp_path: Path) -> None:
    """Counterexample: a prefix table was edited, and its intervals stayed `done`."""
    table, path = tmp_path / "table.txt", tmp_path / "named.gsql"
    table.write_text(f"{old}\n")
    low = "DEFINE { query_name 'low'; visibility 'internal'; } SELECT time, len, CALL AS x FROM main1.DataProtocol;\n"
    high = "DEFINE { query_name 'q'; } SELECT tb, sum(len) AS n FROM low GROUP BY time/60 AS tb, x"
    path.write_text(low.replace("CALL", call.format(table)) + high)
    write_settings(lake, sets={"demo": path})
    before = parts(lake, "q")
    table.write_text(f"{new}\n")
    assert changed(before, lake, "q") == [f"file {table} has changed"]


def test_a_changed_setting_is_named(lake: Path) -> None:
    before = parts(lake, "flows")
    write_settings(lake, skews={"main1": "2s"}, policy="wait")
    assert changed(before, lake) == ["link control: policy was publish, is wait", "link main1: skew was 1s, is 2s"]
    text = (lake / "lowwater.toml").read_text()
    first = parts(lake, "flows", 0)
    (lake / "lowwater.toml").write_text(text.replace("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", 1))
    assert changed(first, lake, hour=0) == ["link main1: since was before what it reads, is 2026-01-01T00:00:01Z"]
    (lake / "lowwater.toml").write_text(text.replace('since = "2026-01-01T00:00:00Z"', "", 1))
    assert parts(lake, "flows", 0) == first, "nothing is read before it"


def test_a_plan_of_a_lake_without_captures_says_what_to_do_and_that_helps(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    packets = [(START + at * HOUR // 2, tcp("10.0.0.1", "10.0.0.2", 1024, 80)) for at in range(5)]
    (tmp_path / "c" / "one.pcap").write_bytes(pcap_bytes(packets))
    (tmp_path / "one.gsql").write_text("SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb")
    sets = '[query_sets.one]\nfiles = ["../one.gsql"]\n[links.main1]\nskew = "1s"\n'
    for number, (more, hint) in enumerate(
        (("", "--link main1 FILE` takes in a file"), ('captures = "../c/*.pcap"', "` takes in those that"))
    ):
        root = open_lake(tmp_path / f"a lake {number}").root
        (root / "lowwater.toml").write_text(sets + more)
        for command in ("plan", "backfill"):
            said = lowwater(command, "--lake", root)
            lines = said.out.splitlines()
            assert said.code == 0 and lines[0] == "nothing is due: the lake has no captures of link main1"
            assert lines[1].startswith(f"  hint: `lowwater ingest --lake '{root}'") and hint in lines[1]
        _, *words = shlex.split(lines[1].split("`")[1])
        assert lowwater(*(str(tmp_path / "c" / "one.pcap") if word == "FILE" else word for word in words)).code == 0
        assert lowwater("plan", "--lake", root).out.count("never run") == 3


def test_what_is_alike_in_a_row_of_intervals_is_said_once(tmp_path: Path) -> None:
    """A recorder that captures a minute of every second hour: each hour had two lines, twice in a backfill."""
    folder = tmp_path / "c"
    folder.mkdir()
    for number in range(6):
        begin = START + 2 * number * HOUR + HOUR // 6
        packets = [(begin + at * SECOND, tcp("10.0.0.1", "10.0.0.2", 1024, 80)) for at in range(60)]
        (folder / f"eth_{number}.pcap").write_bytes(pcap_bytes(packets))
    (tmp_path / "one.gsql").write_text("SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb")
    root = open_lake(tmp_path / "lake").root
    (root / "lowwater.toml").write_text(
        '[query_sets.one]\nfiles = ["../one.gsql"]\n[links.main1]\nskew = "0s"\ncaptures = "../c/eth_%n.pcap"\n'
    )
    assert lowwater("ingest", "--lake", root).code == 0
    plan = " ".join(lowwater("plan", "--lake", root).out.split())
    words = "2026-01-01T01:00:00Z to 2026-01-01T10:00:00Z (9 intervals)"
    assert plan.count("never run") == 3 and f"{words} one cannot start 240 ? never run. Cannot start" in plan
    assert plan.count("; and so in each, at its own instants") == 1
    lines = lowwater("backfill", "--lake", root).err.splitlines()
    ends = "2026-01-01T00:00:00Z", words, "2026-01-01T10:00:00Z"
    assert [line.partition(": ")[0] for line in lines[1:]] == [f"one {each}" for each in ends]


def seen(lake: Path, policy: str, start: int, patient: bool = True) -> LinkReadiness:
    """What the sensor sees with a policy of control; main1 and main2 have policy `fail`."""
    write_settings(lake, policy=policy)
    return link_readiness(job(lake), start, start + HOUR, patient)


def test_a_capture_that_has_not_come_is_waited_for(lake: Path) -> None:
    """After the last hour each link covers one minute more; whether the rest comes is not known yet."""
    waits = seen(lake, "exclude", END)
    assert not waits.ready and waits.failure is None
    assert len(waits.missing) == 1 and "3 links (" in waits.missing[0], "they lack the same, so it is said once"
    assert all(f"'{link}'" in waits.missing[0] for link in ("control", "main1", "main2"))
    failed = seen(lake, "exclude", END, patient=False)
    assert failed.failure is not None and failed.failure.link == "main1", "control is excluded by now"
    assert failed.failure.since == END + HOUR // 60
    assert "2026-01-01T03:01:00Z" in failed.failure.message
