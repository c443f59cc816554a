"""Where files lie that the lake has seen, and by which names its links know them (SEMANTICS T5, T9)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

from lowwater.config import Link
from lowwater.lake import layout
from lowwater.lake.files.patterns import dated_parts, divided, regex_of
from lowwater.storage.captures import capture_path, is_address
from lowwater.storage.object_paths import ObjectPath

# A file is known by its link and its name under the folder of the pattern that claims it, so that lake and captures may
# move, together or alone, and lie elsewhere on another machine.


def key_of(lake: layout.Lake, path: str | Path) -> str:
    """Returns the path by which the ledgers know a file. Where lake and file are on this machine it is relative to the
    lake, so that a move of both changes nothing. Bytes of a name that are no UTF-8 are escaped."""
    text = os.fspath(path)
    if not is_address(text):
        text = os.path.abspath(text)
        if not isinstance(lake.source, ObjectPath):
            text = os.path.relpath(text, _real(str(lake.source)))
    try:
        text.encode()
    except UnicodeEncodeError:
        return "not UTF-8: " + os.fsencode(text.replace("\\", "\\\\")).decode("utf-8", "backslashreplace")
    return text


def location(lake: layout.Lake, key: str) -> str:
    """Returns the absolute path, or the address, of a file of a ledger."""
    if is_address(key) or isinstance(lake.source, ObjectPath):
        return key
    return os.path.normpath(os.path.join(_real(str(lake.source)), key))


# The folder of a lake that is open does not become another one.
@cache
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def spellings(places: Iterable[str], real: Callable[[str], str] = os.path.realpath) -> Iterator[str]:
    """Yields absolute paths, or addresses, and the same ones with the links in their folders followed; a file that is a
    link stays itself."""
    for place in places:
        yield place
        if not is_address(place):
            folder, _, name = place.rpartition("/")
            yield f"{real(folder or '/').rstrip('/')}/{name}"


class FolderNames:
    """The names of the files of a link under the folders of its patterns: the part of each before the first field or
    wildcard."""

    def __init__(self, settings: Link) -> None:
        self._patterns = [(pattern, *divided(pattern)) for pattern in settings.patterns]

    @property
    def folders(self) -> list[tuple[str, str]]:
        """The folders, each once, with the first of their patterns."""
        return list({folder: (pattern, folder) for pattern, folder, _ in reversed(self._patterns)}.values())[::-1]

    def name(self, place: str, real: Callable[[str], str] | None = None) -> str:
        """Returns the name of a file under the folder of the first pattern that claims it, with the links of folders
        followed by `real`; empty where none does."""
        for pattern, folder, depth in self._patterns:
            own = _last(place, depth)
            if regex_of(pattern).fullmatch(place):
                return own
            if real is None or is_address(place) or not regex_of(pattern).fullmatch(f"{folder}/{own}"):
                continue
            if real(place[: -len(own) - 1]) == real(folder):
                return own
        return ""

    def moved(
        self, place: str, name: str | None, taken: Callable[[str], bool] = lambda place: False, unclaimed: bool = False
    ) -> str | None:
        """Returns where a file lies since the folders of the link are others; None if it is where it was, or unknown.

        `name` is its name at that time: empty if no pattern claimed it, None if an older ledger does not tell. Several
        folders may have the name. That counts whose own name is most like that of the old folder; of equal ones, that
        which has the file. An `unclaimed` file is one that no pattern claims, but lay in such a folder."""
        if name == "" or self.name(place):
            return None
        found: dict[str, int] = {}
        for pattern, folder, depth in self._patterns:
            own = _last(place, depth) if name is None else name
            target = f"{folder}/{own}"
            wanted = f"{pattern.rpartition('/')[0]}/*" if unclaimed else pattern
            before = place[: -len(own) - 1]
            if (
                place.endswith(f"/{own}")
                and regex_of(wanted).fullmatch(target)
                and not (taken(target) or _are_of_other_dates(before, folder))
            ):
                found[target] = _alike(before, folder)
        best = [target for target, like in found.items() if like == max(found.values())]
        if len(best) > 1:
            best = [target for target in best if is_there(target)]
        return best[0] if len(best) == 1 and best[0] != place else None


def is_there(place: str, size: int | None = None) -> bool:
    """Whether a file lies at a place, and is so long, if that is given."""
    try:
        return size in (None, capture_path(place).stat().st_size)
    except OSError:
        return False


def _last(place: str, depth: int) -> str:
    return "/".join(place.split("/")[-depth:])


def _are_of_other_dates(one: str, other: str) -> bool:
    """Whether two folders are beside each other and named by dates, as those of two months."""
    parts, others = one.split("/"), other.split("/")
    count = dated_parts(parts)
    return count > 0 and count == dated_parts(others) and parts[:-count] == others[:-count]


def _alike(one: str, other: str) -> int:
    """Returns how many last parts of two folders are equal."""
    pairs = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class Whereabouts:
    """Where the files of a link lie, whose folders may be others than when they were seen."""

    def __init__(self, lake: layout.Lake, settings: Link) -> None:
        self._lake, self._names = lake, FolderNames(settings)
        self._folders = [regex_of(pattern.rpartition("/")[0]) for pattern in settings.patterns]
        self._of_folder = cache(self._look)

    def _look(self, folder: str) -> tuple[str, bool]:
        """Returns where a folder of the ledger lies, and whether files in it may have moved."""
        place = location(self._lake, folder)
        return place, bool(self._folders) and not any(each.fullmatch(place) for each in self._folders)

    def __call__(self, key: str, name: str | None) -> str:
        """Returns where the file of a path lies, given its name under the folder of its pattern at that time."""
        folder, _, file = key.rpartition("/")
        if not folder:
            return location(self._lake, key)
        lies, may_move = self._of_folder(folder)
        place = f"{lies}/{file}"
        return (self._names.moved(place, name) or place) if may_move else place
