"""Axe's rules on every kind of page, light and dark: nothing serious. `make .venv/.axe` fetches Axe from npm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lowwater_review import Ledgers
from lowwater_review.app import create

from tests.browser import chromium, served
from tests.review.ledgers import make
from tests.review.widths import FAILED, FILES, make_every_page

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
AXE = Path(sys.prefix) / "axe" / "axe-core.js"
HOURS = 30
RUN = """
async (rules) => {
  const found = await axe.run(document, rules.length ? {runOnly: rules} : {});
  return found.violations.map((each) => [each.impact, each.id, each.nodes.map((node) => node.html.slice(0, 160))]);
}
"""
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Ledgers:
    return Ledgers(*make(tmp_path_factory.mktemp("every_page"), HOURS, frozenset({FAILED})))


@pytest.fixture(scope="module")
def every_page(ledgers: Ledgers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """The address of the server, and those of its pages."""
    app, pages = make_every_page(tmp_path_factory.mktemp("rows"), ledgers)
    with served(app) as at:
        yield at, pages


@pytest.fixture(scope="module")
def page(every_page: tuple[str, list[str]]) -> Iterator[Any]:
    """A page whose policy is put aside, since Axe is a script and the pages permit none."""
    if not AXE.exists():
        pytest.skip("Axe is not there: make .venv/.axe (needs npm)")
    with chromium() as browser:
        yield browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True).new_page()


def found_by_axe(page: Any, rules: tuple[str, ...] = ()) -> list[str]:
    """What Axe finds serious on the page that is open; without rules all are asked."""
    if page.evaluate("typeof axe") == "undefined":
        page.add_script_tag(path=AXE)
    return [f"{rule}: {nodes[:3]}" for impact, rule, nodes in page.evaluate(RUN, list(rules)) if impact in SERIOUS]


@pytest.mark.nightly
def test_axe_finds_nothing_serious_on_any_page(page: Any, every_page: tuple[str, list[str]]) -> None:
    at, pages = every_page
    wrong: list[str] = []
    for address in pages:
        page.emulate_media(color_scheme="light")
        answer = page.goto(f"{at}/{address}")
        assert answer.status == 200, address
        wrong += [f"{address}: {each}" for each in found_by_axe(page)]
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 390, "height": 800})
        rules = ("color-contrast", "scrollable-region-focusable", "link-in-text-block")
        wrong += [f"{address}, dark and narrow: {each}" for each in found_by_axe(page, rules)]
        page.set_viewport_size({"width": 1440, "height": 900})
    assert wrong == []


def test_every_route_with_a_page_is_among_them(ledgers: Ledgers, every_page: tuple[str, list[str]]) -> None:
    paths = [address.partition("?")[0].partition("/")[2] for address in every_page[1]]
    for route in create(ledgers).routes:
        if route.path not in (*FILES, "/"):
            assert any(route.path_regex.match(f"/{path}") for path in paths), route.path
