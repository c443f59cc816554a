"""Every operator of the high level against plain Python, over disordered, lagging and silent links."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest

from lowwater.catalog.values import Type
from lowwater.errors import ValueOverflowError
from lowwater.high.query_runs import HighResult, HighSettings
from lowwater.plan.context import Links
from lowwater.plan.operators import Aggregate, JoinKind, LftaInput, Node, walk
from lowwater.plan.queryset import plan_texts
from tests.high.plans import group, join, select, sum_of
from tests.high.streams import (
    FLOWS,
    SECOND,
    Row,
    binary,
    check_law,
    column,
    epoch,
    flows,
    leaf,
    number,
    read_stream,
    run_high,
    write_stream,
)
from tests.high.test_state_size import regular

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

END = 400 * SECOND
SETTINGS = HighSettings(tick=60 * SECOND, slice_rows=40)
"""As many rows are replayed, although there are few."""
Inputs = Mapping[tuple[str, str], list[str]]


def run(runner: Runner, node: Node, inputs: Inputs, work: Path) -> tuple[list[tuple[Any, ...]], HighResult]:
    """Rows and result of a query with these settings; few rows, as these are, must give the same by default."""
    found = []
    work.mkdir(parents=True, exist_ok=True)
    for chosen in (SETTINGS, HighSettings()):
        result = run_high(runner, {"q": node}, inputs, 0, END, Path(mkdtemp(dir=work)), chosen)["q"]
        check_law(result.files)
        rows, marks = read_stream(result.files)
        assert result.rows == len(rows)
        assert result.punctuation == len(marks)
        assert marks[-1]["_last"] == END
        found.append((rows, result))
    assert same(found[1][0], found[0][0])
    return found[0]


def same(rows: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    """Whether rows are equal, floating-point numbers up to rounding."""
    return len(rows) == len(expected) and all(
        a == b or (isinstance(a, float) and a == pytest.approx(b, rel=1e-9))
        for row, other in zip(rows, expected, strict=True)
        for a, b in zip(row, other, strict=True)
    )


def stored(work: Path, name: str, rows: list[Row]) -> list[str]:
    return write_stream(work / f"{name}.parquet", FLOWS, rows, END, 5 * SECOND)


@pytest.mark.spark
def test_parts_on_spark_give_the_same_rows(runner: Runner, on_spark: Runner, tmp_path: Path) -> None:
    """And errors of a task come back as themselves."""
    sides = {"l": flows(50, 300, seed=19), "r": flows(50, 300, seed=20)}
    inputs = {(n, "main1"): stored(tmp_path, n, rows) for n, rows in sides.items()}
    node = join(JoinKind.OUTER, leaf("l", FLOWS), leaf("r", FLOWS), below=1, above=1)
    here, _ = run(runner, node, inputs, tmp_path / "here")
    there, result = run(on_spark, node, inputs, tmp_path / "there")
    assert there == here and result.batches > 1
    large = binary("*", column("x"), number(1 << 61))
    beyond = group(leaf("l", FLOWS), [(FLOWS[0], column("tb"))], [sum_of("s", binary("+", large, large))])
    with pytest.raises(ValueOverflowError, match="query q, column s: the sum of a group does not fit 64 bits"):
        run(on_spark, beyond, {("l", "main1"): inputs["l", "main1"]}, tmp_path / "beyond")


def test_an_aggregate_in_python_is_evaluated_by_each_runner(each_runner: Runner, tmp_path: Path) -> None:
    text = "SELECT tb, destPort, FIRST(len) AS f, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, destPort"
    node = plan_texts([("q.gsql", text)], Links(("main1",)), 1).queries[0].high
    (below,) = (each for each in walk(node) if isinstance(each, LftaInput))
    rows = regular(below, END)
    inputs = {(below.lfta.name, "main1"): write_stream(tmp_path / "in.parquet", below.lfta.stored, rows, END)}
    found, _ = run(each_runner, node, inputs, tmp_path)
    assert len(found) > 1 and sum(row[-2] for row in found) > 0


def test_sums_are_exact_or_an_error(runner: Runner, tmp_path: Path) -> None:
    most, least = (1 << 63) - 1, -(1 << 63)
    kept = {1: (most, most, -most, -1), 2: (least, most, 1), 3: (-1, -1), 4: (least,), 5: (most,), 6: (None, None)}
    node = group(
        leaf("s", FLOWS),
        [(FLOWS[0], column("tb"))],
        [sum_of("total", column("x")), Aggregate("mean", "avg", column("x"), Type.FLOAT)],
        query="flows",
    )

    def total(values: dict[int, tuple[int | None, ...]]) -> list[tuple[Any, ...]]:
        members = [((tb, 0, None, x), epoch(10).last(tb)) for tb, xs in values.items() for x in xs]
        return run(runner, node, {("s", "main1"): stored(tmp_path, "s", members)}, tmp_path)[0]

    for tb, value, mean, _ in total(kept):
        known = [x for x in kept[tb] if x is not None]
        assert value == (sum(known) if known else None)
        assert mean == (pytest.approx(sum(known) / len(known), rel=1e-9) if known else None)


def test_an_input_without_rows_is_answered_at_once(runner: Runner, tmp_path: Path) -> None:
    node = select(leaf("s", FLOWS), None, {"tb": column("tb")}, FLOWS[:1])
    rows, result = run(runner, node, {("s", "main1"): stored(tmp_path, "s", [])}, tmp_path)
    assert (rows, result.batches, result.punctuation) == ([], 0, 1)
