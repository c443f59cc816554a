"""The work of every parser grows with its input and not with the square, whatever the input: counted, not timed."""

from __future__ import annotations

import io
from cProfile import Profile
from pathlib import Path
from pstats import Stats
from typing import Any

import numpy as np
import pytest

from lowwater.capture.content import hello as fingerprints
from lowwater.capture.content.applications import dns_fields
from lowwater.capture.formats.sources import Stream
from lowwater.capture.reader import index
from lowwater.capture.records import duplicates
from lowwater.capture.tables import blocks, delimited
from lowwater.catalog.builtin.strings import read_prefixes, read_strings
from lowwater.catalog.values import Type
from lowwater.catalog.watchlists import read_watchlist
from lowwater.errors import ConfigError
from tests.breadth import each_push
from tests.capture.hostile_inputs import FAMILIES
from tests.capture.measure_parsers import JUMP, attempt, passes
from tests.capture.tablemaker import BEGIN
from tests.capture.test_tables import BY_NAME, BY_POSITION, options as of_kind, read, reasons, write

SIZE, SMALL = 17 << 10, 2 << 10
LARGER = (
    "TLS", "DNS", "HTTP", "QUIC", "frames", "parquet", "JSON: a line", "pcapng: interfaces of one name",
    "pcapng: a packet of each link type",
)  # fmt: skip
"""Families of few frames with a payload of 16 KiB, and squares that few records hide."""

BROKE = ("JSON: a line with all names", "pcapng: interfaces of one name")
HUGE = {name for name in FAMILIES if "16 MiB" in name or "megabyte" in name}
"""Of one frame or line that is larger than the test."""

SOME = sorted({*BROKE, *sorted(FAMILIES.keys() - HUGE)[::6]})
"""Those that were squares, and some others; `measure_parsers` has all."""


def calls(work: Any) -> int:
    counted = Profile()
    counted.runcall(attempt, work)
    return sum(row[0] for row in vars(Stats(counted))["stats"].values())


@pytest.mark.slow
@pytest.mark.parametrize("name", each_push(SOME, 2))
def test_work_grows_with_the_input_and_not_with_its_square(name: str, tmp_path: Path) -> None:
    """Calls, also of built-in functions; twice the input may have 2.5 times as many."""
    family, found = FAMILIES[name], []
    least = SIZE if name.startswith(LARGER) else SMALL
    for size in (least, 2 * least):
        path = write(tmp_path / str(size), family.make(size))
        found.append([calls(work) for work in passes(family.kind, path)[:2]])
    for one, two in zip(*found, strict=True):
        assert two < 2.5 * one + 2000, found


