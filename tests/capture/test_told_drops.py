"""Drops that logs of Suricata and Zeek tell among their records (SEMANTICS A1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lowwater.capture.records.drops import Drops, total
from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.reader import RecordReader
from lowwater.capture.tables.statistics import told
from lowwater.catalog.protocols import READY
from lowwater.instants import SECOND, format_instant

START = 1_767_225_600  # 2026-01-01T00:00:00Z


def drops_of(path: Path, lines: list[str], protocol: str) -> list[Drops]:
    path.write_text("".join(f"{line}\n" for line in lines))
    layout = READY[protocol].layout
    assert layout is not None
    reader = RecordReader(path, TableOptions(layout.format, layout), 10 * 86_400 * SECOND, "")
    assert sum(batch.num_rows for batch in reader) and reader.summary is not None
    return [each for each in reader.summary.interfaces[0].drops.alone() if each.count]


def flow(second: int) -> str:
    at = format_instant((START + second) * SECOND)
    return json.dumps({"timestamp": at, "event_type": "flow", "src_ip": "10.0.0.1", "flow": {"start": at, "end": at}})


def stats(second: int, drops: Any, uptime: Any, packets: int = 1000) -> str:
    at = format_instant((START + second) * SECOND).replace("Z", "+0000")
    counts = {"kernel_packets": packets, "kernel_drops": drops}
    return json.dumps({"timestamp": at, "event_type": "stats", "stats": {"uptime": uptime, "capture": counts}})


def eve(path: Path, *events: str) -> list[tuple[int, int, int]]:
    """(from, to, count) in seconds from START."""
    found = drops_of(path, [flow(0), *events, flow(900)], "EVE_FLOW")
    return [((each.start or 0) // SECOND - START, (each.end or 0) // SECOND - START, each.count) for each in found]


def test_suricata_counts_since_it_began_and_the_first_reading_of_an_old_one_is_where_counting_begins(
    tmp_path: Path,
) -> None:
    path = tmp_path / "eve.json"
    assert eve(path, stats(8, 10, 8), stats(16, 10, 16), stats(24, 13, 24)) == [(16, 24, 3), (0, 8, 10)]
    assert eve(path, stats(8, 4711, 90_000), stats(16, 4711, 90_008), stats(24, 4713, 90_016)) == [(16, 24, 2)]
    # it was started again in between
    assert eve(path, stats(8, 50, 9000), stats(16, 50, 9008), stats(300, 4, 8), stats(308, 6, 16)) == [
        (292, 300, 4),
        (300, 308, 2),
    ]
    # one reading says that much was lost, and not when
    assert eve(path, stats(300, 7, 600)) == [(-300, 300, 7)]


@pytest.mark.parametrize("drops", [(1 << 64) - 1, -3, "x", None, True, 1e400, [1]])
def test_a_number_that_is_none_is_left_out(tmp_path: Path, drops: Any) -> None:
    assert eve(tmp_path / "eve.json", stats(8, drops, 8), stats(16, 5, 16)) == [(0, 16, 5)]


ZEEK = """#separator \\x09
#path\tconn
#fields\tts\tuid\tid.orig_h\tid.resp_h
1767225600.0\tC1\t10.0.0.1\t10.0.0.2
#path\tcapture_loss
#fields\tts\tts_delta\tpeer\tgaps\tacks\tpercent_lost
1767226500.0\t900.0\tzeek\t12\t3000\t0.4
1767227400.0\t900.0\tzeek\t0\t3000\t0.0
#path\tstats
#fields\tts\tpeer\tpkts_proc\tpkts_dropped
1767225900.0\tw1\t2000\t5
1767226200.0\tw1\t2000\t7
1767226200.0\tw2\t2000\t-
#path\treporter
#fields\tts\tlevel\tmessage\tlocation
0.0\tReporter::INFO\t4012 packets received on interface eth0, 12 (0.30%) dropped, not processed 0 (0.00%)\t(empty)
1767226200.0\tReporter::WARNING\t2 packets are odd\t(empty)"""


def test_zeek_tells_the_same_losses_in_three_logs(tmp_path: Path) -> None:
    found = drops_of(tmp_path / "zeek.log", ZEEK.split("\n"), "ZEEK_CONN")
    at = {name: (START + second) * SECOND for name, second in (("a", 300), ("b", 600), ("c", 900))}
    assert sorted(found, key=lambda each: (each.source, each.count)) == [
        Drops(START * SECOND, at["c"], 12, "zeek capture_loss", 3000),
        Drops(None, None, 12, "zeek reporter", 4012),
        Drops(None, at["a"], 5, "zeek stats", 2005),
        Drops(at["a"], at["b"], 7, "zeek stats", 2007),
    ]
    assert total(found) == 12


def test_zeek_in_json_tells_the_same(tmp_path: Path) -> None:
    lines = [
        {"_path": "conn", "ts": START, "uid": "C1", "id.orig_h": "10.0.0.1"},
        {"_path": "capture_loss", "ts": START + 900.5, "ts_delta": 900.0, "peer": "zeek", "gaps": 12, "acks": 3000},
        {"_path": "capture_loss", "ts": "2026-01-01T00:30:00.5Z", "ts_delta": 900.0, "gaps": 3, "acks": 100},
        {"_path": "stats", "ts": START, "peer": "w", "pkts_proc": 10},
    ]
    found = drops_of(tmp_path / "zeek.log", [json.dumps(line) for line in lines], "ZEEK_CONN")
    assert [(each.start, each.end, each.count) for each in found] == [
        (START * SECOND + SECOND // 2, (START + 900) * SECOND + SECOND // 2, 12),
        ((START + 900) * SECOND + SECOND // 2, (START + 1800) * SECOND + SECOND // 2, 3),
    ]


def test_what_tells_nothing_is_nothing() -> None:
    odd: list[tuple[str, str, dict[str, Any]]] = [
        ("suricata", "stats", {}),
        ("suricata", "stats", {"stats": {"capture": []}}),
        ("zeek", "capture_loss", {"ts": "-", "gaps": "3"}),
        ("zeek", "reporter", {"ts": "1", "message": "9" * 40 + " packets received on interface x, 1 (0%) dropped"}),
    ]
    assert [told(*each) for each in odd] == [None] * len(odd)
