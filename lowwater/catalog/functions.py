"""What the planner knows of functions and aggregates: types, cost, LFTA-safety, and the Python that gives their values.

Beside the expressions: the shipped ones are in `builtin` and `native`, the functions of users come from `declared`. The
scope looks them up by name and types; the split reads their cost. (Tigon SQL manuals; GSQL's external_fcns.def.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lowwater.catalog.types import Type


class Cost(IntEnum):
    """What one evaluation costs, in operations: GSQL's five classes."""

    FREE = 1
    LOW = 10
    HIGH = 100
    EXPENSIVE = 1000
    TOP = 10000


@dataclass(frozen=True)
class Function:
    """A scalar function, or a predicate, which is written with brackets: `str_match_start[TCP_data, 'GET']`.

    Attributes:
        name: as written.
        parameters: types of the arguments.
        returns: type of the value; BOOL for a predicate.
        value: the Python that gives it; called only without NULL among the arguments, gives None for a failure (V2).
            None for a function that the planner rewrites itself.
        cost: the cost of one evaluation.
        lfta: whether it may run at the low level.
        partial: whether it may fail over arguments that are not NULL.
        predicate: whether it is written with brackets.
        constant: positions of the arguments that must be constants (GSQL's HANDLE and CONST).
        files: positions of the constants that name a file, whose content is an input (S1). It is read when the query
            runs: a plan may be made where the file is not.
        check: called at planning with the value of every constant argument; raises ValueError that says what is wrong.
        monotone: whether the value keeps the order of its one argument, so that it stays temporal.
        origin: `built-in`, or the file that declared it.
        batch: the same values for a list of first arguments at once, NULL among them, where that is much faster.
    """

    name: str
    parameters: tuple[Type, ...]
    returns: Type
    value: Callable[..., Any] | None = None
    cost: Cost = Cost.LOW
    lfta: bool = False
    partial: bool = False
    predicate: bool = False
    constant: tuple[int, ...] = ()
    files: tuple[int, ...] = ()
    check: Callable[[Any], None] | None = None
    monotone: bool = False
    origin: str = "built-in"
    batch: Callable[..., list[Any]] | None = None


class Udaf(Protocol):
    """A user-defined aggregate: the four functions of the TigonSQL architecture, and two that are optional.

    A state is any picklable value. `iterate(state, *values)` and `merge(state, other)` return the new state and may
    change the old one; `output(state, *extra)` changes nothing. `reinit(state)` is called between epochs for a running
    aggregate (CLOSING_WHEN) instead of `initialize` and returns the new state; without it the state stays as it is.
    """

    def initialize(self) -> Any: ...

    # Properties, because a class may name and count the values that it takes.
    @property
    def iterate(self) -> Callable[..., Any]: ...

    @property
    def output(self) -> Callable[..., Any]: ...

    def destroy(self, state: Any) -> None: ...


@dataclass(frozen=True)
class Fold:
    """How every engine makes one value of two.

    Attributes:
        sign: the operator in generated code: `+`, `&`, `|`, `^`; for `<` and `>` the lesser or greater one stays.
        of: the same of two values in Python.
        arrow: the same over groups: the name of Arrow's aggregate, or the function of numpy where Arrow has none.
        neutral: the integer that changes no other; None for a fold that picks one of its values.
        sums: whether integers add up, so that 64 bits may not hold the result (O3).
    """

    sign: str
    of: Callable[[Any, Any], Any]
    arrow: str | np.ufunc
    neutral: int | None
    sums: bool

    def __post_init__(self) -> None:
        if self.neutral is None and not isinstance(self.arrow, str):
            raise ValueError(f"{self.sign}: a fold by numpy states its neutral integer, which stands for NULL")

    @property
    def picks(self) -> bool:
        """Whether its result is one of its values."""
        return self.neutral is None


@dataclass(frozen=True)
class PartialColumn:
    """A column of partial results in Arrow.

    Attributes:
        suffix: its name behind the name of the aggregate; no two columns of an aggregate have the same.
        of: a block of argument values -> the values of the column; None where each row gives 1.
        fold: how two partial results become one; NULL changes nothing.
    """

    suffix: str
    of: Callable[[pa.Array], pa.Array] | None
    fold: Fold


@dataclass(frozen=True)
class Columns:
    """An aggregate in Arrow: its partial results, and its value.

    Attributes:
        partials: the columns of partial results.
        value: the merged columns, in their order -> the values.
        beyond: the merged columns -> which values 64 bits do not hold; None where they hold all.
    """

    partials: tuple[PartialColumn, ...]
    value: Callable[..., pa.Array]
    beyond: Callable[..., pa.Array] | None = None


@dataclass(frozen=True)
class Parts:
    """The two aggregates that the low level has in the place of one.

    Attributes:
        left: the name of a native aggregate that has no parts; `right` too.
        operator: of the language, which makes the value of both values.
    """

    left: str
    operator: str
    right: str


