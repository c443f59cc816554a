"""The one door through which text goes to a terminal: data is shown, never obeyed.

Below every stage. Names in captures, file names and texts of queries are chosen by others. So no string is markup, and
control characters and characters that change the direction of text are shown as escapes (`\\u001b`): a log or a file
that output is redirected to gets the same bytes. tests/test_layout.py forbids to print around it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

WIDE = 160
"""Columns of a table where the output is no terminal: a log is not wrapped at 80."""

_LINES = re.compile(r"[^\n\t]+")


def shown(text: str) -> str:
    """The text with everything that a terminal would obey as an escape; line feeds and tabs stay.

    The escapes are those of JSON, so a JSON document stays the same document.

    Example:
        >>> print(shown("a\\x1b[31m[red]\\u202eb"))
        a\\u001b[31m[red]\\u202eb
    """
    return text if text.isprintable() else _LINES.sub(lambda found: _escaped(found[0]), text)


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """Prints a text: a result, or with `err` what happens meanwhile."""
    click.echo(shown(text), err=err, nl=nl)


def say_refused(error: click.ClickException) -> None:
    """Prints what click says of bad usage; it repeats what was typed."""
    told = io.StringIO()
    error.show(told)
    say(told.getvalue(), err=True, nl=False)


def styled(text: str, style: str = "", fold: bool = False) -> Text:
    """A text in a style; with `fold` a word that is too long for its place is broken."""
    return Text(shown(text), style=style, overflow="fold" if fold else None)


class Terminal(Console):
    """A console that shows every string as it is.

    Args:
        stderr: whether to print beside the results.
        quiet: whether to print nothing.
        wide: whether tables have `WIDE` columns where the output is no terminal.
    """

    def __init__(self, stderr: bool = False, quiet: bool = False, wide: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, highlight=False, markup=False, emoji=False)
        if wide and not self.is_terminal:
            self.width = WIDE

    def render_str(self, text: str, **options: Any) -> Text:
        # Before the layout, so that the width of the escapes is counted.
        return super().render_str(shown(text), **{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else shown(text), style, control)

    @contextmanager
    def working(self, text: str, style: str | Style = "") -> Iterator[Callable[[str], None]]:
        """A status line on a terminal while something goes on; gives what changes its text."""
        with self.status(Text(shown(text), style=style)) as status:
            yield lambda said: status.update(Text(shown(said), style=style))


def open_console(stderr: bool = False) -> Terminal:
    """Where results are printed, or with `stderr` what happens meanwhile."""
    return Terminal(stderr, wide=True)
