"""Which parts may be evaluated: those that end at or before what all sources of their query promise (SEMANTICS P1, P3).
So punctuation alone closes a part, whoever reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from lowwater.errors import LowwaterError
from lowwater.high.streams import StoredStream
from lowwater.instants import format_instant
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage import paths

Source = tuple[str, str]
"""A stored stream: (LFTA, link), or (part of a cut plan, empty text)."""
Feeds = Mapping[Source, StoredStream]


class Arriving:
    """The stored streams of LFTAs, as far as their files are there; `coming`: whether the low level is still at work,
    which leaves the files of a stream in any order."""

    def __init__(self, files: Mapping[Source, Sequence[str]], coming: bool) -> None:
        self.streams = {source: StoredStream() for source in files}
        self._awaited = {source: deque(each) for source, each in files.items()}
        self._coming = coming

    def look(self) -> bool:
        """Reads the control columns of the files that have come, those of a stream in order; returns whether any have.
        Raises LowwaterError if one cannot be read."""
        news = False
        for source, files in self._awaited.items():
            while files and (not self._coming or paths.has_file(paths.lake_path(files[0]))):
                self.streams[source].add(files.popleft())
                news = True
        return news

    def whole(self, sources: Iterable[Source]) -> bool:
        """Whether all files of some sources are there."""
        return not any(self._awaited.get(source) for source in sources)


def least_promise(feeds: Iterable[StoredStream], end: int) -> int:
    """Returns the least promise of the sources of a query over an interval that ends at `end`; both in ns. A source
    that promises this end promises all of time (docs/adr/0001)."""
    least = min(feed.promise for feed in feeds)
    return END_OF_TIME if least >= end else least


def never_closed(query: str, feeds: Feeds) -> LowwaterError:
    """The error that all has come, and the promises of a source do not reach the end of the interval."""
    name, link = source = min(feeds, key=lambda each: feeds[each].promise)
    promise = feeds[source].promise
    said = f"promises up to {format_instant(promise)} only" if promise > -END_OF_TIME else "promises nothing"
    where = f"the stream of {name}{f' on link {link}' if link else ''}"
    return LowwaterError(f"query {query}: {where} {said}, so its rows stay open", "run the low stage again")
