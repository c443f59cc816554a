"""The layout of a row of the group table: which words, or halves of words, hold which key.

Below `low.code.aggregation`. Two values of 32 bits share a word, so that a five-tuple fits into a cache line.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lowwater.low.code.operands import FALSE, TRUE


@dataclass(frozen=True)
class WordPlace:
    """The place of a value in a row: word `at`, or a half of it (`low_half`, `high_half`)."""

    at: int
    half: str = ""

    def read(self, slot: str = "s") -> str:
        """Returns the code that reads the value from the table."""
        text = f"int(table[{slot}, {self.at}])"
        return f"{self.half}({text})" if self.half else text


class KeyLayout:
    """Lays out the key words of a table.

    The mask of NULL keys comes first, so that the first word of a used slot is not 0.

    Args:
        keys: the number of keys.

    Attributes:
        used: the bit of the mask that every used slot has.
        half: the half of the first word that holds the mask; empty for the entire word.
    """

    def __init__(self, keys: int) -> None:
        narrow = keys <= 30
        self.used = 1 << (30 if narrow else 62)
        self.half = "low_half" if narrow else ""
        self._flags: list[str] = []
        self._words: list[list[str]] = []
        self._open: int | None = None
        self._add("", narrow)

    def add(self, text: str, narrow: bool) -> WordPlace:
        """Returns a place for the value of some code; a narrow value is signed with 32 bits."""
        return self._add(text, narrow)

    def null(self, bit: int, test: str) -> None:
        """Adds the test whether key number `bit` is NULL."""
        if test != FALSE:
            self._flags.append(f"{1 << bit}" if test == TRUE else f"({1 << bit} if {test} else 0)")

    def words(self) -> list[str]:
        """Returns the code of every word of a record's key."""
        mask = " | ".join([str(self.used), *self._flags])
        words = []
        for parts in self._words:
            texts = [text or f"({mask})" for text in parts]
            words.append(f"halves({texts[0]}, {texts[1]})" if len(texts) == 2 else texts[0])
        return words

    def _add(self, text: str, narrow: bool) -> WordPlace:
        if not narrow:
            self._words.append([text])
            return WordPlace(len(self._words) - 1)
        if self._open is None:
            # The upper half is 0 until a second narrow value comes.
            self._words.append([text, "0"])
            self._open = len(self._words) - 1
            return WordPlace(self._open, "low_half")
        at, self._open = self._open, None
        self._words[at][1] = text
        return WordPlace(at, "high_half")


def hash_of(words: list[str]) -> str:
    """Returns the code of the hash of a group."""
    mixed = (f"mix({word}, {_factor(2 * at)}, {_factor(2 * at + 1)})" for at, word in enumerate(words))
    return f"fold({' ^ '.join(mixed)})"


def _factor(at: int) -> int:
    """Returns an odd 31-bit number, a different one for each position of a key."""
    return int.from_bytes(hashlib.sha256(b"lowwater %d" % at).digest()[:4], "big") >> 2 << 1 | 1
