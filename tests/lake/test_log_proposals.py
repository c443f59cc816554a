"""`init` and `inspect` of logs of Zeek, Suricata and nfdump: the ready protocol is found, and a lake reads by it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lowwater.capture.tables.sniffing import sniff_log
from lowwater.config import load_config
from lowwater.errors import CaptureError
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from tests.capture.logmaker import as_lines, conn, eve, nfdump, pair, ssl, talks, zeek_header, zeek_json, zeek_tsv
from tests.replay.support import lowwater

TALKS = talks(3, 40)
CONN, SSL, EVE = conn(TALKS), ssl(TALKS), eve(TALKS)
OLD_NFDUMP = b"ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt\n" + b"".join(
    b"2026-01-01 00:00:%02d,2026-01-01 00:01:00,2.000,10.0.0.1,10.0.0.2,0,2048,ICMP,........,0,0,3,252\n" % at
    for at in range(20)
)


def text_log(path: str, rows: list[dict[str, object]], separator: str = "\t") -> bytes:
    return zeek_header(path, list(rows[0]), separator) + zeek_tsv(rows, list(rows[0]), separator)


LOGS = {
    "conn": (text_log("conn", CONN), "zeek", "ZEEK_CONN"),
    "long": (text_log("conn_long", CONN, ","), "zeek", "ZEEK_CONN"),
    "ssl": (text_log("ssl", SSL), "zeek", "ZEEK_SSL"),
    "conn-json": (zeek_json(CONN), "zeek", "ZEEK_CONN"),
    "ssl-json": (zeek_json(SSL), "zeek", "ZEEK_SSL"),
    "ssl-told": (zeek_json([{**row, "_path": "ssl"} for row in SSL]), "zeek", "ZEEK_SSL"),
    "eve": (as_lines(EVE), "suricata", "EVE_FLOW"),
    "alerts": (as_lines(row for row in EVE if row["event_type"] == "alert"), "suricata", "EVE_ALERT"),
    "flows": (nfdump(TALKS), "nfdump", "NFDUMP"),
    "old": (OLD_NFDUMP, "nfdump", "NFDUMP"),
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_protocol_of_a_log_is_found(name: str, packed: bool, tmp_path: Path) -> None:
    data, kind, protocol = LOGS[name]
    path = tmp_path / "one"
    path.write_bytes(gzip.compress(data) if packed else data)
    found = sniff_log(path)
    assert found is not None and (found.kind, found.protocol) == (kind, protocol)
    assert set(found.others) == ({"EVE_DNS", "EVE_ALERT"} if name == "eve" else set())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (text_log("weird", CONN), "is the log 'weird' of Zeek; ready are ZEEK_CONN, "),
        (b'{"timestamp": "2026-01-01T00:00:00Z", "event_type": "stats"}\n', "with events stats; ready are EVE_FLOW, "),
    ],
)
def test_a_log_that_no_protocol_reads_is_named(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(data)
    with pytest.raises(CaptureError, match="one: is ") as caught:
        sniff_log(tmp_path / "one")
    assert message in str(caught.value) and caught.value.hint


@pytest.mark.slow
def test_init_proposes_links_that_ingest_reads(tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", tmp_path / "lake"
    folder.mkdir()
    expected = {}
    for name, data in pair()[1].items():
        (folder / name).write_bytes(data)
    (folder / "weird.log").write_bytes(text_log("weird", CONN))
    said = lowwater("init", folder, "--lake", lake)
    assert said.code == 0, said
    assert "left out: weird.log" in said.err and "is the log 'weird' of Zeek" in said.err
    assert "hold records of EVE_DNS, EVE_ALERT as well" in said.out or "EVE_ALERT, EVE_DNS as well" in said.out
    links = load_config(lake).links
    expected = {
        "conn": "ZEEK_CONN",
        "dns": "ZEEK_DNS",
        "http": "ZEEK_HTTP",
        "ssl": "ZEEK_SSL",
        "eve": "EVE_FLOW",
        "flows": "NFDUMP",
        "wire": None,
    }
    assert {name: link.protocol for name, link in links.items()} == expected
    assert not list(lake.glob("*.schema"))
    assert lowwater("ingest", "--lake", lake).code == 0
    rows = read_captures(open_lake(lake), expected)
    assert all(row.packets > 0 and row.malformed == 0 for name in expected for row in rows[name])
