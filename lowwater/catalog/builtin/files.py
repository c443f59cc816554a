"""Tables that functions read from files: prefixes of addresses, names of numbers.

Below the families of the shipped catalog. A table is read once for each state of its file; the content is an input of
the query by its hash (S1), which the planner finds through `Function.files`. A path is relative to the working folder.
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
    """A table of prefixes: for each family, from the longest to the shortest, length and identifiers by prefix."""

    families: dict[int, tuple[tuple[int, dict[int, int]], ...]]

    def longest(self, address: bytes) -> int:
        """The identifier of the longest prefix that holds the address; NO_PREFIX where none does."""
        family = address[0]
        number = int.from_bytes(address[1:], "big")
        for length, known in self.families.get(family, ()):
            identifier = known.get(number >> (_WIDTH[family] - length))
            if identifier is not None:
                return identifier
        return NO_PREFIX


def prefix_id(address: bytes, path: str) -> int:
    """The identifier of the longest prefix in the file that holds the address, -1 where none does."""
    prefixes: Prefixes = _table(path, read_prefixes)
    return prefixes.longest(address)


def mapped_string(number: int, path: str) -> str:
    """The string that the file gives to the number, the empty one where it gives none."""
    names: dict[int, str] = _table(path, read_strings)
    return names.get(number, "")


def read_prefixes(path: str) -> Prefixes:
    """Reads `prefix/length identifier` lines of either family, divided by blanks, a comma or a bar; # begins a comment.

    Raises:
        ConfigError: with file, line and cause.
    """
    known: dict[int, dict[int, dict[int, int]]] = {4: {}, 6: {}}
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
        if known[network.version].setdefault(length, {}).setdefault(number, identifier) != identifier:
            raise _wrong(path, line, f"{network} has two identifiers", "leave one of the lines out")
    return Prefixes({family: tuple(sorted(sizes.items(), reverse=True)) for family, sizes in known.items()})


def read_strings(path: str) -> dict[int, str]:
    """Reads `number,string` lines; # begins a comment.

    Raises:
        ConfigError: with file, line and cause.
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
            kept = text.strip()
            if kept and not kept.startswith("#"):
                yield line, kept


def _wrong(path: str, line: int, cause: str, hint: str) -> ConfigError:
    return ConfigError(f"{path}:{line}: {cause}", hint)


def _table(path: str, read: Callable[[str], Any]) -> Any:
    try:
        state = os.stat(path)
        if not os.path.isfile(path):
            raise ConfigError(f"{path}: is no file", "name a text file")
        if state.st_size > MAX_BYTES:
            raise ConfigError(f"{path}: has {state.st_size:,} bytes, more than {MAX_BYTES:,}", "leave lines out")
        return _kept(path, state.st_mtime_ns, state.st_size, read)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        hint = "paths are relative to the folder in which Lowwater runs"
        raise ConfigError(f"{path}: cannot be read: {cause}", hint) from None


@lru_cache(maxsize=16)
def _kept(path: str, _changed: int, _size: int, read: Callable[[str], Any]) -> Any:
    # The time of change and the size stand for the state of the file.
    return read(path)
