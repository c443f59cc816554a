"""Hints of the suites that people write for the rows of a query."""

from __future__ import annotations

import json
from typing import Any

from lowwater.quality.custom.suites import LARGEST_SUITE
from tests.hints.desk import Case, Desk, Site
from tests.replay.support import Said

FILE = "lake/expectations/flows/flows.json"
BETWEEN = "expect_column_values_to_be_between"
IN_SET = "expect_column_values_to_be_in_set"
EQUAL = "expect_column_pair_values_to_be_equal"
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
        "an expectation that is not known",
        {"type": "unexpected_rows_expectation"},
        "there are: expect_column_pair_values",
        _between("n", min_value=0),
    ),
    _entry(
        "an expectation of the severity info",
        {**_between("n", min_value=0), "severity": "info"},
        "write warning or critical",
        {**_between("n", min_value=0), "severity": "warning"},
    ),
    _entry(
        "arguments in a list",
        {"type": BETWEEN, "kwargs": ["n", 0]},
        'write "kwargs": {"column": "NAME", ...} and "description": "TEXT"',
        {**_between("n", min_value=0), "description": "TEXT"},
    ),
    _entry(
        "a bound that is not known",
        _between("n", least=0),
        "it takes column, max_value, min_value, mostly",
        _between("n", min_value=0, mostly=0.5),
    ),
    _entry(
        "an expectation of no column",
        {"type": BETWEEN, "kwargs": {"min_value": 0}},
        "write it into its kwargs",
        _between("n", min_value=0),
    ),
    _entry("no bound", _between("n"), "write min_value, max_value or both", _between("n", max_value=1 << 62)),
    _entry(
        "a bound of 65 bits",
        _between("n", min_value=1 << 64),
        "write a number of 64 bits",
        _between("n", min_value=1),
    ),
    _entry(
        "a strict bound of a text",
        _between("n", min_value=0, strict_min="yes"),
        "write true or false",
        _between("n", min_value=0, strict_min=True),
    ),
    _entry(
        "a share of a hundred",
        _between("n", min_value=0, mostly=99),
        "write a share from 0 to 1",
        _between("n", min_value=0, mostly=0.99),
    ),
    _entry(
        "a regular expression with a look ahead",
        {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "srcIP", "regex": "(?=1)"}},
        "write a regular expression of RE2: no look-around",
        {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "srcIP", "regex": "^1"}},
    ),
    _entry(
        "a set of texts for a number",
        {"type": IN_SET, "kwargs": {"column": "n", "value_set": ["1"]}},
        "write a list of values of the column's type",
        {"type": IN_SET, "kwargs": {"column": "n", "value_set": [1]}},
    ),
    _entry(
        "columns of two types",
        {"type": EQUAL, "kwargs": {"column_A": "n", "column_B": "srcIP"}},
        "name two columns of numbers, or of one type",
        {"type": EQUAL, "kwargs": {"column_A": "n", "column_B": "mean"}},
    ),
    _entry(
        "a column that is misspelt", _between("men", min_value=0), "did you mean mean?", _between("mean", min_value=0)
    ),
    _entry(
        "a bound of an address",
        _between("srcIP", min_value=0),
        "name one of type int or float",
        _between("n", min_value=0),
    ),
]

LEFT: dict[Site, str] = {}
"""Where hints are made that no test can follow, each with the reason."""
