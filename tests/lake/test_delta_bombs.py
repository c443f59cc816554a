"""The log of a table, and its files, made to cost the reader: refused in one line, before anything decodes them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lowwater import limits
from lowwater.config import load_config
from lowwater.errors import ConfigError, LakeError
from lowwater.lake.open_tables import _OPEN, at_version, newest
from lowwater.lake.tables import append_rows, create, live_files, open_table, read_rows
from lowwater.storage import paths
from lowwater.storage.untrusted import UnreadableError, know, require_modest
from tests.memory import peak_memory

SCHEMA = pa.schema([("_hour", pa.int64()), ("_last", pa.int64()), ("x", pa.string())])
ROWS = pa.table({"_hour": [1] * 10, "_last": range(10), "x": [str(value) for value in range(10)]}, SCHEMA)
NEXT = f"{3:020d}.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two commits of rows; the copy beside it has a checkpoint."""
    path = tmp_path_factory.mktemp("tables") / "table"
    create(path, SCHEMA, ["_hour"])
    append_rows(path, ROWS)
    append_rows(path, ROWS)
    DeltaTable(str(shutil.copytree(path, path.with_name("marked")))).create_checkpoint()
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Iterator[Path]:
    yield shutil.copytree(made, tmp_path / "table")
    _OPEN.tables.clear()


@pytest.fixture
def marked(made: Path, tmp_path: Path) -> Iterator[Path]:
    yield shutil.copytree(made.with_name("marked"), tmp_path / "marked")
    _OPEN.tables.clear()


def added(path: Path) -> dict[str, Any]:
    text = (path / "_delta_log" / f"{2:020d}.json").read_text()
    found: dict[str, Any] = next(json.loads(line)["add"] for line in text.splitlines() if '"add"' in line)
    return found


def write(path: Path, *actions: object, name: str = NEXT) -> None:
    lines = (action if isinstance(action, str) else json.dumps(action) for action in actions)
    (path / "_delta_log" / name).write_text("\n".join(lines) + "\n")


def file(**changes: object) -> Callable[[Path], None]:
    """A further file in the log, which is a copy of an honest one; what is called is made when it is written."""

    def change(path: Path) -> None:
        action = added(path)
        shutil.copy(path / action["path"], path / "_hour=1" / "other.parquet")
        write(
            path,
            {
                "add": {
                    **action,
                    "path": "_hour=1/other.parquet",
                    **{name: _made(value) for name, value in changes.items()},
                }
            },
        )

    return change


def _made(value: object) -> object:
    return value() if callable(value) else value


