"""Words of a query text that is being written, and the outline of its statements.

Below every other module of the editor. A text need not parse: unlike the parser, nothing here fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path

WORD = re.compile(
    r"(?P<comment>(?:--|//)[^\n]*)|(?P<string>'(?:[^'\n]|'')*'?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<param>\$[A-Za-z0-9_]*)|(?P<defined>#[A-Za-z0-9_]*)|(?P<number>[0-9][A-Za-z0-9_.]*)|(?P<space>\s+)|(?P<sign>.)",
    re.DOTALL,
)
JOINS = {"JOIN", "INNER_JOIN", "OUTER_JOIN", "LEFT_OUTER_JOIN", "RIGHT_OUTER_JOIN", "FILTER_JOIN", "WATCHLIST_JOIN"}
AFTER_FROM = {"WHERE", "GROUP", "HAVING", "SUPERGROUP", "CLEANING_WHEN", "CLEANING_BY", "CLOSING_WHEN", "SELECT"}
AFTER_FROM |= {"ORDER", "QUALIFY", "MERGE", "DEFINE", "PARAM", "PROTOCOL"}
CONDITIONS = {"ON", "USING"}
"""Words before the condition of a join, behind which a further join may stand."""
CLAUSES = AFTER_FROM | JOINS | CONDITIONS | {"FROM", "UNION", "AS"}
_SIDES = {"INNER", "LEFT", "RIGHT", "FULL", "OUTER", "ANTI", "SEMI", "ASOF", "ONCE"}


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text."""

    kind: str  # comment, string, name, param (`$x`), defined (`#x`), number or sign
    text: str  # as written
    start: int  # offset of its first character
    end: int  # offset behind its last character

    def is_a(self, *keywords: str) -> bool:
        """Whether it is one of some keywords, given in upper case."""
        return self.kind == "name" and self.text.upper() in keywords


@dataclass(frozen=True)
class SourceWords:
    """A source of FROM, as far as it is written."""

    name: str  # the protocol or query; the link where it stands alone
    links: tuple[str, ...]  # links or sets before it
    alias: str  # its range variable; the name without one
    library: str  # library of the query; empty for none
    start: int  # offset of its first character
    end: int  # offset behind its last one
    at: Word  # the word that is `name`
    alias_at: Word | None = None  # the word that is the alias; None without one


@dataclass(frozen=True)
class Outline:
    """A statement of a text, as far as it is written."""

    number: int  # its number in the text, from 0
    start: int  # offset of its first word
    end: int  # offset behind its last word, the semicolon included
    words: tuple[Word, ...]  # its words, comments included
    file: str = ""  # name of the file, by which the first statement is called

    @cached_property
    def code(self) -> tuple[Word, ...]:
        """The words without comments."""
        return tuple(word for word in self.words if word.kind != "comment")

    @cached_property
    def name_at(self) -> Word | None:
        """The word that names the query: the value of `query_name`."""
        for at, word in enumerate(self.code[:-1]):
            value = self.code[at + 1]
            if word.is_a("QUERY_NAME") and value.kind in ("string", "name"):
                return value
        return None

    @property
    def name(self) -> str:
        """Name of the query; empty if it has none."""
        if self.name_at is not None:
            return self.name_at.text.strip("'")
        return Path(self.file).name.split(".", 1)[0].replace("-", "_") if self.number == 0 else ""

    @cached_property
    def sources(self) -> tuple[SourceWords, ...]:
        begin = next((at for at in range(len(self.code)) if is_from(self.code, at)), None)
        return () if begin is None else tuple(_sources(self.code[begin + 1 :]))

    @cached_property
    def named(self) -> dict[str, Word]:
        """Name behind AS -> its word: group-by variables, select items and range variables."""
        pairs = pairwise(self.code)
        return {word.text: word for before, word in pairs if before.is_a("AS") and word.kind == "name"}

    @cached_property
    def parameters(self) -> dict[str, Word]:
        """Name of a parameter -> the word that declares it in PARAM."""
        declared: dict[str, Word] = {}
        for at, word in enumerate(self.code):
            if word.is_a("PARAM"):
                block = self.code[at + 2 :]
                for before, after in pairwise(block):
                    if before.text == "}":
                        break
                    if before.kind == after.kind == "name":
                        declared[before.text] = before
        return declared

    @cached_property
    def protocols(self) -> dict[str, Word]:
        """Name of a protocol -> the word that names it in a PROTOCOL block."""
        pairs = pairwise(self.code)
        return {word.text: word for before, word in pairs if before.is_a("PROTOCOL") and word.kind == "name"}


