"""A real browser before a running Airflow: logged in, and what its form and its frames take."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lowwater.config import format_instant


@contextmanager
def browser(home: Any) -> Iterator[Any]:
    """A page of Chromium, logged in through Airflow's form; every request that leaves the machine is an error."""
    sync = pytest.importorskip("playwright.sync_api")
    found = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium")
    with sync.sync_playwright() as running:
        started = running.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = started.new_context(viewport={"width": 1500, "height": 950}, timezone_id="UTC").new_page()
        page.set_default_timeout(60_000)
        strangers: list[str] = []
        ours = (home.address, f"blob:{home.address}", "data:")
        page.on("request", lambda asked: None if asked.url.startswith(ours) else strangers.append(asked.url))
        page.goto(f"{home.address}/")
        page.get_by_label("Username").fill("admin")
        page.get_by_label("Password").fill(home.password)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(lambda url: "login" not in url, timeout=60_000)
        yield page
        started.close()
    assert strangers == []


def frame(page: Any) -> Any:
    """What is in the frame of an external view."""
    return page.frame_locator("iframe")


def backfill_by_form(page: Any, address: str, dag: str, first: int, last: int) -> None:
    """Fills Airflow's form of Trigger for a range of dates, from the interval at `first` to that at `last`, ns."""
    page.goto(f"{address}/dags/{dag}")
    page.get_by_role("button", name="Trigger").first.click()
    page.get_by_text("Run this Dag for a range of dates").click()
    for place, at in enumerate((first, last)):
        day, clock = format_instant(at)[:10].replace("-", "/"), format_instant(at)[11:16]
        page.get_by_test_id("datetime-input").nth(place).click()
        page.get_by_placeholder("YYYY/MM/DD").fill(day)
        page.get_by_placeholder("HH:mm").fill(clock)
        page.get_by_placeholder("HH:mm").press("Enter")
        if page.get_by_placeholder("HH:mm").is_visible():
            page.keyboard.press("Escape")
    page.get_by_text("will be triggered.").wait_for()
    page.get_by_role("button", name="Run Backfill").click()
    page.get_by_text("Backfill generated").first.wait_for()
