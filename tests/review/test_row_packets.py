"""From rows to their packets over a lake without stored frames: as many as the row counted, and with the same bytes."""

from __future__ import annotations

import operator
import random
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lowwater.config import load_config
from lowwater.errors import LakeError
from lowwater.instants import SECOND
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.results.exploring import RowQuery, result_table
from lowwater.low.predicate import Predicate
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.job import Job
from lowwater.replay.packets import find_packets, row_packets, select, write_selection
from tests.replay.support import lowwater
from tests.review.resultlake import make_results

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_results(tmp_path_factory.mktemp("packets"))


@pytest.fixture(scope="module")
def job(made: tuple[Path, Path]) -> Job:
    return Job.open(made[0], "q", made[1])


def some_rows(lake: Lake, query: str, number: int) -> list[dict[str, Any]]:
    table = result_table(lake, query)
    rows = table.page(RowQuery(0, 1 << 62), 0, 2_500).to_pylist()
    return random.Random(5).sample(rows, min(number, len(rows)))


@pytest.mark.parametrize(("query", "counted"), [("flows", "cnt"), ("ports", "cnt"), ("totals", "packets")])
def test_a_row_has_as_many_packets_as_it_counted(made: tuple[Path, Path], job: Job, query: str, counted: str) -> None:
    lake, config = open_lake(made[0]), load_config(made[0])
    plan = next(plan for plan in job.plan.queries if plan.name == query)
    rows = some_rows(lake, query, 12)
    assert len(rows) >= 8
    for row in rows:
        found = find_packets(lake, config, row_packets(plan, row))
        assert found.count == row[counted] == sum(found.links.values()), row
        assert len(found.first) == min(100, found.count)


JOINS = {
    "tied": "SELECT A.timestamp, A.srcIP AS src, B.destIP AS dest, A.srcPort AS port, B.len AS size, "
    "(B.timestamp - A.timestamp)/1 ms AS lag",
    "loose": "SELECT A.timestamp/1 ms AS ms, A.srcIP AS src, B.destIP AS dest, A.srcPort AS port, B.len AS size",
}


