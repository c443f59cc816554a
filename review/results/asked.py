"""What an address of the results pages asks for: rows of a query, their order, a plot; the address of a change; and
plots that are saved beside a query set.

Between the routes of `pages` and `lowwater.lake.results.exploring`. An address is permanent: it names the version of
the table.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlencode

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lowwater.errors import LakeError
from lowwater.instants import DAY, HOUR, format_instant
from lowwater.lake.results.exploring import OPERATORS, Filter, ResultTable, RowQuery, instant_of, is_number
from lowwater.plan.properties import Measure, quantities, unique_key
from lowwater.plan.queryset import QueryPlan
from lowwater.replay.job import Job

ROWS_SHOWN = 50
NEWEST = DAY
"""Length of the range that is shown first, up to the newest row, ns."""
MOST_FILTERS = 8
TIME, BARS, MATRIX, HOURS = "time", "bars", "matrix", "hours"
FORMS = {
    TIME: "over time",
    BARS: "largest values",
    MATRIX: "two columns",
    HOURS: "day and hour",
}
"""Forms of a plot, with what the pages call them."""


@dataclass(frozen=True)
class Asked:
    """What an address asks for."""

    version: int  # version of the table
    row_query: RowQuery  # the rows
    page: int  # number of the page, from 1
    number: str  # column of the plot; empty to count rows
    key: str  # column whose values are the series of the plot; empty for one series
    form: str = TIME  # what the plot is, of FORMS
    across: str = ""  # second column of a matrix

    def kept_as(self, table: ResultTable, what: Hashable) -> Hashable:
        """Names an answer about these rows of a table, for those that keep it: `what` is asked of them."""
        return str(table.path), table.identity, table.version, self.row_query, what

    @property
    def plot(self) -> tuple[str, ...]:
        """What the plot shows of the rows."""
        return self.form, self.number, self.key, self.across if self.form == MATRIX else ""

    def address(self, **changed: object) -> str:
        """Returns the query part of the address, with changed attributes; a change but of the page begins at page 1."""
        wished = {name: value for name, value in changed.items() if name in RowQuery.__dataclass_fields__}
        rest = {name: value for name, value in changed.items() if name not in wished}
        asked = replace(self, row_query=replace(self.row_query, **wished), **({"page": 1} | rest))  # type: ignore[arg-type]
        pairs: list[tuple[str, object]] = [
            ("version", asked.version),
            ("from", format_instant(asked.row_query.start)),
            ("to", format_instant(asked.row_query.end)),
        ]
        for each in asked.row_query.filters:
            pairs += [("column", each.column), ("op", each.operator), ("value", each.value)]
        pairs += [("search", asked.row_query.search)]
        pairs += [("sort", asked.row_query.sort), ("desc", int(asked.row_query.descending))]
        pairs += [("number", asked.number), ("key", asked.key), ("page", asked.page)]
        pairs += _form_pairs(asked.form, asked.across)
        return urlencode(pairs)


def _form_pairs(form: str, across: str) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [("form", form)] * (form != TIME)
    return pairs + [("across", across)] * (form == MATRIX)


def parse_asked(
    table: ResultTable, query: QueryPlan, given: Mapping[str, str], many: Mapping[str, Sequence[str]]
) -> Asked:
    """Reads the query part of an address; what it leaves out is proposed from the schema.
    Raises LakeError if a value is wrong.

    Args:
        table: the table at the version that the address names.
        given: the last value of each parameter.
        many: all values of the parameters `column`, `op` and `value`.
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
    triples = list(zip(columns, operators, values, strict=True))
    if lost := next((value for column, _, value in triples if value.strip() and not column), ""):
        raise LakeError(f"the filter {lost[:60]!r} has no column", "choose one, or write it into Search")
    if odd := next((operator for column, operator, _ in triples if column and operator not in OPERATORS), ""):
        raise LakeError(f"there is no comparison {odd[:20]!r}", f"there are: {', '.join(OPERATORS)}")
    filters = tuple(Filter(*triple) for triple in triples if triple[0])
    page = given.get("page") or "1"
    if not page.isdecimal() or len(page) > 6 or int(page) == 0:
        raise LakeError(f"page {page[:20]!r} is no number of a page", "give 1 or more")
    number, key = proposed(table, query)
    order = given.get("sort", ""), given.get("desc") == "1"
    search = " ".join(given.get("search", "").split())
    row_query = RowQuery(start, end, tuple(dict.fromkeys(filters)), *order, search)
    form = given.get("form") or TIME
    if form not in FORMS:
        raise LakeError(f"there is no plot {form[:20]!r}", f"there are: {', '.join(FORMS)}")
    number, key = given.get("number", number), given.get("key", key)
    if form in (BARS, MATRIX) and not key:
        raise LakeError(f"a plot of {FORMS[form]} needs a column", "choose one beside `by`")
    across = given.get("across") or next((name for name in _keys(table, query) if name != key), "")
    if form == MATRIX and not across:
        raise LakeError(f"a plot of {FORMS[MATRIX]} needs a second column", "choose one beside `and`")
    plot = number, key, form, across if form == MATRIX else ""
    return Asked(table.version, row_query, int(page), *plot)


def proposed(table: ResultTable, query: QueryPlan) -> tuple[str, str]:
    """Proposes a plot: the number, and the key whose values become series; each may be empty.

    The number is the first count or sum, else another aggregate, else a computed one. The sum of a column that a packet
    has, such as a port or an identifier, says nothing: then the rows are counted.
    """
    temporal = {field.name for field in query.logical.fields if field.temporal}
    keys, own = unique_key(query.logical) or (), _keys(table, query)
    names = [name for name in table.columns.names if name not in temporal]
    numbers = [name for name in names if name not in keys and is_number(table.columns.field(name).type)]
    ranks = {name: each.measure for name, each in quantities(query.logical).items()}
    numbers = sorted((name for name in numbers if ranks[name] < Measure.FIELD), key=ranks.__getitem__)
    return (numbers[0] if numbers else ""), (own[0] if own else "")


