"""What the writer of numbers writes is read back equal by Arrow and DuckDB."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.capture.interpretation import FEW, FirstRecords
from lowwater.lake import parquet
from lowwater.lake.parquet import FileWriter, PageBuffers
from tests.breadth import each_push

LOW = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}
CONSTANTS = {"capture": "ab" * 32, "empty": ""}
"""What is known of all rows when the file is there but for its end."""

SIZES = (1, 7, 8, 9, 31, 33, 127, 128, 129, 130, 1000, 5000)


def written(path: Path, table: pa.Table, counters: tuple[str, ...], rows: int, bounded: tuple[str, ...] = ()) -> Path:
    """The file of a table, in pages of so many rows, whose arrays begin at odd offsets."""
    parquet, scratch = FileWriter(table.schema, counters, bounded), PageBuffers()
    for batch in table.combine_chunks().to_batches(rows):
        parquet.add([batch], scratch)
    assert parquet.write(path).finish(CONSTANTS) == path.stat().st_size
    return path


def columns(kind: str, rows: int, seed: int) -> dict[str, pa.Array]:
    """Numbers of every width, constant, few, many, increasing, and at the ends of their type."""
    random = np.random.default_rng(seed)
    least, most = LOW[kind]
    bits = 32 if kind == "int32" else 64
    found = {"constant": np.full(rows, 64240), "increasing": np.cumsum(random.integers(0, 9, rows))}
    found["few"] = random.choice([0, 6, 17, 58, least, most], rows)
    found["ends"] = random.choice([least, most], rows)
    found["any"] = random.integers(least, most, rows, endpoint=True)
    for width in range(1, bits):
        found[f"width{width}"] = random.integers(0, 1 << width, rows)
    return {name: pa.array(values.astype(kind)) for name, values in found.items()}


def nulls(array: pa.Array, share: float, seed: int) -> pa.Array:
    mask = np.random.default_rng(seed).random(len(array)) < share
    return pa.array(array.to_numpy(), array.type, mask=mask)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "counters", "share"), each_push(product(["int32", "int64"], [True, False], [0.0, 0.02, 0.6, 1.0]), 3)
)
def test_numbers_come_back(tmp_path: Path, kind: str, counters: bool, share: float) -> None:
    for seed, rows in enumerate(SIZES):
        given = columns(kind, rows, seed)
        if share:
            given = {name: nulls(array, share, seed) for name, array in given.items()}
        fields = [pa.field(name, array.type, nullable=bool(share)) for name, array in given.items()]
        table = pa.Table.from_arrays(list(given.values()), schema=pa.schema(fields))
        path = written(tmp_path / "a.parquet", table, tuple(given) if counters else (), 1 + rows // 3)
        there = [name for name in given if table.column(name).null_count < rows]
        read = pq.read_table(path)
        assert read.schema.names == [*there, *CONSTANTS]
        assert read.select(there).equals(table.select(there))
        assert read.select(list(CONSTANTS)).to_pylist() == [CONSTANTS] * rows
        assert duckdb.read_parquet(str(path)).to_arrow_table().cast(read.schema).equals(read)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_numbers_of_a_first_capture_come_back_from_arrow_and_from_kernels_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, share: float
) -> None:
    monkeypatch.setattr("lowwater.capture.interpretation.has_machine_code", lambda function, name: False)
    rows, page = 60, 20
    given = {name: nulls(array, share, 5) for name, array in columns(kind, rows, 3).items()}
    given["late"] = pa.array([None] * 2 * page + list(range(page)), given["few"].type)
    fields = [pa.field(name, array.type, nullable=array.null_count > 0) for name, array in given.items()]
    table = pa.Table.from_arrays(list(given.values()), schema=pa.schema(fields))
    bounded = ("ends",) if kind == "int64" and not share else ()
    uses = {}
    for by_arrow in (FEW, 0, page):
        first = FirstRecords(parquet.page, lambda: "page")
        first.few(FEW - by_arrow)
        monkeypatch.setattr(parquet, "_FIRST", first)
        path = written(tmp_path / f"{by_arrow}.parquet", table, ("increasing",), page, bounded)
        read = pq.read_table(path)
        assert read.select(list(given)).equals(table)
        assert duckdb.read_parquet(str(path)).to_arrow_table().cast(read.schema).equals(read)
        group = pq.read_metadata(path).row_group(0)
        chunks = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
        uses[by_arrow] = set(chunks["few"].encodings) & {"RLE_DICTIONARY", "DELTA_BINARY_PACKED"}
        for name in bounded:
            assert (chunks[name].statistics.min, chunks[name].statistics.max) == LOW[kind]
    differences = {"DELTA_BINARY_PACKED"}
    assert uses == {FEW: differences, page: differences, 0: {"RLE_DICTIONARY"}}


def test_texts_and_bytes_stand_beside_numbers_and_empty_columns_are_left_out(tmp_path: Path) -> None:
    fields = [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("nothing", pa.int32()),
        pa.field("frame", pa.binary()),
        pa.field("host", pa.string()),
        pa.field("silent", pa.string()),
    ]
    arrays = [pa.array(range(300)), pa.nulls(300, pa.int32())]
    arrays += [pa.array([bytes([at % 256]) * (at % 40) if at % 3 else None for at in range(300)], pa.binary())]
    arrays += [pa.array([f"host{at % 5}.example" if at % 7 else None for at in range(300)]), pa.nulls(300, pa.string())]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    path = written(tmp_path / "a.parquet", table, ("number",), 100, ("number",))
    read = pq.read_table(path)
    there = ["number", "frame", "host"]
    assert read.schema.names == [*there, *CONSTANTS]
    assert read.select(there).to_pylist() == table.select(there).to_pylist()
    bounds = pq.read_metadata(path).row_group(0).column(0).statistics
    assert (bounds.min, bounds.max) == (0, 299)
    assert duckdb.read_parquet(str(path)).fetchall() == [tuple(row.values()) for row in read.to_pylist()]


def test_texts_may_come_in_dictionaries_and_without(tmp_path: Path) -> None:
    first = pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1, 0], pa.int32()), pa.array(["a", "never", "é"]).take([0, 2])
    )
    second = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int32()), pa.array(["b", "a"]))
    plain = pa.array(["c", None, "a"])
    schema = pa.schema([pa.field("host", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    for parts in ([first, second], [first, plain, second]):
        rows = [value for part in parts for value in part.to_pylist()]
        batches = []
        for part in parts:
            fields = [pa.field("host", part.type), schema.field("n")]
            batches.append(pa.record_batch([part, pa.array(range(len(part)))], schema=pa.schema(fields)))
        parquet, scratch = FileWriter(schema, (), ()), PageBuffers()
        parquet.add(batches[:1], scratch)
        parquet.add(batches[1:], scratch)
        path = tmp_path / f"{len(parts)}.parquet"
        parquet.write(path).finish(CONSTANTS)
        read = pq.read_table(path)
        assert read.schema.field("host").type == pa.string() and read.column("host").to_pylist() == rows
        assert [row[0] for row in duckdb.read_parquet(str(path)).fetchall()] == rows


def test_booleans_and_floats_come_back(tmp_path: Path) -> None:
    table = pa.table(
        {"up": [True, None, False] * 40, "rtt": [0.5, -1e300, None] * 40, "none": pa.nulls(120, pa.bool_())}
    )
    path = written(tmp_path / "a.parquet", table, (), 50)
    assert pq.read_table(path).drop_columns(list(CONSTANTS)).equals(table.drop_columns(["none"]))
    assert duckdb.read_parquet(str(path)).to_arrow_table().column("rtt").to_pylist() == table.column("rtt").to_pylist()
