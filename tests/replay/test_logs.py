"""Links of logs: both engines give the rows of the capture that the logs were made of, and lakes keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from lowwater.config import Config, Link
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from tests.capture.logmaker import LOST, pair
from tests.replay.support import lowwater

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

SECOND = 1_000_000_000
KINDS = {"conn": "zeek", "ssl": "zeek", "eve": "suricata", "flows": "nfdump"}
FILES = {"wire": "wire.pcap", "conn": "conn.log", "ssl": "ssl.log", "eve": "eve.json", "flows": "flows.csv"}
QUERIES = """
DEFINE { query_name 'wire_flows'; visibility 'internal'; }
SELECT hour, flow, count(*) AS packets, sum(total_length) AS bytes FROM wire.DataProtocol
GROUP BY time/3600 AS hour, community_id(srcIP, destIP, protocol, srcPort, destPort, 7) AS flow;
DEFINE { query_name 'logged'; visibility 'internal'; }
SELECT time/3600 AS hour, community_id(srcIP, destIP, protocol, srcPort, destPort, 7) AS flow, uid, timestamp,
    orig_ip_bytes + resp_ip_bytes AS bytes FROM conn.ZEEK_CONN;
DEFINE { query_name 'joined'; }
SELECT p.flow, p.packets, p.bytes, l.uid, l.timestamp, l.bytes AS logged LEFT_OUTER_JOIN FROM wire_flows p, logged l
WHERE p.hour = l.hour AND p.flow = l.flow;
DEFINE { query_name 'flows_of_suricata'; }
SELECT timestamp, time, flow_id, srcIP, community_id AS flow, flow_alerted FROM eve.EVE_FLOW;
DEFINE { query_name 'names'; } SELECT timestamp, server_name, link FROM ssl.ZEEK_SSL;
DEFINE { query_name 'sums'; }
SELECT hour, protocol, sum(bytes) AS b, count(*) AS n FROM flows.NFDUMP GROUP BY time/3600 AS hour, protocol
"""


def prepared(folder: Path) -> tuple[Plan, list[tuple[str, Path]], dict[str, Link]]:
    folder.mkdir(exist_ok=True)
    for name, data in pair()[1].items():
        (folder / name).write_bytes(data)
    plan = plan_texts([("test.gsql", QUERIES)], Links(tuple(FILES), kinds=KINDS), None, Context())
    captures = [(link, folder / name) for link, name in FILES.items()]
    kinds: dict[str, Any] = KINDS
    links = {link: Link(kind=kinds.get(link, "pcap"), skew="5m") for link in FILES}  # type: ignore[arg-type]
    return plan, captures, links


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "interval"), [("reference", None), ("process", 100 * SECOND)])
def test_logs_join_with_packets(engine: Any, interval: int | None, tmp_path: Path, runner: Runner) -> None:
    plan, captures, links = prepared(tmp_path)
    request = RunRequest(
        plan, Config(links=links), captures, tmp_path / "out", "parquet", engine=engine, interval=interval
    )
    summary = run(request, Progress(quiet=True), runner if engine == "process" else None)
    made = pair()[0]
    seen = [talk for talk in made if talk.number not in LOST]

    def rows(name: str) -> list[tuple[Any, ...]]:
        return sorted(
            (tuple(row.values()) for row in pq.read_table(tmp_path / "out" / f"{name}.parquet").to_pylist()), key=repr
        )

    ported = [talk for talk in made if talk.kind != "echo"]
    expected = []
    for talk in ported:
        size = talk.count(True)[2] + talk.count(False)[2]
        logged = (f"C{talk.number}", talk.packets[0][0], size) if talk in seen else (None, None, None)
        expected.append((talk.community(7), len(talk.packets), size, *logged))
    # Packets of ICMP have no ports, so their rows have no flow.
    assert [row for row in rows("joined") if row[0] is not None] == sorted(expected, key=repr)
    begins = {talk.number: talk.packets[0][0] for talk in made}
    assert rows("flows_of_suricata") == sorted(
        (
            (begins[t.number], begins[t.number] // SECOND, 1000 + t.number, t.client, t.community(), t.kind == "stream")
            for t in seen
        ),
        key=repr,
    )
    assert rows("names") == sorted((begins[t.number], t.name, "ssl") for t in seen if t.kind == "tls")
    sums: dict[int, list[int]] = {}
    for talk in seen:
        for count in (talk.count(True), talk.count(False)):
            total = sums.setdefault(talk.protocol, [0, 0])
            total[0], total[1] = total[0] + count[2], total[1] + (count[0] > 0)
    assert [row[1:] for row in rows("sums")] == sorted(((key, *value) for key, value in sums.items()), key=repr)
    counts = {kind: sum(talk.kind == kind for talk in seen) for kind in ("dns", "stream")}
    assert summary["links"]["eve"]["left_out"] == {"alert": counts["stream"], "dns": counts["dns"], "stats": 1}
    assert "left_out" not in summary["links"]["conn"]


SETTINGS = """
[interval]
length = "1h"
[links.conn]
kind = "zeek"
protocol = "ZEEK_CONN"
captures = "conn*.log"
[links.flows]
kind = "nfdump"
[links.eve]
kind = "suricata"
protocol = "EVE_DNS"
[query_sets.q]
files = "q.gsql"
"""
LIFE = 'skew = "5m"\nsince = "2026-01-01T00:00:00Z"\nuntil = "2026-01-01T01:00:00Z"\ngap_tolerance = "1h"\n'
IN_LAKE = """DEFINE { query_name 'states'; }
SELECT hour, conn_state, count(*) AS n FROM conn.ZEEK_CONN GROUP BY time/3600 AS hour, conn_state;
DEFINE { query_name 'volume'; } SELECT hour, sum(bytes) AS b FROM flows.NFDUMP GROUP BY time/3600 AS hour;
DEFINE { query_name 'asked'; } SELECT hour, count(*) AS n FROM eve.EVE_DNS GROUP BY time/3600 AS hour
"""


def lake_of_logs(folder: Path) -> Path:
    lake = folder / "lake"
    lake.mkdir()
    for name, data in pair()[1].items():
        (folder / name).write_bytes(data)
    head, _, tail = SETTINGS.partition("[query_sets")
    text = head.replace("kind = ", f"{LIFE}kind = ") + f"[query_sets{tail}"
    (lake / "lowwater.toml").write_text(text, encoding="utf-8")
    (lake / "q.gsql").write_text(IN_LAKE, encoding="utf-8")
    for link in ("conn", "flows", "eve"):
        said = lowwater("ingest", "--lake", lake, "--link", link, folder / FILES[link])
        assert said.code == 0, said
        assert ("records of other types are" in said.out) == (link == "eve")
    return lake


@pytest.mark.slow
def test_a_lake_keeps_logs_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    lake = lake_of_logs(tmp_path)
    seen = [talk for talk in pair()[0] if talk.number not in LOST]
    ledger = read_captures(open_lake(lake), ["conn", "eve", "flows"])
    (conn,), (eve,), (flows,) = (ledger[link] for link in ("conn", "eve", "flows"))
    assert (conn.packets, conn.format, conn.left_out) == (len(seen), "zeek", None)
    assert eve.packets == sum(talk.kind == "dns" for talk in seen)
    assert json.loads(eve.left_out or "") == {
        "alert": sum(talk.kind == "stream" for talk in seen),
        "flow": len(seen),
        "stats": 1,
    }
    assert (flows.format, flows.left_out) == ("nfdump", None)
    said = lowwater("status", "--lake", lake)
    assert said.code == 0, said
