"""The processes that Spark starts for offsets, one for each streaming query, load little: each is new."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from pyspark.errors import StreamingQueryException

from lowwater.errors import LowwaterError
from lowwater.high.process import InProcess
from lowwater.high.query_runs import HighLevel
from lowwater.high.runner import Level, Running, Tasks
from lowwater.instants import HOUR
from lowwater.replay.job import Job
from lowwater.replay.stages.engines import high_level, low_level, low_stage, run_low
from lowwater.spark import runner
from lowwater.spark.levels import AT_WORK, RESULT, SERIALIZER, Folder, source_of
from lowwater.storage import paths
from tests.replay.support import QUERIES, START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASKED = """
import json, sys
import pyspark.sql.streaming.python_streaming_source_runner
from pyspark.serializers import CPickleSerializer

before = {*sys.modules}
reader = CPickleSerializer().loads(sys.stdin.buffer.read())({}).streamReader(None)
end = reader.latestOffset(reader.initialOffset(), None)
parts = reader.partitions(reader.initialOffset(), end)
print(json.dumps({"end": end, "parts": len(parts), "modules": sorted({*sys.modules} - before)}))
"""
"""What Spark's process for offsets does until the first micro-batch."""


def asked(level: Level, folder: Path) -> dict[str, Any]:
    """What the process of a level says."""
    paths.write(folder / AT_WORK, b"")
    source = SERIALIZER.dumps(source_of(level, Folder(folder, b"key")))
    done = subprocess.run([sys.executable, "-c", ASKED], input=source, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_a_process_for_offsets_loads_what_describes_and_not_what_evaluates(packets: Path, tmp_path: Path) -> None:
    job = Job.open(packets, "demo", QUERIES)
    inputs = job.inputs(START, START + HOUR, job.captures())
    low = low_level(inputs, job.low_settings(), tmp_path / "low")
    chunks = Tasks("low", tmp_path, [partial(run_low, task) for task in low.tasks])
    of_low = asked(chunks, tmp_path / "of-low")
    read = sum(task.weight for task in low.tasks)
    count = len(low.tasks)
    assert of_low["end"] == {"tasks": count, "chunks": count, "of": count, "packets": read} and read > 0
    files = low_stage(low, InProcess()).files
    of_high = asked(high_level(inputs, files, tmp_path / "high", {}, coming=frozenset(files)), tmp_path / "of-high")
    assert of_high["end"]["tasks"] == of_high["parts"] > 0
    roots = {"numba", "llvmlite", "pydantic", "deltalake", "duckdb", "pandas", "rich", "click"}
    for found in (of_low, of_high):
        assert not [name for name in found["modules"] if name.partition(".")[0] in roots]
    kept = ("lowwater.high.runner", "lowwater.spark", "lowwater.storage")
    far = [name for name in of_low["modules"] if name.startswith(("lowwater.high.", "lowwater.plan", "lowwater.low."))]
    assert [name for name in far if not name.startswith(kept)] == []


class Slow(Folder):
    """It takes a process for offsets a second to load it, which says when that was."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv:
            begin = time.time()
            time.sleep(1)
            with (Path(self.path).parents[1] / "loaded").open("a") as file:
                file.write(json.dumps([begin, time.time()]) + "\n")


@pytest.mark.spark
@pytest.mark.slow
def test_the_processes_of_streams_begin_one_after_the_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many at once would not be there within the ten seconds that Spark allows each."""
    monkeypatch.setattr(runner, "Folder", Slow)
    levels = [HighLevel({}, {}, 0, 0, tmp_path / name) for name in ("one", "other", "third")]
    with ThreadPoolExecutor() as pool:
        results = [*pool.map(lambda level: runner.streamed(Running(level), level.folder.name, spark), levels)]
    assert results == [({}, [])] * len(levels)
    loaded = sorted(json.loads(line) for line in (tmp_path / "loaded").read_text().splitlines())
    assert len(loaded) == len(levels)
    assert [other[0] >= one[1] for one, other in pairwise(loaded)] == [True, True]


def test_a_stream_that_is_slow_to_begin_is_begun_again_for_some_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def followed(spark: object, running: Running, folder: Folder, about: str) -> None:
        begun.append(about)
        if len(begun) < 9:
            raise StreamingQueryException(f"java.io.IOException: {runner._SLOW}")
        folder.write(RESULT, ("all", []))

    monkeypatch.setattr(runner, "_followed", followed)
    monkeypatch.setattr(runner, "cloned", nullcontext)
    running, session = Running(HighLevel({}, {}, 0, 0, tmp_path)), MagicMock()
    assert runner.streamed(running, "a level", session) == ("all", [])
    assert len(begun) == 9
    begun.clear()
    monkeypatch.setattr(runner, "PATIENCE", -1)
    with pytest.raises(LowwaterError, match=runner._SLOW):
        runner.streamed(running, "a level", session)
    assert len(begun) == 1
