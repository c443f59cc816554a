"""What an address of the results pages asks for: rows of a query, their order, a plot; and the address of a change.

Between the routes of `pages` and `lowwater.lake.results.exploring`. An address is permanent: it names the version of
the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

import pyarrow as pa

from lowwater.errors import LakeError
from lowwater.instants import HOUR, format_instant
from lowwater.lake.results.exploring import OPERATORS, Filter, ResultTable, RowQuery, instant_of
from lowwater.plan.properties import Measure, measures, unique_key
from lowwater.plan.queryset import QueryPlan

ROWS_SHOWN = 50
NEWEST = 24 * HOUR
"""Length of the range that is shown first, up to the newest row, ns."""
MOST_FILTERS = 8


@dataclass(frozen=True)
class Asked:
    """What an address asks for.

    Attributes:
        version: version of the table.
        wish: the rows.
        page: number of the page, from 1.
        number: column that the plot sums; empty to count rows.
        key: column whose values are the series of the plot; empty for one series.
    """

    version: int
    wish: RowQuery
    page: int
    number: str
    key: str

    def address(self, **changed: object) -> str:
        """Returns the query part of the address, with changed attributes; a change but of the page begins at page 1."""
        wished = {name: value for name, value in changed.items() if name in RowQuery.__dataclass_fields__}
        rest = {name: value for name, value in changed.items() if name not in wished}
        asked = replace(self, wish=replace(self.wish, **wished), **({"page": 1} | rest))  # type: ignore[arg-type]
        pairs: list[tuple[str, object]] = [
            ("version", asked.version),
            ("from", format_instant(asked.wish.start)),
            ("to", format_instant(asked.wish.end)),
        ]
        for each in asked.wish.filters:
            pairs += [("column", each.column), ("op", each.operator), ("value", each.value)]
        pairs += [("sort", asked.wish.sort), ("desc", int(asked.wish.descending))]
        pairs += [("number", asked.number), ("key", asked.key), ("page", asked.page)]
        return urlencode(pairs)


def parse_asked(
    table: ResultTable, query: QueryPlan, given: Mapping[str, str], many: Mapping[str, Sequence[str]]
) -> Asked:
    """Reads the query part of an address; what it leaves out is proposed from the schema.

    Args:
        table: the table at the version that the address names.
        query: plan of the query.
        given: the last value of each parameter.
        many: all values of the parameters `column`, `op` and `value`.

    Raises:
        LakeError: a value is wrong.
    """
    first, last = table.span or (0, HOUR - 1)
    end = instant_of(given["to"], "to") if given.get("to") else -(-(last + 1) // HOUR) * HOUR
    start = instant_of(given["from"], "from") if given.get("from") else max(first // HOUR * HOUR, end - NEWEST)
    if start >= end:
        raise LakeError("the range ends before it begins", "give a `to` after `from`")
    columns, operators, values = (list(many.get(name, ())) for name in ("column", "op", "value"))
    if not len(columns) == len(operators) == len(values) or len(columns) > MOST_FILTERS:
        raise LakeError(
            "column, op and value are not as many", f"give each filter all three, and at most {MOST_FILTERS}"
        )
    triples = zip(columns, operators, values, strict=True)
    filters = tuple(Filter(*triple) for triple in triples if triple[0] and triple[1] in OPERATORS)
    page = given.get("page") or "1"
    if not page.isdecimal() or len(page) > 6 or int(page) == 0:
        raise LakeError(f"page {page[:20]!r} is no number of a page", "give 1 or more")
    number, key = proposed(table, query)
    wish = RowQuery(start, end, tuple(dict.fromkeys(filters)), given.get("sort", ""), given.get("desc") == "1")
    return Asked(table.version, wish, int(page), given.get("number", number), given.get("key", key))


def proposed(table: ResultTable, query: QueryPlan) -> tuple[str, str]:
    """Proposes a plot: the number to sum, and the key whose values become series; each may be empty.

    The number is the first count or sum, else another aggregate, else a computed one. The sum of a column that a packet
    has, such as a port or an identifier, says nothing: then the rows are counted.
    """
    temporal = {field.name for field in query.logical.fields if field.temporal}
    keys = unique_key(query.logical) or ()
    names = [name for name in table.columns.names if name not in temporal]
    numbers = [name for name in names if name not in keys and _is_number(table.columns.field(name).type)]
    texts = [name for name in keys if name in names] or [
        name for name in names if pa.types.is_string(table.columns.field(name).type)
    ]
    ranks = measures(query.logical)
    numbers = sorted((name for name in numbers if ranks[name] < Measure.FIELD), key=ranks.__getitem__)
    return (numbers[0] if numbers else ""), (texts[0] if texts else "")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def numbers_of(table: ResultTable) -> list[str]:
    """Lists the columns that can be summed."""
    return [field.name for field in table.columns if _is_number(field.type)]
