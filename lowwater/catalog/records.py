"""Records that are no packets: how a PROTOCOL block reads a field, and the stored columns of its fields.

A stored column is named `<type>:<field>`. So every layer knows its type, and no field has the name of a packet column.
An IP address has three columns, as in `packets`: version, upper and lower word. The column of an internal timestamp
(T8) names its unit, and is computed from the arrival when records are read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import pyarrow as pa

from lowwater.catalog.values import Type

SECONDS, ISO, INSTANT = "seconds", "iso", "instant"
"""Forms of a time beside integers: decimal seconds, ISO 8601, and either of them as a log has it."""

TIMES = (SECONDS, ISO, INSTANT)
PROTOCOL_NAME, LIST = "protocol", "list"
"""Forms of other values: the name of an IP protocol as its number, and a set or vector as text."""

_ARROW = {
    Type.BOOL: pa.bool_(),
    Type.INT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.STRING: pa.string(),
}
_WORDS = {"ip.version": pa.int32(), "ip.high": pa.int64(), "ip.low": pa.int64()}
_KINDS = {**{str(kind): arrow for kind, arrow in _ARROW.items()}, **_WORDS}


@dataclass(frozen=True)
class RecordField:
    """How a field of a record is read."""

    name: str
    type: Type
    position: int | None = None  # number of its column in the file, from 1; None for a column by name
    path: tuple[str, ...] = ()  # name of its column in the file, then of the fields inside of that column
    form: str = ""  # one of TIMES for the text of a time, PROTOCOL_NAME or LIST; empty for a plain value
    unit: int = 1_000_000_000  # length of one unit of a time, ns
    others: tuple[tuple[str, ...], ...] = ()  # further paths of the value, where `path` leads to none

    @property
    def stored(self) -> str:
        return column_name(self.type, self.name)


@dataclass(frozen=True)
class RecordLayout:
    """How the records of a protocol are read; picklable."""

    protocol: str
    fields: tuple[RecordField, ...]
    clock: str = ""  # stored column of the clock; empty if no field of the record is the clock
    unit: int = 1_000_000_000  # length of one unit of the clock, ns
    # temporal fields other than the clock, and by how much each may run behind, in its unit
    bands: tuple[tuple[str, int], ...] = ()
    refused: str = ""  # why links of the protocol cannot be read; empty if they can
    format: str = ""  # tool whose log it is; empty for a protocol that a PROTOCOL block declares
    member: str = ""  # type of its records among those of the tool

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([record_field(name) for field in self.fields for name in stored_parts(field.stored)])

    def __str__(self) -> str:
        """The layout as text, as the ledger stores it."""
        fields = [{**asdict(field), "type": str(field.type)} for field in self.fields]
        log = {"format": self.format, "member": self.member} if self.format else {}
        for field in fields if not log else ():
            del field["others"]  # no PROTOCOL block declares them, and digests of 0.1 do not have them
        return json.dumps({"protocol": self.protocol, "fields": fields, "clock": self.clock, "unit": self.unit, **log})


def column_name(kind: Type, name: str) -> str:
    """Names the column of expressions over a field.

    Example:
        >>> column_name(Type.INT, "bytes")
        'int:bytes'
    """
    return f"{kind}:{name}"


def arrival_column(name: str, unit: int) -> str:
    """Names the column of an internal timestamp: the arrival of the record, in units of so many ns.

    Example:
        >>> arrival_column("systemTime", 1_000_000_000)
        'arrival.1000000000:systemTime'
    """
    return f"arrival.{unit}:{name}"


def arrival_unit(column: str) -> int:
    """Returns the unit (ns) of the column of an internal timestamp; 0 for any other column."""
    kind = column.partition(":")[0]
    return int(kind.removeprefix("arrival.")) if kind.startswith("arrival.") else 0


def field_name(column: str) -> str:
    """Returns the name that users know for a column of expressions; columns of packets are unchanged.

    Example:
        >>> field_name("int:bytes"), field_name("timestamp")
        ('bytes', 'timestamp')
    """
    return column.partition(":")[2] or column


def is_record_column(column: str) -> bool:
    """Whether a column is of a record that is no packet."""
    return ":" in column


def stored_parts(column: str) -> tuple[str, ...]:
    """Returns the stored columns of a column of expressions over records.

    Example:
        >>> stored_parts("ip:src")
        ('ip.version:src', 'ip.high:src', 'ip.low:src')
    """
    kind, _, name = column.partition(":")
    return tuple(f"{word}:{name}" for word in _WORDS) if kind == Type.IP else (column,)


def record_field(column: str) -> pa.Field:
    """Returns the name and type of a column of records."""
    if arrival_unit(column):
        return pa.field(column, pa.int64(), nullable=False)
    return pa.field(column, _KINDS[column.partition(":")[0]])
