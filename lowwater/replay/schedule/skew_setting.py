"""Changes the skew of a link in the settings of a lake, after it has said which intervals become stale.

`lowwater skew --set` and the review pages use it. All other lines of the settings stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path, PurePath

from lowwater.config import FILE_NAME, load_config, section_of
from lowwater.documents import toml_table
from lowwater.errors import ConfigError
from lowwater.instants import format_duration
from lowwater.lake.ledgers.intervals import STALE
from lowwater.lake.tables import lake_errors
from lowwater.replay.job import Job, TrialChanges
from lowwater.replay.schedule.due import Due, DueSelection, due
from lowwater.storage import paths

_SKEW = re.compile(r"""^(\s*skew\s*=\s*)(?:"[^"]*"|'[^']*'|\d+)""")


@dataclass(frozen=True)
class SkewChange:
    """A new skew of a link, before it is written.

    Attributes:
        link: section of the settings that has the skew: the link, or the link whose interface it is.
        before: skew in force, ns.
        after: new skew, ns.
        text: the settings with the new skew.
        written: the settings as they are.
        stale: published intervals that become stale, oldest first.
    """

    link: str
    before: int
    after: int
    text: str
    written: str
    query_sets: tuple[str, ...]
    stale: tuple[Due, ...]

    @property
    def effect(self) -> str:
        """What becomes stale, in words."""
        count = len(self.stale)
        return "1 published interval becomes stale" if count == 1 else f"{count:,} published intervals become stale"


def skew_change(root: PurePath, queries: Path, jobs: Iterable[Job], link: str, bound: int) -> SkewChange:
    """Computes what a new skew would do. Writes nothing.

    Args:
        bound: new skew, ns.

    Raises:
        ConfigError: the settings cannot be changed by a program, or a variable of the environment overrides them.
        LowwaterError: a query set cannot be planned with the new skew.
    """
    path = root / FILE_NAME
    with lake_errors(f"{path}: cannot be read"):
        written = paths.read(path).decode() if paths.exists(path) else ""
    config = load_config(root, text=written)
    section = link if link in config.links else link.partition("/")[0]
    before = config.link(link).skew
    text = with_skew(written, section, bound, str(path))
    changed = load_config(root, text=text)
    if changed.link(link).skew != bound:
        raise ConfigError(
            f"link {link!r}: a variable of the environment sets the skew, over {path}",
            f"change LOWWATER_LINKS__{section.upper()}__SKEW where it is set",
        )
    reading = [job for job in jobs if any(_is_of(name, section) for name in job.plan.links)]
    tried = TrialChanges(skews={section: bound})
    stale = [each for job in reading for each in _newly_stale(job, Job.open(root, job.query_set, queries, tried))]
    names = tuple(job.query_set for job in reading)
    stale.sort(key=lambda each: (each.start, each.query_set))
    return SkewChange(section, before, bound, text, written, names, tuple(stale))


def write_skew(root: PurePath, change: SkewChange) -> None:
    """Writes the settings with the new skew.

    Raises:
        ConfigError: somebody has changed the settings meanwhile.
        LakeError: they cannot be written.
    """
    path = root / FILE_NAME
    with lake_errors(f"{path}: cannot be written"):
        if (paths.read(path).decode() if paths.exists(path) else "") != change.written:
            raise ConfigError(f"{path}: was changed meanwhile", "look at the change again")
        paths.write(path, change.text.encode())


def with_skew(text: str, link: str, bound: int, where: str) -> str:
    """Puts a skew into the section of a link.

    Args:
        bound: the skew, ns.

    Raises:
        ConfigError: the section has another form than a header and lines, or there is none.

    Example:
        >>> with_skew('[links.a]\\nskew = "1s"  # measured\\n', "a", 2 * 10**9, "lowwater.toml")
        '[links.a]\\nskew = "2s"  # measured\\n'
    """
    wanted: dict[str, object] = {"links": {link: {}}}
    value = f'"{format_duration(bound)}"'
    lines, header, place = text.splitlines(keepends=True), None, None
    for at, line in enumerate(lines):
        if line.lstrip().startswith("["):
            if header is not None:
                break
            header = at if _parsed(line) == wanted else None
        elif header is not None and _SKEW.match(line):
            place = at
            break
    if place is not None:
        lines[place] = _SKEW.sub(lambda found: found[1] + value, lines[place])
    elif header is not None:
        lines[header] = lines[header].rstrip("\n") + "\n"
        lines.insert(header + 1, f"skew = {value}\n")
    changed, expected = "".join(lines), deepcopy(toml_table(text))
    expected.get("links", {}).get(link, {})["skew"] = value.strip('"')
    if header is None or _parsed(changed) != expected:
        raise ConfigError(
            f"{where}: the skew of link {link!r} is not in lines of a section {section_of(link)}",
            f"write skew = {value} into its section by hand",
        )
    return changed


def _parsed(text: str) -> dict[str, object] | None:
    try:
        return toml_table(text)
    except ValueError:
        return None


def _is_of(name: str, section: str) -> bool:
    return name == section or name.partition("/")[0] == section


def _newly_stale(before: Job, after: Job) -> list[Due]:
    """The intervals that are stale after a change of settings and were not before."""
    chosen = DueSelection(kinds=(STALE,))
    known = {(each.start, each.end) for each in due(before, chosen)}
    return [each for each in due(after, chosen) if (each.start, each.end) not in known]