@pytest.mark.slow
@pytest.mark.parametrize("line", [b'"x","\n', b'"""a","\n'])
def test_each_byte_is_read_once_where_every_line_opens_a_quote(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of each line is too long, so each line is damage, and where its record ended was looked for again."""
    data, looked = line * (3 * blocks.RECORD_BLOCK_BYTES // (2 * len(line))), []

    def counted(array: Any, at: int, *rest: Any) -> Any:
        looked.append(len(array) - at)
        return last_lines(array, at, *rest)

    last_lines = blocks._last_lines
    monkeypatch.setattr(blocks, "_last_lines", counted)
    made = list(blocks.TextBlocks(Stream(io.BytesIO(data), owned=False), ord(","), ord('"')))
    assert sum(len(block) for block in made) == data.count(b"\n")
    assert sum(looked) <= 3 * len(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("\r{}\n", ["a"]), ("{}\r\r\n", ["a"]), ("\r\r\n", ["columns"]),
        (f"{BEGIN},10.0.0.1,1,\ra,0.5,true\n", ["columns"]), (f'{BEGIN},10.0.0.1,1,"a\rb",0.5,true\n', ["a\rb"]),
        ('\r"{}\n', ["columns"]), (f'{BEGIN},10.0.0.1,1,"a', ["cut"]), (f'{BEGIN},10.0.0.1,1,,0.5,"true', ["cut"]),
    ],
)  # fmt: skip
def test_returns_and_open_quotes(text: str, wanted: list[str], tmp_path: Path) -> None:
    """A return outside of quotes ends a record for Arrow; a quote that never closes makes it take the next one."""
    line = f"{BEGIN},10.0.0.1,1,a,0.5,true"
    data = (line + "\n" + text.format(line)).encode()
    rows, reader = read(write(tmp_path / "file", data), of_kind("csv", BY_POSITION))
    found = [row["host"] for row in rows][1:] + [reason for *_, reason in reasons(reader)]
    assert found == wanted


def test_records_with_returns_are_split_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had a reader of its own, which makes a table of all columns of the file."""
    asked, read_values = [], delimited.read_values
    monkeypatch.setattr(delimited, "read_values", lambda *given: asked.append(1) or read_values(*given))
    data = FAMILIES["CSV: returns"].make(1 << 12)
    assert len(reasons(read(write(tmp_path / "file", data), of_kind("csv", BY_NAME))[1])) == 1 << 10
    assert len(asked) == 2, "the block, then all records with returns"


@pytest.mark.slow
def test_chunks_of_a_capture_of_many_interfaces_share_their_clocks(tmp_path: Path) -> None:
    """Each damaged place begins a chunk, and each chunk had the clocks of all interfaces: a square of memory."""
    path = write(tmp_path / "file", FAMILIES["pcapng: damage behind many interfaces"].make(1 << 15))
    kept = [chunk.clocks for chunk in index(path, JUMP).chunks]
    assert len(kept) > 100
    shared = {id(each.before): len(each.before) for each in kept}
    assert sum(shared.values()) + sum(len(each.since) for each in kept) < 64 * len(kept)


def test_records_within_one_window_are_compared_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, found = [], duplicates.find_duplicates
    monkeypatch.setattr(duplicates, "UNCOMPARED_RECORDS", 10)
    monkeypatch.setattr(
        duplicates, "find_duplicates", lambda records, window: looked.append(len(records)) or found(records, window)
    )
    counter = duplicates.DuplicateCounter(1 << 40, 0)
    for number in range(300):
        stamps = np.arange(10) + 10 * number
        counter.add(duplicates.Hashed(stamps % 1500, stamps % 1500, stamps), stamps)
    counter.finish()
    assert counter.copies == 1500
    assert sum(looked) < 4 * 3000


def test_a_name_longer_than_any_is_not_read_to_its_end() -> None:
    message = bytes([0, 7, 1, 0, 0, 1]) + bytes(6) + b"\x01a" * 8000
    counted = Profile()
    assert counted.runcall(dns_fields, message, tcp=False) == {"dns_id": 7, "dns_response": 0, "dns_answers": 0}
    assert sum(row[0] for row in vars(Stats(counted))["stats"].values()) < 2000


def test_texts_of_hostile_hellos_are_not_remembered() -> None:
    before = fingerprints._ja4.cache_info().currsize, fingerprints._digest.cache_info().currsize
    for number in range(20):
        assert fingerprints.ja4_of(b"t13d_" + b"%05d," % number * 2000 + b"_" + b"%05d," % number * 2000)
    assert (fingerprints._ja4.cache_info().currsize, fingerprints._digest.cache_info().currsize) == before


@pytest.mark.parametrize(
    "read_file", [read_prefixes, read_strings, lambda path: read_watchlist(path, [("a", Type.IP)])]
)
def test_an_error_of_a_file_of_a_query_quotes_little_of_it(read_file: Any, tmp_path: Path) -> None:
    for unit in (b"1.2.3.4/8 ", b"x", b"x,"):
        path = write(tmp_path / "list", unit * 100_000)
        with pytest.raises(ConfigError) as caught:
            read_file(str(path))
        assert len(str(caught.value)) < 1000 + len(str(path))
