"""Heartbeats on demand: rows go at the tick at which periodic promises let them go, after fewer promises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import LOW, read_replays
from lowwater.low.demand import NO_TICK, Demand, Promises, StreamName, fewest_ticks
from lowwater.plan.context import Links
from lowwater.plan.operators import lftas_of
from lowwater.plan.queryset import plan_texts
from tests.replay.support import START, copy_lake, replay_range, table_rows, write_settings

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

KNOWN = Links(("a", "b", "c"))
SECOND = 1_000_000_000
UNION = "DEFINE {{query_name '{0}';}} SELECT time, len FROM {1}.TCP; "
PLANS = (
    "".join(UNION.format(name, link) for name, link in zip("xyz", "abc", strict=True))
    + "DEFINE {query_name 'q';} MERGE x.time : y.time : z.time FROM x, y, z",
    "SELECT A.time, A.len FROM a.TCP A JOIN b.TCP B WHERE A.time = B.time",
    "".join(UNION.format(name, link) for name, link in zip("xyz", "abc", strict=True))
    + "DEFINE {query_name 'm';} MERGE x.time : y.time : z.time FROM x, y, z; "
    + "DEFINE {query_name 'q';} SELECT tb, count(*) FROM m GROUP BY time/3 AS tb",
)
Runs = list[tuple[int, int, int, int]]


def stream(chance: Random) -> tuple[Runs, list[int]]:
    """The promises of a stream, single ones and lulls, and the `_last` of its rows, each legal where it is emitted."""
    tick, promise, skew, runs, rows = 0, -1, chance.choice((0, SECOND, 5 * SECOND)), [], []
    for _ in range(chance.randrange(1, 12)):
        tick += chance.choice((1, 1, 2, 5)) * SECOND
        until = tick + chance.choice((0, 0, 1, 4, 9)) * SECOND
        made = max(promise + 1, tick - skew - chance.choice((0, SECOND // 3)))
        rows += [chance.randint(max(made - SECOND, promise, 0), tick) for _ in range(chance.choice((0, 0, 1, 3)))]
        runs.append((tick, until, SECOND if until > tick else 0, made))
        tick, promise = until, made + until - tick
    return [*runs, (tick + SECOND, tick + SECOND, 0, max(promise + 1, tick + SECOND))], rows


def ticks_of(runs: Runs) -> list[tuple[int, int]]:
    """Every tick of some runs with its promise."""
    return [
        (tick, promise + tick - first)
        for first, until, period, promise in runs
        for tick in range(first, until + 1, period or SECOND)
    ]


def goes(streams: Mapping[StreamName, Runs], last: int) -> int:
    """The tick at which the least promise of all streams has passed a row; NEVER where it does not."""
    return max(next((tick for tick, made in ticks_of(runs) if made > last), NO_TICK) for runs in streams.values())


def thinned(runs: Runs, runs_to_keep: Mapping[int, tuple[int, int]]) -> Runs:
    """The parts of runs that stay, and the last one, which closes the stream."""
    found = []
    for number, (first, until, period, promise) in enumerate(runs):
        if number == len(runs) - 1:
            found.append((first, until, period, promise))
        elif number in runs_to_keep:
            begin, end = runs_to_keep[number]
            assert first <= begin <= end <= until and (begin - first) % (period or 1) == 0
            found.append((begin, end, period if end > begin else 0, promise + begin - first))
    return found


@given(st.sampled_from(PLANS), st.integers(0, 1 << 30))
def test_rows_go_at_the_tick_of_periodic_heartbeats_or_at_the_end(text: str, seed: int) -> None:
    plan = plan_texts([("q.gsql", text)], KNOWN).queries[-1].high
    made = {(lfta.name, link): stream(Random(f"{seed} {lfta.name}")) for lfta in lftas_of(plan) for link in lfta.links}
    runs = {name: of for name, (of, _) in made.items()}
    promises = {name: Promises.of(of) for name, of in runs.items()}
    demand = Demand(plan, promises)
    for (lfta, _), (_, rows) in made.items():
        demand.add(lfta, np.array(rows, np.int64))
    left = {
        name: thinned(of, promises[name].runs_to_keep(fewest_ticks(demand.tick_spans(name))))
        for name, of in runs.items()
    }
    for _, rows in made.values():
        for last in rows:
            assert goes(left, last) == goes(runs, last)
            # A row of three seconds waits for their end where they are counted.
            end = last // (3 * SECOND) * 3 * SECOND + 3 * SECOND - 1
            assert "count" not in text or goes(left, end) == goes(runs, end)
    assert all(len(left[name]) <= len(runs[name]) for name in runs)
    if not any(rows for _, rows in made.values()):
        assert all(len(of) == 1 for of in left.values())


RARE = """DEFINE {{ query_name '{0}'; visibility 'internal'; }}
SELECT tb, srcIP, count(*) AS cnt FROM {1}.DataProtocol WHERE srcPort % 40 = 7 GROUP BY time/10 AS tb, srcIP;
"""
PAIRS = (
    RARE.format("rare1", "[main0_and_control]")
    + RARE.format("rare2", "main2")
    + """DEFINE { query_name 'pairs'; }
SELECT A.tb, A.cnt AS cnt1, B.cnt AS cnt2 OUTER_JOIN FROM rare1 A, rare2 B WHERE A.tb/6 = B.tb/6 AND A.srcIP = B.srcIP;
DEFINE { query_name 'rare'; }
SELECT tb, count(*) AS cnt FROM DataProtocol WHERE srcPort % 40 = 7 GROUP BY time/10 AS tb
"""
)


@pytest.mark.slow
def test_published_rows_are_those_of_periodic_heartbeats(lake: Path, tmp_path: Path, runner: Runner) -> None:
    query, other = tmp_path / "pairs.gsql", copy_lake(lake, tmp_path / "other")
    query.write_text(PAIRS, encoding="utf-8")
    for each, heartbeat in ((lake, "1s"), (other, "on-demand")):
        write_settings(each, sets={"pairs": query})
        with (each / "lowwater.toml").open("a", encoding="utf-8") as file:
            file.write(f'\n[replay]\nheartbeat = "{heartbeat}"\n')
        replay_range(each, runner, START, START + HOUR, query_set="pairs")
    for name in ("pairs", "rare"):
        assert table_rows(lake, name) == table_rows(other, name) != []
    before, after = promises(lake), promises(other)
    assert before["spared"] == 0 < after["spared"]
    assert after["punctuations"] + after["spared"] == before["punctuations"]


def promises(lake: Path) -> dict[str, int]:
    """How many promises the low stage of the first hour left, and left out."""
    rows = read_replays(open_lake(lake), "pairs", (START, START + HOUR))
    first = next(row for row in rows if row.stage == LOW and row.interval_start == START)
    found: dict[str, int] = json.loads(first.accounting)["promises"]
    return found


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=12))
def test_the_fewest_ticks_lie_in_every_span(given_: list[tuple[int, int]]) -> None:
    spans = [(first, first + length) for first, length in given_]
    found = fewest_ticks(spans)
    assert all(any(first <= tick <= latest for tick in found) for first, latest in spans)
    # As many spans lie apart from one another, so that no fewer ticks would do.
    apart, free = 0, -1
    for first, latest in sorted(spans, key=lambda span: span[1]):
        if first > free:
            apart, free = apart + 1, latest
    assert len(found) == apart
