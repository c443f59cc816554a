"""Files of a link by the pattern in its settings: coverage of each, and the files of an interval.

Used by ingest, and by its scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from lowwater.config import Link, section_of
from lowwater.errors import ConfigError
from lowwater.lake.files.patterns import NamedTime, named_time, regex_of, wildcard
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage.captures import captures_like


def declared_coverage(link: Link, path: Path) -> tuple[int, int] | None:
    """Returns the coverage [from, to), ns, of a file according to the settings of its link; None if they do not say.

    The first pattern of `covers` that fits the file name counts, else a pattern of the files, and there the end in the
    name before the rotation. Files whose names go on with a count (`%c`) share the coverage of their moment. If the
    folder in a pattern has no field, only the file name is compared: files may be ingested from elsewhere.
    """
    if (key := covers_key(link, path)) is not None:
        return link.covers[key]
    time = _time(link, path)
    end = time.until(link.rotation) if time is not None else None
    return (time.start, end) if time is not None and end is not None else None


def _time(link: Link, path: Path) -> NamedTime | None:
    """Returns what the name of a file says of its time, by the first pattern that fits."""
    matches = (_match(pattern, path) for pattern in link.captures or ())
    match = next((match for match in matches if match is not None), None)
    return named_time(match, link.timezone) if match is not None else None


def _match(pattern: str, path: Path) -> re.Match[str] | None:
    folder, _, name = pattern.rpartition("/")
    match = regex_of(pattern).fullmatch(str(path.absolute()))
    return regex_of(name).fullmatch(path.name) if match is None and "%" not in folder else match


def by_rotation(link: Link, path: Path) -> bool:
    """Whether the end of the coverage that the settings declare for a file is made up from the rotation (T5)."""
    time = _time(link, path)
    return covers_key(link, path) is None and link.rotation is not None and time is not None and time.end is None


def covers_key(link: Link, path: Path) -> str | None:
    """Returns the first key of the link's `covers` that fits the file name; None without one."""
    return next((key for key in link.covers if fnmatchcase(path.name, key)), None)


def idle_keys(name: str, link: Link, ingested: Iterable[Path]) -> list[str]:
    """Lists, with advice, the keys of a link's `covers` that fit no file of its pattern and no ingested file."""
    paths = [*files_of(link, 0, END_OF_TIME)] if link.captures is not None else []
    names = {path.name for path in (*paths, *ingested)}
    where = section_of(name, "covers")
    return [
        f"{where}: no file of link {name!r} fits {key!r}, so the line says nothing: {_why_idle(key, names)}"
        for key in link.covers
        if not any(fnmatchcase(path_name, key) for path_name in names)
    ]


def _why_idle(key: str, names: Iterable[str]) -> str:
    if "/" in key:
        return "write the name of the file, without its folder"
    if "[" in key and any(fnmatchcase(path_name, _literal(key)) for path_name in names):
        return f"[...] stands for one character of a set; write {_literal(key)!r} for brackets in the name"
    similar = get_close_matches(key, sorted(names), 1)
    return f"is it {similar[0]!r}?" if similar else "write the name of a file, * for any characters"


def _literal(key: str) -> str:
    """Escapes the brackets of a wildcard pattern."""
    return key.replace("[", "[[]")


def files_of(link: Link, start: int, end: int) -> list[Path]:
    """Lists the files whose pattern declares coverage in [start, end), ns, in order of their begin.

    Without a rotation, or an end in the names, nothing is declared, and all files of the pattern are listed.

    Raises:
        ConfigError: if the link has no pattern, or its pattern has an unknown field.
    """
    if link.captures is None:
        raise ConfigError("the link has no pattern of its files", "set captures in its section of lowwater.toml")
    dated = []
    found = (path for pattern in link.captures for path in captures_like(wildcard(pattern)) if _match(pattern, path))
    for path in dict.fromkeys(found):
        span = declared_coverage(link, path)
        if span is None and link.rotation is None:
            dated.append((0, str(path), path))
        elif span is not None and span[0] < end and span[1] > start:
            dated.append((span[0], str(path), path))
    return [path for *_, path in sorted(dated)]
