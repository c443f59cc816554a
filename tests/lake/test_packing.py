"""Streams of days that are over lie in one file a day, byte for byte: whoever asks finds them, and whoever replaces or
removes an hour takes it out; a kill at any step leaves them as they were (docs/adr/0207)."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from lowwater import instants
from lowwater.config import Retention
from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake import footers, tables, verification
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.runs import read_replays
from lowwater.lake.locks import hold_range
from lowwater.lake.maintain import UpkeepStep, maintain
from lowwater.lake.results.published import damages
from lowwater.lake.results.streams import fingerprint, put_back, stream_bytes, stream_files
from lowwater.lake.tables import interval_label, live_files, open_table
from lowwater.lake.trimming import trim_interval
from lowwater.storage import paths
from tests.breadth import examples
from tests.lake.support import BASE, FIELDS, publish_rows, put_stream, stream

DAY = BASE // instants.DAY * instants.DAY + instants.DAY
HOURS = (0, 1, 2, 23, 24, 120)
"""Published hours from DAY on: a day that is over, one of a single hour, and one that is not."""
KEPT = Retention()


def span(hour: int) -> tuple[int, int]:
    return DAY + hour * HOUR, DAY + (hour + 1) * HOUR


def rows(hour: int, mark: int = 0) -> pa.Table:
    begin = (DAY - BASE) / 1e9 + hour * 3600
    return stream([("10.0.0.1", mark + hour, begin + second) for second in range(3)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = open_lake(tmp_path_factory.mktemp("made") / "lake")
    for hour in HOURS:
        publish_rows(lake, *span(hour), rows(hour))
    return Path(lake.root)


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Lake:
    return open_lake(Path(shutil.copytree(made, tmp_path / "lake")))


@pytest.fixture(scope="module")
def packed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = open_lake(Path(shutil.copytree(made, tmp_path_factory.mktemp("packed") / "lake")))
    joined(lake)
    return Path(lake.root)


@pytest.fixture
def days(packed: Path, tmp_path: Path) -> Lake:
    """A lake whose old days are joined."""
    return open_lake(Path(shutil.copytree(packed, tmp_path / "lake")))


def prints(lake: Lake) -> dict[int, str]:
    return {hour: fingerprint(stream_files(lake.stream("q"), *span(hour))) for hour in HOURS}


def files(lake: Lake) -> list[str]:
    """The files of the stream as they lie there."""
    folder = Path(lake.stream("q"))
    return sorted(
        each.relative_to(folder).as_posix() for each in folder.rglob("*.parquet") if "_delta_log" not in each.parts
    )


def numbers(lake: Lake) -> list[tuple[int, int]]:
    """Marks and instants of the rows of the stream, for a reader of Delta."""
    table = open_table(lake.stream("q"))
    assert table is not None
    found = table.to_pyarrow_table().to_pylist()
    return sorted((row["n"], row["_last"]) for row in found if row["n"] is not None)


def joined(lake: Lake, dry_run: bool = False) -> list[UpkeepStep]:
    return [each for each in maintain(lake, KEPT, dry_run) if each.where == "streams/q"]


def test_an_old_day_is_one_file_with_the_same_bytes(lake: Lake) -> None:
    before, read, count, size = prints(lake), numbers(lake), len(files(lake)), stream_bytes(lake.stream("q"), *span(1))
    assert count == 2 * len(HOURS)
    told = joined(lake, dry_run=True)
    assert [(each.what, each.files) for each in told] == [("joined", 10)]
    assert len(files(lake)) == count
    assert joined(lake) == told
    assert len(files(lake)) == 4  # of two days, and of the hour of the third
    assert not (Path(lake.stream("q")) / f"interval={interval_label(*span(1))}").exists()
    assert prints(lake) == before and numbers(lake) == read
    assert stream_bytes(lake.stream("q"), *span(1)) == size
    assert stream_files(lake.stream("q"), *span(5)) == []
    # One day long, as after a change of the length.
    assert stream_files(lake.stream("q"), DAY, DAY + instants.DAY) == []
    assert joined(lake) == [] and joined(lake, dry_run=True) == []
    assert verification.verify(lake, verification.Asked(data=True)).damaged == []
    assert damages(lake, "q", read_replays(lake)) == {}


def test_an_hour_is_replaced_and_removed_alone(days: Lake) -> None:
    lake = days
    before, path = prints(lake), lake.stream("q")
    put_stream(path, FIELDS, *span(1), rows(1, 100), "set")
    after = prints(lake)
    assert {hour for hour in HOURS if after[hour] != before[hour]} == {1}
    assert sorted({n for n, _ in numbers(lake)}) == [0, 2, 23, 24, 101, 120]
    publish_rows(lake, *span(1), rows(1, 100), "other")
    joined(lake)
    assert prints(lake) == after
    live = live_files(open_table(path))  # type: ignore[arg-type]
    assert sum(row["path"].rpartition("/")[2].startswith("day-") for row in live) == len(live) - 2 == 2
    (step,) = trim_interval(lake, path, interval_label(*span(2)), "it is old", False)
    assert step.files == 1
    assert [hour for hour in HOURS if not stream_files(path, *span(hour))] == [2]
    assert {hour: each for hour, each in prints(lake).items() if hour != 2} == {
        h: p for h, p in after.items() if h != 2
    }
    for hour in (0, 1, 23):
        list(trim_interval(lake, path, interval_label(*span(hour)), "it is old", False))
    assert [hour for hour in HOURS if stream_files(path, *span(hour))] == [24, 120]


def test_a_run_gives_an_hour_its_files_again(days: Lake) -> None:
    """Its tasks may be on other machines, which see the lake and not what was taken out here."""
    lake = days
    before, read, path = prints(lake), numbers(lake), lake.stream("q")
    assert not any(file.is_relative_to(lake.root) for file in stream_files(path, *span(1)))
    for _ in range(2):
        put_back(path, *span(1))
        assert all(file.is_relative_to(lake.root) for file in stream_files(path, *span(1)))
        assert prints(lake) == before and numbers(lake) == read
    put_back(path, *span(7))
    assert [step.files for step in joined(lake)] == [3]
    assert prints(lake) == before


def test_an_hour_at_work_leaves_its_days_alone(lake: Lake) -> None:
    with hold_range(lake, "set", *span(2)):
        assert joined(lake) == []
    assert joined(lake) != []


def test_settings_that_remove_streams_remove_them_from_days(days: Lake) -> None:
    lake = days
    keep = Retention.model_validate({"streams": "1h"})
    maintain(lake, keep, clock=lambda: 1 << 62)
    assert [hour for hour in HOURS if stream_files(lake.stream("q"), *span(hour))] == []
    assert files(lake) == []


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize(
    "module, name", [(footers, "write_together"), (paths, "seal"), (tables, "commit"), (paths, "remove_tree")]
)
@pytest.mark.parametrize("behind", [False, True])
def test_a_kill_leaves_the_same_streams(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, module: object, name: str, behind: bool
) -> None:
    before, real = prints(lake), getattr(module, name)

    def killed(*given: object, **named: object) -> None:
        if behind:
            real(*given, **named)
        raise Killed

    with monkeypatch.context() as dying, pytest.raises(Killed):
        dying.setattr(module, name, killed)
        joined(lake)
    assert prints(lake) == before
    assert verification.verify(lake, verification.Asked(data=True)).damaged == []
    joined(lake)
    assert prints(lake) == before
    old = Retention.model_validate({"versions": "1h"})
    maintain(lake, old, clock=lambda: paths.clock(lake.root) + 2 * HOUR)
    assert len(files(lake)) == 4


def test_a_damaged_day_is_told_and_made_again(days: Lake) -> None:
    lake = days
    path = lake.stream("q")
    (day,) = [each for each in Path(path).rglob("day-*.parquet") if interval_label(*span(0))[:10] in str(each)]
    data = bytearray(day.read_bytes())
    data[len(data) // 2] ^= 1
    day.write_bytes(data)
    with pytest.raises(LakeError, match="day-"):
        stream_files(path, *span(0))
    assert stream_files(path, *span(120))
    found = verification.verify(lake, verification.Asked(data=True)).damaged
    assert [each.where for each in found] == [day.relative_to(lake.root).as_posix()]
    assert [hour for hour in HOURS if not stream_files(path, *span(hour))] == [0, 1, 2, 23]
    put_stream(path, FIELDS, *span(0), rows(0), "set")
    assert stream_files(path, *span(0))


def test_a_run_replaces_an_hour_of_a_damaged_day(days: Lake) -> None:
    lake = days
    for day in Path(lake.stream("q")).rglob("day-*.parquet"):
        day.write_bytes(b"nothing")
    put_stream(lake.stream("q"), FIELDS, *span(1), rows(1), "set")
    assert stream_files(lake.stream("q"), *span(1))


TABLES = st.lists(
    st.lists(st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from(["", "a", "b" * 40])), max_size=9),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(25), deadline=None)
@given(
    parts=TABLES,
    group=st.sampled_from([1, 3, 100]),
    index=st.booleans(),
    dictionary=st.booleans(),
    compression=st.sampled_from(["NONE", "SNAPPY", "ZSTD"]),
)
def test_files_put_together_have_all_rows_and_each_as_it_was(
    parts: list[list[tuple[int | None, str | None]]], group: int, index: bool, dictionary: bool, compression: str
) -> None:
    schema = pa.schema([("n", pa.int64()), ("t", pa.string())])
    made = {}
    for number, part in enumerate(parts):
        table = pa.table([[n for n, _ in part], [t for _, t in part]], schema=schema)
        out = io.BytesIO()
        options = {"write_page_index": index, "use_dictionary": dictionary, "compression": compression}
        pq.write_table(table, out, row_group_size=group, write_page_checksum=True, **options)
        made[f"part {number}"] = out.getvalue()
    target = io.BytesIO()
    footers.write_together(target, made)
    data = target.getvalue()
    whole = pq.read_table(io.BytesIO(data), page_checksum_verification=True)
    assert whole.equals(pa.concat_tables([pq.read_table(io.BytesIO(each)) for each in made.values()]))
    chosen = pq.read_table(io.BytesIO(data), filters=[("n", ">", 0)])
    assert chosen.num_rows == sum(n is not None and n > 0 for part in parts for n, _ in part)
    places = json.loads(pq.read_metadata(io.BytesIO(data)).metadata[footers.MEMBERS])
    assert {name: data[at : at + size] for name, (at, size) in places.items()} == made
    assert len({footers.form(each) for each in made.values()}) == 1
    # Of files that are put together once more each is still itself.
    again = io.BytesIO()
    footers.write_together(again, {"whole": data})
    assert pq.read_table(io.BytesIO(again.getvalue())).equals(whole)


@pytest.mark.parametrize("cut", [0, 5, 11, 40])
def test_what_is_no_parquet_file_is_refused(cut: int) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), out)
    data = out.getvalue()
    wrong: Callable[[bytes], object] = footers.form
    with pytest.raises(ValueError):
        wrong(data[:cut])
    with pytest.raises(ValueError):
        wrong(data[:-8] + (1 << 30).to_bytes(4, "little") + b"PAR1")
