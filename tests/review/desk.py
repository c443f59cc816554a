"""Every kind of page behind one web server: those of a lake of ledgers, those of a lake with packets, and the login.

`python -m tests.review.desk` measures all of them at five widths, light and dark; `--shots DIR` keeps the pictures.
`tests.review.widths` does so for a lake of long names and months of hours.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from html import unescape
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from lowwater_expectations.pages import render as render_audit
from lowwater_review import Ledgers
from lowwater_review.app import create
from lowwater_review.login import FORM, HEADERS

from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.tables import interval_label
from tests.browser import chromium, served
from tests.quality.frames import audited
from tests.review.asgi import ask
from tests.review.ledgers import START, make
from tests.review.resultlake import make_results
from tests.review.widths import THEMES, WIDTHS, make_docs, one_of_each, wrong_places

FAILED = 5
"""The interval whose acts are shown; lakes of `ledgers.make` have a failed audit there."""
SHOWN = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}
"""The range of the rows of `resultlake.make_results`."""
AUDITED = "q/some/links.html"
"""The page of an audit with a failure, below the reports."""
FILES = ("/results/{set_name}/{query}/plot.json", "/results/{set_name}/{query}/plots.json")
FILES += ("/results/{set_name}/{query}/rows.{form}",)
FILES += ("/results/{set_name}/{query}/packets.pcapng", "/assets/{name:path}", "/write/check")
"""Routes that answer with files, and so have no page."""


def make_desk(folder: Path, ledgers: Ledgers) -> tuple[FastAPI, list[str]]:
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
    return [*pages, f"results/q/flows/diff?{versions}", "query/q/flows.html", "streams.html"]


def main() -> int:
    """Measures every kind of page, and keeps pictures; returns 1 if something is too wide or squeezed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=Path, help="folder of the pictures; without it pages are measured only")
    chosen = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "rows").mkdir()
        app, pages = make_desk(Path(made) / "rows", Ledgers(*make(Path(made) / "ledgers", 30, frozenset({FAILED}))))
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
