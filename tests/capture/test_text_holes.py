"""Lines that were overwritten are a hole in time, as damage of a capture is (T5); lines with a wrong value are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from lowwater.capture.records.facts import Hole
from lowwater.capture.tables.options import TableOptions, TextOptions
from lowwater.capture.tables.reader import RecordReader
from tests.capture.tablemaker import BEGIN, BY_NAME, Row, as_csv, as_json, layout

SECOND = 1_000_000_000
JUMP = 61 * SECOND
OPTIONS = {kind: TableOptions(kind, layout(BY_NAME), TextOptions()) for kind in ("csv", "json")}
WRITE: dict[str, Callable[[list[Row]], bytes]] = {"csv": lambda rows: as_csv(rows, header=True), "json": as_json}
COUNT = 4000


def rows_of(count: int) -> list[Row]:
    """A record a second."""
    return [
        {
            "time": BEGIN + number,
            "src": f"10.0.0.{number % 250}",
            "bytes": number,
            "host": "web",
            "rtt": 0.5,
            "up": True,
        }
        for number in range(count)
    ]


def read(path: Path, data: bytes, kind: str) -> tuple[tuple[Hole, ...], int, int]:
    """The holes of a file, its sane and its malformed records."""
    path.write_bytes(data)
    reader = RecordReader(path, OPTIONS[kind], JUMP, "")
    count = sum(batch.num_rows for batch in reader)
    assert reader.summary is not None
    return reader.summary.interfaces[0].holes, count, reader.summary.malformed


@pytest.mark.parametrize("fill", [b"\0", b"x", b"\xff"])
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_bytes_that_were_overwritten_have_their_time_and_an_estimate(tmp_path: Path, kind: str, fill: bytes) -> None:
    data = bytearray(WRITE[kind](rows_of(COUNT)))
    low, high = len(data) // 4, len(data) * 3 // 4
    data[low:high] = fill * (high - low)
    holes, count, malformed = read(tmp_path / "one", bytes(data), kind)
    (hole,) = holes
    assert malformed <= 2 and abs(count + hole.records - COUNT) < COUNT // 20
    assert hole.before is not None and hole.after is not None
    assert abs(hole.before - (BEGIN + COUNT // 4) * SECOND) < 60 * SECOND
    assert abs(hole.after - (BEGIN + COUNT * 3 // 4) * SECOND) < 60 * SECOND
    assert low - 200 < hole.offset <= low and hole.length >= high - low


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_damage_at_either_end(tmp_path: Path, kind: str) -> None:
    data = bytearray(WRITE[kind](rows_of(COUNT)))
    data[-20_000:-1] = bytes(19_999)
    ((hole,), _, _) = read(tmp_path / "end", bytes(data), kind)
    assert hole.after is None and hole.before is not None
    data = bytearray(WRITE[kind](rows_of(COUNT)))
    begin = data.index(b"\n") + 1 if kind == "csv" else 0  # behind the header
    data[begin : begin + 20_000] = bytes(20_000)
    ((hole,), _, _) = read(tmp_path / "begin", bytes(data), kind)
    assert hole.before is None and hole.after is not None


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_lines_with_wrong_values_and_lines_of_a_program_are_no_hole(tmp_path: Path, kind: str) -> None:
    rows = rows_of(COUNT)
    lines = WRITE[kind](rows).splitlines(keepends=True)
    wrong = [line.replace(b"10.0.0.", b"10.0.0.x") for line in lines[1000:1200]]
    said = b"Traceback (most recent call last):\n" + b'  File "export.py", line 7, in <module>\n' * 20
    data = b"".join([*lines[:1000], *wrong, *lines[1200:2000], said, *lines[2000:]])
    holes, count, malformed = read(tmp_path / "one", data, kind)
    assert (holes, count) == ((), COUNT - 200) and malformed >= 200


def test_a_few_bytes_are_a_record_and_many_places_are_many_holes(tmp_path: Path) -> None:
    data = bytearray(as_csv(rows_of(COUNT), header=True))
    dice = Random(1)
    places = sorted(dice.sample(range(1, 19), 5))
    for place in places:
        at = place * len(data) // 20
        data[at : at + 3000] = bytes(3000)
    at = len(data) // 40
    data[at : at + 30] = b"\0" * 30
    holes, _, _ = read(tmp_path / "one", bytes(data), "csv")
    assert len(holes) == len(places)
