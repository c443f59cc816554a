"""The review pages in Chromium, in a frame as Airflow's: calendar, a failed audit, its rows, skew review, keyboard."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from lowwater_expectations.audits import SUITES
from lowwater_generator import GeneratedCapture
from lowwater_review import Ledgers
from lowwater_review.acts.effects import Act, CommandHost
from lowwater_review.app import create

from lowwater.instants import HOUR
from lowwater.lake.tables import interval_label
from lowwater.replay.schedule.skew_review import write_skew
from tests.browser import chromium, served
from tests.replay.deskmaker import make_lake
from tests.replay.support import replay_range
from tests.review.conftest import Results
from tests.review.ledgers import HOSTILE, START, make
from tests.review.widths import MEASURE, WIDTHS, make_docs, make_large, wrong_places

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
HOURS, FAILED = 30, 5
FRAME = (
    '<!DOCTYPE html><iframe src="/lowwater/index.html" style="width:1400px;height:900px" '
    'sandbox="allow-scripts allow-same-origin allow-forms allow-downloads"></iframe>'
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The pages, mounted below a prefix as Airflow does."""
    root, queries = make(tmp_path_factory.mktemp("browser"), HOURS, frozenset({FAILED}))
    outer = FastAPI()
    outer.mount("/lowwater", create(Ledgers(root, queries)))
    outer.get("/")(lambda: HTMLResponse(FRAME))
    with served(outer) as at:
        yield at


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Any]:
    """A page of Chromium; a request that leaves the machine, or an error in it, fails the tests."""
    wrong: list[str] = []
    with chromium() as started:
        found = started.new_context(viewport={"width": 1500, "height": 950}).new_page()
        found.on("request", lambda asked: None if asked.url.startswith(address) else wrong.append(asked.url))
        found.on("console", lambda said: wrong.append(said.text) if "Content Security" in said.text else None)
        found.on("dialog", lambda asked: wrong.append(asked.message))
        yield found
    assert wrong == []


def test_from_the_calendar_to_the_rows_that_failed(page: Any, address: str) -> None:
    page.goto(f"{address}/")
    inside = page.frame_locator("iframe")
    inside.get_by_role("heading", name="January 2025", level=1).wait_for()
    assert inside.locator("td a[aria-label]").count() == HOURS
    inside.get_by_role("link", name="1 Jan 05:00, failed", exact=True).click()
    inside.get_by_role("heading", name="1 Jan 2025, 05:00 to 06:00 UTC").wait_for()
    assert inside.locator(".finding.critical").count() == len(SUITES)
    assert inside.locator(".finding.critical .pairs", has_text=HOSTILE).count() == len(SUITES)
    inside.get_by_role("link", name="1 Jan 2025, 06:00 UTC →").click()
    inside.get_by_role("heading", name="1 Jan 2025, 06:00 to 07:00 UTC").wait_for()


def show_rows(browser: Any, address: str) -> None:
    """Opens a page of rows, and looks again as long as it says that they are being read."""
    browser.goto(address)
    while (again := browser.get_by_role("link", name="Look again", exact=True)).count():
        again.click()
        browser.wait_for_load_state()


def test_a_spike_in_a_plot_leads_to_its_packets_in_three_clicks(page: Any, results: Results, tmp_path: Path) -> None:
    """The part of the plot, its row with most packets, the download, which tshark reads: as many as the row counted."""
    browser = page.context.browser.new_page()
    with served(create(Ledgers(*results(tmp_path)))) as at:
        hour = "from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z"
        show_rows(browser, f"{at}/results/q/flows?{hour}&sort=cnt&desc=1&number=cnt&key=")
        slots = browser.locator("svg .slot title").all_text_contents()
        totals = [int(text.rpartition(": ")[2].replace(",", "")) for text in slots]
        browser.locator("svg .slot").nth(totals.index(max(totals))).click()
        browser.wait_for_url(lambda url: "to=2026-01-01T01%3A00%3A00Z" not in url)
        count = int(browser.locator("tbody tr td").nth(3).inner_text())
        browser.get_by_role("link", name="show", exact=True).first.click()
        with browser.expect_download() as got:
            browser.get_by_role("link", name="Download all as pcapng").click()
        got.value.save_as(tmp_path / "spike.pcapng")
    browser.close()
    shown = subprocess.run(["tshark", "-r", tmp_path / "spike.pcapng"], capture_output=True, text=True)
    assert shown.returncode == 0 and len(shown.stdout.splitlines()) == count > 0


def tab_to(page: Any, name: str, most: int = 90) -> None:
    """Presses Tab until an element of this text or label has the focus; each one on the way shows that it has it."""
    for _ in range(most):
        page.keyboard.press("Tab")
        text, shown = page.evaluate(
            """() => { const at = document.activeElement, style = getComputedStyle(at);
            const label = at.getAttribute("aria-label") || at.labels?.[0]?.innerText || at.innerText || "";
            return [label.trim(), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0]; }"""
        )
        assert shown, f"{text!r} does not show that it has the focus"
        if text == name:
            return
    raise AssertionError(f"Tab does not reach {name!r}")


