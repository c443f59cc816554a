"""Columns that files of records lack: of a protocol, where the file has others that nobody knows.

A tool that calls a column otherwise from one day on leaves NULL in the rows of its old name. Ingest writes both names
into the ledger; an interval whose queries read such a column is not plainly done.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

from lowwater.catalog.expr import columns_of
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.plan.operators import Lfta

SHOWN = 3
"""Most files and columns that a text names."""


def fields_read(lftas: Sequence[Lfta], link: str) -> set[str]:
    """Returns the fields of the protocol of a link that LFTAs read."""
    fields: set[str] = set()
    for lfta in lftas:
        if link in lfta.links and lfta.layout is not None:
            items = [item.expr for item in lfta.keys]
            columns = columns_of(lfta.member, lfta.predicate, *items, *(part.argument for part in lfta.partials))
            fields |= {field.name for field in lfta.layout.fields if field.stored in columns}
    return fields


def absent_words(capture: Capture, fields: Collection[str] | None = None) -> str:
    """Returns the columns that a file lacks, and those that nobody knows, as a text; empty if it lacks none.

    Args:
        capture: the row of the file.
        fields: the fields that matter; None for all.
    """
    lacking = [name for name in capture.absent_fields if fields is None or name in fields]
    if not lacking:
        return ""
    unknown = capture.unknown_columns
    # A column that has got another name is most like the new one.
    lacking.sort(key=lambda name: -max(SequenceMatcher(None, name, other).ratio() for other in unknown))
    verb = "is a column" if len(unknown) == 1 else "are columns"
    return f"has no {_few(lacking)}, and {_few(unknown)} {verb} that no field reads"


def absent_texts(link: str, captures: Sequence[Capture], fields: Collection[str], start: int, end: int) -> list[str]:
    """Returns a line for the files of a link that lack fields which are read; empty for none.

    Args:
        link: the link, for the text.
        captures: its captures.
        fields: the fields that are read.
        start: first timestamp that is read, ns since the epoch.
        end: end of what is read, ns since the epoch, exclusive.
    """
    if not fields:
        return []
    ordered = Captures.of(captures)
    found = [(ordered[at], words) for at in ordered.meeting(start, end) if (words := absent_words(ordered[at], fields))]
    if not found:
        return []
    (first, words), *others = found
    more = f", like {len(others):,} more" if others else ""
    return [f"link {link!r}: {first.path} {words}{more}: NULL where a query reads it"]


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
