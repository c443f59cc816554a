"""A lake full of hostile names, on every route and in every file: the same elements as with harmless names, no more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from lowwater_review import Ledgers, write_page, write_site
from lowwater_review.app import create
from lowwater_review.checking import Checker
from lowwater_review.pages import addresses
from lowwater_review.results import answers as results_answers

from lowwater.instants import HOUR, format_instant
from lowwater.quality import reports
from lowwater.replay.preview import Limits
from tests.breadth import some
from tests.browser import chromium, served
from tests.review.asgi import Answer, ask
from tests.review.hostile_lake import CLOSES, SCRIPT, START, as_it_is, harmless, hostile_ledgers, make_hostile

pytestmark = pytest.mark.slow
Pair = tuple[Ledgers, Ledgers]
"""The hostile lake, and the harmless one."""
Lazy = list[tuple[str, Callable[[], Answer]]]
Found = tuple[list[tuple[str, Answer]], Lazy]
SPAN = {"from": format_instant(START), "to": format_instant(START + HOUR)}
ONE = f"start={SPAN['from']}&end={SPAN['to']}"
PER_QUERY = {
    "/results/{set_name}/{query}": [urlencode(SPAN)],
    "/results/{set_name}/{query}/plot.json": [urlencode(SPAN)],
    "/results/{set_name}/{query}/plots.json": [urlencode({**SPAN, "title": SCRIPT})],
    "/results/{set_name}/{query}/rows.csv": [urlencode(SPAN)],
    "/results/{set_name}/{query}/rows.parquet": [urlencode(SPAN)],
    "/results/{set_name}/{query}/packets": [],
    "/results/{set_name}/{query}/packets.pcapng": [],
    "/results/{set_name}/{query}/evidence.zip": [],
    "/results/{set_name}/{query}/diff": [urlencode({**SPAN, "before": 0, "after": 1})],
}
QUERIES = ("web", "names", "tls", "logged")
SKELETON = """(text) => {
  const parsed = new DOMParser().parseFromString(text, 'text/html');
  const way = (each) => each.parentElement ? way(each.parentElement) + '>' + each.localName : each.localName;
  return [...parsed.querySelectorAll('*')].map((each) => way(each) + ' ' + each.getAttributeNames().sort().join(' '));
}"""
FOREIGN = """() => [...document.querySelectorAll('a[href], form[action], link[href], [src]')]
  .map((each) => ['href', 'action', 'src'].map((name) => each.getAttribute(name)).find((value) => value !== null))
  .filter((address) => new URL(address, document.baseURI).origin !== location.origin)"""


class Skeleton(HTMLParser):
    """Elements with the names of their attributes, by how many there are."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[" ".join([tag, *sorted(name for name, _ in attrs)])] += 1


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    hostile, plain = (Ledgers(*make_hostile(tmp_path_factory.mktemp("names"), say)) for say in (as_it_is, harmless))
    return hostile, plain


