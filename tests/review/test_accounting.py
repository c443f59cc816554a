"""Where the records of an interval went: the numbers of the picture add up, and each leads to that many packets."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from io import BytesIO
from pathlib import Path

import dpkt
import pytest
from fastapi import FastAPI
from lowwater_generator import generate
from lowwater_review import Ledgers
from lowwater_review.accounting import WIDTH, accounting
from lowwater_review.app import create
from lowwater_review.interval import links_of, low_level_of

from lowwater import Lake
from lowwater.instants import HOUR, parse_instant
from tests.replay.support import lowwater
from tests.review.asgi import ask

pytestmark = pytest.mark.slow
BEGIN = parse_instant("2026-01-01T00:00:00Z")
SKEW = 1_000_000_000
QUERIES = """DEFINE {{ query_name 'large'; }}
SELECT tb, destPort, count(*) AS c, max(flags) AS f FROM {link}.UDP WHERE len > 80 GROUP BY time/60 AS tb, destPort;
DEFINE {{ query_name 'versions'; }}
SELECT tb, ipversion, count(*) AS c FROM {link}.DataProtocol GROUP BY time/60 AS tb, ipversion
"""


def expected(capture: Path) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """What becomes of the packets of a capture, by dpkt alone: of the link, and in the LFTA of each query."""
    link: Counter[str] = Counter()
    low: dict[str, Counter[str]] = {"large": Counter(), "versions": Counter()}
    with capture.open("rb") as file:
        newest = 0
        for at, data in dpkt.pcap.Reader(file):
            stamp = round(float(at) * 1e6) * 1000
            newest = max(newest, stamp)
            if stamp < newest - SKEW:
                link["violating"] += 1
                continue
            link["sane"] += 1
            packet = dpkt.ethernet.Ethernet(data)
            ip = packet.data if isinstance(packet.data, dpkt.ip.IP | dpkt.ip6.IP6) else None
            low["versions"]["accepted" if ip else "not_of_protocol"] += 1
            if ip is None or ip.p != dpkt.ip.IP_PROTO_UDP:
                low["large"]["not_of_protocol"] += 1
            else:
                low["large"]["accepted" if len(data) > 80 else "filtered"] += 1
    return link, low


def test_every_number_adds_up_and_leads_to_its_packets(tmp_path: Path) -> None:
    made = generate(tmp_path / "captures", BEGIN, 1, ["main1"], rate=1.0, seed=5, skew={"main1": 2.0}, cut=())
    capture = next(each.path for each in made if each.start == BEGIN)
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "q.gsql").write_text(QUERIES.format(link="main1"))
    (lake / "lowwater.toml").write_text(
        f'[query_sets.q]\nfiles = ["{lake}/q.gsql"]\n[links.main1]\nskew = "1s"\n'
        'since = "2026-01-01T00:00:00Z"\nuntil = "2026-01-01T01:00:00Z"\n'
    )
    covers = "2026-01-01T00:00:00Z/2026-01-01T01:00:00Z"
    assert lowwater("ingest", "--lake", lake, "--link", "main1", "--covers", covers, capture).code == 0
    lowwater("backfill", "--lake", lake, "--query-set", "q")
    ledgers = Ledgers(lake, lake)
    snapshot, key = ledgers.now(), ("q", BEGIN, BEGIN + HOUR)
    part = snapshot.part(BEGIN, BEGIN + HOUR)
    (drawn,) = accounting(key, snapshot.jobs["q"].plan, links_of(snapshot, part, key), low_level_of(snapshot, key))
    link, low = expected(capture)
    assert link["violating"] and link["sane"] > 1000, link
    of_link, *lftas = drawn.lines
    assert of_link.total == sum(link.values()) and {each.name for each in lftas} == set(low)
    for line, counts in ((of_link, link), *((each, low[each.name]) for each in lftas)):
        assert {each.kind.replace("-", "_"): each.count for each in line.portions} == counts
        assert sum(each.count for each in line.portions) == line.total
        assert line.portions[0].kind in ("sane", "accepted")
        assert all(each.x >= 0 and each.x + each.width <= WIDTH + 0.02 for each in line.portions)
        ends = line.portions[-1].x + line.portions[-1].width
        assert ends == pytest.approx(WIDTH * line.total / of_link.total, abs=1)
    named = lowwater("rows", "large", "--lake", lake, "--queries", lake, "--limit", 3, "--names")
    assert named.code == 0 and re.search(r"^ \d+ 1 Jan 2026, 00:\d\d UTC +53 DNS +\d+ ", named.out, re.MULTILINE), named
    assert lowwater("rows", "large", "--lake", lake, "--queries", lake, "--format", "csv", "--names").code == 2
    rows = Lake(lake).table("large", names=True)
    assert [name for name in rows.schema.names if name.endswith("_text")] == ["destPort_text", "f_text"]
    assert rows.arrow().drop_columns(["destPort_text", "f_text"]) == Lake(lake).table("large").arrow()
    read = {(row["destPort"], row["destPort_text"]) for row in rows.arrow().to_pylist()}
    assert (53, "DNS") in read and all((port == 53) == (text == "DNS") for port, text in read), read
    _follow(create(ledgers), [each for line in lftas for each in line.portions])


def _follow(app: FastAPI, portions: list[object]) -> None:
    page = ask(app, "/interval/q/2026-01-01T000000Z_2026-01-01T010000Z.html").text
    leads = re.findall(r'href="\.\./\.\./(results/[^"]*outcome=[^"]*)">([\d,]+) ([^<]+)</a>', page)
    assert len(leads) == len(portions) == 5
    for address, count, words in leads:
        path, _, query = unescape(address).partition("?")
        found = ask(app, f"/{path}", query=query)
        assert found.status == 200 and f"{count} packet" in found.text and words in found.text
        download = ask(app, f"/{path.replace('/packets', '/packets.pcapng')}", query=query)
        frames = sum(1 for _ in dpkt.pcapng.Reader(BytesIO(download.body)))
        assert frames == int(count.replace(",", ""))
    span = "from=2026-01-01&to=2026-01-02"
    assert ask(app, "/results/q/large/packets", query="outcome=filtered").status == 400
    for wrong in (f"outcome=shed&lfta=large&link=main1&{span}", f"outcome=filtered&lfta=none&link=main1&{span}"):
        assert "names no packets of this query" in ask(app, "/results/q/large/packets", query=wrong).text
