"""Packets without a time (T3): `untimed = "file"` of a link, the digest of inputs, and what follows a change."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lowwater.capture.content.retention import DECODER_VERSION
from lowwater.config import Config, Link
from lowwater.instants import HOUR, format_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.keys import link_key, outdated
from lowwater.lake.layout import MALFORMED, Lake, open_lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.lake.tables import read_rows
from tests.capturemaker import tcp
from tests.lake.support import BASE, stamps
from tests.pcapngmaker import Section

FRAME = tcp("10.0.0.1", "10.0.0.2", 1, 80)
SECTION = Section("little")
NAME = "a-%Y%m%dT%H.pcapng"


def config(folder: Path, untimed: str = "file") -> Config:
    link = Link.model_validate({"captures": str(folder / NAME), "rotation": "1h", "untimed": untimed})
    return Config(links={"a": link})


def simple_capture(folder: Path) -> Path:
    """Two simple packets, one with a time, one without; in the name the hour of BASE."""
    timed = SECTION.packet((BASE + 5_000_000_000) // 1000, FRAME)
    simple = SECTION.simple(FRAME)
    path = folder / f"a-{format_instant(BASE).replace('-', '').partition(':')[0]}.pcapng"
    path.write_bytes(b"".join([SECTION.header(), SECTION.interface(), simple, simple, timed, simple]))
    return path


def captures(lake: Lake) -> Captures:
    return read_captures(lake, ["a"])["a"]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True], ids=["chunks", "compressed"])
def test_packets_without_a_time_take_that_of_the_file(tmp_path: Path, packed: bool) -> None:
    lake, path = open_lake(tmp_path / "lake"), simple_capture(tmp_path)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    plain, filled = config(tmp_path, "malformed"), config(tmp_path)
    (before,) = ingest(lake, "a", [path], plain)
    assert (before.capture.packets, before.capture.malformed) == (1, 3)
    reasons = outdated(captures(lake), filled.link("a"), DECODER_VERSION, BASE, BASE + HOUR)
    assert len(reasons) == 1 and "another setting untimed" in reasons[0]
    old = link_key("a", captures(lake), plain.link("a"), BASE, BASE + HOUR)
    (after,) = ingest(lake, "a", [path], filled)
    assert (after.state, after.capture.packets, after.capture.malformed) == ("replaced", 4, 0)
    late = BASE + 5_000_000_000
    assert stamps(lake, filled) == [BASE, BASE, late, late]
    rows = captures(lake)
    assert outdated(rows, filled.link("a"), DECODER_VERSION, BASE, BASE + HOUR) == []
    assert link_key("a", rows, filled.link("a"), BASE, BASE + HOUR) != old
    assert ingest(lake, "a", [path], filled)[0].state == "known"
    # Another declared begin is another time of the first packets.
    (moved,) = ingest(lake, "a", [path], filled, covers=(BASE + 1, BASE + HOUR))
    assert moved.state == "replaced" and stamps(lake, filled) == [BASE + 1, BASE + 1, late, late]


def test_without_a_declaration_only_what_follows_a_time_has_one(tmp_path: Path) -> None:
    lake, path = open_lake(tmp_path / "lake"), simple_capture(tmp_path).rename(tmp_path / "one.pcapng")
    settings = Config(links={"a": Link(untimed="file")})
    (done,) = ingest(lake, "a", [path], settings)
    assert (done.capture.packets, done.capture.malformed) == (2, 2)
    assert [row["reason"] for row in read_rows(lake.malformed, MALFORMED).to_pylist()] == ["no-time", "no-time"]
