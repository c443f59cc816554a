"""Which files of the links' patterns are new, or have changed since they were ingested.

Before ingest, which would find the same by reading every file; here names, sizes and times decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lowwater.capture.content.retention import Keeping
from lowwater.config import FILE_NAME, Config, Link
from lowwater.errors import ConfigError
from lowwater.lake.files.rotation import declared_coverage, files_of
from lowwater.lake.ingestion.replacement import Files, Held
from lowwater.lake.layout import Lake
from lowwater.plan.temporal import END_OF_TIME

SETTLED = 2_000_000_000
"""How long before its ingest a file must have been written last (ns): the clocks of file systems are coarse."""


@dataclass(frozen=True)
class Arrivals:
    """The files of a link's pattern.

    Attributes:
        pattern: the pattern of the settings.
        new: to be ingested, in order.
        known: in the lake as they are.
    """

    pattern: str
    new: tuple[Path, ...]
    known: tuple[Path, ...]


def arrivals(
    lake: Lake, config: Config, link: str | None = None, start: int | None = None, end: int | None = None
) -> dict[str, Arrivals]:
    """The files of every link that has a pattern, or of one.

    Args:
        lake: the lake.
        config: the settings of the lake.
        link: the only one to look at.
        start: only files that are declared to cover something in [start, end), ns.
        end: the same.

    Raises:
        ConfigError: no link has a pattern.
    """
    names = [link] if link is not None else sorted(config.links)
    chosen = {name: config.link(name) for name in names}
    patterned = {name: each for name, each in chosen.items() if each.captures is not None and each.kind == "pcap"}
    if not patterned:
        which = "no link has" if link is None else f"link {link!r} does not have"
        raise ConfigError(
            f"{which} a pattern of its files",
            f'write captures = "..." in [links.NAME] of {FILE_NAME}, let `lowwater init` propose it, or name the files',
        )
    span = (start or 0, END_OF_TIME if end is None else end)
    return {name: _of_link(lake, name, each, span) for name, each in patterned.items()}


def _of_link(lake: Lake, name: str, settings: Link, span: tuple[int, int]) -> Arrivals:
    held = {Path(each.row.path).absolute(): each for each in Files(lake, name, name.partition("/")[0]).all}
    keeping = Keeping.of(settings)
    files = [path for path in files_of(settings, *span) if path.is_file()]
    known = {path for path in files if _unchanged(path, held.get(path.absolute()), settings, keeping)}
    assert settings.captures is not None
    return Arrivals(settings.captures, tuple(_without(files, known)), tuple(path for path in files if path in known))


def _without(files: Iterable[Path], known: set[Path]) -> list[Path]:
    return [path for path in files if path not in known]


def _unchanged(path: Path, held: Held | None, settings: Link, keeping: Keeping) -> bool:
    """Whether a file is in the lake as it is now, and would be read in the same way."""
    if held is None or held.row.growing or not held.fits(settings, keeping):
        return False
    status = path.stat()
    same = status.st_size == held.row.bytes and status.st_mtime_ns < held.row.ingested_at - SETTLED
    return same and held.declaring(declared_coverage(settings, path)) == held.row.declared
