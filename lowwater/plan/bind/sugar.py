"""Words of SQL that are made of what there is: COALESCE and its kin become CASE, names of tshark the columns here.

Called by `expressions` for a call that is no function of the catalog, and for a column with an unknown qualifier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lowwater.catalog import expr as ex
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

PROTOCOLS = {
    "icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ah": 51, "icmpv6": 58, "ospf": 89, "sctp": 132,
    "udplite": 136,
}  # fmt: skip
"""Name of a protocol above IP, in lower case -> its number in the column `protocol`."""


def protocol_number(value: ex.Expr, other: ex.Expr) -> ex.Expr:
    """Returns the number of a protocol whose name is compared with the column `protocol`; any other value unchanged."""
    name = value.value if isinstance(value, ex.Const) else None
    if not isinstance(name, str) or not is_protocol(other) or (number := PROTOCOLS.get(name.lower())) is None:
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
}  # fmt: skip
"""Name of a field in tshark -> the column that has it."""
