"""The syntax tree of GSQL: one short immutable class per construct, with its place in the text.

First stage of the pipeline: `parser` makes these from text, `printer` makes text from these, and
`lowwater.plan.binder` gives them meaning. Nothing is resolved or typed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Place:
    """Where a construct begins: 1-based line and column."""

    line: int = 0
    column: int = 0


def _place() -> Place:
    # Places never take part in comparisons, so parse(print(parse(text))) can be compared with parse(text).
    return field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True)
class Expression:
    """Base of expressions."""


@dataclass(frozen=True)
class Literal(Expression):
    """A literal. kind: int, float, string, bool, ip (IP_VAL or IPV6_VAL, value is the text as written)."""

    kind: str
    value: int | float | str | bool
    place: Place = _place()


@dataclass(frozen=True)
class Name(Expression):
    """A column, `name` or `qualifier.name`; a qualifier may itself hold dots (`main1.DataProtocol`)."""

    name: str
    qualifier: str = ""
    place: Place = _place()


@dataclass(frozen=True)
class Parameter(Expression):
    """`$name`."""

    name: str
    place: Place = _place()


@dataclass(frozen=True)
class UnaryOp(Expression):
    """`-`, `~`, or `NOT` (`!` reads as `~` on integers and NOT on booleans: printed as written)."""

    op: str
    operand: Expression
    place: Place = _place()


@dataclass(frozen=True)
class BinaryOp(Expression):
    """`OR AND = <> < <= > >= | & << >> + - * / %`; keywords in upper case."""

    op: str
    left: Expression
    right: Expression
    place: Place = _place()


@dataclass(frozen=True)
class Call(Expression):
    """A function or aggregate: `name(arguments)`, `name(*)` with star."""

    name: str
    arguments: tuple[Expression, ...] = ()
    star: bool = False
    place: Place = _place()


@dataclass(frozen=True)
class SelectItem:
    """One item of a select list or GROUP BY; `alias` is empty where none is written."""

    expression: Expression
    alias: str = ""
    place: Place = _place()


@dataclass(frozen=True)
class SourceRef:
    """One source of FROM.

    Attributes:
        links: `(link,)` for `main1.TCP`, several for `[main1, control].TCP`, a set's name for `[backbone].TCP`; empty
            where only a name is written: a query, or a protocol on all links.
        bracketed: whether the links stood in brackets (names there may be sets).
        name: protocol or query.
        alias: range variable, empty where none is written.
    """

    name: str
    links: tuple[str, ...] = ()
    bracketed: bool = False
    alias: str = ""
    place: Place = _place()


@dataclass(frozen=True)
class Statement:
    """Base of statements; `defines` are the entries of DEFINE in order."""


@dataclass(frozen=True)
class Select(Statement):
    """SELECT. `join` is "" or one of INNER_JOIN, OUTER_JOIN, LEFT_OUTER_JOIN, RIGHT_OUTER_JOIN."""

    items: tuple[SelectItem, ...]
    sources: tuple[SourceRef, ...]
    join: str = ""
    where: Expression | None = None
    group_by: tuple[SelectItem, ...] = ()
    having: Expression | None = None
    defines: tuple[tuple[str, str], ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class Merge(Statement):
    """MERGE a.t : b.t [SLACK n] FROM a, b."""

    columns: tuple[Name, ...]
    sources: tuple[SourceRef, ...]
    slack: Expression | None = None
    defines: tuple[tuple[str, str], ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class QueryFile:
    """One `.gsql` file."""

    statements: tuple[Statement, ...]
