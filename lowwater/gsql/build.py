"""Builds the syntax tree of a query file while lark's parser reduces grammar rules.

Called by `parser`: one method per rule of `grammar.lark`. The rules of sources and of expressions are in
`build_sources` and `build_expressions`. Errors carry only a line and a column here; `parser` adds the file name and the
text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from lark import Token, v_args

from lowwater.gsql.build_expressions import checked_name
from lowwater.gsql.build_sources import SourceBuilder, Sources
from lowwater.gsql.literals import fault, place_of, unquoted
from lowwater.gsql.nodes import (
    Call,
    Expression,
    Grouping,
    Literal,
    Merge,
    Name,
    ParamDecl,
    Place,
    ProtocolDecl,
    QueryFile,
    Select,
    SelectItem,
    SourceRef,
    Star,
    Statement,
    Watchlist,
    begin,
    item_name,
)

Entry = tuple[str, str, Place]
Clause = tuple[str, Any]


@v_args(inline=True)
class TreeBuilder(SourceBuilder):
    """Makes syntax tree nodes, one method per grammar rule. An instance serves every parse with the
    same function names."""

    def start(self, *parts: Statement | ProtocolDecl | Token | None) -> QueryFile:
        return QueryFile(
            tuple(part for part in parts if isinstance(part, Statement)),
            tuple(part for part in parts if isinstance(part, ProtocolDecl)),
        )

    def statement(self, *parts: Any) -> Statement:
        *prologue, body = parts
        entries: list[Entry] = []
        params: list[ParamDecl] = []
        for kind, items in prologue:
            (entries if kind == "define" else params).extend(items)
        _check_unique((key, place) for key, _, place in entries)
        _check_unique((param.name, param.place) for param in params)
        defines = tuple((key, value) for key, value, _ in entries)
        assert isinstance(body, Select | Merge | Watchlist)
        return replace(body, defines=defines, params=tuple(params))

    def define(self, *entries: Any) -> Clause:
        return "define", [entry for entry in entries if isinstance(entry, tuple)]

    def entry(self, key: Token, value: Token) -> Entry:
        text = unquoted(value) if value.type == "STRING" else str(value.value)
        return checked_name(key), text, place_of(key)

    def header(self, _query: Token, name: Token) -> Clause:
        return "define", [("query_name", name.value, place_of(name))]

    def param(self, *params: Any) -> Clause:
        return "param", [param for param in params if isinstance(param, ParamDecl)]

    def declared(
        self, name: Token, kind: Token, _equal: Any, minus: Token | None, default: Literal | None
    ) -> ParamDecl:
        if default is not None and minus is not None:
            if default.kind not in ("int", "float") or default.value is None:
                raise fault(f"the default of ${name} is no number", "write `PARAM { n int = -5; }`", default.place)
            default = replace(default, value=-float(default.value) if default.kind == "float" else -int(default.value))
        return ParamDecl(checked_name(name), checked_name(kind), default, place_of(name))

    def select(self, keyword: Token, *parts: Any) -> Select:
        distinct, items, window, join, _from, sources, where, group_by, *ends = parts
        supergroup, having, cleaning_when, cleaning_by, closing_when = ends
        refs, kind, filter_range = _join_clause(join, sources, place_of(_from))
        return Select(
            items,
            refs,
            kind,
            where,
            group_by or (),
            having,
            distinct=distinct is not None,
            window=window,
            filter_range=filter_range,
            supergroup=supergroup or (),
            cleaning_when=cleaning_when,
            cleaning_by=cleaning_by,
            closing_when=closing_when,
            place=place_of(keyword),
        )

    def items(self, *items: SelectItem) -> tuple[SelectItem, ...]:
        return items

    def item(self, expression: Expression, alias: Token | None) -> SelectItem:
        return SelectItem(expression, checked_name(alias) if alias is not None else "", begin(expression))

    def star(self, *tokens: Token) -> SelectItem:
        qualifier = checked_name(tokens[0]) if len(tokens) > 1 else ""
        return SelectItem(Star(qualifier, place_of(tokens[0])), "", place_of(tokens[0]))

    def join(self, keyword: Token, *filter_range: Any) -> tuple[Token, Any]:
        return keyword, filter_range or None

    def where(self, expression: Expression) -> Expression:
        return expression

    having = slack = cleaning_when = cleaning_by = closing_when = where

    def group_by(self, groups: tuple[SelectItem | Grouping, ...]) -> tuple[SelectItem | Grouping, ...]:
        return groups

    def groups(self, *groups: SelectItem | Grouping) -> tuple[SelectItem | Grouping, ...]:
        return groups

    def group(self, item: SelectItem) -> SelectItem:
        _check_names([item])
        return item

    def grouping(self, keyword: Token, items: tuple[SelectItem, ...]) -> Grouping:
        _check_names(items)
        return Grouping(str(keyword.value), items, place=place_of(keyword))

    def grouping_sets(self, keyword: Token, *sets: tuple[SelectItem, ...]) -> Grouping:
        items: dict[str, SelectItem] = {}
        names = []
        for members in sets:
            _check_names(members)
            for item in members:
                first = items.setdefault(item_name(item), item)
                if item.expression not in (first.expression, Name(item_name(item))):
                    raise fault(
                        f"`{item_name(item)}` means two things here", "give one of them another name", item.place
                    )
            names.append(tuple(item_name(item) for item in members))
        return Grouping("GROUPING_SETS", tuple(items.values()), tuple(names), place_of(keyword))

    def set(self, items: tuple[SelectItem, ...] | None) -> tuple[SelectItem, ...]:
        return items or ()

    def supergroup(self, *names: Name) -> tuple[Name, ...]:
        return names

    def merge(self, keyword: Token, *parts: Any) -> Merge:
        columns: list[Name]
        *columns, slack, _from, (sources, joins) = parts
        if any(joins):
            raise fault(
                "MERGE lists its sources with commas", "write `MERGE A.t : B.t FROM a A, b B`", place_of(keyword)
            )
        if len(columns) != len(sources):
            raise fault(
                f"MERGE names {len(columns)} columns but FROM lists {len(sources)} sources",
                "write one column for each source: `MERGE A.t : B.t FROM a A, b B`",
                place_of(keyword),
            )
        for column in columns:
            if not column.qualifier:
                raise fault(
                    f"MERGE needs to know the source of `{column.name}`", f"write `source.{column.name}`", column.place
                )
        return Merge(tuple(columns), sources, slack, place=place_of(keyword))


def _check_unique(entries: Iterable[tuple[str, Place]]) -> None:
    keys: set[str] = set()
    for key, place in entries:
        if key in keys:
            raise fault(f"`{key}` is defined twice for one query", "keep one of the two", place)
        keys.add(key)


def _join_clause(join: Any, sources: Sources, place: Place) -> tuple[tuple[SourceRef, ...], str, Any]:
    """Returns the sources, the keyword of their join, and the arguments of FILTER_JOIN.

    Args:
        join: the join before FROM, as (keyword, arguments of FILTER_JOIN); None where the query writes none there.
        sources: the sources, and the join keywords between them.
        place: the place of FROM, for errors.
    """
    refs, keywords = sources
    keyword, filter_range = join or (next((token for token in keywords if token), None), None)
    if join and any(keywords):
        raise fault(
            "two ways of writing a join in one query", "write the join before FROM or between the sources", place
        )
    kind = keyword.value if keyword is not None else "INNER_JOIN" if len(refs) > 1 else ""
    if kind and len(refs) != 2:
        raise fault(
            f"{kind} takes exactly two sources, not {len(refs)}",
            "join two at a time: name the first join as a query and join that with the next source"
            if len(refs) > 2
            else f"write `{kind} FROM a A, b B WHERE A.t = B.t`",
            place_of(keyword) if keyword is not None else place,
        )
    return refs, kind, filter_range


def _check_names(items: Iterable[SelectItem]) -> None:
    for item in items:
        if isinstance(item.expression, Star):
            raise fault("`*` cannot be grouped by", "name the columns", item.place)
        if not item.alias and not isinstance(item.expression, Name):
            call = item.expression.name.upper() if isinstance(item.expression, Call) else ""
            near = get_close_matches(call, ("CUBE", "ROLLUP", "GROUPING_SETS"), n=1)
            hint = f"did you mean {near[0]}?" if near else "write `expression AS name`"
            raise fault("a computed GROUP BY item needs a name", hint, item.place)
