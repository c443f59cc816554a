"""Prints syntax trees as canonical GSQL: one clause a line, upper-case keywords, as few parentheses as possible.

Beside `parser` at the top of the pipeline: `parse(print_file(tree))` is the tree again, and the text is what the digest
of a run's inputs (SEMANTICS S1) takes, so it must stay stable.
"""

from __future__ import annotations

from lowwater.gsql.nodes import (
    BinaryOp,
    Call,
    Expression,
    Literal,
    Merge,
    Name,
    Parameter,
    QueryFile,
    Select,
    SelectItem,
    SourceRef,
    Statement,
    UnaryOp,
)

_POWER = {"OR": 1, "AND": 2, "=": 4, "<>": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "&": 6}
_POWER |= {"<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9, "%": 9}
_NOT = 3
_SIGN = 10
_TIGHT = ("*", "/", "%")


def print_file(file: QueryFile) -> str:
    """The file as canonical text, statements apart by `;` and an empty line, a newline at the end.

    Example:
        >>> from lowwater.gsql.parser import parse
        >>> print(print_file(parse("select tb, count( * ) from TCP group by time / 60 as tb")), end="")
        SELECT tb, count(*)
        FROM TCP
        GROUP BY time/60 AS tb
    """
    return ";\n\n".join(print_statement(statement) for statement in file.statements) + "\n"


def print_statement(statement: Statement) -> str:
    """One statement as canonical text, without `;` and without a newline at the end.

    Raises:
        TypeError: the statement is of a class that the grammar does not make.
    """
    if isinstance(statement, Select):
        clauses = _select(statement)
        defines = statement.defines
    elif isinstance(statement, Merge):
        clauses = _merge(statement)
        defines = statement.defines
    else:
        raise TypeError(type(statement).__name__)
    if defines:
        entries = " ".join(f"{key} {_quoted(value)};" for key, value in defines)
        clauses.insert(0, f"DEFINE {{ {entries} }}")
    return "\n".join(clauses)


def print_expression(expression: Expression, outer: int = 0) -> str:
    """An expression as canonical text.

    Args:
        expression: the expression.
        outer: parentheses are put around an operator that binds less than this; 0 for none.

    Raises:
        TypeError: the expression is of a class that the grammar does not make.
    """
    if isinstance(expression, BinaryOp):
        power = _POWER[expression.op]
        op = expression.op if expression.op in _TIGHT else f" {expression.op} "
        text = f"{print_expression(expression.left, power)}{op}{print_expression(expression.right, power + 1)}"
        return f"({text})" if power < outer else text
    if isinstance(expression, UnaryOp):
        return _unary(expression, outer)
    if isinstance(expression, Literal):
        return _literal(expression)
    if isinstance(expression, Name):
        return f"{expression.qualifier}.{expression.name}" if expression.qualifier else expression.name
    if isinstance(expression, Call):
        arguments = "*" if expression.star else ", ".join(print_expression(each) for each in expression.arguments)
        return f"{expression.name}({arguments})"
    if isinstance(expression, Parameter):
        return f"${expression.name}"
    raise TypeError(type(expression).__name__)


def _select(select: Select) -> list[str]:
    join = f"{select.join} " if select.join else ""
    clauses = [f"SELECT {_items(select.items)}", f"{join}FROM {_sources(select.sources)}"]
    if select.where is not None:
        clauses.append(f"WHERE {print_expression(select.where)}")
    if select.group_by:
        clauses.append(f"GROUP BY {_items(select.group_by)}")
    if select.having is not None:
        clauses.append(f"HAVING {print_expression(select.having)}")
    return clauses


def _merge(merge: Merge) -> list[str]:
    clauses = ["MERGE " + " : ".join(print_expression(column) for column in merge.columns)]
    if merge.slack is not None:
        clauses.append(f"SLACK {print_expression(merge.slack)}")
    clauses.append(f"FROM {_sources(merge.sources)}")
    return clauses


def _items(items: tuple[SelectItem, ...]) -> str:
    return ", ".join(print_expression(item.expression) + (f" AS {item.alias}" if item.alias else "") for item in items)


def _sources(sources: tuple[SourceRef, ...]) -> str:
    return ", ".join(_source(source) for source in sources)


def _source(source: SourceRef) -> str:
    links = ", ".join(source.links)
    before = f"[{links}]." if source.bracketed else f"{links}." if links else ""
    after = f" {source.alias}" if source.alias else ""
    return before + source.name + after


def _unary(expression: UnaryOp, outer: int) -> str:
    if expression.op == "NOT":
        text = f"NOT {print_expression(expression.operand, _NOT)}"
        return f"({text})" if outer > _NOT else text
    operand = print_expression(expression.operand, _SIGN)
    # Two minus signs side by side begin a comment.
    return (
        f"{expression.op}({operand})"
        if expression.op == "-" and operand.startswith("-")
        else f"{expression.op}{operand}"
    )


def _literal(literal: Literal) -> str:
    if literal.kind == "bool":
        return "TRUE" if literal.value else "FALSE"
    if literal.kind == "string":
        return _quoted(str(literal.value))
    if literal.kind == "ip":
        return f"IPV6_VAL'{literal.value}'" if ":" in str(literal.value) else f"IP_VAL'{literal.value}'"
    return repr(literal.value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
