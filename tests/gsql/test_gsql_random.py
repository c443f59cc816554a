"""Random syntax trees print and parse back equal; random texts raise nothing but LowwaterError."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from lowwater.errors import LowwaterError, QueryError, QueryErrors
from lowwater.gsql import nodes
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file
from lowwater.gsql.words import JOINS, SQL, UNITS
from tests.gsql import fuzz_texts

WORDS = ["tb", "time", "srcIP", "A", "B", "main1", "DataProtocol", "_x", "query", "sElect", "closing", "filter", *SQL]
KEYWORDS = ["select", "FROM", "end", "Case", "null", "left", "range", "WA", "union", "between", "cube", "SLACK", "when"]
NAMES = st.sampled_from([*WORDS, *KEYWORDS]) | st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
FUNCTIONS = NAMES | st.sampled_from(["count", "SUM", "Or_Aggr"])
STRINGS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)


def tuples(of: st.SearchStrategy[Any], least: int = 0, most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, min_size=least, max_size=most).map(tuple)


LITERALS = st.one_of(
    st.builds(nodes.Literal, st.just("int"), st.integers(0, 2**63 - 1)),
    st.builds(nodes.Literal, st.just("float"), st.floats(0, allow_infinity=False, allow_nan=False).map(abs)),
    st.builds(nodes.Literal, st.just("string"), STRINGS),
    st.builds(nodes.Literal, st.just("bool"), st.booleans()),
    st.builds(nodes.Literal, st.just("null"), st.none()),
    st.builds(nodes.Literal, st.just("ip"), st.ip_addresses().map(lambda ip: str(ip).partition("%")[0])),
)
QUALIFIERS = st.lists(NAMES, max_size=2).map(".".join)
COLUMNS = st.builds(nodes.Name, NAMES, QUALIFIERS)
VALUES = st.one_of(*(st.builds(kind, NAMES) for kind in (nodes.Parameter, nodes.Defined, nodes.Property)))
BINARY = ["OR", "AND", "=", "<>", "<", "<=", ">", ">=", "|", "&", "<<", ">>", "+", "-", "*", "/", "%"]


DURATIONS = st.builds(
    nodes.Duration,
    st.integers(0, 2**63 - 1) | st.floats(0, allow_infinity=False, allow_nan=False).map(abs),
    st.sampled_from(sorted([*UNITS, "MIN", "Ms"])),
)


def _grow(inner: st.SearchStrategy[nodes.Expression]) -> st.SearchStrategy[nodes.Expression]:
    return st.one_of(
        st.builds(nodes.BinaryOp, st.sampled_from(BINARY), inner, inner),
        st.builds(nodes.UnaryOp, st.sampled_from(["-", "~", "!", "NOT"]), inner),
        st.builds(nodes.Call, FUNCTIONS, tuples(inner), over=st.booleans()),
        st.builds(nodes.Call, FUNCTIONS, star=st.just(True), over=st.booleans()),
        st.builds(nodes.Call, FUNCTIONS, tuples(inner, 1, 1), distinct=st.just(True)),
        st.builds(nodes.Call, NAMES, tuples(inner), brackets=st.just(True)),
        st.builds(nodes.InList, inner, tuples(inner, 1), st.booleans()),
        st.builds(nodes.Between, inner, inner, inner, st.booleans()),
        st.builds(nodes.Like, inner, inner, st.booleans()),
        st.builds(nodes.IsNull, inner, st.booleans()),
        st.builds(
            nodes.Over, st.builds(nodes.Call, NAMES, tuples(inner)), tuples(inner), st.none() | inner, st.booleans()
        ),
        st.builds(nodes.Case, tuples(st.tuples(inner, inner), 1), st.none() | inner, st.none() | inner),
    )


EXPRESSIONS = st.recursive(LITERALS | DURATIONS | COLUMNS | VALUES, _grow, max_leaves=12)
STARS = st.builds(nodes.SelectItem, st.builds(nodes.Star, NAMES | st.just("")))
ITEMS = st.builds(nodes.SelectItem, EXPRESSIONS, NAMES | st.just("")) | STARS
VARIABLES = st.builds(nodes.SelectItem, EXPRESSIONS, NAMES) | st.builds(nodes.SelectItem, COLUMNS)


@st.composite
def grouping_sets(draw: st.DrawFn) -> nodes.Grouping:
    """The variables in the order in which the sets name them first, each name with one meaning."""
    meaning = {item.alias or item.expression.name: item for item in draw(tuples(VARIABLES, 1))}  # type: ignore[attr-defined]
    sets = draw(tuples(tuples(st.sampled_from(sorted(meaning))), 1))
    first = dict.fromkeys(name for names in sets for name in names)
    return nodes.Grouping("GROUPING_SETS", tuple(meaning[name] for name in first), sets)


GROUPS = (
    VARIABLES | st.builds(nodes.Grouping, st.sampled_from(["CUBE", "ROLLUP"]), tuples(VARIABLES, 1)) | grouping_sets()
)
NUMBERS = st.integers(0, 2**63 - 1) | st.floats(0, allow_infinity=False, allow_nan=False).map(abs)
EXTENTS = st.builds(nodes.Extent, NUMBERS, NAMES | st.just(""))
WINDOWS = st.builds(nodes.Window, EXTENTS, st.none() | EXTENTS, st.none() | COLUMNS, tuples(COLUMNS))
STREAMS = st.one_of(
    st.builds(nodes.SourceRef, NAMES),
    st.builds(nodes.SourceRef, NAMES, st.tuples(NAMES), host=NAMES | STRINGS | st.just("")),
    st.builds(nodes.SourceRef, NAMES, tuples(NAMES, 1), st.just(True)),
    st.builds(nodes.SourceRef, NAMES, library=NAMES),
)
SOURCES = st.builds(
    dataclasses.replace, STREAMS, alias=NAMES | st.just(""), window=st.none() | WINDOWS, union=tuples(STREAMS, most=2)
)
DEFINES = st.dictionaries(NAMES, STRINGS, max_size=3).map(lambda entries: tuple(entries.items()))
PARAMS = st.lists(
    st.builds(nodes.ParamDecl, NAMES, NAMES, st.none() | LITERALS), max_size=2, unique_by=lambda param: param.name
).map(tuple)
FIELDS = st.builds(nodes.FieldDecl, NAMES, NAMES, NAMES, tuples(st.tuples(NAMES, STRINGS), most=2))
WATCHED = st.builds(nodes.FieldDecl, NAMES, NAMES, NAMES | st.just(""), tuples(st.tuples(NAMES, STRINGS), most=2))
PROTOCOLS = st.builds(nodes.ProtocolDecl, NAMES, tuples(NAMES, most=2), tuples(FIELDS))
WATCHLISTS = st.builds(nodes.Watchlist, tuples(WATCHED), DEFINES, PARAMS)
MAYBE = st.none() | EXPRESSIONS
FILLS = st.builds(nodes.Fill, tuples(EXPRESSIONS))
ORDERS = st.builds(nodes.Order, EXPRESSIONS, st.booleans(), st.booleans())
TOPS = st.builds(nodes.Top, tuples(ORDERS, 1), st.integers(1, 100_000), st.booleans(), tuples(EXPRESSIONS))


@st.composite
def selects(draw: st.DrawFn) -> nodes.Select:
    join = draw(st.sampled_from(["", "FILTER_JOIN", *JOINS]))
    count = 2 if join else 1
    # Behind SQL's keyword stands ON, USING, or neither.
    between = join in ("INNER_JOIN", "OUTER_JOIN", "LEFT_OUTER_JOIN", "RIGHT_OUTER_JOIN") and draw(st.booleans())
    using = draw(tuples(st.builds(nodes.Name, NAMES), most=2)) if between else ()
    groups = draw(tuples(GROUPS))
    return nodes.Select(
        items=draw(tuples(ITEMS, 1)), sources=draw(tuples(SOURCES, count, count)), join=join, where=draw(MAYBE),
        on=draw(MAYBE) if between and not using else None, using=using, between=between,
        group_by=groups, fill=draw(st.none() | FILLS) if groups else None,
        having=draw(MAYBE), distinct=draw(st.booleans()),
        window=draw(st.none() | WINDOWS),
        filter_range=draw(st.tuples(COLUMNS, EXPRESSIONS)) if join == "FILTER_JOIN" else None,
        supergroup=draw(tuples(COLUMNS)), cleaning_when=draw(MAYBE), cleaning_by=draw(MAYBE), closing_when=draw(MAYBE),
        top=draw(st.none() | TOPS),
        defines=draw(DEFINES), params=draw(PARAMS),
    )  # fmt: skip


@st.composite
def merges(draw: st.DrawFn) -> nodes.Merge:
    count = draw(st.integers(2, 4))
    columns = st.builds(nodes.Name, NAMES, QUALIFIERS.filter(bool))
    return nodes.Merge(
        draw(tuples(columns, count, count)),
        draw(tuples(SOURCES, count, count)),
        draw(MAYBE),
        draw(DEFINES),
        draw(PARAMS),
    )


FILES = st.builds(nodes.QueryFile, tuples(selects() | merges() | WATCHLISTS), tuples(PROTOCOLS, most=2)).filter(
    lambda file: bool(file.statements or file.protocols)
)


@pytest.mark.slow
@given(FILES)
def test_random_trees_print_and_parse_back(tree: nodes.QueryFile) -> None:
    printed = print_file(tree)
    assert parse(printed) == tree
    assert print_file(parse(printed)) == printed


def _below(value: object) -> Iterator[type]:
    if isinstance(value, tuple):
        for part in value:
            yield from _below(part)
    elif dataclasses.is_dataclass(value):
        yield type(value)
        for each in dataclasses.fields(value):
            yield from _below(getattr(value, each.name))


CLASSES = [kind for _, kind in inspect.getmembers(nodes, dataclasses.is_dataclass)]


@pytest.mark.slow
@pytest.mark.hypothesis
def test_the_random_trees_hold_every_class_of_node() -> None:
    seen: set[type] = set()

    @settings(max_examples=100, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(FILES)
    def look(tree: nodes.QueryFile) -> None:
        seen.update(_below(tree))

    look()
    assert set(CLASSES) - seen == {nodes.Expression, nodes.Statement, nodes.Exists}


def check(text: str) -> str:
    """Parses a text; says `parsed`, or the class of our error.

    Raises:
        AssertionError: the parser broke a promise.
    """
    try:
        tree = parse(text, "f.gsql")
    except LowwaterError as error:
        for single in error.errors if isinstance(error, QueryErrors) else (error,):
            assert isinstance(single, QueryError), "not an error of a query"
            assert single.message and single.hint, f"no message or no hint: {single}"
            assert single.file == "f.gsql", "no file"
            assert single.line >= 1 and single.column >= 1, f"no place: {single}"
            assert not single.message.endswith("expected "), f"nothing expected: {single}"
        assert str(error), "no text"
        return type(error).__name__
    printed = print_file(tree)
    again = parse(printed)
    assert again == tree, f"printed as {printed!r}, which parses to another tree"
    assert print_file(again) == printed, f"printed as {printed!r}, which prints otherwise"
    return "parsed"


@given(st.integers(0, 2**64))
def test_random_text_raises_only_our_errors(seed: int) -> None:
    check(fuzz_texts.text(Random(seed)))


TOKENS = st.lists(st.sampled_from(fuzz_texts.PIECES), max_size=25)


@given(st.text(max_size=80) | TOKENS.map(" ".join) | TOKENS.map("".join))
def test_random_words_raise_only_our_errors(text: str) -> None:
    check(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "char", ["(", "[", "-", "NOT ", "f(", "a,", "a.", "'", "{", ";", "a ", "SELECT ", "CASE ", "^"]
)
def test_long_repetition_raises_only_our_errors(char: str) -> None:
    with pytest.raises(QueryError):
        parse("SELECT " + char * 20_000)
