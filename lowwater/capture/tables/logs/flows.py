"""Ends of flows in logs: ports, types of ICMP and the protocol as packets have them.

Between the parsers of logs and `pieces`. So one expression gives the Community ID of packets and of logs.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.logs import nfdump, zeek
from lowwater.catalog.records import RecordLayout


def with_ends(layout: RecordLayout, raw: list[pa.Array]) -> list[pa.Array]:
    """Returns the texts of the fields with the ends of flows in the form of packets.

    Zeek calls ICMP of both versions `icmp`. nfdump writes type and code of ICMP as one destination port.

    Args:
        layout: the fields, in the order of `raw`.
        raw: the texts of each field, UTF-8.
    """
    names = [field.name for field in layout.fields]
    raw = list(raw)
    if layout.format == zeek.KIND and "protocol" in names:
        protocol, source = names.index("protocol"), names.index("srcIP")
        of_ipv6 = pc.match_substring(_text(raw[source]), ":")
        of_icmp = pc.equal(_text(raw[protocol]), "icmp")
        both = pc.and_(of_icmp, of_ipv6).fill_null(False)
        raw[protocol] = pc.if_else(both, "icmp6", _text(raw[protocol]))
    if layout.format == nfdump.KIND:
        protocol, source, target = (names.index(name) for name in ("protocol", "srcPort", "destPort"))
        written = _text(raw[protocol])
        of_icmp = pc.or_(pc.starts_with(written, "ICMP"), pc.is_in(written, pa.array(("1", "58")))).fill_null(False)
        if pc.any(of_icmp).as_py():
            port = _text(raw[target])
            parts = [_type_and_code(text) for text in pc.if_else(of_icmp, port, None).to_pylist()]
            for at, place in enumerate((source, target)):
                texts = pa.array([part[at] for part in parts], pa.string())
                raw[place] = pc.if_else(of_icmp, texts, _text(raw[place]))
    return raw


def _text(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _type_and_code(port: str | None) -> tuple[str | None, str | None]:
    """Returns type and code of a port of ICMP: `2048` and `8.0` are type 8, code 0; any other text stays a port."""
    if port is None:
        return None, None
    kind, dot, code = port.partition(".")
    if dot:
        return kind, code
    if not (port.isascii() and port.isdigit() and len(port) <= 5):
        return port, port
    return str(int(port) >> 8), str(int(port) & 0xFF)
