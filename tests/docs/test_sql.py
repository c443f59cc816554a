"""The statements of docs/sql.md run, and its commands and views are there."""

from __future__ import annotations

import re
import shlex

import pytest
from lowwater_generator import generate

from lowwater.replay.sql import CaptureFiles, Statement
from tests.replay.support import ROOT, START, lowwater

PAGE = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
STATEMENTS = re.findall(r"^```sql\n(.+?)^```$", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> CaptureFiles:
    made = generate(tmp_path_factory.mktemp("captures"), START, 1, ["main1", "main2"], rate=0.5, seed=3)
    return CaptureFiles([(each.link, each.path) for each in made if each.start == START])


@pytest.mark.slow
@pytest.mark.parametrize("text", STATEMENTS, ids=["talkers", "dns", "hosts"])
def test_statements_have_rows(text: str, source: CaptureFiles) -> None:
    with Statement(source, text) as asked:
        assert sum(batch.num_rows for batch in asked.batches()) > 0


def test_commands_are_those_of_the_program() -> None:
    """Up to the files, which are not there."""
    blocks = re.findall(r"^```sh\n(.+?)^```$", PAGE, re.M | re.S)
    assert [block.count("lowwater sql") for block in blocks] == [3, 1]
    for line in "".join(blocks).splitlines():
        said = lowwater(*shlex.split(line)[1:])
        assert "no such file" in said.err or "there is no lake" in said.err, said


def test_views_of_captures_are_those_of_the_table(source: CaptureFiles) -> None:
    with Statement(source, "SELECT list(name) FROM (SHOW TABLES) -- TCP") as asked:
        ((names,),) = [batch.column(0).to_pylist() for batch in asked.batches()]
    listed = set(re.findall(r"`([^`]+)`", PAGE.partition("| view |")[2].partition("\n\n")[0]))
    assert {"main1", "TCP", "malformed", "captures"} <= set(names) & listed
