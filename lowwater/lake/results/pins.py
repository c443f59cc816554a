"""Pins: which versions of the tables of a query set belong together, so that readers see an interval wholly or not.

Each table changes atomically, the tables of a set one after another. A publication says in `pins/<set>.json` first that
it has begun; once its last table is committed, the newest versions are pinned. While the publication of an interval is
unfinished, since its process died, the pins stay where they were.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath

from lowwater.documents import LARGEST_STATE, json_value
from lowwater.errors import BusyError, LakeError
from lowwater.lake.layout import Lake
from lowwater.lake.locks import hold
from lowwater.lake.results.published_log import Range, joined, last_note, ledger_ranges
from lowwater.lake.tables import lake_errors, open_table, safe_name
from lowwater.storage import paths
from lowwater.storage.leases import Fence, LostError

WAIT = 600.0
"""Most seconds to wait for another publication of the set, which copies files and commits."""

VERSION = 1
"""Version of the format of the file."""


_WAITING = re.compile(r"\.json\.[0-9]+$")
"""Ends the name of a file that is being written."""


@dataclass(frozen=True)
class Pins:
    """The versions of the tables of a query set that belong together.

    Attributes:
        query_set: name of the query set.
        tables: query -> version of its table; empty as long as no interval was published wholly.
        unfinished: ranges whose publication began and has not ended, ns since the epoch; no other version is pinned
            meanwhile.
        at: when these versions were pinned, ns since the epoch; 0 for never.
    """

    query_set: str
    tables: Mapping[str, int]
    unfinished: tuple[Range, ...] = ()
    at: int = 0

    def text(self) -> str:
        """The content of the file."""
        values = {"version": VERSION, "query_set": self.query_set, "tables": dict(self.tables)}
        return json.dumps({**values, "unfinished": self.unfinished, "at": self.at}, indent=1)


def pins_file(lake: Lake, query_set: str) -> PurePath:
    """File of the lake with the pins of a query set."""
    return lake.root / "pins" / f"{safe_name(query_set)}.json"


def pinned(lake: Lake, query_set: str) -> Pins | None:
    """Reads the pins of a query set; None if nothing was published since there are pins.

    Raises:
        LakeError: the file cannot be read.
    """
    return _read(pins_file(lake, query_set))


def _read(file: PurePath) -> Pins | None:
    try:
        values = json_value(paths.read(file, LARGEST_STATE))
        tables = {str(name): int(version) for name, version in values["tables"].items()}
        unfinished = tuple((int(start), int(end)) for start, end in values["unfinished"])
        return Pins(str(values["query_set"]), tables, unfinished, int(values["at"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "it holds no pins"
        hint = "remove the file: the next publication of the set makes it again"
        raise LakeError(f"{file}: cannot be read: {reason}", hint) from None


def all_pins(lake: Lake) -> list[Pins]:
    """Reads the pins of every query set of a lake.

    Raises:
        LakeError: a file cannot be read, or something else lies between them.
    """
    files = [path for path in paths.children(lake.root / "pins") if not _WAITING.search(path.name)]
    for path in files:
        if path.suffix != ".json" or not paths.has_file(path):
            raise LakeError(f"{path}: is no file of pins", "remove it: there is one file NAME.json for each query set")
    return [pins for file in sorted(files) if (pins := _read(file)) is not None]


@contextmanager
def publishing(lake: Lake, query_set: str, queries: Sequence[str], start: int, end: int) -> Iterator[None]:
    """Publishes an interval into the tables of a set; afterwards their versions are pinned together.

    Publications of a set exclude each other here: a version of a table must not hold a part of another interval.

    Args:
        lake: the open lake.
        query_set: owner of the tables.
        queries: every output query of the set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.

    Raises:
        BusyError: another publication of the set takes too long.
        LakeError: the pins cannot be read or written.
    """
    with hold(lake, f"publication of {query_set}", WAIT) as fence:
        before = pinned(lake, query_set) or _first(lake, query_set, queries)
        found = _versions(lake, queries)
        _write(lake, replace(before, unfinished=joined([*before.unfinished, (start, end)])), fence)
        try:
            yield
        except BaseException:
            if _versions(lake, queries) == found:  # nothing was committed, so nothing is unfinished
                _write(lake, before, fence)
            raise
        unfinished = without(before.unfinished, (start, end))
        pins = replace(before, unfinished=unfinished)
        if not unfinished:
            pins = Pins(query_set, _versions(lake, queries), (), time.time_ns())
        _write(lake, pins, fence)


def without(ranges: Iterable[Range], cut: Range) -> tuple[Range, ...]:
    """Returns ranges without another one.

    Example:
        >>> without([(0, 10), (20, 30)], (5, 25))
        ((0, 5), (25, 30))
    """
    rest = [part for start, end in ranges for part in ((start, min(end, cut[0])), (max(start, cut[1]), end))]
    return tuple((start, end) for start, end in rest if start < end)


def _first(lake: Lake, query_set: str, queries: Sequence[str]) -> Pins:
    """Makes the pins of a set that an older version published: what only some of its tables have is unfinished."""
    published: list[tuple[Range, ...]] = []
    for query in queries:
        table = open_table(lake.table(query))
        note = None if table is None else last_note(lake.table(query), table.version())
        published.append(joined(note.ranges if note else ledger_ranges(lake, query_set, query)))
    union = joined(each for ranges in published for each in ranges)
    unfinished: list[Range] = []
    for ranges in published:
        lacking = union
        for each in ranges:
            lacking = without(lacking, each)
        unfinished += lacking
    tables = {} if unfinished or not union else _versions(lake, queries)
    return Pins(query_set, tables, joined(unfinished), time.time_ns() if tables else 0)


def _versions(lake: Lake, queries: Sequence[str]) -> dict[str, int]:
    opened = {query: open_table(lake.table(query)) for query in queries}
    with lake_errors(f"{lake.root / 'tables'}: the tables cannot be read"):
        return {query: table.version() for query, table in opened.items() if table is not None}


def _write(lake: Lake, pins: Pins, fence: Fence | None) -> None:
    file = pins_file(lake, pins.query_set)
    try:
        if fence is not None:
            fence.require()
        paths.write(file, pins.text().encode())
    except LostError:
        raise BusyError(f"{pins.query_set}: another process has taken the publication over", "run it again") from None
    except OSError as error:
        raise LakeError(f"{file}: cannot be written: {error.strerror}", "check that the lake is writable") from None
