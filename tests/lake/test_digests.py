"""Bytes that changed: every data file has its digest in its name, its pages have checksums, and sizes are compared."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lowwater.errors import LakeError
from lowwater.lake.layout import open_lake
from lowwater.lake.tables import append_rows, create, live_files, open_table, read_rows, replace_rows
from lowwater.storage import digests
from lowwater.storage.paths import local
from tests.cli.hostile import clean
from tests.lake.damage import TO, change_skew, copied, data_files, flip, publish, rows_of


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("published"))


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path)


def test_every_data_file_has_its_digest_in_its_name_and_checksums_of_its_pages(published: Path) -> None:
    files = data_files(published / "lake")
    kinds = {path.relative_to(published / "lake").parts[0] for path in files}
    assert {"packets", "lfta", "streams", "tables", "contents", "replays", "sightings", "quality", "measures"} <= kinds
    for path in files:
        assert digests.said(path.name) == digests.compute(path), path
        content = bytearray(path.read_bytes())
        first = pq.read_metadata(path).row_group(0).column(0)
        begin = first.dictionary_page_offset or first.data_page_offset
        content[begin + first.total_compressed_size - 1] ^= 1
        with pytest.raises(OSError, match="CRC"):
            pq.ParquetFile(pa.BufferReader(bytes(content)), page_checksum_verification=True).read()


def test_other_readers_of_delta_read_the_tables(published: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    lake, rows = published / "lake", rows_of(published / "lake")
    files = DeltaTable(str(lake / "tables" / "flows")).file_uris()
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet({files})").fetchall() == [(len(rows),)]
    assert len(DeltaTable(str(lake / "tables" / "flows")).to_pandas()) == len(rows) > 0
    packets = [str(path) for path in data_files(lake, "packets")]
    counted = sum(pq.read_metadata(path).num_rows for path in packets)
    assert duckdb.sql(f"SELECT count(timestamp) FROM read_parquet({packets})").fetchall() == [(counted,)]


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.97])
def test_packets_that_do_not_fit_their_digest_become_no_rows(folder: Path, share: float) -> None:
    """A flipped bit gave other rows, and `done`."""
    lake, before = folder / "lake", rows_of(folder / "lake")
    flip(data_files(lake, "packets/link=main1")[0], share)
    change_skew(lake)
    said = clean("backfill", "--lake", lake, "--to", TO, code=1)
    assert "failed 1" in said.out
    said = clean("plan", "--lake", lake, "--to", TO)
    assert "not those that were written" in " ".join(said.out.split()) or "is no readable parquet file" in said.out
    assert rows_of(lake) == before


@pytest.mark.parametrize("size", [0, 100])
def test_a_data_file_that_lost_its_content_is_damage(folder: Path, size: int) -> None:
    """After a power cut the name of a file may be there without its content: it counted as there."""
    lake, before = folder / "lake", rows_of(folder / "lake")
    with data_files(lake, "tables/flows")[0].open("rb+") as file:
        file.truncate(size)
    assert "is gone or cut" in " ".join(clean("status", "--lake", lake).out.split())
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows_of(lake) == before


@pytest.mark.parametrize("size", [0, 100])
def test_packets_that_lost_their_content_are_ingested_again(folder: Path, size: int) -> None:
    """An empty file of packets ended every backfill with a traceback, and no ingest took its capture again."""
    lake, before = folder / "lake", rows_of(folder / "lake")
    with data_files(lake, "packets/link=main1")[0].open("rb+") as file:
        file.truncate(size)
    change_skew(lake)
    clean("backfill", "--lake", lake, "--to", TO, code=1)
    assert "packets of it were missing" in " ".join(clean("ingest", "--lake", lake).out.split())
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows_of(lake) == before


def test_a_page_of_a_published_table_is_compared_with_its_checksum(folder: Path) -> None:
    """Readers of a few columns read no whole file; the checksums of pages tell what they read."""
    lake = folder / "lake"
    place = data_files(lake, "tables/flows")[0]
    content = bytearray(place.read_bytes())
    chunk = next(
        pq.read_metadata(place).row_group(0).column(at)
        for at in range(pq.read_metadata(place).num_columns)
        if pq.read_metadata(place).row_group(0).column(at).path_in_schema == "cnt"
    )
    content[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1] ^= 1
    place.write_bytes(content)
    said = clean("rows", "flows", "--lake", lake, code=1)
    assert "`lowwater verify` with --data" in said.err


SCHEMA = pa.schema([("part", pa.string()), ("at", pa.int64()), ("text", pa.string())])


def table_of(rows: list[tuple[str, int, str | None]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def test_rows_of_a_ledger_are_replaced_as_an_expression_says(tmp_path: Path) -> None:
    """Rows that are NULL where the expression asks stay, and so does each file without a row of it."""
    path = tmp_path / "ledger"
    create(path, SCHEMA, ["part"])
    append_rows(path, table_of([("a", 1, "x"), ("a", 2, None), ("b", 1, "x")]))
    append_rows(path, table_of([("a", 3, "y")]))
    table = open_table(path)
    assert table is not None
    untouched = {row["path"] for row in live_files(table)}
    replace_rows(path, table_of([("a", 9, "new")]), pc.field("text") == "x")
    assert sorted(tuple(row.values()) for row in read_rows(path, SCHEMA).to_pylist()) == [
        ("a", 2, None),
        ("a", 3, "y"),
        ("a", 9, "new"),
    ]
    table = open_table(path)
    assert table is not None
    assert len(untouched & {row["path"] for row in live_files(table)}) == 1
    replace_rows(path, table_of([]), None)
    assert read_rows(path, SCHEMA).num_rows == 0


def test_what_is_damaged_gets_no_new_digest(tmp_path: Path) -> None:
    """A ledger that is written anew would give the digest of the day to bytes that had changed."""
    path = tmp_path / "ledger"
    create(path, SCHEMA, ["part"])
    append_rows(path, table_of([("a", at, "x" * 50) for at in range(50)]))
    flip(data_files(path)[0], 0.99)  # in the footer
    with pytest.raises(LakeError, match="not those that were written"):
        replace_rows(path, table_of([]), pads.field("at") == 3)


def test_a_file_that_stays_the_same_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = digests.named(tmp_path / "rows.parquet", "0" * 16)
    pq.write_table(table_of([("a", 1, "x")]), path)
    path = path.rename(digests.named(path, digests.compute(path)))
    read: list[Path] = []
    compute = digests.compute
    monkeypatch.setattr(digests, "compute", lambda path: read.append(path) or compute(path))
    assert local(path) == local(path) == path and len(read) == 1
    flip(path, 0.1)
    with pytest.raises(OSError):
        local(path)


def test_a_commit_is_on_the_disk_before_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut the newest commit, and files that it names, were empty."""
    flushed: list[str] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    lake = open_lake(tmp_path / "lake")
    path = lake.root / "tables" / "flows"
    create(path, SCHEMA, ["part"], "q")
    flushed.clear()
    append_rows(path, table_of([("a", 1, "x")]))
    (file,) = data_files(Path(path))
    log = str(Path(path) / "_delta_log")
    order = [str(file), str(file.parent), str(path), f"{log}/{1:020d}.json", log]
    assert [flushed.index(name) for name in order] == sorted(flushed.index(name) for name in order)
