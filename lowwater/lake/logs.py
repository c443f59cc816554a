"""Looks at the log of a Delta table before Delta's library reads it, which takes memory and stack for whatever it is.

Below `opened`. What is read at once is bounded by sizes of files, by headers of pages and by brackets; what a table may
be is looked at once it is open. The bounds are far above those of a lake of years: `packets/` of 30 links and 8,760
hours has a checkpoint of 74 MB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from lowwater.documents import json_value
from lowwater.errors import LakeError
from lowwater.storage import paths
from lowwater.storage.modest import require_modest

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

MOST_NAMES = 500_000
"""Most files in the folder of a log. Delta keeps those of 30 days: a commit every five seconds."""
MOST_COMMITS = 10_000
"""Most commits behind a checkpoint, which Lowwater makes every hundred: 2 s and 80 MB."""
LARGEST_COMMITS = 1 << 27
"""Most bytes of the commits that are read at once: 2 GB of memory. Removing 262,800 files takes 80 MB of them."""
LONGEST_LINE = 1 << 22
"""Most bytes of one action; the schema of `packets/` has 16 KB."""
LARGEST_CHECKPOINT = 1 << 30
"""Most bytes of a checkpoint in memory; those of the files of ten years of 30 links."""
LARGEST_HINT = 1 << 16
"""Most bytes of `_last_checkpoint`."""
NEWEST = 1 << 53
"""Versions are below this."""
DEEPEST = 1000
"""Brackets of an action that cannot be nested too deeply: Delta's library crashes at 30,000 levels."""
SMALL = 1 << 13
"""Bytes of a commit, or of statistics, that cannot be nested deeply enough to be looked into."""
MOST_COLUMNS = 10_000
DEEPEST_TYPE = 16

