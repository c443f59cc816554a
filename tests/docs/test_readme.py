"""README.md and the page on results: commands and examples run and print what is shown, and what is claimed holds."""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.docs import notebook, recipes
from tests.docs.book import ROOT, blocks, program, shell
from tests.docs.test_architecture import lake_names

PAGE = ROOT / "README.md"
RESULTS = ROOT / "docs" / "results.md"
BLOCKS = blocks(PAGE)
RUN = [block for block in BLOCKS if block.words == ("sh", "run")]
SHOWN = BLOCKS[BLOCKS.index(RUN[0]) + 1]


def workplace(folder: Path) -> Path:
    """Makes a folder one in which commands find what they find in the project's: the program and the examples."""
    program(folder / ".venv" / "bin")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every command of the README ran."""
    work = workplace(tmp_path_factory.mktemp("readme"))
    answered, published = RUN
    assert lines(shell(answered, work)) == lines(SHOWN.text)
    shell(published, work)
    return work


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_the_query_is_the_shipped_one() -> None:
    (query,) = (block.text for block in BLOCKS if block.words == ("sql",))
    shipped = (ROOT / "examples" / "dns_latency.gsql").read_text(encoding="utf-8")
    assert query == re.sub(r"^(--.*\n)+", "", shipped)


@pytest.mark.slow
def test_every_command_runs(lake: Path) -> None:
    with (lake / "results" / "skew_violations.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 5, "five packets came later"
    with (lake / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [line.split(",")[0] for line in lines(SHOWN.text) if line[:1].isdigit()] == [row["begin"] for row in rows]
    table = DeltaTable(str(lake / "var" / "dns" / "tables" / "dns_latency"))
    columns = ["begin", "server", "questions", "unanswered", "mean_ms", "max_ms"]
    assert [field.name for field in table.schema().fields] == [*columns, "_last", "_hour"]
    assert table.metadata().partition_columns == ["_hour"]
    assert table.to_pyarrow_table().num_rows == len(rows)


@pytest.mark.slow
def test_the_architecture_names_all_that_lies_in_the_lake(lake: Path) -> None:
    assert {path.name for path in (lake / "var" / "dns").iterdir()} - lake_names() == set()


@pytest.mark.nightly
@pytest.mark.slow
def test_every_cell_of_the_notebook_prints_and_plots_what_it_shows(lake: Path) -> None:
    document = notebook.read()
    cells = notebook.code_cells(document)
    for cell, outputs in zip(cells, notebook.execute(document, lake), strict=True):
        assert notebook.texts(outputs) == notebook.texts(cell["outputs"]), cell["source"]
        assert len(notebook.pictures(outputs)) == len(notebook.pictures(cell["outputs"]))
    assert sum(len(notebook.pictures(cell["outputs"])) for cell in cells) == 2


@pytest.mark.nightly
@pytest.mark.spark
def test_every_reader_of_the_page_on_results_and_every_recipe_prints_what_it_shows(lake: Path) -> None:
    readers = [(block, after) for block, after in pairwise(blocks(RESULTS)) if after.words == ("text",)]
    assert [block.words for block, _ in readers] == [*[("sh", "run")] * 2, *[("python", "run")] * 5]
    for block, shown in readers[:2]:
        assert lines(shell(block, lake).rstrip()) == lines(shown.text), str(block)
    examples = [*readers[2:], *recipes.examples()]
    assert len(examples) == 5 + 4
    if not recipes.DUCKDB.is_dir():  # DuckDB's extension: make .venv/.s3
        examples = [(block, shown) for block, shown in examples if "duckdb" not in block.words]
    printed = recipes.printed([block for block, _ in examples], lake)
    for (block, shown), said in zip(examples, printed, strict=True):
        assert lines(said.rstrip()) == lines(shown.text), str(block)
    assert (lake / "latency.png").stat().st_size > 10_000
