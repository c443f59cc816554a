"""SECURITY.md: every test that it names is there, and every variable that it lists is passed."""

from __future__ import annotations

import re

import pytest

from tests.replay.support import ROOT

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_row_names_tests_that_are_there() -> None:
    heads = ("| what ", "| --- ")
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(heads)]
    assert len(rows) >= 20
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, name in named:
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"


def test_the_variables_are_those_that_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "plugins")
    from lowwater_airflow.child import NAMED, NAMED_SO, SECRET, STORES

    _, _, about = TEXT.partition("A process that runs the Python of users (")
    listed = set(re.findall(r"`([A-Z_]+\*?)`", about.partition("## ")[0]))
    prefixes = {f"{start}*" for start in (*NAMED_SO, *STORES)}
    assert listed == NAMED | prefixes | {"LOWWATER_NOTIFY*", "LOWWATER_SPARK_SECRET"}
    assert set(SECRET) == {"LOWWATER_NOTIFY", "LOWWATER_SPARK_SECRET"}
