"""Errors and limits of the parser: goldens, refusals by name, places, several at once, size, depth and time."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable

import pytest

from lowwater.errors import QueryError, QueryErrors, UnsupportedError
from lowwater.gsql.mistakes import CLAUSES, EXPRESSION, OPERATORS, TERMINAL_NAMES
from lowwater.gsql.parser import MAX_ERRORS, _lark, parse
from lowwater.gsql.printer import print_file
from lowwater.limits import EXPRESSION_DEPTH, QUERY_BYTES
from tests.gsql import gsql_cases

ERRORS = gsql_cases.GOLDEN / "errors"


@pytest.mark.parametrize(("name", "text"), gsql_cases.errors().items(), ids=lambda value: str(value)[:40])
def test_error_text_is_the_golden(name: str, text: str) -> None:
    assert text == (ERRORS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("text", [*(text for text, _ in gsql_cases.REFUSED.values()), *gsql_cases.SYNTAX.values()])
def test_every_error_says_where_what_and_how(text: str) -> None:
    error = gsql_cases.failure(text)
    for single in error.errors if isinstance(error, QueryErrors) else (error,):
        assert single.file == "queries/q.gsql"
        assert 0 < single.line <= max(len(text.splitlines()), 1)
        assert single.column > 0
        assert single.hint
        assert "expected " not in single.message or single.message.partition("expected ")[2]


def test_every_terminal_has_words_for_it() -> None:
    used = {part.name for rule in _lark().rules for part in rule.expansion if part.is_term}
    assert used - {"$END"} <= {*TERMINAL_NAMES, *CLAUSES, *EXPRESSION, *OPERATORS}


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


@pytest.mark.slow
def test_many_sources_are_read_in_linear_time() -> None:
    begun = time.process_time()
    with pytest.raises(QueryError, match="takes exactly two sources, not 20001"):
        parse("SELECT a FROM a" + ",a" * 20_000)
    assert time.process_time() - begun < 30


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_and_byte_order_mark(newline: str) -> None:
    text = newline.join(["\ufeffSELECT a", "FROM R", "WHERE 'open"])
    with pytest.raises(QueryError) as caught:
        parse(text, "q.gsql")
    assert (caught.value.line, caught.value.column) == (3, 7)
    assert "\n  WHERE 'open\n        ^\n" in str(caught.value)


def test_errors_of_one_file_are_told_together() -> None:
    error = gsql_cases.failure(gsql_cases.SYNTAX["several"])
    assert isinstance(error, QueryErrors)
    assert [single.line for single in error.errors] == [2, 3, 4, 5]
    assert isinstance(error.errors[2], UnsupportedError)
    many = gsql_cases.failure(gsql_cases.SYNTAX["too_many"])
    assert isinstance(many, QueryErrors) and len(many.errors) == MAX_ERRORS


def test_a_strange_character_after_a_query_is_no_end() -> None:
    assert gsql_cases.failure("SELECT a FROM R; ^").column == 18


def test_first_mistake_comes_first() -> None:
    assert "FFROM" in gsql_cases.failure('SELECT a FFROM R WHERE b = "x"').message
    assert "RR" in gsql_cases.failure("SELECT a FROM R r RR CUBE(a)").message


def test_errors_pickle() -> None:
    for text in ("SELET a", "SELECT a FROM R LIMIT 5", "SELET a; SELET b"):
        error = gsql_cases.failure(text)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error)


def test_size_is_bounded() -> None:
    padding = "-" * (QUERY_BYTES - len("SELECT a FROM R\n"))
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
    "CASE": lambda n: "CASE WHEN a THEN " * n + "a" + " END" * n,
    "IN": lambda n: "a IN [" * n + "a" + "]" * n,
    "predicates": lambda n: "p[" * n + "a" + "]" * n,
    "IS NULL": lambda n: "a" + " IS NULL" * n,
    "BETWEEN": lambda n: "a" + " BETWEEN 1 AND 2" * n,
}


@pytest.mark.slow
@pytest.mark.parametrize("nester", NESTERS)
def test_depth_is_bounded(nester: str) -> None:
    nest = NESTERS[nester]
    tree = parse(f"SELECT {nest(EXPRESSION_DEPTH // 2 - 1 if nester == 'CASE' else EXPRESSION_DEPTH - 1)} FROM R")
    assert parse(print_file(tree)) == tree
    assert repr(tree)
    for depth in (EXPRESSION_DEPTH + 1, 9_000):
        for clause in ("SELECT {} FROM R", "SELECT a FROM R WHERE {} HAVING b", "MERGE a.t : b.t SLACK {} FROM a, b"):
            said = "a chain of .* operators" if nester == "left chain" else f"more than {EXPRESSION_DEPTH} levels deep"
            with pytest.raises(QueryError, match=said):
                parse(clause.format(nest(depth)))


def test_thousands_of_digits_are_refused() -> None:
    with pytest.raises(QueryError, match="does not fit a 64-bit integer"):
        parse("SELECT " + "9" * 5000 + " FROM R")
    assert parse("SELECT " + "0" * 5000 + "7 FROM R") == parse("SELECT 7 FROM R")
