"""Implements `inspect`: facts of captures and of files of other records as a table, JSON or CSV, without a lake."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from lowwater import errors, terminal
from lowwater.capture import inspect as inspecting
from lowwater.capture.content.packet_hashes import CONTENT
from lowwater.capture.headers.tunnels import NAMES
from lowwater.capture.headers.undecoded import is_beside, may_carry_ip, name_of, types_words
from lowwater.capture.reader import digest
from lowwater.capture.records import sanity
from lowwater.capture.records.drops import Drops, total
from lowwater.capture.records.duplicates import DuplicateSpool
from lowwater.capture.records.facts import CaptureSummary, Hole
from lowwater.catalog.protocols import CLOCK
from lowwater.instants import SECOND, format_duration, format_instant

if TYPE_CHECKING:
    from lowwater.lake.files.sample import LogProposal, RecordProposal

# Values.


def instant_text(value: int | None) -> str:
    """Formats an instant (ns); a dash for none."""
    return "-" if value is None else format_instant(value)


def duration_text(value: int | None) -> str:
    """Formats a duration (ns) in the largest unit in which it is at least 1."""
    if value is None:
        return "-"
    for size, unit in ((3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")):
        if value >= size:
            return f"{value / size:,.6g} {unit}"
    return f"{value} ns" if value else "0 s"


def rate_text(value: float | None) -> str:
    """Formats an amount per second; a dash for none."""
    return "-" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def counts_text(counts: Iterable[tuple[str, int]]) -> str:
    """Formats counts by name, sorted; 0 for none."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts)) or "0"


def gap_texts(facts: inspecting.InterfaceFacts) -> list[str]:
    """Formats the longest gaps between records, the longest first."""
    return [f"{duration_text(length)} from {instant_text(start)}" for start, length in facts.gaps.longest()]


def gaps(facts: inspecting.InterfaceFacts) -> list[dict[str, Any]]:
    """Returns the longest gaps between records as JSON, the longest first."""
    return [{"start": instant_twice(start), "length": duration_twice(length)} for start, length in facts.gaps.longest()]


def file_entry(facts: inspecting.CaptureFacts) -> dict[str, Any]:
    """Returns what the JSON says of every file that was read: its name, form and bytes, and how it ended."""
    summary = facts.summary
    return {
        "file": str(facts.path),
        "error": None,
        "format": summary.format,
        "compression": summary.compression,
        "sha256": summary.sha256,
        "bytes": {
            "file": summary.bytes,
            "unpacked": summary.unpacked,
            "skipped": summary.skipped,
            "records": summary.record_bytes,
            "malformed": facts.malformed_bytes,
            "overhead": summary.overhead,
            "accounted": facts.accounted,
        },
        "ended_cleanly": summary.ended_cleanly,
        "damage": summary.damage,
        "parts": summary.parts,
    }


def order(facts: inspecting.InterfaceFacts) -> dict[str, Any]:
    """Returns the order of records as JSON."""
    lateness = facts.lateness
    quantiles = {quantile_name(share): duration_twice(lateness.quantile(share)) for share in inspecting.QUANTILES}
    return {
        "strict": not lateness.late,
        "out_of_order": lateness.late,
        "refused": lateness.refused,
        "lateness": {**quantiles, "max": duration_twice(lateness.largest if facts.packets else None)},
    }


def quantile_name(share: float) -> str:
    """Names a quantile as a key of JSON."""
    return f"p{100 * share:g}".replace(".", "_")


def instant_twice(value: int | None) -> dict[str, Any] | None:
    """Returns an instant (ns) as JSON, as a number and as text."""
    return None if value is None else {"ns": value, "iso": format_instant(value)}


def duration_twice(value: int | None) -> dict[str, Any] | None:
    """Returns a duration (ns) as JSON, as a number and as text."""
    return None if value is None else {"ns": value, "text": format_duration(value)}


# Files of records that are no packets: only they need the sniffers, and the parser of what is proposed.

_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".log", ".parquet")


@dataclass(frozen=True)
class TableFacts:
    """Facts of a file of records."""

    facts: inspecting.CaptureFacts  # its bytes, times and order
    proposal: RecordProposal | LogProposal
    max_jump: int

    @property
    def records(self) -> inspecting.InterfaceFacts:
        return self.facts.interfaces[0]


