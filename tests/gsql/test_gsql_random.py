"""Random syntax trees print and parse back equal; random texts raise nothing but LowwaterError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.errors import LowwaterError, QueryError
from lowwater.gsql import nodes
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file
from lowwater.gsql.words import AGGREGATES, JOINS, SQL, function_name, is_keyword
from tests.gsql.gsql_cases import QUERIES, REFUSED, SYNTAX

NAMES = st.one_of(
    st.sampled_from(["tb", "time", "srcIP", "A", "B", "main1", "DataProtocol", "_x", "query", "sElect", *SQL]),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
).filter(lambda name: not is_keyword(name))
FUNCTIONS = (NAMES | st.sampled_from(AGGREGATES)).map(function_name).filter(lambda name: name.upper() != "DISTINCT")
STRINGS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)

LITERALS = st.one_of(
    st.builds(nodes.Literal, st.just("int"), st.integers(0, 2**63 - 1)),
    st.builds(nodes.Literal, st.just("float"), st.floats(0, allow_infinity=False, allow_nan=False).map(abs)),
    st.builds(nodes.Literal, st.just("string"), STRINGS),
    st.builds(nodes.Literal, st.just("bool"), st.booleans()),
    st.builds(nodes.Literal, st.just("ip"), st.ip_addresses().map(lambda ip: str(ip).partition("%")[0])),
)
QUALIFIERS = st.lists(NAMES, max_size=2).map(".".join)
COLUMNS = st.builds(nodes.Name, NAMES, QUALIFIERS)
BINARY = ["OR", "AND", "=", "<>", "<", "<=", ">", ">=", "|", "&", "<<", ">>", "+", "-", "*", "/", "%"]


def _grow(inner: st.SearchStrategy[nodes.Expression]) -> st.SearchStrategy[nodes.Expression]:
    return st.one_of(
        st.builds(nodes.BinaryOp, st.sampled_from(BINARY), inner, inner),
        st.builds(nodes.UnaryOp, st.sampled_from(["-", "~", "!", "NOT"]), inner),
        st.builds(nodes.Call, FUNCTIONS, st.lists(inner, max_size=3).map(tuple)),
        st.builds(nodes.Call, FUNCTIONS, star=st.just(True)),
    )


EXPRESSIONS = st.recursive(LITERALS | COLUMNS, _grow, max_leaves=12)
ITEMS = st.builds(nodes.SelectItem, EXPRESSIONS, NAMES | st.just(""))
GROUPS = st.builds(nodes.SelectItem, EXPRESSIONS, NAMES) | st.builds(nodes.SelectItem, COLUMNS)
ALIASES = NAMES | st.just("")
SOURCES = st.one_of(
    st.builds(nodes.SourceRef, NAMES, alias=ALIASES),
    st.builds(nodes.SourceRef, NAMES, st.tuples(NAMES), alias=ALIASES),
    st.builds(nodes.SourceRef, NAMES, st.lists(NAMES, min_size=1, max_size=3).map(tuple), st.just(True), ALIASES),
)
DEFINES = st.dictionaries(NAMES, STRINGS, max_size=3).map(lambda entries: tuple(entries.items()))


def _tuples(of: st.SearchStrategy[nodes.SelectItem], least: int) -> st.SearchStrategy[tuple[nodes.SelectItem, ...]]:
    return st.lists(of, min_size=least, max_size=3).map(tuple)


@st.composite
def selects(draw: st.DrawFn) -> nodes.Select:
    join = draw(st.sampled_from(["", *JOINS]))
    count = 2 if join else 1
    return nodes.Select(
        draw(_tuples(ITEMS, 1)),
        tuple(draw(st.lists(SOURCES, min_size=count, max_size=count))),
        join,
        draw(st.none() | EXPRESSIONS),
        draw(_tuples(GROUPS, 0)),
        draw(st.none() | EXPRESSIONS),
        draw(DEFINES),
    )


@st.composite
def merges(draw: st.DrawFn) -> nodes.Merge:
    count = draw(st.integers(2, 4))
    columns = st.builds(nodes.Name, NAMES, QUALIFIERS.filter(bool))
    return nodes.Merge(
        tuple(draw(st.lists(columns, min_size=count, max_size=count))),
        tuple(draw(st.lists(SOURCES, min_size=count, max_size=count))),
        draw(st.none() | EXPRESSIONS),
        draw(DEFINES),
    )


FILES = st.builds(nodes.QueryFile, st.lists(selects() | merges(), min_size=1, max_size=3).map(tuple))


@given(FILES)
def test_random_trees_print_and_parse_back(tree: nodes.QueryFile) -> None:
    printed = print_file(tree)
    assert parse(printed) == tree
    assert print_file(parse(printed)) == printed


WORDS = """
SELECT FROM WHERE GROUP BY HAVING AS MERGE SLACK DEFINE INNER_JOIN AND OR NOT TRUE IN CUBE CLOSING_WHEN PARAM PROTOCOL
Query query_name UNION JOIN DISTINCT CASE BETWEEN FFROM SELET GROPU a b R time count sum RANGE
( ) [ ] { } , ; : . * / + - ~ ! = <> == < << | & % $ $p @p #p sum$ 1 10ULL 1.5 'x' ' " -- //
IP_VAL'1.2.3.4' HEX'f' TIMEVAL'1' ^ ` é 9999999999999999999 1e999
"""
PIECES = [*WORDS.split(), "\n", "\t"]
TOKEN_SOUP = st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join) | st.lists(
    st.sampled_from(PIECES), max_size=25
).map("".join)
SEEDS = [path.read_text(encoding="utf-8") for path in QUERIES] + [text for text, _ in REFUSED.values()]
SEEDS += list(SYNTAX.values())


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A query with a span cut out, doubled or replaced."""
    text = draw(st.sampled_from(SEEDS))
    start = draw(st.integers(0, len(text)))
    end = min(len(text), start + draw(st.integers(0, 12)))
    return text[:start] + draw(st.sampled_from(PIECES) | st.just("") | st.text(max_size=3)) + text[end:]


@given(st.text(max_size=80) | TOKEN_SOUP | mutants())
def test_random_text_raises_only_our_errors(text: str) -> None:
    try:
        tree = parse(text, "f.gsql")
    except LowwaterError as error:
        assert isinstance(error, QueryError)
        assert error.file == "f.gsql"
        assert error.message and str(error)
        assert error.line >= 1 and error.column >= 1
    else:
        assert parse(print_file(tree)) == tree


@pytest.mark.parametrize("char", ["(", "[", "-", "NOT ", "f(", "a,", "a.", "'", "{", ";", "a ", "SELECT "])
def test_long_repetition_raises_only_our_errors(char: str) -> None:
    with pytest.raises(QueryError):
        parse("SELECT " + char * 20_000)
