"""Between stages and intervals: tables `lfta/` and `streams/`, and states that queries hand on (SEMANTICS I4)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import file_digest, sha256
from itertools import groupby
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from lowwater import documents
from lowwater.caches import make_folder
from lowwater.errors import LakeError
from lowwater.lake import footers, layout, open_tables, tables
from lowwater.lake.tables import create, describe
from lowwater.storage import digests, locks, paths
from lowwater.storage.failures import hint_in_lake
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

    replaced = Replaced(path, labels.values())

    def earlier(table: DeltaTable) -> list[dict[str, Any]]:
        rows = replaced.rows(table)
        if isinstance(path, ObjectPath):
            others[:] = [path / unquote(row["path"]) for row in rows]
        return rows

    new = [file for of_interval in described.values() for file in of_interval]
    tables.swap_files(path, new, earlier, replaced.rest, fence)
    with tables.lake_errors(f"{path}: cannot be cleaned"):
        paths.remove(*others)
    return {span: sum(file.rows for file in of_interval) for span, of_interval in described.items()}


def stream_files(path: PurePath, start: int, end: int) -> list[PurePath]:
    """Lists the files of the interval [start, end), ns, of a stream, in order; none if it was not written. Those in the
    file of a day are taken out of it, onto this machine."""
    return sorted(path / name for name, _ in _own(path, start, end)) or _taken_out(path, start, end)


class _Listed(NamedTuple):
    """What the log of a stream says: path and size of the files of each interval, and of those of days, which begin
    and end somewhere (ns)."""

    own: Mapping[str, Sequence[tuple[str, int]]]
    days: Sequence[tuple[int, int, str]]


def rows_of(table: DeltaTable | None) -> list[dict[str, Any]]:
    """Lists the files of a stream as `live_files`, without their bounds: there may be thousands."""
    files = None if table is None else tables.files_of(table)
    names = ["path", "size_bytes", "partition.interval"]
    return [] if files is None or not files.num_rows else files.select(names).to_pylist()


def _listed(path: PurePath) -> _Listed:
    """What the log says is divided once for all intervals of a version."""

    def divided(table: DeltaTable | None) -> _Listed:
        live = rows_of(table)
        own = tables.grouped(
            (row["partition.interval"], (row["path"], row["size_bytes"])) for row in live if not is_of_day(row)
        )
        spans = ((tables.label_bounds(row["partition.interval"]), row["path"]) for row in live if is_of_day(row))
        return _Listed(own, [(*span, name) for span, name in spans if span is not None])

    with tables.lake_errors(f"{path}: the table cannot be read"):
        return open_tables.cached_value(path, "files by interval", divided)


def _own(path: PurePath, start: int, end: int) -> Sequence[tuple[str, int]]:
    return _listed(path).own.get(tables.interval_label(start, end), ())


# Old intervals of a stream lie in one file a day, byte for byte (`lake.packing`, docs/adr/0207). What of it an
# interval has is taken out where it is asked for, and by whoever replaces the interval.

OF_DAY = "day-"
"""Begins the name of the file of a day; the files in it are named by the label of their interval and their own name."""


def is_of_day(row: Mapping[str, Any]) -> bool:
    """Whether a row of `live_files` is of the file of a day."""
    return str(row["path"]).rpartition("/")[2].startswith(OF_DAY)


def members_of(path: PurePath, name: str) -> dict[tuple[str, str], tuple[int, int]]:
    """The files in the file of a day: label of their interval and own name -> offset and bytes.
    Raises LakeError if it is damaged."""
    with tables.lake_errors(f"{path / name}: the stream cannot be read"):
        found = footers.members(paths.local(path / unquote(name)))
    return {(label, own): place for (label, _, own), place in ((key.partition(" "), at) for key, at in found.items())}


def _packed(path: PurePath, start: int, end: int) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Yields where the files of an interval are: the file of a day, their name, their offset and bytes."""
    label = tables.interval_label(start, end)
    for first, last, name in _listed(path).days:
        if first <= start and end <= last:
            for (whose, own), place in members_of(path, name).items():
                if whose == label:
                    yield name, own, place


