"""How the records of a link that are no packets are read: what the settings say, and the ledger stores as text."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.records import RecordLayout

READER_VERSION = 4
"""Changes whenever the same file would be read to other rows (SEMANTICS T7)."""


@dataclass(frozen=True)
class TextOptions:
    """How delimited text is written; picklable."""

    separator: str = ","  # character between two values
    quote: str = '"'  # character around a quoted value; empty if values are never quoted
    # whether the first line has the names of the columns; None if the layout reads columns by name
    header: bool | None = None
    null: tuple[str, ...] = ("",)  # unquoted texts that stand for NULL
    decimal: str = "."  # character before the fraction of a number: a point, or a comma

    def __str__(self) -> str:
        known = (self.separator, self.quote, self.header, self.null)  # ledgers from before `decimal` have these
        return repr(known if self.decimal == "." else (*known, self.decimal))


@dataclass(frozen=True)
class TableOptions:
    """How the records of a link are read; picklable. The ledger stores it as text."""

    kind: str  # `csv`, `json`, `parquet`, or the tool that wrote the log
    layout: RecordLayout
    text: TextOptions = field(default_factory=TextOptions)

    key_digest = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.text} {self.layout}"
