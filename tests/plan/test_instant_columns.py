"""The instants of temporal columns: which columns have them, and when an epoch or window begins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lowwater.columns.files import instants_of
from lowwater.plan.context import Links
from lowwater.plan.operators import Field
from lowwater.plan.properties import instant_columns
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import CLOCK, Step

T = 1_767_225_600  # 2026-01-01T00:00:00Z


def fields_of(text: str) -> tuple[Field, ...]:
    return plan_texts([("q.gsql", text)], Links(("a", "b"))).queries[-1].high.fields


def starts(text: str, **values: int | None) -> dict[str, int | None]:
    """Instant column -> its value in seconds since 1970, for one row with these temporal values."""
    fields = fields_of(text)
    names = [field.name for field in fields]
    rows = pa.table({name: pa.array([values.get(name)], pa.int64()) for name in names})
    columns = instants_of(rows, fields)
    seconds = [None if (us := column.cast(pa.int64())[0].as_py()) is None else us / 1e6 for column in columns]
    return dict(zip([column.name for column in instant_columns(fields)], seconds, strict=True))


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("SELECT tb, count(*) AS n FROM a.IPV4 GROUP BY time/60 AS tb", {"tb": T // 60}, {"tb_start": T}),
        ("SELECT tb, count(*) AS n FROM a.IPV4 GROUP BY time/60*60 AS tb", {"tb": T}, {"tb_start": T}),
        ("SELECT tb+1 AS u, count(*) AS n FROM a.IPV4 GROUP BY time/60 AS tb", {"u": T // 60 + 1}, {"u_start": T}),
        ("SELECT 0-tb AS u, count(*) AS n FROM a.IPV4 GROUP BY time/60 AS tb", {"u": -T // 60}, {"u_start": T}),
        ("SELECT time, timestamp, len FROM a.IPV4", {"time": T, "timestamp": T * 10**9 + 1_500_000},
         {"time_start": T, "timestamp_start": T + 0.0015}),
        ("SELECT wid, window_start, window_end, count(*) AS n FROM a.IPV4 [RANGE 300, SLIDE 60, WA time]",
         {"wid": T // 60, "window_start": T, "window_end": T + 300},
         {"wid_start": T, "window_start_time": T, "window_end_start": T}),
        ("SELECT wid, count(*) AS n FROM a.IPV4 [RANGE 20, SLIDE 60, WA time]", {"wid": T // 60}, {"wid_start": T}),
        ("SELECT len, count(*) AS n FROM a.IPV4 GROUP BY time/60 AS tb, len", {}, {}),
        ("SELECT tb, count(*) AS n FROM a.IPV4 GROUP BY time/60 AS tb", {"tb": None}, {"tb_start": None}),
    ],
    ids=["minutes", "seconds", "shifted", "decreasing", "clock", "sliding", "sampled", "no time", "NULL"],
)  # fmt: skip
def test_an_instant_is_the_begin_of_the_epoch_or_window(
    text: str, values: dict[str, int | None], expected: dict[str, float | None]
) -> None:
    assert starts(text, **values) == expected


def test_the_begin_is_the_first_instant_with_the_value() -> None:
    """By trying all instants: no earlier one gives the value, and the begin does."""
    for steps in ([("div", 7)], [("add", 3), ("div", 7)], [("div", 4), ("mul", 4)], [("div", 5), ("add", -2)]):
        time = CLOCK.then(*(Step(op, by) for op, by in steps))
        instants = np.arange(20_000, 21_000)
        values = np.array([time.latest(int(at)) for at in instants])
        begins = time.begins
        assert begins is not None
        for value in np.unique(values)[1:-1].tolist():
            assert begins.first(value) == instants[values == value].min()