def is_table(path: Path) -> bool:
    """Whether a file says by its name or first bytes that it is no capture but a table."""
    try:
        with path.open("rb") as file:
            parquet = file.read(4) == b"PAR1"
    except OSError:
        return False
    return parquet or any(suffix in _SUFFIXES for suffix in path.suffixes)


def inspect_table(path: Path, max_jump: int, skew: int, progress: Callable[[int], None], given: bool) -> TableFacts:
    """Proposes a protocol for the records of a file, or finds the ready one of a log, and reads all of them by it.
    `given`: whether the user gave max_jump; else the disorder of the sample is added to it.
    Raises CaptureError if the file cannot be read, is no table, or has no clock."""
    from lowwater.capture.tables import sniffing
    from lowwater.capture.tables.reader import inspect_records
    from lowwater.lake.files.sample import propose_log, propose_protocol

    log = propose_log(path)
    if log is not None:
        jump = max_jump if given else max_jump + log.ahead
        return TableFacts(inspect_records(path, log.options, jump, skew, progress, digest(path)), log, jump)
    table = sniffing.sniff(path)
    try:
        proposal = propose_protocol(table, path.name.partition(".")[0])
    except errors.CaptureError as error:
        raise errors.CaptureError(f"{path}: {error.message}", error.hint) from error
    assert table.clock is not None
    found = table.disorders.get(table.clock)
    jump = max_jump if given or found is None else max_jump + found.largest
    return TableFacts(inspect_records(path, proposal.options, jump, skew, progress, digest(path)), proposal, jump)


def table_sheet(table: TableFacts, skew: int) -> Table:
    """Formats a file with a line for each fact, and the protocol of its records."""
    sheet = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, text in {**_file_lines(table.facts, _form_lines(table)), **_record_lines(table.records, skew)}.items():
        sheet.add_row(name, terminal.styled(text, fold=True))
    from lowwater.lake.files.sample import RecordProposal

    whole = Table.grid()
    whole.add_row(sheet)
    if isinstance(table.proposal, RecordProposal):
        whole.add_row(terminal.styled(table.proposal.block, fold=True))
    return whole


def _file_lines(facts: inspecting.CaptureFacts, form: Mapping[str, str]) -> dict[str, str]:
    """The lines of a sheet about a file; `form` says how a text of records is written."""
    summary = facts.summary
    packed = f", unpacked {summary.unpacked:,}" if summary.compression else ""
    parts = f"records {summary.record_bytes:,} + malformed {facts.malformed_bytes:,} + overhead {summary.overhead:,}"
    return {
        "file": str(facts.path),
        "format": f"{summary.format} {summary.compression}".strip(),
        **form,
        "sha256": summary.sha256,
        "bytes": f"{summary.bytes:,}{packed}" + ("" if summary.format == "parquet" else f": {parts}"),
        "end": "ends where a record ends" if summary.ended_cleanly else f"damaged {summary.damage}".strip(),
        **({"captures": _parts_words(summary)} if summary.parts > 1 else {}),
    }


def _parts_words(summary: CaptureSummary) -> str:
    """What is said of several captures, or sections, in a file."""
    order = ", read in the order of their times, which is not that of the file" if summary.order else ""
    if summary.by_time:
        order = ", in another order than their times"
    overlap = ""
    if summary.overlap is not None:
        overlap = f", which overlap by up to {format_duration(summary.overlap.clock - summary.overlap.first)}"
    return f"{summary.parts:,}, one behind the other{order}{overlap}"


def _form_lines(table: TableFacts) -> dict[str, str]:
    """Returns how a text is written, or by which protocol a log is read, and its records of other types."""
    from lowwater.lake.files.sample import LogProposal

    proposal, kinds = table.proposal, table.facts.summary.blocks
    if isinstance(proposal, LogProposal):
        left_out = {"left out": counts_text(kinds)} if kinds else {}
        return {"protocol": f"{proposal.protocol}, which is ready: docs/logs.md", **left_out}
    if proposal.table.kind != "csv":
        return {}
    text = proposal.options.text
    header = "a header" if proposal.table.text.header else "no header"
    form = f"separator {text.separator!r}, quote {text.quote!r}, {header}"
    nulls = f", NULL {', '.join(repr(null) for null in text.null if null)}" if len(text.null) > 1 else ""
    decimal = ", a decimal comma" if text.decimal == "," else ""
    return {"text": form + nulls + decimal}


