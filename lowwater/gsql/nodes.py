"""The syntax tree of GSQL: one short immutable class per construct, with its place in the text.

First stage of the pipeline: `parser` makes nodes from text, `printer` makes text from nodes, and
`lowwater.plan.bind.queries` gives them meaning. Names are not resolved here, and expressions have no types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from lowwater.precedence import shallow_tree


@dataclass(frozen=True)
class Place:
    """The place at which a construct begins: line and column, counted from 1."""

    line: int = 0
    column: int = 0


def _place() -> Place:
    # Without places in comparisons, parse(print(parse(text))) equals parse(text).
    return field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True)
class Expression:
    """Base class of expressions."""


@dataclass(frozen=True)
class Literal(Expression):
    """A literal."""

    kind: str  # `int`, `float`, `string`, `bool`, `null`, `ip` (IP_VAL or IPV6_VAL) or `timestamp`
    value: int | float | str | bool | None  # the value; the text as written for `ip`, us since 1970 for `timestamp`
    place: Place = _place()


@dataclass(frozen=True)
class Duration(Expression):
    """A length of time such as `5 s`, with the unit as written.

    The binder converts it to the unit of the attribute beside it.
    """

    value: int | float
    unit: str
    place: Place = _place()


@dataclass(frozen=True)
class Name(Expression):
    """A column, `name` or `qualifier.name`. A qualifier may hold dots itself: `main1.DataProtocol`."""

    name: str
    qualifier: str = ""
    place: Place = _place()


@dataclass(frozen=True)
class Parameter(Expression):
    """`$name`: the value of an entry of PARAM."""

    name: str
    place: Place = _place()


@dataclass(frozen=True)
class Defined(Expression):
    """`#name`: the text of an entry of DEFINE."""

    name: str
    place: Place = _place()


@dataclass(frozen=True)
class Property(Expression):
    """`@name`: a property of the link of the row."""

    name: str
    place: Place = _place()


@dataclass(frozen=True)
class UnaryOp(Expression):
    """`-`, `~`, or `NOT`. `!` means `~` on integers and NOT on booleans; the printer writes it as it was."""

    op: str
    operand: Expression
    place: Place = _place()


@dataclass(frozen=True)
class BinaryOp(Expression):
    """An operator with two operands: `OR AND = <> < <= > >= | & << >> + - * / %`, keywords in upper case."""

    op: str
    left: Expression
    right: Expression
    place: Place = _place()


@dataclass(frozen=True)
class Call(Expression):
    """A function or aggregate: `name(arguments)`."""

    name: str
    arguments: tuple[Expression, ...] = ()
    star: bool = False  # `name(*)`
    distinct: bool = False  # `name(DISTINCT argument)`
    brackets: bool = False  # a predicate, `name[arguments]`
    over: bool = False  # `name$(arguments)`, a superaggregate
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
    """`CASE [operand] WHEN a THEN b ... [ELSE c] END`. `branches` are the pairs (when, then)."""

    branches: tuple[tuple[Expression, Expression], ...]
    operand: Expression | None = None
    otherwise: Expression | None = None
    place: Place = _place()


@dataclass(frozen=True)
class Exists(Expression):
    """`EXISTS (SELECT ...)`. Where a query can have it, as a condition of WHERE, the parser writes it as a join."""

    select: Select
    place: Place = _place()


@dataclass(frozen=True)
class Over(Expression):
    """`call OVER (PARTITION BY a, b ORDER BY t)`: a function of the row and those before it."""

    call: Call
    partition: tuple[Expression, ...] = ()
    order: Expression | None = None  # None where the query writes none
    rows: bool = False  # whether the frame is ROWS UNBOUNDED PRECEDING, without the rows behind that are equal in order
    place: Place = _place()


@dataclass(frozen=True)
class Star(Expression):
    """`*` or `source.*` as a select item."""

    qualifier: str = ""
    place: Place = _place()


def children(expression: Expression) -> tuple[Expression, ...]:
    """Returns the direct subexpressions of an expression, in the order of the text."""
    if isinstance(expression, BinaryOp):
        return (expression.left, expression.right)
    if isinstance(expression, UnaryOp | IsNull):
        return (expression.operand,)
    if isinstance(expression, Call):
        return expression.arguments
    if isinstance(expression, Over):  # the call itself is no aggregate
        ordered = () if expression.order is None else (expression.order,)
        return (*expression.call.arguments, *expression.partition, *ordered)
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


def mapped(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Returns an expression with each part changed, the parts of it before itself."""
    parts: dict[str, Any] = {}
    for each in fields(expression):
        value = getattr(expression, each.name)
        if isinstance(value, Expression):
            parts[each.name] = mapped(value, change)
        elif isinstance(value, tuple):
            parts[each.name] = tuple(_mapped(part, change) for part in value)
    return change(replace(expression, **parts))


