"""Random recorders that rotate, drift, stop and start again."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.config import load_config
from lowwater.instants import format_instant
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.coverage import silences
from tests.breadth import examples
from tests.lake.support import at
from tests.lake.test_outside import accounted
from tests.lake.test_restarts import HOUR, MINUTE, named, put, spans, states, world

pytestmark = [pytest.mark.slow, pytest.mark.hypothesis]


@dataclass
class Recorder:
    """What a recorder left: files, and the stretches (seconds) in which it recorded."""

    files: list[tuple[int, list[float]]]
    runs: list[tuple[int, int]]
    lull: float


def recorder(rng: random.Random) -> Recorder:
    """Up to three runs (a fourth silence would be usual) of half an hour to four hours."""
    by_clock, step = rng.random() < 0.5, rng.uniform(5, 30)
    now = rng.randrange(0, 2 * HOUR) if rng.random() < 0.5 else 0
    made = Recorder([], [], 0)
    for _ in range(rng.randint(1, 3)):
        stop = now + rng.randrange(HOUR // 2, 4 * HOUR)
        begin, file, time = now, now, float(now)
        records: list[float] = []
        while time < stop:
            ends = (file // HOUR + 1) * HOUR if by_clock else file + HOUR
            if time >= ends:
                made.files.append((file, records))
                records = []
                # By the clock the next file is that of the hour; tcpdump opens it with the first packet.
                file = int(time) // HOUR * HOUR if by_clock else int(time)
            records.append(time)
            pause = rng.uniform(0.2, 1.8) * step
            made.lull = max(made.lull, pause)
            time = round(time + pause, 6)
        made.files.append((file, records))
        made.runs.append((begin, int(records[-1])))
        now = stop + rng.randrange(5 * MINUTE, rng.choice([HOUR // 2, 3 * HOUR]))
        if rng.random() < 0.3:
            now = -(-now // HOUR) * HOUR
    return made


@pytest.mark.nightly
@given(st.integers(0, 10**9))
@settings(max_examples=examples(20), deadline=None)
def test_what_a_recorder_left(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    made = recorder(rng)
    policy = rng.choice(["fail", "publish"])
    first, last = made.runs[0][0], made.runs[-1][1]
    bounds = {"since": rng.randint(first - HOUR, last)}
    bounds["until"] = rng.randint(max(first, bounds["since"]) + 1, last + HOUR)
    kept = [name for name in bounds if rng.random() < 0.3]
    life = "\n".join(f'{name} = "{format_instant(at(bounds[name]))}"' for name in kept)
    hours = Counter(int(each // HOUR) for _, records in made.files for each in records)
    seen = []
    for order in range(2):
        root = tmp_path_factory.mktemp("recorder") / "lake"
        # Files drift by as much as a lull: tcpdump opens one with the first packet behind the hour.
        lake = world(root, f'policy = "{policy}"\ngap_tolerance = "{int(made.lull) + 2}s"\n{life}')
        files: list[Path] = [named(root, begin, records) for begin, records in made.files]
        random.Random(seed + order).shuffle(files)
        portion = rng.choice([1, 2, len(files)])
        for first in range(0, len(files), portion):
            put(lake, files[first : first + portion])
        through_end = bool(seed % 2)
        seen.append((spans(lake), states(root), states(root, through_end)))
        packets = sum(len(records) for _, records in made.files)
        assert accounted(root) == (packets, packets)
        link, captures = load_config(root).link("a"), read_captures(lake, "a")["a"]
        told = silences(captures, link, 0, at(10**6))
        for hour, (state, counted) in states(root, through_end).items():
            begin, end = hour * HOUR, (hour + 1) * HOUR
            if state in ("done", "provisional"):
                assert counted == hours[hour], (seed, hour, "a packet is in no row")
            begin = max(begin, bounds["since"]) if "since" in kept else begin
            end = min(end, bounds["until"]) if "until" in kept else end
            for (_, stopped), (again, _) in zip(made.runs, [*made.runs[1:], (10**6, 0)], strict=True):
                length = min(again, end) - max(stopped, begin)
                file = max(name for name, _ in made.files if name <= stopped)
                if length > made.lull + 3 and again < file + HOUR - 1:
                    assert state not in ("done", "provisional"), (seed, hour, stopped, again, "a gap without a name")
                if state in ("done", "provisional") and length > 4 * made.lull + 10:
                    inside = [each for each in told if each.since < at(end) and each.until > at(begin)]
                    assert inside, (seed, hour, stopped, again)
    assert seen[0] == seen[1]
