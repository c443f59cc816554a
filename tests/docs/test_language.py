"""The language reference: every example plans, runs or fails as its page says, and every derived part is current."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lowwater.cli.main import cli
from lowwater.config import load_config
from lowwater.gsql.words import KEYWORDS
from lowwater.plan.bind.binder import NO_EFFECT, REFUSED, TEXT, WORKS
from tests.docs.book import FIRST, PAGES, TABLE, Block, derived, every, folder, of, plan, result
from tests.docs.tables import TABLES

LANGUAGES = {"gsql", "toml", "python", "fun", "sh", "text"}
FURTHER = {
    "gsql": {"error", "run", "note", "records", "named", "bug", "hellos"},
    "text": {"world", "form", "hellos"},
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


@pytest.mark.parametrize("block", _params(of("toml")))
def test_settings_can_be_read(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "lowwater.toml"
    path.write_text(block.text, encoding="utf-8")
    config = load_config(path=path)
    assert set(config.links) == set(tomllib.loads(block.text)["links"])


@pytest.mark.parametrize("block", _params(of("python")))
def test_python_can_be_imported(block: Block) -> None:
    spec = importlib.util.spec_from_file_location("example", folder() / block.words[-1])
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


COMMANDS = [line for block in of("sh") for line in block.text.splitlines() if line]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_has_these_options_and_files(line: str) -> None:
    program, name, *rest = shlex.split(line, comments=True)
    assert program == "lowwater"
    options = {option: each for each in cli.commands[name].params for option in each.opts}
    for at, word in enumerate(rest):
        if word.startswith("-"):
            assert word in options
            choices = getattr(options[word].type, "choices", None)
            assert choices is None or rest[at + 1] in choices
        elif word.endswith((".gsql", ".fun")):
            assert (FIRST.parents[1] / word).is_file()


def test_every_option_of_define_is_described() -> None:
    text = _text()
    for name in (*WORKS, *TEXT, *NO_EFFECT, *REFUSED):
        assert f"`{name}`" in text, name


def test_every_keyword_is_named() -> None:
    words = set(re.findall(r"[A-Z_]{2,}", _text()))
    assert set(KEYWORDS) <= words