def _record_lines(facts: inspecting.InterfaceFacts, skew: int) -> dict[str, str]:
    return {
        "records": f"{facts.packets:,}",
        **_time_lines(facts),
        "rate": f"{rate_text(facts.rate(facts.packets))} records/s",
        **_late_lines(facts, skew),
        **{f"gap {number}": text for number, text in enumerate(gap_texts(facts)[: inspecting.GAPS], 1)},
    }


def _time_lines(facts: inspecting.InterfaceFacts) -> dict[str, str]:
    """The lines of a sheet about damage and times, of captures and of other records."""
    return {
        "malformed": counts_text(facts.malformed.items()),
        **_damage_lines(facts),
        **({"declared lost": _lost_text(lost)} if (lost := _lost(facts)) else {}),
        "first": instant_text(facts.summary.first if facts.summary else None),
        "last": instant_text(facts.summary.last if facts.summary else None),
        "duration": duration_text(facts.duration),
    }


def _holes(facts: inspecting.InterfaceFacts) -> Sequence[Hole]:
    return facts.summary.holes if facts.summary else ()


def _damage_lines(facts: inspecting.InterfaceFacts) -> dict[str, str]:
    """The lines of a sheet about stretches of a capture that are no records: the first ones, and how many more."""
    holes = _holes(facts)
    lines = {f"damage {number}": _hole_text(hole) for number, hole in enumerate(holes[:_HOLES_SHOWN], 1)}
    if len(holes) > _HOLES_SHOWN:
        lines["more damage"] = f"{len(holes) - _HOLES_SHOWN:,} more stretches"
    return lines


def _hole_text(hole: Hole) -> str:
    begin = "the begin" if hole.before is None else format_instant(hole.before)
    end = "the end" if hole.after is None else format_instant(hole.after)
    return (
        f"{hole.length:,} byte{'s' * (hole.length != 1)} from byte {hole.offset:,} on, from {begin} to {end}, "
        f"about {hole.records:,} record{'s' * (hole.records != 1)} lost"
    )


def _lost(facts: inspecting.InterfaceFacts) -> list[Drops]:
    """Returns the records that the capture says were lost."""
    return [each for each in facts.summary.drops.alone() if each.count] if facts.summary else []


def _lost_text(lost: Sequence[Drops]) -> str:
    parts = [
        f"{each.count:,}"
        + (f" from {format_instant(each.start)}" if each.start is not None else "")
        + (f" to {format_instant(each.end)}" if each.end is not None else "")
        for each in lost[:_LOST_SHOWN]
    ]
    left = len(lost) - _LOST_SHOWN
    more = f" and more in {left:,} other range{'' if left == 1 else 's'}" if left > 0 else ""
    return f"{total(lost):,}: {', '.join(parts)}{more}" if len(lost) > 1 else parts[0]


def lost_entry(facts: inspecting.InterfaceFacts) -> dict[str, Any]:
    """Returns the records that the capture says were lost as JSON."""
    lost = _lost(facts)
    ranges = [
        {
            "from": instant_twice(each.start),
            "to": instant_twice(each.end),
            "records": each.count,
            "source": each.source,
        }
        for each in lost
    ]
    return {"records": total(lost), "ranges": ranges}


def _late_lines(facts: inspecting.InterfaceFacts, skew: int) -> dict[str, str]:
    """The lines of a sheet about order, of captures and of other records."""
    late = facts.lateness
    return {
        "out of order": f"{late.late:,}",
        "lateness": ", ".join(
            f"{100 * share:g} % {duration_text(late.quantile(share))}" for share in inspecting.QUANTILES
        ),
        "skew that admits all": duration_text(late.largest if facts.packets else None),
        f"later than {format_duration(skew)}": f"{late.refused:,}",
    }


def table_document(table: TableFacts) -> dict[str, Any]:
    """Builds the entry of the JSON document for a file of records."""
    records, totals = table.records, table.records.summary
    return {
        **file_entry(table.facts),
        **_described(table),
        "max_jump": duration_twice(table.max_jump),
        "records": records.packets,
        "malformed": dict(sorted(records.malformed.items())),
        "lost": lost_entry(records),
        **{name: instant_twice(getattr(totals, name) if totals else None) for name in _INSTANTS},
        "duration": duration_twice(records.duration),
        "records_per_second": records.rate(records.packets),
        "order": order(records),
        "gaps": gaps(records),
    }


