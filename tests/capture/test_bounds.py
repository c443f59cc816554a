"""What a hostile capture cannot do: fill the memory, by records that are not judged or by malformed rows."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lowwater.capture import read
from lowwater.capture.inspect import inspect
from lowwater.capture.reader import index, read_chunk
from lowwater.capture.records import stream
from lowwater.errors import CaptureError
from lowwater.lake.ingestion.tasks import SurveyTask, survey
from tests import capturemaker as maker
from tests.breadth import each_push, examples
from tests.pcapngmaker import Section

pytestmark = pytest.mark.slow
SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
JUMP = 61 * SECOND
FRAME = maker.udp("10.0.0.1", "10.0.0.2", 1, 2)
FORMATS = ("classic", "pcapng")


def capture(form: str, kinds: str, seed: int = 0) -> bytes:
    """A capture of good records (g), jumps (j), records out of range (r), without a sane length (w), damage."""
    numbers = Random(seed)
    section = Section("little")
    begin = section.header() + section.interface("a", resolution=9) + section.interface("b", resolution=9)
    parts = [begin if form == "pcapng" else maker.pcap_bytes([], "little")]
    for count, kind in enumerate(kinds):
        stamp = START + count * SECOND + (10_000 * SECOND if kind == "j" else 0)
        if form == "classic":
            one = bytearray(maker.pcap_bytes([(stamp, FRAME)], "little")[24:])
            if kind == "w":
                one[12:16] = b"\xff" * 4
            parts.append(numbers.randbytes(40).replace(b"\0", b"x") if kind == "d" else bytes(one))
            continue
        where = numbers.randrange(2)
        parts.append(
            {
                "r": section.packet((1 << 63) + count, FRAME, where),
                "w": section.packet(stamp, FRAME, where, wire=(1 << 32) - 1),
                "n": section.simple(FRAME),
                "i": section.packet(stamp, FRAME, 7),
                "o": section.block(5, bytes(numbers.randrange(1, 9) * 8)),
                "s": begin,
                "d": b"\xff" * 41,
            }.get(kind, section.packet(stamp, FRAME, where))
        )
    return b"".join(parts)


def told(path: Path, chunk_bytes: int) -> tuple[Any, ...]:
    """Everything that reading a file tells, and that its chunks tell."""
    reader = read(path, JUMP, chunk_bytes)
    rows = sorted((row for batch in reader for row in batch.to_pylist()), key=lambda row: row["position"])
    found = index(path, JUMP, chunk_bytes)
    parts = [batch for chunk in found.chunks for _, batch in read_chunk(chunk)]
    again = sorted((row for batch in parts for row in batch.to_pylist()), key=lambda row: row["position"])
    assert again == rows and found.malformed == reader.malformed
    assert [bad.offset for bad in reader.malformed] == sorted(bad.offset for bad in reader.malformed)
    return rows, list(reader.malformed), reader.summary


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_set_aside_changes_no_row(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one"
    for seed in range(examples(6)):
        numbers = Random(seed)
        weights = [numbers.choice((0, 1, 8)) for _ in "gjrwniosd"]
        kinds = "g" * numbers.randrange(30) + "".join(numbers.choices("gjrwniosd", [2, *weights[1:]], k=60))
        # A record of a wrong wire length right before damage is a part of it, where it was not set aside before.
        kinds = kinds.replace("wd", "wgd")
        path.write_bytes(capture(form, kinds + "g" * numbers.randrange(20), seed))
        expected = told(path, 1 << 20)
        for run, much, size in ((1, 1, 200), (3, 1, 1 << 20), (4, 500, 1000), (1, 1 << 20, 300)):
            monkeypatch.setattr(stream, "PASSED_RECORDS", run)
            monkeypatch.setattr(stream, "PASSED_BYTES", much)
            assert told(path, size) == expected, (kinds, run, much, size)
        monkeypatch.undo()


@pytest.mark.parametrize("kind", each_push(["n", "i", "r", "si", "so", "w", "dw"], 3))
def test_records_that_are_not_judged_wait_in_bounded_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "one"
    head, more = capture("pcapng", "g" * 16), capture("pcapng", kind)[len(capture("pcapng", "")) :]
    path.write_bytes(head + more * 100)
    list(read(path, JUMP, 1 << 16))  # what the reader compiles is no memory of records
    path.write_bytes(head + more * (4_000_000 // len(more)))
    reader = read(path, JUMP, 1 << 16)
    reader.malformed.count_only()
    tracemalloc.start()
    try:
        assert sum(batch.num_rows for batch in reader) == 16
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 9_000_000, "without a bound they take three times the size of the file, 12 MB"


def test_too_many_malformed_records_are_an_error_that_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one"
    data = capture("pcapng", "g" * 16 + "n" * 900 + "r" * 200 + "g" * 20)
    path.write_bytes(data)
    everything = inspect(path, JUMP, SECOND)
    monkeypatch.setattr(stream, "MALFORMED_ROWS", 1000)
    monkeypatch.setattr(stream, "PASSED_RECORDS", 64)
    with pytest.raises(CaptureError) as error:
        list(read(path, JUMP, 4096))
    first = data.index(Section("little").simple(FRAME))
    assert f"{path}: more than 1,000 malformed records, " in str(error.value)
    assert f"of them no-time, the first at byte {first:,}" in str(error.value) and "max_jump" in error.value.hint
    failed = survey(SurveyTask(path, JUMP, 1 << 20))
    assert type(failed).__name__ == "FailedTask" and str(pickle.loads(pickle.dumps(failed)).error).startswith(str(path))
    only = inspect(path, JUMP, SECOND)
    assert only.accounted and only.summary == everything.summary
    assert [each.malformed for each in only.interfaces] == [each.malformed for each in everything.interfaces]
    counts = {name: sum(each.malformed[name] for each in only.interfaces) for name in ("no-time", "time-range")}
    assert counts == {"no-time": 900, "time-range": 200} and only.summary.malformed == 1100