def _keys(table: ResultTable, query: QueryPlan) -> list[str]:
    """The columns by which rows are grouped, else those with texts; none of time."""
    temporal = {field.name for field in query.logical.fields if field.temporal}
    names = [name for name in table.columns.names if name not in temporal]
    return [name for name in unique_key(query.logical) or () if name in names] or [
        name for name in names if pa.types.is_string(table.columns.field(name).type)
    ]


def numbers_of(table: ResultTable) -> list[str]:
    """Lists the columns that can be plotted."""
    return [field.name for field in table.columns if is_number(field.type)]


# Plots that are saved beside a query set, as JSON: `<query set>.plots.json` in the folder of its first query file. The
# pages show them, and give out the file with one more plot. They do not write it (docs/adr/0107).

MOST_BYTES = 1 << 20
"""Longest file that is read."""
LONGEST_TITLE = 80


class SavedPlot(BaseModel):
    """A plot without a range and a version: it shows the newest rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE)]  # its name on the pages
    query: str  # the published query
    number: str = ""  # column of the plot; empty to count rows
    key: str = ""  # column whose values are the series; empty for one series
    # (column, comparison, value) of the rows
    filters: Annotated[tuple[tuple[str, str, str], ...], Field(max_length=MOST_FILTERS)] = ()
    search: str = ""  # words of the rows
    form: Literal["time", "bars", "matrix", "hours"] = "time"  # what the plot is, of FORMS
    across: str = ""  # second column of a matrix

    @property
    def given(self) -> dict[str, str]:
        """The parameters of its address that stand once."""
        form = {} if self.form == TIME else {"form": self.form}
        rest = {"across": self.across, "search": self.search}
        return {"number": self.number, "key": self.key} | form | {name: value for name, value in rest.items() if value}

    @property
    def filters_given(self) -> dict[str, list[str]]:
        """The parameters of its address that stand once for each filter."""
        names = "column", "op", "value"
        return {name: [triple[at] for triple in self.filters] for at, name in enumerate(names)}

    @property
    def address(self) -> str:
        """The query part of its address."""
        return urlencode(self.given | self.filters_given, doseq=True)


_PLOTS = TypeAdapter(tuple[SavedPlot, ...])


def plots_file(job: Job) -> Path | None:
    """The file with the plots of a query set; None for a set without query files."""
    return job.files[0].parent / f"{job.query_set}.plots.json" if job.files else None


def read_plots(job: Job) -> tuple[SavedPlot, ...]:
    """Reads the plots of a query set; none where there is no file.
    Raises LakeError if the file cannot be read, or is not a list of plots."""
    file = plots_file(job)
    if file is None or not file.is_file():
        return ()
    try:
        with file.open("rb") as source:
            text = source.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise LakeError(f"{file}: plots are not read: the file has more than {MOST_BYTES:,} bytes")
        plots = _PLOTS.validate_json(text)
    except OSError as error:
        raise LakeError(f"{file}: plots cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        raise LakeError(f"{file}: plots cannot be read: {_first(error)}") from error
    for plot in plots:
        for _, operator, _ in plot.filters:
            if operator not in OPERATORS:
                raise LakeError(
                    f"{file}: plots cannot be read: {plot.title!r} compares by {operator!r}",
                    f"use one of {', '.join(OPERATORS)}",
                )
    return plots


def saved_plots(job: Job) -> tuple[tuple[SavedPlot, ...], str]:
    """Returns the saved plots of a query set, and what is wrong with their file; empty for nothing."""
    try:
        return read_plots(job), ""
    except LakeError as error:
        return (), str(error)


def as_plot(title: str, query: str, asked: Asked) -> SavedPlot:
    """The plot of an address. Raises LakeError if the title is empty or too long."""
    filters = tuple((each.column, each.operator, each.value) for each in asked.row_query.filters)
    try:
        plot = SavedPlot(title=title.strip(), query=query, number=asked.number, key=asked.key, filters=filters)
        more = {"search": asked.row_query.search, "form": asked.form, "across": asked.across}
        return plot.model_copy(update=more)
    except ValidationError as error:
        raise LakeError(f"the plot has no title of 1 to {LONGEST_TITLE} characters", "give `title`") from error


def with_plot(plots: Sequence[SavedPlot], plot: SavedPlot) -> str:
    """The text of a file with one more plot, in place of one with its title and query."""
    others = [each for each in plots if (each.title, each.query) != (plot.title, plot.query)]
    entries = [each.model_dump(exclude_defaults=True) for each in (*others, plot)]
    # No browser takes the file for a page, whatever a title says.
    return json.dumps(entries, indent=2, ensure_ascii=False).replace("<", "\\u003c") + "\n"


def proposed_plots(table: ResultTable, query: QueryPlan) -> list[SavedPlot]:
    """The plots of a query of which none is saved: its number over time, and by the key with the largest values."""
    number, key = proposed(table, query)
    what = number or "rows"
    found = [
        SavedPlot(title=f"{query.name}: {what}{f' by {key}' if key else ''}", query=query.name, number=number, key=key)
    ]
    other = next((name for name in _keys(table, query) if name != key), key)
    if other:
        title = f"{query.name}: {what} of the largest {other}"
        found.append(SavedPlot(title=title, query=query.name, number=number, key=other, form="bars"))
    return found


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, found["loc"]))
    return f"{place}: {found['msg']}" if place else str(found["msg"])
