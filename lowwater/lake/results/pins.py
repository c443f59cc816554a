"""Pins: which versions of the tables of a query set belong together, so that readers see an interval wholly or not.

Each table changes atomically, the tables of a set one after another. Each commit says which publication of the whole
set it belongs to, so the logs of the tables tell whether their newest versions belong together (docs/adr/0154).
`pins/<set>.json` has the result for readers without Lowwater.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import PurePath

from lowwater.documents import json_value
from lowwater.errors import BusyError, LakeError
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.intervals import merged
from lowwater.lake.locks import hold
from lowwater.lake.results import published
from lowwater.lake.tables import safe_name
from lowwater.limits import PUBLISH_WAIT, STATE_BYTES
from lowwater.storage import locks, paths
from lowwater.storage.failures import hint_in_lake

VERSION = 2
"""Version of the format of the file; 1 had no digests."""


@dataclass(frozen=True)
class Pins:
    """The versions of the tables of a query set that belong together."""

    query_set: str
    tables: Mapping[str, int]  # query -> version of its table; empty where no such versions are known
    # query -> digest of the commit of this version: after a restore another commit may have its number
    digests: Mapping[str, str] = field(default_factory=dict)
    # ranges that the newest versions do not have wholly, ns since the epoch; older ones are pinned
    unfinished: tuple[published.Range, ...] = ()
    at: int = 0  # when these versions were pinned, ns since the epoch; 0 for never

    def text(self) -> str:
        values = {"version": VERSION, "query_set": self.query_set, "tables": dict(self.tables)}
        values |= {"digests": dict(self.digests), "unfinished": self.unfinished, "at": self.at}
        return json.dumps(values, indent=1)


def pins_file(lake: Lake, query_set: str) -> PurePath:
    """File of the lake with the pins of a query set."""
    return lake.root / "pins" / f"{safe_name(query_set)}.json"


def pinned(lake: Lake, query_set: str, queries: Iterable[str] = ()) -> Pins | None:
    """Returns the pins of a query set, as the logs of its tables have them; None where nothing is published. Without
    its output queries its tables are those that it owns.
    Raises LakeError if a table cannot be read."""
    return _derived(lake, query_set, queries, stored_pins(lake, query_set))


def _derived(lake: Lake, query_set: str, queries: Iterable[str], stored: Pins | None) -> Pins | None:
    """Returns the pins as the logs have them, given what the file has."""
    names = [*queries] or [*(stored.tables if stored else ()), *tables_by_owner(lake).get(query_set, ())]
    found = {name: published.table_state(lake.table(name)) for name in dict.fromkeys(names)}
    states = {name: state for name, state in found.items() if state is not None}
    if not any(state.pieces or state.names or state.note for state in states.values()):
        return stored
    open_ranges = published.unfinished([*states.values()])
    if stored is not None and not any(state.pieces for state in states.values()):
        open_ranges += stored.unfinished  # of an older version of Lowwater, whose commits do not tell
    if not open_ranges and len(states) == len(found):
        tables = {name: state.version for name, state in states.items()}
        digests = {name: state.digest for name, state in states.items()}
        same = stored is not None and (stored.tables, stored.digests) == (tables, digests)
        return Pins(query_set, tables, digests, (), stored.at if stored is not None and same else time.time_ns())
    kept = stored is not None and all(
        name in states and _is_there(states[name], version, stored.digests.get(name, ""))
        for name, version in stored.tables.items()
    )
    if stored is None or not kept:
        return Pins(query_set, {}, {}, tuple(merged(open_ranges)))
    return Pins(query_set, stored.tables, stored.digests, tuple(merged(open_ranges)), stored.at)


def _is_there(state: published.TableState, version: int, digest: str) -> bool:
    """Whether a version is one of the history of a table."""
    if version > state.version:
        return False
    found = published.commit_digest(state.path, version)
    return found == digest if digest else bool(found)


def stored_pins(lake: Lake, query_set: str) -> Pins | None:
    """Reads the file of pins, which readers of others have; None without one that holds pins: the logs tell.
    Raises LakeError if it cannot be read."""
    try:
        return _parsed(query_set, paths.read(pins_file(lake, query_set), STATE_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        file, hint = pins_file(lake, query_set), "check that the lake can be read"
        raise LakeError(f"{file}: cannot be read: {error.strerror}", hint) from None


def _parsed(query_set: str, text: bytes) -> Pins | None:
    """Reads the content of the file; None if it is not what this version writes."""
    try:
        values = json_value(text)
        tables = {str(name): int(version) for name, version in values["tables"].items()}
        digests = {str(name): str(digest) for name, digest in values.get("digests", {}).items()}
        ranges = tuple((int(start), int(end)) for start, end in values["unfinished"])
        return Pins(query_set, tables, digests, ranges, int(values["at"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def tables_by_owner(lake: Lake) -> dict[str, list[str]]:
    """Lists the tables of each query set, by the names of their folders."""
    owned: dict[str, list[str]] = defaultdict(list)
    for path in paths.folders(lake.root / "tables"):
        state = published.table_state(path)
        if state is not None and state.owner:
            owned[state.owner].append(path.name)
    return owned


@contextmanager
def publishing(lake: Lake, query_set: str, queries: Sequence[str]) -> Iterator[published.Act]:
    """Publishes an interval into the tables of a set; afterwards their versions are pinned together.

    Publications of a set exclude each other here: a version of a table must not hold a part of another interval.
    Raises BusyError if another publication of the set takes too long, and LakeError if a table cannot be read, or the
    pins cannot be written."""
    with hold(lake, f"publication of {query_set}", PUBLISH_WAIT, [lake.table(query) for query in queries]) as fence:
        yield published.Act.begin(len(queries))
        _write(lake, query_set, queries, fence)


def pin(lake: Lake, query_set: str, queries: Sequence[str] = ()) -> Pins | None:
    """Writes the pins of a query set as the logs have them, unless a publication is at work, which does so.
    Raises LakeError if a table cannot be read, or the pins cannot be written."""
    stored = stored_pins(lake, query_set)
    pins = _derived(lake, query_set, queries, stored)
    if pins is not None and pins != stored:
        with suppress(BusyError), hold(lake, f"publication of {query_set}") as fence:
            return _write(lake, query_set, queries, fence)
    return pins


def _write(lake: Lake, query_set: str, queries: Sequence[str], fence: locks.Fence | None) -> Pins | None:
    file, pins = pins_file(lake, query_set), None

    def change(before: bytes | None) -> bytes | None:
        nonlocal pins
        stored = None if before is None else _parsed(query_set, before)
        pins = _derived(lake, query_set, queries, stored)
        return before if pins is None or pins == stored else pins.text().encode()

    try:
        paths.revise(file, change, fence)
    except locks.LostError:
        raise BusyError(f"{query_set}: another process has taken the publication over", "run it again") from None
    except OSError as error:
        raise LakeError(f"{file}: cannot be written: {error.strerror}", hint_in_lake(error)) from None
    return pins
