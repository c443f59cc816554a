"""Suites that people write for the rows of a query: what they may ask, and that an audit says what GX says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.catalog.values import Type
from lowwater.config import SuiteLimits
from lowwater.errors import ConfigError
from lowwater.lake.layout import row_schema
from lowwater.limits import SUITE_BYTES as LARGEST_SUITE
from lowwater.plan.operators import Field
from lowwater.plan.properties import result_schema
from lowwater.quality.streams import RuleResult, check_rows
from lowwater.quality.suites import CustomExpectation, Suites, read_suites, suite_digest, suite_file
from tests.quality import gallery

FIELDS = (
    Field("port", Type.INT), Field("most", Type.INT), Field("share", Type.FLOAT), Field("name", Type.STRING),
    Field("ip", Type.IP), Field("seen", Type.BOOL),
)  # fmt: skip
ROWS = {
    "port": [80, 443, 0, None, 70_000, 80, 53, 1, 2, 3],
    "most": [80, 500, 1, None, 7, None, 53, 0, 2, 9],
    "share": [0.5, math.nan, None, 1.0, -1.0, 0.0, 1e300, 0.25, 0.75, 0.9],
    "name": ["dns", "", None, "höhe", "www.example", "a\nb", "DNS", "x", "y", "z"],
    "ip": [f"10.0.0.{number}" if number != 4 else None for number in range(10)],
    "seen": [True, False, None, True, True, True, True, True, True, True],
}
SCHEMA = row_schema(FIELDS)
BETWEEN = "expect_column_values_to_be_between"
LENGTHS = "expect_column_value_lengths_to_be_between"
GREATER = "expect_column_pair_values_a_to_be_greater_than_b"
COUNT = "expect_table_row_count_to_be_between"
SQL, SQL_ARGUMENT = "unexpected_rows_expectation", "unexpected_rows_query"
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
    ("expect_column_values_to_match_regex", {"column": "share", "regex": "5"}, 5),
    ("expect_column_values_to_match_regex_list", {"column": "seen", "regex_list": ["T", "e$"], "match_on": "all"}, 1),
    (LENGTHS, {"column": "name", "min_value": 1, "max_value": 4}, 2),
    (LENGTHS, {"column": "share", "max_value": 4}, 1),
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


def write(folder: Path, *entries: Any, **suite: Any) -> None:
    path = suite_file(folder, "set", "q")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "q", "expectations": list(entries)} | suite), encoding="utf-8")


def written(folder: Path, *entries: Any, **suite: Any) -> Suites:
    write(folder, *entries, **suite)
    return read_suites(folder, "set", {"q": SCHEMA, "other": SCHEMA})


def here(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Judges in this process."""
    from lowwater_expectations.judging import judge_intervals

    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(request["schema"])))
    for interval, judged in judge_intervals(request["files"], schema, request["entries"], request["megabytes"]):
        yield {"interval": interval, **json.loads(json.dumps(asdict(judged), default=str))}


def judged(files: list[Path], suite: Any, schema: pa.Schema = SCHEMA, memory: str = "1g") -> list[RuleResult]:
    (found,) = check_rows([files], schema, suite, SuiteLimits(memory=memory), here)
    return found


