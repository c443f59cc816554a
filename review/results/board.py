"""The plots of a query set on one page, over one range: those that are saved, and for a query without one the proposed.

Beside `pages`, which has the page of one query; each plot leads there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lowwater.errors import LowwaterError
from lowwater.instants import DAY, HOUR, format_instant
from lowwater.lake.open_tables import has_table
from lowwater.lake.results.exploring import SEARCHED, ResultTable, instant_of, result_table
from lowwater.replay.job import Job

from ..ledgers import Snapshot
from ..pages import fill_template
from .answers import Answer, Answers, BusyError, wait_for
from .asked import NEWEST, Asked, SavedPlot, parse_asked, plots_file, proposed_plots, saved_plots
from .pictures import Chosen, Picture, compute, picture

RANGES = {"1": "the newest day", "7": "the newest 7 days", "31": "the newest 31 days"}
"""Days of a search -> what the pages call them."""
MOST_TILES = 8
"""Most plots of a page: fewer than the answers that one person may wait for."""


@dataclass
class _Tile:
    """A plot of the page. Without a picture `wrong` says why, or its rows are still being read."""

    title: str
    query: str
    wrong: str = ""
    asked: Asked | None = None
    answer: Answer | None = None
    picture: Picture | None = None


def board(snapshot: Snapshot, job: Job, given: Mapping[str, str], answers: Answers, who: Hashable) -> str:
    """Renders the page of a query set.
    Raises LakeError if an instant is wrong, and BusyError where too many answers wait.

    Args:
        given: `from`, `to`, `search` and `days` of the address; empty for the newest day and all rows.
    """
    saved, problem = saved_plots(job)
    tables = [
        (Chosen(snapshot, job, query), result_table(snapshot.lake, query.name))
        for query in job.plan.queries
        if has_table(snapshot.lake.table(query.name))
    ]
    newest = max((table.span[1] + 1 for _, table in tables if table.span), default=HOUR)
    end = instant_of(given["to"], "to") if given["to"] else -(-newest // HOUR) * HOUR
    newest_days = int(given["days"]) * DAY if given["days"] in RANGES else NEWEST
    start = instant_of(given["from"], "from") if given["from"] else max(0, end - newest_days)
    span = {"from": format_instant(start), "to": format_instant(end)}
    wanted = [
        (chosen, table, plot)
        for chosen, table in tables
        for plot in [each for each in saved if each.query == table.query] or proposed_plots(table, chosen.query)
    ]
    tiles = [_tile(*each, span, given["search"], answers, who) for each in wanted[:MOST_TILES]]
    for tile, (chosen, table, _) in zip(tiles, wanted, strict=False):
        if tile.answer is None or tile.asked is None:
            continue
        wait_for(table.number_of_files(tile.asked.row_query), tile.answer)
        try:
            tile.picture = picture(chosen, tile.asked, tile.answer.value) if tile.answer.ready else None
        except LowwaterError as error:
            tile.wrong = str(error)
    values: dict[str, Any] = {
        "name": job.query_set,
        "tiles": tiles,
        "rest": list(dict.fromkeys(table.query for _, table, _ in wanted[MOST_TILES:])),
        "start": start,
        "end": end,
        "search": given["search"],
        "searched": SEARCHED,
        "error": problem,
        "plots_file": plots_file(job),
    }
    return fill_template(snapshot, "board.html", "Results", "../", values, True)


def _tile(
    chosen: Chosen,
    table: ResultTable,
    plot: SavedPlot,
    span: Mapping[str, str],
    search: str,
    answers: Answers,
    who: Hashable,
) -> _Tile:
    """Asks for a plot; one whose columns or conditions are wrong says so."""
    tile = _Tile(plot.title, table.query)
    try:
        asked = parse_asked(table, chosen.query, plot.given | dict(span), plot.filters_given)
        words = f"{asked.row_query.search} {search}".strip()
        tile.asked = replace(asked, row_query=replace(asked.row_query, search=words))
        key, files = tile.asked.kept_as(table, tile.asked.plot), table.number_of_files(tile.asked.row_query)
        tile.answer = answers.ask(key, files, partial(_computed, table, chosen, tile.asked), who=who)
    except BusyError:
        raise
    except LowwaterError as error:
        tile.wrong = str(error)
    return tile


def _computed(table: ResultTable, chosen: Chosen, asked: Asked, watch: Any) -> Any:
    return compute(replace(table, watch=watch), chosen, asked)
