"""Drops that captures declare: how many, of which interface, and between which instants (SEMANTICS A1)."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lowwater.capture import read
from lowwater.capture.reader import index
from lowwater.capture.records.drops import BELIEVED, DeclaredDrops, DropTally, risen, total
from lowwater.instants import HOUR, SECOND
from lowwater.limits import DROP_RANGES
from tests.capturemaker import erf_record, pcap_bytes, snoop_bytes, udp
from tests.pcapngmaker import Section

JUMP = 61 * SECOND
START = 1_767_225_600  # 2026-01-01T00:00:00Z
FRAME = udp("10.0.0.1", "10.0.0.2", 4000, 53)
US = 1_000_000


def declared(path: Path, data: bytes, chunk: int = 300) -> list[DeclaredDrops]:
    """What a capture says of each interface: in one pass, in chunks, and packed, it says the same."""
    path.write_bytes(data)
    reader = read(path, JUMP, chunk_bytes=chunk)
    assert sum(batch.num_rows for batch in reader) >= 0 and reader.summary is not None
    found = [each.drops for each in reader.summary.interfaces]
    assert [each.drops for each in index(path, JUMP, chunk).summary.interfaces] == found
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :]))
    unpacked = read(packed, JUMP)
    assert list(unpacked) and unpacked.summary is not None
    assert [each.drops for each in unpacked.summary.interfaces] == found
    assert [DeclaredDrops.of_object(json.loads(each.text() or "{}")) for each in found] == found
    return found


def spans(drops: DeclaredDrops) -> list[tuple[int | None, int | None, int]]:
    """(from, to, count) of what a file alone says, in seconds from START."""

    def second(value: int | None) -> int | None:
        return None if value is None else value // SECOND - START

    return [(second(each.start), second(each.end), each.count) for each in drops.alone()]


def tshark(path: Path, *fields: str) -> list[list[str]]:
    wanted = [text for field in fields for text in ("-e", field)]
    done = subprocess.run(
        ["tshark", "-r", str(path), "-T", "fields", *wanted], capture_output=True, text=True, check=True
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.parametrize("order", ["little", "big"])
def test_packet_blocks_tell_what_was_lost_before_them_on_their_interface(tmp_path: Path, order: str) -> None:
    made = Section(order)
    blocks = [made.header(), made.interface("a"), made.interface("b")]
    blocks += [made.packet((START + at) * US, FRAME, at % 2) for at in range(0, 600, 30)]
    blocks += [made.dropping((START + 700) * US, FRAME, 5, 0), made.dropping((START + 710) * US, FRAME, 1 << 40, 1)]
    blocks += [
        made.old_packet((START + 720) * US, FRAME, 0, drops=7),
        made.old_packet((START + 730) * US, FRAME, 1, drops=0xFFFF),
    ]
    blocks += [made.simple(FRAME), made.dropping((START + 740) * US, FRAME, (1 << 64) - 1, 0)]
    first, second = declared(tmp_path / "a.pcapng", b"".join(blocks))
    # 570 s is of interface 0, as every 30 s; old packet blocks have 16 bits, all set for "not known"
    assert spans(first) == [(570, 700, 5), (700, 720, 7)]
    assert spans(second) == [(None, 710, 1 << 40)]
    if shutil.which("tshark"):
        told = [int(count) for (count,) in tshark(tmp_path / "a.pcapng", "frame.drop_count") if count]
        assert [count for count in told if count not in (0, 0xFFFF, (1 << 64) - 1)] == [5, 1 << 40, 7]


def test_statistics_are_a_counter_and_what_packets_tell_of_it_counts_once(tmp_path: Path) -> None:
    made = Section()
    start = START * US

    def block(at: int, **counts: int) -> bytes:
        return made.statistics((START + at) * US, start=start, end=(START + at) * US, **counts)

    blocks = [made.header(), made.interface("a")]
    blocks += [made.packet((START + 60) * US, FRAME), made.dropping((START + 120) * US, FRAME, 10)]
    blocks += [
        block(300, ifdrop=25),
        made.packet((START + 400) * US, FRAME),
        block(600, ifdrop=25),
        block(900, ifdrop=40),
    ]
    (drops,) = declared(tmp_path / "a.pcapng", b"".join(blocks))
    assert spans(drops) == [(60, 120, 10), (600, 900, 15), (0, 300, 15)] and total(drops.alone()) == 40


@pytest.mark.parametrize(
    ("counts", "lost"),
    [
        ({"ifdrop": 4711, "osdrop": 4711}, 4711),  # one loss, told twice
        ({"ifdrop": 4711, "osdrop": 9}, 4720),
        ({"osdrop": 3}, 3),
        ({"ifdrop": (1 << 64) - 1}, 0),  # not known
        ({"ifdrop": BELIEVED, "osdrop": 2}, 2),
        ({"ifrecv": 10}, 0),
    ],
)
def test_the_drops_of_interface_and_system_add_up_where_they_are_not_one_number(
    tmp_path: Path, counts: dict[str, int], lost: int
) -> None:
    made = Section("big")
    blocks = [made.header(), made.interface("a"), made.packet(START * US, FRAME), made.statistics(START * US, **counts)]
    (drops,) = declared(tmp_path / "a.pcapng", b"".join(blocks))
    assert total(drops.alone()) == lost


def test_sections_have_counters_of_their_own_unless_they_began_together(tmp_path: Path) -> None:
    made = Section()

    def section(at: int, since: int | None, count: int) -> bytes:
        begun = {} if since is None else {"start": (START + since) * US}
        packet, statistics = (
            made.packet((START + at) * US, FRAME),
            made.statistics((START + at + 9) * US, ifdrop=count, **begun),
        )
        return made.header() + made.interface("a") + packet + statistics

    own = section(0, 0, 10) + section(100, 100, 15)
    assert total(declared(tmp_path / "own.pcapng", own)[0].alone()) == 25
    one = section(0, 0, 10) + section(100, 0, 15)
    assert total(declared(tmp_path / "one.pcapng", one)[0].alone()) == 15
    silent = section(0, None, 10) + section(100, None, 15)
    assert total(declared(tmp_path / "silent.pcapng", silent)[0].alone()) == 25


@pytest.mark.parametrize(("since", "lost"), [(100, 10 + 4 + 15), (None, 10 + 4 + 15), (0, 15)])
def test_what_packets_tell_after_the_last_statistics_of_a_section_is_of_a_counter_that_goes_on_only(
    tmp_path: Path, since: int | None, lost: int
) -> None:
    made = Section()

    def statistics(at: int, count: int, begun: int | None) -> bytes:
        start = {} if begun is None else {"start": (START + begun) * US}
        return made.statistics((START + at) * US, ifdrop=count, **start)

    first = [made.header(), made.interface("a"), made.packet(START * US, FRAME), statistics(9, 10, 0)]
    first += [made.dropping((START + 20) * US, FRAME, 4)]
    second = [made.header(), made.interface("a"), made.packet((START + 100) * US, FRAME), statistics(109, 15, since)]
    (drops,) = declared(tmp_path / "a.pcapng", b"".join(first + second))
    assert total(drops.alone()) == lost
    # without statistics of its own the first section has only what its packets tell
    (drops,) = declared(tmp_path / "b.pcapng", b"".join(first[:3] + first[4:] + second))
    assert total(drops.alone()) == 4 + 15


def test_statistics_that_cannot_be_read_are_only_counted(tmp_path: Path) -> None:
    made = Section()
    blocks = [made.header(), made.statistics(START * US, ifdrop=3), made.interface("a"), made.packet(START * US, FRAME)]
    blocks += [
        made.statistics(START * US, 7, ifdrop=3),
        made.block(5, bytes(8)),
        made.block(5, bytes(12) + b"\4\0\xff\0"),
    ]
    (drops,) = declared(tmp_path / "a.pcapng", b"".join(blocks))
    assert not drops.alone()


def snoop(counts: list[int]) -> bytes:
    """A record each 30 s, with its cumulative drops."""
    data = bytearray(snoop_bytes([((START + 30 * at) * SECOND, FRAME) for at in range(len(counts))]))
    size = (len(data) - 16) // len(counts)
    for at, count in enumerate(counts):
        struct.pack_into(">I", data, 16 + at * size + 12, count)
    return bytes(data)


ALL = (1 << 32) - 1


@pytest.mark.parametrize(
    ("counts", "lost"),
    [
        ([0, 0, 5, 5, 7], [(30, 60, 5), (90, 120, 2)]),
        ([3, 3, 4], [(30, 60, 1), (None, 0, 3)]),
        ([0, 5, 0, 5, 6], [(0, 30, 5), (90, 120, 1)]),  # a step back is of a moved record
        ([ALL - 5, ALL - 1, 3], [(0, 30, 4), (30, 60, 5), (None, 0, ALL - 5)]),  # 32 bits run over
        ([0, ALL, ALL, 2], [(60, 90, 2)]),  # not known
        ([ALL, ALL], []),
        ([0, 0], []),
    ],
)
def test_the_counter_of_snoop_rises(tmp_path: Path, counts: list[int], lost: list[tuple[int | None, int, int]]) -> None:
    (drops,) = declared(tmp_path / "a.snoop", snoop(counts), 100)
    assert total(drops.alone()) == sum(count for *_, count in lost)
    told = [each for each in spans(drops) if each[0] is None]
    assert told == [each for each in lost if each[0] is None]


def test_the_loss_counter_of_erf_is_none_where_a_colour_stands(tmp_path: Path) -> None:
    kinds = [kind for kind in range(1, 30) if kind not in (26, 27)]
    data = b""
    for number, kind in enumerate(kinds):
        record = bytearray(erf_record((START + 60 * number) * SECOND, FRAME, kind))
        struct.pack_into(">H", record, 12, 100 + kind)
        data += record
    path = tmp_path / "a.erf"
    found = declared(path, data)
    assert sum(total(each.alone()) for each in found) == sum(
        100 + kind for kind in kinds if kind not in (10, 11, 15, 16, 17, 19, 20)
    )
    if shutil.which("tshark"):
        told = [int(count) for (count,) in tshark(path, "erf.lctr") if count]
        assert sum(total(each.alone()) for each in found) == sum(told)


def test_records_of_erf_in_a_pcap_tell_what_those_of_an_erf_file_do(tmp_path: Path) -> None:
    kinds = [kind for kind in range(1, 30) if kind not in (26, 27)]
    stamps = [(START + 60 * number) * SECOND for number in range(len(kinds))]
    records = [bytearray(erf_record(stamp, FRAME, kind)) for stamp, kind in zip(stamps, kinds, strict=True)]
    for record, kind in zip(records, kinds, strict=True):
        struct.pack_into(">H", record, 12, 100 + kind)
    cut = (START + 3000) * SECOND, bytes(records[0][:15])  # its counter is not whole
    frames = [*zip(stamps, map(bytes, records), strict=True), cut]
    (found,) = declared(tmp_path / "a.pcap", pcap_bytes(frames, link_type=197))
    assert spans(found) == [
        (60 * (number - 1) if number else None, 60 * number, 100 + kind)
        for number, kind in enumerate(kinds)
        if kind not in (10, 11, 15, 16, 17, 19, 20)
    ]


def test_many_drops_are_few_ranges_whatever_the_portions() -> None:
    stamps = START * SECOND + np.arange(60_000, dtype=np.int64) * 7 * SECOND
    counts = np.arange(60_000, dtype=np.int64) % 5
    whole, parts = DropTally("erf"), DropTally("erf")
    whole.add(stamps, stamps + 7 * SECOND, counts)
    for begin in range(0, 60_000, 777):
        part = slice(begin, begin + 777)
        parts.add(stamps[part], stamps[part] + 7 * SECOND, counts[part])
    assert whole.ranges() == parts.ranges() and 100 < len(whole.ranges()) <= DROP_RANGES
    assert total(whole.ranges()) == int(counts.sum())
    # none reaches over more hours than the drops in it do
    assert all((each.end or 0) // HOUR - (each.start or 0) // HOUR <= 1 for each in whole.ranges())


def test_a_counter_that_falls_began_anew_or_ran_over() -> None:
    assert (risen(5, 9), risen(9, 5), risen(ALL, 4), risen(1 << 40, 4)) == (4, 5, 5, 4)
