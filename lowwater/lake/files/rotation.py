"""Files of a link by the pattern in its settings: coverage of each, and the files of an interval.

Used by ingest, and by its scheduler.
"""

from __future__ import annotations

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
from lowwater.storage.captures import captures_like

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
    """Returns the coverage [from, to), ns, of a file according to the settings of its link; None if they do not say.

    The first pattern of `covers` that fits the file name counts, else a pattern of the files and the rotation. If the
    folder in that pattern has no field, only the file name is compared: files may be ingested from elsewhere.
    """
    if (key := covers_key(link, path)) is not None:
        return link.covers[key]
    if link.captures is None or link.rotation is None:
        return None
    matches = (_match(pattern, path) for pattern in link.captures)
    match = next((match for match in matches if match is not None), None)
    if match is None:
        return None
    fields = {key[1]: int(value) for key, value in match.groupdict().items()}
    if "s" in fields:
        return fields["s"] * SECOND, fields["s"] * SECOND + link.rotation
    try:
        year, month, day, hour, minute, second = (fields.get(key, least) for key, least in _LEAST.items())
        moment = datetime(year, month, day, hour, minute, second, tzinfo=ZoneInfo(link.timezone))
        # A day of a time zone may have 23 or 25 hours; an hour always has 60 minutes.
        days, rest = divmod(link.rotation, DAY)
        end = _instant(moment + timedelta(days=days)) if not rest else _instant(moment) + link.rotation
    except (ValueError, OverflowError):  # digits that are no date, for example month 13
        return None
    return _instant(moment), end


def _match(pattern: str, path: Path) -> re.Match[str] | None:
    folder, _, name = pattern.rpartition("/")
    match = _regex(pattern).fullmatch(str(path.absolute()))
    return _regex(name).fullmatch(path.name) if match is None and "%" not in folder else match


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


def _instant(moment: datetime) -> int:
    """Converts a moment to ns since the epoch; of an hour that occurs twice in its time zone, the first counts."""
    since = moment.astimezone(UTC) - _EPOCH
    return (since.days * 86400 + since.seconds) * SECOND


def wildcard(pattern: str) -> str:
    """Returns the pattern of `glob` that names at least the files of a pattern of the settings."""
    return "".join("*" if p[0] == "%" and p != "%%" else p.replace("%%", "%") for p in _pieces(pattern))


def files_of(link: Link, start: int, end: int) -> list[Path]:
    """Lists the files whose pattern declares coverage in [start, end), ns, in order of their begin.

    Without a rotation nothing is declared, and all files of the pattern are listed.

    Raises:
        ConfigError: if the link has no pattern, or its pattern has an unknown field.
    """
    if link.captures is None:
        raise ConfigError("the link has no pattern of its files", "set captures in its section of lowwater.toml")
    dated = []
    for path in dict.fromkeys(path for pattern in link.captures for path in captures_like(wildcard(pattern))):
        coverage = declared_coverage(link, path)
        if coverage is None and link.rotation is None:
            dated.append((0, str(path), path))
        elif coverage is not None and coverage[0] < end and coverage[1] > start:
            dated.append((coverage[0], str(path), path))
    return [path for *_, path in sorted(dated)]
