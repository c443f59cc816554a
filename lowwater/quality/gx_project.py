"""The files of a project of Great Expectations over a lake: what is published now, by interval, and a suite a query.

`lowwater_expectations` writes the project itself. Nothing is copied: a batch is a folder of links to the files of a
table, which are never changed in their places.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater import documents
from lowwater.errors import ConfigError, LakeError
from lowwater.lake.layout import MEASURES, VIOLATIONS, Lake
from lowwater.lake.ledgers.runs import ReplayRow, charged_violations
from lowwater.lake.results import publish, published
from lowwater.lake.tables import interval_label, live_files, open_table, safe_name, table_dataset
from lowwater.limits import SUITE_BYTES
from lowwater.quality.suites import FOLDER as FOLDER_OF_SUITES, LATE, gx_name, suite_file
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from lowwater.config import Config

FOLDER = "gx"
DATA = "data"
NEWEST, WHOLE = "newest", "whole"
MOST_INTERVALS = 100
"""Newest intervals of a table that have a batch of their own."""


@dataclass(frozen=True)
class Asset:
    """A table of the lake as an asset of a project."""

    # `tables.QUERY`, `streams.QUERY`, `measures.NAME`, `ledgers.NAME` or `skew_violations.QUERY_SET`
    name: str
    folder: str  # its folder below `data`
    batches: tuple[str, ...]  # names of its batches: its intervals, oldest first, the `newest`, and the `whole`
    columns: tuple[str, ...]  # the columns that a reader of the table sees


LEDGERS = ("skew_violations", "contents", "malformed", "metrics", "quality", "quarantine")


def bring(lake: Lake, folder: Path) -> Lake:
    """Copies what a project has of a lake in a store to a folder, and returns the lake there; OSError if it fails.
    Of a suite that differs the newer one counts, which the store gets too."""
    root, suites = lake.root, folder / FOLDER_OF_SUITES
    assert isinstance(root, ObjectPath)
    stored = {folder / path.relative_to(root): at for path, _, at in paths.listed(root / FOLDER_OF_SUITES)}
    for place in sorted(suites.glob("[!@]*/*.json")):
        if place.stat().st_mtime_ns > stored.get(place, 0):
            paths.write(root / place.relative_to(folder).as_posix(), place.read_bytes())
    paths.copy_folders(root, folder, ("tables", "streams", "measures", *LEDGERS, FOLDER_OF_SUITES))
    copy = Lake(folder)
    paths.make_folders(copy.locks, copy.work)
    return copy


def link_data(
    lake: Lake, tables: Sequence[str], config: Config, audited: Mapping[str, Sequence[ReplayRow]]
) -> list[Asset]:
    """Makes the batches of a project anew, of a lake on this machine, and puts them in place in one step. `audited`:
    query set with a suite of late records -> the results of its audits."""
    home = Path(lake.root) / FOLDER
    new = home / f"{DATA}-{uuid.uuid4().hex[:12]}"
    assets = [each for query in sorted(tables) for each in _of_query(lake, query, new)]
    others = {f"ledgers.{path.name}": path for path in lake.ledgers() if path.name in LEDGERS}
    others |= {f"measures.{name}": lake.measures(name) for name in MEASURES}
    for name, path in others.items():
        if (table := open_table(path)) is not None:
            folder = name.replace(".", "/")
            _link(new / folder, WHOLE, path, table, live_files(table))
            assets.append(Asset(name, folder, (WHOLE,), ()))
    assets += [_of_late(lake, config, name, rows, new) for name, rows in audited.items()]
    # A link that came with a lake may lead anywhere: only a folder that was made here is removed.
    before = os.readlink(home / DATA) if (home / DATA).is_symlink() else ""
    if (home / DATA).is_dir() and not before:
        raise LakeError(f"{home / DATA}: is a folder, where a link is made", "move it away: Lowwater did not make it")
    (draft := home / f"{new.name}.link").symlink_to(new.name)
    draft.replace(home / DATA)
    if _OWN.fullmatch(before):
        paths.remove_tree(home / before)
    return assets


_OWN = re.compile(rf"{DATA}-[0-9a-f]{{12}}")


def write_suites(lake: Lake, query_set: str, queries: Iterable[str]) -> dict[str, str]:
    """Gives each query a suite that GX finds: under its name, with ids. What it asks stays. Returns the name of each
    suite -> the asset that it is about."""
    for query in queries:
        path, name = suite_file(lake.root, query_set, query), gx_name(query_set, query)
        suite = _stored(path)
        suite |= {"name": name, "id": suite.get("id") or _id(name)}
        for entry in suite["expectations"]:
            entry["id"] = entry.get("id") or _id(name, json.dumps([entry["type"], entry.get("kwargs")], sort_keys=True))
        _write(path, suite)
    return {
        gx_name(query_set, query): f"{LEDGERS[0]}.{query_set}" if query == LATE else f"tables.{query}"
        for query in queries
    }


def _stored(path: PurePath) -> dict[str, Any]:
    """Reads a suite that people may have written; one without expectations if there is none."""
    if not paths.has_file(path):
        return {"expectations": []}
    try:
        suite = json.loads(paths.read(path, SUITE_BYTES + 1))
        if all(isinstance(entry["type"], str) for entry in suite["expectations"]):
            return dict(suite)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", "write a suite of Great Expectations as JSON") from None
    raise ConfigError(f"{path}: is not a suite of expectations", "write a suite of Great Expectations as JSON")


OURS = "@measures"
"""Folder of the suites of the audit beside those of query sets, of which none has this name."""


def write_measure_suites(lake: Lake) -> dict[str, str]:
    """Writes the suites of the audit for the tables of measures, as `write_suites`; what people change is undone."""
    from lowwater_expectations.audits import SUITES, read_suite

    files = {f"{OURS}.{name}": read_suite(name) for name in SUITES}
    for name, file in files.items():
        _write(lake.root / FOLDER_OF_SUITES / OURS / f"{file.name}.json", {**asdict(file), "name": name})
    return {name: f"measures.{file.meta['table']}" for name, file in files.items()}


def _write(path: PurePath, suite: dict[str, Any]) -> None:
    data = (json.dumps(suite, indent=2) + "\n").encode()
    if not paths.has_file(path) or json.loads(paths.read(path)) != suite:
        paths.write(path, data)


def _id(*names: str) -> str:
    return str(uuid5(NAMESPACE_URL, "/".join(["lowwater:suites", *names])))


def _of_query(lake: Lake, query: str, new: Path) -> Iterable[Asset]:
    path = Path(str(lake.table(query)))
    state, table = published.table_state(path), open_table(path)
    if state is None or table is None:
        return
    columns = tuple(field.name for field in table.schema().fields if field.name != "_hour")
    folder, batches = f"tables/{safe_name(query)}", []
    for piece in state.pieces[-MOST_INTERVALS:]:
        batches.append(label := interval_label(piece.start, piece.end))
        meeting = publish.meeting_files(table, piece.start, piece.end)
        inside = [row for row in meeting if publish.is_inside(row, piece.start, piece.end)]
        if len(inside) == len(meeting):
            _link(new / folder, label, path, table, inside)
        else:  # a file of an hour may have rows of several intervals
            rows = table_dataset(path, table).to_table([*columns], filter=~publish.rest_of(piece.start, piece.end))
            _write_rows(new / folder, label, rows)
    _link(new / folder, WHOLE, path, table, live_files(table))
    yield Asset(f"tables.{query}", folder, (*_with_newest(new / folder, batches), WHOLE), columns)
    written, stream = lake.stream(query), open_table(lake.stream(query))
    by_label: dict[str, list[Mapping[str, Any]]] = {}
    for row in live_files(stream) if stream is not None else ():
        by_label.setdefault(row["partition.interval"], []).append(row)
    labels, folder = sorted(by_label)[-MOST_INTERVALS:], f"streams/{safe_name(query)}"
    for label in labels:
        assert stream is not None
        _link(new / folder, label, written, stream, by_label[label])
    if labels:
        yield Asset(f"streams.{query}", folder, (*_with_newest(new / folder, labels),), ())


def _of_late(lake: Lake, config: Config, query_set: str, audited: Sequence[ReplayRow], new: Path) -> Asset:
    """The late records that are charged to each audited interval of a query set, also of one whose audit failed."""
    by_interval: dict[tuple[int, int], set[str]] = {}
    for row in audited:
        links = documents.stored_object(row.accounting).get("links", {})
        by_interval.setdefault(row.interval, set()).update(map(str, links))
    folder, batches, whole = f"{LEDGERS[0]}/{safe_name(query_set)}", list[str](), [VIOLATIONS.empty_table()]
    for (start, end), links in sorted(by_interval.items())[-MOST_INTERVALS:]:
        batches.append(label := interval_label(start, end))
        whole.append(rows := charged_violations(lake, config, links, start, end))
        _write_rows(new / folder, label, rows)
    _write_rows(new / folder, WHOLE, pa.concat_tables(whole))
    return Asset(f"{LEDGERS[0]}.{query_set}", folder, (*_with_newest(new / folder, batches), WHOLE), ())


def _with_newest(folder: Path, labels: Sequence[str]) -> Sequence[str]:
    if not labels:
        return labels
    (folder / f"{NEWEST}.parquet").symlink_to(f"{labels[-1]}.parquet")
    return [*labels, NEWEST]


def _link(folder: Path, batch: str, path: PurePath, table: DeltaTable, files: Sequence[Mapping[str, Any]]) -> None:
    """Makes a batch of files of a table; without any it has the columns of the table and no row."""
    if not files:
        return _write_rows(folder, batch, table_dataset(path, table).schema.empty_table())
    (place := folder / f"{batch}.parquet").mkdir(parents=True)
    for number, file in enumerate(sorted(str(path / row["path"]) for row in files)):
        (place / f"part-{number:05d}.parquet").symlink_to(os.path.abspath(file))


def _write_rows(folder: Path, batch: str, rows: pa.Table) -> None:
    (place := folder / f"{batch}.parquet").mkdir(parents=True)
    pq.write_table(rows, place / "part-00000.parquet")
