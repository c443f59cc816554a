"""Hints about files of records that `init` and `inspect` look at without a description, and about their export."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hints.cases_records import (
    BY_NAME,
    BY_POSITION,
    LINES,
    NAMED,
    SCHEMAS,
    ZEEK,
    damaged,
    in_a_lake,
    run_over,
)
from tests.hints.desk import Case, Desk, Site
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


def _proposed(*leftovers: str) -> Callable[[Desk], Said]:
    """Proposes settings into a folder that has files already."""

    def ran(desk: Desk) -> Said:
        (desk.folder / "log.csv").write_bytes(NAMED)
        desk.lake.mkdir(exist_ok=True)
        (desk.lake / "log.schema").unlink(missing_ok=True)
        for name in leftovers:
            (desk.lake / name).write_text("mine")
        return desk.run("init", desk.folder / "log.csv", "--lake", desk.lake)

    return ran


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


TIMELESS = b"a,b\n1,x\n2,y\n3,z\n"
NAMELESS = b"".join(json.dumps({"": 1767225600 + at, "b": at}).encode() + b"\n" for at in range(9))

CASES = [
    Case(
        "more columns than are read",
        run_over(BY_NAME, b"time" + b"," * 20_000 + b"\n" + LINES),
        "check separator and quote in the settings of the link",
        run_over(BY_NAME, NAMED),
    ),
    Case(
        "parquet with two columns of a name",
        run_over(BY_NAME, _parquet(9, "time", "size", "size"), kind="parquet"),
        "give each column a name of its own",
        run_over(BY_NAME, _parquet(9, "time", "size", "other"), kind="parquet"),
    ),
    Case("a folder as a table", _inspected("a.csv", None), "check the path", _inspected("b.csv", NAMED)),
    Case("a table without a line", _inspected("a.csv", b"\n\n"), "wait until it has some", _inspected("a.csv", NAMED)),
    Case("zeros as a table", _inspected("a.csv", bytes(99)), "leave it out", _inspected("b.csv", NAMED)),
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
        "a text as a table",
        _inspected("a.csv", b"some words\nand some more of them\n"),
        "leave it out, or write the settings of its link by hand",
        run_over(BY_POSITION, LINES),
    ),
    Case(
        "a table without times",
        _inspected("a.csv", TIMELESS),
        "a column of times is needed",
        _inspected("b.csv", NAMED),
    ),
    Case(
        "a clock without a name",
        _inspected("a.json", NAMELESS),
        "give the column another name",
        _inspected("b.json", NAMELESS.replace(b'""', b'"time"')),
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
    Case(
        "a proposal over a file",
        _proposed("log.schema"),
        "remove it or give it another name, and run init again",
        _proposed(),
    ),
    Case(
        "an export of packets and records",
        _exported("--link", "main1"),
        "name one of them: --link log",
        _exported(),
    ),
    Case("records as a capture", _exported("--format", "pcap"), "give --format csv", _exported("--format", "csv")),
    Case(
        "packets as a table",
        _exported("--format", "csv", link="main1"),
        "give --format pcap or pcapng",
        _exported("--format", "pcap", link="main1"),
    ),
    Case("records by another protocol", _exported("--protocol", "TCP"), "leave --protocol out", _exported()),
    Case("an export after a change", _exported_after(False), "ingest it again", _exported_after(True)),
]

LEFT: dict[Site, str] = {
    ("lowwater/capture/tables/sniffing/tables.py", "sniff"): "a disk that fails while a file is read again",
    ("lowwater/capture/tables/sniffing/tables.py", "_leaf_values"): "a dictionary of parquet that is too short",
}
