"""EXPLAIN as JSON, and its schema (`docs/explain.schema.json`).

Renders a Description of `describe`: the classes of `model` become objects. The schema comes from the same classes and
their docstrings, so schema and output cannot differ.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import getdoc
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from lowwater.plan.explain.model import VERSION, Description

SCHEMA = "https://json-schema.org/draft/2020-12/schema"
WIDTH = 110
_PLAIN = {str: "string", int: "integer", bool: "boolean"}


def render_json(description: Description) -> str:
    """Returns the description as JSON."""
    return laid_out(_value(description)) + "\n"


def laid_out(value: Any, indent: str = "") -> str:
    """Returns a value as JSON; objects and lists that fit stand on one line.

    Example:
        >>> print(laid_out({"a": [1, 2], "b": ["x" * 60, "y" * 60]}))  # doctest: +ELLIPSIS
        {
          "a": [1, 2],
          "b": [
            "xxx...",
            "yyy..."
          ]
        }
    """
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(key)}: {laid_out(part, inner)}" for key, part in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(f"{inner}{laid_out(part, inner)}" for part in value) + f"\n{indent}]"


def _value(value: Any) -> Any:
    if is_dataclass(value):
        pairs = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _value(part) for field, part in pairs if _required(field) or part != field.default}
    if isinstance(value, tuple):
        return [_value(part) for part in value]
    return value


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of the output of `render_json`."""
    definitions: dict[str, Any] = {}
    _define(Description, definitions)
    whole = definitions.pop(Description.__name__)
    whole["properties"]["version"] = {"const": VERSION, **whole["properties"]["version"]}
    title = "lowwater explain --format json"
    return {"$schema": SCHEMA, "title": title, **whole, "$defs": dict(sorted(definitions.items()))}


def _define(kind: type, definitions: dict[str, Any]) -> None:
    if kind.__name__ in definitions:
        return
    text = getdoc(kind) or ""
    definition: dict[str, Any] = {"description": text.split("\n\n")[0].replace("\n", " "), "type": "object"}
    definitions[kind.__name__] = definition
    descriptions = _attributes(text)
    hints = get_type_hints(kind)
    properties = {
        field.name: {**_type(hints[field.name], definitions), **descriptions[field.name]} for field in fields(kind)
    }
    definition |= {
        "properties": properties,
        "required": [field.name for field in fields(kind) if _required(field)],
        "additionalProperties": False,
    }


def _attributes(text: str) -> dict[str, dict[str, str]]:
    """Returns attribute -> its description in a docstring."""
    block = text.partition("Attributes:\n")[2]
    attributes = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", block, flags=re.MULTILINE)
    return {name: {"description": re.sub(r"\s+", " ", description)} for name, description in attributes}


def _type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if is_dataclass(hint) and isinstance(hint, type):
        _define(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _type(get_args(hint)[0], definitions)}
    if get_origin(hint) is UnionType:
        # None is null in JSON, but the output omits an attribute with its default value.
        (kind,) = [arg for arg in get_args(hint) if arg is not NoneType]
        inner = _type(kind, definitions)
        return {"anyOf": [inner, {"type": "null"}]}
    return {"type": _PLAIN[hint]}
