"""Completions of a query text: what may stand at a place, with what it means.

Beside `meaning`, which has the documents of single names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowwater.editor import meaning
from lowwater.editor.knowledge import ColumnFacts, Knowledge
from lowwater.editor.words import AFTER_FROM, JOINS, Outline, Script, Word
from lowwater.gsql.printer import print_name
from lowwater.gsql.words import KEYWORDS, UPPER_ONLY
from lowwater.plan.bind.defines import NO_EFFECT, TEXT, WORKS

COLUMN, FUNCTION, PROTOCOL, QUERY, LINK, KEYWORD, OPTION, PARAMETER = (
    "column",
    "function",
    "protocol",
    "query",
    "link",
    "keyword",
    "option",
    "parameter",
)


@dataclass(frozen=True)
class Completion:
    """A name that may stand at a place.

    Attributes:
        label: the name.
        kind: one of the kinds above.
        detail: its type or signature, short.
        document: what it means, in Markdown; empty for nothing.
        insert: what is written; the label where empty.
    """

    label: str
    kind: str
    detail: str = ""
    document: str = ""
    insert: str = ""


def complete(known: Knowledge, script: Script, offset: int) -> list[Completion]:
    """Returns what may stand at an offset, in the order of its likelihood; each label once.

    Args:
        known: what is known of names.
        script: the text.
        offset: offset of the cursor in the text.
    """
    inside = [word for word in script.words if word.start < offset <= word.end]
    if any(word.kind == "comment" or _in_string(word, offset) for word in inside):
        return []
    before = [word for word in script.before(offset) if not (word.end == offset and word.kind in ("name", "param"))]
    statement = script.statement_at(offset)
    found = {each.label: each for each in reversed(list(_at(known, statement, before, inside)))}
    return list(reversed(found.values()))


def _in_string(word: Word, offset: int) -> bool:
    return word.kind == "string" and not (offset == word.end and len(word.text) > 1 and word.text.endswith("'"))


def _at(known: Knowledge, statement: Outline | None, before: list[Word], inside: list[Word]) -> Iterator[Completion]:
    within = [word for word in before if statement is None or word.start >= statement.start]
    last = within[-1].text if within else ""
    if any(word.kind == "param" for word in inside) or last == "$":
        yield from _parameters(statement)
    elif _in_define(within):
        yield from (Completion(name, OPTION, "DEFINE", meaning.option(name)) for name in (*WORKS, *TEXT, *NO_EFFECT))
    elif last == "." and len(within) > 1:
        yield from _behind_dot(known, statement, within)
    elif _in_from(within):
        yield from _sources(known, statement)
        yield from _keywords()
    else:
        yield from _names(known, statement)
        yield from _keywords()


def _in_define(words: list[Word]) -> bool:
    """Whether an entry of DEFINE begins here."""
    opened = [at for at, word in enumerate(words) if word.text == "{"]
    if not opened or any(word.text == "}" for word in words[opened[-1] :]):
        return False
    at = opened[-1]
    return at > 0 and words[at - 1].is_a("DEFINE") and words[-1].text in ("{", ";")


def _in_from(words: list[Word]) -> bool:
    """Whether a source may begin here: the last keyword is FROM or a join, and no name is whole since the comma."""
    for word in reversed(words):
        if word.is_a("FROM", "UNION", *JOINS):
            return True
        if word.is_a(*AFTER_FROM):
            return False
    return False


def _behind_dot(known: Knowledge, statement: Outline | None, words: list[Word]) -> Iterator[Completion]:
    owner = words[-2]
    if owner.text == "]":
        yield from _protocols(known)
        return
    sources = statement.sources if statement is not None else ()
    columns = [facts for source in sources if source.alias == owner.text for facts in known.columns(source)]
    if columns and not _in_from(words):
        yield from map(_column, columns)
    elif _in_from(words) or not columns:
        yield from _protocols(known)


def _names(known: Knowledge, statement: Outline | None) -> Iterator[Completion]:
    if statement is not None:
        for name in statement.named:
            yield Completion(name, COLUMN, "named in this query")
        for source in statement.sources:
            yield from map(_column, known.columns(source))
        for source in statement.sources:
            if len(statement.sources) > 1 or source.alias_at:
                yield Completion(source.alias, QUERY, f"source {source.name}", insert=f"{source.alias}.")
        yield from _parameters(statement)
    catalog = known.context.catalog
    for name in catalog.names():
        yield Completion(name, FUNCTION, meaning.signatures(catalog, name)[0], meaning.function(catalog, name))


def _parameters(statement: Outline | None) -> Iterator[Completion]:
    for name in statement.parameters if statement is not None else ():
        yield Completion(f"${name}", PARAMETER, "PARAM")


def _sources(known: Knowledge, statement: Outline | None) -> Iterator[Completion]:
    own = statement.name if statement is not None else ""
    for name in known.queries():
        if name != own:
            columns = ", ".join(facts.name for facts in known.streams.get(name, ()))
            yield Completion(name, QUERY, columns or "query")
    links = known.context.links
    for name in links.sets:
        yield Completion(f"[{name}]", LINK, f"links {', '.join(links.sets[name])}", insert=f"[{name}].")
    for name in links.names or ():
        yield Completion(name, LINK, f"link of {links.of(links.kinds, name, 'pcap')}", insert=f"{print_name(name)}.")
    yield from _protocols(known)


def _protocols(known: Knowledge) -> Iterator[Completion]:
    for name in known.context.protocols:
        yield Completion(name, PROTOCOL, "protocol", meaning.protocol(known, name))


def _column(facts: ColumnFacts) -> Completion:
    return Completion(facts.name, COLUMN, f"{facts.type}, {facts.origin}", meaning.column(facts))


def _keywords() -> Iterator[Completion]:
    for word in (*KEYWORDS, *UPPER_ONLY):
        yield Completion(word, KEYWORD)
