"""Publishing by range of `_last`, ledgers replaced by range, owners, schemas, parallel writers."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.catalog.values import Type
from lowwater.config import Link
from lowwater.errors import LakeError, LawError, OwnerError
from lowwater.instants import HOUR
from lowwater.lake import open_tables, tables
from lowwater.lake.layout import Lake, open_lake, result_schema, stream_schema
from lowwater.lake.ledgers import runs as records
from lowwater.lake.results.published import last_note
from lowwater.lake.results.streams import stream_files, write_stream
from lowwater.lake.upkeep import join_files
from lowwater.plan.operators import Field
from tests.lake.support import BASE, FIELDS, at, audited, publish_interval, publish_rows, put_stream, stream

ROWS = [
    ("10.0.0.1", 1, 0.0),
    ("2001:db8::1", 2, 1799.0),
    (None, 3, 1800.0),
    ("10.0.0.2", 4, 3600.0),
    ("10.0.0.2", 5, 7199.9),
]


def run(lake: Lake, start: int, end: int, rows: Any = tuple(ROWS), digest: str = "d", **more: Any) -> Any:
    """One interval's run from a stream to its record."""
    mine = stream([row for row in rows if start <= at(row[2]) < end])
    return publish_rows(lake, start, end, mine, digest, **more)


def table(lake: Lake, query: str = "q") -> list[dict[str, Any]]:
    found = open_tables.existing(lake.table(query))
    rows: list[dict[str, Any]] = found.to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["_last"], row["n"]))


def history(lake: Lake) -> list[dict[str, Any]]:
    """What the log of the table says of its commits, the newest first."""
    return open_tables.existing(lake.table("q")).history()


def version(lake: Lake, query: str = "q") -> int:
    found = open_tables.existing(lake.table(query))
    return int(found.version())


@pytest.mark.slow
def test_a_range_inside_an_hour_replaces_exactly_itself(lake: Lake) -> None:
    run(lake, BASE, BASE + 2 * HOUR)
    run(lake, at(1799), at(1800), [("1.1.1.1", 7, 1799.5)])
    assert [row["n"] for row in table(lake)] == [1, 7, 3, 4, 5]
    run(lake, at(1799), at(3601), [])
    assert [row["n"] for row in table(lake)] == [1, 5]


@pytest.mark.slow
def test_the_history_says_what_each_publication_did(lake: Lake) -> None:
    """An hour that is new is appended; one that is replaced is overwritten, with what went and what came."""
    for digest, rows in (("first", 2), ("second", 1)):
        run(lake, BASE, BASE + HOUR, ROWS[:rows], digest)
    second, first = [each for each in history(lake) if each["operation"] == "WRITE"]
    about = f"_last >= {BASE} AND _last < {BASE + HOUR}"
    assert [each["operationParameters"]["mode"] for each in (first, second)] == ["Append", "Overwrite"]
    assert {each["operationParameters"]["predicate"] for each in (first, second)} == {about}
    numbers = [{name: int(value) for name, value in each["operationMetrics"].items()} for each in (first, second)]
    assert [(each["numFiles"], each["numOutputRows"], each["numRemovedFiles"]) for each in numbers] == [
        (1, 2, 0),
        (1, 1, 1),
    ]
    assert numbers[1]["numRemovedBytes"] == numbers[0]["numOutputBytes"] > 0 == numbers[0]["numRemovedBytes"]
    assert len(table(lake)) == 1


@pytest.mark.slow
def test_the_history_says_that_a_part_of_an_hour_was_replaced(lake: Lake) -> None:
    """Delta's library overwrites whole partitions only: the predicate and the metrics say what went."""
    half = BASE + HOUR // 2
    run(lake, BASE, half, ROWS[:2], "first")
    run(lake, half, BASE + HOUR, ROWS[2:3], "other")
    run(lake, BASE, half, ROWS[:1], "second")
    newest = history(lake)[0]
    assert newest["operationParameters"]["predicate"] == f"_last >= {BASE} AND _last < {half}"
    assert newest["operationMetrics"]["numRemovedFiles"] == "1"