HINT = "another program wrote this log, and nothing of it was read; restore the table, or do not use the lake"
FEATURES = {"timestampNtz"}
"""Features of readers under which files still are what they say."""
TYPES = {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary"}
TYPES |= {"timestamp", "timestamp_ntz"}
"""Types of columns of a lake, and of the values of its lists."""

_NAME = re.compile(r"(\d{20})\.(?:(json|crc)|(\d{20})\.compacted\.json|(checkpoint\..*))")
_PARTS = re.compile(r"checkpoint\.(?:(\d{10})\.(\d{10})\.)?parquet")
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_Entry = tuple[str, int]
"""Name and bytes of a file."""


def require_modest_log(path: PurePath, version: int | None = None) -> None:
    """Checks what Delta reads to open a table at a version, or the newest one.

    Raises:
        LakeError: it is too much, or what no writer of a lake makes.
    """
    log = path / "_delta_log"
    hint = _hint(log)
    entries = sorted(_entries(log, hint))
    begin = _checkpoint(log, entries, NEWEST if version is None else version)
    _require_commits(log, [entry for entry in entries if begin < int(entry[0][:20])])


def require_modest_commits(path: PurePath, after: int) -> None:
    """Checks the commits behind a version, which Delta reads to follow a log."""
    log = path / "_delta_log"
    if isinstance(log, Path):
        _require_commits(log, _following(log, after + 1))
    else:
        _require_commits(log, sorted(_entries(log, after)))


def _hint(log: PurePath) -> int:
    """Returns the version of the checkpoint that the log itself names; -1 without one."""
    place = log / "_last_checkpoint"
    try:
        text = paths.read(place, LARGEST_HINT + 1)
        if len(text) > LARGEST_HINT:
            raise LakeError(f"{place}: is too long, at most {LARGEST_HINT:,} bytes are read", HINT)
        value = json_value(text)
    except FileNotFoundError:
        return -1
    except ValueError as error:
        raise LakeError(f"{place}: {error}", HINT) from None
    version = value.get("version") if isinstance(value, dict) else None
    if type(version) is not int or not 0 <= version < NEWEST:
        raise LakeError(f"{place}: names no version of a table", HINT)
    return version


def _entries(log: PurePath, since: int) -> Iterator[_Entry]:
    """Yields the files of a log that Delta may read; in a store only those of versions behind `since`, or of it."""
    for count, (name, size) in enumerate(paths.sizes(log, f"{since:020d}" if since >= 0 else ""), 1):
        if count > MOST_NAMES:
            raise LakeError(f"{log}: has more than {MOST_NAMES:,} files", HINT)
        if _NAME.fullmatch(name):
            if int(name[:20]) >= NEWEST:
                raise LakeError(f"{log / name}: no table has so many versions", HINT)
            yield name, size


def _following(log: Path, version: int) -> Iterator[_Entry]:
    while True:
        name = f"{version:020d}.json"
        try:
            yield name, paths.size(log / name)
        except FileNotFoundError:
            return
        version += 1


def _checkpoint(log: PurePath, entries: Iterable[_Entry], newest: int) -> int:
    """Checks the checkpoint from which Delta reads; returns its version, -1 without one."""
    found: dict[int, dict[tuple[int, int], str]] = {}
    for name, _ in entries:
        version, rest = int(name[:20]), name[21:]
        if not rest.startswith("checkpoint.") or version > newest:
            continue
        form = _PARTS.fullmatch(rest)
        if form is None:
            raise LakeError(f"{log / name}: is a checkpoint of a form that Lowwater does not read", HINT)
        part, parts = (int(form[1]), int(form[2])) if form[1] else (1, 1)
        found.setdefault(version, {})[parts, part] = name
    for version in sorted(found, reverse=True):
        for parts in {parts for parts, _ in found[version]}:
            names = [found[version].get((parts, number)) for number in range(1, parts + 1)] if parts <= 1000 else [None]
            if None not in names:
                for name_of_part in names:
                    _require_checkpoint(log / str(name_of_part), LARGEST_CHECKPOINT // parts)
                return version
    return -1


def _require_checkpoint(place: PurePath, most: int) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    local = paths.local(place)
    require_modest(place, local, most)
    for name in ("add.stats", "metaData.schemaString"):
        with pq.ParquetFile(local) as file:
            leaves = [file.schema.column(at).path for at in range(len(file.schema))]
            if name not in leaves:
                continue
            try:
                column = pc.struct_field(file.read([name], use_threads=False).column(0), [name.partition(".")[2]])
            except pa.ArrowException as error:
                raise LakeError(f"{place}: {str(error).splitlines()[0][:200]}", HINT) from None
        _require_texts(place, name, column)


def _require_texts(place: PurePath, name: str, texts: pa.ChunkedArray) -> None:
    import pyarrow.compute as pc

    lengths = pc.binary_length(texts)
    longest = pc.max(lengths).as_py() or 0
    if longest > LONGEST_LINE:
        raise LakeError(f"{place}: {name} has {longest:,} bytes, at most {LONGEST_LINE:,} are read", HINT)
    texts = texts.filter(pc.greater(lengths, SMALL))
    brackets = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    for text in texts.filter(pc.greater(brackets, DEEPEST)).to_pylist():
        _require_flat(place, name, text.encode())


def _require_commits(log: PurePath, entries: Iterable[_Entry]) -> None:
    total = 0
    for count, (name, size) in enumerate(entries, 1):
        if ".checkpoint." in name:
            continue
        total += size
        if count > MOST_COMMITS:
            raise LakeError(f"{log}: has more than {MOST_COMMITS:,} commits behind its last checkpoint", HINT)
        if total > LARGEST_COMMITS:
            raise LakeError(
                f"{log / name}: makes what is read of the log {total:,} bytes, at most {LARGEST_COMMITS:,} are read",
                HINT,
            )
        if size > SMALL:
            _require_lines(log / name)


def _require_lines(place: PurePath) -> None:
    for number, line in enumerate(paths.read(place, LARGEST_COMMITS).split(b"\n"), 1):
        where = f"line {number}"
        if len(line) > LONGEST_LINE:
            raise LakeError(f"{place}: {where} has {len(line):,} bytes, at most {LONGEST_LINE:,} are read", HINT)
        if line.count(b"{") + line.count(b"[") > DEEPEST:
            _require_flat(place, where, line)
            try:
                action = json.loads(line)
            except ValueError:
                continue  # Delta says where it is no JSON
            added = action.get("add") if isinstance(action, dict) else None
            if isinstance(added, dict) and isinstance(added.get("stats"), str):
                _require_flat(place, where, added["stats"].encode())


def _require_flat(place: PurePath, where: str, text: bytes) -> None:
    """Checks how deep brackets are nested; those in texts do not count."""
    depth = 0
    for bracket in re.findall(rb"[\[{\]}]", _TEXT.sub(b"", text)):
        depth += 1 if bracket in b"[{" else -1
        if depth > 64:
            raise LakeError(f"{place}: {where} is nested too deeply", HINT)


def require_plain_table(path: PurePath, table: DeltaTable) -> None:
    """Checks that the files of a table are what they say: its log hides no row, and names columns as the files do.

    Raises:
        LakeError: Lowwater would read other rows, or a schema that is too large.
    """
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - FEATURES
    if protocol.min_reader_version not in (1, 3) or features:
        said = ", ".join(sorted(features)) or f"version {protocol.min_reader_version} of the protocol"
        raise LakeError(f"{path}: the table asks its readers for {said[:200]}, which Lowwater does not have", HINT)
    columns = table.schema().fields
    if len(columns) > MOST_COLUMNS:
        raise LakeError(f"{path}: the table has {len(columns):,} columns, at most {MOST_COLUMNS:,} are read", HINT)
    if any(_deeper(column.type, DEEPEST_TYPE) for column in columns):
        raise LakeError(f"{path}: a type in the table is nested too deeply", HINT)
    for column in columns:
        if (kind := _innermost(column.type)) not in TYPES:
            said = f"column {column.name[:200]!a} is of type {kind}, which no table of a lake has"
            raise LakeError(f"{path}: {said}", HINT)


def _innermost(kind: Any) -> str:
    """Returns the type of the values of a list, or of a list of lists; of others the type itself."""
    while hasattr(kind, "element_type"):
        kind = kind.element_type
    return str(kind.type)


def _deeper(kind: Any, most: int) -> bool:
    inner = [field.type for field in getattr(kind, "fields", ())]
    inner += [getattr(kind, name) for name in ("element_type", "value_type", "key_type") if hasattr(kind, name)]
    return bool(inner) and (most == 0 or any(_deeper(each, most - 1) for each in inner))
