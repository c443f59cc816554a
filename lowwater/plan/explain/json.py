"""EXPLAIN as JSON, and the schema of it (`docs/explain.schema.json`).

Renders what `describe` made: the classes of `model` as objects. The schema is made from the same classes and their
docstrings, so the two cannot differ.
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
    """The description as JSON: a line for what fits in one, indented otherwise."""
    return laid_out(_value(description)) + "\n"


def laid_out(value: Any, indent: str = "") -> str:
    """A value as JSON, objects and lists on one line where they fit.

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
        pairs = ((each, getattr(value, each.name)) for each in fields(value))
        return {each.name: _value(part) for each, part in pairs if _required(each) or part != each.default}
    if isinstance(value, tuple):
        return [_value(part) for part in value]
    return value


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING


def schema() -> dict[str, Any]:
    """The JSON Schema of `render_json`."""
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
    made: dict[str, Any] = {"description": text.split("\n\n")[0].replace("\n", " "), "type": "object"}
    definitions[kind.__name__] = made
    told = _attributes(text)
    hints = get_type_hints(kind)
    properties = {each.name: {**_type(hints[each.name], definitions), **told[each.name]} for each in fields(kind)}
    made |= {
        "properties": properties,
        "required": [each.name for each in fields(kind) if _required(each)],
        "additionalProperties": False,
    }


def _attributes(text: str) -> dict[str, dict[str, str]]:
    """What the docstring says of each attribute."""
    block = text.partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", block, flags=re.MULTILINE)
    return {name: {"description": re.sub(r"\s+", " ", told)} for name, told in found}


def _type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if is_dataclass(hint) and isinstance(hint, type):
        _define(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _type(get_args(hint)[0], definitions)}
    if get_origin(hint) is UnionType:
        # What is None is null, unless that is the default: then it is left out.
        (kind,) = [arg for arg in get_args(hint) if arg is not NoneType]
        inner = _type(kind, definitions)
        return {"anyOf": [inner, {"type": "null"}]}
    return {"type": _PLAIN[hint]}
