"""How late each record of a link may be: one skew, or one for each value of a column (SEMANTICS T2, T8).

Beside the packet schema; read by the low level and by what counts the records of a link apart from the engines.
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
from lowwater.catalog.values import pack_ip, parse_mac, words_from_ip
from lowwater.config import Config, section_of
from lowwater.errors import ConfigError

Value = int | str | bytes


@dataclass(frozen=True)
class Skews:
    """The skews of a link's records; picklable.

    Attributes:
        rest: skew of the records that have none of the values, ns.
        column: the column of the packets; empty where all records have one skew.
        values: with the skew of each, ns.
    """

    rest: int
    column: str = ""
    values: tuple[tuple[Value, int], ...] = ()

    @staticmethod
    def parse(link: str, rest: int, column: str, texts: Mapping[str, int]) -> Skews:
        """The skews that a link's settings say, whose values are texts.

        Args:
            link: name of the link, for messages.
            rest: skew of the records that have none of the values, ns.
            column: column of the packets whose values have skews of their own.
            texts: value, as a text -> its skew, ns.

        Raises:
            ConfigError: no such column, or a value is none of its type.
        """
        where = section_of(link, "group_skew")
        if column not in TYPES or column not in (*ADDRESSES, *READABLE.names):
            raise ConfigError(f"{where}: packets have no column {column!r}", "name one of docs/packets.md")
        return Skews(rest, column, tuple((_parsed(where, column, text), skew) for text, skew in texts.items()))

    @property
    def longest(self) -> int:
        """The largest of them, which the link's promises keep."""
        return max([self.rest, *(skew for _, skew in self.values)])

    @property
    def columns(self) -> list[str]:
        """The stored columns that `of` reads."""
        return stored([self.column]) if self.column else []

    def of(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The skew of every record of a batch, ns; shape (n)."""
        found = np.full(batch.num_rows, self.rest, np.int64)
        for value, skew in self.values:
            found[self._has(batch, value)] = skew
        return found

    def _has(self, batch: pa.RecordBatch, value: Value) -> npt.NDArray[np.bool_]:
        parts = words_from_ip(value) if isinstance(value, bytes) else (value,)
        has = np.ones(batch.num_rows, np.bool_)
        for name, part in zip(self.columns, parts, strict=True):
            equal = pc.equal(batch.column(name), pa.scalar(part, batch.column(name).type))
            has &= pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
        return has


def link_skews(config: Config, link: str) -> Skews:
    """The skews of a link's records (SEMANTICS T8).

    Raises:
        ConfigError: its `group_skew` names no column of packets, or no values of it; or it sheds load as well.
    """
    own = config.link(link)
    if own.group_skew is None:
        return Skews(own.skew)
    if own.shed is not None:
        raise ConfigError(f"link {link} sheds load of the packets that one skew admits", "leave out shed or group_skew")
    return Skews.parse(link, own.skew, own.group_skew.column, own.group_skew.values)


_EXAMPLES = {Type.IP: "10.0.0.1", Type.MAC: "02:00:00:00:00:01", Type.INT: "7"}


def _parsed(where: str, column: str, text: str) -> Value:
    try:
        return _value(column, text)
    except (ValueError, OverflowError, pa.ArrowException):
        kind = TYPES[column]
        raise ConfigError(
            f"{where}: {text!r:.80} is no {kind} that {column} can have", f"write one as '{_EXAMPLES[kind]}'"
        ) from None


def _value(column: str, text: str) -> Value:
    if column in ADDRESSES:
        return pack_ip(text)
    kind = TYPES[column]
    value: Value = parse_mac(text) if kind is Type.MAC else text if kind is Type.STRING else int(text)
    pa.scalar(value, READABLE.field(column).type)
    return value
