"""A table of an answer: columns with the kind of their values, and rows of plain values. Commands and pages show the
same table. How a value is written stands in its `Kind` alone.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from lowwater import terminal
from lowwater.instants import format_duration, format_instant, range_words
from lowwater.lake import words

# The form of pages is the macro `sheet` of `review/templates/parts.html`, since only templates write HTML.


@dataclass(frozen=True)
class Kind:
    """How values of a column are written.

    Attributes:
        text: writes a value exactly; pages say the same in other words.
        style: class of its cells on a page; `n` for numbers, which stand at the right.
        none: what is written where there is no value.
        plain: gives a value as JSON and CSV have it.
        parts: titles of the values that `plain` gives, where they are several.
        marked: gives the style of a value on a terminal.
        badges: whether a page shows each value, which is a text or several, in its colour.
        page: address of the page of a value, with `{}` for its name; empty for none.
        headed: whether its title is shown; else it is only read aloud.
        whole: whether a terminal never breaks a value into lines.
    """

    text: Callable[[Any], str] = str
    style: str = ""
    none: str = ""
    plain: Callable[[Any], Any] = lambda value: value
    parts: tuple[str, ...] = ()
    marked: Callable[[Any], str] = lambda value: ""
    badges: bool = False
    page: str = ""
    headed: bool = True
    whole: bool = False


def share_text(share: float) -> str:
    """A share in percent, with three digits.

    Example:
        >>> share_text(0.0183), share_text(0.0), share_text(0.9999)
        ('1.83%', '0%', '99.99%')
    """
    return f"{100 * share:.4g}%" if share > 0.99 else f"{100 * share:.3g}%"


TEXT = Kind()
SET = Kind(page="set/{}.html")  # a query set
LINK = Kind(page="skew/{}.html")
WHEN = Kind(style="when")  # a day, or another time that is no instant
REASON = Kind(style="why")
COUNT = Kind("{:,.0f}".format, "n")
NUMBER = Kind(style="n")  # which is no count, as that of a version
SHARE = Kind(share_text, "n")
DURATION = Kind(format_duration, "n")  # ns
INSTANT = Kind(format_instant, "when", plain=format_instant)  # ns since the epoch
RANGE = Kind(  # begin and end, ns since the epoch, and the number of intervals
    lambda value: range_words(*value),
    "when",
    plain=lambda value: (*map(format_instant, value[:2]), value[2]),
    parts=("from", "to", "intervals"),
    whole=True,
)
STATE = Kind(marked=lambda word: "bold red" if word in words.URGENT else "", badges=True)  # of `words`
LABELS = Kind(", ".join, plain=", ".join, badges=True, headed=False)  # texts
ANSWER = Kind(style="why", marked=lambda answer: "bold" if answer.startswith("no") else "")


@dataclass(frozen=True)
class Sheet:
    """A table of an answer: title -> kind of the values of a column; and rows, with None where there is no value."""

    columns: Mapping[str, Kind]
    rows: Sequence[Sequence[Any]]

    def table(self) -> Table:
        """Returns the table of a terminal."""
        table = Table(box=None)
        for title, kind in self.columns.items():
            table.add_column(title if kind.headed else "", no_wrap=kind.whole, overflow="fold")
            table.columns[-1].justify = "right" if kind.style == "n" else "left"
        for row in self.rows:
            cells = zip(self.columns.values(), row, strict=True)
            table.add_row(*(_cell(kind, value) for kind, value in cells))
        return table

    def lines(self) -> list[list[Any]]:
        """Returns the titles, and the values of each row as JSON and CSV have them: instants in ISO 8601, durations in
        ns."""
        kinds = self.columns.values()
        titles = [name for title, kind in self.columns.items() for name in kind.parts or (title,)]
        rows = ([part for each in zip(kinds, row, strict=True) for part in _plain(*each)] for row in self.rows)
        return [titles, *rows]


def _cell(kind: Kind, value: Any) -> Any:
    return kind.none if value is None else terminal.styled(kind.text(value), kind.marked(value))


def _plain(kind: Kind, value: Any) -> Iterable[Any]:
    if value is None:
        return [None] * max(1, len(kind.parts))
    found: Iterable[Any] = kind.plain(value) if kind.parts else [kind.plain(value)]
    return found


def say_sheet(sheet: Sheet, form: str = "text") -> None:
    """Prints a table in a form of `FORMS`."""
    if form == "text":
        terminal.print_table(sheet.table())
    elif form == "json":
        titles, *rows = sheet.lines()
        objects = [dict(zip(titles, row, strict=True)) for row in rows]
        terminal.say(json.dumps(objects, indent=2, ensure_ascii=False))
    else:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(sheet.lines())
        terminal.say(out.getvalue(), nl=False)


FORMS = ("text", "json", "csv")
"""Forms of a table on the command line."""
