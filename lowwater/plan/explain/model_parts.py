"""Columns, promises and windows of EXPLAIN: the parts of the classes in `model`.

`model` imports this module.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """The temporal property of a column.

    Attributes:
        direction: `increasing` or `decreasing`.
        steps: the computations of the value from the clock (ns) as GSQL, such as `clock/1000000000/60`. The promise is
            the least of their results; for a decreasing column the greatest.
        origin: the attribute at the start of the steps, if it is no function of the clock.
    """

    direction: str
    steps: tuple[str, ...]
    origin: str = ""


@dataclass(frozen=True)
class ColumnInfo:
    """A column of a stream.

    Attributes:
        name: name of the column.
        type: bool, int, float, ip, mac or string.
        progress: the temporal property; null for a column without progress.
    """

    name: str
    type: str
    progress: Progress | None = None


@dataclass(frozen=True)
class Named:
    """An expression with the name of its output column.

    Attributes:
        name: name of the output column.
        expression: the expression as GSQL.
    """

    name: str
    expression: str


@dataclass(frozen=True)
class PunctuationInfo:
    """The promises of an operator.

    Attributes:
        columns: the promised columns, in order; empty if only the clock of the operator makes progress.
        joint: whether one punctuation row promises all columns together.
        reason: why the operator promises these columns.
        groupwise: columns with separate promises for their values.
    """

    columns: tuple[str, ...]
    joint: bool
    reason: str
    groupwise: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """The match condition of a join.

    Attributes:
        kind: `equality` or `band`.
        condition: the condition of the match window as GSQL.
        left_promise: the promise of joined rows for the left attribute, computed from the promises of both sides (P4).
        right_promise: the promise of joined rows for the right attribute (P4).
        equalities: the further equalities; NULL equals NULL.
        residual: the further condition over both rows.
    """

    kind: str
    condition: str
    left_promise: str
    right_promise: str
    equalities: tuple[str, ...] = ()
    residual: str = ""


@dataclass(frozen=True)
class Sliding:
    """A sliding window.

    Attributes:
        attribute: the attribute that the window slides over.
        range: length of the window, in units of the attribute.
        slide: distance between the starts of two windows, in units of the attribute.
        rows: whether the attribute counts rows.
        partition: columns of the partition; every partition counts its rows separately.
        counted: condition of the rows that are counted; empty for all rows.
    """

    attribute: str
    range: int
    slide: int
    rows: bool = False
    partition: tuple[str, ...] = ()
    counted: str = ""
