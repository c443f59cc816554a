"""Values that cannot be read in the type that the PROTOCOL declares: what to do about them. `reader` counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.capture.tables import delimited, sniffing
from lowwater.capture.tables.options import TableOptions
from lowwater.catalog.protocols import LOG_KINDS
from lowwater.catalog.records import ISO, SECONDS, RecordField
from lowwater.catalog.values import Type

_WORDS = {Type.INT: "integer", Type.FLOAT: "number", Type.BOOL: "boolean", Type.IP: "address", Type.STRING: "text"}
_FORMS = {SECONDS: "time in decimal seconds", ISO: "time in ISO 8601"}
_ACCESS = {SECONDS: "float_to_timestamp", ISO: "iso_to_timestamp"}
_NEARLY_ALL = 0.9
"""Share of the values of a field that are refused from which its type is wrong, and not some of the values."""


def readable(values: pa.Array | Sequence[Any]) -> pa.Array | Sequence[Any]:
    """Returns examples whose texts are UTF-8. Those of parquet need not be: Arrow does not look."""
    if not isinstance(values, pa.Array):
        return values
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if not (pa.types.is_string(plain.type) or pa.types.is_large_string(plain.type)):
        return plain
    texts = plain.cast(pa.binary() if pa.types.is_string(plain.type) else pa.large_binary()).to_pylist()
    return pa.array([None if text is None else text.decode("utf-8", "replace") for text in texts], pa.string())


@dataclass(frozen=True)
class UnreadValues:
    """Values of a field that cannot be read."""

    field: RecordField
    count: int  # records that are malformed by them
    records: int  # all records of the file
    place: int  # line of the first one, from 1; in parquet, its row
    examples: pa.Array | Sequence[Any]  # the first ones: texts or values that the file has typed; of JSON, Python's

    def words(self, options: TableOptions) -> str:
        """Says in one sentence which values of a file with these options are refused, and how they can be read."""
        examples = self._written(options)
        value = _first(examples)
        shown = (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))[:60]
        wanted = _FORMS.get(self.field.form) or _WORDS.get(self.field.type, str(self.field.type))
        place = f"{'row' if options.kind == 'parquet' else 'line'} {self.place:,}"
        words = (
            f"{self.count:,} of {self.records:,} records are malformed by their value of {self.field.name}, which is "
            f"declared as {wanted}, such as {shown!r} in {place}"
        )
        if options.kind in LOG_KINDS or self.count <= sniffing.BEARABLE * self.records:
            return words
        return f"{words}: {self._remedy(options, _kind_of(examples, options.kind))}"

    def _written(self, options: TableOptions) -> pa.Array | Sequence[Any]:
        """Returns the examples as the file has them."""
        if options.kind == "csv" and options.text.decimal == "," and delimited.has_fraction(self.field):
            return delimited.as_written(self.examples)
        return self.examples

    def _remedy(self, options: TableOptions, kind: sniffing.Kind) -> str:
        clock = self.field.stored == options.layout.clock
        if options.kind == "csv" and kind.nulls:
            null = ", ".join(f'"{mark}"' for mark in dict.fromkeys((*options.text.null, *kind.nulls)))
            return f"write null = [{null}] in the settings of the link, if they stand for no value"
        all_of_them = self.count > _NEARLY_ALL * self.records
        if options.kind == "csv" and options.text.decimal == "." and kind.comma:
            access = _ACCESS[SECONDS] if self.field.form == SECONDS else "float"
            declared = self._declared(Type.FLOAT, access, clock)
            return f'{declared} and decimal = "," in the settings of the link, if their comma is a decimal one'
        if options.text.decimal == "," and kind.type is Type.FLOAT and delimited.has_fraction(self.field):
            return 'leave decimal = "," out of the settings of the link, if their point is a decimal one'
        if kind.form and (clock or all_of_them):
            return self._declared(Type.INT, _ACCESS[kind.form], clock)
        wider = kind.type is Type.FLOAT and self.field.type is Type.INT and not self.field.form and not clock
        if wider or (kind.type is not Type.STRING and all_of_them):
            return self._declared(kind.type, _word(kind.type).lower(), clock)
        if clock:
            return "a clock is read as whole numbers of a unit, decimal seconds or ISO 8601: name another column"
        # 64 bits in JSON, as protobuf writes them
        numeric = options.kind == "json" and all(str(value).isdecimal() for value in self.examples)
        numbers = self.field.type is Type.INT and (not all_of_them or numeric)
        query = f", and to_llong({self.field.name}) is its number in a query" if numbers else ""
        return self._declared(Type.STRING, "string", clock) + query

    def _declared(self, kind: Type, access: str, clock: bool) -> str:
        word = "llong" if access in _ACCESS.values() else _word(kind)
        function = f"get_csv_{access}" + (f"_pos{self.field.position}" if self.field.position is not None else "")
        attributes = ", before what it has in ( )" if clock or self.field.form else ""
        if kind is not Type.INT and access not in _ACCESS.values() and self.field.form:
            attributes = ", without its unit"
        return f"write `{word} {self.field.name} {function}` in the PROTOCOL{attributes}"


def _first(examples: pa.Array | Sequence[Any]) -> Any:
    """Returns the first value; of texts the bytes, which may be no UTF-8 in parquet."""
    if not isinstance(examples, pa.Array):
        return examples[0]
    first = examples[:1]
    first = first.dictionary_decode() if pa.types.is_dictionary(first.type) else first
    texts = pa.types.is_string(first.type) or pa.types.is_large_string(first.type)
    return (first.cast(pa.large_binary()) if texts else first)[0].as_py()


def _kind_of(examples: pa.Array | Sequence[Any], kind: str) -> sniffing.Kind:
    """Returns the type by which values of a file of a kind could be read."""
    if not isinstance(examples, pa.Array):
        found = sniffing.kind_of_json(list(examples))
    elif kind == "parquet":
        found = sniffing.kind_of_values(examples)
    else:
        found = sniffing.kind_of_refused(examples.cast(pa.string()))
    return found or sniffing.Kind(Type.STRING)


def _word(kind: Type) -> str:
    return "IP" if kind is Type.IP else "llong" if kind is Type.INT else str(kind)
