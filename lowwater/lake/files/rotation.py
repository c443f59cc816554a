"""The files of a link by the pattern of its settings: what each covers, and which an interval needs.

Used by ingest, and by whoever schedules it.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from zoneinfo import ZoneInfo

from lowwater.config import Link, section_of
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND
from lowwater.plan.temporal import END_OF_TIME

_FIELDS = {"Y": r"\d{4}", "m": r"\d\d", "d": r"\d\d", "H": r"\d\d", "M": r"\d\d", "S": r"\d\d", "s": r"\d+"}
_LEAST = {"Y": 1970, "m": 1, "d": 1, "H": 0, "M": 0, "S": 0}
DAY = 24 * HOUR
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _pieces(pattern: str) -> list[str]:
    pieces = re.findall(r"%.|[*?]|[^%*?]+|%$", pattern)
    for piece in pieces:
        if piece[0] == "%" and piece[1:] not in (*_FIELDS, "%"):
            raise ConfigError(
                f"captures = {pattern!r}: unknown field {piece!r}",
                f"% itself is %%; known are %{', %'.join(_FIELDS)}",
            )
    return pieces


def _regex(pattern: str) -> re.Pattern[str]:
    text, seen = "", set[str]()
    for piece in _pieces(pattern):
        if piece[0] == "%" and piece != "%%":
            name = piece[1]
            text += f"(?P=f{name})" if name in seen else f"(?P<f{name}>{_FIELDS[name]})"
            seen.add(name)
        else:
            text += {"*": "[^/]*", "?": "[^/]", "%%": "%"}.get(piece) or re.escape(piece)
    return re.compile(text)


def declared_coverage(link: Link, path: Path) -> tuple[int, int] | None:
    """What the settings of a link say that a file covers, [from, to) in ns; None where they say nothing.

    By `covers`, of which the first pattern counts that the name of the file meets, else by the pattern of its files and
    the rotation. Of that pattern the name alone is compared where its folder has no field: files may be ingested from
    elsewhere.
    """
    if (key := covers_key(link, path)) is not None:
        return link.covers[key]
    if link.captures is None or link.rotation is None:
        return None
    found = _regex(link.captures).fullmatch(str(path.absolute()))
    folder, _, name = link.captures.rpartition("/")
    if found is None and "%" not in folder:
        found = _regex(name).fullmatch(path.name)
    if found is None:
        return None
    parts = {key[1]: int(value) for key, value in found.groupdict().items()}
    if "s" in parts:
        return parts["s"] * SECOND, parts["s"] * SECOND + link.rotation
    try:
        year, month, day, hour, minute, second = (parts.get(key, least) for key, least in _LEAST.items())
        moment = datetime(year, month, day, hour, minute, second, tzinfo=ZoneInfo(link.timezone))
        # A day of a zone may have 23 or 25 hours; an hour is an hour.
        days, rest = divmod(link.rotation, DAY)
        end = _instant(moment + timedelta(days=days)) if not rest else _instant(moment) + link.rotation
    except (ValueError, OverflowError):  # digits that are no date, such as month 13
        return None
    return _instant(moment), end


def covers_key(link: Link, path: Path) -> str | None:
    """The key of the link's `covers` that says what a file covers: the first that its name fits; None without one."""
    return next((key for key in link.covers if fnmatchcase(path.name, key)), None)


def idle_keys(name: str, link: Link, ingested: Iterable[Path]) -> list[str]:
    """A line for each key of the `covers` of a link that fits no file: neither of its pattern nor one ingested."""
    paths = [*files_of(link, 0, END_OF_TIME)] if link.captures is not None else []
    names = {path.name for path in (*paths, *ingested)}
    where = section_of(name, "covers")
    return [
        f"{where}: no file of link {name!r} fits {key!r}, so the line says nothing: {_why_idle(key, names)}"
        for key in link.covers
        if not any(fnmatchcase(each, key) for each in names)
    ]


def _why_idle(key: str, names: Iterable[str]) -> str:
    if "/" in key:
        return "write the name of the file, without its folder"
    if "[" in key and any(fnmatchcase(each, _literal(key)) for each in names):
        return f"[...] stands for one character of a set; write {_literal(key)!r} for brackets in the name"
    near = get_close_matches(key, sorted(names), 1)
    return f"is it {near[0]!r}?" if near else "write the name of a file, * for any characters"


def _literal(key: str) -> str:
    """A pattern in which brackets stand for themselves."""
    return key.replace("[", "[[]")


def _instant(moment: datetime) -> int:
    """ns since the epoch; of an hour that a zone has twice, the first."""
    since = moment.astimezone(UTC) - _EPOCH
    return (since.days * 86400 + since.seconds) * SECOND


def files_of(link: Link, start: int, end: int) -> list[Path]:
    """The files on disk that the pattern declares to meet [start, end), ns, in order of their start.

    Without rotation nothing is declared, so every file of the pattern is given.

    Raises:
        ConfigError: if the link has no pattern, or an unknown field in it.
    """
    if link.captures is None:
        raise ConfigError("the link has no pattern of its files", "set captures in its section of lowwater.toml")
    wild = "".join("*" if p[0] == "%" and p != "%%" else p.replace("%%", "%") for p in _pieces(link.captures))
    found = []
    for name in glob.glob(wild):
        coverage = declared_coverage(link, Path(name))
        if coverage is None and link.rotation is None:
            found.append((0, name))
        elif coverage is not None and coverage[0] < end and coverage[1] > start:
            found.append((coverage[0], name))
    return [Path(name) for _, name in sorted(found)]
