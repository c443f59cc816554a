"""The tutorial and the page of the first result: their commands run in order and print what is shown."""

from __future__ import annotations

import re
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.book import FENCE, ROOT, blocks, program, shell

PAGE = ROOT / "docs" / "tutorial.md"
FIRST = ROOT / "docs" / "first-result.md"
STORY = ROOT / "examples" / "story"


def printed(page: Path, work: Path) -> dict[int, str]:
    """Runs the commands of a page in a folder with its named queries; their outputs by the line of their block."""
    folder, outputs = program(work / "bin"), {}
    (work / "examples").symlink_to(ROOT / "examples")
    for block in blocks(page):
        if block.words[0] == "sql":
            (work / block.words[1]).write_text(block.text, encoding="utf-8")
        if block.words == ("sh", "run"):
            said = shell(block, work, folder)
            outputs[block.line] = "".join(f"{line.rstrip()}\n" for line in said.splitlines())
    return outputs


def query(name: str) -> str:
    """A query of the examples without its comment."""
    return re.sub(r"^(--.*\n)+", "", (STORY / name).read_text(encoding="utf-8"))


def rewritten(page: Path, outputs: dict[int, str]) -> str:
    """The text of a page with queries and outputs made anew."""
    pieces, end, text = [], 0, page.read_text(encoding="utf-8")
    for fence, before, block in zip(FENCE.finditer(text), [None, *blocks(page)], blocks(page), strict=False):
        body = fence["text"]
        if block.words[0] == "sql" and page == PAGE:
            body = query(block.words[1])
        elif block.words == ("text",) and before is not None:
            body = outputs[before.line]
        pieces += [text[end : fence.start("text")], body]
        end = fence.end("text")
    return "".join([*pieces, text[end:]])


def test_the_queries_are_the_shipped_ones() -> None:
    shown = {block.words[1]: block.text for block in blocks(PAGE) if block.words[0] == "sql"}
    assert shown == {path.name: query(path.name) for path in STORY.glob("*.gsql")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "commands"),
    [pytest.param(PAGE, 6, marks=pytest.mark.nightly), (FIRST, 3)],
    ids=["tutorial", "first-result"],
)
def test_every_command_prints_what_follows(page: Path, commands: int, tmp_path: Path) -> None:
    outputs = printed(page, tmp_path)
    assert len(outputs) == commands
    for block, after in pairwise(blocks(page)):
        if after.words == ("text",):
            assert outputs[block.line] == after.text, str(block)


if __name__ == "__main__":
    for written_page in (PAGE, FIRST):
        with tempfile.TemporaryDirectory() as folder:
            written_page.write_text(rewritten(written_page, printed(written_page, Path(folder))), encoding="utf-8")