def by_hand(frame: Any, entries: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """What somebody finds who has only GX and the rows, as pandas reads them."""
    import great_expectations as gx

    source = gx.get_context(mode="ephemeral").data_sources.add_pandas("rows")
    batch = source.add_dataframe_asset("q").add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    suites = [gx.ExpectationSuite(name="q", expectations=[{"type": kind, "kwargs": of}]) for kind, of in entries]
    return [batch.validate(suite, result_format="COMPLETE").results[0] for suite in suites]


@pytest.mark.slow
def test_a_suite_means_what_it_means_in_great_expectations(tmp_path: Path) -> None:
    """Every case: as many values, as many broken and the same success as GX's pandas engine finds, in shares too."""
    import pandas as pd

    entries = [{"type": kind, "kwargs": kwargs} for kind, kwargs, _ in CASES]
    files, suite = stream(tmp_path), written(tmp_path, *entries)["q"]
    hand = by_hand(pd.DataFrame(ROWS), [(kind, kwargs) for kind, kwargs, _ in CASES])
    for found in (judged(files, suite, memory=memory) for memory in ("1g", "0m")):
        for (kind, kwargs, broken), mine, theirs in zip(CASES, found, hand, strict=True):
            result = theirs.result
            case = (kind, kwargs, theirs.exception_info, mine)
            assert mine.broken.total == broken, case
            assert mine.kept == (mine.broken.total <= mine.allowed) == theirs.success, case
            if kind != COUNT:
                assert result.get("unexpected_count") == broken, case
                assert mine.values == result["element_count"] - result.get("missing_count", 0), case
                assert len(mine.broken.rows) == broken


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["1g", "0m"])
def test_intervals_are_judged_together_as_each_by_itself(tmp_path: Path, memory: str) -> None:
    first, second = stream(tmp_path)
    suite = written(tmp_path, *({"type": kind, "kwargs": kwargs} for kind, kwargs, _ in CASES))["q"]
    intervals, about = [[first], [second], [], [first, second]], (SCHEMA, suite, SuiteLimits(memory=memory), here)
    alone = [found for each in intervals for found in check_rows([each], *about)]
    assert repr(check_rows(intervals, *about)) == repr(alone)


@pytest.mark.slow
def test_a_batch_asks_once_what_is_asked_of_each_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater_expectations import judging

    asked, validate = list[int](), judging.validate_frame

    def counted(frame: Any, *about: Any) -> Any:
        asked.append(len(frame))
        return validate(frame, *about)

    monkeypatch.setattr(judging, "validate_frame", counted)
    rows = [
        (BETWEEN, {"column": "port", "max_value": 65_535}),
        ("expect_column_values_to_not_be_null", {"column": "ip"}),
    ]
    suite = [CustomExpectation(kind, of, "critical") for kind, of in rows]
    found = check_rows([[file] for file in stream(tmp_path)] * 12, SCHEMA, suite, SuiteLimits(), here)
    assert asked == [12 * 10]
    assert [[each.broken.total for each in of] for of in found] == [[0, 0], [1, 1]] * 12
    assert found[1][0].broken.rows[0]["port"] == 70_000 and found[23][1].broken.rows[0]["ip"] is None


def published(folder: Path) -> list[Path]:
    """The rows of the gallery as a stream of two files."""
    count = gallery.TABLE.num_rows
    whole = gallery.TABLE.append_column("_kind", pa.array([ROW] * count))
    for first in (0, 3):
        pq.write_table(whole.slice(first, 3), folder / f"part-{first}.parquet")
    return sorted(folder.glob("part-*.parquet"))


@pytest.mark.slow
def test_the_gallery_passes_and_fails_as_by_hand(tmp_path: Path) -> None:
    """Each expectation of GX, over the rows of a stream: the verdict of GX by hand is that of an audit."""
    from lowwater_expectations.judging import check_written, of_core

    assert [kind for kind, _, _ in gallery.GALLERY] == list(dict.fromkeys(kind for kind, _, _ in gallery.GALLERY))
    assert {kind for kind, _, _ in gallery.GALLERY} == set(of_core())
    asked = [CustomExpectation(kind, of, "critical") for kind, *both in gallery.GALLERY for of in both]
    check_written(tmp_path, [each.entry() for each in asked], gallery.TABLE.schema)
    files = published(tmp_path)
    found = judged(files, asked, gallery.TABLE.schema)
    hand = by_hand(gallery.TABLE.to_pandas(), [(each.type, dict(each.kwargs)) for each in asked])
    for number, (mine, theirs) in enumerate(zip(found, hand, strict=True)):
        case = (mine, theirs.exception_info)
        assert "not judged" not in mine.observed, case
        assert mine.kept == theirs.success == (number % 2 == 0), case
        if "element_count" in theirs.result and "type" not in theirs.expectation_config.type:
            assert mine.broken.total == theirs.result["unexpected_count"], case
    beyond = judged(files, asked, gallery.TABLE.schema, "0m")
    assert all(
        small.kept == mine.kept for small, mine in zip(beyond, found, strict=True) if "not judged" not in small.observed
    )
    refused = {small.rule.type for small in beyond if small.rule and "not judged" in small.observed}
    assert "expect_column_values_to_be_unique" in refused and "expect_column_values_to_match_regex" not in refused
    assert not any(small.kept for small in beyond if "not judged" in small.observed)


