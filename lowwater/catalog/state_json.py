"""Writes the states of operators and aggregates as canonical JSON, and reads them back.

Beside the functions. Every engine that hands a state to the next interval (SEMANTICS I4) writes this text, and the lake
keeps it. Only plain values can be written, so reading a state never runs code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from typing import Any

from lowwater.catalog.builtin.aggregates import Counts, Steps, Sums, Texts
from lowwater.catalog.builtin.supergroups import BasicSampling, LossyCounting, SmartSampling
from lowwater.errors import LowwaterError

_CLASSES: dict[str, type] = {
    state_class.__name__: state_class
    for state_class in (Counts, Sums, Texts, Steps, SmartSampling, BasicSampling, LossyCounting)
}
"""Classes of states of the shipped aggregates and of the sampling operator, by name."""


def write_state(state: Any) -> str:
    """Returns a state as JSON. Equal states give equal texts, whatever the order of their sets.

    A list, an integer and a string are themselves. Any other value is an object with one key, its kind.

    Raises:
        LowwaterError: the state holds a value that cannot be written.

    Example:
        >>> write_state(({2, 1}, b"x", 0.5))
        '{"tuple":[{"set":[1,2]},{"bytes":"78"},{"float":"0x1.0000000000000p-1"}]}'
    """
    return text_of(_plain(state))


def read_state(text: str | bytes) -> Any:
    """Returns the state that a text holds. Raises LowwaterError if the text holds no state."""
    try:
        return value_of(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LowwaterError(
            f"a state cannot be read: {error}", "evaluate the intervals from the start of the chain"
        ) from error


def text_of(plain: Any) -> str:
    """Returns the JSON of a state, or of a part of it, as text."""
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return _exact(value)
    if isinstance(value, float):
        return {"float": "nan" if math.isnan(value) else value.hex()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(part) for part in value]}
    if isinstance(value, bytes | bytearray):
        return {type(value).__name__: value.hex()}
    if isinstance(value, set | frozenset):
        return {type(value).__name__: sorted((_plain(part) for part in value), key=text_of)}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(part)] for key, part in value.items()]}
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    if _CLASSES.get(type(value).__name__) is type(value):
        return {type(value).__name__: [_plain(getattr(value, f.name)) for f in fields(value)]}  # type: ignore[arg-type]
    raise LowwaterError(
        f"a state holds {value!r:.80} of type {type(value).__name__}, which cannot be carried to the next interval",
        "keep numbers, strings, bytes, None, and tuples, lists, sets and dicts of these",
    )


def _exact(value: Any) -> Any:
    # A value of a subclass, such as an enumeration, would come back as its base class.
    if type(value) not in (type(None), bool, int, str):
        raise LowwaterError(f"a state holds {value!r:.80} of type {type(value).__name__}", "keep plain values")
    return value


def value_of(plain: Any) -> Any:
    """Returns the value that a part of the JSON of a state stands for."""
    if isinstance(plain, list):
        return [value_of(part) for part in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind in _CLASSES:
        return _CLASSES[kind](*[value_of(part) for part in content])
    return _READ[kind](content)


_READ: dict[str, Callable[[Any], Any]] = {
    # The one object `math.nan` is found again as a key; two NaN objects are not equal.
    "float": lambda text: math.nan if text == "nan" else float.fromhex(text),
    "tuple": lambda parts: tuple([value_of(part) for part in parts]),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "set": lambda parts: {value_of(part) for part in parts},
    "frozenset": lambda parts: frozenset(value_of(part) for part in parts),
    "dict": lambda pairs: {value_of(key): value_of(value) for key, value in pairs},
    "fraction": lambda parts: Fraction(*parts),
}
