"""The names that a query set may use besides its own queries: links, protocols, functions, parameters.

The command line or a job of the lake makes a Context and gives it to the binder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lowwater.catalog import builtin, functions
from lowwater.catalog.protocols import BUILTIN, Protocol
from lowwater.errors import nearest
from lowwater.gsql.printer import print_name

Value = int | float | str | bool
T = TypeVar("T")


@dataclass(frozen=True)
class Links:
    """The links and link sets that queries may name."""

    names: tuple[str, ...] | None = None  # all links; None if they are unknown, then any name may be a link
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name of a link set -> its links
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # link -> property -> value
    kinds: Mapping[str, str] = field(default_factory=dict)  # link -> kind of its records, if it is not `pcap`
    # link -> column whose values have skews of their own (group-wise punctuation, SEMANTICS T8)
    groups: Mapping[str, str] = field(default_factory=dict)
    interfaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # link -> links of its interfaces (T1)
    remedy: str = ""  # how to add a missing link, with `{}` for its name; empty for a section of the settings
    protocols: Mapping[str, str] = field(default_factory=dict)  # link -> protocol of its records, by its settings
    # link whose section is gone -> links with a section that have some of its captures now (T5)
    moved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def holds(self, name: str) -> bool:
        """Whether a name is a link or may be an interface of a link; interfaces are known only after ingest."""
        if self.names is None or name in self.names:
            return True
        parent = name.partition("/")[0]
        return parent in self.names and parent not in self.interfaces

    def of(self, settings: Mapping[str, T], link: str, default: T) -> T:
        """Returns the setting of a link. An interface without a setting has the setting of its link."""
        return settings.get(link, settings.get(link.partition("/")[0], default))

    def read(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns the links that are read for these names: a link with interfaces stands for its interfaces."""
        return tuple(sorted({interface for name in names for interface in self.interfaces.get(name, (name,))}))

    def lacking(self, chosen: Iterable[str]) -> tuple[str, str] | None:
        """Returns of the links that are read one whose captures another link has a part of, which is not read, and the
        name of that; None where there is none."""
        families = {name.partition("/")[0] for name in chosen}
        return next(
            ((name, other) for name in sorted(families) for other in self.moved.get(name, ()) if other not in families),
            None,
        )

    def without(self, name: str, names: Iterable[str]) -> str:
        """Returns a hint for a name that is not a link: a similar name, or how to add the link."""
        if name in self.sets:
            return f"{name} is a set of links: write [{name}].PROTOCOL"
        from lowwater.config import section_of  # what workers import knows nothing of settings

        settings = f"write {section_of(name)} in the settings"
        remedy = self.remedy.format(name) or settings
        suggestion = nearest(print_name(name), map(print_name, names))
        if suggestion.startswith("did"):
            return f"{suggestion} Otherwise {remedy}"
        return f"{suggestion}; or {remedy}" if suggestion and not self.remedy else remedy


@dataclass(frozen=True)
class Context:
    """The names that a query set may use besides its own queries."""

    links: Links = field(default_factory=Links)
    catalog: functions.Catalog = builtin.CATALOG
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: BUILTIN)
    params: Mapping[str, Value] = field(default_factory=dict)  # parameter -> its value, as written
    dialect: str = "lowwater"  # `lowwater` or `gigascope`, for queries that do not name a dialect
    # sha256 of each file that declares functions, for the digest of inputs (SEMANTICS S1)
    digests: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()  # folders in which queries may read files, besides the folder of their own file
