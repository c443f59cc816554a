"""What a query set may name besides its own queries: links, protocols, functions, parameters.

Given to the binder by whoever plans: the command line, or a job of the lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.functions import Catalog
from lowwater.catalog.protocols import PROTOCOLS, Protocol
from lowwater.plan.text import nearest

Value = int | float | str | bool
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Links:
    """The links and sets that queries may name.

    Attributes:
        names: all links; None where they are not known (explain without captures): then any name is a link.
        sets: set name -> link names.
        properties: link -> property -> value, for `@property`.
        kinds: link -> kind of its records, where it is not `pcap`.
        groups: link -> column whose values have skews of their own (group-wise punctuation, SEMANTICS T8).
        interfaces: link -> the links of its interfaces, for which it stands (SEMANTICS T1).
        remedy: what gives a link that is not among the names, with `{}` for it; empty where only settings do.
    """

    names: tuple[str, ...] | None = None
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    interfaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remedy: str = ""

    def holds(self, name: str) -> bool:
        """Whether a name is a link, or may be the interface of one: what those are is known once they are ingested."""
        if self.names is None or name in self.names:
            return True
        parent = name.partition("/")[0]
        return parent in self.names and parent not in self.interfaces

    def of(self, settings: Mapping[str, Kept], link: str, default: Kept) -> Kept:
        """What is set for a link; for an interface, as for its link where nothing else is set."""
        return settings.get(link, settings.get(link.partition("/")[0], default))

    def read(self, names: Iterable[str]) -> tuple[str, ...]:
        """What is read where these links are named: of a link that stands for its interfaces, those."""
        return tuple(sorted({part for name in names for part in self.interfaces.get(name, (name,))}))

    def without(self, name: str, known: Iterable[str]) -> str:
        """What to write in the place of a link that is not there, or how to add it."""
        if name in self.sets:
            return f"{name} is a set of links: write [{name}].PROTOCOL"
        remedy = self.remedy.format(name)
        close = nearest(name, known)
        return f"{close} Otherwise {remedy}" if remedy and close.startswith("did") else remedy or close


@dataclass(frozen=True)
class Context:
    """What a query set may name.

    Attributes:
        links: links and sets.
        catalog: functions and aggregates.
        protocols: by name.
        params: values given for `$name`, as written.
        dialect: `lowwater`, or `gigascope` for every query that does not say.
        digests: sha256 of the files that declare functions, for the digest of inputs (SEMANTICS S1).
        folders: what queries may read files in, beside the folder of their own file.
    """

    links: Links = field(default_factory=Links)
    catalog: Catalog = CATALOG
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: PROTOCOLS)
    params: Mapping[str, Value] = field(default_factory=dict)
    dialect: str = "lowwater"
    digests: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
