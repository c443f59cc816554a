"""The base of operators: every fact that an operator states of itself.

The planner, EXPLAIN, and whoever schedules intervals walk plans and ask each operator; only engines and the text of a
query tell operators apart, each by one table. Spark's Python workers load this, so nothing of the planner is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from lowwater.catalog.expr import Expr
from lowwater.plan.fields import ROWS, Field, Place, one_origin, temporal_names

Key = tuple[str, ...] | None
"""Columns that no two rows have in common, in the order of the fields; None where none follows from the plan."""

Final = Callable[[int], int]
"""When a row of an input is final in an operator: `_last` (ns) of the row -> `_last` of what it becomes."""


@dataclass(frozen=True)
class Facts:
    """What every kind of operator states of itself, whatever the query.

    Attributes:
        label: what EXPLAIN calls it.
        passes: whether packets pass as such, each in its place (SEMANTICS O1).
        waits: whether rows or groups wait in it for a promise.
        outlives: why its state lives beyond a slice of time, and goes from interval to interval (I4); empty where none
            does.
        promise: what its punctuation is made of.
    """

    label: str
    passes: bool
    waits: bool
    outlives: str
    promise: str


@dataclass(frozen=True)
class Physical:
    """How the high level runs an operator: the choice that it makes, and that EXPLAIN shows.

    Attributes:
        operator: its name, which EXPLAIN shows after `by`.
        reason: why it is chosen.
        in_python: whether Python takes rows one by one within a slice.
    """

    operator: str
    reason: str
    in_python: bool = False


@dataclass(frozen=True)
class Punctuation:
    """The promises of one operator.

    Attributes:
        columns: output columns that it promises, in order; empty if only its clock makes progress.
        joint: whether the columns stand in one row together; else each has rows of its own.
        groupwise: columns beside the promised ones that tell groups apart; empty where a promise is of all rows.
        reason: why so.
    """

    columns: tuple[str, ...]
    joint: bool
    groupwise: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Copies:
    """How an operator multiplies rows.

    Attributes:
        times: how many rows it makes of one.
        what: what they are, in the plural.
        less: what to write for fewer of them.
        place: where it stands in the query.
    """

    times: int
    what: str
    less: str
    place: Place


@dataclass(frozen=True)
class Node:
    """Base of operators. A class of them states its facts, or is none.

    Which methods it must have follows from its facts: all state `inputs`, `exprs`, `over` and `physical`; one in which
    rows wait states how far back it reads, when its rows are final, and what it makes progress by.

    Attributes:
        facts: of the kind of operator.
        query: name of the query that the operator belongs to.
        fields: output columns, in order.
    """

    facts: ClassVar[Facts]

    query: str
    fields: tuple[Field, ...]

    def __init_subclass__(cls, facts: Facts | None = None, abstract: bool = False) -> None:
        if abstract:
            return
        if facts is None:
            raise TypeError(f"{cls.__name__}: an operator states facts=Facts(...)")
        needed = (*_STATED, *(_STATED_BY_WAITING if facts.waits else ()))
        missing = [name for name in needed if getattr(cls, name) is getattr(Node, name)]
        if missing:
            raise TypeError(f"{cls.__name__}: an operator with these facts states {', '.join(missing)}")
        cls.facts = facts

    def inputs(self) -> tuple[Node, ...]:
        """The operators whose rows it reads."""
        raise NotImplementedError

    def over(self, *inputs: Node) -> Self:
        """The operator over other inputs with the same columns."""
        raise NotImplementedError

    def exprs(self) -> tuple[Expr, ...]:
        """The expressions that it evaluates, without those of its inputs."""
        raise NotImplementedError

    def physical(self) -> Physical:
        """How the high level runs it, in a query whose rows do not go by arrival."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What EXPLAIN calls it."""
        return self.facts.label

    @property
    def order_dependent(self) -> bool:
        """Whether its rows depend on the order of its input (SEMANTICS O1)."""
        return bool(self.facts.outlives)

    @property
    def hands_on(self) -> bool:
        """Whether it only hands on the rows of one input, each any number of times, with columns of its own behind."""
        return self.facts.passes and not self.facts.waits and not self.facts.outlives and len(self.inputs()) == 1

    # What an operator states in which rows wait for a promise.

    def reads_from(self, start: int) -> tuple[int, ...]:
        """From which timestamp (ns) each input is needed for the rows with `_last` at `start` (ns) or after it (I2)."""
        return tuple([start for _ in self.inputs()])

    def ends(self, latest: int) -> list[int]:
        """The largest `_last` (ns) that its rows may have when no packet is after `latest` (ns); none of pairs (I3)."""
        return []

    def final(self, port: int) -> Final | None:
        """When a row of an input is final; None where it does not wait, or for no instant of the clock."""
        return None

    def origins(self) -> tuple[str, ...]:
        """The attributes that it makes progress by; the clock is the empty one."""
        return ()

    @property
    def origin(self) -> str:
        """The attribute that it makes progress by, where that is no function of the clock; else empty."""
        return one_origin(self.origins())

    def grain(self) -> int:
        """How fine a promise (ns) it can use; 0 where it passes on what its reader asks for (002, section 6)."""
        return 0

    # What an operator states where the answer is not that of most.

    def span(self, first: int, latest: int) -> tuple[int, int] | None:
        """Between which instants (ns) `_last` of its rows lies that packets from `first` to `latest` make.

        Both are included. None where packets say nothing of it.
        """
        return first, max([first, *self.ends(latest)])

    def punctuation(self, reader: Node | None) -> Punctuation:
        """What it punctuates on, for the operator that reads it; None for the query's output."""
        columns = temporal_names(self.fields)
        if not columns:
            return Punctuation((), False, (), "no output column is temporal: only its clock makes progress")
        return Punctuation(columns, len(columns) > 1, self.groupwise(), self.facts.promise)

    def groupwise(self) -> tuple[str, ...]:
        """The columns that a promise is given for each value of, as far as it keeps them (SEMANTICS T8)."""
        return ()

    def looks_at(self, below: Node) -> set[str]:
        """The columns of an input whose progress it can use."""
        return {field.name for field in below.fields}

    def key(self, below: Sequence[Key]) -> Key:
        """The columns of a unique key of its rows, from those of its inputs."""
        return None

    def copies(self) -> Copies | None:
        """How it multiplies rows; None where it makes at most one of one, or begins anew."""
        return None

    def state(self) -> str:
        """Why intervals of its query follow one another (SEMANTICS I4); empty where they need not."""
        off_clock = self.origin not in ("", ROWS)
        return self.facts.outlives or (f"{self.origin} is no function of the clock" if off_clock else "")


_STATED = ("inputs", "over", "exprs", "physical")
_STATED_BY_WAITING = ("reads_from", "ends", "final", "origins", "grain")


@dataclass(frozen=True)
class Leaf(Node, abstract=True):
    """An operator without inputs."""

    def inputs(self) -> tuple[Node, ...]:
        """None."""
        return ()

    def over(self, *inputs: Node) -> Self:
        """Itself."""
        return self


@dataclass(frozen=True)
class Unary(Node, abstract=True):
    """An operator with one input."""

    input: Node

    def inputs(self) -> tuple[Node, ...]:
        """Its input."""
        return (self.input,)

    def over(self, *inputs: Node) -> Self:
        """The operator over another input."""
        (below,) = inputs
        return replace(self, input=below)
