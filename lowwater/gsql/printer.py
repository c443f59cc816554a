"""Prints syntax trees as canonical GSQL: one clause a line, keywords in upper case, no needless parentheses.

Beside `parser` at the top of the pipeline: `parse(print_file(tree))` gives the same tree. The digest of a run's inputs
(SEMANTICS S1) covers this text, so its form must not change.
"""

from __future__ import annotations

from lowwater.gsql import nodes as syntax, words
from lowwater.instants import format_moment
from lowwater.precedence import POWER

_NOT_POWER = 3
_COMPARISON_POWER = 4
_SIGN_POWER = 10
_UNSPACED = ("*", "/", "%")


def print_file(file: syntax.QueryFile) -> str:
    """Returns a file as canonical text: `;` and an empty line between statements, a newline at the end.

    Only tests call it: they check that `parse(print_file(tree))` is the identity for every construct, PROTOCOL blocks
    included.

    Example:
        >>> from lowwater.gsql.parser import parse
        >>> print(print_file(parse("select tb, count( * ) from TCP group by time / 60 as tb")), end="")
        SELECT tb, count(*)
        FROM TCP
        GROUP BY time/60 AS tb
    """
    blocks = "".join(f"{_protocol(protocol)}\n\n" for protocol in file.protocols)
    statements = ";\n\n".join(print_statement(statement) for statement in file.statements)
    return f"{blocks}{statements}\n" if statements else f"{blocks.rstrip()}\n"


def print_statement(statement: syntax.Statement) -> str:
    """Returns one statement as canonical text, without `;` and without a newline at the end.
    Raises TypeError if the class of the statement is unknown."""
    if isinstance(statement, syntax.Select):
        clauses = _select(statement)
    elif isinstance(statement, syntax.Merge):
        clauses = _merge(statement)
    elif isinstance(statement, syntax.Watchlist):
        clauses = ["WATCHLIST FIELDS {", *(f"    {_field(column)}" for column in statement.columns), "}"]
    else:
        raise TypeError(type(statement).__name__)
    blocks = []
    if statement.defines:
        entries = " ".join(f"{print_name(key)} {_quoted(value)};" for key, value in statement.defines)
        blocks.append(f"DEFINE {{ {entries} }}")
    if statement.params:
        blocks.append(f"PARAM {{ {' '.join(_param(param) for param in statement.params)} }}")
    return "\n".join(blocks + clauses)


def print_expression(expression: syntax.Expression, outer: int = 0) -> str:
    """Returns an expression as canonical text. Raises TypeError if the class of the expression is unknown.

    Args:
        outer: the binding power of the operator around the expression; an operator that binds less gets parentheses. 0
            for none.
    """
    if isinstance(expression, syntax.BinaryOp):
        power = POWER[expression.op]
        op = expression.op if expression.op in _UNSPACED else f" {expression.op} "
        right = print_expression(expression.right, power if expression.op in ("AND", "OR") else power + 1)
        text = f"{print_expression(expression.left, power)}{op}{right}"
        return f"({text})" if power < outer else text
    if isinstance(expression, syntax.UnaryOp):
        return _unary(expression, outer)
    if isinstance(expression, syntax.InList | syntax.Between | syntax.Like | syntax.IsNull):
        text = _comparison(expression)
        return f"({text})" if outer > _COMPARISON_POWER else text
    if isinstance(expression, syntax.Literal):
        return _literal(expression)
    if isinstance(expression, syntax.Duration):
        return f"{expression.value!r} {expression.unit}"
    if isinstance(expression, syntax.Name):
        return ".".join(
            [*(print_name(part) for part in expression.qualifier.split(".") if part), print_name(expression.name)]
        )
    if isinstance(expression, syntax.Call):
        return _call(expression)
    if isinstance(expression, syntax.Over):
        return f"{_call(expression.call)} OVER ({_over(expression)})"
    if isinstance(expression, syntax.Case):
        return _case(expression)
    if isinstance(expression, syntax.Parameter | syntax.Defined | syntax.Property):
        return {syntax.Parameter: "$", syntax.Defined: "#", syntax.Property: "@"}[type(expression)] + expression.name
    if isinstance(expression, syntax.Star):
        return f"{print_name(expression.qualifier)}.*" if expression.qualifier else "*"
    raise TypeError(type(expression).__name__)


def print_operand(expression: syntax.Expression) -> str:
    """Returns an expression as canonical text that may stand beside any operator.

    Example:
        >>> print_operand(syntax.BinaryOp("+", syntax.Name("len"), syntax.Literal("int", 1)))
        '(len + 1)'
    """
    return print_expression(expression, _SIGN_POWER)


def _comparison(expression: syntax.InList | syntax.Between | syntax.Like | syntax.IsNull) -> str:
    operand = print_expression(expression.operand, _COMPARISON_POWER)
    no = "NOT " if expression.negated else ""
    if isinstance(expression, syntax.InList):
        return f"{operand} {no}IN [{', '.join(print_expression(value) for value in expression.values)}]"
    if isinstance(expression, syntax.Between):
        low, high = (print_expression(bound, _COMPARISON_POWER + 1) for bound in (expression.low, expression.high))
        return f"{operand} {no}BETWEEN {low} AND {high}"
    if isinstance(expression, syntax.Like):
        return f"{operand} {no}LIKE {print_expression(expression.pattern, _COMPARISON_POWER + 1)}"
    return f"{operand} IS {no}NULL"