def _taken_out(path: PurePath, start: int, end: int) -> list[PurePath]:
    found = list[PurePath]()
    for name, own, place in _packed(path, start, end):
        target = _scratch() / sha256(f"{path}/{name}".encode()).hexdigest()[:16] / str(start) / own
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            (data,) = footers.content(paths.local(path / unquote(name)), [place])
            draft = target.with_suffix(f".{uuid.uuid4().hex[:8]}")
            draft.write_bytes(data)
            draft.replace(target)
        found.append(target)
    return sorted(found)


@cache
def _scratch() -> Path:
    return make_folder("lowwater-streams-")


def write_day(path: PurePath, label: str, files: Mapping[tuple[str, str], bytes]) -> tables.DataFile:
    """Writes the file of a day, `label`, and describes it; `files` of one form (`footers.form`), by `members_of`."""
    target = path / f"interval={label}" / f"{OF_DAY}{uuid.uuid4().hex[:12]}.parquet"
    with paths.draft(target).open("wb") as out:
        footers.write_together(out, {" ".join(key): data for key, data in files.items()})
    return describe(path, paths.seal(target), {"interval": label})


class Replaced:
    """Some intervals of a stream, which a commit takes out of it; files of days have the others in a new file."""

    def __init__(self, path: PurePath, labels: Iterable[str]) -> None:
        self._path, self._labels = path, {*labels}

    def rows(self, table: DeltaTable | None) -> list[dict[str, Any]]:
        """The files of a version that go, rows of `live_files`."""
        live = [] if table is None else tables.live_files(table)
        return [row for row in live if row["partition.interval"] in self._labels or (is_of_day(row) and self._has(row))]

    def rest(self, rows: Iterable[Mapping[str, Any]]) -> list[tables.DataFile]:
        """Writes the files of days anew that have other intervals too."""
        written = []
        for row in filter(is_of_day, rows):
            stays = {key: at for key, at in self._members(row).items() if key[0] not in self._labels}
            if stays and row["partition.interval"] not in self._labels:
                file = paths.local(self._path / unquote(row["path"]))
                data = dict(zip(stays, footers.content(file, [*stays.values()]), strict=True))
                written.append(write_day(self._path, row["partition.interval"], data))
        return written

    def _has(self, row: Mapping[str, Any]) -> bool:
        first, _, last = row["partition.interval"].partition("_")  # the order of labels is that of time
        near = any(first <= label.partition("_")[0] and label.partition("_")[2] <= last for label in self._labels)
        if not near:
            return False
        members = self._members(row)
        return not members or any(label in self._labels for label, _ in members)

    def _members(self, row: Mapping[str, Any]) -> dict[tuple[str, str], tuple[int, int]]:
        """What is in the file of a day; nothing of a damaged one, which goes as a whole: runs make its rows again."""
        with suppress(LakeError):
            return members_of(self._path, row["path"])
        return {}


def put_back(path: PurePath, start: int, end: int, fence: locks.Fence | None = None) -> None:
    """Gives an interval [start, end), ns, of the file of a day its own files again, for a run whose tasks may read them
    on other machines. Raises LakeError if the table cannot be written."""
    taken = [] if _own(path, start, end) else _taken_out(path, start, end)
    if not taken:
        return
    label = tables.interval_label(start, end)
    replaced, files = Replaced(path, [label]), list[tables.DataFile]()
    with tables.lake_errors(f"{path}: rows of {label} cannot be written"):
        for source in taken:
            target = path / f"interval={label}" / source.name
            paths.copy(source, target)
            files.append(describe(path, target, {"interval": label}))
    tables.swap_files(path, files, replaced.rows, replaced.rest, fence, rows_change=False)


def stream_key(path: PurePath, start: int, end: int) -> str:
    """Returns the key of what the interval [start, end), ns, of a stream is made of, as the names of its files in the
    log of the table say; empty without one."""
    found = {"-".join(digests.bare(file.name).split("-")[3:]) for file in stream_files(path, start, end)}
    return found.pop() if len(found) == 1 else ""


def stream_bytes(path: PurePath, start: int, end: int) -> int:
    """Returns the size of the files of the interval [start, end), ns, of a stream."""
    own = [size for _, size in _own(path, start, end)]
    return sum(own or (size for *_, (_, size) in _packed(path, start, end)))


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
            f"{folder}: cannot be written: {error.strerror}",
            hint_in_lake(error, "check that the lake is writable and its disk has room"),
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
