"""Folders of links in which nothing has changed since an ingest found nothing new there (docs/adr/0206): whoever looks
again lists them, and judges no file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path

from lowwater import link_names
from lowwater.config import Config
from lowwater.instants import SECOND
from lowwater.lake.answers import Question
from lowwater.lake.ingestion.arrivals import Arrivals, Found, Watch, not_refused
from lowwater.lake.ingestion.listing import listing
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.files import settings_at
from lowwater.storage.captures import is_address

QUIET = 20 * SECOND
"""A file that was written to so short a time ago may look otherwise at the next look, without another write."""

Counts = Mapping[str, tuple[int, int, int]]
"""Link -> number of its files that the lake has, of those that are set aside, and of those that were refused."""


class Folders:
    """The folders of all links as they are now. Raises ConfigError if a pattern has an unknown field."""

    def __init__(self, lake: Lake, config: Config, now: int) -> None:
        self._links = [name for name, link in sorted(config.links.items()) if link.patterns]
        # What lies in a store is listed by requests, and what is being written is new at each look.
        self._old = not any(is_address(pattern) for name in self._links for pattern in config.link(name).patterns)
        found = listing(config) if self._old else None
        seen = "" if found is None else "\n".join(map(repr, sorted(found.files.values(), key=lambda file: file.path)))
        if found is not None:
            recent = any(file.written > now - QUIET for file in found.files.values())
            self._old = not (recent or found.problems)
        about = repr((config, config.ended, settings_at(lake, config))) + sha256(seen.encode()).hexdigest()
        self._question = Question(lake, "folders", about)
        self.settled: Counts | None = None  # None where an ingest may find something new
        if self._old and self._question.answer is not None:
            self.settled = {name: (counts[0], counts[1], counts[2]) for name, counts in self._question.answer.items()}

    @property
    def whole(self) -> bool:
        """Whether nothing is new, for who tries again what was refused before."""
        return self.settled is not None and not any(refused for *_, refused in self.settled.values())

    def asking(self) -> AbstractContextManager[None]:
        """Notes what a look at arrivals, and one into the folders, are made of."""
        return self._question.asking()

    def keep(self, arrivals: Mapping[str, Arrivals], found: Iterable[Found], written: int) -> None:
        """Keeps that nothing is new: of arrivals of all links, what is left of them without files that were refused as
        they are, and the number of rows that the look behind them wrote."""
        new = any(each.complete or each.growing or each.waiting or each.fault for each in found)
        there = [*arrivals] == self._links and not any(each.missing for each in arrivals.values())
        if self._old and there and not new and not written:
            counts = {name: [len(each.unchanged), each.aside, len(each.new)] for name, each in arrivals.items()}
            self._question.keep(counts)


def lying(lake: Lake, config: Config, links: Iterable[str], now: int) -> list[tuple[str, Path]]:
    """Complete files (link, path) in the folders of some links that the next ingest takes in, as they are now."""
    if Folders(lake, config, now).settled is not None:
        return []
    families = {link_names.family_of(link) for link in links}
    names = [name for name, link in config.links.items() if link_names.family_of(name) in families and link.patterns]
    watches = [Watch(lake, 0, link=name, clock=lambda: now) for name in names]
    found = not_refused(lake, config, [each for watch in watches for each in watch.look(config)])
    return [(each.link, path) for each in found for path, _ in each.complete]
