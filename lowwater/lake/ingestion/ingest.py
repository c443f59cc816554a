"""Captures into the lake: surveyed and decoded by tasks, each file made visible by one commit of the ledger.

The first stage of the pipeline. Files of packets and malformed rows are committed under the name of an attempt, then
the rows of `captures` name that attempt, then what they replaced is removed: readers follow the ledger, so a crash
between any two commits shows either the old capture or the new one, and a retry clears the rest.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lowwater.config import FILE_NAME, LINK_NAME, Config, section_of
from lowwater.errors import ConfigError, LowwaterError, OverlapError
from lowwater.lake.files.rotation import declared_coverage
from lowwater.lake.ingestion.batch import Batch, Ingested
from lowwater.lake.ingestion.cleaning import clean
from lowwater.lake.ingestion.packing import pack
from lowwater.lake.ingestion.replacement import Coverage, Files
from lowwater.lake.ingestion.tasks import Runner, on_threads
from lowwater.lake.layout import Lake
from lowwater.lake.locks import hold
from lowwater.lake.tables import compact

__all__ = ["Ingested", "ingest"]

SHOWN = 10
"""Files that one message names."""

WAIT = 3600.0
"""Seconds to wait for another ingest of the same link: it may decode gigabytes first."""


def ingest(
    lake: Lake,
    link: str,
    files: Iterable[Path],
    config: Config,
    covers: Coverage | None = None,
    runner: Runner = on_threads,
    growing: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> list[Ingested]:
    """Ingests captures of one link; idempotent by (link, coverage, sha256).

    Equal bytes with packets are one capture of the link, whatever they are said to cover; an empty file is one for each
    coverage. A file whose records are there already under the same coverage, decoder and effective max_jump adds
    nothing. A new declaration of coverage for the same records replaces the old one; one that `covers` gave stands
    until `covers` gives another, also for a file that replaces the one it was given for. A file that begins with all
    bytes of another, or has its name and its time, replaces it.

    A file is still growing if it became longer while it was read, if it is now the time that it is declared to cover,
    or if `growing` says so: it covers up to its clock, until it is ingested again.

    Args:
        lake: as `open_lake` gives it.
        link: name of the link; the interfaces of a capture that has several are links below it (`link/name`).
        files: capture files.
        config: the settings of the lake.
        covers: declared coverage [from, to), ns, of the one file; otherwise the link's pattern and rotation say it.
        runner: runs the tasks.
        growing: the files are still being written.
        clock: now, ns.

    Returns:
        One entry a file, in order.

    Raises:
        ConfigError: if the link is not configured while others are, or `covers` is empty or given for several files.
        CaptureError: if files are no captures; the others are ingested nevertheless.
        OverlapError: if a capture overlaps another by more than the skew of the link (T1).
        LakeError: if the lake cannot be written.
    """
    if not re.fullmatch(LINK_NAME, link):
        raise ConfigError(
            f"{link!r} is no name of a link",
            "write a letter or '_', then letters, digits, '_', '.', '-', and '/' before an interface",
        )
    paths = [Path(path) for path in files]
    settings = config.link(link)
    if covers is not None and (len(paths) != 1 or covers[1] <= covers[0]):
        raise ConfigError(
            "--covers FROM/TO declares what one file covers, and TO is after FROM",
            f"write a line for each of several files in {section_of(link, 'covers')} of {FILE_NAME}",
        )
    family = link.partition("/")[0]
    # Held while decoding too: whatever the ledger does not name is then the leftover of a dead attempt.
    with hold(lake, f"ingest of {family}", WAIT):
        held = Files(lake, link, family)
        clean(lake, family, held.attempts)  # its room may be needed
        coverage = [covers or declared_coverage(settings, path) for path in paths]
        batch = Batch(held, settings, paths, coverage, growing, clock, covers is not None)
        for tasks in (batch.tasks(runner), batch.rest()):
            for result in runner(pack, tasks):
                batch.take(result)
        clean(lake, family, held.attempts)
        for table in (lake.captures, lake.malformed):
            compact(table)
    if batch.errors:
        _raise(batch.errors, len(paths))
    return [batch.found[index] for index in range(len(paths))]


def _raise(errors: list[LowwaterError], files: int) -> None:
    """Raises one error for all of them, each with its hint below it, that says what became of the other files."""
    if files == 1:
        raise errors[0]
    rest = "; the others are in the lake" if files > len(errors) else ""
    count = len(errors)
    *before, last = _together(errors)
    lines = [f"not ingested: {count} of {files} files{rest}", *(str(error) for error in before), last.message]
    raise type(last)("\n".join(lines), last.hint) from errors[0]


def _together(errors: Sequence[LowwaterError]) -> list[LowwaterError]:
    """The errors, those of captures that were taken at the same time as another one of their link as one."""
    beside = [error for error in errors if isinstance(error, OverlapError) and error.beside]
    if len(beside) < 2:
        return list(errors)
    first = beside[0]
    names = [f"  {error.path}" for error in beside[:SHOWN]]
    more = [f"  and {len(beside) - SHOWN:,} more"] if len(beside) > SHOWN else []
    said = (
        f"link {first.link!r}: {len(beside)} captures overlap in time with {first.other} or with one another, and look "
        "like captures of several links"
    )
    one = OverlapError("\n".join([said, *names, *more]), first.hint, first.link, first.path, first.other, True)
    return [*(error for error in errors if error not in beside), one]
