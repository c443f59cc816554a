"""A project of Great Expectations over a lake: what it has, what one does with it, and that audits ask the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lowwater.catalog.schemas import ROW
from lowwater.catalog.values import Type
from lowwater.config import SuiteLimits
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake, open_lake, row_schema
from lowwater.lake.ledgers.runs import record_measures
from lowwater.lake.results.streams import stream_files
from lowwater.lake.tables import interval_label
from lowwater.plan.operators import Field
from lowwater.plan.properties import result_schema
from lowwater.quality.suites import CustomExpectation, checks_of, read_suites, suite_digest
from tests.breadth import some
from tests.lake.support import BASE, FIELDS, audited, publish_interval, put_stream
from tests.lake.test_publish import run
from tests.quality import gallery
from tests.quality.frames import frames
from tests.quality.test_written import here
from tests.replay.support import ROOT, lowwater

NEWEST = interval_label(BASE + HOUR, BASE + 2 * HOUR)
POSITIVE = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "n", "min_value": 1},
    "severity": "warning",
}


CHECKS = checks_of(
    [CustomExpectation("expect_column_values_to_be_between", {"column": "n", "min_value": 1}, "critical")],
    row_schema(FIELDS),
)


def hour(lake: Lake, number: int, values: list[int], **more: Any) -> None:
    rows: list[Any] = [("10.0.0.1", value, 3600 * number + at) for at, value in enumerate(values)]
    run(lake, BASE + number * HOUR, BASE + (number + 1) * HOUR, rows, digest=f"{number} {values}", **more)


def notebook(lake: Lake, query_set: str, query: str, column: str, spark: bool = False) -> list[str]:
    """The cells of the notebook of the examples, over another lake; with `spark`, those alone that need it."""
    cells = json.loads((Path(__file__).parents[2] / "examples" / "quality.ipynb").read_text(encoding="utf-8"))["cells"]
    names = {"var/lake": str(lake.root), "demo": query_set, "flows": query, "cnt": column}
    found = []
    for cell in cells:
        if cell["cell_type"] == "code" and spark == ("spark" in cell["metadata"].get("tags", ())):
            text = "".join(cell["source"])
            for shown, mine in names.items():
                text = text.replace(shown, mine)
            found.append(text)
    return found


def write(lake: Lake) -> None:
    said = lowwater("gx", "--lake", lake.root)
    assert said.code == 0, said


@pytest.mark.nightly
@pytest.mark.slow
def test_a_suite_that_is_edited_in_the_project_is_the_suite_of_the_next_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lowwater.quality.streams import check_rows

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
    for name in ("main1", "main2"):
        tables = frames("queries", not_owned=int(name == "main2"))
        record_measures(lake, name, {(BASE, BASE + HOUR): tables}, 0, again=False)
    write(lake)
    capsys.readouterr()
    scope: dict[str, Any] = {}
    for script in notebook(lake, "set", "q", "n"):
        exec(compile(script, "cell", "exec"), scope)  # noqa: S102 - what a person runs
    said = capsys.readouterr().out.splitlines()
    assert said[:5] == ["suites: ['set.q']", "before: True", "after: False", "whole 6", "newest 3"]
    assert said[5] == "measures: False 7" and len(said) == 11
    assert list((tmp_path / "lake" / "gx" / "uncommitted" / "data_docs").rglob("set/q.html"))

    suite = read_suites(lake.root, "set", schemas)["q"]
    files = [Path(str(file)) for file in stream_files(lake.stream("q"), BASE + HOUR, BASE + 2 * HOUR)]
    (found,) = check_rows([files], schemas["q"], suite, SuiteLimits(), here)
    assert [(each.kept, each.observed) for each in found] == [(True, ""), (False, "4")]

    hour(lake, 2, [1])
    hour(lake, 0, [1, 2])
    hour(lake, -1, [])
    write(lake)
    import great_expectations as gx

    context = gx.get_context(project_root_dir=lake.root)
    assert len(context.suites.get("set.q").expectations) == 2
    table = context.data_sources.get("lowwater").get_asset("tables.q")
    sizes = {each.name: len(each.get_batch().data.dataframe) for each in table.batch_definitions}
    assert (len(sizes), sizes["whole"], sizes["newest"], sizes[NEWEST]) == (6, 6, 1, 3)
    assert sizes[interval_label(BASE - HOUR, BASE)] == 0, "an hour without rows has its columns"
    both = context.suites.get("set.q")
    holds = {each.name: each.get_batch().validate(both).success for each in table.batch_definitions}
    assert (holds["whole"], holds["newest"], holds[NEWEST]) == (False, True, False)
    assert context.checkpoints.get("set").run().success
    found = context.checkpoints.get("@measures").run()
    wrong = [
        (result.suite_name, each.expectation_config.kwargs["column"])
        for result in found.run_results.values()
        for each in result.results
        if not each.success
    ]
    assert wrong == [("@measures.queries", "not_owned")] and len(found.run_results) == 7
    shown = (ROOT / "docs" / "great-expectations.md").read_text(encoding="utf-8").partition("```python\n")[2]
    script = shown.partition("```")[0].replace("max_value=70", "max_value=0").replace("max_ms", "n")
    for theirs, mine in (("var/dns", str(lake.root)), ("dns_latency.dns_latency", "set.q"), ("s.dns_latency", "s.q")):
        assert theirs in script
        script = script.replace(theirs, mine)
    capsys.readouterr()
    exec(compile(script.replace("dns_latency", "set"), "page", "exec"), {})  # noqa: S102 - what a person runs
    assert capsys.readouterr().out.splitlines()[-2:][0] == "False False"
    project = tmp_path / "lake" / "gx"
    assert len(list(project.glob("data-*"))) == 1

    for damage in ("{", "config_version: nine\n", "config_version: 4.0\nfluent_datasources: 7\n"):
        (project / "great_expectations.yml").write_text(damage)
        said = lowwater("gx", "--lake", lake.root)
        assert said.code == 1 and "cannot open this project" in said.err and "Traceback" not in said.err, said
    shutil.rmtree(project)  # as the hint says
    write(lake)


TYPES = {pa.int64(): Type.INT, pa.float64(): Type.FLOAT, pa.string(): Type.STRING}
BY_SPARK = [
    case
    for case in gallery.GALLERY
    if "like" not in case[0] and "type" not in case[0] and "dateutil" not in case[0] and "outliers" not in case[0]
]
"""The gallery without what Spark's engine lacks, and types, which have other names there."""


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.hypothesis  # `make fuzz` asks the whole gallery
def test_on_spark_the_gallery_the_notebook_and_delta_say_the_same(tmp_path: Path) -> None:
    """One process with a JVM: GX over a published table, the last part of the notebook, and Delta beside Lowwater."""
    lake = open_lake(tmp_path / "lake")
    for number, values in enumerate(([1, 2, 3], [2, 3, 4], [5])):
        hour(lake, number, values, checks=CHECKS)
    rows = gallery.TABLE.append_column("_kind", pa.array([ROW] * 6)).append_column("_last", pa.array([BASE + 1] * 6))
    for name in ("_tick", "_until", "_period"):
        rows = rows.append_column(name, pa.array([BASE] * 6))
    fields = tuple(Field(name, TYPES[gallery.TABLE.schema.field(name).type]) for name in gallery.ROWS)
    schema = pa.schema([each for each in result_schema(fields) if each.name != "interval"])
    put_stream(lake.stream("gallery"), fields, BASE, BASE + HOUR, rows.select(schema.names).cast(schema), "set")
    publish_interval(
        lake, "set", "gallery", fields, BASE, BASE + HOUR, "d", audited(lake, BASE, BASE + HOUR, "gallery")
    )
    assert list(CHECKS.values()) == ["n IS NULL OR (n >= 1)"]
    record_measures(lake, "set", {(BASE, BASE + HOUR): frames()}, 0, again=False)
    path = tmp_path / "lake" / "expectations" / "set" / "q.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"name": "q", "expectations": [POSITIVE]}))
    write(lake)
    chosen = some(BY_SPARK, 9)
    rules = json.dumps([(kind, of) for kind, *both in chosen for of in both])
    cells = json.dumps(notebook(lake, "set", "q", "n", spark=True))
    command = [sys.executable, "-m", "tests.quality.gx_on_spark", str(lake.root), rules, cells]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["holds"] == [True, False] * len(chosen)
    assert said["notebook"].startswith("on Spark: True") and "a.pcap" in said["notebook"]
    assert said["then"] == [[1, 2, 2, 3, 3, 4, 5, 7, 8], [1, 2, 2, 3, 3, 4, 5, 7]]
    assert sorted(map(tuple, said["changes"])) == [
        (7, "delete"), (7, "insert"), (7, "insert"), (8, "delete"), (8, "insert"),
    ]  # fmt: skip
    assert said["now"] == [1, 2, 2, 3, 3, 4, 5, 7, 9] and said["damage"] == [""] * 5
    assert said["comments"]["addr"] == "IP address, as text" and said["refused"]


def test_a_link_of_data_that_came_with_a_lake_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """The folder to which it led was removed."""
    lake = open_lake(tmp_path / "lake")
    hour(lake, 0, [1, 2, 3])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("precious")
    (tmp_path / "lake" / "gx").mkdir()
    data = tmp_path / "lake" / "gx" / "data"
    for target in (tmp_path / "mine", Path("../tables"), Path(".")):
        data.symlink_to(target)
        write(lake)
        assert (tmp_path / "mine" / "notes").read_text() == "precious" and lake.table("q").is_dir()
        (made,) = data.parent.glob("data-*")
        assert data.resolve() == made
        write(lake)
        assert not made.exists(), "its own folder is removed"
        data.unlink()
        shutil.rmtree(next(data.parent.glob("data-*")))
    data.mkdir()
    said = lowwater("gx", "--lake", lake.root)
    assert said.code == 1 and "is a folder, where a link is made" in said.err
