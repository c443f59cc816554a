"""Parsing: canonical goldens, the meaning of every construct, places."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.gsql import nodes, parser
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_expression, print_file
from tests.gsql import gsql_cases

CANONICAL = gsql_cases.GOLDEN / "canonical"


def only(text: str) -> nodes.Select:
    (statement,) = parse(text, functions=gsql_cases.FUNCTIONS).statements
    assert isinstance(statement, nodes.Select)
    return statement


def expression(text: str) -> nodes.Expression:
    return only(f"SELECT {text} FROM R").items[0].expression


def same(left: str, right: str) -> bool:
    return expression(left) == expression(right)


@pytest.mark.parametrize("path", gsql_cases.QUERIES, ids=lambda path: path.stem)
def test_canonical_text_is_stable_and_parses_to_the_same_tree(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    canonical = print_file(parse(text, functions=gsql_cases.FUNCTIONS))
    assert canonical == (CANONICAL / path.name).read_text(encoding="utf-8")
    tree = parse(text, path.name)
    assert parse(print_file(tree)) == tree


@pytest.mark.parametrize("word", ["SELECT", "Select", "select"])
def test_keyword_case(word: str) -> None:
    assert only(f"{word} a FROM R") == only("SELECT a FROM R")


def test_functions_that_the_parser_is_told_are_keywords_and_others_are_not() -> None:
    assert expression("COUNT(*)") == expression("Count(*)") == nodes.Call("count", star=True)
    assert expression("Or_Aggr(FIN)") == nodes.Call("or_aggr", (nodes.Name("FIN"),))
    assert expression("Or_aggr(FIN)") == nodes.Call("Or_aggr", (nodes.Name("FIN"),))
    assert expression("MIN(FIN)") == nodes.Call("MIN", (nodes.Name("FIN"),))
    assert expression("MyFun(a)") != expression("myfun(a)")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("10", "int", 10), ("010", "int", 10), ("10UL", "int", 10), ("10ULL", "int", 10), ("HEX'ff'", "int", 255),
        ("LHEX'7fffffffffffffff'", "int", 2**63 - 1), ("1.", "float", 1.0), (".5", "float", 0.5),
        ("1e3", "float", 1000.0), ("'it''s'", "string", "it's"), ("TRUE", "bool", True), ("FALSE", "bool", False),
        ("IP_VAL'10.0.0.1'", "ip", "10.0.0.1"), ("IPv6_VAL'::1'", "ip", "::1"),
        ("IPV6_VAL'1:2:3:4:5:6:7:8'", "ip", "1:2:3:4:5:6:7:8"),
    ],
)  # fmt: skip
def test_literals(text: str, kind: str, value: object) -> None:
    literal = expression(text)
    assert isinstance(literal, nodes.Literal)
    assert (literal.kind, literal.value, type(literal.value)) == (kind, value, type(value))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a OR b AND c", "a OR (b AND c)"), ("NOT a AND b", "(NOT a) AND b"), ("NOT a = b", "NOT (a = b)"),
        ("a = b | c", "a = (b | c)"), ("a | b & c", "a | (b & c)"), ("a & b << c", "a & (b << c)"),
        ("a << b + c", "a << (b + c)"), ("a + b * c", "a + (b * c)"), ("-a * b", "(-a) * b"), ("~a.b", "~(a.b)"),
        ("a - b - c", "(a - b) - c"), ("a / b * c % d", "((a / b) * c) % d"), ("a < b = c", "(a < b) = c"),
        ("a << b >> c", "(a << b) >> c"), ("a OR b OR c", "(a OR b) OR c"), ("a != b", "a <> b"),
    ],
)  # fmt: skip
def test_precedence(text: str, meaning: str) -> None:
    assert same(text, meaning)


def test_two_minus_signs_never_print_as_a_comment() -> None:
    assert print_expression(expression("- - a")) == "-(-a)"
    assert same("- - a", "-(-a)")


@pytest.mark.parametrize("word", ["left", "range", "wa", "end", "join", "union", "full", "when", "order", "closing"])
def test_words_of_sql_are_names_where_no_keyword_can_stand(word: str) -> None:
    assert expression(word) == nodes.Name(word)
    assert expression(f"f({word}, {word} + 1)") == expression(f'f("{word}", "{word}" + 1)')
    assert only(f"SELECT a AS {word} FROM R AS {word}") == only(f'SELECT a AS "{word}" FROM R "{word}"')


def test_places() -> None:
    select = only("SELECT a,\n  b + sum( c ) AS d\nFROM  R r\nWHERE NOT x")
    first, second = select.items
    assert select.place == nodes.Place(1, 1)
    assert (first.place, second.place) == (nodes.Place(1, 8), nodes.Place(2, 3))
    total = second.expression
    assert isinstance(total, nodes.BinaryOp) and isinstance(total.right, nodes.Call)
    assert (total.place, total.right.place) == (nodes.Place(2, 3), nodes.Place(2, 7))
    assert total.right.arguments[0] == nodes.Name("c")
    assert select.sources[0].place == nodes.Place(3, 7)
    assert isinstance(select.where, nodes.UnaryOp) and select.where.place == nodes.Place(4, 7)


def test_the_tables_of_the_grammar_stay_small() -> None:
    """Each optional part of a line doubles its rules, and every command loads them."""
    assert len(parser._lark().rules) < 600
