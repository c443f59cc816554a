"""Hints about files of records that `init` and `inspect` look at without a description, and about their export."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hints.cases_records import (
    BY_NAME,
    BY_POSITION,
    SCHEMAS,
    ZEEK,
    damaged,
    in_a_lake,
    run_over,
)
from tests.hints.desk import Case, Desk
from tests.replay.support import Said


def _inspected(name: str, data: bytes | None) -> Callable[[Desk], Said]:
    """Inspects a file of these bytes; None makes a folder."""

    def ran(desk: Desk) -> Said:
        path = desk.folder / name
        if data is None:
            path.mkdir()
        else:
            path.write_bytes(data)
        return desk.run("inspect", path)

    return ran


def _parquet(rows: int, *names: str) -> bytes:
    out = io.BytesIO()
    times = pa.array(range(1767225600, 1767225600 + rows), pa.int64())
    names = names or ("time",)
    pq.write_table(pa.Table.from_arrays([times] * len(names), names=[*names]), out)
    return out.getvalue()


def _exported(*options: str, link: str = "log") -> Callable[[Desk], Said]:
    """Exports a link from a lake that has packets and other records."""

    def ran(desk: Desk) -> Said:
        assert in_a_lake(SCHEMAS)(desk).code == 0
        desk.settings('skew = "1s"', 'skew = "1s"\npayload = "all"')
        assert desk.run("ingest", "--lake", desk.lake, "--link", "main1", desk.capture).code == 0
        out = ("--out", desk.folder / f"{link}.out", "--force")
        return desk.run("export", "--lake", desk.lake, "--link", link, *out, *options)

    return ran


def _exported_after(ingest: bool) -> Callable[[Desk], Said]:
    """Exports a link whose protocol has changed, perhaps after another ingest."""

    def ran(desk: Desk) -> Said:
        assert in_a_lake(SCHEMAS)(desk).code == 0
        desk.write("log.schema", BY_POSITION.replace("size", "length"))
        if ingest:
            assert desk.run("ingest", "--lake", desk.lake, "--link", "log", desk.folder / "log").code == 0
        return desk.run("export", "--lake", desk.lake, "--link", "log", "--out", desk.folder / "a.csv")

    return ran


CASES: list[Case] = [
    Case(
        "parquet with two columns of a name",
        run_over(BY_NAME, _parquet(9, "time", "size", "size"), kind="parquet"),
        "give each column a name of its own",
        run_over(BY_NAME, _parquet(9, "time", "size", "other"), kind="parquet"),
    ),
    Case(
        "a log of Zeek that is not ready",
        _inspected("a.log", ZEEK.replace(b"conn", b"weird")),
        "leave it out, or describe its columns in a PROTOCOL block",
        _inspected("b.log", ZEEK),
    ),
    Case(
        "events of Suricata that are not ready",
        _inspected("a.json", b'{"timestamp": "2026-01-01T00:00:00.5+0000", "event_type": "stats"}\n'),
        "leave it out, or describe its columns in a PROTOCOL block",
        _inspected("b.json", b'{"timestamp": "2026-01-01T00:00:00.5+0000", "event_type": "alert"}\n'),
    ),
    Case(
        "parquet without rows",
        _inspected("a.parquet", _parquet(0)),
        "wait until it has some",
        _inspected("a.parquet", _parquet(9)),
    ),
    Case(
        "parquet that is damaged, inspected",
        _inspected("a.parquet", damaged()),
        "write the file again",
        _inspected("a.parquet", _parquet(9)),
    ),
    Case("records as a capture", _exported("--format", "pcap"), "give --format csv", _exported("--format", "csv")),
    Case("an export after a change", _exported_after(False), "ingest it again", _exported_after(True)),
]
