"""Hints of the suites that people write for the rows of a query."""

from __future__ import annotations

from tests.hints.desk import Case, Desk
from tests.replay.support import Said


def _published(desk: Desk) -> Said:
    said = desk.run("backfill", "--lake", desk.lake)
    assert said.code == 0, said
    return desk.run("gx", "--lake", desk.lake)


CASES: list[Case] = [
    Case(
        "a project of nothing",
        lambda desk: desk.run("gx", "--lake", desk.settle()),
        "publish an interval with `lowwater backfill` first",
        _published,
    ),
]
