"""Hashes of packets, by what they are equal for, and copies by a self join (SEMANTICS D1, D2)."""

from __future__ import annotations

import struct
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.capture import read
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.records.duplicates import DuplicateCounter, Hashed, find_duplicates
from tests import capturemaker as maker
from tests.capture import linkframes

JUMP = 60_000_000_000


def hashes(path: Path, frames: list[bytes], compared: str = "content", snaplen: int = 65535) -> list[tuple[int, int]]:
    path.write_bytes(maker.pcap_bytes([(at, frame) for at, frame in enumerate(frames)], snaplen=snaplen))
    table = pa.Table.from_batches(read(path, JUMP, content=ContentOptions(compared=compared)))
    return list(zip(table["packet_hash_hi"].to_pylist(), table["packet_hash_lo"].to_pylist(), strict=True))


def changed(frame: bytes, *places: int) -> bytes:
    """The frame with other bytes at some places."""
    data = bytearray(frame)
    for place in places:
        data[place] ^= 0x5A
    return bytes(data)


TCP = maker.tcp("10.0.0.1", "10.0.0.2", 5, 80, data=b"abcdefgh" * 4)
UDP = maker.udp("10.0.0.1", "10.0.0.2", 53, 5, b"abcdefgh" * 4)
TCP6 = maker.tcp("fd00::1", "fd00::2", 5, 80, data=b"abcdefgh" * 4)
UDP6 = maker.udp("fd00::1", "fd00::2", 53, 5, b"abcdefgh" * 4)
ASIDE = {
    "tcp": (TCP, {22, 24, 25, 50, 51}),
    "udp": (UDP, {22, 24, 25, 40, 41}),
    "tcp over IPv6": (TCP6, {21, 70, 71}),
    "udp over IPv6": (UDP6, {21, 60, 61}),
}
LENGTHS = {16, 17, 18, 19, 14, 12, 13, 23, 20}  # bytes that say where something else lies: seen below, one by one


@pytest.mark.parametrize("name", ASIDE)
def test_every_byte_but_those_aside_is_compared(tmp_path: Path, name: str) -> None:
    frame, aside = ASIDE[name]
    places = [place for place in range(14, len(frame)) if place not in LENGTHS]
    first, *others = hashes(tmp_path / "a.pcap", [frame, *(changed(frame, place) for place in places)])
    assert {place for place, other in zip(places, others, strict=True) if other == first} == aside
    first, *others = hashes(tmp_path / "b.pcap", [frame, *(changed(frame, place) for place in places)], "packet")
    assert first not in others


@pytest.mark.parametrize("frame", [frame for frame, _ in ASIDE.values()])
def test_the_link_layer_is_aside(tmp_path: Path, frame: bytes) -> None:
    tagged = frame[:12] + struct.pack(">HH", 0x8100, 7) + frame[12:]
    padded = frame + bytes(9)
    other = changed(frame, 0, 5, 11)
    for compared in ("content", "packet"):
        assert len(set(hashes(tmp_path / "a.pcap", [frame, tagged, padded, other], compared))) == 1


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 30)), max_size=40)


def test_tags_and_wrappings_below_ip_are_aside(tmp_path: Path) -> None:
    """Two taps, one of which adds a tag, see one packet; with a frame check sequence or padding behind it, too."""
    segmented = maker.ipv4("10.0.0.1", "10.0.0.2", 6, maker.tcp_header(5, 80), total_length=0) + b"x" * 3000
    for packet in (linkframes.PACKET4, segmented):
        frames = [maker.ethernet(packet), maker.ethernet(packet, 0x0800, 7, 8, [5])]
        for kind, behind in (
            maker.tag(0x8926, packet, 0x0800), maker.tag(0x893F, packet, 0x0800, (1, 2, 3)),
            maker.tag(0x892F, packet, 0x0800), maker.metadata(packet, 0x0800), maker.timestamp(packet, 0x0800),
            maker.backbone(maker.ethernet(packet)), maker.trill(maker.ethernet(packet)), maker.nsh(packet, 1),
        ):  # fmt: skip
            frames += [maker.ethernet(behind, kind), maker.ethernet(behind, kind, 7, 8, [9])]
        assert len(set(hashes(tmp_path / "a.pcap", frames))) == 1
    padded = [maker.ethernet(linkframes.PACKET4) + bytes(18), maker.ethernet(linkframes.PACKET4)]
    assert len(set(hashes(tmp_path / "b.pcap", padded))) == 1
    empty = maker.ipv6("::1", "::2", 59, b"")
    assert len(set(hashes(tmp_path / "c.pcap", [maker.ethernet(empty + bytes(size), 0x86DD) for size in (0, 6)]))) == 1


def arrays(rows: list[tuple[int, int, int]]) -> Hashed:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return Hashed(columns[0], columns[1], columns[2])


JOIN = """
SELECT n FROM (SELECT *, row_number() OVER () - 1 AS n FROM records) r SEMI JOIN
(SELECT *, row_number() OVER () - 1 AS n FROM records) e
ON r.high = e.high AND r.low = e.low AND r.stamp - e.stamp <= {window} AND {other}
AND (e.stamp < r.stamp OR (e.stamp = r.stamp AND (e.link, e.n) < (r.link, r.n))) ORDER BY n
"""


def joined(rows: list[tuple[int, int, int]], links: list[int], window: int, other: str) -> list[int]:
    """Indices of the copies, by SQL."""
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    table = pa.table([*columns, np.array(links, np.int64)], names=["high", "low", "stamp", "link"])
    with duckdb.connect() as database:
        database.register("records", table)
        return [n for (n,) in database.execute(JOIN.format(window=window, other=other)).fetchall()]


@pytest.mark.slow
@given(ROWS, st.integers(0, 12), st.data())
def test_copies_are_those_of_a_self_join(rows: list[tuple[int, int, int]], window: int, data: st.DataObject) -> None:
    found = np.flatnonzero(find_duplicates(arrays(rows), window)).tolist()
    assert found == joined(rows, [0] * len(rows), window, "true")
    links = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))))
    found = np.flatnonzero(find_duplicates(arrays(rows), window, np.array(links, np.int64))).tolist()
    assert found == joined(rows, links, window, "r.link <> e.link")


@pytest.mark.parametrize("waiting", [1, 7, 1000])
@given(ROWS, st.integers(0, 12), st.integers(0, 8))
def test_a_stream_counts_the_same(waiting: int, rows: list[tuple[int, int, int]], window: int, skew: int) -> None:
    import lowwater.capture.records.duplicates as module

    records, arrivals = arrays(rows), np.maximum.accumulate(np.array([row[2] for row in rows], np.int64))
    admitted = arrivals - records.stamps <= skew
    expected = np.count_nonzero(find_duplicates(records.take(admitted), window))
    counter = DuplicateCounter(window, skew)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "UNCOMPARED_RECORDS", waiting)
        for at in range(0, len(rows), 3):
            counter.add(records.take(np.arange(at, min(at + 3, len(rows)))), arrivals[at : at + 3])
        counter.finish()
    assert (counter.copies, counter.compared) == (expected, np.count_nonzero(admitted))
