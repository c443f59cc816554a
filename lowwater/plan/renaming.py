"""The text of query files in which a query or a link has another name; what else stands there stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, TypeVar

from lowwater import link_names
from lowwater.catalog import native
from lowwater.gsql import nodes as syntax, parser
from lowwater.gsql.parser import unix_lines
from lowwater.plan.bind.queries import name_of_file, options
from lowwater.plan.text import place_of

if TYPE_CHECKING:
    from lark import Token

N = TypeVar("N")


def with_query_called(text: str, file: str, old: str, new: str) -> str:
    """Returns the text of a query file in which the query `old` is called `new`, where it is defined and where others
    of the file read it.
    Raises QueryError if the text is no GSQL."""
    reading = _Reading(text, file)
    for at, token in enumerate(reading.tokens):
        before = reading.tokens[at - 1] if at else token
        if str(token.value).strip("'") == old and (str(before.value) == "query_name" or before.type == "QUERY"):
            reading.change(at, new)
    for statement in reading.parsed.statements:
        read = [ref for ref in _within(statement, syntax.SourceRef) if _reads(ref, old)]
        for ref in read:
            reading.change(reading.at(ref.place), new)
        if any(not ref.alias for ref in read):  # its columns are named by it
            named: list[syntax.Name | syntax.Star] = [*_within(statement, syntax.Name)]
            for name in (*named, *_within(statement, syntax.Star)):
                if name.qualifier == old:
                    reading.change(reading.at(name.place), new)
    first = next(iter(reading.parsed.statements), None)
    if first is not None and name_of_file(file) == old and "query_name" not in options(first):
        reading.name(first, new)
    return reading.text


def with_link_called(text: str, file: str, old: str, new: str) -> str:
    """Returns the text of a query file that reads the link `new`, and its interfaces, in place of `old`.
    Raises QueryError if the text is no GSQL."""
    reading = _Reading(text, file)
    for statement in reading.parsed.statements:
        for ref in _within(statement, syntax.SourceRef):
            at = reading.at(ref.place)
            for place in range(at, at + 2 * len(ref.links) + 2 * bool(ref.host)) if ref.links else ():
                name = str(reading.tokens[place].value)
                if name in ref.links and link_names.family_of(name) == old:
                    reading.change(place, new + name[len(old) :])
    return reading.text


def _reads(ref: syntax.SourceRef, query: str) -> bool:
    return ref.name == query and not (ref.links or ref.bracketed or ref.library)


def _within(node: object, kind: type[N]) -> Iterator[N]:
    if isinstance(node, kind):
        yield node
    if isinstance(node, tuple):
        for each in node:
            yield from _within(each, kind)
    elif is_dataclass(node):
        for part in fields(node):
            yield from _within(getattr(node, part.name), kind)


class _Reading:
    """A text as it is read, and as it is changed."""

    def __init__(self, text: str, file: str) -> None:
        self._source, functions = unix_lines(text), tuple(native.NATIVE)
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self.parsed = parser.parse(text, file, functions)
        self.tokens: Sequence[Token] = parser.tokens_of(self._source, functions)
        self._at = {(token.line, token.column): at for at, token in enumerate(self.tokens)}
        self._changes: dict[tuple[int, int], str] = {}

    def at(self, place: syntax.Place) -> int:
        """The number of the token at a place."""
        return self._at[place.line, place.column]

    def change(self, at: int, name: str) -> None:
        """Writes a name in the place of the one that a token is, in its quotes."""
        token = self.tokens[at]
        begin, end = token.start_pos or 0, token.end_pos or 0
        mark = self._source[begin] if self._source[begin] in "'\"" else ""
        if not mark and not (name.isascii() and name.isidentifier()):
            mark = '"'
        self._changes[begin, end] = f"{mark}{name}{mark}"

    def name(self, statement: syntax.Statement, name: str) -> None:
        """Gives a name to the first statement of the file, which has none."""
        entry, last = f"query_name '{name}';", self.at(place_of(statement))
        before = [str(token.value).upper() for token in self.tokens[:last]]
        if options(statement):
            at = self.tokens[before.index("DEFINE") + 1].end_pos or 0
            self._changes[at, at] = f" {entry}"
        else:
            at = self.tokens[before.index("PARAM") if "PARAM" in before else last].start_pos or 0
            self._changes[at, at] = f"DEFINE {{ {entry} }}\n"

    @property
    def text(self) -> str:
        """The text with all changes."""
        text = self._source
        for (begin, end), name in sorted(self._changes.items(), reverse=True):
            text = text[:begin] + name + text[end:]
        return text.replace("\n", self._line_end)
