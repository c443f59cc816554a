"""`lowwater init` proposes settings that hold for the captures it saw; `ingest` then takes the captures by itself."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR, SECOND, parse_instant
from lowwater.lake.files.names import group_names, name_links
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import QUERIES, lowwater

BEGIN = parse_instant("2026-03-01T00:00:00Z")
FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)


def capture(path: Path, begin: int, late: int = 0, count: int = 60) -> None:
    """A capture with a record a second from `begin` on; every tenth is late by `late` ns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stamps = [begin + at * SECOND - (late if at % 10 == 9 else 0) for at in range(count)]
    data = pcap_bytes([(stamp, FRAME) for stamp in stamps])
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize(
    ("names", "links"),
    [
        (["m_20260301T00.pcap", "m_20260301T01.pcap"], {"m": "m_%Y%m%dT%H.pcap"}),
        (["m1-2026-03-01.pcap", "m2-2026-03-01.pcap"], {"m1": "m1-%Y-%m-%d.pcap", "m2": "m2-%Y-%m-%d.pcap"}),
        (["a/2026/03/01/13.pcap", "a/2026/03/01/14.pcap"], {"a": "a/%Y/%m/%d/%H.pcap"}),
        (
            ["a/d_20260301000500.pcap", "b/d_20260301000500.pcap"],
            dict(zip("ab", ["a/d_%Y%m%d%H%M%S.pcap", "b/d_%Y%m%d%H%M%S.pcap"], strict=True)),
        ),
        (["dump.1767225600.pcap", "dump.1767229200.pcap"], {"dump": "dump.%s.pcap"}),
        (["x_00001_20260301130000.pcap", "x_00002_20260301140000.pcap"], {"x": "x_%n_%Y%m%d%H%M%S.pcap"}),
        (["t.pcap0", "t.pcap1", "t.pcap12"], {"t": "t.pcap%c"}),
        (["trace-1.pcap", "trace-2.pcap"], {"trace": "trace-%n.pcap"}),
        (["main1.pcap", "main2.pcap"], {"main1": "main1.pcap", "main2": "main2.pcap"}),
        (
            ["m_2026-03-01T13:00:00Z.pcap.gz", "m_2026-03-01T14:00:00Z.pcap"],
            {"m": "m_%Y-%m-%dT%H:%M:%SZ.pcap, m_%Y-%m-%dT%H:%M:%SZ.pcap.gz"},
        ),
        (["2026030100.pcap", "2026030101.pcap"], {"link1": "%Y%m%d%H.pcap"}),
        (["50%/9 m_20260301.pcap"], {"link_9_m": "50%%/9 m_%Y%m%d.pcap"}),
        (["h_20260301-7.pcap"], {"h": "h_%Y%m%d-7.pcap"}),
    ],
)
def test_names_tell_links_and_patterns(names: list[str], links: dict[str, str]) -> None:
    assert {each.link: ", ".join(each.patterns) for each in name_links(group_names(names))} == links


@pytest.mark.slow
def test_a_proposal_holds_for_its_captures(tmp_path: Path) -> None:
    folder, lake = tmp_path / "captures", tmp_path / "lake"
    for hour in range(3):
        capture(folder / f"a_2026030100{hour * 20:02d}.pcap", BEGIN + hour * 1200 * SECOND, late=2_300_000_000)
        capture(folder / "zone" / f"b_2026030{1 + (hour > 1)}.pcap", BEGIN + (hour > 1) * 24 * HOUR)
    (folder / "README").write_text("no capture")
    said = lowwater("init", folder, "--lake", lake, "--query", QUERIES / "flows.gsql")
    assert said.code == 0 and "left out: README" in said.err and "a: a_%Y%m%d%H%M.pcap%c, skew 2s" in said.out
    config = load_config(lake)
    a, b = config.links["a"], config.links["b"]
    assert (a.rotation, a.skew, a.since) == (1200 * SECOND, 2 * SECOND, BEGIN)
    assert (b.rotation, b.skew, b.since) == (24 * HOUR, SECOND // 10, BEGIN)
    assert config.interval.length == 24 * HOUR and list(config.query_sets) == ["flows"]
    text = (lake / "lowwater.toml").read_text()
    assert '# until = "2026-03-01T01:00:00Z"' in text and "at most 1.3s" in text
    assert lowwater("ingest", "--lake", lake).code == 0
    found = read_captures(open_lake(lake), ["a", "b"])
    assert [(each.covers_from - BEGIN) // SECOND for each in found["a"]] == [0, 1200, 2400]
    assert {each.covers_to - each.covers_from for each in found["b"]} == {24 * HOUR}
    again = lowwater("init", folder, "--lake", lake)
    assert again.code == 1 and "already exists" in again.err
    assert (lake / "lowwater.toml").read_text() == text


@pytest.mark.slow
def test_ingest_takes_what_is_new_by_the_patterns(tmp_path: Path) -> None:
    folder, lake = tmp_path / "c", tmp_path / "lake"
    for hour in range(2):
        capture(folder / f"a_20260301T0{hour}.pcap", BEGIN + hour * HOUR)
        capture(folder / f"b_20260301T0{hour}.pcap", BEGIN + hour * HOUR)
    assert lowwater("init", folder, "--lake", lake).code == 0
    past = time.time() - 60
    for path in folder.iterdir():
        os.utime(path, (past, past))
    said = lowwater("ingest", "--lake", lake, "--from", "2026-03-01T01:00Z")
    assert said.code == 0 and "a_20260301T01.pcap" in said.out and "T00.pcap" not in said.out
    said = lowwater("ingest", "--lake", lake, "--link", "a")
    assert "a: 1 new, 1 known" in said.err and "b_" not in said.out
    said = lowwater("ingest", "--lake", lake)
    assert "a: no new file, 2 known" in said.err and said.out.count("added") == 1
    (folder / "a_20260301T02.pcap").write_bytes(b"no capture")
    capture(folder / "b_20260301T02.pcap", BEGIN + 2 * HOUR)
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 1 and "a_20260301T02.pcap" in said.err and "b_20260301T02.pcap" in said.out
    (folder / "a_20260301T02.pcap").unlink()
    capture(folder / "a_20260301T00.pcap", BEGIN, count=50)
    said = lowwater("ingest", "--lake", lake, "--link", "a")
    assert said.code == 0 and said.out.count("replaced") == 1 and "1 new, 1 known" in said.err
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace("[links.b]", "[links.b]\npayload = 64"))
    said = lowwater("ingest", "--lake", lake, "--link", "b")
    assert said.out.count("replaced") == 3, "another setting of the link reads all of its files again"
