"""The maximum lateness (skew) of the records of a link: one skew, or one per value of a column (SEMANTICS T2, T8).

The column is one of packets, or a field of the protocol of a link with other records. The low level reads it, and so do
the audits that count late records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.expr import Type
from lowwater.catalog.packets import ADDRESSES, READABLE, TYPES, stored
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.catalog.values import pack_ip, parse_mac, words_from_ip
from lowwater.config import Config, section_of
from lowwater.errors import ConfigError

Value = int | str | bytes


@dataclass(frozen=True)
class Skews:
    """The skews of a link's records; picklable.

    Attributes:
        rest: the skew of records with none of the values, ns.
        column: the column that `values` compares, by its name in expressions; empty if all records have one skew.
        values: (value, skew in ns) pairs.
    """

    rest: int
    column: str = ""
    values: tuple[tuple[Value, int], ...] = ()

    @staticmethod
    def parse(link: str, rest: int, column: str, texts: Mapping[str, int], layout: RecordLayout | None = None) -> Skews:
        """Parses the skews in a link's settings, where values are texts.

        Args:
            link: the name of the link, for messages.
            rest: the skew of records with none of the values, ns.
            column: the column of packets, or the field of other records, whose values have skews.
            texts: text of a value -> its skew, ns.
            layout: fields of the link's records; None for packets.

        Raises:
            ConfigError: the records have no such column, or a text is not a value of its type.
        """
        where = section_of(link, "group_skew")
        if layout is not None:
            kinds = {each.name: each for each in layout.fields if each.type in _RECORD_EXAMPLES}
            if column not in kinds:
                message = f"{where}: {layout.protocol} has no field {column!r} of integers, texts or addresses"
                raise ConfigError(message, f"name one of {', '.join(kinds)}")
            of = kinds[column]
            return Skews(rest, of.stored, tuple((_of_field(where, of, text), skew) for text, skew in texts.items()))
        if column not in TYPES or column not in (*ADDRESSES, *READABLE.names):
            raise ConfigError(f"{where}: packets have no column {column!r}", "name one of docs/packets.md")
        return Skews(rest, column, tuple((_parsed(where, column, text), skew) for text, skew in texts.items()))

    @property
    def longest(self) -> int:
        """The largest skew, ns. The promises of the link wait for it."""
        return max([self.rest, *(skew for _, skew in self.values)])

    @property
    def columns(self) -> list[str]:
        """The stored columns that `of` reads."""
        return stored([self.column]) if self.column else []

    def of(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Returns the skew of every record of a batch, ns; shape (records)."""
        skews = np.full(batch.num_rows, self.rest, np.int64)
        for value, skew in self.values:
            skews[self._has(batch, value)] = skew
        return skews

    def _has(self, batch: pa.RecordBatch, value: Value) -> npt.NDArray[np.bool_]:
        parts = words_from_ip(value) if isinstance(value, bytes) else (value,)
        equal_rows = np.ones(batch.num_rows, np.bool_)
        for name, part in zip(self.columns, parts, strict=True):
            equal = pc.equal(batch.column(name), pa.scalar(part, batch.column(name).type))
            equal_rows &= pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
        return equal_rows


def link_skews(config: Config, link: str, layout: RecordLayout | None = None) -> Skews:
    """Returns the skews of a link's records (SEMANTICS T8).

    Args:
        config: the settings.
        link: the link.
        layout: fields of its records; None for packets.

    Raises:
        ConfigError: `group_skew` names an unknown column or a wrong value, or the link also sheds load.
    """
    settings = config.link(link)
    if settings.group_skew is None:
        return Skews(settings.skew)
    if settings.shed is not None:
        raise ConfigError(f"link {link} sheds load of the packets that one skew admits", "leave out shed or group_skew")
    return Skews.parse(link, settings.skew, settings.group_skew.column, settings.group_skew.values, layout)


_EXAMPLES = {Type.IP: "10.0.0.1", Type.MAC: "02:00:00:00:00:01", Type.INT: "7"}


def _parsed(where: str, column: str, text: str) -> Value:
    try:
        return _value(column, text)
    except (ValueError, OverflowError, pa.ArrowException):
        kind = TYPES[column]
        raise ConfigError(
            f"{where}: {text!r:.80} is no {kind} that {column} can have", f"write one as '{_EXAMPLES[kind]}'"
        ) from None


_RECORD_EXAMPLES = {Type.IP: "10.0.0.1", Type.INT: "7", Type.STRING: "udp"}


def _of_field(where: str, of: RecordField, text: str) -> Value:
    try:
        if of.type == Type.IP:
            return pack_ip(text)
        return text if of.type == Type.STRING else _whole(int(text))
    except (ValueError, OverflowError):
        message = f"{where}: {text!r:.80} is no {of.type} that {of.name} can have"
        raise ConfigError(message, f"write one as '{_RECORD_EXAMPLES[of.type]}'") from None


def _whole(number: int) -> int:
    """Returns a number if 64 bits hold it."""
    return int(np.int64(number))


def _value(column: str, text: str) -> Value:
    if column in ADDRESSES:
        return pack_ip(text)
    kind = TYPES[column]
    value: Value = parse_mac(text) if kind is Type.MAC else text if kind is Type.STRING else int(text)
    pa.scalar(value, READABLE.field(column).type)
    return value
