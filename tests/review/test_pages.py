"""The review pages over synthetic ledgers: complete, escaped, linked, offline, bounded, never beyond their folders."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from lowwater_review import Board, render, write_site
from lowwater_review.app import HEADERS, create, inside
from lowwater_review.calendar import covered
from lowwater_review.drawing import history, lateness, waterfall
from lowwater_review.pages import HERE, PAGES, addresses
from lowwater_review.results.curve_drawing import draw_curves

from lowwater.config import Config
from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.files import UNCLAIMED, SeenFile, changing, put_seen
from lowwater.lake.locks import hold_range
from lowwater.lake.results.curves import Curve, Curves
from lowwater.lake.tables import interval_label
from tests.lake.support import BASE
from tests.lake.test_interfaces import pcapng
from tests.replay.support import lowwater
from tests.review.asgi import ask
from tests.review.ledgers import CLUSTERED, HOSTILE, LINKS, START, capture, make

HOURS = 30
FAILED = 5
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "path", "rect", "line"}


def interval(at: int) -> str:
    return f"interval/q/{interval_label(START + at * HOUR, START + (at + 1) * HOUR)}.html"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    root, queries = make(tmp_path_factory.mktemp("review"), HOURS, frozenset({FAILED}))
    reports = root / "reports" / "q"
    reports.mkdir(parents=True)
    (root / "reports" / "suites").mkdir()
    (root / "reports" / "suites" / "links.html").write_text("<p>Data Docs</p>")
    (reports / "page.html").write_text("<p>a page</p>")
    return Board(root, queries)


class Reader(HTMLParser):
    """What is on a page: elements in balance, ids, addresses, headings, texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def pages(board: Board) -> dict[str, Reader]:
    known = board.now()
    found = {address: render(known, address) for address in addresses(known)}
    return {address: Reader(page or "") for address, page in found.items()}


@pytest.fixture(scope="module")
def read(board: Board) -> dict[str, Reader]:
    return pages(board)


