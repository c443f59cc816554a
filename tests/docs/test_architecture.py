"""ARCHITECTURE.md beside the code: what it names exists."""

from __future__ import annotations

import re

import pytest

from tests.docs.book import ROOT
from tests.test_layout import MODULES, module_name

PAGE = ROOT / "ARCHITECTURE.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:[a-z]\w*\.)+\w+)`", TEXT)))
FOLDERS = sorted(set(re.findall(r"`([\w/]+/)`", TEXT)))
LAKE = {"packets/", "lfta/", "streams/", "tables/", "_work/", "var/"}


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


@pytest.mark.parametrize("name", NAMED)
def test_a_module_that_is_named_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FOLDERS if name not in LAKE])
def test_a_folder_that_is_named_exists(name: str) -> None:
    folders = [path for path in ROOT.glob("*/") if not path.name.startswith((".", "var"))]
    assert any((folder / name).is_dir() for folder in (ROOT, *folders, *(ROOT / "lowwater").rglob("*/")))
