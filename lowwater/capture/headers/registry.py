"""Registry of link layers and tunnels: their descriptions, and the search for the modules that declare them.

A link type or a tunnel needs only a module in `links` or `tunnels` that declares `LINK_LAYERS` or `TUNNELS`. The
kernels, the displayed names and the version of the decoder follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pkgutil import iter_modules
from typing import Any

LinkReader = Callable[[Any, int, int], tuple[int, int, int, int, int, int, int]]
TunnelReader = Callable[[Any, int, int, int], tuple[int, int, int, int, int]]


@dataclass(frozen=True, eq=False)
class LinkLayer:
    """A header in front of the network header.

    Attributes:
        name: name of its kernel; a Python identifier.
        link_types: displayed names by link type number of capture files.
        read: the compiled reader, as described in the package `links`.
    """

    name: str
    link_types: Mapping[int, str]
    read: LinkReader


@dataclass(frozen=True, eq=False)
class Tunnel:
    """A tunnel header after an IP or UDP header.

    Attributes:
        names: displayed names by number of the tunnel.
        over_udp: whether the numbers are UDP destination ports rather than IP protocols.
        read: the compiled reader, as described in the package `tunnels`.
    """

    names: Mapping[int, str]
    over_udp: bool
    read: TunnelReader


def module_entries(package: str, paths: Sequence[str], name: str) -> tuple[Any, ...]:
    """Collects the entries that the modules of a folder declare, in the order of the modules' names.

    Args:
        package: name of the folder for imports.
        paths: `__path__` of the folder.
        name: name of the declaration, such as `LINK_LAYERS`; modules without it are skipped.
    """
    modules = sorted(module.name for module in iter_modules(paths))
    return tuple(chain.from_iterable(getattr(import_module(f"{package}.{module}"), name, ()) for module in modules))


def by_number(entries: Sequence[tuple[Any, Mapping[int, str]]]) -> dict[int, tuple[Any, str]]:
    """Returns entries and displayed names by number.

    Args:
        entries: (entry, names by number).

    Raises:
        ValueError: two entries have the same number.

    Example:
        >>> by_number([("a", {1: "one"}), ("b", {2: "two"})])
        {1: ('a', 'one'), 2: ('b', 'two')}
    """
    table: dict[int, tuple[Any, str]] = {}
    for entry, names in entries:
        for number, name in names.items():
            if number in table:
                raise ValueError(f"two entries have the number {number}: {table[number][1]} and {name}")
            table[number] = entry, name
    return table
