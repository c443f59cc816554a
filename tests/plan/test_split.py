"""The split and the unsplit plan give the same rows: for every query of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.breadth import some
from tests.plan.batch_plans import plans_of, same_rows
from tests.plan.batch_repository import DECLARED, QUERY_LINKS, READABLE
from tests.plan.batch_worlds import world


@pytest.mark.slow
@pytest.mark.parametrize("path", some(READABLE, 2), ids=lambda path: path.stem)
def test_every_query_has_the_same_rows_before_and_after_the_split(path: Path) -> None:
    # A world has fewer packets than a window of the graph challenge.
    text = path.read_text(encoding="utf-8").replace("131072", "3")
    seen: dict[str, int] = {}
    for seed, (most, lull) in enumerate(((40, 45), (90, 0))):
        for plans in plans_of(text, QUERY_LINKS, DECLARED, (path.parent,)):
            made = world(seed, plans.links, most, lull, catalog=DECLARED.catalog)
            seen[plans.name] = seen.get(plans.name, 0) + same_rows(plans, made).total()
    assert all(seen.values()), f"no world has rows of {[name for name, count in seen.items() if not count]}"