@pytest.mark.slow
def test_an_interval_is_running_while_its_range_is_held(board: Board) -> None:
    def running() -> list[int]:
        known = board.now().part(START, START + HOURS * HOUR)
        return [(each.start - START) // HOUR for each in known.intervals if each.state == "running"]

    lake = open_lake(board.root)
    killed = lake.work / "q_2025-01-01T01_00_00Z_to_2025-01-01T02_00_00Z" / "0123"
    killed.mkdir(parents=True)
    assert running() == []
    with hold_range(lake, "q", START + 2 * HOUR, START + 3 * HOUR):
        assert running() == [2]
    with hold_range(lake, "q", START + 2 * HOUR, START + 4 * HOUR):  # an interval of another length
        assert running() == []
    killed.rmdir()
    killed.parent.rmdir()


@pytest.mark.slow
def test_every_interval_and_link_has_its_page(read: dict[str, Reader]) -> None:
    assert {interval(at) for at in range(HOURS)} <= set(read)
    assert {f"skew/{link}.html" for link in LINKS} <= set(read)
    assert {"index.html", "month/2025-01.html", "set/q.html", "query/q/flows.html", "skew/index.html"} <= set(read)
    for kind in PAGES:
        assert any(kind.match(address.removesuffix(".html")) is not None for address in read), kind.address
        assert (HERE / "templates" / kind.template).is_file()


def test_the_page_of_an_interval_says_where_its_tasks_ran(read: dict[str, Reader]) -> None:
    text = " ".join(" ".join(read[interval(CLUSTERED)].texts).split())
    assert (
        "On the cluster" in text
        and "in low: executor 2 on 10.0.0.3 (worker lost" in text
        and "in high: executor 2" in text
    )
    assert "3 tasks of the low stage, 1 of them tried again, 1 on another machine than the one that was chosen" in text
    assert "10.0.0.4 1 4,000,000 10.5" in text and "main1 2 4,000,000 10.0.0.3 10.0.0.4 2 10.5" in text
    assert "On the cluster" not in " ".join(read[interval(CLUSTERED + 1)].texts)


def test_the_page_of_an_interval_says_what_was_shed(read: dict[str, Reader]) -> None:
    text = " ".join(" ".join(read[interval(CLUSTERED)].texts).split())
    assert "Shed records (O5)" in text and "flows.TCP main1 2,000 250 12.5 % 1 1 Jan 2025, 08:01 UTC 250" in text
    assert "Shed records" not in " ".join(read[interval(CLUSTERED + 1)].texts)


def test_every_address_leads_to_a_page(read: dict[str, Reader]) -> None:
    for address, page in read.items():
        ids = {attrs["id"] for _, attrs in page.tags if attrs.get("id")}
        assert len(ids) == sum(1 for _, attrs in page.tags if attrs.get("id"))
        for attrs in page.all("a"):
            target = attrs["href"] or ""
            if target.startswith("#"):
                assert target[1:] in ids
                continue
            parts = [*address.split("/")[:-1]]
            for part in target.split("/"):
                parts = parts[:-1] if part == ".." else [*parts, part]
            found = "/".join(parts)
            assert found in read or found == "docs/suites/links.html" or found.startswith("docs/q/"), (address, target)


def test_nothing_runs_and_nothing_is_fetched(read: dict[str, Reader]) -> None:
    for page in read.values():
        names = {name for name, _ in page.tags}
        assert not names & {"script", "iframe", "object", "embed", "img", "form", "style"}
        for _, attrs in page.tags:
            assert not [name for name in attrs if name.startswith("on") or name == "style"]
            assert not [value for value in attrs.values() if value and re.match(r"(?:[a-z]+:|//)", value)]


def test_values_of_others_are_text(board: Board, read: dict[str, Reader]) -> None:
    page = render(board.now(), interval(FAILED))
    assert page is not None and HOSTILE not in page and "<script" not in page
    cells = [text for text in read[interval(FAILED)].texts if HOSTILE in text]
    assert len(cells) >= 5
    assert any(HOSTILE in text for text in read["index.html"].texts)


def test_the_pages_can_be_used_without_seeing_them(read: dict[str, Reader]) -> None:
    for address, page in read.items():
        assert page.all("html")[0]["lang"] == "en" and len(page.all("main")) == len(page.all("h1")) == 1, address
        assert page.all("header") and page.all("nav") and page.all("footer")
        assert all("scope" in attrs for attrs in page.all("th")), address
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in pairwise(levels)), address
        for attrs in page.all("svg"):
            assert attrs["role"] == "img" and attrs["aria-labelledby"]
        for attrs in page.all("td"):
            assert not (attrs.get("class") or "").startswith("s-failed") or page.texts
    calendar = read["index.html"]
    labels = [attrs["aria-label"] for attrs in calendar.all("a") if "aria-label" in attrs]
    assert len(labels) == HOURS and "1 Jan 05:00, failed" in labels and "1 Jan 07:00, missing" in labels


