"""Parquet of strangers as captures: what a small file would make of memory or time is refused before it is decoded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater import limits
from lowwater.capture.tables import columnar
from lowwater.capture.tables.reader import RecordReader
from lowwater.capture.tables.sniffing import sniff
from lowwater.errors import CaptureError
from tests.capture.tablemaker import BY_NAME, as_parquet, flows
from tests.capture.test_tables import options
from tests.memory import peak_memory

PLAIN: dict[str, Any] = {"use_dictionary": False, "write_statistics": False, "compression": "zstd"}


def rows(path: Path) -> pa.Table:
    path.write_bytes(as_parquet(flows(1, 50)))
    return pq.read_table(path)


def with_text(table: pa.Table, size: int) -> pa.Table:
    """Each row has one long text of zeros: some bytes of the file."""
    return table.slice(0, 1).set_column(table.column_names.index("host"), "host", pa.array(["\0" * size]))


def long_page(path: Path) -> None:
    pq.write_table(with_text(rows(path), 4 << 20), path, **PLAIN)


def pages_of_many_columns(path: Path) -> None:
    """No page is long, and each column has one in memory."""
    table = with_text(rows(path), 900_000)
    for number in range(20):
        table = table.append_column(f"more{number}", table["host"])
    pq.write_table(table, path, **PLAIN)


def long_dictionaries(path: Path) -> None:
    pq.write_table(with_text(rows(path), 4 << 20), path, write_statistics=False, compression="zstd")


def one_long_list(path: Path) -> None:
    table = rows(path).slice(0, 1)
    zeros = pa.ListArray.from_arrays(pa.array([0, 1 << 20], pa.int32()), pa.array(np.zeros(1 << 20, np.int64)))
    pq.write_table(table.append_column("list", zeros), path, write_statistics=False)


def many_rows(path: Path) -> None:
    """The same row again and again: a run of one value in each column."""
    same = rows(path).take(pa.array(np.zeros(1 << 18, np.int64)))
    with pq.ParquetWriter(path, same.schema, write_statistics=False) as writer:
        for _ in range(5):
            writer.write_table(same)


def many_columns(path: Path) -> None:
    table = rows(path)
    pq.write_table(table.from_pydict({**table.to_pydict(), **{f"c{n}": [1] * 50 for n in range(120)}}), path)


def a_wide_struct(path: Path) -> None:
    table = rows(path)
    inner = pa.StructArray.from_arrays([pa.array([1] * 50)] * 120, [f"c{n}" for n in range(120)])
    pq.write_table(table.append_column("wide", inner), path)


def long_footer(path: Path) -> None:
    pq.write_table(rows(path).replace_schema_metadata({"x": "a" * 200_000}), path)


BOMBS: dict[Callable[[Path], None], tuple[str, bool]] = {
    long_page: ("a page of it has 4,194,", True),
    long_dictionaries: ("a page of it has 4,194,", True),
    pages_of_many_columns: ("bytes of memory at a time", False),
    one_long_list: ("a list of it may have 1,048,577 values", False),
    many_rows: ("it becomes more than", True),
    many_columns: ("columns, and at most 100 are read", True),
    a_wide_struct: ("columns, and at most 100 are read", True),
    long_footer: ("its footer has", True),
}
"""What is made -> what is said, and whether ingest says it too, which reads the columns of the protocol only."""


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda made: made.__name__)
def test_a_small_file_of_much_memory_is_refused(
    bomb: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, ingested = BOMBS[bomb]
    path = tmp_path / "records.parquet"
    bomb(path)
    assert path.stat().st_size < 1 << 20
    monkeypatch.setattr(limits, "PARQUET_PAGE_BYTES", 1 << 20)
    monkeypatch.setattr(limits, "PARQUET_GROUP_BYTES", 1 << 24)
    monkeypatch.setattr(limits, "PARQUET_FILE_BYTES", 1 << 25)
    monkeypatch.setattr(limits, "PARQUET_FOOTER_BYTES", 1 << 17)
    monkeypatch.setattr(columnar, "SEPARATED_COLUMNS", 100)
    works: list[Callable[[], object]] = [lambda: sniff(path)]
    if ingested:
        works.append(lambda: list(RecordReader(path, options("parquet", BY_NAME), 1 << 62, "")))
    for work in works:
        before = peak_memory()
        with pytest.raises(CaptureError, match=said) as refused:
            work()
        assert str(path) in refused.value.message and refused.value.hint and "lake" not in refused.value.hint
        assert peak_memory() - before < 100 << 20


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
def test_files_of_every_writer_are_no_bombs(codec: str, version: str, tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    table = rows(path)
    common = {"compression": codec, "data_page_version": version}
    for coded, size in ((True, 1 << 20), (False, 100)):
        pq.write_table(table, path, use_dictionary=coded, data_page_size=size, **common)
        read = sum(batch.num_rows for batch in RecordReader(path, options("parquet", BY_NAME), 1 << 62, ""))
        assert read == table.num_rows and sniff(path).records == table.num_rows


def test_columns_that_no_field_reads_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bomb beside the columns of the protocol costs ingest nothing."""
    path = tmp_path / "records.parquet"
    one_long_list(path)
    monkeypatch.setattr(limits, "PARQUET_PAGE_BYTES", 1 << 20)
    assert sum(batch.num_rows for batch in RecordReader(path, options("parquet", BY_NAME), 1 << 62, "")) == 1


def test_damaged_pages_are_refused_or_read_and_nothing_else(tmp_path: Path) -> None:
    """A page that says that it has 2^31 values, a size below none, or a header that never ends."""
    random, path = Random(11), tmp_path / "records.parquet"
    table, refused = rows(path), 0
    for options_ in ({}, {"use_dictionary": False, "data_page_version": "2.0", "compression": "zstd"}):
        pq.write_table(table, path, **options_)
        whole = path.read_bytes()
        end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
        for number in range(150):
            data = bytearray(whole)
            begin = random.randrange(4, end - 12)
            data[begin : begin + 10] = random.choice((b"\xff" * 9 + b"\x0f", bytes(10), random.randbytes(10)))
            damaged = tmp_path / f"{number}.parquet"
            damaged.write_bytes(data)
            before = peak_memory()
            try:
                for _ in RecordReader(damaged, options("parquet", BY_NAME), 1 << 62, ""):
                    pass
            except CaptureError as error:
                assert error.hint and str(damaged) in error.message
                refused += 1
            assert peak_memory() - before < 100 << 20
    assert refused
