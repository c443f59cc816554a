"""Every record is in a number: in an interval, outside of a life or of a declared coverage (SEMANTICS T5, A1)."""

from __future__ import annotations

import csv
import os
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.errors import OverlapError
from lowwater.instants import HOUR, format_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import malformed_between, read_captures
from lowwater.lake.ledgers.missing import OutsideCount, lake_records_outside, outside, outside_lines
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow, record_replays
from lowwater.lake.packets import PacketFiles
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due, statuses
from tests.breadth import each_push
from tests.lake.support import BASE, at, capture, packet_rows, put_table

QUERY = "DEFINE { query_name n; } SELECT tb, count(*) FROM a.ETH GROUP BY time/60 AS tb\n"


def settings(root: Path, link: Mapping[str, object], length: str = "1h") -> None:
    """Writes `lowwater.toml` with one link, `a`, and one query set, `n`."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "n.gsql").write_text(QUERY)
    tables = {key: value for key, value in link.items() if isinstance(value, Mapping)}
    plain = {key: value for key, value in link.items() if key not in tables}
    lines = [f"{name} = {value if isinstance(value, int) else repr(str(value))}" for name, value in plain.items()]
    for name, table in tables.items():
        lines += [f"[links.a.{name}]", *(f"{key!r} = {value!r}" for key, value in table.items())]
    text = f'[interval]\nlength = "{length}"\n\n[query_sets.n]\nfiles = ["n.gsql"]\n\n[links.a]\n'
    (root / "lowwater.toml").write_text(text + "\n".join(lines) + "\n")


def take(root: Path, *files: Path, covers: tuple[int, int] | None = None) -> None:
    ingest(open_lake(root), "a", files, load_config(root), covers)


def accounted(root: Path) -> tuple[int, int]:
    """Records in the accounts of all intervals that `plan` lists, and those of the files."""
    job = Job.open(root, "n", root)
    captures = job.captures()
    mine = captures["a"]
    files, total = PacketFiles.of(job.lake), 0
    for each in due(job, DueSelection()):
        scan = job.inputs(each.start, each.end, captures).scan("a")
        apart = outside(files, "a", mine, job.config.link("a"), each.start, each.end)
        total += scan.sane + scan.violations.num_rows + sum(count.unread for _, count in apart)
        total += malformed_between(job.lake, "a", mine, each.start, each.end).num_rows
    return total, sum(each.packets + each.malformed for each in mine)


def listed(root: Path, through_end: bool = False) -> list[tuple[int, bool, bool]]:
    """(hour, whether it is blocked, whether at an edge) of every interval that is due."""
    job = replace(Job.open(root, "n", root), through_end=through_end)
    return [((each.start - BASE) // HOUR, bool(each.blocked), each.at_edge) for each in due(job, DueSelection())]


@pytest.mark.slow
def test_a_record_before_since_is_in_an_interval_and_in_no_row(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    settings(root, {"since": format_instant(at(3600)), "until": format_instant(at(7200))})
    take(root, capture(tmp_path / "a.pcap", [3000, 3500, 3700, 5000, 7300]))
    assert listed(root) == [(0, False, False), (1, False, False), (2, False, False)]
    assert accounted(root) == (5, 5)
    ((_, found),) = lake_records_outside(open_lake(root), "a", load_config(root).link("a"))
    assert found == OutsideCount(early=2, late=1)
    assert outside_lines(open_lake(root), load_config(root)) == [
        "link 'a': 3 records outside: a.pcap: 2 before since, 2027-01-15T09:00:00Z: in no row; "
        "1 at or after until, 2027-01-15T10:00:00Z: in no row"
    ]


def state_of(root: Path, hour: int) -> tuple[str, str]:
    """The state that a publication of an hour would have now, and its reason."""
    job = Job.open(root, "n", root)
    inputs = job.inputs(at(hour * 3600), at(hour * 3600 + 3600), job.captures())
    return inputs.state(inputs.gaps())


LIFE = {"since": format_instant(at(3600)), "until": format_instant(at(7200))}


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [{"since": format_instant(at(3000)), "until": format_instant(at(7400) + 1)}, {**LIFE, "outside": "accepted"}],
)
def test_an_interval_is_not_done_without_records_that_since_or_until_leave_out(
    tmp_path: Path, change: dict[str, object]
) -> None:
    """The text names the line, the records and what to write, and that helps."""
    root = tmp_path / "lake"
    settings(root, LIFE)
    take(root, capture(tmp_path / "a.pcap", [3600, 5000]), capture(tmp_path / "c.pcap", [5001, 7199.5, 7300, 7400]))
    take(root, capture(tmp_path / "old.pcap", [3000, 3500, 3599]))
    early = (
        "[links.a] since = 2027-01-15T09:00:00Z of lowwater.toml leaves out 3 packets of old.pcap, from "
        '2027-01-15T08:50:00Z to 2027-01-15T08:59:59Z: set since = "2027-01-15T08:50:00Z", or outside = "accepted" if '
        "nothing is missed"
    )
    late = (
        "[links.a] until = 2027-01-15T10:00:00Z of lowwater.toml leaves out 2 packets of c.pcap, from "
        '2027-01-15T10:00:00Z to 2027-01-15T10:03:20Z: set until = "2027-01-15T10:03:20.000000001Z", or outside = '
        '"accepted" if nothing is missed'
    )
    assert [state_of(root, hour) for hour in (0, 1, 2)] == [("incomplete", early), ("done", ""), ("incomplete", late)]
    settings(root, change)
    assert all(state == "done" for state, _ in (state_of(root, hour) for hour in range(3)))


@pytest.mark.slow
def test_a_capture_that_comes_later_and_lies_outside_takes_done_away(tmp_path: Path) -> None:
    """Of an interval that is published, too: 3,000 of 6,770 packets were in no row, and all was done."""
    root = tmp_path / "lake"
    settings(root, {"since": format_instant(at(1000)), "until": format_instant(at(3600))})
    take(root, capture(tmp_path / "a.pcap", [1000, 2000, 3599]))
    lake, job = open_lake(root), Job.open(root, "n", root)

    def publish(state: str, reason: str = "") -> None:
        inputs = job.inputs(at(0), at(3600), job.captures())
        (query,) = job.plan.queries
        facts = {"reason": reason, "digest": inputs.digest(query), "rows": 1}
        row = ReplayRow("n", query.name, at(0), at(3600), PUBLISH, state, time.time_ns(), **facts)
        record_replays(lake, [row])

    def shown() -> tuple[str, str]:
        (row,) = (row for row in statuses(root, root) if row.start == at(0))
        return row.state, row.reason

    put_table(lake, "n", "n", job.plan.queries[0].high.fields, {(at(0), at(3600)): 1})
    publish("done")
    assert shown() == ("done", "")
    take(root, capture(tmp_path / "old.pcap", [500, 700]))
    publish("done")  # as an older version had it
    state, reason = shown()
    assert state == "incomplete" and "leaves out 2 packets of old.pcap" in reason
    publish(state, reason)
    assert due(Job.open(root, "n", root), DueSelection()) == []
    settings(root, {"since": format_instant(at(1000)), "until": format_instant(at(3600)), "outside": "accepted"})
    (confirmed,) = due(Job.open(root, "n", root), DueSelection())
    assert (confirmed.state, confirmed.packets) == ("incomplete", 0)
    assert confirmed.reasons == ("nothing is missing any more, or what is missing is accepted",)
    assert outside_lines(lake, load_config(root))[0].endswith("in no row, accepted")


@pytest.mark.slow
def test_covers_stands_when_the_file_is_ingested_again(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    settings(root, {"captures": "a-%Y%m%d%H.pcap", "rotation": "1h"})
    path = capture(tmp_path / "a-2027011509.pcap", [3600, 4000], cut=10)
    covers = at(0), at(7200)
    take(root, path, covers=covers)
    lake = open_lake(root)
    for again in ([3600, 4000], [3600, 4000, 4100]):
        capture(path, again)
        take(root, path)
        (row,) = read_captures(lake, ["a"])["a"]
        assert (row.declared, row.packets, row.by_hand) == (covers, len(again), True)
    (known,) = ingest(lake, "a", [path], load_config(root))
    assert known.state == "known" and "keeps the coverage that --covers declared" in known.note
    take(root, path, covers=(at(3600), at(7200)))
    (row,) = read_captures(lake, ["a"])["a"]
    assert row.declared == (at(3600), at(7200))


CUT = 3001
"""When a record was taken whose end is missing: it is malformed, and those before it are late by less than the skew."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("late", "skews"),
    [
        ([1800, 1805], {}),
        ([-3000, -2000], {}),
        ([3000, 4000], {}),
        ([3000], {"skew": "90m", "group_skew": {"column": "ether_type"}, "group_skew.values": {"35020": "10m"}}),
        ([2990, 3000, CUT], {"skew": "90m"}),
    ],
    ids=["older", "before all", "of both", "by the skew of a group", "cut"],
)
def test_an_interval_whose_accounts_change_is_stale(
    tmp_path: Path, late: list[float], skews: dict[str, object]
) -> None:
    """A file of a recorder whose clock is behind: its records are late where they arrive, and in no row (A1, S1)."""
    root = tmp_path / "lake"
    settings(root, {"gap_tolerance": "1h", **skews})
    files = [capture(tmp_path / f"{hour}.pcap", [hour * 3600 + each for each in (0, 1800, 3599)]) for hour in range(3)]
    for hour, path in enumerate(files):
        take(root, path, covers=(at(hour * 3600), at(hour * 3600 + (3000 if hour == 1 else 3600))))
    before = [counted(root, hour) for hour in range(3)]
    take(root, capture(tmp_path / "late.pcap", late, 7 if CUT in late else 0), covers=(at(7000), at(7010)))
    after = [counted(root, hour) for hour in range(3)]
    assert after[1][1] != before[1][1], "they arrive in hour 1"
    for (was, accounts), (now, accounts_now) in zip(before, after, strict=True):
        assert was != now or accounts == accounts_now


