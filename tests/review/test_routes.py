"""Every route of the pages, found by introspection: what an address says, and what the data say, is shown as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import pytest
from lowwater_review import Ledgers
from lowwater_review.app import create

from tests.review.asgi import ask
from tests.review.ledgers import HOSTILE, make
from tests.review.widths import FAILED, addresses_of_ledgers

pytestmark = pytest.mark.slow
PARAMETERS = ("from", "to", "column", "op", "value", "sort", "number", "key", "page", "version", "row", "last")
PARAMETERS += ("title", "before", "after", "start", "end", "only", "order", "bound")
KNOWN = {"set_name": "q", "query": "flows", "kind": "run", "name": "q", "form": "csv"}
KNOWN |= {"name:path": "index.html", "address:path": "index.html"}


class Markup(HTMLParser):
    """Finds elements and attributes that run something or load something from elsewhere, as a browser would."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        ours = tag == "script" and str(dict(attrs).get("src")).lstrip("./") == "assets/write.js"
        if tag in ("script", "img", "iframe", "object", "embed", "base") and not ours:
            self.wrong.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (value or "").strip().lower().startswith(("javascript:", "data:", "//")):
                self.wrong.append(f"{tag} {name}={value}")


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Ledgers:
    return Ledgers(*make(tmp_path_factory.mktemp("routes"), 8, frozenset({FAILED})))


def test_no_part_of_an_address_is_ever_markup(ledgers: Ledgers) -> None:
    """Placeholders and parameters hostile, alone and together, on every route and method."""
    app = create(ledgers)
    hostile = urlencode(dict.fromkeys(PARAMETERS, HOSTILE))
    asked = 0
    for route in app.routes:
        known = re.sub(r"\{([^}]*)\}", lambda found: KNOWN[found[1]], route.path)
        strange = re.sub(r"\{[^}]*\}", quote(HOSTILE, safe=""), route.path)
        for method in sorted(route.methods):
            for path in (known, strange):
                for query in ("", hostile):
                    answer = ask(app, path, method, query=query, body=hostile.encode())
                    assert answer.status < 500, (method, path, query, answer.text)
                    assert HOSTILE not in answer.text and not Markup(answer.text).wrong, (method, path, query)
                    asked += 1
    assert asked > 7 * len(app.routes)


def test_no_value_of_the_data_is_ever_markup(ledgers: Ledgers) -> None:
    """The ledgers of the lake have hostile messages, subjects and rows; the page of the failed hour shows them."""
    app, shown = create(ledgers), []
    for address in addresses_of_ledgers(ledgers):
        path, _, query = address.partition("?")
        if not path.startswith("docs/"):
            answer = ask(app, f"/{path}", query=query)
            assert answer.status == 200 and HOSTILE not in answer.text and not Markup(answer.text).wrong, address
            shown += [address] if "&lt;script&gt;" in answer.text else []
    assert any(address.startswith("interval/") for address in shown) and "index.html" in shown
