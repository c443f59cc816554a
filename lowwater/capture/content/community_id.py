"""Community IDs of packets.

It runs after decoding and after anonymisation. A Community ID is a hash without a key: whoever tries all addresses
finds the true ones.

A Community ID ignores VLANs, and many VLANs use the same private addresses. So a flow is identified by (`vlan_id`,
Community ID): `GROUP BY vlan_id, community_id(srcIP, destIP, protocol, srcPort, destPort)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.catalog.builtin.numbers import ICMP, ICMPV6, PORTED, community_id, community_id_without_ports
from lowwater.catalog.values import ip_from_words

_WORDS = ("srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo")
_KEY = np.dtype([*((name, np.int64) for name in _WORDS), *((name, np.int16) for name in ("version", "protocol")),
                 *((name, np.int32) for name in ("first", "second"))])  # fmt: skip
_NONE = -1


def community_ids(batch: pa.RecordBatch, seed: int = 0) -> pa.StringArray:
    """Computes the Community ID (version 1) of the outermost IP header and transport of every packet.

    Args:
        batch: n rows with the columns of `catalog.schemas.COLUMNS`.
        seed: seed of the hash, 16 bits.

    Returns:
        n values; NULL without IP addresses, and where the ports (TCP, UDP, SCTP), or type and code (ICMP, ICMPv6), are
        missing: in later fragments, and in headers that the snaplen cut.
    """
    if not 0 <= seed <= 0xFFFF:
        raise ValueError(f"a seed has 16 bits, {seed} has not")
    keys = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_KEY.itemsize), batch.num_rows, [None, pa.py_buffer(_keys(batch))]
    )
    # Hashed once for every distinct tuple: a hash takes some microseconds, and a batch has far fewer flows than rows.
    encoded = keys.dictionary_encode()
    values = np.frombuffer(encoded.dictionary.buffers()[1], _KEY, len(encoded.dictionary))
    names = pa.array([_text(value, seed) for value in values.tolist()], pa.string())
    return names.take(encoded.indices)


def _keys(batch: pa.RecordBatch) -> NDArray[Any]:
    """Returns the tuple of every row, with `_NONE` for NULL."""

    def numbers(name: str, missing: int) -> NDArray[Any]:
        values: NDArray[Any] = batch.column(name).fill_null(missing).to_numpy(False)
        return values

    keys = np.zeros(batch.num_rows, _KEY)
    addressed = np.ones(batch.num_rows, np.bool_)
    for name in _WORDS:
        keys[name] = numbers(name, 0)
        addressed &= batch.column(name).is_valid().to_numpy(False)
    version, protocol = numbers("ipversion", _NONE), numbers("protocol", _NONE)
    keys["version"] = np.where(addressed & (protocol >= 0), version, _NONE)
    keys["protocol"] = protocol
    control = (protocol == ICMP) | (protocol == ICMPV6)
    for name, port, kind in (("first", "srcPort", "icmp_type"), ("second", "destPort", "icmp_code")):
        keys[name] = np.where(control, numbers(kind, _NONE), numbers(port, _NONE))
    return keys


def _text(key: tuple[int, ...], seed: int) -> str | None:
    src_hi, src_lo, dest_hi, dest_lo, version, protocol, first, second = key
    if version < 0:
        return None
    source, destination = ip_from_words(version, src_hi, src_lo), ip_from_words(version, dest_hi, dest_lo)
    if protocol not in PORTED:
        return community_id_without_ports(source, destination, protocol, seed)
    return community_id(source, destination, protocol, first, second, seed)
