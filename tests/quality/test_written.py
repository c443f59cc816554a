"""The suites that people write: judged as Great Expectations does, refused by name where they are wrong."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.catalog.expr import Type
from lowwater.catalog.streams import PUNCTUATION, ROW
from lowwater.errors import ConfigError
from lowwater.plan.operators import Field
from lowwater.plan.properties.schemas import result_schema
from lowwater.quality.custom.row_checks import NOTHING, check_rows
from lowwater.quality.custom.suites import (
    KINDS,
    LARGEST_SUITE,
    CustomExpectation,
    Suites,
    read_suites,
    starting_suite,
    suite_digest,
    suite_file,
)
from lowwater.quality.outputs.stream_checks import EXAMPLE_ROWS

FIELDS = (
    Field("port", Type.INT),
    Field("most", Type.INT),
    Field("share", Type.FLOAT),
    Field("name", Type.STRING),
    Field("ip", Type.IP),
    Field("seen", Type.BOOL),
)
ROWS = {
    "port": [80, 443, 0, None, 70_000, 80, 53, 1, 2, 3],
    "most": [80, 500, 1, None, 7, None, 53, 0, 2, 9],
    "share": [0.5, math.nan, None, 1.0, -1.0, 0.0, 1e300, 0.25, 0.75, 0.9],
    "name": ["dns", "", None, "höhe", "www.example", "a\nb", "DNS", "x", "y", "z"],
    "ip": [f"10.0.0.{number}" if number != 4 else None for number in range(10)],
    "seen": [True, False, None, True, True, True, True, True, True, True],
}
BETWEEN = "expect_column_values_to_be_between"
LENGTHS = "expect_column_value_lengths_to_be_between"
GREATER = "expect_column_pair_values_a_to_be_greater_than_b"
COUNT = "expect_table_row_count_to_be_between"
PAIR = {"column_A": "most", "column_B": "port"}
CASES: list[tuple[str, dict[str, Any], int]] = [
    ("expect_column_values_to_not_be_null", {"column": "seen"}, 1),
    ("expect_column_values_to_not_be_null", {"column": "share", "mostly": 0.8}, 2),
    ("expect_column_values_to_not_be_null", {"column": "share", "mostly": 0.81}, 2),
    ("expect_column_values_to_be_null", {"column": "port", "mostly": 0.1}, 9),
    (BETWEEN, {"column": "port", "min_value": 0, "max_value": 70_000}, 0),
    (BETWEEN, {"column": "port", "min_value": 0, "strict_min": True, "max_value": 65_535}, 2),
    (BETWEEN, {"column": "port", "max_value": 70_000, "strict_max": True, "mostly": 0.9}, 1),
    (BETWEEN, {"column": "port", "max_value": 70_000, "strict_max": True, "mostly": 8 / 9}, 1),
    (BETWEEN, {"column": "share", "min_value": 0, "max_value": 1.0}, 2),
    (BETWEEN, {"column": "most", "min_value": 0.5, "max_value": 80.0}, 2),
    ("expect_column_values_to_be_in_set", {"column": "port", "value_set": [80, 443.0, 53]}, 5),
    ("expect_column_values_to_be_in_set", {"column": "seen", "value_set": [True]}, 1),
    ("expect_column_values_to_not_be_in_set", {"column": "name", "value_set": ["dns", "x"]}, 2),
    ("expect_column_values_to_not_be_in_set", {"column": "ip", "value_set": ["10.0.0.9"]}, 1),
    ("expect_column_values_to_match_regex", {"column": "ip", "regex": r"^10\.0\.0\.[0-8]$"}, 1),
    ("expect_column_values_to_match_regex", {"column": "name", "regex": "[a-z]"}, 2),
    ("expect_column_values_to_not_match_regex", {"column": "name", "regex": "(?i)^dns"}, 2),
    (LENGTHS, {"column": "name", "min_value": 1, "max_value": 4}, 2),
    ("expect_column_pair_values_to_be_equal", PAIR, 6),
    (GREATER, PAIR, 6),
    (GREATER, {**PAIR, "or_equal": True, "mostly": 0.5}, 3),
    (COUNT, {"min_value": 10}, 0),
    (COUNT, {"max_value": 9}, 1),
]


def stream(folder: Path) -> list[Path]:
    """The rows as a stream of two files, each with a punctuation that is no row."""
    files = []
    for part in (slice(0, 4), slice(4, 10)):
        columns = {name: [*values[part], values[0]] for name, values in ROWS.items()}
        size = len(columns["port"])
        control: dict[str, list[Any]] = {"_kind": [ROW] * (size - 1) + [PUNCTUATION]}
        control |= {name: list(range(size)) for name in ("_last", "_tick", "_until", "_period")}
        files.append(folder / f"{part.start}.parquet")
        pq.write_table(pa.table({**columns, **control}, schema=result_schema(FIELDS)), files[-1])
    return files


def written(folder: Path, *entries: Any, **suite: Any) -> Suites:
    path = suite_file(folder, "set", "q")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "q", "expectations": list(entries)} | suite), encoding="utf-8")
    return read_suites(folder, "set", {"q": FIELDS, "other": FIELDS})


def test_every_kind_has_a_passing_and_a_failing_case() -> None:
    assert {kind for kind, _, broken in CASES} == set(KINDS)


@pytest.mark.slow
def test_a_suite_means_what_it_means_in_great_expectations(tmp_path: Path) -> None:
    """Every case: as many values, as many broken and the same success as GX's pandas engine finds."""
    import great_expectations as gx
    import pandas as pd

    entries = [{"type": kind, "kwargs": kwargs} for kind, kwargs, _ in CASES]
    found = check_rows(stream(tmp_path), written(tmp_path, *entries)["q"])
    frame = pd.DataFrame(ROWS)
    source = gx.get_context(mode="ephemeral").data_sources.add_pandas("rows")
    batch = source.add_dataframe_asset("q").add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    for (kind, kwargs, broken), mine in zip(CASES, found, strict=True):
        suite = gx.ExpectationSuite(name="q", expectations=[{"type": kind, "kwargs": kwargs}])
        (theirs,) = batch.validate(suite, result_format="COMPLETE").results
        result = theirs.result
        case = (kind, kwargs, theirs.exception_info)
        assert mine.broken.total == broken, case
        assert (mine.broken.total <= mine.allowed) == theirs.success, case
        if kind != COUNT:
            assert result.get("unexpected_count") == broken, case
            assert mine.values == result["element_count"] - result.get("missing_count", 0), case
            assert len(mine.broken.rows) == broken


