"""Chunks of a link beside each other on threads give what one pass gives, with sampling and shed load."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.config import Config, Link
from lowwater.high.process import InProcess
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.low import LowSettings
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.stages.engines import LowResult, low_level, low_stage
from lowwater.replay.stages.inputs import LowInputs
from tests.breadth import examples
from tests.capturemaker import pcap_bytes
from tests.lftamaker import by_tick
from tests.replay.test_sampling import BEGIN, SECONDS, packets

SECOND = 1_000_000_000
QUERIES = [
    "DEFINE { query_name 'groups'; sample '0.7'; } "
    "SELECT tb, destPort, count(*) AS n, sum(len) AS bytes FROM a.UDP GROUP BY time/5 AS tb, destPort",
    "DEFINE { query_name 'rows'; } SELECT time, timestamp, destPort, sampling_rate FROM a.TCP WHERE len > 60",
]
START, END = BEGIN + 5 * SECOND, BEGIN + (SECONDS - 5) * SECOND


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> LowInputs:
    folder = tmp_path_factory.mktemp("chunks")
    config = Config(links={"a": Link(skew="1s", sampling=True, shed=20)})  # type: ignore[arg-type]
    lake, records = open_lake(folder / "lake"), packets(3)
    for number, part in enumerate((records[:400], records[400:])):
        path = folder / f"{number}.pcap"
        path.write_bytes(pcap_bytes(part, nanoseconds=True))
        ingest(lake, "a", [path], config, (BEGIN + number, BEGIN + number + 1))
    plan = plan_texts([(f"{number}.gsql", text) for number, text in enumerate(QUERIES)], Links(("a",)))
    return LowInputs(lake, plan, config, START, END, read_captures(lake, ["a"]))


def pass_of(inputs: LowInputs, folder: Path, task_packets: int) -> LowResult:
    chosen = LowSettings(0, compiled=False, chunk_rows=64, slots=4, task_packets=task_packets)
    return low_stage(low_level(inputs, chosen, folder), InProcess())


def content(inputs: LowInputs, result: LowResult) -> dict[str, Any]:
    """Per LFTA the sums of its groups, or its rows in their order; its files are one stream of promises kept (P5)."""
    found: dict[str, Any] = {}
    for lfta in inputs.plan.lftas:
        rows = [row for path in result.files[lfta.name, "a"] for row in by_tick(pq.read_table(path).to_pylist())]
        promise, tick = -1, -1
        for row in rows:
            assert row["_tick"] >= tick
            tick = row["_until"]
            if row["_kind"] == "row":
                assert row["_last"] >= promise
            else:
                assert row["_last"] >= promise
                promise = row["_last"] + row["_until"] - row["_tick"]
        data = [row for row in rows if row["_kind"] == "row"]
        if lfta.aggregates:
            totals: Counter[tuple[Any, ...]] = Counter()
            for row in data:
                for part in lfta.partials:
                    totals[(*(row[key.name] for key in lfta.keys), part.name)] += row[part.name]
            found[lfta.name] = totals
        else:
            found[lfta.name] = [tuple(row[field.name] for field in lfta.fields) for row in data]
    return found


@pytest.mark.slow
@pytest.mark.hypothesis
def test_chunks_change_no_row_and_no_count(inputs: LowInputs, tmp_path: Path) -> None:
    whole = pass_of(inputs, tmp_path / "whole", 1 << 22)
    (one,) = whole.links
    expected = content(inputs, whole)
    assert all(expected.values()) and all(len(paths) == 1 for paths in whole.files.values())
    assert {name: sum(one.minutes.column(name).to_pylist()) > 0 for name in ("shed", "sampled_out")} == {
        "shed": True,
        "sampled_out": True,
    }

    @settings(max_examples=examples(8))
    @given(st.integers(25, 500))
    def divided(most: int) -> None:
        parts = pass_of(inputs, tmp_path / str(most), most)
        assert content(inputs, parts) == expected
        (found,) = parts.links
        assert found.minutes == one.minutes
        assert found.violations == one.violations
        assert (found.sane, found.violating) == (one.sane, one.violating)
        assert all(len(paths) > 1 for paths in parts.files.values())

    divided()
