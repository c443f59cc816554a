"""From a plot over real captures to its highest part, a row of it and its packets: TLS, HTTP, DNS and a join."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fastapi import FastAPI
from lowwater_review import Ledgers
from lowwater_review.app import create

from tests.browser import chromium, served
from tests.replay.support import lowwater
from tests.review.test_browser import show_rows

pytestmark = [pytest.mark.slow, pytest.mark.captures]

QUERIES = {
    "load": "SELECT tb*10 AS begin, count(*) AS packets FROM tls.DataProtocol GROUP BY time/10 AS tb",
    "tls_names": "SELECT tb*60 AS begin, srcIP, tls_server_name, count(*) AS packets FROM tls.TCP "
    "WHERE tls_server_name <> '' GROUP BY time/60 AS tb, srcIP, tls_server_name",
    "hosts": "SELECT tb*60 AS begin, http_host, count(*) AS packets FROM web.TCP WHERE http_host <> '' "
    "GROUP BY time/60 AS tb, http_host",
    "dns_pairs": "SELECT Q.timestamp, Q.srcIP AS client, A.srcIP AS server, Q.dns_id AS id, Q.dns_query AS name, "
    "(A.timestamp - Q.timestamp)/1 ms AS latency INNER_JOIN FROM irc.DNS Q, irc.DNS A WHERE Q.dns_response = 0 "
    "AND A.dns_response = 1 AND Q.srcIP = A.destIP AND Q.destIP = A.srcIP AND Q.dns_id = A.dns_id "
    "AND Q.timestamp <= A.timestamp AND A.timestamp <= Q.timestamp + 2 s",
}
FILES = {
    "tls": "ajbanjara+Wireshark__wwwww.pcap",
    "irc": "ajbanjara+Wireshark__SkypeIRC.cap",
    "web": "ajbanjara+Wireshark__c05-http-reply-r1.pcap.gz",
}


@pytest.fixture(scope="module")
def app(captures_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """Pages of a lake as a first user makes it, its intervals a day long."""
    folder = tmp_path_factory.mktemp("real")
    for link, name in FILES.items():
        file = captures_dir / "traffic" / name
        (folder / "captures" / link).mkdir(parents=True)
        target = folder / "captures" / link / f"{link}.pcap"
        if file.suffix == ".gz":
            target.write_bytes(gzip.decompress(file.read_bytes()))
        else:
            shutil.copy(file, target)
    texts = [f"DEFINE {{ query_name '{name}'; }}\n{text};\n" for name, text in QUERIES.items()]
    (folder / "real.gsql").write_text("".join(texts))
    lake = folder / "lake"
    said = lowwater("init", folder / "captures", "--lake", lake, "--query", folder / "real.gsql")
    assert said.code == 0 and "does not fit" not in said.err, said
    settings = lake / "lowwater.toml"
    settings.write_text(re.sub('length = "[^"]+"', 'length = "1d"', settings.read_text()))
    assert lowwater("ingest", "--lake", lake).code == 0
    said = lowwater("backfill", "--lake", lake, "--through-end")
    assert said.code == 0 and "failed" not in said.out, said
    return create(Ledgers(lake, folder))


@pytest.mark.nightly
def test_a_click_on_the_highest_part_of_each_plot_leads_to_its_packets(app: FastAPI, tmp_path: Path) -> None:
    """In Chromium, from the address without a choice: the plot sums a count or, for the join, what it computes."""
    with chromium() as started, served(app) as at:
        browser = started.new_page()
        for query in QUERIES:
            show_rows(browser, f"{at}/results/real/{query}")
            drawn = {"dns_pairs": "latency"}.get(query, "packets")
            assert browser.locator("select[name=number]").input_value() == drawn
            slots = browser.locator("svg .slot title").all_text_contents()
            drawings = [re.search(r": ([\d,.]+)(?: in all|$)", text) for text in slots]
            totals = [float(each[1].replace(",", "")) if each else 0.0 for each in drawings]
            assert max(totals) > 0, slots
            before = browser.url
            browser.locator("svg .slot").nth(totals.index(max(totals))).click()
            browser.wait_for_url(lambda url, before=before: url != before)
            show_rows(browser, browser.url)
            browser.get_by_role("link", name="show", exact=True).first.click()
            with browser.expect_download() as got:
                browser.get_by_role("link", name="Download all as pcapng").click()
            got.value.save_as(tmp_path / f"{query}.pcapng")
    for query in QUERIES:
        words = ["tshark", "-r", str(tmp_path / f"{query}.pcapng")]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert shown.returncode == 0 and shown.stdout.splitlines()