def test_a_row_of_a_join_has_the_packets_of_both_sides(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Against every pair of packets; without the lag a row does not say which packets of B met those of A."""
    source = """ INNER_JOIN FROM main1.UDP A, main2.UDP B WHERE A.srcIP = B.srcIP AND A.destIP = B.destIP
        AND A.srcPort = B.srcPort AND A.len > 60 AND A.timestamp <= B.timestamp AND B.timestamp <= A.timestamp + 1 s"""
    texts = {name: f"DEFINE {{ query_name '{name}'; }}\n{select}{source}" for name, select in JOINS.items()}
    for link in ("main1", "main2"):
        select = f"SELECT timestamp, srcIP, destIP, srcPort, len FROM {link}.UDP"
        texts[link] = f"DEFINE {{ query_name '{link}'; }}\n{select}"
    (tmp_path / "j.gsql").write_text(";\n".join(texts.values()))
    captures = [(path.parent.name, path) for path in (made[0].parent / "captures").rglob("*T000000Z.pcap")]
    given = [word for link, path in captures for word in ("--capture", f"{link}={path}")]
    assert lowwater("run", tmp_path / "j.gsql", *given, "--format", "parquet", "--out", tmp_path).code == 0
    rows = {name: pq.read_table(next(tmp_path.rglob(f"{name}*.parquet"))).to_pylist() for name in texts}
    plans = {plan.name: plan for plan in plan_texts([("j", ";\n".join(texts.values()))], Links()).queries}
    lake, config = open_lake(made[0]), load_config(made[0])
    flow = operator.itemgetter("srcIP", "destIP", "srcPort")
    assert len(rows["tied"]) > 20
    for row in random.Random(3).sample(rows["tied"], 10):
        met = [
            (a["timestamp"], b["timestamp"])
            for a in rows["main1"]
            if (a["timestamp"], *flow(a)) == (row["timestamp"], row["src"], row["dest"], row["port"]) and a["len"] > 60
            for b in rows["main2"]
            if flow(a) == flow(b) and b["len"] == row["size"]
            and 0 <= b["timestamp"] - a["timestamp"] <= SECOND
            and (b["timestamp"] - a["timestamp"]) // 1_000_000 == row["lag"]
        ]  # fmt: skip
        found = find_packets(lake, config, row_packets(plans["tied"], row))
        assert found.links == {"main1": len({a for a, _ in met}), "main2": len({b for _, b in met})}, row
    with pytest.raises(LakeError, match="do not say which packets of one side met"):
        row_packets(plans["loose"], rows["loose"][0])


def test_a_packet_that_both_sides_of_a_join_read_counts_once(made: tuple[Path, Path], job: Job) -> None:
    texts = [
        ("j", "SELECT A.timestamp AS ns INNER_JOIN FROM main1.UDP A, main1.IPV4 B WHERE A.timestamp = B.timestamp")
    ]
    (query,) = plan_texts(texts, Links(("main1",))).queries
    lake, config = open_lake(made[0]), load_config(made[0])
    flows = next(plan for plan in job.plan.queries if plan.name == "flows")
    packets = [
        packet
        for row in some_rows(lake, "flows", 40)
        for packet in find_packets(lake, config, row_packets(flows, row)).first
    ]
    (packet, *_) = [packet for packet in packets if (packet["link"], packet["protocol"]) == ("main1", 17)]
    found = find_packets(lake, config, row_packets(query, {"ns": packet["timestamp"]}))
    assert (found.count, found.links, len(found.first)) == (1, {"main1": 1}, 1)


def test_the_download_has_the_bytes_of_the_captures(made: tuple[Path, Path], job: Job) -> None:
    lake, config = open_lake(made[0]), load_config(made[0])
    plan = next(plan for plan in job.plan.queries if plan.name == "flows")
    captured = b"".join(path.read_bytes() for path in (made[0].parent / "captures").rglob("*T000000Z.pcap"))
    for row in some_rows(lake, "flows", 5):
        wanted = row_packets(plan, row)
        found = find_packets(lake, config, wanted)
        links = list(found.links)
        selection = select(
            lake, config, links, Predicate(None, None), wanted.start, wanted.end, admitted=found.admitted
        )
        parts: list[bytes] = []
        write_selection(selection, "pcap", parts.append)
        data, at, frames = b"".join(parts), 24, []
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at + 8)
            frames.append(data[at + 16 : at + 16 + length])
            at += 16 + length
        assert len(frames) == row["cnt"] and sum(map(len, frames)) > 0
        assert all(frame in captured for frame in frames)


def test_a_whole_link_comes_back_as_it_was_and_files_that_are_gone_are_named(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    (capture,) = (made[0].parent / "captures" / "main2").glob("*T000000Z.pcap")
    command = ["export", "--lake", made[0], "--link", "main2", "--to", "2026-01-01T00:10:00Z", "--out"]
    said = lowwater(*command, tmp_path / "back.pcap")
    assert said.code == 0, said
    back = (tmp_path / "back.pcap").read_bytes()
    assert capture.read_bytes()[24 : len(back)] == back[24:] and len(back) > 10_000
    moved = capture.rename(tmp_path / "moved.pcap")
    try:
        said = lowwater(*command, tmp_path / "gone.pcap")
        assert said.code == 1 and f"{capture} (is gone)" in said.err and not (tmp_path / "gone.pcap").exists()
        capture.write_bytes(moved.read_bytes() + b"more")
        said = lowwater(*command, tmp_path / "gone.pcap")
        assert said.code == 1 and f"{capture} (has changed)" in said.err
    finally:
        moved.replace(capture)
    assert lowwater(*command, tmp_path / "again.pcap").code == 0


REFUSED = {
    "SELECT tb, count(*) AS cnt FROM main1.IPV4 GROUP BY time/60 AS tb, srcIP": "do not carry the whole GROUP BY",
    "SELECT a.tb, a.cnt, b.cnt AS other FROM m a, m b WHERE a.tb = b.tb": "do not carry the whole GROUP BY",
    "SELECT a.tb, a.srcIP LEFT_OUTER_JOIN FROM m a, m b WHERE a.tb = b.tb": "it has a LEFT_OUTER_JOIN",
    "SELECT tb, cnt, count(*) AS n FROM m GROUP BY tb, cnt": "do not carry the whole GROUP BY",
}


@pytest.mark.parametrize(("text", "why"), [*REFUSED.items()])
def test_rows_that_do_not_tell_their_packets_are_refused(text: str, why: str) -> None:
    lower = (
        "DEFINE { query_name 'm'; }\nSELECT tb, srcIP, count(*) AS cnt FROM main1.IPV4 GROUP BY time/60 AS tb, srcIP"
    )
    plan = plan_texts([("m", lower), ("q", f"DEFINE {{ query_name 'q'; }}\n{text}")], Links(("main1",)))
    query = next(query for query in plan.queries if query.name == "q")
    row = {field.name: 1 for field in query.logical.fields}
    with pytest.raises(LakeError, match=why):
        row_packets(query, row)
