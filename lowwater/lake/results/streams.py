"""Between stages and intervals: tables `lfta/` and `streams/`, and states that queries hand on (SEMANTICS I4)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from hashlib import file_digest, sha256
from itertools import groupby
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from lowwater import documents
from lowwater.errors import LakeError
from lowwater.lake import layout, open_tables, tables
from lowwater.lake.tables import create, describe
from lowwater.storage import digests, locks, paths
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.untrusted import open_regular

if TYPE_CHECKING:
    from deltalake import DeltaTable


# A run writes files into the folder of its attempt. Here they replace the interval's earlier files, in one commit.


Range = tuple[int, int]
"""An interval [start, end), ns."""


def write_stream(
    path: PurePath,
    schema: pa.Schema,
    files: Mapping[Range, Iterable[PurePath | Sequence[PurePath]]],
    owner: str,
    fence: locks.Fence | None = None,
    key: str = "",
    stays: bool = False,
) -> dict[Range, int]:
    """Replaces intervals of a stream, in one commit, by parquet files in order; those of one part of the stream are a
    sequence. They lie on the lake's disk or in the lake, and are moved; with `stays` they have their old names as well,
    by which others read them. Returns the number of their rows in each interval, punctuation included. `key`: of what
    they are made of, by which `stream_key` finds them; empty for none.
    Raises OwnerError if another query set owns the table, and LakeError if the table cannot be written."""
    create(path, schema, ["interval"], owner)
    labels = {span: tables.interval_label(*span) for span in files}
    folders = {span: path / f"interval={label}" for span, label in labels.items()}
    attempt = uuid.uuid4().hex[:12]
    described: dict[Range, list[tables.DataFile]] = {}
    with tables.lake_errors(f"{path}: rows of {', '.join([*labels.values()][:1])} cannot be written"):
        for span, parts in files.items():
            targets: list[PurePath] = []
            for part, sources in enumerate([each] if isinstance(each, PurePath) else each for each in parts):
                for index, source in enumerate(sources):
                    name = f"{attempt}-{part:05d}-{index:05d}{key and f'-{key}'}"
                    targets.append(paths.take_sealed(source, folders[span] / f"{name}.parquet", stays))
            described[span] = [describe(path, target, {"interval": labels[span]}) for target in targets]
        # The run has the lock of its intervals: files of another attempt are of one that has ended. They are looked for
        # before the commit, which a run that lost its lease cannot make. In a store they are work for `maintain`, since
        # to look for them takes a list for each interval.
        others: list[PurePath] = []
        written = {path / file.path for of_interval in described.values() for file in of_interval}
        for folder in () if isinstance(path, ObjectPath) else folders.values():
            others += [old for old in paths.children(folder) if old.suffix == ".parquet" and old not in written]

    def earlier(table: DeltaTable) -> list[dict[str, Any]]:
        live = tables.files_by_interval(table)
        rows = [row for label in labels.values() for row in live.get(label, ())]
        if isinstance(path, ObjectPath):
            others[:] = [path / unquote(row["path"]) for row in rows]
        return rows

    tables.swap_files(path, [file for of_interval in described.values() for file in of_interval], earlier, fence=fence)
    with tables.lake_errors(f"{path}: cannot be cleaned"):
        paths.remove(*others)
    return {span: sum(file.rows for file in of_interval) for span, of_interval in described.items()}


def stream_files(path: PurePath, start: int, end: int) -> list[PurePath]:
    """Lists the files of the interval [start, end), ns, of a stream, in order; none if it was not written."""
    return sorted(path / name for name, _ in _files_of(path, start, end))


def _files_of(path: PurePath, start: int, end: int) -> Sequence[tuple[str, int]]:
    """Path and size of the files of an interval; what the log says is divided once for all intervals of a version."""

    def by_interval(table: DeltaTable | None) -> Mapping[str, Sequence[tuple[str, int]]]:
        live = [] if table is None else tables.live_files(table)
        return tables.grouped((row["partition.interval"], (row["path"], row["size_bytes"])) for row in live)

    with tables.lake_errors(f"{path}: the table cannot be read"):
        files = open_tables.cached_value(path, "files by interval", by_interval)
    return files.get(tables.interval_label(start, end), ())


def stream_key(path: PurePath, start: int, end: int) -> str:
    """Returns the key of what the interval [start, end), ns, of a stream is made of, as the names of its files in the
    log of the table say; empty without one."""
    found = {"-".join(digests.bare(file.name).split("-")[3:]) for file in stream_files(path, start, end)}
    return found.pop() if len(found) == 1 else ""


def stream_bytes(path: PurePath, start: int, end: int) -> int:
    """Returns the size of the files of the interval [start, end), ns, of a stream."""
    return sum(size for _, size in _files_of(path, start, end))


def stream_parts(path: PurePath, start: int, end: int) -> list[list[PurePath]]:
    """Lists the same files, grouped by part of the stream."""
    files = stream_files(path, start, end)
    return [list(part) for _, part in groupby(files, lambda file: file.stem.split("-")[1])]


def fingerprint(files: Sequence[PurePath]) -> str:
    """Computes the digest of a stream's files in order: any change of a byte changes it. Returns 64 hex digits.
    Raises LakeError if a file cannot be read."""
    digest = sha256()
    for path in files:
        with tables.lake_errors(f"{path}: the stream cannot be read"):
            (there,) = paths.as_they_are([path])
            with open_regular(there) as file:
                digest.update(file_digest(file, "sha256").digest())
    return digest.hexdigest()


# A folder for every query, interval and inputs. Written by the high stage, read by the high stage of the next
# interval; the publication decides which state counts.

_DIGESTS = "digests.json"
"""File of a state with the sha256 of each other one. States of older versions have none."""
FORM = 3
"""Version of the files in a state folder, part of its name and of digests. Other versions are never read; version 1
held pickles."""


def state_folder(lake: layout.Lake, query_set: str, query: str, start: int, end: int, digest: str) -> PurePath:
    """Returns the folder of a query's state after [start, end), ns, for inputs with this digest."""
    return lake.states / tables.safe_name(query_set) / tables.safe_name(query) / f"{start}-{end}-{digest}.{FORM}"


