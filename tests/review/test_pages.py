"""The review pages over synthetic ledgers: complete, escaped, linked, offline, bounded, never beyond their folders."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from lowwater_review import Ledgers, render, write_site
from lowwater_review.app import create, inside
from lowwater_review.at_work import works
from lowwater_review.calendar import set_calendar, tally
from lowwater_review.drawing import history
from lowwater_review.ledgers import Interval
from lowwater_review.pages import HERE, PAGES, addresses
from lowwater_review.results.curve_drawing import draw_curves

from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND, spoken_duration
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow, read_lateness, record_lateness, record_replays
from lowwater.lake.locks import hold_range
from lowwater.lake.results.exploring import Curve, Curves
from lowwater.lake.tables import interval_label
from lowwater.lake.words import PARTIAL
from lowwater.quality.reports import shared_files
from lowwater.replay.schedule.days import day_quality
from lowwater.replay.schedule.due import statuses
from tests.replay.support import lowwater
from tests.review.asgi import ask
from tests.review.ledgers import CLUSTERED, LINKS, START, make

HOURS = 30
FAILED = 5
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "path", "rect", "line"}


def interval(at: int) -> str:
    return f"interval/q/{interval_label(START + at * HOUR, START + (at + 1) * HOUR)}.html"


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Ledgers:
    root, queries = make(tmp_path_factory.mktemp("review"), HOURS, frozenset({FAILED}))
    reports = root / "reports" / "q"
    reports.mkdir(parents=True)
    (root / "reports" / "suites").mkdir()
    (root / "reports" / "suites" / "links.html").write_text("<p>Data Docs</p>")
    (reports / "page.html").write_text("<p>a page</p>")
    return Ledgers(root, queries)


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


def pages(ledgers: Ledgers) -> dict[str, Reader]:
    known = ledgers.now()
    found = {address: render(known, address) for address in addresses(known)}
    return {address: Reader(page or "") for address, page in found.items()}


@pytest.fixture(scope="module")
def read(ledgers: Ledgers) -> dict[str, Reader]:
    return pages(ledgers)


@pytest.mark.slow
def test_an_interval_is_running_while_its_range_is_held(ledgers: Ledgers) -> None:
    def running() -> list[int]:
        known = ledgers.now().part(START, START + HOURS * HOUR)
        return [(each.start - START) // HOUR for each in known.intervals if each.state == "running"]

    lake = open_lake(ledgers.root)
    killed = lake.work / "q_2025-01-01T01_00_00Z_to_2025-01-01T02_00_00Z" / "0123"
    killed.mkdir(parents=True)
    assert running() == []
    with hold_range(lake, "q", START + 2 * HOUR, START + 3 * HOUR):
        assert running() == [2]
    with hold_range(lake, "q", START + 2 * HOUR, START + 4 * HOUR):  # an interval of another length
        assert running() == [2, 3]
        told = statuses(ledgers.root, ledgers.queries)
        assert [(row.start - START) // HOUR for row in told if row.state == "running"] == [2, 3], "as `status` says"
        page = ask(create(ledgers), "/index.html", query="follow=1")
        assert page.headers["refresh"] == "10" and "2 intervals of 1 Jan 2025, 02:00 to 04:00 UTC" in page.text
        part = ledgers.now().part(START, START + HOURS * HOUR)
    ends = {
        key: max(row.finished_at for row in rows) for key, rows in part.replays.items() if key[1] < START + 4 * HOUR
    }
    clock = {key: START + at * 20 * SECOND for at, key in enumerate(sorted(ends))}
    lately = {key: [replace(row, finished_at=clock[key], timings="{}") for row in part.replays[key]] for key in ends}
    # Four ended in 100 s, two run, two are due: of these one failed.
    (work,) = works(replace(part, replays=lately), START + 100 * SECOND)
    published = {key for key, rows in lately.items() if any(row.stage == PUBLISH for row in rows)}
    assert (work.running, work.ended, work.due) == (2, len(published), 2) and work.ended > 2
    left = 4 * (100 * SECOND - min(clock[key] - START for key in published)) / (work.ended - 1)
    assert work.until.endswith(f", in {spoken_duration(round(left))}")
    half = '{"low": 0.25, "audit": 0.25}'
    timed = {key: [replace(row, timings=half) for row in rows] for key, rows in lately.items()}
    (work,) = works(replace(part, replays=timed), START + 100 * SECOND)
    assert work.until.endswith(", in 2 s"), "an interval took half a second, and then nothing ended for a while"
    assert (
        works(replace(part, replays={}), START)[0].until == ""
        and "refresh" not in ask(create(ledgers), "/index.html").headers
    )
    killed.rmdir()
    killed.parent.rmdir()


def test_a_day_has_a_cell_for_each_interval_that_begins_in_it() -> None:
    """Counterexample: of 7 hours, four intervals begin on some days, and the calendar showed three of them."""
    for hours in (1, 5, 7, 24, 30):
        length = hours * HOUR
        begins = range(START // length * length, START + 7 * 24 * HOUR, length)
        shown = set_calendar("q", length, [Interval("q", at, at + length, "failed", "", None) for at in begins], 0)
        assert sum(cell is not None for _, cells in shown.days for cell in cells) == len(begins)


@pytest.mark.slow
def test_the_share_of_an_hour_is_not_that_of_a_day_with_the_same_begin(tmp_path: Path) -> None:
    """Counterexample: with an hourly and a daily query set on a link, hour 00 had the refused records of the day."""
    ledgers, lake = Ledgers(*make(tmp_path, 3, frozenset())), open_lake(tmp_path / "lake")
    hours = read_lateness(lake, "main1")
    late = f"late/main1/{interval_label(START, START + HOUR)}.html"
    before = [render(ledgers.now(), address) for address in ("skew/main1.html", late)]
    record_lateness(lake, [replace(hours[0], interval_end=START + 24 * HOUR, refused=30_000)])
    assert [render(ledgers.now(), address) for address in ("skew/main1.html", late)] == before
    assert None not in before


@pytest.mark.slow
def test_a_month_counts_what_is_published_of_it_once(tmp_path: Path) -> None:
    """Counterexample: a month was run by hours and then by days, and had 775 intervals."""
    root, queries = make(tmp_path, 7, frozenset(), frozenset())
    four = ReplayRow("q", "flows", START, START + 4 * HOUR, "publish", "done", START + 99 * HOUR, rows=7)
    record_replays(open_lake(root), [four])
    assert tally(Ledgers(root, queries).now()) == {("2025-01", "q"): {"done": 4}}


@pytest.mark.slow
def test_an_edit_is_seen_wherever_the_file_is(tmp_path: Path) -> None:
    """Counterexample: the settings named a query file outside of the folder of queries, as `init --query` writes them.
    After an edit `status` said stale, and the pages went on with `done`."""
    root, queries = make(tmp_path, 2, frozenset(), frozenset())
    file, settings = tmp_path / "q.gsql", root / "lowwater.toml"
    (queries / "q.gsql").rename(file)
    text = settings.read_text(encoding="utf-8").replace("[query_sets.q]", f'[query_sets.q]\nfiles = ["{file}"]')
    settings.write_text(text, encoding="utf-8")
    ledgers = Ledgers(root, queries)

    def states() -> list[str]:
        return [each.state for each in ledgers.now().part(START, START + HOUR).intervals]

    assert states() == ["done"] and ledgers.now() is ledgers.now()
    edited = file.read_text(encoding="utf-8").replace("cnt", "number")
    file.write_text(edited, encoding="utf-8")
    assert states() == ["stale"] == [row.state for row in statuses(root, queries)][:1]


@pytest.mark.slow
def test_a_mended_suite_is_seen(tmp_path: Path) -> None:
    """Counterexample: a suite that is no JSON left its query set out, and so it stayed until a ledger changed."""
    root, queries = make(tmp_path, 2, frozenset(), frozenset())
    suite, ledgers = root / "expectations" / "q" / "flows.json", Ledgers(root, queries)
    assert not ledgers.now().unplanned
    suite.parent.mkdir(parents=True)
    suite.write_text("no JSON", encoding="utf-8")
    assert not ledgers.now().unplanned and ledgers.now().jobs["q"].unread is not None
    suite.write_text('{"name": "flows", "expectations": []}', encoding="utf-8")
    assert ledgers.now().jobs["q"].unread is None and ledgers.now() is ledgers.now()


@pytest.mark.slow
def test_every_interval_and_link_has_its_page(read: dict[str, Reader]) -> None:
    assert {interval(at) for at in range(HOURS)} <= set(read)
    assert {f"skew/{link}.html" for link in LINKS} <= set(read)
    assert {"index.html", "month/2025-01.html", "set/q.html", "query/q/flows.html", "skew/index.html"} <= set(read)
    for kind in PAGES:
        assert any(kind.match(address.removesuffix(".html")) is not None for address in read), kind.address
        assert (HERE / "templates" / kind.template).is_file()


@pytest.mark.slow
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


@pytest.mark.slow
def test_nothing_runs_and_nothing_is_fetched(read: dict[str, Reader]) -> None:
    for page in read.values():
        names = {name for name, _ in page.tags}
        assert not names & {"script", "iframe", "object", "embed", "img", "form", "style"}
        for _, attrs in page.tags:
            assert not [name for name in attrs if name.startswith("on") or name == "style"]
            assert not [value for value in attrs.values() if value and re.match(r"(?:[a-z]+:|//)", value)]


@pytest.mark.slow
def test_the_pages_can_be_used_without_seeing_them(read: dict[str, Reader]) -> None:
    for address, page in read.items():
        assert page.all("html")[0]["lang"] == "en" and len(page.all("main")) == len(page.all("h1")) == 1, address
        assert page.all("header") and page.all("nav") and page.all("footer")
        assert all("scope" in attrs for attrs in page.all("th")), address
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in pairwise(levels)), address
        for attrs in page.all("svg"):
            assert attrs["role"] in ("img", "group") and attrs["aria-labelledby"]
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


@pytest.mark.slow
def test_unknown_addresses_have_no_page(ledgers: Ledgers) -> None:
    known = ledgers.now()
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
def test_pages_stay_small_however_long_the_history(ledgers: Ledgers) -> None:
    known = ledgers.now()
    sizes = {address: len(render(known, address) or "") for address in addresses(known)}
    assert max(sizes.values()) < 150_000
    many = [(str(at), float(at), "done") for at in range(8760)]
    plot = history(many, "rows")
    assert plot is not None and len(plot.bars) <= 200 and plot.bars[-1].text.startswith("8759:")


# The drawings


def test_what_is_not_covered_is_marked_and_not_drawn_as_zero() -> None:
    bars = history(
        [("1 Jan 00:00", 5.0, "done"), ("1 Jan 01:00", None, "not covered"), ("1 Jan 02:00", 0.0, "done")], "rows"
    )
    assert bars is not None
    assert [(bar.height, bar.kind) for bar in bars.bars] == [(100, "done"), (100, "absent"), (0, "done")]
    assert bars.bars[1].text == "1 Jan 01:00: not covered"
    assert history([("1 Jan 00:00", None, "")], "rows") is None
    whole = draw_curves(Curves(START, HOUR, (Curve("n", (3.0, 0.0, 0.0, 4.0)),)), lambda start, end: "")
    absent = {1: "not covered"}
    parted = draw_curves(Curves(START, HOUR, (Curve("n", (3.0, None, 0.0, 4.0)),), absent=absent), lambda *_: "")
    assert whole is not None and parted is not None
    assert (whole.lines[0].path.count("M"), parted.lines[0].path.count("M")) == (1, 2)
    assert [slot.absent for slot in parted.slots] == [False, True, False, False]
    assert parted.slots[1].text.endswith(": not covered") and parted.slots[2].text.endswith(": n: 0")


# As files


@pytest.mark.slow
def test_the_site_is_the_pages_with_the_docs(ledgers: Ledgers, tmp_path: Path, read: dict[str, Reader]) -> None:
    said = lowwater("report", "--lake", ledgers.root, "--queries", ledgers.queries, "--html", tmp_path / "out")
    assert (said.code, said.out) == (0, f"{len(read)} pages: {tmp_path / 'out' / 'index.html'}\n")
    files = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    shared = {f"docs/{name}" for name in shared_files()}
    assert files == {*read, "assets/review.css", "assets/lowwater.svg", "docs/q/page.html", *shared}
    assert (tmp_path / "out/docs/suites/links.html").read_text() == "<p>Data Docs</p>", "a file is what is shown"
    docs = (tmp_path / "out/docs/suites/skew.html").read_text()
    assert '<a class="brand" href="../../index.html">' in docs and "results/index.html" not in docs
    with pytest.raises(LakeError, match="is inside the lake"):
        write_site(ledgers, ledgers.root / "site")
    assert lowwater("report", "--lake", ledgers.root, "--html", tmp_path, "--interval", "2025-01-01").code == 2


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
    write_site(Ledgers(root, queries), tmp_path / "out")
    found = {path.relative_to(tmp_path / "out" / "docs").as_posix() for path in (tmp_path / "out/docs").rglob("*")}
    assert "q/kept.html" in found
    assert not found & {"link.html", "folder", "folder/secret.txt", "q/circle", "q/fifo.html"}
    assert not any("secret" in path.read_text() for path in (tmp_path / "out").rglob("*.txt"))


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
def app(ledgers: Ledgers) -> FastAPI:
    (ledgers.root / "reports" / "link.html").symlink_to("/etc/passwd")
    (ledgers.root / "reports" / "circle.html").symlink_to("circle.html")
    return create(ledgers)


@pytest.mark.slow
def test_pages_and_files_are_served_with_a_strict_policy(app: FastAPI, read: dict[str, Reader]) -> None:
    for address in ("index.html", interval(FAILED), "skew/main1.html", "assets/review.css", "docs/q/page.html"):
        answer = ask(app, f"/{address}")
        assert answer.status == 200 and len(answer.text) > 5, address
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src" not in policy and "frame-ancestors 'self'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert ask(app, "/").headers["location"] == "index.html"
    docs = ask(app, "/docs/suites/skew.html").text
    assert '<a class="brand" href="../../index.html">' in docs and "data-quality report" not in docs
    assert '<a href="../../docs/suites/links.html" aria-current="page">' in docs and "../../results/index.html" in docs
    assert ask(app, "/nothing.html").status == 404


@pytest.mark.parametrize("path", ESCAPES)
def test_no_file_leaves_its_folder(app: FastAPI, ledgers: Ledgers, path: str) -> None:
    for folder in ("docs", "assets"):
        answer = ask(app, f"/{folder}/{path}")
        assert answer.status in (404, 422), path
        assert "root:" not in answer.text and "[links" not in answer.text
    assert inside(ledgers.root / "reports", path.replace("%2e", ".").replace("%2f", "/").replace("%00", "\0")) is None


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
    return create(Ledgers(root, queries), permissions=lambda: lambda name: name == "q")


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


def test_what_is_lost_is_one_value_in_the_sentence_and_in_the_table(tmp_path: Path) -> None:
    """Counterexample: the last hour of a day was partial since a link ended within it, and "Lost traffic: none"."""
    snapshot = Ledgers(*make(tmp_path, 48, absent=frozenset({("main1", 47)}))).now()
    worth, end = [(PARTIAL, "no capture covers it", 1, START + 48 * HOUR)], START + 48 * HOUR
    found = day_quality(snapshot.lake, snapshot.config, snapshot.captures, snapshot.jobs, worth, end - 24 * HOUR, end)
    assert "Lost traffic: main1 1 h" in found.lines()
    assert {each.link: each.lost for each in found.links} == {"main1": HOUR, "main2": 0, "control": 0}


def test_each_packet_is_counted_by_what_became_of_it(tmp_path: Path) -> None:
    root, queries = make(tmp_path, 10)
    label = interval_label(START + CLUSTERED * HOUR, START + (CLUSTERED + 1) * HOUR)
    page = render(Ledgers(root, queries).now(), f"interval/q/{label}.html")
    assert page is not None and "are shed" in page and "do not meet WHERE" not in page
    told = " ".join(" ".join(Reader(page).texts).split())
    added = "2,000 1,750 go to its joins, groups and HAVING 250 are shed"
    assert "flows.TCP" in told and added in told, "the outcomes add up to the packets"
