"""Ready protocol of nfdump: the flows that `nfdump -o csv` writes, by the header lines of versions 1.6 and 1.7."""

from __future__ import annotations

from lowwater.catalog.logs.fields import CLOCK, LogField, log_protocol, plain
from lowwater.catalog.protocols import Protocol
from lowwater.catalog.records import INSTANT, PROTOCOL_NAME
from lowwater.catalog.types import Type

KIND = "nfdump"
_INT, _STRING = Type.INT, Type.STRING

_FLOW = (
    LogField(CLOCK, _INT, "ts", INSTANT, ("firstSeen",)),
    LogField("te", _INT, "te", INSTANT, ("lastSeen",)),
    LogField("td", Type.FLOAT, "td", others=("duration",)),
    LogField("srcIP", Type.IP, "sa", others=("srcAddr",)),
    LogField("srcPort", _INT, "sp", others=("srcPort",)),
    LogField("destIP", Type.IP, "da", others=("dstAddr",)),
    LogField("destPort", _INT, "dp", others=("dstPort",)),
    LogField("protocol", _INT, "pr", PROTOCOL_NAME, ("proto",)),
    LogField("pr", _STRING, "pr", others=("proto",)),
    *plain(_STRING, "flg"),
    *plain(_INT, "fwd", "stos"),
    LogField("ipkt", _INT, "ipkt", others=("packets",)),
    LogField("ibyt", _INT, "ibyt", others=("bytes",)),
    *plain(_INT, "opkt", "obyt"),
    LogField("input", _INT, "in"),
    LogField("output", _INT, "out"),
    *plain(_INT, "sas", "das", "smk", "dmk", "dtos", "dir"),
    *plain(Type.IP, "nh", "nhb"),
    *plain(_INT, "svln", "dvln"),
    *plain(_STRING, "ismc", "odmc", "idmc", "osmc"),
    *plain(Type.IP, "ra"),
    *plain(_STRING, "eng"),
    *plain(_INT, "exid"),
    LogField("tr", _INT, "tr", INSTANT),
)
_ALIASES = {
    "sa": "srcIP",
    "sp": "srcPort",
    "da": "destIP",
    "dp": "destPort",
    "packets": "ipkt",
    "bytes": "ibyt",
    "duration": "td",
}

PROTOCOLS: tuple[Protocol, ...] = (log_protocol("NFDUMP", KIND, "flow", _FLOW, _ALIASES),)