def test_rows_that_break_a_rule_are_kept_as_they_are_published(tmp_path: Path) -> None:
    (suite, other) = written(tmp_path, {"type": BETWEEN, "kwargs": {"column": "port", "min_value": 1}}).values()
    (found,) = check_rows(stream(tmp_path), suite)
    assert (found.values, found.broken.total, found.allowed) == (9, 1, 0)
    (row,) = found.broken.rows
    assert (row["port"], row["ip"], row["_last"]) == (0, "10.0.0.2", 2)
    assert found.measures()["example"].startswith("port=0, most=1, share=NULL")
    (none,) = check_rows(stream(tmp_path), other)
    assert (none.name, none.allowed, none.broken.total) == (NOTHING, 0, 0)
    many = tmp_path / "many.parquet"
    pq.write_table(pa.concat_tables([pq.read_table(tmp_path / "0.parquet")] * 2 * EXAMPLE_ROWS), many)
    (all_of,) = check_rows([many], suite)
    assert (all_of.broken.total, len(all_of.broken.rows)) == (2 * EXAMPLE_ROWS, EXAMPLE_ROWS)


ENTRY = {"type": BETWEEN, "kwargs": {"column": "port", "min_value": 1}}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": "SELECT 1"}}, "is not known"),
        (
            {"type": "expect_column_values_to_be_betwen"},
            "is not known\n  hint: did you mean expect_column_values_to_be_",
        ),
        ({**ENTRY, "kwargs": {"column": "prt", "min_value": 1}}, "no column 'prt'\n  hint: did you mean port?"),
        ({**ENTRY, "kwargs": {"column": "name", "min_value": 1}}, "column name is"),
        ({**ENTRY, "kwargs": {"column": "port"}}, "has no bound"),
        ({**ENTRY, "kwargs": {"min_value": 1}}, "lacks column"),
        ({**ENTRY, "kwargs": {**ENTRY["kwargs"], "row_condition": "x"}}, "takes no row_condition"),  # type: ignore[dict-item]
        ({**ENTRY, "kwargs": {"column": "port", "min_value": "1"}}, 'min_value cannot be "1"'),
        ({**ENTRY, "kwargs": {"column": "port", "min_value": 1 << 63}}, "min_value cannot be 9223372036854775808"),
        ({**ENTRY, "kwargs": {"column": "port", "min_value": 1, "mostly": 1.5}}, "mostly cannot be 1.5"),
        ({**ENTRY, "severity": "info"}, "severity 'info'"),
        ({**ENTRY, "code": "print()"}, "no unknown keys"),
        (
            {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "port", "value_set": ["80"]}},
            "value_set cannot be",
        ),
        (
            {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "name", "regex": "(?=x)"}},
            "regex cannot be",
        ),
        ({"type": GREATER, "kwargs": {"column_A": "port", "column_B": "name"}}, "column name is"),
        (
            {"type": "expect_column_pair_values_to_be_equal", "kwargs": {"column_A": "port", "column_B": "name"}},
            "of the types",
        ),
    ],
)
def test_what_is_wrong_is_told_with_file_and_expectation(entry: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        written(tmp_path, {"type": COUNT, "kwargs": {"min_value": 1}}, entry)
    assert f"{tmp_path}/expectations/set/q.json: expectation 2 (" in str(raised.value) or "code" in entry
    assert entry["type"] in str(raised.value) or "code" in entry
    assert says in str(raised.value)


def test_what_is_no_suite_is_refused(tmp_path: Path) -> None:
    for suite, says in (
        ({"name": "p"}, "its name is 'p'"),
        ({"views": []}, "is not a suite of expectations"),
        ({"expectations": 1}, "not a su"),
    ):
        with pytest.raises(ConfigError, match=says):
            written(tmp_path, **suite)
    with pytest.raises(ConfigError, match="is written twice"):
        written(tmp_path, ENTRY, ENTRY)
    path = suite_file(tmp_path, "set", "q")
    for text in ("[" * 100_000, '{"name": NaN}', "\udcff", " " * (LARGEST_SUITE + 1), ""):
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        with pytest.raises(ConfigError, match=r"q\.json: "):
            read_suites(tmp_path, "set", {"q": FIELDS})
    path.rename(path.with_name("p.json"))
    with pytest.raises(ConfigError, match=r"p\.json: set has no output query"):
        read_suites(tmp_path, "set", {"q": FIELDS})


@pytest.mark.slow
def test_the_suite_to_begin_with_is_one(tmp_path: Path) -> None:
    import great_expectations as gx

    text = starting_suite("q", FIELDS)
    found = written(tmp_path, **json.loads(text))["q"]
    assert [each.kwargs.get("column") for each in found] == [None, *(field.name for field in FIELDS)]
    theirs = gx.ExpectationSuite(**json.loads(text))
    assert [each.type for each in theirs.expectation_configurations] == [each.type for each in found]
    assert {each.broken.total > each.allowed for each in check_rows(stream(tmp_path), found)} == {True, False}


def test_the_page_on_reviews_names_every_kind_and_its_example_is_a_suite(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "review.md").read_text(encoding="utf-8")
    told = page.partition("| expectation |")[2].partition("\n* ")[0]
    assert set(re.findall(r"`(expect_\w+)`", told)) == set(KINDS)
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    path = suite_file(tmp_path, "set", "flows")
    path.parent.mkdir(parents=True)
    path.write_text(example, encoding="utf-8")
    (suite,) = read_suites(tmp_path, "set", {"flows": [Field("protocol", Type.INT)]}).values()
    assert [each.severity for each in suite] == ["warning", "critical"]


def test_the_digest_is_of_what_is_asked() -> None:
    first = CustomExpectation(BETWEEN, {"column": "port", "min_value": 1}, "warning", "why")
    second = CustomExpectation(COUNT, {"min_value": 1}, "critical")
    assert suite_digest([]) == ""
    assert suite_digest([first, second]) == suite_digest(
        [second, CustomExpectation(first.type, first.kwargs, "warning")]
    )
    assert suite_digest([first]) != suite_digest([CustomExpectation(BETWEEN, first.kwargs, "critical")])
