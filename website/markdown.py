"""Turns the Markdown of a forge into that of Python-Markdown, which builds the site.

The documents are written for a forge, which indents the content of a list by the width of its marker and opens a list
without an empty line. Python-Markdown wants four spaces and an empty line. In code in tables a forge wants `\\|` for
a bar, and Python-Markdown the bar. Words behind the language of a code block are for our tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

LANGUAGES = {"gsql": "sql", "": "text"}
_FENCE = re.compile(r"^(\s*)(`{3,})(.*)$")
_MARKER = re.compile(r"^(\s*)([*+-]|\d+\.)(\s+)")
_CODE = re.compile(r"`[^`]+`")
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def converted(text: str, link: Callable[[str], str] = lambda target: target) -> str:
    """Returns a page for Python-Markdown.

    Args:
        text: the page as it is written.
        link: the target of a link, as the page has it -> as the site has it.
    """
    return "\n".join(_indented(_linked(text.splitlines(), link))) + "\n"


def _linked(lines: list[str], link: Callable[[str], str]) -> Iterator[str]:
    """Replaces the targets of links outside of code blocks."""
    fence = ""
    for line in lines:
        opened = _FENCE.match(line)
        if opened and (not fence or opened[2] == fence):
            fence = "" if fence else opened[2]
        if fence or opened:
            yield line
            continue
        if line.lstrip().startswith("|"):
            line = _CODE.sub(lambda found: found[0].replace(r"\|", "|"), line)
        yield _LINK.sub(lambda found: found[1] + link(found[2]) + found[3], line)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    """Indents the content of lists by four spaces a level, and puts an empty line before a list."""
    levels: list[int] = []  # columns at which the content of the open lists begins
    before, fence, shift = "", "", (0, 0)
    for line in lines:
        opened = _FENCE.match(line)
        if fence:
            if opened and opened[2] == fence and not opened[3].strip():
                fence = ""
            yield " " * shift[1] + line[min(shift[0], len(line) - len(line.lstrip())) :] if line.strip() else ""
            continue
        inside = bool(levels)
        depth = len(line) - len(line.lstrip())
        marker = _MARKER.match(line)
        if line.strip():
            lazy = bool(levels) and not marker and bool(before.strip()) and depth < levels[-1] and not opened
            while levels and depth < levels[-1] and not lazy:
                levels.pop()
        own = levels[-1] if levels else 0
        text = " " * (4 * len(levels)) + (line[own:] if depth >= own else line.lstrip())
        if marker:
            if not inside and before.strip():
                yield ""
            levels.append(len(marker[0]))
            text = " " * (4 * (len(levels) - 1)) + marker[2] + " " + line[len(marker[0]) :]
        if opened:
            fence, shift = opened[2], (own, 4 * len(levels))
            text = " " * shift[1] + fence + _info(opened[3])
        yield text if line.strip() else ""
        before = line


def _info(words: str) -> str:
    """The info string of a code block: its language, and the name of the file that it shows as its title."""
    language, *rest = words.split() or [""]
    named = next((word for word in rest if "." in word), "")
    return LANGUAGES.get(language, language) + (f' title="{named}"' if named else "")
