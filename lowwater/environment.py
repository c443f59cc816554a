"""Settings in environment variables: `LOWWATER_REPLAY__MEMORY=4g` stands for `memory = "4g"` in `[replay]`.

Below `config`, which reads the file, applies these variables, and then checks all settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lowwater.documents import toml_table
from lowwater.errors import ConfigError

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
        environment: the environment variables.

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
                raise ConfigError(f"{name}: {'.'.join(keys)} is a value and has no keys below it")
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
