"""A real browser before a running Airflow: logged in, and what its form and its frames take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