def _described(table: TableFacts) -> dict[str, Any]:
    """Builds the part of the entry that says how the records of a file are read."""
    from lowwater.lake.files.sample import LogProposal

    proposal = table.proposal
    if isinstance(proposal, LogProposal):
        return {
            "text": None,
            "protocol": proposal.protocol,
            "clock": CLOCK,
            "columns": [{"field": field.name, "type": str(field.type)} for field in proposal.log.layout.fields],
            "left_out": dict(table.facts.summary.blocks),
        }
    text = proposal.options.text
    header = bool(proposal.table.text.header)
    form = {
        "separator": text.separator,
        "quote": text.quote,
        "header": header,
        "null": [*text.null],
        "decimal": text.decimal,
    }
    return {
        "text": form if proposal.table.kind == "csv" else None,
        "protocol": proposal.block,
        "clock": proposal.clock,
        "columns": [
            {
                "field": proposed.name,
                "column": proposed.column.label,
                "position": proposed.column.position,
                "type": str(proposed.column.kind.type),
                "declaration": proposed.declaration,
                "notes": [*proposed.notes],
            }
            for proposed in proposal.fields
        ],
        "left_out": dict(proposal.table.left_out),
    }


# Captures.

_COLUMNS_OF_A_SHEET = 4
"""Maximum number of interfaces side by side; more of them become rows of a list."""

_UNBOUNDED = 10_000
"""Width of a line (characters) in a file, so that nothing is wrapped."""

_HOLES_SHOWN = 5
"""Most damaged stretches that a sheet tells."""

_LOST_SHOWN = 3
"""Most ranges of lost records that a sheet tells."""

_LEAST_NAME = 24
"""Minimum width (characters) of a file name in the list."""

FAMILIES = {4: "ipv4", 6: "ipv6"}


@dataclass(frozen=True)
class Inspection:
    """Result of inspecting one file: its facts, those of records that are no packets, or the error."""

    path: Path
    facts: inspecting.CaptureFacts | None = None
    table: TableFacts | None = None
    error: errors.LowwaterError | None = None


def inspect_files(
    files: Sequence[Path],
    form: str,
    max_jump: int | None,
    skew: int,
    spreadsheet: bool = False,
    window: int | None = None,
    compared: str = CONTENT,
) -> bool:
    """Inspects captures one after the other and prints their facts as `form`. Returns whether all could be read.
    `max_jump`: in ns; None for skew + 60 s. `window`, `compared`: longest time from a packet to its copies, ns, None to
    count no copies; bytes that are equal in copies, `content` or `packet`."""
    given, skew = max_jump is not None, min(skew, sanity.END_OF_TIME)
    max_jump = min(skew + 60 * SECOND if max_jump is None else max_jump, sanity.END_OF_TIME)
    inspected = _inspect(files, max_jump, skew, window, compared, given)
    if form == "json":
        terminal.say(json.dumps(document(inspected, max_jump, skew), indent=2))
    elif form == "csv":
        out = io.StringIO()
        lines = rows(inspected, max_jump, skew)
        if spreadsheet:
            lines = ([terminal.spreadsheet_cell(cell) for cell in line] for line in lines)
        csv.writer(out, lineterminator="\n").writerows(lines)
        terminal.say(out.getvalue(), nl=False)
    else:
        _show(inspected, skew)
        if read := [each.path for each in inspected if each.facts and each.path != inspecting.STDIN]:
            name = shlex.quote(terminal.shown(str(read[0])))
            terminal.say(
                f"next: `lowwater ask` lists questions; lowwater ask largest --capture {name}; "
                f'lowwater sql "DESCRIBE main1" --capture {name}',
                err=True,
            )
    return all(capture.error is None for capture in inspected)


def _inspect(
    files: Sequence[Path], max_jump: int, skew: int, window: int | None, compared: str, given: bool
) -> list[Inspection]:
    captures: list[Inspection] = []
    with ExitStack() as stack:
        working = stack.enter_context(terminal.Terminal(stderr=True).working("inspecting"))
        spool = None if window is None else stack.enter_context(DuplicateSpool(window))
        for path in files:

            def progress(packets: int, name: str = path.name) -> None:
                working(f"inspecting {name}: {packets:,} packets")

            captures.append(_of_file(path, max_jump, skew, progress, (window, compared, spool), given))
        if spool is not None and spool.links > 1:
            counts = spool.count()
            for facts in (facts for capture in captures if capture.facts for facts in capture.facts.interfaces):
                facts.elsewhere = counts[facts.link]
    return captures


