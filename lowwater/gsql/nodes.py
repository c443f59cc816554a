"""The syntax tree of GSQL: one short immutable class per construct, with its place in the text.

First stage of the pipeline: `parser` makes these from text, `printer` makes text from these, and
`lowwater.plan.bind.binder` gives them meaning. Nothing is resolved or typed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce


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
    """A literal. kind: int, float, string, bool, null, ip (IP_VAL or IPV6_VAL, value is the text as written)."""

    kind: str
    value: int | float | str | bool | None
    place: Place = _place()


@dataclass(frozen=True)
class Duration(Expression):
    """`5 s`: a length of time, which counts in the unit of what stands beside it; the unit is as written."""

    value: int | float
    unit: str
    place: Place = _place()


@dataclass(frozen=True)
class Name(Expression):
    """A column, `name` or `qualifier.name`; a qualifier may itself hold dots (`main1.DataProtocol`)."""

    name: str
    qualifier: str = ""
    place: Place = _place()


@dataclass(frozen=True)
class Parameter(Expression):
    """`$name`: a value of PARAM."""

    name: str
    place: Place = _place()


@dataclass(frozen=True)
class Defined(Expression):
    """`#name`: the text of an entry of DEFINE."""

    name: str
    place: Place = _place()


@dataclass(frozen=True)
class Property(Expression):
    """`@name`: a property of the link that the row came from."""

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
    """A function or aggregate: `name(arguments)`.

    Attributes:
        star: `name(*)`.
        distinct: `name(DISTINCT argument)`.
        brackets: a predicate, `name[arguments]`.
        over: `name$(arguments)`, a superaggregate.
    """

    name: str
    arguments: tuple[Expression, ...] = ()
    star: bool = False
    distinct: bool = False
    brackets: bool = False
    over: bool = False
    place: Place = _place()


@dataclass(frozen=True)
class InList(Expression):
    """`operand [NOT] IN [a, b]`."""

    operand: Expression
    values: tuple[Expression, ...]
    negated: bool = False
    place: Place = _place()


@dataclass(frozen=True)
class Between(Expression):
    """`operand [NOT] BETWEEN low AND high`, both ends included."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    place: Place = _place()


@dataclass(frozen=True)
class Like(Expression):
    """`operand [NOT] LIKE pattern`."""

    operand: Expression
    pattern: Expression
    negated: bool = False
    place: Place = _place()


@dataclass(frozen=True)
class IsNull(Expression):
    """`operand IS [NOT] NULL`."""

    operand: Expression
    negated: bool = False
    place: Place = _place()


@dataclass(frozen=True)
class Case(Expression):
    """`CASE [operand] WHEN a THEN b ... [ELSE c] END`; `branches` are (when, then)."""

    branches: tuple[tuple[Expression, Expression], ...]
    operand: Expression | None = None
    otherwise: Expression | None = None
    place: Place = _place()


@dataclass(frozen=True)
class Star(Expression):
    """`*` or `source.*` as a select item."""

    qualifier: str = ""
    place: Place = _place()


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions right below one, in the order of the text."""
    if isinstance(expression, BinaryOp):
        return (expression.left, expression.right)
    if isinstance(expression, UnaryOp | IsNull):
        return (expression.operand,)
    if isinstance(expression, Call):
        return expression.arguments
    if isinstance(expression, InList):
        return (expression.operand, *expression.values)
    if isinstance(expression, Between):
        return (expression.operand, expression.low, expression.high)
    if isinstance(expression, Like):
        return (expression.operand, expression.pattern)
    if isinstance(expression, Case):
        parts = [part for branch in expression.branches for part in branch]
        ends = [expression.operand, *parts, expression.otherwise]
        return tuple(part for part in ends if part is not None)
    return ()


def begin(expression: Expression) -> Place:
    """Where an expression begins."""
    # Every concrete expression has a place; the empty base class has none.
    place: Place = expression.place  # type: ignore[attr-defined]
    return place


CHAIN = 16
"""So many operands of AND or OR lean to the left, as written; of a longer list so many make one operand of the next."""


def chain(op: str, operands: Sequence[Expression]) -> Expression:
    """Operands joined by AND or OR, which are associative: the tree of a long list is not as deep as the list is long.

    Parentheses around operands of the same operator change nothing, so there is one tree for each list.
    """
    parts = list(_flat(op, operands))
    while len(parts) > 1:
        parts = [
            reduce(lambda left, right: BinaryOp(op, left, right, begin(left)), parts[at : at + CHAIN])
            for at in range(0, len(parts), CHAIN)
        ]
    return parts[0]


def _flat(op: str, operands: Iterable[Expression]) -> Iterator[Expression]:
    for operand in operands:
        if isinstance(operand, BinaryOp) and operand.op == op:
            yield from _flat(op, (operand.left, operand.right))
        else:
            yield operand


@dataclass(frozen=True)
class SelectItem:
    """One item of a select list or GROUP BY; `alias` is empty where none is written."""

    expression: Expression
    alias: str = ""
    place: Place = _place()


@dataclass(frozen=True)
class Grouping:
    """`CUBE(...)`, `ROLLUP(...)` or `GROUPING_SETS((...), ...)` in GROUP BY.

    Attributes:
        kind: the keyword.
        items: the group-by variables, each once.
        sets: for GROUPING_SETS, the names of each set.
    """

    kind: str
    items: tuple[SelectItem, ...]
    sets: tuple[tuple[str, ...], ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class Extent:
    """How far a window reaches: `5 min`, `100 ROWS`, or a plain number in the attribute's own unit."""

    value: int | float
    unit: str = ""
    place: Place = _place()


