"""The folders of the editors: what they name is there, and colours follow the keywords of the language."""

from __future__ import annotations

import json
import re

import pytest

from lowwater.cli.main import cli
from tests.docs.book import ROOT
from tests.editor.extension import FOLDER, GRAMMAR, JOINS, text


def test_the_grammar_has_the_keywords_of_the_language() -> None:
    assert GRAMMAR.read_text(encoding="utf-8") == text(), "run `make goldens`"


def test_the_extension_names_files_that_are_there_and_the_command() -> None:
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    contributed = package["contributes"]
    named = [package["main"], contributed["languages"][0]["configuration"], contributed["grammars"][0]["path"]]
    assert all((FOLDER / name).is_file() for name in named)
    assert contributed["languages"][0]["extensions"] == [".gsql"]
    settings = contributed["configuration"]["properties"]
    assert settings["lowwater.command"]["default"] == "lowwater"
    assert all(each["scope"] == "machine" for each in settings.values()), (
        "a folder must not name the program that is run"
    )
    assert "lsp" in cli.commands
    assert '"lsp"' in (FOLDER / "extension.js").read_text(encoding="utf-8")
    assert '{ "lowwater", "lsp" }' in (ROOT / "editors" / "neovim" / "lowwater.lua").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("FROM a.TCP A LEFT OUTER JOIN b.TCP B ON A.time = B.time", ["LEFT OUTER JOIN", "ON"]),
        ("FROM a.TCP A ASOF LEFT JOIN b.TCP B ON A.time = B.time", ["ASOF LEFT JOIN", "ON"]),
        ("FROM a.TCP A ASOF ONCE LEFT JOIN b.TCP B ON A.time = B.time", ["ASOF ONCE LEFT JOIN", "ON"]),
        ("FROM a.TCP A LEFT SEMI JOIN b.TCP B USING (time)", ["LEFT SEMI JOIN", "USING"]),
        ("from a.TCP A full join b.TCP B using(time)", ["full join", "using"]),
        ("SELECT A.on, left, A.using FROM left.TCP A", []),
    ],
)
def test_the_words_of_joins_have_the_colour_of_keywords(query: str, words: list[str]) -> None:
    assert [found[0] for found in re.finditer(f"(?i:{JOINS})", query)] == words