@pytest.mark.slow
def test_equal_inputs_commit_nothing(lake: Lake) -> None:
    run(lake, BASE, BASE + HOUR)
    before = version(lake)
    again = run(lake, BASE, BASE + HOUR)
    assert (again.committed, again.rows, version(lake)) == (False, 3, before)
    assert run(lake, BASE, BASE + HOUR, digest="other").committed
    run(lake, BASE, BASE + 2 * HOUR, digest="wide")
    assert run(lake, BASE, BASE + HOUR, digest="other").committed


def test_a_stream_that_changed_since_its_audit_is_not_published(lake: Lake) -> None:
    run(lake, BASE, BASE + HOUR)
    before = table(lake)
    good = audited(lake)
    put_stream(lake.stream("q"), FIELDS, BASE, BASE + HOUR, stream([("1.1.1.1", 1, 0.0)]), "set")
    with pytest.raises(LawError, match="the stream of query q has changed since its audit"):
        publish_interval(lake, "set", "q", FIELDS, BASE, BASE + HOUR, "other", good)
    file, _ = stream_files(lake.stream("q"), BASE, BASE + HOUR)
    good = audited(lake)
    file.unlink()
    with pytest.raises(LakeError, match=f"{file.name}: the stream cannot be read"):
        publish_interval(lake, "set", "q", FIELDS, BASE, BASE + HOUR, "other", good)
    assert table(lake) == before


def test_a_row_of_another_interval_is_not_published(lake: Lake) -> None:
    put_stream(lake.stream("q"), FIELDS, BASE, BASE + HOUR, stream([("1.1.1.1", 1, 3600.0)]), "set")
    with pytest.raises(LawError, match="has rows outside of the interval"):
        publish_interval(lake, "set", "q", FIELDS, BASE, BASE + HOUR, "d", audited(lake))
    assert table(lake) == []


