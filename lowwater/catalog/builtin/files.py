"""Reads the tables of functions from files: address prefixes, and strings of numbers.

Below the families of the built-in catalog. A function reads a file again only after the file has changed. The hash of
the content is an input of the query (S1); `Function.files` names the file for the planner. A path is relative to the
working folder.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lowwater.catalog.builtin.base import in_range
from lowwater.errors import ConfigError

MAX_BYTES = 100_000_000
NO_PREFIX = -1
_WIDTH = {4: 32, 6: 128}
_BETWEEN = re.compile(r"[\s,|]+")


@dataclass(frozen=True)
class Prefixes:
    """A table of address prefixes.

    Attributes:
        families: version of IP -> (prefix length, identifiers by prefix) pairs, the longest length first.
    """

    families: dict[int, tuple[tuple[int, dict[int, int]], ...]]

    def longest(self, address: bytes) -> int:
        """Returns the identifier of the longest prefix of an address; NO_PREFIX without a match."""
        family = address[0]
        number = int.from_bytes(address[1:], "big")
        for length, identifiers in self.families.get(family, ()):
            identifier = identifiers.get(number >> (_WIDTH[family] - length))
            if identifier is not None:
                return identifier
        return NO_PREFIX


def prefix_id(address: bytes, path: str) -> int:
    """Returns the identifier of the longest prefix of an address in a file; -1 without a match."""
    prefixes: Prefixes = _table(path, read_prefixes)
    return prefixes.longest(address)


def mapped_string(number: int, path: str) -> str:
    """Returns the string of a number in a file; the empty string if the file has none."""
    names: dict[int, str] = _table(path, read_strings)
    return names.get(number, "")


def read_prefixes(path: str) -> Prefixes:
    """Reads `prefix/length identifier` lines of IPv4 and IPv6; # starts a comment.

    Args:
        path: a text file; blanks, a comma or a bar separate the fields of a line.

    Raises:
        ConfigError: a line is wrong; the message has file, line and cause.
    """
    families: dict[int, dict[int, dict[int, int]]] = {4: {}, 6: {}}
    for line, text in _lines(path):
        parts = _BETWEEN.split(text)
        try:
            network = ipaddress.ip_network(parts[0])
            identifier = in_range(int(parts[1])) if len(parts) == 2 else None
        except ValueError as error:
            raise _wrong(path, line, str(error), _PREFIX_HINT) from None
        if identifier is None:
            raise _wrong(path, line, f"`{text}` is no prefix with its identifier", _PREFIX_HINT)
        length = network.prefixlen
        number = int(network.network_address) >> (_WIDTH[network.version] - length)
        if families[network.version].setdefault(length, {}).setdefault(number, identifier) != identifier:
            raise _wrong(path, line, f"{network} has two identifiers", "leave one of the lines out")
    return Prefixes({family: tuple(sorted(sizes.items(), reverse=True)) for family, sizes in families.items()})


def read_strings(path: str) -> dict[int, str]:
    """Reads `number,string` lines; # starts a comment.

    Raises:
        ConfigError: a line is wrong; the message has file, line and cause.
    """
    names: dict[int, str] = {}
    for line, text in _lines(path):
        number, comma, name = (part.strip() for part in text.partition(","))
        if not comma or not re.fullmatch(r"[+-]?[0-9]{1,19}", number, re.ASCII):
            raise _wrong(path, line, f"`{text}` is no number with its string", "write `443,https`")
        if names.setdefault(int(number), name) != name:
            raise _wrong(path, line, f"{number} has two strings", "leave one of the lines out")
    return names


_PREFIX_HINT = "write `10.0.0.0/8 7`: prefix, length and an integer"


def _lines(path: str) -> Iterator[tuple[int, str]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        for line, text in enumerate(file, 1):
            content = text.strip()
            if content and not content.startswith("#"):
                yield line, content


def _wrong(path: str, line: int, cause: str, hint: str) -> ConfigError:
    return ConfigError(f"{path}:{line}: {cause:.200}", hint)


def _table(path: str, read: Callable[[str], Any]) -> Any:
    try:
        state = os.stat(path)
        if not os.path.isfile(path):
            raise ConfigError(f"{path}: is not a file", "name a text file")
        if state.st_size > MAX_BYTES:
            raise ConfigError(f"{path}: has {state.st_size:,} bytes, more than {MAX_BYTES:,}", "leave lines out")
        return _cached_file(path, state.st_mtime_ns, state.st_size, read)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        hint = "paths are relative to the folder in which Lowwater runs"
        raise ConfigError(f"{path}: cannot be read: {cause}", hint) from None


@lru_cache(maxsize=16)
def _cached_file(path: str, _changed: int, _size: int, read: Callable[[str], Any]) -> Any:
    # The cache key has the time of change and the size, so that a changed file is read again.
    return read(path)
