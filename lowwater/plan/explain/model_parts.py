"""What EXPLAIN says of columns, promises and windows: the parts of which `model` is made.

Below `model`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """The temporal property of a column.

    Attributes:
        direction: `increasing` or `decreasing`.
        steps: each way in which the value is made from the clock (ns), such as `clock / 1000000000 / 60`; the promise
            is the least of them (the greatest, of a decreasing column).
        origin: the attribute that the steps begin with where it is no function of the clock.
    """

    direction: str
    steps: tuple[str, ...]
    origin: str = ""


@dataclass(frozen=True)
class ColumnInfo:
    """A column of a stream.

    Attributes:
        name: the name of the column.
        type: bool, int, float, ip, mac or string.
        progress: its temporal property, where it has one.
    """

    name: str
    type: str
    progress: Progress | None = None


@dataclass(frozen=True)
class Named:
    """An expression with the name of the column that it makes.

    Attributes:
        name: the name of the column.
        expression: as GSQL.
    """

    name: str
    expression: str


@dataclass(frozen=True)
class PunctuationInfo:
    """What an operator promises.

    Attributes:
        columns: that it promises, in order; empty where only its clock makes progress.
        joint: whether the columns stand in one punctuation row together.
        reason: why so.
        groupwise: columns that tell groups apart which have promises of their own.
    """

    columns: tuple[str, ...]
    joint: bool
    reason: str
    groupwise: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """When two rows of a join meet.

    Attributes:
        kind: `equality` or `band`.
        condition: as GSQL.
        left_promise: what the joined rows promise of the left attribute (P4); `min` of the sides' promises.
        right_promise: the same of the right attribute.
        equalities: the further equalities, NULL equal to NULL.
        residual: what else must hold.
    """

    kind: str
    condition: str
    left_promise: str
    right_promise: str
    equalities: tuple[str, ...] = ()
    residual: str = ""


@dataclass(frozen=True)
class Sliding:
    """Sliding windows.

    Attributes:
        attribute: that the windows slide over.
        range: in units of the attribute.
        slide: in the same.
        rows: whether the attribute counts rows.
        partition: in each of which rows are counted apart.
    """

    attribute: str
    range: int
    slide: int
    rows: bool = False
    partition: tuple[str, ...] = ()
