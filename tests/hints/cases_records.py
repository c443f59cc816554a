"""Hints about files of records that are no packets, and about the links that hold them."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.capture.tables import reader
from tests.hints.desk import Case, Desk, Site
from tests.replay.support import Said

BY_POSITION = "PROTOCOL LOG { uint time get_csv_uint_pos1 (increasing); uint size get_csv_uint_pos2; }"
BY_NAME = "PROTOCOL LOG { uint time get_csv_uint (increasing); uint size get_csv_uint; }"
LINES = b"1767225600,1\n1767225601,2\n"
NAMED = b"time,size\n" + LINES
JSON = b'{"time": 1767225600, "size": 1}\n'


def _parquet(name: str = "size") -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"time": [1767225600] * 5000, name: list(range(5000))}), out, compression="zstd")
    return out.getvalue()


def _damaged() -> bytes:
    data = bytearray(_parquet())
    data[4:200] = bytes(196)
    return bytes(data)


def _run(
    protocol: str, data: bytes, *settings: str, kind: str = "csv", query: str = "SELECT time FROM log.LOG"
) -> Callable[[Desk], Said]:
    """Runs a query over a file of records."""

    def ran(desk: Desk) -> Said:
        (desk.folder / "log").write_bytes(data)
        links = desk.write("links.toml", "\n".join(["[links.log]", f'kind = "{kind}"', *settings]) + "\n")
        queries = desk.write("q.gsql", f"{protocol}\nDEFINE {{ query_name 'q'; }}\n{query}\n")
        given = ("--links", links, "--capture", f"log={desk.folder / 'log'}", "--out", desk.folder / "out")
        return desk.run("run", queries, *given, "--engine", "reference")

    return ran


def _too_many(desk: Desk) -> Said:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "MOST_ROWS", 1)
        return _run(BY_POSITION, LINES.replace(b",1", b"").replace(b",2", b"") * 3 + LINES * 4)(desk)


def _in_a_lake(*command: object) -> Callable[[Desk], Said]:
    """A command over a lake whose settings have a link of records, and a query set over it."""

    def ran(desk: Desk) -> Said:
        queries = desk.write("logs.gsql", f"{BY_POSITION}\nDEFINE {{ query_name 'logs'; }}\nSELECT time FROM log.LOG\n")
        desk.settle('[links.log]\nkind = "csv"', f'[query_sets.logs]\nfiles = ["{queries}"]', ingest=False)
        (desk.folder / "log").write_bytes(LINES)
        return desk.run(*command[:1], "--lake", desk.lake, *command[1:])

    return ran


OTHER = BY_POSITION + BY_POSITION.replace("LOG", "OTHER")
BOTH = "SELECT time FROM log.LOG;\nDEFINE { query_name 'r'; }\nSELECT time FROM log.OTHER"

CASES = [
    Case(
        "a first line that has no names",
        _run(BY_POSITION, b"\xff,\n" + LINES, "header = true"),
        "write header = false",
        _run(BY_POSITION, b"\xff,\n" + LINES, "header = false"),
    ),
    Case(
        "another separator",
        _run(BY_POSITION, LINES.replace(b",", b";")),
        "check separator in the settings of the link",
        _run(BY_POSITION, LINES.replace(b",", b";"), 'separator = ";"'),
    ),
    Case(
        "names without a header",
        _run(BY_NAME, NAMED, "header = false"),
        "write header = true in the settings of the link",
        _run(BY_NAME, NAMED, "header = true"),
    ),
    Case(
        "a name that no column has",
        _run(BY_NAME, NAMED.replace(b"size", b"bytes")),
        "its columns are: time, bytes",
        _run(BY_NAME.replace("uint size get_csv_uint", "uint bytes get_csv_uint"), NAMED.replace(b"size", b"bytes")),
    ),
    Case(
        "JSON by position",
        _run("PROTOCOL LOG { uint time get_csv_uint_pos1 (increasing); }", JSON, kind="json"),
        "write a name: time get_csv_int (name 'time')",
        _run("PROTOCOL LOG { int time get_csv_int (name 'time', increasing); }", JSON, kind="json"),
    ),
    Case(
        "text as parquet",
        _run(BY_POSITION, LINES, kind="parquet"),
        "check kind of the link",
        _run(BY_POSITION, LINES),
    ),
    Case(
        "a damaged parquet file",
        _run(BY_NAME, _damaged(), kind="parquet"),
        "write the file again",
        _run(BY_NAME, _parquet(), kind="parquet"),
    ),
    Case(
        "a position beyond the columns of parquet",
        _run(BY_POSITION.replace("pos2", "pos3"), _parquet(), kind="parquet"),
        "check the positions in the PROTOCOL",
        _run(BY_POSITION, _parquet(), kind="parquet"),
    ),
    Case(
        "a name that no column of parquet has",
        _run(BY_NAME, _parquet("bytes"), kind="parquet"),
        "its columns are: time, bytes",
        _run(BY_NAME, _parquet(), kind="parquet"),
    ),
    Case(
        "too many bad records",
        _too_many,
        "check kind, separator and header of the link",
        _run(BY_POSITION, LINES),
    ),
    Case(
        "a link of another protocol",
        _run(OTHER, LINES, 'protocol = "OTHER"'),
        "name OTHER in FROM, or change protocol in [links.log]",
        _run(OTHER, LINES, 'protocol = "OTHER"', query="SELECT time FROM log.OTHER"),
    ),
    Case(
        "a link of two protocols",
        _run(OTHER, LINES, query=BOTH),
        "a link has the records of one protocol",
        _run(OTHER, LINES, query=BOTH.replace("OTHER", "LOG")),
    ),
    Case(
        "records for a lake",
        lambda desk: _in_a_lake("ingest", "--link", "log", desk.folder / "log")(desk),
        "give its files to `lowwater run`",
        _run(BY_POSITION, LINES),
    ),
    Case(
        "a query set over records in a lake",
        _in_a_lake("plan", "--query-set", "logs"),
        "run the queries over its files with `lowwater run`",
        _run(BY_POSITION, LINES),
    ),
]

LEFT: dict[Site, str] = {
    ("lowwater/capture/tables/reader.py", "RecordReader.__iter__"): "a disk that fails while a file is read",
    ("lowwater/lake/ingestion/packing.py", "_pack_records"): "a file that is written while it is read",
}
