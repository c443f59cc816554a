"""Changes that are tried before they are published: other query files, other skews. `Job.open` applies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lowwater.config import LONGEST_SKEW, Config, Link
from lowwater.errors import ConfigError
from lowwater.instants import format_duration
from lowwater.plan.text import nearest


@dataclass(frozen=True)
class TrialChanges:
    """Query files and skews in place of those of a lake.

    Attributes:
        files: query files; each replaces the file with its name in a query set.
        skews: link -> skew, ns.
    """

    files: tuple[Path, ...] = ()
    skews: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.files or self.skews)

    def config(self, config: Config, links: Sequence[str]) -> Config:
        """Returns settings with these skews.

        Args:
            config: settings of the lake.
            links: links of the lake.

        Raises:
            ConfigError: there is no such link, or a skew is too long.
        """
        changed: dict[str, Link] = {}
        for name, skew in self.skews.items():
            if name not in links:
                raise ConfigError(f"--skew {name}: the lake has no link {name!r}", nearest(name, links))
            if skew < 0:
                raise ConfigError(f"--skew {name}: {skew} ns is below 0", "a skew is a duration, such as 5s")
            if skew >= LONGEST_SKEW:
                raise ConfigError(
                    f"--skew {name}: {format_duration(skew)} is too long",
                    f"a skew is below {format_duration(LONGEST_SKEW)}",
                )
            changed[name] = config.link(name).model_copy(update={"skew": skew})
        known = config.links or {name: config.link(name) for name in links}  # no link is configured: all have defaults
        return config.model_copy(update={"links": {**known, **changed}})

    def files_of(self, files: Sequence[Path]) -> list[Path]:
        """Returns the files of a query set with these in place of those of the same name."""
        named = {file.name: file for file in self.files}
        return [named.get(file.name, file) for file in files]

    def require_used(self, files: Sequence[Path]) -> None:
        """Checks that each file replaces one.

        Args:
            files: the query files of all sets in question.

        Raises:
            ConfigError: no query set has a file with such a name.
        """
        names = {file.name for file in files}
        for file in self.files:
            if file.name not in names:
                raise ConfigError(
                    f"--with {file}: no query set has a file {file.name!r}",
                    nearest(file.name, names) or "give it the name of the file that it replaces",
                )
