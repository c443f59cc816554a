"""A case over a lake: every stage published as a scheduled run does it, and killed where the settings say so."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from lowwater.config import Config, Limits, QuerySet, Thresholds
from lowwater.high.query_runs import HighLevel
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.tables import fetch_rows, open_table, table_dataset
from lowwater.low import LowSettings, Policy
from lowwater.plan.properties import hands_over, horizon
from lowwater.plan.queryset import QueryPlan
from lowwater.replay.interval import run_batch
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.stages.engines import reference_stage
from lowwater.replay.stages.inputs import LowInputs
from lowwater.replay.tuning import Tuning
from tests.law.cases import Case
from tests.law.compare import LAKES, Difference, Row, Rows, config_of, plan_of, value

if TYPE_CHECKING:
    from lowwater.high.runner import Level, Runner, Running
    from tests.law.settings import Choice

SET = "law"
MINUTE = 60_000_000_000
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
MOST = 4
"""Intervals after the first; of decreasing attributes the last that can own a row is years away."""

ALL = Limits(warning=1.0, critical=1.0)


class Killed(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class PlainJob(Job):
    """A job whose kernels are not compiled, which takes a second for each new set. `shared_rows` as of a case."""

    shared_rows: int = 1 << 16

    def low_settings(self, tunings: Mapping[str, Tuning] = MappingProxyType({})) -> LowSettings:
        """The settings of the job, in plain Python."""
        return replace(super().low_settings(tunings), compiled=False, shared_rows=self.shared_rows)


class Divided:
    """A runner whose high levels have the settings of a case: how many rows are a part, and how many shares a slice."""

    def __init__(self, runner: Runner, choice: Choice) -> None:
        self._runner, self._choice = runner, choice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def about(self, interval: str) -> Divided:
        return Divided(self._runner.about(interval), self._choice)

    @contextmanager
    def levels(self) -> Iterator[Callable[[Level], Running]]:
        with self._runner.levels() as begin:
            yield lambda level: begin(self._divided(level) if isinstance(level, HighLevel) else level)

    def _divided(self, level: HighLevel) -> HighLevel:
        own = {name: value for name, value in self._choice.high.items() if name != "tick"}
        return replace(level, settings=replace(level.settings, **own))


class Mortal(Progress):
    """Dies where some stages would begin, counted over all runs."""

    def __init__(self, kills: Sequence[int], work: Path) -> None:
        super().__init__(quiet=True)
        self.kills, self.work, self.begun = set(kills), work, 0

    @contextmanager
    def stage(self, name: str, detail: str = "") -> Iterator[Callable[[str], None]]:
        """Times a stage, if the process lives to begin it."""
        number, self.begun = self.begun, self.begun + 1
        if number in self.kills:
            self._copy()
            raise Killed
        with super().stage(name, detail) as tell:
            yield tell

    def _copy(self) -> None:
        """Keeps what the process leaves; other threads still end their parts, so a file may go while it is copied."""
        try:
            shutil.copytree(self.work, self.work.with_suffix(".left"))
        except shutil.Error as error:
            if any(Path(source).exists() for source, *_ in error.args[0]):
                raise


def compare_published(case: Case, runner: Runner) -> int:
    """Holds what is published, after all kills, against the reference engine over the same intervals."""
    whole, _ = LAKES.of(case.world)
    folder = whole.root.with_name("killed")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole.root, folder)
    job = job_of(case, open_lake(folder), folder)
    intervals = intervals_of(case, job)
    deaths = published(job, intervals, case, runner)
    compare_rows(job, expected(job, intervals, case), f"published after {deaths} kills beside reference")
    return deaths


def compare_rows(job: Job, theirs: Mapping[str, Rows], what: str) -> None:
    """Holds the published tables of a job against rows."""
    for query in job.plan.queries:
        ours = rows_of(job.lake, query)
        if ours != theirs[query.name]:
            raise Difference(what, query.name, theirs[query.name] - ours, ours - theirs[query.name])


def job_of(case: Case, lake: Lake, folder: Path) -> PlainJob:
    """The queries of a case as a query set; whatever links lack of coverage, and whatever is late, is let pass."""
    config, choice = config_of(case.world), case.choice
    plan = plan_of(case.asked, choice.slots, folder)
    handing = any(hands_over(query.high) for query in plan.queries)  # from interval to interval, also of a batch
    stamps = [packet.stamp for packets in case.world.packets.values() for packet in packets]
    first = min(stamps, default=0)
    length = choice.long or max(stamps, default=0) - first + 1
    if choice.together > 1 or not handing:  # whole minutes, of which there are batches
        length = max(1, length // (3 * MINUTE)) * MINUTE
    beat = choice.period if choice.policy == Policy.PERIODIC else choice.policy
    # Of every other world the links end, within an interval: idle time and windows of rows do there.
    until = max(stamps) + 1 if len(stamps) % 2 else None
    life = {"policy": "publish", "until": until}
    links = {name: link.model_copy(update=life) for name, link in config.links.items()}
    settings: Config = config.model_copy(
        update={
            "links": links,
            "thresholds": Thresholds(violating=ALL, malformed=ALL, failed=ALL),
            "replay": config.replay.model_copy(update={"partitions": choice.partitions}),
            # An empty capture would be the beginning of the chain.
            "query_sets": {
                SET: QuerySet().model_copy(
                    update={"chain_start": first // length * length if handing else None, "heartbeat": beat}
                )
            },
        }
    )
    return PlainJob(lake, settings, SET, plan, length, shared_rows=choice.shared_rows)


def intervals_of(case: Case, job: Job) -> list[tuple[int, int]]:
    """The first intervals, mostly all that can own a row."""
    stamps = [packet.stamp for packets in case.world.packets.values() for packet in packets]
    if not stamps:
        return []
    last = max(horizon(query.logical, max(stamps)) for query in job.plan.queries) + max(case.world.skews.values())
    first = min(stamps) // job.length
    numbers = range(first, min(last // job.length, first + MOST) + 1)
    return [(number * job.length, (number + 1) * job.length) for number in numbers]


def published(job: Job, intervals: Sequence[tuple[int, int]], case: Case, runner: Runner) -> int:
    """Replays the intervals, again after each kill; how often the process died."""
    work = Path(job.lake.work)  # of a lake in a folder, where there are kills
    progress, divided = Mortal(case.choice.kills, work), cast("Runner", Divided(runner, case.choice))
    left, deaths = work.with_suffix(".left"), 0
    for batch in batches_of(job, intervals, case):
        while True:
            try:
                job.prepare()
                for result in run_batch(job, batch, progress, divided):
                    if isinstance(result, Exception):
                        raise result
                break
            except Killed:
                deaths += 1
                shutil.rmtree(work)
                left.rename(work)
    assert [*work.glob("*/*/")] == []
    return deaths


def batches_of(job: Job, intervals: Sequence[tuple[int, int]], case: Case) -> list[Sequence[tuple[int, int]]]:
    """The intervals as they run together."""
    most = max(1, case.choice.together)
    return [intervals[at : at + most] for at in range(0, len(intervals), most)]


def expected(job: Job, intervals: Sequence[tuple[int, int]], case: Case) -> dict[str, Rows]:
    """The rows of the reference engine with their last instants, by query."""
    captures = read_captures(job.lake, job.plan.links)
    found = {query.name: Rows() for query in job.plan.queries}
    states: dict[str, str | None] = {}
    for start, end in intervals:
        ends = job.inputs(start, end, captures).ends
        inputs = LowInputs(job.lake, job.plan, job.config, start, end, captures, ends)
        outcome = reference_stage(inputs, case.choice.period, Policy(case.choice.policy), states)
        states = {name: result.state for name, result in outcome.results.items()}
        for query in job.plan.queries:
            names = [*(f.name for f in query.high.fields), "_last"]
            columns = [outcome.rows[query.name].column(name).to_pylist() for name in names]
            found[query.name].update(shown(row) for row in zip(*columns, strict=True))
    return found


def rows_of(lake: Lake, query: QueryPlan) -> Rows:
    """The rows of a published table."""
    path, names = lake.table(query.name), [*(f.name for f in query.high.fields), "_last"]
    table = open_table(path)
    rows = fetch_rows(path, table_dataset(path, table)).to_table().to_pylist() if table is not None else []
    return Rows(shown(tuple(row[name] for name in names)) for row in rows)


def shown(row: Row) -> Row:
    """A row as it is compared, instants as numbers, as the reference engine has them."""
    return tuple((each - EPOCH) // MICROSECOND if isinstance(each, datetime) else value(each) for each in row)


def with_kills(case: Case, *kills: int) -> Case:
    """The case with other kills."""
    return replace(case, choice=replace(case.choice, kills=kills))
