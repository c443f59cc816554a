"""Parts by key: what divides the rows of a plan, and that no row, count or error depends on the number of shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.catalog.expr import Column, Expr, Type, show
from lowwater.catalog.schemas import CONTROL, ROW
from lowwater.columns import files as shares
from lowwater.columns.files import DividedWriter, Index
from lowwater.columns.values import Frame, Spill
from lowwater.config import Replay
from lowwater.errors import ValueOverflowError
from lowwater.high.process import InProcess
from lowwater.high.query_runs import HighLevel, HighResult, HighSettings
from lowwater.high.runner import Runner, Task
from lowwater.plan.context import Links
from lowwater.plan.operators import Aggregate, Expand, Field, JoinKind, LftaInput, Node, walk
from lowwater.plan.queryset import plan_texts
from lowwater.plan.shares import low_shares, shown, stages_of, undivided_spans
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import each_push, examples
from tests.high.plans import COUNT, group, join, sum_of
from tests.high.streams import FLOWS, SECOND, Row, column, flows, leaf, read_stream, run_high, write_stream
from tests.high.test_slices import KEYS, plans as kinds

SPAN = 300
QUERIES = """
DEFINE { query_name 'flows'; } SELECT tb, srcIP, destIP, srcPort, count(*) AS n FROM main1.TCP
GROUP BY time/3600 AS tb, srcIP, destIP, srcPort;
DEFINE { query_name 'talkers'; } SELECT tb, srcIP, sum(n) AS n FROM flows GROUP BY tb, srcIP;
DEFINE { query_name 'nets'; } SELECT tb, port, sum(n) AS n FROM flows GROUP BY tb, srcPort/1024 AS port;
DEFINE { query_name 'total'; } SELECT tb, sum(n) AS n FROM flows GROUP BY tb;
DEFINE { query_name 'back'; } SELECT tb, destIP, count(*) AS n FROM main2.TCP GROUP BY time/3600 AS tb, destIP, srcIP;
DEFINE { query_name 'both'; } SELECT A.tb, A.srcIP, A.n, B.n AS m LEFT_OUTER_JOIN FROM talkers A, back B
WHERE A.tb = B.tb AND A.srcIP = B.destIP;
DEFINE { query_name 'lonely'; } SELECT tb, m, count(*) AS n FROM both GROUP BY tb, m;
DEFINE { query_name 'cubed'; } SELECT tb, srcIP, sum(n) AS n FROM flows GROUP BY tb, CUBE(srcIP, destIP);
DEFINE { query_name 'near'; } SELECT A.time, A.len INNER_JOIN FROM main1.TCP A, main2.TCP B
WHERE A.time <= B.time AND B.time <= A.time + 3;
DEFINE { query_name 'kept'; } SELECT tb, srcIP, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, srcIP
CLOSING_WHEN count(*) = 0;
"""
FOUND = {
    "flows": [("srcIP destIP srcPort", "GROUP BY of flows")],
    "talkers": [("srcIP", "GROUP BY of talkers")],
    "nets": [("srcPort/1024", "GROUP BY of nets")],
    "total": [("srcIP destIP srcPort", "GROUP BY of flows"), ("", "total has one group an epoch")],
    "back": [("destIP srcIP", "GROUP BY of back")],
    "both": [("srcIP of flows = destIP of back", "equalities of the join in both")],
    "lonely": [("srcIP of flows = destIP of back", "equalities of the join in both"),
               ("m", "GROUP BY of lonely, over its sub-aggregates")],
    "cubed": [("srcIP destIP srcPort", "GROUP BY of flows"),
              ("srcIP destIP _set", "GROUP BY of cubed, over its sub-aggregates")],
    "near": [("", "the join of near is divided by time only: its sides meet by time alone")],
    "kept": [("srcIP", "GROUP BY of kept, each share with a state of its own")],
}  # fmt: skip


def test_the_columns_that_groups_and_joins_share_divide_a_plan() -> None:
    plan = plan_texts([("q.gsql", QUERIES)], Links(("main1", "main2")))
    found = {
        query.name: [(" ".join(map(shown, stage.keys)), stage.why) for stage in stages_of(query.high)]
        for query in plan.queries
    }
    assert found == FOUND
    chosen = low_shares([query.high for query in plan.queries])
    # `nets` alone disagrees.
    assert {name: [[show(key) for key in keys] for keys in each] for name, each in chosen.items()} == {
        "flows": [["srcIP"], ["srcIP", "destIP", "srcPort"]],
        "back": [["destIP"], ["destIP", "srcIP"]],
        "kept": [["srcIP"]],
    }
    spans = undivided_spans([query.high for query in plan.queries])
    assert spans.pop("kept") == END_OF_TIME, "its parts have the whole interval"
    assert spans == {"flows": 3600 * SECOND, "back": 3600 * SECOND, "near.A": SECOND, "near.B": SECOND}
    assert [*low_shares([plan.only("flows").queries[0].high]).values()] == [
        (tuple(Column(kind, name) for kind, name in ((Type.IP, "srcIP"), (Type.IP, "destIP"), (Type.INT, "srcPort"))),)
    ]


def plans() -> dict[str, Node]:
    """Plans with one stage and with several."""
    summed = group(leaf("l", FLOWS), [*KEYS, (FLOWS[2], column("ip", Type.IP))], [COUNT, sum_of("x", column("x"))])
    means = [Aggregate(name, name, column("x"), Type.FLOAT if name == "avg" else Type.INT) for name in ("avg", "max")]
    time = (FLOWS[0], column("tb"))
    sets = Expand("q", (*FLOWS, Field("g", Type.INT)), leaf("l", FLOWS), ("k", "ip"), (("k", "ip"), ("k",), ()), "g")
    cubed = [time, (FLOWS[1], column("k")), (FLOWS[2], column("ip", Type.IP)), (Field("g", Type.INT), column("g"))]
    other = group(leaf("r", FLOWS), [*KEYS], [sum_of("x", column("x"))])
    by_address = group(
        leaf("r", FLOWS),
        [time, (FLOWS[2], column("ip", Type.IP))],
        [Aggregate("k", "max", column("x"), Type.INT), sum_of("x", column("x"))],
    )
    return {
        **{name: node for name, node in kinds().items() if name in ("chain", "outer", "windows")},
        "two keys": group(summed, KEYS, [COUNT]),
        "total": group(summed, [time], means),
        "cube": group(sets, cubed, [COUNT, *means]),
        "joined": join(JoinKind.OUTER, group(leaf("l", FLOWS), KEYS, [sum_of("x", column("x"))]), other),
        "exchanged": join(JoinKind.LEFT, group(leaf("l", FLOWS), KEYS, [sum_of("x", column("x"))]), by_address),
    }


def run(
    node: Node,
    rows: dict[str, list[Row]],
    folder: Path,
    chosen: HighSettings,
    files: dict[str, list[str]] | None = None,
    runner: Runner | None = None,
) -> tuple[list[tuple[Any, ...]], HighResult]:
    """Rows and result of a plan."""
    stored = {
        (name, "main1"): (files or {}).get(name) or write_stream(folder / f"{name}.parquet", FLOWS, each, SPAN * SECOND)
        for name, each in rows.items()
    }
    result = run_high(runner or InProcess(2), {"q": node}, stored, 0, SPAN * SECOND, folder / "work", chosen)["q"]
    return read_stream(result.files)[0], result


def drawn(node: Node, seed: int, count: int = 80) -> dict[str, list[Row]]:
    names = sorted({each.lfta.name for each in walk(node) if isinstance(each, LftaInput)})
    return {name: flows(count, SPAN, seed + at) for at, name in enumerate(names)}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(plans()))
@settings(max_examples=examples(1))
@given(seed=st.integers(0, 1 << 30))
def test_rows_and_counts_do_not_depend_on_the_shares(
    name: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    node, chance = plans()[name], Random(seed)
    rows = drawn(node, seed)
    found = []
    for number in (1, chance.choice((2, 3, 5))):
        chosen = HighSettings(tick=60 * SECOND, slice_rows=chance.choice((60, 1000)), shares=number)
        shown_rows, result = run(node, rows, tmp_path_factory.mktemp("shares"), chosen)
        counts: Counter[tuple[str, str, str]] = Counter()
        for point in result.operators:
            counts.update({(point.kind, point.query, at): value for at, value in point.counts.items()})
        found.append((shown_rows, +counts, result.rows, result.punctuation))
    assert found[0][0] and found[0] == found[1]


@pytest.mark.parametrize("name", list(plans()))
def test_only_tasks_read_and_write_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between them a level reads promises, also where it gathers the files of many shares."""
    node, at_work, others = plans()[name], False, list[str]()
    for of, what in [(pq.ParquetFile, each) for each in ("read", "read_row_group", "iter_batches")] + [
        (pq, "read_table"), (DividedWriter, "write")
    ]:  # fmt: skip
        call = getattr(of, what)

        def noted(*given: Any, what: str = what, call: Any = call, **named: Any) -> Any:
            if not at_work and not {*named.get("columns", "?")} <= {*CONTROL.names}:
                others.append(what)
            return call(*given, **named)

        monkeypatch.setattr(of, what, noted)
    stored = {
        (each, "main1"): write_stream(tmp_path / f"{each}.parquet", FLOWS, rows, SPAN * SECOND)
        for each, rows in drawn(node, 1).items()
    }
    level = HighLevel({"q": node}, stored, 0, SPAN * SECOND, tmp_path / "work", HighSettings(shares=4, slice_rows=20))
    steps, tasks, outcomes, named = level.steps(), list[Task](), None, set[str]()
    others.clear()  # of the inputs
    with pytest.raises(StopIteration) as end:
        while True:
            tasks = [*steps.send(outcomes).tasks]
            at_work, named = True, named | {task.func.__name__ for task in tasks}
            outcomes, at_work = {task: task() for task in tasks}, False
    assert others == []
    assert end.value.value["q"].rows > 0 and "gather" in named


