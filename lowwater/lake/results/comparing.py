"""Compares two versions of a published table over a range of time: rows added, gone and changed, by the unique key.

For `lowwater diff` and its page. Rows are compared hour by hour, so the memory is that of an hour at both versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake.results.exploring import LAST, ResultTable, Wish

MOST_ROWS = 5_000_000
"""Most rows of an hour that are compared."""

Row = tuple[Any, ...]


@dataclass
class TableDiff:
    """The difference of two versions.

    Attributes:
        columns: columns of both versions, in the order of the later one.
        key: columns that name a row; empty where whole rows are compared.
        same: number of equal rows.
        added: number of rows of the later version only.
        gone: number of rows of the earlier version only.
        changed: number of keys whose other columns differ.
        examples: (`added`, `gone` or `changed`; row before; row after), the first ones of each hour.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    same: int = 0
    added: int = 0
    gone: int = 0
    changed: int = 0
    examples: list[tuple[str, Row | None, Row | None]] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether both versions have the same rows."""
        return not (self.added or self.gone or self.changed)


def compare(
    before: ResultTable, after: ResultTable, key: Sequence[str], start: int, end: int, most: int = 100
) -> TableDiff:
    """Compares the rows with `_last` in [start, end), ns, of two versions of a table.

    Args:
        before: the table at the earlier version.
        after: the table at the later version.
        key: columns of the unique key; rows with a key that occurs twice are compared as wholes.
        start: first instant, ns since the epoch.
        end: end of the instants, ns, exclusive.
        most: most examples.

    Raises:
        LakeError: an hour has too many rows, or a table cannot be read.
    """
    columns = tuple(dict.fromkeys([*after.columns.names, *before.columns.names]))
    names = tuple(name for name in key if name in before.columns.names and name in after.columns.names)
    diff = TableDiff(columns, names if len(names) == len(key) else ())
    hours = sorted({hour for table in (before, after) for hour in table.hours(Wish(start, end))})
    for hour in hours:
        wish = Wish(max(start, hour * HOUR), min(end, (hour + 1) * HOUR))
        _compare_hour(diff, _rows(before, wish, columns), _rows(after, wish, columns), most)
    return diff


def _rows(table: ResultTable, wish: Wish, columns: Sequence[str]) -> Counter[Row]:
    if table.count(wish) > MOST_ROWS:
        raise LakeError(f"table {table.query}: an hour has more than {MOST_ROWS:,} rows", "compare shorter ranges")
    rows: Counter[Row] = Counter()
    absent = [name for name in columns if name not in table.columns.names]
    for batch in table.batches(wish):
        values = {name: batch.column(name).to_pylist() for name in batch.schema.names if name != LAST}
        values |= {name: [None] * batch.num_rows for name in absent}
        rows.update(zip(*(values[name] for name in columns), strict=True))
    return rows


def _compare_hour(diff: TableDiff, before: Counter[Row], after: Counter[Row], most: int) -> None:
    diff.same += (before & after).total()
    gone, added = before - after, after - before
    places = [diff.columns.index(name) for name in diff.key]
    if places:
        old, new = _by_key(gone, places), _by_key(added, places)
        for name in sorted(old.keys() & new.keys(), key=repr):
            if len(old[name]) == len(new[name]) == 1:
                diff.changed += 1
                _keep(diff, most, "changed", old[name][0], new[name][0])
                gone[old[name][0]] -= 1
                added[new[name][0]] -= 1
    for kind, rows in (("gone", gone), ("added", added)):
        total = rows.total()
        diff.gone += total if kind == "gone" else 0
        diff.added += total if kind == "added" else 0
        for row in sorted(rows.elements(), key=repr)[:most]:
            _keep(diff, most, kind, *((row, None) if kind == "gone" else (None, row)))


def _by_key(rows: Counter[Row], places: Sequence[int]) -> dict[Row, list[Row]]:
    result: dict[Row, list[Row]] = {}
    for row in rows.elements():
        result.setdefault(tuple(row[place] for place in places), []).append(row)
    return result


def _keep(diff: TableDiff, most: int, kind: str, before: Row | None, after: Row | None) -> None:
    if len(diff.examples) < most:
        diff.examples.append((kind, before, after))
