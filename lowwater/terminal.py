"""Output to the terminal: all text passes through here, so that data is shown and never obeyed.

Below every stage. Other people choose the names in captures, file names and query texts. So no text is markup. Control
characters, and characters that change the direction of text, are printed as escapes (`\\u001b`), also into files.
tests/test_layout.py forbids other ways to print.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

WIDE = 160
"""Width of a table, in columns, if the output is no terminal: logs are not wrapped at 80."""

_LINES = re.compile(r"[^\n\t]+")


def shown(text: str) -> str:
    """Escapes every character that a terminal would obey; line feeds and tabs stay.

    The escapes are those of JSON, so a JSON document stays the same document.

    Example:
        >>> print(shown("a\\x1b[31m[red]\\u202eb"))
        a\\u001b[31m[red]\\u202eb
    """
    return text if text.isprintable() else _LINES.sub(lambda match: _escaped(match[0]), text)


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A spreadsheet evaluates texts that begin with these characters."""


def spreadsheet_cell(value: object) -> object:
    r"""A value that a spreadsheet takes as it is: of a text no formula, and control characters as escapes.

    Example:
        >>> spreadsheet_cell("=1+1"), spreadsheet_cell("a\x1bb"), spreadsheet_cell(-1)
        ("'=1+1", 'a\\u001bb', -1)
    """
    if not isinstance(value, str):
        return value
    # Texts from packets may contain line feeds, which would end a row for line-based readers.
    text = shown(value).replace("\n", "\\n").replace("\t", "\\t")
    return f"'{text}" if value.startswith(FORMULA) else text


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """Prints a text: a result, or with `err` a progress message."""
    click.echo(shown(text), err=err, nl=nl)


def say_refused(error: click.ClickException) -> None:
    """Prints a usage error of click, which repeats the user's input."""
    buffer = io.StringIO()
    error.show(buffer)
    say(buffer.getvalue(), err=True, nl=False)


def styled(text: str, style: str = "", fold: bool = False) -> Text:
    """Makes a text with a style; with `fold`, words longer than the line are broken."""
    return Text(shown(text), style=style, overflow="fold" if fold else None)


class Terminal(Console):
    """A console that prints every text as it is, without markup.

    Args:
        wide: whether tables have `WIDE` columns if the output is no terminal.
    """

    def __init__(self, stderr: bool = False, quiet: bool = False, wide: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, highlight=False, markup=False, emoji=False)
        if wide and not self.is_terminal:
            self.width = WIDE

    def render_str(self, text: str, **options: Any) -> Text:
        # Escaped before the layout, so that the width of the escapes counts.
        return super().render_str(shown(text), **{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else shown(text), style, control)

    @contextmanager
    def working(self, text: str, style: str | Style = "") -> Iterator[Callable[[str], None]]:
        """Shows a status line on a terminal during the block; yields a function that changes its text."""
        with self.status(Text(shown(text), style=style)) as status:
            yield lambda new_text: status.update(Text(shown(new_text), style=style))


def open_console(stderr: bool = False) -> Terminal:
    """Opens the console for results, or with `stderr` for progress messages."""
    return Terminal(stderr, wide=True)


LONG = 500
"""Rows from which on a table is laid out here: the one of rich takes up to a millisecond for each."""


def print_table(table: Table) -> None:
    """Prints a table without a box. In a long one the last column takes what the others leave, and is wrapped there."""
    console = open_console()
    if table.row_count < LONG:
        console.print(table)
        return
    columns = [[*column.cells] for column in table.columns]
    texts = [[shown(str(cell)) for cell in cells] for cells in columns]
    marks = [any(isinstance(cell, Text) and bool(cell.style) for cell in row) for row in zip(*columns, strict=True)]
    heads = [shown(str(column.header)) for column in table.columns]
    widths = [max(map(cell_len, (head, *{*cells}))) for head, cells in zip(heads, texts, strict=True)]
    rest = max(20, console.width - sum(widths[:-1]) - 2 * len(widths))
    right = [column.justify == "right" for column in table.columns]
    console.print(Text(_line(heads, widths, right), style="bold"), soft_wrap=True)
    lines: list[str] = []
    for at, row in enumerate(zip(*texts, strict=True)):
        pieces = wrap(row[-1], rest, break_on_hyphens=False) or [""]
        marked = marks[at] and console.is_terminal
        if marked:
            say("\n".join(lines), nl=bool(lines))
            lines = []
        for number, piece in enumerate(pieces):
            line = _line([*(row[:-1] if number == 0 else [""] * (len(row) - 1)), piece], widths, right)
            if marked:
                console.print(Text(line, style="bold red"), soft_wrap=True)
            else:
                lines.append(line)
    say("\n".join(lines), nl=bool(lines))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    spaces = [" " * max(0, width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
    placed = (gap + cell if to else cell + gap for cell, gap, to in zip(cells, spaces, right, strict=True))
    return f" {'  '.join(placed)}".rstrip()


def size_text(count: int) -> str:
    """Formats a number of bytes with its unit.

    Example:
        >>> size_text(999), size_text(4_200_000), size_text(17_000_000_000)
        ('1 kB', '4.2 MB', '17 GB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.2g} {unit}" if count < 100 * size else f"{count / size:,.0f} {unit}"
    return f"{count / 1000:.0f} kB"
