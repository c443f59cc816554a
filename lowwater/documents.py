"""Documents of settings: JSON, TOML, and what the environment sets."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from lowwater import errors, limits

# JSON and TOML that somebody else may have written: what costs too much to read is refused, with a ValueError. Below
# every stage, like `errors`. Parsers follow nesting by recursion, and the one of TOML takes the square of the parts
# of a dotted key.


FILE_NAME = "lowwater.toml"
"""Name of the settings file of a lake."""

OF_FORMAT_1 = ("captures", "files")
"""Ledgers that only lakes of format 1 have, by their folders; in those of now their logs tell older versions so."""

LISTS = ("operators", "tasks")
"""Lists of objects in the account of a stage."""
FORMS: dict[str, type] = {"inputs": dict, **dict.fromkeys(LISTS, list)}

_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{limits.KEY_PARTS},}}")


def json_value(text: str | bytes) -> Any:
    """Parses JSON. Raises ValueError if it is no JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def toml_table(text: str) -> dict[str, Any]:
    """Parses TOML. Raises ValueError if it is no TOML, too large, or nested too deeply."""
    if len(text) > limits.SETTINGS_BYTES:
        raise ValueError(f"it has more than {limits.SETTINGS_BYTES:,} bytes")
    if found := _DEEP_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"a key has more than {limits.KEY_PARTS} parts (at line {line})")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def stored_object(text: str) -> dict[str, Any]:
    """Parses a JSON object in a column of a ledger.
    Raises LakeError if it is none, or a value in it has another form than every version of Lowwater gives it."""
    value = _stored(text)
    if not isinstance(value, dict) or not all(
        isinstance(value.get(name, kind()), kind) for name, kind in FORMS.items()
    ):
        raise strange_text(text)
    if not all(isinstance(each, dict) for name in LISTS for each in value.get(name, ())):
        raise strange_text(text)
    return value


def stored_pair(text: str) -> tuple[list[str], list[str]]:
    """Parses two lists of texts in a column of a ledger. Raises LakeError if it is something else."""
    value = _stored(text)
    lists = isinstance(value, list) and len(value) == 2 and all(isinstance(each, list) for each in value)
    if not lists or not all(isinstance(name, str) for each in value for name in each):
        raise strange_text(text)
    return value[0], value[1]


def stored_texts(text: str) -> list[str]:
    """Parses a list of texts in a ledger or a table. Raises LakeError if it is something else."""
    value = _stored(text)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise strange_text(text)
    return value


def stored_numbers(text: str) -> list[list[int | None]]:
    """Parses a list of rows of numbers in a column of a ledger. Raises LakeError if it is something else."""
    value = _stored(text)
    if not isinstance(value, list) or not all(
        isinstance(row, list) and all(number is None or type(number) is int for number in row) for row in value
    ):
        raise strange_text(text)
    return value


def _stored(text: str) -> Any:
    try:
        return json_value(text)
    except ValueError:
        raise strange_text(text) from None


def strange_text(text: str) -> errors.LakeError:
    """Makes the error for a text in a ledger that another program wrote."""
    return errors.LakeError(
        f"a ledger of the lake holds a text that no version of Lowwater wrote: {text[:60]!a}",
        "another program wrote it: restore the ledger, or do not use the lake",
    )


# Settings in the environment

PREFIX = "LOWWATER_"
SEPARATOR = "__"
"""Separates section and key. Variables without it are no settings (LOWWATER_LAKE, LOWWATER_DEBUG)."""


def override(data: dict[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """Overrides the settings of a file by environment variables.

    A part of a variable's name means the existing key with the same letters and digits, whatever its case and its other
    characters (`MAIN1_ETH0` for `main1/eth0`). Otherwise it means a new key in lower case. A value that is no TOML is
    text.

    Args:
        data: settings of the file; changed.

    Returns:
        Dotted key -> name of its variable.

    Raises:
        ConfigError: if a variable names a key below a plain value.

    Example:
        >>> data = {"links": {"main1": {"skew": "1s"}}}
        >>> override(data, {"LOWWATER_LINKS__MAIN1__SKEW": "2s", "LOWWATER_LAKE": "var/lake"})
        {'links.main1.skew': 'LOWWATER_LINKS__MAIN1__SKEW'}
        >>> data
        {'links': {'main1': {'skew': '2s'}}}
    """
    sources = {}
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or SEPARATOR not in name:
            continue
        at, keys = data, []
        *sections, last = name.removeprefix(PREFIX).split(SEPARATOR)
        for part in sections:
            keys.append(_key(at, part))
            at = at.setdefault(keys[-1], {})
            if not isinstance(at, dict):
                what, whole = ".".join(keys), SEPARATOR.join(name.split(SEPARATOR)[: len(keys)])
                if isinstance(at, list):
                    raise errors.ConfigError(f"{name}: {what} is a list: give it as a whole", f"write {whole}='[...]'")
                raise errors.ConfigError(f"{name}: {what} is a value and has no keys below it")
        keys.append(_key(at, last))
        at[keys[-1]] = _value(text)
        sources[".".join(keys)] = name
    return sources


def _key(section: Mapping[str, Any], part: str) -> str:
    matches = [key for key in section if _plain(key) == _plain(part)]
    return matches[0] if len(matches) == 1 else part.lower()


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", text.lower())


def _value(text: str) -> Any:
    try:
        return toml_table(f"value = {text}")["value"]
    except ValueError:
        return text
