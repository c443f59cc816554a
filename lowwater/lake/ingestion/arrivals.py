"""New files of the links' patterns, and files that have changed since they were ingested.

Runs before ingest: by hand, by `ingest --watch`, and in the DAG. Ingest would find the same by reading every file; here
names, sizes and times decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.tables.reader import TableOptions
from lowwater.config import FILE_NAME, Config, Link
from lowwater.errors import ConfigError
from lowwater.lake.files.rotation import declared_coverage, files_of
from lowwater.lake.ingestion.record_options import record_options
from lowwater.lake.ingestion.replacement import LedgerFile, LedgerFiles, lies_there
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.seen import ASIDE, key_of, told_files
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage.captures import capture_path

SETTLED = 2_000_000_000
"""Least time (ns) from the last write of a file to its ingest, since file system clocks are coarse."""


@dataclass(frozen=True)
class Arrivals:
    """The files of a link's pattern.

    Attributes:
        pattern: patterns in the settings, as text.
        new: files to ingest, in order.
        unchanged: files that are in the lake as they are.
        aside: number of files that somebody set aside.
    """

    pattern: str
    new: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    aside: int = 0


def arrivals(
    lake: Lake, config: Config, link: str | None = None, start: int | None = None, end: int | None = None
) -> dict[str, Arrivals]:
    """Finds the files of every link with a pattern, or of one link.

    Args:
        lake: the lake.
        config: settings of the lake.
        link: the only link to look at; None for all.
        start: begin of a range, ns since the epoch; only files with declared coverage in it count. None for all.
        end: end of the range, ns, exclusive; None for all.

    Raises:
        ConfigError: if no link has a pattern.
    """
    files = pattern_files(config, link, start, end)
    if not files:
        which = "no link has" if link is None else f"link {link!r} does not have"
        raise ConfigError(
            f"{which} a pattern of its files",
            f'write captures = "..." in [links.NAME] of {FILE_NAME}, let `lowwater init` propose it, or name the files',
        )
    return {name: _of_link(lake, config, name, paths) for name, paths in files.items()}


def pattern_files(
    config: Config, link: str | None = None, start: int | None = None, end: int | None = None
) -> dict[str, list[Path]]:
    """Lists the files of every link with a pattern, whether they are in the lake or not.

    Args:
        config: settings of the lake.
        link: the only link to look at; None for all.
        start: as of `arrivals`, ns since the epoch.
        end: as of `arrivals`, ns, exclusive.
    """
    names = [link] if link is not None else sorted(config.links)
    span = (start or 0, END_OF_TIME if end is None else end)
    return {
        name: [path for path in files_of(settings, *span) if path.is_file()]
        for name in names
        if (settings := config.link(name)).captures is not None
    }


def without_aside(lake: Lake, files: Sequence[Path]) -> list[Path]:
    """Leaves out the files that somebody set aside, as long as they have the size that they had then."""
    aside = {path: row.size for path, row in told_files(lake).items() if row.state == ASIDE}
    if not aside:
        return list(files)
    return [path for path in files if (key := key_of(lake, path)) not in aside or path.stat().st_size != aside[key]]


def _of_link(lake: Lake, config: Config, name: str, found: Sequence[Path]) -> Arrivals:
    settings = config.link(name)
    files = without_aside(lake, found)
    ledger_files = {
        capture_path(ledger_file.row.path).absolute(): ledger_file
        for ledger_file in LedgerFiles(lake, name, name.partition("/")[0]).all
    }
    for ledger_file in [file for file in ledger_files.values() if file.copies and lies_there(file)]:
        for path, copy in ledger_file.row.copied_to.items():
            rows = (replace(row, path=path, bytes=copy.bytes, ingested_at=copy.seen_at) for row in ledger_file.rows)
            ledger_files.setdefault(capture_path(path).absolute(), LedgerFile(tuple(rows)))
    options = record_options(config, name) or ContentOptions.of(settings)
    unchanged = {path for path in files if _unchanged(path, ledger_files.get(path.absolute()), settings, options)}
    assert settings.captures is not None
    return Arrivals(
        ", ".join(settings.captures),
        tuple(_without(files, unchanged)),
        tuple(path for path in files if path in unchanged),
        len(found) - len(files),
    )


def _without(files: Iterable[Path], unchanged: set[Path]) -> list[Path]:
    return [path for path in files if path not in unchanged]


def _unchanged(
    path: Path, ledger_file: LedgerFile | None, settings: Link, options: ContentOptions | TableOptions
) -> bool:
    """Whether the lake has a file as it is now, decoded as the settings want it."""
    if ledger_file is None or ledger_file.row.growing or not ledger_file.fits(settings, options):
        return False
    try:
        status = path.stat()
    except OSError:
        return False  # the ingest says what is wrong
    same = status.st_size == ledger_file.row.bytes and status.st_mtime_ns < ledger_file.row.ingested_at - SETTLED
    return same and ledger_file.declaring(declared_coverage(settings, path)) == ledger_file.row.declared
