"""pcapng: times exact to the nanosecond, sections, interfaces, every kind of block; what is malformed, by name."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture import read
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.reader import CaptureReader, index, open_capture, read_chunk
from lowwater.capture.records.facts import Interface, Malformed
from tests import capturemaker as maker
from tests.breadth import examples
from tests.capture.fuzz_captures import check_sums, saved, whole
from tests.capture.fuzz_inputs import SECOND, START
from tests.pcapngmaker import OTHERS, Section

FRAME = maker.tcp("10.0.0.1", "10.0.0.2", 1, 80)
FIELDS = (len(FRAME), len(FRAME), 1, 80)
LITTLE, BIG = Section("little"), Section("big")
SECTIONS = pytest.mark.parametrize("section", [LITTLE, BIG], ids=["little", "big"])


Rows = list[tuple[Interface, dict[str, Any]]]


def of_blocks(path: Path, *blocks: bytes, **options: Any) -> tuple[CaptureReader, Rows]:
    """The reader of a file of these blocks; its rows in order, with their interfaces."""
    path.write_bytes(b"".join(blocks))
    reader = read(path, 1 << 62, **options)
    found = list(reader.by_interface())
    check_sums(reader, [batch for _, batch in found], path.stat().st_size)
    rows = [(interface, row) for interface, batch in found for row in batch.to_pylist()]
    return reader, sorted(rows, key=lambda one: one[1]["position"])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pcapng") / "one.pcapng"


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(
    st.one_of(st.none(), st.integers(0, 12), st.integers(0x80, 0x80 + 70), st.integers(0, 255)),
    st.one_of(st.integers(0, (1 << 64) - 1), st.integers(0, 1 << 62).map(lambda n: n >> n % 61)),
    st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(10**10), 10**10)),
    st.sampled_from([LITTLE, BIG]),
)
def test_times_are_exact_and_rounded_down(
    file: Path, code: int | None, ticks: int, offset: int | None, section: Section
) -> None:
    interface = section.interface("a", resolution=code, offset=offset)
    reader, rows = of_blocks(file, section.header(), interface, section.packet(ticks, FRAME), chunk_bytes=100)
    code = 6 if code is None else code
    unit = Fraction(1, 2 ** (code & 0x7F)) if code & 0x80 else Fraction(1, 10**code)
    expected = ticks * unit * SECOND // 1 + (offset or 0) * SECOND
    if 0 <= expected < 1 << 62 and abs((offset or 0) * SECOND) < 1 << 62:
        assert [row["timestamp"] for _, row in rows] == [expected]
    else:
        assert [(bad.reason, bad.position) for bad in reader.malformed] == [("time-range", 0)]


@pytest.mark.slow
@SECTIONS
def test_every_other_kind_of_block_is_counted(tmp_path: Path, section: Section) -> None:
    blocks = [section.header(options=[(1, b"about"), (4, b"us")]), section.interface("eth0", options=[(1, b"here")])]
    for number, kind in enumerate((*OTHERS, 0x0BAD)):
        blocks.append(section.block(kind, bytes(number)))
        blocks.append(section.packet(number, FRAME, wire=99, options=[(1, b"why"), (2, bytes(4)), (1, b"")]))
    for size in (24, 1 << 20):
        reader, rows = of_blocks(tmp_path / "one", *blocks, chunk_bytes=size)
        assert [(row["timestamp"], row["len"], row["caplen"]) for _, row in rows] == [
            (1000 * number, 99, len(FRAME)) for number in range(8)
        ]
        counts = Counter(OTHERS.values()) + Counter(["custom", "section header", "interface description"])
        assert reader.summary is not None and dict(reader.summary.blocks) == counts | {"comment": 16}
        assert reader.malformed == [] and reader.summary.ended_cleanly


@pytest.mark.slow
def test_an_interface_is_its_name_and_link_type_over_all_sections(tmp_path: Path) -> None:
    _, rows = of_blocks(
        tmp_path / "one",
        LITTLE.header(), LITTLE.interface("a"), LITTLE.packet(5, FRAME), LITTLE.interface(), LITTLE.packet(6, FRAME, 1),
        BIG.header(64), BIG.interface("b", snaplen=9), BIG.interface("a", 1, 99, 9), BIG.packet(7, FRAME, 1),
        BIG.packet(8, FRAME), BIG.interface("a", maker.RAW), BIG.packet(9, FRAME[14:], 2),
    )  # fmt: skip
    assert [(i.index, i.name, i.link_type, row["timestamp"]) for i, row in rows] == [
        (0, "a", "EN10MB", 5000),
        (1, "", "EN10MB", 6000),
        (0, "a", "EN10MB", 7),
        (2, "b", "EN10MB", 8000),
        (3, "a", "RAW", 9000),
    ]
    assert all(row["destPort"] == 80 for _, row in rows)


@SECTIONS
def test_what_is_malformed_and_why(tmp_path: Path, section: Section) -> None:
    packet = section.packet(9, FRAME)
    beyond = bytearray(packet)
    beyond[20:24] = section.pack("I", len(FRAME) + 4)
    bad = [section.simple(FRAME), section.packet(3, FRAME, 1), bytes(beyond), section.block(6, bytes(8))]
    bad.append(section.packet(3, FRAME, wire=1 << 31))
    blocks = [section.header(), section.interface("a"), packet]
    for block in bad:
        blocks += [block, packet]
    reader, rows = of_blocks(tmp_path / "one", *blocks)
    reasons = ["no-time", "interface", "captured", "captured", "wire-length"]
    begin = len(b"".join(blocks[:3]))
    for number, (block, reason, one) in enumerate(zip(bad, reasons, reader.malformed, strict=True)):
        assert one == Malformed(2 * number + 1, begin, len(block), reason, 9000)
        begin += len(block) + len(packet)
    assert [row["position"] for _, row in rows] == [0, 2, 4, 6, 8, 10]


@pytest.mark.slow
def test_no_more_than_4096_interfaces_are_told_apart(tmp_path: Path) -> None:
    blocks = [
        LITTLE.header(),
        LITTLE.interface("7", 1),
        LITTLE.interface() * 4999,
        LITTLE.interface("z", 101),
        LITTLE.interface("7", 1),
    ]
    packets = [LITTLE.packet(number, b"x" * 20, number) for number in (0, 4095, 4096, 5000, 5001, 5002)]
    reader, rows = of_blocks(tmp_path / "one", *blocks, *packets)
    assert [i.name for i, _ in rows] == ["7", "#4094", "7"] and len(reader.interfaces) == 4096
    assert [(bad.position, bad.reason) for bad in reader.malformed] == [
        (2, "interface"),
        (3, "interface"),
        (5, "interface"),
    ]
    medians = [each.median for each in reader.summary.interfaces if each.packets] if reader.summary else []
    assert medians == [0, None]


@pytest.mark.slow
def test_chunks_begin_in_the_middle_of_a_section_and_know_its_interfaces(tmp_path: Path) -> None:
    path, blocks = tmp_path / "one", []
    for section in (LITTLE, BIG):
        blocks += [section.header(), section.interface("a"), section.interface("b", resolution=9, offset=3)]
        blocks += [section.packet(number, FRAME, number % 2) for number in range(20_000)]
        blocks += [section.interface("c", maker.RAW), section.packet(5, FRAME[14:], 2)]
    reader, rows = of_blocks(path, *blocks)
    found = index(path, 1 << 62, 1 << 18)
    assert len(found.chunks) > 4 and found.malformed == ()
    parts = [
        (interface, row)
        for chunk in reversed(found.chunks)
        for interface, batch in read_chunk(chunk)
        for row in batch.select(["position", "timestamp", "arrival", "srcPort"]).to_pylist()
    ]
    expected = {row["position"]: (interface, row) for interface, row in rows}
    assert len(parts) == len(expected) == 40_002
    for interface, row in parts:
        other, full = expected[row["position"]]
        assert interface == other and row.items() <= full.items()
    assert reader.summary is not None and [each.packets for each in reader.summary.interfaces] == [20_000, 20_000, 2]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sampled_from(["simple", "simple", "timed", "long", "section", "undeclared"]), max_size=60),
    st.sampled_from([None, -1, START]),
    st.sampled_from([24, 200, 1 << 20]),
    st.sampled_from([LITTLE, BIG]),
)
def test_a_simple_packet_takes_the_time_of_the_packet_before_it_where_the_link_says_so(
    file: Path, kinds: list[str], begin: int | None, chunk_bytes: int, section: Section
) -> None:
    start = section.header() + section.interface("a") + section.interface("b")
    blocks, expected, reasons, time = [start], [], [], begin
    for number, kind in enumerate(kinds):
        ticks = START // 1000 + number * 7919 % 1000
        match kind:
            case "simple":
                blocks.append(section.simple(FRAME))
                if time in (None, -1):
                    reasons.append("no-time")
                else:
                    expected.append(("a", time))
            case "timed":
                blocks.append(section.packet(ticks, FRAME, number % 2))
                expected.append(("ab"[number % 2], ticks * 1000))
                time = None if begin is None else ticks * 1000
            case "long":
                blocks.append(section.packet(ticks, FRAME, wire=1 << 31))
                reasons.append("wire-length")
            case "undeclared":
                blocks.append(section.packet(ticks, FRAME, 7))
                reasons.append("interface")
            case _:
                blocks.append(start)
    content = ContentOptions(untimed=begin)
    reader, rows = of_blocks(file, *blocks, content=content)
    assert [(interface.name, row["timestamp"]) for interface, row in rows] == expected
    assert {(row["caplen"], row["len"], row["srcPort"], row["destPort"]) for _, row in rows} <= {FIELDS}
    assert [bad.reason for bad in reader.malformed] == reasons
    parts = index(file, 1 << 62, chunk_bytes, content=content)
    assert parts.malformed == reader.malformed
    chunked = [row for chunk in parts.chunks for _, batch in read_chunk(chunk, content) for row in batch.to_pylist()]
    assert sorted(chunked, key=lambda row: row["position"]) == [row for _, row in rows]


@pytest.mark.parametrize("minor", [0, 2])
@SECTIONS
def test_the_old_draft_has_the_bytes_of_its_version_swapped(tmp_path: Path, section: Section, minor: int) -> None:
    data = bytearray(section.header() + section.interface("eth0") + section.packet(START // 1000, FRAME))
    _, rows = whole(saved(tmp_path, bytes(data)))
    data[12:16] = section.pack("HH", 1 << 8, minor << 8)
    draft = saved(tmp_path, bytes(data))
    assert open_capture(draft).version == (1, minor)
    assert whole(draft)[1] == rows != []
