"""ARCHITECTURE.md beside the code: its diagram of imports is that of the code, and what it names exists."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.docs.book import ROOT, blocks
from tests.test_layout import BELOW_ALL, MODULES, area, imports, module_name

PAGE = ROOT / "ARCHITECTURE.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:[a-z]\w*\.)+\w+)`", TEXT)))
FOLDERS = sorted(set(re.findall(r"`([\w/]+/)`", TEXT)))
LAKE = {"packets/", "lfta/", "streams/", "tables/", "_work/", "var/"}


Edges = set[tuple[str, str]]


def drawn() -> Edges:
    """The arrows of the second diagram: `a --> b & c --> d` are four."""
    diagram = [block.text for block in blocks(PAGE) if block.words == ("mermaid",)][1]
    lines = [[re.findall(r"\w+", group) for group in line.split("-->")] for line in diagram.splitlines()[1:]]
    return {(here, there) for line in lines for above, below in pairwise(line) for here in above for there in below}


def imported() -> Edges:
    """Which package imports which, without the modules that stand beside the packages."""
    pairs = {
        (area(module_name(path)), area(target))
        for path in MODULES
        for target in imports(path)
        if target.startswith("lowwater.") and target != "lowwater.__version__"
    }
    return {(here, there) for here, there in pairs if here != there and not {here, there} & set(BELOW_ALL)}


def reached(edges: Edges, start: str) -> set[str]:
    """Every package to which one arrow or more lead."""
    below = {there for here, there in edges if here == start}
    return below.union(*(reached(edges, package) for package in below))


def reduced(edges: Edges) -> Edges:
    """The arrows that no longer way replaces."""
    return {(here, there) for here, there in edges if there not in reached(edges - {(here, there)}, here)}


def exists(name: str) -> bool:
    """Whether a dotted name is the end of a module's name, or of a name that a module defines."""
    parts = name.split(".")
    for path in MODULES:
        module = module_name(path).split(".")
        if module[-len(parts) :] == parts:
            return True
        if module[-len(parts) + 1 :] == parts[:-1] and re.search(
            rf"^(?:class |def |\s+def )?{parts[-1]}\b", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            return True
    return False


@pytest.mark.slow
def test_the_diagram_of_imports_is_that_of_the_code() -> None:
    assert drawn() == reduced(imported())


@pytest.mark.parametrize("name", NAMED)
def test_a_module_that_is_named_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FOLDERS if name not in LAKE])
def test_a_folder_that_is_named_exists(name: str) -> None:
    folders = [path for path in ROOT.glob("*/") if not path.name.startswith((".", "var"))]
    assert any((folder / name).is_dir() for folder in (ROOT, *folders, *(ROOT / "lowwater").rglob("*/")))
