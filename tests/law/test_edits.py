"""A set whose queries are edited, one after another: what is published is what a full run would publish, and nothing is
evaluated whose key is the same."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from lowwater.documents import stored_object
from lowwater.errors import LowwaterError
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers import runs
from lowwater.plan.properties import hands_over
from lowwater.replay.interval import replay
from lowwater.replay.progress import Progress
from tests.breadth import each_push
from tests.law.cases import Case, case
from tests.law.compare import LAKES
from tests.law.killed import PlainJob, compare_rows, expected, intervals_of, job_of, published, with_kills
from tests.law.questions import Question

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

EDITS = 4

TEMPLATES = {
    "counted": "DEFINE{{query_name 'counted';}} SELECT tb, count(*) AS n, sum(len) FROM TCP GROUP BY time/{} AS tb",
    "busy": "DEFINE{{query_name 'busy';}} SELECT tb, n FROM counted WHERE n > {}",
    "long": "DEFINE{{query_name 'long';}} SELECT time, len FROM UDP WHERE len > {}",
    "talkers": (
        "DEFINE{{query_name 'talkers';}} SELECT tb, srcIP, count(*) AS n FROM TCP GROUP BY time/9 AS tb, srcIP "
        "HAVING count(*) > {}"
    ),
    "pairs": (
        "DEFINE{{query_name 'pairs';}} SELECT a.time, b.len FROM main1.TCP a INNER JOIN control.UDP b "
        "ON a.time = b.time AND a.len > {}"
    ),
    "totals": (
        "DEFINE{{query_name 'totals';}} SELECT tb, destIP, running_sum(len) AS total FROM TCP "
        "GROUP BY time/9 AS tb, destIP CLOSING_WHEN count(*) < {}"
    ),
}
"""Queries of a number: `busy` reads `counted`, so they share an LFTA, and `totals` hands a state over."""


def question(name: str, number: int) -> Question:
    return Question(name, TEMPLATES[name].format(number), "")


def edited(random: Random, asked: dict[str, Question]) -> dict[str, Question]:
    """The set after one edit: a query is added, removed or written otherwise, or only a comment is."""
    others = sorted(TEMPLATES.keys() - asked.keys() - (set() if "counted" in asked else {"busy"}))
    mine = sorted(asked.keys() & TEMPLATES.keys())
    kind = random.choice(
        ["text", "text", *(["add"] if others else []), *(["remove"] if len(asked) > 2 else []), "comment"]
    )
    if kind == "add":
        name = random.choice(others)
        return {**asked, name: question(name, random.randint(1, 60))}
    name = random.choice(mine)
    if kind == "remove":
        gone = {name, *(["busy"] if name == "counted" else [])}
        return {each: of for each, of in asked.items() if each not in gone} or asked
    if kind == "comment":
        return {**asked, name: replace(asked[name], text=f"-- said {random.random()}\n{asked[name].text}")}
    return {**asked, name: question(name, random.randint(1, 60))}


def ran(job: PlainJob, bounds: tuple[int, int], since: int) -> tuple[set[str], set[str]]:
    """The LFTAs and queries that were evaluated for an interval behind an instant."""
    rows = [row for row in runs.interval_replays(job.lake, job.query_set, *bounds) if row.finished_at > since]
    lows = [stored_object(row.accounting)["ran"] for row in rows if row.stage == runs.LOW]
    return {name for names in lows for name in names}, {row.query for row in rows if row.stage == runs.HIGH}


def check(seed: int, runner: Runner, edits: int = EDITS) -> Counter[str]:
    """Edits a set some times, and holds what is published after each edit against the reference engine. Some edits are
    taken back before anything of them is published. Counts what was evaluated and what was kept."""
    random, told = Random(seed), Counter[str]()
    known: dict[tuple[int, int], Known] = defaultdict(Known)
    for job, now in sets(seed, random, edits):
        # The intervals of a chain wait for the publication of the one before.
        hold = bool(told) and random.random() < 0.4 and not any(hands_over(query.high) for query in job.plan.queries)
        told["held"] += hold
        for bounds in intervals_of(now, job):
            expect(job, bounds, known[bounds], hold, runner, told)
        if not hold:
            compare_rows(job, expected(job, intervals_of(now, job), now), f"published after edits, seed {seed}")
    return told


def sets(seed: int, random: Random, edits: int) -> Iterator[tuple[PlainJob, Case]]:
    """Yields a set of queries over a lake, and the same after each edit."""
    drawn = case(seed)
    chained = seed % 2 == 0  # some sets have no chain, so that a run may be held
    names = ["counted", *random.sample(sorted(TEMPLATES.keys() - {"counted", *(() if chained else ("totals",))}), 3)]
    asked = {each.name: each for each in drawn.asked[: int(chained)]}
    asked |= {name: question(name, random.randint(1, 9)) for name in names}
    whole, _ = LAKES.of(drawn.world)
    folder = whole.root.with_name("edited")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole.root, folder)
    lake = open_lake(folder)
    for _ in range(1 + edits):
        now = replace(drawn, asked=tuple(asked.values()), choice=replace(drawn.choice, kills=()))
        yield job_of(now, lake, folder), now
        asked = edited(random, asked)


@dataclass
class Known:
    """What an interval has: query -> digest of its published rows, and of its stream; LFTA -> key of its rows."""

    published: dict[str, str] = field(default_factory=dict)
    streams: dict[str, str] = field(default_factory=dict)
    lows: dict[str, str] = field(default_factory=dict)
    since: int = 0


def expect(
    job: PlainJob, bounds: tuple[int, int], known: Known, hold: bool, runner: Runner, told: Counter[str]
) -> None:
    """Runs an interval, and checks that what has another key is evaluated, and nothing else."""
    inputs = job.inputs(*bounds, job.captures())
    digests = {query.name: inputs.digest(query) for query in job.plan.queries}
    keys, plans = inputs.low_keys(), job.plan.queries
    replay(job, *bounds, None, Progress(quiet=True), runner, hold)
    low, high = ran(job, bounds, known.since)
    stale = {name for name, digest in digests.items() if known.published.get(name) != digest}
    other = {name for name, key in keys.items() if known.lows.get(name) != key}
    # An LFTA that is read together with others than before is made again, and then its readers are.
    anew = stale | {query.name for query in plans if other & {lfta.name for lfta in query.lftas}}
    anew |= {name for name, digest in digests.items() if known.streams.get(name) != digest}
    if not stale:
        anew = set()
    elif anew == digests.keys():
        told["all"] += 1
    assert high == anew, (stale, other, high)
    assert low == {lfta.name for query in plans if query.name in high for lfta in query.lftas} & other
    told.update(evaluated=len(high), kept=len(digests.keys() - high), lows=len(low), reused=len(keys) - len(low))
    known.lows |= {name: keys[name] for name in low}
    known.streams |= {name: digests[name] for name in high}
    if not hold:
        known.published = digests
    rows = runs.interval_replays(job.lake, job.query_set, *bounds)
    known.since = max(row.finished_at for row in rows)


def check_killed(seed: int, runner: Runner, edits: int = EDITS) -> int:
    """Edits a set some times, while its runs are killed where stages begin; returns how often."""
    random, deaths = Random(seed), 0
    for job, now in sets(seed, random, edits):
        killed = with_kills(now, *random.sample(range(8), 2))
        deaths += published(job, intervals_of(now, job), killed, runner)
        compare_rows(job, expected(job, intervals_of(now, job), now), f"published after kills, seed {seed}")
    return deaths


def checked(seeds: range, runner: Runner, edits: int = EDITS) -> Counter[str]:
    told = Counter[str]()
    for seed in seeds:
        try:
            told += check(seed, runner, edits)
            told["cases"] += 1
        except LowwaterError as error:  # no engine runs the drawn question
            told["refused"] += 1
            assert not isinstance(error, AssertionError)
    return told


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", each_push([range(2), range(2, 4), range(4, 6)], 3))
def test_edits_on_the_runner_of_a_process(seeds: range, runner: Runner) -> None:
    told = checked(seeds, runner)
    assert told["cases"] and min(told[name] for name in ("evaluated", "kept", "lows", "reused")) > 3, told


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", each_push([1, 2], 2))
def test_edits_whose_runs_are_killed(seed: int, runner: Runner) -> None:
    assert check_killed(seed, runner, 2) > 2


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_edits_on_spark(on_spark: Runner) -> None:
    told = checked(range(1), on_spark, 2)
    assert told["cases"] == 1 and told["kept"] and told["reused"], told
