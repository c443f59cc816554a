"""Rolls a published interval back to an earlier version of its table, or lifts that: acts of a person.

Called by `lowwater rollback`. The row of the ledger has the digest of the present inputs, whose rows the person
refused. So nothing runs until they change or the roll back is lifted (SEMANTICS S7).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from lowwater.documents import stored_object
from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake, lake_to_read
from lowwater.lake.ledgers.runs import (
    PUBLISH,
    ROLLED_BACK,
    ReplayRow,
    last_published,
    read_replays,
    record_replays,
)
from lowwater.lake.locks import run_attempt
from lowwater.lake.results.comparing import TableDiff, compare
from lowwater.lake.results.exploring import result_table
from lowwater.lake.results.pins import publishing
from lowwater.lake.results.publish import mark, restore
from lowwater.lake.results.published_log import Act
from lowwater.lake.results.table_state import damage_of
from lowwater.lake.tables import OWNER, check_owner, fence_off
from lowwater.plan.properties.state import hands_over
from lowwater.plan.properties.unique_keys import unique_key
from lowwater.plan.queryset import QueryPlan
from lowwater.replay.job import Job
from lowwater.replay.schedule.compared import interval_of


@dataclass(frozen=True)
class RollbackTarget:
    """A published interval of a query.

    Attributes:
        job: its query set.
        query: the query.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
    """

    job: Job
    query: QueryPlan
    start: int
    end: int

    @staticmethod
    def find(root: PurePath, queries: Path, query: str, at: int) -> RollbackTarget:
        """Finds the newest published interval of a query that begins at an instant.

        Args:
            root: the lake.
            queries: folder of query sets.
            query: an output query.
            at: first instant of the interval, ns since the epoch.

        Raises:
            LakeError: there is no such query or interval, or its rows are the state of later intervals.
        """
        lake = lake_to_read(root)
        table = result_table(lake, query).opened()
        start, end = interval_of(lake, query, at)
        job = Job.open(root, table.metadata().configuration.get(OWNER) or "", queries)
        chosen = next((each for each in job.plan.queries if each.name == query), None)
        if chosen is None:
            raise LakeError(f"query set {job.query_set} has no query {query!r} any more", "add the query again")
        if hands_over(chosen.high):
            raise LakeError(
                f"query {query}: its intervals continue one another, so one alone cannot be rolled back",
                "change the query or its settings, and run `lowwater backfill`",
            )
        return RollbackTarget(job, chosen, start, end)

    def compared(self, version: int) -> TableDiff:
        """Returns what a roll back to a version changes: rows added, gone and changed."""
        lake, name = self.job.lake, self.query.name
        key = unique_key(self.query.logical) or ()
        return compare(result_table(lake, name), result_table(lake, name, version), key, self.start, self.end)

    def roll_back(self, version: int, by: str, why: str) -> int:
        """Makes the rows of an earlier version visible again, and records who did it and why.

        Args:
            version: version of the table.
            by: the person.
            why: the reason.

        Returns:
            Number of rows that are visible now.

        Raises:
            BusyError: a run is at work on the interval.
            LakeError: the version does not have the interval, or the table cannot be written.
        """

        def act(target: RollbackTarget, last: ReplayRow) -> ReplayRow:
            job, query = target.job, target.query
            names = [each.name for each in job.plan.queries]
            inputs = job.inputs(target.start, target.end, job.captures())
            before = result_table(job.lake, query.name).version
            told = {"by": by, "why": why}
            with publishing(job.lake, job.query_set, names) as act:
                made = restore(
                    *(job.lake, job.query_set, query.name, query.high.fields, target.start, target.end, version, told),
                    act,
                )
                target.mark_others(act)
            accounting = {
                "rolled_back": {"from": before, "to": version, **told},
                "inputs": inputs.parts(query),
            }
            reason = f"to version {version} by {by}: {why}"
            return replace(
                last,
                reason=reason,
                digest=inputs.digest(query),
                rows=made.rows,
                accounting=json.dumps(accounting),
                publication=made.number,
            )

        return self._record(act).rows or 0

    def mark_others(self, act: Act) -> None:
        """Says in the other tables of the set that their rows of the interval belong to an act too."""
        lake, query_set = self.job.lake, self.job.query_set
        for query in self.job.plan.queries:
            if query.name != self.query.name:
                last = last_published(lake, query_set, query.name, self.start, self.end)
                if last is not None and not damage_of(lake, query_set, query.name, self.start, self.end):
                    number = mark(lake, query.name, self.start, self.end, act)
                    record_replays(lake, [replace(last, finished_at=_after(lake, query_set, self), publication=number)])

    def lift(self, by: str, why: str) -> None:
        """Lifts a roll back: the interval is stale, and the next backfill runs it again.

        Args:
            by: the person.
            why: the reason.

        Raises:
            BusyError: a run is at work on the interval.
            LakeError: the interval is not rolled back.
        """

        def act(target: RollbackTarget, last: ReplayRow) -> ReplayRow:
            if last.state != ROLLED_BACK or not last.digest:
                raise LakeError(
                    f"query {target.query.name}: the interval of {format_instant(target.start)} is not rolled back",
                    "`lowwater status` shows the intervals that are",
                )
            accounting = {**stored_object(last.accounting), "lifted": {"by": by, "why": why}}
            return replace(
                last, reason=f"rolled back, lifted by {by}: {why}", digest="", accounting=json.dumps(accounting)
            )

        self._record(act)

    def _record(self, act: Callable[[RollbackTarget, ReplayRow], ReplayRow]) -> ReplayRow:
        """Acts under the lock of the interval, and appends the row that says so."""
        query_set, name = self.job.query_set, self.query.name
        with run_attempt(self.job.lake, query_set, self.start, self.end) as (_, fence):
            lake = replace(self.job.lake, fence=fence)
            # The other tables of the set are marked, as what the former holder left them.
            fence_off([*(lake.table(query.name) for query in self.job.plan.queries), lake.replays], fence)
            check_owner(lake.table(name), query_set)
            last = last_published(lake, query_set, name, self.start, self.end)
            if last is None:
                raise LakeError(
                    f"query {name}: the interval of {format_instant(self.start)} was replaced by intervals of another "
                    "length",
                    "roll those back: `lowwater status` lists them",
                )
            row = act(replace(self, job=replace(self.job, lake=lake)), last)
            row = replace(
                row, stage=PUBLISH, state=ROLLED_BACK, finished_at=_after(lake, query_set, self), timings="{}"
            )
            record_replays(lake, [row])
            return row


def _after(lake: Lake, query_set: str, target: RollbackTarget) -> int:
    """The time of a new row of the ledger, ns: later than all rows of the interval."""
    rows = read_replays(lake, query_set, (target.start, target.end))
    return max(time.time_ns(), max((each.finished_at for each in rows), default=0) + 1)
