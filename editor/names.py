"""Names of a query text that is being written: what they mean, where they are defined, which may stand at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from lowwater.catalog.expr import show as show_expression
from lowwater.catalog.functions import AggregateFunction, Catalog, Function, StateFunction
from lowwater.catalog.meanings import AGGREGATES, FUNCTIONS, STATES
from lowwater.catalog.protocols import ALIASES, Protocol
from lowwater.errors import LowwaterError, QueryError, QueryErrors
from lowwater.gsql.printer import print_name
from lowwater.gsql.words import FIRST_ROWS, JOINS_OF_WORDS, KEYWORDS, UPPER_ONLY
from lowwater.plan.bind.over import WORDS as OVER
from lowwater.plan.bind.queries import NO_EFFECT, TEXT, WORKS, bind_texts
from lowwater.plan.bind.sources import source_fields
from lowwater.plan.bind.sugar import WORDS
from lowwater.plan.bind.times import WORDS as TIMES
from lowwater.plan.context import Context
from lowwater.plan.explain.describe import steps
from lowwater.plan.operators import Field, temporals
from lowwater.plan.temporal import Temporal, infer
from lowwater.storage.untrusted import open_regular

from .words import AFTER_FROM, CONDITIONS, JOINS, Outline, Script, SourceWords, Word, is_from, without_wrong

# What a text says about names, also while parts of it are wrong: statements with a mistake are left out, and the
# others are bound without them.

ROUNDS = 12
"""Most times that a text is bound without the statements that were wrong before."""


MOST = 100
"""Most mistakes of a round whose statements are left out."""


@dataclass(frozen=True)
class ColumnFacts:
    """A column as editors show it."""

    name: str  # the column
    type: str  # its type
    progress: str  # how it is temporal, as a sentence; empty if it is not
    origin: str  # of which protocol or query it is
    alias_of: str = ""  # the column that it is another name of; empty for none


@dataclass(frozen=True)
class Knowledge:
    """Names that texts of a query set may use."""

    context: Context  # protocols, functions, links and parameters
    # query -> its columns, for every query that could be bound
    streams: Mapping[str, tuple[ColumnFacts, ...]] = field(default_factory=dict)
    scripts: tuple[Script, ...] = ()  # the texts

    def columns(self, source: SourceWords) -> tuple[ColumnFacts, ...]:
        """Returns the columns of a source; none if it is unknown."""
        name = f"{source.library}_{source.name}" if source.library else source.name
        if name in self.streams and not source.links:
            return self.streams[name]
        protocol = self.context.protocols.get(source.name)
        return () if protocol is None else protocol_columns(protocol)

    def column(self, statement: Outline, name: str, qualifier: str = "") -> ColumnFacts | None:
        """Returns a column of the sources of a statement, or of its own result; None for no such column."""
        for source in statement.sources:
            if qualifier in ("", source.alias, source.name):
                for facts in self.columns(source):
                    if facts.name == name:
                        return facts
        return next((facts for facts in self.streams.get(statement.name, ()) if facts.name == name), None)

    def queries(self) -> dict[str, tuple[Script, Outline]]:
        """Query -> where it is written."""
        return {part.name: (script, part) for script in self.scripts for part in script.statements if part.name}


def learn(scripts: Sequence[Script], context: Context, libraries: bool = True) -> Knowledge:
    """Binds what can be bound of some texts. `libraries`: whether queries may read libraries in the folders of the
    texts and above them."""
    folders = tuple(dict.fromkeys(Path(script.file).parent for script in scripts if script.file)) if libraries else ()
    known, left = Knowledge(context, {}, tuple(scripts)), [*scripts]
    for _ in range(ROUNDS):
        try:
            bound = bind_texts([(script.file, script.source) for script in left], folders, context, None)
        except QueryError as error:
            errors = (error.errors if isinstance(error, QueryErrors) else (error,))[:MOST]
            left = without_wrong(left, [(each.file, each.line, each.column) for each in errors])
            if not left:
                return known
        except (LowwaterError, OSError, UnicodeDecodeError):
            return known
        else:
            streams = {name: _stream(name, node.fields) for name, node in bound.plans.items()}
            return replace(known, context=bound.context, streams=streams)
    return known


def _stream(name: str, fields: Sequence[Field]) -> tuple[ColumnFacts, ...]:
    return tuple(
        ColumnFacts(each.name, each.type.value, progress_of(each.temporal), f"query {name}") for each in fields
    )


def progress_of(temporal: Temporal | None) -> str:
    """Says how a column is temporal, in a sentence; empty if it is not."""
    if temporal is None:
        return ""
    direction = "increases" if temporal.increasing else "decreases"
    parts = [f"`{step}`" for step in steps(temporal)]
    clock = f"by {temporal.origin}" if temporal.origin else "with the packet clock (ns)"
    return f"temporal: {direction} {clock}, {' and '.join(parts)}"


@lru_cache(maxsize=256)
def _facts(name: str, protocol: _Held) -> tuple[ColumnFacts, ...]:
    times = temporals(source_fields(protocol.of))
    return tuple(
        ColumnFacts(
            column, expr.type.value, progress_of(infer(expr, times)), f"protocol {name}", ALIASES.get(column, "")
        )
        for column, expr in protocol.of.columns.items()
    )


@dataclass(frozen=True, eq=False)
class _Held:
    """A protocol as a key of the cache: by its identity, since protocols hold dictionaries."""

    of: Protocol

    def __hash__(self) -> int:
        return id(self.of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.of is self.of


def protocol_columns(protocol: Protocol) -> tuple[ColumnFacts, ...]:
    """Returns the columns of a protocol."""
    return _facts(protocol.name, _Held(protocol))


def member_text(protocol: Protocol) -> str:
    """Says which records belong to a protocol."""
    if protocol.layout is not None:
        return f"records of links of the kind {protocol.kind}"
    return "every packet" if protocol.member is None else f"packets with `{show_expression(protocol.member, 0)}`"


# Meanings, in Markdown.

SHOWN = 8
"""Most signatures or columns that are shown."""

OPTIONS = {
    "query_name": "name of the query, of its table and of its file",
    "visibility": "'internal': only other queries read it, and it has no table",
    "aggregate_slots": "number of slots of its group tables at the low level",
    "select_lfta": "keeps the selection at the low level",
    "lfta_cost": "cost from which a function is not computed at the low level",
    "dialect": "'lowwater' or 'gigascope': whose values",
    "keys": "columns that make up a unique key of its rows",
    "extra_keys": "further columns of the unique key",
    "algorithm": "of FILTER_JOIN: 'hash' or 'bloom'; both are exact",
    "filename": "file of a WATCHLIST",
    "refresh_interval": "seconds after which a WATCHLIST is read again",
    "sample": "share of the packets that it reads, such as '0.1'",
    "sample_seed": "seed of the sample",
}
"""Option of DEFINE -> what it does."""


def signatures(catalog: Catalog, name: str) -> list[str]:
    """Returns the calls of a function or aggregate with types, without repetition."""
    calls = []
    for entry in catalog.named(name):
        types = ", ".join(each.value for each in entry.parameters) or ("*" if _counts(entry) else "")
        brackets = "[]" if isinstance(entry, Function) and entry.predicate else "()"
        calls.append(f"{entry.name}{brackets[0]}{types}{brackets[1]}: {entry.returns.value}")
    return list(dict.fromkeys(calls)) or [name]


def _counts(entry: Function | AggregateFunction | StateFunction) -> bool:
    return isinstance(entry, AggregateFunction) and entry.native is not None and not entry.parameters


def function(catalog: Catalog, name: str) -> str:
    """Describes a function, an aggregate or a stateful function; empty for none."""
    entries = catalog.named(name)
    if not entries:
        return ""
    calls = signatures(catalog, name)
    shown = calls[:SHOWN] + ([f"... and {len(calls) - SHOWN} more"] if len(calls) > SHOWN else [])
    first = entries[0]
    lines = ["```gsql", *shown, "```"]
    known = {**FUNCTIONS, **AGGREGATES, **STATES}.get(first.name, "") if first.origin == "built-in" else ""
    lines += [known] if known else []
    if isinstance(first, StateFunction):
        return "\n".join([*lines, f"Stateful function of the state `{first.state}`."])
    kind = "Aggregate" if isinstance(first, AggregateFunction) else "Function"
    level = "computed at the low level too" if any(_low(entry) for entry in entries) else "computed at the high level"
    lines.append(f"{kind}; cost {first.cost.name}; {level}.")
    if isinstance(first, Function) and first.partial:
        lines.append("May fail: then the row is left out.")
    if first.origin != "built-in":
        lines.append(f"Declared in `{first.origin}`.")
    return "\n\n".join(["\n".join(lines[: lines.index("```") + 1]), *lines[lines.index("```") + 1 :]])


def _low(entry: Function | AggregateFunction | StateFunction) -> bool:
    return not isinstance(entry, StateFunction) and entry.lfta


def protocol(known: Knowledge, name: str) -> str:
    """Describes a protocol; empty for none."""
    found = known.context.protocols.get(name)
    if found is None:
        return ""
    names = [column for column in found.columns if column not in found.hidden]
    more = f", and {len(found.columns) - SHOWN} more" if len(found.columns) > SHOWN else ""
    return f"**{name}**: {member_text(found)}\n\nColumns: {', '.join(names[:SHOWN])}{more}"


def column(facts: ColumnFacts) -> str:
    """Describes a column."""
    other = f"; the same as `{facts.alias_of}`" if facts.alias_of else ""
    progress = f"\n\n{facts.progress}" if facts.progress else ""
    return f"`{facts.name}`: **{facts.type}**, column of {facts.origin}{other}{progress}"


def query(known: Knowledge, name: str) -> str:
    """Describes a query by its columns."""
    columns = known.streams.get(name, ())
    lines = [f"* `{facts.name}`: {facts.type}{f'; {facts.progress}' if facts.progress else ''}" for facts in columns]
    return "\n".join([f"**query {name}**", "", *(lines or ["Its columns are not known, since it has a mistake."])])


def link(known: Knowledge, name: str) -> str:
    """Describes a link or a set of links; empty for neither."""
    links = known.context.links
    if name in links.sets:
        return f"**set {name}**: links {', '.join(links.sets[name])}"
    if name in (links.names or ()):
        words = [f"`@{key}` = {value}" for key, value in links.of(links.properties, name, {}).items()]
        return f"**link {name}**: {links.of(links.kinds, name, 'pcap')}{'; ' if words else ''}{', '.join(words)}"
    return ""


def option(name: str) -> str:
    """Describes an option of DEFINE."""
    if name in NO_EFFECT:
        return f"changes nothing: {NO_EFFECT[name]}"
    return "only text" if name in TEXT else OPTIONS.get(name, "")


def meaning_at(known: Knowledge, script: Script, offset: int) -> tuple[str, Word] | None:
    """Returns what the name at an offset means, and its word; None where nothing is known of it."""
    word, statement = script.word_at(offset), script.statement_at(offset)
    if word is None or word.kind not in ("name", "param") or statement is None:
        return None
    text = _meaning(known, statement, word)
    return (text, word) if text else None


def _meaning(known: Knowledge, statement: Outline, word: Word) -> str:
    code = statement.code
    at = code.index(word)
    before = code[at - 1].text if at else ""
    after = code[at + 1].text if at + 1 < len(code) else ""
    for source in statement.sources:
        if source.at == word or (source.start <= word.start < source.end and word != source.alias_at):
            if source.at != word or (not source.links and word.text in (known.context.links.names or ())):
                return link(known, word.text)
            name = f"{source.library}_{word.text}" if source.library else word.text
            return (
                query(known, name) if name in known.queries() or name in known.streams else protocol(known, word.text)
            )
        if word == source.alias_at or (word.text == source.alias and after == "."):
            return (
                f"source **{source.alias}**: {source.name}{f' of {chr(44).join(source.links)}' if source.links else ''}"
            )
    if word.text in (*WORKS, *NO_EFFECT) and before in ("{", ";"):
        return option(word.text)
    if word.kind == "param":
        return f"parameter `{word.text}`"
    if word == statement.name_at:
        return query(known, statement.name)
    if after in ("(", "["):
        return function(known.context.catalog, word.text)
    qualifier = code[at - 2].text if before == "." and at > 1 else ""
    facts = known.column(statement, word.text, qualifier)
    if facts is not None:
        return column(facts)
    return "group-by variable or name of a select item" if word.text in statement.named else ""


# Completions.

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
    """A name that may stand at a place."""

    label: str  # the name
    kind: str  # one of the kinds above
    detail: str = ""  # its type or signature, short
    document: str = ""  # what it means, in Markdown; empty for nothing
    insert: str = ""  # what is written; the label where empty


def complete(known: Knowledge, script: Script, offset: int) -> list[Completion]:
    """Returns what may stand at an offset, in the order of its likelihood; each label once."""
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
        yield from (Completion(name, OPTION, "DEFINE", option(name)) for name in (*WORKS, *TEXT, *NO_EFFECT))
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
    for at in reversed(range(len(words))):
        word = words[at]
        if is_from(words, at) or word.is_a("UNION", *JOINS):
            return True
        if word.is_a(*AFTER_FROM, *CONDITIONS):
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
    for name in (name for name in catalog.names() if name not in TIMES):
        yield Completion(name, FUNCTION, signatures(catalog, name)[0], function(catalog, name))
    for name, word in WORDS.items():
        yield Completion(name, FUNCTION, word.meaning)
    for name, (form, meaning) in OVER.items():
        yield Completion(name, FUNCTION, form, meaning)
    for name, moment in TIMES.items():
        yield Completion(name, FUNCTION, moment.form, moment.meaning)


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
        yield Completion(name, PROTOCOL, "protocol", protocol(known, name))


def _column(facts: ColumnFacts) -> Completion:
    return Completion(facts.name, COLUMN, f"{facts.type}, {facts.origin}", column(facts))


def _keywords() -> Iterator[Completion]:
    for word in (*KEYWORDS, *UPPER_ONLY, *FIRST_ROWS, *map(" ".join, JOINS_OF_WORDS)):
        yield Completion(word, KEYWORD)


# Definitions.

READ = 1_000_000
"""Most bytes of a file of definitions that is searched."""


@dataclass(frozen=True)
class Definition:
    """A place of a text."""

    file: str  # name of the file
    script: Script  # its text
    start: int  # offset of the first character
    end: int  # offset behind the last one


def definition_at(known: Knowledge, script: Script, offset: int, schemas: tuple[Path, ...] = ()) -> Definition | None:
    """Finds where the name at an offset is defined; None for built-in and unknown names."""
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
        yield from _places_column(known, statement, word.text, code[at - 2].text if at > 1 else "", schemas)
        return
    yield from _words(script, statement.named, word.text)
    yield from _places_column(known, statement, word.text, "", schemas)


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


def _places_column(
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
        with open_regular(path) as file:
            return Script(str(path), file.read(READ).decode("utf-8", "replace").replace("\r\n", "\n"))
    except OSError:
        return Script(str(path), "")
