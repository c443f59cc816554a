"""The records of a pcap, read without Lowwater."""

from __future__ import annotations

import dpkt

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
