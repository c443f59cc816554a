"""Intervals that no packet can give a row are left out of a run; rows and accounts are those of all intervals."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from lowwater.cli.main import cli
from lowwater.config import Config, Link
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.plan import properties
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, RunResults, run_intervals
from tests.breadth import examples
from tests.capturemaker import Record, pcap_bytes, udp

BEGIN = 1_200_000 * SECOND
LINKS = ("a", "b")
QUERIES = (
    "SELECT timestamp, destPort, len FROM UDP",
    "SELECT tb, destPort, count(*) AS n FROM UDP GROUP BY time/7 AS tb, destPort",
    "SELECT x, y, count(*) AS n FROM UDP GROUP BY time/400 AS x, (time-5)/60 AS y",
    "SELECT n, count(*) AS c FROM UDP GROUP BY (0-time)/90 AS n",
    "SELECT wid, count(*) AS n FROM a.UDP [RANGE 3000 s, SLIDE 700 s, WA time]",
    "SELECT wid, count(*) AS n FROM a.UDP [RANGE 30 s, SLIDE 1000 s, WA time]",
    "SELECT tb, destPort, count(*) AS n FROM UDP GROUP BY time/5000 AS tb, CUBE(destPort)",
    "SELECT A.time, B.time AS bt, A.len AS x OUTER_JOIN FROM a.UDP A, b.UDP B "
    "WHERE A.time - 900 <= B.time AND B.time <= A.time + 300 AND A.destPort = B.destPort",
    "SELECT A.time, B.len LEFT_OUTER_JOIN FROM a.UDP A, b.UDP B WHERE A.time/60 = B.time/60 + 2",
    "SELECT R.timestamp, R.len FILTER_JOIN(time, 800) FROM a.UDP R, a.UDP S WHERE R.destPort = S.destPort",
)
CHAIN = (
    "DEFINE { query_name 'fans'; visibility 'internal'; } "
    "SELECT tb, destPort, count(*) AS n FROM UDP GROUP BY time/40 AS tb, destPort",
    "DEFINE { query_name 'chain'; } SELECT wid, sum(n) AS s, count(*) AS c FROM fans [RANGE 50, SLIDE 20, WA tb]",
)
HANDED = "SELECT tb, count(*) AS n, running_sum(len) AS r FROM a.UDP GROUP BY time/60 AS tb CLOSING_WHEN count(*) = 0"


def gathered(request: RunRequest, captures: list[tuple[str, list[Record]]]) -> RunResults:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lake = open_lake(folder / "lake")
        for number, (link, records) in enumerate(captures):
            path = folder / f"{number}.pcap"
            path.write_bytes(pcap_bytes(records, nanoseconds=True))
            # What a file covers is no matter here: a number of its own keeps equal files apart.
            ingest(lake, link, [path], request.config, (BEGIN + number, BEGIN + number + 1))
        return run_intervals(request, lake, read_captures(lake, LINKS), folder, Progress(quiet=True))


def asked(texts: tuple[str, ...], interval: int | None) -> RunRequest:
    plan = plan_texts([(f"q{number}.gsql", text) for number, text in enumerate(texts)], Links(LINKS))
    config = Config(links=dict.fromkeys(LINKS, Link(max_jump="90d")))  # type: ignore[arg-type]
    return RunRequest(plan, config, [], Path(), engine="reference", interval=interval)


def rows(found: RunResults) -> dict[str, Counter[Any]]:
    parts = {name: [table.drop_columns(["_tick"]).to_pylist() for table in each] for name, each in found.rows.items()}
    return {name: Counter(tuple(row.values()) for part in each for row in part) for name, each in parts.items()}


def packets(stamps: list[int]) -> list[Record]:
    return [(BEGIN + at, udp("10.0.0.1", "10.0.0.2", 9, 53 + at % 2, data=bytes(at % 7))) for at in stamps]


def through(hours: int) -> list[int]:
    """Instants at the begin and at the end of each hour, so that no hour has a silence before it."""
    first = -BEGIN % HOUR
    return [first + at for hour in range(hours) for at in (hour * HOUR, (hour + 1) * HOUR - 1)] + [first + hours * HOUR]


BURSTS = st.lists(
    st.tuples(st.integers(0, 20 * HOUR), st.lists(st.integers(-2 * SECOND, 90 * SECOND), min_size=1, max_size=5)),
    min_size=1,
    max_size=3,
).map(lambda bursts: [max(0, at + rest) for at, part in sorted(bursts) for rest in part])


@pytest.mark.nightly
@pytest.mark.slow
@given(
    a=BURSTS,
    b=BURSTS,
    cut=st.integers(1, 10),
    query=st.sampled_from([*((text,) for text in QUERIES), CHAIN, (HANDED,)]),
    interval=st.sampled_from([7 * 60 * SECOND, 61 * 60 * SECOND, 4000 * SECOND + 1]),
)
@settings(max_examples=examples(40))
def test_rows_and_accounts_are_those_of_all_intervals(
    a: list[int], b: list[int], cut: int, query: tuple[str, ...], interval: int
) -> None:
    captures = [("a", packets(a[:cut])), ("a", packets(a[cut:])), ("b", packets(b))]
    captures = [(link, records) for link, records in captures if records]
    whole = gathered(asked(query, None), captures)
    found = gathered(asked(query, interval), captures)
    with patch.object(properties, "reached", lambda *_: None):
        every = gathered(asked(query, interval), captures)
    assert rows(found) == rows(every) == rows(whole)
    assert found.accounts == every.accounts
    assert sum(map(len, found.violations)) == sum(map(len, every.violations))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interval", "hours", "count", "first"),
    [
        (1, 3, "1ns makes 10,800,000,000,001", "200ms"),
        (SECOND // 2, 24, "500ms makes 172,801", "1s"),
        (7, 48, "7ns makes 24,685,714,285,71.", "2s"),
    ],
)
def test_too_many_evaluations_are_refused_with_the_first_length_that_will_do(
    interval: int, hours: int, count: str, first: str
) -> None:
    captures = [("a", packets(through(hours)))]
    with pytest.raises(ConfigError, match=f"--interval {count} intervals, more than 100,000") as refused:
        gathered(asked(QUERIES[:1], interval), captures)
    assert refused.value.hint == f"write --interval {first} or a longer one"


@pytest.mark.slow
def test_too_many_evaluations_are_refused_before_any_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr("lowwater.replay.run_command.low_level", lambda *args, **_: started.append(args))
    capture, query = tmp_path / "a.pcap", tmp_path / "q.gsql"
    capture.write_bytes(pcap_bytes(packets(through(3)), nanoseconds=True))
    query.write_text(QUERIES[0].replace("FROM UDP", "FROM a.UDP"))
    words = ["run", str(query), "--capture", f"a={capture}", "--out", str(tmp_path / "out"), "--interval", "1ns"]
    said = CliRunner().invoke(cli, words)
    assert isinstance(said.exception, ConfigError) and "--interval 1ns makes" in said.exception.message
    assert not started
