"""Columns of a sample. Below the modules that make them."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.capture.tables.sniffing.kinds import Kind

MOST_COLUMNS = 1000
"""Most columns of a proposal; access functions count as far."""


@dataclass(frozen=True)
class Column:
    """A column that can be read.

    Attributes:
        name: its name in the file; empty without one.
        position: its number in the file, from 1; None in JSON.
        path: names that lead to it; empty without a name.
        kind: its type.
        rises: whether it holds integers that never fall, at least two of them different.
        absent: records of the sample that are not among the values of its type, since they have none.
    """

    name: str
    position: int | None
    path: tuple[str, ...]
    kind: Kind
    rises: bool = False
    absent: int = 0

    @property
    def label(self) -> str:
        """Its name for messages."""
        return self.name or f"column {self.position}"


@dataclass
class SniffedColumns:
    """The columns of a sample.

    Attributes:
        columns: those that can be read.
        records: number of records of the sample.
        left_out: column that cannot be read -> why.
    """

    columns: list[Column] = field(default_factory=list)
    records: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
