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


def _by_field(column: str, value: str) -> str:
    return f'group_skew = {{ column = "{column}", values = {{ "{value}" = "2s" }} }}'


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


CONN, DNS = "SELECT time FROM log.ZEEK_CONN", "SELECT time FROM log.ZEEK_DNS"
FLOWS = "SELECT time FROM log.NFDUMP"
ZEEK = b"#separator \\x09\n#path\tconn\n#fields\tts\tuid\n1767225600.5\tC1\n"
NFDUMP = b"ts,sa\n2026-01-01 00:00:00,10.0.0.1\n"


def _log(data: bytes, kind: str = "zeek", query: str = CONN) -> Callable[[Desk], Said]:
    """Runs a query over the log of a tool."""
    return run_over("", data, kind=kind, query=query)


def kept_log(*settings: str) -> Callable[[Desk], Said]:
    """Ingests a log of Zeek into a lake."""

    def ran(desk: Desk) -> Said:
        (desk.folder / "log").write_bytes(ZEEK)
        desk.settle("\n".join(["[links.log]", 'kind = "zeek"', *settings]), ingest=False)
        return desk.run("ingest", "--lake", desk.lake, "--link", "log", desk.folder / "log")

    return ran


def _kind(written: str) -> Callable[[Desk], Said]:
    """Runs a query over a log whose kind is given on the command line."""

    def ran(desk: Desk) -> Said:
        (desk.folder / "log").write_bytes(ZEEK)
        given = ("--kind", written, "--capture", f"log={desk.folder / 'log'}", "--out", desk.folder / "out")
        return desk.run("run", desk.query(CONN), *given, "--engine", "reference")

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
    Case("a log without a header", _log(b"1767225600.5\tC1\n"), "give the log as Zeek wrote it", _log(ZEEK)),
    Case(
        "another log of Zeek",
        _log(ZEEK.replace(b"conn", b"dns")),
        "name ZEEK_DNS in FROM",
        _log(ZEEK.replace(b"conn", b"dns"), query=DNS),
    ),
    Case("a log without its clock", _log(ZEEK.replace(b"\tts\t", b"\tat\t")), "its columns are: at, uid", _log(ZEEK)),
    Case(
        "a separator of several characters",
        _log(ZEEK.replace(b"\\x09", b"\\x09\\x09")),
        "write the log with Zeek's own separator",
        _log(ZEEK),
    ),
    Case(
        "no header of Zeek's",
        _log(b"#fields\tts\t\xff\n"),
        "check kind of the link",
        run_over(BY_POSITION, LINES),
    ),
    Case(
        "a header of too many columns",
        _log(b"#fields\tts" + b"\ta" * 5000 + b"\n"),
        "check kind of the link",
        run_over(BY_POSITION, LINES),
    ),
    Case(
        "flows without a header",
        _log(NFDUMP.partition(b"\n")[2], "nfdump", FLOWS),
        "write it with nfdump -o csv, without -q",
        _log(NFDUMP, "nfdump", FLOWS),
    ),
    Case(
        "statistics of nfdump",
        _log(b"ts,val\n2026-01-01 00:00:00,10.0.0.1\n", "nfdump", FLOWS),
        "write it with nfdump -o csv, without -s",
        _log(NFDUMP, "nfdump", FLOWS),
    ),
    Case("a log under another kind", _log(ZEEK, "csv"), "write kind = 'zeek' in [links.log]", _log(ZEEK)),
    Case(
        "a log of no protocol for a lake",
        kept_log(),
        "write protocol = 'ZEEK_CONN' in [links.log]",
        kept_log("protocol = 'ZEEK_CONN'"),
    ),
    Case(
        "a log of another tool for a lake",
        kept_log("protocol = 'NFDUMP'"),
        "name another protocol in [links.log]",
        kept_log("protocol = 'ZEEK_CONN'"),
    ),
    Case("a kind of no link", _kind("logs=zeek"), "there are: log", _kind("log=zeek")),
    Case("a kind that there is not", _kind("log=bro"), "kinds are: pcap, csv", _kind("log=zeek")),
    # -- skews by a field
    Case(
        "a skew of no field",
        run_over(BY_POSITION, LINES, _by_field("sizes", "1")),
        "name one of time, size",
        run_over(BY_POSITION, LINES, _by_field("size", "1")),
    ),
    Case(
        "a skew of a text",
        run_over(BY_POSITION, LINES, _by_field("size", "one")),
        "write one as '7'",
        run_over(BY_POSITION, LINES, _by_field("size", "7")),
    ),
]

LEFT: dict[Site, str] = {
    ("lowwater/capture/tables/reader.py", "RecordReader.__iter__"): "a disk that fails while a file is read",
    ("lowwater/lake/ingestion/packing.py", "_pack_records"): "a file that is written while it is read",
}