@pytest.mark.slow
def test_an_interval_is_stale_where_the_file_behind_it_begins_with_damage(tmp_path: Path) -> None:
    """Its first records count at the clock before it, in an hour that was audited without them (A1, S1)."""
    root = tmp_path / "lake"
    settings(root, {"skew": "0s"})
    for hour in range(2):
        path = capture(tmp_path / f"{hour}.pcap", [hour * 3600 + each for each in (0, 1800, 3599)])
        take(root, path, covers=(at(hour * 3600), at(hour * 3600 + 3600)))
    before = [counted(root, hour) for hour in range(2)]
    path = capture(tmp_path / "2.pcap", [7200, 7201, 7300])
    data = bytearray(path.read_bytes())
    data[28:32] = (3_500_000_000).to_bytes(4, "little")  # a sub-second of more than two seconds
    path.write_bytes(data)
    take(root, path, covers=(at(7200), at(10800)))
    after = [counted(root, hour) for hour in range(3)]
    assert [row.leading for row in read_captures(open_lake(root), ["a"])["a"]] == [0, 0, 1]
    assert after[0] == before[0] and after[2][1] == (2, 0, 0)
    assert after[1][1] == (3, 0, 1) and after[1][0] != before[1][0]


def counted(root: Path, hour: int) -> tuple[str, tuple[int, int, int]]:
    """The digest of the inputs of an hour, and its accounts: records in rows, late ones, malformed ones."""
    job = Job.open(root, "n", root)
    start, end = at(hour * 3600), at(hour * 3600 + 3600)
    inputs = job.inputs(start, end, job.captures())
    scan = inputs.scan("a")
    malformed = malformed_between(job.lake, "a", job.captures()["a"], start, end).num_rows
    (query,) = job.plan.queries
    return inputs.digest(query), (scan.sane, scan.violations.num_rows, malformed)


