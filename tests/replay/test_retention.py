"""Packets go by age or size: what is published before stays as it is, and nothing makes it owed any more (S11)."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lowwater.config import Keep, Retention, load_config
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND, parse_instant
from lowwater.lake import layout, tables, trimming
from lowwater.lake.layout import lake_to_read
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.maintain import maintain
from lowwater.lake.packets import PacketFiles
from lowwater.replay.schedule.due import statuses
from lowwater.storage import paths
from tests.cli.hostile import clean, everything
from tests.lake.damage import TO, change_skew, copied, data_files, publish, rows_of

pytestmark = pytest.mark.slow
HOUR_1, HOUR_2 = (parse_instant(f"2026-01-01T0{hour}:00:00Z") for hour in (1, 2))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("published"))


@pytest.fixture
def lake(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path) / "lake"


def keep_since(lake: Path, instant: str, section: str = "[retention]") -> None:
    """Writes an age, so that what ended before an instant goes."""
    age = (time.time_ns() - parse_instant(instant)) // SECOND
    with (lake / "lowwater.toml").open("a") as settings:
        settings.write(f'\n{section}\npackets = "{age}s"\n')


def hours_of_packets(lake: Path) -> dict[str, set[int]]:
    """Link -> numbers of the hours of which the disk has packets."""
    found: dict[str, set[int]] = {}
    for path in data_files(lake, "packets"):
        link, hour = (part.partition("=")[2] for part in path.parts[-3:-1])
        found.setdefault(link, set()).add(int(hour) - HOUR_1 // (3600 * SECOND) + 1)
    return found


def words_of(lake: Path) -> list[str]:
    """What each hour is, by `status`, which metrics and pages agree with."""
    rows = sorted(statuses(lake, lake.parent / "q"), key=lambda row: (row.query, row.start))
    said = [row.shown for row in rows if row.end <= parse_instant(TO)]
    text = clean("metrics", "--lake", lake).out
    counts = {word: int(float(n)) for word, n in re.findall(r'lowwater_intervals\{.*state="([^"]+)"\} (\S+)', text)}
    if len(said) == 3:  # of one query
        assert Counter(counts) == Counter([row.shown for row in rows])
    return said


def trimmed(lake: Path) -> Path:
    """A lake without the packets of its first two hours."""
    keep_since(lake, "2026-01-01T02:30Z")
    clean("maintain", "--lake", lake)
    return lake


def test_what_is_published_of_the_time_before_stays_and_is_never_owed(lake: Path) -> None:
    """Packets were deleted by hand, and after an edit of a skew every hour failed, also those with packets."""
    rows, before = rows_of(lake), hours_of_packets(lake)
    left = {link: hours - {0, 1} for link, hours in before.items()}
    keep_since(lake, "2026-01-01T02:30Z")
    told = clean("maintain", "--lake", lake, "--dry-run").out
    assert re.search(r"removed packets +packets/link=main1 +\d+ +[\d,]+ +\[retention\] packets", told)
    assert hours_of_packets(lake) == before
    assert "removed packets" in clean("maintain", "--lake", lake).out
    assert hours_of_packets(lake) == left
    assert "removed packets" not in clean("maintain", "--lake", lake).out
    assert words_of(lake) == ["done"] * 3 and "nothing is due" in clean("plan", "--lake", lake, "--to", TO).out
    clean("ingest", "--lake", lake)
    assert hours_of_packets(lake) == left, "captures that lie there are known"
    clean("verify", "--lake", lake)

    gone = "packets of link 'main1' before 2026-01-01T01:5"  # whoever asks for all of them is told, and gets the rest
    assert gone in clean("sql", "SELECT count(*) FROM main1", "--lake", lake).err
    assert gone in clean("export", "--lake", lake, "--link", "main1", "--out", lake.parent / "main1.pcap").err
    assert " 0 records" not in clean("skew", "--lake", lake).out
    change_skew(lake)
    said = " ".join(clean("plan", "--lake", lake, "--to", TO).out.split())
    assert "flows: 1 hour stale: link main1: skew was 2s, is 1.5s" in said
    assert "flows: 2 intervals kept, which no run reaches: stale: link main1: skew was 2s, is 1.5s" in said
    assert "packets of link 'main1' before 2026-01-01T01:5" in said and "1 interval to run" in said
    clean("backfill", "--lake", lake, "--to", TO)
    assert words_of(lake) == ["kept", "kept", "done"]
    assert [row for row in rows_of(lake) if row[-1] != HOUR_2 // (3600 * SECOND)] == [
        row for row in rows if row[-1] != HOUR_2 // (3600 * SECOND)
    ]
    assert "1 due, 1 done, 0 provisional, 2 kept" in " ".join(clean("report", "--lake", lake).out.split())
    kept = json.loads(clean("plan", "--lake", lake, "--to", TO, "--format", "json").out)["kept"]
    assert [each["from"] for each in kept] == ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"]
    refused = clean(
        "replay", "flows", "--lake", lake, "--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z", code=1
    )
    assert "were removed, as [retention] or a retirement says" in refused.err
    assert "no run can" in clean("why", "flows", "2026-01-01T00:00Z", "--lake", lake).out


def test_a_new_query_a_new_link_and_a_run_that_failed_owe_nothing_there(lake: Path) -> None:
    trimmed(lake)
    (lake.parent / "q" / "flows.gsql").write_text(
        (lake.parent / "q" / "flows.gsql").read_text()
        + ";\nDEFINE { query_name 'new'; }\nSELECT tb, count(*) AS n FROM main1.DataProtocol GROUP BY time/600 AS tb"
    )
    before = rows_of(lake)
    clean("backfill", "--lake", lake, "--to", TO)
    assert words_of(lake) == ["done", "done", "done", "kept", "kept", "done"] and rows_of(lake) == before
    assert {row[-1] for row in rows_of(lake, "new")} == {HOUR_2 // (3600 * SECOND)}
    assert "nothing is due" in clean("plan", "--lake", lake, "--to", TO).out


def test_a_link_that_is_renamed_keeps_its_horizon(lake: Path) -> None:
    trimmed(lake)
    clean("rename", "link", "main1", "west", "--lake", lake, "--why", "a better name")
    assert PacketFiles.of(lake_to_read(lake)).horizons.keys() == {"west", "main2"}
    change_skew(lake)
    assert words_of(lake) == ["kept", "kept", "stale"]


CHAINED = """DEFINE { query_name 'flows'; }
SELECT tb, count(*) AS cnt FROM main1.DataProtocol GROUP BY time/600 AS tb CLOSING_WHEN count(*) > 50
"""


def test_a_chain_goes_on_from_what_is_kept_but_not_by_another_text(published: Path, tmp_path: Path) -> None:
    """The state of the last hour that is kept is of the text by which it ran."""
    lake = copied(published, tmp_path) / "lake"
    query = lake.parent / "q" / "flows.gsql"
    clean("retire", "query", "flows", "--lake", lake, "--drop", "--why", "another one")
    query.write_text(CHAINED)
    clean("backfill", "--lake", lake, "--to", TO)
    trimmed(lake)
    change_skew(lake)
    clean("backfill", "--lake", lake, "--to", TO)
    assert words_of(lake) == ["kept", "kept", "done"]
    query.write_text(CHAINED.replace("> 50", "> 40"))
    assert words_of(lake) == ["kept", "kept", "cannot start"]
    said = everything(clean("plan", "--lake", lake, "--to", TO))
    assert "isofanothertext" in said and 'writechain_start="2026-01-01T02:00:00Z"in[query_sets.flows]' in said
    settings = lake / "lowwater.toml"
    settings.write_text(
        f'{settings.read_text()}[query_sets.flows]\nchain_start = "2026-01-01T02:00:00Z"\n'.replace(
            '[query_sets.flows]\nfiles = ["../q/flows.gsql"]\n', "", 1
        ).replace("[query_sets.flows]\n", '[query_sets.flows]\nfiles = ["../q/flows.gsql"]\n', 1)
    )
    clean("backfill", "--lake", lake, "--to", TO)
    assert words_of(lake) == ["kept", "kept", "done"]


def test_a_damaged_hour_cannot_start_and_says_why(lake: Path) -> None:
    trimmed(lake)
    next((lake / "tables" / "flows").glob(f"_hour={HOUR_1 // (3600 * SECOND)}/*.parquet")).unlink()
    assert words_of(lake) == ["done", "cannot start", "done"]
    said = everything(clean("plan", "--lake", lake, "--to", TO))
    assert "Cannotstart:packetsoflink'main1'before" in said


def test_the_oldest_go_until_a_size_is_left_and_by_link(lake: Path) -> None:
    size = sum(path.stat().st_size for path in data_files(lake, "packets/link=main1"))
    before = hours_of_packets(lake)
    with (lake / "lowwater.toml").open("a") as settings:
        settings.write(f'\n[links.main1.retention]\npackets = "{size * 0.9 / 1e3:.3f}kB"\n')
    clean("maintain", "--lake", lake)
    assert hours_of_packets(lake) == {**before, "main1": before["main1"] - {0}}
    change_skew(lake)
    assert words_of(lake) == ["kept", "stale", "stale"], "an hour is kept where any of its links has gone"


def test_who_is_killed_at_any_write_goes_on(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def killed_at(at: int) -> Callable[[Any], Any]:
        count = iter(range(1 << 30))

        def each(step: Any) -> Any:
            def run(*given: Any, **named: Any) -> Any:
                if next(count) == at:
                    raise Killed
                return step(*given, **named)

            return run

        return each

    keep_since(lake, "2026-01-01T02:30Z")
    opened, rows = lake_to_read(lake), rows_of(lake)
    settings, steps = load_config(lake), 0
    for at in range(100):
        with monkeypatch.context() as patch:
            wrapped = killed_at(at)
            patch.setattr(trimming.tables, "with_properties", wrapped(tables.with_properties))
            patch.setattr(trimming.tables, "swap_files", wrapped(tables.swap_files))
            patch.setattr(trimming.paths, "remove", wrapped(paths.remove))
            try:
                [*trimming.trim_packets(opened, settings.retention, settings, time.time_ns(), False)]
                break
            except Killed:
                steps += 1
        horizons = PacketFiles.of(opened).horizons
        gone = {link for link, hours in hours_of_packets(lake).items() if not hours >= {0, 1}}
        assert gone <= horizons.keys(), "packets went before the table said so"
        assert words_of(lake) == ["done"] * 3
    assert steps >= 3 and not any(hours & {0, 1} for hours in hours_of_packets(lake).values()) and rows_of(lake) == rows


def test_captures_reports_and_rows_for_people_go_too(lake: Path) -> None:
    """Each by its own limit; all hours stay `done`, and captures that are gone are known."""
    opened, rows, captures = lake_to_read(lake), rows_of(lake), lake.parent / "captures"
    keep_since(lake, "2026-01-01T02:30Z")
    age = f"{(time.time_ns() - parse_instant('2026-01-01T02:30Z')) // SECOND}s"
    with (lake / "lowwater.toml").open("a") as settings:
        settings.write(f'captures = "{age}"\nmalformed = "{age}"\nquarantine = "{age}"\nreports = "0s"\n')
        settings.write('low = "0s"\nstreams = "1TB"\n')
    broken = {"query_set": "flows", "suite": "s", "expectation": "e", "subject": "flows", "total": 1, "row": "{}"}
    tables.append_rows(
        opened.quarantine,
        pa.Table.from_pylist(
            [
                {**broken, "interval_start": end - HOUR, "interval_end": end, "kept_at": 1}
                for end in (HOUR_1, HOUR_2, HOUR_2 + HOUR)
            ],
            layout.QUARANTINE,
        ),
    )
    attempts = {row.path.rpartition("_")[2][:11]: row.attempt for row in read_captures(opened, ["main1"])["main1"]}
    tables.append_rows(
        opened.malformed,
        pa.Table.from_pylist(
            [
                {"link": "main1", "capture": "c", "offset": 1, "length": 1, "reason": "cut", "attempt": attempt}
                for attempt in attempts.values()
            ],
            layout.MALFORMED,
        ),
    )
    page = lake / "reports" / "flows" / "an-interval" / "links.html"  # of an audit that did not pass
    page.parent.mkdir(parents=True)
    page.write_text("warned")
    clean("ingest", "--lake", lake)  # so that each file was seen unchanged
    files = sorted(path.name for path in captures.rglob("*.pcap"))
    told = clean("maintain", "--lake", lake, "--dry-run").out
    assert sorted(path.name for path in captures.rglob("*.pcap")) == files
    for what in ("packets", "captures", "malformed", "quarantine", "reports", "streams"):
        assert f"removed {what}" in told, what
    clean("maintain", "--lake", lake)
    assert {path.name[-13:-10] for path in captures.rglob("*.pcap")} == {"T02", "T03"}
    left = tables.read_rows(opened.quarantine, layout.QUARANTINE).column("interval_end").to_pylist()
    assert left == [HOUR_2 + HOUR]
    stay = tables.read_rows(opened.malformed, layout.MALFORMED).column("attempt").to_pylist()
    assert {*stay} == {attempts[hour] for hour in attempts if hour >= "20260101T02"}
    assert not page.exists() and data_files(lake, "lfta") == []
    assert data_files(lake, "streams"), "a terabyte of them stays"
    clean("ingest", "--lake", lake)
    assert words_of(lake) == ["done"] * 3 and rows_of(lake) == rows
    assert "removed" not in clean("maintain", "--lake", lake, "--dry-run").out


def test_of_streams_the_oldest_go_until_a_size_is_left(lake: Path) -> None:
    size = sum(path.stat().st_size for path in data_files(lake, "streams"))
    steps = maintain(lake_to_read(lake), Retention(streams=f"{size * 0.9 / 1e3:.3f}kB", low="1TB"), dry_run=True)
    gone = [each for each in steps if each.what == "removed streams"]
    assert 1 <= len(gone) < 4 and all(each.where.startswith("streams/flows/") for each in gone)
    assert sum(each.bytes for each in gone) >= size * 0.1


@pytest.mark.parametrize(
    ("text", "read"),
    [("90d", Keep(age=90 * 86400 * SECOND)), ("500GB", Keep(size=500 * 10**9)), ("", None), ("9", None)],
)
def test_an_age_and_a_size_are_told_apart(text: str, read: Keep | None, tmp_path: Path) -> None:
    (tmp_path / "lowwater.toml").write_text(f'[retention]\npackets = "{text}"\n')
    if read is None and not text:
        with pytest.raises(ConfigError, match="neither an age nor a size"):
            load_config(tmp_path)
    else:
        assert load_config(tmp_path).retention.packets == (read or Keep(age=9 * SECOND))
