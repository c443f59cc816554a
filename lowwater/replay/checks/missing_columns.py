"""Finds columns that a query reads but none of its links stores: payloads, and fields of applications.

`run`, `check` and the pages tell the user. Where a link does not store a column, its files do not have it, and it reads
as NULL (`docs/packets.md`), which would otherwise look like a result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow.parquet as pq

from lowwater.catalog.packets import FRAME, HEAD, KEPT, UNNAMED
from lowwater.config import section_of
from lowwater.errors import LakeError
from lowwater.low import needed_columns
from lowwater.plan.operators import Lfta
from lowwater.replay.stages.engines import LowInputs


def optional_columns(lftas: Sequence[Lfta]) -> set[str]:
    """The columns that LFTAs read and only some links store."""
    return {name for name in needed_columns(lftas) if name in KEPT.names}


def applications_of(columns: set[str]) -> list[str]:
    """The applications, as named in the settings, whose fields are among optional columns."""
    return sorted({name.partition("_")[0] for name in columns.difference(UNNAMED)})


def missing_column_notes(inputs: LowInputs) -> tuple[str, ...]:
    """A note for each LFTA that reads optional columns stored by none of its links; links without packets do not count.

    Raises:
        LakeError: a file of packets cannot be read.
    """
    notes: dict[str, None] = {}
    for lfta in inputs.plan.lftas:
        needed = optional_columns([lfta]) - {HEAD}
        stored = [names for link in lfta.links if (names := _stored(inputs, link)) is not None] if needed else []
        if stored and not needed & set().union(*stored):
            notes.update(dict.fromkeys(_lines(lfta.links, needed)))
    return tuple(notes)


def _stored(inputs: LowInputs, link: str) -> set[str] | None:
    """All columns that the files of a link have; None without files."""
    starts = (inputs.lfta_starts[lfta.name] for lfta in inputs.plan.lftas if link in lfta.links)
    read = inputs.read(link, min(starts))
    files = [file.path for capture in read.captures for file in capture.files]
    try:
        return {name for path in files for name in pq.read_schema(path).names} if files else None
    except OSError as error:
        raise LakeError(f"packets of link {link!r} cannot be read: {error}", "run the interval again") from error


def _lines(links: tuple[str, ...], needed: set[str]) -> Iterator[str]:
    names = ", ".join(links)
    verb = "keeps" if len(links) == 1 else "keep"
    fields = applications_of(needed)
    named = " or ".join(name.upper() for name in fields)
    for columns, is_read, setting in (
        ("payload", FRAME in needed, 'payload = "all"'),
        (f"field of {named}", bool(fields), f"applications = {json.dumps(fields)}"),
    ):
        if is_read:
            yield (
                f"note: link {names} {verb} no {columns}, so it is NULL: "
                f"write {setting} in {section_of(links[0])} and ingest the captures again"
            )
