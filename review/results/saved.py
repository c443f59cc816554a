"""Plots that are saved beside a query set, as JSON: `<query set>.plots.json` in the folder of its first query file.

The pages show them, and give out the file with one more plot. They do not write it (docs/adr/0107).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lowwater.errors import LakeError
from lowwater.lake.results.exploring import OPERATORS
from lowwater.replay.job import Job

from .asked import MOST_FILTERS, Asked

MOST_BYTES = 1 << 20
"""Longest file that is read."""
LONGEST_TITLE = 80


class SavedPlot(BaseModel):
    """A plot without a range and a version: it shows the newest rows.

    Attributes:
        title: its name on the pages.
        query: the published query.
        number: column that the plot sums; empty to count rows.
        key: column whose values are the series; empty for one series.
        filters: (column, comparison, value) of the rows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE)]
    query: str
    number: str = ""
    key: str = ""
    filters: Annotated[tuple[tuple[str, str, str], ...], Field(max_length=MOST_FILTERS)] = ()

    @property
    def address(self) -> str:
        """The query part of its address."""
        pairs = [("number", self.number), ("key", self.key)]
        for triple in self.filters:
            pairs += zip(("column", "op", "value"), triple, strict=True)
        return urlencode(pairs)


_PLOTS = TypeAdapter(tuple[SavedPlot, ...])


def plots_file(job: Job) -> Path | None:
    """The file with the plots of a query set; None for a set without query files."""
    return job.files[0].parent / f"{job.query_set}.plots.json" if job.files else None


def read_plots(job: Job) -> tuple[SavedPlot, ...]:
    """Reads the plots of a query set; none where there is no file.

    Raises:
        LakeError: the file cannot be read, or is not a list of plots.
    """
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


def as_plot(title: str, query: str, asked: Asked) -> SavedPlot:
    """The plot of an address.

    Raises:
        LakeError: the title is empty or too long.
    """
    filters = tuple((each.column, each.operator, each.value) for each in asked.wish.filters)
    try:
        return SavedPlot(title=title.strip(), query=query, number=asked.number, key=asked.key, filters=filters)
    except ValidationError as error:
        raise LakeError(f"the plot has no title of 1 to {LONGEST_TITLE} characters", "give `title`") from error


def with_plot(plots: Sequence[SavedPlot], plot: SavedPlot) -> str:
    """The text of a file with one more plot, in place of one with its title and query."""
    others = [each for each in plots if (each.title, each.query) != (plot.title, plot.query)]
    entries = [each.model_dump(exclude_defaults=True) for each in (*others, plot)]
    # No browser takes the file for a page, whatever a title says.
    return json.dumps(entries, indent=2, ensure_ascii=False).replace("<", "\\u003c") + "\n"


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, found["loc"]))
    return f"{place}: {found['msg']}" if place else str(found["msg"])
