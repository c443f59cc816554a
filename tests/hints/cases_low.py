"""Hints of the low level and of the reference engine, most of them by calls: a command cannot give what is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lowwater.catalog.expr import Column, Const, Param, Type
from lowwater.config import load_config
from lowwater.high.operators import StoredState, state_file
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow, record_replays
from lowwater.lake.results.streams import kept_state, state_folder
from lowwater.lake.words import DONE
from lowwater.low import LowSettings, needed_columns, run_link
from lowwater.low.code.compiler import load
from lowwater.low.code.expressions import of_constant
from lowwater.low.code.kernel import generate
from lowwater.low.evaluate import arguments
from lowwater.low.settings import Bounds, Flush
from lowwater.plan.operators import Lfta
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.engine import ReferenceResult, evaluate
from lowwater.replay.job import Job
from tests.hints.setup import Case, Setup, tried
from tests.lake.support import put_table
from tests.lftamaker import SECOND, col, count, make, partial, records, run
from tests.reference.streams import Link, record
from tests.reference.test_carried import plan
from tests.replay.support import START

PLAIN = LowSettings(skew=SECOND, compiled=False)
COUNTED = make("q", {"time": col("time")}, [count()])
LATE = records([{"timestamp": 5}, {"timestamp": 9}])


def _set(_: Setup, **given: Any) -> None:
    """Uses settings of the low level."""
    assert run([COUNTED], LATE, replace(PLAIN, **given))[0]["q"]


def _generated(_: Setup, lfta: Lfta) -> None:
    """Makes the code of an LFTA."""
    assert generate([lfta], "L", PLAIN).functions


def _read(_: Setup, columns: Sequence[str]) -> None:
    """Runs over batches that have these columns."""
    lfta = make("q", {"time": col("time")}, [partial("sum", col("len"))])
    found: list[pa.RecordBatch] = []
    batch = LATE.select(columns or needed_columns([lfta]))
    run_link([lfta], "L", [batch], Bounds({"q": 0}, 0, SECOND), PLAIN, lambda _, rows: found.append(rows))
    assert found


def _sorted(setup: Setup, order: Sequence[int]) -> None:
    run([COUNTED], LATE.take(pa.array(order)), PLAIN)


def _cached(setup: Setup, folder: str) -> None:
    """Compiles a kernel into a cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWWATER_CACHE", folder or str(setup.folder / "cache"))
        patch.delenv("LOWWATER_KERNEL", raising=False)
        named = make(setup.folder.name, {"len": col("len")})  # no other test has compiled it
        assert load(generate([named], "L", PLAIN).functions)["kernel"]


def _flushed(setup: Setup, policy: str) -> None:
    """Reads the policy of the settings of a lake."""
    setup.settle(f'[replay]\nflush = "{policy}"', ingest=False)
    assert Flush.parse(load_config(setup.lake).replay.flush)


def _parsed(_: Setup, text: str) -> None:
    assert Flush.parse(text).every == 160


def _literal(_: Setup, value: int) -> None:
    assert of_constant(Const(Type.INT, value)).words


def _argument(_: Setup, value: Const | Param) -> None:
    assert arguments([value])


COUNTS = "SELECT tb, count(*) FROM a.TCP GROUP BY time AS tb CLOSING_WHEN count(*) = 0"


def _evaluated(text: str, **given: Any) -> ReferenceResult:
    """The rows of a query over two packets of the link a."""
    packets = [record(at, 5 * at * SECOND, len=60, protocol=6, flags=2) for at in (1, 2)]
    known: dict[str, Any] = {"start": 0, "end": END_OF_TIME, "period": SECOND, "over": 11 * SECOND} | given
    turn = known.pop("turn", 1)
    batches = [batch.take(pa.array(range(batch.num_rows)[::turn])) for batch in Link(0, packets).batches()]
    return evaluate(plan(text), {"a": batches}, {"a": 0}, read_from={"q.TCP": 0}, **known)


def _evaluation(_: Setup, **given: Any) -> None:
    assert _evaluated(COUNTS, **given).rows


