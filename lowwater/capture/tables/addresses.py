"""Texts of IP addresses as the columns that are stored: version, upper and lower word.

Beside `values`. A kernel reads plain IPv4 addresses, since most are; `catalog.values` decides about all other texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.catalog.values import pack_ip, words_from_ip
from lowwater.machine_code import cached_njit

WORDS = pa.struct([("version", pa.int32()), ("high", pa.int64()), ("low", pa.int64())])
"""Type of a column of addresses between its texts and its stored columns."""

_VERSION = 4


def addresses(texts: pa.Array) -> tuple[pa.StructArray, NDArray[np.bool_]]:
    """Returns the addresses (WORDS), NULL where a text is none, and flags of the texts that are no addresses.

    Args:
        texts: strings; blanks around an address do not count.
    """
    low = np.full(len(texts), -1, np.int64)
    _, offsets, data = texts.buffers()
    if data is not None and len(texts):
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        _ipv4(np.frombuffer(data, np.uint8), ends, low)
    null = texts.is_null().to_numpy(zero_copy_only=False)
    version, high = np.full(len(texts), _VERSION, np.int32), np.zeros(len(texts), np.int64)
    others = np.flatnonzero((low < 0) & ~null)
    bad = np.zeros(len(texts), np.bool_)
    if len(others):
        encoded = texts.take(pa.array(others)).dictionary_encode()
        words = [_words(text) for text in encoded.dictionary.to_pylist()]
        columns = np.array([word or (0, 0, 0) for word in words], np.int64).reshape(-1, 3)
        chosen = columns[encoded.indices.to_numpy()]
        version[others], high[others], low[others] = chosen.T
        bad[others] = chosen[:, 0] == 0
    absent = null | bad
    columns_stored = [pa.array(version), pa.array(high), pa.array(low)]
    return pa.StructArray.from_arrays(columns_stored, fields=list(WORDS), mask=pa.array(absent)), bad


def address_columns(values: pa.StructArray) -> list[pa.Array]:
    """Returns the stored columns of addresses."""
    return list(values.flatten())


def _words(text: str) -> tuple[int, int, int] | None:
    try:
        return words_from_ip(pack_ip(text.strip()))
    except ValueError:
        return None


@cached_njit(nogil=True)
def _ipv4(data: Any, ends: Any, low: Any) -> None:
    """Sets the value of each text that is four decimal numbers to 255 without leading zeros, between three dots."""
    for index in range(len(ends) - 1):
        value, part, digits, dots, fits = 0, 0, 0, 0, True
        for at in range(ends[index], ends[index + 1]):
            byte = data[at]
            if byte == 46 and digits > 0 and dots < 3:
                value, part, digits, dots = value << 8 | part, 0, 0, dots + 1
            elif 48 <= byte <= 57 and digits < 3 and not (digits > 0 and part == 0):
                part, digits = part * 10 + (byte - 48), digits + 1
                if part > 255:
                    fits = False
                    break
            else:
                fits = False
                break
        if fits and dots == 3 and digits > 0:
            low[index] = value << 8 | part
