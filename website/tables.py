"""Tables and plain text in the Markdown of generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable


def escaped(text: str) -> str:
    """Text whose words such as <name> and A_b are not taken for markup; what is between backquotes stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else part.replace("<", "&lt;").replace("*", r"\*").replace("[", r"\[")
        for part in parts
    )


def cell(text: str) -> str:
    """Text on one line, for a cell of a table."""
    return escaped(re.sub(r"\s+", " ", text)).replace("|", r"\|")


def code(text: str) -> str:
    """A word of code, for a cell of a table."""
    return f"`{text}`".replace("|", r"\|")


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of finished cells, with one row a line."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
