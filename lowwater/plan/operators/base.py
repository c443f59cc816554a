"""Base of operators: every fact that an operator states about itself.

The planner, EXPLAIN and the scheduler of intervals walk plans and ask the operators. Only the engines and the printer
of GSQL distinguish kinds of operators, with one table per caller. Spark's Python workers load this module, so it
imports nothing from the planner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from lowwater.catalog.expr import Expr
from lowwater.plan.fields import ROWS, Field, Place, one_origin, temporal_names

Key = tuple[str, ...] | None
"""Unique key: columns whose values differ between any two rows, in the order of the fields; None if unknown."""

Final = Callable[[int], int]
"""`_last` (ns) of an input row -> the instant (ns) at which the row is final: `_last` of its output row."""


@dataclass(frozen=True)
class Facts:
    """The facts of a kind of operator, the same in every query.

    Attributes:
        label: name of the operator in EXPLAIN.
        passes: whether packets pass through unchanged and in their places (SEMANTICS O1).
        waits: whether rows or groups wait in the operator for a promise.
        outlives: why state lives beyond a slice of time and passes from interval to interval (I4); empty without such
            state.
        promise: from which promise the operator makes its punctuation.
    """

    label: str
    passes: bool
    waits: bool
    outlives: str
    promise: str


@dataclass(frozen=True)
class Physical:
    """Physical operator: how the high level runs an operator, as EXPLAIN shows it.

    Attributes:
        operator: name of the physical operator, which EXPLAIN shows after `by`.
        reason: why the planner chose it.
        in_python: whether Python code takes the rows of a slice one by one.
    """

    operator: str
    reason: str
    in_python: bool = False


@dataclass(frozen=True)
class Punctuation:
    """The promises of one operator.

    Attributes:
        columns: the promised output columns, in order; empty if only the clock of the operator makes progress.
        joint: whether one punctuation row promises all columns; else every column has punctuation rows of its own.
        groupwise: columns with separate promises for their values; empty if a promise is for all rows.
        reason: why the operator promises these columns.
    """

    columns: tuple[str, ...]
    joint: bool
    groupwise: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Copies:
    """How an operator multiplies rows.

    Attributes:
        times: the number of output rows per input row.
        what: name of the copies, in the plural.
        less: how to write the query so that it makes fewer copies.
        place: line and column in the text of the query.
    """

    times: int
    what: str
    less: str
    place: Place


@dataclass(frozen=True)
class Node:
    """Base of operators; a concrete subclass states its facts as `facts=Facts(...)`, an abstract one `abstract=True`.

    The facts decide which methods a subclass must define. Every operator defines `inputs`, `exprs`, `over` and
    `physical`. An operator with waiting rows also defines `reads_from`, `ends`, `final`, `origins` and `grain`.

    Attributes:
        facts: the facts of the kind of operator.
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
        """Returns the operators whose rows the operator reads."""
        raise NotImplementedError

    def over(self, *inputs: Node) -> Self:
        """Returns the operator over other inputs with the same columns."""
        raise NotImplementedError

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the expressions that the operator evaluates, without the expressions of its inputs."""
        raise NotImplementedError

    def physical(self) -> Physical:
        """Returns how the high level runs the operator, in a query that is not evaluated by arrival."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """Name of the operator in EXPLAIN."""
        return self.facts.label

    @property
    def order_dependent(self) -> bool:
        """Whether the rows of the operator depend on the order of its input (SEMANTICS O1)."""
        return bool(self.facts.outlives)

    @property
    def hands_on(self) -> bool:
        """Whether the operator only passes rows of one input on, any number of times, with columns added at the end."""
        return self.facts.passes and not self.facts.waits and not self.facts.outlives and len(self.inputs()) == 1

    # Operators whose rows wait for a promise define the methods below.

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Returns the first timestamp (ns) of every input that rows with `_last` >= `start` (ns) need (I2)."""
        return tuple([start for _ in self.inputs()])

    def ends(self, latest: int) -> list[int]:
        """Returns the largest `_last` (ns) of rows, pairs excluded, if no packet is after `latest` (ns) (I3)."""
        return []

    def final(self, port: int) -> Final | None:
        """Returns when a row of an input is final; None if it does not wait, or waits for no instant of the clock."""
        return None

    def origins(self) -> tuple[str, ...]:
        """Returns the origins of the operator's progress; the clock is the empty string."""
        return ()

    @property
    def origin(self) -> str:
        """The attribute of the operator's progress, if it is no function of the clock; else empty."""
        return one_origin(self.origins())

    def grain(self) -> int:
        """Returns the distance (ns) between useful promises; 0 if the reader decides (002, section 6)."""
        return 0

    # The methods below have defaults that suit most operators.

    def span(self, first: int, latest: int) -> tuple[int, int] | None:
        """Returns the least and the largest `_last` (ns) of rows that packets from `first` to `latest` (ns) make.

        Both bounds are inclusive. None if the packets do not bound `_last`.
        """
        return first, max([first, *self.ends(latest)])

    def punctuation(self, reader: Node | None) -> Punctuation:
        """Returns the promises for a reader.

        Args:
            reader: the operator that reads the rows; None for the output of the query.
        """
        columns = temporal_names(self.fields)
        if not columns:
            return Punctuation((), False, (), "no output column is temporal: only its clock makes progress")
        return Punctuation(columns, len(columns) > 1, self.groupwise(), self.facts.promise)

    def groupwise(self) -> tuple[str, ...]:
        """Returns the output columns with separate promises for their values (SEMANTICS T8)."""
        return ()

    def looks_at(self, below: Node) -> set[str]:
        """Returns the columns of an input whose progress the operator can use."""
        return {field.name for field in below.fields}

    def key(self, below: Sequence[Key]) -> Key:
        """Returns the columns of a unique key of the operator's rows; None if the plan implies no key.

        Args:
            below: the keys of the inputs.
        """
        return None

    def copies(self) -> Copies | None:
        """Returns how the operator multiplies rows; None if it outputs at most one row per input row, or aggregates."""
        return None

    def state(self) -> str:
        """Returns why intervals of the query run in order (SEMANTICS I4); empty if they can run in any order."""
        off_clock = self.origin not in ("", ROWS)
        return self.facts.outlives or (f"{self.origin} is no function of the clock" if off_clock else "")


_STATED = ("inputs", "over", "exprs", "physical")
_STATED_BY_WAITING = ("reads_from", "ends", "final", "origins", "grain")


@dataclass(frozen=True)
class Leaf(Node, abstract=True):
    """Base of operators without inputs."""

    def inputs(self) -> tuple[Node, ...]:
        """Returns no inputs."""
        return ()

    def over(self, *inputs: Node) -> Self:
        """Returns the operator itself."""
        return self


@dataclass(frozen=True)
class Unary(Node, abstract=True):
    """Base of operators with one input.

    Attributes:
        input: the operator whose rows this operator reads.
    """

    input: Node

    def inputs(self) -> tuple[Node, ...]:
        """Returns the input."""
        return (self.input,)

    def over(self, *inputs: Node) -> Self:
        """Returns the operator over another input with the same columns."""
        (below,) = inputs
        return replace(self, input=below)