def _call(call: syntax.Call) -> str:
    arguments = "*" if call.star else ", ".join(print_expression(argument) for argument in call.arguments)
    if call.brackets:
        return f"{print_name(call.name)}[{arguments}]"
    name = f"{call.name}$" if call.over else print_name(call.name)
    return f"{name}({'DISTINCT ' if call.distinct else ''}{arguments})"


def _over(over: syntax.Over) -> str:
    parts = [f"PARTITION BY {', '.join(map(print_expression, over.partition))}"] if over.partition else []
    parts += [f"ORDER BY {print_expression(over.order)}"] if over.order is not None else []
    return " ".join([*parts, *(["ROWS UNBOUNDED PRECEDING"] if over.rows else [])])


def _case(case: syntax.Case) -> str:
    parts = ["CASE", *([print_expression(case.operand)] if case.operand is not None else [])]
    for condition, value in case.branches:
        parts.append(f"WHEN {print_expression(condition)} THEN {print_expression(value)}")
    if case.otherwise is not None:
        parts.append(f"ELSE {print_expression(case.otherwise)}")
    return " ".join([*parts, "END"])


def _select(select: syntax.Select) -> list[str]:
    distinct = "DISTINCT " if select.distinct else ""
    window = f" {_window(select.window)}" if select.window else ""
    join = select.join
    if select.filter_range:
        column, reach = select.filter_range
        join = f"{join}({print_expression(column)}, {print_expression(reach)})"
    clauses = [f"SELECT {distinct}{_items(select.items)}{window}"]
    if select.between and (select.on or select.using or _asks_rows(select)):
        clauses.append(f"FROM {_between(select)}")
    else:
        clauses.append(f"{join + ' ' if join else ''}FROM {_sources(select.sources)}")
    if select.where is not None:
        clauses.append(f"WHERE {print_expression(select.where)}")
    if select.group_by:
        clauses.append(f"GROUP BY {', '.join(_group(group) for group in select.group_by)}{print_fill(select.fill)}")
    if select.supergroup:
        clauses.append(f"SUPERGROUP {', '.join(print_expression(name) for name in select.supergroup)}")
    for word in ("having", "cleaning_when", "cleaning_by", "closing_when"):
        clause = getattr(select, word)
        if clause is not None:
            clauses.append(f"{word.upper()} {print_expression(clause)}")
    if select.top is not None:
        clauses.append(print_top(select.top))
    return clauses


def print_top(top: syntax.Top) -> str:
    """Returns ORDER BY and LIMIT as canonical text."""
    orders = ", ".join(
        f"{print_expression(order.expression)}{' DESC' * order.descending}{' NULLS FIRST' * order.nulls_first}"
        for order in top.order
    )
    per = f" PER {', '.join(map(print_expression, top.per))}" if top.per else ""
    return f"ORDER BY {orders} LIMIT {top.count}{' WITH TIES' * top.ties}{per}"


_BETWEEN = {
    "INNER_JOIN": "JOIN",
    "LEFT_OUTER_JOIN": "LEFT JOIN",
    "RIGHT_OUTER_JOIN": "RIGHT JOIN",
    "ANTI_JOIN": "ANTI JOIN",
    "SEMI_JOIN": "SEMI JOIN",
    "ASOF_JOIN": "ASOF JOIN",
    "ASOF_LEFT_JOIN": "ASOF LEFT JOIN",
    "ASOF_ONCE_JOIN": "ASOF ONCE JOIN",
    "ASOF_ONCE_LEFT_JOIN": "ASOF ONCE LEFT JOIN",
}


def _asks_rows(select: syntax.Select) -> bool:
    """Whether WHERE of an outer join may be on a side that may be missing, so that SQL's keyword makes a difference."""
    kept = {"LEFT_OUTER_JOIN": select.sources[:1], "RIGHT_OUTER_JOIN": select.sources[1:], "OUTER_JOIN": ()}
    if select.join not in kept:
        return False
    names = {source.alias or source.name for source in kept[select.join]}
    read = map(syntax.qualifiers, syntax.conjuncts(select.where))
    return any(qualifiers and not qualifiers & names for qualifiers in read)


def _between(select: syntax.Select) -> str:
    """Prints the sources with the keyword of SQL between them, and ON or USING."""
    left, right = map(print_source, select.sources)
    text = f"{left} {_BETWEEN.get(select.join, 'FULL JOIN')} {right}"
    if select.using:
        return f"{text} USING ({', '.join(print_name(name.name) for name in select.using)})"
    return f"{text} ON {print_expression(select.on)}" if select.on else text


def print_fill(fill: syntax.Fill | None) -> str:
    """Returns FILL as canonical text behind GROUP BY, with a blank before it."""
    if fill is None:
        return ""
    return f" FILL ({', '.join(map(print_expression, fill.values))})" if fill.values else " FILL"


