"""Punctuation closes the parts of a query: while one promise is held back, nothing is evaluated."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.errors import LowwaterError
from lowwater.high.closing import Closing, closed_parts
from lowwater.high.process import InProcess
from lowwater.high.query_runs import HighSettings, run_high
from lowwater.high.runner import Outcomes, PlanParts, Promises
from lowwater.plan.operators import Node
from tests.high.plans import COUNT, group
from tests.high.streams import FLOWS, SECOND, column, flows, leaf, write_emitted, write_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lowwater.high.runner import Runner

END = 60 * SECOND
LINKS = ("main1", "main2")
SETTINGS = HighSettings(tick=SECOND, slice_rows=10, shares=1)


def grouped() -> Node:
    return group(leaf("s", FLOWS, LINKS), [(FLOWS[0], column("tb")), (FLOWS[1], column("k"))], [COUNT])


def inputs(folder: Path) -> dict[tuple[str, str], list[str]]:
    """The streams of two links."""
    streams = {link: (folder / f"{link}.parquet", flows(50, 50, seed=seed)) for seed, link in enumerate(LINKS)}
    return {("s", link): write_stream(file, FLOWS, rows, END) for link, (file, rows) in streams.items()}


class Watching(InProcess):
    """The runner of this process, and the plans that it was given."""

    plans: Mapping[str, PlanParts]
    read: list[Promises]

    def evaluate(self, plans: Mapping[str, PlanParts], promises: Iterable[Promises]) -> Outcomes:
        self.plans, self.read = plans, [*promises]
        return super().evaluate(plans, self.read)


def test_the_least_promise_of_the_links_closes(tmp_path: Path) -> None:
    runner = Watching()
    run_high(runner, {"q": grouped()}, inputs(tmp_path), 0, END, tmp_path, SETTINGS)
    plans = runner.plans
    parts = plans["q"].parts
    found = chain.from_iterable(closed_parts(plans, runner.read))
    assert len(parts) > 4 and [part for _, part in found] == list(parts)
    closing = Closing(plans)
    one, two = ("s", "main1"), ("s", "main2")
    assert list(closing.advance(one, END)) == [], "the other link has promised nothing"
    assert list(closing.advance(two, parts[2].slice_.end - 1)) == [("q", part) for part in parts[:2]]
    assert list(closing.advance(two, parts[2].slice_.end)) == [("q", parts[2])]
    assert list(closing.advance(two, 0)) == [], "a promise is never taken back"
    with pytest.raises(LowwaterError, match="query q: the stream of s on link main2 promises up to"):
        closing.require_all()
    assert list(closing.advance(two, END)) == [("q", part) for part in parts[3:]]
    closing.require_all()


def test_nothing_closes_while_a_promise_is_held_back(each_runner: Runner, tmp_path: Path) -> None:
    held, files = tmp_path / "held", inputs(tmp_path)
    files["s", "main2"] = write_emitted(tmp_path / "held.parquet", FLOWS, [(1, (0, 1, None, 1), 0)], [])
    said = "query q: the stream of s on link main2 promises up to 1970-01-01T00:00:00.000000001Z only"
    with pytest.raises(LowwaterError, match=said) as failed:
        run_high(each_runner, {"q": grouped()}, files, 0, END, held, SETTINGS)
    assert failed.value.hint == "run the low stage again"
    assert [*held.rglob("*.parquet")] == []
    files["s", "main2"] = inputs(tmp_path)["s", "main2"]
    result = run_high(each_runner, {"q": grouped()}, files, 0, END, tmp_path / "let go", SETTINGS)["q"]
    assert result.rows > 0 and result.batches > 4