def luminance(colour: str) -> float:
    colour = colour if len(colour) == 7 else "#" + "".join(2 * each for each in colour[1:])
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_keep_their_contrast_in_light_and_dark() -> None:
    text = (Path(__file__).parents[2] / "review" / "assets" / "review.css").read_text()
    themes = re.findall(r":root \{(.*?)\}", text, flags=re.DOTALL)
    assert len(themes) == 2
    for theme in themes:
        found = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", theme))
        pairs = [(name, f"{name}-back") for name in ("good", "look", "bad", "note", "idle", "old")]
        pairs += [(name, back) for name in ("ink", "soft", "link") for back in ("paper", "back")] + [
            ("on-deep", "deep")
        ]
        for front, back in pairs:
            light, dark = sorted((luminance(found[front]), luminance(found[back])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (front, back)


def test_what_the_calendar_says(read: dict[str, Reader]) -> None:
    text = " ".join(read["index.html"].texts)
    assert "1 failed" in text and "1 missing" in text
    cells = [attrs.get("title") or "" for attrs in read["index.html"].all("td")]
    assert [title for title in cells if title.endswith(", gap")] == ["1 Jan 01:00, gap"]


def test_a_snapshot_is_kept_until_a_ledger_changes(board: Board) -> None:
    first = board.now()
    assert board.now() is first
    path = board.queries / "q.gsql"
    path.write_text(path.read_text() + "\n")
    assert board.now() is not first


def test_unknown_addresses_have_no_page(board: Board) -> None:
    known = board.now()
    unknown = (
        "",
        "index",
        "nothing.html",
        "month/2030-01.html",
        "month/x.html",
        "set/other.html",
        "query/q/other.html",
    )
    more = (
        "query/other/flows.html",
        interval(HOURS + 1),
        "interval/q/x_y.html",
        "interval/other/x.html",
        "skew/x.html",
    )
    assert [address for address in (*unknown, *more) if render(known, address) is not None] == []


@pytest.mark.slow
def test_pages_stay_small_however_long_the_history(board: Board) -> None:
    known = board.now()
    sizes = {address: len(render(known, address) or "") for address in addresses(known)}
    assert max(sizes.values()) < 150_000
    many = [(str(at), float(at), "done") for at in range(8760)]
    plot = history(many, "rows")
    assert plot is not None and len(plot.bars) <= 200 and plot.bars[-1].text.startswith("8759:")


def test_spans_and_what_is_covered() -> None:
    spans = Captures(capture("a", at) for at in (0, 1, 3)).spans
    assert spans == [(START, START + 2 * HOUR), (START + 3 * HOUR, START + 4 * HOUR)]
    begins = [first for first, _ in spans]
    assert [covered(spans, begins, START + at * HOUR, START + (at + 1) * HOUR) // HOUR for at in range(-1, 5)] == [
        *(0, 1, 1, 0, 1, 0)
    ]
    assert covered(spans, begins, START + HOUR // 2, START + 7 * HOUR // 2) == 2 * HOUR


def test_a_histogram_has_a_bar_a_tenth_of_a_decade() -> None:
    plot = lateness([(0, 90), (1000, 1), (1_300_000, 8), (2 * SECOND, 1)], {"in force": SECOND, "recommended": 0})
    assert plot is not None
    assert [bar.text for bar in plot.bars] == [
        "1 records up to 1us late",
        "8 records up to 1.6ms late",
        "1 records up to 2.5s late",
    ]
    assert [mark.text for mark in plot.lines] == ["in force 1s"]
    assert all(bar.height > 0 and bar.width > 0 for bar in plot.bars)
    assert lateness([(0, 90)], {"in force": SECOND}) is None


# The drawings


def test_what_is_not_covered_is_marked_and_not_drawn_as_zero() -> None:
    bars = history([("1 Jan 00:00", 5.0, "done"), ("1 Jan 01:00", None, ""), ("1 Jan 02:00", 0.0, "done")], "rows")
    assert bars is not None
    assert [(bar.height, bar.kind) for bar in bars.bars] == [
        (100, "done"),
        (100, "absent"),
        (0, "done"),
    ]
    assert bars.bars[1].text == "1 Jan 01:00: not covered"
    assert history([("1 Jan 00:00", None, "")], "rows") is None
    curve = Curve("n", (3.0, 0.0, 0.0, 4.0))
    whole = draw_curves(Curves(START, HOUR, (curve,)), lambda start, end: "")
    parted = draw_curves(Curves(START, HOUR, (curve,), absent={1: "not covered"}), lambda start, end: "")
    assert whole is not None and parted is not None
    assert (whole.lines[0].path.count("M"), parted.lines[0].path.count("M")) == (1, 2)
    assert [slot.absent for slot in parted.slots] == [False, True, False, False]
    assert parted.slots[1].text.endswith(": not covered") and parted.slots[2].text.endswith(": 0 in all, most n")


# As files


@pytest.mark.slow
def test_the_site_is_the_pages_with_the_docs(board: Board, tmp_path: Path, read: dict[str, Reader]) -> None:
    said = lowwater("report", "--lake", board.root, "--queries", board.queries, "--html", tmp_path / "out")
    assert (said.code, said.out) == (0, f"{len(read)} pages: {tmp_path / 'out' / 'index.html'}\n")
    files = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {*read, "assets/review.css", "assets/lowwater.svg", "docs/suites/links.html", "docs/q/page.html"}
    with pytest.raises(LakeError, match="is inside the lake"):
        write_site(board, board.root / "site")
    assert lowwater("report", "--lake", board.root, "--html", tmp_path, "--interval", "2025-01-01").code == 2


@pytest.mark.slow
def test_the_site_takes_regular_files_of_the_reports_only(tmp_path: Path) -> None:
    root, queries = make(tmp_path, 1)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    reports = root / "reports"
    (reports / "q").mkdir(parents=True, exist_ok=True)
    (reports / "q" / "kept.html").write_text("kept")
    (reports / "link.html").symlink_to(outside / "secret.txt")
    (reports / "folder").symlink_to(outside)
    (reports / "q" / "circle").symlink_to("circle")
    os.mkfifo(reports / "q" / "fifo.html")
    write_site(Board(root, queries), tmp_path / "out")
    found = {path.relative_to(tmp_path / "out" / "docs").as_posix() for path in (tmp_path / "out/docs").rglob("*")}
    assert "q/kept.html" in found
    assert not found & {"link.html", "folder", "folder/secret.txt", "q/circle", "q/fifo.html"}
    assert not any("secret" in path.read_text() for path in (tmp_path / "out").rglob("*.txt"))


def test_an_empty_lake_has_pages_too(tmp_path: Path) -> None:
    open_lake(tmp_path / "lake")
    (tmp_path / "queries").mkdir()
    assert write_site(Board(tmp_path / "lake", tmp_path / "queries"), tmp_path / "out") == len(
        [kind for kind in PAGES if "{}" not in kind.address]
    )
    assert "Nothing here yet" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.slow
def test_interfaces_of_any_name_have_pages_which_say_what_a_file_does_not_declare(tmp_path: Path) -> None:
    lake, queries = open_lake(tmp_path / "lake"), tmp_path / "queries"
    queries.mkdir()
    (queries / "q.gsql").write_text("DEFINE { query_name 'q'; } SELECT time FROM pc.TCP")
    names = ["以太网", "无线网", "<b>x</b>", "a/../b"]
    for hour, declared in enumerate((names, names[1:])):
        path = pcapng(tmp_path / f"{hour}.pcapng", declared, [(hour * 3600 + 9, at) for at in range(len(declared))])
        ingest(lake, "pc", [path], Config(), (BASE + hour * HOUR, BASE + hour * HOUR + HOUR))
    known = Board(lake.root, queries).now()
    skews = [address for address in addresses(known) if address.startswith("skew/pc@")]
    assert len(set(skews)) == len(names)
    leads = [" ".join(Reader(render(known, address) or "").texts) for address in skews]
    assert [sum(f"Skew of pc/{name} " in lead for lead in leads) for name in names] == [1] * 4
    page = render(known, f"interval/q/{interval_label(BASE + HOUR, BASE + 2 * HOUR)}.html") or ""
    text = " ".join(" ".join(Reader(page).texts).split())
    assert "not declared by 1.pcapng" in text and "No capture covers" not in text


# Over HTTP

ESCAPES = (
    "../lowwater.toml",
    "..%2flowwater.toml",
    "%2e%2e/lowwater.toml",
    "....//lowwater.toml",
    "..\\lowwater.toml",
    "/etc/passwd",
    "%2fetc/passwd",
    "link.html",
    "q/../../lowwater.toml",
    "a%00b",
    "n" * 300,
    "%C3%A4" * 200,
    "%ff",
    "circle.html",
    "a/" * 2500,
)


@pytest.fixture(scope="module")
def app(board: Board) -> FastAPI:
    (board.root / "reports" / "link.html").symlink_to("/etc/passwd")
    (board.root / "reports" / "circle.html").symlink_to("circle.html")
    return create(board)


def test_pages_and_files_are_served_with_a_strict_policy(app: FastAPI, read: dict[str, Reader]) -> None:
    for address in ("index.html", interval(FAILED), "skew/main1.html", "assets/review.css", "docs/q/page.html"):
        answer = ask(app, f"/{address}")
        assert answer.status == 200 and len(answer.text) > 5, address
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src" not in policy and "frame-ancestors 'self'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert ask(app, "/").headers["location"] == "index.html"
    assert ask(app, "/nothing.html").status == 404


@pytest.mark.parametrize("path", ESCAPES)
def test_no_file_leaves_its_folder(app: FastAPI, board: Board, path: str) -> None:
    for folder in ("docs", "assets"):
        answer = ask(app, f"/{folder}/{path}")
        assert answer.status in (404, 422), path
        assert "root:" not in answer.text and "[links" not in answer.text
    assert inside(board.root / "reports", path.replace("%2e", ".").replace("%2f", "/").replace("%00", "\0")) is None


def test_head_answers_as_get_does(app: FastAPI) -> None:
    for address in ("", "index.html", "set/q.html", "assets/review.css", "docs/q/page.html", "docs/none", "none.html"):
        got, head = (ask(app, f"/{address}", method) for method in ("GET", "HEAD"))
        assert (head.status, head.headers) == (got.status, got.headers), address


def test_a_name_too_long_for_a_file_is_unknown(app: FastAPI) -> None:
    for address in ("n" * 300, "set/" + "n" * 5000 + ".html", "interval/q/" + "9" * 300 + ".html", "%ff.html"):
        assert ask(app, f"/{address}").status == 404, address


@pytest.fixture
def two_sets(tmp_path: Path) -> FastAPI:
    """The pages of a lake of the query sets q and other, for somebody who may see q only."""
    root, queries = make(tmp_path, 3, frozenset({1}))
    for name in ("index.html", "other/page.html", "q/page.html", "suites/page.html", "gone/page.html"):
        path = root / "reports" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("page")
    with (root / "lowwater.toml").open("a") as settings:
        settings.write("[query_sets.other]\n[query_sets.broken]\n")
    (queries / "other.gsql").write_text("DEFINE { query_name 'secret'; }\nSELECT time, len FROM main1.UDP\n")
    (queries / "broken.gsql").write_text("SELECT nonsense FROM main1.UDP\n")
    return create(Board(root, queries), permissions=lambda: lambda name: name == "q")


@pytest.mark.slow
def test_who_may_see_one_query_set_sees_no_other(two_sets: FastAPI) -> None:
    seen = ("index.html", "set/q.html", "query/q/flows.html", interval(1), "skew/main1.html", "docs/q/page.html")
    for address in (*seen, "docs/suites/page.html", "assets/review.css"):
        answer = ask(two_sets, f"/{address}")
        assert answer.status == 200, address
        assert "other" not in answer.text.replace("another", "") and "secret" not in answer.text
        assert "broken" not in answer.text
    hidden = ("set/other.html", "query/other/secret.html", f"interval/other/{interval(1).rpartition('/')[2]}")
    docs = ("docs/other/page.html", "docs/gone/page.html", "docs/index.html", "docs/q/../other/page.html")
    for address in (*hidden, *docs):
        assert ask(two_sets, f"/{address}").status == 404, address


def test_only_acts_can_write(app: FastAPI) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert ask(app, "/index.html", method).status == 405
    routes: list[Any] = list(app.routes)
    assert {route.path for route in routes if route.methods - {"GET", "HEAD"}} == {"/act/{kind}/{name}"}
    assert {method for route in routes for method in route.methods} == {"GET", "HEAD", "POST"}
    assert "/openapi.json" not in [route.path for route in routes]


def test_a_lake_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "queries").mkdir()
    answer = ask(create(Board(tmp_path / "absent", tmp_path / "queries")), "/index.html")
    assert answer.status == 503 and "there is no lake" in answer.text
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


@pytest.mark.slow
def test_the_overview_lists_the_files_that_nobody_reads(tmp_path: Path) -> None:
    """Rule T9; an interval that such a file falls into is incomplete, although it was published as done (T6)."""
    root, queries = make(tmp_path, 2, frozenset())
    lake, board = open_lake(root), Board(root, queries)
    assert "Files that are not read" not in (render(board.now(), "index.html") or "")
    (link, *_) = sorted(link for job in board.now().jobs.values() for link in job.plan.links)
    row = SeenFile("<b>spill", UNCLAIMED, "", True, (link,), 1, 0, START + HOUR, START + HOUR, 7)
    with changing(lake):
        put_seen(lake, [row])
    page = render(board.now(), "index.html") or ""
    assert "Files that are not read" in page and "&lt;b&gt;spill" in page and "<b>spill" not in page
    known = board.now().part(START, START + 2 * HOUR)
    assert [each.state for each in known.intervals if each.query_set == "q"][1] == "incomplete"


def test_a_waterfall_begins_where_its_input_ends() -> None:
    drawn = waterfall([("a", "link", 0, SECOND, SECOND, [SECOND]), ("q", "query", SECOND, 4 * SECOND, 4 * SECOND, [])])
    assert drawn is not None
    first, second = drawn.steps
    assert second.x == pytest.approx(first.x + first.width, abs=0.2)
    assert second.most == pytest.approx(second.x + second.width, abs=0.2)
    assert [mark.text for mark in drawn.across] == ["100ms", "1s", "10s"]
    assert waterfall([]) is None and history([], "s") is None
    few = history([(f"1 Jan {hour:02}:00", 1.0, "done") for hour in range(3)], "s")
    assert few is not None and [mark.text for mark in few.across] == ["1 Jan 00:00 to 1 Jan 02:00"]
