"""Makes the rows of an earlier version of a published table visible again, for one interval, in one commit.

The lake's part of `lowwater rollback`; `replay.rollback` records the act. Subscribers are told of it as a restatement.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as pads

from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.lake.described import describe
from lowwater.lake.layout import Lake
from lowwater.lake.results.exploring import result_table
from lowwater.lake.results.instants import completed
from lowwater.lake.results.publish import (
    Notes,
    PublishResult,
    copy_file,
    is_inside,
    meeting_files,
    parts_of,
    rest_of,
    there,
)
from lowwater.lake.results.published_log import Act, last_note
from lowwater.lake.tables import DataFile, lake_errors, swap_files
from lowwater.plan.operators import Field

if TYPE_CHECKING:
    from deltalake import DeltaTable

ROLLED_BACK_NOTE = "lowwater.rolled_back"
"""Key of what a commit says of a roll back, beside the note of a publication: JSON of version, person and reason."""


def restore(
    lake: Lake,
    query_set: str,
    query: str,
    fields: Sequence[Field],
    start: int,
    end: int,
    version: int,
    told: dict[str, str],
    act: Act | None = None,
) -> PublishResult:
    """Replaces the rows with `_last` in [start, end), ns, by those of an earlier version of the table.

    Args:
        lake: the lake, with the fence of the interval.
        query_set: owner of the table.
        query: name of the query.
        fields: fields of the query's plan node.
        start: begin of the interval, ns since the epoch.
        end: end of the interval, ns, exclusive.
        version: version of the table whose rows come back.
        told: who did it and why; the commit says it.
        act: the publication of the whole set; None for one of this table alone.

    Returns:
        The rows that are visible now.

    Raises:
        LakeError: the version does not have the interval, its files are gone, or the table cannot be written.
    """
    path = lake.table(query)
    earlier = result_table(lake, query, version)
    if version == earlier.newest:
        raise LakeError(f"table {query}: version {version} is the newest one", "name an earlier version")
    note = last_note(path, version)
    files = meeting_files(earlier.opened(), start, end)
    # An older version of Lowwater wrote no notes: an interval without rows is then taken for one that is not there.
    present = bool(files) if note is None else any(first <= start and end <= last for first, last in note.ranges)
    if not present:
        raise LakeError(
            f"table {query}: in version {version} the interval of {format_instant(start)} is not published",
            "name a later version: `lowwater history` lists them",
        )
    schema = earlier.stored
    attempt = uuid.uuid4().hex[:12]
    added: list[DataFile] = []
    cut = []
    with lake_errors(f"{path}: the rows of version {version} cannot be put there"):
        for at, row in enumerate(files):
            file = path / row["path"]
            if is_inside(row, start, end):
                added.append(copy_file(path, f"{attempt}-{at:05d}.parquet", file, describe(path, file, {})))
            else:
                cut.append(file)
        if cut:
            within = (pads.field("_last") >= start) & (pads.field("_last") < end)
            added += parts_of(path, cut, schema, within)
        added = [completed(path, file, fields) for file in added]

    def rewrite(old_files: list[dict[str, Any]]) -> list[DataFile]:
        cut_files = there(path / row["path"] for row in old_files if not is_inside(row, start, end))
        newest = result_table(lake, query).stored
        return parts_of(path, cut_files, newest, rest_of(start, end)) if cut_files else []

    notes = Notes(lake, query_set, query, fields, start, end, act or Act.begin(1))

    def told_notes(newest: DeltaTable) -> dict[str, str | int]:
        return {**notes(newest), ROLLED_BACK_NOTE: json.dumps({"version": version, **told})}

    swap_files(path, added, lambda newest: meeting_files(newest, start, end), rewrite, lake.fence, told_notes)
    return PublishResult(query, sum(file.rows for file in added), True, notes.number)
