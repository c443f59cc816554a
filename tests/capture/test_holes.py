"""Damage is a hole in time (T5): its bytes, the times on both sides of it, and how many records are lost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture.reader import index
from lowwater.capture.records.facts import Hole
from lowwater.capture.records.holes import AROUND, HoleFinder, merged_holes
from lowwater.limits import CAPTURE_HOLES
from tests import capturemaker as maker
from tests.breadth import examples
from tests.capture.fuzz_captures import FORGIVING, MAX_JUMP, saved, whole
from tests.capture.fuzz_inputs import SECOND, START
from tests.pcapngmaker import Section

FORMATS = ("little", "big", "kuznetzov", "pcapng little", "pcapng big", "snoop", "erf")
KINDS = ("zeros", "ones", "letters", "random", "cut out", "put between")
HEADER = {"kuznetzov": 24, "snoop": 24, "erf": 18}
"""Bytes of a record before its frame; 16 in a pcap. A block of a pcapng is lost wherever it is hit."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("holes")


def capture(name: str, stamps: Iterable[int], dice: Random) -> tuple[bytes, list[bytes]]:
    """The bytes before the records of a capture, and the records."""
    frames = [
        (stamp, maker.udp("10.0.0.1", "10.0.0.2", 53, 53, dice.randbytes(dice.randint(0, 300)))) for stamp in stamps
    ]
    if name.startswith("pcapng"):
        section = Section(name.split()[1])
        head = section.header() + section.interface("a", resolution=9)
        return head, [section.packet(*frame) for frame in frames]
    if name in ("snoop", "erf"):
        write = maker.snoop_bytes if name == "snoop" else maker.erf_bytes
        head = write([])
        return head, [write([frame])[len(head) :] for frame in frames]
    order, modified = ("big" if name == "big" else "little"), name == "kuznetzov"
    head = maker.pcap_bytes([], order, modified=modified)
    return head, [maker.pcap_bytes([frame], order, modified=modified)[24:] for frame in frames]


def holes_of(path: Path, chunk_bytes: int = 1 << 20) -> tuple[tuple[Hole, ...], list[int]]:
    """The holes of a file of one interface, read in one pass and by its index, and the times of its records."""
    reader, rows = whole(path, FORGIVING, chunk_bytes=chunk_bytes)
    assert reader.summary is not None
    found = reader.summary.interfaces[0].holes
    assert index(path, FORGIVING, 3000).summary.interfaces[0].holes == found
    return found, [row["timestamp"] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(60))
