"""The low stage says which kernels it compiles before it does, and nothing where few packets compile none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.config import Config
from lowwater.high.process import InProcess
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.low import LowSettings
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.stages.engines import low_level, low_stage
from lowwater.replay.stages.inputs import LowInputs
from tests.capturemaker import pcap_bytes, udp

QUERIES = ("SELECT time, len/1013 AS x FROM UDP", "DEFINE { query_name 'b'; } SELECT time, len/1019 AS y FROM a.UDP")


def said(inputs: LowInputs, folder: Path, few: int) -> list[str]:
    lines: list[str] = []
    low_stage(low_level(inputs, LowSettings(0, few=few), folder, say=lines.append), InProcess())
    return lines


@pytest.mark.slow
def test_kernels_that_are_compiled_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWWATER_CACHE", str(tmp_path / "cache"))
    lake = open_lake(tmp_path / "lake")
    for link in ("a", "b"):
        path = tmp_path / f"{link}.pcap"
        path.write_bytes(pcap_bytes([(at, udp("10.0.0.1", "10.0.0.2", 1, 2, data=link.encode())) for at in range(9)]))
        ingest(lake, link, [path], Config())
    plan = plan_texts([(f"q{number}.gsql", text) for number, text in enumerate(QUERIES)], Links(("a", "b")))
    inputs = LowInputs(lake, plan, Config(), 0, END_OF_TIME, read_captures(lake, ["a", "b"]))
    assert said(inputs, tmp_path / "few", 9) == []
    assert list((tmp_path / "cache").glob("*.py")) == []
    assert said(inputs, tmp_path / "many", 8) == [
        "  compiling the kernel of link a, once: 2 LFTAs",
        "  compiling the kernel of link b, once: 1 LFTA",
    ]
    assert len(list((tmp_path / "cache").glob("*.py"))) == 2
    assert said(inputs, tmp_path / "again", 0) == []