@pytest.mark.slow
def test_joined_files_keep_what_is_not_of_the_interval(lake: Lake) -> None:
    half = HOUR // 2
    for start in (BASE, BASE + half):
        run(lake, start, start + half)
    before = table(lake)
    assert join_files(lake.table("q"), "_hour", [str(BASE // HOUR)])
    assert len(tables.live_files(open_tables.existing(lake.table("q")))) == 1
    assert table(lake) == before
    run(lake, BASE, BASE + half, [("1.1.1.1", 9, 1.0)], "anew")
    assert [row["n"] for row in table(lake)] == [9, 3]


@pytest.mark.parametrize("mixed", [False, True])
def test_files_of_another_version_are_not_published(lake: Lake, tmp_path: Path, mixed: bool) -> None:
    """Addresses were bytes once, and a file may hold what is no row."""
    file = tmp_path / "old.parquet"
    schema = result_schema(FIELDS) if mixed else stream_schema(FIELDS)
    rows = stream([(None, 1, 0.0)]).set_column(1, "mac", pa.array([2, 2]) if not mixed else pa.array(["", ""]))
    rows = rows if mixed else rows.set_column(0, "addr", pa.array([None, None], pa.binary())).slice(0, 1)
    pq.write_table(rows, file)
    write_stream(lake.stream("q"), schema, {(BASE, BASE + HOUR): [file]}, "set")
    with pytest.raises(LawError, match="is not a file of published rows: another version of Lowwater wrote it"):
        publish_interval(lake, "set", "q", FIELDS, BASE, BASE + HOUR, "d", audited(lake))
    assert table(lake) == []


def test_a_second_claimant_is_refused(lake: Lake) -> None:
    run(lake, BASE, BASE + HOUR)
    with pytest.raises(OwnerError, match="'q' belongs to query set 'set', and 'rival' claims it"):
        publish_interval(lake, "rival", "q", FIELDS, BASE, BASE + HOUR, "d", audited(lake))
    with pytest.raises(OwnerError, match="rival"):
        put_stream(lake.stream("q"), FIELDS, BASE, BASE + HOUR, stream([]), "rival")


@pytest.mark.slow
def test_new_columns_merge_and_changed_types_are_refused(lake: Lake) -> None:
    run(lake, BASE, BASE + HOUR)
    wide = (*FIELDS, Field("more", Type.STRING))
    rows = stream([("1.1.1.1", 8, 4000.0)]).append_column("more", pa.array(["x", None]))
    put_stream(lake.stream("wide"), wide, at(3600), at(7200), rows, "set")
    (lake.root / "streams" / "q").rename(lake.root / "streams" / "old")
    (lake.root / "streams" / "wide").rename(lake.root / "streams" / "q")
    publish_interval(lake, "set", "q", wide, at(3600), at(7200), "d", audited(lake, at(3600), at(7200)))
    assert [row["more"] for row in table(lake)] == [None, None, None, "x"]
    run(lake, BASE, BASE + HOUR, digest="narrow again")
    assert [row["more"] for row in table(lake)] == [None, None, None, "x"]
    changed = (FIELDS[0], FIELDS[1], Field("n", Type.STRING))
    with pytest.raises(LakeError, match="column 'n' was int64, the query now gives string"):
        publish_interval(lake, "set", "q", changed, BASE, BASE + HOUR, "e", audited(lake))


def _hour(job: tuple[Path, int]) -> None:
    root, hour = job
    lake = open_lake(root)
    rows = [("10.0.0.1", hour * 100 + n, hour * 3600.0 + n) for n in range(50)]
    for digest in ("one", "two"):
        run(lake, at(hour * 3600), at(hour * 3600 + 3600), rows, digest)


@pytest.mark.slow
def test_hours_published_by_processes_in_parallel(tmp_path: Path) -> None:
    """None of them made the lake or the table before."""
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.map(_hour, [(tmp_path, hour) for hour in range(3)])
    lake = open_lake(tmp_path)
    assert [row["n"] for row in table(lake)] == [hour * 100 + n for hour in range(3) for n in range(50)]
    assert len(records.read_replays(lake)) == 6
    note = last_note(lake.table("q"), version(lake))  # made from that of the commit before it, whoever wrote it
    assert note is not None and note.ranges == ((BASE, BASE + 3 * HOUR),)


def test_streams_take_files_and_replace_their_interval(lake: Lake, tmp_path: Path) -> None:
    path = lake.lfta("set", "q.a")
    for round_ in range(2):
        made = []
        for index, rows in enumerate((ROWS[:2], ROWS[2:3])):
            made.append(tmp_path / f"{round_}-{index}.parquet")
            pq.write_table(stream(rows), made[-1])
        first = BASE, BASE + HOUR
        assert write_stream(path, result_schema(FIELDS), {first: made}, "set") == {first: 5}
    pq.write_table(stream(ROWS[3:]), made[0])
    write_stream(path, result_schema(FIELDS), {(BASE + HOUR, BASE + 2 * HOUR): made[:1]}, "set")
    files = stream_files(path, BASE, BASE + HOUR)
    assert [pq.read_metadata(file).num_rows for file in files] == [3, 2]
    assert len(list(path.rglob("interval=*/*.parquet"))) == 3
    found = tables.open_table(path)
    assert found is not None and found.to_pyarrow_table().num_rows == 8
    assert stream_files(path, BASE, BASE + 1) == []


def test_violations_are_replaced_by_range_of_arrival(lake: Lake) -> None:
    def late(*seconds: float) -> pa.Table:
        rows = [{"capture": "c", "position": int(s), "timestamp": 1, "arrival": at(s), "lateness": 5} for s in seconds]
        columns = ["capture", "position", "timestamp", "arrival", "lateness"]
        return pa.table({name: [row[name] for row in rows] for name in columns} if rows else {n: [] for n in columns})

    def seen(skew: int = 9) -> list[int]:
        found: list[int] = records.read_violations(lake, "a", Link().with_skew(skew), 0, 1 << 62)[
            "position"
        ].to_pylist()
        return found

    for start, end, seconds in ((0, 20, (1, 11, 12)), (0, 10, (1,)), (10, 20, (11, 12))):
        records.record_violations(lake, "a", Link().with_skew(9), at(start), at(end), late(*seconds))
        assert seen() == [1, 11, 12]
    records.record_violations(lake, "a", Link().with_skew(8), at(0), at(20), late(2))
    records.record_violations(lake, "a", Link().with_skew(9), at(10), at(20), late())
    assert (seen(), seen(8)) == ([1], [2])
