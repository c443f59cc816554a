"""What a high stage is told and what it answers: settings, results, statistics.

Read by `replay` and the command line; pure data.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class HighSettings:
    """How the high stage replays; none of it changes rows.

    Attributes:
        tick: ns of virtual time: what comes out, comes at a multiple of it.
        most_rows: rows that the slices of a micro-batch read, about.
        slice_rows: rows of a slice, about.
        concurrency: output queries that run at once.
    """

    tick: int = 900_000_000_000
    most_rows: int = 2_000_000
    slice_rows: int = 250_000
    concurrency: int = 2


@dataclass(frozen=True)
class OperatorCounts:
    """Rows that one operator took and gave, over everything that was read (SEMANTICS A1).

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
    """The outcome of one output query.

    Attributes:
        files: parquet files of rows and punctuation; the ticks of the rows say what comes before what.
        rows: owned data rows in them.
        punctuation: punctuation rows in them.
        seconds: wall time.
        batches: slices that were evaluated, all parts of the plan together.
        operators: counts of the observed operators.
        state_rows: greatest number of rows that a slice read, with the rows and groups that it left to the next.
    """

    files: list[str] = field(default_factory=list)
    rows: int = 0
    punctuation: int = 0
    seconds: float = 0.0
    batches: int = 0
    operators: list[OperatorCounts] = field(default_factory=list)
    state_rows: int = 0
