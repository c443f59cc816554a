"""Calls of catalog functions over columns: the Python value once for each distinct combination of arguments.

Beside the functions: the low level and Spark's workers evaluate what their kernels have no words for by it, a batch at
a time. A value is NULL where an argument is; None over values is a failure (SEMANTICS V2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.builtin.base import in_range
from lowwater.catalog.functions import AggregateFunction, Function, StateFunction
from lowwater.catalog.streams import STREAM_TYPES
from lowwater.catalog.types import Type
from lowwater.errors import ConfigError, LowwaterError, ValueOverflowError

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Coded:
    """A column by its distinct values, which need not differ.

    Attributes:
        values: Python values, None for NULL.
        index: shape (rows), the place in `values` of each row.
        failed: in which of the values a failure took part.
    """

    values: Sequence[Any]
    index: Index
    failed: Sequence[bool] | None = None

    @staticmethod
    def of(array: pa.Array) -> Coded:
        """The column that an array is."""
        # By their bits, or both zeros would be one value.
        real = array.type == pa.float64()
        coded = (array.view(pa.int64()) if real else array).dictionary_encode()
        known = coded.dictionary.view(array.type) if real else coded.dictionary
        index = coded.indices.fill_null(-1).to_numpy().astype(np.int64) + 1
        if len(known) == 1 and not array.null_count:
            return Coded(known.to_pylist(), np.zeros(len(array), np.int64))
        return Coded([None, *known.to_pylist()], index)

    @staticmethod
    def constant(value: Any, rows: int) -> Coded:
        """The same value in every row."""
        return Coded([value], np.zeros(rows, np.int64))

    def array(self, kind: Type) -> pa.Array:
        """The column in Arrow."""
        return pa.array(self.values, STREAM_TYPES[kind]).take(pa.array(self.index))


def checked(function: Function) -> Callable[..., Any]:
    """The Python value of a function, held to the type that it declares.

    Raises:
        LowwaterError: when called, if the Python of a user fails or gives a value of another type.
    """
    if function.value is None:
        raise TypeError(f"{function.name} has no Python value")
    return guarded(function, function.value, function.returns)


def guarded(
    function: Function | AggregateFunction | StateFunction, value: Callable[..., Any], returns: Type | None = None
) -> Callable[..., Any]:
    """Some Python of a catalog entry; what it gives is held to a type, None for a state, which has none.

    Raises:
        LowwaterError: when called, if it fails or gives a value of another type.
    """
    fits = _FITS[returns] if returns else lambda found: found

    def call(*arguments: Any) -> Any:
        try:
            found = value(*arguments)
            return None if found is None else fits(found)
        except (ValueOverflowError, ConfigError):
            raise  # a sum (O3), which whoever evaluates the query names; a file of a table, which the error names
        except Exception as error:
            gives = f"give {returns} or None" if returns else "give a state"
            raise LowwaterError(
                f"the function {function.name} ({function.origin}) fails: {type(error).__name__}: {error}",
                f"it is to {gives} for the arguments {arguments!r:.200}",
            ) from error

    return call


class Guarded:
    """The functions of an aggregate of users, each held to what it declares (`Udaf`).

    Attributes:
        initialize, iterate, output: three of its four functions.
        reinit: of a running aggregate, where it has one; else None.
        merges: whether it has a function that makes one state of two.
    """

    def __init__(self, udaf: AggregateFunction) -> None:
        assert udaf.make is not None, udaf.name
        made = udaf.make()
        self.initialize = guarded(udaf, made.initialize)
        self.iterate = guarded(udaf, made.iterate)
        self.output = guarded(udaf, made.output, udaf.returns)
        reinit = getattr(made, "reinit", None)
        self.reinit = guarded(udaf, reinit) if reinit else None
        self.merges = hasattr(made, "merge")


def _integer(value: Any) -> int | None:
    if not isinstance(value, int | np.integer):
        raise TypeError(f"{value!r:.80} is no integer")
    return in_range(int(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no string")
    # A lone surrogate has no place in UTF-8, in which every engine keeps text.
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _address(value: Any) -> bytes:
    if not isinstance(value, bytes) or (value[:1], len(value)) not in ((b"\x04", 5), (b"\x06", 17)):
        raise TypeError(f"{value!r:.80} is no address value")
    return value


_FITS: dict[Type, Callable[[Any], Any]] = {
    Type.BOOL: bool,
    Type.INT: _integer,
    Type.FLOAT: float,
    Type.IP: _address,
    Type.MAC: _integer,
    Type.STRING: _text,
}


def called(function: Function, arguments: Sequence[Coded], rows: int) -> Coded:
    """A call for every row.

    Args:
        function: with a Python value.
        arguments: columns of as many rows.
        rows: how many, where there is no argument.

    Raises:
        LowwaterError: as `checked` says.
    """
    if function.batch is None or any(len(other.values) > 1 or other.values[0] is None for other in arguments[1:]):
        return apply(checked(function), arguments, rows)
    first, *others = arguments
    values = function.batch(first.values, *(other.values[0] for other in others))
    before = first.failed or [False] * len(values)
    pairs = zip(values, first.values, before, strict=True)
    failed = [was or (value is None and given is not None) for value, given, was in pairs]
    return Coded(values, first.index, failed)


def apply(call: Callable[..., Any], arguments: Sequence[Coded], rows: int) -> Coded:
    """The value of a function for every row, NULL where an argument is.

    Args:
        call: gives None for a failure.
        arguments: columns of as many rows.
        rows: how many, where there is no argument.
    """
    index, places = _together(arguments, rows)
    values: list[Any] = []
    failed: list[bool] = []
    for place in places:
        given = [argument.values[at] for argument, at in zip(arguments, place, strict=True)]
        absent = any(value is None for value in given)
        value = None if absent else call(*given)
        values.append(value)
        before = any(a.failed is not None and a.failed[at] for a, at in zip(arguments, place, strict=True))
        failed.append(before or (value is None and not absent))
    return Coded(values, index, failed)


def _together(arguments: Sequence[Coded], rows: int) -> tuple[Index, list[tuple[int, ...]]]:
    """Which combination of places each row has, and the combinations."""
    index = np.zeros(rows, np.int64)
    places: list[tuple[int, ...]] = [()]
    for argument in arguments:
        size = len(argument.values)
        if size == 1:
            places = [(*place, 0) for place in places]
        elif len(places) == 1:
            index, places = argument.index, [(*places[0], at) for at in range(size)]
        else:
            pairs, index = np.unique(index * size + argument.index, return_inverse=True)
            places = [(*places[pair // size], pair % size) for pair in pairs.tolist()]
    return index, places
