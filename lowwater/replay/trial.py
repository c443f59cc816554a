"""Trials: a lake beside the lake, in `tries/NAME`, in which changed queries and skews run before they are published.

A trial shares packets and the ledger of captures with its lake, and has everything else of its own. `lowwater try`
makes it, runs intervals in it, compares them with what is published, and promotes or drops it.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from lowwater import documents, instants, limits
from lowwater.errors import LakeError, nearest
from lowwater.lake import layout, locks, tables, words
from lowwater.lake.keys import differences
from lowwater.lake.ledgers import runs
from lowwater.lake.results.exploring import RowQuery, TableDiff, compare, result_table
from lowwater.lake.results.publish import require_types
from lowwater.lake.results.streams import keep_state, kept_state, state_folder, stream_files, write_stream
from lowwater.plan.properties import hands_over, unique_key
from lowwater.replay.interval import replay
from lowwater.replay.job import Job, TrialChanges
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.backfill import BackfillListener, IntervalResult, backfill
from lowwater.replay.schedule.due import Due, DueSelection, due
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath

Bounds = tuple[int, int]

PUBLISHED = (words.DONE, words.PROVISIONAL, words.INCOMPLETE)
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Trial:
    """A trial of changes to one query set."""

    name: str
    lake: layout.Lake
    query_set: str
    changes: TrialChanges
    job: Job  # the query set of the lake, as it is
    tried: Job  # the query set with the changes, over the lake of the trial

    def run(self, start: int | None, end: int | None, workers: int, watch: BackfillListener) -> list[IntervalResult]:
        """Runs the intervals of [start, end), ns, None for no bound, whose rows may differ from those published.
        Raises LowwaterError if the session cannot be started, or the range is wrong."""
        work = self.due(start, end)
        return backfill([self.tried], work, workers, watch=watch) if work else []

    def due(self, start: int | None, end: int | None) -> list[Due]:
        """Lists the intervals of [start, end), ns, that the trial has not run and that are not published so."""
        return [each for each in due(self.tried, DueSelection(start, end)) if not self.same((each.start, each.end))]

    def same(self, bounds: Bounds) -> bool:
        """Whether an interval is published from the same inputs, so that its rows are the same."""
        inputs = self.tried.inputs(*bounds, self.tried.captures())
        for query in self.tried.plan.queries:
            last = runs.last_published(self.lake, self.query_set, query.name, *bounds)
            if last is None or last.digest != inputs.digest(query):
                return False
        return True

    def intervals(self) -> list[Bounds]:
        """Lists the intervals that have run in the trial and that all its queries published there, in order."""
        rows = [row for row in runs.read_replays(self.tried.lake, self.query_set) if row.query]
        bounds = sorted({(row.interval_start, row.interval_end) for row in rows})
        return [each for each in bounds if all(self._last(query.name, each) for query in self.tried.plan.queries)]

    def _last(self, query: str, bounds: Bounds) -> runs.ReplayRow | None:
        last = runs.last_published(self.tried.lake, self.query_set, query, *bounds)
        return last if last is not None and last.state in PUBLISHED else None

    def compared(self, query: str, bounds: Sequence[Bounds]) -> TableDiff:
        """Compares a query's rows of intervals: what the lake has, and what the trial has.
        Raises LakeError if a table cannot be read, or an hour has too many rows."""
        plan = next(each for each in self.tried.plan.queries if each.name == query)
        key = unique_key(plan.logical) or ()
        tried = result_table(self.tried.lake, query)
        before = None if tables.open_table(self.lake.table(query)) is None else result_table(self.lake, query)
        total = TableDiff(tuple(tried.columns.names), key)
        for start, end in bounds:
            if before is None:
                total.added += sum(batch.num_rows for batch in tried.batches(RowQuery(start, end), ()))
                continue
            part = compare(before, tried, key, start, end)
            part.same += total.same
            part.added += total.added
            part.gone += total.gone
            part.changed += total.changed
            part.examples = [*total.examples, *part.examples]
            total = part
        return total

    def obstacles(self, bounds: Bounds) -> list[str]:
        """Says why an interval cannot be promoted: how the inputs of the lake differ from those of the trial."""
        captures = self.job.captures()
        inputs, tried = self.job.inputs(*bounds, captures), {query.name for query in self.tried.plan.queries}
        lines = [
            f"query {query.name} is not in the trial" for query in self.job.plan.queries if query.name not in tried
        ]
        present = {query.name: query for query in self.job.plan.queries}
        for name in sorted(tried):
            last = self._last(name, bounds)
            if name not in present:
                lines.append(f"query {name} is not in the query set")
            elif last is not None and last.digest != inputs.digest(present[name]):
                before = documents.stored_object(last.accounting).get("inputs", {})
                lines += differences(before, inputs.key(present[name]).summary, captures)
        return list(dict.fromkeys(lines))

    def promote(self, bounds: Bounds, progress: Progress) -> str:
        """Publishes an interval of the trial: its rows are audited in the lake, and nothing is evaluated again.
        Raises BusyError if a run is at work on the interval, and LowwaterError if the audit holds the interval back, or
        the lake cannot be written."""
        with locks.run_attempt(self.lake, self.query_set, *bounds) as (folder, fence):
            self._hand_over(replace(self.lake, fence=fence), bounds, folder)
        for stage in ("audit", runs.PUBLISH):
            outcome = replay(self.job, *bounds, stage, progress)[-1]
        return outcome.state

    def _hand_over(self, lake: layout.Lake, bounds: Bounds, folder: Path) -> None:
        """Gives the lake what the low and the high stage of the trial have left, as if they had run there."""
        start, end = bounds
        mine, name = self.tried.lake, self.query_set
        streams = [lake.stream(query.name) for query in self.tried.plan.queries]
        tables.fence_off([*streams, *lake.run_ledgers()], lake.fence)
        beats = runs.read_heartbeats(mine, name, start, end).drop_columns(["query_set"])
        runs.record_heartbeats(lake, name, start, end, beats)
        for link in self.tried.plan.links:
            settings = self.tried.config.link(link)
            rows = runs.read_violations(mine, link, settings, start, end)
            runs.record_violations(lake, link, settings, start, end, rows.drop_columns(["link", "skew"]))
        inputs = self.tried.inputs(start, end, self.tried.captures())
        for query in self.tried.plan.queries:
            copies = []
            for at, file in enumerate(stream_files(mine.stream(query.name), start, end)):
                copies.append(folder / f"{query.name}-{at:05d}.parquet")
                shutil.copyfile(paths.local(file), copies[-1])
            schema = layout.result_schema(query.high.fields)
            write_stream(lake.stream(query.name), schema, {bounds: copies}, name, lake.fence)
            if hands_over(query.high):
                digest = inputs.digest(query)
                left = state_folder(mine, name, query.name, start, end, digest)
                kept = state_folder(lake, name, query.name, start, end, digest)
                keep_state(kept_state(left), folder / f"state-{query.name}", kept)
        newest: dict[tuple[str, str], runs.ReplayRow] = {}
        for row in runs.read_replays(mine, name, bounds):
            same = (row.interval_start, row.interval_end) == bounds
            if same and row.stage in (runs.LOW, runs.HIGH) and row.state != words.FAILED:
                newest[row.stage, row.query] = row
        latest = max((row.finished_at for row in runs.read_replays(lake, name, bounds)), default=0)
        rows = sorted(newest.values(), key=lambda row: row.finished_at)
        moved = [replace(row, finished_at=max(row.finished_at, latest + at + 1)) for at, row in enumerate(rows)]
        runs.record_replays(lake, moved)


def folder_of(lake: layout.Lake, name: str) -> PurePath:
    """Folder of a trial. Raises LakeError if no trial can have the name."""
    if not NAME.fullmatch(name):
        raise LakeError(f"{name!r} is no name of a trial", "use letters, digits, _ and -, at most 64")
    return lake.root / "tries" / name


def trials(lake: layout.Lake) -> list[str]:
    """Lists the trials of a lake by name."""
    return [path.name for path in paths.folders(lake.root / "tries")]


def open_trial(
    root: PurePath, name: str, queries: Path, query_set: str | None = None, changes: TrialChanges | None = None
) -> Trial:
    """Opens a trial, and makes it if there are changes to try; None for the query set and changes of an existing one.
    Raises LakeError if there is no such trial, it tries something else, or it names files that the caller has not, and
    LowwaterError if the query set cannot be planned."""
    lake = layout.lake_to_read(root)
    folder = folder_of(lake, name)
    stored = _read(folder)
    if stored is None and (query_set is None or changes is None):
        hint = nearest(name, trials(lake)) or "make it: --query-set NAME with --with FILE or --skew LINK=DURATION"
        raise LakeError(f"there is no trial {name!r}", hint)
    if stored is None:
        assert query_set is not None and changes is not None
        stored = query_set, changes
        planned = Job.open(root, query_set, queries, changes)  # before anything is made
        for query in planned.plan.queries:
            require_types(lake, query.name, query.high.fields)
        paths.make_folders(folder)
        paths.write(folder / layout.TRIAL, _text(*stored).encode())
    elif changes and (query_set or stored[0], changes) != stored:
        raise LakeError(f"trial {name!r} tries other changes: {_words(*stored)}", "drop it, or take another name")
    elif not changes:
        _require_given(lake, name, queries, stored[1])
    chosen, applied = stored
    job = Job.open(root, chosen, queries)
    changed = Job.open(root, chosen, queries, applied)
    beside = layout.open_lake(folder, shared=lake.root)
    return Trial(name, lake, chosen, applied, job, replace(changed, lake=beside))


def _require_given(lake: layout.Lake, name: str, queries: Path, tried: TrialChanges) -> None:
    """Checks that a trial names files of its lake or of the folder of queries only: the lake may be of somebody else.
    Raises LakeError if it names another file, which the caller has to name."""
    inside = [Path(place).resolve() for place in (lake.root, queries) if not isinstance(place, ObjectPath)]
    for file in tried.files:
        if not any(file.resolve().is_relative_to(place) for place in inside):
            options = " ".join(f"--with {shlex.quote(str(each))}" for each in tried.files)
            skews = "".join(f" --skew {link}={instants.format_duration(skew)}" for link, skew in tried.skews.items())
            raise LakeError(
                f"trial {name!r} names {file}, outside of the lake and of {queries}: nothing is read there",
                f"if this trial is yours, name what it tries again: {options}{skews}",
            )


def drop_trial(lake: layout.Lake, name: str) -> None:
    """Removes a trial and everything that it has of its own. Raises LakeError if there is no such trial."""
    folder = folder_of(lake, name)
    if _read(folder) is None:
        raise LakeError(f"there is no trial {name!r}", nearest(name, trials(lake)) or "`lowwater try` lists them")
    paths.remove_tree(folder)


def describe_trial(lake: layout.Lake, name: str) -> str:
    """Returns what a trial tries, in words."""
    stored = _read(folder_of(lake, name))
    return _words(*stored) if stored is not None else "its file trial.json is missing"


def _words(query_set: str, tried: TrialChanges) -> str:
    parts = [f"--with {file}" for file in tried.files]
    parts += [f"--skew {link}={instants.format_duration(skew)}" for link, skew in tried.skews.items()]
    return " ".join([f"query set {query_set}", *parts])


def _text(query_set: str, tried: TrialChanges) -> str:
    values = {"query_set": query_set, "files": [str(file) for file in tried.files], "skews": dict(tried.skews)}
    return json.dumps(values, indent=1)


def _read(folder: PurePath) -> tuple[str, TrialChanges] | None:
    file = folder / layout.TRIAL
    try:
        values = documents.json_value(paths.read(file, limits.STATE_BYTES))
        skews = {str(link): int(skew) for link, skew in values["skews"].items()}
        files = tuple(Path(each) for each in values["files"])
        if any("\0" in str(file) for file in files):
            raise ValueError
        return str(values["query_set"]), TrialChanges(files, skews)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "it describes no trial"
        raise LakeError(f"{file}: cannot be read: {reason}", f"remove {folder}, and begin the trial again") from None
