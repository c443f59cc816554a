"""Hints about files of records that `init` and `inspect` look at without a description, and about their export."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hints.cases_records import BY_NAME, BY_POSITION, SCHEMAS, ZEEK, damaged, in_a_lake, run_over
from tests.hints.setup import Case, Setup, tried
from tests.replay.support import Said


def _inspected(setup: Setup, name: str, data: bytes) -> Said:
    """Inspects a file of these bytes."""
    path = setup.folder / name
    path.write_bytes(data)
    return setup.run("inspect", path)


def _parquet(rows: int, *names: str) -> bytes:
    out = io.BytesIO()
    times = pa.array(range(1767225600, 1767225600 + rows), pa.int64())
    names = names or ("time",)
    pq.write_table(pa.Table.from_arrays([times] * len(names), names=[*names]), out)
    return out.getvalue()


def _exported(setup: Setup, *options: str) -> Said:
    """Exports a link from a lake that has packets and other records."""
    assert in_a_lake(setup, SCHEMAS).code == 0
    setup.settings('skew = "1s"', 'skew = "1s"\npayload = "all"')
    assert setup.run("ingest", "--lake", setup.lake, "--link", "main1", setup.capture).code == 0
    out = ("--out", setup.folder / "log.out", "--force")
    return setup.run("export", "--lake", setup.lake, "--link", "log", *out, *options)


def _exported_after(setup: Setup, ingest: bool) -> Said:
    """Exports a link whose protocol has changed, perhaps after another ingest."""
    assert in_a_lake(setup, SCHEMAS).code == 0
    setup.write("log.schema", BY_POSITION.replace("size", "length"))
    if ingest:
        assert setup.run("ingest", "--lake", setup.lake, "--link", "log", setup.folder / "log").code == 0
    return setup.run("export", "--lake", setup.lake, "--link", "log", "--out", setup.folder / "a.csv")


EVENT = b'{"timestamp": "2026-01-01T00:00:00.5+0000", "event_type": "alert"}\n'
UNREADY = "leave it out, or describe its columns in a PROTOCOL block"
CASES: list[Case] = [
    tried("parquet with two columns of a name", run_over, "give each column a name of its own",
          (BY_NAME, _parquet(9, "time", "size", "size"), "parquet"),
          (BY_NAME, _parquet(9, "time", "size", "other"), "parquet")),
    tried("a log of Zeek that is not ready", _inspected, UNREADY, ("a.log", ZEEK.replace(b"conn", b"weird")),
          ("b.log", ZEEK)),
    tried("events of Suricata that are not ready", _inspected, UNREADY, ("a.json", EVENT.replace(b"alert", b"stats")),
          ("b.json", EVENT)),
    tried("parquet without rows", _inspected, "wait until it has some", ("a.parquet", _parquet(0)),
          ("a.parquet", _parquet(9))),
    tried("parquet that is damaged, inspected", _inspected, "write the file again", ("a.parquet", damaged()),
          ("a.parquet", _parquet(9))),
    tried("records as a capture", _exported, "give --format csv", ("--format", "pcap"), ("--format", "csv")),
    tried("an export after a change", _exported_after, "ingest it again", False, True),
]  # fmt: skip
