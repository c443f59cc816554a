"""The language reference as a program: its examples, the world that they read, and its generated tables."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.user_functions import load_functions
from lowwater.config import Config, Link
from lowwater.errors import LowwaterError
from lowwater.gsql.declarations import parse_declarations
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from tests.docs.tables import TABLES
from tests.replay.drawings import write_captures

ROOT = Path(__file__).resolve().parents[2]
FIRST = ROOT / "docs" / "language.md"
PAGES = (
    FIRST,
    *sorted((ROOT / "docs" / "language").glob("*.md")),
    *(ROOT / "docs" / name for name in ("dialect.md", "cookbook.md")),
)
BEGIN = 1_200_000
"""Second 0 of the world, in seconds since the epoch: minute 20000 begins there."""

FENCE = re.compile(r"^```(?P<info>[^\n`]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?P<open><!-- table: (?P<name>\w+) -->\n)(?P<text>.*?)(?P<close><!-- end -->)", re.DOTALL)
WORLDS = ("flow", "hellos", "web")
"""Other packets than those of the world, by the word of their block and of the examples that read them."""
DERIVED = ("error", "run", "note")
"""Words of gsql blocks that are followed by what comes of them; with `bug` by what should come of them."""


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: Path
    line: int
    words: tuple[str, ...]
    text: str
    result: str = ""

    def __str__(self) -> str:
        return f"{self.page.stem}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order, results with their examples."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(page, text.count("\n", 0, each.start()) + 1, tuple(each["info"].split()), each["text"])
        for each in FENCE.finditer(text)
    ]
    followers = [*found, None][1:]
    return [
        replace(block, result=after.text) if after and after.words == ("text",) and derived(block) else block
        for block, after in zip(found, followers, strict=True)
    ]


def program(folder: Path, variables: str = "") -> Path:
    """A folder with the command `lowwater`, which this interpreter runs."""
    folder.mkdir(parents=True)
    (folder / "lowwater").write_text(f'#!/bin/sh\n{variables} exec "{sys.executable}" -m lowwater.cli.main "$@"\n')
    (folder / "lowwater").chmod(0o755)
    return folder


def shell(block: Block, work: Path, *folders: Path) -> str:
    """What the commands of a block print in a folder; `lowwater` is looked for in these folders first."""
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    command = ["sh", "-e", "-c", block.text]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"
    return done.stdout


def without_progress(printed: str) -> str:
    """What a program prints, without the bars that DuckDB draws on a busy machine, and the line before each."""
    return re.sub(r"\n?[^\n]*▕[^\n]*\n", "", printed)


def make_targets() -> set[str]:
    """The targets of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return {name for names in re.findall(r"^([a-z -]+):", text, re.MULTILINE) for name in names.split()}


def derived(block: Block) -> bool:
    """Whether the block after this one is what comes of it."""
    return block.words[0] == "gsql" and any(word in DERIVED for word in block.words)


@cache
def every() -> tuple[Block, ...]:
    """The blocks of all pages."""
    return tuple(block for page in PAGES for block in blocks(page))


def of(*words: str) -> list[Block]:
    """The blocks whose info string begins so."""
    return [block for block in every() if block.words[: len(words)] == words]


def links(*, records: bool = False) -> Links:
    """The links of the world, as the pages write them in TOML; with `records` also those of other kinds."""
    written: dict[str, Any] = {"links": {}, "sets": {}}
    for block in of("toml", "world") + (of("toml", "records") if records else []):
        read = tomllib.loads(block.text)
        written["links"] |= {name: written["links"].get(name, {}) | own for name, own in read["links"].items()}
        written["sets"] |= {name: tuple(members) for name, members in read.get("sets", {}).items()}
    every_link = written["links"]
    return Links(
        tuple(sorted(every_link)),
        written["sets"],
        {name: each["properties"] for name, each in every_link.items() if "properties" in each},
        {name: each["kind"] for name, each in every_link.items() if "kind" in each},
    )


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="lowwater-book-")
    atexit.register(folder.cleanup)
    for block in every():
        name = block.words[-1]
        if len(block.words) > 1 and name.endswith((".py", ".fun", ".gsql")):
            path = Path(folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    write_captures(of("text", "world")[0].text, BEGIN, Path(folder.name))
    for name in WORLDS:
        other = Path(folder.name) / name
        other.mkdir()
        write_captures(of("text", name)[0].text, BEGIN, other)
    return folder


def folder() -> Path:
    """The named files of the pages and the captures of the world; removed when the process ends."""
    return Path(_folder().name)


def plan(block: Block) -> Plan:
    """The plan of an example."""
    return plan_texts(
        [("example.gsql", block.text)], links(records="records" in block.words), None, _context(), (folder(),)
    )


@cache
def _context() -> Context:
    declared = [*sorted(folder().glob("*.fun")), ROOT / "examples" / "functions" / "duplicates.fun"]
    return Context(catalog=CATALOG.extended(load_functions(declared, parse_declarations)))


def result(block: Block) -> str:
    """What comes of an example: its rows as CSV, its notes, or its errors as they are shown."""
    if "note" in block.words:
        return "".join(f"{note.query}: {note}\n" for note in plan(block).notes)
    if "run" in block.words:
        return _rows(plan(block), next((folder() / name for name in WORLDS if name in block.words), folder()))
    try:
        plan(block)
    except LowwaterError as error:
        return f"{error}\n".replace(str(folder()), "queries")
    return "it plans\n"


def _rows(queries: Plan, where: Path) -> str:
    names = [name for name in sorted(links().names or ()) if (where / f"{name}.pcap").exists()]
    captures = [(name, where / f"{name}.pcap") for name in names]
    with tempfile.TemporaryDirectory() as out:
        request = RunRequest(
            queries, Config(links={name: Link() for name in names}), captures, Path(out), engine="reference"
        )
        run(request, Progress(quiet=True))
        texts = [(Path(out) / f"{query.name}.csv").read_text(encoding="utf-8") for query in queries.queries]
    names = [query.name for query in queries.queries]
    return texts[0] if len(texts) == 1 else "\n".join(f"{n}.csv\n{t}" for n, t in zip(names, texts, strict=True))


def rewritten(page: Path) -> str:
    """The text of a page with everything derived made anew."""
    text = page.read_text(encoding="utf-8")
    for block in reversed(blocks(page)):
        if derived(block) and "bug" not in block.words:
            text = _with_result(text, block)
    return TABLE.sub(lambda found: f"{found['open']}{TABLES[found['name']]()}{found['close']}", text)


def _with_result(text: str, block: Block) -> str:
    start = sum(len(line) for line in text.splitlines(keepends=True)[: block.line - 1])
    example, after = list(FENCE.finditer(text, start))[:2]
    if after["info"] != "text" or text[example.end() : after.start()].strip():
        raise ValueError(f"{block}: no text block follows")
    return f"{text[: after.start()]}```text\n{result(block)}```{text[after.end() :]}"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rewritten(page), encoding="utf-8")
