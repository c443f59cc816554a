"""The registry of link layers and tunnels: what one of them states, and how the modules that state it are found.

Below `links` and `tunnels`. A module of these folders that states `LINK_LAYERS` or `TUNNELS` is all that a link type or
a tunnel needs: the kernels, the names that people see and the version of the decoder follow from it.
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
        name: what its kernel is called; a Python identifier.
        link_types: numbers that capture files have for it -> names that people see.
        read: the compiled reader, as the package `links` says.
    """

    name: str
    link_types: Mapping[int, str]
    read: LinkReader


@dataclass(frozen=True, eq=False)
class Tunnel:
    """A header behind an IP or UDP header that carries packets.

    Attributes:
        names: numbers that stand for it -> names that people see.
        over_udp: whether its numbers are destination ports of UDP, or else IP protocols.
        read: the compiled reader, as the package `tunnels` says.
    """

    names: Mapping[int, str]
    over_udp: bool
    read: TunnelReader


def stated(package: str, paths: Sequence[str], name: str) -> tuple[Any, ...]:
    """What the modules of a folder state under a name, in the order of the modules' names.

    Args:
        package: the folder's name for imports.
        paths: its `__path__`.
        name: such as `LINK_LAYERS`; a module without it has parts that others share.
    """
    modules = sorted(module.name for module in iter_modules(paths))
    return tuple(chain.from_iterable(getattr(import_module(f"{package}.{each}"), name, ()) for each in modules))


def numbered(entries: Sequence[tuple[Any, Mapping[int, str]]]) -> dict[int, tuple[Any, str]]:
    """Entries and names by their numbers.

    Args:
        entries: each with its numbers and the names of these.

    Raises:
        ValueError: two entries have the same number.

    Example:
        >>> numbered([("a", {1: "one"}), ("b", {2: "two"})])
        {1: ('a', 'one'), 2: ('b', 'two')}
    """
    table: dict[int, tuple[Any, str]] = {}
    for entry, names in entries:
        for number, name in names.items():
            if number in table:
                raise ValueError(f"two entries have the number {number}: {table[number][1]} and {name}")
            table[number] = entry, name
    return table
