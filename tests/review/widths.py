"""Measures the pages in Chromium at several widths: nothing wider than the screen, no column of one word a line.

`python -m tests.review.widths` looks at every kind of page of a large lake (30 links, 60 query sets, long names, months
of hours) at five widths, light and dark; `--shots DIR` keeps the pictures. The test beside it takes a few pages.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lowwater_expectations.pages import assets, render_suites
from lowwater_review import Ledgers, render
from lowwater_review.pages import PAGES

from lowwater.instants import HOUR
from lowwater.lake.layout import CAPTURES, REPLAYS, open_lake
from lowwater.lake.ledgers.runs import ReplayRow
from lowwater.lake.tables import append_rows, interval_label
from tests.browser import chromium
from tests.review.ledgers import START, capture, make, table

WIDTHS = (390, 768, 1024, 1440, 2560)
THEMES = ("light", "dark")
LONG = "transatlantic_backbone_measurement_point_northern_exchange_router_interface"
MESSAGES = (
    f"{LONG}_03, 2026-01-01T07:00:00Z to 2026-01-01T08:00:00Z: no capture covers 2026-01-01T07:00:00.000001Z to "
    "2026-01-01T07:59:59.999999Z, and rows of the interval could be wrong; captures "
    f"{LONG}_20260101T060000Z.pcap and {LONG}_20260101T080000Z.pcap lie beside the gap",
    "control, 2026-01-01T01:00:00Z to 2026-01-01T02:00:00Z: 19.4s are left out",
)

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
    return [f"{address.rpartition('/site/')[2]} at {width}: {place}" for place in page.evaluate(MEASURE)]


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
        rows += [asdict(capture(name, at)) for at in range(max(0, hours - 30), hours)]
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
    append_rows(lake.captures, table(rows, CAPTURES))
    append_rows(lake.replays, table(runs, REPLAYS))
    make_docs(root / "reports")
    return Ledgers(root, queries)


def one_of_each(ledgers: Ledgers) -> list[str]:
    """The address of one page of every kind, and of the pages with failures and of the longest names."""
    snapshot, chosen = ledgers.now(), []
    for kind in PAGES:
        parts = sorted(kind.parts(snapshot), key=lambda part: len("".join(part)))
        chosen += [f"{kind.address.format(*part)}.html" for part in {parts[0], parts[-1]} if parts]
    failed = interval_label(START + 5 * HOUR, START + 6 * HOUR)
    return list(dict.fromkeys([*chosen, f"interval/q/{failed}.html"]))


def write_pages(ledgers: Ledgers, folder: Path, addresses: list[str]) -> None:
    """Writes these pages, assets and Data Docs below `folder/site`."""
    from lowwater_review.site import HERE

    snapshot = ledgers.now()
    for address in addresses:
        path = folder / "site" / address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(snapshot, address) or "", encoding="utf-8")
    shutil.copytree(HERE / "assets", folder / "site" / "assets")
    shutil.copytree(Path(ledgers.root) / "reports", folder / "site" / "docs", dirs_exist_ok=True)


def main() -> int:
    """Measures every kind of page; returns 1 if something is too wide or squeezed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24 * 70)
    parser.add_argument("--shots", type=Path)
    chosen = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as made, chromium() as started:
        folder = Path(made)
        ledgers = make_large(folder, chosen.hours)
        addresses = one_of_each(ledgers)
        write_pages(ledgers, folder, addresses)
        addresses += ["docs/suites/links.html"]
        page = started.new_page()
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            for address in addresses:
                for width in WIDTHS:
                    wrong += wrong_places(page, (folder / "site" / address).as_uri(), width)
                    if chosen.shots:
                        chosen.shots.mkdir(parents=True, exist_ok=True)
                        name = address.replace("/", "-").removesuffix(".html")[:60]
                        page.screenshot(path=chosen.shots / f"{name}-{width}-{theme}.png", full_page=width > 400)
    print("\n".join(dict.fromkeys(wrong)) or f"{len(addresses)} pages at {WIDTHS}, light and dark: nothing")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
