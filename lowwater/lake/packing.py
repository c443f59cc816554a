"""Joins what lies between the stages, of days that are over: one file a day and stream (docs/adr/0207).

A stream has two files an hour, which were audited byte for byte. They lie in the file of a day as they are, so an audit
or a publication that is made once more finds them; who replaces an hour takes it out (`results.streams`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path, PurePath
from urllib.parse import unquote

from lowwater import limits
from lowwater.errors import BusyError
from lowwater.instants import DAY
from lowwater.lake import footers, tables, upkeep
from lowwater.lake.layout import Lake
from lowwater.lake.locks import hold_range
from lowwater.lake.results import streams
from lowwater.storage import paths

OLD = 2 * DAY
"""So far behind the end of a day something is published, once its streams are joined: late files come within days."""
AT_ONCE = 31
"""Days that are joined under one lock of their range."""

Span = tuple[int, int]


def old_days(spans: Iterable[Span]) -> dict[int, list[str]]:
    """Day -> labels of the closed intervals in it, of those of a query set; ns.

    Example:
        >>> {day // DAY: len(labels) for day, labels in old_days([(0, 5), (5, 9), (4 * DAY, 5 * DAY)]).items()}
        {0: 2}
    """
    days: dict[int, list[str]] = defaultdict(list)
    closed = sorted(spans)
    newest = max((end for _, end in closed), default=0)
    for start, end in closed:
        day = start // DAY * DAY
        if end <= day + DAY and end - start < DAY and day + DAY + OLD <= newest:
            days[day].append(tables.interval_label(start, end))
    return days


def pack(lake: Lake, query_set: str, path: PurePath, days: Mapping[int, Sequence[str]]) -> Iterator[tuple[int, int]]:
    """Joins the files of a stream day by day; yields the number of files that went into others, and their bytes. Days
    in which a run is at work are left to the next time. Days are those of `old_days`.
    Raises LakeError if a file is damaged, or the table cannot be written."""
    found = due(path, days)
    for _, some in groupby(enumerate(sorted(found)), lambda each: each[0] // AT_ONCE):
        together = [day for _, day in some]
        with suppress(BusyError), hold_range(lake, query_set, together[0], together[-1] + DAY) as fence:
            tables.fence_off([path], fence)
            yield _packed(replace(lake, fence=fence), path, {day: days[day] for day in together})


def due(path: PurePath, days: Mapping[int, Sequence[str]]) -> dict[int, list[tuple[str, int]]]:
    """Day -> path and size of the files of a stream that go into that of the day: where there are several, and together
    they are no larger than a file is to be. Others are few for their bytes."""
    if not isinstance(path, Path):  # a look into the file of a day would take all of it from a store
        return {}
    day_of = {label: day for day, labels in days.items() for label in labels}
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for row in streams.rows_of(tables.open_table(path)):
        if streams.is_of_day(row):
            span = tables.label_bounds(row["partition.interval"])
            day = None if span is None else span[0]
        else:
            day = day_of.get(row["partition.interval"])
        if day is not None and day in days:
            found[day].append((row["path"], row["size_bytes"]))
    return {
        day: files
        for day, files in found.items()
        if len(files) > 1 and not all(_is_of_day(name) for name, _ in files)
        if sum(size for _, size in files) <= limits.JOINED_FILE_BYTES
    }


def _is_of_day(name: str) -> bool:
    return streams.is_of_day({"path": name})


def _packed(lake: Lake, path: PurePath, days: Mapping[int, Sequence[str]]) -> tuple[int, int]:
    joins, gone, size = list[upkeep.Join](), list[PurePath](), 0
    with tables.lake_errors(f"{path}: its files cannot be joined"):
        for day, files in due(path, days).items():
            tables.require_room(path, sum(count for _, count in files))
            label = tables.interval_label(day, day + DAY)
            contents: dict[bytes, dict[tuple[str, str], bytes]] = defaultdict(dict)
            names: dict[bytes, set[str]] = defaultdict(set)
            for name, count in files:
                for key, data in _contents(path, name):
                    form = footers.form(data)
                    contents[form][key] = data
                    names[form].add(name)
                size += count
            for form, whole in contents.items():
                if not all(map(_is_of_day, names[form])):
                    file = streams.write_day(path, label, dict(sorted(whole.items())))
                    joins.append(upkeep.Join(frozenset(names[form]), file))
                    gone += [path / unquote(name) for name in names[form]]
    if joins and upkeep.commit_joins(path, joins, lake.fence):
        with tables.lake_errors(f"{path}: cannot be cleaned"):
            paths.remove(*(file for file in gone if _is_of_day(file.name)))
            for folder in {file.parent for file in gone if not _is_of_day(file.name)}:
                paths.remove_tree(folder)  # of an interval, on which nobody is at work
    return len(gone), size


def _contents(path: PurePath, name: str) -> Iterator[tuple[tuple[str, str], bytes]]:
    """Yields what a file of an interval, or of a day, adds to that of the day."""
    file = paths.local(path / unquote(name))  # what is damaged gets no new digest
    if _is_of_day(name):
        members = streams.members_of(path, name)
        yield from zip(members, footers.content(file, [*members.values()]), strict=True)
    else:
        label = PurePath(unquote(name)).parent.name.removeprefix("interval=")
        yield (label, file.name), file.read_bytes()