@pytest.mark.slow
def test_what_is_no_suite_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    path = suite_file(tmp_path, "set", "q")
    for text in ("[" * 100_000, '{"name": NaN}', "\udcff", " " * (LARGEST_SUITE + 1), ""):
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        with pytest.raises(ConfigError, match=r"q\.json: "):
            read_suites(tmp_path, "set", {"q": SCHEMA})


@pytest.mark.slow
def test_the_page_names_every_kind_and_its_example_is_a_suite(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "great-expectations.md").read_text(encoding="utf-8")
    told = page.partition("| expectation |")[2].partition("\n* ")[0]
    assert set(re.findall(r"`(\w*expect\w+)`", told)) == {kind for kind, _, _ in gallery.GALLERY}
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    path = suite_file(tmp_path, "set", "flows")
    path.parent.mkdir(parents=True)
    path.write_text(example, encoding="utf-8")
    (suite,) = read_suites(tmp_path, "set", {"flows": row_schema((Field("protocol", Type.INT),))}).values()
    assert [each.severity for each in suite] == ["warning", "critical"]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_suite_that_takes_too_long_is_ended_and_said(tmp_path: Path) -> None:
    """A regular expression that would take for ever; what was judged before stands, and the next suite is judged."""
    pq.write_table(pa.table({"name": ["a" * 40 + "b"], "_kind": [ROW], "_last": [0]}), tmp_path / "rows.parquet")
    schema = pa.schema([("name", pa.string())])
    for_ever = CustomExpectation(
        "expect_column_values_to_match_regex", {"column": "name", "regex": "^(a|a)*$"}, "critical"
    )
    count = CustomExpectation(COUNT, {"min_value": 1}, "critical")
    pq.write_table(pa.table({"name": ["b"], "_kind": [ROW], "_last": [0]}), tmp_path / "sound.parquet")
    both = [[tmp_path / "rows.parquet"], [tmp_path / "sound.parquet"]]
    (first, second), sound = check_rows(both, schema, [for_ever, count], SuiteLimits(time="1s"))
    assert (first.kept, first.observed) == (False, "not judged: the suite took longer than [suites] time = 1s")
    assert second.kept and second.observed == "1"
    assert [(each.kept, each.observed) for each in sound] == [(False, ""), (True, "1")], "it is of one interval"
    ((again,),) = check_rows(both[:1], schema, [count], SuiteLimits())
    assert again.kept and again.observed == "1"


@pytest.mark.slow
def test_sql_reads_nothing_but_the_rows(tmp_path: Path) -> None:
    files, secret = published(tmp_path), tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for query in (
        f"SELECT * FROM '{secret}'",
        "SELECT * FROM (COPY {batch} TO 'x.csv')",
        f"SELECT * FROM read_text('{secret}')",
    ):
        (found,) = judged(files, [CustomExpectation(SQL, {SQL_ARGUMENT: query}, "critical")], gallery.TABLE.schema)
        assert not found.kept and "could not judge it" in found.observed and "1" not in found.broken.rows
    found, other = judged(
        files,
        [
            CustomExpectation(SQL, {SQL_ARGUMENT: f"SELECT port FROM {{batch}} WHERE {of}"}, "critical")
            for of in ("seq > 4", "seq > 9")
        ],
        gallery.TABLE.schema,
    )
    assert (found.kept, found.observed, found.broken.rows) == (False, "2", [{"port": 22}, {"port": 8080}])
    assert (other.kept, other.observed, other.broken.rows) == (True, "0", [])


def test_the_digest_is_of_what_is_asked() -> None:
    first = CustomExpectation(BETWEEN, {"column": "port", "min_value": 1}, "warning", "why")
    second = CustomExpectation(COUNT, {"min_value": 1}, "critical")
    assert suite_digest([]) == ""
    assert suite_digest([first, second]) == suite_digest(
        [second, CustomExpectation(first.type, first.kwargs, "warning")]
    )
    assert suite_digest([first]) != suite_digest([CustomExpectation(BETWEEN, first.kwargs, "critical")])
