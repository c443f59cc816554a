"""Captures that have another unit of times than they say (T3): what names them, and the setting `resolution`."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from lowwater.capture.content.retention import DECODER_VERSION, ContentOptions
from lowwater.capture.inspect import doubts, inspect
from lowwater.capture.reader import read
from lowwater.config import Config, Link, load_config
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.keys import link_key, outdated
from lowwater.lake.layout import MALFORMED, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import read_packets
from lowwater.lake.tables import read_rows
from lowwater.replay.packets import CaptureFrames
from tests.capturemaker import arp, pcap_bytes, tcp
from tests.pcapngmaker import Section
from tests.replay.support import lowwater

BEGIN = 1_767_225_600 * SECOND
JUMP = 61 * SECOND
FRAME = tcp("10.0.0.1", "10.0.0.2", 1, 80)
NANOSECONDS = ContentOptions(resolution="ns")


def times(count: int = 300) -> list[int]:
    chance = Random(3)
    return [BEGIN + SECOND + 40_000_000 * number + chance.randrange(1_000_000) for number in range(count)]


def relabelled(data: bytes, magic: int) -> bytes:
    """A pcap that says another unit than it has."""
    return struct.pack("<I", magic) + data[4:]


def good() -> bytes:
    return pcap_bytes([(stamp, FRAME) for stamp in times()], nanoseconds=True)


def bad() -> bytes:
    return relabelled(good(), 0xA1B2C3D4)


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in read(path, JUMP, **options) for row in batch.to_pylist()]


def saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_nanoseconds_that_say_microseconds_are_named_and_read(tmp_path: Path) -> None:
    wrong, right = saved(tmp_path / "bad.pcap", bad()), saved(tmp_path / "good.pcap", good())
    facts = inspect(wrong, JUMP, SECOND)
    (only,) = facts.interfaces
    assert set(only.malformed) == {"sub-second"} and only.malformed["sub-second"] + only.packets == 300
    assert only.lateness.largest == 0 and facts.accounted
    (doubt,) = doubts(facts)
    assert doubt.words.startswith(f"{only.malformed['sub-second']} of 300 sub-seconds exceed a second: these look like")
    assert (doubt.resolution, doubt.impossible) == ("nanoseconds", True)
    assert rows(wrong, content=NANOSECONDS) == rows(right) and doubts(inspect(right, JUMP, SECOND)) == []
    assert rows(saved(tmp_path / "bad.pcap.gz", gzip.compress(bad())), content=NANOSECONDS) == rows(right)


@pytest.mark.parametrize("extra", [0, 198, 999_999])
def test_less_than_two_seconds_is_carried_over(tmp_path: Path, extra: int) -> None:
    data = pcap_bytes([(BEGIN, FRAME)])
    path = saved(tmp_path / "a.pcap", data[:28] + struct.pack("<I", 1_000_000 + extra) + data[32:])
    assert [row["timestamp"] for row in rows(path)] == [BEGIN + SECOND + 1000 * extra]
    path.write_bytes(data[:28] + struct.pack("<I", 2_000_000) + data[32:])
    reader = read(path, JUMP)
    assert list(reader) == [] and [bad.reason for bad in reader.malformed] == ["sub-second"]


@pytest.mark.parametrize(("says", "has", "unit"), [(6, 1, "nanoseconds"), (9, 1000, "microseconds")])
def test_a_pcapng_with_a_wrong_resolution(tmp_path: Path, says: int, has: int, unit: str) -> None:
    section = Section("little")
    packets = [section.packet(stamp // has, FRAME) for stamp in times(20)]
    head = [section.header(), section.interface(resolution=says)]
    path = saved(tmp_path / "a.pcapng", b"".join([*head, *packets]))
    (doubt,) = doubts(inspect(path, JUMP, SECOND))
    assert f"these look like {unit}" in doubt.words and doubt.resolution == unit
    content = ContentOptions(resolution="ns" if unit == "nanoseconds" else "us")
    assert [row["timestamp"] for row in rows(path, content=content)] == [stamp // has * has for stamp in times(20)]


@pytest.mark.slow
def test_a_link_says_the_unit(tmp_path: Path) -> None:
    lake, path = open_lake(tmp_path / "lake"), saved(tmp_path / "a.pcap", bad())
    plain, told = Config(links={"a": Link()}), Config(links={"a": Link(resolution="nanoseconds")})
    (before,) = ingest(lake, "a", [path], plain)
    assert "sub-seconds exceed a second: these look like nanoseconds" in before.note
    assert before.capture.packets + before.capture.malformed == 300
    assert {row["reason"] for row in read_rows(lake.malformed, MALFORMED).to_pylist()} == {"sub-second"}

    def stored() -> Any:
        return read_captures(lake, ["a"])["a"]

    old = link_key("a", stored(), plain.link("a"), BEGIN, BEGIN + HOUR)
    (reason,) = outdated(stored(), told.link("a"), DECODER_VERSION, BEGIN, BEGIN + HOUR)
    assert "another setting resolution" in reason
    (after,) = ingest(lake, "a", [path], told)
    assert (after.state, after.capture.packets, after.capture.malformed, after.doubt) == ("replaced", 300, 0, "")
    packets = read_packets(lake, "a", stored(), told.link("a"), 0, 0, 1 << 62)
    assert [stamp for batch in packets for stamp in batch.column("timestamp").to_pylist()] == times()
    assert outdated(stored(), told.link("a"), DECODER_VERSION, BEGIN, BEGIN + HOUR) == []
    assert link_key("a", stored(), told.link("a"), BEGIN, BEGIN + HOUR) != old
    assert ingest(lake, "a", [path], told)[0].state == "known"
    assert CaptureFrames(path, np.arange(300), stored()[0].kept).frame(299) == FRAME


def test_init_writes_the_unit_and_says_what_it_doubts(tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    saved(captures / "probe.pcap", bad())
    boot = [(5 + number) * SECOND for number in range(20)]
    saved(captures / "clock.pcap", pcap_bytes([(stamp, arp()) for stamp in [*boot, *times(30)]]))
    likely = pcap_bytes([(stamp, FRAME) for stamp in times()])
    saved(captures / "likely.pcap", relabelled(likely, 0xA1B23C4D))
    said = lowwater("init", captures, "--lake", tmp_path / "lake")
    links = load_config(tmp_path / "lake").links
    assert {name: link.resolution for name, link in links.items()} == {
        "probe": "nanoseconds",
        "clock": "file",
        "likely": "file",
    }
    assert links["probe"].since == times()[0]
    text = (tmp_path / "lake" / "lowwater.toml").read_text()
    jumps = "clock.pcap: its clock jumps by 56 years, from 1970-01-01T00:00:24Z to 2026-01-01T00:00:01"
    for words in (jumps, "these look like nanoseconds", "these look like microseconds"):
        assert words in said.out + said.err and words in text
    assert text.count("\nresolution = ") == 1


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["", 'resolution = "nanoseconds"'])
def test_run_says_it_and_reads_it_right(tmp_path: Path, setting: str) -> None:
    saved(tmp_path / "a.pcap", bad())
    text = b"DEFINE { query_name 'q'; } SELECT time, count(*) AS n FROM DataProtocol GROUP BY time"
    query = saved(tmp_path / "q.gsql", text)
    links = saved(tmp_path / "links.toml", f"[links.a]\n{setting}\n".encode())
    arguments = ("run", query, "--capture", f"a={tmp_path / 'a.pcap'}", "--engine", "reference")
    said = lowwater(*arguments, "--links", links, "--out", tmp_path / "out")
    assert ("these look like nanoseconds" in said.out + said.err) == (not setting)
    counted = sum(int(line.split(",")[1]) for line in (tmp_path / "out" / "q.csv").read_text().splitlines()[1:])
    assert counted == 300 if setting else counted < 30
