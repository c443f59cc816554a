"""Lags of promises against their definition, tick by tick."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.replay.telemetry import _lag

EVENTS = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90), st.integers(0, 20)), min_size=1, max_size=12)


@given(EVENTS)
def test_a_lag_is_the_time_since_the_largest_promise(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[int, int, int]]
) -> None:
    """Events are (tick, promise, length of the lull), in which the promise rises with the clock."""
    told: list[tuple[int, int, int]] = []
    for tick, promise, lull in sorted(events):
        if not told or told[-1][0] + told[-1][2] < tick:  # a lull ends before the next punctuation
            told.append((tick, max(promise, told[-1][1] + told[-1][2] if told else 0), lull))
    moments = np.arange(0, 100, 7)
    (found,) = _lag("LFTA", "n", "a", [written(tmp_path_factory.mktemp("lag") / "stream.parquet", told)], moments, 3, 0)
    expected = []
    for moment in moments.tolist():
        promises = [promise + min(moment, tick + lull) - tick for tick, promise, lull in told if tick <= moment]
        expected.append(max(0, moment - max(promises, default=0)))
    assert list(found.series) == expected
    assert (found.most, found.before) == (max(expected), 3)


def written(path: Path, told: list[tuple[int, int, int]]) -> Path:
    rows = [
        {"_kind": PUNCTUATION, "_tick": tick, "_until": tick + lull, "_last": promise} for tick, promise, lull in told
    ]
    rows.append({"_kind": ROW, "_tick": 0, "_until": 0, "_last": 1 << 60})
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path
