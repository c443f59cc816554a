"""Every kind of page behind one web server: those of a lake of ledgers, those of a lake with packets, and the login.

`python -m tests.review.widths` measures all of them at five widths, light and dark, over a lake of 30 links, 60 query
sets, long names and months of hours: nothing is wider than the screen, and no column has one word a line. `--shots DIR`
keeps the pictures. The test in `test_browser` takes a few pages.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from dataclasses import asdict
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from lowwater_expectations.pages import assets, render as render_audit, render_suites
from lowwater_review import Ledgers
from lowwater_review.app import create
from lowwater_review.login import FORM, HEADERS
from lowwater_review.pages import PAGES

from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.layout import REPLAYS, open_lake
from lowwater.lake.ledgers.runs import ReplayRow
from lowwater.lake.tables import append_rows, interval_label
from tests.browser import chromium, served
from tests.lake.support import put_captures
from tests.quality.frames import audited
from tests.review.asgi import ask
from tests.review.ledgers import START, capture, make, table
from tests.review.resultlake import make_results

FAILED = 5
"""The interval whose acts are shown; lakes of `ledgers.make` have a failed audit there."""
SHOWN = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}
"""The range of the rows of `resultlake.make_results`."""
STATEMENT = "SELECT tb, srcIP, cnt FROM flows ORDER BY cnt DESC"
"""A statement over those rows."""
AUDITED = "q/some/links.html"
"""The page of an audit with a failure, below the reports."""
FILES = ("/results/{set_name}/{query}/plot.json", "/results/{set_name}/{query}/plots.json")
FILES += ("/results/{set_name}/{query}/rows.{form}",)
FILES += (
    "/results/{set_name}/{query}/evidence.zip",
    "/results/{set_name}/{query}/packets.pcapng",
    "/assets/{name:path}",
    "/write/check",
)
"""Routes that answer with files, and so have no page."""


WIDTHS = (390, 768, 1024, 1440, 2560)
THEMES = ("light", "dark")
LONG = "transatlantic_backbone_measurement_point_northern_exchange_router_interface"

MEASURE = """
() => {
  const wrong = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide + 1)
    wrong.push(`the page is ${document.documentElement.scrollWidth} pixels wide on a screen of ${wide}`);
  const scrolls = (node) => {
    for (let at = node; at && at !== document.body; at = at.parentElement)
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX)) return true;
    return false;
  };
  for (const node of document.querySelectorAll("body *")) {
    const box = node.getBoundingClientRect();
    if (!box.width || !box.height || node.closest("svg, .hidden, .skip") || !node.checkVisibility()) continue;
    if (box.right > wide + 1 && !scrolls(node))
      wrong.push(`${node.tagName} ends at ${Math.round(box.right)}: ${node.innerText.slice(0, 40)}`);
  }
  for (const cell of document.querySelectorAll("td, th, dd, li, p, h1, h2, h3, a, button")) {
    if (cell.closest(".grid, svg, .hidden") || !cell.checkVisibility() || !cell.innerText) continue;
    const range = document.createRange();
    range.selectNodeContents(cell);
    const boxes = [...range.getClientRects()].filter((box) => box.width > 1);
    const lines = new Set(boxes.map((box) => Math.round(box.top / 6))).size;
    const words = cell.innerText.trim();
    if (!cell.querySelector("table, ul, svg, pre, details, .badge") && lines >= 5 && words.length / lines < 11)
      wrong.push(`a column of ${Math.round(words.length / lines)} a line, ${lines} lines: ${words.slice(0, 40)}`);
  }
  return [...new Set(wrong)];
}
"""


def wrong_places(page: Any, address: str, width: int, height: int = 900) -> list[str]:
    """What is too wide or squeezed on a page at a width in pixels."""
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    return [f"{address} at {width}: {place}" for place in page.evaluate(MEASURE)]


def make_docs(reports: Path) -> None:
    """Writes the pages of the suites."""
    for name, data in assets().items():
        (reports / "assets" / name).parent.mkdir(parents=True, exist_ok=True)
        (reports / "assets" / name).write_bytes(data)
    for name, text in render_suites().items():
        (reports / "suites" / name).parent.mkdir(parents=True, exist_ok=True)
        (reports / "suites" / name).write_text(text)


def make_large(folder: Path, hours: int, links: int = 30, sets: int = 60) -> Ledgers:
    """A lake with so many hours, links and query sets, all of long names."""
    root, queries = make(folder, hours, frozenset({5, hours - 3}))
    lake, text = open_lake(root), (root / "lowwater.toml").read_text()
    names = [f"{LONG}_{at:02}" for at in range(links - 3)]
    text += "".join(f'\n[links.{name}]\nsince = "2025-01-01T00:00:00Z"\n' for name in names)
    rows, runs = [], []
    for name in names:
        rows += [capture(name, at) for at in range(max(0, hours - 30), hours)]
    for at in range(sets - 1):
        name = f"{LONG}_set_{at:02}"
        text += f"\n[query_sets.{name}]\n"
        (queries / f"{name}.gsql").write_text(
            f"DEFINE {{ query_name 'flows_{name}'; }}\nSELECT tb, srcIP, count(*) AS cnt "
            f"FROM {names[at % len(names)]}.IPV4 GROUP BY time/60 AS tb, srcIP;\n"
        )
        for hour in range(max(0, hours - 24), hours):
            begin = START + hour * HOUR
            key = {"query_set": name, "query": f"flows_{name}", "interval_start": begin, "interval_end": begin + HOUR}
            run = {"stage": "publish", "state": "done", "finished_at": begin, "reason": "", "digest": "old", "rows": 3}
            runs.append(asdict(ReplayRow(**key, **run, timings="{}", accounting="{}")))  # type: ignore[arg-type]
    (root / "lowwater.toml").write_text(text)
    put_captures(lake, rows)
    append_rows(lake.replays, table(runs, REPLAYS))
    return Ledgers(root, queries)


def one_of_each(ledgers: Ledgers) -> list[str]:
    """The address of one page of every kind, and of the pages with failures and of the longest names."""
    snapshot, chosen = ledgers.now(), []
    for kind in PAGES:
        parts = sorted(kind.parts(snapshot), key=lambda part: len("".join(part)))
        chosen += [f"{kind.address.format(*part)}.html" for part in {parts[0], parts[-1]} if parts]
    failed = interval_label(START + 5 * HOUR, START + 6 * HOUR)
    return list(dict.fromkeys([*chosen, f"interval/q/{failed}.html"]))


def make_every_page(folder: Path, ledgers: Ledgers) -> tuple[FastAPI, list[str]]:
    """Mounts the pages of a lake of ledgers, and of a lake with rows that it makes.

    Args:
        folder: gets the lake with rows.
        ledgers: the lake of ledgers, with the query set `q` and a failed audit at `FAILED`.

    Returns:
        The app, and the addresses of one page of each kind.
    """
    reports = Path(ledgers.root / "reports")
    make_docs(reports)
    (reports / "q" / "some").mkdir(parents=True)
    (reports / AUDITED).write_text(render_audit(audited("links", gap_ns=20 * SECOND, gaps="from 1 to 2")[0]))
    of_ledgers, rows = create(ledgers), create(Ledgers(*make_results(folder)))
    app = FastAPI()
    app.mount("/ledgers", of_ledgers)
    app.mount("/rows", rows)
    app.get("/login")(lambda: HTMLResponse(FORM.format("The token was printed when the server started."), 200, HEADERS))
    return app, [
        "login",
        *(f"ledgers/{each}" for each in addresses_of_ledgers(ledgers)),
        *(f"rows/{each}" for each in _of_rows(rows)),
    ]


def addresses_of_ledgers(ledgers: Ledgers) -> list[str]:
    """One page of each kind over the lake of ledgers, with the Data Docs and the acts."""
    begin = START + FAILED * HOUR
    one = f"start={format_instant(begin)}&end={format_instant(begin + HOUR)}"
    pages = [*one_of_each(ledgers), f"interval/q/{interval_label(begin, begin + HOUR)}.html"]
    pages += ["docs/suites/links.html", f"docs/{AUDITED}", "results/index.html", "write/index.html"]
    pages += ["write/sql.html"]
    day = f"start={format_instant(START)}&end={format_instant(START + 24 * HOUR)}"
    pages += [f"act/run/q?{one}", f"act/approve/q?{one}", f"act/backfill/q?{day}", "act/skew/main1?bound=7s"]
    return list(dict.fromkeys(pages))


def _of_rows(app: FastAPI) -> list[str]:
    flows = f"results/q/flows?{urlencode(SHOWN)}"
    page = ask(app, "/results/q/flows", query=urlencode(SHOWN)).text
    packets = unescape(page.partition("/packets?")[2].partition('"')[0])
    filtered = urlencode(SHOWN | {"column": "cnt", "op": ">", "value": "1", "sort": "cnt", "desc": "1", "key": "srcIP"})
    versions = urlencode(SHOWN | {"before": "0", "after": "1"})
    pages = ["results/index.html", flows, f"results/q/flows?{filtered}", "results/q/singles?number=&key="]
    pages += [f"results/q/flows/packets?{packets}", "results/q/flows/packets?row=%7B%22tb%22%3A1%7D"]
    outcome = {"outcome": "not_of_protocol", "lfta": "ports", "link": "main1"}
    pages += [f"results/q/ports/packets?{urlencode(SHOWN | outcome)}"]
    pages += ["results/q", f"results/q?{urlencode({'search': '>1'})}", "results/q?search=none%3D1"]
    matrix = urlencode(SHOWN | {"form": "matrix", "number": "bytes", "key": "srcIP", "across": "destIP"})
    pages += [f"results/q/flows?{matrix}", f"results/q/flows?{urlencode(SHOWN | {'form': 'hours'})}"]
    pages += [f"results/q/flows?{urlencode(SHOWN | {'form': 'bars', 'key': 'destIP'})}"]
    pages += [f"write/sql.html?{urlencode({'text': STATEMENT})}"]
    return [*pages, f"results/q/flows/diff?{versions}", "query/q/flows.html", "streams.html"]


def main() -> int:
    """Measures every kind of page, and keeps pictures; returns 1 if something is too wide or squeezed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24 * 70, help="hours of the lake of ledgers")
    parser.add_argument("--shots", type=Path, help="folder of the pictures; without it pages are measured only")
    chosen = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "rows").mkdir()
        app, pages = make_every_page(Path(made) / "rows", make_large(Path(made) / "ledgers", chosen.hours))
        with served(app) as at, chromium() as browser:
            page = browser.new_page()
            for theme, width, (number, address) in product(THEMES, WIDTHS, enumerate(pages)):
                page.emulate_media(color_scheme=theme)
                wrong += wrong_places(page, f"{at}/{address}", width)
                if chosen.shots:
                    name = re.sub(r"[^A-Za-z0-9]+", "-", address.partition("?")[0])[:50]
                    path = chosen.shots / f"{number:02}-{name}-{width}-{theme}.png"
                    page.screenshot(path=path, full_page=width > 400)
    print("\n".join(dict.fromkeys(wrong)) or f"{len(pages)} pages at {WIDTHS}, light and dark: nothing")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
