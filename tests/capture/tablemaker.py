"""Files of records and protocols for the tests of `capture.tables` and of runs over them."""

from __future__ import annotations

import datetime
import gzip
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.records import RecordLayout
from lowwater.gsql.parser import parse
from lowwater.plan.bind.names import declare

Row = dict[str, Any]

BEGIN = 1_767_225_600
"""First second of the records."""

BY_POSITION = """PROTOCOL FLOW {
    uint time get_csv_uint_pos1 (increasing);
    IP src get_csv_ip_pos2;
    llong bytes get_csv_llong_pos3;
    string host get_csv_string_pos4;
    float rtt get_csv_float_pos5;
    bool up get_csv_bool_pos6;
}
"""

BY_NAME = """PROTOCOL FLOW {
    uint time get_csv_uint (increasing);
    IP src get_csv_ip;
    llong bytes get_csv_llong;
    string host get_csv_string;
    float rtt get_csv_float;
    bool up get_csv_bool;
}
"""

NAMES = ("time", "src", "bytes", "host", "rtt", "up")
HOSTS = ("a", "b,c", 'say "hi"', "", "two\nlines", "ü", "-")


def layout(protocol: str) -> RecordLayout:
    """The layout of a PROTOCOL block."""
    (block,) = parse(protocol).protocols
    made = declare([(block, "test", protocol)])[block.name].layout
    assert made is not None
    return made


def flows(seed: int, count: int, disorder: int = 0) -> list[Row]:
    """Rows of flows, about four a second, each at most `disorder` seconds behind the largest time before it."""
    random = Random(seed)
    rows, clock = [], BEGIN
    for _ in range(count):
        clock += random.choice((0, 0, 0, 1))
        rows.append(
            {
                "time": clock - random.randint(0, disorder),
                "src": random.choice(("10.0.0.1", "10.0.0.2", "2001:db8::1", None)),
                "bytes": random.choice((None, 0, 7, -3, 1 << 40, random.randint(0, 1500))),
                "host": random.choice((*HOSTS, None)),
                "rtt": random.choice((None, 0.5, -1.25, 1e-3, random.random())),
                "up": random.choice((True, False, None)),
            }
        )
    return rows


def as_csv(rows: list[Row], separator: str = ",", header: bool = False, null: str = "", end: str = "\n") -> bytes:
    """Delimited text: texts in quotes, so that an empty text is not NULL."""
    lines = [separator.join(NAMES)] if header else []
    for row in rows:
        lines.append(separator.join(_written(row[name], null) for name in NAMES))
    return "".join(f"{line}{end}" for line in lines).encode()


def _written(value: Any, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not value.replace(".", "").replace(":", "").isalnum():
        return '"' + value.replace('"', '""') + '"'
    return repr(value) if isinstance(value, float) else str(value)


def as_json(rows: list[Row]) -> bytes:
    """JSON lines; a NULL is null or absent."""
    kept = ({name: value for name, value in row.items() if value is not None or name != "src"} for row in rows)
    return "".join(json.dumps(row) + "\n" for row in kept).encode()


def as_parquet(rows: list[Row]) -> bytes:
    """A parquet file with the types of the fields."""
    schema = pa.schema(
        [
            ("time", pa.int32()), ("src", pa.string()), ("bytes", pa.int64()),
            ("host", pa.dictionary(pa.int32(), pa.string())), ("rtt", pa.float64()), ("up", pa.bool_()),
        ]
    )  # fmt: skip
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), out, row_group_size=100)
    return out.getvalue()


def write(path: Path, data: bytes, compression: str = "") -> Path:
    """Writes a file, compressed by `gzip` or `zstd` if asked."""
    if compression == "gzip":
        data = gzip.compress(data)
    elif compression:
        data = pa.Codec(compression).compress(data, asbytes=True)
    path.write_bytes(data)
    return path


def instant(second: int) -> str:
    """ISO 8601 of a second."""
    return datetime.datetime.fromtimestamp(second, datetime.UTC).isoformat()
