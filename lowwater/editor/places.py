"""Where a name of a query text is defined: queries, sources, group-by variables, parameters, protocols, functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lowwater.editor.knowledge import Knowledge
from lowwater.editor.words import Outline, Script, Word

READ = 1_000_000
"""Most bytes of a file of definitions that is searched."""


@dataclass(frozen=True)
class Definition:
    """A place of a text.

    Attributes:
        file: name of the file.
        script: its text.
        start: offset of the first character.
        end: offset behind the last one.
    """

    file: str
    script: Script
    start: int
    end: int


def definition_at(known: Knowledge, script: Script, offset: int, schemas: tuple[Path, ...] = ()) -> Definition | None:
    """Finds where the name at an offset is defined; None for built-in and unknown names.

    Args:
        known: what is known of names.
        script: the text.
        offset: offset in the text.
        schemas: files of PROTOCOL blocks.
    """
    word, statement = script.word_at(offset), script.statement_at(offset)
    if word is None or statement is None or word.kind not in ("name", "param"):
        return None
    return next(_definitions(known, script, statement, word, schemas), None)


def _definitions(
    known: Knowledge, script: Script, statement: Outline, word: Word, schemas: tuple[Path, ...]
) -> Iterator[Definition]:
    code = statement.code
    at = code.index(word)
    before = code[at - 1].text if at else ""
    after = code[at + 1].text if at + 1 < len(code) else ""
    if word.kind == "param":
        yield from _words(script, statement.parameters, word.text.removeprefix("$"))
        return
    source = next((each for each in statement.sources if each.at == word), None)
    if source is not None:
        name = f"{source.library}_{source.name}" if source.library else source.name
        if not source.links:
            yield from _query(known, name)
        if source.library:
            yield from _library(known, script, source.library, source.name)
        yield from _protocol(known, source.name, schemas)
        return
    if after in ("(", "["):
        yield from _function(known, word.text)
        return
    aliases = {each.alias: each.alias_at or each.at for each in statement.sources}
    if after == ".":
        yield from _words(script, aliases, word.text)
        return
    if before == ".":
        yield from _column(known, statement, word.text, code[at - 2].text if at > 1 else "", schemas)
        return
    yield from _words(script, statement.named, word.text)
    yield from _column(known, statement, word.text, "", schemas)


def _words(script: Script, named: dict[str, Word], name: str) -> Iterator[Definition]:
    if name in named:
        yield Definition(script.file, script, named[name].start, named[name].end)


def _query(known: Knowledge, name: str) -> Iterator[Definition]:
    found = known.queries().get(name)
    if found is not None:
        script, statement = found
        word = statement.name_at or next(iter(statement.code), None)
        if word is not None:
            yield Definition(script.file, script, word.start, word.end)


def _column(
    known: Knowledge, statement: Outline, name: str, qualifier: str, schemas: tuple[Path, ...]
) -> Iterator[Definition]:
    """The select item of the query that a column comes from, or its field in a PROTOCOL block."""
    for source in statement.sources:
        if qualifier not in ("", source.alias, source.name):
            continue
        if not any(facts.name == name for facts in known.columns(source)):
            continue
        found = known.queries().get(source.name)
        if found is not None and not source.links:
            script, query = found
            yield from _words(script, query.named, name)
            yield from (
                Definition(script.file, script, word.start, word.end) for word in query.code if word.text == name
            )
        for block, start in _protocol_blocks(known, source.name, schemas):
            match = re.compile(rf"\b{re.escape(name)}\b").search(block.source, start)
            if match:
                yield Definition(block.file, block, match.start(), match.end())


def _protocol(known: Knowledge, name: str, schemas: tuple[Path, ...]) -> Iterator[Definition]:
    for script, start in _protocol_blocks(known, name, schemas):
        yield Definition(script.file, script, start, start + len(name))


def _protocol_blocks(known: Knowledge, name: str, schemas: tuple[Path, ...]) -> Iterator[tuple[Script, int]]:
    """Yields each PROTOCOL block of a name: its text, and the offset of the name in it."""
    for script in (*known.scripts, *(_read(path) for path in schemas)):
        for statement in script.statements:
            if name in statement.protocols:
                yield script, statement.protocols[name].start


def _library(known: Knowledge, script: Script, library: str, name: str) -> Iterator[Definition]:
    folder = Path(script.file).parent
    for place in (folder, *(above / "qlib" for above in (folder, *folder.parents))):
        path = place / library / f"{name}.gsql"
        if path.is_file():
            yield Definition(str(path), _read(path), 0, 0)
            return


def _function(known: Knowledge, name: str) -> Iterator[Definition]:
    for entry in known.context.catalog.named(name):
        if entry.origin != "built-in":
            script = _read(Path(entry.origin))
            for word in script.words:
                if word.kind == "name" and word.text == entry.name:
                    yield Definition(script.file, script, word.start, word.end)
                    return


def _read(path: Path) -> Script:
    try:
        with path.open("rb") as file:
            return Script(str(path), file.read(READ).decode("utf-8", "replace").replace("\r\n", "\n"))
    except OSError:
        return Script(str(path), "")
