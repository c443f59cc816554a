"""Types of the columns of a sample: the narrowest type by which the reader can read nearly all values.

Below `tables`. Each type is tried with the conversions of the reader (`capture.tables.values`), so a proposal holds for
the values that it was made from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.tables.values import Flags, nanoseconds, typed
from lowwater.catalog.records import ISO, SECONDS, RecordField
from lowwater.catalog.types import Type

BEARABLE = 0.001
"""Largest share of the values of a column that its proposed type may refuse."""

NULLS = ("-", "NA", "N/A", "null", "NULL", "\\N", "nan", "NaN", "None")
"""Texts that stand for NULL in a column whose other values are no texts."""

UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_EARLIEST, _LATEST = 315_532_800, 4_133_980_800
"""Instants from 1980 to 2100, s: integers between them, in some unit, are times."""

_PROBED = 200
_LEADING_ZERO = r"^[-+]?0[0-9]"


@dataclass(frozen=True)
class Kind:
    """The type of a column, and its values as instants if they are times.

    Attributes:
        type: type of the catalog.
        form: form of a time, as in `RecordField`.
        unit: unit in which a time is proposed: `s`, `ms`, `us` or `ns`; empty for any other column.
        bounds: smallest and largest integer; None for other types.
        stamps: instants of the values, ns, -1 for NULL and for values that are refused; None for no times.
        nulls: texts, beside the empty one, that stand for NULL.
        refused: number of values that the type refuses.
        empty: whether no value of the sample tells the type.
    """

    type: Type
    form: str = ""
    unit: str = ""
    bounds: tuple[int, int] | None = None
    stamps: NDArray[np.int64] | None = None
    nulls: tuple[str, ...] = ()
    refused: int = 0
    empty: bool = False


def kind_of_texts(texts: pa.Array, numbers: bool = True) -> Kind:
    """Returns the type of a column of texts.

    Args:
        texts: strings, NULL for absent values.
        numbers: whether a text may be a number or a boolean; False for texts of JSON.
    """
    if texts.null_count == len(texts):
        return Kind(Type.STRING, empty=True)
    kind = _plain_kind(texts, numbers)
    if kind.type is not Type.STRING or not numbers:
        return kind
    marks = pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(NULLS)).fill_null(False)
    without = pc.if_else(marks, pa.scalar(None, pa.string()), texts)
    if without.null_count in (texts.null_count, len(texts)):
        return kind
    other = _plain_kind(without, numbers)
    if other.type is Type.STRING:
        return kind
    marked = pc.unique(pc.utf8_trim_whitespace(texts.filter(marks))).to_pylist()
    return replace(other, nulls=tuple(sorted(marked)))


def kind_of_values(values: pa.Array) -> Kind | None:
    """Returns the type of a column that its file has typed; None for types without a counterpart."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return kind_of_values(values.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        texts, bad = typed(values, RecordField("", Type.STRING))
        fitting = kind_of_texts(texts)
        # A file of typed columns has NULL itself, so a dash in it is a text.
        fitting = Kind(Type.STRING) if fitting.nulls else fitting
        return None if bad.any() else fitting
    if pa.types.is_timestamp(kind):
        return _instants(values, ISO)
    if pa.types.is_boolean(kind):
        return Kind(Type.BOOL)
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return _fitting(values, Type.INT) or Kind(Type.FLOAT)
    if pa.types.is_decimal(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind):
        times = None if pa.types.is_float32(kind) else _instants(values, SECONDS)
        return times or _fitting(values, Type.FLOAT)
    return None


def _plain_kind(texts: pa.Array, numbers: bool) -> Kind:
    """Returns the first type in the order of narrowness that reads nearly all texts."""
    padded = bool(pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py())
    plain = not padded or bool(pc.any(pc.match_substring(texts, ".")).as_py())
    fitting: Kind | None = None
    if numbers and not padded:
        fitting = _fitting(texts, Type.INT)
    if fitting is None and numbers and plain:
        fitting = _instants(texts, SECONDS) or _fitting(texts, Type.FLOAT)
    if fitting is None and numbers:
        fitting = _fitting(texts, Type.BOOL)
    return fitting or _fitting(texts, Type.IP) or _instants(texts, ISO) or Kind(Type.STRING)


def _fitting(values: pa.Array, kind: Type) -> Kind | None:
    """Returns a type if it reads nearly all of the values."""
    column, refused = _read(values, RecordField("", kind))
    if column is None:
        return None
    if kind is not Type.INT:
        return Kind(kind, refused=refused)
    bounds = pc.min_max(column)
    least, most = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    fitting = Kind(kind, bounds=(least, most), refused=refused)
    unit = next((name for name, size in UNITS.items() if _timely(least, size) and _timely(most, size)), "")
    if not unit:
        return fitting
    stamps, null = nanoseconds(column, RecordField("", kind), UNITS[unit])
    return replace(fitting, unit=unit, stamps=np.where(null, -1, stamps))


def _timely(value: int, unit: int) -> bool:
    return _EARLIEST <= value * unit // 1_000_000_000 < _LATEST


def _instants(values: pa.Array, form: str) -> Kind | None:
    """Returns the kind of a time in a form if it reads nearly all of the values, and decimal seconds are near today."""
    field = RecordField("", Type.INT, form=form)
    column, refused = _read(values, field)
    if column is None:
        return None
    stamps, null = nanoseconds(column, field, 1)
    stamps = np.where(null, -1, stamps)
    told = stamps[stamps >= 0]
    if not len(told):
        return None
    if form == SECONDS and not (_timely(int(told.min()), 1) and _timely(int(told.max()), 1)):
        return None
    unit = next(name for name, size in UNITS.items() if not np.any(told % size))
    return Kind(Type.INT, form, unit, None, stamps, refused=refused)


def _read(values: pa.Array, field: RecordField) -> tuple[pa.Array | None, int]:
    """Converts values as the reader does; None if that refuses too many, which few of them show at first."""
    told = values.drop_null()
    if not len(told):
        return None, 0
    step = max(len(told) // _PROBED, 1)
    probe = told.take(pa.array(np.arange(0, len(told), step)))
    if _refused(typed(probe, field)[1]) > max(len(probe) * BEARABLE * 10, 1 if len(told) > 1 / BEARABLE else 0):
        return None, 0
    column, bad = typed(values, field)
    refused = _refused(bad)
    return (column, refused) if refused <= len(told) * BEARABLE else (None, refused)


def _refused(flags: Flags) -> int:
    return int(np.count_nonzero(flags))
