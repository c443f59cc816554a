"""A file of several captures (`cat b a`, `>>`, a recorder that is started again) is read as its captures, by time."""

from __future__ import annotations

import gzip
import lzma
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture.inspect import inspect
from lowwater.capture.reader import by_time, index, read, read_chunk
from lowwater.capture.records.parts import ReadingOrder
from tests import capturemaker as maker
from tests.breadth import examples
from tests.capture.fuzz_captures import FORGIVING, saved
from tests.capture.fuzz_inputs import SECOND, START
from tests.pcapngmaker import Section

SKEW = SECOND
Records = list[tuple[int, bytes]]

PCAPS = [(order, *kind) for order in ("little", "big") for kind in ((False, False), (True, False), (False, True))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


def records(begin: int, count: int, step: int = 100, size: int = 40) -> Records:
    """Frames each so many ms, from so many seconds after START on."""
    times = [START + begin * SECOND + number * step * SECOND // 1000 for number in range(count)]
    return [(time, maker.udp("10.0.0.1", "10.0.0.2", 53, 53, bytes(size))) for time in times]


def pcap(rows: Records, order: str = "little", ns: bool = False, modified: bool = False, link: int = 1) -> bytes:
    return maker.pcap_bytes(rows, order, ns, link, modified=modified)


def section(rows: Records, order: str = "little", name: str = "") -> bytes:
    made = Section(order)
    blocks = [made.packet(time, frame) for time, frame in rows]
    return b"".join([made.header(), made.interface(name, resolution=9), *blocks])


def times(path: Path, **options: Any) -> list[int]:
    """The times of a file, read in the order of its captures; one pass and chunks have the same rows."""

    def once(order: ReadingOrder, _: str | None) -> tuple[Any, list[tuple[int, int, int]]]:
        reader = read(path, FORGIVING, order=order, sha256="", **options)
        rows = [row for batch in reader for row in triples(batch)]
        assert reader.summary is not None
        return reader.summary, rows

    summary, rows = by_time(once, lambda result: result[0])
    refused = 0 if summary.compression else sum(bad.length for bad in index(path, FORGIVING, 3000).malformed)
    if not summary.compression:
        assert summary.record_bytes + summary.overhead + refused == summary.unpacked
        chunks = index(path, FORGIVING, 3000).chunks
        decoded = [row for chunk in chunks for _, batch in read_chunk(chunk) for row in triples(batch)]
        assert sorted(decoded) == sorted(rows)
    return [time for _, _, time in sorted(rows)]


def triples(batch: Any) -> list[tuple[int, int, int]]:
    columns = (batch.column(name).to_pylist() for name in ("position", "arrival", "timestamp"))
    return list(zip(*columns, strict=True))


def stamps(*parts: Records) -> list[int]:
    return [time for part in parts for time, _ in part]


A, B, C = records(0, 50), records(10, 50), records(20, 2)


@pytest.mark.parametrize("kind", [*PCAPS, "section", "snoop"])
def test_captures_that_are_joined_in_another_order_are_read_by_time(folder: Path, kind: Any) -> None:
    def made(rows: Records) -> bytes:
        if kind == "snoop":
            return maker.snoop_bytes(rows)
        return section(rows) if kind == "section" else pcap(rows, *kind)

    path = saved(folder, made(C) + made(B) + made(A))
    assert times(path) == stamps(A, B, C)
    (facts,) = inspect(path, FORGIVING, SKEW).interfaces
    assert facts.summary is not None and not facts.malformed
    assert (facts.summary.packets, facts.lateness.late) == (102, 0)


def test_captures_of_any_byte_order_and_precision_may_be_joined(folder: Path) -> None:
    rows = [records(10 * number, 5) for number in range(len(PCAPS))]
    parts = [pcap(each, *kind) for each, kind in zip(rows, PCAPS, strict=True)]
    assert times(saved(folder, b"".join(parts))) == stamps(*rows)
    assert times(saved(folder, b"".join(parts[::-1]))) == stamps(*rows)


def test_captures_of_one_packet_and_of_none(folder: Path) -> None:
    rows = [records(10 * number, number % 3) for number in range(60)]
    assert times(saved(folder, b"".join(pcap(each) for each in rows))) == stamps(*rows)
    assert times(saved(folder, b"".join(pcap(each) for each in rows[::-1]))) == stamps(*rows)


def test_captures_of_two_link_types_are_two_interfaces_of_one_name(folder: Path) -> None:
    raw = [(time, frame[14:]) for time, frame in B]
    path = saved(folder, pcap(A) + pcap(raw, link=101) + pcap(C))
    assert times(path) == stamps(A, B, C)
    facts = inspect(path, FORGIVING, SKEW).interfaces
    decoded = [(each.interface.link_type, each.packets, each.summary.undecoded) for each in facts if each.summary]
    assert decoded == [("EN10MB", 52, 0), ("RAW", 50, 0)]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_compressed_files_too(folder: Path, pack: Any) -> None:
    path = saved(folder, pack(pcap(B)) + pack(pcap(A)))
    assert times(path) == stamps(A, B)


def test_a_recorder_that_was_killed_leaves_a_cut_record_before_the_next_header(folder: Path) -> None:
    long = records(5, 3, size=1000)
    for order, ns in (("little", False), ("big", True)):
        data = pcap(A) + pcap(long)[:-700] + pcap(B, order, ns)
        path = saved(folder, data)
        assert times(path) == stamps(A, long[:-1], B), "the cut record alone is lost"
        (bad,) = read_all(path).malformed
        assert bad.offset == len(pcap(A) + pcap(long[:-1])) and bad.offset + bad.length == len(data) - len(
            pcap(B, order, ns)
        )


def test_the_offset_of_damage_is_that_in_the_file_whatever_order_it_is_read_in(folder: Path) -> None:
    first, second = pcap(B), bytearray(pcap(A))
    at = 24 + 20 * (16 + len(A[0][1]))
    second[at : at + 300] = b"\xff" * 300
    indexed = index(saved(folder, first + bytes(second)), FORGIVING, 3000)
    (bad,) = indexed.malformed
    assert bad.offset == len(first) + at
    ((hole,),) = (part.holes for part in indexed.summary.interfaces)
    assert hole.offset == bad.offset


def test_a_capture_in_a_payload_is_no_part(folder: Path) -> None:
    inner = pcap(records(500, 30))
    rows = [*A, (START + 6 * SECOND, maker.udp("10.0.0.1", "10.0.0.2", 53, 53, inner)), *B]
    assert times(saved(folder, pcap(rows))) == stamps(rows)


def test_a_record_without_bytes_in_2055_is_a_record(folder: Path) -> None:
    rows = [*A, (0xA1B2C3D4 * SECOND, b""), *B]
    assert times(saved(folder, pcap(rows))) == stamps(A, rows[50:51], B)


def read_all(path: Path) -> Any:
    reader = read(path, FORGIVING)
    for _ in reader:
        pass
    return reader


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(seed=st.integers(0, 1 << 32), packed=st.booleans())
def test_random_files_have_the_rows_of_their_captures(folder: Path, seed: int, packed: bool) -> None:
    dice = Random(seed)
    sizes = [dice.choice((0, 1, 2, 5, 40, 300)) for _ in range(dice.randint(1, 8))]
    begins = [*accumulate([0, *(size // 10 + 1 for size in sizes)])]
    rows = [records(begin, size) for begin, size in zip(begins, sizes, strict=False)]
    sections = dice.random() < 0.3
    parts = [
        section(each, dice.choice(("little", "big")), dice.choice(("", "a", "b")))
        if sections
        else maker.snoop_bytes(each)
        if dice.random() < 0.2
        else pcap(each, *dice.choice(PCAPS))
        for each in rows
    ]
    if not sections and any(part.startswith(b"snoop") for part in parts):
        # A header of snoop is not told from a record of a pcap of the other byte order.
        parts = [part if part.startswith(b"snoop") else pcap(each) for part, each in zip(parts, rows, strict=True)]
    dice.shuffle(both := [*zip(parts, rows, strict=True)])
    data = b"".join(part for part, _ in both)
    path = saved(folder, gzip.compress(data) if packed else data)
    got = times(path, chunk_bytes=dice.choice((100, 1000, 1 << 20)))
    assert sorted(got) == sorted(stamps(*rows))
    if not sections:
        assert got == stamps(*rows)
    else:
        assert all(later >= earlier for earlier, later in pairwise(got))
