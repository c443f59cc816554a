"""Ready protocol of nfdump: the flows that `nfdump -o csv` writes.

Until version 1.7.4 the header has short names, from 1.7.5 on long ones, which also stand in `-o csv-fast` and in
formats of users (`-o 'csv:%ts,...'`). A field that a file lacks is NULL.
"""

from __future__ import annotations

from lowwater.catalog.logs.fields import CLOCK, LogField, log_protocol
from lowwater.catalog.protocols import Protocol
from lowwater.catalog.records import INSTANT, PROTOCOL_NAME
from lowwater.catalog.types import Type

KIND = "nfdump"
_INT, _FLOAT, _STRING, _IP = Type.INT, Type.FLOAT, Type.STRING, Type.IP


def _named(kind: Type, names: dict[str, str], form: str = "") -> tuple[LogField, ...]:
    """Returns fields with the short names of their columns; the others are long names, with blanks between them."""
    return tuple(LogField(name, kind, name, form, tuple(others.split())) for name, others in names.items())


_FLOW = (
    LogField(CLOCK, _INT, "ts", INSTANT, ("firstSeen",)),
    *_named(_INT, {"te": "lastSeen"}, INSTANT),
    *_named(_FLOAT, {"td": "duration"}),
    LogField("srcIP", _IP, "sa", others=("srcAddr",)),
    LogField("srcPort", _INT, "sp", others=("srcPort",)),
    LogField("destIP", _IP, "da", others=("dstAddr",)),
    LogField("destPort", _INT, "dp", others=("dstPort",)),
    LogField("protocol", _INT, "pr", PROTOCOL_NAME, ("proto",)),
    *_named(_STRING, {"pr": "proto", "flg": "flags"}),
    *_named(_INT, {"fwd": "fwdStatus", "stos": "srcTos tos", "ipkt": "packets inPackets", "ibyt": "bytes inBytes"}),
    *_named(_INT, {"opkt": "outPackets", "obyt": "outBytes", "fl": "flows"}),
    LogField("input", _INT, "in", others=("input",)),
    LogField("output", _INT, "out", others=("output",)),
    *_named(_INT, {"sas": "srcAS", "das": "dstAS", "smk": "srcMask", "dmk": "dstMask", "dtos": "dstTos"}),
    *_named(_STRING, {"dir": "direction"}),
    *_named(_IP, {"nh": "nextIP", "nhb": "bgpNextIP"}),
    *_named(_INT, {"svln": "srcVlan", "dvln": "dstVlan"}),
    *_named(_STRING, {"ismc": "inSrcMac", "odmc": "outDstMac", "idmc": "inDstMac", "osmc": "outSrcMac"}),
    *_named(_STRING, {f"mpls{number}": f"mplsLabel{number}" for number in range(1, 11)}),
    *_named(_FLOAT, {"cl": "clientLatency", "sl": "serverLatency", "al": "appLatency"}),
    *_named(_IP, {"ra": "routerIP"}),
    *_named(_STRING, {"eng": "engine"}),
    *_named(_INT, {"exid": "exporterID"}),
    *_named(_INT, {"tr": "received"}, INSTANT),
)
_ALIASES = {
    "sa": "srcIP",
    "sp": "srcPort",
    "da": "destIP",
    "dp": "destPort",
    "packets": "ipkt",
    "bytes": "ibyt",
    "flows": "fl",
    "duration": "td",
    "lastSeen": "te",
}

PROTOCOLS: tuple[Protocol, ...] = (log_protocol("NFDUMP", KIND, "flow", _FLOW, _ALIASES),)