@dataclass(frozen=True)
class Script:
    """The text of a file, to be looked at by an editor.

    Attributes:
        file: name of the file.
        source: its text, with `\\n` between lines.
    """

    file: str
    source: str
    words: tuple[Word, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(_words(self.source)))

    @cached_property
    def statements(self) -> tuple[Outline, ...]:
        """The statements, and what stands behind the last semicolon; a semicolon alone ends nothing."""
        parts: list[Outline] = []
        held: list[Word] = []
        braces = 0
        for word in self.words:
            braces = max(0, braces + (word.text == "{") - (word.text == "}"))
            held.append(word)
            if word.text == ";" and not braces:
                if len(held) > 1:
                    parts.append(self._outline(len(parts), held))
                held = []
        if held:
            parts.append(self._outline(len(parts), held))
        return tuple(parts)

    def _outline(self, number: int, words: Sequence[Word]) -> Outline:
        return Outline(number, words[0].start, words[-1].end, tuple(words), self.file)

    def without(self, numbers: Iterable[int]) -> Script:
        """Returns the text with blanks in place of some statements, so that all others keep their places."""
        source = self.source
        for statement in (self.statements[number] for number in numbers):
            written = source[statement.start : statement.end]
            blank = "".join("\n" if char == "\n" else " " for char in written)
            source = source[: statement.start] + blank + source[statement.end :]
        return Script(self.file, source)

    def statement_at(self, offset: int) -> Outline | None:
        """Returns the statement that is written at an offset; the one before it between two."""
        before = [part for part in self.statements if part.start <= offset]
        after = next((part for part in self.statements if part.start > offset), None)
        if before and (offset <= before[-1].end or after is None):
            return before[-1]
        return after

    def word_at(self, offset: int) -> Word | None:
        """Returns the word under an offset, or that ends there; a name is preferred to a sign."""
        touching = [word for word in self.words if word.start <= offset <= word.end]
        named = [word for word in touching if word.kind not in ("sign", "comment")]
        return next(reversed(named or touching), None)

    def before(self, offset: int) -> list[Word]:
        """Returns the words that end at an offset or before it, without comments."""
        return [word for word in self.words if word.end <= offset and word.kind != "comment"]

    def offset(self, line: int, column: int) -> int:
        """Returns the offset of a line and column, both from 1, within the text."""
        start = 0
        for _ in range(line - 1):
            found = self.source.find("\n", start)
            if found < 0:
                return len(self.source)
            start = found + 1
        return min(start + max(column - 1, 0), len(self.source))

    def extent(self, line: int, column: int) -> tuple[int, int]:
        """Returns first and last offset of what a mistake at a place is shown under: a word, or the one before it."""
        at = self.offset(line, column)
        for word in self.words:
            if word.start <= at < word.end:
                return word.start, word.end
        last = [word for word in self.words if word.end <= at]
        return (last[-1].start, last[-1].end) if last else (0, min(1, len(self.source)))


