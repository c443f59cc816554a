"""Logs with damage, for `test_logs` and the guided fuzzer: read or refused by every ready protocol, all bytes told."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

from lowwater.capture.tables import blocks
from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.reader import RecordReader
from lowwater.catalog.protocols import READY
from lowwater.errors import CaptureError
from tests.capture.logmaker import as_lines, conn, eve, talks, zeek_header, zeek_json, zeek_tsv

_SIGNS = (
    b"\t", b"\n", b"\r", b"#", b"#fields\t", b"#path\tdns\n", b"#separator ", b"\\x", b"-", b"(empty)", b",", b"{",
    b"}", b'"', b"[", b"\xff", b"\0", b"\xef\xbb\xbf", b"ts,", b"Summary\n", b"flows,bytes,packets,\n", b"1e999",
)  # fmt: skip
_NFDUMP = b"ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt\n" + b"".join(
    b"2026-01-01 00:00:%02d,2026-01-01 00:01:00,2.000,10.0.0.1,10.0.0.2,0,2048,ICMP,........,0,0,3,252\n" % at
    for at in range(20)
)


def seeds() -> list[bytes]:
    """Whole logs of every form."""
    made = talks(1, 12)
    rows = conn(made)
    names = list(rows[0])
    log = zeek_header("conn", names) + zeek_tsv(rows, names)
    return [log, log + zeek_header("dns", ["ts", "query"]) + b"1.0\ta\n", zeek_json(rows), as_lines(eve(made)), _NFDUMP]


_SEEDS = seeds()


def damaged(random: Random) -> bytes:
    """A log with some bytes changed, left out or added; sometimes two logs, or compressed and cut."""
    data = bytearray(random.choice(_SEEDS))
    if random.random() < 0.2:
        data += random.choice(_SEEDS)
    for _ in range(random.randrange(8)):
        at = random.randrange(len(data) + 1)
        choice = random.random()
        if choice < 0.5:
            data[at:at] = random.choice(_SIGNS)
        elif choice < 0.8:
            data[at : at + 1] = bytes([random.randrange(256)])
        else:
            del data[at : at + random.randrange(200)]
    return bytes(data)


def check(random: Random, path: Path) -> None:
    """Reads a damaged log by a ready protocol, and checks the account of its bytes."""
    data = damaged(random)
    packed = random.random() < 0.1
    stored = gzip.compress(data) if packed else data
    path.write_bytes(stored[: random.randrange(len(stored) + 1)] if random.random() < 0.2 else stored)
    protocol = READY[random.choice(list(READY))]
    assert protocol.layout is not None
    before, blocks.RECORD_BLOCK_BYTES = blocks.RECORD_BLOCK_BYTES, random.choice((1 << 22, 1 << 22, 100, 1000))
    try:
        reader = RecordReader(path, TableOptions(protocol.kind, protocol.layout), 10**13, "")
        count = sum(batch.num_rows for batch in reader)
    except CaptureError as error:
        assert error.hint, error
        return
    finally:
        blocks.RECORD_BLOCK_BYTES = before
    assert reader.summary is not None
    assert count == reader.summary.packets
    rows = [row for row in reader.malformed.to_pylist() if row["reason"] != "compression"]
    lengths = sum(row["length"] for row in rows)
    assert reader.summary.record_bytes + lengths + reader.summary.overhead == reader.summary.unpacked
