"""The layout of a row of the group table: which words, or halves of words, hold a key.

Below `low.code.aggregation`. What has 32 bits by its type shares a word with another, so that a five-tuple is a cache
line.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lowwater.low.code.values import FALSE, TRUE


@dataclass(frozen=True)
class Place:
    """Where a value lies in a row: word `at`, or a half of it."""

    at: int
    half: str = ""

    def read(self, slot: str = "s") -> str:
        """The code that reads it from the table."""
        text = f"int(table[{slot}, {self.at}])"
        return f"{self.half}({text})" if self.half else text


class Packing:
    """Lays out the key words of a table: the mask of NULL keys first, so that a used slot has its first word set.

    Args:
        keys: how many there are.

    Attributes:
        used: the bit of the mask that every used slot has.
        half: which half of the first word the mask is; empty for all of it.
    """

    def __init__(self, keys: int) -> None:
        narrow = keys <= 30
        self.used = 1 << (30 if narrow else 62)
        self.half = "low_half" if narrow else ""
        self._flags: list[str] = []
        self._words: list[list[str]] = []
        self._open: int | None = None
        self._add("", narrow)

    def add(self, text: str, narrow: bool) -> Place:
        """A place for a word, of 32 bits with sign if it is narrow."""
        return self._add(text, narrow)

    def null(self, bit: int, test: str) -> None:
        """Says when key number `bit` is NULL."""
        if test != FALSE:
            self._flags.append(f"{1 << bit}" if test == TRUE else f"({1 << bit} if {test} else 0)")

    def words(self) -> list[str]:
        """The code of every word of a record's key."""
        mask = " | ".join([str(self.used), *self._flags])
        found = []
        for parts in self._words:
            texts = [text or f"({mask})" for text in parts]
            found.append(f"halves({texts[0]}, {texts[1]})" if len(texts) == 2 else texts[0])
        return found

    def _add(self, text: str, narrow: bool) -> Place:
        if not narrow:
            self._words.append([text])
            return Place(len(self._words) - 1)
        if self._open is None:
            # The other half is 0 until a second one comes.
            self._words.append([text, "0"])
            self._open = len(self._words) - 1
            return Place(self._open, "low_half")
        at, self._open = self._open, None
        self._words[at][1] = text
        return Place(at, "high_half")


def hash_of(words: list[str]) -> str:
    """The code of the hash of a group."""
    mixed = (f"mix({word}, {_factor(2 * at)}, {_factor(2 * at + 1)})" for at, word in enumerate(words))
    return f"fold({' ^ '.join(mixed)})"


def _factor(at: int) -> int:
    """An odd 31-bit number, another one for each place of a key."""
    return int.from_bytes(hashlib.sha256(b"lowwater %d" % at).digest()[:4], "big") >> 2 << 1 | 1
