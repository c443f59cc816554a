"""Hints of the suites that people write for the rows of a query."""

from __future__ import annotations

import json
from typing import Any

from lowwater.quality.suites import LARGEST_SUITE
from tests.hints.desk import Case, Desk, Site
from tests.replay.support import Said

FILE = "lake/expectations/flows/flows.json"
BETWEEN = "expect_column_values_to_be_between"
IN_SET = "expect_column_values_to_be_in_set"
SQL = "unexpected_rows_expectation"
HOSTS = "SELECT tb, srcIP, avg(len) AS mean, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, srcIP"


def _suite(*entries: Any, **more: Any) -> str:
    return json.dumps({"name": "flows", "expectations": list(entries)} | more)


def _read(desk: Desk, text: str, file: str = FILE) -> Said:
    """What `plan` says of a lake with this suite, and no other."""
    if not desk.lake.is_dir():
        desk.settle(ingest=False)
    desk.query(HOSTS, "flows")
    for other in (desk.lake / "expectations").rglob("*.json"):
        other.unlink()
    desk.write(file, text)
    return desk.run("plan", "--lake", desk.lake)


def _file(name: str, wrong: str, hint: str, right: str = "", file: str = FILE) -> Case:
    """A case of a whole suite; the right one lies under its right name."""
    return Case(name, lambda desk: _read(desk, wrong, file), hint, lambda desk: _read(desk, right or _suite()))


def _entry(name: str, wrong: Any, hint: str, right: Any) -> Case:
    """A case of one expectation."""
    return _file(name, _suite(wrong), hint, _suite(right))


def _forbidden(desk: Desk, code: str) -> Said:
    desk.settle(f'[suites]\ncode = "{code}"', ingest=False)
    return _read(desk, _suite({"type": SQL, "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE n < 0"}}))


def _published(desk: Desk) -> Said:
    said = desk.run("backfill", "--lake", desk.lake)
    assert said.code == 0, said
    return desk.run("gx", "--lake", desk.lake)


def _between(column: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": BETWEEN, "kwargs": {"column": column} | kwargs}


LENGTHY = _suite(*({**_between("n", min_value=number), "notes": "x" * 1000} for number in range(LARGEST_SUITE // 1000)))
CASES = [
    _file("a suite of no query", _suite(), "did you mean flows?", file="lake/expectations/flows/flow.json"),
    _file("a suite that is no JSON", "name: flows", "write a suite of Great Expectations as JSON"),
    _file("a large suite", LENGTHY, "leave out what is not needed", _suite(_between("n", min_value=0))),
    _file("a suite of views", _suite(views=[]), "write an object of expectations, id, meta, name"),
    _file("a suite of another name", _suite(name="flow"), "write 'flows', as the query"),
    _file(
        "an expectation twice",
        _suite(*[_between("n", min_value=0)] * 2),
        "leave one of them out",
        _suite(_between("n", min_value=0)),
    ),
    _entry(
        "an expectation of code",
        {**_between("n", min_value=0), "code": ""},
        "write an object of",
        _between("n", min_value=0),
    ),
    _entry(
        "an expectation that is misspelt",
        {"type": "expect_column_values_to_be_betwen", "kwargs": {"column": "n", "min_value": 0}},
        f"did you mean {BETWEEN}?",
        _between("n", min_value=0),
    ),
    _entry(
        "arguments in a list",
        {"type": BETWEEN, "kwargs": ["n", 0]},
        'write "kwargs": {"column": "NAME", ...} and "description": "TEXT"',
        {**_between("n", min_value=0), "description": "TEXT"},
    ),
    _entry(
        "an expectation of no column",
        {"type": BETWEEN, "kwargs": {"min_value": 0}},
        "write it into its kwargs",
        _between("n", min_value=0),
    ),
    _entry(
        "an expectation of another table",
        {"type": "expect_table_row_count_to_equal_other_table", "kwargs": {"other_table_name": "t"}},
        "write it as SQL over {batch}, or leave it out",
        {"type": SQL, "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE n < 0"}},
    ),
    _entry(
        "SQL of a column that is not there",
        {"type": SQL, "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE m < 0"}},
        "write SQL of DuckDB that selects the rows that must not be, from {batch}",
        {"type": SQL, "kwargs": {"unexpected_rows_query": "SELECT n FROM {batch} WHERE n < 0"}},
    ),
    _entry(
        "a condition of no column",
        _between("n", min_value=0, row_condition="m > 0", condition_parser="pandas"),
        'write "row_condition": "NAME > 0" with "condition_parser": "pandas"',
        _between("n", min_value=0, row_condition="n > 0", condition_parser="pandas"),
    ),
    _entry(
        "a severity that is not known",
        {**_between("n", min_value=0), "severity": "grave"},
        "write info, warning or critical",
        {**_between("n", min_value=0), "severity": "info"},
    ),
    _entry(
        "a bound that is not known",
        _between("n", least=0),
        "it takes column, condition_parser, max_value, min_value, mostly",
        _between("n", min_value=0, mostly=0.5),
    ),
    _entry(
        "no bound",
        _between("n"),
        "it takes column, condition_parser, max_value, min_value, mostly",
        _between("n", max_value=1 << 62),
    ),
    _entry("a bound that is a text", _between("n", min_value="x"), "write another value", _between("n", min_value=1)),
    _entry(
        "a parameter",
        _between("n", min_value={"$PARAMETER": "least"}),
        "write its value",
        _between("n", min_value=1),
    ),
    _entry(
        "a regular expression that is none",
        {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "srcIP", "regex": "(1"}},
        "write a regular expression as Python's re reads it",
        {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "srcIP", "regex": "^(?=1)"}},
    ),
    _entry(
        "a bound of an address",
        _between("srcIP", min_value=0),
        "name columns, and give values, of a type that it takes",
        _between("n", min_value=0),
    ),
    Case(
        "SQL where code is forbidden",
        lambda desk: _forbidden(desk, "forbidden"),
        'leave it out, or let [suites] code = "allowed" in lowwater.toml',
        lambda desk: _forbidden(desk, "allowed"),
    ),
    _entry(
        "a share of a hundred",
        _between("n", min_value=0, mostly=99),
        "write a share from 0 to 1",
        _between("n", min_value=0, mostly=0.99),
    ),
    _entry(
        "a set of texts for a number",
        {"type": IN_SET, "kwargs": {"column": "n", "value_set": ["1"]}},
        "write a list of values of the column's type",
        {"type": IN_SET, "kwargs": {"column": "n", "value_set": [1]}},
    ),
    _entry(
        "a column that is misspelt", _between("men", min_value=0), "did you mean mean?", _between("mean", min_value=0)
    ),
    Case(
        "a project of nothing",
        lambda desk: desk.run("gx", "--lake", desk.settle()),
        "publish an interval with `lowwater backfill` first",
        _published,
    ),
]

LEFT: dict[Site, str] = {("lowwater/quality/gx_project.py", "link_data"): "a lake in a store"}
"""Where hints are made that no test can follow, each with the reason."""
