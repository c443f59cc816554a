"""What `lowwater inspect` shows of files of records that are no packets: form, columns, clock, times, disorder, damage.

Beside `captures`, which shows captures. The columns are those that `lowwater init` would propose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from lowwater.capture.inspect import QUANTILES, CaptureFacts, InterfaceFacts
from lowwater.capture.reader import digest
from lowwater.capture.records.lateness import GAPS
from lowwater.capture.tables.reader import inspect_records
from lowwater.capture.tables.sniffing.tables import sniff
from lowwater.catalog.logs import CLOCK
from lowwater.cli.inspection.values import (
    counts_text,
    duration_text,
    duration_twice,
    file_entry,
    gap_texts,
    gaps,
    instant_text,
    instant_twice,
    order,
    rate_text,
)
from lowwater.errors import CaptureError
from lowwater.instants import format_duration
from lowwater.lake.files.logs import LogProposal, propose_log
from lowwater.lake.files.protocols import RecordProposal, propose_protocol
from lowwater.terminal import styled

_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".log", ".parquet")


@dataclass(frozen=True)
class TableFacts:
    """Facts of a file of records.

    Attributes:
        facts: its bytes, times and order.
        proposal: how its records were read: by a proposed protocol, or by the ready one of a log.
        max_jump: how far ahead of its neighbours a timestamp may be, ns.
    """

    facts: CaptureFacts
    proposal: RecordProposal | LogProposal
    max_jump: int

    @property
    def records(self) -> InterfaceFacts:
        """Facts of the records."""
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

    Args:
        path: path of the file.
        max_jump: how far ahead of its neighbours a timestamp may be, ns.
        skew: disorder that is admitted, ns.
        progress: called after each batch with the number of records so far.
        given: whether the user gave max_jump; else the disorder of the sample is added to it.

    Raises:
        CaptureError: the file cannot be read, is no table, or has no clock.
    """
    log = propose_log(path)
    if log is not None:
        jump = max_jump if given else max_jump + log.ahead
        return TableFacts(inspect_records(path, log.options, jump, skew, progress, digest(path)), log, jump)
    table = sniff(path)
    try:
        proposal = propose_protocol(table, path.name.partition(".")[0])
    except CaptureError as error:
        raise CaptureError(f"{path}: {error.message}", error.hint) from error
    assert table.clock is not None
    found = table.disorders.get(table.clock)
    jump = max_jump if given or found is None else max_jump + found.largest
    return TableFacts(inspect_records(path, proposal.options, jump, skew, progress, digest(path)), proposal, jump)


def table_sheet(table: TableFacts, skew: int) -> Table:
    """Formats a file with a line for each fact, and the protocol of its records."""
    sheet = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, text in {**_file_lines(table), **_record_lines(table.records, skew)}.items():
        sheet.add_row(name, styled(text, fold=True))
    whole = Table.grid()
    whole.add_row(sheet)
    if isinstance(table.proposal, LogProposal):
        return whole
    whole.add_row(styled(table.proposal.block, fold=True))
    return whole


def _file_lines(table: TableFacts) -> dict[str, str]:
    facts, summary = table.facts, table.facts.summary
    packed = f", unpacked {summary.unpacked:,}" if summary.compression else ""
    parts = f"records {summary.record_bytes:,} + malformed {facts.malformed_bytes:,} + overhead {summary.overhead:,}"
    return {
        "file": str(facts.path),
        "format": f"{summary.format} {summary.compression}".strip(),
        **_form_lines(table),
        "sha256": summary.sha256,
        "bytes": f"{summary.bytes:,}{packed}" + ("" if summary.format == "parquet" else f": {parts}"),
        "end": "ends where a record ends" if summary.ended_cleanly else f"damaged {summary.damage}".strip(),
    }


def _form_lines(table: TableFacts) -> dict[str, str]:
    """Returns how a text is written, or by which protocol a log is read, and its records of other types."""
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
    return {"text": form + nulls}


def _record_lines(facts: InterfaceFacts, skew: int) -> dict[str, str]:
    late, summary = facts.lateness, facts.summary
    lines = {
        "records": f"{facts.packets:,}",
        "malformed": counts_text(facts.malformed.items()),
        "first": instant_text(summary.first if summary else None),
        "last": instant_text(summary.last if summary else None),
        "duration": duration_text(facts.duration),
        "rate": f"{rate_text(facts.rate(facts.packets))} records/s",
        "out of order": f"{late.late:,}",
        "lateness": ", ".join(f"{100 * share:g} % {duration_text(late.quantile(share))}" for share in QUANTILES),
        "skew that admits all": duration_text(late.largest if facts.packets else None),
        f"refused by {format_duration(skew)}": f"{late.refused:,}",
    }
    return lines | {f"gap {number}": text for number, text in enumerate(gap_texts(facts)[:GAPS], 1)}


def table_document(table: TableFacts) -> dict[str, Any]:
    """Builds the entry of the JSON document for a file of records."""
    records, totals = table.records, table.records.summary
    return {
        **file_entry(table.facts),
        **_described(table),
        "max_jump": duration_twice(table.max_jump),
        "records": records.packets,
        "malformed": dict(sorted(records.malformed.items())),
        **{
            name: instant_twice(getattr(totals, name) if totals else None)
            for name in ("first", "last", "smallest", "largest")
        },
        "duration": duration_twice(records.duration),
        "records_per_second": records.rate(records.packets),
        "order": order(records),
        "gaps": gaps(records),
    }


def _described(table: TableFacts) -> dict[str, Any]:
    """Builds the part of the entry that says how the records of a file are read."""
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
    form = {
        "separator": text.separator,
        "quote": text.quote,
        "header": bool(proposal.table.text.header),
        "null": [*text.null],
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


def as_interface(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entry of a file without interfaces under the names that the columns of the CSV have."""
    if "records" not in entry:
        return {}
    return {**entry, "packets": entry["records"], "packets_per_second": entry["records_per_second"]}
