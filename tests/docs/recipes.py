"""docs/recipes.md: its programs run in the folder of the README. `python -m tests.docs.recipes FOLDER` writes what they
print into the page; read the diff.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.docs.book import ROOT, Block, blocks, without_progress

PAGE = ROOT / "docs" / "recipes.md"
DUCKDB = Path(sys.prefix) / "s3"
"""Packages with a DuckDB that has its extension `delta`: installed for the tests of object stores."""
LOAD = """
from pathlib import Path
import duckdb, duckdb_extension_delta
extension = next(Path(duckdb_extension_delta.__path__[0]).rglob("*.duckdb_extension"))
"""


def examples() -> Iterator[tuple[Block, Block]]:
    """Each program, and the block with what it prints."""
    for block, after in pairwise(blocks(PAGE)):
        if block.words[:2] == ("python", "run"):
            assert after.words == ("text",)
            yield block, after


def printed(block: Block, folder: Path) -> str:
    """What a program prints. That of DuckDB's extension loads the file that is installed, in place of its name."""
    text, path = block.text, [str(ROOT)]
    if "duckdb" in block.words:
        path.insert(0, str(DUCKDB))
        text = LOAD + text.replace('"LOAD delta"', "f\"LOAD '{extension}'\"")
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{block}: {done.stderr}"
    return without_progress(done.stdout).rstrip() + "\n"


def rewrite(folder: Path) -> None:
    """Writes what each program prints."""
    page = PAGE.read_text(encoding="utf-8")
    for block, shown in list(examples()):
        old = f"```python {' '.join(block.words[1:])}\n{block.text}```\n\n```text\n"
        assert page.count(old) == 1
        page = page.replace(f"{old}{shown.text}", f"{old}{printed(block, folder)}")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]))
