"""Checks a built site: `python -m website.check var/website/site`.

Every link and picture leads to a file of the site and every anchor is there; no page loads anything from elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class _Page(HTMLParser):
    """The anchors of a page, where it leads to and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes ids and addresses."""
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag in _LOADED and (address := values.get(_LOADED[tag])) and values.get("rel") != "canonical":
            self.loaded.append(address)
        elif tag == "a" and (address := values.get("href")):
            self.links.append(address)


@cache
def parsed(path: Path) -> _Page:
    """A page of the site."""
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def faults(site: Path) -> Iterator[str]:
    """What is wrong, a sentence each."""
    site = site.resolve()
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":
            continue
        page, name = parsed(path), path.relative_to(site)
        for address in page.loaded:
            if urlsplit(address).scheme in ("http", "https") or address.startswith("//"):
                yield f"{name} loads {address} from elsewhere"
            elif not urlsplit(address).scheme and not (path.parent / unquote(urlsplit(address).path)).exists():
                yield f"{name} loads {address}, which is not there"
        for address in page.links:
            yield from _link(site, path, address)


def _link(site: Path, path: Path, address: str) -> Iterator[str]:
    parts = urlsplit(address)
    if parts.scheme or address.startswith("//"):
        return
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    name = path.relative_to(site)
    if not target.is_relative_to(site) or not target.exists():
        yield f"{name} leads to {address}, which is not there"
    elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in parsed(target).anchors:
        yield f"{name} leads to {address}: no such anchor"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    print("\n".join(found) or "every link leads somewhere, and nothing is loaded from elsewhere")
    sys.exit(1 if found else 0)
