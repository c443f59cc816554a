"""Settings, results and statistics of the high stage.

`replay` and the command line read them; plain data.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class HighSettings:
    """Settings of the high stage; rows do not depend on them.

    Attributes:
        tick: time between ticks, ns of virtual time; rows and punctuation come at multiples of it.
        slice_rows: approximate number of rows of a slice.
        concurrency: number of output queries that run at once.
    """

    tick: int = 900_000_000_000
    slice_rows: int = 250_000
    concurrency: int = 2


@dataclass(frozen=True)
class OperatorCounts:
    """Row counts of one operator over all rows that were read (SEMANTICS A1).

    Attributes:
        query: the query that the operator belongs to.
        kind: filter, group, join or lookup.
        counts: by name: rows_in, rows_out, groups, left_unmatched, right_unmatched.
    """

    query: str
    kind: str
    counts: dict[str, int]


@dataclass
class HighResult:
    """The result of one output query.

    Attributes:
        files: parquet files of rows and punctuation; ticks define the order across files.
        rows: number of data rows that the interval owns.
        punctuation: number of punctuation rows.
        seconds: wall time, s.
        batches: number of slices evaluated, over all parts of the plan.
        operators: counts of the observed operators.
        state_rows: largest number of rows that a slice read, plus the rows and groups it left for the next.
    """

    files: list[str] = field(default_factory=list)
    rows: int = 0
    punctuation: int = 0
    seconds: float = 0.0
    batches: int = 0
    operators: list[OperatorCounts] = field(default_factory=list)
    state_rows: int = 0