def _of_file(
    path: Path,
    max_jump: int,
    skew: int,
    progress: Callable[[int], None],
    copied: tuple[int | None, str, DuplicateSpool | None],
    given: bool,
) -> Inspection:
    try:
        return Inspection(path, inspecting.inspect(path, max_jump, skew, progress, *copied))
    except errors.LowwaterError as error:
        if path == inspecting.STDIN or not path.is_file():  # a stream is read once
            return Inspection(path, error=error)
        refused = error
    try:
        return Inspection(path, table=inspect_table(path, max_jump, skew, progress, given))
    except errors.LowwaterError as error:
        return Inspection(path, error=error if is_table(path) else refused)


def _show(inspections: Sequence[Inspection], skew: int) -> None:
    console = terminal.open_console()
    if not console.is_terminal:
        console.width = _UNBOUNDED
    facts = [inspection.facts for inspection in inspections if inspection.facts]
    interfaces = [(capture, interface) for capture in facts for interface in capture.interfaces]
    if len(inspections) == 1 and 0 < len(interfaces) <= _COLUMNS_OF_A_SHEET:
        console.print(_sheet(facts[0], skew))
    elif interfaces:
        console.print(_list(interfaces))
    for inspection in inspections:
        for lost in _notes(inspection.facts) if inspection.facts and len(inspections) > 1 else ():
            terminal.say(f"note: {inspection.path}: {lost}", err=True)
        for interface in inspection.facts.interfaces if inspection.facts else ():
            if words := interface.not_decoded.words:
                terminal.say(f"note: {inspection.path}: {words}", err=True)
        for doubt in inspecting.doubts(inspection.facts) if inspection.facts else ():
            terminal.say(f"note: {inspection.path}: {doubt.words}", err=True)
        if inspection.table:
            console.print(table_sheet(inspection.table, skew))
        if inspection.error:
            terminal.say(f"error: {inspection.error}", err=True)


def _notes(facts: inspecting.CaptureFacts) -> Iterator[str]:
    """Says of each interface what is damaged, and how many records the capture says were lost."""
    for each in facts.interfaces:
        name = f"{each.interface.name}: " * bool(each.interface.name)
        yield from (f"{name}{line}: {text}" for line, text in _damage_lines(each).items())
        if lost := _lost(each):
            yield f"{name}declared lost: {_lost_text(lost)}"


