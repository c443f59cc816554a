"""What of an interval is there already under the keys that are wanted, and need not be made again (SEMANTICS S1): rows
of LFTAs, streams of queries, and what the lake of a trial has.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import takewhile
from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import documents, errors
from lowwater.lake import layout, tables, words
from lowwater.lake.ledgers import runs
from lowwater.lake.ledgers.intervals import merged
from lowwater.lake.results import streams
from lowwater.plan import operators as ops
from lowwater.replay.job import IntervalInputs, Job
from lowwater.storage import paths


def lfta_folder(lfta: ops.Lfta) -> str:
    """The folder of an LFTA's rows; it contains a hash of the columns, so a changed query gets a new folder."""
    columns = ",".join(f"{f.name}:{f.type}" for f in lfta.fields)
    return f"{lfta.name}-{sha256(columns.encode()).hexdigest()[:8]}"


def low_range(row: runs.ReplayRow) -> tuple[int, int]:
    """The range [start, end), ns, under which the rows of LFTAs of an interval are stored, as a row of its low stage
    says: that of the batch in which it ran."""
    first, end = documents.stored_object(row.accounting).get("range", row.interval)
    return int(first), int(end)


def lows_there(job: Job, start: int, end: int) -> dict[str, str]:
    """LFTA -> key of its rows over [start, end), ns, in the lake, with their accounts: what the last low stage about
    each instant of it says, and the log of the table. One that failed or was killed says of none, and so does one of
    another range, which has replaced the accounts, but not the rows."""
    said = [row for row in runs.interval_replays(job.lake, job.query_set, start, end) if row.stage == runs.LOW]
    own = [*takewhile(lambda row: row.state != words.FAILED and low_range(row) == (start, end), reversed(said))]
    if merged(row.interval for row in own) != [(start, end)]:
        return {}
    told = documents.stored_object(own[0].accounting).get("lows", {})
    found = {}
    for lfta in job.plan.lftas:
        table = job.lake.lfta(job.query_set, lfta_folder(lfta))
        if lfta.name in told and streams.stream_key(table, start, end) == told[lfta.name]:
            found[lfta.name] = told[lfta.name]
    return found


def has_lows(job: Job, start: int, end: int) -> bool:
    """Whether the lake has rows of every LFTA under [start, end), ns, as the logs of their tables say."""
    tables_ = (job.lake.lfta(job.query_set, lfta_folder(lfta)) for lfta in job.plan.lftas)
    return all(streams.stream_files(table, start, end) for table in tables_)


def home(job: Job, inputs: IntervalInputs) -> tuple[int, int] | None:
    """The range [start, end), ns, under which rows of LFTAs are stored that a run of an interval may use: its own, or
    that of the batch in which it ran; None where no row is of these inputs. A trial looks in its lake as well."""
    own = inputs.start, inputs.end
    for root in filter(None, (job.lake.root, job.lake.shared)):
        theirs = replace(job, lake=layout.Lake(root))
        said = [row for row in runs.interval_replays(theirs.lake, job.query_set, *own) if row.stage == runs.LOW]
        if not said or said[-1].interval != own or said[-1].state == words.FAILED:
            continue
        span = low_range(said[-1])
        there = lows_there(theirs, *span)
        if there and (span != own or not there.items().isdisjoint(inputs.low_keys().items())):
            return span
    return None


def has_stream(job: Job, rows: Sequence[runs.ReplayRow], query: str, digest: str, start: int, end: int) -> bool:
    """Whether the stream of a query over [start, end), ns, is that of inputs with this digest, byte for byte, as these
    rows of the ledger about the interval say."""
    made = [row for row in rows if row.stage == runs.HIGH and row.query in (query, "")][-1:]
    if not made or made[0].state == words.FAILED or made[0].digest != digest:
        return False
    files = streams.stream_files(job.lake.stream(query), start, end)
    told = documents.stored_object(made[0].accounting).get("fingerprint")
    try:
        return bool(files) and streams.fingerprint(files) == told
    except errors.LakeError:
        return False


@dataclass(frozen=True)
class Taken:
    """Rows of LFTAs over an interval that a trial takes from its lake, with what the lake tells of them."""

    files: Mapping[str, list[list[PurePath]]] = field(default_factory=dict)  # LFTA -> copies of its files, by link
    heartbeats: pa.Table = field(default_factory=lambda: layout.HEARTBEATS.empty_table().drop_columns(["query_set"]))
    violations: Mapping[str, pa.Table] = field(default_factory=dict)  # link -> its late records


def taken(job: Job, wanted: Mapping[str, str], start: int, end: int, folder: Path) -> Taken:
    """Copies the rows of LFTAs that the lake of a trial has under wanted keys, LFTA -> key, to a folder.
    Without a trial it is nothing.
    Raises LakeError if the lake cannot be read, or a run there takes them away meanwhile."""
    if job.lake.shared is None or not wanted:
        return Taken()
    theirs = replace(job, lake=layout.Lake(job.lake.shared))

    def there() -> set[str]:
        found = lows_there(theirs, start, end)
        return {name for name, key in wanted.items() if found.get(name) == key}

    names, files = there(), dict[str, list[list[PurePath]]]()
    with tables.lake_errors(f"{theirs.lake.root}: the rows of LFTAs cannot be copied"):
        for lfta in (lfta for lfta in job.plan.lftas if lfta.name in names):
            stored = streams.stream_parts(theirs.lake.lfta(job.query_set, lfta_folder(lfta)), start, end)
            if all(paths.exists(file) for group in stored for file in group):
                files[lfta.name] = [
                    [
                        _copied(file, folder / f"{lfta_folder(lfta)}-{part}-{at}.parquet")
                        for at, file in enumerate(group)
                    ]
                    for part, group in enumerate(stored)
                ]
    lftas = [lfta for lfta in job.plan.lftas if lfta.name in files]
    beats = runs.read_heartbeats(theirs.lake, job.query_set, start, end).drop_columns(["query_set"])
    links = {link for lfta in lftas for link in lfta.links}
    late = {
        link: runs.read_violations(theirs.lake, link, job.config.link(link), start, end).drop_columns(["link", "skew"])
        for link in sorted(links)
    }
    if there() != names:  # a run there has replaced some of it meanwhile: all are made here
        return Taken()
    return Taken(files, beats.filter(pc.field("lfta").isin(pa.array(sorted(files), pa.string()))), late)


def _copied(file: PurePath, target: Path) -> PurePath:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(paths.local(file), target)
    return target
