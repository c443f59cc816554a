"""Words of time: values beside those of DuckDB, progress, and the texts that say them again."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.catalog.expr import Column, Expr, Type
from lowwater.catalog.periods import MONTHS, PARTS
from lowwater.columns.values import evaluate, first, last
from lowwater.errors import QueryError
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_expression
from lowwater.plan import buckets, temporal
from lowwater.plan.bind.expressions import Scope
from lowwater.plan.explain.describe import expression
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import CLOCK, END_OF_TIME, Step
from lowwater.plan.text import Text
from lowwater.stream.values import Faults, compile_expr
from tests.breadth import examples
from tests.lftamaker import data, make, records, run
from tests.low.test_expressions import PLAIN
from tests.plan.batch_pools import KNOWN

CLOCKS = {"timestamp": 1, "timestamp_us": 1_000, "timestamp_ms": 1_000_000, "time": 1_000_000_000}
SQL = "CAST(make_timestamp({} // 1000) AS TIMESTAMP)"
INSTANTS = st.one_of(
    st.integers(0, END_OF_TIME - 1),
    # around the ends of days, months and years
    st.tuples(st.integers(0, 53_000), st.sampled_from((-1, 0, 1, 999, 1_000, 10**9))).map(
        lambda pair: max(0, pair[0] * 86_400 * 10**9 + pair[1])
    ),
)
WIDTHS = st.one_of(
    st.integers(1, 100_000).map(lambda n: f"{n} microseconds"),
    st.tuples(
        st.integers(1, 400), st.sampled_from(("milliseconds", "seconds", "minutes", "hours", "days", "weeks"))
    ).map(lambda pair: f"{pair[0]} {pair[1]}"),
)


def bound(text: str) -> Expr:
    (statement,) = parse(f"SELECT {text} AS v FROM R").statements
    units = {name: Fraction(unit) for name, unit in CLOCKS.items()}
    columns: dict[str, Expr] = {name: Column(Type.INT, name) for name in CLOCKS}
    return Scope(Text("q", text), {"R": columns}, units=units).bind(statement.items[0].expression)  # type: ignore[attr-defined]


@st.composite
def words(draw: st.DrawFn) -> tuple[str, str, str]:
    """A word of time over a column: as GSQL, and as DuckDB has its value in us, or as a number."""
    column = draw(st.sampled_from(list(CLOCKS)))
    cut = SQL.format("v" if column == "timestamp" else f"(v // {CLOCKS[column]} * {CLOCKS[column]})")
    kind = draw(st.sampled_from(("bucket", "trunc", "part", "moment")))
    if kind == "bucket":
        width = draw(WIDTHS)
        order = draw(st.sampled_from(("INTERVAL '{0}', {1}", "{1}, INTERVAL '{0}'"))).format(width, column)
        return column, f"time_bucket({order})", f"epoch_us(time_bucket(INTERVAL '{width}', {cut}))"
    if kind == "trunc":
        word = draw(st.sampled_from((*buckets.WIDTHS, *MONTHS)))
        return column, f"date_trunc('{word}', {column})", f"epoch_us(date_trunc('{word}', {cut})::TIMESTAMP)"
    if kind == "part":
        word = draw(st.sampled_from((*buckets.PARTS, *PARTS, "epoch")))
        written = draw(st.sampled_from((f"extract({word} FROM {column})", f"date_part('{word.upper()}', {column})")))
        return column, written, f"date_part('{word}', {cut})"
    return column, f"CAST({column} AS TIMESTAMP) + INTERVAL '36 hours 5 s'", f"epoch_us({cut}) + 129605000000"


@settings(max_examples=examples(1000))
@given(words(), st.lists(INSTANTS, min_size=1, max_size=6))
def test_values_are_those_of_duckdb(word: tuple[str, str, str], instants: list[int]) -> None:
    column, text, sql = word
    expr, values = bound(text), [instant // CLOCKS[column] for instant in instants]
    with duckdb.connect() as database:
        rows = ", ".join(f"({number}, {instant})" for number, instant in enumerate(instants))
        theirs = [
            row for (row,) in database.execute(f"SELECT {sql} FROM (VALUES {rows}) AS t(n, v) ORDER BY n").fetchall()
        ]
    value = compile_expr(expr, [column], Faults())
    assert [value((each,)) for each in values] == theirs
    array = pa.array(values, pa.int64())
    assert evaluate(expr, lambda name: array, len(values)).to_pylist() == theirs


@settings(max_examples=examples(25))
@given(words().filter(lambda word: word[0] == "timestamp"), INSTANTS)
def test_values_of_kernels_are_those_of_rows(word: tuple[str, str, str], instant: int) -> None:
    expr = bound(word[1])
    (row,) = data(run([make("q", {"x": expr})], records([{"timestamp": instant}]), PLAIN)[0]["q"])
    assert row["x"] == compile_expr(expr, ["timestamp"], Faults())((instant,))


@settings(max_examples=examples(100))
@given(words(), INSTANTS)
def test_buckets_and_periods_are_step_functions_of_the_clock(word: tuple[str, str, str], instant: int) -> None:
    column, text, _ = word
    clock = CLOCK.then(Step("div", CLOCKS[column]))
    time = temporal.infer(bound(text), {column: clock})
    if time is None:
        assert "part" in text or "extract" in text
        return
    value = time.promise(instant)
    assert time.first(value) <= instant <= time.last(value)
    for at, wanted in ((time.first(value), True), (time.last(value), True), (time.last(value) + 1, False)):
        if 0 <= at < END_OF_TIME:
            assert (time.promise(at) == value) is wanted
    if time.first(value) > 0:
        assert time.promise(time.first(value) - 1) < value
    again = pa.array([value]).to_numpy()
    assert (first(time, again)[0], last(time, again)[0]) == (time.first(value), time.last(value))


@settings(max_examples=examples(100))
@given(words())
def test_the_texts_of_plans_say_the_same(word: tuple[str, str, str]) -> None:
    expr = bound(word[1])
    assert bound(print_expression(expression(expr))) == expr


def test_literals_of_time() -> None:
    def is_same(written: str, wanted: str) -> bool:
        return bound(written) == bound(wanted)

    assert is_same("timestamp + INTERVAL '1 hour 30 minutes'", "timestamp + (1 hour + 30 minutes)")
    assert is_same("timestamp + INTERVAL '5' MINUTE", "timestamp + 5 min")
    assert is_same("timestamp + interval 2 weeks", "timestamp + 14 days")
    assert is_same(
        "CAST(time AS TIMESTAMP) >= '2026-01-01T10:00:00+01:00'",
        "to_timestamp(time) >= TIMESTAMP '2026-01-01 09:00:00'",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_bucket(10, timestamp)", "the width of a bucket is a duration"),
        ("time_bucket(INTERVAL '1 month', timestamp)", "is no length of time"),
        ("time_bucket(INTERVAL '1500 ns', timestamp)", "is no width of a bucket"),
        ("time_bucket(INTERVAL '1 s', timestamp % 7 * timestamp)", "whose unit is not known"),
        ("date_trunc('fortnight', timestamp)", "date_trunc takes one of"),
        ("CAST(timestamp AS TIMESTAMP) + 5", "does not apply to types timestamp and int"),
        ("CAST(timestamp AS TIMESTAMP) > timestamp", "does not apply to types timestamp and int"),
        ("CAST(timestamp AS TIMESTAMP) > 'yesterday'", "'yesterday' is no instant"),
        ("TIMESTAMP '2026-13-01'", "is no instant in microseconds"),
    ],
)
def test_what_means_no_time_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError) as error:
        bound(text)
    assert message in str(error.value)


def test_columns_of_instants_have_their_own_type_and_no_second_column() -> None:
    text = "SELECT tb, count(*) AS n FROM TCP GROUP BY time_bucket(INTERVAL '10 minutes', timestamp) AS tb"
    (query,) = plan_texts([("q.gsql", text)], KNOWN).queries
    from lowwater.plan.properties import visible_schema

    assert visible_schema(query.high.fields) == pa.schema([("tb", pa.timestamp("us", "UTC")), ("n", pa.int64())])
