"""Files of records that are no packets: every form of file gives the same rows, and bad records are named."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture.tables import blocks, columnar
from lowwater.capture.tables.options import TableOptions, TextOptions
from lowwater.capture.tables.reader import RecordReader
from lowwater.catalog.values import format_ip, ip_from_words
from tests.breadth import examples
from tests.capture import fuzz_tables
from tests.capture.tablemaker import (
    BEGIN,
    BY_NAME,
    BY_POSITION,
    Row,
    as_csv,
    as_json,
    as_parquet,
    flows,
    instant,
    layout,
    write,
)

SECOND = 1_000_000_000
JUMP = 61 * SECOND


def options(kind: str, protocol: str, text: TextOptions | None = None) -> TableOptions:
    return TableOptions(kind, layout(protocol), text or TextOptions())


def read(path: Path, chosen: TableOptions, jump: int = JUMP) -> tuple[list[Row], RecordReader]:
    """The records of a file as rows, and the reader after its end."""
    reader = RecordReader(path, chosen, jump, "")
    rows = [row for batch in reader for row in batch.to_pylist()]
    return [as_row(row) for row in rows], reader


def stored(path: Path, chosen: TableOptions) -> list[Row]:
    """The rows as they are stored."""
    return [row for batch in RecordReader(path, chosen, JUMP, "") for row in batch.to_pylist()]


def as_row(row: Row) -> Row:
    """A stored row with the names of the protocol; addresses as texts."""
    plain = {name.partition(":")[2]: value for name, value in row.items() if ":" in name and not name.startswith("ip.")}
    version, high, low = (row[f"ip.{word}:src"] for word in ("version", "high", "low"))
    return {**plain, "src": None if version is None else format_ip(ip_from_words(version, high, low))}


def reasons(reader: RecordReader) -> list[tuple[int, int, int, str]]:
    """Line, offset, length and reason of the malformed records."""
    return [(row["line"], row["offset"], row["length"], row["reason"]) for row in reader.malformed.to_pylist()]


FORMS = {
    "csv": (lambda rows: as_csv(rows), options("csv", BY_POSITION)),
    "csv with CRLF": (lambda rows: as_csv(rows, end="\r\n"), options("csv", BY_POSITION)),
    "csv with names": (lambda rows: as_csv(rows, header=True), options("csv", BY_NAME)),
    "csv with a skipped header": (lambda rows: as_csv(rows, header=True),
                                  options("csv", BY_POSITION, TextOptions(header=True))),
    "tsv": (lambda rows: as_csv(rows, separator="\t", null="\\N"),
            options("csv", BY_POSITION, TextOptions(separator="\t", null=("\\N",)))),
    "json": (as_json, options("json", BY_NAME)),
    "parquet": (as_parquet, options("parquet", BY_NAME)),
    "parquet by position": (as_parquet, options("parquet", BY_POSITION)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "compression"),
    [(form, packed) for form in FORMS for packed in ("", "gzip", "zstd") if not packed or "parquet" not in form],
)
def test_every_form_gives_the_rows(form: str, compression: str, tmp_path: Path) -> None:
    made, chosen = FORMS[form]
    rows = flows(1, 700)
    got, reader = read(write(tmp_path / "file", made(rows), compression), chosen)
    assert got == rows
    assert reader.malformed.num_rows == 0
    assert reader.summary is not None
    assert reader.summary.ended_cleanly
    assert reader.summary.packets == len(rows)


def test_bad_records_are_named(tmp_path: Path) -> None:
    lines = [
        f"{BEGIN},10.0.0.1,1,a,1,true", f"{BEGIN},10.0.0.300,1,a,1,true", f"{BEGIN},10.0.0.1,1.5,a,1,true",
        f"{BEGIN},10.0.0.1,1,a,nan,true", "", f"{BEGIN},10.0.0.1,1,a,1,perhaps", f"{BEGIN},10.0.0.1,1,a,1",
        ",10.0.0.1,1,a,1,true", "-5,10.0.0.1,1,a,1,true", "99999999999,10.0.0.1,1,a,1,true",
        f"{BEGIN + 1}, 10.0.0.2 , 2 ,a, 1 , T", f"{BEGIN + 1},10.0.0.2,9223372036854775808,a,1,true",
    ]  # fmt: skip
    data = "\n".join(lines).encode() + b"\n"
    got, reader = read(write(tmp_path / "file", data), options("csv", BY_POSITION))
    assert [row["bytes"] for row in got] == [1, 2]
    expected = {
        2: "value of src", 3: "value of bytes", 4: "value of rtt", 6: "value of up", 7: "columns", 8: "no-time",
        9: "time-range", 10: "time-range", 12: "value of bytes",
    }  # fmt: skip
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line) + 1)
    assert reasons(reader) == [
        (line, begins[line - 1], len(lines[line - 1]) + 1, reason) for line, reason in expected.items()
    ]


def test_bad_lines_of_json_are_named(tmp_path: Path) -> None:
    good = b'{"time": %d, "src": "10.0.0.1", "bytes": 1}\n' % BEGIN
    bad = {
        b"[1]": "syntax",
        b"{": "syntax",
        b'{"time": "x"}': "value of time",
        b'{"time": 1.5}': "value of time",
        good.strip() * 2: "syntax",
        b"null": "syntax",
        b'{"time": 5, "rtt": NaN}': "syntax",
        b'{"time": 5, "rtt": 1e999}': "value of rtt",
        b'{"time": 5, "host": "\\ud800"}': "value of host",
        b'{"time": 5, "bytes": 9223372036854775808}': "value of bytes",
        b'{"time": true}': "value of time",
        b'{"src": "10.0.0.1"}': "no-time",
        b'{"time": 5, "host": "\xff"}': "encoding",
        b"[" * 100_000: "syntax",
    }
    data = good + b"".join(line + b"\n" for line in bad) + b"\n" + good
    got, reader = read(write(tmp_path / "file", data), options("json", BY_NAME))
    assert [row["bytes"] for row in got] == [1, 1]
    assert [(line, reason) for line, _, _, reason in reasons(reader)] == list(enumerate(bad.values(), 2))


@pytest.mark.parametrize(
    ("access", "written", "value"),
    [
        ("llong ts get_csv_llong_pos1 (increasing, unit ms)", "1767225600123", 1767225600123000000),
        ("llong ts get_csv_llong_pos1 (increasing, unit ns)", "1767225600123456789", 1767225600123456789),
        ("llong ts get_csv_float_to_timestamp_pos1 (increasing, unit ns)", "1767225600.123456789", 1767225600123456789),
        ("llong ts get_csv_float_to_timestamp_pos1 (increasing)", "1767225600.9", 1767225600900000000),
        ("llong ts get_csv_iso_to_timestamp_pos1 (increasing)", "2026-01-01T00:00:00.25Z", 1767225600250000000),
        ("llong ts get_csv_iso_to_timestamp_pos1 (increasing)", "2026-01-01T02:00:00+0200", 1767225600000000000),
        ("llong ts get_csv_iso_to_timestamp_pos1 (increasing)", "2026-01-01 00:00:00", 1767225600000000000),
    ],
)
def test_times(access: str, written: str, value: int, tmp_path: Path) -> None:
    protocol = f"PROTOCOL T {{ {access}; }}"
    (record,) = stored(write(tmp_path / "file", f"{written}\n".encode()), options("csv", protocol))
    assert record["timestamp"] == value
    unit = layout(protocol).unit
    assert record["int:ts"] == value // unit


def test_times_of_json_and_parquet(tmp_path: Path) -> None:
    seconds = "PROTOCOL T { llong ts get_csv_float_to_timestamp (increasing, unit ns); }"
    path = write(tmp_path / "a", b'{"ts": 1767225600.123456}\n{"ts": "1767225601.5"}\n')
    rows = [row["int:ts"] for row in stored(path, options("json", seconds))]
    assert rows == [1767225600123456000, 1767225601500000000]
    table = pa.table({"ts": pa.array([1767225600123456], pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "b")
    iso = "PROTOCOL T { llong ts get_csv_iso_to_timestamp (increasing, unit ns); }"
    assert [row["int:ts"] for row in stored(tmp_path / "b", options("parquet", iso))] == [1767225600123456000]


@pytest.mark.parametrize("kind", [pa.decimal128(20, 9), pa.decimal128(38, 12), pa.decimal256(60, 9)])
def test_decimals_of_parquet_are_exact_times(kind: pa.DataType, tmp_path: Path) -> None:
    seconds = "PROTOCOL T { llong ts get_csv_float_to_timestamp (increasing, unit ns); }"
    texts = ["0", "0.000000001", "0.0000005", "0.000001", "0.5", "1", "1200000.000000001", "4611686018"]
    table = pa.table({"ts": pa.array([Decimal(text) for text in texts], kind)})
    pq.write_table(table, tmp_path / "a")
    reader = RecordReader(tmp_path / "a", options("parquet", seconds), 1 << 62, "")
    rows = [row["int:ts"] for batch in reader for row in batch.to_pylist()]
    assert rows == [int(Decimal(text) * SECOND) for text in texts[:-1]]
    assert len(reasons(reader)) == 1, "at or above 2^62 ns"


def test_values_inside_of_others(tmp_path: Path) -> None:
    protocol = """PROTOCOL EVE {
        llong ts get_csv_iso_to_timestamp (name timestamp, increasing, unit ns);
        string host get_csv_string (name 'id.orig_h');
        uint sent get_csv_uint (path 'flow.bytes');
    }"""
    lines = [
        f'{{"timestamp": "{instant(BEGIN)}", "id.orig_h": "a", "flow": {{"bytes": 5, "more": [1]}}}}',
        f'{{"timestamp": "{instant(BEGIN)}", "flow": null}}',
    ]
    path = write(tmp_path / "file", "\n".join(lines).encode())
    rows = [(row["string:host"], row["int:sent"]) for row in stored(path, options("json", protocol))]
    assert rows == [("a", 5), (None, None)]


def test_a_file_that_was_cut(tmp_path: Path) -> None:
    data = as_csv(flows(5, 60))
    whole = data[:-1]
    assert read(write(tmp_path / "a", whole), options("csv", BY_POSITION))[1].summary.ended_cleanly  # type: ignore[union-attr]
    cut = data[: data.rindex(b"\n", 0, -1) + 5]
    _, reader = read(write(tmp_path / "b", cut), options("csv", BY_POSITION))
    assert not reader.summary.ended_cleanly  # type: ignore[union-attr]
    assert [reason for *_, reason in reasons(reader)] == ["cut"]
    packed = gzip.compress(data)
    _, reader = read(write(tmp_path / "c", packed[: len(packed) // 2]), options("csv", BY_POSITION))
    assert not reader.summary.ended_cleanly  # type: ignore[union-attr]
    assert reasons(reader)[-1][3] == "compression"


@pytest.mark.parametrize("form", ["csv", "csv with names", "json"])
def test_a_byte_order_mark_is_skipped(form: str, tmp_path: Path) -> None:
    made, chosen = FORMS[form]
    rows = flows(9, 20)
    got, reader = read(write(tmp_path / "a", b"\xef\xbb\xbf" + made(rows)), chosen)
    assert got == rows
    assert reader.malformed.num_rows == 0


def test_a_quote_without_an_end_is_one_bad_line(tmp_path: Path) -> None:
    rows = flows(6, 40)
    lines = [as_csv([row]) for row in rows]
    plain = [line for line in lines if b'"' not in line]
    data = b"".join([*plain[:5], f'{BEGIN},10.0.0.1,1,"a,1,true\n'.encode(), *plain[5:]])
    got, reader = read(write(tmp_path / "file", data), options("csv", BY_POSITION))
    assert len(got) == len(plain)
    assert [(line, reason) for line, _, _, reason in reasons(reader)] == [(6, "length")]


def test_a_long_record_is_damage_whatever_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "RECORD_BYTES", 200)
    long = f"{BEGIN},10.0.0.1,1,{'x' * 300},1,true\n".encode()
    data = as_csv(flows(7, 20)) + long + as_csv(flows(7, 20))
    path = write(tmp_path / "file", data)
    for size in (50, 1000, 1 << 20):
        monkeypatch.setattr(blocks, "RECORD_BLOCK_BYTES", size)
        got, reader = read(path, options("csv", BY_POSITION))
        assert len(got) == 40
        assert [(offset, reason) for _, offset, _, reason in reasons(reader)] == [(len(as_csv(flows(7, 20))), "length")]


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(st.sampled_from(sorted(fuzz_tables.MAKERS)), st.integers(0, 2**32))
def test_hostile_files_are_read_or_refused(maker: str, seed: int) -> None:
    """Every byte is in an account, and errors are our own."""
    with TemporaryDirectory() as folder:
        fuzz_tables.read(Path(folder) / "file", fuzz_tables.MAKERS[maker](Random(seed)))


def test_texts_of_a_dictionary_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One long text that a dictionary repeats would fill the memory; a longer one than a record may be is malformed."""
    monkeypatch.setattr(columnar, "PARQUET_TEXT_BYTES", 5000)
    monkeypatch.setattr(columnar, "MOST_VALUE", 1500)
    texts = ["x", "y" * 1000, "z" * 2000, None]
    hosts = [texts[at % 4] for at in range(400)]
    path = tmp_path / "file"
    pq.write_table(pa.table({"time": [BEGIN + at for at in range(400)], "host": hosts}), path)
    fields = layout("PROTOCOL P { uint time get_csv_uint (increasing); string host get_csv_string; }")
    reader = RecordReader(path, TableOptions("parquet", fields), 1 << 40, "")
    rows = pa.Table.from_batches([*reader], reader.schema)
    kept = [at for at in range(400) if at % 4 != 2]
    assert rows["position"].to_pylist() == kept and rows["string:host"].to_pylist() == [hosts[at] for at in kept]
    assert set(reader.malformed["reason"].to_pylist()) == {"length"} and reader.malformed.num_rows == 100
