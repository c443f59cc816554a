"""The Community ID of every packet of a batch.

After decoding, and after anonymisation where there is any: an ID is a hash without a key, so that one of the true
addresses would give them away to whoever tries all of them.

A Community ID knows no VLAN, and the same private addresses are used in many. The identity of a flow is therefore
(`vlan_id`, Community ID), which is what a query groups by: `GROUP BY vlan_id, community_id(srcIP, destIP, protocol,
srcPort, destPort)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.catalog.builtin.flows import ICMP, ICMPV6, PORTED, community_id, community_id_without_ports
from lowwater.catalog.values import ip_from_words

_WORDS = ("srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo")
_KEY = np.dtype([*((name, np.int64) for name in _WORDS), *((name, np.int16) for name in ("version", "protocol")),
                 *((name, np.int32) for name in ("first", "second"))])  # fmt: skip
_NONE = -1


def community_ids(batch: pa.RecordBatch, seed: int = 0) -> pa.StringArray:
    """The Community ID (version 1) of the outermost IP header and transport of every packet.

    Args:
        batch: n rows with the columns of `catalog.packets.COLUMNS`.
        seed: the seed of the hash, 16 bits.

    Returns:
        n values; NULL where a packet has no IP addresses, and where its protocol has ports (TCP, UDP, SCTP; type and
        code of ICMP and ICMPv6) that it does not show: a later fragment, or a header that the snaplen cut.
    """
    if not 0 <= seed <= 0xFFFF:
        raise ValueError(f"a seed has 16 bits, {seed} has not")
    keys = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_KEY.itemsize), batch.num_rows, [None, pa.py_buffer(_keys(batch))]
    )
    # Once for each distinct tuple of the batch: a hash takes some microseconds, a batch has far fewer flows than rows.
    found = keys.dictionary_encode()
    values = np.frombuffer(found.dictionary.buffers()[1], _KEY, len(found.dictionary))
    names = pa.array([_named(value, seed) for value in values.tolist()], pa.string())
    return names.take(found.indices)


def _keys(batch: pa.RecordBatch) -> NDArray[Any]:
    """The tuple of every row; `_NONE` for what is NULL."""

    def numbers(name: str, missing: int) -> NDArray[Any]:
        found: NDArray[Any] = batch.column(name).fill_null(missing).to_numpy(False)
        return found

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


def _named(key: tuple[int, ...], seed: int) -> str | None:
    src_hi, src_lo, dest_hi, dest_lo, version, protocol, first, second = key
    if version < 0:
        return None
    source, destination = ip_from_words(version, src_hi, src_lo), ip_from_words(version, dest_hi, dest_lo)
    if protocol not in PORTED:
        return community_id_without_ports(source, destination, protocol, seed)
    return community_id(source, destination, protocol, first, second, seed)
