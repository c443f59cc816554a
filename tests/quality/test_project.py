"""A project of Great Expectations over a lake: what it has, what one does with it, and that audits ask the same."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from lowwater.instants import HOUR
from lowwater.lake.layout import Lake, open_lake, row_schema
from lowwater.lake.ledgers.history import record_measures
from lowwater.lake.results.streams import stream_files
from lowwater.lake.tables import interval_label
from lowwater.quality.measures import measure_tables
from lowwater.quality.suites import read_suites, suite_digest
from lowwater.sections import SuiteLimits
from tests.lake.support import BASE, FIELDS
from tests.lake.test_publish import run
from tests.quality.frames import frames
from tests.quality.test_written import here
from tests.replay.support import lowwater

NEWEST = interval_label(BASE + HOUR, BASE + 2 * HOUR)
POSITIVE = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "n", "min_value": 1},
    "severity": "warning",
}


def hour(lake: Lake, number: int, values: list[int]) -> None:
    rows: list[Any] = [("10.0.0.1", value, 3600 * number + at) for at, value in enumerate(values)]
    run(lake, BASE + number * HOUR, BASE + (number + 1) * HOUR, rows, digest=f"{number} {values}")


def write(lake: Lake) -> None:
    said = lowwater("gx", "--lake", lake.root)
    assert said.code == 0, said


@pytest.mark.slow
def test_a_suite_that_is_edited_in_the_project_is_the_suite_of_the_next_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lowwater.quality.suites import check_rows

    lake = open_lake(tmp_path / "lake")
    path = tmp_path / "lake" / "expectations" / "set" / "q.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"name": "q", "expectations": [POSITIVE]}))
    hour(lake, 0, [1, 2, 3])
    hour(lake, 1, [2, 3, 4])
    schemas = {"q": row_schema(FIELDS)}
    before = suite_digest(read_suites(lake.root, "set", schemas)["q"])
    write(lake)
    assert suite_digest(read_suites(lake.root, "set", schemas)["q"]) == before
    page = (Path(__file__).parents[2] / "docs" / "review.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for shown, mine in (
        ("var/lake", lake.root),
        ("demo.flows", "set.q"),
        ("flows", "q"),
        ("demo", "set"),
        ("cnt", "n"),
    ):
        script = script.replace(shown, str(mine))
    capsys.readouterr()
    exec(compile(script, "script", "exec"), {})  # noqa: S102 - what a person types
    assert capsys.readouterr().out.splitlines() == ["before: True", "after: False", "whole 6", "newest 3"]
    assert list((tmp_path / "lake" / "gx" / "uncommitted" / "data_docs").rglob("set/q.html"))

    suite = read_suites(lake.root, "set", schemas)["q"]
    files = [Path(str(file)) for file in stream_files(lake.stream("q"), BASE + HOUR, BASE + 2 * HOUR)]
    found = check_rows(files, schemas["q"], suite, SuiteLimits(), here)
    assert [(each.kept, each.observed) for each in found] == [(True, ""), (False, "4")]

    hour(lake, 2, [1])
    hour(lake, 0, [1, 2])
    write(lake)
    import great_expectations as gx

    context = gx.get_context(project_root_dir=lake.root)
    assert [len(each.expectations) for each in context.suites.all()] == [2]
    table = context.data_sources.get("lowwater").get_asset("tables.q")
    sizes = {each.name: len(each.get_batch().data.dataframe) for each in table.batch_definitions}
    assert (len(sizes), sizes["whole"], sizes["newest"], sizes[NEWEST]) == (5, 6, 1, 3)
    assert context.checkpoints.get("set").run().success
    for name in ("main1", "main2"):
        tables = measure_tables(frames("queries", not_owned=int(name == "main2")))
        record_measures(lake, name, BASE, BASE + HOUR, tables, 0)
    write(lake)
    context = gx.get_context(project_root_dir=lake.root)
    found = context.checkpoints.get("@measures").run()
    wrong = [
        (result.suite_name, each.expectation_config.kwargs["column"])
        for result in found.run_results.values()
        for each in result.results
        if not each.success
    ]
    assert wrong == [("@measures.queries", "not_owned")] and len(found.run_results) == 7
    project = tmp_path / "lake" / "gx"
    assert len(list(project.glob("data-*"))) == 1

    for damage in ("{", "config_version: nine\n", "config_version: 4.0\nfluent_datasources: 7\n"):
        (project / "great_expectations.yml").write_text(damage)
        said = lowwater("gx", "--lake", lake.root)
        assert said.code == 1 and "cannot open this project" in said.err and "Traceback" not in said.err, said
    shutil.rmtree(project)  # as the hint says
    write(lake)


def test_what_has_no_project_is_said(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    said = lowwater("gx", "--lake", lake.root)
    assert said.code == 1 and "nothing is published" in said.err
