"""What is due is known before anything runs: which intervals, why, how much, and what keeps them from starting."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from lowwater.capture.generate import GeneratedCapture, generate
from lowwater.config import Config
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import ReplayRow, read_replays, record_replays
from lowwater.lake.packets import PacketFiles, read_packets
from lowwater.lake.run_inputs import changes
from lowwater.lake.tables import interval_label
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due, estimate, open_jobs, packet_estimate
from tests.capturemaker import pcap_bytes, tcp, udp
from tests.replay.support import END, HOURS, LINKS, QUERIES, START, copy_lake, ingest_all, lowwater, write_settings

pytestmark = pytest.mark.slow


def job(lake: Path) -> Job:
    return Job.open(lake, "demo", QUERIES)


def parts(lake: Path, query: str, hour: int = 1) -> object:
    opened = job(lake)
    inputs = opened.inputs(START + hour * HOUR, START + (hour + 1) * HOUR, opened.captures())
    # As it is kept: JSON in the ledger.
    return json.loads(json.dumps(inputs.parts(opened.plan.only(query).queries[0])))


def changed(before: object, lake: Path, query: str = "flows", hour: int = 1) -> list[str]:
    assert isinstance(before, dict)
    now = parts(lake, query, hour)
    assert isinstance(now, dict)
    return changes(before, now, job(lake).captures())


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


def test_a_range_and_a_kind_choose(lake: Path) -> None:
    asked = [
        (DueSelection(START + HOUR, None), 3),
        (DueSelection(None, START + HOUR), 1),
        (DueSelection(START, START + HOUR), 1),
    ]
    assert [len(due(job(lake), each)) for each, _ in asked] == [count for _, count in asked]
    assert due(job(lake), DueSelection(kinds=("failed", "stale"))) == []
    assert len(due(job(lake), DueSelection(None, END, ("missing",)))) == HOURS
    with pytest.raises(ConfigError, match="whole intervals of 1h"):
        due(job(lake), DueSelection(START + 1, None))


def test_a_range_beyond_the_captures_cannot_start(lake: Path) -> None:
    found = due(job(lake), DueSelection(END, END + HOUR))
    assert len(found) == 1 and found[0].blocked.startswith("2 links ('main1', ")
    assert found[0].blocked.endswith(": no capture covers 2026-01-01T03:01:00Z to 2026-01-01T04:00:00Z")


def test_the_hour_in_which_captures_end_is_listed_and_named(lake: Path) -> None:
    *_, last = due(job(lake), DueSelection())
    assert (last.start, last.at_edge) == (END, True) and "'main1'" in last.blocked and last.packets
    said = lowwater("plan", "--lake", lake, "--queries", QUERIES)
    assert "1 cannot start; not run: 1 interval, " in said.out and "--through-end" in said.out.splitlines()[-1]
    said = lowwater("plan", "--lake", lake, "--queries", QUERIES, "--through-end")
    assert "4 intervals to run" in said.out and "not run" not in said.out
    said = lowwater("backfill", "--lake", lake, "--queries", QUERIES, "--from", "2026-01-01T03:00Z")
    assert said.code == 1 and said.out.startswith("waiting 1; not run: 1 interval, ")


def test_a_gap_blocks_as_the_policy_of_its_link_says(lake: Path) -> None:
    assert [each.blocked for each in due(job(lake), DueSelection(None, END))] == ["", "", ""]
    write_settings(lake, policy="fail")
    blocked = [each.blocked for each in due(job(lake), DueSelection(None, END))]
    assert blocked[0] == blocked[2] == "" and "link 'control': no capture covers" in blocked[1]


def test_packets_are_counted_or_said_to_be_about(lake: Path) -> None:
    """What is given as it is, is so; of hours most files are read whole, of shorter intervals hardly one."""
    opened = job(lake)
    captures = opened.captures()
    for length in (HOUR, 600 * SECOND):
        found = due(replace(opened, length=length), DueSelection())
        for each in found:
            starts = opened.inputs(each.start, each.end, captures).link_starts(opened.plan.queries)
            packets = 0
            for link, start in starts.items():
                settings = opened.config.link(link)
                read = read_packets(opened.lake, link, captures[link], settings, start, each.start, each.end)
                packets += sum(batch.num_rows for batch in read)
            assert not each.exact or each.packets == packets
        assert all(each.exact for each in found) == (length == HOUR)
    assert " about " not in lowwater("plan", "--lake", lake, "--queries", QUERIES).out
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace('length = "1h"', 'length = "10 min"'))
    shown = lowwater("plan", "--lake", lake, "--queries", QUERIES).out
    assert " about " in shown and "to run, about " in shown


def test_a_lone_capture_is_counted_exactly(tmp_path: Path) -> None:
    """Most of its packets are in its first minutes: the share of its time says something else."""
    stamps = [START + 3000 * SECOND + at * SECOND // 10 for at in range(9000)] + [START + 2 * HOUR - SECOND]
    (tmp_path / "a.pcap").write_bytes(pcap_bytes([(at, udp("10.0.0.1", "10.0.0.2", 5, 6)) for at in stamps]))
    (tmp_path / "q.gsql").write_text("SELECT tb, count(*) as cnt FROM TCP GROUP BY time/60 as tb")
    lake = tmp_path / "lake"
    ingest(open_lake(lake), "main1", [tmp_path / "a.pcap"], Config(), (START, START + 2 * HOUR))
    found = due(Job.open(lake, "q", tmp_path), DueSelection())
    assert [(each.packets, each.exact) for each in found] == [(6000, True), (3001, True)]


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


def test_seconds_grow_with_packets(lake: Path) -> None:
    opened = job(lake)
    for hour, each in enumerate(due(opened, DueSelection(None, END))):
        spent = json.dumps({"low": 1.0 + each.packets / 1000})
        record_replays(
            opened.lake, [ReplayRow("demo", "", each.start, each.end, "low", "done", hour + 1, timings=spent)]
        )
    for each in due(opened, DueSelection(None, END)):
        assert each.seconds == pytest.approx(1.0 + each.packets / 1000, abs=0.2)


@pytest.mark.slow
def test_what_a_run_leaves_on_disk_is_told_by_earlier_ones(published: Path, tmp_path: Path) -> None:
    root = copy_lake(published, tmp_path / "lake")
    opened = job(root)
    shares = []
    for start in range(START, END, HOUR):
        inputs = opened.inputs(start, start + HOUR, opened.captures())
        packets = packet_estimate(PacketFiles.of(opened.lake), inputs).packets
        label = f"interval={interval_label(start, start + HOUR)}"
        folders = [*root.glob(f"lfta/demo/*/{label}"), *root.glob(f"streams/*/{label}")]
        size = sum(file.stat().st_size for folder in folders for file in folder.glob("*.parquet"))
        shares += [size / packets] if size else []
    told = estimate(opened, opened.captures(), read_replays(opened.lake, "demo"))
    assert shares and told.bytes(1000) == round(median(shares) * 1000)
    write_settings(root, {"main1": "3s"})
    said = lowwater("plan", "--lake", root, "--queries", QUERIES).out
    assert re.search(r" one after another, about [\d.]+ [kM]B between the stages", said), said


@pytest.mark.parametrize(
    ("old", "new", "query", "said"),
    [
        ("sum(len) AS bytes", "max(len) AS bytes", "flows", "query flows has changed"),
        ("FROM main2.DataProtocol", "FROM main1.DataProtocol", "full_flow", "link main2 is no longer read"),
    ],
)
def test_a_changed_text_is_named(old: str, new: str, query: str, said: str, lake: Path, tmp_path: Path) -> None:
    before = {name: parts(lake, name) for name in ("flows", "full_flow")}
    text = (QUERIES / "demo.gsql").read_text(encoding="utf-8")
    path = tmp_path / "demo.gsql"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    write_settings(lake, sets={"demo": path})
    assert said in changed(before[query], lake, query)
    other = ({"flows", "full_flow"} - {query}).pop()
    assert parts(lake, other) == before[other]


def test_a_changed_setting_is_named(lake: Path) -> None:
    before = parts(lake, "flows")
    write_settings(lake, skews={"main1": "2s"}, policy="wait")
    assert changed(before, lake) == [
        "link control: policy was publish, is wait",
        "link main1: skew was 1s, is 2s",
    ]
    text = (lake / "lowwater.toml").read_text()
    first = parts(lake, "flows", 0)
    (lake / "lowwater.toml").write_text(text.replace("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", 1))
    assert changed(first, lake, hour=0) == ["link main1: since was before what it reads, is 2026-01-01T00:00:01Z"]
    (lake / "lowwater.toml").write_text(text.replace('since = "2026-01-01T00:00:00Z"', "", 1))
    assert parts(lake, "flows", 0) == first, "nothing is read before it"


def test_a_whole_capture_in_the_place_of_a_cut_one_is_named(
    lake: Path, captures: list[GeneratedCapture], tmp_path: Path
) -> None:
    before = {hour: parts(lake, "flows", hour) for hour in range(HOURS)}
    whole = generate(tmp_path / "whole", START, HOURS, LINKS, rate=2.0, seed=7, cut=())
    (mended,) = [each for each in whole if (each.link, each.start) == ("control", START + HOUR)]
    (cut,) = [each for each in captures if each.cut]
    ingest_all(lake, [mended])
    said = changed(before[1], lake)
    assert f"link control: capture {mended.path.name} was added" in said
    assert sum("was replaced, or is gone" in line for line in said) == 1
    assert sum("the gap from" in line for line in said) == 1
    assert all(line.startswith("link control: ") for line in said) and cut.link == "control"
    assert [parts(lake, "flows", hour) == before[hour] for hour in range(HOURS)] == [True, False, True]


def test_query_sets_are_those_named_else_configured_else_found(lake: Path, tmp_path: Path) -> None:
    assert [each.query_set for each in open_jobs(lake, ["demo", "demo"], QUERIES)] == ["demo"]
    assert [each.query_set for each in open_jobs(lake, [], QUERIES)] == ["demo"]
    (lake / "lowwater.toml").write_text("")
    found = [each.query_set for each in open_jobs(lake, [], QUERIES)]
    assert "flows" in found and "demo" not in found, "the demo names a set that this lake does not have"
    with pytest.raises(ConfigError, match="there is no query set"):
        open_jobs(lake, [], tmp_path)


def test_a_set_that_cannot_be_planned_is_told_and_does_not_hide_the_others(lake: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gsql"
    wrong.write_text("SELECT nothing FROM main1.TCP")
    write_settings(lake, sets={"demo": QUERIES / "demo.gsql", "wrong": wrong})
    said = lowwater("plan", "--lake", lake, "--to", "2026-01-01T03:00Z")
    assert said.out.count("missing") == HOURS and "query set wrong: " in said.err and "nothing" in said.err
    assert lowwater("plan", "--lake", lake, "--query-set", "wrong").code == 1
    said = lowwater("backfill", "--lake", lake, "--only", "stale")
    assert (said.code, said.out) == (1, "nothing is due\n")


def test_the_command(lake: Path) -> None:
    said = lowwater("plan", "--lake", lake, "--queries", QUERIES, "--to", "2026-01-01T03:00Z")
    assert said.code == 0 and said.out.count("missing") == HOURS
    assert "3 intervals to run" in said.out and "no earlier run tells" in said.out
    asked = ["--from", "2026-01-01T01:00Z", "--to", "2026-01-01T02:00Z", "--query-set", "demo", "--only", "missing"]
    said = lowwater("plan", "--lake", lake, *asked, "--format", "json")
    (only,) = json.loads(said.out)["intervals"]
    assert only["from"] == "2026-01-01T01:00:00Z" and only["state"] == "missing" and only["packets"] > 0
    assert lowwater("plan", "--lake", lake, "--from", "2026-01-02", "--to", "2026-01-01").code == 2
    assert not (lake / "tables").exists() and not (lake / "streams").exists()


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
    assert plan.count("never run") == 3 and f"{words} one missing 240 ? never run. Cannot start" in plan
    assert plan.count("; and so in each, at its own instants") == 1
    lines = lowwater("backfill", "--lake", root).err.splitlines()
    ends = "2026-01-01T00:00:00Z", words, "2026-01-01T10:00:00Z"
    assert [line.partition(": ")[0] for line in lines[1:]] == [f"one {each}" for each in ends]
