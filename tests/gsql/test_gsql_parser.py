"""Parsing and refusing: places, canonical goldens, error goldens, limits."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lowwater.errors import QueryError, UnsupportedError
from lowwater.gsql import nodes
from lowwater.gsql.parser import MAX_BYTES, MAX_DEPTH, parse
from lowwater.gsql.printer import print_expression, print_file, print_statement
from tests.gsql import gsql_cases

CANONICAL = gsql_cases.GOLDEN / "gsql" / "canonical"
ERRORS = gsql_cases.GOLDEN / "errors"


def only(text: str) -> nodes.Select:
    (statement,) = parse(text).statements
    assert isinstance(statement, nodes.Select)
    return statement


def expression(text: str) -> nodes.Expression:
    return only(f"SELECT {text} FROM R").items[0].expression


def same(left: str, right: str) -> bool:
    return expression(left) == expression(right)


@pytest.mark.parametrize("path", gsql_cases.QUERIES, ids=lambda path: path.stem)
def test_parse_print_parse_is_identity(path: Path) -> None:
    tree = parse(path.read_text(encoding="utf-8"), path.name)
    printed = print_file(tree)
    assert parse(printed) == tree
    assert print_file(parse(printed)) == printed


@pytest.mark.parametrize("path", gsql_cases.QUERIES, ids=lambda path: path.stem)
def test_canonical_text_is_stable(path: Path) -> None:
    printed = print_file(parse(path.read_text(encoding="utf-8")))
    assert printed == (CANONICAL / path.name).read_text(encoding="utf-8")


def test_every_golden_has_its_case() -> None:
    assert len(gsql_cases.QUERIES) >= 12
    assert {path.name for path in CANONICAL.glob("*.gsql")} == {path.name for path in gsql_cases.QUERIES}
    assert {path.stem for path in ERRORS.glob("gsql_*.txt")} == set(gsql_cases.errors())


@pytest.mark.parametrize(("name", "text"), gsql_cases.errors().items(), ids=lambda value: str(value)[:40])
def test_error_text_is_the_golden(name: str, text: str) -> None:
    assert text == (ERRORS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", gsql_cases.REFUSED)
def test_known_constructs_are_refused_by_name(name: str) -> None:
    text, words = gsql_cases.REFUSED[name]
    error = gsql_cases.failure(text)
    assert isinstance(error, UnsupportedError)
    assert words in error.message
    assert error.hint
    assert error.file == "queries/q.gsql"
    assert error.source == text
    assert 0 < error.line <= len(text.splitlines())
    assert error.column > 0


def test_papers_header_is_define_query_name() -> None:
    body = "SELECT a FROM R"
    assert parse(f"Query flow1:\n{body}") == parse(f"DEFINE {{query_name 'flow1';}} {body}")
    assert only(f"DEFINE {{ slots 20 }} Query q: {body}").defines == (("slots", "20"), ("query_name", "q"))


def test_define_values() -> None:
    defines = only("DEFINE { a 'it''s'; b bare; c 2000; d 1.5; } SELECT a FROM R").defines
    assert defines == (("a", "it's"), ("b", "bare"), ("c", "2000"), ("d", "1.5"))
    assert only("DEFINE {} SELECT a FROM R").defines == ()


@pytest.mark.parametrize("word", ["SELECT", "Select", "select"])
def test_keyword_case(word: str) -> None:
    assert only(f"{word} a FROM R") == only("SELECT a FROM R")


@pytest.mark.parametrize("name", ["sElect", "FRom", "Inner_join", "gROUP", "slack", "True", "define", "In_"])
def test_other_case_is_a_name(name: str) -> None:
    assert expression(name) == nodes.Name(name)


def test_built_in_aggregates_are_keywords_and_others_are_not() -> None:
    assert expression("COUNT(*)") == expression("Count(*)") == nodes.Call("count", star=True)
    assert expression("Or_Aggr(FIN)") == nodes.Call("or_aggr", (nodes.Name("FIN"),))
    assert expression("Or_aggr(FIN)") == nodes.Call("Or_aggr", (nodes.Name("FIN"),))
    assert expression("MyFun(a)") != expression("myfun(a)")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("10", "int", 10),
        ("010", "int", 10),
        ("10UL", "int", 10),
        ("10ULL", "int", 10),
        ("HEX'ff'", "int", 255),
        ("LHEX'7fffffffffffffff'", "int", 2**63 - 1),
        ("1.", "float", 1.0),
        (".5", "float", 0.5),
        ("1e3", "float", 1000.0),
        ("'it''s'", "string", "it's"),
        ("TRUE", "bool", True),
        ("FALSE", "bool", False),
        ("IP_VAL'10.0.0.1'", "ip", "10.0.0.1"),
        ("IPv6_VAL'::1'", "ip", "::1"),
        ("IPV6_VAL'1:2:3:4:5:6:7:8'", "ip", "1:2:3:4:5:6:7:8"),
    ],
)
def test_literals(text: str, kind: str, value: object) -> None:
    literal = expression(text)
    assert isinstance(literal, nodes.Literal)
    assert (literal.kind, literal.value, type(literal.value)) == (kind, value, type(value))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a OR b AND c", "a OR (b AND c)"),
        ("NOT a AND b", "(NOT a) AND b"),
        ("NOT a = b", "NOT (a = b)"),
        ("a = b | c", "a = (b | c)"),
        ("a | b & c", "a | (b & c)"),
        ("a & b << c", "a & (b << c)"),
        ("a << b + c", "a << (b + c)"),
        ("a + b * c", "a + (b * c)"),
        ("-a * b", "(-a) * b"),
        ("~a.b", "~(a.b)"),
        ("a - b - c", "(a - b) - c"),
        ("a / b * c % d", "((a / b) * c) % d"),
        ("a < b = c", "(a < b) = c"),
        ("a << b >> c", "(a << b) >> c"),
        ("a OR b OR c", "(a OR b) OR c"),
        ("a != b", "a <> b"),
    ],
)
def test_precedence(text: str, meaning: str) -> None:
    assert same(text, meaning)


def test_two_minus_signs_never_print_as_a_comment() -> None:
    assert print_expression(expression("- - a")) == "-(-a)"
    assert same("- - a", "-(-a)")


def test_sources() -> None:
    source = nodes.SourceRef
    text = "SELECT x INNER_JOIN FROM [main1, control].DataProtocol AS a, main1.TCP"
    assert only(text).sources == (
        source("DataProtocol", ("main1", "control"), True, "a"),
        source("TCP", ("main1",)),
    )
    assert only("SELECT x FROM [backbone].TCP b").sources == (source("TCP", ("backbone",), True, "b"),)
    assert only("SELECT x FROM flow1").sources == (source("flow1"),)


def test_merge() -> None:
    (merge,) = parse("MERGE a.t : b.t SLACK n FROM main1.TCP a, q b").statements
    assert merge == nodes.Merge(
        (nodes.Name("t", "a"), nodes.Name("t", "b")),
        (nodes.SourceRef("TCP", ("main1",), alias="a"), nodes.SourceRef("q", alias="b")),
        nodes.Name("n"),
    )


def test_qualifiers_may_hold_dots() -> None:
    assert expression("main1.DataProtocol.time") == nodes.Name("time", "main1.DataProtocol")


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


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_and_byte_order_mark(newline: str) -> None:
    text = newline.join(["\ufeffSELECT a", "FROM R", "WHERE 'open"])
    with pytest.raises(QueryError) as caught:
        parse(text, "q.gsql")
    assert (caught.value.line, caught.value.column) == (3, 7)
    assert "\n  WHERE 'open\n        ^\n" in str(caught.value)


def test_first_mistake_comes_first() -> None:
    assert "FFROM" in gsql_cases.failure('SELECT a FFROM R WHERE b = "x"').message
    assert "RR" in gsql_cases.failure("SELECT a FROM R r RR CUBE(a)").message


def test_errors_pickle() -> None:
    for text in ("SELET a", "SELECT * FROM R"):
        error = gsql_cases.failure(text)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error)


def test_size_is_bounded() -> None:
    padding = "-" * (MAX_BYTES - len("SELECT a FROM R\n"))
    assert parse(f"SELECT a FROM R\n{padding}").statements
    with pytest.raises(QueryError, match=r"250,001 bytes.*more than 250,000"):
        parse(f"SELECT a FROM R\n{padding}-")


NESTERS: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "(" * n + "a" + ")" * n,
    "calls": lambda n: "f(" * n + "a" + ")" * n,
    "signs": lambda n: "~" * n + "a",
    "NOT": lambda n: "NOT " * n + "a",
    "left chain": lambda n: "a" + " + a" * n,
    "right chain": lambda n: "a + (" * n + "a" + ")" * n,
}


@pytest.mark.parametrize("nester", NESTERS)
def test_depth_is_bounded(nester: str) -> None:
    nest = NESTERS[nester]
    tree = parse(f"SELECT {nest(MAX_DEPTH - 1)} FROM R")
    assert parse(print_file(tree)) == tree
    assert repr(tree)
    for depth in (MAX_DEPTH + 1, 20_000):
        for clause in ("SELECT {} FROM R", "SELECT a FROM R WHERE {} HAVING b", "MERGE a.t : b.t SLACK {} FROM a, b"):
            with pytest.raises(QueryError, match=f"more than {MAX_DEPTH} levels deep"):
                parse(clause.format(nest(depth)))


def test_thousands_of_digits_are_refused() -> None:
    with pytest.raises(QueryError, match="does not fit a 64-bit integer"):
        parse("SELECT " + "9" * 5000 + " FROM R")
    assert expression("0" * 5000 + "7") == nodes.Literal("int", 7)


def test_many_statements_parse_fast() -> None:
    statement = (
        "DEFINE{{query_name q{0};}} SELECT tb, srcIP, destIP, count(*) AS cnt, sum(len) FROM main1.DataProtocol\n"
        "WHERE protocol = 6 AND len > 100 GROUP BY time/10 AS tb, srcIP, destIP HAVING count(*) > 1"
    )
    text = ";\n".join(statement.format(number) for number in range(150))
    parse("SELECT a FROM R")
    begun = time.process_time()
    assert len(parse(text).statements) == 150
    assert time.process_time() - begun < 1


def test_printer_rejects_foreign_nodes() -> None:
    with pytest.raises(TypeError, match="Statement"):
        print_statement(nodes.Statement())
    with pytest.raises(TypeError, match="Expression"):
        print_expression(nodes.Expression())


def test_printed_parameter() -> None:
    assert print_expression(nodes.Parameter("limit")) == "$limit"
