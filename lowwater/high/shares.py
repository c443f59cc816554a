"""Shares of the keys: which rows a part takes, and files whose row groups are divided by share.

A row is in a share by a digest of its keys (`plan.shares`). The low level and the stages of a plan write row groups by
FINEST shares, and name them in the metadata of the file; a part reads the row groups that meet its share. Files without
such an index are read as a whole, and their rows chosen by digest. So rows never depend on how a file is divided.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.capture.digests import row_digests
from lowwater.catalog.expr import Expr, columns_of
from lowwater.high.slices.keys import normal
from lowwater.high.slices.values import Frame
from lowwater.plan.shares import texts

FINEST = 64
"""The shares of an index, and the most shares of a part."""
_BITS = 32
"""Digests of shares have so many bits; the spills of an operator divide by the other ones."""
FEWEST = 1 << 13
"""Rows of a row group by share, at least: below it, reading row groups costs more than choosing rows."""
FEWEST_EXCHANGED = 1 << 10
"""The same where each of many parts leaves rows for all parts of the next stage."""
_INDEX = b"lowwater.shares"
_MIX = np.uint64(0xFF51AFD7ED558CCD)

Digests = npt.NDArray[np.uint32]
Choices = Sequence[tuple[Expr, ...]]


def digests(frame: Frame, keys: Sequence[Expr]) -> Digests:
    """Computes the digest of each row by which it is in a share."""
    mixed = row_digests([normal(frame.of_expr(key)) for key in keys], frame.rows)
    mixed ^= mixed >> np.uint64(33)
    return (mixed * _MIX >> np.uint64(64 - _BITS)).astype(np.uint32)


@dataclass(frozen=True)
class Bounds:
    """Digests from `first` to `end`, exclusive."""

    first: int = 0
    end: int = 1 << _BITS

    @staticmethod
    def of(number: int, shares: int) -> Bounds:
        """Returns the digests of a share, of so many."""
        return Bounds((number << _BITS) // shares, (number + 1 << _BITS) // shares)

    def meets(self, other: Bounds) -> bool:
        """Whether a digest is in both."""
        return self.first < other.end and other.first < self.end

    def holds(self, other: Bounds) -> bool:
        """Whether all digests of the other are in this one."""
        return self.first <= other.first and other.end <= self.end

    def chosen(self, values: Digests) -> pa.Array:
        """Marks the digests within the bounds."""
        return pa.array((values >= self.first) & (values.astype(np.int64) < self.end))


EVERYTHING = Bounds()


@dataclass(frozen=True)
class Share:
    """One of several shares of the rows of a part.

    Attributes:
        number: from 0.
        shares: how many there are.
        keys: leaf -> the expressions that divide its rows; of a leaf that is not here any rows are a share.
    """

    number: int
    shares: int
    keys: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)

    @property
    def bounds(self) -> Bounds:
        """The digests of the share."""
        return Bounds.of(self.number, self.shares)


@dataclass(frozen=True)
class Index:
    """By what the row groups of a file are divided.

    Attributes:
        by: texts of the keys; empty for a file without an index.
        groups: the digests of each row group.
    """

    by: tuple[str, ...] = ()
    groups: Sequence[Bounds] = ()

    @staticmethod
    def of(stored: pq.ParquetFile) -> Index:
        """Reads the index of a file."""
        text = (stored.metadata.metadata or {}).get(_INDEX)
        if text is None:
            return Index()
        content = json.loads(text)
        return Index(tuple(content["by"]), [Bounds(*pair) for pair in content["groups"]])

    def bounds(self, group: int) -> Bounds:
        """The digests of a row group."""
        return self.groups[group] if self.by else EVERYTHING


class DividedWriter:
    """A parquet file whose row groups are divided by share where there are many rows.

    Args:
        path: the file.
        schema: its columns.
        choices: what may divide its rows: the first that divides evenly the first rows that are many, else the last;
            empty to divide nothing.
        most: rows of a row group, at most.
        fewest: rows of a row group by share, at least.
        options: options of the writer.
    """

    def __init__(
        self, path: Path, schema: pa.Schema, choices: Choices, most: int, fewest: int = FEWEST, **options: Any
    ) -> None:
        self._writer = pq.ParquetWriter(path, schema, **options)
        self._choices, self._most, self._fewest = choices, most, fewest
        self._keys: tuple[Expr, ...] = ()
        self._groups: list[Bounds] = []

    def write(self, rows: pa.Table, divided: bool = True) -> None:
        """Writes rows; all of them have keys, unless they are not to be divided."""
        if divided and self._choices and not self._keys and rows.num_rows >= self._fewest:
            self._keys = _even(rows, self._choices)
        for bounds, part in divide(rows, self._keys if divided else (), self._fewest):
            self._writer.write_table(part, row_group_size=self._most)
            self._groups += [bounds] * -(-part.num_rows // self._most)

    def close(self) -> None:
        """Ends the file."""
        if any(bounds != EVERYTHING for bounds in self._groups):
            groups = [[bounds.first, bounds.end] for bounds in self._groups]
            index = {"by": texts(self._keys), "groups": groups}
            self._writer.add_key_value_metadata({_INDEX.decode(): json.dumps(index)})
        self._writer.close()


def _even(rows: pa.Table, choices: Choices) -> tuple[Expr, ...]:
    """Returns the first choice by which no share has more than twice its part of the rows; else the last."""
    for keys in choices[:-1]:
        numbers = digests(Frame.of(rows.select(columns_of(*keys))), keys) >> np.uint32(_BITS - 6)
        if np.bincount(numbers).max() * FINEST <= 2 * rows.num_rows:
            return keys
    return choices[-1]


def divide(rows: pa.Table, keys: Sequence[Expr], fewest: int) -> Iterator[tuple[Bounds, pa.Table]]:
    """Yields rows by share, in as many shares as leave so many rows in each."""
    shares = FINEST
    while shares > 1 and rows.num_rows < shares * fewest:
        shares //= 2
    if not keys or shares == 1:
        yield EVERYTHING, rows
        return
    frame = Frame.of(rows.select(columns_of(*keys)))
    numbers = (digests(frame, keys) >> np.uint32(_BITS - shares.bit_length() + 1)).astype(np.uint8)
    order = np.argsort(numbers, kind="stable")
    edges = np.cumsum(np.bincount(numbers, minlength=shares)).tolist()
    ordered = rows.take(pa.array(order))
    for number, (first, end) in enumerate(zip([0, *edges], edges, strict=False)):
        if end > first:
            yield Bounds.of(number, shares), ordered.slice(first, end - first)
