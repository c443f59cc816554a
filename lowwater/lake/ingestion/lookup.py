"""Look-ups among the files of a ledger: which of thousands a new file may replace, and which it may overlap.

Used by `replacement`, so that a file is compared with few others and not with all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Places(Generic[T]):
    """Things by keys: each has several, and several things may have one key."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[str, T]] = defaultdict(dict)

    def add(self, name: str, thing: T, keys: Iterable[Hashable]) -> None:
        """Adds a thing by its name, under each of its keys."""
        for key in keys:
            self._by_key[key][name] = thing

    def remove(self, name: str, keys: Iterable[Hashable]) -> None:
        """Removes what `add` has added."""
        for key in keys:
            del self._by_key[key][name]
            if not self._by_key[key]:
                del self._by_key[key]

    def find(self, keys: Iterable[Hashable]) -> list[T]:
        """Returns the things that have one of some keys, each once."""
        found: dict[str, T] = {}
        for key in keys:
            found.update(self._by_key.get(key, {}))
        return list(found.values())


class Spans(Generic[T]):
    """Ranges of time with a thing each, and those of them that meet a range.

    Ranges of about one length lie in one list, in order. So a long range among short ones does not make the short ones
    be looked through.
    """

    def __init__(self) -> None:
        self._by_size: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T, begin: int, end: int) -> None:
        """Adds a thing by its name; an empty range meets nothing."""
        if begin < end:
            insort(self._by_size[(end - begin).bit_length()], (begin, end, name))
            self._things[name] = thing

    def remove(self, name: str, begin: int, end: int) -> None:
        """Removes what `add` has added."""
        if begin < end:
            ranges = self._by_size[(end - begin).bit_length()]
            del ranges[bisect_left(ranges, (begin, end, name))]
            del self._things[name]

    def meeting(self, begin: int, end: int) -> Iterator[T]:
        """Yields the things whose ranges share an instant with [begin, end)."""
        for size, ranges in self._by_size.items():
            first = bisect_right(ranges, (begin - (1 << size),))
            for start, stop, name in ranges[first : bisect_left(ranges, (end,))]:
                if start < end and stop > begin:
                    yield self._things[name]
