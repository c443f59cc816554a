"""docs/recipes.md: its programs run in the folder of the README. `python -m tests.docs.recipes FOLDER` writes what they
print into the page; read the diff.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
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


TOGETHER = """
import contextlib, io, json, sys
found = []
for text in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(text, "<example>", "exec"), {"__name__": "__main__"})
    found.append(said.getvalue())
print(json.dumps(found))
"""
"""Runs programs one after the other, none of which sees the names of another: one process, and one JVM for those with
Spark."""


def printed(examples: Sequence[Block], folder: Path) -> list[str]:
    """What each program prints. That of DuckDB's extension has a process of its own, and loads the installed file."""
    usual = [block.text for block in examples if "duckdb" not in block.words]
    said = iter(json.loads(_run(TOGETHER, [ROOT], folder, json.dumps(usual)).splitlines()[-1]) if usual else ())
    found = []
    for block in examples:
        if "duckdb" in block.words:
            text = LOAD + block.text.replace('"LOAD delta"', "f\"LOAD '{extension}'\"")
            found.append(_run(text, [DUCKDB, ROOT], folder))
        else:
            found.append(next(said))
    return [without_progress(each).rstrip() + "\n" for each in found]


def _run(program: str, path: Sequence[Path], folder: Path, given: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "MPLBACKEND": "Agg"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=given, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rewrite(folder: Path) -> None:
    """Writes what each program prints."""
    page = PAGE.read_text(encoding="utf-8")
    programs, shown = zip(*examples(), strict=True)
    for block, before, said in zip(programs, shown, printed(programs, folder), strict=True):
        old = f"```python {' '.join(block.words[1:])}\n{block.text}```\n\n```text\n"
        assert page.count(old) == 1
        page = page.replace(f"{old}{before.text}", f"{old}{said}")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]))
