"""A query that reads what a link does not keep is refused with the line to add; captures read before it are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.config import Config, Link, load_config
from lowwater.errors import QueryError
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.checks import require_kept
from lowwater.replay.job import Job
from tests.capturemaker import Record, pcap_bytes, udp
from tests.replay.support import lowwater

CONFIG = Config(
    links={
        "bare": Link(),
        "dns": Link(applications=("dns", "http"), payload=0),
        "hidden": Link(anonymise="key"),
        "several": Link(),
    }
)
REFUSED = {
    "SELECT time, dns_query FROM bare.UDP": ('applications = ["dns"] in [links.bare]', "1:14", "dns_query"),
    "SELECT time, tls_ja4, quic_version FROM dns.ETH": (
        'applications = ["dns", "http", "quic", "tls"] in [links.dns]',
        "1:14",
        "quic_version, tls_ja4",
    ),
    "SELECT time FROM bare.TCP WHERE TCP_data LIKE 'GET%'": ('payload = "all" in [links.bare]', "1:33", "payload"),
    "SELECT tb, max(http_host) FROM [bare, dns].TCP GROUP BY time/60 AS tb": (
        'applications = ["http"] in [links.bare]',
        "1:16",
        "http_host",
    ),
    "DEFINE { sample '0.5'; } SELECT time FROM bare.TCP": ("sampling = true in [links.bare]", "1:43", "digest"),
    "SELECT time, ssh_banner FROM hidden.TCP": ("link hidden hides addresses", "1:14", "ssh_banner"),
    "SELECT time, dns_id FROM [bare, several].UDP": (
        'applications = ["dns"] in [links.bare]; applications = ["dns"] in [links.several]',
        "1:14",
        "dns_id",
    ),
    "SELECT A.time, B.dns_id FROM dns.UDP A, bare.UDP B WHERE A.time = B.time": (
        'applications = ["dns"] in [links.bare]',
        "1:41",
        "dns_id",
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_column_that_a_link_does_not_keep_is_refused_with_the_line_to_add(text: str) -> None:
    line, place, columns = REFUSED[text]
    with pytest.raises(QueryError) as found:
        require_kept(plan_texts([("q.gsql", text)], Links(tuple(CONFIG.links))), CONFIG)
    said = str(found.value)
    assert line in said and f"q.gsql:{place}: query q: link " in said and columns in said
    assert "so every value of it would be NULL" in said


QUERY = "SELECT time, dns_query, TCP_data FROM a.ETH"
BEGIN = 1_767_225_600_000_000_000


def capture(folder: Path, hour: int) -> None:
    data = bytes.fromhex("000101000001000000000000") + b"\3www\0" + bytes((0, 1, 0, 1))
    packets: list[Record] = [
        (BEGIN + hour * HOUR + at, udp("10.0.0.1", "10.0.0.2", 1024, 53, data=data)) for at in (0, HOUR - 1)
    ]
    (folder / f"a-20260101{hour:02d}0000.pcap").write_bytes(pcap_bytes(packets, nanoseconds=True))


def test_init_writes_what_its_queries_need(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    capture(tmp_path / "captures", 0)
    (tmp_path / "q.gsql").write_text(QUERY.replace("a.ETH", "ETH"), encoding="utf-8")
    (tmp_path / "other.gsql").write_text("SELECT time, tls_ja3 FROM TCP", encoding="utf-8")
    (tmp_path / "odd.gsql").write_text("SELECT time FROM nowhere.TCP", encoding="utf-8")
    queries = [word for name in ("q", "other", "odd") for word in ("--query", tmp_path / f"{name}.gsql")]
    said = lowwater("init", tmp_path / "captures", "--lake", tmp_path / "lake", *queries)
    assert said.code == 0 and "odd.gsql:1:18: no link is called nowhere: nothing of" in said.err, said.err
    assert "hint: there are: a; or write [links.nowhere] in the settings" in said.err
    (link,) = load_config(tmp_path / "lake").links.values()
    assert (link.payload, link.applications) == ("all", ("dns", "tls"))


@pytest.mark.slow
def test_captures_that_were_read_before_the_line_was_written_are_named_and_read_again(tmp_path: Path) -> None:
    lake, settings = tmp_path / "lake", tmp_path / "lake" / "lowwater.toml"
    lake.mkdir()
    (tmp_path / "q.gsql").write_text(QUERY, encoding="utf-8")
    head = '[links.a]\ncaptures = "../a-%Y%m%d%H%M%S.pcap"\nrotation = "1h"\nskew = "0s"\n'
    foot = '[query_sets.q]\nfiles = ["../q.gsql"]\n'
    settings.write_text(head + foot, encoding="utf-8")
    capture(tmp_path, 0)
    ingest(open_lake(lake), "a", list(tmp_path.glob("*.pcap")), load_config(lake))
    for command in (("plan",), ("backfill",), ("check", tmp_path / "q.gsql")):
        said = lowwater(*command, "--lake", lake)
        assert said.code == 1 and 'applications = ["dns"] in [links.a]' in said.err, said
    settings.write_text(f'{head}applications = ["dns"]\npayload = "all"\n{foot}', encoding="utf-8")
    capture(tmp_path, 1)
    second = next(path for path in tmp_path.glob("*.pcap") if path.name.endswith("1010000.pcap"))
    ingest(open_lake(lake), "a", [second], load_config(lake))
    job = Job.open(lake, "q", tmp_path)
    reasons = [job.inputs(BEGIN + at, BEGIN + at + HOUR, job.captures()).outdated() for at in (0, HOUR)]
    assert [len(each) for each in reasons] == [1, 0]
    assert "a-20260101000000.pcap was read without payload, dns, which a query reads: ingest it again" in reasons[0][0]
    said = lowwater("plan", "--lake", lake)
    assert said.code == 0 and "was read without payload, dns" in " ".join(said.out.split())
    assert "read again: a setting of the link" in " ".join(lowwater("ingest", "--lake", lake).out.split())
    assert not job.inputs(BEGIN, BEGIN + HOUR, job.captures()).outdated()
