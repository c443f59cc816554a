"""Ingests what a watch has found: for `lowwater ingest --watch`, `lowwater watch`, and the look of Airflow.

Nothing is kept but the lake, so it may be killed and started again at any time.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from threading import Event, Lock
from typing import TypeVar

from lowwater import errors, instants, threads
from lowwater.catalog.protocols import RECORD_KINDS
from lowwater.config import Config
from lowwater.lake.ingestion import folders
from lowwater.lake.ingestion.arrivals import FileState, Found, Watch, portions
from lowwater.lake.ingestion.batch import IngestResult
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import left_out_words
from lowwater.limits import GIVEN_UP_WAIT, LINKS_AT_ONCE
from lowwater.link_names import family_of
from lowwater.replay.progress import Progress
from lowwater.replay.stages.runners import ingest_tasks
from lowwater.storage.failures import away

T = TypeVar("T")


@dataclass(frozen=True)
class Refusal:
    """A file of a link that was refused, and why."""

    link: str
    file: str  # its name
    why: str
    path: str = ""


def of_every_link(error: errors.LowwaterError) -> bool:
    """Whether an ingest of another link would end alike: the disk, the store or the Spark is away."""
    return away(error) or isinstance(error, errors.SparkError)


def _over(hindered: errors.LowwaterError | None) -> bool:
    return hindered is not None and of_every_link(hindered)


Ingested = tuple[list[IngestResult], dict[Path, Refusal], errors.LowwaterError | None]
"""Results of the files of a link; those that are refused; and an error that is no fault of a file: a full disk, an
absent store or Spark, a worker of it that died, or another process."""


def ingest_readable(
    lake: Lake,
    link: str,
    files: Sequence[Path],
    config: Config,
    tasks: threads.TaskMap,
    growing: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> Ingested:
    """Ingests files of a link, but those that are refused, also before an error. Arguments as of `ingest`."""
    refused: dict[Path, errors.LowwaterError] = {}
    results: list[IngestResult] = []
    hindered: errors.LowwaterError | None = None
    try:
        results = ingest(lake, link, files, config, None, tasks, growing, clock, refusals=refused)
    except errors.LowwaterError as error:
        if error.repeats and not isinstance(error, errors.LakeError):  # of the link
            refused = {files[0]: error}
        else:  # also of a task that Spark could not end, such as where its worker ran out of memory
            hindered = error
    return results, {path: Refusal(link, path.name, str(why), str(path)) for path, why in refused.items()}, hindered


def try_again(
    lake: Lake, config: Config, link: str, path: Path, tasks: threads.TaskMap
) -> tuple[list[IngestResult], str]:
    """Ingests a file that was refused before, if it is still one for the ingest; returns results, and why it is not
    taken. Without either it is gone, set aside, in the lake by now, or no file of the link any more.
    Raises LowwaterError where the disk, a store, Spark or another process hinders."""
    if family_of(link) not in config.links or not config.link(link).patterns:
        return [], ""
    (found,) = Watch(lake, folders.SETTLED, growing=True, link=link).look(config)
    if path in (file for file, _ in found.growing):
        return [], f"{path.name} is still being written"
    if path not in (file for file, _ in found.complete):
        return [], ""
    results, refused, hindered = ingest_readable(lake, link, [path], config, tasks)
    if hindered is not None:
        raise hindered
    return results, next((each.why for each in refused.values()), "")


def each_link(
    ingested: Callable[[str], T],
    links: Iterable[str],
    tasks: threads.TaskMap,
    hinders: Callable[[T], bool] = lambda _: False,
) -> Iterator[T]:
    """Yields what the ingest of each link gives, in order. On Spark several links are at work: one task surveys a file
    before others pack it, so a link alone leaves the rest idle. In this process it is one after the other: each has all
    threads, and all memory. Once one `hinders` all, those that have not begun are left out. Whoever takes not all of
    them gives up those that are at work."""
    turns: defaultdict[str, Lock] = defaultdict(Lock)  # the interfaces of a link have one lock of the lake
    hindered = Event()

    def in_turn(link: str) -> list[T]:
        with turns[family_of(link)]:
            if hindered.is_set():
                return []
            result = ingested(link)
        if hinders(result):
            hindered.set()
        return [result]

    if not threads.elsewhere(tasks):
        for link in links:
            yield from in_turn(link)
        return
    pool = ThreadPoolExecutor(LINKS_AT_ONCE)
    futures = [pool.submit(in_turn, link) for link in links]
    try:
        for future in futures:
            yield from future.result()
    except BaseException:  # an interruption does not wait for gigabytes, for a store, or for another ingest
        pool.shutdown(wait=False, cancel_futures=True)
        tasks.give_up()
        wait([future for future in futures if future.running()], GIVEN_UP_WAIT)
        raise
    pool.shutdown()


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
        self._complained, self._lasting = set[str](), set[str]()  # errors of the look before and of this one
        self._waiting: dict[str, int] = {}
        self._tasks: threads.TaskMap | None = None

    def complain(self, error: errors.LowwaterError) -> None:
        """Tells an error, once for as long as each look meets it."""
        if str(error) not in self._complained | self._lasting:
            self._tell(f"error: {error}", True)
        self._lasting.add(str(error))

    def take(self, arrivals: Sequence[Found], config: Config) -> bool:
        """Ingests files, a portion after the other, until it is stopped. Returns whether a file was ingested."""
        self.results, self.refusals, self.hindered = [], [], None
        self._complained, self._lasting = self._lasting, set()
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
        for turn in zip_longest(*map(_portions, arrivals)):
            ingested = self._ingested({portion.link: portion for portion in turn if portion is not None}, config)
            for portion, outcome in ingested:
                if outcome is not None:
                    busy |= self._took(portion, *outcome)
            if _over(self.hindered) or self._stopped():
                return busy
        return busy

    def _ingested(self, turn: Mapping[str, _Portion], config: Config) -> Iterator[tuple[_Portion, Ingested | None]]:
        """Ingests a portion of each link; yields None for the first that was not begun, since it was stopped."""
        tasks = self._tasks = self._tasks or ingest_tasks(config, Progress(), self._spark)

        def ingested(link: str) -> tuple[_Portion, Ingested | None]:
            portion = turn[link]
            if self._stopped():
                return portion, None
            files = [path for path, _ in portion.files]
            return portion, ingest_readable(self._lake, link, files, config, tasks, portion.growing, self._clock)

        return each_link(ingested, turn, tasks, lambda each: each[1] is None or _over(each[1][2]))

    def _took(
        self,
        portion: _Portion,
        results: list[IngestResult],
        refused: dict[Path, Refusal],
        hindered: errors.LowwaterError | None,
    ) -> bool:
        """Tells what became of a portion. Returns whether a file was ingested."""
        tried = portion.files
        if hindered is not None:  # the next look tries the others again
            if not _over(self.hindered):
                self.hindered = hindered
                self.complain(hindered)
            tried = [each for each in tried if each[0] in refused]
        for refusal in refused.values():
            self.refused += 1
            self.refusals.append(refusal)
            self._tell(f"error: {refusal.why}", True)
        self.watch.tried(tried)
        if not results:
            return False
        self.results += results
        for result in results:
            self.files += result.state != "known"
            for line in _lines(result):
                self._tell(line, False)
        return True


@dataclass(frozen=True)
class _Portion:
    """Files of a link that are ingested together, complete ones or growing ones."""

    link: str
    files: Sequence[tuple[Path, FileState]]
    growing: bool


def _portions(arrival: Found) -> Iterator[_Portion]:
    for files, growing in ((arrival.complete, False), (arrival.growing, True)):
        for portion in portions(files):
            yield _Portion(arrival.link, portion, growing)


def _lines(result: IngestResult) -> Iterator[str]:
    for row in result.captures:
        covered = f"{instants.format_instant(row.covers_from)}/{instants.format_instant(row.covers_to)}"
        notes = [text for text in (result.note, left_out_words(row.left_out_counts)) if text]
        note = "".join(f"; {text}" for text in notes)
        counted = "records" if row.format in RECORD_KINDS else "packets"
        numbers = f"{row.packets:,} {counted}, {row.malformed:,} malformed"
        yield f"{row.link}: {result.path.name} {result.state}, {numbers}, covers {covered}{note}"
