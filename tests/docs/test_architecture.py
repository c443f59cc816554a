"""The diagram of imports in ARCHITECTURE.md is that of the code: no arrow is missing, and none is implied by others."""

from __future__ import annotations

import re

from tests.docs.book import ROOT, blocks
from tests.test_layout import BELOW_ALL, MODULES, area, imports, module_name

Edges = set[tuple[str, str]]


def drawn() -> Edges:
    """The arrows of the second diagram: `a --> b & c --> d` are four."""
    diagrams = [block.text for block in blocks(ROOT / "ARCHITECTURE.md") if block.words == ("mermaid",)]
    found: Edges = set()
    for line in diagrams[1].splitlines()[1:]:
        groups = [re.findall(r"\w+", group) for group in line.split("-->")]
        for above, below in zip(groups, groups[1:], strict=False):
            found |= {(one, other) for one in above for other in below}
    return found


def imported() -> Edges:
    """Which package imports which, without the modules that stand beside the packages."""
    pairs = {
        (area(module_name(path)), area(target))
        for path in MODULES
        for target in imports(path)
        if target.startswith("lowwater.")
    }
    return {(here, there) for here, there in pairs if here != there and not {here, there} & set(BELOW_ALL)}


def reached(edges: Edges, start: str) -> set[str]:
    """Every package that can be reached by one arrow or more."""
    below = {there for here, there in edges if here == start}
    return below.union(*(reached(edges, each) for each in below))


def reduced(edges: Edges) -> Edges:
    """The edges that no longer way replaces."""
    return {(here, there) for here, there in edges if there not in reached(edges - {(here, there)}, here)}


def test_the_diagram_of_imports_is_that_of_the_code() -> None:
    edges = {pair for pair in imported() if pair[1] != "__version__"}
    assert drawn() == reduced(edges)


def test_an_arrow_that_others_imply_is_left_out() -> None:
    assert reduced({("a", "b"), ("b", "c"), ("a", "c")}) == {("a", "b"), ("b", "c")}