@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(KINDS))
def test_random_damage_has_its_bytes_its_time_and_its_records(folder: Path, name: str, seed: int, kind: str) -> None:
    dice = Random(seed)
    stamps = [START + number * SECOND // 10 for number in range(400)]
    head, made = capture(name, stamps, dice)
    begins = [len(head)]
    for record in made:
        begins.append(begins[-1] + len(record))
    first = dice.randint(0, 380)
    last = min(first + dice.choice((0, 1, 3, 20, 200)), 390)
    low = dice.randrange(begins[first], begins[first + 1])
    high = max(low + 1, dice.randrange(begins[last], begins[last + 1]) + 1)
    data, size = head + b"".join(made), high - low
    if kind == "put between":
        low = high = begins[first]
        size = 0
    filled = {"zeros": bytes(size), "ones": b"\xff" * size, "letters": b"Z" * size, "random": dice.randbytes(size)}
    wrong = filled.get(kind, b"\xff" * dice.randint(20, 2000) if kind == "put between" else b"")
    found, times = holes_of(saved(folder, data[:low] + wrong + data[high:]), dice.choice((100, 5000, 1 << 20)))
    if name == "erf" and kind == "random":
        return  # its records have no mark: chance makes some of any bytes. The bytes of all add up nevertheless

    # A record is whole if no byte of it was hit; one whose frame alone was hit may be read, with another frame.
    before = [at for at in range(400) if begins[at + 1] <= low]
    after = [at for at in range(400) if begins[at] >= high]
    maybe = [at for at in range(400) if at not in {*before, *after}]
    read = [at for at in range(400) if stamps[at] in set(times)]
    assert set(before) | set(after) <= set(read), "a record outside of the damage is lost"
    if last - first <= 1 and not found:
        return  # no length was hit: the record has another frame, or another time, which T3 judges
    assert [stamp for stamp in times if stamp not in stamps] == [], "a record that nobody wrote"
    lost = [at for at in maybe if at not in read]
    if not lost and kind != "put between":
        return  # it hit a frame alone, which nobody can see
    (hole,) = found
    known_before, known_after = max((at for at in read if at < after[0]), default=None), after[0]
    moved = len(wrong) - (high - low)
    assert hole.offset == (len(head) if known_before is None else begins[known_before + 1])
    assert hole.offset + hole.length == begins[known_after] + moved
    assert (hole.before, hole.after) == (
        None if known_before is None else stamps[known_before], stamps[known_after]
    )  # fmt: skip
    assert hole.pause == SECOND // 10
    if kind not in ("cut out", "put between"):
        assert abs(hole.records - len(lost)) <= max(2, 0.4 * len(lost))


@pytest.mark.parametrize("name", FORMATS)
def test_damage_before_the_first_record_and_behind_the_last_one(folder: Path, name: str) -> None:
    stamps = [START + number * SECOND for number in range(20)]
    head, made = capture(name, stamps, Random(1))
    body = b"".join(made)
    if name != "erf":  # which has no header: it would be no capture
        (found,), times = holes_of(saved(folder, head + b"\xff" * 999 + body))
        assert (found.offset, found.length, found.before, found.after) == (len(head), 999, None, START)
        assert times == stamps
    path = saved(folder, head + body + b"\xff" * 999)
    (found,), times = holes_of(path)
    assert (found.offset, found.length, found.before, found.after) == (len(head + body), 999, stamps[-1], None)
    assert times == stamps and not index(path, MAX_JUMP).summary.ended_cleanly


@pytest.mark.parametrize("name", ["little", "kuznetzov", "erf"])
def test_a_wrong_length_does_not_swallow_the_records_behind_it(folder: Path, name: str) -> None:
    stamps = [START + number * SECOND for number in range(60)]
    head, made = capture(name, stamps, Random(2))
    for size in (700, 3000, 9000):
        wrong = bytearray(made[20])
        at, order = (10, "big") if name == "erf" else (8, "little")
        wrong[at : at + (2 if name == "erf" else 4)] = size.to_bytes(2 if name == "erf" else 4, order)
        data = head + b"".join(made[:20]) + wrong + b"".join(made[21:])
        (found,), times = holes_of(saved(folder, data), 500)
        assert times == stamps[:20] + stamps[21:]
        assert (found.length, found.before, found.after, found.records) == (len(wrong), stamps[19], stamps[21], 1)


def test_a_length_that_chance_ends_at_a_border_is_believed(folder: Path) -> None:
    """As it is by every reader: nothing tells it from a long record."""
    head, made = capture("little", [START + number * SECOND for number in range(20)], Random(2))
    wrong = bytearray(made[5])
    wrong[8:12] = (len(made[5] + made[6]) - 16).to_bytes(4, "little")
    found, times = holes_of(saved(folder, head + b"".join(made[:5]) + wrong + b"".join(made[6:])))
    assert not found and len(times) == 19


def test_zeros_are_no_records_at_second_0(folder: Path) -> None:
    head, made = capture("little", [START + number * SECOND for number in range(20)], Random(2))
    (found,), times = holes_of(saved(folder, head + b"".join(made[:9]) + bytes(4096) + b"".join(made[9:])))
    assert (found.length, len(times)) == (4096, 20)


def test_several_holes_and_a_clock_that_stands_during_one(folder: Path) -> None:
    stamps = [START + number // 10 * SECOND for number in range(60)]
    head, made = capture("little", stamps, Random(2))
    wrong = b"\xff" * 600
    data = head + b"".join(made[:15]) + wrong + b"".join(made[15:40]) + wrong + b"".join(made[40:])
    found, times = holes_of(saved(folder, data))
    assert times == stamps
    assert [(hole.before, hole.after, hole.length) for hole in found] == [
        (stamps[14], stamps[15], 600), (stamps[39], stamps[40], 600)
    ]  # fmt: skip
    assert stamps[14] == stamps[15]


def test_each_interface_has_its_own_clocks_beside_a_hole_where_they_differ(folder: Path) -> None:
    section, dice = Section("little"), Random(4)
    frame = maker.udp("10.0.0.1", "10.0.0.2", 53, 53, bytes(40))
    blocks = []
    for number in range(40):  # the second clock is two hours ahead
        blocks.append(section.packet(START + number * SECOND, frame, 0))
        blocks.append(section.packet(START + (7200 + number) * SECOND, frame, 1))
    head = section.header() + section.interface("a", resolution=9) + section.interface("b", resolution=9)
    cut = 30
    data = head + b"".join(blocks[:cut]) + dice.randbytes(3000) + b"".join(blocks[cut + 20 :])
    found = index(saved(folder, data), FORGIVING).summary.interfaces
    spans = [(each.holes[0].before, each.holes[0].after) for each in found]
    assert spans == [
        (START + 14 * SECOND, START + 25 * SECOND), (START + 7214 * SECOND, START + 7225 * SECOND)
    ]  # fmt: skip


def test_a_quiet_interface_has_the_time_of_the_hole_in_the_file(folder: Path) -> None:
    section = Section("little")
    frame = maker.udp("10.0.0.1", "10.0.0.2", 53, 53, bytes(40))
    busy = [section.packet(START + number * SECOND, frame, 0) for number in range(600)]
    quiet = [section.packet(START + at * SECOND, frame, 1) for at in (0, 599)]
    head = section.header() + section.interface("a", resolution=9) + section.interface("b", resolution=9)
    data = head + quiet[0] + b"".join(busy[:300]) + b"\xff" * 2000 + b"".join(busy[310:]) + quiet[1]
    found = index(saved(folder, data), FORGIVING).summary.interfaces
    spans = {(each.holes[0].before, each.holes[0].after) for each in found}
    assert spans == {(START + 299 * SECOND, START + 310 * SECOND)}
    (one,) = merged_holes([each.holes for each in found])
    assert (one.before, one.after) == spans.pop()


def test_of_very_many_holes_the_nearest_are_joined(folder: Path) -> None:
    count = 3 * CAPTURE_HOLES
    stamps = [START + number * SECOND for number in range(6 * count)]
    head, made = capture("little", stamps, Random(2))
    pieces = [b"".join(made[at : at + 6]) for at in range(0, len(made), 6)]
    found, times = holes_of(saved(folder, head + (b"\xff" * 40).join(pieces)))
    assert times == stamps
    assert len(found) == CAPTURE_HOLES and sum(hole.length for hole in found) == 40 * (count - 1)
    edges = [at for hole in found for at in (hole.before, hole.after)]
    assert edges == sorted(edges), "they are in order, and none meets another"


def test_a_broken_compression_loses_records_by_what_the_rest_would_hold(folder: Path) -> None:
    import gzip

    stamps = [START + number * SECOND for number in range(2000)]
    head, made = capture("little", stamps, Random(2))
    packed = bytearray(gzip.compress(head + b"".join(made), 6))
    half = len(packed) // 2
    packed[half : half + 500] = bytes(500)
    reader, rows = whole(saved(folder, bytes(packed)), MAX_JUMP)
    assert reader.summary is not None and not reader.summary.ended_cleanly
    (hole,) = reader.summary.interfaces[0].holes
    assert (hole.before, hole.after) == (stamps[len(rows) - 1], None)
    assert abs(hole.records - (2000 - len(rows))) < 200


def test_a_finder_without_records_knows_no_time() -> None:
    finder = HoleFinder()
    finder.open(24, 500, [-1])
    finder.open(600, 100, [-1])
    assert finder.found(0) == (Hole(24, 600, None, None, 1, 0),)
    assert AROUND > 16
