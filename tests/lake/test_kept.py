"""Frames, applications and anonymised addresses in a lake: as the settings say, and again when they change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from lowwater.config import Config, Link
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.keys import outdated
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import read_captures
from tests import capturemaker as maker, hellomaker
from tests.lake.support import BASE

SECOND = 1_000_000_000
REQUEST = b"GET /index HTTP/1.1\r\nHost: example.org\r\n\r\n"
FRAMES = [maker.tcp("10.0.0.1", "10.0.0.2", 5, 80, data=REQUEST), maker.udp("10.0.0.2", "10.0.0.1", 53, 5, bytes(60))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "a.pcap"
    target.write_bytes(maker.pcap_bytes([(BASE + number * SECOND, FRAMES[number % 2]) for number in range(10)]))
    return target


def key(path: Path, byte: int) -> str:
    path.write_bytes(bytes([byte]) * 32)
    path.chmod(0o600)
    return str(path)


def take(lake: Lake, path: Path, **settings: Any) -> str:
    (done,) = ingest(lake, "a", [path], Config(links={"a": Link(**settings)}))
    return done.state


def stored(lake: Lake, columns: str) -> list[tuple[Any, ...]]:
    """What the files of the ledger's capture hold, read by DuckDB."""
    ((capture,),) = (read_captures(lake, ["a"]).values(),)
    files = [str(path) for path in lake.packets.rglob(f"*-{capture[0].attempt}.*parquet")]
    found: list[tuple[Any, ...]] = duckdb.sql(
        f"SELECT {columns} FROM read_parquet({files}) ORDER BY position"
    ).fetchall()
    return found


@pytest.mark.slow
def test_fields_of_tls_ssh_and_quic(lake: Lake, tmp_path: Path) -> None:
    initial = hellomaker.initial(hellomaker.crypto(hellomaker.script("b.example")[5:]), bytes(8))
    frames = (
        maker.tcp("10.0.0.1", "10.0.0.2", 5, 443, data=hellomaker.browser("a.example")),
        maker.tcp("10.0.0.1", "10.0.0.2", 5, 22, data=b"SSH-2.0-x\r\n"),
        maker.udp("10.0.0.1", "10.0.0.2", 5, 443, initial),
    )
    path = tmp_path / "b.pcap"
    path.write_bytes(maker.pcap_bytes([(BASE + number * SECOND, frame) for number, frame in enumerate(frames)]))
    assert take(lake, path, applications=["quic", "ssh", "tls"]) == "added"
    found = stored(lake, "tls_server_name, tls_version, ssh_banner, quic_version, quic_server_name")
    assert found == [
        ("a.example", hellomaker.TLS_13, None, None, None),
        (None, None, "SSH-2.0-x", None, None),
        (None, None, None, 1, "b.example"),
    ]


@pytest.mark.slow
def test_what_is_kept_follows_the_settings(lake: Lake, path: Path) -> None:
    assert take(lake, path) == "added"
    assert take(lake, path, payload=4) == "replaced"
    assert stored(lake, "frame") == [(FRAMES[0][:58],), (FRAMES[1][:46],)] * 5
    assert take(lake, path, payload=4) == "known"
    assert take(lake, path, payload="all", applications=["http"]) == "replaced"
    found = stored(lake, "frame, http_host, http_uri")
    assert found == [(FRAMES[0], "example.org", "/index"), (FRAMES[1], None, None)] * 5
    assert take(lake, path, applications=["http", "http"]) == "replaced"
    assert take(lake, path, applications=["http"]) == "known"
    (row,) = read_captures(lake, ["a"])["a"]
    assert (row.kept, row.key, row.packets) == ("http", "", 10)
    with pytest.raises(duckdb.BinderException):
        stored(lake, "frame")


@pytest.mark.slow
def test_another_key_is_other_packets(lake: Lake, path: Path, tmp_path: Path) -> None:
    one, two = (Link(anonymise=key(tmp_path / f"key{byte}", byte)) for byte in (1, 2))
    assert take(lake, path, anonymise=one.anonymise) == "added"
    first = stored(lake, "srcIP_lo")
    captures = read_captures(lake, ["a"])["a"]
    version = captures[0].decoder_version
    assert outdated(captures, one, version, 0, 1 << 62) == []
    assert "anonymised by another key" in outdated(captures, two, version, 0, 1 << 62)[0]
    assert "anonymised by a key" in outdated(captures, Link(), version, 0, 1 << 62)[0]
    assert take(lake, path, anonymise=two.anonymise) == "replaced"
    second = stored(lake, "srcIP_lo")
    assert take(lake, path) == "replaced"
    true = stored(lake, "srcIP_lo")
    assert len({tuple(rows) for rows in (first, second, true)}) == 3
    assert "under no key" in outdated(read_captures(lake, ["a"])["a"], one, version, 0, 1 << 62)[0]
