"""A damaged stretch of a capture: its hour is not done until a person accepts that, or a whole copy replaces it."""

from __future__ import annotations

import html
import os
import re
import shlex
from pathlib import Path

import pytest
from lowwater_review import Ledgers, render

from lowwater.instants import HOUR, SECOND
from lowwater.lake.tables import interval_label
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow

BEGIN = 1_800_000_000  # 2027-01-15T08:00:00Z
SETTINGS = """
[links.a]
captures = "../captures/a_%Y%m%d%H.pcap"
rotation = "1h"
since = "2027-01-15T08:00:00Z"
until = "2027-01-15T11:00:00Z"
policy = "{policy}"
[query_sets.flows]
files = "flows.gsql"
"""
QUERY = "DEFINE { query_name 'flows'; } SELECT tb, count(*) AS n FROM a.UDP GROUP BY time/3600 AS tb\n"
PACKETS, LOST = 720, 36


def _hour(folder: Path, number: int, damaged: bool = False) -> Path:
    """The capture of an hour, with a packet each 5 s; of a damaged one, LOST of them are overwritten."""
    stamps = ((BEGIN + number * 3600 + at * 5) * SECOND for at in range(PACKETS))
    data = bytearray(pcap_bytes([(at, udp("10.0.0.1", "10.0.0.2", 1, 2, bytes(100))) for at in stamps]))
    if damaged:
        size = (len(data) - 24) // PACKETS
        data[24 + 180 * size : 24 + (180 + LOST) * size] = b"\xff" * (LOST * size)
    path = folder / "captures" / f"a_20270115{8 + number:02d}.pcap"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (BEGIN - 10**6 + damaged, BEGIN - 10**6 + damaged))
    return path


def _lake(folder: Path, policy: str, damaged: bool = True) -> Path:
    for number in range(3):
        _hour(folder, number, damaged and number == 1)
    lake = folder / "lake"
    lake.mkdir()
    (lake / "flows.gsql").write_text(QUERY)
    (lake / "lowwater.toml").write_text(SETTINGS.format(policy=policy))
    _go_on(lake)
    return lake


def _go_on(lake: Path) -> None:
    lowwater("ingest", "--lake", lake)
    lowwater("backfill", "--lake", lake)


def _state(lake: Path) -> str:
    """What `status` says of the damaged hour, in one line."""
    text = lowwater("status", "--lake", lake).out
    (said,) = re.findall(r"^ 2027-01-15T09:00:00Z(.*?)(?=^ 2027|^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(said.split()).removeprefix("flows flows ")


def _counts(lake: Path) -> list[int]:
    said = lowwater("rows", "flows", "--lake", lake, "--format", "csv").out
    return [int(line.split(",")[1]) for line in said.splitlines()[1:]]


@pytest.mark.parametrize(
    ("policy", "state", "counts"),
    [("fail", "cannot start", [PACKETS, PACKETS]), ("publish", "incomplete", [PACKETS, PACKETS - LOST, PACKETS])],
)
def test_the_hour_of_damage_is_not_done_until_it_is_accepted(
    policy: str, state: str, counts: list[int], tmp_path: Path
) -> None:
    lake = _lake(tmp_path, policy)
    said = _state(lake)
    assert said.startswith(state) and "a_2027011509.pcap is damaged: 5,688 bytes from byte 28,464 on" in said
    assert "about 36 records" in said and _counts(lake) == counts

    if policy == "fail":
        (command,) = re.findall(r"lowwater (accept .*? --why) TEXT", said)
    else:
        command = f"accept flows --lake {lake} --interval 2027-01-15T09:00Z --link a --cause damage --why"
    assert lowwater(*shlex.split(command), "the disk failed").code == 0
    _go_on(lake)
    said = _state(lake)
    assert said.startswith("done accepted: link 'a': a_2027011509.pcap is damaged") and "the disk failed" in said
    assert _counts(lake) == [PACKETS, PACKETS - LOST, PACKETS]


@pytest.mark.parametrize("accepted", [False, True])
@pytest.mark.parametrize("policy", ["fail", "publish"])
def test_a_whole_copy_replaces_the_damaged_file(policy: str, accepted: bool, tmp_path: Path) -> None:
    lake = _lake(tmp_path, policy)
    if accepted:
        accept = f"accept flows --lake {lake} --interval 2027-01-15T09:00Z --link a --cause damage --why".split()
        assert lowwater(*accept, "the disk failed").code == 0
        _go_on(lake)
        assert _state(lake).startswith("done")
    _hour(tmp_path, 1)
    _go_on(lake)
    assert _state(lake) == "done" and _counts(lake) == [PACKETS, PACKETS, PACKETS]
    assert "damaged" not in lowwater("status", "--lake", lake).out


def test_an_hour_that_is_damaged_after_it_was_done_is_no_longer_done(tmp_path: Path) -> None:
    lake = _lake(tmp_path, "fail", damaged=False)
    assert _state(lake) == "done" and _counts(lake) == [PACKETS, PACKETS, PACKETS]
    _hour(tmp_path, 1, damaged=True)
    lowwater("ingest", "--lake", lake)
    assert not _state(lake).startswith("done")


def test_the_page_of_the_hour_has_the_damage_and_what_is_not_read(tmp_path: Path) -> None:
    lake = _lake(tmp_path, "publish")
    (tmp_path / "captures" / "a_2027011510.pcap").write_bytes(b"no capture, and longer than a header")
    lowwater("ingest", "--lake", lake)
    known = Ledgers(lake, lake).now()
    first = BEGIN * SECOND
    nine, ten = (
        html.unescape(render(known, f"interval/flows/{interval_label(at, at + HOUR)}.html") or "")
        for at in (first + HOUR, first + 2 * HOUR)
    )
    row = nine.partition("Damaged capture")[2].partition("<tbody>")[2].partition("</tr>")[0]
    cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
    assert cells[1:4] == ["28,464", "5,688", str(LOST)] and cells[5] == "not covered"
    assert "09:14:55 to 09:18 UTC" in cells[4]
    assert "Not read: a_2027011510.pcap (refused: not a capture: it begins with 6e 6f 20 63)." in ten
