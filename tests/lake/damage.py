"""A published lake of two links, and damage to its files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from deltalake import DeltaTable

from lowwater.lake import open_tables
from tests.cli.hostile import clean

TO = "2026-01-01T03:00Z"
QUERY = """DEFINE { query_name 'flows'; }
SELECT tb, srcIP, destIP, count(*) AS cnt FROM DataProtocol GROUP BY time/600 AS tb, srcIP, destIP"""
LINK = """[links.{0}]
captures = "../captures/{0}/{0}_%Y%m%dT%H%M%SZ.pcap"
rotation = "1h"
skew = "2s"
"""


def publish(folder: Path) -> Path:
    """Makes captures, a query and a published lake of two links and three hours below a folder."""
    lake = prepare(folder) / "lake"
    clean("ingest", "--lake", lake)
    clean("backfill", "--lake", lake, "--to", TO)
    return folder


def prepare(folder: Path) -> Path:
    """Makes the captures, the query and the settings of this lake."""
    made = "generate", "--out", folder / "captures", "--hours", "3", "--links", "main1,main2", "--rate", "0.05"
    clean(*made, "--skew", "main1=1", "--skew", "main2=1", "--seed", "7")
    (folder / "q").mkdir()
    (folder / "q" / "flows.gsql").write_text(QUERY)
    lake = folder / "lake"
    lake.mkdir()
    settings = LINK.format("main1") + LINK.format("main2")
    (lake / "lowwater.toml").write_text(
        f'[interval]\nlength = "1h"\n{settings}[query_sets.flows]\nfiles = ["../q/flows.gsql"]\n'
    )
    return folder


def copied(published: Path, folder: Path) -> Path:
    """Another lake with the same content, beside the same captures."""
    open_tables._OPEN.tables.clear()
    return Path(shutil.copytree(published, folder / "life"))


def data_files(lake: Path, below: str = "") -> list[Path]:
    return sorted(path for path in (lake / below).rglob("*.parquet") if "_delta_log" not in path.parts)


def flip(path: Path, share: float = 0.3) -> Path:
    """Changes one bit; length and last write stay."""
    status, content = path.stat(), bytearray(path.read_bytes())
    content[int(len(content) * share)] ^= 0x10
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # a test of one process does not wait for the clock
    return path


def rows_of(lake: Path, query: str = "flows") -> list[tuple[object, ...]]:
    table = DeltaTable(str(lake / "tables" / query)).to_pyarrow_table()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def change_skew(lake: Path) -> None:
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace('skew = "2s"', 'skew = "1500ms"'))
