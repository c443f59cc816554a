"""The pass as a whole: what it reads, what it refuses, its cache, its results across processes."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from lowwater.caches import cache_folder
from lowwater.catalog.expr import Const
from lowwater.catalog.values import Type
from lowwater.low import Bounds
from lowwater.low.run import run_link
from lowwater.low.settings import LowSettings
from lowwater.plan.properties import stream_schema
from tests.lftamaker import SECOND, Row, col, count, data, make, op, partial, records, run

PLAIN = LowSettings(skew=SECOND, compiled=False)
QUERY = make("q", {"time": col("time"), "srcIP": col("srcIP")}, [count(), partial("sum", col("len"))])


def test_batches_have_the_schema_of_the_stream() -> None:
    found: list[pa.RecordBatch] = []
    bounds = Bounds({"q": 0}, 0, SECOND)
    run_link([QUERY], "L", [records([{"timestamp": 5}])], bounds, PLAIN, lambda _, batch: found.append(batch))
    assert [batch.column("_kind").to_pylist() for batch in found] == [["row"], ["punctuation"]]
    for batch in found:
        assert batch.schema == stream_schema(QUERY.fields)
        batch.validate(full=True)


def test_the_cache_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWWATER_CACHE", str(tmp_path / "kernels"))
    assert cache_folder().stat().st_mode & 0o777 == 0o700


def _work(least: int) -> tuple[list[Row], bytes]:
    longer = op(col("len"), ">", Const(Type.INT, least, "least"))
    query = make(
        "q", {"time": col("time"), "srcIP": col("srcIP")}, [count(), partial("sum", col("len"))], predicate=longer
    )
    streams, result = run([query], records([{"timestamp": 5, "len": 60}]), LowSettings(skew=0), 0, SECOND)
    return data(streams["q"]), pickle.dumps(result)


@pytest.mark.nightly
@pytest.mark.slow
def test_parallel_processes_share_the_cache_and_results_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWWATER_CACHE", str(tmp_path))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        answers = pool.map(_work, [50, 50])
    (rows, result), other = answers[0], answers[1]
    assert (rows, pickle.loads(result)) == (other[0], pickle.loads(other[1])) and len(rows) == 1
    assert pickle.loads(result).sane == 1
    files = {path.name: path.stat().st_mtime for path in tmp_path.rglob("*") if path.is_file()}
    assert len([name for name in files if name.startswith("kernel_") and name.endswith(".py")]) == 1
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        # Another value of the parameter is an argument of the same machine code.
        assert [pool.map(_work, [least])[0][0] for least in (50, 70)] == [answers[0][0], []]
    assert {path.name: path.stat().st_mtime for path in tmp_path.rglob("*") if path.is_file()} == files