def without_wrong(scripts: Sequence[Script], places: Iterable[tuple[str, int, int]]) -> list[Script]:
    """Returns the texts without the statements in which mistakes lie, and without those that read them.

    Args:
        places: file, line and column of each mistake.

    Returns:
        The texts that still have a statement; an empty list if no mistake lies in a statement.
    """
    wrong: dict[str, set[int]] = {script.file: set() for script in scripts}
    for file, line, column in places:
        script = next((each for each in scripts if each.file == file), None)
        statement = script.statement_at(script.offset(line, column)) if script is not None else None
        if statement is not None:
            wrong[file].add(statement.number)
    if not any(wrong.values()):
        return []
    every = [(script, statement) for script in scripts for statement in script.statements]
    names = {statement.name for script, statement in every if statement.number in wrong[script.file]} - {""}
    while True:
        readers = [
            (script.file, statement)
            for script, statement in every
            if statement.number not in wrong[script.file]
            and any(source.name in names and not source.links for source in statement.sources)
        ]
        if not readers:
            break
        for file, statement in readers:
            wrong[file].add(statement.number)
            names.add(statement.name)
    left = [script.without(wrong[script.file]) for script in scripts]
    return [script for script in left if any(statement.code for statement in script.statements)]


def _words(source: str) -> Iterator[Word]:
    for match in WORD.finditer(source):
        if match.lastgroup != "space":
            yield Word(str(match.lastgroup), match[0], match.start(), match.end())


def is_from(words: Sequence[Word], at: int) -> bool:
    """Whether a word is the FROM before sources, not that of EXTRACT(hour FROM t) or IS DISTINCT FROM."""
    before = words[max(0, at - 3) : at]
    inside = len(before) == 3 and before[0].is_a("EXTRACT") and before[1].text == "("
    return words[at].is_a("FROM") and not inside and not (before and before[-1].is_a("DISTINCT"))


def _sources(words: Sequence[Word]) -> Iterator[SourceWords]:
    at = 0
    while at < len(words):
        word = words[at]
        if word.text == ";" or word.is_a(*AFTER_FROM):
            return
        if word.is_a(*CONDITIONS):
            while at < len(words) and words[at].text != ";" and not words[at].is_a(*AFTER_FROM, *JOINS):
                at += 1
            continue
        if word.text == "," or word.is_a("UNION", *JOINS) or _is_side(words, at):
            at += 1
            continue
        at, source = _source(words, at)
        if source is not None:
            yield source


def _is_side(words: Sequence[Word], at: int) -> bool:
    """Whether a word begins a join, as in LEFT JOIN; LEFT alone may be a name."""
    return words[at].is_a(*_SIDES) and at + 1 < len(words) and words[at + 1].is_a("JOIN", *_SIDES)


def _source(words: Sequence[Word], at: int) -> tuple[int, SourceWords | None]:
    """Reads one source. Returns the place behind it, further than `at`."""
    first, links, library = words[at], [], ""
    if words[at].text == "[":
        at += 1
        while at < len(words) and words[at].text != "]":
            if words[at].is_a(*AFTER_FROM):
                return at, None
            if words[at].kind == "name":
                links.append(words[at].text)
            at += 1
        at += 1
        if at < len(words) and words[at].text == ".":
            at += 1
    path: list[Word] = []
    while at < len(words) and words[at].kind in ("name", "string") and not words[at].is_a(*CLAUSES):
        path.append(words[at])
        at += 1
        if at >= len(words) or words[at].text not in (".", "/"):
            break
        library = path[-1].text if words[at].text == "/" else library
        at += 1
    if not path:
        return at + (words[min(at, len(words) - 1)] is first), None
    alias_at = None
    if at < len(words) and words[at].text == "[":  # a window
        while at < len(words) and words[at].text != "]" and not words[at].is_a(*AFTER_FROM):
            at += 1
        at += at < len(words) and words[at].text == "]"
    if at < len(words) and words[at].is_a("AS"):
        at += 1
    if at < len(words) and words[at].kind == "name" and not words[at].is_a(*CLAUSES) and not _is_side(words, at):
        alias_at = words[at]
        at += 1
    name = path[-1]
    if not library:
        links += [word.text for word in path[:-1] if word.kind == "name"]
    alias = alias_at.text if alias_at is not None else name.text
    end = (alias_at or name).end
    return at, SourceWords(name.text, tuple(links), alias, library, first.start, end, name, alias_at)
