"""What a high stage is told and what it answers: settings, results, statistics.

Read by `replay` and the command line; pure data.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class HighSettings:
    """How the high stage replays; none of it changes rows.

    Attributes:
        tick: ns of virtual time; the boundaries between micro-batches are multiples of it.
        batch_rows: rows that a query reads before it gets another boundary: each costs as much time as it saves memory.
        max_batches: greatest number of boundaries of that kind.
        most_rows: rows of a micro-batch, but for what one tick brings: beyond, there are as many boundaries as that
            takes, so that state does not grow with the length of the interval.
        interpreted_rows: up to so many rows Spark interprets the queries of a run, on one partition: to compile them
            takes longer than they run.
        slice_rows: rows of a slice, about.
        concurrency: output queries that run at once.
        partitions: of every shuffle and state store.
    """

    tick: int = 900_000_000_000
    batch_rows: int = 250_000
    max_batches: int = 4
    most_rows: int = 2_000_000
    interpreted_rows: int = 20_000
    slice_rows: int = 250_000
    concurrency: int = 2
    partitions: int = 2

    def boundaries(self, rows: int) -> int:
        """How many boundaries a query may have that reads so many rows.

        Example:
            >>> settings = HighSettings(batch_rows=10, most_rows=100)
            >>> [settings.boundaries(rows) for rows in (0, 10, 11, 400, 1000)]
            [1, 1, 2, 4, 10]
        """
        return max(1, min(self.max_batches, -(-rows // self.batch_rows)), -(-rows // self.most_rows))


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
        batches: micro-batches that ran, all parts of the plan together.
        operators: counts of the observed operators.
        late: rows that Spark dropped as late: with any, the result is not complete.
        state_rows: greatest number of rows that operators of Spark held as state at the end of a micro-batch, or that a
            slice read.
        state_bytes: the same in bytes of operators whose state is Python.
    """

    files: list[str] = field(default_factory=list)
    rows: int = 0
    punctuation: int = 0
    seconds: float = 0.0
    batches: int = 0
    operators: list[OperatorCounts] = field(default_factory=list)
    late: int = 0
    state_rows: int = 0
    state_bytes: int = 0