def schema(text: str | Callable[[], str], **more: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        entries = [json.loads(line) for line in (path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
        (said,) = [entry["metaData"] for entry in entries if "metaData" in entry]
        write(path, {"metaData": {**said, "schemaString": _made(text), **more}})

    return change


def protocol(*features: str, reader: int = 3) -> Callable[[Path], None]:
    lists = {"readerFeatures": [*features], "writerFeatures": [*features]} if reader == 3 else {}
    return lambda path: write(
        path, {"protocol": {"minReaderVersion": reader, "minWriterVersion": 7 if reader == 3 else 5, **lists}}
    )


def named(name: str, text: str = "") -> Callable[[Path], None]:
    return lambda path: write(path, text or '{"commitInfo":{}}', name=name)


def many(path: Path) -> None:
    for version in range(3, 60):
        (path / "_delta_log" / f"{version:020d}.json").touch()


def column(name: str, kind: object = "long") -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def nested(depth: int) -> str:
    kind = '{"type":"array","containsNull":true,"elementType":' * depth + '"long"' + "}" * depth
    return '{"type":"struct","fields":[{"name":"_hour","type":"long","nullable":true,"metadata":{}},' + (
        f'{{"name":"n","nullable":true,"metadata":{{}},"type":{kind}}}]}}'
    )


DEEP = 100_000
LOGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "statistics of a thousand levels": (file(stats='{"a":' * 1001 + "1" + "}" * 1001), "nested too deeply"),
    "statistics that overflow a stack": (file(stats='{"a":' * DEEP + "1" + "}" * DEEP), "nested too deeply"),
    "lists that overflow a stack": (file(stats='{"minValues":' + "[" * DEEP), "nested too deeply"),
    "long statistics": (
        file(stats=lambda: json.dumps({"numRecords": 10, "minValues": {"x": "a" * (5 << 20)}})),
        "at most",
    ),
    "rows below none": (file(stats='{"numRecords":-5}'), "num_records is -5"),
    "more rows than any": (file(stats='{"numRecords":9223372036854775807}'), "num_records is 922"),
    "rows beyond 64 bits": (file(stats='{"numRecords":92233720368547758070}'), "num_records is None"),
    "no number of rows": (file(stats='{"numRecords":NaN}'), "num_records is None"),
    "rows as text": (file(stats='{"numRecords":"ten"}'), "num_records is None"),
    "a list": (file(stats="[]"), "num_records is None"),
    "no statistics": (file(stats=""), "num_records is None"),
    "half a text": (file(stats="{"), "num_records is None"),
    "other types": (file(stats='{"numRecords":9,"minValues":{"_last":"q"},"maxValues":[1]}'), "num_records is None"),
    "negative size": (file(size=-1), "size_bytes is -1"),
    "absurd partition": (file(partitionValues={"_hour": "zebra"}), "zebra"),
    "long partition": (file(partitionValues={"_hour": "9" * 1_000_000}), "999"),
    "no partition": (file(partitionValues={}), "names no partition._hour"),
    "a line that is nested": (lambda path: write(path, '{"commitInfo":' + "[" * DEEP), "nested too deeply"),
    "a long line": (lambda path: write(path, {"commitInfo": {"x": "a" * (5 << 20)}}), "line 1 has"),
    "many commits": (many, "more than 50 commits"),
    "last version": (named(f"{2**63 - 1:020d}.json"), "no table has so many versions"),
    "version beyond 64 bits": (named("9" * 20 + ".json"), "no table has so many versions"),
    "checkpoint by a unique name": (named(f"{2:020d}.checkpoint.3a0d65cd-4056-49b8.json"), "a form that Lowwater"),
    "many columns": (
        schema(
            lambda: json.dumps(
                {"type": "struct", "fields": [column("_hour"), *(column(f"c{n}") for n in range(20_000))]}
            )
        ),
        "columns",
    ),
    "wide action": (
        schema(lambda: json.dumps({"type": "struct", "fields": [column(f"c{n}") for n in range(100_000)]})),
        "at most",
    ),
    "types in types": (schema(nested(60)), "nested too deeply"),
    **{
        f"a column of {kind}": (
            schema(json.dumps({"type": "struct", "fields": [column("_hour"), column("x", kind)]})),
            f"'x' is of type {name}",
        )
        for name, kind in (
            ("date", "date"),
            ("decimal", "decimal(38,2)"),
            ("struct", {"type": "struct", "fields": [column("y")]}),
            ("map", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}),
            ("date", {"type": "array", "elementType": "date", "containsNull": True}),
        )
    },
    "types beyond the parser": (schema(nested(10_000)), "too deeply nested"),
    "half a schema": (schema("{"), "EOF"),
    "deletion vectors": (protocol("deletionVectors"), "deletionVectors"),
    "column mapping": (protocol(reader=2), "column mapping|version 2 of the protocol"),
    "unknown feature": (protocol("martian"), "martian"),
    "unknown version": (protocol(reader=99), "99"),
}


def opens(path: Path) -> None:
    """What commands do: list the files, and read rows by a dataset."""
    table = open_table(path)
    assert table is not None
    live_files(table)
    read_rows(path, SCHEMA)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_refused_in_one_line(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, said = LOGS[name]
    change(path)
    monkeypatch.setattr(limits, "LOG_COMMITS", 50)
    before = peak_memory()
    with pytest.raises(LakeError, match=said) as refused:
        opens(path)
    assert len(refused.value.message) < 1200 and "\n" not in refused.value.message and refused.value.hint
    assert str(path) in refused.value.message
    assert peak_memory() - before < 200 << 20


@pytest.mark.parametrize("name", ["statistics that overflow a stack", "deletion vectors"])
def test_a_log_is_looked_at_when_it_is_followed_too(name: str, path: Path) -> None:
    """The dataset of some files knows no log: rows that deletion vectors hide would be there."""
    opens(path)
    change, said = LOGS[name]
    change(path)
    with pytest.raises(LakeError, match=said):
        opens(path)


def checkpoint(path: Path) -> Path:
    return path / "_delta_log" / f"{2:020d}.checkpoint.parquet"


def last(text: str) -> Callable[[Path], None]:
    return lambda path: (path / "_delta_log" / "_last_checkpoint").write_text(text) and None


def repeated(
    stats: str, times: int, codec: str = "snappy", path_in_log: str = "_hour=1/other.parquet"
) -> Callable[[Path], None]:
    """A checkpoint in which one text of a dictionary stands for many."""

    def change(path: Path) -> None:
        table = pq.read_table(checkpoint(path))
        (one, *_) = [row for row in table.to_pylist() if row["add"]]
        one["add"] |= {"stats": stats, "path": path_in_log}
        many = pa.Table.from_pylist([one], table.schema).take(pa.array([0] * times))
        with pq.ParquetWriter(checkpoint(path), table.schema, compression=codec) as file:
            file.write_table(table)
            file.write_table(many)

    return change


def parts(path: Path) -> None:
    checkpoint(path).rename(path / "_delta_log" / f"{2:020d}.checkpoint.{1:010d}.{3:010d}.parquet")
    last('{"version":2,"size":5,"parts":3}')(path)


CHECKPOINTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing": (lambda path: checkpoint(path).write_bytes(b"") and None, "no parquet file"),
    "no parquet": (lambda path: checkpoint(path).write_bytes(b"PAR1" + b"\0" * 8 + b"PAR1") and None, "parquet file"),
    "a footer beyond the file": (lambda path: checkpoint(path).write_bytes(b"PAR1junkjunkPAR1") and None, "footer"),
    "another schema": (lambda path: pq.write_table(pa.table({"a": [1]}), checkpoint(path)), "metadata or protocol"),
    "a text for many": (repeated("a" * 100_000, 400), "bytes of memory"),
    "deep statistics": (repeated('{"a":' * DEEP + "1" + "}" * DEEP, 1), "nested too deeply"),
    "long statistics": (repeated("a" * (5 << 20), 1), "at most 4,194,304"),
    "a file that is named twice": (repeated('{"numRecords":10}', 2), "names a file twice"),
    "gone": (lambda path: checkpoint(path).unlink(), "checkpoint"),
    "missing parts": (parts, "checkpoint"),
    "a version that is not there": (last('{"version":900,"size":5}'), "checkpoint"),
    "a negative version": (last('{"version":-1,"size":5}'), "names no version"),
    "a text for a version": (last('{"version":"2","size":5}'), "names no version"),
    "a nested hint": (last("[" * 60_000), "nested too deeply"),
    "a long hint": (last('{"version":2,"size":5,"a":"' + "a" * 100_000 + '"}'), "at most 65,536"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_is_refused_in_one_line(name: str, marked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, said = CHECKPOINTS[name]
    change(marked)
    monkeypatch.setattr(limits, "CHECKPOINT_BYTES", 1 << 24)
    before = peak_memory()
    with pytest.raises(LakeError, match=said) as refused:
        opens(marked)
    assert len(refused.value.message) < 1200 and "\n" not in refused.value.message and refused.value.hint
    assert peak_memory() - before < 200 << 20


def test_an_honest_checkpoint_is_read_by_each_compression(marked: Path) -> None:
    opens(marked)
    assert at_version(marked, 1).version() == 1
    for number, codec in enumerate(("none", "zstd", "gzip", "lz4"), 3):
        repeated('{"numRecords":10}', 1, codec, f"_hour=1/{codec}.parquet")(marked)
        _OPEN.tables.clear()
        table = newest(marked)
        assert table is not None and len(live_files(table)) == number


def a_text(place: Path) -> None:
    """Two hundred times the bytes of a row group; nothing of it is decoded."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 400_000, pa.int32()), pa.array(["a" * 500_000]))
    pq.write_table(pa.table({"x": texts}), place, write_statistics=False, store_schema=False)


def zeros(place: Path) -> None:
    big = pa.table({"x": pa.array([b"\0" * (4 << 20)])})
    pq.write_table(big, place, compression="zstd", use_dictionary=False, write_statistics=False)


def groups(place: Path) -> None:
    """No group takes much memory; the same zeros again and again would take an hour, were there enough of them."""
    zero = pa.table({"x": pa.array(np.zeros(1 << 16, np.int64))})
    with pq.ParquetWriter(place, zero.schema) as writer:
        for _ in range(40):
            writer.write_table(zero)


@pytest.mark.parametrize("bomb", [a_text, zeros, groups])
def test_a_small_file_of_much_memory_is_refused(
    bomb: Callable[[Path], None], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = path / added(path)["path"]
    bomb(place)
    monkeypatch.setattr(limits, "PARQUET_PAGE_BYTES", 1 << 20)
    monkeypatch.setattr(limits, "PARQUET_FILE_BYTES", 1 << 24)
    assert place.stat().st_size < 1 << 20
    with pytest.raises(LakeError, match="bytes") as refused:
        read_rows(path, SCHEMA)
    assert place.name in refused.value.message and "\n" not in refused.value.message


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
def test_files_of_every_writer_are_no_bombs(codec: str, tmp_path: Path) -> None:
    rows = pa.table(
        {"a": [1, 2, None] * 100, "t": ["x" * at for at in range(300)], "l": [[1, 2]] * 300, "n": pa.nulls(300)}
    )
    for version, count, coded in product(("1.0", "2.0"), (0, 1, 300), (True, False)):
        place = tmp_path / f"{version}-{count}-{coded}.parquet"
        pq.write_table(rows.slice(0, count), place, compression=codec, data_page_version=version, use_dictionary=coded)
        require_modest(place, place)
        require_modest(place, place, 1 << 20)


def test_a_pipe_in_place_of_a_file_is_waited_for_by_nobody(tmp_path: Path) -> None:
    know(tmp_path)
    for name in ("lowwater.toml", "x.parquet"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="it is no file"):
        paths.read(tmp_path / "lowwater.toml")
    with pytest.raises(ConfigError, match=r"lowwater\.toml.*it is no file"):
        load_config(tmp_path)
    with pytest.raises(LakeError, match=r"x\.parquet.*it is no file"):
        require_modest("x.parquet", tmp_path / "x.parquet")


def test_damaged_pages_are_refused_or_read_and_nothing_else(tmp_path: Path) -> None:
    random, path = Random(7), tmp_path / "rows.parquet"
    texts = [f"text {number % 9}" for number in range(2000)]
    for options in ({}, {"use_dictionary": False, "data_page_version": "2.0", "compression": "zstd"}):
        pq.write_table(pa.table({"x": range(2000), "text": texts}), path, **options)
        whole = path.read_bytes()
        end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")  # of the pages, where the footer begins
        refused = 0
        for number in range(200):
            data = bytearray(whole)
            begin, size = (4, end - 4) if not number else (random.randrange(4, end), random.randrange(1, 40))
            data[begin : min(begin + size, end)] = b"\0" * (min(begin + size, end) - begin)
            damaged = tmp_path / f"{number}.parquet"
            damaged.write_bytes(data)
            try:
                require_modest(damaged, damaged)
            except UnreadableError:
                refused += 1
        assert refused
