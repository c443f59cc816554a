"""The language reference: every example plans, runs or fails as its page says, and every derived part is current."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lowwater.gsql.words import KEYWORDS
from lowwater.plan.bind.queries import NO_EFFECT, REFUSED, TEXT, WORKS
from tests.docs.book import PAGES, TABLE, WORLDS, Block, derived, every, of, plan, result
from tests.docs.tables import TABLES

LANGUAGES = {"gsql", "toml", "python", "fun", "sh", "text"}
FURTHER = {
    "gsql": {"error", "run", "note", "records", "named", "bug", *WORLDS},
    "text": {"world", "form", *WORLDS},
    "toml": {"world", "records"},
}


def _text() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def _params(found: list[Block]) -> list[Any]:
    bug = pytest.mark.xfail(strict=True, reason="the page says what is right, the code does not do it yet")
    return [pytest.param(block, id=str(block), marks=[bug] if "bug" in block.words else []) for block in found]


PLANNED = [block for block in of("gsql") if not derived(block)]
DERIVED = [block for block in of("gsql") if derived(block)]


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    for block in every():
        assert block.words[0] in LANGUAGES, str(block)
        known = FURTHER.get(block.words[0], set())
        assert all(word in known or "." in word for word in block.words[1:]), str(block)


@pytest.mark.slow
@pytest.mark.parametrize("block", _params(PLANNED))
def test_an_example_plans(block: Block) -> None:
    assert plan(block).queries


@pytest.mark.slow
@pytest.mark.parametrize("block", _params(DERIVED))
def test_what_comes_of_an_example_is_what_the_page_shows(block: Block) -> None:
    assert result(block) == block.result
    assert ("error" in block.words) == (": " in block.result.splitlines()[0] and "note" not in block.words)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_is_that_of_the_catalog(name: str) -> None:
    found = [each for each in TABLE.finditer(_text()) if each["name"] == name]
    assert [each["text"] for each in found] == [TABLES[name]()]


def test_every_option_of_define_is_described() -> None:
    text = _text()
    for name in (*WORKS, *TEXT, *NO_EFFECT, *REFUSED):
        assert f"`{name}`" in text, name


def test_every_keyword_is_named() -> None:
    words = set(re.findall(r"[A-Z_]{2,}", _text()))
    assert set(KEYWORDS) <= words
