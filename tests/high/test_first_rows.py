"""The first rows of each epoch (SEMANTICS O7), by columns: beside plain Python, however the rows come in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.expr import Column, Type
from lowwater.columns.values import Frame, ranks
from lowwater.high.operators import ORDER, top_rows
from lowwater.plan.operators import Field, Item, Order, Top
from lowwater.stream.operators import order_key
from tests.high.streams import FLOWS, SECOND, epoch, leaf

TYPES = {"tb": Type.INT, "k": Type.STRING, "x": Type.FLOAT, "s": Type.STRING}
ARROW = {Type.INT: pa.int64(), Type.STRING: pa.string(), Type.FLOAT: pa.float64()}
NAN = float("nan")
VALUES = {
    "tb": st.integers(0, 2),
    "k": st.sampled_from(("a", "b", None)),
    "x": st.sampled_from((None, NAN, -0.0, 0.0, 1.5, -2.0)),
    "s": st.sampled_from(("", "a", "é", "~", None)),
}
ROWS = st.lists(st.tuples(*VALUES.values()), max_size=30)


def column(name: str) -> Column:
    return Column(TYPES[name], name)


def node(keys: Sequence[str], order: Sequence[Order], count: int, ties: bool) -> Top:
    fields = tuple(Field(name, kind, epoch(10) if name == "tb" else None) for name, kind in TYPES.items())
    below = leaf("q", FLOWS)
    items = tuple(Item(name, column(name)) for name in TYPES)
    key_fields = tuple(field for field in fields if field.name in keys)
    keyed = tuple(Item(name, column(name)) for name in keys)
    return Top("q", fields, below, keyed, key_fields, tuple(order), count, ties, items)


def frame(rows: Sequence[tuple[Any, ...]]) -> Frame:
    """Rows whose canonical order is that of their columns."""
    columns = {name: pa.array([row[at] for row in rows], ARROW[kind]) for at, (name, kind) in enumerate(TYPES.items())}
    canonical = {f"{ORDER}{at}": columns[name] for at, name in enumerate(("tb", *TYPES))}
    return Frame(columns | canonical, len(rows))


def plainly(top: Top, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The first rows by sorting in Python."""
    names, parts = list(TYPES), {}  # type: ignore[var-annotated]
    for row in rows:
        parts.setdefault(tuple(order_key(row[names.index(item.name)]) for item in top.keys), []).append(row)
    found = []
    for part in parts.values():
        part.sort(key=lambda row: tuple(map(order_key, row)))
        for order in reversed(top.order):
            at = names.index(order.expr.name)  # type: ignore[attr-defined]
            part.sort(key=lambda row, at=at: order_key(row[at]), reverse=order.descending)
            part.sort(key=lambda row, at=at, order=order: (row[at] is None) is not order.nulls_first)
        places = [names.index(order.expr.name) for order in top.order]  # type: ignore[attr-defined]
        border = [order_key(part[: top.count][-1][at]) for at in places]
        more = [row for row in part[top.count :] if top.ties and [order_key(row[at]) for at in places] == border]
        found += part[: top.count] + more
    return found


def shown(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Rows in an order of their own, with one zero and one NaN."""
    return sorted(repr(tuple(value + 0.0 if isinstance(value, float) else value for value in row)) for row in rows)


ORDERS = st.lists(
    st.builds(Order, st.sampled_from(("x", "s", "k")).map(column), st.booleans(), st.booleans()), min_size=1, max_size=2
)


@given(ROWS, st.sampled_from((("tb",), ("tb", "k"))), ORDERS, st.integers(1, 4), st.booleans(), st.integers(1, 9))
def test_first_rows_are_those_of_sorting(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[Any, ...]],
    keys: Sequence[str],
    order: list[Order],
    count: int,
    ties: bool,
    size: int,
) -> None:
    top = node(keys, order, count, ties)
    blocks = [frame(rows[at : at + size]) for at in range(0, len(rows), size)]
    folder = tmp_path_factory.mktemp("spill") / "rows"
    found = [row for part in top_rows(top, blocks, folder, most=5) for row in _rows(part)]
    assert shown(found) == shown(plainly(top, rows))


def _rows(part: Frame) -> list[tuple[Any, ...]]:
    return list(zip(*(part[name].to_pylist() for name in TYPES), strict=True))


def test_what_waits_grows_with_the_keys_and_not_with_the_rows(tmp_path: Path) -> None:
    top = node(("tb",), [Order(column("x"), descending=True)], 3, False)
    blocks = (frame([(tb, "a", float(number % 97), str(number)) for tb in (0, 1)]) for number in range(100))
    (part,) = top_rows(top, blocks, tmp_path / "spill", most=10)
    assert part.rows == 6 and not (tmp_path / "spill").exists()
    assert sorted(part["_last"].to_pylist()) == [10 * SECOND - 1] * 3 + [20 * SECOND - 1] * 3


def test_a_tie_at_the_border_goes_by_the_canonical_order(tmp_path: Path) -> None:
    rows = [(0, key, 1.0, text) for key in ("b", "a", None) for text in ("z", "y")]
    top = node(("tb",), [Order(column("x"))], 3, False)
    (part,) = top_rows(top, [frame(rows)], tmp_path)
    assert sorted(_rows(part), key=repr) == [(0, "a", 1.0, "y"), (0, None, 1.0, "y"), (0, None, 1.0, "z")]
    (all_of_them,) = top_rows(node(("tb",), [Order(column("x"))], 3, True), [frame(rows)], tmp_path)
    assert all_of_them.rows == 6


def test_ranks_of_nothing() -> None:
    assert ranks(pa.array([], pa.int64())).tolist() == []