def keep_state(files: Mapping[str, bytes], staged: Path, folder: PurePath) -> None:
    """Writes the state of a run, name of a file -> its content, into a new folder of this machine, `staged`, which
    becomes its `state_folder`. Equal inputs make equal states, so an existing state is replaced.
    Raises LakeError if the folder cannot be written."""
    try:
        staged.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (staged / name).write_bytes(content)
        (staged / _DIGESTS).write_text(json.dumps({name: sha256(data).hexdigest() for name, data in files.items()}))
        paths.flush(*(staged / name for name in (*files, _DIGESTS)))
        paths.take_folder(staged, folder)
    except OSError as error:
        raise LakeError(
            f"{folder}: cannot be written: {error.strerror}", "check that the lake is writable and its disk has room"
        ) from None


def kept_state(folder: PurePath) -> dict[str, bytes]:
    """Returns the files of a state; none if it is not there.
    Raises LakeError if they are not as they were written."""
    local = paths.local_folder(folder)
    files = {file.name: file.read_bytes() for file in local.iterdir() if file.is_file()} if local.is_dir() else {}
    written = documents.json_value(files.pop(_DIGESTS, b"{}").decode())
    for name, digest in written.items():
        if sha256(files.get(name, b"")).hexdigest() != digest:
            text = f"{folder / name}: a state cannot be read: its bytes are not those that were written"
            raise LakeError(text, f"remove the folder {folder}, and `lowwater backfill` makes it again")
    return files


def state_digests(folder: PurePath) -> dict[str, str]:
    """Returns the digest of each file of a state, as `storage.digests` makes them; none of an older version."""
    try:
        written = documents.json_value(paths.read(folder / _DIGESTS).decode())
        return {str(name): str(digest)[: digests.DIGITS] for name, digest in written.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def other_states(folder: PurePath) -> list[PurePath]:
    """Returns the states of the same interval from other inputs, which go once this state is published."""
    span = folder.name.rpartition("-")[0]  # bounds before 1970 have a sign of their own
    return [each for each in paths.folders(folder.parent) if each.name.startswith(f"{span}-") and each != folder]
