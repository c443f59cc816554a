"""Lowwater's own two levels in the experiments: the rows of the model, and what a slice holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments import g2, h1, h2, n3
from experiments.levels import SLICES, held, high, low, planned_query
from experiments.model import Stream, memory

G2_STREAMS = g2.streams(22, 10, 5)
CASES: dict[str, tuple[str, dict[str, Stream], dict[str, tuple[str, ...]]]] = {
    "H1": (h1.QUERY, h1.streams(10, 45), {}),
    "H2": (h2.QUERY, h2.streams(5), h2.SETS),
    "G2": (g2.query(10), G2_STREAMS, {}),
    "N3": (n3.QUERY, n3.streams(1, 60, 420), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_both_levels_give_the_rows_of_the_model(name: str, tmp_path: Path) -> None:
    text, streams, sets = CASES[name]
    query = planned_query(text, tuple(streams), **sets)
    files = low(query.lftas, streams, tmp_path, 1.0)
    found = high(query, files, tmp_path, 1.0, 5)
    assert found.rows == memory(query.logical, streams, "oop").rows > 0
    assert 0 < found.most <= found.low and found.megabytes > 0
    whole = high(query, files, tmp_path, 1.0, 10**9)
    assert (whole.slices, whole.most, whole.rows) == (1, found.low, found.rows)
    assert found.slices > 1 and found.most < whole.most


@pytest.mark.parametrize(("sizes", "holds"), [([40, 50], True), ([40, 61], False), ([0, 0], False), ([], None)])
def test_a_slice_that_follows_the_parameter_turns_the_verdict(sizes: list[int], holds: bool | None) -> None:
    rows: list[Any] = [{"form": SLICES, "slice": size} for size in sizes] + [{"form": "iop", "tuples": 1}, {}]
    assert held(rows, "it").holds is holds
