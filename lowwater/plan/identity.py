"""What a part of a plan is, as plain values: equal parts have equal values in every process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from lowwater.catalog.functions import AggregateFunction, Function, Native, StateFunction


def plain(part: Any) -> Any:
    """Returns a part of a plan as JSON has values. Of a function it is the name, with types and where it is declared:
    what it computes is the release's, or a declared input of the query. Places in the text are left out.
    Raises TypeError for what has no such values."""
    match part:
        case Function() | AggregateFunction() | StateFunction() | Native():
            signature = [plain(getattr(part, name, None)) for name in ("parameters", "returns", "origin")]
            return [type(part).__name__, part.name, *signature]
        case Enum():
            return [type(part).__name__, part.value]
        case None | bool() | int() | str():
            return part
        case float():
            return ["float", part.hex()]
        case bytes():
            return ["bytes", part.hex()]
        case pa.DataType():
            return str(part)
        case Mapping():
            return ["map", sorted(([plain(key), plain(value)] for key, value in part.items()), key=repr)]
        case tuple() | list():
            return [plain(each) for each in part]
        case frozenset() | set():
            return ["set", *sorted((plain(each) for each in part), key=repr)]
    if is_dataclass(part) and not isinstance(part, type):
        own = {field.name: plain(getattr(part, field.name)) for field in fields(part) if field.compare}
        return [type(part).__name__, own]
    raise TypeError(f"{type(part).__name__} has no plain values")
