"""The skew review against computations of others: numpy on random lateness, DuckDB on the files of `packets/`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.config import Config, Link
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import PacketFiles, packet_files
from lowwater.quality.lateness import (
    LADDER,
    LATEST_RECORDS,
    QUANTILES,
    IntervalLateness,
    LatenessCounts,
    bound_of,
    link_lateness,
    recommend,
)
from lowwater.replay.schedule.skew_review import SkewReview, headline, remarks, review, review_json
from tests.lake.support import BASE, capture
from tests.replay.support import lowwater

LATENESS = st.lists(
    st.one_of(st.integers(0, 200), st.integers(0, 2**62 - 1), st.sampled_from([0, 9, 10, 99, 100, 101, *LADDER[:12]])),
    max_size=60,
)
TWO_DIGITS = st.one_of(st.integers(0, 99), st.builds(lambda d, p: d * 10**p, st.integers(10, 99), st.integers(0, 16)))


def counted(values: list[int]) -> LatenessCounts:
    lags = LatenessCounts()
    lags.add(np.array(values, np.int64))
    return lags


@given(LATENESS, TWO_DIGITS, st.integers(0, 2**62))
def test_what_a_bound_loses(values: list[int], bound: int, odd: int) -> None:
    lags = counted(values)
    assert lags.lost(bound) == sum(value > bound for value in values)
    assert lags.lost(odd) >= sum(value > odd for value in values)
    assert (lags.records, lags.late) == (len(values), sum(value > 0 for value in values))
    assert lags.largest == max(values, default=0)


@given(LATENESS, st.sampled_from([0.01, 0.5, *QUANTILES, 1.0]))
def test_a_quantile_is_the_least_bound_that_admits_the_share(values: list[int], share: float) -> None:
    exact = int(np.quantile(np.array(values), share, method="inverted_cdf")) if values else None
    assert counted(values).quantile(share) == (None if exact is None else bound_of(exact))


@given(LATENESS, LATENESS)
def test_counts_add_up_in_any_way(first: list[int], second: list[int]) -> None:
    merged = counted(first)
    merged.merge(counted(second))
    together = counted(first + second)
    kept = LatenessCounts.of(*together.counted(), together.largest)
    for lags in (merged, kept):
        assert lags.bounds() == together.bounds()
        assert (lags.records, lags.late, lags.largest) == (together.records, together.late, together.largest)
    assert all(bound_of(bound) == bound for bound, _ in together.bounds())


@given(LATENESS, st.sampled_from([0.0, 0.0001, 0.1, 0.5]))
def test_the_recommendation_is_the_least_rung_that_will_do(values: list[int], loss: float) -> None:
    found = recommend(counted(values), loss)
    fits = [bound for bound in (0, *LADDER) if values and sum(v > bound for v in values) <= loss * len(values) + 1e-9]
    assert found == (fits[0] if fits else None)


# One link in three captures over three hours, with disorder up to 5 s, records a minute late, and equal timestamps.
def disordered(seed: int) -> list[list[float]]:
    made = random.Random(seed)
    files = []
    for hour in range(3):
        stamps = sorted(round(hour * 3600 + made.random() * 3599, made.choice([1, 3, 9])) for _ in range(700))
        late = [max(0.0, each - made.random() ** 6 * 5) for each in stamps]
        late[350] = max(0.0, late[350] - 60)
        files.append([hour * 3600 + 30.0, *late[1:]] if hour == 1 else late)
    return files


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skew")
    config = Config(links={"a": Link(skew="2s", max_jump="2h", since="2026-01-01")})  # type: ignore[arg-type]
    opened = open_lake(folder / "lake")
    lines = '[links.a]\nskew = "2s"\nmax_jump = "2h"\n'
    (folder / "lake" / "lowwater.toml").write_text(lines, encoding="utf-8")
    for hour, stamps in enumerate(disordered(7)):
        path = capture(folder / f"{hour}.pcap", stamps)
        ingest(opened, "a", [path], config, (BASE + hour * HOUR, BASE + (hour + 1) * HOUR))
    return folder / "lake"


def reviewed(root: Path, start: int, end: int, loss: float = 0.001) -> SkewReview:
    opened = open_lake(root)
    link = Link(skew="2s", max_jump="2h")  # type: ignore[arg-type]
    read = packet_files(PacketFiles.of(opened), "a", read_captures(opened, ["a"])["a"], link, start, start, end)
    return review("a", link.skew, link_lateness(read, link.skew, HOUR), loss)


def queried(root: Path, sql: str, start: int = BASE, end: int = BASE + 3 * HOUR) -> list[tuple[Any, ...]]:
    """An SQL query over `r`: the records with their lateness, clocks computed anew from the order of T1."""
    order = read_captures(open_lake(root), ["a"])["a"]
    with duckdb.connect() as connection:
        connection.register("captures", pa.table({"capture": [each.capture for each in order], "n": range(len(order))}))
        connection.execute(
            f"""
            CREATE VIEW r AS SELECT * FROM (
              SELECT capture, position, timestamp, clock AS arrival, clock - timestamp AS lateness FROM (
                SELECT p.capture, p.position, p.timestamp, max(p.timestamp) OVER (ORDER BY n, p.position) AS clock
                FROM read_parquet('{root}/packets/**/*.parquet', union_by_name=true) p JOIN captures USING (capture)))
            WHERE arrival >= {start} AND arrival < {end}"""
        )
        return connection.execute(sql).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize(("start", "end"), [(BASE, BASE + 3 * HOUR), (BASE + 1200 * SECOND, BASE + 2 * HOUR)])
def test_the_review_is_what_duckdb_finds(lake: Path, start: int, end: int) -> None:
    found = reviewed(lake, start, end)
    ((records, late, largest),) = queried(
        lake, "SELECT count(*), count(*) FILTER (lateness > 0), max(lateness) FROM r", start, end
    )
    assert (found.total.records, found.total.late, found.total.largest) == (records, late, largest)
    assert late > 100 and largest > 59 * SECOND
    assert {2 * SECOND, found.recommended, 0, bound_of(largest)} <= {rung.bound_ns for rung in found.rungs}
    for rung in found.rungs:
        ((lost,),) = queried(lake, f"SELECT count(*) FROM r WHERE lateness > {rung.bound_ns}", start, end)
        assert (rung.lost, rung.share) == (lost, lost / records)
        assert rung.records_held <= rung.records_held_at_most
    for share in QUANTILES:
        ((exact,),) = queried(lake, f"SELECT quantile_disc(lateness, {share}) FROM r", start, end)
        assert found.total.quantile(share) == bound_of(exact)
    hours = queried(
        lake,
        f"""SELECT arrival // {HOUR} * {HOUR}, count(*), count(*) FILTER (lateness > {2 * SECOND}), max(lateness)
        FROM r GROUP BY ALL ORDER BY ALL""",
        start,
        end,
    )
    assert [(each.start, each.lags.records, each.refused, each.lags.largest) for each in found.seen] == hours
    seconds = f"SELECT arrival // {HOUR} h, arrival // {SECOND} s, count(*) n FROM r GROUP BY ALL"
    busiest = queried(lake, f"SELECT max(n) FROM ({seconds}) GROUP BY h ORDER BY h", start, end)
    assert [(each.busiest,) for each in found.seen] == busiest
    latest = queried(
        lake, f"SELECT lateness, capture, position FROM r ORDER BY ALL DESC LIMIT {LATEST_RECORDS}", start, end
    )
    assert [(each.lateness_ns, each.capture, each.position) for each in found.latest] == latest


def seen(values: list[int], skew: int = SECOND) -> IntervalLateness:
    return IntervalLateness(0, HOUR, counted(values), sum(value > skew for value in values), 7)


def test_an_interval_that_alone_is_late_is_an_outlier_and_the_others_are_advised() -> None:
    calm = [[0] * 990 + [SECOND // 2] * 10 for _ in range(6)]
    wild = [0] * 300 + [each * SECOND // 5 for each in range(700)]
    hours = [*calm[:3], wild, *calm[3:]]
    of = [
        IntervalLateness(at * HOUR, (at + 1) * HOUR, counted(values), sum(value > SECOND for value in values), 7)
        for at, values in enumerate(hours)
    ]
    found = review("a", SECOND, of)
    assert recommend(found.total, found.loss) == 200 * SECOND, "what one hour of seven made of it"
    assert (found.recommended, found.advice) == (SECOND // 2, "lower") and found.outlier is not None
    assert found.outlier.seen == (of[3],) and found.outlier.bound == 200 * SECOND
    assert found.outlier.records == sum(value > SECOND // 2 for value in wild)
    assert (found.others.records, found.others.largest, found.lost(SECOND)) == (6000, SECOND // 2, 0)
    time = "1970-01-01T03:00:00Z to 1970-01-01T04:00:00Z"
    assert headline(found).endswith(f"; without {time}, skew 1s refuses 0 (0%): lower it to 500ms, which refuses none")
    said = f"outlier: {time}, where 697 records are more than 500ms late; with it 200s would be needed. Look at the "
    assert remarks(found)[1].startswith(said)
    assert review_json(found)["outlier"]["recommended_with_it_ns"] == 200 * SECOND
    hopeless = review("a", SECOND, [*of[:3], seen([2**62 - 1] * 1000), *of[4:]])
    assert hopeless.recommended == SECOND // 2 and "with it no skew would do" in remarks(hopeless)[1]


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [0, 3, 6])
def test_a_capture_in_the_wrong_order_is_named(shuffled: int, tmp_path: Path) -> None:
    """One shuffled hour of seven, of a capture each: the capture is named, and the others are advised."""
    opened = open_lake(tmp_path / "lake")
    (opened.root / "lowwater.toml").write_text('[links.a]\nskew = "1s"\nmax_jump = "3h"\n', encoding="utf-8")
    config, made = Config(links={"a": Link(max_jump="3h")}), random.Random(3)  # type: ignore[arg-type]
    for hour in range(7):
        stamps = [hour * 3600 + number * 1.5 for number in range(2400)]
        if hour == shuffled:
            made.shuffle(stamps)
        path = capture(tmp_path / f"node_{hour}.pcap", stamps)
        ingest(opened, "a", [path], config, (BASE + hour * HOUR, BASE + (hour + 1) * HOUR))
    said = lowwater("skew", "--lake", opened.root, "--queries", tmp_path, "--format", "json")
    (found,) = json.loads(said.out)["links"]
    assert found["outlier"]["captures"] == [f"node_{shuffled}.pcap"] and found["recommended_ns"] == 0
    assert found["outlier"]["recommended_with_it_ns"] > 1000 * SECOND
    said = lowwater("skew", "--lake", opened.root, "--queries", tmp_path)
    assert f"(node_{shuffled}.pcap), skew 1s refuses 0 (0%): lower it to 0s" in said.out
    (line,) = [line for line in said.out.splitlines() if line.rstrip().endswith(" outlier")]
    assert line.split()[0] == format_instant(BASE + shuffled * HOUR)
