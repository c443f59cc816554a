"""Hints about files of records that are no packets, and about the links that hold them."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.capture.tables import reader
from tests.hints.setup import Case, Setup, tried
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
    setup: Setup, protocol: str, data: bytes, kind: str = "csv", query: str = "SELECT time FROM log.LOG"
) -> Said:
    """Runs a query over a file of records."""
    (setup.folder / "log").write_bytes(data)
    links = setup.write("links.toml", f'[links.log]\nkind = "{kind}"\n')
    queries = setup.write("q.gsql", f"{protocol}\nDEFINE {{ query_name 'q'; }}\n{query}\n")
    given = ("--links", links, "--capture", f"log={setup.folder / 'log'}", "--out", setup.folder / "out")
    return setup.run("run", queries, *given, "--engine", "reference")


def _bounded(setup: Setup, data: bytes) -> Said:
    """Runs over records of which one may be malformed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "MALFORMED_ROWS", 1)
        return run_over(setup, BY_POSITION, data)


def in_a_lake(setup: Setup, *settings: str, schema: str = BY_POSITION) -> Said:
    """Ingests a file of records into a lake whose settings of the link are these."""
    (setup.folder / "log").write_bytes(LINES)
    setup.write("log.schema", schema)
    setup.settle("\n".join(["[links.log]", 'kind = "csv"', *settings]), ingest=False)
    return setup.run("ingest", "--lake", setup.lake, "--link", "log", setup.folder / "log")


SCHEMAS = 'schemas = "../log.schema"'


def _planned(setup: Setup, block: str) -> Said:
    """Plans the intervals of a query set whose query file begins with a PROTOCOL block."""
    query = setup.write("logs.gsql", f"{block}\nDEFINE {{ query_name 'logs'; }}\nSELECT time FROM log.LOG\n")
    in_a_lake(setup, SCHEMAS, f'[query_sets.logs]\nfiles = ["{query}"]')
    return setup.run("plan", "--lake", setup.lake, "--query-set", "logs")


ZEEK = b"#separator \\x09\n#path\tconn\n#fields\tts\tuid\n1767225600.5\tC1\n"


BAD = LINES.replace(b",1", b"").replace(b",2", b"")
WIDE = b"#fields\tts" + b"\ta" * 5000 + b"\n"
CASES: list[Case] = [
    tried("too many bad records", _bounded, "check kind, separator and header of the link", BAD * 3 + LINES * 4, LINES),
    tried("a query with a block of other fields than the lake keeps", _planned, "leave it out of the query file",
          BY_POSITION.replace("size", "length"), ""),
    tried("a header of too many columns", run_over, "check kind of the link",
          ("", WIDE, "zeek", "SELECT time FROM log.ZEEK_CONN"), (BY_POSITION, LINES)),
]  # fmt: skip
