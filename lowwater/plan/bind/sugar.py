"""Words of SQL that are made of what there is: COALESCE and its kin become CASE, names of tshark the columns here.

Called by `expressions` for a call that is no function of the catalog, and for a column with an unknown qualifier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lowwater.catalog import expr as ex
from lowwater.catalog.value_names import PROTOCOL_NUMBERS
from lowwater.limits import IN_VALUES


@dataclass(frozen=True)
class Word:
    """A word of SQL over bound arguments of one type."""

    least: int  # the least number of arguments
    most: int  # the largest number of arguments
    meaning: str
    make: Callable[[Sequence[ex.Expr]], ex.Expr]
    numbers: bool = False  # whether the arguments are numbers


def _is_null(value: ex.Expr) -> ex.Expr:
    return ex.Unary(ex.Type.BOOL, "IS NULL", value)


def _not(condition: ex.Expr) -> ex.Expr:
    return ex.Unary(ex.Type.BOOL, "NOT", condition)


def _compared(op: str, left: ex.Expr, right: ex.Expr) -> ex.Expr:
    return ex.Binary(ex.Type.BOOL, op, left, right)


def _coalesce(values: Sequence[ex.Expr]) -> ex.Expr:
    *before, last = values
    return ex.Case(last.type, tuple((_not(_is_null(value)), value) for value in before), last)


def _nullif(values: Sequence[ex.Expr]) -> ex.Expr:
    value, other = values
    return ex.Case(value.type, ((_compared("=", value, other), ex.Const(value.type, None)),), value)


def _abs(values: Sequence[ex.Expr]) -> ex.Expr:
    (value,) = values
    below = _compared("<", value, ex.Const(value.type, 0.0 if value.type is ex.Type.FLOAT else 0))
    return ex.Case(value.type, ((below, ex.Unary(value.type, "-", value)),), value)


def _mod(values: Sequence[ex.Expr]) -> ex.Expr:
    return ex.Binary(ex.Type.INT, "%", *values)


def _extreme(op: str) -> Callable[[Sequence[ex.Expr]], ex.Expr]:
    """Chooses the value that compares so with all others which are not NULL."""

    def make(values: Sequence[ex.Expr]) -> ex.Expr:
        branches = []
        for at, value in enumerate(values[:-1]):
            others = [other for number, other in enumerate(values) if number != at]
            least = [ex.joined("OR", [_is_null(other), _compared(op, value, other)]) for other in others]
            branches.append((ex.joined("AND", [_not(_is_null(value)), *least]), value))
        return ex.Case(values[-1].type, tuple(branches), values[-1])

    return make


def _distinct(values: Sequence[ex.Expr]) -> ex.Expr:
    left, right = values
    either = ex.joined("OR", [_is_null(left), _is_null(right)])
    both = ex.joined("AND", [_is_null(left), _is_null(right)])
    return ex.Case(ex.Type.BOOL, ((either, _not(both)),), _compared("<>", left, right))


WORDS: dict[str, Word] = {
    **dict.fromkeys(
        ("coalesce", "ifnull", "nvl"), Word(2, IN_VALUES, "the first argument that is not NULL", _coalesce)
    ),
    "nullif": Word(2, 2, "NULL where both are equal, else the first", _nullif),
    "abs": Word(1, 1, "the number without its sign", _abs, numbers=True),
    "mod": Word(2, 2, "the remainder of the division, as %", _mod, numbers=True),
    "greatest": Word(2, 16, "the largest argument that is not NULL", _extreme(">=")),
    "least": Word(2, 16, "the smallest argument that is not NULL", _extreme("<=")),
    "is_distinct_from": Word(2, 2, "whether two values differ, where NULL equals NULL", _distinct),
}
"""Word in lower case -> what it is made of."""


def protocol_number(value: ex.Expr, other: ex.Expr) -> ex.Expr:
    """Returns the number of a protocol whose name is compared with the column `protocol`; any other value unchanged."""
    name = value.value if isinstance(value, ex.Const) else None
    if not isinstance(name, str) or not is_protocol(other) or (number := PROTOCOL_NUMBERS.get(name.lower())) is None:
        return value
    return ex.Const(ex.Type.INT, number)


def is_protocol(expr: ex.Expr) -> bool:
    """Whether an expression is the number of the protocol above IP."""
    return isinstance(expr, ex.Column) and expr.type is ex.Type.INT and expr.name.rpartition(".")[2] == "protocol"


TSHARK = {
    "frame.len": "len", "frame.cap_len": "caplen", "eth.src": "srcMAC", "eth.dst": "destMAC", "ip.src": "srcIP",
    "ip.dst": "destIP", "ipv6.src": "srcIP", "ipv6.dst": "destIP", "ip.proto": "protocol", "ip.ttl": "ttl",
    "ip.version": "ipversion", "tcp.srcport": "srcPort", "tcp.dstport": "destPort", "udp.srcport": "srcPort",
    "udp.dstport": "destPort", "tcp.flags.syn": "SYN", "tcp.flags.ack": "ACK", "tcp.flags.fin": "FIN",
    "tcp.flags.reset": "RST", "tcp.flags.push": "PSH", "tcp.seq_raw": "sequence_number", "tcp.ack_raw": "ack_number",
    "tcp.flags.urg": "URG", "tcp.len": "payload_length", "tcp.window_size_value": "window", "ip.len": "total_length",
    "ip.id": "id", "ip.dsfield": "tos", "ipv6.hlim": "ttl", "ipv6.tclass": "tos", "sctp.srcport": "srcPort",
    "sctp.dstport": "destPort", "icmp.type": "icmp_type", "icmp.code": "icmp_code", "icmpv6.type": "icmp_type",
    "icmpv6.code": "icmp_code", "vlan.id": "vlan_id", "eth.type": "ether_type", "arp.opcode": "arp_op",
    "dns.id": "dns_id", "dns.qry.name": "dns_query", "dns.qry.type": "dns_type", "dns.flags.response": "dns_response",
    "dns.flags.rcode": "dns_rcode", "http.host": "http_host", "http.request.method": "http_method",
    "http.request.uri": "http_uri", "http.user_agent": "http_user_agent", "http.response.code": "http_status",
    "tls.handshake.extensions_server_name": "tls_server_name", "tls.handshake.ja3": "tls_ja3",
}  # fmt: skip
"""Name of a field in tshark -> the column that has it."""

_EITHER = "a packet has two: {0} is the one of its sender, {1} the other; write {0} = x OR {1} = x"
_ANALYSIS = "tcp_analysis(...) OVER has its bits (docs/conversations.md); `lowwater ask repeated` counts segments"
TSHARK_HINTS = {
    **dict.fromkeys(("ip.addr", "ipv6.addr", "ip.host"), _EITHER.format("srcIP", "destIP")),
    **dict.fromkeys(("tcp.port", "udp.port", "sctp.port"), _EITHER.format("srcPort", "destPort")),
    "eth.addr": _EITHER.format("srcMAC", "destMAC"),
    **dict.fromkeys(("frame.time", "frame.time_epoch"), "write timestamp, or CAST(timestamp AS TIMESTAMP)"),
    "frame.number": "`lowwater sql` has position, the number of the record in its file, from 0",
    "tcp.stream": "tcp_began(...) OVER tells connections apart; `lowwater ask conversations` has a row for each",
    "tcp.analysis": _ANALYSIS,
    **dict.fromkeys(("tcp.window_size", "tcp.seq", "tcp.ack"), "write window, sequence_number or ack_number: as sent"),
    **dict.fromkeys(("udp.length", "ipv6.plen"), "write payload_length, without the header, or ip_length, with all"),
}
"""Name of a field in tshark, or how it begins, that no column has -> what to write."""


def of_tshark(name: str) -> str:
    """Hint for a field of tshark that no column has; empty for any other name."""
    known = (field for field in TSHARK_HINTS if name.lower() == field or name.lower().startswith(f"{field}."))
    return next((TSHARK_HINTS[field] for field in known), "")
