"""Names of a statement other than columns; and declared protocols: PROTOCOL blocks become protocols of the catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lowwater.catalog.expr import Column, Const, Expr, Type
from lowwater.catalog.protocols import BUILTIN, INTERFACE, LINK, PROTOCOLS, READY, SECOND, Attribute, Protocol
from lowwater.catalog.records import ISO, SECONDS, RecordField, RecordLayout, arrival_column, column_name, field_name
from lowwater.catalog.values import pack_ip
from lowwater.errors import QueryError, full, raise_all
from lowwater.gsql import nodes as syntax
from lowwater.plan.context import Context, Value
from lowwater.plan.text import Text

# Declared protocols. A field of a record names a position (`get_csv_uint_pos1`), or a column of the file
# (`get_csv_uint`). A field of a packet names a built-in column (`get_srcIP`). (Tigon SQL user manual, sections 4 and 5;
# features of GSQL, 6.)

GSQL_TYPES: dict[str, Type] = {
    "bool": Type.BOOL,
    **dict.fromkeys(("ushort", "uint", "int", "ullong", "llong"), Type.INT),
    "float": Type.FLOAT,
    "string": Type.STRING,
    "v_str": Type.STRING,
    "ip": Type.IP,
    "ipv6": Type.IP,
}
"""GSQL type in lower case -> type of the catalog. `timeval` has no counterpart."""

UNITS = {"s": SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}
TIMES = {"float_to_timestamp": SECONDS, "iso_to_timestamp": ISO}
"""What an access function of records reads besides the GSQL types -> the form of a time."""

ATTRIBUTES = ("increasing", "decreasing", "banded", "unit", "clock", "external", "internal", "latent", "name", "path")
IGNORED = ("required", "snap_len", "low_cardinality", "high_cardinality", "expensive", "key", "subtype")
HEADERS = ("eth", "ip", "ipv4", "ipv6", "tcp", "udp", "sctp", "icmp")
"""Prefixes of a column name in an access function of packets, such as `tcp` in `get_tcp_ack_number`."""
RECORD_ACCESS = re.compile(r"get_(?:csv|gdat)_([a-z0-9_]+?)(?:_pos([0-9]{1,4}))?")

ARRIVAL, SCHEMA = "get_system_time", "get_schemaId"
"""Access functions of records that read nothing of the record."""

Declared = tuple[syntax.ProtocolDecl, str, str]
"""A PROTOCOL block, the name of its file and the text of the file."""


def type_of(written: str) -> Type | None:
    """Returns the catalog type of a GSQL type name in any case; None if the name is unknown.

    Example:
        >>> type_of("UINT")
        <Type.INT: 'int'>
    """
    return GSQL_TYPES.get(written.lower())


def declare(blocks: Iterable[Declared], builtin: Mapping[str, Protocol] = BUILTIN) -> dict[str, Protocol]:
    """Adds the declared protocols to the built-in ones; a declared protocol replaces a built-in one of its name. It
    lists its own fields first, then those of its parents in alphabetical order of these. Its own field hides an
    inherited one.
    Raises QueryError for an unknown parent, type or attribute, a cycle of parents, or a duplicate field."""
    named: dict[str, Declared] = {}
    errors: list[QueryError] = []
    for block in blocks:
        if block[0].name in named:
            errors.append(_error(block, block[0].place, f"two protocols are called {block[0].name}"))
        named[block[0].name] = block
    protocols = dict(builtin)
    for name in named:
        try:
            base = _packet_base(name, named, builtin, ())
            protocols[name] = _protocol(named[name], _fields(name, named, builtin, ()), base)
        except QueryError as error:
            errors.append(error)
            if full(errors):
                break
    raise_all(errors)
    return protocols


def _error(block: Declared, place: syntax.Place, message: str, hint: str = "") -> QueryError:
    return QueryError(message, hint, block[1], place.line, place.column, block[2])


def _fields(
    name: str, named: Mapping[str, Declared], builtin: Mapping[str, Protocol], below: tuple[str, ...]
) -> dict[str, syntax.FieldDecl]:
    block = named[name]
    declaration = block[0]
    if name in below:
        raise _error(block, declaration.place, f"protocol {name} is its own parent: {' -> '.join([*below, name])}")
    fields: dict[str, syntax.FieldDecl] = {}
    for column in declaration.columns:
        if column.name in fields:
            raise _error(block, column.place, f"protocol {name} has two fields called {column.name}")
        fields[column.name] = column
    for parent in sorted(declaration.parents):
        # A block with the name of a built-in protocol may extend that protocol.
        if parent in named and not (parent == name and parent in builtin):
            inherited = _fields(parent, named, builtin, (*below, name))
        elif parent in READY and builtin.get(parent) is READY[parent]:
            message = f"protocol {name} has the parent {parent}, which is the log of a tool and has no children"
            raise _error(block, declaration.place, message)
        elif parent in builtin:
            inherited = {column: syntax.FieldDecl("", column, f"get_{column}") for column in builtin[parent].columns}
        else:
            raise _error(block, declaration.place, f"protocol {name} has an unknown parent {parent}")
        fields = {**fields, **{column: field for column, field in inherited.items() if column not in fields}}
    return fields


def _packet_base(
    name: str, named: Mapping[str, Declared], builtin: Mapping[str, Protocol], below: tuple[str, ...]
) -> Protocol | None:
    """Finds the built-in packet protocol that a declared protocol extends, directly or through parents. Returns the
    built-in protocol; None if the records are not packets."""
    for parent in sorted(named[name][0].parents):
        if parent in builtin and (parent == name or parent not in named):
            return builtin[parent]
        if parent in named and parent not in below:
            base = _packet_base(parent, named, builtin, (*below, name))
            if base is not None:
                return base
    return None


def _protocol(block: Declared, fields: Mapping[str, syntax.FieldDecl], base: Protocol | None) -> Protocol:
    name = block[0].name
    columns: dict[str, Column] = {}
    stored: dict[str, Type] = {}
    attributes: list[Attribute] = []
    packet = {column: expr for column, field in fields.items() if (expr := _of_packet(field)) is not None}
    if packet or base is not None:
        _check_packet(block, fields, packet)
        base = base or PROTOCOLS["ETH"]
        # `*` shows a hidden column that the block declares. Only an inherited field has no type.
        hidden = frozenset(column for column in base.hidden if column in fields and not fields[column].type)
        if LINK not in packet:
            packet, hidden = {**packet, LINK: PROTOCOLS["ETH"].columns[LINK]}, hidden | {LINK}
        return replace(base, name=name, columns=packet, hidden=hidden)
    inside = {column: field for column, field in fields.items() if field.access != SCHEMA}
    for column, declared in inside.items():
        kind = _type(block, declared)
        columns[column] = Column(kind, _stored_name(declared, kind))
        stored[columns[column].name] = kind
        attributes += _temporal(block, declared)
    clocks = [field_name(attribute.name) for attribute in attributes if attribute.clock]
    if len(clocks) > 1:
        raise _error(block, fields[clocks[1]].place, f"protocol {name} has two clocks: {' and '.join(clocks)}")
    kinds = {_kind(block, field) for field in fields.values()}
    timed = _with_clock(attributes)
    schema = Const(Type.INT, block[0].schema)
    link = {column: Column(Type.STRING, INTERFACE) for column in (LINK, INTERFACE) if column not in fields}
    return Protocol(
        name,
        None,
        {**{column: columns.get(column, schema) for column in fields}, **link},
        {**stored, INTERFACE: Type.STRING},
        timed,
        kind=kinds.pop() if len(kinds) == 1 else "other",
        access={columns[column].name: field.access for column, field in inside.items()},
        declared={columns[column].name: field.type.lower() for column, field in inside.items()},
        hidden=frozenset(link),
        layout=_layout(name, columns, inside, timed),
    )


def _layout(
    name: str, columns: Mapping[str, Column], fields: Mapping[str, syntax.FieldDecl], attributes: tuple[Attribute, ...]
) -> RecordLayout:
    """Says how the records of a protocol are read, or why not."""
    inside = {column: field for column, field in fields.items() if not _is_arrival(field)}
    layout = RecordLayout(name, tuple(_record_field(field, columns[column]) for column, field in inside.items()))
    clock = next((attribute for attribute in attributes if attribute.clock), None)
    if clock is None or clock.stamp != "external":
        return replace(layout, refused="no field of the record is its clock")
    if clock.decreasing:
        return replace(layout, refused=f"its clock {field_name(clock.name)} is decreasing")
    if clock.unit is None:
        return replace(layout, refused=f"its clock {field_name(clock.name)} has no unit")
    bands = tuple((field_name(a.name), a.skew) for a in attributes if not a.clock)
    return replace(layout, clock=clock.name, unit=clock.unit, bands=bands)


def _is_arrival(field: syntax.FieldDecl) -> bool:
    """Whether a field of a record is its arrival, an internal or a latent timestamp (T8)."""
    return field.access == ARRIVAL or not {"internal", "latent"}.isdisjoint(_words(field))


def _stored_name(field: syntax.FieldDecl, kind: Type) -> str:
    return arrival_column(field.name, _unit(field)) if _is_arrival(field) else column_name(kind, field.name)


def _record_field(field: syntax.FieldDecl, column: Column) -> RecordField:
    match = RECORD_ACCESS.fullmatch(field.access)
    if match is None:
        return RecordField(field.name, column.type)
    words = _words(field)
    form, unit = TIMES.get(match[1], ""), _unit(field)
    if match[2]:
        return RecordField(field.name, column.type, int(match[2]), (), form, unit)
    path = tuple(words["path"].split(".")) if "path" in words else (words.get("name") or field.name,)
    return RecordField(field.name, column.type, None, path, form, unit)


def _words(field: syntax.FieldDecl) -> dict[str, str]:
    return {word.lower(): value for word, value in field.attributes}


def _unit(field: syntax.FieldDecl) -> int:
    """Returns the length of one step of a time, ns; a second where the field does not say it."""
    return UNITS.get(_words(field).get("unit") or _unit_by_name(field.name), SECOND)


def _type(block: Declared, field: syntax.FieldDecl) -> Type:
    kind = type_of(field.type)
    if kind is None:
        hint = f"write one of {', '.join(GSQL_TYPES)}"
        raise _error(block, field.place, f"{field.name} has the type {field.type}, which is none of ours", hint)
    return kind


def _check_packet(block: Declared, fields: Mapping[str, syntax.FieldDecl], packet: Mapping[str, Expr]) -> None:
    """Checks that every field of a packet protocol reads a built-in column, with its type and its progress."""
    for column, declared in fields.items():
        if column not in packet:
            hint = "name a column of packets, such as get_ttl: packets and text records cannot be mixed in one protocol"
            raise _error(block, declared.place, f"{declared.access} of {column} reads no column of packets", hint)
        if not declared.type:
            continue
        kind = _type(block, declared)
        if kind is not packet[column].type:
            raise _error(block, declared.place, f"{column} is of type {packet[column].type}, not {declared.type}")
        if not {"banded", "decreasing", "unit", "clock"}.isdisjoint(_words(declared)):
            message = f"the time of packets is our own: {column} takes no attribute but increasing"
            raise _error(block, declared.place, message)
        _check_words(block, declared)


def _kind(block: Declared, field: syntax.FieldDecl) -> str:
    """Returns the kind of records that hold a field: `csv` for text records, `other` for any other source."""
    if (_is_arrival(field) or "_to_timestamp" in field.access) and type_of(field.type) is not Type.INT:
        message = f"{field.name} is of type {field.type}, and {field.access} reads a time"
        raise _error(block, field.place, message, f"write llong {field.name} {field.access}")
    if field.access in (ARRIVAL, SCHEMA):
        return "csv"
    if not field.access.startswith(("get_csv_", "get_gdat_")):
        return "other"
    match = RECORD_ACCESS.fullmatch(field.access)
    if match is None or (match[1] not in GSQL_TYPES and match[1] not in TIMES) or not 1 <= int(match[2] or 1) <= 1000:
        hint = "write get_csv_<type>_pos<1 to 1000>, such as get_csv_uint_pos1"
        raise _error(block, field.place, f"{field.access} reads no position of a record", hint)
    read = GSQL_TYPES.get(match[1])
    if read is not None and type_of(field.type) not in (None, read):
        message = f"{field.name} is of type {field.type}, and {field.access} reads {match[1]}"
        raise _error(block, field.place, message, f"write {match[1]} {field.name} {field.access}")
    return "csv" if field.access.startswith("get_csv_") else "other"


def _of_packet(field: syntax.FieldDecl) -> Expr | None:
    """Resolves an access function of packets, such as `get_srcIP`, to a built-in column; None if it names none."""
    columns = PROTOCOLS["ETH"].columns
    if not field.access.startswith("get_"):
        return None
    name = field.access.removeprefix("get_")
    header, _, rest = name.partition("_")
    return columns.get(name) or (columns.get(rest) if header in HEADERS else None)


def _temporal(block: Declared, field: syntax.FieldDecl) -> list[Attribute]:
    words = _check_words(block, field)
    if not {"increasing", "decreasing"} & words.keys():
        return []
    if type_of(field.type) is not Type.INT:
        raise _error(block, field.place, f"{field.name} is temporal and of type {field.type}: it must be an integer")
    unit = words.get("unit") or _unit_by_name(field.name)
    if unit and unit not in UNITS:
        hint = f"write one of {', '.join(UNITS)}"
        raise _error(block, field.place, f"the unit {unit} of {field.name} is unknown", hint)
    stamp = next((word for word in ("internal", "latent") if word in words), "external")
    stamp = "internal" if field.access == ARRIVAL else stamp
    skew = words.get("banded", "")
    if "banded" in words and not skew.isdigit():
        message = f"banded needs a number: how far {field.name} may run behind"
        raise _error(block, field.place, message, "write banded 5, or another number")
    name, ns = _stored_name(field, Type.INT), UNITS[unit] if unit else None
    return [Attribute(name, "decreasing" in words, ns, "clock" in words, int(skew or 0), stamp)]


def _check_words(block: Declared, field: syntax.FieldDecl) -> dict[str, str]:
    words = _words(field)
    unknown = [word for word in words if word not in (*ATTRIBUTES, *IGNORED)]
    if unknown:
        hint = f"write one of {', '.join(ATTRIBUTES)}; taken and ignored: {', '.join(IGNORED)}"
        raise _error(block, field.place, f"{field.name} has the attribute {unknown[0]}, which means nothing", hint)
    return words


def _unit_by_name(name: str) -> str:
    if name in ("time", "ts", "systemTime"):
        return "s"
    return next((unit for unit in ("ms", "us", "ns") if name.endswith(f"_{unit}")), "")


def _with_clock(attributes: list[Attribute]) -> tuple[Attribute, ...]:
    """Marks exactly one attribute as the clock: the one declared as `clock`, else the first stored in the record, else
    the first."""
    declared, inside = ([a for a in attributes if a.clock], [a for a in attributes if a.stamp == "external"])
    chosen = next(iter([*declared, *inside, *attributes]), None)
    return tuple(replace(attribute, clock=attribute is chosen) for attribute in attributes)


# Names other than columns

UNSIGNED = ("ushort", "uint", "ullong")


@dataclass(frozen=True)
class Names:
    """Names that one statement may use besides columns."""

    context: Context = field(default_factory=Context)
    # parameter -> (type, value); the value is None if the user gave none
    params: Mapping[str, tuple[Type, Value | None]] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)  # option of DEFINE -> value as written
    links: tuple[str, ...] = ()  # the links that the statement reads, for `@property`
    assumed: tuple[str, ...] = ()  # range variables of sources that count as links, since nothing else has their name
    notes: dict[tuple[int, int], str] = field(default_factory=dict)  # (line, column) -> remark; binding adds to it

    @staticmethod
    def of(statement: syntax.Statement, context: Context, text: Text) -> Names:
        """Reads the PARAM and DEFINE blocks of a statement.
        Raises QueryError if a type is unknown, or a value does not have the declared type."""
        declared: tuple[syntax.ParamDecl, ...] = getattr(statement, "params", ())
        defines: tuple[tuple[str, str], ...] = getattr(statement, "defines", ())
        return Names(context, {p.name: _param(p, context.params.get(p.name), text) for p in declared}, dict(defines))


def _param(declared: syntax.ParamDecl, argument: Value | None, text: Text) -> tuple[Type, Value | None]:
    kind = type_of(declared.type)
    if kind is None:
        raise text.error(declared.place, f"${declared.name} has the type {declared.type}, which is none of ours")
    value = argument if argument is not None or declared.default is None else declared.default.value
    if value is None:
        return kind, None
    try:
        converted = _value(kind, value)
        if isinstance(converted, int) and converted < 0 and declared.type.lower() in UNSIGNED:
            raise ValueError(value)
        return kind, converted
    except ValueError:
        message = f"${declared.name} is {value!r}, which is no {declared.type}"
        raise text.error(declared.place, message, f"give --param {declared.name}=VALUE") from None


def _value(kind: Type, value: Value) -> Value:
    if kind is Type.BOOL:
        words: dict[str, bool] = {"true": True, "false": False}
        if str(value).lower() not in words:
            raise ValueError(value)
        return words[str(value).lower()]
    if kind is Type.INT:
        number = int(str(value))
        if abs(number) >= 1 << 63:
            raise ValueError(value)
        return number
    if kind is Type.IP:
        pack_ip(str(value))
    return float(value) if kind is Type.FLOAT else str(value)
