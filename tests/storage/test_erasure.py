"""A host is erased from a lake in an object store: no object has it any more, and none of them is a leftover."""

from __future__ import annotations

import io
import os
import re
import socket
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq

from lowwater.lake import tables
from lowwater.storage import objects, paths
from lowwater.storage.object_paths import ObjectPath
from tests.cli.hostile import clean
from tests.lake.damage import TO, prepare


def holding(root: ObjectPath, host: str) -> list[str]:
    """Which objects have an address, in any value of a column or any text."""
    text, found = re.compile(rb"(?<![0-9.])" + re.escape(host.encode()) + rb"(?![0-9]|\.[0-9])"), []
    packed, number = socket.inet_aton(host), int.from_bytes(socket.inet_aton(host), "big")
    for path in objects.below(root):
        data = paths.read(path)
        values = [data]
        if path.name.endswith(".parquet"):
            rows = pq.read_table(io.BytesIO(data))
            values += [
                value if isinstance(value, bytes) else str(value).encode()
                for column in rows.flatten().columns
                for value in column.to_pylist()
            ]
            if any(packed in value or value == b"%d" % number for value in values[1:]):
                found.append(path.name)
        if text.search(b"\n".join(values)):
            found.append(path.name)
    return found


def test_a_host_is_erased_from_a_lake_in_a_store(root: ObjectPath, tmp_path: Path) -> None:
    folder = prepare(tmp_path)
    for capture in (folder / "captures").rglob("*.pcap"):  # else it is looked at once more, since it was just written
        os.utime(capture, (0, 0))
    settings = (folder / "lake" / "lowwater.toml").read_text().replace('"../', f'"{folder}/')
    paths.write(root / "lowwater.toml", settings.encode())
    at = "--lake", str(root)
    clean("ingest", *at)
    clean("backfill", *at, "--to", TO)
    rows = [row for row in table(root) if row[1] or row[2]]
    host = min(str(row[1]) for row in rows)
    assert any("json" in name for name in holding(root, host))
    where = "--where", f"srcIP = '{host}' OR destIP = '{host}'"
    assert "nothing was changed" in clean("erase", *at, *where).out and holding(root, host)
    said = clean("erase", *at, *where, "--yes", "--why", "request 17").out
    assert "nothing is left in the lake" in said and "older versions of objects" in said
    assert holding(root, host) == []
    left = table(root)
    assert left and not any(host in row for row in left)
    assert clean("ingest", *at).err.count("no new file, 4 known") == 2 and holding(root, host) == []
    clean("status", *at)
    clean("maintain", *at)


def table(root: ObjectPath) -> list[tuple[object, ...]]:
    path = root / "tables" / "flows"
    opened = tables.open_table(path)
    assert opened is not None
    files = [path / unquote(row["path"]) for row in tables.live_files(opened)]
    return [tuple(row.values()) for each in files for row in pq.read_table(io.BytesIO(paths.read(each))).to_pylist()]
