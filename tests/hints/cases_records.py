"""Hints about files of records that are no packets, and about the links that hold them."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.capture.tables import reader
from tests.hints.desk import Case, Desk
from tests.replay.support import Said

BY_POSITION = "PROTOCOL LOG { uint time get_csv_uint_pos1 (increasing); uint size get_csv_uint_pos2; }"


BY_NAME = "PROTOCOL LOG { uint time get_csv_uint (increasing); uint size get_csv_uint; }"
LINES = b"1767225600,1\n1767225601,2\n"


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
        patch.setattr(reader, "MALFORMED_ROWS", 1)
        return run_over(BY_POSITION, LINES.replace(b",1", b"").replace(b",2", b"") * 3 + LINES * 4)(desk)


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


ZEEK = b"#separator \\x09\n#path\tconn\n#fields\tts\tuid\n1767225600.5\tC1\n"


def _log(data: bytes, kind: str = "zeek", query: str = CONN) -> Callable[[Desk], Said]:
    """Runs a query over the log of a tool."""
    return run_over("", data, kind=kind, query=query)


CASES: list[Case] = [
    Case(
        "too many bad records",
        _too_many,
        "check kind, separator and header of the link",
        run_over(BY_POSITION, LINES),
    ),
    Case(
        "a query with a block of other fields than the lake keeps",
        _planned(BY_POSITION.replace("size", "length")),
        "leave it out of the query file",
        _planned(""),
    ),
    Case(
        "a header of too many columns",
        _log(b"#fields\tts" + b"\ta" * 5000 + b"\n"),
        "check kind of the link",
        run_over(BY_POSITION, LINES),
    ),
]