@dataclass(frozen=True)
class Window:
    """`[RANGE 5 min, SLIDE 1 min, WA ts, PARTITION BY a]`; parts that are not written are None or empty."""

    range: Extent | None = None
    slide: Extent | None = None
    attribute: Name | None = None
    partition: tuple[Name, ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class SourceRef:
    """One source of FROM.

    Attributes:
        links: `(link,)` for `main1.TCP`, several for `[main1, control].TCP`, a set's name for `[backbone].TCP`; empty
            where only a name is written: a query, a protocol on all links, or a link.
        bracketed: whether the links stood in brackets (names there may be sets).
        name: protocol, query or link.
        alias: range variable, empty where none is written.
        host: the host of the link, empty where none is written.
        library: the library of the query, empty where none is written.
        window: of 002, else None.
        union: further sources, `A UNION B as M`; they have no alias and no window of their own.
    """

    name: str
    links: tuple[str, ...] = ()
    bracketed: bool = False
    alias: str = ""
    host: str = ""
    library: str = ""
    window: Window | None = None
    union: tuple[SourceRef, ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class ParamDecl:
    """One entry of PARAM: `name type;`, with a default value as our extension: `name type = 5;`."""

    name: str
    type: str
    default: Literal | None = None
    place: Place = _place()


@dataclass(frozen=True)
class Statement:
    """Base of statements; `defines` are the entries of DEFINE in order, `params` those of PARAM."""


@dataclass(frozen=True)
class Select(Statement):
    """SELECT.

    Attributes:
        join: empty, or INNER_JOIN, OUTER_JOIN, LEFT_OUTER_JOIN, RIGHT_OUTER_JOIN, FILTER_JOIN, WATCHLIST_JOIN.
        filter_range: of FILTER_JOIN: its temporal field and its range.
        window: the one written after the select list, else None.
        supergroup: names.
    """

    items: tuple[SelectItem, ...]
    sources: tuple[SourceRef, ...]
    join: str = ""
    where: Expression | None = None
    group_by: tuple[SelectItem | Grouping, ...] = ()
    having: Expression | None = None
    distinct: bool = False
    window: Window | None = None
    filter_range: tuple[Name, Expression] | None = None
    supergroup: tuple[Name, ...] = ()
    cleaning_when: Expression | None = None
    cleaning_by: Expression | None = None
    closing_when: Expression | None = None
    defines: tuple[tuple[str, str], ...] = ()
    params: tuple[ParamDecl, ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class Merge(Statement):
    """MERGE a.t : b.t [SLACK n] FROM a, b."""

    columns: tuple[Name, ...]
    sources: tuple[SourceRef, ...]
    slack: Expression | None = None
    defines: tuple[tuple[str, str], ...] = ()
    params: tuple[ParamDecl, ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class FieldDecl:
    """One column of a PROTOCOL or WATCHLIST: `type name access_function (attribute, ...) [unpack, ...];`.

    Attributes:
        attributes: (word, value) pairs: `increasing`, `snap_len 10`.
    """

    type: str
    name: str
    access: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class Watchlist(Statement):
    """WATCHLIST FIELDS { ... }: a table in a file that WATCHLIST_JOIN reads."""

    columns: tuple[FieldDecl, ...]
    defines: tuple[tuple[str, str], ...] = ()
    params: tuple[ParamDecl, ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class ProtocolDecl:
    """PROTOCOL name (parents) { fields }."""

    name: str
    parents: tuple[str, ...]
    columns: tuple[FieldDecl, ...]
    place: Place = _place()


@dataclass(frozen=True)
class QueryFile:
    """One `.gsql` file, or one file of PROTOCOL blocks."""

    statements: tuple[Statement, ...]
    protocols: tuple[ProtocolDecl, ...] = ()


def expressions_of(statement: Statement) -> list[Expression]:
    """The expressions of a statement, whole ones, in the order of the text."""
    if isinstance(statement, Merge):
        return [*statement.columns, *([statement.slack] if statement.slack else [])]
    if not isinstance(statement, Select):
        return []
    items = list(statement.items)
    for group in statement.group_by:
        items += group.items if isinstance(group, Grouping) else [group]
    clauses = (statement.where, statement.having, statement.cleaning_when, statement.cleaning_by)
    ends = [*clauses, statement.closing_when, statement.filter_range[1] if statement.filter_range else None]
    return [item.expression for item in items] + [end for end in ends if end is not None]
