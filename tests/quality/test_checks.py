"""The law's audits: each with a stream that passes and one that does not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lowwater.catalog.streams import CONTROL, PUNCTUATION, ROW
from lowwater.quality.checks import is_closed, rows_below_a_promise, rows_not_owned


def stream(*rows: tuple[str, int, int]) -> pa.Table:
    """Rows of (kind, _tick, _last)."""
    names = CONTROL.names
    data = [dict(zip(names, (last, kind, tick, tick, 0), strict=True)) for kind, tick, last in rows]
    return pa.Table.from_pylist(data, schema=CONTROL)


KEPT = stream((ROW, 10, 5), (PUNCTUATION, 10, 6), (ROW, 20, 6), (ROW, 20, 9), (PUNCTUATION, 20, 15), (ROW, 30, 15))


def test_owned_rows_pass_and_others_are_named() -> None:
    assert rows_not_owned(KEPT, 5, 16).num_rows == 0
    assert rows_not_owned(KEPT, 6, 15).column("_last").to_pylist() == [5, 15]


def test_rows_may_equal_a_promise_and_come_with_its_tick_but_not_after_it_from_below() -> None:
    assert rows_below_a_promise(KEPT).num_rows == 0
    broken = pa.concat_tables([KEPT, stream((ROW, 40, 14))])
    assert rows_below_a_promise(broken).column("_tick").to_pylist() == [40]


def test_an_earlier_higher_promise_still_holds() -> None:
    found = rows_below_a_promise(stream((PUNCTUATION, 10, 50), (PUNCTUATION, 20, 30), (ROW, 30, 40)))
    assert found.column("_last").to_pylist() == [40]


@pytest.mark.parametrize(("end", "closed"), [(15, True), (16, False)])
def test_a_stream_is_closed_by_the_promise_of_the_end(end: int, closed: bool) -> None:
    assert is_closed(KEPT, end) is closed
    assert not is_closed(stream((ROW, 10, 5)), 5)
