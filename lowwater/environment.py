"""Settings from variables of the environment: `LOWWATER_REPLAY__MEMORY=4g` stands for `memory = "4g"` in `[replay]`.

Below `config`, which reads the file and lets these go over it before anything is checked.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from lowwater.errors import ConfigError

PREFIX = "LOWWATER_"
SEPARATOR = "__"
"""Parts a section from its key; variables without it are no settings (LOWWATER_LAKE, LOWWATER_DEBUG)."""


def override(data: dict[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """Puts the settings that variables name into those of a file.

    A part of a name stands for the key that is there already and is spelled so but for case and for what is no letter
    or digit (`MAIN1_ETH0` for `main1/eth0`), else for itself in lower case. A value is TOML where it can be read so,
    else text.

    Args:
        data: the data of the file; changed.
        environment: the variables.

    Returns:
        Key, with dots, -> the variable that it came from.

    Raises:
        ConfigError: a variable names a key below a value that has none.

    Example:
        >>> data = {"links": {"main1": {"skew": "1s"}}}
        >>> override(data, {"LOWWATER_LINKS__MAIN1__SKEW": "2s", "LOWWATER_LAKE": "var/lake"})
        {'links.main1.skew': 'LOWWATER_LINKS__MAIN1__SKEW'}
        >>> data
        {'links': {'main1': {'skew': '2s'}}}
    """
    found = {}
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
        found[".".join(keys)] = name
    return found


def _key(known: Mapping[str, Any], part: str) -> str:
    alike = [key for key in known if _plain(key) == _plain(part)]
    return alike[0] if len(alike) == 1 else part.lower()


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", text.lower())


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
