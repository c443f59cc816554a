"""The plot of published rows in each form: over time, the largest values, two columns, day and hour.

Between `pages`, whose routes ask for one, and the drawings: what is computed behind a page, what its template shows.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lowwater.instants import HOUR, format_instant
from lowwater.lake.ledgers.coverage import any_covers
from lowwater.lake.ledgers.runs import PUBLISH
from lowwater.lake.results.exploring import DAY_AND_HOUR, Curves, Filter, Grid, ResultTable, curves, grid
from lowwater.lake.words import FAILED
from lowwater.plan.properties import Combine, Quantity, quantities
from lowwater.plan.queryset import QueryPlan
from lowwater.plan.readings import cells_of
from lowwater.plan.temporal import granularity
from lowwater.replay.job import Job

from ..cells import named_text
from ..ledgers import Snapshot
from .asked import BARS, HOURS, MATRIX, TIME, Asked
from .curve_drawing import CurvePlot, draw_curves
from .grid_drawing import GridBar, GridPlot, day_name, day_of, draw_bars, draw_grid


@dataclass(frozen=True)
class Chosen:
    """The query of an address, with the snapshot that the user may see."""

    snapshot: Snapshot
    job: Job
    query: QueryPlan


def epoch_of(query: QueryPlan) -> int:
    """Returns the length of the epochs of a query, ns: a shorter part of a plot would be without rows at times."""
    clocks = [field.temporal for field in query.logical.fields if field.temporal and not field.temporal.origin]
    return max([1, *(granularity([clock]) for clock in clocks)])


COMBINED = {
    Combine.SUM: "added up",
    Combine.LARGEST: "the largest value",
    Combine.SMALLEST: "the smallest value",
    Combine.MEAN: "the mean, weighted by {}",
    Combine.ALONE: "the value of the only row: several of them cannot be combined",
}
"""What a plot says of parts of time with several rows."""


def _quantity(query: QueryPlan, number: str) -> Quantity:
    return quantities(query.logical).get(number, Quantity()) if number else Quantity()


def compute(table: ResultTable, chosen: Chosen, asked: Asked) -> Curves | Grid:
    """Computes the plot of an address; it may read much.
    Raises LakeError if a condition or a column is wrong, or the table cannot be read."""
    how = _quantity(chosen.query, asked.number)
    combined = partial(_of, table, asked, how)
    if asked.form == BARS:
        return combined(asked.key)
    if asked.form == MATRIX:
        return combined(asked.key, asked.across)
    if asked.form == HOURS:
        return combined("", DAY_AND_HOUR)
    grain = epoch_of(chosen.query)
    found = curves(table, asked.row_query, asked.number, asked.key, grain=grain, combine=how.combine, weight=how.weight)
    return replace(found, absent={**found.absent, **_absent(chosen, found)})


def _of(table: ResultTable, asked: Asked, how: Quantity, key: str, across: str = "") -> Grid:
    return grid(table, asked.row_query, asked.number, key, across, combine=how.combine, weight=how.weight)


@dataclass(frozen=True)
class Picture:
    """A plot for a template; of its drawings there is that of its form."""

    asked: Asked
    combined: str  # what became of several rows, in words
    curves: Curves | None = None
    lines: CurvePlot | None = None
    bars: tuple[GridBar, ...] = ()
    fields: GridPlot | None = None
    hidden: tuple[int, int] = (0, 0)  # of how many values of the columns there was no room

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not (self.lines or self.bars or (self.fields and self.fields.fields))


def picture(chosen: Chosen, asked: Asked, found: Curves | Grid) -> Picture:
    """Draws what `compute` has found; each part leads to its rows, those that make most of it first."""
    how, cells, end = _quantity(chosen.query, asked.number), cells_of(chosen.query.logical), asked.row_query.end
    number = partial(cells, asked.number)
    made = Picture(asked, COMBINED[how.combine].format(how.weight))
    own = asked.row_query.sort
    leads = partial(asked.address, sort=own or asked.number, descending=asked.row_query.descending if own else True)
    if isinstance(found, Curves):
        lines = draw_curves(
            found,
            lambda start, until: leads(start=start, end=min(until, end)),
            number,
            partial(cells, asked.key),
        )
        return replace(made, curves=found, lines=lines)
    made = replace(made, hidden=found.hidden)
    if asked.form == HOURS:

        def hour(at: int, column: int) -> str:
            begin = day_of(found.rows[at]) + int(found.columns[column]) * HOUR
            return leads(start=begin, end=begin + HOUR, form=TIME)

        return replace(made, fields=draw_grid(found, number, day_name, lambda name: f"{int(name):02}", hour))
    row, column = (partial(named_text, partial(cells, name)) for name in (asked.key, asked.across))

    def rows(at: int, beyond: int) -> str:
        wanted = [(asked.key, found.rows[at])] * bool(asked.key)
        wanted += [(asked.across, found.columns[beyond])] * (asked.form == MATRIX)
        more = tuple(_equal(*each) for each in wanted)
        return leads(filters=tuple(dict.fromkeys((*asked.row_query.filters, *more))), form=TIME)

    if asked.form == MATRIX:
        return replace(made, fields=draw_grid(found, number, row, column, rows))
    return replace(made, bars=draw_bars(found, number, row, rows))


def _equal(column: str, value: str) -> Filter:
    return Filter(column, "is null", "") if value == "NULL" else Filter(column, "=", value)


def _absent(chosen: Chosen, summed: Curves) -> dict[int, str]:
    """Returns the parts of time without rows in which no interval is published, or that no link covers: their number
    and why. There is no row, but not none to find."""
    published = sorted(
        {
            (record.interval_start, record.interval_end)
            for record in chosen.snapshot.records
            if (record.query_set, record.query) == (chosen.job.query_set, chosen.query.name)
            and record.stage == PUBLISH
            and record.state != FAILED
        }
    )
    begins, absent = [start for start, _ in published], {}
    for at in range(max((len(curve.values) for curve in summed.curves), default=0)):
        begin = summed.start + at * summed.step
        end = begin + summed.step
        if any(curve.values[at] is not None for curve in summed.curves):
            continue
        last = bisect_left(begins, end) - 1
        if last < 0 or published[last][1] <= begin:
            absent[at] = "not published"
        elif not any_covers(chosen.snapshot.captures, chosen.snapshot.config, chosen.query.links, begin, end):
            absent[at] = "not covered"
    return absent


def vega(chosen: Chosen, table: ResultTable, asked: Asked) -> dict[str, Any]:
    """Returns the plot as a Vega-Lite specification with its data."""
    found = compute(table, chosen, asked)
    title = f"{chosen.query.name}: {asked.number or 'rows'}{f' by {asked.key}' if asked.key else ''}"
    spec: dict[str, Any] = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "title": title}
    if isinstance(found, Grid):
        return spec | _vega_of(asked, found)
    rows = [
        {"time": format_instant(found.start + at * found.step), "value": value, "series": curve.name}
        for curve in found.curves
        for at, value in enumerate(curve.values)
        if value is not None
    ]
    return spec | {
        "data": {"values": rows},
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "time", "type": "temporal", "scale": {"type": "utc"}},
            "y": {"field": "value", "type": "quantitative", "title": asked.number or "rows"},
            "color": {"field": "series", "type": "nominal", "title": asked.key or ""},
        },
    }


def _vega_of(asked: Asked, found: Grid) -> dict[str, Any]:
    row, column = ("day", "hour") if asked.form == HOURS else (asked.key, asked.across)
    names = [day_name(name) for name in found.rows] if asked.form == HOURS else found.rows
    data = [
        {"row": names[at], "column": found.columns[beyond], "value": value}
        for (at, beyond), value in sorted(found.values.items())
        if value is not None
    ]
    value = {"field": "value", "type": "quantitative", "title": asked.number or "rows"}
    rows = {"field": "row", "type": "nominal", "sort": None, "title": row}
    columns = {"field": "column", "type": "nominal", "sort": None, "title": column}
    drawn = {"y": rows, "x": value} if asked.form == BARS else {"y": rows, "x": columns, "color": value}
    return {"data": {"values": data}, "mark": "bar" if asked.form == BARS else "rect", "encoding": drawn}
