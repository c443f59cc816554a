"""Files that are named by the clock on a wall, in the night in which an hour comes twice: what `init` and `ingest` say
to write is written, and each hour is done with its own packets."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from lowwater.instants import SECOND, parse_instant
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow

QUERY = "DEFINE { query_name 'flows'; } SELECT tb, count(*) AS n FROM main.UDP GROUP BY time/3600 AS tb\n"
NIGHTS = {
    "Europe/Berlin": "2026-10-25T01:00:00Z",  # when the clock is put back
    "America/New_York": "2026-11-01T06:00:00Z",
    "Australia/Sydney": "2026-04-04T16:00:00Z",
}
HOURS = range(-4, 4)


def _files(folder: Path, zone: str, names: str) -> int:
    """A capture for each hour of a night, of 60 + its number packets, named by the clock of a zone: of two of one name
    the second has a count. Returns the begin of the night, ns."""
    begin = parse_instant(NIGHTS[zone])
    seen: Counter[str] = Counter()
    folder.mkdir()
    for number, hour in enumerate(HOURS):
        at = begin + hour * 3600 * SECOND
        name = datetime.fromtimestamp(at // SECOND, ZoneInfo(zone)).strftime(names)
        frames = [
            (at + n * 50 * SECOND + 1234, udp("10.0.0.1", "10.0.0.2", 1, 2, bytes(8))) for n in range(60 + number)
        ]
        (folder / f"{name}{seen[name] or ''}").write_bytes(pcap_bytes(frames, nanoseconds=True))
        seen[name] += 1
    return begin + HOURS[0] * 3600 * SECOND


def _write(lake: Path, lines: list[str]) -> None:
    """Writes lines into the section of the only link."""
    text = (lake / "lowwater.toml").read_text()
    assert text.count("\ncaptures = ") == 1
    (lake / "lowwater.toml").write_text(text.replace("\ncaptures = ", "\n" + "\n".join(lines) + "\ncaptures = "))


def _line(key: str, said: str) -> str:
    found = re.search(rf'{key} = ("[^"]*"|\{{[^}}]*\}})', " ".join(said.split()))
    assert found is not None, (key, said)
    return found[0]


def _assert_right(lake: Path, begin: int) -> None:
    assert lowwater("backfill", "--lake", lake).code == 0
    rows = [line.split(",") for line in lowwater("rows", "flows", "--lake", lake, "--format", "csv").out.splitlines()]
    first = begin // (3600 * SECOND)
    assert [(int(tb), int(n)) for tb, n in rows[1:]] == [(first + at, 60 + at) for at in range(len(HOURS))]
    status = lowwater("status", "--lake", lake).out
    assert status.count(" done") == len(HOURS) - 1 and "provisional" in status, status  # nothing follows the last


@pytest.mark.parametrize("names", ["main_%Y%m%d_%H%M%S.pcap", "main_%Y%m%d%H.pcap"])
@pytest.mark.parametrize("zone", NIGHTS)
def test_the_hint_of_init_makes_each_hour_right(zone: str, names: str, tmp_path: Path) -> None:
    begin = _files(tmp_path / "captures", zone, names)
    (tmp_path / "q.gsql").write_text(QUERY)
    lake = tmp_path / "lake"
    said = lowwater("init", tmp_path / "captures", "--lake", lake, "--query", tmp_path / "q.gsql").out
    assert f'as in a zone with summer time: if so, write timezone = "{zone}"' in said
    _write(lake, [_line(key, said) for key in ("timezone", "rotation", "covers")])
    assert lowwater("ingest", "--lake", lake).code == 0
    _assert_right(lake, begin)


def test_ingest_says_which_hour_a_file_is_of(tmp_path: Path) -> None:
    """The next autumn: the settings know the zone, and no line for this night."""
    begin = _files(tmp_path / "captures", "Europe/Berlin", "main_%Y%m%d%H.pcap")
    (tmp_path / "q.gsql").write_text(QUERY)
    lake = tmp_path / "lake"
    lowwater("init", tmp_path / "captures", "--lake", lake, "--query", tmp_path / "q.gsql")
    _write(lake, ['timezone = "Europe/Berlin"', 'rotation = "1h"'])
    lowwater("ingest", "--lake", lake)
    said = lowwater("status", "--lake", lake).out
    assert "the hour in its name comes twice; it is of the second, so write covers = {" in " ".join(said.split())
    _write(lake, [_line("covers", said)])
    lowwater("ingest", "--lake", lake)
    _assert_right(lake, begin)


def test_the_hour_that_comes_once_has_no_hint(tmp_path: Path) -> None:
    """A file that was begun again within its hour is of that hour."""
    noon = datetime(2026, 10, 25, 12, tzinfo=UTC)
    (tmp_path / "captures").mkdir()
    for minute, count in ((0, ""), (30, "1")):
        at = int((noon + timedelta(minutes=minute)).timestamp()) * SECOND
        frames = [(at + n * SECOND + 1234, udp("10.0.0.1", "10.0.0.2", 1, 2, bytes(8))) for n in range(60)]
        (tmp_path / "captures" / f"main_2026102513.pcap{count}").write_bytes(pcap_bytes(frames, nanoseconds=True))
    said = lowwater("init", tmp_path / "captures", "--lake", tmp_path / "lake").out
    assert "covers" not in said.replace("each file covers", "")
