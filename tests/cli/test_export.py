"""`lowwater export` as a user calls it: where it writes, what it says, what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.cli.main import main
from lowwater.config import Config, Link
from lowwater.instants import SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from tests.capturemaker import ETHERNET, RAW, arp, pcap_bytes, udp
from tests.replay.frames import records

BASE = 1_700_000_000 * SECOND


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose link `a` keeps 18 bytes of each payload, `b` nothing, and `c` all of raw IP packets."""
    folder = tmp_path_factory.mktemp("kept")
    frames = [arp(), udp("10.0.0.1", "10.0.0.2", 1, 53, bytes(80)), udp("10.0.0.2", "10.0.0.1", 53, 1)]
    for link, link_type in (("a", ETHERNET), ("b", ETHERNET), ("c", RAW)):
        path = folder / f"{link}.pcap"
        records = [(BASE + index * SECOND, frame) for index, frame in enumerate(frames)]
        path.write_bytes(pcap_bytes(records, snaplen=70, link_type=link_type))
        lake = open_lake(folder / "lake")
        ingest(lake, link, [path], Config(links={link: Link(payload={"a": 18, "c": "all"}.get(link))}))
    return folder / "lake"


def called(lake: Path, out: object, *arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["export", "--lake", str(lake), "--out", str(out), *arguments])
    return int(left.value.code or 0)


@pytest.mark.slow
def test_what_it_writes_and_says(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "dns.pcap"
    assert called(kept, out, "--link", "a", "--where", "destPort = 53 OR srcPort = 53", "--from", "2023-11-14") == 0
    said = capsys.readouterr().err
    assert f"2 packets to {out}\n" in said
    assert "1 of 2 packets are truncated: the lake keeps at most 60 bytes of them\n" in said
    found = records(out.read_bytes())
    assert [(stamp, wire, len(frame)) for stamp, wire, frame in found] == [
        (BASE + SECOND, 122, 60),
        (BASE + 2 * SECOND, 42, 42),
    ]
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
def test_what_is_there_is_left_alone(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.pcap"
    out.write_text("mine")
    assert called(kept, out, "--link", "a") == 1
    assert "already exists" in capsys.readouterr().err
    assert called(kept, out, "--link", "a", "--force", "--where", "nosuch = 1") == 1
    assert "--where:1:1: unknown column nosuch\n  nosuch = 1\n  ^" in capsys.readouterr().err
    assert called(kept, out, "--link", "a", "--link", "c", "--force", "--format", "pcap") == 1
    assert "a has EN10MB, c has RAW" in capsys.readouterr().err
    assert out.read_text() == "mine" and list(tmp_path.iterdir()) == [out]
    assert called(kept, out, "--link", "a", "--force") == 0
    assert len(records(out.read_bytes())) == 3
    assert called(kept, tmp_path / "b.pcap", "--from", "2024-01-01", "--to", "2023-01-01") == 2
