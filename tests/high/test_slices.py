"""Slices without Spark: values over columns, keys, joins beside nested loops, and a plan cut anywhere in time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.catalog.expr import Binary, Case, Column, Const, Expr, OneOf, Unary
from lowwater.catalog.schemas import LAST
from lowwater.catalog.values import Type
from lowwater.columns import values
from lowwater.columns.values import Frame, codes, evaluate, last, window_end
from lowwater.high.evaluate import Counts, Evaluation, Leaves
from lowwater.high.part import Part, StoredLeaf, evaluate_part
from lowwater.high.streams import StoredStream
from lowwater.high.timeline import ALL_TIME, Timeline, choose_slices
from lowwater.plan.bind.sources import numbered
from lowwater.plan.operators import Aggregate, Bucket, Expand, Field, JoinKind, LftaInput, Node, Window, walk
from lowwater.plan.properties import value_schema
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX, Step, Temporal
from lowwater.stream.values import Faults, compile_expr
from tests import natives
from tests.breadth import each_push, examples
from tests.high.plans import COUNT, group, join, joined, select, sum_of
from tests.high.streams import FLOWS, SECOND, Row, binary, column, epoch, flows, leaf, number, order, write_stream
from tests.low.test_expressions import EDGES

NAMES = [f.name for f in FLOWS]
SPAN = 300
FLOATS = [None, 0.0, -0.0, 1.5, -1e-308, 1e308, -1e308, 2.0**960, math.inf, -math.inf, math.nan]
INTEGERS = [None, *EDGES]
TEXTS = [None, "", "a", "B", "b", "zz", "é"]
ADDRESSES = [None, b"\x04\x0a\x00\x00\x01", b"\x04\xff\xff\xff\x00", b"\x06" + bytes(16), b"\x06" + b"\xfe" * 16]
SAMPLES: dict[Type, list[Any]] = {
    Type.INT: INTEGERS, Type.FLOAT: FLOATS, Type.STRING: TEXTS, Type.IP: ADDRESSES, Type.BOOL: [None, True, False],
    Type.MAC: [None, 0, 5, 1 << 47], Type.INSTANT: [None, -1, 0, 1 << 52],
}  # fmt: skip
ARROW = {Type.INT: pa.int64(), Type.FLOAT: pa.float64(), Type.STRING: pa.string(), Type.IP: pa.binary()}
ARROW |= {Type.BOOL: pa.bool_(), Type.MAC: pa.int64(), Type.INSTANT: pa.int64()}
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def expressions() -> list[tuple[Expr, Type, Type]]:
    """Every operator over every type that it takes, with the types of `a` and `b`."""
    found: list[tuple[Expr, Type, Type]] = []
    for kind in SAMPLES:
        a, b = Column(kind, "a"), Column(kind, "b")
        found += [(Binary(Type.BOOL, op, a, b), kind, kind) for op in COMPARISONS]
        found.append((Unary(Type.BOOL, "IS NULL", a), kind, kind))
        some = tuple(value for value in SAMPLES[kind] if value is not None and value == value)
        found.append((OneOf(Type.BOOL, a, kind, some[::2]), kind, kind))
        chosen = Case(kind, ((Binary(Type.BOOL, "=", a, b), b), (Unary(Type.BOOL, "IS NULL", b), a)), b)
        found.append((chosen, kind, kind))
    for op in ("+", "-", "*", "/", "%", "&", "|", "<<", ">>"):
        found.append((Binary(Type.INT, op, Column(Type.INT, "a"), Column(Type.INT, "b")), Type.INT, Type.INT))
    for op in ("+", "-", "*", "/", "%"):
        for kinds in ((Type.FLOAT, Type.FLOAT), (Type.INT, Type.FLOAT), (Type.FLOAT, Type.INT)):
            sides = [Column(kind, name) for kind, name in zip(kinds, "ab", strict=True)]
            found.append((Binary(Type.FLOAT, op, *sides), *kinds))
            found.append((Binary(Type.BOOL, "<", *sides), *kinds))
    added = Binary(Type.FLOAT, "+", Column(Type.FLOAT, "a"), Column(Type.FLOAT, "b"))
    found.append((Binary(Type.FLOAT, "/", Column(Type.FLOAT, "a"), added), Type.FLOAT, Type.FLOAT))
    found += [(Binary(Type.IP, op, Column(Type.IP, "a"), Column(Type.IP, "b")), Type.IP, Type.IP) for op in "&|"]
    booleans = Column(Type.BOOL, "a"), Column(Type.BOOL, "b")
    found += [(Binary(Type.BOOL, op, *booleans), Type.BOOL, Type.BOOL) for op in ("AND", "OR")]
    found.append((Unary(Type.BOOL, "NOT", booleans[0]), Type.BOOL, Type.BOOL))
    found += [(Unary(Type.INT, op, Column(Type.INT, "a")), Type.INT, Type.INT) for op in "-~"]
    found += [(Unary(Type.FLOAT, op, Column(Type.FLOAT, "a")), Type.FLOAT, Type.FLOAT) for op in ("-", "SUMMED")]
    return found


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


@pytest.mark.parametrize("literal", [False, True], ids=["columns", "literal"])
def test_values_are_those_of_the_reference_engine(literal: bool) -> None:
    """Every operator over every pair of edges, the right one as a column and as a literal."""
    for expr, left, right in expressions():
        value = compile_expr(expr, ["a", "b"], Faults())
        for chosen in [[each] for each in SAMPLES[right]] if literal else [SAMPLES[right]]:
            pairs = [(a, b) for a in SAMPLES[left] for b in chosen]
            columns = {
                name: pa.array([pair[at] for pair in pairs], ARROW[kind])
                for at, (name, kind) in enumerate((("a", left), ("b", right)))
            }
            whole = expr
            if literal:
                parts = [Const(right, chosen[0]) if each == Column(right, "b") else each for each in expr.children()]
                whole = replace(expr, right=parts[1]) if isinstance(expr, Binary) else expr
            found = evaluate(whole, columns.__getitem__, len(pairs)).to_pylist()
            wanted = [value(pair) for pair in pairs]
            wrong = [each for each in zip(pairs, found, wanted, strict=True) if not same(each[1], each[2])]
            assert wrong == [], expr


STEPS = st.one_of(
    st.builds(Step, st.just("add"), st.integers(-50, 50)),
    st.builds(Step, st.just("mul"), st.integers(1, 9)),
    st.builds(Step, st.just("div"), st.integers(1, 50)),
    st.builds(Step, st.just("div"), st.just(10**9)),
    st.just(Step("neg")),
)
WIDE = st.one_of(st.integers(-500, 500), st.integers(-INT64_MAX, INT64_MAX), st.integers(-(1 << 55), 1 << 55))


@given(
    st.lists(st.lists(STEPS, max_size=4), min_size=1, max_size=3), st.booleans(), st.integers(0, 1 << 40),
    st.integers(0, 40), st.lists(WIDE, min_size=1),
)  # fmt: skip
def test_ends_are_those_of_the_plan(
    chains: list[list[Step]], falling: bool, below: int, above: int, values: list[int]
) -> None:
    parts = []
    for steps in chains:
        turns = sum(step.op == "neg" for step in steps) % 2 == 1
        parts.append(tuple(steps) if turns == falling else (*steps, Step("neg")))
    time = Temporal(tuple(parts))
    columns = np.array(values, np.int64)
    low = -INT64_MAX
    assert last(time, columns).tolist() == [max(low, time.last(value)) for value in values]
    window = Window(column("v"), column("v"), time, time.then(Step("add", 7)), below, above)
    for left, end in ((True, window.last_left), (False, window.last_right)):
        assert window_end(window, columns, left).tolist() == [max(low, end(value)) for value in values]


@given(st.lists(st.tuples(st.sampled_from([None, 0, 1, -7]), st.sampled_from(FLOATS), st.sampled_from(TEXTS))))
def test_codes_are_equal_where_the_keys_are(rows: list[tuple[Any, ...]]) -> None:
    kinds = (pa.int64(), pa.float64(), pa.string())
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    numbers, _ = codes(columns, len(rows))

    def key(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return row[0], "nan" if row[1] != row[1] else row[1], row[2]

    for row, code in zip(rows, numbers.tolist(), strict=True):
        assert [key(other) == key(row) for other in rows] == [each == code for each in numbers.tolist()]


def frames(fields: Sequence[Field], rows: Sequence[Row]) -> Callable[[], Any]:
    schema = value_schema(fields)
    columns = {f.name: pa.array([row[0][at] for row in rows], f.type) for at, f in enumerate(schema)}
    frame = Frame(columns | {LAST: pa.array([row[1] for row in rows], pa.int64())}, len(rows))
    return lambda: iter([frame])


def evaluated(node: Node, leaves: dict[str, Sequence[Row]]) -> list[tuple[Any, ...]]:
    """The rows of a plan over all of time, with `_last`, sorted."""
    fields = {each.lfta.name: each.fields for each in walk(node) if isinstance(each, LftaInput)}
    sources = {name: frames(fields[name], rows) for name, rows in leaves.items()}
    return rows_of(node, sources)


def rows_of(node: Node, sources: Leaves) -> list[tuple[Any, ...]]:
    """The rows of a plan over what its leaves have, with `_last`, sorted."""
    found: list[tuple[Any, ...]] = []
    with TemporaryDirectory() as folder:
        for frame in Evaluation(sources, {}, Counts((-ALL_TIME, ALL_TIME)), Path(folder)).rows(node):
            names = [*(f.name for f in node.fields), LAST]
            found += zip(*(frame[name].to_pylist() for name in names), strict=True)
    return sorted(found, key=order)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(JoinKind))
@given(
    seed=st.integers(0, 1 << 30), below=st.integers(-2, 4), above=st.integers(-1, 5),
    block=st.sampled_from([3, 1 << 20]), most=st.sampled_from([9, 1 << 22]), sign=st.sampled_from([1, 1, -1]),
)  # fmt: skip
def test_pairs_and_unmatched_rows_are_those_of_nested_loops(
    kind: JoinKind, seed: int, below: int, above: int, block: int, most: int, sign: int
) -> None:
    """On an attribute that increases, or decreases."""
    if below + above < 0:
        below, above = -above, -below
    time = epoch(10) if sign > 0 else epoch(10).then(Step("neg"))
    fields = (replace(FLOWS[0], temporal=time), *FLOWS[1:])
    left, right = ([((sign * tb, *rest), end) for (tb, *rest), end in flows(40, SPAN, seed + at)] for at in (0, 1))
    residual = binary("<>", binary("+", column("l.x"), column("r.x")), number(3), Type.BOOL) if seed % 2 else None
    sides = leaf("l", fields), leaf("r", fields)
    node = join(kind, *sides, below=below, above=above, times=(time, time), residual=residual)

    def meets(a: dict[str, Any], b: dict[str, Any]) -> bool:
        fits = residual is None or (a["x"] is not None and b["x"] is not None and a["x"] + b["x"] != 3)
        return bool(a["k"] == b["k"] and a["tb"] - below <= b["tb"] <= a["tb"] + above and fits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "ROW_BLOCK_ROWS", block)
        patch.setattr(values, "ROWS_IN_MEMORY", most)
        found = evaluated(node, {"l": left, "r": right})
    assert found == sorted(joined(left, right, node, NAMES, meets), key=order)


KEYS = [(FLOWS[0], column("tb")), (FLOWS[1], column("k"))]
AGGREGATES = [
    COUNT, Aggregate("c", "count", column("x"), Type.INT), sum_of("s", column("x")),
    Aggregate("a", "avg", column("x"), Type.FLOAT), Aggregate("least", "min", column("x"), Type.INT),
    Aggregate("most", "max", column("ip", Type.IP), Type.IP), Aggregate("and", "and_aggr", column("x"), Type.INT),
    Aggregate("or", "or_aggr", column("x"), Type.INT), Aggregate("xor", "xor_aggr", column("x"), Type.INT),
]  # fmt: skip


def plainly(aggregate: Aggregate, rows: Sequence[dict[str, Any]]) -> Any:
    """The value of an aggregate, by Python."""
    if aggregate.argument is None:
        return len(rows)
    assert isinstance(aggregate.argument, Column)
    values = [row[aggregate.argument.name] for row in rows if row[aggregate.argument.name] is not None]
    if aggregate.function == "count":
        return len(values)
    return natives.FOLDS[aggregate.function](values) if values else None


@pytest.mark.slow
@given(
    seed=st.integers(0, 1 << 30),
    block=st.sampled_from([1, 7, 1 << 20]),
    most=st.sampled_from([5, 1 << 22]),
    bits=st.booleans(),
)
def test_groups_are_those_of_plain_python(seed: int, block: int, most: int, bits: bool) -> None:
    chosen = AGGREGATES if bits else AGGREGATES[:6]
    rows = flows(60, SPAN, seed)
    node = group(leaf("s", FLOWS), KEYS, chosen)
    fed = [frames(FLOWS, rows[at : at + 9]) for at in range(0, len(rows), 9)]
    whole: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row_values, _ in rows:
        row = dict(zip(NAMES, row_values, strict=True))
        whole.setdefault((row["tb"], row["k"]), []).append(row)
    wanted = [
        (*key, *(plainly(each, members) for each in chosen), epoch(10).last(key[0])) for key, members in whole.items()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "ROW_BLOCK_ROWS", block)
        patch.setattr(values, "ROWS_IN_MEMORY", most)
        found = rows_of(node, {"s": lambda: (frame for make in fed for frame in make())})
    assert found == sorted(wanted, key=order)


def test_floats_that_are_no_numbers_in_groups() -> None:
    fields = (Field("tb", Type.INT, epoch(10)), Field("f", Type.FLOAT))
    arguments = [Aggregate(name, name, column("f", Type.FLOAT), Type.FLOAT) for name in ("min", "max", "sum", "avg")]
    node = group(leaf("s", fields), [(fields[0], column("tb"))], arguments)
    rows = [
        ((tb, value), epoch(10).last(tb))
        for tb, values in enumerate([[math.nan, 1.0, -2.0], [math.nan, math.nan], [None, None], [3.0, None]])
        for value in values
    ]
    found = evaluated(node, {"s": rows})
    shown = [tuple("nan" if value != value else value for value in row[1:-1]) for row in found]
    assert shown == [(-2.0, "nan", None, None), ("nan", "nan", None, None), (None,) * 4, (3.0, 3.0, 3.0, 3.0)]
    keyed = group(leaf("s", fields), [(fields[0], column("tb")), (fields[1], column("f", Type.FLOAT))], [COUNT])
    zeros = [((0, value), 9) for value in (0.0, -0.0, math.nan, -math.nan, None)]
    assert sorted(row[2] for row in evaluated(keyed, {"s": zeros})) == [1, 2, 2]


def plans() -> dict[str, Node]:
    """A plan of each kind of operator that needs no state."""
    loud = binary(">", column("x"), number(2), Type.BOOL)
    quiet = select(leaf("l", FLOWS), loud, {f.name: column(f.name, f.type) for f in FLOWS}, FLOWS)
    wid = Field("w", Type.INT, numbered(epoch(10), 5, 2))
    windows = Bucket("q", (*FLOWS, wid), quiet, column("tb"), 5, 2, "w")
    sets = Expand("q", (*FLOWS, Field("g", Type.INT)), quiet, ("k", "ip"), (("k",), ()), "g")
    joined = join(JoinKind.LEFT, quiet, leaf("r", FLOWS))
    return {
        "select": quiet,
        "group": group(quiet, KEYS, [COUNT], binary("<", column("tb"), number(20), Type.BOOL), loud),
        "windows": group(windows, [(wid, column("w"))], [COUNT]),
        "sets": group(sets, [(FLOWS[0], column("tb")), (Field("g", Type.INT), column("g"))], [COUNT]),
        "chain": group(joined, [(joined.fields[0], column("l_tb"))], [COUNT]),
        "outer": join(JoinKind.OUTER, quiet, leaf("r", FLOWS), below=1, above=2),
        "band": join(JoinKind.INNER, leaf("l", FLOWS), quiet, below=2, above=1),
        "near": join(JoinKind.OUTER, leaf("l", FLOWS), quiet, below=2, above=1, on=None),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", each_push(plans(), 2))
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 1 << 30))
def test_rows_and_counts_do_not_depend_on_the_slices(
    name: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    node, chance = plans()[name], Random(seed)
    folder = tmp_path_factory.mktemp("slices")
    names = sorted({each.lfta.name for each in walk(node) if isinstance(each, LftaInput)})
    feeds = {
        each: StoredStream().add(
            *write_stream(folder / f"{each}.parquet", FLOWS, flows(80, SPAN, seed + at), SPAN * SECOND)
        )
        for at, each in enumerate(names)
    }
    ends = sum((feed.ends for feed in feeds.values()), Counter[int]())
    stored = {each: StoredLeaf(FLOWS, [(0, chunk) for chunk in feed.chunks]) for each, feed in feeds.items()}
    timeline = Timeline(np.array([0, END_OF_TIME]), np.array([-END_OF_TIME, END_OF_TIME]))
    found = []
    for most in (1, chance.randint(2, 40)):
        slices = choose_slices(node, ends, most)
        outcomes = [
            evaluate_part(Part(node, [each], stored, {}, folder, f"{most}-{at}", (0, ALL_TIME), timeline, None, False))
            for at, each in enumerate(slices)
        ]
        rows = [row for each in outcomes for file in each.files for row in pa.parquet.read_table(file).to_pylist()]
        shown = sorted((tuple(v for k, v in row.items() if k not in ("_tick", "_until")) for row in rows), key=order)
        totals: list[Counter[str]] = [Counter() for _ in outcomes[0].points]
        for each in outcomes:
            for total, (_, _, counts) in zip(totals, each.points, strict=True):
                total.update(counts)
        found.append((shown, totals))
    assert found[0][0] and found[0] == found[1]


@pytest.mark.slow
def test_chains_of_any_length_and_what_is_read_twice(tmp_path: Path) -> None:
    """400 queries one above the other, and 60 joins of a query with itself, each of which reads one row twice."""
    rows = [((tb, 1, None, tb), epoch(10).last(tb)) for tb in range(3)]
    chain: Node = leaf("s", FLOWS)
    for _ in range(400):
        counted = group(chain, KEYS, [Aggregate("x", "max", column("x"), Type.INT)])
        chain = select(counted, None, {f.name: column(f.name, f.type) for f in counted.fields}, counted.fields)
    assert evaluated(chain, {"s": rows}) == [(tb, 1, tb, epoch(10).last(tb)) for tb in range(3)]
    twice: Node = leaf("s", FLOWS)
    for _ in range(60):
        both = join(JoinKind.INNER, twice, twice)
        names = {"tb": "l_tb", "k": "l_k", "x": "r_x"}
        fields = tuple(
            replace(f, name=name) for name, f in zip(names, (both.fields[0], *both.fields[2:]), strict=False)
        )
        twice = select(both, None, {name: column(of) for name, of in names.items()}, fields)
    assert [row[:3] for row in evaluated(twice, {"s": rows})] == [(tb, 1, tb) for tb in range(3)]