@dataclass(frozen=True)
class Native:
    """How engines compute an aggregate that each has of its own: all that they know of it.

    No engine looks at the name. A fact that is left out is an error when the object is made.

    Attributes:
        name: in lower case; queries write it in any case that a keyword may have.
        fold: how the values of a group become one; None for an aggregate that counts them.
        result: the value in Python, of how many values a group has and of their fold, which is None for no value.
        columns: type of the argument -> the aggregate in Arrow; None is the type of no argument.
        superaggregate: merges the results that the low level has of this aggregate; empty where that has `parts`.
        parts: what the low level has in its place; None where it has the aggregate itself.
        distinct: the aggregate that `name(DISTINCT x)` means; empty for none.
    """

    name: str
    fold: Fold | None
    result: Callable[[int, Any], Any]
    columns: Callable[[Type | None], Columns]
    superaggregate: str
    parts: Parts | None
    distinct: str

    def __post_init__(self) -> None:
        if bool(self.superaggregate) == (self.parts is not None):
            raise ValueError(f"{self.name}: a native aggregate has a superaggregate, or parts")

    @property
    def picks(self) -> bool:
        """Whether its value is one of its arguments."""
        return self.fold is not None and self.fold.picks

    @property
    def sums(self) -> bool:
        """Whether it adds its arguments up."""
        return self.fold is not None and self.fold.sums

    def of(self, parameters: tuple[Type, ...], returns: Type) -> AggregateFunction:
        """The aggregate of arguments of some types."""
        sub = self.name if self.superaggregate else ""
        return AggregateFunction(
            self.name,
            parameters,
            returns,
            taken=len(parameters),
            lfta=True,
            sub=sub,
            sup=self.superaggregate,
            native=self,
        )


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate.

    Attributes:
        name: as written.
        parameters: types of the arguments; the first `taken` go to ITERATE, the others are constants for OUTPUT.
        returns: type of the value.
        make: the class of its four functions; None for a native one, and for one that is declared without Python.
        taken: how many arguments ITERATE takes.
        cost: the cost of one ITERATE.
        lfta: whether it may run at the low level.
        sub: aggregate that the low level computes; empty where it is not split (O2).
        sup: aggregate over the results of `sub`.
        constant: positions of the arguments that must be constants, beside those that are not taken.
        running: whether it keeps its state between epochs, and so needs CLOSING_WHEN.
        ordered: whether its value depends on the order of its input (O1).
        origin: `built-in`, or the file that declared it.
        native: how engines compute it of their own; None for one by its four functions.
    """

    name: str
    parameters: tuple[Type, ...]
    returns: Type
    make: Callable[[], Udaf] | None = None
    taken: int = 1
    cost: Cost = Cost.LOW
    lfta: bool = False
    sub: str = ""
    sup: str = ""
    constant: tuple[int, ...] = ()
    running: bool = False
    ordered: bool = False
    origin: str = "built-in"
    native: Native | None = None


@dataclass(frozen=True)
class StateFunction:
    """A stateful function of the sampling operator: all that name one state share it, one a supergroup.

    Attributes:
        name: as written.
        state: name of the state.
        parameters: types of the arguments.
        returns: type of the value.
        origin: `built-in`, or the file that declared it.
        value: the Python that gives it, of the state, the number of groups and the arguments; None for none.
    """

    name: str
    state: str
    parameters: tuple[Type, ...]
    returns: Type
    origin: str = "built-in"
    value: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Catalog:
    """All functions by name; several of one name differ in the types of their arguments."""

    functions: tuple[Function, ...] = ()
    aggregates: tuple[AggregateFunction, ...] = ()
    states: tuple[StateFunction, ...] = ()
    _by_name: dict[str, list[Function | AggregateFunction | StateFunction]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        every: Iterable[Function | AggregateFunction | StateFunction] = (
            *self.functions,
            *self.aggregates,
            *self.states,
        )
        for one in every:
            self._by_name.setdefault(one.name, []).append(one)

    def extended(self, other: Catalog) -> Catalog:
        """This catalog with another's functions, which come before those of the same name and types."""
        return Catalog(other.functions + self.functions, other.aggregates + self.aggregates, other.states + self.states)

    def named(self, name: str) -> Sequence[Function | AggregateFunction | StateFunction]:
        """All of this name: as written, else the only spelling that differs in case; empty where there is none."""
        if name in self._by_name:
            return self._by_name[name]
        alike = [known for known in self._by_name if known.lower() == name.lower()]
        return self._by_name[alike[0]] if len(alike) == 1 else ()

    def aggregates_named(self, name: str) -> list[AggregateFunction]:
        """The aggregates of this name, found as by `named`."""
        return [one for one in self.named(name) if isinstance(one, AggregateFunction)]

    def names(self) -> list[str]:
        """Every name."""
        return list(self._by_name)
