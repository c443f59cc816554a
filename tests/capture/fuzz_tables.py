"""Hostile files of records, drawn: mutated lines, odd headers, damaged parquet; and what must hold of each."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.capture.tables.delimited import TextOptions
from lowwater.capture.tables.reader import RecordReader, TableOptions
from lowwater.capture.tables.sniffing import sniff
from lowwater.errors import CaptureError
from lowwater.lake.files.protocols import propose_protocol
from tests.capture.tablemaker import BY_NAME, BY_POSITION, as_csv, as_json, as_parquet, flows, layout

LINES = 500
"""Lines of a fuzzed file."""

PIECES = tuple(
    text.encode("latin-1")
    for text in (
        ",", '"', "\n", "\r\n", "\r", "\0", "\xff", "\xc3\xa9", "''", "-", "0x7f", "nan", "1e999", "9" * 25, "{", "}",
        "[", ":", "\\u0000", "\\ud800", "true", "null", "2026-01-01T00:00:00Z", "::", '""', ";;", " ", "1767225600",
        "99999999999999999999", "\xef\xbb\xbf", "\t", "|",
    )
)  # fmt: skip


class Item(NamedTuple):
    """A file to read: kind of the link, whether its fields have names, how text is written, and its bytes."""

    kind: str
    named: bool
    text: TextOptions
    data: bytes


def lines(random: Random) -> Item:
    """A file of mutated lines."""
    rows = flows(random.randrange(1 << 30), LINES, disorder=random.randrange(3))
    if random.random() < 0.4:
        data = as_json(rows)
        return Item("json", True, TextOptions(), mutated(random, data, random.randrange(LINES)))
    named, separator = random.random() < 0.5, random.choice(",;\t|")
    quote = random.choice(('"', '"', "", "'"))
    data = as_csv(rows, separator, header=named, end=random.choice(("\n", "\r\n")))
    head, mark, rest = data.partition(b"\n") if named else (b"", b"", data)
    text = TextOptions(separator, quote if quote != separator else "")
    return Item("csv", named, text, head + mark + mutated(random, rest, random.randrange(LINES)))


def mutated(random: Random, data: bytes, changes: int) -> bytes:
    """Bytes with so many places that are changed, left out, doubled, or have a piece of syntax in them."""
    parts, last = [], 0
    for at in sorted(random.randrange(len(data) + 1) for _ in range(changes)):
        if at < last:
            continue
        parts.append(data[last:at])
        size = random.choice((1, 1, 2, 10, 100))
        last = at
        match random.randrange(4):
            case 0:
                parts.append(bytes(random.randrange(256) for _ in range(min(size, len(data) - at))))
                last = at + size
            case 1:
                last = at + size
            case 2:
                parts.append(data[at : at + size])
            case _:
                parts.append(random.choice(PIECES) * random.choice((1, 1, 1, 50)))
    return b"".join([*parts, data[last:]])


def header(random: Random) -> Item:
    """A file whose first line is odd."""
    words = (b"time", b"src", b"bytes", b"host", b"rtt", b"up", *PIECES)
    names = [random.choice(words) for _ in range(random.randrange(9))]
    line = random.choice((b",", b",", b";", b"\t")).join(names)
    if random.random() < 0.02:
        line = random.choice((b",", b'"', b"a,", b'"",', b"time,")) * random.choice((1000, 20_000, 1_000_000))
    elif random.random() < 0.5:
        line = b"time,src,bytes,host,rtt,up"
        line = mutated(random, line, random.randrange(1, 6))
    body = as_csv(flows(random.randrange(1 << 30), 3))
    text = TextOptions(random.choice(",;\t"), random.choice(('"', "")))
    named = random.random() < 0.8
    return Item("csv", named, text, line + random.choice((b"\n", b"\r\n", b"")) + body)


def parquet(random: Random) -> Item:
    """A parquet file whose bytes are changed, more often those of its footer; or one of odd columns."""
    if random.random() < 0.2:
        return Item("parquet", True, TextOptions(), _odd_columns(random))
    data = bytearray(as_parquet(flows(random.randrange(1 << 30), 300)))
    size = int.from_bytes(data[-8:-4], "little")
    first = len(data) - 8 - size if random.random() < 0.7 else 0
    for _ in range(random.choice((1, 1, 2, 5, 30))):
        data[random.randrange(first, len(data))] = random.choice((0, 255, 127, 128, random.randrange(256)))
    if random.random() < 0.1:
        at = random.randrange(len(data))
        del data[at : at + random.randrange(1, 200)]
    return Item("parquet", random.random() < 0.5, TextOptions(), bytes(data))


def _odd_columns(random: Random) -> bytes:
    rows = random.choice((0, 1, 100))
    columns: dict[str, pa.Array] = {}
    kinds = [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(38, 3), pa.decimal128(5, 0), pa.date32(), pa.binary(),
             pa.timestamp("s"), pa.timestamp("ns", "Asia/Tokyo"), pa.duration("ns"), pa.time64("ns"), pa.large_string(),
             pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()), pa.struct([("x", pa.struct([("y", pa.int32())]))]),
             pa.dictionary(pa.int8(), pa.string()), pa.null(), pa.bool_(), pa.string()]  # fmt: skip
    for name in ("time", "src", "bytes", "host", "rtt", "up", "", "é", "a.b"):
        if random.random() < 0.9:
            columns[name] = pa.nulls(rows, random.choice(kinds))
    out = io.BytesIO()
    table = pa.table(columns)
    if random.random() < 0.1:
        table = table.rename_columns([random.choice(("time", "host", name)) for name in table.column_names])
    if random.random() < 0.7 and rows:
        table = table.set_column(0, "time", pa.array(range(1767225600, 1767225600 + rows)))
    pq.write_table(table, out)
    return out.getvalue()


MAKERS: dict[str, Callable[[Random], Item]] = {"lines": lines, "headers": header, "files": parquet}


def read(path: Path, item: Item) -> str:
    """Reads a file and makes a proposal for it; returns how it went.

    It is read, or refused with an error that names it and has a hint; every byte of a text is in a record, a malformed
    row or the overhead; positions are counted without a gap.
    """
    path.write_bytes(item.data)
    protocol = layout(BY_NAME if item.named else BY_POSITION)
    reader = RecordReader(path, TableOptions(item.kind, protocol, item.text), 10**11, "")
    outcome = "read"
    try:
        rows = sum(batch.num_rows for batch in reader)
        summary, damage = reader.summary, reader.malformed
        assert summary is not None
        reasons = damage["reason"].to_pylist()
        positions = rows + len(reasons) - sum(reason == "compression" for reason in reasons)
        assert max(damage["position"].to_pylist(), default=-1) <= positions, "positions"
        lost = sum(damage["length"].to_pylist())
        if item.kind != "parquet":
            whole = summary.unpacked + summary.skipped
            assert summary.record_bytes + lost + summary.overhead == whole, "bytes are in no account"
    except CaptureError as error:
        assert str(path) in error.message and error.hint, error
        outcome = "refused"
    try:
        proposal = propose_protocol(sniff(path), "fuzzed")
        assert len(proposal.fields) >= 1
        return f"{outcome}, proposed"
    except CaptureError as error:
        assert error.hint, error
    return outcome