@pytest.fixture(scope="module")
def patient() -> Iterator[None]:
    """The machine may be busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_page, "Checker", lambda: Checker(Limits(300)))
        patch.setattr(results_answers, "PATIENT", 300.0)
        yield


@pytest.fixture(scope="module")
def found(both: Pair, patient: None) -> Found:
    """Every address of the hostile lake with its answer; and of the harmless one, in the same order, what gives it: a
    test that looks at some addresses waits for no other."""
    hostile, plain = (answers(ledgers) for ledgers in both)
    assert len(hostile) == len(plain)
    return [(address, get()) for address, get in hostile], plain


def asked(ledgers: Ledgers, app: Any, get: Callable[[str], Answer]) -> Iterator[str]:
    """An address of everything that there is; the routes come from the app, so that none is left out."""
    known: dict[str, list[str]] = {
        "/": ["/"],
        "/results/index.html": ["/results/index.html"],
        "/results/{set_name}": ["/results/q"],
        "/assets/{name:path}": ["/assets/review.css"],
        "/docs/{name:path}": [f"/docs/{each}" for each in _reports(ledgers)],
        "/write/index.html": ["/write/index.html", f"/write/index.html?{urlencode({'text': _text(ledgers)})}"],
        "/write/sql.html": ["/write/sql.html", f"/write/sql.html?{urlencode({'text': _text(ledgers)})}"],
        "/write/check": [f"/write/check?{urlencode({'text': _text(ledgers)})}"],
        "/act/{kind}/{name}": [f"/act/run/q?{ONE}", f"/act/approve/q?{ONE}"],
        "/{address:path}": [f"/{each}" for each in addresses(ledgers.now())],
    }
    skews = [each for each in known["/{address:path}"] if each.startswith("/skew/") and "index" not in each]
    known["/act/{kind}/{name}"] += [f"/act{each.removesuffix('.html')}?bound=7s" for each in skews[-1:]]
    for path, queries in PER_QUERY.items():
        route = path.replace("rows.csv", "rows.{form}").replace("rows.parquet", "rows.{form}")
        filled = [path.replace("{set_name}", "q").replace("{query}", each) for each in QUERIES]
        known.setdefault(route, [])
        for each, query in zip(filled, QUERIES, strict=True):
            known[route] += [f"{each}?{text}" for text in queries or _rows(get, query)]
    assert {route.path for route in app.routes} == set(known), "a route of which no test says what it shows"
    for each in known.values():
        yield from each


def _reports(ledgers: Ledgers) -> list[str]:
    root = Path(ledgers.root / "reports")
    drawn = {page.address for page in reports.drawn(ledgers.now().lake, 0, 1 << 62, lambda _: True)}
    return sorted({str(path.relative_to(root)) for path in root.rglob("*.html")} | drawn)


def _text(ledgers: Ledgers) -> str:
    return (ledgers.queries / "q.gsql").read_text()


def _rows(get: Callable[[str], Answer], query: str) -> list[str]:
    """The rows of a page, as it names them to its page of packets."""
    page = get(f"/results/q/{query}?{urlencode(SPAN)}").text
    return [unescape(part.partition('"')[0]) for part in page.split("/packets?")[1:]][:2]


def answers(ledgers: Ledgers) -> Lazy:
    """Each address, and what asks for its answer."""
    app = create(ledgers)

    @cache
    def get(address: str) -> Answer:
        path, _, query = address.partition("?")
        answer = ask(app, path, query=query)
        assert answer.status < 500, (address, answer.text)
        return answer

    return [(address, partial(get, address)) for address in asked(ledgers, app, get)]


@pytest.mark.nightly
def test_the_pages_have_the_elements_of_harmless_names(found: Found) -> None:
    hostile, plain = found
    shown: set[str] = set()
    for (address, answer), (beside, get) in zip(hostile, plain, strict=True):
        other = get()
        assert answer.status == other.status, (address, beside, answer.text[-500:], other.text[-500:])
        if answer.headers.get("content-type", "").startswith("text/html"):
            assert Skeleton(answer.text).found == Skeleton(other.text).found, address
            shown |= {address.partition("?")[0]} if "&lt;script&gt;" in answer.text else set()
    wanted = {"/index.html", "/results/q/web", "/results/q/tls", "/results/q/logged", "/query/q/web.html"}
    wanted |= {"/streams.html", "/set/q.html", "/results/index.html", "/write/index.html", "/skew/index.html"}
    assert wanted <= shown, "the names are on the pages"


def test_files_say_what_they_are(found: Found) -> None:
    """No browser takes them for a page, and no name of theirs is anybody's."""
    for address, answer in found[0]:
        kind = answer.headers.get("content-type", "")
        assert answer.headers["x-content-type-options"] == "nosniff", address
        assert "script-src" not in answer.headers["content-security-policy"] or address.startswith("/write"), address
        if not kind.startswith(("text/html", "text/css")) and answer.status == 200:
            named = answer.headers.get("content-disposition", 'attachment; filename="x.json"')
            assert named.isascii() and named.count('"') == 2 and "<" not in named, address
            if kind == "application/json":
                json.loads(answer.text)


def test_the_site_has_the_files_and_elements_of_harmless_names(both: Pair, tmp_path: Path) -> None:
    found = []
    for name, ledgers in zip("hp", both, strict=True):
        write_site(ledgers, tmp_path / name)
        files = sorted((tmp_path / name).rglob("*.html"))
        assert all(str(file).isascii() for file in files)
        found.append(Counter(json.dumps(sorted(Skeleton(file.read_text()).found.items())) for file in files))
    assert found[0] == found[1]


def test_ledgers_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name, say in (("h", as_it_is), ("p", harmless)):
        with monkeypatch.context() as patch:
            ledgers = Ledgers(*hostile_ledgers(tmp_path / name, say, patch))
            write_site(ledgers, tmp_path / f"{name}-site")
        files = sorted((tmp_path / f"{name}-site").rglob("*.html"))
        found.append({file.name: Skeleton(file.read_text()).found for file in files})
    assert found[0] == found[1]


@pytest.mark.hypothesis
def test_a_browser_runs_nothing_of_them(both: Pair, found: Found) -> None:
    """Chromium parses each page as with harmless names, and loads it: no dialog, no request elsewhere, no violation."""
    pages = [(*one, get()) for one, (_, get) in some(zip(*found, strict=True), 8)]
    with served(create(both[0])) as at, chromium() as browser:
        said: list[str] = []
        page = browser.new_page()
        page.on("dialog", lambda each: (said.append(f"dialog {each.message}"), each.dismiss()))
        page.on("request", lambda each: None if each.url.startswith((at, "data:")) else said.append(each.url))
        page.on("console", lambda each: said.append(each.text) if "Content Security Policy" in each.text else None)
        page.on("pageerror", lambda each: said.append(str(each)))
        reader = browser.new_page()
        for address, answer, other in pages:
            if answer.headers.get("content-type", "").startswith("text/html"):
                one, two = (reader.evaluate(SKELETON, each.text) for each in (answer, other))
                assert Counter(one) == Counter(two), address
                page.goto(f"{at}{address}")
                assert page.evaluate(FOREIGN) == [], address
        assert said == []


def test_the_fixture_is_hostile() -> None:
    assert set("<>\"'`&") - {"&"} <= set(SCRIPT + CLOSES) and harmless(SCRIPT).isalnum()