def _taken_up(_: Setup, second: int) -> None:
    """Goes on after ten seconds from the state of an interval that ended then, or did not."""
    state = _evaluated(COUNTS, end=second * SECOND).state
    assert _evaluated(COUNTS, start=10 * SECOND, state=state).rows


def _kept(setup: Setup) -> StoredState:
    """The state that an interval has left, which is published: cut, so that it cannot be read."""
    setup.settle('[query_sets.sums]\nfiles = ["sums.gsql"]\ninterval = "5 min"', ingest=False)
    setup.write("lake/sums.gsql", f"DEFINE {{ query_name 'sums'; }}\n{OPEN.format('count(*) = 0')}")
    said = setup.run("ingest", "--lake", setup.lake, "--link", "main1", "--covers", setup.life, setup.capture)
    assert said.code == 0, said
    job = Job.open(setup.lake, "sums", setup.folder)
    inputs = job.inputs(START, START + 300 * SECOND, job.captures())
    (query,) = job.plan.queries
    digest = inputs.digest(query)
    put_table(job.lake, "sums", "sums", query.high.fields, {(inputs.start, inputs.end): 1})
    published = ReplayRow("sums", "sums", inputs.start, inputs.end, PUBLISH, DONE, 1, "", digest, 1)
    record_replays(job.lake, [published])
    folder = state_folder(job.lake, "sums", "sums", inputs.start, inputs.end, digest)
    setup.write(str(folder.relative_to(setup.folder) / state_file("sums")), "[1,")
    return StoredState(kept_state(folder), str(folder))


# tests/replay/test_handed_over.py runs the backfill
def _made_again(setup: Setup) -> None:
    (file,) = setup.lake.glob("state/sums/sums/*/*.state")
    told = setup.run("plan", "--lake", setup.lake, "--query-set", "sums", "--format", "json")
    assert told.code == 0 and "state that it left" not in told.out, told
    shutil.rmtree(file.parent)
    told = setup.run("plan", "--lake", setup.lake, "--query-set", "sums", "--format", "json")
    assert told.code == 0 and "the state that it left is not in the lake" in told.out, told


OPEN = "SELECT tb, running_sum(len) AS n FROM main1.TCP GROUP BY timestamp/1000000 AS tb CLOSING_WHEN {}"
CASES: list[Case] = [
    tried("a skew below 0 of the low level", _set, "give a duration of 0 or more", {"skew": -1}, {"skew": 0}),
    tried("a column of no packet", _generated, "bind the query to the packet catalog",
          make("q", {"x": Column(Type.INT, "nowhere")}), make("q", {"x": col("len")})),
    tried("avg in the low level", _generated, "select the rows instead",
          make("q", {"time": col("time")}, [partial("avg", col("len"))]),
          make("q", {"time": col("time"), "len": col("len")})),
    tried("a column that is not read", _read, "needed_columns", ["timestamp", "arrival"], []),
    tried("records out of order", _sorted, "as T1 says", [1, 0], [0, 1]),
    tried("a cache that cannot be written", _cached, "set LOWWATER_CACHE to another folder", "/proc/self", ""),
    tried("a flush of no record", _flushed, "give 1 to 1,000,000 records", "slow 0", "slow 1"),
    tried("a flush that is not known", _parsed, 'write one of "immediate", "slow EVERY"', "slow", "slow 160"),
    tried("a literal of 65 bits", _literal, "write a smaller number", 1 << 64, 1 << 62),
    tried("a parameter of the low level without a value", _argument, "give --param least=VALUE",
          Param(Type.INT, "least"), Const(Type.INT, 40, "least")),
    tried("a heartbeat of no policy", _evaluation, "there are: periodic", {"policy": "often"}, {"policy": "periodic"}),
    tried("records that go back", _evaluation, "read the captures in canonical order", {"turn": -1}, {}),
    tried("a state of another instant", _taken_up, "evaluate the intervals from the start of the chain", 7, 10),
    Case("a state of a lake that is cut", lambda setup: _kept(setup).of("sums"),
         "and `lowwater backfill` makes it again", _made_again),
]  # fmt: skip