def _sheet(facts: inspecting.CaptureFacts, skew: int) -> Table:
    """Formats one capture with a line for each fact and a column for each interface."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, text in _file_lines(facts, {}).items():
        table.add_row(name, terminal.styled(text, fold=True))
    columns = [_facts(interface, skew) for interface in facts.interfaces]
    body = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name in dict.fromkeys(name for column in sorted(columns, key=len, reverse=True) for name in column):
        body.add_row(name, *(terminal.styled(column.get(name, "-")) for column in columns))
    whole = Table.grid()
    whole.add_row(table)
    whole.add_row(body)
    return whole


def _facts(facts: inspecting.InterfaceFacts, skew: int) -> dict[str, str]:
    packets = facts.packets
    lines = {
        "interface": f"{facts.interface.index} {facts.interface.name}".strip(),
        "link type": f"{facts.interface.link_type} ({facts.interface.link_number})",
        "snaplen": f"{facts.interface.snaplen:,}",
        "packets": f"{packets:,}",
        **_time_lines(facts),
        "rate": f"{rate_text(facts.rate(packets))} packets/s, "
        f"{rate_text(facts.rate(8 * facts.wire))} bits/s on the wire",
        "bytes": f"{facts.captured:,} captured, {facts.wire:,} on the wire",
        "truncated": f"{facts.truncated:,}",
        **_late_lines(facts, skew),
    }
    if facts.copies is not None:
        share = facts.copies.copies / (facts.copies.compared or 1)
        window = format_duration(facts.copies.window)
        lines[f"duplicates within {window}"] = f"{facts.copies.copies:,} ({share:.2%})"
        if facts.elsewhere is not None:
            share = facts.elsewhere / (facts.copies.compared or 1)
            lines[f"elsewhere {window} before"] = f"{facts.elsewhere:,} ({share:.2%})"
    longest = gap_texts(facts)
    for number in range(inspecting.GAPS):
        lines[f"gap {number + 1}"] = longest[number] if number < len(longest) else "-"
    undecoded = facts.summary.undecoded if facts.summary else 0
    families = [(name, facts.families[version]) for version, name in FAMILIES.items()]
    return lines | {
        "ip": _shares([*families, ("neither", undecoded)], packets),
        "not decoded": types_words(facts.not_decoded.types) or "-",
        "protocols": _shares(facts.protocols.most_common(), packets),
        "vlans": _shares(((str(vlan), count) for vlan, count in facts.vlans.most_common(8)), packets),
        "tunnels": _shares(((NAMES[number], count) for number, count in facts.tunnels.most_common(8)), packets),
    }


def _list(interfaces: Sequence[tuple[inspecting.CaptureFacts, inspecting.InterfaceFacts]]) -> Table:
    """Formats several captures with a line for each interface."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("format", "link type"):
        table.add_column(name, no_wrap=True)
    for name in ("packets", "first", "duration", "packets/s", "bits/s", "truncated", "late", "by at most", "refused"):
        table.add_column(name, justify="right", no_wrap=True)
    counted = any(interface.copies for _, interface in interfaces)
    for name in ("duplicates", "elsewhere") if counted else ():
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("malformed")
    table.add_column("file", overflow="fold", min_width=_LEAST_NAME)
    for facts, interface in interfaces:
        late, summary = interface.lateness, facts.summary
        copies = (interface.copies and interface.copies.copies, interface.elsewhere) if counted else ()
        cells = [
            f"{summary.format} {summary.compression}".strip(),
            interface.interface.link_type,
            f"{interface.packets:,}",
            instant_text(interface.summary.first if interface.summary else None)[:19],
            duration_text(interface.duration),
            rate_text(interface.rate(interface.packets)),
            rate_text(interface.rate(8 * interface.wire)),
            f"{interface.truncated:,}",
            f"{late.late:,}",
            duration_text(late.largest if interface.packets else None),
            f"{late.refused:,}",
            *("" if count is None else f"{count:,}" for count in copies),
            counts_text(interface.malformed.items()),
            f"{facts.path.name} {interface.interface.name}".strip(),
        ]
        table.add_row(*(terminal.styled(cell) for cell in cells))
    return table


def _shares(counts: Iterable[tuple[str, int]], packets: int) -> str:
    return ", ".join(f"{name} {count:,} ({count / packets:.2%})" for name, count in counts if count) or "-"


def document(captures: list[Inspection], max_jump: int, skew: int) -> dict[str, Any]:
    """Builds the JSON document of `--format json`."""
    jump, bound = duration_twice(max_jump), duration_twice(skew)
    settings = {"max_jump": jump, "skew": bound, "quantile_error": inspecting.QUANTILE_ERROR}
    return {"settings": settings, "captures": [_capture(capture) for capture in captures]}


def _capture(capture: Inspection) -> dict[str, Any]:
    if capture.table is not None:
        return table_document(capture.table)
    if capture.facts is None:
        message, hint = (capture.error.message, capture.error.hint) if capture.error else ("", "")
        return {"file": str(capture.path), "error": {"message": message, "hint": hint}}
    facts, summary = capture.facts, capture.facts.summary
    return {
        **file_entry(facts),
        "blocks": dict(summary.blocks),
        "doubts": [doubt.words for doubt in inspecting.doubts(facts)],
        "interfaces": [_interface(interface) for interface in facts.interfaces],
    }


