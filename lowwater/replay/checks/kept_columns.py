"""Refuses queries over a lake that read columns which a link does not keep: payloads, and fields of applications.

Between the planner and the engines. Where a link does not keep a column, every value is NULL (`docs/packets.md`), which
would otherwise look like a result. `plan`, `backfill` and `replay` check before they start, `check` with settings too;
`run` keeps what its queries read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from lowwater.catalog.expr import Column, Expr, walk
from lowwater.catalog.packets import FRAME, HEAD, KEPT, PAYLOAD, UNNAMED, stored
from lowwater.config import Config, Link, section_of
from lowwater.errors import QueryError, raise_all, sort_errors
from lowwater.low import needed_columns
from lowwater.plan.operators import ANY_LINK, Lfta
from lowwater.plan.properties.columns_read import lftas_as_read
from lowwater.plan.queryset import Plan, QueryPlan
from lowwater.plan.text import Note

SAMPLED = "sampling"
"""What the settings call the digests by which packets are sampled."""


def optional_columns(lftas: Sequence[Lfta]) -> set[str]:
    """The columns that LFTAs read and only some links store."""
    return {name for name in needed_columns(lftas) if name in KEPT.names}


def applications_of(columns: Collection[str]) -> list[str]:
    """The applications, as named in the settings, whose fields are among optional columns."""
    return sorted({name.partition("_")[0] for name in columns if name not in UNNAMED})


def content_of(columns: Collection[str]) -> list[str]:
    """What of a packet must be kept for some optional columns, as the ledger names it."""
    named = [PAYLOAD] * (FRAME in columns) + [SAMPLED] * (HEAD in columns)
    return [*named, *applications_of(columns)]


def lacking_content(kept: Collection[str], columns: Collection[str]) -> list[str]:
    """What of a packet must be kept for some optional columns, and is not.

    Args:
        kept: what is kept, as the ledger names it: `payload 256`, `dns`, `sampling`.
        columns: the columns.
    """
    return [content for content in content_of(columns) if content not in {part.partition(" ")[0] for part in kept}]


def setting_lines(link: Link, columns: Collection[str]) -> list[str]:
    """The lines of the settings by which a link keeps some optional columns too; empty if it keeps them."""
    kept = [*link.applications, *([PAYLOAD] if link.payload is not None else []), *([SAMPLED] if link.sampling else [])]
    lacking = lacking_content(kept, columns)
    added = [name for name in lacking if name not in (PAYLOAD, SAMPLED)]
    lines = ['payload = "all"'] * (PAYLOAD in lacking) + ["sampling = true"] * (SAMPLED in lacking)
    return [*lines, *([f"applications = {json.dumps(sorted({*link.applications, *added}))}"] if added else [])]


def lines_to_add(plans: Iterable[Plan], config: Config) -> dict[str, list[str]]:
    """Link in the settings -> the lines by which it keeps all columns that queries read; without links that do."""
    read: dict[str, set[str]] = defaultdict(set)
    for lfta in (lfta for plan in plans for lfta in plan.read_lftas):
        for link in lfta.links:
            if config.link(link).kind == "pcap":
                read[_section(config, link)] |= optional_columns([lfta])
    lines = {link: setting_lines(config.link(link), columns) for link, columns in sorted(read.items())}
    return {link: added for link, added in lines.items() if added}


def require_kept(plan: Plan, config: Config) -> None:
    """Checks that every link keeps the columns that queries read of it.

    Raises:
        QueryError: a link does not keep a column, with query and place; QueryErrors for several.
    """
    raise_all(
        sort_errors(
            [
                QueryError(f"query {note.query}: {note.text}", hint, query.file, *note.place)
                for query in plan.queries
                for note, hint in _unkept(query, config)
            ]
        )
    )


def unkept_notes(plan: Plan, config: Config) -> tuple[Note, ...]:
    """The findings of `require_kept` as notes."""
    return tuple(
        Note(note.query, f"{note.text}; {hint}", note.place)
        for query in plan.queries
        for note, hint in _unkept(query, config)
    )


def _unkept(query: QueryPlan, config: Config) -> Iterator[tuple[Note, str]]:
    """Yields a note, and a hint, for each setting that links of a query lack."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    places: dict[tuple[str, ...], tuple[int, int]] = {}
    for lfta in lftas_as_read([query.high]):
        for link in lfta.links:
            settings = None if link == ANY_LINK else config.link(link)
            if settings is None or settings.kind != "pcap":
                continue
            read = optional_columns([lfta])
            for line in setting_lines(settings, read):
                columns = tuple(sorted(_named(lfta, line)))
                found.setdefault(columns, {})[_section(config, link)] = line
                places.setdefault(columns, _place(lfta, columns))
    for columns, lines in found.items():
        names = ", ".join(lines)
        keeps = "keeps" if len(lines) == 1 else "keep"
        text = f"link {names} {keeps} no {', '.join(columns)}, so every value of it would be NULL"
        hidden = [link for link in lines if config.link(link).anonymise is not None]
        add = "; ".join(f"{line} in {section_of(link)}" for link, line in lines.items() if link not in hidden)
        hint = f"write {add}, and run `lowwater ingest`, which reads their captures again; or name other links in FROM"
        if hidden:
            again = "take its captures in twice, as two links, or name other links in FROM"
            hint = f"link {', '.join(hidden)} hides addresses: {again}"
        yield Note(query.name, text, places[columns]), hint


def _section(config: Config, link: str) -> str:
    """The link in whose section of the settings those of a link stand: that of its file, for an interface."""
    return link if link in config.links else link.partition("/")[0]


def _expressions(lfta: Lfta) -> list[Expr]:
    items = [item.expr for item in lfta.keys]
    partials = [partial.argument for partial in lfta.partials]
    return [expr for expr in (lfta.member, lfta.predicate, *items, *partials) if expr is not None]


def _named(lfta: Lfta, line: str) -> set[str]:
    """The columns of expressions of an LFTA that a setting keeps; the setting itself for sampling."""
    if line.startswith(SAMPLED):
        return {"digest for sampling"}
    kept = [FRAME] if line.startswith(PAYLOAD) else [name for name in KEPT.names if name not in UNNAMED]
    columns = [node.name for expr in _expressions(lfta) for node in walk(expr) if isinstance(node, Column)]
    return {name for name in columns if set(stored([name])).intersection(kept)}


def _place(lfta: Lfta, columns: Collection[str]) -> tuple[int, int]:
    """The first place at which one of some columns is read; that of the source if no expression has one."""
    nodes = (node for expr in _expressions(lfta) for node in walk(expr) if isinstance(node, Column))
    return next((node.place for node in nodes if node.name in columns and node.place != (0, 0)), lfta.place)
