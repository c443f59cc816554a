"""Who was late, against the records as they were written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from lowwater_review.lateness import offenders

from lowwater.config import Link, load_config
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.runs import record_violations
from tests.capturemaker import pcap_bytes, tcp
from tests.lake.support import BASE, at


def test_who_was_late_are_the_captures_and_senders_of_the_refused_records(tmp_path: Path) -> None:
    """Against the records as they were written: (second of the timestamp, sender), in order of arrival."""
    lake, config = open_lake(tmp_path), load_config(tmp_path)
    records = {
        "first.pcap": [(10, "10.0.0.1"), (7, "10.0.0.2"), (8, "10.0.0.2"), (9.5, "10.0.0.3")],
        "second.pcap": [(30, "10.0.0.1"), (20, "10.0.0.3"), (31, "10.0.0.1")],
    }
    for name, rows in records.items():
        data = [(at(second), tcp(sender, "10.9.9.9", 1, 2)) for second, sender in rows]
        (tmp_path / name).write_bytes(pcap_bytes(data, nanoseconds=True))
    ingest(lake, "a", [tmp_path / name for name in records], config)
    captures = read_captures(lake, ["a"])["a"]
    digest = {Path(each.path).name: each.capture for each in captures}
    late = [("first.pcap", 1, 7, 10), ("first.pcap", 2, 8, 10), ("second.pcap", 1, 20, 30)]
    rows = [
        {"capture": digest[name], "position": position, "timestamp": at(then), "arrival": at(clock),
         "lateness": at(clock) - at(then)}
        for name, position, then, clock in late
    ]  # fmt: skip
    record_violations(lake, "a", Link(), BASE, BASE + HOUR, pa.Table.from_pylist(rows))
    found = offenders(lake, "a", captures, config.link("a"), BASE, BASE + HOUR)
    assert (found.late, found.largest, found.looked_up) == (3, 10 * SECOND, 3)
    seen = [(each.name, each.late, each.records, each.largest) for each in found.captures]
    assert seen == [("first.pcap", 2, 4, 3 * SECOND), ("second.pcap", 1, 3, 10 * SECOND)]
    senders = [(each.name, each.late, each.largest) for each in found.senders]
    assert senders == [("10.0.0.2", 2, 3 * SECOND), ("10.0.0.3", 1, 10 * SECOND)]
    assert [(each["capture"], each["position"]) for each in found.first] == [each[:2] for each in late]
    assert offenders(lake, "a", captures, config.link("a"), BASE + HOUR, BASE + 2 * HOUR).late == 0