CASES = int(os.environ.get("LOWWATER_ACCOUNTS", "16"))
"""`make fuzz` has more."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", each_push(range(CASES), 2))
def test_the_numbers_add_up_whatever_is_set(tmp_path: Path, seed: int) -> None:
    """Names, clocks, gaps and settings at random."""
    dice = random.Random(seed)
    rotation = dice.choice([900, 3600])
    first = dice.randrange(-4000, 4000)
    link: dict[str, object] = {
        "policy": dice.choice(["fail", "exclude", "wait"]),
        "skew": f"{dice.choice([0, 1, 30])}s",
    }
    dated = dice.random() < 0.6
    if dated:
        link |= {"captures": "a-%Y%m%d%H%M%S.pcap", "rotation": f"{dice.choice([rotation, 3600])}s"}
        link["timezone"] = dice.choice(["UTC", "Europe/Berlin"])
    for name, bound in (("since", first + dice.randrange(-3000, 5000)), ("until", first + dice.randrange(5000, 9000))):
        if dice.random() < 0.5:
            link[name] = format_instant(at(bound))
    root = tmp_path / "lake"
    settings(root, link, dice.choice(["1h", "15m", "2h"]))
    clock, files = float(first), []
    for number in range(dice.randrange(1, 5)):
        clock += dice.choice([0, 0.2, 3, 400])
        begins = clock
        stamps = sorted(begins + dice.random() * rotation for _ in range(dice.randrange(0, 12)))
        if stamps and dice.random() < 0.3:
            stamps.append(stamps[-1] - dice.choice([0.5, 20, 500]))
        named = format_instant(at(round(begins) + dice.choice([0, 0, -300, 86400])))
        digits = "".join(filter(str.isdigit, named))[:14]
        cut = dice.choice([0, 0, 0, 7])
        files.append(
            capture(tmp_path / (f"a-{digits}.pcap" if dated else f"a{number}.pcap"), stamps, cut if stamps else 0)
        )
        clock = begins + rotation
    for path in files:
        covers = (at(first - 50), at(first + 50)) if dice.random() < 0.1 else None
        try:
            take(root, path, covers=covers)
        except OverlapError:  # told by name, and not in the lake
            continue
    counted, held = accounted(root)
    captures = read_captures(open_lake(root), ["a"])["a"]
    timeless = [each for each in captures if not each.packets and not each.covers_to]
    nowhere = sum(
        each.malformed for each, clock in zip(captures, captures.clocks, strict=True) if each in timeless and not clock
    )
    assert counted == held - nowhere
    stored = packet_rows(open_lake(root), config=load_config(root))
    for each, count in lake_records_outside(open_lake(root), "a", load_config(root).link("a")):
        begin, end = each.declared or (0, 1 << 62)
        strays = sum(not begin <= row["timestamp"] < end for row in stored if row["capture"] == each.capture)
        assert count.uncovered <= strays and each in captures


@pytest.mark.captures
@pytest.mark.parametrize("through_end", each_push([False, True], 2), ids=["as it is", "through the end"])
def test_the_numbers_of_the_real_captures_add_up(captures_dir: Path, tmp_path: Path, through_end: bool) -> None:
    """Every file of a folder as it comes, a link each: all packets that the index of the folder knows."""
    with (captures_dir / "INDEX.csv").open(newline="", encoding="utf-8") as file:
        known = {row["file"]: int(row["packets"]) for row in csv.DictReader(file) if row["set"] == "traffic"}
    total = 0
    for number, (name, packets) in enumerate(sorted(known.items())):
        root = tmp_path / str(number)
        settings(root, {}, "6h")
        take(root, captures_dir / name)
        counted, held = accounted(root)
        assert counted == held == packets, name
        found = listed(root, through_end)
        assert found and all(blocked != through_end for _, blocked, edge in found if edge), name
        assert through_end or any(edge for _, _, edge in found), "undated captures begin and end inside of intervals"
        total += counted
    assert len(known) >= 20 and total > 700_000
