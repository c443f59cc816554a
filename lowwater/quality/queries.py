"""The measures of one output query: its stream as the high stage left it, and as it is now.

Between `streams/` and `measures`; the rows that break a rule are kept beside the counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowwater.quality.streams import Broken, StreamCheck


@dataclass(frozen=True)
class Made:
    """What the high stage said of the stream that it wrote.

    Attributes:
        rows: data rows.
        fingerprint: the fingerprint of its files.
    """

    rows: int
    fingerprint: str


@dataclass(frozen=True)
class QueryMeasures:
    """What an audit knows of one output query.

    Attributes:
        query: its name.
        links: that it reads.
        key: the columns of its unique key; None where it has none.
        made: what the high stage said.
        fingerprint: the fingerprint of the files as they are now; empty where one cannot be read.
        stream: the rows held against the law.
        shared: rows that share their key; `keys` says how many keys do.
        keys: how many keys have several rows.
    """

    query: str
    links: Sequence[str]
    key: Sequence[str] | None
    made: Made
    fingerprint: str
    stream: StreamCheck
    shared: Broken
    keys: int

    @property
    def broken(self) -> Mapping[str, Broken]:
        """The rows that break a rule, by the measure that counts them."""
        found = {"not_owned": self.stream.not_owned, "below_promise": self.stream.below_promise}
        return {**found, "duplicate_keys": self.shared}

    def measures(self) -> dict[str, Any]:
        """The columns of the frame that are about the stream."""
        return {
            "rows": self.stream.rows,
            "made": self.made.rows,
            "changed": int(self.fingerprint != self.made.fingerprint),
            "not_owned": self.stream.not_owned.total,
            "below_promise": self.stream.below_promise.total,
            "duplicate_keys": self.keys,
            "keys": ", ".join(self.key) if self.key else "none",
            "open_ns": self.stream.open_ns,
            "columns": self.stream.columns,
            "example": next((_text(each.rows[0]) for each in self.broken.values() if each.rows), ""),
        }


def _text(row: Mapping[str, Any]) -> str:
    """A row in one line.

    Example:
        >>> _text({"tb": 7, "srcIP": None, "_last": 70})
        'tb=7, srcIP=NULL, _last=70'
    """
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in row.items())