def _interface(facts: inspecting.InterfaceFacts) -> dict[str, Any]:
    interface, summary = facts.interface, facts.summary
    copies = facts.copies
    duplicates = copies and {
        "window": duration_twice(copies.window),
        "compared": copies.compared,
        "packets": copies.copies,
        "elsewhere": facts.elsewhere,
    }
    return {
        "index": interface.index,
        "name": interface.name,
        "link_type": interface.link_type,
        "link_number": interface.link_number,
        "snaplen": interface.snaplen,
        "packets": facts.packets,
        "undecoded": summary.undecoded if summary else 0,
        "undecoded_types": [
            {"type": text, "name": name_of(text), "may_carry_ip": may_carry_ip(text), **count._asdict()}
            for text, count in sorted(summary.types.items() if summary else ())
            if not is_beside(text)
        ],
        "malformed": dict(sorted(facts.malformed.items())),
        "damaged": [
            {
                "offset": hole.offset,
                "length": hole.length,
                "from": instant_twice(hole.before),
                "to": instant_twice(hole.after),
                "records": hole.records,
            }
            for hole in _holes(facts)
        ],
        "lost": lost_entry(facts),
        **{name: instant_twice(getattr(summary, name)) for name in _INSTANTS},
        "duration": duration_twice(facts.duration),
        "packets_per_second": facts.rate(facts.packets),
        "bits_per_second": facts.rate(8 * facts.wire),
        "bytes_captured": facts.captured,
        "bytes_on_wire": facts.wire,
        "truncated": facts.truncated,
        **({"duplicates": duplicates} if duplicates else {}),
        "order": order(facts),
        "gaps": gaps(facts),
        "ip": {name: facts.families[version] for version, name in FAMILIES.items()},
        "protocols": {name: facts.protocols[name] for name in ("tcp", "udp", "icmp", "arp", "other")},
        "vlans": [{"vlan_id": vlan, "packets": count} for vlan, count in sorted(facts.vlans.items())],
        "tunnels": [
            {"tunnel": number, "name": NAMES[number], "packets": count}
            for number, count in sorted(facts.tunnels.items())
        ],
    }


def rows(captures: list[Inspection], max_jump: int, skew: int) -> Iterator[list[Any]]:
    """Yields the document as rows: a header, then a row for each interface or for each file with an error."""
    counted = any(each.copies for capture in captures if capture.facts for each in capture.facts.interfaces)
    columns = _COLUMNS | ({each: f"duplicates.{_COPIED[each]}" for each in _COPIED} if counted else {})
    yield list(columns)
    for capture in document(captures, max_jump, skew)["captures"]:
        interfaces = capture.get("interfaces", [{}])
        if "records" in capture:  # a file of records, whose entry has other names
            rate = capture["records_per_second"]
            interfaces = [{**capture, "packets": capture["records"], "packets_per_second": rate}]
        for interface in interfaces:
            tree = {"capture": capture, **interface}
            yield [_cell(tree, path) for path in columns.values()]


_COPIED = {"duplicates": "packets", "duplicates_elsewhere": "elsewhere"}
_INSTANTS = ("first", "last", "smallest", "largest")
_DURATIONS = {"duration": "duration"} | {
    f"lateness_{name}": f"order.lateness.{name}" for name in (*map(quantile_name, inspecting.QUANTILES), "max")
}
_COLUMNS = {
    "file": "capture.file",
    "error": "capture.error.message",
    **{name: f"capture.{name}" for name in ("format", "compression", "sha256", "ended_cleanly", "damage")},
    **{f"bytes_{name}": f"capture.bytes.{name}" for name in ("file", "unpacked", "records", "malformed", "overhead")},
    "interface": "index",
    **{name: name for name in ("name", "link_type", "link_number", "snaplen", "packets", "undecoded", "malformed")},
    **{f"{name}_ns": f"{name}.ns" for name in _INSTANTS},
    **{name: f"{name}.iso" for name in _INSTANTS},
    **{f"{name}_ns": f"{path}.ns" for name, path in _DURATIONS.items()},
    **{name: name for name in ("packets_per_second", "bits_per_second", "bytes_captured", "bytes_on_wire")},
    "truncated": "truncated",
    "lost": "lost.records",
    "out_of_order": "order.out_of_order",
    "refused": "order.refused",
    **{name: f"ip.{name}" for name in FAMILIES.values()},
    **{name: f"protocols.{name}" for name in ("tcp", "udp", "icmp", "arp", "other")},
    "vlans": "vlans",
    "tunnels": "tunnels",
    "gaps": "gaps",
}
"""Columns of the CSV file, and the path of each in the document."""


def _cell(tree: Any, path: str) -> Any:
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    if path == "gaps":
        return " ".join(f"{gap['start']['iso']}+{gap['length']['text']}" for gap in tree or ())
    if isinstance(tree, Mapping):
        return " ".join(f"{name}={count}" for name, count in tree.items())
    if isinstance(tree, list):
        return " ".join(f"{next(iter(entry.values()))}={entry['packets']}" for entry in tree)
    return str(tree).lower() if isinstance(tree, bool) else tree
