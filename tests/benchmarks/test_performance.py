"""The page of the figures is made from their JSON, and says who answers less."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import performance


def line(text: str, begin: str) -> list[str]:
    """The cells of the one row of a table that begins so."""
    (found,) = (each for each in text.splitlines() if each.startswith(f"| {begin} |"))
    return [cell.strip() for cell in found.strip("|").split("|")]


@pytest.fixture(scope="module")
def committed() -> Any:
    return performance.committed()


def test_what_was_not_installed_is_said_as_such(committed: Any) -> None:
    figures = committed[0]
    versions = {name: version for name, version in figures["machine"]["versions"].items() if name != "nfdump"}
    text = performance.tools({"machine": {"versions": versions}})
    assert line(text, "nfdump")[1] == "not installed" and "nfdump and Zeek and Arkime did not run here" in text


def test_committed_page_is_what_its_json_gives(committed: Any) -> None:
    assert performance.PAGE.read_text(encoding="utf-8") == performance.page(*committed)
    readme = performance.README.read_text(encoding="utf-8")
    assert readme == performance.with_table(readme, committed[0])
    assert performance.short(committed[0]) in readme
