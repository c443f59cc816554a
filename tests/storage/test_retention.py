"""Packets go by age, and with a link that is dropped, from a lake in an object store; what is published stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import lake_to_read
from lowwater.lake.packets import PacketFiles
from lowwater.replay.schedule.due import statuses
from lowwater.storage import objects, paths
from lowwater.storage.object_paths import ObjectPath
from tests.cli.hostile import clean
from tests.lake.support import BASE, capture

YEAR = 8760 * 3600  # the captures are so much older than BASE, s
QUERY = "DEFINE { query_name n; } SELECT tb, count(*) AS c FROM ETH GROUP BY time/3600 AS tb\n"


def settings(folder: Path, links: str, skew: str = "3s", packets: str = "") -> bytes:
    text = f'[query_sets.n]\nfiles = ["{folder}/n.gsql"]\n'
    for link in links:
        text += f'[links.{link}]\ncaptures = "{folder}/{link}/x_%Y%m%d%H.pcap"\nrotation = "1h"\nskew = "{skew}"\n'
    return (text + (f'[retention]\npackets = "{packets}"\n' if packets else "")).encode()


@pytest.mark.nightly
@pytest.mark.slow
def test_packets_go_from_a_store(root: ObjectPath, tmp_path: Path) -> None:
    (tmp_path / "n.gsql").write_text(QUERY)
    for link, count in (("a", 30), ("b", 20)):
        for hour in range(4):
            path = tmp_path / link / f"x_20260115{8 + hour:02}.pcap"
            capture(path, [3600 * hour - YEAR + 3600 / count * number for number in range(count)])
            os.utime(path, ns=(BASE - 9000 * HOUR,) * 2)
    at = "--lake", str(root), "--queries", tmp_path
    age = f"{(time.time_ns() - BASE + YEAR * SECOND) // SECOND - 5400}s"  # hour 0 goes

    def write(links: str, skew: str = "3s", packets: str = "") -> None:
        paths.write(root / "lowwater.toml", settings(tmp_path, links, skew, packets))

    def words() -> list[str]:
        return [row.shown for row in statuses(root, tmp_path)]

    write("ab")
    clean("ingest", *at[:2])
    clean("backfill", *at)
    assert words() == ["done"] * 3 + ["provisional"]
    write("ab", packets=age)
    clean("maintain", *at[:2])
    packets = [path for path in objects.below(root) if "/packets/" in str(path) and path.name.endswith(".parquet")]
    assert len(packets) == 6 and words() == ["done"] * 3 + ["provisional"]
    write("ab", "2s", age)
    assert words() == ["kept", "stale", "stale", "stale"]
    clean("backfill", *at)
    clean("rename", "link", "b", "west", *at, "--why", "a better name")
    assert words() == ["kept", "done", "done", "provisional"]
    write("a", "2s", age)
    clean("backfill", *at)
    assert words() == ["kept", "done", "done", "provisional"], "the link has ended, and its hours are what they were"
    said = clean("retire", "link", "west", *at, "--drop", "--yes", "--why", "its packets may not be kept").out
    assert "packets/link=west" in said and "freed" in said
    left = [str(path) for path in objects.below(root) if path.name.endswith(".parquet")]
    assert not [path for path in left if "link=west" in path and "/packets/" in path]
    assert PacketFiles.of(lake_to_read(root)).horizons.keys() == {"a", "west"}
    write("a", "1s", age)
    assert words() == ["kept"] * 4
    clean("maintain", *at[:2])
    clean("verify", *at[:2])
    clean("rename", "query", "n", "m", *at, "--why", "a better name")
    clean("rename", "set", "n", "site", *at, "--why", "a better name")
    assert words() == ["kept"] * 4
    drop = ("retire", "query", "m", *at, "--drop", "--why", "nobody reads it")
    assert "nothing was changed: --yes drops it" in clean(*drop).out and words() == ["kept"] * 4
    assert "tables/m: gone" in clean(*drop, "--yes").out
    assert not [path for path in objects.below(root) if "/tables/" in str(path)]
    clean("maintain", *at[:2])
    clean("verify", *at[:2])
