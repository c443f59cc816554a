"""What `lowwater inspect` does: facts of captures without a lake, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from lowwater.capture.headers.tunnels import NAMES
from lowwater.capture.inspect import QUANTILES, CaptureFacts, InterfaceFacts, inspect
from lowwater.capture.records.lateness import GAPS
from lowwater.capture.records.sanity import END_OF_TIME
from lowwater.cli.inspected import FAMILIES, Inspected, document, rows
from lowwater.errors import LowwaterError
from lowwater.instants import SECOND, format_duration, format_instant
from lowwater.replay.command.export import spreadsheet_cell
from lowwater.terminal import Terminal, open_console, say, styled

_COLUMNS_OF_A_SHEET = 4
"""Most interfaces that are shown side by side; more of them are shown one below the other."""

_UNBOUNDED = 10_000
"""Characters of a line that goes to a file: no fact and no name is folded."""

_LEAST_NAME = 24
"""Characters that a name has of a line of the list, at least."""


def inspect_files(files: Sequence[Path], form: str, max_jump: int | None, skew: int, spreadsheet: bool = False) -> bool:
    """Inspects captures one after the other and prints the facts of all; whether all of them could be read.

    Args:
        files: captures.
        form: `table`, `json` or `csv`.
        max_jump: how far ahead of its neighbours a timestamp may be, ns; None for skew + 60 s.
        skew: disorder that is admitted, ns.
        spreadsheet: whether texts of the CSV are made harmless to a spreadsheet.
    """
    skew = min(skew, END_OF_TIME)
    max_jump = min(skew + 60 * SECOND if max_jump is None else max_jump, END_OF_TIME)
    found = _inspect(files, max_jump, skew)
    if form == "json":
        say(json.dumps(document(found, max_jump, skew), indent=2))
    elif form == "csv":
        out = io.StringIO()
        lines = rows(found, max_jump, skew)
        if spreadsheet:
            lines = ([spreadsheet_cell(cell) for cell in line] for line in lines)
        csv.writer(out, lineterminator="\n").writerows(lines)
        say(out.getvalue(), nl=False)
    else:
        _show(found, skew)
    return all(each.error is None for each in found)


def _inspect(files: Sequence[Path], max_jump: int, skew: int) -> list[Inspected]:
    found: list[Inspected] = []
    with Terminal(stderr=True).working("inspecting") as working:
        for path in files:

            def progress(packets: int, name: str = path.name) -> None:
                working(f"inspecting {name}: {packets:,} packets")

            try:
                found.append(Inspected(path, inspect(path, max_jump, skew, progress)))
            except LowwaterError as error:
                found.append(Inspected(path, error=error))
    return found


def _show(found: Sequence[Inspected], skew: int) -> None:
    console = open_console()
    if not console.is_terminal:
        console.width = _UNBOUNDED
    facts = [each.facts for each in found if each.facts]
    interfaces = [(each, interface) for each in facts for interface in each.interfaces]
    if len(found) == 1 and 0 < len(interfaces) <= _COLUMNS_OF_A_SHEET:
        console.print(_sheet(facts[0], skew))
    elif interfaces:
        console.print(_list(interfaces))
    for each in found:
        if each.error:
            say(f"error: {each.error}", err=True)


def _sheet(facts: CaptureFacts, skew: int) -> Table:
    """One capture: a fact a line, an interface a column."""
    summary = facts.summary
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    packed = f", unpacked {summary.unpacked:,}" if summary.compression else ""
    state = "ends where a record ends" if summary.ended_cleanly else f"damaged {summary.damage}".strip()
    parts = f"records {summary.record_bytes:,} + malformed {facts.malformed_bytes:,} + overhead {summary.overhead:,}"
    lines = {
        "file": str(facts.path),
        "format": f"{summary.format} {summary.compression}".strip(),
        "sha256": summary.sha256,
        "bytes": f"{summary.bytes:,}{packed}: {parts}",
        "end": state,
    }
    for name, text in lines.items():
        table.add_row(name, styled(text, fold=True))
    columns = [_facts(each, skew) for each in facts.interfaces]
    body = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name in columns[0]:
        body.add_row(name, *(styled(column[name]) for column in columns))
    whole = Table.grid()
    whole.add_row(table)
    whole.add_row(body)
    return whole


def _facts(each: InterfaceFacts, skew: int) -> dict[str, str]:
    """The lines of one interface."""
    late, packets = each.lateness, each.packets
    quantiles = ", ".join(f"{100 * share:g} % {_duration(late.quantile(share))}" for share in QUANTILES)
    lines = {
        "interface": f"{each.interface.index} {each.interface.name}".strip(),
        "link type": f"{each.interface.link_type} ({each.interface.link_number})",
        "snaplen": f"{each.interface.snaplen:,}",
        "packets": f"{packets:,}",
        "malformed": _counts(each.malformed.items()),
        "first": _instant(each.summary.first if each.summary else None),
        "last": _instant(each.summary.last if each.summary else None),
        "duration": _duration(each.duration),
        "rate": f"{_rate(each.rate(packets))} packets/s, {_rate(each.rate(8 * each.wire))} bits/s on the wire",
        "bytes": f"{each.captured:,} captured, {each.wire:,} on the wire",
        "truncated": f"{each.truncated:,}",
        "out of order": f"{late.late:,}",
        "lateness": quantiles,
        "skew that admits all": _duration(late.largest if packets else None),
        f"refused by {format_duration(skew)}": f"{late.refused:,}",
    }
    gaps = [f"{_duration(length)} from {_instant(start)}" for start, length in each.gaps.longest()]
    for number in range(GAPS):
        lines[f"gap {number + 1}"] = gaps[number] if number < len(gaps) else "-"
    undecoded = each.summary.undecoded if each.summary else 0
    families = [(name, each.families[version]) for version, name in FAMILIES.items()]
    return lines | {
        "ip": _shares([*families, ("neither", undecoded)], packets),
        "protocols": _shares(each.protocols.most_common(), packets),
        "vlans": _shares(((str(vlan), count) for vlan, count in each.vlans.most_common(8)), packets),
        "tunnels": _shares(((NAMES[number], count) for number, count in each.tunnels.most_common(8)), packets),
    }


def _list(interfaces: Iterable[tuple[CaptureFacts, InterfaceFacts]]) -> Table:
    """Several captures: an interface a line."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("format", "link type"):
        table.add_column(name, no_wrap=True)
    for name in ("packets", "first", "duration", "packets/s", "bits/s", "truncated", "late", "by at most", "refused"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("malformed")
    table.add_column("file", overflow="fold", min_width=_LEAST_NAME)
    for facts, each in interfaces:
        late, summary = each.lateness, facts.summary
        cells = [
            f"{summary.format} {summary.compression}".strip(),
            each.interface.link_type,
            f"{each.packets:,}",
            _instant(each.summary.first if each.summary else None)[:19],
            _duration(each.duration),
            _rate(each.rate(each.packets)),
            _rate(each.rate(8 * each.wire)),
            f"{each.truncated:,}",
            f"{late.late:,}",
            _duration(late.largest if each.packets else None),
            f"{late.refused:,}",
            _counts(each.malformed.items()),
            f"{facts.path.name} {each.interface.name}".strip(),
        ]
        table.add_row(*(styled(cell) for cell in cells))
    return table


def _instant(value: int | None) -> str:
    return "-" if value is None else format_instant(value)


def _duration(value: int | None) -> str:
    """A duration in the unit in which it has one to three digits before the point, as far as there is one."""
    if value is None:
        return "-"
    for size, unit in ((3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")):
        if value >= size:
            return f"{value / size:,.6g} {unit}"
    return f"{value} ns" if value else "0 s"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def _shares(counts: Iterable[tuple[str, int]], packets: int) -> str:
    return ", ".join(f"{name} {count:,} ({count / packets:.2%})" for name, count in counts if count) or "-"


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts)) or "0"
