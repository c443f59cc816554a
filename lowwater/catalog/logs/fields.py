"""Builds a ready protocol from the list of its fields.

Below the modules of the tools. The clock and the columns that identify a flow have the names that they have in packets,
so the same expression joins a log with packets.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.catalog.expr import Binary, Column, Const, Expr
from lowwater.catalog.protocols import INTERFACE, LINK, SECOND, Attribute, Protocol
from lowwater.catalog.records import INSTANT, RecordField, RecordLayout, column_name
from lowwater.catalog.types import Type

CLOCK = "timestamp"
"""Field of the clock, ns."""

_PARTS = {"time": SECOND, "ts": SECOND, "timestamp_ms": 1_000_000, "timestamp_us": 1_000}


@dataclass(frozen=True)
class LogField:
    """A field of a ready protocol.

    Attributes:
        name: its name in queries.
        type: its type.
        member: its name in the log; dots lead into objects of JSON.
        form: form of its text, as in `catalog.records`; empty for a plain value.
        others: further names of the member, in older or newer versions of the tool.
    """

    name: str
    type: Type
    member: str
    form: str = ""
    others: tuple[str, ...] = ()


def plain(kind: Type, *members: str, form: str = "") -> tuple[LogField, ...]:
    """Returns fields with the names of their members, dots written as underscores."""
    return tuple(LogField(member.replace(".", "_"), kind, member, form) for member in members)


def log_protocol(
    name: str, tool: str, member: str, fields: tuple[LogField, ...], aliases: dict[str, str], nested: bool = False
) -> Protocol:
    """Builds a ready protocol.

    Args:
        name: name of the protocol.
        tool: kind of its links.
        member: type of the records among those of the tool; other types are left out.
        fields: its fields; one is CLOCK.
        aliases: further name of a field -> the field.
        nested: whether dots of a member lead into objects; otherwise slashes do, and dots belong to the name.
    """

    def path(member: str) -> tuple[str, ...]:
        return tuple(member.split("." if nested else "/"))

    records = tuple(
        RecordField(
            field.name,
            field.type,
            path=path(field.member),
            form=field.form,
            unit=1 if field.form == INSTANT else SECOND,
            others=tuple(path(other) for other in field.others),
        )
        for field in fields
    )
    clock = column_name(Type.INT, CLOCK)
    columns: dict[str, Expr] = {}
    for record in records:
        columns[record.name] = Column(record.type, record.stored)
        if record.name == CLOCK:
            for part, unit in _PARTS.items():
                columns[part] = Binary(Type.INT, "/", columns[CLOCK], Const(Type.INT, unit))
    columns |= {alias: columns[field] for alias, field in aliases.items()}
    columns |= {column: Column(Type.STRING, INTERFACE) for column in (LINK, INTERFACE)}
    hidden = {"ts", "timestamp_ms", "timestamp_us", LINK, INTERFACE} | aliases.keys()
    return Protocol(
        name,
        None,
        columns,
        {**{record.stored: record.type for record in records}, INTERFACE: Type.STRING},
        (Attribute(clock),),
        kind=tool,
        access={record.stored: f"get_{tool}" for record in records},
        declared={record.stored: str(record.type) for record in records},
        hidden=frozenset(hidden),
        layout=RecordLayout(name, records, clock, 1, format=tool, member=member),
    )
