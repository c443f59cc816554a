"""Ingests what a watch has found: for `lowwater ingest --watch`, `lowwater watch`, and the look of Airflow.

Nothing is kept but the lake, so it may be killed and started again at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lowwater import errors, instants, threads
from lowwater.catalog.protocols import RECORD_KINDS
from lowwater.config import Config
from lowwater.lake.ingestion.arrivals import FileState, Found, Watch, portions
from lowwater.lake.ingestion.batch import IngestResult
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import left_out_words
from lowwater.replay.progress import Progress
from lowwater.replay.stages.runners import ingest_tasks
from lowwater.storage.failures import away


@dataclass(frozen=True)
class Refusal:
    """A file of a link that was refused, and why."""

    link: str
    file: str
    why: str


def of_every_link(error: errors.LowwaterError) -> bool:
    """Whether an ingest of another link would end alike: the disk, the store or the Spark is away."""
    return away(error) or isinstance(error, errors.SparkError)


def ingest_readable(
    lake: Lake,
    link: str,
    files: Sequence[Path],
    config: Config,
    tasks: threads.TaskMap,
    growing: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> tuple[list[IngestResult], dict[Path, Refusal], errors.LowwaterError | None]:
    """Ingests files of a link, but those that are refused. Arguments as of `ingest`. The error, if there is one, is no
    fault of a file: a full disk, an absent store or Spark, or another process; what was refused before it is."""
    refused: dict[Path, errors.LowwaterError] = {}
    results: list[IngestResult] = []
    hindered: errors.LowwaterError | None = None
    try:
        results = ingest(lake, link, files, config, None, tasks, growing, clock, refusals=refused)
    except (errors.LakeError, errors.SparkError) as error:
        hindered = error
    except errors.LowwaterError as fault:  # of the link
        refused = {files[0]: fault}
    return results, {path: Refusal(link, path.name, str(why)) for path, why in refused.items()}, hindered


class Ingesting:
    """Ingests the files that a watch finds. `stopped`: whether to stop before the next portion."""

    def __init__(
        self,
        lake: Lake,
        watch: Watch,
        tell: Callable[[str, bool], None],
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], int] = time.time_ns,
        spark: str | None = None,
    ) -> None:
        self.watch = watch
        self.files = self.refused = 0
        # Since `take` was last called. What hindered is of the disk, of Spark or of another process; the next look
        # tries again.
        self.results: list[IngestResult] = []
        self.refusals: list[Refusal] = []
        self.hindered: errors.LowwaterError | None = None
        self.faults: dict[str, str] = {}  # link -> what is wrong with its settings, so that its files wait
        self._lake, self._tell, self._stopped, self._clock, self._spark = lake, tell, stopped, clock, spark
        self._complained = ""
        self._waiting: dict[str, int] = {}
        self._tasks: threads.TaskMap | None = None

    def complain(self, error: errors.LowwaterError) -> None:
        """Tells an error, once for as long as it lasts."""
        if str(error) != self._complained:
            self._complained = str(error)
            self._tell(f"error: {error}", True)

    def take(self, arrivals: Sequence[Found], config: Config) -> bool:
        """Ingests files, a portion after the other, until it is stopped. Returns whether a file was ingested."""
        self.results, self.refusals, self.hindered = [], [], None
        busy, faults = False, {each.link: str(each.fault) for each in arrivals if each.fault is not None}
        for link, fault in faults.items():
            if self.faults.get(link) != fault:
                self._tell(f"error: link {link!r} waits: {fault}", True)
        self.faults = faults
        for arrival in arrivals:
            if arrival.waiting != self._waiting.get(arrival.link, 0):
                self._waiting[arrival.link] = arrival.waiting
                if arrival.waiting:
                    self._tell(f"{arrival.link}: {arrival.waiting:,} still being written", True)
            for files, growing in ((arrival.complete, False), (arrival.growing, True)):
                for portion in portions(files):
                    if self._stopped():
                        return busy
                    busy |= self._ingest(arrival.link, portion, config, growing)
                    if self.hindered is not None and of_every_link(self.hindered):
                        return busy
        return busy

    def _ingest(self, link: str, portion: Sequence[tuple[Path, FileState]], config: Config, growing: bool) -> bool:
        files = [path for path, _ in portion]
        self._tasks = self._tasks or ingest_tasks(config, Progress(), self._spark)
        asked = self._lake, link, files, config, self._tasks, growing, self._clock
        results, refused, hindered = ingest_readable(*asked)
        if hindered is not None:  # the next look tries the others again
            self.hindered = hindered
            self.complain(hindered)
            portion = [each for each in portion if each[0] in refused]
        for refusal in refused.values():
            self.refused += 1
            self.refusals.append(refusal)
            self._tell(f"error: {refusal.why}", True)
        self.watch.tried(portion)
        if not results:
            return False
        self._complained = ""
        self.results += results
        for result in results:
            self.files += result.state != "known"
            for line in _lines(result):
                self._tell(line, False)
        return True


def _lines(result: IngestResult) -> Iterator[str]:
    for row in result.captures:
        covered = f"{instants.format_instant(row.covers_from)}/{instants.format_instant(row.covers_to)}"
        notes = [text for text in (result.note, left_out_words(row.left_out_counts)) if text]
        note = "".join(f"; {text}" for text in notes)
        counted = "records" if row.format in RECORD_KINDS else "packets"
        numbers = f"{row.packets:,} {counted}, {row.malformed:,} malformed"
        yield f"{row.link}: {result.path.name} {result.state}, {numbers}, covers {covered}{note}"