@pytest.mark.slow
@pytest.mark.parametrize("where", ["process", "spark"])
def test_one_memory_bounds_the_parts_of_both_runners(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By how many rows are kept before they go to files; the tasks of Spark are called here, one after another."""
    made: list[Path] = []
    opened = Spill.__init__

    def noted(self: Spill, folder: Path, nothing: Frame | None = None) -> None:
        made.append(folder)
        opened(self, folder, nothing)

    monkeypatch.setattr(Spill, "__init__", noted)
    on_spark: Any = import_module("lowwater.spark.runner").OnSpark
    monkeypatch.setattr(on_spark, "levels", lambda _: InProcess(1).levels())
    runners = {"process": InProcess, "spark": lambda _, memory: on_spark(SimpleNamespace(master="local"), memory)}
    node = plans()["joined"]
    rows, found = drawn(node, 5), []
    for given_settings in ({}, {"memory": "1k"}):
        assert not made
        asked = Replay.model_validate({"threads": 1, **given_settings})
        folder = tmp_path / str(asked.bytes)
        folder.mkdir()
        runner = runners[where](asked.threads, asked.bytes)
        found.append(run(node, rows, folder, HighSettings(tick=60 * SECOND), runner=runner)[0])
    assert found[0] == found[1] != [] and made


def divided(file: str, keys: Sequence[Expr], folder: Path) -> list[str]:
    """A stream with its rows divided by keys, beside a file that is not divided."""
    table = pq.read_table(file)
    data = table.filter(pa.compute.equal(table["_kind"], ROW))
    made = folder / f"divided-{Path(file).name}"
    writer = DividedWriter(made, table.schema, [tuple(keys)], 16, 1)
    writer.write(table.filter(pa.compute.not_equal(table["_kind"], ROW)), divided=False)
    writer.write(data.slice(0, 60))
    writer.close()
    rest = folder / f"rest-{Path(file).name}"
    pq.write_table(data.slice(60), rest)
    return [str(made), str(rest)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "by"), each_push([("joined", "x k"), ("two keys", "k"), ("two keys", "ip"), ("joined", "k")], 2)
)
def test_rows_do_not_depend_on_how_files_are_divided(name: str, by: str, tmp_path: Path) -> None:
    node = plans()[name]
    rows = drawn(node, 5)
    wanted, _ = run(node, rows, tmp_path / "whole", HighSettings(shares=1))
    keys = [column(each, Type.IP if each == "ip" else Type.INT) for each in by.split()]
    files = {each: divided(str(tmp_path / "whole" / f"{each}.parquet"), keys, tmp_path) for each in rows}
    with pq.ParquetFile(next(iter(files.values()))[0]) as stored:
        index = Index.of(stored)
        assert len(index.groups) > 6 and {*index.groups} > {shares.EVERYTHING}
    for number in (3, 64):
        assert run(node, rows, tmp_path / str(number), HighSettings(shares=number), files)[0] == wanted


def test_the_overflow_of_a_share_is_that_of_the_query(tmp_path: Path) -> None:
    node = group(leaf("l", FLOWS), KEYS, [sum_of("x", column("x"))])
    rows = {"l": [((0, key, None, (1 << 62) if key == 3 else 1), 10 * SECOND - 1) for key in (1, 2, 3, 3, 4)]}
    for number in (1, 5):
        with pytest.raises(ValueOverflowError, match="query q, column x: the sum of a group does not fit 64 bits"):
            run(node, rows, tmp_path / str(number), HighSettings(shares=number))
