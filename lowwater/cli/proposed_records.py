"""Settings of a proposed link of records that are no packets, and what `init` could not decide about them.

Beside `proposals`, which writes all settings of a link.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from lowwater.capture.tables.delimited import TextOptions
from lowwater.lake.files.logs import LogProposal
from lowwater.lake.files.proposal import LinkProposal
from lowwater.lake.files.protocols import RecordProposal
from lowwater.terminal import shown

SCHEMA = ".schema"
"""Suffix of a file with the PROTOCOL block of a link."""

SCHEMA_HEAD = """\
// How the records of this link are read, proposed from a sample of its files: read it through.
// docs/language/protocols.md describes every word. After a change, ingest the files again.
"""


def commented(setting: str, comment: str) -> str:
    """Returns a line of settings with a comment."""
    return f"{setting:<36} # {comment}"


def toml_text(value: str) -> str:
    """Returns a TOML string; the escapes of JSON are valid in TOML."""
    return json.dumps(value, ensure_ascii=True)


def record_settings(link: LinkProposal, schema: str) -> list[str]:
    """Returns the lines of settings that say how the records of a link are read.

    Args:
        link: the link.
        schema: file of its PROTOCOL block, relative to the settings.
    """
    assert link.records is not None
    if isinstance(link.records, LogProposal):
        return [*_log_settings(link.records), *(f"# {line}" for line in _malformed(link))]
    plain, text = TextOptions(), link.records.text
    lines = [
        f'kind = "{link.records.options.kind}"',
        commented(f"schemas = {toml_text(schema)}", f"its clock is {link.records.clock}, in {link.records.table.unit}"),
    ]
    if text.separator != plain.separator:
        lines.append(f"separator = {toml_text(text.separator)}")
    if text.quote != plain.quote:
        lines.append(commented(f"quote = {toml_text(text.quote)}", "" if text.quote else "values are never quoted"))
    if text.header is not None:
        lines.append(f"header = {str(text.header).lower()}")
    if text.null != plain.null:
        lines.append(commented(f"null = {json.dumps(text.null)}", "texts that stand for no value"))
    return [*lines, *(f"# {line}" for line in _malformed(link))]


def _log_settings(proposal: LogProposal) -> list[str]:
    """Returns the lines of settings that name the ready protocol of a log."""
    return [
        f'kind = "{proposal.log.kind}"',
        commented(f'protocol = "{proposal.protocol}"', "its columns: docs/logs.md"),
        *(f"# {line}" for line in undecided(proposal)),
    ]


def _malformed(link: LinkProposal) -> Iterator[str]:
    counts: dict[str, int] = {}
    for interface in link.interfaces:
        for reason, count in interface.malformed.items():
            counts[reason] = counts.get(reason, 0) + count
    if counts:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items()))
        yield shown(f"{sum(counts.values()):,} of its records are malformed: {reasons}").replace("\n", " ")


def undecided(records: RecordProposal | LogProposal) -> Iterator[str]:
    """Says what init could not decide about the records of a link, a line for each question."""
    if isinstance(records, LogProposal):
        if records.log.others:
            others = ", ".join(records.log.others)
            yield f"its files hold records of {others} as well: another link with the same captures reads them"
        return
    table = records.table
    if table.guessed:
        yield f"the unit of {records.clock} is a guess: its values are near no instant of today"
    empty = [proposed.name for proposed in records.fields if proposed.column.kind.empty]
    if empty:
        yield f"no value in the sample tells the type of {', '.join(empty)}"
    for name, why in list(table.left_out.items())[:10]:
        yield f"left out: {shown(name)}: {why}"
    if len(table.left_out) > 10:
        yield f"and {len(table.left_out) - 10:,} more columns"
    for name, count in records.refused.items():
        yield f"{count:,} values of {name} are of another type: their records are malformed"