def test_each_journey_can_be_made_by_keyboard_alone(page: Any, address: str, results: Results, tmp_path: Path) -> None:
    """A red hour to its cause; a part of the plot, the packets of its row, their download; run again, backfill."""
    app = create(Ledgers(*results(tmp_path)))
    browser = page.context.browser.new_page()
    with served(app) as at:
        show_rows(browser, f"{at}/results/q/flows?from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z&number=cnt&key=")
        tab_to(browser, "The parts as a list")
        browser.keyboard.press("Enter")
        browser.keyboard.press("Tab")
        assert ": cnt: " in browser.evaluate("document.activeElement.innerText")
        browser.keyboard.press("Enter")
        browser.wait_for_url(lambda url: "to=2026-01-01T01%3A00%3A00Z" not in url and "version" in url)
        tab_to(browser, "show", 200)
        browser.keyboard.press("Enter")
        browser.get_by_role("heading", name="Packets of a row").wait_for()
        tab_to(browser, "Download all as pcapng")
        with browser.expect_download():
            browser.keyboard.press("Enter")
    browser.goto(f"{address}/lowwater/index.html")
    tab_to(browser, "1 Jan 05:00, failed")
    browser.keyboard.press("Enter")
    browser.get_by_role("heading", name="1 Jan 2025, 05:00 to 06:00 UTC").wait_for()
    tab_to(browser, browser.locator(".finding.critical summary").first.inner_text().strip())
    browser.keyboard.press("Enter")  # it was open: the cause was shown at once
    assert not browser.locator(".finding.critical .pairs").first.is_visible()
    browser.reload()  # the button is above
    tab_to(browser, "Run again")
    browser.keyboard.press("Enter")
    browser.get_by_role("heading", name="Run q again").wait_for()
    tab_to(browser, "Cancel")
    browser.goto(f"{address}/lowwater/set/q.html")
    tab_to(browser, "Backfill a range")
    browser.keyboard.press("Enter")
    browser.get_by_role("heading", name="Backfill q").wait_for()
    tab_to(browser, "From")
    browser.keyboard.press("Control+A")
    browser.keyboard.type("2025-01-01T00:00:00Z")
    tab_to(browser, "Show what it would do")
    browser.keyboard.press("Enter")
    browser.get_by_text("intervals are due").wait_for()
    browser.close()


class Doing(CommandHost):
    """Does acts in this process, where Airflow would; `tests/airflow/test_views.py` has acts of Airflow."""

    def __init__(self, root: Path, runner: Any) -> None:
        self.root, self.spark = root, runner

    def refusal(self, act: Act) -> str:
        return ""

    def perform(self, act: Act) -> str:
        if act.change is not None:
            write_skew(self.root, act.change)
            return "The skew is written."
        assert act.span is not None
        replay_range(self.root, self.spark, *act.span, query_set=act.name)
        return "The intervals have run."


@pytest.mark.slow
def test_a_skew_is_accepted_and_what_became_stale_is_run_again_by_keyboard(
    page: Any, captures: list[GeneratedCapture], tmp_path: Path, runner: Any
) -> None:
    """From the skew review to a calendar that is green again."""
    lake = make_lake(tmp_path, captures, runner, skew="5s")
    app = create(Ledgers(lake, tmp_path), host=lambda: Doing(lake, runner))
    browser = page.context.browser.new_page()

    def press(name: str, heading: str) -> None:
        tab_to(browser, name, 200)
        browser.keyboard.press("Enter")
        browser.get_by_role("heading", name=heading).wait_for()

    def labels() -> list[str | None]:
        browser.goto(f"{at}/index.html")
        cells = browser.locator('a[href*="interval/talkers/"][aria-label]')
        return [cells.nth(place).get_attribute("aria-label") for place in range(cells.count())]

    with served(app) as at:
        green = ["1 Jan 00:00, done", "1 Jan 01:00, done"]
        assert labels()[:2] == green
        press("Skew review", "Skew review")
        press("main1", "Skew of main1")
        press("Accept the recommended skew", "Set the skew of main1 to")
        assert browser.get_by_text("2 published intervals become stale").is_visible()
        press(browser.locator("button.do").inner_text(), "Set the skew of main1 to")
        browser.get_by_text("The skew is written.").wait_for()
        press("Backfill the 2 stale intervals of talkers", "Backfill talkers")
        press("Backfill talkers", "Backfill talkers")
        browser.get_by_text("The intervals have run.").wait_for()
        assert labels()[:2] == green
    browser.close()


@pytest.mark.nightly
def test_no_page_is_wider_than_its_screen_and_no_column_is_squeezed(page: Any, tmp_path: Path) -> None:
    ledgers = make_large(tmp_path, HOURS, links=5, sets=3)
    make_docs(ledgers.root / "reports")
    failed = f"interval/q/{interval_label(START + FAILED * HOUR, START + (FAILED + 1) * HOUR)}.html"
    other = page.context.browser.new_page()
    with served(create(ledgers)) as at:
        wrong = [
            place
            for where in ("index.html", "skew/index.html", failed, "docs/suites/links.html")
            for width in WIDTHS
            for place in wrong_places(other, f"{at}/{where}", width)
        ]
    assert wrong == []
    other.set_content(
        "<table style='width:60px;font:15px serif'><tr><td>some words that are squeezed here today</table>"
    )
    assert any("a column of" in place for place in other.evaluate(MEASURE))
    other.set_content("<div style='width:5000px;height:9px'></div>")
    assert any("pixels wide" in place for place in other.evaluate(MEASURE))
    other.close()
