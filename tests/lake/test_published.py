"""What is published follows from the log of the table: restores, other programs and lost files are named as damage."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from hypothesis import given, settings, strategies as st

from lowwater.config import Retention
from lowwater.errors import BusyError, LakeError
from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.runs import ReplayRow, read_replays, record_replays
from lowwater.lake.maintain import maintain, require_sound
from lowwater.lake.results import pins as pinning, published as module
from lowwater.lake.results.pins import pins_file, publishing
from lowwater.lake.results.published import damages
from lowwater.lake.results.subscription import subscribe
from lowwater.lake.tables import describe, swap_files
from lowwater.lake.upkeep import doubled_tables
from tests.breadth import examples
from tests.lake.support import BASE, FIELDS, audited, publish_interval, publish_rows, put_stream, stream

HOURS = 3
QUERIES = ("q", "r")


def put(lake: Lake, hour: int, mark: int, queries: tuple[str, ...] = QUERIES, rows: int = 4) -> None:
    """A run of an hour that publishes `rows` rows with a mark in each table, as `interval` does."""
    begin, end = BASE + hour * HOUR, BASE + (hour + 1) * HOUR
    prints = {}
    for query in queries:
        made = [("10.0.0.1", mark, hour * 3600.0 + second) for second in range(rows)]
        put_stream(lake.stream(query), FIELDS, begin, end, stream(made), "set")
        prints[query] = audited(lake, begin, end, query)
    with publishing(lake, "set", QUERIES) as act:
        for query in queries:
            done = publish_interval(lake, "set", query, FIELDS, begin, end, f"{mark} {rows}", prints[query], act)
            facts = {"digest": f"{mark} {rows}", "rows": done.rows, "publication": done.number}
            record_replays(lake, [ReplayRow("set", query, begin, end, "publish", "done", time.time_ns(), **facts)])


def damaged(lake: Lake, query: str = "q") -> dict[int, str]:
    """Hour -> why the table does not have what was published."""
    found = damages(lake, query, read_replays(lake, "set"))
    return {(start - BASE) // HOUR: why for (start, _), why in found.items()}


def marks(lake: Lake, query: str = "q", version: int | None = None) -> dict[int, list[int]]:
    rows = DeltaTable(str(lake.table(query)), version=version).to_pyarrow_table().to_pylist()
    hours: dict[int, list[int]] = {}
    for row in rows:
        hours.setdefault((row["_last"] - BASE) // HOUR, []).append(row["n"])
    return {hour: sorted(numbers) for hour, numbers in sorted(hours.items())}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = open_lake(tmp_path_factory.mktemp("made") / "lake")
    for hour in range(HOURS):
        put(lake, hour, hour)
    return Path(lake.root)


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Lake:
    shutil.copytree(made, tmp_path / "lake")
    return open_lake(tmp_path / "lake")


def folder(lake: Lake, query: str = "q") -> Path:
    return Path(lake.table(query))


def opened(lake: Lake, query: str = "q") -> DeltaTable:
    return DeltaTable(str(lake.table(query)))


def foreign_rows(hour: int) -> pa.Table:
    row = {"addr": "10.9.9.9", "mac": None, "n": 99, "_last": BASE + hour * HOUR + 5, "_hour": BASE // HOUR + hour}
    return pa.Table.from_pylist([row])


def _delete(lake: Lake) -> None:
    opened(lake).delete(f'"_last" = {BASE + HOUR}')


def _update(lake: Lake) -> None:
    opened(lake).update({"n": "77"}, predicate=f'"_last" = {BASE + HOUR}')


def _append(lake: Lake) -> None:
    write_deltalake(str(lake.table("q")), foreign_rows(1).cast(_schema(lake)), mode="append")


def _append_to_another_hour(lake: Lake) -> None:
    """Rows of hour 2 in the partition of hour 1."""
    rows = foreign_rows(2).set_column(4, "_hour", pa.array([BASE // HOUR + 1]))
    write_deltalake(str(lake.table("q")), rows.cast(_schema(lake)), mode="append")


def _schema(lake: Lake) -> pa.Schema:
    return pa.schema(opened(lake).schema().to_arrow())


def _remove_file(lake: Lake) -> None:
    (file,) = folder(lake).glob(f"_hour={BASE // HOUR + 1}/*.parquet")
    file.unlink()


def _restore_old_rows(lake: Lake) -> None:
    """RESTORE to the version before hour 1 was restated: as many rows, with other values."""
    before = opened(lake).version()
    put(lake, 1, 50)
    opened(lake).restore(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "act, said",
    [
        (_delete, "DELETE by delta-rs"),
        pytest.param(_update, "UPDATE by delta-rs", marks=pytest.mark.nightly),
        (_append, "WRITE by delta-rs"),
        pytest.param(_append_to_another_hour, "WRITE by delta-rs", marks=pytest.mark.nightly),
        (_remove_file, "is gone or cut: _hour="),
        (_restore_old_rows, "RESTORE by delta-rs"),
    ],
)
def test_what_another_program_does_is_named_and_mended(lake: Lake, act: object, said: str) -> None:
    assert damaged(lake) == damaged(lake, "r") == {}
    act(lake)  # type: ignore[operator]
    found = damaged(lake)
    assert list(found) == [1] and said in found[1]
    put(lake, 2, 2)  # publishing another hour forgets nothing, and is no reason to publish it twice
    assert damaged(lake) == found
    newest = {0: 0, 1: 50 if act is _restore_old_rows else 1, 2: 2}
    put(lake, 1, newest[1])
    assert damaged(lake) == {}
    assert marks(lake) == {hour: [mark] * 4 for hour, mark in newest.items()}


@pytest.mark.slow
def test_a_table_that_cannot_be_read_is_damaged_and_stops_no_other(lake: Lake) -> None:
    folder(lake).joinpath("_delta_log", f"{1:020d}.json").unlink()
    found = damaged(lake)
    assert list(found) == [0, 1, 2] and "move its folder away" in found[0] and damaged(lake, "r") == {}
    folder(lake).rename(folder(lake).with_name("away"))
    for hour in range(HOURS):
        put(lake, hour, hour)
    assert damaged(lake) == {} and marks(lake) == {hour: [hour] * 4 for hour in range(HOURS)}


@pytest.mark.slow
def test_a_long_log_is_not_read_and_a_cleaned_one_tells(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(lake)
    table.create_checkpoint()
    put(lake, 1, 60)
    read: list[int] = []

    def counted(path: Path, version: int) -> object:
        read.append(version)
        return read_entry(path, version)

    read_entry = module.read_entry

    monkeypatch.setattr(module, "read_entry", counted)
    state = module.state_at(lake.table("q"), opened(lake))
    assert state.numbers is not None and len(state.numbers) == HOURS
    assert set(read) == {state.version} and not damaged(lake)
    opened(lake).create_checkpoint()
    for entry in sorted(folder(lake).glob("_delta_log/*.json"))[:-1]:
        entry.unlink()  # as a clean-up of the log
    assert damaged(lake) == {}
    hooks = PostCommitHookProperties(cleanup_expired_logs=False)
    opened(lake).delete(f'"_last" = {BASE}', commit_properties=CommitProperties(), post_commithook_properties=hooks)
    assert list(damaged(lake)) == [0]
    opened(lake).create_checkpoint()
    for entry in sorted(folder(lake).glob("_delta_log/*.json")):
        if entry.name != f"{opened(lake).version():020d}.json":
            entry.unlink()
    assert list(damaged(lake)) == [0]


@pytest.mark.slow
def test_a_lost_file_of_several_intervals_is_mended_one_by_one(tmp_path: Path) -> None:
    lake, half = open_lake(tmp_path / "lake"), HOUR // 2

    def put_half(part: int) -> None:
        begin = BASE + part * half
        publish_rows(lake, begin, begin + half, stream([("::1", part, part * 1800.0)]))

    put_half(0)
    put_half(1)
    opened(lake).optimize.compact()
    for file in opened(lake).file_uris():
        Path(file.removeprefix("file://")).unlink()
    lost = damages(lake, "q", read_replays(lake, "set"))
    assert len(lost) == 2 and all("is gone or cut" in why for why in lost.values())
    put_half(0)
    assert list(damages(lake, "q", read_replays(lake, "set"))) == [(BASE + half, BASE + HOUR)]
    put_half(1)
    assert damaged(lake) == {} and marks(lake) == {0: [0, 1]}


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1])
def test_of_an_hour_that_is_published_in_part_others_are_told_only_where_their_rows_are(
    tmp_path: Path, part: int
) -> None:
    lake, half = open_lake(tmp_path / "lake"), HOUR // 2
    begin, other = BASE + part * half, BASE + (1 - part) * half

    def put_half() -> None:
        publish_rows(lake, begin, begin + half, stream([("::1", 7, part * 1800.0)]))

    put_half()
    with subscribe(lake.root, "q", history=False) as changes:
        opened(lake).delete("n = 7")
        put_half()
        change = changes.poll()
        assert change is not None and (change.start, change.restated) == (begin, True)
    assert module.stray_lines(lake) == []
    rows = foreign_rows(0)
    lasts = pa.array([other + at for at in range(rows.num_rows)], pa.int64())
    rows = rows.set_column(rows.schema.get_field_index("_last"), "_last", lasts)
    write_deltalake(folder(lake), rows.cast(_schema(lake)), mode="append")
    assert list(damaged(lake)) == [0]
    put_half()
    publish_rows(lake, BASE + 2 * HOUR, BASE + 3 * HOUR, stream([("::1", 8, 7200.0)]))
    (line,) = module.stray_lines(lake)
    assert f"rows of {format_instant(other)} to {format_instant(other + half)}, where nothing is published" in line
    opened(lake).delete(f"_hour = {BASE // HOUR} and n != 7")
    put_half()
    assert module.stray_lines(lake) == [] and damaged(lake) == {} and marks(lake) == {0: [7], 2: [8]}


@pytest.mark.slow
def test_rows_doubled_by_whatever_are_found_by_their_number(lake: Lake) -> None:
    """Two joins that both commit: the log says that no row changes."""
    (file,) = folder(lake).glob(f"_hour={BASE // HOUR}/*.parquet")
    copy = file.with_name("again.parquet")
    shutil.copyfile(file, copy)
    described = replace(describe(folder(lake), copy, {}), partition={"_hour": str(BASE // HOUR)})
    swap_files(lake.table("q"), [described], lambda _: [], rows_change=False)
    assert damaged(lake) == {0: "the table has 8 rows of it, 4 were published"}
    put(lake, 0, 0)
    assert damaged(lake) == {} and marks(lake)[0] == [0] * 4


@pytest.mark.slow
def test_rows_that_changed_on_top_of_doubled_ones_are_made_again(tmp_path: Path) -> None:
    """The hint of `maintain --mend` where the log does not say which rows are right: the table is removed."""
    lake, half = open_lake(tmp_path / "lake"), HOUR // 2

    def put_halves() -> None:
        for part in range(2):
            begin = BASE + part * half
            publish_rows(lake, begin, begin + half, stream([("10.0.0.1", part, part * 1800.0)]), str(part))

    def bad() -> list[int]:
        return sorted(start - BASE for start, _ in damages(lake, "q", read_replays(lake, "set")))

    put_halves()
    for each in [opened(lake), opened(lake)]:
        each.optimize.compact()
    assert marks(lake) == {0: [0, 0, 1, 1]} and bad() == [0, half]
    opened(lake).update({"n": "7"})
    with pytest.raises(LakeError, match="does not say any more") as refused:
        require_sound(maintain(lake, Retention(versions="7d"), mend=True))
    assert f"remove {folder(lake)}" in refused.value.hint and "lowwater backfill" in refused.value.hint
    shutil.rmtree(folder(lake))
    assert bad() == [0, half]
    put_halves()
    assert bad() == [] and marks(lake) == {0: [0, 1]} and not list(doubled_tables(lake))


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, HOURS), st.integers(0, 3), st.integers(0, 2)),
        st.tuples(st.just("restore"), st.sampled_from(["q", "r", "replays"]), st.integers(0, 5)),
        st.tuples(st.just("rewind"), st.sampled_from(QUERIES), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.sampled_from(QUERIES), st.integers(0, HOURS)),
        st.tuples(st.just("compact"), st.sampled_from(QUERIES)),
    ),
    min_size=2,
    max_size=9,
)


@pytest.mark.slow
@given(ACTS)
@settings(max_examples=examples(10), deadline=None)
def test_nothing_is_called_done_whose_rows_are_not_the_published_ones(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[object, ...]]
) -> None:
    """Whatever was restored or cut, the intervals that are not said to be damaged have the rows of the ledger."""
    base = tmp_path_factory.mktemp("life")
    lake = open_lake(base / "lake")
    put(lake, 0, 0)
    copies: list[Path] = []
    for act in [*acts, ("end",)]:
        copies.append(base / f"copy-{len(copies)}")
        shutil.copytree(Path(lake.root), copies[-1])
        match act:
            case ("put", int(hour), int(mark), int(rows)):
                put(lake, hour, mark, rows=rows)
            case ("restore", "replays", int(back)):
                shutil.rmtree(Path(lake.replays))
                shutil.copytree(copies[-1 - back % len(copies)] / "replays", Path(lake.replays))
            case ("restore", str(query), int(back)):
                shutil.rmtree(folder(lake, query))
                shutil.copytree(copies[-1 - back % len(copies)] / "tables" / query, folder(lake, query))
            case ("rewind", str(query), int(version)):
                table = opened(lake, query)
                if 0 < version < table.version():
                    table.restore(version)
            case ("delete", str(query), int(hour)):
                opened(lake, query).delete(f'"_last" = {BASE + hour * HOUR}')
            case ("compact", str(query)):
                opened(lake, query).optimize.compact()
        for query in QUERIES:
            _check(lake, query)
    for query in QUERIES:
        for hour in damaged(lake, query):
            mark, rows = _expected(lake, query)[hour]
            put(lake, hour, mark, rows=rows)
    for query in QUERIES:
        assert damaged(lake, query) == {}
        _check(lake, query)


def _expected(lake: Lake, query: str) -> dict[int, tuple[int, int]]:
    """Hour -> mark and number of rows, as the ledger has them."""
    newest = {}
    for row in read_replays(lake, "set"):
        if row.query == query:
            mark, rows = map(int, row.digest.split())
            newest[(row.interval_start - BASE) // HOUR] = mark, rows
    return newest


def _check(lake: Lake, query: str) -> None:
    bad, found = damaged(lake, query), marks(lake, query)
    for hour, (mark, rows) in _expected(lake, query).items():
        assert hour in bad or found.get(hour, []) == [mark] * rows, (hour, bad, found)


@pytest.mark.slow
def test_maintenance_keeps_what_readers_at_pinned_versions_need(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has died before it wrote the pins, and another one publishes now: they cannot be written either."""
    old = Path(pins_file(lake, "set")).read_bytes()
    before = _file(lake)["tables"]
    put(lake, 1, 50)
    Path(pins_file(lake, "set")).write_bytes(old)
    late = Retention(versions="1h"), False, lambda: time.time_ns() + 100 * HOUR
    with monkeypatch.context() as patched:
        patched.setattr(pinning, "hold", _busy)
        maintain(lake, *late)
    assert _file(lake)["tables"] == before and marks(lake, "q", before["q"])[1] == [1] * 4
    maintain(lake, *late)  # moves the pins; a reader may just have read the old ones
    assert _file(lake)["tables"] != before and marks(lake, "q", before["q"])[1] == [1] * 4
    maintain(lake, *late)
    with pytest.raises(FileNotFoundError):
        marks(lake, "q", before["q"])


