"""The doors to the documents: links lead somewhere, the index names every page, glossary and papers are whole."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from lowwater.config import Link
from lowwater.lake.words import WORDS
from lowwater.replay.interval import STAGES
from tests.docs.book import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "queries").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
KINDS = ["Tutorial", "How-to", "Reference", "Explanation"]
NEEDED = {
    *("interval", "LFTA", "HFTA", "lake", "ledger", "quarantine", "coverage", "heartbeat", "query set", "watch list"),
    *("epoch", "temporal attribute", "clock", "arrival", "lateness", "gap", "low level", "high level"),
}


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """What headings of a page are called in links: small letters, hyphens, no punctuation."""
    prose = re.sub(r"^```.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def rows(page: Path) -> list[list[str]]:
    """The cells of all tables of a page, without their heads."""
    found = [line for line in text(page).splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line, after in zip(found, [*found[1:], ""], strict=True)
        if not set(line) <= set("|- ") and not (after and set(after) <= set("|- :"))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, heading in LINK.findall(text(page)):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{target} is not there"
        assert path.is_relative_to(ROOT), f"{target} is not of this project"
        assert not heading or heading in anchors(path), f"{target} has no heading #{heading}"


def test_the_index_has_every_document_in_one_of_four_kinds() -> None:
    index = DOCS / "index.md"
    assert re.findall(r"^## (.*)$", text(index), re.MULTILINE) == KINDS
    entries = [line.strip() for line in text(index).splitlines() if line.lstrip().startswith("* ")]
    assert all(re.match(r"\* \[.*\]\([^)]+\): \S.*\.$", entry) for entry in entries)
    linked = {(DOCS / target).resolve() for entry in entries for target, _ in LINK.findall(entry)}
    pages = {page.resolve() for page in PAGES if page.is_relative_to(DOCS) or page.parent == ROOT}
    missing = {page for page in pages if page != index and page.parent != DOCS / "adr"} - linked
    assert not missing, f"docs/index.md lacks {sorted(str(page.relative_to(ROOT)) for page in missing)}"
    assert DOCS / "adr" / "README.md" in linked


def test_the_glossary_explains_every_state_stage_and_policy() -> None:
    terms = Counter(row[0].strip("`").partition(",")[0] for row in rows(DOCS / "glossary.md"))
    assert {term for term, count in terms.items() if count > 1} == set()
    assert {*WORDS, *STAGES, *NEEDED} - set(terms) == set()
    (policy,) = (row[2] for row in rows(DOCS / "glossary.md") if row[0] == "policy")
    for name in get_args(Link.model_fields["policy"].annotation):
        assert f"`{name}`" in policy


def test_the_list_of_decisions_has_each_by_its_title() -> None:
    decisions = [(page.name, text(page).splitlines()[0]) for page in sorted((DOCS / "adr").glob("0*.md"))]
    rooms = text(DOCS / "adr" / "README.md").split("\n## ")[1:]
    listed = [re.findall(r"^\* \*\*(\d+)\*\* \[(.*)\]\((0.*?\.md)\)$", room, re.MULTILINE) for room in rooms]
    assert all(room == sorted(room, key=lambda line: int(line[0])) for room in listed)
    assert sorted((name, f"# {number}. {title}") for room in listed for number, title, name in room) == decisions


@pytest.mark.slow
def test_what_cites_a_decision_cites_one_that_is_there() -> None:
    numbers = {int(page.name[:4]) for page in (DOCS / "adr").glob("0*.md")}
    folders = (
        "benchmarks", "editor", "experiments", "expectations", "generator", "lowwater", "notebook", "plugins", "review",
        "tests",
    )  # fmt: skip
    for page in [*PAGES, ROOT / "Makefile", *(page for folder in folders for page in (ROOT / folder).rglob("*.py"))]:
        cited = {int(number) for number in re.findall(r"(?:\bADR\s+|docs/adr/)(\d+)", text(page))}
        assert cited <= numbers, page
