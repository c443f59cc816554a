"""Evaluates calls of catalog functions over columns, once for each distinct combination of arguments.

Beside the functions. The low level and Spark's workers use it, batch by batch, for functions that their kernels cannot
evaluate. The value is NULL where an argument is NULL; None for other arguments is a failure (SEMANTICS V2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.builtin.numbers import in_range
from lowwater.catalog.functions import AggregateFunction, Function, StateFunction
from lowwater.catalog.schemas import STREAM_TYPES
from lowwater.catalog.values import Type
from lowwater.errors import ConfigError, LowwaterError, ValueOverflowError

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DictionaryColumn:
    """A dictionary-encoded column. Its values may repeat."""

    values: Sequence[Any]  # Python values, None for NULL
    index: Index  # shape (rows), the position in `values` for each row
    # shape (values), whether a failure took part in the value; None for no failure at all
    failed: Sequence[bool] | None = None

    @staticmethod
    def of(array: pa.Array) -> DictionaryColumn:
        # Floats are encoded by their bits, since 0.0 and -0.0 are equal but not the same.
        real = array.type == pa.float64()
        encoded = (array.view(pa.int64()) if real else array).dictionary_encode()
        dictionary = encoded.dictionary.view(array.type) if real else encoded.dictionary
        index = encoded.indices.fill_null(-1).to_numpy().astype(np.int64) + 1
        if len(dictionary) == 1 and not array.null_count:
            return DictionaryColumn(dictionary.to_pylist(), np.zeros(len(array), np.int64))
        return DictionaryColumn([None, *dictionary.to_pylist()], index)

    @staticmethod
    def constant(value: Any, rows: int) -> DictionaryColumn:
        """Returns a column with the same value in every row. `value`: the Python value, None for NULL."""
        return DictionaryColumn([value], np.zeros(rows, np.int64))

    def array(self, kind: Type) -> pa.Array:
        """Returns the column as an Arrow array of a stream's type."""
        return pa.array(self.values, STREAM_TYPES[kind]).take(pa.array(self.index))


def checked_function(function: Function) -> Callable[..., Any]:
    """Returns the Python implementation of a function, with a check of the type that it returns.
    Raises LowwaterError if it has none in this process, and when called, if a user's function fails or returns a value
    of another type."""
    if function.value is None:
        raise LowwaterError(
            f"the Python of the function {function.name} does not run here",
            "`lowwater plan` says what the query set needs to run on this machine",
        )
    return checked_call(function, function.value, function.returns)


def checked_call(
    function: Function | AggregateFunction | StateFunction, value: Callable[..., Any], returns: Type | None = None
) -> Callable[..., Any]:
    """Wraps Python code of a catalog entry: a failure becomes a LowwaterError, and the result is checked. Raises
    LowwaterError when called, if the code fails or returns a value of another type. `returns`: the type of the result;
    None for the state of an aggregate, which has no type."""
    convert = _CONVERSIONS[returns] if returns else lambda result: result

    def call(*arguments: Any) -> Any:
        try:
            result = value(*arguments)
            return None if result is None else convert(result)
        except (ValueOverflowError, ConfigError):
            raise  # overflow of a sum (O3) gets its name from the engine; errors of files name the file themselves
        except Exception as error:
            expectation = f"give {returns} or None" if returns else "give a state"
            raise LowwaterError(
                f"the function {function.name} ({function.origin}) fails: {type(error).__name__}: {error}",
                f"it is to {expectation} for the arguments {arguments!r:.200}",
            ) from error

    return call


class CheckedAggregate:
    """The functions of a user's aggregate (`Udaf`), with checks of what they return.

    Attributes:
        reinit: the optional function of a running aggregate; else None.
        merges: whether the aggregate has `merge`, which combines two states.
    """

    def __init__(self, udaf: AggregateFunction) -> None:
        assert udaf.make is not None, udaf.name
        implementation = udaf.make()
        self.initialize = checked_call(udaf, implementation.initialize)
        self.iterate = checked_call(udaf, implementation.iterate)
        self.output = checked_call(udaf, implementation.output, udaf.returns)
        reinit = getattr(implementation, "reinit", None)
        self.reinit = checked_call(udaf, reinit) if reinit else None
        self.merges = hasattr(implementation, "merge")


def _integer(value: Any) -> int | None:
    if not isinstance(value, int | np.integer):
        raise TypeError(f"{value!r:.80} is no integer")
    return in_range(int(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no string")
    # Every engine keeps text as UTF-8, which cannot hold a lone surrogate.
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _address(value: Any) -> bytes:
    if not isinstance(value, bytes) or (value[:1], len(value)) not in ((b"\x04", 5), (b"\x06", 17)):
        raise TypeError(f"{value!r:.80} is no address value")
    return value


_CONVERSIONS: dict[Type, Callable[[Any], Any]] = {
    Type.BOOL: bool,
    Type.INT: _integer,
    Type.FLOAT: float,
    Type.IP: _address,
    Type.MAC: _integer,
    Type.INSTANT: _integer,
    Type.STRING: _text,
}


def call_function(function: Function, arguments: Sequence[DictionaryColumn], rows: int) -> DictionaryColumn:
    """Evaluates a call for every row, with the function's batch form where it has one. Raises LowwaterError if a user's
    function fails or returns a value of another type. `arguments`: columns of `rows` rows."""
    if function.batch is None or any(len(other.values) > 1 or other.values[0] is None for other in arguments[1:]):
        return apply_python(checked_function(function), arguments, rows)
    first, *others = arguments
    values = function.batch(first.values, *(other.values[0] for other in others))
    before = first.failed or [False] * len(values)
    pairs = zip(values, first.values, before, strict=True)
    failed = [earlier or (value is None and argument is not None) for value, argument, earlier in pairs]
    return DictionaryColumn(values, first.index, failed)


def apply_python(call: Callable[..., Any], arguments: Sequence[DictionaryColumn], rows: int) -> DictionaryColumn:
    """Evaluates Python code for every row; the value is NULL where an argument is NULL.

    Args:
        call: returns None for a failure.
        arguments: columns of `rows` rows.
    """
    index, places = _combinations(arguments, rows)
    values: list[Any] = []
    failed: list[bool] = []
    for place in places:
        combination = [argument.values[at] for argument, at in zip(arguments, place, strict=True)]
        has_null = any(value is None for value in combination)
        value = None if has_null else call(*combination)
        values.append(value)
        failed_before = any(a.failed is not None and a.failed[at] for a, at in zip(arguments, place, strict=True))
        failed.append(failed_before or (value is None and not has_null))
    return DictionaryColumn(values, index, failed)


def _combinations(arguments: Sequence[DictionaryColumn], rows: int) -> tuple[Index, list[tuple[int, ...]]]:
    """Returns, for each row, the number of its combination of argument positions, and the distinct combinations."""
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
