"""The measures of one output query: its stream now, compared with the record of the high stage.

The checks of `stream_checks` and `unique_keys` fill them; `measures` puts them into a frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowwater.quality.outputs.stream_checks import BrokenRows, StreamCheck


@dataclass(frozen=True)
class WrittenStream:
    """What the high stage recorded about the stream that it wrote.

    Attributes:
        rows: data rows.
        fingerprint: the fingerprint of its files.
    """

    rows: int
    fingerprint: str


@dataclass(frozen=True)
class QueryMeasures:
    """The measures of one output query over an interval.

    Attributes:
        query: name of the query.
        links: links that the query reads.
        key: columns of the unique key; None without one.
        written: the record of the high stage.
        fingerprint: fingerprint of the files now; empty where a file cannot be read.
        stream: result of the checks that hold for every stream.
        shared: rows whose key is not unique.
        keys: number of keys with several rows.
        damage: why the table does not have what was published of the interval before; empty if it has.
    """

    query: str
    links: Sequence[str]
    key: Sequence[str] | None
    written: WrittenStream
    fingerprint: str
    stream: StreamCheck
    shared: BrokenRows
    keys: int
    damage: str = ""

    @property
    def broken(self) -> Mapping[str, BrokenRows]:
        """Rows that break a rule, by the name of the measure."""
        rules = {"not_owned": self.stream.not_owned, "below_promise": self.stream.below_promise}
        return {**rules, "duplicate_keys": self.shared}

    def measures(self) -> dict[str, Any]:
        """The columns of the frame `queries` about the stream."""
        return {
            "rows": self.stream.rows,
            "made": self.written.rows,
            # Other rows are other files, which is said once.
            "changed": int(self.fingerprint != self.written.fingerprint and self.stream.rows == self.written.rows),
            "not_owned": self.stream.not_owned.total,
            "below_promise": self.stream.below_promise.total,
            "duplicate_keys": self.keys,
            "keys": ", ".join(self.key) if self.key else "none",
            "open_ns": self.stream.open_ns,
            "columns": self.stream.columns,
            "damage": self.damage,
            "example": next((_row_text(value.rows[0]) for value in self.broken.values() if value.rows), ""),
        }


def _row_text(row: Mapping[str, Any]) -> str:
    """A row as one line of text.

    Example:
        >>> _row_text({"tb": 7, "srcIP": None, "_last": 70})
        'tb=7, srcIP=NULL, _last=70'
    """
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in row.items())
