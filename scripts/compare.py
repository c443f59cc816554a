"""Compares a query set in two lakes: publications with their digests, every row, late packets.

`endurance.py` calls it at the end; it prints the number of each and a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from lowwater.lake.layout import HEARTBEATS, VIOLATIONS, Lake, open_lake
from lowwater.lake.ledgers.runs import FAILED, PUBLISH, ReplayRow, read_replays
from lowwater.lake.tables import open_table, read_rows

MEASURED = ("nanoseconds", "beat_nanoseconds")
"""Columns of processor time, which differ between runs."""


def published(lake: Lake, query_set: str) -> list[ReplayRow]:
    """The newest publication of each query and interval."""
    newest = {(row.query, row.interval_start): row for row in read_replays(lake, query_set) if row.stage == PUBLISH}
    return [row for row in newest.values() if row.state != FAILED]


def differences(first: Path, other: Path, query_set: str) -> list[str]:
    """Compares two lakes: the publications, every published row, the packets refused and the accounts of the LFTAs."""
    lines = []
    first_lake, right = open_lake(first), open_lake(other)
    facts = [
        sorted(
            (interval.query, interval.interval_start, interval.state, interval.digest, interval.rows)
            for interval in published(lake, query_set)
        )
        for lake in (first_lake, right)
    ]
    lines += ["the publications differ"] if facts[0] != facts[1] else []
    print(f"publications: {len(facts[0])}, sha256 {_hash(facts[0])}")
    for name in sorted(path.name for path in (first / "tables").iterdir()):
        tables = [open_table(lake / "tables" / name) for lake in (first, other)]
        rows = [[] if table is None else _rows(table.to_pyarrow_table()) for table in tables]
        print(f"tables/{name}: {len(rows[0])} rows, sha256 {_hash(rows[0])}")
        lines += [f"tables/{name} differ"] if rows[0] != rows[1] else []
    for name, schema in (("violations", VIOLATIONS), ("heartbeats", HEARTBEATS)):
        rows = [_rows(read_rows(getattr(lake, name), schema)) for lake in (first_lake, right)]
        print(f"{name}: {len(rows[0])} rows, sha256 {_hash(rows[0])}")
        lines += [f"{name} differ"] if rows[0] != rows[1] else []
    lines += [f"{lake.name}: something is left in _work/" for lake in (first, other) if any((lake / "_work").iterdir())]
    return lines


def _rows(table: pa.Table) -> list[str]:
    names = sorted(set(table.column_names) - set(MEASURED))
    return sorted(repr([row[name] for name in names]) for row in table.to_pylist())


def _hash(rows: Sequence[object]) -> str:
    return hashlib.sha256("\n".join(map(str, rows)).encode()).hexdigest()
