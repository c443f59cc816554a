"""Sample of a folder of captures before a lake exists: first timestamps of all files, and facts of some.

A file is read at most once for every question. Files of records that are no packets are read by a protocol that is
proposed for all files of like names: a ready one for logs, else a PROTOCOL block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from lowwater import config, instants, terminal
from lowwater.capture import inspect, reader
from lowwater.capture.formats.classic import STAMP
from lowwater.capture.records.sanity import END_OF_TIME
from lowwater.capture.tables.options import TableOptions, TextOptions
from lowwater.capture.tables.reader import first_timestamp, inspect_records, refused_fields
from lowwater.capture.tables.sniffing import BEARABLE, Column, Kind, SniffedLog, SniffedTable, sniff, sniff_log
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.catalog.records import ISO, SECONDS, RecordLayout
from lowwater.catalog.values import Type
from lowwater.errors import CaptureError, QueryError
from lowwater.gsql.parser import parse
from lowwater.plan.bind.names import UNITS, declare

# Logs that a ready protocol reads.


@dataclass(frozen=True)
class LogProposal:
    """The ready protocol by which the records of a link are read."""

    log: SniffedLog
    ahead: int  # how far its records run behind one another, ns

    @property
    def options(self) -> TableOptions:
        return TableOptions(self.log.kind, self.log.layout)

    @property
    def protocol(self) -> str:
        return self.log.protocol


def propose_log(path: Path) -> LogProposal | None:
    """Proposes the ready protocol of a log, and reads it once for its disorder; None if the file is no such log. A log
    is written when a flow ends, so its times run behind by minutes, which are no time jumps.
    Raises CaptureError if the file cannot be read, or no ready protocol reads this log of its tool."""
    log = sniff_log(path)
    if log is None:
        return None
    facts = inspect_records(path, TableOptions(log.kind, log.layout), END_OF_TIME, config.Link().skew)
    return LogProposal(log, facts.interfaces[0].lateness.largest)


# Other files. The layout is that of the written text, so what was checked is what the lake will read.

_FORMS = {ISO: "iso_to_timestamp", SECONDS: "float_to_timestamp"}
_LONGEST = 60
_COMMAS = 'if their comma is a decimal one, write decimal = "," in the settings of the link, and read them as float'
_OWN = ("link", "interface")
"""Columns that every record has already."""


@dataclass(frozen=True)
class ProposedField:
    """A field of a proposed protocol."""

    name: str
    column: Column
    declaration: str
    notes: tuple[str, ...] = ()  # what could not be decided, or is worth a look


@dataclass(frozen=True)
class RecordProposal:
    """Proposed protocol of the records of a link."""

    table: SniffedTable
    protocol: str
    fields: tuple[ProposedField, ...]
    clock: str  # name of the field that is the clock
    layout: RecordLayout
    # field -> number of values, of the files that were read whole, that it cannot read
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def options(self) -> TableOptions:
        return TableOptions(self.table.kind, self.layout, self.text)

    @property
    def ahead(self) -> int:
        """How far its records run behind one another, ns."""
        disorder = self.table.disorders.get(self.table.clock) if self.table.clock is not None else None
        return disorder.largest if disorder else 0

    @property
    def text(self) -> TextOptions:
        """How delimited text is written; a header is named where no field reads its column by name."""
        options = self.table.text
        return replace(options, header=None) if options.header is any(f.path for f in self.layout.fields) else options

    @property
    def block(self) -> str:
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
    """Proposes a protocol for the records of a link, after which it is called. `others`: label of a column -> another
    type than that of the sample; None to leave the column out.
    Raises CaptureError if no column can be the clock, or none can be a field."""
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


def _weaker(column: Column, kind: str) -> Kind | None:
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
        behind = instants.format_duration(disorder.largest)
        notes.append(f"a time as well: it runs behind by at most {behind} in the sample")
        steps = -(-disorder.largest // UNITS[kind.unit])
        notes[-1] += f"; (increasing, banded {steps}) lets queries close groups by it"
    if kind.empty:
        notes.append("no value in the sample tells its type")
    if kind.comma and kind.type is Type.STRING:
        notes.append(f"its values, such as {_comment(kind.comma)!r}, are texts: {_COMMAS}")
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
    return terminal.shown(text).replace("\n", " ")[:200]


# The sample.

BEGINNING = 1 << 16
"""Bytes read at a time to find the first record of a capture."""


@dataclass
class Sample:
    """The captures below a folder."""

    folder: Path
    count: int  # number of files of a link to read to the end, at least 2: the first, the last, and some between them
    progress: Callable[[str], None] = lambda text: None  # called with the name of the file that is being read
    skipped: dict[str, str] = field(default_factory=dict)  # file that is no capture, or left out -> reason
    remedies: dict[str, str] = field(default_factory=dict)  # such a file -> the hint, if there is one
    # file with the bytes of another one with a like name -> that file
    copies: dict[str, str] = field(default_factory=dict)
    # file of records that are no packets -> the protocol by which it is read
    records: dict[str, RecordProposal | LogProposal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = cache(self._first)
        self._read_before: dict[str, inspect.CaptureFacts | None] = {}

    def facts(self, name: str) -> inspect.CaptureFacts | None:
        """Returns the facts of a file; None if it is no capture."""
        if name not in self._read_before:
            self._read_before[name] = self._facts(name)
        return self._read_before[name]

    def describe(self, names: Sequence[str], link: str) -> None:
        """Proposes a protocol, called after their link, for files of like names that hold records, but no packets;
        reads some of them. A type that a file read whole refuses for more than a few values gives way to a wider one.
        """
        chosen = self.spread(names)
        table = self._table(chosen)
        if table is None:
            return
        if isinstance(table, LogProposal):
            self._settle(names, table)
            return
        others: dict[str, Kind | None] = {}
        try:
            for _ in range(len(table.columns)):
                proposal = propose_protocol(table, link, others)
                self._settle(names, proposal)
                if not (wider := self._refusing(chosen, proposal)):
                    break
                others |= wider
            facts = [capture for name in chosen if (capture := self.facts(name)) is not None]
            self._settle(names, replace(proposal, refused=refused_fields(facts)), clear=False)
        except CaptureError as error:
            for name in names:
                self.records.pop(name, None)
            for name in names:
                self._skip(name, error)

    def _skip(self, name: str, error: CaptureError) -> None:
        """Notes why a file is left out, by the last error about it."""
        self.skipped[name] = error.message.removeprefix(f"{self.folder / name}: ")
        self.remedies[name] = error.hint or ""

    def _table(self, names: Sequence[str]) -> SniffedTable | LogProposal | None:
        """Returns what the first file with records holds; None if there are captures among the files, or no records."""
        reasons: dict[str, CaptureError] = {}
        for name in names:
            self.progress(name)
            try:
                reader.open_capture(self.folder / name)
                return None
            except CaptureError as error:
                reasons[name] = error
        for name in names:
            try:
                return propose_log(self.folder / name) or sniff(self.folder / name)
            except CaptureError as error:
                reasons[name] = error
        for name, reason in reasons.items():
            self._skip(name, reason)
        return None

    def _settle(self, names: Sequence[str], proposal: RecordProposal | LogProposal, clear: bool = True) -> None:
        self.records |= dict.fromkeys(names, proposal)
        for name in names if clear else ():
            self._read_before.pop(name, None)

    def _refusing(self, names: Sequence[str], proposal: RecordProposal) -> dict[str, Kind | None]:
        """Returns wider types for the columns whose type refuses too many values of the files.
        Raises CaptureError if the clock is among them."""
        facts = [capture for name in names if (capture := self.facts(name)) is not None]
        own = [capture.interfaces[0] for capture in facts]
        records = sum(each.packets + sum(each.malformed.values()) for each in own)
        refused = {name: count for name, count in refused_fields(facts).items() if count > BEARABLE * records}
        if proposal.clock in refused:
            raise CaptureError(
                f"its records have no clock: {refused[proposal.clock]:,} of {records:,} values of {proposal.clock} are "
                "no times"
            )
        columns = (each.column for each in proposal.fields if each.name in refused)
        return {column.label: _weaker(column, proposal.table.kind) for column in columns}

    def _first(self, name: str) -> int | None:
        """Returns the first sane timestamp of a file, ns; None without one."""
        self.progress(name)
        try:
            if proposal := self.records.get(name):
                return first_timestamp(self.folder / name, proposal.options, config.Link().jump + proposal.ahead)
            with closing(reader.read(self.folder / name, config.Link().jump, BEGINNING, sha256="").spans()) as spans:
                return next((int(span.records[STAMP, span.sane[0]]) for span in spans if len(span.sane)), None)
        except CaptureError as error:
            if name not in self.skipped:
                self._skip(name, error)
            return None

    def _facts(self, name: str) -> inspect.CaptureFacts | None:
        self.progress(name)
        try:
            if proposal := self.records.get(name):
                jump = config.Link().jump + proposal.ahead  # so that the disorder of the sample passes
                return inspect_records(self.folder / name, proposal.options, jump, config.Link().skew)
            reader.open_capture(self.folder / name)
            facts = _as_it_looks(inspect.inspect_times(self.folder / name, config.Link().jump, config.Link().skew))
            return replace(facts, beginning=inspect.undecoded_beginning(self.folder / name, config.Link().jump))
        except CaptureError as error:
            if name not in self.skipped:
                self._skip(name, error)
            return None

    def disorder(self, names: Sequence[str]) -> int:
        """Returns twice how far the records of logs are behind, ns: a tool writes a record when it ends; else 0."""
        logs = [name for name in names if isinstance(self.records.get(name), LogProposal)]
        late = [one.lateness.largest for name in logs if (facts := self.facts(name)) for one in facts.interfaces]
        return 2 * max(late, default=0)

    def spread(self, names: Sequence[str]) -> list[str]:
        """Selects the first name, the last one, and some between them."""
        count = max(self.count, 2)
        if len(names) <= count:
            return list(names)
        step = (len(names) - 1) / (count - 1)
        return [names[round(number * step)] for number in range(count)]

    def in_order(self, names: Sequence[str]) -> list[str]:
        """Returns the files with a record, without copies of others, in the order of their first timestamp."""
        wanted = {*names}
        own = [name for name in names if self.copies.get(name) not in wanted]
        firsts = {name: first for name in own if (first := self.first(name)) is not None}
        return sorted(firsts, key=lambda name: (firsts[name], name))


def _as_it_looks(facts: inspect.CaptureFacts) -> inspect.CaptureFacts:
    """Reads a capture again by another unit of its times, if the one that it says is impossible and that one is not."""
    for doubt in inspect.doubts(facts):
        if doubt.impossible and doubt.resolution:
            other = inspect.inspect_times(facts.path, config.Link().jump, config.Link().skew, doubt.resolution)
            if other.summary.packets and not any(later.impossible for later in inspect.doubts(other)):
                return replace(other, doubted=doubt.words)
    return facts
