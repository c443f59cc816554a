"""What the batch evaluator reads and makes: packets of links, and rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.functions import Catalog


@dataclass(frozen=True)
class Packet:
    """A sane record of a link."""

    link: str
    position: int
    arrival: int
    admitted: bool
    values: Mapping[str, Any]

    @property
    def timestamp(self) -> int:
        return int(self.values["timestamp"])

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place in canonical order (O1)."""
        return self.timestamp, self.link, self.position

    @property
    def arrived(self) -> tuple[Any, ...]:
        """Its place among the numbered records (I4)."""
        return self.arrival, self.link, self.position


@dataclass(frozen=True)
class Row:
    """A row of an operator."""

    values: Mapping[str, Any]
    last: int
    order: tuple[Any, ...] = ()
    link: str = ""


@dataclass(frozen=True)
class World:
    """Packets of links, and what else decides nothing or everything."""

    links: Mapping[str, Sequence[Packet]] = field(repr=False)
    watch: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    parts: int = 3
    catalog: Catalog = field(default=CATALOG, repr=False)
    end: int = 0

    @property
    def columns(self) -> set[str]:
        """The stored columns."""
        return {name for packets in self.links.values() for packet in packets[:1] for name in packet.values}

    @property
    def latest(self) -> int:
        """The largest timestamp, or the end of what is known of the links."""
        return self.end or max((p.timestamp for packets in self.links.values() for p in packets), default=0)

    def before(self, instant: int) -> World:
        """The world without the packets from an instant on; idle time goes on until there."""
        links = {link: [p for p in packets if p.timestamp < instant] for link, packets in self.links.items()}
        return replace(self, links=links, end=instant)

    def chance(self, name: str) -> Random:
        """The ejections of one table."""
        return Random(f"{self.seed} {name}")


def multiset(rows: Sequence[Row], names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """The values of rows, with floats to nine digits, as their sums are equal up to rounding only."""
    return Counter(tuple(rounded(row.values[name]) for name in names) for row in rows)


def rounded(value: Any) -> Any:
    """A float to nine digits, with its type beside it, as 1 = 1.0 = TRUE in Python."""
    if isinstance(value, float):
        return "float", "nan" if math.isnan(value) else f"{value:.9g}"
    return ("bool", value) if isinstance(value, bool) else value
