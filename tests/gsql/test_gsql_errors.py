"""Errors and limits of the parser: goldens, refusals by name, places, several at once, size, depth and time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowwater.errors import QueryError, QueryErrors, UnsupportedError
from lowwater.gsql.parser import MAX_ERRORS, parse
from lowwater.gsql.printer import print_file
from lowwater.limits import EXPRESSION_DEPTH as MAX_DEPTH, QUERY_BYTES
from tests.breadth import each_push
from tests.refusals import failure, refusals, told


@pytest.mark.parametrize("name", refusals("parser_"))
def test_the_error_of_a_text_is_word_by_word_that_of_refusals(name: str) -> None:
    assert told(failure(name)) == refusals()[name].error


def test_errors_of_one_file_are_told_together() -> None:
    error = failure("parser_several")
    assert isinstance(error, QueryErrors)
    assert [single.line for single in error.errors] == [2, 3, 4, 5]
    assert isinstance(error.errors[2], UnsupportedError)
    many = failure("parser_too_many")
    assert isinstance(many, QueryErrors) and len(many.errors) == MAX_ERRORS


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
@pytest.mark.parametrize("nester", each_push(NESTERS, 3))
def test_depth_is_bounded(nester: str) -> None:
    nest = NESTERS[nester]
    tree = parse(f"SELECT {nest(MAX_DEPTH // 2 - 1 if nester == 'CASE' else MAX_DEPTH - 1)} FROM R")
    assert parse(print_file(tree)) == tree
    assert repr(tree)
    for depth in (MAX_DEPTH + 1, 9_000):
        for clause in ("SELECT {} FROM R", "SELECT a FROM R WHERE {} HAVING b", "MERGE a.t : b.t SLACK {} FROM a, b"):
            said = "a chain of .* operators" if nester == "left chain" else f"more than {MAX_DEPTH} levels deep"
            with pytest.raises(QueryError, match=said):
                parse(clause.format(nest(depth)))


def test_thousands_of_digits_are_refused() -> None:
    with pytest.raises(QueryError, match="does not fit a 64-bit integer"):
        parse("SELECT " + "9" * 5000 + " FROM R")
    assert parse("SELECT " + "0" * 5000 + "7 FROM R") == parse("SELECT 7 FROM R")