def _mapped(part: Any, change: Callable[[Expression], Expression]) -> Any:
    if isinstance(part, tuple):
        return tuple(_mapped(each, change) for each in part)
    return mapped(part, change) if isinstance(part, Expression) else part


def begin(expression: Expression) -> Place:
    """Returns the place at which an expression begins."""
    # Every concrete expression has a place; the empty base class has none.
    place: Place = expression.place  # type: ignore[attr-defined]
    return place


def chain(op: str, operands: Sequence[Expression]) -> Expression:
    """Joins operands by AND or OR, which are associative, into a shallow tree.

    The depth grows with the logarithm of the number of operands. Parentheses around operands of the same operator
    change nothing, so every list has exactly one tree.
    """
    return shallow_tree(list(_flat(op, operands)), lambda left, right: BinaryOp(op, left, right, begin(left)))


def conjuncts(condition: Expression | None) -> list[Expression]:
    """Returns the operands of the outermost ANDs; none for no condition."""
    return [] if condition is None else list(_flat("AND", [condition]))


def qualifiers(expression: Expression) -> set[str]:
    """Returns the qualifiers of the columns of an expression; an empty one for a column without."""
    own = {expression.qualifier} if isinstance(expression, Name) else set()
    return own.union(*map(qualifiers, children(expression)))


def names(expression: Expression) -> set[str]:
    """Returns the columns of an expression that have no qualifier."""
    own = {expression.name} if isinstance(expression, Name) and not expression.qualifier else set()
    return own.union(*map(names, children(expression)))


def _flat(op: str, operands: Iterable[Expression]) -> Iterator[Expression]:
    for operand in operands:
        if isinstance(operand, BinaryOp) and operand.op == op:
            yield from _flat(op, (operand.left, operand.right))
        else:
            yield operand


@dataclass(frozen=True)
class SelectItem:
    """One item of a select list or GROUP BY. `alias` is empty where the query writes none."""

    expression: Expression
    alias: str = ""
    place: Place = _place()
    hidden: bool = False  # whether only ORDER BY reads it; the binder adds such items


@dataclass(frozen=True)
class Grouping:
    """`CUBE(...)`, `ROLLUP(...)` or `GROUPING_SETS((...), ...)` in GROUP BY."""

    kind: str
    items: tuple[SelectItem, ...]
    sets: tuple[tuple[str, ...], ...] = ()  # the names of every set of GROUPING_SETS; empty for CUBE and ROLLUP
    place: Place = _place()


@dataclass(frozen=True)
class Extent:
    """The length of a window: `5 min`, `100 ROWS`, or a plain number in the unit of the attribute."""

    value: int | float
    unit: str = ""
    place: Place = _place()


@dataclass(frozen=True)
class Window:
    """`[RANGE 5 min, SLIDE 1 min, WA ts, PARTITION BY a, WHERE c]`. Parts that are not written are None or empty."""

    range: Extent | None = None
    slide: Extent | None = None
    attribute: Name | None = None
    partition: tuple[Name, ...] = ()
    counted: Expression | None = None
    place: Place = _place()


@dataclass(frozen=True)
class SourceRef:
    """One source of FROM."""

    name: str
    # `(link,)` for `main1.TCP`, several links for `[main1, control].TCP`, the name of a link set for `[backbone].TCP`;
    # empty for a name alone (a query, a protocol on all links, or a link)
    links: tuple[str, ...] = ()
    bracketed: bool = False  # whether the links stand in brackets; only there may a name be a link set
    alias: str = ""  # the alias of the source; empty for none
    host: str = ""  # the host of the link; empty for none
    library: str = ""  # the library of the query; empty for none
    window: Window | None = None  # the window behind the source; None for none
    union: tuple[SourceRef, ...] = ()  # further sources of `A UNION B AS M`, without alias and window
    distinct: bool = field(default=False, compare=False, repr=False)  # whether it stands behind UNION without ALL
    place: Place = _place()


