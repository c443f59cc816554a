"""Parsing: canonical goldens, the meaning of every construct, places."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.gsql import nodes
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_expression, print_file, print_statement
from tests.gsql import gsql_cases

CANONICAL = gsql_cases.GOLDEN / "gsql" / "canonical"
ERRORS = gsql_cases.GOLDEN / "errors"


_A = "SELECT a FROM R"


def only(text: str) -> nodes.Select:
    (statement,) = parse(text, functions=gsql_cases.FUNCTIONS).statements
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
    printed = print_file(parse(path.read_text(encoding="utf-8"), functions=gsql_cases.FUNCTIONS))
    assert printed == (CANONICAL / path.name).read_text(encoding="utf-8")


def test_every_golden_has_its_case() -> None:
    assert len(gsql_cases.QUERIES) >= 28
    assert {path.name for path in CANONICAL.glob("*.gsql")} == {path.name for path in gsql_cases.QUERIES}
    assert {path.stem for path in ERRORS.glob("gsql_*.txt")} == set(gsql_cases.errors())


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


def test_functions_that_the_parser_is_told_are_keywords_and_others_are_not() -> None:
    assert expression("COUNT(*)") == expression("Count(*)") == nodes.Call("count", star=True)
    assert expression("Or_Aggr(FIN)") == nodes.Call("or_aggr", (nodes.Name("FIN"),))
    assert expression("Or_aggr(FIN)") == nodes.Call("Or_aggr", (nodes.Name("FIN"),))
    assert expression("MIN(FIN)") == nodes.Call("MIN", (nodes.Name("FIN"),))
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
    assert only("SELECT x FROM h.main1.TCP").sources == (source("TCP", ("main1",), host="h"),)
    assert only("SELECT x FROM 'h.org'.main1.TCP").sources == (source("TCP", ("main1",), host="h.org"),)
    assert only("SELECT x FROM lib/q").sources == (source("q", library="lib"),)
    union = (source("B"), source("C", ("l",)))
    assert only("SELECT x FROM A UNION B UNION l.C as M").sources == (source("A", alias="M", union=union),)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INNER_JOIN FROM A, B", "INNER_JOIN"),
        ("FROM A, B", "INNER_JOIN"),
        ("FROM A JOIN B", "INNER_JOIN"),
        ("FROM A JOIN [x].B", "INNER_JOIN"),
        ("FROM A Inner Join B", "INNER_JOIN"),
        ("FROM A LEFT JOIN B", "LEFT_OUTER_JOIN"),
        ("FROM A right outer join B", "RIGHT_OUTER_JOIN"),
        ("FROM A FULL JOIN B", "OUTER_JOIN"),
        ("Watchlist_Join FROM A, B", "WATCHLIST_JOIN"),
        ("FILTER JOIN(t, 5) FROM A, B", "FILTER_JOIN"),
        ("FROM A", ""),
    ],
)
def test_joins(text: str, kind: str) -> None:
    assert only(f"SELECT x {text}").join == kind


def test_windows() -> None:
    window = only("SELECT x FROM A [WA A.ts, PARTITION BY a, b.c, SLIDE 10 rows, RANGE 2.5 min] m").sources[0].window
    names = (nodes.Name("a"), nodes.Name("c", "b"))
    ten = nodes.Extent(10, "rows")
    assert window == nodes.Window(nodes.Extent(2.5, "min"), ten, nodes.Name("ts", "A"), names)
    assert only("SELECT x [RANGE 5] FROM A").window == nodes.Window(nodes.Extent(5))


def test_groupings() -> None:
    groups = only("SELECT x FROM A GROUP BY t, CUBE(a, f(b) AS c), GROUPING_SETS((a, b/2 AS d), (), (d))").group_by
    assert [group.kind for group in groups if isinstance(group, nodes.Grouping)] == ["CUBE", "GROUPING_SETS"]
    sets = groups[2]
    assert isinstance(sets, nodes.Grouping)
    assert sets.sets == (("a", "d"), (), ("d",))
    assert [item.alias for item in sets.items] == ["", "d"]


def test_params_and_protocols() -> None:
    file = parse(
        "PROTOCOL P (B, schema_id 7) [u] { uint a get_a (increasing, snap_len 10) [v]; }\nPARAM { w uint = 5; } " + _A
    )
    column = nodes.FieldDecl("uint", "a", "get_a", (("increasing", ""), ("snap_len", "10")))
    assert file.protocols == (nodes.ProtocolDecl("P", ("B",), (column,), 7),)
    (select,) = file.statements
    assert isinstance(select, nodes.Select)
    assert select.params == (nodes.ParamDecl("w", "uint", nodes.Literal("int", 5)),)


@pytest.mark.parametrize("word", ["left", "range", "wa", "end", "join", "union", "full", "when", "order", "closing"])
def test_words_of_sql_are_names_where_no_keyword_can_stand(word: str) -> None:
    assert expression(word) == nodes.Name(word)
    assert expression(f"f({word}, {word} + 1)") == expression(f'f("{word}", "{word}" + 1)')
    assert only(f"SELECT a AS {word} FROM R AS {word}") == only(f'SELECT a AS "{word}" FROM R "{word}"')


def test_two_words_that_are_one_keyword_may_be_a_name_and_a_keyword() -> None:
    assert expression("CASE closing WHEN 1 THEN 2 END") == expression('CASE "closing" WHEN 1 THEN 2 END')
    assert only("SELECT a FROM R filter JOIN S").sources[0].alias == "filter"
    assert only(f"{_A} GROUP BY a CLOSING WHEN b").closing_when == nodes.Name("b")


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


def test_printer_rejects_foreign_nodes() -> None:
    with pytest.raises(TypeError, match="Statement"):
        print_statement(nodes.Statement())
    with pytest.raises(TypeError, match="Expression"):
        print_expression(nodes.Expression())


def test_printed_parameter() -> None:
    assert print_expression(nodes.Parameter("limit")) == "$limit"
