"""A recorder that is replaced (`[[links.NAME.periods]]`): other names, zone and skew from 01:20 on, in one link."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lowwater_review import Ledgers
from lowwater_review.lateness import link_review

from lowwater.config import Link, load_config
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.arrivals import arrivals
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_violations
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due
from tests.capturemaker import Record, pcap_bytes, udp
from tests.replay.support import QUERIES, START, column_rows, lowwater, replay_range

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

HOURS = 3
END = START + HOURS * HOUR
CHANGE = START + 80 * 60 * SECOND
"""01:20: the old recorder is at most 1 s late, the new one at most 5 s."""

QUERY = """
DEFINE { query_name n; } SELECT tb, sport, count(*) AS n FROM a.UDP GROUP BY time/60 AS tb, srcPort AS sport;
DEFINE { query_name first; } SELECT time, srcPort AS sport FROM a.UDP WHERE srcPort % 7 = 0;
DEFINE { query_name before; }
SELECT time, srcPort AS sport, lag(srcPort, 1, 0) OVER (ORDER BY timestamp) AS p FROM a.UDP
"""
PERIOD = """
[[links.a.periods]]
since = "2026-01-01T01:20:00Z"
captures = "../new/%d.%m.%Y_%HUhr%M.pcap"
rotation = "20 min"
timezone = "Europe/Berlin"
skew = "5s"
"""


def drawn() -> list[Record]:
    """Packets in the order in which the link has them: 4 s of disorder, before the change too."""
    draw, found = random.Random(11), []
    for number in range(600):
        stamp = START + (draw.randrange(HOURS * 12) * 300 + draw.randrange(6)) * SECOND + number
        frame = udp("10.0.0.1", "10.0.0.2", 1000 + number, 53)
        found.append((stamp + draw.choice([0, 0, SECOND, 4 * SECOND]), (stamp, frame)))
    # Around the change, and late beside an hour's end.
    for at, late in ((CHANGE - SECOND, 3), (CHANGE - 2 * SECOND, 0), (CHANGE, 4), (START + 2 * HOUR - SECOND, 4)):
        found.append((at + late * SECOND + 7, (at, udp("10.0.0.1", "10.0.0.2", 7007, 53))))
        found.append((at + late * SECOND + 3, (at + late * SECOND + 3, udp("10.0.0.1", "10.0.0.2", 9, 53))))
    return [record for _, record in sorted(found, key=lambda each: each[0])]


def admitted(records: Sequence[Record]) -> tuple[list[Record], int]:
    """The records that are not late by the skew of their own time, and how many are (T2)."""
    clock, kept = 0, []
    for record in records:
        clock = max(clock, record[0])
        if clock - record[0] <= (SECOND if record[0] < CHANGE else 5 * SECOND):
            kept.append(record)
    return kept, len(records) - len(kept)


def write(folder: Path, records: Sequence[Record], begins: Sequence[tuple[int, str]]) -> None:
    """Divides records among files, each with its begin and name; a record is in that of its arrival."""
    clock, files = 0, dict[str, list[Record]]()
    for record in records:
        clock = max(clock, record[0])
        files.setdefault(next(name for begin, name in reversed(begins) if begin <= clock), []).append(record)
    for name, own in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(pcap_bytes(own, nanoseconds=True))


def make(
    folder: Path, link: str, records: Sequence[Record], begins: Sequence[tuple[int, str]], length: str = "1h"
) -> Path:
    lake = folder / "lake"
    lake.mkdir(parents=True)
    (lake / "q.gsql").write_text(QUERY)
    settings(lake, link, length)
    write(folder, records, begins)
    opened, config = open_lake(lake), load_config(lake)
    ingest(opened, "a", arrivals(opened, config)["a"].new, config)
    return lake


def settings(lake: Path, link: str, length: str = "1h") -> None:
    head = f'[interval]\nlength = "{length}"\n'
    head += '[thresholds]\nviolating = { warning = 0.5, critical = 1 }\n[query_sets.q]\nfiles = ["q.gsql"]\n'
    text = f'{head}[links.a]\nuntil = "2026-01-01T03:00:00Z"\n{link}'
    (lake / "lowwater.toml").write_text(text)


OLD = 'captures = "../old-%Y%m%d%H.pcap"\nrotation = "1h"\n'
OF_BOTH = [
    *((START + hour * HOUR, f"old-2026010{1}{hour:02}.pcap") for hour in (0, 1)),
    *(
        (START + minutes * 60 * SECOND, f"new/01.01.2026_{minutes // 60 + 1:02}Uhr{minutes % 60:02}.pcap")
        for minutes in range(80, 180, 20)
    ),
]


def rows(lake: Path, start: int = START, end: int = END) -> dict[str, Counter[tuple[int, ...]]]:
    return {
        "n": column_rows(lake, "n", ("tb", "sport", "n"), start, end),
        "first": column_rows(lake, "first", ("time", "sport"), start, end),
        "before": column_rows(lake, "before", ("time", "sport", "p"), start, end),
    }


def stale(lake: Path, link: str, query: str = "n") -> list[int]:
    """The hours of a query that `plan` lists by these settings of the link."""
    settings(lake, link)
    found = due(Job.open(lake, "q", QUERIES), DueSelection())
    return sorted((each.start - START) // HOUR for each in found if query in each.queries)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, runner: Runner) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("periods")
    lake = make(folder, f"{OLD}{PERIOD}", drawn(), OF_BOTH)
    return lake, [each.state for each in replay_range(lake, runner, START, END, query_set="q")]


@pytest.mark.slow
def test_the_rows_are_those_of_a_recorder_that_never_changed(
    world: tuple[Path, list[str]], tmp_path: Path, runner: Runner
) -> None:
    lake, states = world
    kept, late = admitted(drawn())
    alike = [(START + hour * HOUR, f"b-{hour}-20260101{hour:02}.pcap") for hour in range(HOURS)]
    uniform = make(tmp_path, 'captures = "../b-%n-%Y%m%d%H.pcap"\nrotation = "1h"\nskew = "5s"\n', kept, alike, "3h")
    assert {*states} == {each.state for each in replay_range(uniform, runner, START, END, query_set="q")} == {"done"}
    assert rows(lake) == rows(uniform) and sum(rows(lake)["first"].values()) > 50
    opened, of = open_lake(lake), load_config(lake).link("a")
    found = read_violations(opened, "a", of, START, END)
    assert found.num_rows == late > 20
    assert (
        {*found.column("skew").to_pylist()} == {SECOND, 5 * SECOND}
        if (max(found.column("arrival").to_pylist()) >= CHANGE)
        else {SECOND}
    )


@pytest.mark.slow
def test_a_period_makes_stale_what_it_can_change(world: tuple[Path, list[str]]) -> None:
    lake, _ = world
    now = f"{OLD}{PERIOD}"
    later = '[[links.a.periods]]\nsince = "2026-01-01T02:00:00Z"\nskew = "1s"\n'
    future = '[[links.a.periods]]\nsince = "2026-02-01"\nskew = "30s"\ntimezone = "UTC"\n'
    assert stale(lake, now) == stale(lake, now + future) == []
    assert stale(lake, now + later) == stale(lake, now + later + future) == [2]
    # Hour 2 begins 40 minutes behind the change: of the skew before it nothing is left, but in a state.
    assert stale(lake, 'skew = "2s"\n' + now) == [0, 1]
    assert stale(lake, 'skew = "2s"\n' + now, "before") == [0, 1, 2]
    assert stale(lake, now.replace('"5s"', '"6s"')) == [1, 2]
    why = "link a: skew was 1s, from 2026-01-01T01:20:00Z on 5s, is 1s, from 2026-01-01T01:20:00Z on 6s"
    (one, *_) = due(Job.open(lake, "q", QUERIES), DueSelection())
    assert why in one.reasons
    settings(lake, now)


BY_ARRIVAL = """;
DEFINE { query_name closing; }
SELECT tb, k, count(*) AS n FROM a.UDP GROUP BY time/60 AS tb, srcPort % 5 AS k CLOSING_WHEN count(*) > 3;
DEFINE { query_name pairs; }
SELECT A.time AS t, A.srcPort AS p, B.srcPort AS q FROM a.UDP A JOIN a.UDP B
WHERE A.time = B.time AND A.srcPort % 11 = B.srcPort % 11 AND A.srcPort < B.srcPort
"""


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["1h", pytest.param("10min", marks=pytest.mark.nightly)])
def test_both_engines_judge_each_record_by_the_skew_of_its_own_time(interval: str, tmp_path: Path) -> None:
    (tmp_path / "q.gsql").write_text(QUERY.rstrip() + BY_ARRIVAL)
    (tmp_path / "a.pcap").write_bytes(pcap_bytes(drawn(), nanoseconds=True))
    settings(tmp_path, f"{OLD}{PERIOD}")
    links, capture = ("--links", tmp_path / "lowwater.toml"), ("--capture", f"a={tmp_path / 'a.pcap'}")
    found = {}
    for engine in ("process", "reference"):
        out = tmp_path / engine
        about = *links, *capture, "--out", out, "--engine", engine, "--interval", interval
        said = lowwater("run", tmp_path / "q.gsql", *about)
        assert said.code == 0, said.err
        found[engine] = {file.stem: sorted(file.read_text().splitlines()[1:]) for file in out.glob("*.csv")}
    kept, late = admitted(drawn())
    ports = Counter(int(line.rpartition(",")[2]) for line in found["process"]["first"])
    assert ports == Counter(port for _, frame in kept if not (port := int.from_bytes(frame[34:36], "big")) % 7)
    for name in ("n", "first", "before", "closing", "pairs", "skew_violations"):
        assert found["process"][name] == found["reference"][name] != []
    assert len(found["process"]["skew_violations"]) == late


def test_what_a_link_is_around_a_change() -> None:
    of = Link.model_validate({"periods": [{"since": "2026-01-01T01:20:00Z", "skew": "5s"}]})
    assert (of.skew, of.longest_skew, of.shortest_skew, of.jump) == (SECOND, 5 * SECOND, SECOND, 61 * SECOND)
    assert [of.settled(CHANGE + after) - CHANGE for after in (-9 * SECOND, 0, 1)] == [
        -8 * SECOND,
        SECOND,
        5 * SECOND + 1,
    ]
    assert [of.oldest(CHANGE + after * SECOND) - CHANGE for after in (0, 1, 3, 9)] == [
        -SECOND,
        0,
        0,
        4 * SECOND,
    ]
    assert of.during(START, CHANGE).turns == () == of.during(CHANGE, END).turns
    assert (of.during(START, CHANGE).skew, of.during(CHANGE, END).skew) == (SECOND, 5 * SECOND)
    assert of.judging(CHANGE, CHANGE, END).turns == ((CHANGE, 5 * SECOND),), "records of before it may arrive"
    assert of.with_skew(9).turns == ()


@pytest.mark.slow
def test_the_review_of_a_skew_is_of_the_newest_period(world: tuple[Path, list[str]]) -> None:
    lake, _ = world
    said = lowwater("skew", "--lake", lake, "--format", "json")
    (found,) = json.loads(said.out)["links"]
    arrivals = accumulate((stamp for stamp, _ in drawn()), max)
    assert (found["skew_ns"], found["records"]) == (5 * SECOND, sum(arrival >= CHANGE for arrival in arrivals))
    said = lowwater("skew", "--lake", lake, "--link", "a", "--set", "6s")
    assert said.code == 1 and "is that of its period since 2026-01-01T01:20:00Z" in said.err
    assert f'write skew = "6s" in that [[links.a.periods]] of {lake / "lowwater.toml"}' in said.err


@pytest.mark.slow
def test_the_page_of_a_skew_is_of_the_newest_period_too(world: tuple[Path, list[str]]) -> None:
    lake, _ = world
    review = link_review(Ledgers(lake, QUERIES).now(), "a")
    assert review.skew == 5 * SECOND and review.seen[0].start == START + 2 * HOUR
