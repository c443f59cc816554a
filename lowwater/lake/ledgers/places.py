"""Where the ledgers say that files lie, and by which names the links know them (SEMANTICS T5, T9).

Both ledgers of files use it. A file is known by its link and its name under the folder of the pattern that claims it,
so that lake and captures may move, together or alone, and lie elsewhere on another machine.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

from lowwater.config import Link
from lowwater.lake.files.patterns import dated_parts, regex_of, wildcard
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture
from lowwater.storage.captures import capture_path, is_address
from lowwater.storage.object_paths import ObjectPath


def key_of(lake: Lake, path: str | Path) -> str:
    """Returns the path by which the ledgers know a file.

    Where lake and file are on this machine it is relative to the lake, so that a move of both changes nothing. Bytes of
    a name that are no UTF-8 are escaped.
    """
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


def location(lake: Lake, key: str) -> str:
    """Returns the absolute path, or the address, of a file of a ledger."""
    if is_address(key) or isinstance(lake.source, ObjectPath):
        return key
    return os.path.normpath(os.path.join(_real(str(lake.source)), key))


def places_of(lake: Lake, path: str, place: str | None) -> list[str]:
    """Returns where the file of a capture lay, as far as the ledger tells: by the folder of the lake, which may have
    been moved with it, or as it was named.

    Args:
        lake: the lake.
        path: path as given at ingest.
        place: path from the folder of the lake; None in an older ledger.
    """
    named = [] if place and not os.path.isabs(path) else [str(capture_path(path).absolute())]
    own = [location(lake, place)] if place else []
    return list(dict.fromkeys([*own, *named]))


# The folder of a lake that is open does not become another one.
@cache
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def spellings(places: Iterable[str], real: Callable[[str], str] = os.path.realpath) -> Iterator[str]:
    """Yields paths, and the same ones with the links in their folders followed; a file that is a link stays itself.

    Args:
        places: absolute paths, or addresses.
        real: follows the links of a folder.
    """
    for place in places:
        yield place
        if not is_address(place):
            folder, _, name = place.rpartition("/")
            yield f"{real(folder or '/').rstrip('/')}/{name}"


class FolderNames:
    """The names of the files of a link under the folders of its patterns.

    The folder of a pattern is its part before the first field or wildcard.

    Args:
        settings: settings of the link.
    """

    def __init__(self, settings: Link) -> None:
        self._patterns = [(pattern, *_divided(pattern)) for pattern in settings.captures or ()]

    @property
    def folders(self) -> list[tuple[str, str]]:
        """The folders, each once, with the first of their patterns."""
        return list({folder: (pattern, folder) for pattern, folder, _ in reversed(self._patterns)}.values())[::-1]

    def name(self, place: str, real: Callable[[str], str] | None = None) -> str:
        """Returns the name of a file under the folder of the first pattern that claims it; empty where none does.

        Args:
            place: its path, or its address.
            real: follows the links of folders; None to take them as they are.
        """
        for pattern, folder, depth in self._patterns:
            own = _last(place, depth)
            if regex_of(pattern).fullmatch(place):
                return own
            linked = real is not None and not is_address(place) and regex_of(pattern).fullmatch(f"{folder}/{own}")
            if linked and real is not None and real(place[: -len(own) - 1]) == real(folder):
                return own
        return ""

    def moved(
        self,
        place: str,
        name: str | None,
        taken: Callable[[str], bool] = lambda place: False,
        unclaimed: bool = False,
    ) -> str | None:
        """Returns where a file lies since the folders of the link are others; None if it is where it was, or unknown.

        Several folders may have the name. That counts whose own name is most like that of the old folder; of equal
        ones, that which has the file.

        Args:
            place: where it lay.
            name: its name at that time; empty if no pattern claimed it, None if an older ledger does not tell.
            taken: whether a place is known to be that of another file.
            unclaimed: whether it is one that no pattern claims, but lay in such a folder.
        """
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


def file_of(lake: Lake, settings: Link, capture: Capture) -> Path:
    """Returns the path of the file of a capture, where it lies now; its path at ingest where it is nowhere."""
    names, places = FolderNames(settings), places_of(lake, capture.path, capture.place)
    places += [target for place in places if (target := names.moved(place, capture.name)) is not None]
    found = next((place for place in places if is_there(place, capture.bytes)), None)
    return capture_path(capture.path if found is None else found)


def is_there(place: str, size: int | None = None) -> bool:
    """Whether a file lies at a place, and is so long, if that is given."""
    try:
        return size in (None, capture_path(place).stat().st_size)
    except OSError:
        return False


def _divided(pattern: str) -> tuple[str, int]:
    """Returns the folder of a pattern, and the number of its parts behind that."""
    parts = pattern.split("/")
    fixed = next((at for at, part in enumerate(parts[:-1]) if glob.has_magic(wildcard(part))), len(parts) - 1)
    return "/".join(wildcard(part) for part in parts[:fixed]), len(parts) - fixed


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
