"""Columns of a sample of a file of records: their types, and the clock among them.

First steps of a proposal. The sample of a text file is whole lines from its begin, its middle and its end, in bounded
time and memory; a compressed file is decompressed up to MOST_UNPACKED bytes. The type of a column is the narrowest by
which the reader can read nearly all values: each is tried with the conversions of the reader
(`capture.tables.values`), so a proposal holds for the values that it was made from.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.formats.compression import DecompressedSource, compression_of
from lowwater.capture.formats.sources import PeekableSource, Source, open_source
from lowwater.capture.tables.values import Flags, nanoseconds, typed
from lowwater.catalog.records import ISO, SECONDS, RecordField
from lowwater.catalog.types import Type
from lowwater.errors import CaptureError
from lowwater.instants import HOUR

FIRST_BYTES = 1 << 20
"""Bytes of the first piece."""

LATER_BYTES = 1 << 18
"""Bytes of the pieces from the middle and the end."""

MOST_UNPACKED = 64 << 20
"""Most bytes of a compressed file that are decompressed for a sample."""

_STEP = 1 << 20


@dataclass(frozen=True)
class TextSample:
    """Some lines of a text file.

    Attributes:
        compression: name of the compression; empty for a plain file.
        pieces: whole lines in the order of the file, the first piece from its begin.
        whole: whether the pieces are the file.
    """

    compression: str
    pieces: tuple[bytes, ...]
    whole: bool


def sample_text(path: Path) -> TextSample:
    """Reads a sample of a text file.

    Raises:
        CaptureError: the file cannot be read.
    """
    _, stream = open_source(path)
    try:
        stored = PeekableSource(stream)
        with closing(stored):
            compression = compression_of(stored.peek(32))
            if not compression:
                return _plain(stored, stream.size)
            unpacked = DecompressedSource(stored, hashed=False)
            with closing(unpacked):
                return _unpacked(compression, unpacked)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", "check the path") from error


def _plain(source: PeekableSource, size: int) -> TextSample:
    first = _take(source, FIRST_BYTES)
    if len(first) < FIRST_BYTES or not source.rewinds:
        return TextSample("", (_lines(first, begin=True, end=True),), True)
    pieces = [_lines(first, begin=True, end=False)]
    for offset in (size // 2, size - LATER_BYTES):
        if offset >= FIRST_BYTES:
            source.rewind(offset)
            pieces.append(_lines(_take(source, LATER_BYTES), begin=False, end=False))
    return TextSample("", tuple(pieces), False)


def _unpacked(compression: str, source: Source) -> TextSample:
    first = _take(source, FIRST_BYTES)
    if len(first) < FIRST_BYTES:
        return TextSample(compression, (_lines(first, begin=True, end=True),), True)
    steps: list[bytes] = []
    size = len(first)
    while size < MOST_UNPACKED and (step := _take(source, _STEP)):
        size += len(step)
        steps.append(step[:LATER_BYTES] if len(step) == _STEP else step[-LATER_BYTES:])
    chosen = dict.fromkeys((len(steps) // 2, len(steps) - 1)) if steps else {}
    later = tuple(_lines(steps[number], begin=False, end=False) for number in chosen)
    return TextSample(compression, (_lines(first, begin=True, end=False), *later), False)


def _take(source: Source, size: int) -> bytes:
    """Reads so many bytes, fewer at the end."""
    buffer, filled = bytearray(size), 0
    view = memoryview(buffer)
    while filled < size and (count := source.readinto(view[filled:])):
        filled += count
    return bytes(view[:filled])


def _lines(data: bytes, begin: bool, end: bool) -> bytes:
    """Returns the whole lines of a piece.

    Args:
        data: bytes of a file.
        begin: whether the piece begins with a line.
        end: whether the file ends with the piece.
    """
    first = 0 if begin else data.find(b"\n") + 1
    last = len(data) if end else data.rfind(b"\n") + 1
    return data[first:last]


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


MOST_COLUMNS = 1000
"""Most columns of a proposal; access functions count as far."""


@dataclass(frozen=True)
class Column:
    """A column that can be read.

    Attributes:
        name: its name in the file; empty without one.
        position: its number in the file, from 1; None in JSON.
        path: names that lead to it; empty without a name.
        kind: its type.
        rises: whether it holds integers that never fall, at least two of them different.
        absent: records of the sample that are not among the values of its type, since they have none.
    """

    name: str
    position: int | None
    path: tuple[str, ...]
    kind: Kind
    rises: bool = False
    absent: int = 0

    @property
    def label(self) -> str:
        """Its name for messages."""
        return self.name or f"column {self.position}"


@dataclass
class SniffedColumns:
    """The columns of a sample.

    Attributes:
        columns: those that can be read.
        records: number of records of the sample.
        left_out: column that cannot be read -> why.
    """

    columns: list[Column] = field(default_factory=list)
    records: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


# The clock of the records of a sample: the time that runs behind the least. Below `tables`. The skew of the link
# bounds the disorder of its clock, so the smallest one keeps the most records for the least waiting.

NEARLY = 0.999
"""Share of the records whose lateness is compared."""

_DAY = 24 * HOUR

FALLING = 0.9
"""Share of the steps that go back in a column that falls."""


@dataclass(frozen=True)
class Disorder:
    """How far the instants of a column run behind the largest one before them.

    Attributes:
        absent: number of records without an instant.
        largest: largest lateness, ns.
        nearly: lateness that the share NEARLY of the records does not exceed, ns.
        falls: whether the column goes back at nearly every step.
        constant: whether all instants are equal, of two at least.
        days: whether all instants are midnights, of two at least.
    """

    absent: int
    largest: int
    nearly: int
    falls: bool
    constant: bool
    days: bool = False


def disorder(stamps: NDArray[np.int64], absent: int = 0) -> Disorder:
    """Measures the disorder of instants.

    Args:
        stamps: instants in the order of the file, ns; -1 for none.
        absent: number of further records without an instant.
    """
    told = stamps[stamps >= 0]
    if not len(told):
        return Disorder(len(stamps) + absent, 0, 0, False, True)
    late = np.maximum.accumulate(told) - told
    steps = np.diff(told)
    moved = np.count_nonzero(steps)
    return Disorder(
        absent=len(stamps) - len(told) + absent,
        largest=int(late.max()),
        nearly=int(np.sort(late)[int(np.ceil(NEARLY * len(late))) - 1]),
        falls=bool(moved > 1 and np.count_nonzero(steps < 0) >= FALLING * moved),
        constant=len(told) > 1 and not moved,
        days=len(told) > 1 and not np.any(told % _DAY),
    )
