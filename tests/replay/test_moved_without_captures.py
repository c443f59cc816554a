"""A lake that is moved without its captures goes on: what was published stays, and what is in it can be made again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lake.support import capture
from tests.replay.support import lowwater

QUERY = "DEFINE {{ query_name n; }} SELECT tb, count(*) AS c FROM a.ETH GROUP BY time/{} AS tb\n"


def made(top: Path) -> Path:
    """A lake of three hours, all of them published."""
    lake = top / "lake"
    lake.mkdir(parents=True)
    for hour in range(3):
        capture(top / "cap" / f"a_20270115{8 + hour:02}.pcap", [hour * 3600 + 60 * minute for minute in range(60)])
    (lake / "n.gsql").write_text(QUERY.format(3600))
    pattern = '[links.a]\ncaptures = "../cap/a_%Y%m%d%H.pcap"\nrotation = "1h"\n[query_sets.n]\nfiles = ["n.gsql"]\n'
    (lake / "lowwater.toml").write_text(pattern)
    assert lowwater("ingest", "--lake", lake).code == 0
    assert lowwater("backfill", "--lake", lake).code == 0
    return lake


def states(lake: Path) -> list[str]:
    """Begin and state of each interval, as `status` prints them."""
    return [line for line in lowwater("status", "--lake", lake).out.splitlines() if "2027-01-15T" in line]


@pytest.mark.slow
def test_a_lake_without_its_captures(tmp_path: Path) -> None:
    before = states(old := made(tmp_path / "old"))
    assert [line.split()[3] for line in before] == ["done", "done", "provisional"]
    lake = tmp_path / "elsewhere" / "lake"
    shutil.copytree(old, lake)
    shutil.rmtree(tmp_path / "old")
    took = lowwater("ingest", "--lake", lake)
    assert took.code == 1 and f"the folder {lake.parent / 'cap'} is not there" in took.err
    assert states(lake) == before
    again = lowwater("backfill", "--lake", lake)
    assert (again.code, again.out.strip()) == (0, "nothing is due"), again
    (lake / "n.gsql").write_text(QUERY.format(1800))
    assert lowwater("backfill", "--lake", lake).code == 0, "packets are in the lake"
    assert states(lake) == before
    rows = lowwater("rows", "n", "--lake", lake, "--format", "csv").out.splitlines()
    assert [line.rpartition(",")[2] for line in rows[1:]] == ["30"] * 6
