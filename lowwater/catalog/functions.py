"""The entries of functions and aggregates in the catalog: types, cost, use, and the values that constant arguments may
have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import IntEnum
from math import inf
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lowwater.catalog.localdays import zone_names
from lowwater.catalog.values import Type

# Limits of constant arguments, checked when a query is planned. Outside of its limit an argument makes every value NULL
# or false, or the aggregate empty, which would look like a result.


@dataclass(frozen=True)
class Limit:
    """The values that a parameter takes."""

    says: str  # what they are, behind `must be`
    least: float = -inf
    most: float = inf
    above: bool = False  # whether `least` itself is not among them
    hint: str = ""  # what to write instead of another value, with `{0}` for the value divided by 100; empty for no hint

    def admits(self, value: Any) -> bool:
        """Whether a value is within the limit; NULL is, and a text unless it is empty."""
        if value is None or isinstance(value, bool):
            return True
        if isinstance(value, str | bytes):
            return bool(value)
        return self.least <= value <= self.most and not (self.above and value == self.least)

    def advice(self, value: Any) -> str:
        """What to write instead; empty for no advice."""
        fits = self.hint and isinstance(value, int | float) and self.admits(value / 100)
        return self.hint.format(f"{value / 100:g}") if fits else ""


Limits = tuple[tuple[int, Limit], ...]
"""(position of an argument, from 0, its limit) pairs."""


def at_least(least: int) -> Limit:
    """Numbers from `least` on."""
    return Limit(f"at least {least}", least)


def between(least: int, most: int) -> Limit:
    """Numbers from `least` to `most`, both included."""
    return Limit(f"from {least} to {most}", least, most)


_PERCENT = "write {0}: it is a share, not a percentage"
FRACTION = Limit("from 0 to 1", 0, 1, hint=_PERCENT)
SHARE = Limit("above 0 and at most 1", 0, 1, above=True, hint=_PERCENT)
NOT_EMPTY = Limit("a text that is not empty")


class _Zone(Limit):
    """The names of time zones."""

    def admits(self, value: Any) -> bool:
        return value is None or value in zone_names()

    def advice(self, value: Any) -> str:
        last = {name.rpartition("/")[2].lower(): name for name in sorted(zone_names())}
        known = {name.lower(): name for name in zone_names()}
        for names, text in ((known, value.lower()), (last, value.replace(" ", "_").lower())):
            if close := get_close_matches(text, names, 1, 0.75):
                return f"did you mean {names[close[0]]!r}?"
        return "write for example 'UTC' or 'Europe/Berlin'"


@dataclass(frozen=True)
class _Words(Limit):
    words: tuple[str, ...] = ()

    def admits(self, value: Any) -> bool:
        return value is None or value in self.words

    def advice(self, value: Any) -> str:
        close = get_close_matches(str(value).lower(), self.words, 1, 0.6)
        return f"did you mean '{close[0]}'?" if close else ""


def one_of(words: Iterable[str]) -> Limit:
    """Texts that are one of some words."""
    known = tuple(words)
    return _Words(f"one of {', '.join(known)}", words=known)


ZONE = _Zone("a time zone of the tz database")
SHIFT = between(0, 63)
"""Widths of shifts of 64-bit integers (SEMANTICS V2)."""


# Entries of the catalog. `builtin` and `native` hold the built-in entries; `user_functions` adds those of users. The
# scope looks an entry up by name and types; the split reads its cost. (Tigon SQL manuals; GSQL's external_fcns.def.)


class Cost(IntEnum):
    """The cost of one evaluation, in operations: the five classes of GSQL."""

    FREE = 1
    LOW = 10
    HIGH = 100
    EXPENSIVE = 1000
    TOP = 10000


@dataclass(frozen=True)
class Function:
    """A scalar function, or a predicate. A call of a predicate has brackets: `str_match_start[TCP_data, 'GET']`."""

    name: str  # the name, in the case of its declaration
    parameters: tuple[Type, ...]
    returns: Type  # the type of the value; BOOL for a predicate
    # computes the value from arguments that are not NULL. Its result None means a failure (V2). The attribute is None
    # for a function that the planner rewrites.
    value: Callable[..., Any] | None = None
    cost: Cost = Cost.LOW
    lfta: bool = False  # whether the low level may run it
    partial: bool = False  # whether it may fail for arguments that are not NULL
    predicate: bool = False  # whether its calls have brackets
    constant: tuple[int, ...] = ()  # the positions of the arguments that must be constants (HANDLE and CONST of GSQL)
    # the positions of the constants that name a file. The content of the file is an input (S1). The query reads the
    # file when it runs: the machine of the planner may not have the file.
    files: tuple[int, ...] = ()
    # checks the value of every constant argument during planning; raises ValueError with the cause
    check: Callable[[Any], None] | None = None
    monotone: bool = False  # whether the value keeps the order of its only argument, so that it stays temporal
    # the step of `plan.temporal` that it is, from a clock in seconds and the name of a time zone; else empty
    step: str = ""
    origin: str = "built-in"  # `built-in`, or the file that declares it
    # computes the values for a list of first arguments, which may be NULL; None if `value` is fast enough
    batch: Callable[..., list[Any]] | None = None
    limits: Limits = ()  # the values that constant arguments may have, by position


class Udaf(Protocol):
    """A user-defined aggregate: the four functions of the TigonSQL architecture, and optionally `merge` and `reinit`.

    A state is any picklable value. `iterate(state, *values)` and `merge(state, other)` return the new state and may
    change the old one. `output(state, *extra)` changes nothing. Between the epochs of a running aggregate
    (CLOSING_WHEN), the engine calls `reinit(state)` instead of `initialize`. `reinit` returns the new state; without
    `reinit`, the state does not change.
    """

    def initialize(self) -> Any: ...

    # Properties, because a class chooses the names and the number of its arguments.
    @property
    def iterate(self) -> Callable[..., Any]: ...

    @property
    def output(self) -> Callable[..., Any]: ...

    def destroy(self, state: Any) -> None: ...


@dataclass(frozen=True)
class Fold:
    """The merge of two values into one, in the form of every engine."""

    sign: str  # the operator in generated code: `+`, `&`, `|`, `^`; `<` and `>` keep the smaller or greater value
    of: Callable[[Any, Any], Any]
    # the merge over groups: the name of an Arrow aggregate, or a numpy function if Arrow has no aggregate
    arrow: str | np.ufunc
    neutral: int | None  # the neutral integer, which stands for NULL; None for a fold that picks one of its values
    sums: bool  # whether it adds integers, so that the result may exceed 64 bits (O3)

    def __post_init__(self) -> None:
        if self.neutral is None and not isinstance(self.arrow, str):
            raise ValueError(f"{self.sign}: a fold by numpy states its neutral integer, which stands for NULL")

    @property
    def picks(self) -> bool:
        """Whether its result is one of its values."""
        return self.neutral is None


@dataclass(frozen=True)
class PartialColumn:
    """A column of partial aggregates in Arrow."""

    suffix: str  # the end of its name, after the name of the aggregate; unique among the columns of the aggregate
    # computes the values of the column from a block of argument values; None if every row counts 1
    of: Callable[[pa.Array], pa.Array] | None
    fold: Fold  # the merge of two partial aggregates; NULL changes nothing


@dataclass(frozen=True)
class Columns:
    """An aggregate in Arrow: its partial aggregates and its value."""

    partials: tuple[PartialColumn, ...]
    value: Callable[..., pa.Array]  # computes the values from the merged columns, in the order of `partials`
    # marks the values that exceed 64 bits, from the merged columns; None if no value does
    beyond: Callable[..., pa.Array] | None = None


@dataclass(frozen=True)
class Parts:
    """The two aggregates that the low level computes instead of one aggregate, such as sum and count for avg."""

    # the name of a native aggregate without parts; the left operand. Where it is merged, its value has the type of the
    # whole aggregate, so that a sum of integers need not fit 64 bits.
    left: str
    operator: str
    right: str  # the name of a native aggregate without parts; the right operand


@dataclass(frozen=True)
class Native:
    """A native aggregate: the facts that every engine needs to compute it.

    No engine depends on the name. The attributes have no defaults, so that a family states all of them.
    """

    name: str  # the name in lower case; a query may write it in every case of a keyword
    fold: Fold | None  # the merge of two values of a group; None for an aggregate that counts the values
    # computes the value in Python from the number of values in a group and their fold (None for no value)
    result: Callable[[int, Any], Any]
    # returns the aggregate in Arrow for the type of its argument, None for no argument, and of its value
    columns: Callable[[Type | None, Type], Columns]
    superaggregate: str  # the aggregate that merges the partial aggregates of the low level; empty if it has `parts`
    parts: Parts | None  # the aggregates that replace it at the low level; None if the low level computes it
    distinct: str  # the aggregate for `name(DISTINCT x)`; empty if a query may not write DISTINCT

    def __post_init__(self) -> None:
        if bool(self.superaggregate) == (self.parts is not None):
            raise ValueError(f"{self.name}: a native aggregate has a superaggregate, or parts")

    @property
    def picks(self) -> bool:
        """Whether its value is one of its arguments."""
        return self.fold is not None and self.fold.picks

    @property
    def sums(self) -> bool:
        return self.fold is not None and self.fold.sums

    def of(self, parameters: tuple[Type, ...], returns: Type) -> AggregateFunction:
        """Returns the catalog entry for arguments of some types."""
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
    """An aggregate."""

    name: str  # the name, in the case of its declaration
    # the types of the arguments. The first `taken` go to ITERATE; the others are constants for OUTPUT.
    parameters: tuple[Type, ...]
    returns: Type
    # the class of its four functions; None for a native aggregate and for a declaration without Python
    make: Callable[[], Udaf] | None = None
    taken: int = 1  # the number of arguments of ITERATE
    cost: Cost = Cost.LOW
    lfta: bool = False  # whether the low level may run it
    # the sub-aggregate, which the low level computes; empty if the planner does not split the aggregate (O2)
    sub: str = ""
    sup: str = ""  # the superaggregate, which merges the results of `sub`
    constant: tuple[int, ...] = ()  # the positions of arguments of ITERATE that must be constants
    running: bool = False  # whether it keeps its state between epochs, so that it needs CLOSING_WHEN
    ordered: bool = False  # whether its value depends on the order of its input (O1)
    origin: str = "built-in"  # `built-in`, or the file that declares it
    native: Native | None = None  # the facts of a native aggregate; None for an aggregate with four functions
    limits: Limits = ()


@dataclass(frozen=True)
class StateFunction:
    """A stateful function of the sampling operator. All functions of one state share that state in a supergroup."""

    name: str
    state: str
    parameters: tuple[Type, ...]
    returns: Type
    origin: str = "built-in"  # `built-in`, or the file that declares it
    # computes the value from the state, the number of groups and the arguments; None without Python
    value: Callable[..., Any] | None = None
    limits: Limits = ()


@dataclass(frozen=True)
class Catalog:
    """All catalog entries, with look-up by name. Entries of one name differ in the types of their arguments."""

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
        for entry in every:
            self._by_name.setdefault(entry.name, []).append(entry)

    def extended(self, other: Catalog) -> Catalog:
        """Returns this catalog with the entries of another one, which take precedence."""
        return Catalog(other.functions + self.functions, other.aggregates + self.aggregates, other.states + self.states)

    def named(self, name: str) -> Sequence[Function | AggregateFunction | StateFunction]:
        """Returns the entries of a name; without an exact match, those of the only name that differs in case."""
        if name in self._by_name:
            return self._by_name[name]
        alike = [spelling for spelling in self._by_name if spelling.lower() == name.lower()]
        return self._by_name[alike[0]] if len(alike) == 1 else ()

    def aggregates_named(self, name: str) -> list[AggregateFunction]:
        """Returns the aggregates of a name, with the look-up of `named`."""
        return [entry for entry in self.named(name) if isinstance(entry, AggregateFunction)]

    def names(self) -> list[str]:
        return list(self._by_name)
