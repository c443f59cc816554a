"""Hints of what the setup asks: pages of rows, packets of a row, versions of a table, and the server of the pages."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pyarrow as pa
from lowwater_review.results import answers as answering
from lowwater_review.results.asked import as_plot, parse_asked, plots_file, read_plots
from lowwater_review.results.pages import _number_of_version
from lowwater_review.serving import access, listen

from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.results.exploring import DEEPEST, Filter, ResultTable, RowQuery, instant_of, result_table
from lowwater.lake.tables import append_rows, create
from lowwater.plan.context import Links
from lowwater.plan.queryset import QueryPlan, plan_texts
from lowwater.replay.job import Job
from lowwater.replay.packets import row_packets
from lowwater.replay.schedule.skew_review import skew_change, write_skew
from tests.hints.setup import Case, Setup, tried
from tests.replay.support import START, Said

ROW = {"tb": 29_453_760, "srcIP": "10.0.0.1", "n": 1}
FLOWS = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"
WHOLE = "SELECT tb, srcIP, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, srcIP"


def _table(setup: Setup, version: int | None = None, query: str = "flows") -> ResultTable:
    """A published table of one row."""
    lake = open_lake(setup.lake)
    if not lake.table("flows").exists():  # type: ignore[attr-defined]
        rows = pa.table({"tb": [START // (60 * 10**9)], "n": [1], "_last": [START], "_hour": [START // HOUR]})
        create(lake.table("flows"), rows.schema, ["_hour"], "flows")
        append_rows(lake.table("flows"), rows)
    return result_table(lake, query, version)


def _count(setup: Setup, *asked: str) -> None:
    assert _table(setup).count(RowQuery(0, 1 << 62, (Filter(*asked),))) == 1


def _search(setup: Setup, words: str) -> None:
    assert _table(setup).count(RowQuery(0, 1 << 62, search=words)) == 1


def _page(setup: Setup, offset: int, sort: str = "") -> None:
    _table(setup).page(RowQuery(0, 1 << 62, sort=sort), offset, 1)


def _plan(text: str = WHOLE) -> QueryPlan:
    (query,) = plan_texts([("q", f"DEFINE {{ query_name 'q'; }}\n{text}")], Links(("main1",))).queries
    return query


def _row(_: Setup, text: str = WHOLE, **changed: Any) -> None:
    row_packets(_plan(text), {name: value for name, value in (ROW | changed).items() if value != "absent"})


def _asked(setup: Setup, **given: str) -> None:
    parse_asked(_table(setup), _plan(), given, {})


def _token(setup: Setup, text: str | None, mode: int = 0o600) -> None:
    path = setup.folder / "token.txt"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    access("127.0.0.1", path)


def _listen(setup: Setup, taken: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen("127.0.0.1", other.getsockname()[1] if taken else 0).close()


def _skew(setup: Setup, bound: str, *more: str) -> Said:
    return setup.run("skew", "--lake", setup.lake, "--link", "main1", "--set", bound, "--queries", setup.folder, *more)


def _overtaken(setup: Setup) -> None:
    change = skew_change(setup.settle(), setup.folder, [], "main1", 2 * 10**9)
    setup.settings('skew = "1s"', 'skew = "5s"')
    write_skew(setup.lake, change)


def _queued(_: Setup, count: int) -> None:
    """A person asks for so many answers at once, and the first is not there yet."""
    answers, held = answering.TaskQueue(1), threading.Event()
    try:
        for _ in range(count):
            answers.put("ann", held.wait)
    finally:
        held.set()


def _saved(setup: Setup, operator: str) -> None:
    job = Job.open(setup.settle(ingest=False), "flows", setup.folder)
    plot = {"title": "a", "query": "flows", "filters": [["n", operator, "5"]]}
    setup.write("flows.plots.json", json.dumps([plot]))
    assert plots_file(job) == setup.folder / "flows.plots.json" and len(read_plots(job)) == 1


def _titled(setup: Setup, title: str) -> None:
    setup.settle(ingest=False)
    assert as_plot(title, "flows", parse_asked(_table(setup), _plan(FLOWS), {}, {})).title == "a"


CASES: list[Case] = [
    tried("answers of one person", _queued, "ask again later", 13, 12),
    tried("a saved plot's operator", _saved, "use one of =", "~", ">"),
    tried("a saved plot's title", _titled, "give `title`", " ", "a "),
    Case("settings that changed meanwhile", _overtaken, "look at the change again", lambda setup: _skew(setup, "2s")),
    tried("a deep page", _page, "filter the rows, or download them", DEEPEST, 0),
    tried("a filter of no column", _count, "did you mean n?", ("nn", "=", "1"), ("n", "=", "1")),
    tried("no comparison", _count, "there are: =", ("n", "==", "1"), ("n", "=", "1")),
    tried("a filter of another type", _count, "its type is int64", ("n", "=", "one"), ("n", "=", "1")),
    tried("a search of no network", _search, "a network (10.1.0.0/24)", "10.0.0.0/99", "0-9"),
    tried("a search of no number", _search, ">100", ">many", ">0"),
    tried("a search without a column of its kind", _search, "a number", "10.0.0.0/8", "1"),
    tried("no version", _table, "there are versions 0 to 1", 7, 1),
    Case("an address without an instant", lambda setup: instant_of("now", "from") and None,
         "write for example 1970-01-01T00:00:00Z",
         lambda setup: None if instant_of("1970-01-01T00:00:00Z", "from") == 0 else setup.run("no instant")),
    tried("an address of no page", _asked, "give 1 or more", {"page": "0"}, {"page": "1"}),
    Case("an address of no version", lambda setup: _number_of_version("x", "before") and None, "give a number",
         lambda setup: _number_of_version("1", "before") and None),
    tried("half a row", _row, "give every column", {"n": "absent"}, ()),
    tried("a row of other types", _row, "its type is", {"srcIP": "somewhere"}, {"srcIP": "10.0.0.1"}),
    Case("a row of a hidden group",
         lambda setup: _row(setup, "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, srcIP"),
         "`lowwater export` selects packets by a condition of your own", lambda setup: _kept_where(setup)),
    tried("a token file that is not there", _token, "name a text file", None, "a token of some length"),
    tried("a port of the pages that is taken", _listen, "give another --port", True, False),
]  # fmt: skip


def _kept_where(setup: Setup) -> Said:
    setup.settle()
    out = setup.folder / "out.pcap"
    return setup.run("export", "--lake", setup.lake, "--where", "len > 60", "--out", out)
