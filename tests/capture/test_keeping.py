"""What readers keep beside the headers: the same of a whole capture and of its chunks, and equal to its bytes."""

from __future__ import annotations

from pathlib import Path

import dpkt
import pyarrow as pa
import pytest

from lowwater.capture import read
from lowwater.capture.content.retention import EVERYTHING, NOTHING, ContentOptions
from lowwater.capture.content.stored import Anonymiser
from lowwater.capture.reader import BATCH, index, read_chunk
from lowwater.catalog.schemas import FRAME
from tests import capturemaker as maker

SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
KEY = bytes(range(32))
QUESTION = bytes(dpkt.dns.DNS(id=7, qd=[dpkt.dns.DNS.Q(name="www.example.org", type=28)]))
FRAMES = (
    maker.tcp("10.0.0.1", "10.0.0.2", 1, 80, data=b"GET /a HTTP/1.1\r\nHost: example.net\r\n\r\n"),
    maker.udp("10.0.0.1", "10.0.0.3", 9, 53, QUESTION),
    maker.udp("2001:db8::1", "2001:db8::2", 9, 99, bytes(range(200))),
    maker.arp(),
    maker.ethernet(bytes(range(150)), 0x88B5),
)
HEADERS = (54, 42, 62, 64, 64)
"""Bytes of each frame before its payload; 64 where nobody knows."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    records = [(START + number * SECOND // 100, FRAMES[number % len(FRAMES)]) for number in range(1000)]
    (tmp_path / "a.pcap").write_bytes(maker.pcap_bytes(records))
    return tmp_path / "a.pcap"


def rows(path: Path, content: ContentOptions) -> pa.Table:
    """All rows of one pass, which are those of the chunks."""
    whole = pa.Table.from_batches(list(read(path, 61 * SECOND, 4096, content=content)), content.schema)
    chunks = index(path, 61 * SECOND, 9000).chunks
    parts = [batch for chunk in chunks for _, batch in read_chunk(chunk, content)]
    assert len(chunks) > 5 and pa.Table.from_batches(parts) == whole
    return whole


@pytest.mark.parametrize("payload", [0, 10, 100, EVERYTHING])
def test_frames_are_the_captured_bytes(path: Path, payload: int) -> None:
    found = rows(path, ContentOptions(payload))
    assert found.schema.names == [*BATCH.names, FRAME]
    lengths = [None if payload == EVERYTHING else headers + payload for headers in HEADERS]
    kept = [frame[:length] for frame, length in zip(FRAMES, lengths, strict=True)]
    assert found[FRAME].to_pylist() == kept * 200


def test_addresses_are_replaced_and_nothing_else(path: Path) -> None:
    true, other = rows(path, NOTHING), rows(path, ContentOptions(key=KEY))
    pan = Anonymiser(KEY)
    for name in true.schema.names:
        if not name.endswith(("IP_hi", "IP_lo", "MAC")):
            assert other[name] == true[name]
    (want,) = pan.v4(true["srcIP_lo"].slice(0, 1).to_numpy())
    assert other["srcIP_lo"][0].as_py() == want != true["srcIP_lo"][0].as_py()


def test_the_key_shows_nowhere() -> None:
    content = ContentOptions(key=KEY)
    assert KEY.hex() not in content.key_digest and repr(KEY) not in repr(content) and str(content) == ""
    assert NOTHING.key_digest == ""
