"""Every operator of the high level against plain Python, over disordered, lagging and silent links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest

from lowwater.catalog.expr import Const, Expr, Type
from lowwater.errors import ValueOverflowError
from lowwater.high.query_runs import HighResult, HighSettings, run_high
from lowwater.plan.context import Links
from lowwater.plan.operators import Aggregate, Field, JoinKind, LftaInput, Node, Union, walk
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import CLOCK, Step
from tests.high.plans import COUNT, group, join, joined, select, sum_of
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
    order,
    read_stream,
    write_stream,
)
from tests.high.test_state_size import regular

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

END = 400 * SECOND
SETTINGS = HighSettings(tick=60 * SECOND, slice_rows=40)
"""As many rows are replayed, although there are few."""
NAMES = [f.name for f in FLOWS]
Inputs = Mapping[tuple[str, str], list[str]]


def run(
    runner: Runner, node: Node, inputs: Inputs, work: Path, start: int = 0, settings: HighSettings = SETTINGS
) -> tuple[list[tuple[Any, ...]], HighResult]:
    """Rows and result of a query with these settings; few rows, as these are, must give the same by default."""
    found = []
    work.mkdir(parents=True, exist_ok=True)
    for chosen in (settings, HighSettings()):
        result = run_high(runner, {"q": node}, inputs, start, END, Path(mkdtemp(dir=work)), chosen)["q"]
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


def stored(work: Path, name: str, rows: list[Row], link: str = "main1", delay: int = 0, seed: int = 0) -> list[str]:
    return write_stream(work / f"{name}-{link}.parquet", FLOWS, rows, END, 5 * SECOND, delay, seed)


def test_a_selection_merges_links_of_which_one_is_silent(runner: Runner, tmp_path: Path) -> None:
    first, second = flows(150, 300, seed=1), flows(80, 100, seed=2)
    inputs = {
        ("s", "a"): stored(tmp_path, "s", first, "a", delay=40 * SECOND),
        ("s", "b"): stored(tmp_path, "s", second, "b"),
        ("s", "c"): stored(tmp_path, "s", [], "c"),
    }
    items = {"tb": binary("+", column("tb"), number(1)), "ip": column("ip", Type.IP)}
    fields = (Field("tb", Type.INT, epoch(10).then(Step("add", 1))), Field("ip", Type.IP))
    wanted = binary(
        "AND", binary(">", column("x"), number(2), Type.BOOL), binary("<>", column("k"), number(1), Type.BOOL)
    )
    node = select(leaf("s", FLOWS, ("a", "b", "c")), wanted, items, fields)
    rows, result = run(runner, node, inputs, tmp_path)
    expected = [
        (tb + 1, ip, last)
        for (tb, k, ip, x), last in first + second
        if x is not None and x > 2 and k is not None and k != 1
    ]
    assert rows == sorted(expected, key=order)
    assert [o.counts for o in result.operators] == [{"rows_in": 230, "rows_out": len(expected)}]


def test_partial_groups_of_two_links_merge_exactly(runner: Runner, tmp_path: Path) -> None:
    parts = {"a": flows(200, 300, seed=3), "b": flows(200, 300, seed=4)}
    inputs = {("s", link): stored(tmp_path, "s", rows, link, 30 * SECOND, 9) for link, rows in parts.items()}
    x = column("x")
    aggregates = [
        COUNT,
        sum_of("total", x),
        Aggregate("low", "min", x, Type.INT),
        Aggregate("high", "max", x, Type.INT),
        Aggregate("mean", "avg", x, Type.FLOAT),
        Aggregate("first_ip", "min", column("ip", Type.IP), Type.IP),
    ]
    keys = [(Field("minute", Type.INT, epoch(60)), binary("/", column("tb"), number(6))), (FLOWS[1], column("k"))]
    having = binary(">=", column("n"), number(5), Type.BOOL)
    rows, result = run(runner, group(leaf("s", FLOWS, ("a", "b")), keys, aggregates, having), inputs, tmp_path)
    groups: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for (tb, k, ip, value), _ in parts["a"] + parts["b"]:
        groups[tb // 6, k].append((value, ip))
    expected = []
    for (minute, k), members in groups.items():
        values = [value for value, _ in members if value is not None]
        addresses = [ip for _, ip in members if ip is not None]
        if len(members) >= 5:
            found = (sum(values), min(values), max(values), sum(values) / len(values)) if values else (None,) * 4
            expected.append((minute, k, len(members), *found, min(addresses, default=None), epoch(60).last(minute)))
    assert rows == sorted(expected, key=order)
    assert result.operators[0].counts == {"rows_in": 400, "groups": len(groups), "rows_out": len(expected)}


@pytest.mark.parametrize("kind", list(JoinKind))
def test_equality_joins_with_null_keys_and_a_lagging_side(runner: Runner, tmp_path: Path, kind: JoinKind) -> None:
    left, right = flows(60, 300, seed=5), flows(60, 380, seed=6)
    inputs = {
        ("l", "main1"): stored(tmp_path, "l", left, delay=90 * SECOND, seed=1),
        ("r", "main1"): stored(tmp_path, "r", right),
    }
    residual = binary("<>", binary("+", column("l.x"), column("r.x")), number(3), Type.BOOL)
    node = join(kind, leaf("l", FLOWS), leaf("r", FLOWS), residual=residual)
    rows, result = run(runner, node, inputs, tmp_path)

    def meets(a: dict[str, Any], b: dict[str, Any]) -> bool:
        fits = a["x"] is not None and b["x"] is not None and a["x"] + b["x"] != 3
        return bool(a["tb"] == b["tb"] and a["k"] == b["k"] and fits)

    assert rows == sorted(joined(left, right, node, NAMES, meets), key=order)
    assert result.operators[0].counts["rows_out"] == len(rows)


def test_the_equality_of_the_window_fills_first(runner: Runner, tmp_path: Path) -> None:
    """A missing l.tb takes r.tb, which ties it first, not r.x, which another equality ties to it too (V1)."""
    left, right = flows(40, 120, seed=25), flows(40, 120, seed=26)
    inputs = {("l", "main1"): stored(tmp_path, "l", left), ("r", "main1"): stored(tmp_path, "r", right)}
    plain_join = join(JoinKind.OUTER, leaf("l", FLOWS), leaf("r", FLOWS), on=None)
    node = replace(plain_join, equalities=((column("l.tb"), column("r.x")),))
    rows, _ = run(runner, node, inputs, tmp_path)
    pairs = [((a, a_last), (b, b_last)) for a, a_last in left for b, b_last in right if a[0] == b[0] == b[3]]
    expected: list[tuple[Any, ...]] = [
        (a[0], b[0], a[1], b[1], a[3], b[3], max(a_last, b_last)) for (a, a_last), (b, b_last) in pairs
    ]
    for a, _ in left:
        if all(a is not met for (met, _), _ in pairs):
            expected.append((a[0], a[0], a[1], None, a[3], a[0], node.window.last_left(a[0])))
    for b, _ in right:
        if all(b is not met for _, (met, _) in pairs):
            expected.append((b[0], b[0], None, b[1], None, b[3], node.window.last_right(b[0])))
    assert rows == sorted(expected, key=order)


@pytest.mark.parametrize("kind", list(JoinKind))
def test_band_joins(runner: Runner, tmp_path: Path, kind: JoinKind) -> None:
    left, right = flows(60, 300, seed=7), flows(60, 380, seed=8)
    inputs = {
        ("l", "main1"): stored(tmp_path, "l", left),
        ("r", "main1"): stored(tmp_path, "r", right, delay=70 * SECOND, seed=2),
    }
    node = join(kind, leaf("l", FLOWS), leaf("r", FLOWS), below=1, above=4)
    rows, _ = run(runner, node, inputs, tmp_path, settings=replace(SETTINGS, tick=20 * SECOND, slice_rows=7))

    def meets(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return bool(a["k"] == b["k"] and a["tb"] - 1 <= b["tb"] <= a["tb"] + 4)

    assert rows == sorted(joined(left, right, node, NAMES, meets), key=order)


def test_a_band_on_a_decreasing_attribute(runner: Runner, tmp_path: Path) -> None:
    falling = epoch(10).then(Step("neg"))
    fields = (Field("tb", Type.INT, falling), *FLOWS[1:])
    sides = []
    for seed in (9, 10):
        sides.append([((-tb, *rest), last) for (tb, *rest), last in flows(50, 300, seed=seed)])
    inputs = {
        (name, "main1"): write_stream(tmp_path / f"{name}.parquet", fields, rows, END, 5 * SECOND, 30 * SECOND, 3)
        for name, rows in zip("lr", sides, strict=True)
    }
    node = join(JoinKind.OUTER, leaf("l", fields), leaf("r", fields), below=3, above=1, times=(falling, falling))
    rows, _ = run(runner, node, inputs, tmp_path)

    def meets(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return bool(a["k"] == b["k"] and a["tb"] - 3 <= b["tb"] <= a["tb"] + 1)

    assert rows == sorted(joined(sides[0], sides[1], node, NAMES, meets), key=order)


def test_an_equality_of_differently_scaled_clocks(runner: Runner, tmp_path: Path) -> None:
    doubled = epoch(10).then(Step("mul", 2))
    scaled = (Field("tb", Type.INT, doubled), *FLOWS[1:])
    left, right = flows(60, 300, seed=11), [((2 * tb, *rest), last) for (tb, *rest), last in flows(60, 390, seed=12)]
    inputs = {
        ("l", "main1"): stored(tmp_path, "l", left),
        ("r", "main1"): write_stream(tmp_path / "r.parquet", scaled, right, END, 5 * SECOND, 20 * SECOND),
    }
    node = join(JoinKind.OUTER, leaf("l", FLOWS), leaf("r", scaled), times=(epoch(10), doubled))
    rows, _ = run(runner, node, inputs, tmp_path)

    def meets(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return bool(a["k"] == b["k"] and a["tb"] == b["tb"])

    expected = [row for row in joined(left, right, node, NAMES, meets) if row[-1] < END]
    assert rows == sorted(expected, key=order)


def test_a_chain_of_aggregation_outer_join_and_aggregation(each_runner: Runner, tmp_path: Path) -> None:
    sides = {"l": flows(80, 300, seed=13), "r": flows(80, 300, seed=14)}
    inputs = {(n, "main1"): stored(tmp_path, n, rows, delay=30 * SECOND, seed=4) for n, rows in sides.items()}
    keys = [(FLOWS[0], column("tb")), (FLOWS[1], column("k"))]
    counted = [group(leaf(name, FLOWS), keys, [Aggregate("x", "count", None, Type.INT)]) for name in "lr"]
    joined = join(JoinKind.OUTER, counted[0], counted[1])
    minutes = (Field("minute", Type.INT, epoch(10).then(Step("div", 6))), binary("/", column("l_tb"), number(6)))
    node = group(joined, [minutes], [COUNT, sum_of("lefts", column("l_x")), sum_of("rights", column("r_x"))])
    rows, result = run(each_runner, node, inputs, tmp_path)
    counts: dict[str, dict[tuple[Any, ...], int]] = {"l": defaultdict(int), "r": defaultdict(int)}
    for name, members in sides.items():
        for (tb, k, _, _), _ in members:
            counts[name][tb, k] += 1
    expected: dict[int, list[Any]] = {}
    for tb, k in counts["l"].keys() | counts["r"].keys():
        found = expected.setdefault(tb // 6, [0, None, None])
        found[0] += 1
        for i, name in ((1, "l"), (2, "r")):
            if (tb, k) in counts[name]:
                found[i] = (found[i] or 0) + counts[name][tb, k]
    assert rows == sorted(((m, *values, epoch(60).last(m)) for m, values in expected.items()), key=order)
    assert [o.kind for o in result.operators] == ["group", "group", "join", "group"]


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.OUTER])
def test_an_aggregation_above_a_band(runner: Runner, tmp_path: Path, kind: JoinKind) -> None:
    left, right = flows(60, 300, seed=15), flows(60, 300, seed=16)
    inputs = {
        ("l", "main1"): stored(tmp_path, "l", left),
        ("r", "main1"): stored(tmp_path, "r", right, delay=50 * SECOND),
    }
    band = join(kind, leaf("l", FLOWS), leaf("r", FLOWS), below=2, above=2)
    # Unmatched rows have no l_tb or no r_tb; a temporal key over both is the instant that the clock itself gives them.
    late = band.window.left_time.joined(band.window.right_time.then(Step("add", -2)))
    node = group(band, [(Field("l_tb", Type.INT, late), column("l_tb"))], [COUNT, sum_of("s", column("r_x"))])
    rows, result = run(runner, node, inputs, tmp_path, settings=replace(SETTINGS, tick=20 * SECOND))

    def meets(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return bool(a["k"] == b["k"] and abs(a["tb"] - b["tb"]) <= 2)

    groups: dict[int, list[Any]] = {}
    for l_tb, _, _, _, _, r_x, _ in joined(left, right, band, NAMES, meets):
        if l_tb is not None and late.last(l_tb) < END:
            found = groups.setdefault(l_tb, [0, None])
            found[0] += 1
            if r_x is not None:
                found[1] = (found[1] or 0) + r_x
    assert rows == sorted(((tb, *values, late.last(tb)) for tb, values in groups.items()), key=order)
    assert result.batches > 1


def test_a_union_of_different_depths(runner: Runner, tmp_path: Path) -> None:
    sides = {"l": flows(60, 300, seed=17), "r": flows(60, 300, seed=18)}
    inputs = {(n, "main1"): stored(tmp_path, n, rows) for n, rows in sides.items()}
    counted = group(leaf("l", FLOWS), [(FLOWS[0], column("tb"))], [sum_of("s", column("x"))])
    fields = (FLOWS[0], Field("s", Type.INT))
    plain = select(leaf("r", FLOWS), None, {"tb": column("tb"), "s": column("x")}, fields)
    merged = Union("q", fields, (counted, plain))
    node = group(merged, [(FLOWS[0], column("tb"))], [COUNT])
    rows, _ = run(runner, node, inputs, tmp_path)
    expected: dict[int, int] = defaultdict(int)
    for tb in {values[0] for values, _ in sides["l"]}:
        expected[tb] += 1
    for values, _ in sides["r"]:
        expected[values[0]] += 1
    assert rows == [(tb, n, epoch(10).last(tb)) for tb, n in sorted(expected.items())]


def test_rows_do_not_depend_on_the_slices(runner: Runner, tmp_path: Path) -> None:
    sides = {"l": flows(50, 300, seed=19), "r": flows(50, 300, seed=20)}
    inputs = {(n, "main1"): stored(tmp_path, n, rows, delay=60 * SECOND, seed=5) for n, rows in sides.items()}
    keys = [(FLOWS[0], column("tb")), (FLOWS[1], column("k"))]
    counted = [group(leaf(name, FLOWS), keys, [Aggregate("x", "count", None, Type.INT)]) for name in "lr"]
    node = join(JoinKind.OUTER, counted[0], counted[1])
    found, batches = [], []
    for size in (1000, 40, 10, 5):
        rows, result = run(runner, node, inputs, tmp_path, settings=replace(SETTINGS, slice_rows=size))
        found.append(rows)
        batches.append(result.batches)
    assert found[0] and 1 == batches[0] < batches[1] < batches[2] < batches[3]
    assert all(rows == found[0] for rows in found)


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


def test_only_rows_of_the_interval_are_kept(runner: Runner, tmp_path: Path) -> None:
    members = flows(200, 500, seed=21)
    inputs = {("s", "main1"): stored(tmp_path, "s", members)}
    start = 120 * SECOND
    node = group(leaf("s", FLOWS), [(FLOWS[0], column("tb"))], [COUNT])
    rows, _ = run(runner, node, inputs, tmp_path, start=start)
    assert {row[0] for row in rows} == {tb for (tb, *_), last in members if start <= last < END}
    assert all(start <= row[-1] < END for row in rows)


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
    with pytest.raises(ValueOverflowError, match="query flows, column total: the sum of a group does not fit 64 bits"):
        total({1: (most, 1)})


def test_an_input_without_rows_is_answered_at_once(runner: Runner, tmp_path: Path) -> None:
    node = select(leaf("s", FLOWS), None, {"tb": column("tb")}, FLOWS[:1])
    rows, result = run(runner, node, {("s", "main1"): stored(tmp_path, "s", [])}, tmp_path)
    assert (rows, result.batches, result.punctuation) == ([], 0, 1)


def test_constants_of_every_type_pass_through(runner: Runner, tmp_path: Path) -> None:
    clock = (Field("ts", Type.INT, CLOCK), Field("name", Type.STRING), Field("f", Type.FLOAT), Field("b", Type.BOOL))
    members: list[Row] = [((5, "é", 0.5, True), 5), ((7 * SECOND, None, None, None), 7 * SECOND)]
    inputs = {("s", "main1"): write_stream(tmp_path / "s.parquet", clock, members, END)}
    items: dict[str, Expr] = {f.name: column(f.name, f.type) for f in clock}
    items |= {"ip": Const(Type.IP, b"\x04\x01\x02\x03\x04")}
    node = select(leaf("s", clock), None, items, (*clock, Field("ip", Type.IP)))
    rows, _ = run(runner, node, inputs, tmp_path)
    assert rows == [(*values, b"\x04\x01\x02\x03\x04", last) for values, last in members]
