"""Links of the queries: which queries read a link, what they wait for, and whether an interval may start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Protocol

import numpy as np

from lowwater import config, errors, instants
from lowwater.lake.layout import lake_to_read
from lowwater.lake.ledgers.captures import NEVER, Capture, Captures
from lowwater.lake.ledgers.coverage import Gap
from lowwater.lake.ledgers.runs import PUBLISH, replayed_sets
from lowwater.lake.words import FAILED
from lowwater.replay.job import Job

# The skew review shows the cost of a bound by what waits for the link.


def known_sets(root: PurePath, queries: Path) -> tuple[set[str], set[str]]:
    """The names of the query sets that are configured, or were ever run and not retired; and of the retired ones, which
    ran, and are no more in the settings, which name others, nor in the folder. Without sets in the settings none is
    retired: another folder may have been meant."""
    named, ran = set(config.load_config(root).query_sets), replayed_sets(lake_to_read(root))
    retired = {name for name in ran - named if named and not (queries / f"{name}.gsql").is_file()}
    return (named | ran) - retired, retired


def set_names(root: PurePath, queries: Path) -> list[str]:
    """The names of the query sets that are configured, or were ever run and not retired; without any, of those in a
    folder."""
    known, _ = known_sets(root, queries)
    return sorted(known or {path.stem for path in queries.glob("*.gsql")})


def retired_sets(root: PurePath, queries: Path) -> dict[str, str]:
    """The query sets that are retired, with what is said of them."""
    why = f"neither the settings nor {queries} (--queries) has it: nothing of it is due, and its tables stay"
    return dict.fromkeys(sorted(known_sets(root, queries)[1]), why)


def jobs(root: PurePath, queries: Path, tell: Callable[[str, errors.LowwaterError], object] | None = None) -> list[Job]:
    """Opens the query sets of a lake that can be planned. `tell`: called with each other one and its error."""
    found = []
    for name in set_names(root, queries):
        try:
            found.append(Job.open(root, name, queries))
        except errors.LowwaterError as error:
            if tell is not None:
                tell(name, error)
    return found


@dataclass(frozen=True)
class ReadingQuery:
    """A query that reads the link, as the JSON of a review has it."""

    query_set: str
    query: str
    # largest skew of its other links; its rows wait at least so long (P3). None without other links
    other_links_wait_ns: int | None
    rows_per_second: float | None  # that it published; None without publications in the range


def readers(chosen: Iterable[Job], link: str, rates: Mapping[tuple[str, str], float]) -> list[ReadingQuery]:
    """The output queries that read a link. `rates`: result of `row_rates`."""
    reading = []
    for job in chosen:
        for query in job.plan.queries:
            if link in query.links:
                beside = [job.config.link(other).pieces()[-1] for other in query.links if other != link]
                others = [each.settings.longest_skew for each in beside]
                rate = rates.get((job.query_set, query.name))
                reading.append(ReadingQuery(job.query_set, query.name, max(others, default=None), rate))
    return reading


class Row(Protocol):
    """The columns that `row_rates` reads from a row of `replays`."""

    @property
    def query_set(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def interval_start(self) -> int: ...
    @property
    def interval_end(self) -> int: ...
    @property
    def stage(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def rows(self) -> int | None: ...


def row_rates(replays: Iterable[Row], start: int, end: int) -> dict[tuple[str, str], float]:
    """(query set, query) -> rows per second published in the intervals that overlap [start, end), ns. `replays`: rows
    of the ledger, oldest first."""
    newest = {
        (row.query_set, row.query, row.interval_start): (row.rows or 0, row.interval_end - row.interval_start)
        for row in replays
        if row.stage == PUBLISH and row.state != FAILED and row.interval_start < end and row.interval_end > start
    }
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for (query_set, query, _), (rows, span) in newest.items():
        rows_and_span = totals.get((query_set, query), (0, 0))
        totals[query_set, query] = rows_and_span[0] + rows, rows_and_span[1] + span
    return {key: rows * instants.SECOND / span for key, (rows, span) in totals.items()}


# May an interval start? Links that have not reported yet, and gaps that will not close (SEMANTICS T5, T6). The sensor
# of Airflow asks repeatedly; the run itself checks once more with `IntervalInputs.require`.


@dataclass(frozen=True)
class LinkReadiness:
    """The readiness of the links of an interval."""

    missing: tuple[str, ...]  # one line for each gap that captures may still close
    # error of a gap that no run can pass: its link has policy `fail`, and either the capture of that time is cut, or
    # the patience is over
    failure: errors.GapError | None

    @property
    def ready(self) -> bool:
        return not self.missing and self.failure is None


def link_readiness(job: Job, start: int, end: int, patient: bool) -> LinkReadiness:
    """Checks which links have reported to the end of an interval.

    A gap inside the declared coverage of a cut capture does not close by itself: policy `fail` fails at once, policy
    `publish` starts at once. Any other gap may only mean that the capture is not ingested yet, or was still growing.
    `patient`: whether captures may still come; otherwise only links of policy `wait` are waited for."""
    captures = job.captures()
    missing: list[Gap] = []
    inputs = job.inputs(start, end, captures)
    for gap in inputs.gaps():
        policy = job.config.link(gap.link).policy
        mine = captures.get(gap.link, ())
        definite = not patient or _was_covered(gap, mine)
        if policy == "fail" and definite:
            return LinkReadiness((), inputs.gap_error(gap))
        if policy == "wait" or not definite:
            missing.append(gap)
    return LinkReadiness(tuple(inputs.gap_texts(missing)), None)


def _was_covered(gap: Gap, captures: Sequence[Capture]) -> bool:
    """Whether a capture was declared to cover the gap, and ended before it."""
    ordered = Captures.of(captures)
    begins, ends = ordered.numbers("declared_from", NEVER[0]), ordered.numbers("declared_to", NEVER[1])
    return bool(np.any((begins <= gap.since) & (ends >= gap.until) & (ordered.numbers("growing") == 0)))