def _group(group: syntax.SelectItem | syntax.Grouping) -> str:
    if isinstance(group, syntax.SelectItem):
        return _items((group,))
    if group.kind != "GROUPING_SETS":
        return f"{group.kind}({_items(group.items)})"
    # The first mention of a computed variable defines it.
    unprinted = {syntax.item_name(item): item for item in group.items}
    sets = []
    for names in group.sets:
        items = [unprinted.pop(name, syntax.SelectItem(syntax.Name(name))) for name in names]
        sets.append(f"({_items(tuple(items))})")
    return f"GROUPING_SETS({', '.join(sets)})"


def _merge(merge: syntax.Merge) -> list[str]:
    clauses = ["MERGE " + " : ".join(print_expression(column) for column in merge.columns)]
    if merge.slack is not None:
        clauses.append(f"SLACK {print_expression(merge.slack)}")
    clauses.append(f"FROM {_sources(merge.sources)}")
    return clauses


def _items(items: tuple[syntax.SelectItem, ...]) -> str:
    return ", ".join(
        print_expression(item.expression) + (f" AS {print_name(item.alias)}" if item.alias else "") for item in items
    )


def _sources(sources: tuple[syntax.SourceRef, ...]) -> str:
    return ", ".join(print_source(source) for source in sources)


def print_source(source: syntax.SourceRef) -> str:
    """Returns a source of FROM as canonical text."""
    streams = " UNION ".join(_stream(member) for member in (source, *source.union))
    window = f" {_window(source.window)}" if source.window else ""
    return streams + window + (f" {print_name(source.alias)}" if source.alias else "")


def _stream(source: syntax.SourceRef) -> str:
    if source.library:
        return f"{print_name(source.library)}/{print_name(source.name)}"
    links = ", ".join(print_name(link) for link in source.links)
    host = f"{_quoted(source.host)}." if source.host else ""
    before = f"[{links}]." if source.bracketed else f"{links}." if links else ""
    return host + before + print_name(source.name)


def _window(window: syntax.Window) -> str:
    parts = []
    for word, extent in (("RANGE", window.range), ("SLIDE", window.slide)):
        if extent:
            parts.append(f"{word} {extent.value!r}{' ' + print_name(extent.unit) if extent.unit else ''}")
    if window.attribute:
        parts.append(f"WA {print_expression(window.attribute)}")
    if window.partition:
        parts.append(f"PARTITION BY {', '.join(print_expression(name) for name in window.partition)}")
    if window.counted:
        parts.append(f"WHERE {print_expression(window.counted)}")
    return f"[{', '.join(parts)}]"


def _param(param: syntax.ParamDecl) -> str:
    default = f" = {_literal(param.default)}" if param.default else ""
    return f"{print_name(param.name)} {print_name(param.type)}{default};"


def _protocol(protocol: syntax.ProtocolDecl) -> str:
    names = [*map(print_name, protocol.parents), *([f"schema_id {protocol.schema}"] if protocol.schema else [])]
    parents = f" ({', '.join(names)})" if names else ""
    fields = "".join(f"    {_field(column)}\n" for column in protocol.columns)
    return f"PROTOCOL {print_name(protocol.name)}{parents} {{\n{fields}}}"


def _field(column: syntax.FieldDecl) -> str:
    pairs = (f"{print_name(word)} {_quoted(value)}" if value else print_name(word) for word, value in column.attributes)
    attributes = f" ({', '.join(pairs)})" if column.attributes else ""
    names = " ".join(print_name(name) for name in (column.type, column.name, column.access) if name)
    return f"{names}{attributes};"


def print_name(name: str) -> str:
    """Prints a name, between double quotes where it needs them.

    Example:
        >>> print_name("main1"), print_name("main1/eth0"), print_name('pc/a"b')
        ('main1', '"main1/eth0"', '"pc/a""b"')
    """
    if name.isidentifier() and name.isascii() and not words.is_keyword(name):
        return name
    return '"{}"'.format(name.replace('"', '""'))


def _unary(expression: syntax.UnaryOp, outer: int) -> str:
    if expression.op == "NOT":
        text = f"NOT {print_expression(expression.operand, _NOT_POWER)}"
        return f"({text})" if outer > _NOT_POWER else text
    operand = print_expression(expression.operand, _SIGN_POWER)
    # Two minus signs side by side begin a comment.
    return (
        f"{expression.op}({operand})"
        if expression.op == "-" and operand.startswith("-")
        else f"{expression.op}{operand}"
    )


def _literal(literal: syntax.Literal) -> str:
    if literal.kind == "null":
        return "NULL"
    if literal.kind == "bool":
        return "TRUE" if literal.value else "FALSE"
    if literal.kind == "string":
        return _quoted(str(literal.value))
    if literal.kind == "timestamp":
        return f"TIMESTAMP '{format_moment(int(literal.value or 0))}'"
    if literal.kind == "ip":
        return f"IPV6_VAL'{literal.value}'" if ":" in str(literal.value) else f"IP_VAL'{literal.value}'"
    return repr(literal.value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
