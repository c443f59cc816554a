"""Punctuation closes the parts of a query: while one promise is held back, nothing is evaluated."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lowwater.errors import LowwaterError
from lowwater.high.closing import PlanParts, closed_parts
from lowwater.high.query_runs import HighSettings, run_high
from lowwater.high.runner import Promises, Source
from lowwater.plan.operators import Node
from lowwater.plan.temporal import END_OF_TIME
from tests.high.plans import COUNT, group
from tests.high.streams import FLOWS, SECOND, column, flows, leaf, write_emitted, write_stream

if TYPE_CHECKING:
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


def test_the_least_promise_of_the_links_closes() -> None:
    one, two = ("s", "main1"), ("s", "main2")
    parts: Any = [SimpleNamespace(end=end) for end in (10, 20, 30, 40, END_OF_TIME)]
    plans, promised = {"q": PlanParts(parts, [one, two], 50)}, dict[Source, int]()
    read: list[Promises] = [[(one, 50)], [(two, 29)], [(two, 30)], [(two, 0)]]

    def closed(more: list[Promises]) -> list[list[int]]:
        return [[part.end for _, part in together] for together in closed_parts(plans, promised, iter(more))]

    advances = closed_parts(plans, promised, iter(read))
    assert [[part.end for _, part in next(advances)] for _ in range(5)] == [[], [], [10, 20], [30], []]
    with pytest.raises(LowwaterError, match="query q: the stream of s on link main2 promises up to"):
        next(advances)
    assert closed([[(two, 50)], [(two, 60)]]) == [[10, 20, 30], [40, END_OF_TIME]], "what is promised stays promised"
    assert closed([]) == [[10, 20, 30, 40, END_OF_TIME]]


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
