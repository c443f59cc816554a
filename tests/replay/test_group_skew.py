"""A skew for some values of a column, on both engines, beside the rule written out over the packets (SEMANTICS T8)."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lowwater.catalog.schemas import READABLE
from lowwater.catalog.time import Skews
from lowwater.config import load_config
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_violations
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from tests.capturemaker import Record, pcap_bytes, tcp, udp
from tests.replay.support import column_rows, lowwater

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

BEGIN, SECONDS = 1_200_000 * SECOND, 60
SKEW, OF_DNS, OF_WEB = 2 * SECOND, 5 * SECOND, 0
QUERIES = """
DEFINE { query_name 'ports'; }
SELECT tb, destPort, count(*) AS n FROM a.UDP GROUP BY time/5 AS tb, destPort;
DEFINE { query_name 'epochs'; }
SELECT tb, count(*) AS n FROM a.ETH GROUP BY time/10 AS tb;
DEFINE { query_name 'pairs'; }
SELECT A.time AS t, A.destPort AS p, B.destPort AS q FROM a.UDP A JOIN a.TCP B
WHERE A.timestamp = B.timestamp - 1 AND A.destPort = B.destPort;
"""
SETTINGS = """
[replay]
task_packets = 150
[thresholds]
violating = 0.5
[links.a]
skew = "2s"
[links.a.group_skew]
column = "destPort"
values = { "53" = "5s", "80" = "0s" }
"""


def packets(seed: int) -> list[Record]:
    """Packets of a few ports with more disorder than some of them may have."""
    draw, found = random.Random(seed), []
    for _ in range(600):
        stamp = BEGIN + draw.randrange(SECONDS * SECOND)
        make, port, data = draw.choice([udp, tcp]), draw.choice([53, 80, 123]), bytes(draw.randrange(4))
        late = draw.choice([0, 0, SECOND, 3 * SECOND, 4 * SECOND])
        found.append((stamp + late, (stamp, make("10.0.0.1", "10.0.0.2", 1024, port, data=data))))
        if make is udp and draw.random() < 0.5:
            found.append((stamp + late, (stamp + 1, tcp("10.0.0.1", "10.0.0.2", 1024, port, data=data[:12]))))
    return [record for _, record in sorted(found, key=lambda each: each[0])]


def admitted(records: list[Record]) -> tuple[list[tuple[int, int, int]], int]:
    """(timestamp, protocol, port) of those in order, and how many are not."""
    clock, kept = 0, []
    for stamp, frame, *_ in records:
        clock, port = max(clock, stamp), int.from_bytes(frame[36:38], "big")
        if clock - stamp <= {53: OF_DNS, 80: OF_WEB}.get(port, SKEW):
            kept.append((stamp, frame[23], port))
    return kept, len(records) - len(kept)


def expected(kept: list[tuple[int, int, int]]) -> dict[str, Counter[tuple[int, ...]]]:
    ports = Counter((stamp // SECOND // 5, port) for stamp, protocol, port in kept if protocol == 17)
    epochs = Counter(stamp // SECOND // 10 for stamp, _, _ in kept)
    return {
        "ports": Counter({(*key, n): 1 for key, n in ports.items()}),
        "epochs": Counter(dict.fromkeys(epochs.items(), 1)),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    (tmp_path / "a.pcap").write_bytes(pcap_bytes(packets(5), nanoseconds=True))
    (tmp_path / "q.gsql").write_text(QUERIES)
    (tmp_path / "lake" / "lowwater.toml").write_text(SETTINGS)
    return tmp_path


def by_reference(folder: Path, interval: str) -> dict[str, Counter[tuple[int, ...]]]:
    out = folder / f"out-{interval}"
    said = lowwater(
        *("run", folder / "q.gsql", "--capture", f"a={folder / 'a.pcap'}", "--out", out, "--engine", "reference"),
        *("--links", folder / "lake" / "lowwater.toml", "--interval", interval),
    )
    assert said.code == 0, said.err
    found = {}
    for name in ("ports", "epochs", "pairs"):
        with (out / f"{name}.csv").open() as file:
            found[name] = Counter(tuple(map(int, row)) for row in list(csv.reader(file))[1:])
    with (out / "skew_violations.csv").open() as file:
        assert len(list(csv.reader(file))) - 1 == admitted(packets(5))[1]
    return found


@pytest.mark.slow
def test_the_reference_engine_admits_by_the_value(folder: Path) -> None:
    kept, refused = admitted(packets(5))
    assert refused > 50 and len({port for _, _, port in kept}) == 3
    whole, parts = by_reference(folder, "1h"), by_reference(folder, "5s")
    assert whole == parts and whole["pairs"]
    assert {name: whole[name] for name in ("ports", "epochs")} == expected(kept)


LOGGED = """
DEFINE { query_name 'ports'; }
SELECT tb, port, count(*) AS n FROM a.LOG WHERE protocol = 17 GROUP BY timestamp_ns/5000000000 AS tb, port;
DEFINE { query_name 'epochs'; }
SELECT tb, count(*) AS n FROM a.LOG GROUP BY timestamp_ns/10000000000 AS tb;
DEFINE { query_name 'pairs'; }
SELECT A.timestamp_ns/1000000000 AS t, A.port AS p, B.port AS q FROM a.LOG A JOIN a.LOG B
WHERE A.timestamp_ns = B.timestamp_ns - 1 AND A.port = B.port AND A.protocol = 17 AND B.protocol = 6
"""
LOG = """PROTOCOL LOG {
    llong timestamp_ns get_csv_llong (increasing); uint protocol get_csv_uint; uint port get_csv_uint;
    IP host get_csv_ip;
}
"""
HOSTS = {53: "10.0.0.53", 80: "2001:db8::80", 123: ""}


def as_records(folder: Path) -> None:
    """Makes the packets records of csv, of which another column tells the same ones apart."""
    lines = ["timestamp_ns,protocol,port,host"]
    for stamp, frame, *_ in packets(5):
        port = int.from_bytes(frame[36:38], "big")
        lines.append(f"{stamp},{frame[23]},{port},{HOSTS[port]}")
    (folder / "a.pcap").write_text("\n".join(lines) + "\n")
    (folder / "q.gsql").write_text(LOGGED)
    (folder / "lake" / "log.schema").write_text(LOG)
    text = SETTINGS.replace("[links.a]", '[links.a]\nkind = "csv"\nschemas = "log.schema"', 1)
    text = text.replace('"destPort"', '"host"').replace('"53"', f'"{HOSTS[53]}"').replace('"80"', f'"{HOSTS[80]}"')
    (folder / "lake" / "lowwater.toml").write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("records", [False, True], ids=["packets", "records"])
def test_a_replay_has_the_same_rows(folder: Path, runner: Runner, records: bool) -> None:
    if records:
        as_records(folder)
    lake, config = open_lake(folder / "lake"), load_config(folder / "lake")
    start = BEGIN // HOUR * HOUR
    end = start + HOUR
    ingest(lake, "a", [folder / "a.pcap"], config, (start - HOUR, end + HOUR))
    (outcome,) = replay(Job.open(folder / "lake", "q", folder), start, end, None, Progress(quiet=True), runner)
    assert outcome.state == "done"
    reference = by_reference(folder, "1h")
    ports = ("tb", "port" if records else "destPort", "n")
    for query, columns in {"ports": ports, "epochs": ("tb", "n"), "pairs": ("t", "p", "q")}.items():
        assert column_rows(folder / "lake", query, columns, start, end) == reference[query]
    assert read_violations(lake, "a", config.link("a"), start, end).num_rows == admitted(packets(5))[1]


BATCH = pa.RecordBatch.from_pylist(
    [
        {"vlan_id": 7, "srcMAC": 1, "dns_query": "a.b", "ipversion": 4, "srcIP_hi": 0, "srcIP_lo": 167772161},
        {"vlan_id": None, "srcMAC": 2, "dns_query": None, "ipversion": 6, "srcIP_hi": 0, "srcIP_lo": 167772161},
        {"vlan_id": 8, "srcMAC": None, "dns_query": "", "ipversion": None, "srcIP_hi": None, "srcIP_lo": None},
    ],
    schema=READABLE,
)


@pytest.mark.parametrize(
    ("column", "texts", "found"),
    [
        ("vlan_id", {"7": 1, "8": 2}, [1, 9, 2]),
        ("srcMAC", {"00:00:00:00:00:02": 3}, [9, 3, 9]),
        ("srcIP", {"10.0.0.1": 4, "::a00:1": 5}, [4, 5, 9]),
        ("dns_query", {"": 6}, [9, 9, 6]),
    ],
)
def test_skews_of_records(column: str, texts: dict[str, int], found: list[int]) -> None:
    skews = Skews.parse("a", 9, column, texts)
    assert skews.of(BATCH).tolist() == found
    assert skews.longest == 9 and set(skews.columns) <= set(READABLE.names)
