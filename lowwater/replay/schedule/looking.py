"""Looks again and again: ingests what is new, then runs what a look finds due, set by set.

`lowwater watch` calls it. The clock is an argument: the tests let months pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from lowwater.config import Config, load_config
from lowwater.errors import LakeError, LowwaterError
from lowwater.high.runner import Runner
from lowwater.instants import SECOND
from lowwater.lake.ingestion.looking import look as look_into_folders
from lowwater.lake.ingestion.watching import Watch
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import FAILED
from lowwater.lake.ledgers.seen import unread_lines
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.backfill import BackfillListener, IntervalResult, Order, backfill
from lowwater.replay.schedule.due import open_jobs
from lowwater.replay.schedule.ingesting import Ingesting, Refusal, not_refused
from lowwater.replay.schedule.looks import Findings, look
from lowwater.replay.stages.runners import runner_of
from lowwater.storage.failures import outages

MOST = 100
"""Most intervals of a query set that run in one look; the next one takes up the rest, after it has ingested."""


@dataclass(frozen=True)
class LookResult:
    """What a look did.

    Attributes:
        refusals: files that were refused.
        found: what it found, set by set.
        results: the intervals that ran.
        unplanned: query set that cannot be planned -> its error.
        hindered: an error of the disk or of another process, which ended the look or a part of it; None for none.
        more: whether more can run at once.
    """

    refusals: tuple[Refusal, ...] = ()
    found: tuple[Findings, ...] = ()
    results: tuple[IntervalResult, ...] = ()
    unplanned: dict[str, LowwaterError] = field(default_factory=dict)
    hindered: LakeError | None = None
    more: bool = False

    @property
    def sound(self) -> bool:
        """Whether nothing failed, and nothing was refused, or found for the first time that cannot start."""
        news = any(left.news for found in self.found for left in found.stuck)
        failed = any(result.state == FAILED for result in self.results)
        return not (self.refusals or self.unplanned or self.hindered or news or failed)


class Looker:
    """Looks at a lake.

    Args:
        root: folder of the lake.
        names: query sets to look at; empty for those of the settings.
        queries: folder of query sets.
        tell: is told a line, and whether it is about a problem.
        listener: is told of each interval.
        workers: intervals that run at once.
        spark: as for `named_spark`.
        stopped: whether to stop: what is at work is finished.
        clock: returns the current time, ns.
        alone: whether each look is the only one of its process, which then remembers no refused file.
        settle: time without a write after which a file is complete, ns.
    """

    def __init__(
        self,
        root: PurePath,
        names: Sequence[str],
        queries: Path,
        tell: Callable[[str, bool], None],
        listener: BackfillListener | None = None,
        workers: int = 1,
        spark: str | None = None,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], int] = time.time_ns,
        alone: bool = False,
        settle: int = 10 * SECOND,
    ) -> None:
        self._root, self._names, self._queries = root, names, queries
        self._tell, self._listener, self._workers, self._spark = tell, listener, workers, spark
        self._stopped, self._clock, self._alone = stopped, clock, alone
        self._lake = open_lake(root, make=False)
        watch = Watch(self._lake, settle, clock=clock)
        self._ingesting = Ingesting(self._lake, watch, tell, stopped, clock, spark)
        self._runner: tuple[object, Runner] | None = None
        self._unread: list[str] = []

    def look(self) -> LookResult:
        """Looks once.

        Raises:
            ConfigError: the settings are wrong.
            KeyboardInterrupt: the user interrupted it; running intervals were finished first.
        """
        try:
            with outages():
                return self._look(load_config(self._root))
        except LakeError as error:  # a full disk, a store that is away, another process
            self._ingesting.complain(error)
            return LookResult(hindered=error)

    def _look(self, config: Config) -> LookResult:
        self.ingest(config)
        unplanned: dict[str, LowwaterError] = {}
        jobs = open_jobs(self._root, self._names, self._queries, unplanned.__setitem__)
        found = tuple(look(job, self._clock()) for job in jobs)
        work = [each for one in found for each in one.runs[:MOST]]
        results: list[IntervalResult] = []
        if work and not self._stopped():
            runner = self._runner_of(config)
            order = Order.OLDEST
            results = backfill(jobs, work, self._workers, order, self._listener, runner, ask=True)
        more = any(len(one.runs) > MOST for one in found)
        refusals = tuple(self._ingesting.refusals)
        return LookResult(refusals, found, tuple(results), unplanned, self._ingesting.hindered, more)

    def ingest(self, config: Config) -> Ingesting:
        """Ingests every file that is new, or has changed, and is complete, whichever interval it is of."""
        if any(link.captures is not None for link in config.links.values()):
            arrivals = self._ingesting.watch.look(config)
            busy = self._ingesting.take(not_refused(self._lake, arrivals) if self._alone else arrivals, config)
            look_into_folders(self._lake, config, self._clock)
            lines = unread_lines(self._lake, config, hint=False)
            for line in lines if busy or lines != self._unread else ():
                if line not in self._unread:
                    self._tell(line, True)
            self._unread = lines
        return self._ingesting

    def _runner_of(self, config: Config) -> Runner:
        wanted = config.spark, config.replay
        if self._runner is None or self._runner[0] != wanted:
            self._runner = wanted, runner_of("lowwater watch", config, Progress(quiet=True), self._spark)
        return self._runner[1]


def pause_after(hindered: int, config: Config) -> int:
    """The time to the next look, ns, after so many in a row that the disk or another process hindered."""
    every = config.schedule.every
    return every if not hindered else max(every, min(every << min(hindered, 40), config.schedule.longest_pause))
