"""Protocols for files of records that nobody has described: a ready one for logs, else a PROTOCOL block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lowwater.capture.records.sanity import END_OF_TIME
from lowwater.capture.tables.delimited import TextOptions
from lowwater.capture.tables.reader import TableOptions, inspect_records
from lowwater.capture.tables.sniffing import BEARABLE, Column, Kind, SniffedLog, SniffedTable, sniff_log
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.catalog.records import ISO, SECONDS, RecordLayout
from lowwater.catalog.values import Type
from lowwater.config import Link
from lowwater.errors import CaptureError, QueryError
from lowwater.gsql.parser import parse
from lowwater.instants import format_duration
from lowwater.plan.bind.names import UNITS, declare
from lowwater.terminal import shown

# Logs that a ready protocol reads.


@dataclass(frozen=True)
class LogProposal:
    """The ready protocol by which the records of a link are read.

    Attributes:
        log: what was found in a sample.
        ahead: how far its records run behind one another, ns.
    """

    log: SniffedLog
    ahead: int

    @property
    def options(self) -> TableOptions:
        """How the records are read."""
        return TableOptions(self.log.kind, self.log.layout)

    @property
    def protocol(self) -> str:
        """Name of the ready protocol."""
        return self.log.protocol


def propose_log(path: Path) -> LogProposal | None:
    """Proposes the ready protocol of a log, and reads it once for its disorder; None if the file is no such log.

    A log is written when a flow ends, so its times run behind by minutes, which are no time jumps.

    Raises:
        CaptureError: the file cannot be read, or no ready protocol reads this log of its tool.
    """
    log = sniff_log(path)
    if log is None:
        return None
    facts = inspect_records(path, TableOptions(log.kind, log.layout), END_OF_TIME, Link().skew)
    return LogProposal(log, facts.interfaces[0].lateness.largest)


# Other files. The layout is that of the written text, so what was checked is what the lake will read.

_FORMS = {ISO: "iso_to_timestamp", SECONDS: "float_to_timestamp"}
_LONGEST = 60
_OWN = ("link", "interface")
"""Columns that every record has already."""


@dataclass(frozen=True)
class ProposedField:
    """A field of a proposed protocol.

    Attributes:
        name: its name in the protocol.
        column: the column that it reads.
        declaration: its line of the block, without comment.
        notes: what could not be decided, or is worth a look.
    """

    name: str
    column: Column
    declaration: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordProposal:
    """Proposed protocol of the records of a link.

    Attributes:
        table: what was found in the sample.
        protocol: name of the protocol.
        clock: name of the field that is the clock.
        layout: the layout by the text of the block.
        refused: field -> number of values, of the files that were read whole, that it cannot read.
    """

    table: SniffedTable
    protocol: str
    fields: tuple[ProposedField, ...]
    clock: str
    layout: RecordLayout
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def options(self) -> TableOptions:
        """How the records are read by the proposal."""
        return TableOptions(self.table.kind, self.layout, self.text)

    @property
    def text(self) -> TextOptions:
        """How delimited text is written; a header is named where no field reads its column by name."""
        options = self.table.text
        return replace(options, header=None) if options.header is any(f.path for f in self.layout.fields) else options

    @property
    def block(self) -> str:
        """The PROTOCOL block, with comments."""
        lines = []
        width = max(len(proposed.declaration) for proposed in self.fields)
        for proposed in self.fields:
            notes = [*proposed.notes]
            if count := self.refused.get(proposed.name):
                notes.append(f"{count:,} values are of another type: their records are malformed")
            declaration = proposed.declaration
            lines.append(f"    {declaration.ljust(width)}  // {'; '.join(notes)}" if notes else f"    {declaration}")
        left = [f"    // left out: {_comment(name)}: {why}" for name, why in self.table.left_out.items()]
        return "\n".join([f"PROTOCOL {self.protocol} {{", *lines, *left, "}", ""])


def propose_protocol(table: SniffedTable, link: str, others: Mapping[str, Kind | None] | None = None) -> RecordProposal:
    """Proposes a protocol for the records of a link.

    Args:
        link: name for the protocol; a number is added to a name that is built in.
        others: label of a column -> another type than that of the sample; None to leave the column out.

    Raises:
        CaptureError: no column can be the clock, or none can be a field.
    """
    if table.clock is None:
        raise CaptureError(
            f"its records have no clock: {table.clockless}",
            "a column of times is needed: epochs in s, ms, us or ns, or ISO 8601",
        )
    others = others or {}
    fields: list[ProposedField] = []
    left_out = dict(table.left_out)
    for index, column in enumerate(table.columns):
        kind = others.get(column.label, column.kind)
        if kind is None:
            left_out[_comment(column.label)] = "its values are of several types"
            continue
        proposed = _field(table, index, replace(column, kind=kind), [other.name for other in fields])
        if proposed is None:
            left_out[_comment(column.label)] = "no field can name it"
        else:
            fields.append(proposed)
    clock = next((each.name for each in fields if each.column.label == table.columns[table.clock].label), "")
    if not clock:
        raise CaptureError("its records have no clock: no field can name its column", "give the column another name")
    name = _protocol_name(link)
    layout = _layout(name, fields)
    return RecordProposal(replace(table, left_out=left_out), name, tuple(fields), clock, layout)


def weaker(column: Column, kind: str) -> Kind | None:
    """Returns the next type of a column some of whose values its type refuses; None to leave the column out."""
    if column.kind.type is Type.INT and not column.kind.form:
        return Kind(Type.FLOAT, nulls=column.kind.nulls)
    return Kind(Type.STRING) if kind == "csv" and column.kind.type is not Type.STRING else None


def _layout(name: str, fields: list[ProposedField]) -> RecordLayout:
    text = _text(name, [proposed.declaration for proposed in fields])
    (block,) = parse(text).protocols
    layout = declare([(block, "proposal", text)])[name].layout
    assert layout is not None and not layout.refused
    return layout


def _text(name: str, declarations: list[str]) -> str:
    return f"PROTOCOL {name} {{ {' '.join(declarations)} }}"


def _field(table: SniffedTable, index: int, column: Column, taken: list[str]) -> ProposedField | None:
    """Proposes the field of a column; None where no field can name the column."""
    kind, clock = column.kind, index == table.clock
    name = _field_name(column, taken)
    word = _word(kind) if not clock else "llong" if kind.form else _word(kind)
    unit = table.unit if clock else kind.unit if kind.form else ""
    attributes = [*(["increasing"] if clock else []), *([f"unit {unit}"] if unit else [])]
    access = f"get_csv_{_FORMS.get(kind.form, word.lower())}"
    tries: list[tuple[str, list[str]]] = []
    if not "".join(column.path).isprintable():
        pass  # a terminal that shows the file would obey it
    elif len(column.path) == 1:
        own = [] if column.path[0] == name else [f"name {_quoted(column.path[0])}"]
        tries.append((access, [*attributes, *own]))
    elif column.path:
        tries.append((access, [*attributes, f"path {_quoted('.'.join(column.path))}"]))
    if column.position is not None:
        tries.append((f"{access}_pos{column.position}", attributes))
    for function, words in tries:
        inside = f" ({', '.join(words)})" if words else ""
        declaration = f"{word} {name} {function}{inside};"
        if _reads(declaration, column):
            return ProposedField(name, column, declaration, tuple(_notes(table, index, kind)))
    return None


def _reads(declaration: str, column: Column) -> bool:
    """Whether a declaration is read back as a field of the column."""
    text = _text("P", [declaration])
    try:
        (block,) = parse(text).protocols
        layout = declare([(block, "", text)])["P"].layout
    except QueryError:
        return False
    assert layout is not None
    (field,) = layout.fields
    return field.position == column.position if field.position is not None else field.path == column.path


def _notes(table: SniffedTable, index: int, kind: Kind) -> list[str]:
    notes = []
    disorder = table.disorders.get(index)
    if index == table.clock:
        if table.guessed:
            notes.append("the clock by its name; its unit is a guess: its values are near no instant of today")
    elif disorder is not None and not disorder.falls and disorder.absent <= BEARABLE * table.records:
        behind = format_duration(disorder.largest)
        notes.append(f"a time as well: it runs behind by at most {behind} in the sample")
        steps = -(-disorder.largest // UNITS[kind.unit])
        notes[-1] += f"; (increasing, banded {steps}) lets queries close groups by it"
    if kind.empty:
        notes.append("no value in the sample tells its type")
    if kind.refused:
        notes.append(f"{kind.refused:,} values of the sample are of another type")
    return notes


def _word(kind: Kind) -> str:
    """Returns the name of a type, which for integers shows their range in the sample."""
    if kind.type is not Type.INT:
        return {Type.IP: "IP"}.get(kind.type, str(kind.type))
    if kind.form or kind.bounds is None:
        return "llong"
    least, most = kind.bounds
    if least >= 0:
        return "uint" if most < 1 << 32 else "ullong"
    return "int" if least >= -(1 << 31) and most < 1 << 31 else "llong"


def _field_name(column: Column, taken: list[str]) -> str:
    """Names the field of a column: as the column, as far as GSQL has such names."""
    plain = re.sub(r"\W+", "_", "_".join(column.path) or column.name, flags=re.ASCII).strip("_")[:_LONGEST]
    plain = plain if plain and not plain[0].isdigit() else f"c{plain or column.position or len(taken) + 1}"
    if column.path == (f"_{plain}",):
        plain = f"_{plain}"
    name, number = plain, 1
    while name in taken or name in _OWN or not _is_name(name):
        number += 1
        name = f"{plain}_{number}" if name in taken else f"{plain}_"
        if number > len(taken) + 3:
            return f"c{column.position or len(taken) + 1}"
    return name


def _is_name(name: str) -> bool:
    """Whether a query can use a word as a name of a field."""
    try:
        text = f"PROTOCOL P {{ uint {name} get_csv_uint; }} SELECT {name}, sum({name}) AS s FROM a.P GROUP BY {name}"
        return bool(parse(text).protocols)
    except QueryError:
        return False


def _protocol_name(link: str) -> str:
    plain = re.sub(r"\W+", "_", link, flags=re.ASCII).strip("_").upper()[:_LONGEST] or "RECORD"
    plain = plain if not plain[0].isdigit() else f"P{plain}"
    builtin = {name.upper() for name in PROTOCOLS}
    return plain if plain not in builtin and _is_name(plain) else f"{plain}_RECORD"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _comment(text: str) -> str:
    return shown(text).replace("\n", " ")[:200]
