"""Frames in the packets of a lake: written into the files of `packets/` from the captures that they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import dpkt
import pyarrow as pa
import pyarrow.parquet as pq

Record = tuple[int, int, bytes]
"""Timestamp (ns), length on the wire, frame."""


def records(data: bytes) -> list[Record]:
    """The whole records of a little-endian pcap, as dpkt reads their headers."""
    scale = {dpkt.pcap.TCPDUMP_MAGIC: 1000, dpkt.pcap.TCPDUMP_MAGIC_NANO: 1}[int.from_bytes(data[:4], "little")]
    found, at = [], dpkt.pcap.LEFileHdr.__hdr_len__
    while at + dpkt.pcap.LEPktHdr.__hdr_len__ <= len(data):
        head = dpkt.pcap.LEPktHdr(data[at : at + dpkt.pcap.LEPktHdr.__hdr_len__])
        at += len(head)
        frame = data[at : at + head.caplen]
        at += head.caplen
        if len(frame) == head.caplen:
            found.append((head.tv_sec * 10**9 + head.tv_usec * scale, head.len, frame))
    return found


def keep_frames(lake: Path, captures: Iterable[Path], most: int | None = None) -> None:
    """Adds the column `frame` to the packets of some captures.

    Args:
        lake: its folder.
        captures: all of whose records are sane.
        most: bytes to keep of each frame; None for all.
    """
    frames = {hashlib.sha256(data).hexdigest(): records(data) for data in (path.read_bytes() for path in captures)}
    for path in (lake / "packets").rglob("*.parquet"):
        rows = pq.ParquetFile(path).read()
        known = frames.get(rows["capture"][0].as_py())
        if known is not None:
            kept = [known[position][2][:most] for position in rows["position"].to_pylist()]
            pq.write_table(rows.append_column("frame", pa.array(kept, pa.binary())), path, row_group_size=500)
