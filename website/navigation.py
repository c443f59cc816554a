"""The navigation of the site: the kinds of docs/index.md, in its order, with the pages that the site adds."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_ENTRY = re.compile(r"^( *)\* ((?:\[[^\]]+\]\([^)]+\)(?:, )?)+):", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)(?:#[^)]*)?\)")
_KIND = re.compile(r"^## (.*)$", re.MULTILINE)
TABS = {"docs/adr/README.md": "Decisions", "docs/performance.md": "Performance", "docs/comparison.md": "Comparison"}
TABS |= {"docs/glossary.md": "Glossary"}
"""Pages that have a tab of their own, beside the kinds."""

HOME = "README.md"

Nav = list[dict[str, Any]]


def navigation(index: str, decisions: str, generated: dict[str, str]) -> Nav:
    """Returns the navigation for mkdocs.

    Args:
        index: text of docs/index.md.
        decisions: text of docs/adr/README.md.
        generated: title -> page that the site adds to the reference.
    """
    parts = _KIND.split(index)
    nav: Nav = [{"Home": [HOME, {"Documents": "docs/index.md"}]}]
    tabs: dict[str, Any] = {}
    for kind, text in zip(parts[1::2], parts[2::2], strict=True):
        pages: Nav = []
        for title, page in _pages(text, "docs"):
            if page == HOME:
                continue
            if page in TABS:
                tabs[TABS[page]] = page
            else:
                pages.append({title: page})
        if kind == "Reference":
            pages += [{title: page} for title, page in generated.items()]
        nav.append({kind: pages})
    if "Decisions" in tabs:
        listed = [tabs["Decisions"], *({title: page} for title, page in _decisions(decisions))]
        tabs["Decisions"] = listed
    ordered = [(title, tabs[title]) for title in TABS.values() if title in tabs]
    return nav + [{title: [page] if isinstance(page, str) else page} for title, page in ordered]


def _pages(text: str, folder: str) -> list[tuple[str, str]]:
    """Title and page of each entry, once for each page."""
    pages: dict[str, str] = {}
    for entry in _ENTRY.finditer(text):
        for title, target in _LINK.findall(entry[2]):
            page = posixpath.normpath(posixpath.join(folder, target))
            if page.endswith(".md"):
                # Names of files at the top are in capitals.
                pages.setdefault(page, title if "/" in page else title.capitalize())
    return [(title, page) for page, title in pages.items()]


def _decisions(text: str) -> list[tuple[str, str]]:
    found = re.findall(r"^\* \*\*(\d+)\*\* \[([^\]]+)\]\(([^)]+)\)", text, re.MULTILINE)
    return [(f"{number}. {title}", f"docs/adr/{page}") for number, title, page in found]
