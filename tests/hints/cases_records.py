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


def damaged() -> bytes:
    data = bytearray(_parquet())
    data[4:200] = bytes(196)
    return bytes(data)


def run_over(
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
        return run_over(BY_POSITION, LINES.replace(b",1", b"").replace(b",2", b"") * 3 + LINES * 4)(desk)


REFUSED = BY_POSITION.replace(" (increasing)", "")


def in_a_lake(*settings: str, schema: str = BY_POSITION) -> Callable[[Desk], Said]:
    """Ingests a file of records into a lake whose settings of the link are these."""

    def ran(desk: Desk) -> Said:
        (desk.folder / "log").write_bytes(LINES)
        desk.write("log.schema", schema)
        desk.settle("\n".join(["[links.log]", 'kind = "csv"', *settings]), ingest=False)
        return desk.run("ingest", "--lake", desk.lake, "--link", "log", desk.folder / "log")

    return ran


SCHEMAS = 'schemas = "../log.schema"'


def _planned(block: str) -> Callable[[Desk], Said]:
    """Plans the intervals of a query set whose query file begins with a PROTOCOL block."""

    def ran(desk: Desk) -> Said:
        query = desk.write("logs.gsql", f"{block}\nDEFINE {{ query_name 'logs'; }}\nSELECT time FROM log.LOG\n")
        in_a_lake(SCHEMAS, f'[query_sets.logs]\nfiles = ["{query}"]')(desk)
        return desk.run("plan", "--lake", desk.lake, "--query-set", "logs")

    return ran


OTHER = BY_POSITION + BY_POSITION.replace("LOG", "OTHER")
BOTH = "SELECT time FROM log.LOG;\nDEFINE { query_name 'r'; }\nSELECT time FROM log.OTHER"

CASES = [
    Case(
        "a first line that has no names",
        run_over(BY_POSITION, b"\xff,\n" + LINES, "header = true"),
        "write header = false",
        run_over(BY_POSITION, b"\xff,\n" + LINES, "header = false"),
    ),
    Case(
        "another separator",
        run_over(BY_POSITION, LINES.replace(b",", b";")),
        "check separator in the settings of the link",
        run_over(BY_POSITION, LINES.replace(b",", b";"), 'separator = ";"'),
    ),
    Case(
        "names without a header",
        run_over(BY_NAME, NAMED, "header = false"),
        "write header = true in the settings of the link",
        run_over(BY_NAME, NAMED, "header = true"),
    ),
    Case(
        "a name that no column has",
        run_over(BY_NAME, NAMED.replace(b"size", b"bytes")),
        "its columns are: time, bytes",
        run_over(
            BY_NAME.replace("uint size get_csv_uint", "uint bytes get_csv_uint"), NAMED.replace(b"size", b"bytes")
        ),
    ),
    Case(
        "JSON by position",
        run_over("PROTOCOL LOG { uint time get_csv_uint_pos1 (increasing); }", JSON, kind="json"),
        "write a name: time get_csv_int (name 'time')",
        run_over("PROTOCOL LOG { int time get_csv_int (name 'time', increasing); }", JSON, kind="json"),
    ),
    Case(
        "text as parquet",
        run_over(BY_POSITION, LINES, kind="parquet"),
        "check kind of the link",
        run_over(BY_POSITION, LINES),
    ),
    Case(
        "a damaged parquet file",
        run_over(BY_NAME, damaged(), kind="parquet"),
        "write the file again",
        run_over(BY_NAME, _parquet(), kind="parquet"),
    ),
    Case(
        "a position beyond the columns of parquet",
        run_over(BY_POSITION.replace("pos2", "pos3"), _parquet(), kind="parquet"),
        "check the positions in the PROTOCOL",
        run_over(BY_POSITION, _parquet(), kind="parquet"),
    ),
    Case(
        "a name that no column of parquet has",
        run_over(BY_NAME, _parquet("bytes"), kind="parquet"),
        "its columns are: time, bytes",
        run_over(BY_NAME, _parquet(), kind="parquet"),
    ),
    Case(
        "too many bad records",
        _too_many,
        "check kind, separator and header of the link",
        run_over(BY_POSITION, LINES),
    ),
    Case(
        "a link of another protocol",
        run_over(OTHER, LINES, 'protocol = "OTHER"'),
        "name OTHER in FROM, or change protocol in [links.log]",
        run_over(OTHER, LINES, 'protocol = "OTHER"', query="SELECT time FROM log.OTHER"),
    ),
    Case(
        "a link of two protocols",
        run_over(OTHER, LINES, query=BOTH),
        "a link has the records of one protocol",
        run_over(OTHER, LINES, query=BOTH.replace("OTHER", "LOG")),
    ),
    Case(
        "records of no protocol for a lake",
        in_a_lake(),
        "write protocol = 'NAME' and schemas = ['FILE'] in [links.log]",
        in_a_lake("protocol = 'LOG'", "schemas = ['../log.schema']"),
    ),
    Case(
        "records of a protocol that no schema has",
        in_a_lake(SCHEMAS, 'protocol = "LOGS"'),
        "did you mean LOG?",
        in_a_lake(SCHEMAS, 'protocol = "LOG"'),
    ),
    Case(
        "records of a protocol of packets",
        in_a_lake(SCHEMAS, 'protocol = "TCP"'),
        "name another protocol in [links.log]",
        in_a_lake(SCHEMAS, 'protocol = "LOG"'),
    ),
    Case(
        "records without a clock for a lake",
        in_a_lake(SCHEMAS, schema=REFUSED),
        "declare an increasing field of the record",
        in_a_lake(SCHEMAS),
    ),
    Case(
        "a query with a block of other fields than the lake keeps",
        _planned(BY_POSITION.replace("size", "length")),
        "leave it out of the query file",
        _planned(""),
    ),
]

LEFT: dict[Site, str] = {
    ("lowwater/capture/tables/reader.py", "RecordReader.__iter__"): "a disk that fails while a file is read",
    ("lowwater/lake/ingestion/packing.py", "_pack_records"): "a file that is written while it is read",
}
