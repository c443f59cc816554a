"""Hints of the suites that people write for the rows of a query."""

from __future__ import annotations

from tests.hints.setup import Case, Setup
from tests.replay.support import Said


def _published(setup: Setup) -> Said:
    said = setup.run("backfill", "--lake", setup.lake)
    assert said.code == 0, said
    return setup.run("gx", "--lake", setup.lake)


CASES: list[Case] = [
    Case("a project of nothing", lambda setup: setup.run("gx", "--lake", setup.settle()),
         "publish an interval with `lowwater backfill` first", _published),
]  # fmt: skip
