"""Routes of the results: the rows of a published query as a table, a plot and files; and two versions compared.

`app` includes them, behind the login of the host. Everything is read on the server at one version of the table.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import IO, Any
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from lowwater.errors import LakeError, LowwaterError
from lowwater.instants import HOUR
from lowwater.lake.open_tables import has_table
from lowwater.lake.results.exploring import (
    DEEPEST,
    LAST,
    OPERATORS,
    SEARCHED,
    ResultTable,
    compare,
    instant_of,
    result_table,
)
from lowwater.lake.tables import safe_name
from lowwater.plan.properties import unique_key
from lowwater.plan.readings import Cell, Cells, cells_of
from lowwater.replay.row_files import spreadsheet_rows, with_texts

from ..cells import row_cells
from ..ledgers import Ledgers
from ..pages import fill_template
from .answers import OTHER_SITE, Answer, Answers, BusyError, asked_by_person, computed, person, wait_for
from .asked import (
    FORMS,
    LONGEST_TITLE,
    ROWS_SHOWN,
    Asked,
    as_plot,
    numbers_of,
    parse_asked,
    plots_file,
    read_plots,
    saved_plots,
    with_plot,
)
from .board import RANGES, board
from .pictures import Chosen, compute, picture, vega

MOST_DOWNLOADED = 1_000_000
"""Most rows of a download."""
METHODS = ["GET", "HEAD"]
Shown = Callable[[str, int], Response]
"""(HTML, status) -> response with the headers of the pages."""


def choose(ledgers: Ledgers, sees: Callable[[str], bool], set_name: str, query: str) -> Chosen | None:
    """Finds a query by the names of an address; None if there is none that the user may see."""
    snapshot = ledgers.now().only(sees)
    job = next((job for name, job in snapshot.jobs.items() if safe_name(name) == set_name), None)
    plan = next((plan for plan in job.plan.queries if safe_name(plan.name) == query), None) if job else None
    return Chosen(snapshot, job, plan) if job is not None and plan is not None else None


def answer_of(
    ledgers: Ledgers,
    sees: Callable[[str], bool],
    names: tuple[str, str],
    page: Shown,
    make: Callable[[Chosen], Response],
) -> Response:
    """Returns the answer to an address of a query, or a page that says what is wrong with the address.

    Args:
        sees: whether the user may see a query set.
        names: query set and query of the address.
        make: makes the answer for the query.
    """
    try:
        chosen = choose(ledgers, sees, *names)
        return page("There is no such page.", 404) if chosen is None else make(chosen)
    except BusyError as error:
        return page(str(error), 503)
    except LowwaterError as error:
        return page(str(error), 400)


def add_results(router: APIRouter, ledgers: Ledgers, permission: Any, page: Shown, headers: dict[str, str]) -> None:
    """Adds the routes of the results. `permission`: FastAPI dependency that returns the query sets that the user may
    see."""

    def answer(
        set_name: str,
        query: str,
        request: Request,
        sees: Any,
        make: Callable[[Chosen, ResultTable, Asked], Response],
        watch: Callable[[int], None] = lambda files: None,
    ) -> Response:
        if not asked_by_person(request):
            return page(OTHER_SITE, 403)

        def made(chosen: Chosen) -> Response:
            table = replace(result_table(chosen.snapshot.lake, chosen.query.name, _version(request)), watch=watch)
            many = {name: request.query_params.getlist(name) for name in ("column", "op", "value")}
            return make(chosen, table, parse_asked(table, chosen.query, dict(request.query_params), many))

        return answer_of(ledgers, sees, (set_name, query), page, made)

    answers = Answers()

    @router.api_route("/results/index.html", methods=METHODS)
    def index(sees: Any = permission) -> Response:
        try:
            snapshot = ledgers.now().only(sees)
        except LowwaterError as error:
            return page(str(error), 503)
        sets = []
        for name, job in sorted(snapshot.jobs.items()):
            queries = [(plan.name, has_table(snapshot.lake.table(plan.name))) for plan in job.plan.queries]
            sets.append((name, queries, *saved_plots(job)))
        values = {"sets": sets, "ranges": RANGES, "searched": SEARCHED}
        return page(fill_template(snapshot, "results_index.html", "Results", "../", values, True), 200)

    @router.api_route("/results/{set_name}", methods=METHODS)
    def plots_of_set(set_name: str, request: Request, sees: Any = permission) -> Response:
        if not asked_by_person(request):
            return page(OTHER_SITE, 403)
        try:
            snapshot = ledgers.now().only(sees)
            job = next((job for name, job in snapshot.jobs.items() if safe_name(name) == set_name), None)
            if job is None:
                return page("There is no such page.", 404)
            given = {name: request.query_params.get(name, "") for name in ("from", "to", "search", "days")}
            return page(board(snapshot, job, given, answers, person(request)), 200)
        except BusyError as error:
            return page(str(error), 503)
        except LowwaterError as error:
            return page(str(error), 400)

    @router.api_route("/results/{set_name}/{query}", methods=METHODS)
    def results(set_name: str, query: str, request: Request, sees: Any = permission) -> Response:
        def shown(chosen: Chosen, table: ResultTable, asked: Asked) -> Response:
            return page(*_page(chosen, table, asked, answers, person(request)))

        return answer(set_name, query, request, sees, shown)

    @router.api_route("/results/{set_name}/{query}/plot.json", methods=METHODS)
    async def plot(set_name: str, query: str, request: Request, sees: Any = permission) -> Any:
        def drawn(chosen: Chosen, table: ResultTable, asked: Asked) -> Response:
            return JSONResponse(vega(chosen, table, asked), headers=headers)

        return await computed(request, lambda watch: answer(set_name, query, request, sees, drawn, watch), page)

    @router.api_route("/results/{set_name}/{query}/plots.json", methods=METHODS)
    def plots(set_name: str, query: str, request: Request, sees: Any = permission) -> Response:
        def file(chosen: Chosen, table: ResultTable, asked: Asked) -> Response:
            added = as_plot(request.query_params.get("title", ""), chosen.query.name, asked)
            name = f"{safe_name(chosen.job.query_set)}.plots.json"
            more = headers | {"Content-Disposition": f'attachment; filename="{name}"'}
            return Response(with_plot(read_plots(chosen.job), added), media_type="application/json", headers=more)

        return answer(set_name, query, request, sees, file)

    @router.api_route("/results/{set_name}/{query}/rows.{form}", methods=METHODS)
    async def rows(set_name: str, query: str, form: str, request: Request, sees: Any = permission) -> Any:
        if form not in _FORMS:
            return page("There is no such file.", 404)
        made = partial(_download, form=form, page=page, headers=headers)
        return await computed(request, lambda watch: answer(set_name, query, request, sees, made, watch), page)


def _version(request: Request) -> int | None:
    text = request.query_params.get("version", "")
    if not text:
        return None
    return int(text) if text.isdecimal() and len(text) < 10 else -1


def _page(chosen: Chosen, table: ResultTable, asked: Asked, answers: Answers, who: Hashable) -> tuple[str, int]:
    offset = (asked.page - 1) * ROWS_SHOWN
    row_query, files = asked.row_query, table.number_of_files(asked.row_query)

    def ask(what: Hashable, make: Callable[[ResultTable], Any]) -> Answer:
        return answers.ask(asked.kept_as(table, what), files, lambda watch: make(replace(table, watch=watch)), who=who)

    first = ask(asked.page, lambda table: table.page(row_query, offset, ROWS_SHOWN))
    counted = ask("count", lambda table: table.count(row_query))
    plotted = ask(asked.plot, lambda table: compute(table, chosen, asked))
    wait_for(files, first, counted, plotted)
    wrong: LowwaterError | None = None
    try:
        ready = [answer.ready for answer in (first, counted, plotted)]
    except LowwaterError as error:  # the form stays, so that it can be mended
        wrong, ready = error, [False] * 3
    rows = [row for batch in first.value.to_batches() for row in with_texts(batch).to_pylist()] if ready[0] else []
    name, query = chosen.job.query_set, chosen.query.name
    cells = cells_of(chosen.query.logical)
    saved, problem = saved_plots(chosen.job)
    values = {
        "name": name,
        "query": query,
        "table": table,
        "asked": asked,
        "count": counted.value if ready[1] else None,
        "offset": offset,
        "rows": [_row(cells, table, row) for row in rows] if ready[0] else None,
        "shares": [] if wrong else [answer.share for answer in (first, counted, plotted) if not answer.done.is_set()],
        "shown": ROWS_SHOWN,
        "deepest": DEEPEST,
        "most": MOST_DOWNLOADED,
        "filters": [*asked.row_query.filters, None],
        "operators": OPERATORS,
        "searched": SEARCHED,
        "numbers": numbers_of(table),
        "forms": FORMS,
        "picture": picture(chosen, asked, plotted.value) if ready[2] else None,
        "versions": [version for version in range(table.newest, -1, -1) if version != table.version][:10],
        "base": f"../{safe_name(name)}/{safe_name(query)}",
        "saved": [each for each in saved if each.query == query],
        "plots_file": plots_file(chosen.job),
        "longest_title": LONGEST_TITLE,
        "error": problem,
        "wrong": wrong,
    }
    text = fill_template(chosen.snapshot, "results.html", "Results", "../../", values, True)
    return text, 400 if wrong else 200


def _row(cells: Cells, table: ResultTable, row: dict[str, Any]) -> tuple[list[Cell], str]:
    """Returns the cells of a row, and the query part of the address of its packets."""
    given = {name: row[name] for name in table.columns.names}
    named = {"row": json.dumps(given, default=str), "last": row[LAST], "version": table.version}
    return row_cells(cells, given), urlencode(named)


def _download(
    chosen: Chosen, table: ResultTable, asked: Asked, form: str, page: Shown, headers: dict[str, str]
) -> Response:
    count = table.count(asked.row_query)
    if count > MOST_DOWNLOADED:
        text = f"{count:,} rows are more than a download has, {MOST_DOWNLOADED:,}: filter them, or use `lowwater rows`."
        return page(text, 413)
    name = f"{safe_name(chosen.query.name)}-v{table.version}.{form}"
    more = headers | {"Content-Disposition": f'attachment; filename="{name}"'}

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.batches(asked.row_query):
            table.watch(0)
            yield batch.drop_columns([LAST])

    file = saved(form, table.columns, batches())
    return StreamingResponse(pieces(file), media_type=_FORMS[form][2], headers=more)


def saved(form: str, columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> IO[bytes]:
    """Writes rows into a temporary file: what is sent is whole, or it is an error."""
    open_writer, shown, _ = _FORMS[form]
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        with open_writer(file, shown(pa.RecordBatch.from_pylist([], columns)).schema) as writer:
            for batch in batches:
                writer.write_batch(shown(batch.cast(columns)))
        stack.pop_all()  # closed once it is sent
    return file


_FORMS: dict[str, tuple[Callable[..., Any], Callable[[pa.RecordBatch], pa.RecordBatch], str]] = {
    "csv": (pcsv.CSVWriter, spreadsheet_rows, "text/csv; charset=utf-8"),
    "parquet": (partial(pq.ParquetWriter, compression="zstd"), lambda rows: rows, "application/vnd.apache.parquet"),
}
"""Forms of downloads: what writes them, what becomes of their rows, their type."""


def pieces(file: Any) -> Iterator[bytes]:
    """Yields the content of a temporary file, and closes it."""
    with file:
        file.seek(0)
        while piece := file.read(1 << 20):
            yield piece


def as_page(plain: Callable[[str], str], headers: dict[str, str]) -> Shown:
    """Returns a function that makes responses: HTML as it is, other texts on a plain page."""
    policy = {name: value.replace("form-action 'none'", "form-action 'self'") for name, value in headers.items()}
    return lambda text, status: HTMLResponse(text if text.startswith("<!DOCTYPE") else plain(text), status, policy)


# The comparison of two versions of a published table: rows added, gone and changed. `lowwater diff` prints the same.

LONGEST_DIFF = 48 * HOUR
"""Longest range that a page compares, ns."""


def add_diff(router: APIRouter, ledgers: Ledgers, permission: Any, page: Shown, headers: dict[str, str]) -> None:
    """Adds the route of comparisons. `permission`: FastAPI dependency that returns the query sets that the user may
    see."""

    @router.api_route("/results/{set_name}/{query}/diff", methods=METHODS)
    async def diff(set_name: str, query: str, request: Request, sees: Any = permission) -> Any:
        given = dict(request.query_params)

        def made(watch: Callable[[int], None]) -> Response:
            shown = partial(_diff_page, given=given, watch=watch)
            return answer_of(ledgers, sees, (set_name, query), page, lambda chosen: page(shown(chosen), 200))

        return await computed(request, made, page)


def _diff_page(chosen: Chosen, given: dict[str, str], watch: Callable[[int], None]) -> str:
    lake, query = chosen.snapshot.lake, chosen.query
    versions = sorted(_number_of_version(given.get(name, ""), name) for name in ("before", "after"))
    before, after = (replace(result_table(lake, query.name, version), watch=watch) for version in versions)
    start, end = instant_of(given.get("from", ""), "from"), instant_of(given.get("to", ""), "to")
    if not start < end <= start + LONGEST_DIFF:
        raise LakeError("the range is empty, or longer than 48 h", "`lowwater diff` compares any range")
    values = {
        "name": chosen.job.query_set,
        "query": query.name,
        "before": before,
        "after": after,
        "start": start,
        "end": end,
        "diff": compare(before, after, unique_key(query.logical) or (), start, end),
    }
    return fill_template(chosen.snapshot, "diff.html", "Results", "../../../", values, True)


def _number_of_version(text: str, name: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise LakeError(f"{name}={text!r:.40} is no version", "give a number")
    return int(text)
