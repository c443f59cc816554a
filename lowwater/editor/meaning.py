"""What a name of a query text means, in Markdown: functions, protocols, columns, queries, links, options.

Read by `completion`, by the hover of editors and by the page on which queries are written.
"""

from __future__ import annotations

from lowwater.catalog.functions import AggregateFunction, Catalog, Function, StateFunction
from lowwater.catalog.meanings import AGGREGATES, FUNCTIONS, STATES
from lowwater.editor.knowledge import ColumnFacts, Knowledge, member_text
from lowwater.editor.words import Outline, Script, Word
from lowwater.plan.bind.defines import NO_EFFECT, TEXT, WORKS

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
    """Returns what the name at an offset means, and its word; None where nothing is known of it.

    Args:
        known: what is known of names.
        script: the text.
        offset: offset in the text.
    """
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
