"""Which parts may be evaluated: those that end at or before what all sources of their query promise (SEMANTICS P1, P3).
So punctuation alone closes a part, whoever reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from lowwater.errors import LowwaterError
from lowwater.high.streams import StoredStream
from lowwater.instants import format_instant
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage import paths

Source = tuple[str, str]
"""A stored stream: (LFTA, link), or (part of a cut plan, empty text)."""
Feeds = Mapping[Source, StoredStream]


class Arriving:
    """The stored streams of LFTAs, as far as their files are there; `coming`: those that the low level makes, which
    is at work and leaves the files of a stream in any order. `news`: whether any have come at the last look."""

    def __init__(self, files: Mapping[Source, Sequence[str]], coming: Collection[Source]) -> None:
        self.streams = {source: StoredStream() for source in files}
        self.news = False
        self._awaited = {source: deque(each) for source, each in files.items()}
        self._coming = coming

    def look(self) -> None:
        """Reads the control columns of the files that have come, those of a stream in order.
        Raises LowwaterError if one cannot be read."""
        self.news = False
        for source, files in self._awaited.items():
            while files and (source not in self._coming or paths.has_file(paths.lake_path(files[0]))):
                self.streams[source].add(files.popleft())
                self.news = True

    def whole(self, sources: Iterable[Source]) -> bool:
        """Whether all files of some sources are there."""
        return not any(self._awaited.get(source) for source in sources)

    def promises(self) -> dict[str, str]:
        """Link -> the least promise of its streams, as people read it; a link that has promised all is not in it."""
        least: dict[str, int] = {}
        for (_, link), stream in self.streams.items():
            least[link] = min(stream.promise, least.get(link, END_OF_TIME))
        return {link: format_instant(promise) for link, promise in least.items() if abs(promise) < END_OF_TIME}


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
