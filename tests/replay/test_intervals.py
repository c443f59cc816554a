"""Three hours replayed in every way give the same tables, and status says what each interval is."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lowwater_generator import GeneratedCapture, generate

from lowwater.config import Config, Link
from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.open_tables import existing
from lowwater.lake.results.streams import stream_parts
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_files
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from lowwater.replay.schedule.due import statuses
from tests.breadth import each_push
from tests.replay.support import (
    DEMO,
    END,
    HOURS,
    LINKS,
    QUERIES,
    SETS,
    START,
    all_tables,
    commits,
    copy_lake,
    each_query,
    ingest_all,
    leftovers,
    lowwater,
    query_columns,
    replay_range,
    states,
    table_rows,
    write_settings,
)

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = pytest.mark.slow
BY_HOUR = ("done", "incomplete", "done")
INTERVALS = [(START + hour * HOUR, START + (hour + 1) * HOUR) for hour in range(HOURS)]


def in_reverse_and_in_chunks(lake: Path, runner: Runner) -> None:
    with (lake / "lowwater.toml").open("a", encoding="utf-8") as file:
        file.write("\n[replay]\ntask_packets = 500\n")
    for start, end in reversed(INTERVALS):
        replay_range(lake, runner, start, end)
        for node in (lake / "lfta" / "demo").iterdir():
            assert max(len(part) for part in stream_parts(node, start, end)) > 5


def in_parallel(lake: Path, runner: Runner) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(replay_range, lake, runner, start, end) for start, end in INTERVALS]:
            done.result()


def test_published(published: Path) -> None:
    assert {query: len(rows) > 100 for query, rows in all_tables(published).items()} == dict.fromkeys(DEMO, True)
    assert states(published) == each_query(*BY_HOUR)
    (reason,) = {row.reason for row in statuses(published, QUERIES) if row.state == "incomplete"}
    assert "link 'control': no capture covers" in reason and "is cut there" in reason
    assert leftovers(published) == []


@pytest.mark.parametrize("way", each_push([in_reverse_and_in_chunks, in_parallel], 2))
def test_any_way_gives_the_same_tables(
    way: Callable[[Path, Runner], None], published: Path, lake: Path, runner: Runner
) -> None:
    way(lake, runner)
    assert all_tables(lake) == all_tables(published)
    assert states(lake) == states(published)
    assert leftovers(lake) == []


def test_shorter_intervals_give_the_same_rows(published: Path, lake: Path, runner: Runner) -> None:
    write_settings(lake, length="30min")
    outcomes = replay_range(lake, runner, *INTERVALS[1])
    assert [each.end - each.start for each in outcomes] == [HOUR // 2, HOUR // 2]
    for query in DEMO:
        assert table_rows(lake, query) == table_rows(published, query, *INTERVALS[1])


def test_rows_are_noted_whose_interval_the_range_cuts_or_is_of_another_length(published: Path, tmp_path: Path) -> None:
    """Counterexample: asked from 01:30 on, `rows` gave half of an incomplete hour, and said nothing."""
    lake = copy_lake(published, tmp_path / "lake")
    cut = "note: 2026-01-01T01:00:00Z to 2026-01-01T02:00:00Z is incomplete: link 'control'"
    for length in ("1h", "7h"):
        write_settings(lake, length=length)
        for begin, end in (("01:30", "03:00"), ("00:00", "01:30"), ("01:10", "01:20"), ("00:00", "03:00")):
            span = "--from", f"2026-01-01T{begin}Z", "--to", f"2026-01-01T{end}Z"
            said = lowwater("rows", "flows", "--lake", lake, "--queries", QUERIES, *span)
            assert [line.startswith(cut) for line in said.err.splitlines() if "incomplete" in line] == [True], said.err
    said = lowwater("rows", "flows", "--lake", lake, "--queries", QUERIES, "--to", "2026-01-01T01:00Z")
    assert "incomplete" not in said.err


def test_a_provisional_interval_becomes_done(
    captures: list[GeneratedCapture], published: Path, tmp_path: Path, runner: Runner
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    write_settings(lake)
    ingest_all(lake, [each for each in captures if each.start < END])
    (outcome,) = replay_range(lake, runner, *INTERVALS[2])
    assert outcome.state == "provisional" and "main1" in outcome.reason
    assert states(lake) == each_query("missing", "missing", "provisional")
    before = commits(lake)
    ingest_all(lake, [each for each in captures if each.start >= END])
    (outcome,) = replay_range(lake, runner, *INTERVALS[2])
    assert (outcome.state, outcome.committed) == ("done", False)
    assert states(lake)[2, "flows"] == "done"
    assert commits(lake) == before
    assert table_rows(lake, "flows") == table_rows(published, "flows", *INTERVALS[2])


def test_a_run_after_a_failed_confirmation_says_what_the_ledger_says(
    captures: list[GeneratedCapture], tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counterexample: the run said `done`, and the ledger `provisional` until the next look confirmed it."""
    lake = tmp_path / "lake"
    lake.mkdir()
    write_settings(lake)
    ingest_all(lake, [each for each in captures if each.start < END])
    replay_range(lake, runner, *INTERVALS[2])
    ingest_all(lake, [each for each in captures if each.start >= END])

    def fails(*_: object) -> None:
        raise LakeError("the store is slow")

    with monkeypatch.context() as broken, pytest.raises(LakeError):
        broken.setattr("lowwater.replay.interval._confirmed", fails)
        replay_range(lake, runner, *INTERVALS[2])
    assert states(lake)[2, "flows"] == "failed"
    (outcome,) = replay_range(lake, runner, *INTERVALS[2])
    assert (outcome.state, outcome.committed) == ("done", False)
    assert states(lake) == each_query("missing", "missing", "done")


