"""Text that a terminal must not obey, and a command that is run with it."""

from __future__ import annotations

import re

from tests.replay.support import Said, lowwater

HOSTILE = "[/bold][red]\x1b[31m\x1b]0;title\x07\x9b2J\u202e\u2066\r"
"""Markup that closes what is not open, colours, a title, another screen, and text from right to left."""


def clean(*arguments: object, code: int | None = 0) -> Said:
    """Runs a command and looks at what it printed."""
    said = lowwater(*arguments)
    for text in (said.out, said.err):
        assert [char for char in text if not char.isprintable() and char not in "\n\t"] == [], arguments
        assert "Traceback" not in text
    assert code is None or said.code == code, said
    return said


def everything(said: Said) -> str:
    """What was printed, without the line ends of tables."""
    return re.sub(r"\s", "", said.out + said.err)
