"""A real browser before a running Airflow: logged in, and what its form and its frames take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.browser import chromium


@contextmanager
def browser(home: Any) -> Iterator[Any]:
    """A page of Chromium, logged in through Airflow's form; every request that leaves the machine is an error."""
    with chromium() as started:
        page = started.new_context(viewport={"width": 1500, "height": 950}, timezone_id="UTC").new_page()
        strangers: list[str] = []
        ours = (home.address, f"blob:{home.address}", "data:", "about:blank")
        page.on("request", lambda asked: None if asked.url.startswith(ours) else strangers.append(asked.url))
        page.goto(f"{home.address}/")
        page.get_by_label("Username").fill("admin")
        page.get_by_label("Password").fill(home.password)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(lambda url: "login" not in url)
        yield page
    assert strangers == []


def frame(page: Any) -> Any:
    """What is in the frame of an external view."""
    return page.frame_locator("iframe")


def follow(page: Any, link: Any, heading: str, address: str) -> Any:
    """What is in the frame once a link in it was followed to a page of a heading, whose address holds a text.

    Airflow's page learns of each load of the frame and then brings its own address up to date. A link that is followed
    before it has done so can lose: the frame is put back to the page before. So the address of the whole page has to
    follow too, and where it has not the link is followed again, as somebody who reads would.
    """
    from playwright.sync_api import TimeoutError as Late

    inside = frame(page)
    for _ in range(8):
        with suppress(Late):
            link.click(timeout=30_000)
        with suppress(Late):
            page.wait_for_url(lambda url: address in url, timeout=30_000)
            inside.get_by_role("heading", name=heading).wait_for(timeout=30_000)
            return inside
    raise AssertionError(f"no page {heading!r} behind {link} but {page.url}")
