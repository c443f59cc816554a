"""Builds the nodes of FROM sources, windows and column declarations while lark's parser reduces grammar rules.

The base of `build`, for the middle of `grammar.lark`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from lark import Token, v_args

from lowwater.gsql.build_expressions import ExpressionBuilder, checked_name, link_name
from lowwater.gsql.literals import fault, number_of, place_of, unquoted
from lowwater.gsql.nodes import Expression, Extent, FieldDecl, Name, ProtocolDecl, SourceRef, Watchlist, Window
from lowwater.gsql.words import WINDOW_FORM

Part = tuple[str, Any]
Sources = tuple[tuple[SourceRef, ...], tuple[Token | None, ...]]


@v_args(inline=True)
class SourceBuilder(ExpressionBuilder):
    """Makes nodes of sources, windows and column declarations, one method per grammar rule. Holds no state."""

    def sources(self, *parts: Any) -> Sources:
        """Returns all sources, and the SQL join keyword before each source but the first; None where a comma stands."""
        pairs = pairwise(parts)
        joins = (before if isinstance(before, Token) else None for before, part in pairs if isinstance(part, SourceRef))
        return tuple(part for part in parts if isinstance(part, SourceRef)), tuple(joins)

    def source(self, refs: tuple[SourceRef, ...], *parts: Any) -> SourceRef:
        alias = next((part for part in parts if isinstance(part, Token)), None)
        window = next((part for part in parts if isinstance(part, Window)), None)
        first, *others = refs
        return replace(
            first, alias=checked_name(alias) if alias is not None else "", window=window, union=tuple(others)
        )

    def union(self, *refs: Any) -> tuple[SourceRef, ...]:
        return tuple(ref for ref in refs if isinstance(ref, SourceRef))

    def plain_source(self, *names: Token) -> SourceRef:
        if len(names) > 3:
            raise fault("a source has at most three parts", "write `link.PROTOCOL`", place_of(names[0]))
        *path, last = names
        host = checked_name(path[0]) if len(path) == 2 else ""
        links = tuple(link_name(token) for token in path[-1:])
        name = checked_name(last) if links else link_name(last)
        return SourceRef(name, links, host=host, place=place_of(names[0]))

    def host_source(self, host: Token, link: Token, name: Token) -> SourceRef:
        return SourceRef(checked_name(name), (link_name(link),), host=unquoted(host), place=place_of(host))

    def bracketed_source(self, *parts: Any) -> SourceRef:
        links, name = (part for part in parts if isinstance(part, tuple) or part.type == "NAME")
        texts = tuple(link_name(token) for token in links)
        return SourceRef(checked_name(name), texts, True, place=place_of(links[0]))

    def library_source(self, library: Token, _slash: Token, name: Token) -> SourceRef:
        return SourceRef(checked_name(name), library=checked_name(library), place=place_of(library))

    def names(self, *names: Token) -> tuple[Token, ...]:
        return names

    def alias(self, name: Token) -> Token:
        return name

    def window(self, *parts: Part | Token) -> Window:
        parts_by_kind: dict[str, Any] = {}
        partition: list[Name] = []
        for part in parts:
            if not isinstance(part, tuple):
                continue
            kind, value = part
            if kind == "PARTITION" or (kind == "" and partition):
                partition.append(value)
            elif kind == "" or kind in parts_by_kind:
                what = f"a second {kind}" if kind else f"the part `{value.name}`, which begins with no keyword"
                raise fault(f"the window holds {what}", WINDOW_FORM, value.place)
            else:
                parts_by_kind[kind] = value
        first = next(value for part in parts if isinstance(part, tuple) for value in part[1:])
        if "RANGE" not in parts_by_kind:
            raise fault("the window has no RANGE: how far it reaches", WINDOW_FORM, first.place)
        return Window(
            parts_by_kind.get("RANGE"),
            parts_by_kind.get("SLIDE"),
            parts_by_kind.get("WA"),
            tuple(partition),
            parts_by_kind.get("WHERE"),
            first.place,
        )

    def part(self, keyword: Token, *value: Any) -> Part:
        return str(keyword.type), value[-1]

    def counted(self, condition: Expression) -> Part:
        return "WHERE", condition

    def more_partition(self, column: Name) -> Part:
        return "", column

    def extent(self, number: Token, unit: Token | None) -> Extent:
        return Extent(number_of(number), checked_name(unit) if unit is not None else "", place_of(number))

    def protocol(self, *parts: Any) -> ProtocolDecl:
        name = next(part for part in parts if isinstance(part, Token) and part.type == "NAME")
        parents = next((part for part in parts if isinstance(part, list)), [])
        columns = tuple(part for part in parts if isinstance(part, FieldDecl))
        names = tuple(name for name in parents if isinstance(name, str))
        schema = next((number for number in parents if isinstance(number, int)), 0)
        return ProtocolDecl(checked_name(name), names, columns, schema, place_of(name))

    def parents(self, *names: str | int) -> list[str | int]:
        return [name for name in names if not isinstance(name, Token)]

    def parent(self, name: Token, number: Token | None) -> str | int:
        # `schema_id 12` selects one record type of an interface that has several; a link has one schema here.
        return int(number_of(number)) if number is not None and name.value == "schema_id" else checked_name(name)

    def protocol_field(self, kind: Token, name: Token, access: Token, *rest: Any) -> FieldDecl:
        attributes = next((part for part in rest if isinstance(part, tuple)), ())
        return FieldDecl(checked_name(kind), checked_name(name), checked_name(access), attributes, place_of(kind))

    def watchlist(self, *parts: Any) -> Watchlist:
        keyword = parts[0]
        columns = tuple(part for part in parts if isinstance(part, FieldDecl))
        return Watchlist(columns, place=place_of(keyword))

    def watch_field(self, kind: Token, name: Token, access: Token | None, attributes: Any) -> FieldDecl:
        access_name = checked_name(access) if access is not None else ""
        return FieldDecl(checked_name(kind), checked_name(name), access_name, attributes or (), place_of(kind))

    def attributes(self, *pairs: Any) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in pairs if isinstance(pair, tuple))

    def attribute(self, word: Token, value: Token | None) -> tuple[str, str]:
        text = "" if value is None else unquoted(value) if value.type == "STRING" else str(value.value)
        return checked_name(word), text

    def unpack(self, *names: Token) -> None:
        """Drops the unpacking functions of a field: they name C code, and Lowwater has its own reader."""
        return None
