"""Reads watch lists: text files with comma-separated rows of declared columns.

Beside `builtin.strings`, which reads other files. WATCHLIST_JOIN reads a watch list, and its digest is an
input of the run (SEMANTICS S1). A path is relative to the working folder.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from lowwater.catalog.builtin.numbers import in_range
from lowwater.catalog.values import Type, pack_ip, parse_mac, parse_whole
from lowwater.errors import ConfigError
from lowwater.limits import LOOKUP_FILE_BYTES

WatchlistRow = tuple[Any, ...]
"""The values of one row; an empty value is None."""

_HINT = "paths are relative to the folder in which Lowwater runs"


def read_watchlist(path: str, columns: Sequence[tuple[str, Type]]) -> list[WatchlistRow]:
    """Returns the rows of a watch list, in the order of its lines.

    Empty lines and lines that begin with `#` are skipped.

    Args:
        columns: names and types, in the order of the file; an empty value is NULL.

    Raises:
        ConfigError: the file cannot be read, or a line is wrong; the message names file, line and cause.
    """
    lines = _content(path).decode("utf-8", "replace").splitlines()
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        texts = _values(path, number, line)
        if len(texts) != len(columns):
            names = ",".join(name for name, _ in columns)
            raise ConfigError(f"{path}:{number}: has {len(texts)} values, not {len(columns)}", f"write `{names}`")
        rows.append(tuple(_value(path, number, text, column) for text, column in zip(texts, columns, strict=True)))
    return rows


def file_digest(path: str) -> str:
    """Returns the sha256 of a file that a query reads, 64 hexadecimal digits: a watch list, or the table of a function.
    Raises ConfigError if it cannot be read."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return _digest(path, 0, 0)  # it says why
    return _digest(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _digest(path: str, _changed: int, _size: int) -> str:  # each interval of months asks for it
    return hashlib.sha256(_content(path)).hexdigest()


def _content(path: str) -> bytes:
    try:
        if not os.path.isfile(path):
            raise ConfigError(f"{path}: is not a file", _HINT)
        size = os.stat(path).st_size
        if size > LOOKUP_FILE_BYTES:
            raise ConfigError(f"{path}: has {size:,} bytes, more than {LOOKUP_FILE_BYTES:,}", "leave lines out")
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {cause}", _HINT) from None


def _values(path: str, number: int, line: str) -> list[str]:
    # One line at a time: an unclosed quote would otherwise swallow the rest of the file.
    try:
        return [text.strip() for text in next(csv.reader([line], skipinitialspace=True))]
    except csv.Error as error:
        raise ConfigError(f"{path}:{number}: {error}", "divide the values by commas, or shorten one") from None


def _value(path: str, line: int, text: str, column: tuple[str, Type]) -> Any:
    name, kind = column
    if not text:
        return None
    try:
        return _PARSE[kind](text)
    except ValueError:
        hint = f"write a value as {_EXAMPLES[kind]}, or nothing for NULL"
        raise ConfigError(f"{path}:{line}: {text!r:.80} is no {kind}, which {name} is", hint) from None


def _integer(text: str) -> int:
    value = in_range(parse_whole(text))
    if value is None:
        raise ValueError(text)
    return value


def _float(text: str) -> float:
    if "_" in text or not text.isascii():  # which only Python reads
        raise ValueError(text)
    return float(text)


def _flag(text: str) -> bool:
    flag = {"true": True, "false": False, "1": True, "0": False}.get(text.lower())
    if flag is None:
        raise ValueError(text)
    return flag


_EXAMPLES = {
    Type.BOOL: "true",
    Type.INT: "7",
    Type.FLOAT: "0.5",
    Type.IP: "10.0.0.1",
    Type.MAC: "02:00:00:00:00:01",
}
_PARSE: dict[Type, Callable[[str], Any]] = {
    Type.BOOL: _flag,
    Type.INT: _integer,
    Type.FLOAT: _float,
    Type.IP: pack_ip,
    Type.MAC: parse_mac,
    Type.STRING: str,
}
