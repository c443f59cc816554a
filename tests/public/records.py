"""Random records of a PROTOCOL block: every type, its temporal attributes, disorder as far as they allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from lowwater.catalog.expr import Const
from lowwater.catalog.protocols import Attribute, Protocol
from lowwater.catalog.records import RecordField, field_name
from lowwater.catalog.values import Type

SECOND = 1_000_000_000
BEGIN = 1_767_225_600 * SECOND
END = BEGIN + 600 * SECOND
"""Of the last record of every link. Idle epochs end with the last link of a query, so beside a link that ends later a
query has other rows for its readers than alone."""

SKEW = 2 * SECOND
"""Of every link; timestamps are at most this late."""

Record = dict[str, Any]
_POOLS: Mapping[str, Sequence[Any]] = {
    "bool": (True, False),
    "uint": (0, 0, 1, 2, 3, 7, 60, 127),
    "int": (-1, 0, 0, 1, 2, 3, 5),
    "float": (0.25, 0.5, 1.0, 2.75, 3.0, 1000.5),
    "string": ("ABC", "DEF", "abc", "a b", "x,y", "foo"),
    "ip": ("10.0.0.1", "10.0.0.2", "192.168.7.9", "9.255.0.1"),
    "ipv6": ("2001:db8::1", "2001:db8::2", "fe80::1"),
}
"""Few values of each type, so that groups have several records and joins find partners."""

_SIGNED = ("int", "llong")


@dataclass
class _Line:
    """A temporal attribute in the order of the file: it rises (or falls) and may be late by its skew."""

    attribute: Attribute
    value: int
    skew: int

    def step(self, random: Random, length: int) -> int:
        self.value += (-1 if self.attribute.decreasing else 1) * length
        late = random.choice((0, 0, 0, self.skew // 2, self.skew))
        return self.value + (late if self.attribute.decreasing else -late)


def records_of(protocol: Protocol, random: Random, count: int, literals: Mapping[str, Sequence[Any]]) -> list[Record]:
    """Random records in the order of their file, with all fields by name, `_stamp` and `_arrival` in ns."""
    layout, clock = protocol.layout, protocol.clock
    assert layout is not None and not layout.refused, layout and layout.refused
    assert clock is not None and clock.unit is not None
    lines = {
        field_name(each.name): _Line(each, 10_000, each.skew)
        for each in protocol.attributes
        if not each.clock and each.stamp == "external"
    }
    time, arrival, records = _Line(clock, BEGIN // clock.unit, SKEW // clock.unit), 0, []
    for number in range(count):
        gap = random.choice((0, 0, 100, 1000, 3000, 9000)) * 1_000_000 // clock.unit
        left = END // clock.unit - time.value
        stamp = max(BEGIN // clock.unit, time.step(random, min(gap, left)))
        if number == count - 1:
            stamp = END // clock.unit
        row = {each.name: _drawn(each, protocol, random, literals) for each in layout.fields}
        row |= {name: line.step(random, random.choice((0, 1, 1, 4))) for name, line in lines.items()}
        row[field_name(clock.name)] = stamp
        arrival = max(arrival, stamp * clock.unit)
        records.append({**row, "_stamp": stamp * clock.unit, "_arrival": arrival})
    return records


def _drawn(field: RecordField, protocol: Protocol, random: Random, literals: Mapping[str, Sequence[Any]]) -> Any:
    declared, named = protocol.declared[field.stored], literals.get(str(field.type), ())
    if named and random.random() < 0.3:
        return random.choice(named)
    if field.type is Type.INT:
        pool = _POOLS["int" if declared in _SIGNED else "uint"]
    else:
        pool = _POOLS[{"v_str": "string"}.get(declared, declared)]
    return random.choice(pool)


def with_nulls(records: Sequence[Record], names: Sequence[str], random: Random) -> list[Record]:
    """Records in which some values of fields are NULL."""
    return [{**row, **{name: None for name in names if random.random() < 0.06}} for row in records]


def write_csv(path: Path, protocol: Protocol, records: Sequence[Record]) -> None:
    """Writes records as the protocol reads them by position, with `|` between values."""
    assert protocol.layout is not None
    places = {field.position: field.name for field in protocol.layout.fields}
    most = max(place for place in places if place is not None)
    lines = ["|".join(_text(row.get(places.get(at, ""))) for at in range(1, most + 1)) for row in records]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).upper() if isinstance(value, bool) else str(value)


_ARROW = {Type.BOOL: pa.bool_(), Type.INT: pa.int64(), Type.FLOAT: pa.float64(), Type.STRING: pa.string()}


def table_of(protocol: Protocol, records: Sequence[Record]) -> pa.Table:
    """Records with all columns of the protocol, as an oracle reads them; addresses as sortable texts."""
    columns: dict[str, pa.Array] = {}
    for name, expression in protocol.columns.items():
        kind, values = expression.type, []
        attribute = next((each for each in protocol.attributes if expression == _column(protocol, each)), None)
        if isinstance(expression, Const):
            values = [expression.value] * len(records)
        elif attribute is not None and attribute.stamp != "external":
            values = [row["_arrival"] // (attribute.unit or SECOND) for row in records]
        elif any(field.name == name for field in (protocol.layout.fields if protocol.layout else ())):
            values = [row[name] for row in records]
        else:
            continue
        if kind is Type.IP:
            columns[name] = pa.array([sortable(value) for value in values], pa.string())
        else:
            columns[name] = pa.array(values, _ARROW[kind])
    return pa.table(columns)


def _column(protocol: Protocol, attribute: Attribute) -> Any:
    return protocol.columns[field_name(attribute.name)]


def sortable(address: str | None) -> str | None:
    """An address as a text that sorts as addresses do."""
    if address is None:
        return None
    parsed = ip_address(address)
    return f"ip{parsed.version}:{int(parsed):039d}"