def test_a_whole_capture_mends_an_incomplete_interval(
    captures: list[GeneratedCapture], published: Path, tmp_path: Path, runner: Runner
) -> None:
    lake = copy_lake(published, tmp_path / "lake")
    whole = generate(tmp_path / "whole", START, HOURS, LINKS, rate=2.0, seed=7, cut=())
    (mended,) = [each for each in whole if (each.link, each.start) == ("control", INTERVALS[1][0])]
    ingest_all(lake, [mended])
    assert states(lake) == each_query("done", "stale", "done")
    outcomes = replay_range(lake, runner, START, END)
    assert [(each.state, each.committed) for each in outcomes] == [("done", False), ("done", True), ("done", False)]
    assert states(lake) == each_query("done", "done", "done")
    expected = reference_rows([(each.link, each.path) for each in whole if each.packets], tmp_path / "out")
    assert {query: len(rows) > 100 for query, rows in expected.items()} == dict.fromkeys(DEMO, True)
    assert {query: as_text(lake, query) for query in DEMO} == expected


def reference_rows(captures: list[tuple[str, Path]], out: Path) -> dict[str, Counter[tuple[str, ...]]]:
    """The rows of the demo's queries that the reference engine makes of captures, those before END, as text."""
    config = Config(links={link: Link() for link in LINKS}, sets=SETS)
    plan = plan_files([QUERIES / "demo.gsql"], Links(tuple(sorted(LINKS)), SETS))
    run(RunRequest(plan, config, captures, out, engine="reference"), Progress(quiet=True))
    found = {}
    for query in DEMO:
        with (out / f"{query}.csv").open(newline="") as file:
            rows = csv.DictReader(file)
            # The captures of the minute after END belong to no interval of the lake.
            found[query] = Counter(tuple(row.values()) for row in rows if int(row["tb"]) < END // (10 * SECOND))
    return found


def as_text(lake: Path, query: str) -> Counter[tuple[str, ...]]:
    """The rows of a table as `run` writes them."""
    table = existing(lake / "tables" / query)
    rows = query_columns(table.to_pyarrow_table())
    return Counter(tuple("" if v is None else str(v) for v in row.values()) for row in rows.to_pylist())


def test_a_changed_skew_makes_exactly_its_intervals_stale(published: Path, tmp_path: Path, runner: Runner) -> None:
    lake = copy_lake(published, tmp_path / "lake")
    lone = tmp_path / "lone.gsql"
    lone.write_text("SELECT time, len FROM main1.TCP WHERE SYN AND time % 7 = 0", encoding="utf-8")
    sets = {"demo": QUERIES / "demo.gsql", "lone": lone}
    write_settings(lake, sets=sets)
    replay_range(lake, runner, *INTERVALS[1], query_set="lone")
    assert states(lake, "lone")[1, "lone"] == "done"
    write_settings(lake, skews={"control": "2s"}, sets=sets)
    assert states(lake) == each_query("stale", "stale", "stale")
    assert states(lake, "lone")[1, "lone"] == "done"
    write_settings(lake, sets=sets)
    assert states(lake) == each_query(*BY_HOUR)


def test_states_audits_and_plans_of_a_range_and_by_day(published: Path) -> None:
    lake = "--lake", published, "--queries", QUERIES
    for command in ("status", "report"):
        told = lowwater(command, *lake, "--from", "2026-01-01T02:00Z").out
        assert "2026-01-01T02:00:00Z" in told and "2026-01-01T01:00:00Z" not in told.partition("\nlink ")[0]
        told = lowwater(command, *lake, "--to", "2026-01-01T01:00Z").out
        assert "2026-01-01T00:00:00Z" in told and "2026-01-01T02:00:00Z" not in told
        days = lowwater(command, *lake, "--by-day", "--zone", "Pacific/Kiritimati", "--to", "2026-01-01T01:00Z").out
        assert [line.split()[0] for line in days.splitlines() if "demo" in line] == ["2026-01-01"], "from 10:00 UTC on"
        assert "1 of 4 intervals cannot start: 2 links" in " ".join(days.split())
        assert lowwater(command, *lake, "--from", "2026-01-02", "--to", "2026-01-02").code == 2
    assert lowwater("report", *lake, "--from", "2027-01-01").code == 1
    assert "no interval meets the range" in lowwater("status", *lake, "--from", "2027-01-01").out
    planned = lowwater("plan", *lake, "--by-day", "--skew", "main1=9s").out
    assert "3 stale" in planned and "2026-01-01T00:00:00Z  " not in planned
    for refused in (
        ("plan", "--by-day", "--format", "json"),
        ("status", "--space", "--by-day"),
        ("report", "--interval", "2026-01-01T01:00Z", "--by-day"),
        ("report", "--html", published / "none", "--from", "2026-01-01"),
    ):
        assert lowwater(refused[0], *lake, *refused[1:]).code == 2
