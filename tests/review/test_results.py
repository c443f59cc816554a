"""The results pages over a lake with packets: tables, plots, files, packets, versions; hostile values and rights."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode
from zipfile import ZipFile

import pyarrow as pa
import pytest
from fastapi import FastAPI
from lowwater_review import Ledgers
from lowwater_review.app import create
from lowwater_review.results.pictures import epoch_of

from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import open_lake
from lowwater.lake.results.exploring import RowQuery, part_length, result_table
from lowwater.lake.tables import append_rows
from lowwater.plan.context import Links
from lowwater.plan.properties import INSTANT
from lowwater.plan.queryset import plan_texts
from tests.review.asgi import ask
from tests.review.ledgers import HOSTILE
from tests.review.resultlake import START
from tests.review.test_pages import Reader

pytestmark = pytest.mark.slow
EVER = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T02:00:00Z"}


def test_a_row_leads_to_its_packets_in_wiresharks_format(app: FastAPI, made: tuple[Path, Path], tmp_path: Path) -> None:
    page = Reader(ask(app, "/results/q/flows", query=urlencode(EVER | {"sort": "cnt", "desc": "1"})).text)
    assert page.all("svg")[0]["role"] == "group" and len(page.all("rect")) > 50
    slots = [attrs["class"] for attrs in page.all("rect")]
    assert slots.count("slot absent") == slots.count("slot") == 60, "the second hour is not published, which is not 0"
    (first, *_) = [attrs["href"] for attrs in page.all("a") if "/packets?" in (attrs["href"] or "")]
    query = (first or "").partition("?")[2]
    assert f"../q/flows/evidence.zip?{query}" in [attrs["href"] for attrs in page.all("a")], "in one click, too"
    packets = Reader(ask(app, "/results/q/flows/packets", query=query).text)
    most = result_table(open_lake(made[0]), "flows").page(RowQuery(0, 1 << 62, sort="cnt", descending=True), 0, 1)
    assert f"{most.column('cnt')[0].as_py():,} packets of" in " ".join(packets.texts)
    assert packets.texts.count(most.column("srcIP")[0].as_py()) > 2  # of the row, and of its packets
    download = ask(app, "/results/q/flows/packets.pcapng", query=query)
    (tmp_path / "row.pcapng").write_bytes(download.body)
    shown = subprocess.run(["tshark", "-r", tmp_path / "row.pcapng"], capture_output=True, text=True, timeout=300)
    assert shown.returncode == 0 and len(shown.stdout.splitlines()) == most.column("cnt")[0].as_py()
    assert [attrs["href"] for attrs in packets.all("a") if "evidence" in (attrs["href"] or "")] == [
        f"evidence.zip?{urlencode({'row': parse_qs(query)['row'][0]})}"
    ]
    (tmp_path / "evidence.zip").write_bytes(ask(app, "/results/q/flows/evidence.zip", query=query).body)
    with ZipFile(tmp_path / "evidence.zip") as archive:
        archive.extractall(tmp_path)
    checked = subprocess.run([sys.executable, tmp_path / "check.py"], capture_output=True, text=True, timeout=300)
    assert checked.returncode == 0 and "the row of flows is derived" in checked.stdout, checked


def test_plots_are_saved_beside_the_query_set(app: FastAPI, made: tuple[Path, Path]) -> None:
    file = made[1] / "q.plots.json"

    def save(query: str, title: str, **given: str) -> None:
        text = ask(app, f"/results/q/{query}/plots.json", query=urlencode({"title": title} | given)).text
        file.write_text(text, encoding="utf-8")

    title, heavy = (
        "Bytes of heavy senders",
        {"number": "bytes", "key": "srcIP", "column": "cnt", "op": ">", "value": "3"},
    )
    save("flows", title, number="cnt")
    save("ports", "Even <ports>", number="cnt", key="even")
    save("flows", title, **heavy)
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert [(each["title"], each["number"]) for each in saved] == [("Even <ports>", "cnt"), (title, "bytes")]
    assert saved[1]["filters"] == [["cnt", ">", "3"]] and "<" not in file.read_text(encoding="utf-8")

    assert "Even &lt;ports&gt;" in ask(app, "/results/index.html").text
    page = ask(app, "/results/q/flows").text
    assert "Even" not in page  # of another query
    (address,) = [attrs["href"] for attrs in Reader(page).all("a") if attrs["href"] == f"?{urlencode(heavy)}"]
    shown = Reader(ask(app, "/results/q/flows", query=(address or "").lstrip("?")).text)
    assert next(attrs["value"] for attrs in shown.all("input") if attrs.get("name") == "value") == "3"
    assert "bytes over time by srcIP" in " ".join(shown.texts)

    for wrong, reason in (
        ("{", "EOF while parsing"),
        ('[{"query": "flows"}]', "0.title: Field required"),
        ('[{"title": "a", "query": "flows", "filters": [["cnt", "like", "3"]]}]', "compares by 'like'"),
        ("[" + " " * (1 << 20) + "]", "more than 1,048,576 bytes"),
    ):
        file.write_text(wrong, encoding="utf-8")
        for path in ("index.html", "q/flows"):
            told = ask(app, f"/results/{path}")
            assert told.status == 200 and all(text in " ".join(Reader(told.text).texts) for text in (str(file), reason))
        assert ask(app, "/results/q/flows/plots.json", query="title=a").status == 400
    file.unlink()
    for title in ("", " ", "a" * 81):
        assert ask(app, "/results/q/flows/plots.json", query=urlencode({"title": title})).status == 400


def test_the_plots_of_a_set_stand_on_one_page(app: FastAPI, made: tuple[Path, Path]) -> None:
    """Two are proposed for each query, saved ones take their place; each part leads to its rows, with the search."""
    page = Reader(ask(app, "/results/q").text)
    links = [attrs["href"] or "" for attrs in page.all("a")]
    titles = [text for text in page.texts if text.startswith(("flows:", "ports:", "totals:", "singles:"))]
    assert titles[:3] == ["flows: cnt by srcIP", "flows: cnt of the largest destIP", "ports: cnt by even"]
    bars = [link for link in links if "column=destIP" in link]
    assert len(bars) == 20 and all(link.startswith("q/flows?") for link in bars)
    assert all("sort=cnt&desc=1" in link for link in bars), "what makes most of it comes first"
    path, _, query = bars[0].partition("?")
    address = parse_qs(query)["value"][0]
    rows = Reader(ask(app, f"/results/{path}", query=query).text)
    assert rows.texts.count(address) >= 10
    total = sum(row["cnt"] for row in _rows(made, "flows") if row["destIP"] == address)
    largest = max(_sums(made).items(), key=lambda each: (each[1], each[0]))
    assert total == largest[1] and f"{total:,}" in page.texts
    file = made[1] / "q.plots.json"
    plot = {
        "title": "Who talks",
        "query": "flows",
        "number": "bytes",
        "key": "srcIP",
        "form": "matrix",
        "across": "destIP",
    }
    file.write_text(json.dumps([plot, {"title": "Gone", "query": "ports", "number": "gone"}]))
    try:
        text = ask(app, "/results/q", query="search=10.0.0.0/8").text
        assert "Who talks" in text and "flows: cnt by" not in text and "totals:" in text
        assert "no column &#39;gone&#39;" in text and text.count('class="shade') > 20
        assert 'value="10.0.0.0/8"' in text and "search=10.0.0.0%2F8" in text
    finally:
        file.unlink()
    index = Reader(ask(app, "/results/index.html").text)
    assert [attrs["action"] for attrs in index.all("form")] == ["../results/q"]
    week = ask(app, "/results/q", query="search=10.0.0.1&days=7").text
    assert 'value="10.0.0.1"' in week and "25 Dec 2025, 01:00 to 1 Jan 2026, 01:00 UTC" in week
    assert ask(app, "/results/none").status == 404 and ask(app, "/results/q", query="from=x").status == 400


def _rows(made: tuple[Path, Path], query: str) -> list[dict[str, Any]]:
    return result_table(open_lake(made[0]), query).page(RowQuery(0, 1 << 62), 0, 10_000).to_pylist()


def _sums(made: tuple[Path, Path]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for row in _rows(made, "flows"):
        sums[row["destIP"]] += row["cnt"]
    return sums


def test_a_search_that_is_not_understood_says_so_beside_the_form(app: FastAPI) -> None:
    """Counterexample: a filter of any column was dropped without a word, and a network found nothing."""

    def searched(**given: str) -> tuple[int, Reader]:
        answer = ask(app, "/results/q/flows", query=urlencode(EVER | given))
        return answer.status, Reader(answer.text)

    status, page = searched(search="10.0.0.0/8")
    assert status == 200 and "No row" not in page.texts
    for search, understood in {"10.0.0.0/99": False, "cnt=many": False, "<b>nothing</b>": False, "ab/8": True}.items():
        status, page = searched(search=search)
        assert next(attrs["value"] for attrs in page.all("input") if attrs.get("name") == "search") == search
        assert (status == 200) is understood, search
        assert ("Nothing was looked for" in " ".join(page.texts)) is not understood, search
    status, page = searched(column="", op="=", value="10.0.0.1")
    assert status == 400 and "the filter '10.0.0.1' has no column" in " ".join(page.texts)


def test_who_may_not_see_a_query_set_sees_none_of_its_results(made: tuple[Path, Path]) -> None:
    app = create(Ledgers(*made), permissions=lambda: lambda name: False)
    files = "/rows.csv", "/rows.parquet", "/plot.json", "/plots.json", "/packets.pcapng", "/evidence.zip"
    for path in ("", *files, "/packets", "/diff"):
        assert ask(app, f"/results/q/flows{path}", query="row=%7B%7D").status == 404, path
    assert "flows" not in ask(app, "/results/index.html").text


def test_hostile_values_are_text_and_versions_are_compared(made: tuple[Path, Path], app: FastAPI) -> None:
    table = result_table(open_lake(made[0]), "flows")
    row = table.page(RowQuery(0, 1 << 62), 0, 1).set_column(1, "srcIP", pa.array([HOSTILE]))
    row = row.append_column("tb_start", pa.nulls(1, INSTANT)).append_column("_hour", pa.array([START // HOUR]))
    append_rows(open_lake(made[0]).table("flows"), row)
    query = urlencode(EVER | {"column": "srcIP", "op": "=", "value": HOSTILE})
    for path in ("/results/q/flows", "/results/q/flows/packets", "/results/q/flows/diff"):
        more = {"row": json.dumps({"tb": 1, HOSTILE: HOSTILE}), "before": table.version, "after": table.version + 1}
        answer = ask(app, path, query=f"{query}&{urlencode(more)}")
        assert answer.status == 200 and HOSTILE not in answer.text and "<script" not in answer.text, path
        assert any(HOSTILE in text for text in Reader(answer.text).texts), path
    assert "1 rows added, 0 gone, 0 changed" in " ".join(Reader(answer.text).texts)


@pytest.mark.parametrize(
    ("column", "group", "epoch"),
    [
        ("tb", "time/60 AS tb", 60),
        ("tb*60", "time/60 AS tb", 60),
        ("tb*600 + 3", "time/600 AS tb", 600),
        ("time", "time", 1),
    ],
)
def test_a_plot_has_no_part_that_is_shorter_than_an_epoch(column: str, group: str, epoch: int) -> None:
    """Half of the parts were drawn as 0 where a query shows the begin of its epochs."""
    text = f"SELECT {column} AS begin, count(*) AS packets FROM IPV4 GROUP BY {group}"
    (query,) = plan_texts([("q", text)], Links(("main1",))).queries
    assert epoch_of(query) == epoch * SECOND
    assert part_length(HOUR // 2, epoch_of(query)) % (epoch * SECOND) == 0