@dataclass(frozen=True)
class Order:
    """One part of ORDER BY: `expression [DESC] [NULLS FIRST]`."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False
    place: Place = _place()


@dataclass(frozen=True)
class Top:
    """`ORDER BY a DESC, b LIMIT 10 [WITH TIES] [PER tb, link]`, also as it is written with QUALIFY."""

    order: tuple[Order, ...]
    count: int
    ties: bool = False  # whether the rows that equal the last one in ORDER BY come too
    per: tuple[Expression, ...] = ()  # of which rows these are the first; empty for those of an epoch
    place: Place = _place()


@dataclass(frozen=True)
class Fill:
    """`FILL`, or `FILL (port IN (80, 443), ...)`, behind the variables of GROUP BY."""

    values: tuple[Expression, ...] = ()  # an IN list for each variable that is no epoch
    place: Place = _place()


@dataclass(frozen=True)
class ParamDecl:
    """One entry of PARAM: `name type;`. `name type = 5;` with a default value is our extension."""

    name: str
    type: str
    default: Literal | None = None
    place: Place = _place()


@dataclass(frozen=True)
class Statement:
    """Base class of statements. `defines` holds the entries of DEFINE in order, `params` the entries of PARAM."""


@dataclass(frozen=True)
class Select(Statement):
    """A SELECT statement."""

    items: tuple[SelectItem, ...]
    sources: tuple[SourceRef, ...]
    # empty, or INNER_JOIN, OUTER_JOIN, LEFT_OUTER_JOIN, RIGHT_OUTER_JOIN, ANTI_JOIN, SEMI_JOIN, ASOF_JOIN,
    # ASOF_LEFT_JOIN, ASOF_ONCE_JOIN, ASOF_ONCE_LEFT_JOIN, FILTER_JOIN, WATCHLIST_JOIN
    join: str = ""
    where: Expression | None = None
    on: Expression | None = None  # what stands behind ON of a join between the sources; None for none
    using: tuple[Name, ...] = ()  # the columns behind USING
    # whether SQL's keyword stands between the sources. Only where WHERE asks for NULL it makes a difference (V1); the
    # printer writes it there and before ON and USING.
    between: bool = field(default=False, compare=False)
    group_by: tuple[SelectItem | Grouping, ...] = ()
    fill: Fill | None = None
    having: Expression | None = None
    distinct: bool = False
    window: Window | None = None  # the window after the select list; None for none
    filter_range: tuple[Name, Expression] | None = None  # the temporal field and the range of FILTER_JOIN; else None
    supergroup: tuple[Name, ...] = ()
    cleaning_when: Expression | None = None
    cleaning_by: Expression | None = None
    closing_when: Expression | None = None
    top: Top | None = None
    defines: tuple[tuple[str, str], ...] = ()
    params: tuple[ParamDecl, ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class Merge(Statement):
    """A MERGE statement: `MERGE a.t : b.t [SLACK n] FROM a, b`."""

    columns: tuple[Name, ...]
    sources: tuple[SourceRef, ...]
    slack: Expression | None = None
    defines: tuple[tuple[str, str], ...] = ()
    params: tuple[ParamDecl, ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class FieldDecl:
    """One column of a PROTOCOL or WATCHLIST: `type name access_function (attribute, ...) [unpack, ...];`."""

    type: str
    name: str
    access: str = ""
    attributes: tuple[tuple[str, str], ...] = ()  # (word, value) pairs: `increasing`, `snap_len 10`
    place: Place = _place()


@dataclass(frozen=True)
class Watchlist(Statement):
    """`WATCHLIST FIELDS { ... }`: the columns of a file that WATCHLIST_JOIN reads."""

    columns: tuple[FieldDecl, ...]
    defines: tuple[tuple[str, str], ...] = ()
    params: tuple[ParamDecl, ...] = ()
    place: Place = _place()


@dataclass(frozen=True)
class ProtocolDecl:
    """`PROTOCOL name (parents, schema_id schema) { fields }`; the schema is 0 where the text has none."""

    name: str
    parents: tuple[str, ...]
    columns: tuple[FieldDecl, ...]
    schema: int = 0
    place: Place = _place()


@dataclass(frozen=True)
class QueryFile:
    """The syntax tree of one `.gsql` file, or of one file of PROTOCOL blocks."""

    statements: tuple[Statement, ...]
    protocols: tuple[ProtocolDecl, ...] = ()


def item_name(item: SelectItem) -> str:
    """Returns the alias of an item, else the name of its column, else an empty text."""
    return item.alias or (item.expression.name if isinstance(item.expression, Name) else "")


def parameters_of(statement: Statement) -> set[str]:
    """Returns the names of the parameters that a statement reads."""
    found, stack = set(), expressions_of(statement)
    while stack:
        part = stack.pop()
        if isinstance(part, Parameter):
            found.add(part.name)
        stack += children(part)
    return found


def expressions_of(statement: Statement) -> list[Expression]:
    """Returns the top-level expressions of a statement, in the order of the text."""
    if isinstance(statement, Merge):
        return [*statement.columns, *([statement.slack] if statement.slack else [])]
    if not isinstance(statement, Select):
        return []
    items = list(statement.items)
    for group in statement.group_by:
        items += group.items if isinstance(group, Grouping) else [group]
    clauses = (statement.on, statement.where, statement.having, statement.cleaning_when, statement.cleaning_by)
    ends = [*clauses, statement.closing_when, statement.filter_range[1] if statement.filter_range else None]
    ends += statement.fill.values if statement.fill is not None else ()
    if statement.top is not None:
        ends += [*(order.expression for order in statement.top.order), *statement.top.per]
    return [item.expression for item in items] + [end for end in ends if end is not None]
