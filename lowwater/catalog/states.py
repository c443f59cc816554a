"""Writes what operators and aggregates carry from interval to interval as canonical JSON, and reads it back.

Beside the functions: every engine that carries a state (SEMANTICS I4) writes it so, and the lake keeps the text. Only
plain values have a form, so that reading a state never runs code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from lowwater.catalog.builtin.heavy import Counts
from lowwater.catalog.builtin.running import Steps, Sums, Texts
from lowwater.catalog.builtin.supergroups import BasicSampling, LossyCounting, SmartSampling
from lowwater.errors import LowwaterError

_CLASSES: dict[str, type] = {
    each.__name__: each for each in (Counts, Sums, Texts, Steps, SmartSampling, BasicSampling, LossyCounting)
}
"""The states of shipped aggregates and of the sampling operator that are classes."""


def write_state(state: Any) -> str:
    """A state as JSON; equal states have equal texts, whatever the order of their sets.

    A list is a list, an integer and a string are themselves; everything else is an object of one key, its kind.

    Raises:
        LowwaterError: something in it has no form.

    Example:
        >>> write_state(({2, 1}, b"x", 0.5))
        '{"tuple":[{"set":[1,2]},{"bytes":"78"},{"float":"0x1.0000000000000p-1"}]}'
    """
    return _text(_plain(state))


def read_state(text: str) -> Any:
    """The state that a text is.

    Raises:
        LowwaterError: it is none.
    """
    try:
        return _value(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LowwaterError(
            f"a state cannot be read: {error}", "evaluate the intervals from the start of the chain"
        ) from error


def load_state(file: Path) -> Any:
    """The state that lies in a file of the lake.

    Raises:
        LowwaterError: there is none in it; the hint says how it is made again.
    """
    try:
        return read_state(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, LowwaterError) as error:
        cause = error.message if isinstance(error, LowwaterError) else str(error)
        raise LowwaterError(
            f"{file}: {cause}", f"remove the folder {file.parent}, and `lowwater backfill` makes it again"
        ) from error


def _text(plain: Any) -> str:
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return _exact(value)
    if isinstance(value, float):
        return {"float": "nan" if math.isnan(value) else value.hex()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(each) for each in value]}
    if isinstance(value, bytes | bytearray):
        return {type(value).__name__: value.hex()}
    if isinstance(value, set | frozenset):
        return {type(value).__name__: sorted((_plain(each) for each in value), key=_text)}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(each)] for key, each in value.items()]}
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    if _CLASSES.get(type(value).__name__) is type(value):
        return {type(value).__name__: [_plain(getattr(value, f.name)) for f in fields(value)]}  # type: ignore[arg-type]
    raise LowwaterError(
        f"a state holds {value!r:.80} of type {type(value).__name__}, which cannot be carried to the next interval",
        "keep numbers, strings, bytes, None, and tuples, lists, sets and dicts of these",
    )


def _exact(value: Any) -> Any:
    # A subclass, such as an enumeration, would come back as something else.
    if type(value) not in (type(None), bool, int, str):
        raise LowwaterError(f"a state holds {value!r:.80} of type {type(value).__name__}", "keep plain values")
    return value


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind in _CLASSES:
        return _CLASSES[kind](*[_value(each) for each in content])
    return _READ[kind](content)


_READ: dict[str, Callable[[Any], Any]] = {
    # One NaN for all, so that it is found again as a key.
    "float": lambda text: math.nan if text == "nan" else float.fromhex(text),
    "tuple": lambda parts: tuple([_value(each) for each in parts]),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "set": lambda parts: {_value(each) for each in parts},
    "frozenset": lambda parts: frozenset(_value(each) for each in parts),
    "dict": lambda pairs: {_value(key): _value(each) for key, each in pairs},
    "fraction": lambda parts: Fraction(*parts),
}
