"""The page of captures: its tables hold of captures made for them, its examples do what they show."""

from __future__ import annotations

import gzip
import io
import runpy
import shlex
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from lowwater.capture.inspect import inspect
from lowwater.capture.reader import open_capture, read
from lowwater.capture.records.stream import REASONS
from lowwater.cli.main import cli
from lowwater.config import Config
from lowwater.errors import CaptureError
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from tests.docs.book import ROOT, Block, blocks
from tests.docs.coverages import rewritten
from tests.docs.oddities import BEGIN, CASES, REFUSED, two_interfaces

PAGE = ROOT / "docs" / "captures.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = blocks(PAGE)
SKEW = SECOND


def table(name: str) -> list[list[str]]:
    """The cells of a marked table, without its head."""
    text = TEXT.split(f"<!-- {name} -->\n")[1].split("<!-- end -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def examples() -> list[tuple[Block, str]]:
    """The blocks that are run, each with the text that it prints."""
    return [(block, after.text) for block, after in pairwise(BLOCKS) if "run" in block.words]


@pytest.mark.nightly
@pytest.mark.slow
def test_the_table_of_coverage_is_what_comes_of_its_cases() -> None:
    assert rewritten(TEXT) == TEXT, "make goldens"


def test_the_tables_are_of_the_captures_made_for_them() -> None:
    assert [row[0] for row in table("cases")] == list(CASES)
    assert [row[0] for row in table("refused")] == list(REFUSED)


@pytest.mark.slow
@pytest.mark.parametrize("row", table("cases"), ids=lambda row: row[0])
def test_an_odd_capture(row: list[str], tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(CASES[row[0]])
    facts = inspect(path, SKEW + 60 * SECOND, SKEW)
    (interface,) = facts.interfaces
    assert facts.accounted
    reasons = ", ".join(f"{reason} {count}" for reason, count in interface.malformed.items()) or "-"
    covers = (BEGIN * SECOND, BEGIN * SECOND + HOUR)
    (found,) = ingest(open_lake(tmp_path / "lake"), "a", [path], Config(), covers)
    assert found.capture.packets == interface.packets
    assert found.capture.malformed == interface.malformed.total()
    assert format_instant(found.capture.covers_from) == "2026-01-01T00:00:00Z"
    until = format_instant(found.capture.covers_to).removeprefix("2026-01-01T").removesuffix("Z")
    assert row[1:] == [str(interface.packets), str(interface.lateness.refused), reasons, until]


def test_every_reason_is_told_and_met() -> None:
    told = [row[0].strip("`") for row in table("reasons")]
    assert sorted(told) == sorted(REASONS)
    assert sorted(told) == sorted({row[3].split()[0] for row in table("cases")} - {"-"})


@pytest.mark.parametrize("row", table("refused"), ids=lambda row: row[0])
def test_a_file_that_is_refused(row: list[str], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(REFUSED[row[0]])
    for opened in (open_capture, lambda path: read(path, SECOND)):
        with pytest.raises(CaptureError) as raised:
            opened(path)
        assert raised.value.message.startswith(str(path)) and row[1] in raised.value.message
        assert row[2] in raised.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("block, shown", examples(), ids=lambda each: str(each) if isinstance(each, Block) else "")
def test_an_example_prints_what_follows(
    block: Block, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main1.pcapng").write_bytes(two_interfaces())
    Path("main1.pcapng.gz").write_bytes(gzip.compress(two_interfaces()))
    if block.words[0] == "python":
        out = io.StringIO()
        with redirect_stdout(out):
            Path("example.py").write_text(block.text, encoding="utf-8")
            runpy.run_path("example.py")
        printed = out.getvalue()
    else:
        printed = CliRunner().invoke(cli, shlex.split(block.text)[1:], catch_exceptions=False).stdout
    assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines()
