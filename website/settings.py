"""The reference of `lowwater.toml`, made from the classes that read it: every section, every key."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from lowwater.config import Config, Duplicates, Section
from lowwater.instants import format_duration, parse_duration, parse_instant, parse_span
from website.tables import cell, code, table

HEAD = """Every section and key, from the classes that read them. [Settings](../docs/settings.md) has the same as one
file, and says more of the keys that need it. A *duration* is a text such as `"500ms"` or `"10 min"`, or a number of
seconds; an *instant* is ISO 8601, UTC. A variable `LOWWATER_SECTION__KEY` goes over the file. Letters such as (T5) are
rules of the [semantics](../docs/semantics.md).
"""
_PARSED = {parse_duration: "duration", parse_instant: "instant", parse_span: "instant/instant"}
_PLAIN = {str: "text", PurePath: "", int: "number", float: "number", bool: "true or false"}
_SPECIAL = {"_zone": "name of a time zone", "_name_list": "text, or list of texts", "_duplicates": "", "_policy": ""}
_HEARTBEAT = 'duration, `"on-demand"`, `"data-driven"` or `"none"`'
_ITEM = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)


def page() -> str:
    """Returns the whole page without its heading."""
    return HEAD + "".join(_sections(Config, ""))


def _sections(section: type[Section], path: str) -> Iterator[str]:
    """The table of a section, then those below it."""
    meanings = dict(_ITEM.findall(inspect.getdoc(section) or ""))
    rows, below = [], []
    for name, field in section.model_fields.items():
        child, many = _child(field.annotation)
        if child is not None:
            below.append((child, ".".join(filter(None, (path, name, "NAME" if many else "")))))
            continue
        meaning = _told(meanings.get(name, ""))
        if name == "duplicates":
            meaning += ' Written as `"report 50ms"` or `"drop 50ms"`.'
        rows.append((code(name), cell(kind(field)), _default(field), cell(meaning)))
    if path:
        yield f"\n## \\[{path}\\]\n\n{cell(_summary(section))}\n\n"
    if rows:
        yield ("" if path else "\n## At the top\n\n") + table(("key", "value", "default", "meaning"), rows)
    for child, name in below:
        yield from _sections(child, name)


def _told(meaning: str) -> str:
    """The meaning of a key in the words of the file: there, None is a key that is not set, and no number is in ns."""
    meaning = re.sub(r",? ns\b(?: since the epoch)?(?=[;:.,]| \(|$)", "", meaning)
    return re.sub(r"\bNone if\b", "unset if", re.sub(r"\bNone for\b", "unset:", meaning))


def _child(annotation: Any) -> tuple[type[Section] | None, bool]:
    """The section that a field holds, and whether it holds one for each name."""
    if get_origin(annotation) is dict:
        child, _ = _child(get_args(annotation)[1])
        return child, True
    options = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    for option in options:
        if inspect.isclass(option) and issubclass(option, Section) and option is not Duplicates and _has_own(option):
            return option, False
    return None, False


def _has_own(section: type[Section]) -> bool:
    """Whether a section has a header of its own: limits are values."""
    return (section.__doc__ or "").startswith("`[")


def _summary(section: type[Section]) -> str:
    """The first sentence of a docstring without the header that it begins with; in capitals."""
    text = (inspect.getdoc(section) or "").partition("\n")[0]
    text = text.partition("`: ")[2] or text
    return re.sub(r" \(ns\)", "", text[:1].upper() + text[1:])


def kind(field: FieldInfo) -> str:
    """What may be written as the value of a key, in words."""
    return _words(field.annotation, field.metadata)


def _words(annotation: Any, metadata: list[Any]) -> str:
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _words(inner, [*more, *metadata])
    validators = [item.func for item in metadata if isinstance(item, BeforeValidator)]
    for function in validators:
        if function in _PARSED:
            return _PARSED[function]
        if function.__name__ == "_heartbeat":
            return _HEARTBEAT
        if _SPECIAL.get(function.__name__):
            return _SPECIAL[function.__name__]
    origin, options = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f'`"{option}"`' for option in options)
    if origin in (Union, UnionType):
        words = [_words(option, []) for option in options if option is not NoneType]
        return " or ".join(dict.fromkeys(word for word in words if word))
    if origin is dict:
        return f"table of {_words(options[1], [])}"
    if origin is tuple:
        return f"list of {_words(options[0], []).replace(' or ', ', ')}"
    if annotation is Duplicates:
        return '`"report"` or `"drop"` with a duration'
    if inspect.isclass(annotation) and issubclass(annotation, Section):
        return "number from 0 to 1, or `{ warning = 0.01, critical = 0.1 }`"
    return _PLAIN[annotation] + _bounds(metadata)


def _bounds(metadata: list[Any]) -> str:
    low = next((item.ge for item in metadata if hasattr(item, "ge")), None)
    high = next((item.le for item in metadata if hasattr(item, "le")), None)
    if low is not None and high is not None:
        return f" from {low} to {high:,}"
    return f" of at least {low}" if low is not None else ""


def _default(field: FieldInfo) -> str:
    """The default as it would be written; empty where nothing is set."""
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}) or field.is_required():
        return "required" if field.is_required() else ""
    if isinstance(value, Section):
        return ", ".join(f"{name} {number:g}" for name, number in value.model_dump().items() if number is not None)
    if _words(field.annotation, field.metadata).startswith("duration") and isinstance(value, int):
        return code(f'"{format_duration(value)}"')
    if isinstance(value, str):
        return code(f'"{value}"') if value else ""
    return code(str(value).lower() if isinstance(value, bool) else str(value))