def _busy(*_: object) -> NoReturn:
    raise BusyError("publication of set: process 1 is at work on it", "wait")


def _file(lake: Lake) -> dict[str, dict[str, int]]:
    stored: dict[str, dict[str, int]] = json.loads(Path(pins_file(lake, "set")).read_text())
    return stored


@pytest.mark.slow
def test_optimize_vacuum_time_travel_and_changes_work_between_publications(tmp_path: Path) -> None:
    """What people do to published tables while Lowwater publishes: nothing is lost or damaged."""
    lake = open_lake(tmp_path / "lake")

    def put_marks(hour: int, *numbers: int) -> None:
        rows = stream([("10.0.0.1", number, 3600.0 * hour + at) for at, number in enumerate(numbers)])
        publish_rows(lake, BASE + hour * HOUR, BASE + (hour + 1) * HOUR, rows, f"{numbers}")

    put_marks(0, 1, 2, 3)
    opened(lake).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    since = opened(lake).version() + 1
    put_marks(1, 4, 5)
    put_marks(0, 1, 2)
    assert [marks(lake, version=at) for at in (since, since + 1)] == [{0: [1, 2, 3], 1: [4, 5]}, {0: [1, 2], 1: [4, 5]}]
    balance = Counter[int]()
    for row in pa.table(opened(lake).load_cdf(since)).to_pylist():
        balance[row["n"]] += 1 if row["_change_type"] == "insert" else -1
    assert balance == {1: 0, 2: 0, 3: -1, 4: 1, 5: 1}, "what a reader adds up is what was published"
    opened(lake).optimize.compact()
    opened(lake).vacuum(0, dry_run=False, enforce_retention_duration=False)
    put_marks(2, 6)
    assert marks(lake) == {0: [1, 2], 1: [4, 5], 2: [6]} and damaged(lake) == {}
