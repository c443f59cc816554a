"""Where the product makes errors with a hint, and which of these places the cases of hints come to."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from lowwater import errors
from tests.replay.support import ROOT

Site = tuple[str, str]
"""File below the project, and the qualified name of the function that makes an error with a hint."""

FOLDERS = ("lowwater", "editor", "generator", "notebook", "plugins", "review", "dags")
MAKERS = {
    "fault": 1, "_fault": 1, "refusal": 1, "error": 2, "unsupported": 2, "lake_error": 2, "error_at": 3, "_wrong": 3,
    "_error": 3,
}  # fmt: skip
"""Functions that make errors for others, which are the sites; at which place of their arguments the hint is."""


@contextmanager
def recorded() -> Iterator[set[Site]]:
    """Records where errors with a hint are made."""
    seen: set[Site] = set()
    plain = errors.LowwaterError.__init__

    def init(self: Any, message: str, hint: str = "") -> None:
        plain(self, message, hint)
        if hint:
            frame = sys._getframe(1)
            while _makes(frame) and frame.f_back is not None:
                frame = frame.f_back
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT):
                function = frame.f_code.co_qualname.split(".<locals>.<")[0]  # not the comprehension in it
                seen.add((path.relative_to(ROOT).as_posix(), function))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors.LowwaterError, "__init__", init)
        yield seen


def _makes(frame: FrameType) -> bool:
    """Whether a frame only makes an error for its caller: the initialiser of an error, or one of MAKERS."""
    name = frame.f_code.co_name
    return name in MAKERS or (name == "__init__" and isinstance(frame.f_locals.get("self"), errors.LowwaterError))


def sites() -> dict[Site, list[str]]:
    """Every function of the source that makes an error with a hint, with the hints as they are written."""
    found: dict[Site, list[str]] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            _of(path, ast.parse(path.read_text(encoding="utf-8")), "", found)
    return found


def _of(path: Path, node: ast.AST, within: str, found: dict[Site, list[str]]) -> None:
    for child in ast.iter_child_nodes(node):
        name = within
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{within}{child.name}.<locals>."
        elif isinstance(child, ast.ClassDef):
            name = f"{within}{child.name}."
        if isinstance(child, ast.Call):
            hint, site = _hint(child), (path.relative_to(ROOT).as_posix(), within.removesuffix(".<locals>."))
            if hint and site[1].rpartition(".")[2] not in MAKERS:
                found.setdefault(site, []).append(hint)
        _of(path, child, name, found)


def _hint(call: ast.Call) -> str:
    """The hint of a call that makes an error, as it is written; empty for none."""
    called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if called in vars(builtins):  # an OSError of ours has its text there
        return ""
    place = 1 if called.endswith("Error") else MAKERS.get(called, len(call.args))
    found = ast.unparse(call.args[place]) if len(call.args) > place else ""
    return "" if found == "''" else found
