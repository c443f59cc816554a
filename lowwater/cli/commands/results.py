"""Commands over what is published: rows, tail, streams, diff, history, rollback; and sql, over captures too."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from lowwater.cli import options
from lowwater.instants import SECOND, format_moment
from lowwater.lake.sheets import COUNT, INSTANT, NUMBER, REASON, TEXT, Sheet, say_sheet
from lowwater.processes import until_stopped
from lowwater.terminal import open_console, say, shown, spreadsheet_cell, styled

if TYPE_CHECKING:
    import pyarrow as pa

    from lowwater.lake.results.subscription import Change
    from lowwater.plan.readings import Cells
    from lowwater.replay.registry import StreamInfo
    from lowwater.replay.versions import VersionChoice


SHOWN = 20
"""Default number of rows in a table."""
LIMIT = click.option(
    "--limit", type=click.IntRange(1), metavar="N", help=f"At most so many rows; default {SHOWN} in a table, else all."
)
NOTES = 5
"""Maximum number of notes on missing intervals; `lowwater status` has all."""


@click.command()
@click.argument("query")
@options.OF_LAKE
@click.option("--from", "start", type=options.INSTANT, help="First instant of the rows, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="End of the rows, ISO 8601, exclusive.")
@LIMIT
@options.form("table", "csv", "json", help="json: a line a row.")
@options.INSTANTS
@click.option(
    "--names",
    is_flag=True,
    help="With table: beside numbers what people read, such as 6 TCP, 443 HTTPS, 1536 1.54 kB.",
)
@options.SPREADSHEET
@options.QUERIES
def rows(
    query: str,
    lake: PurePath,
    start: int | None,
    end: int | None,
    limit: int | None,
    form: str,
    instants: bool,
    names: bool,
    spreadsheet: bool,
    queries: Path,
) -> None:
    """Shows the published rows of a query, in the order of time.

    \b
    The time of a row is the last instant it is about (S2), which decides the interval that it belongs to. Addresses are
    texts. Notes on standard error name the intervals of this time that are not published, or not done, as `status` has
    them.
    Example:
      lowwater rows flows --lake var/lake --from 2026-01-01T01:00Z --to 2026-01-01T02:00Z --format csv
    """
    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.results.published_rows import published_rows
    from lowwater.replay.row_files import spreadsheet_rows, with_texts
    from lowwater.replay.schedule.due import as_they_stand

    options.require_range(start, end)
    options.require_csv(spreadsheet, form)
    if names and form != "table":
        raise click.UsageError("--names goes with --format table: other programs read the numbers")
    published = published_rows(lake_to_read(lake), query, start, end, instants)
    if limit is None and form == "table":
        limit = SHOWN
    batches = map(with_texts, published.batches(limit))
    columns = *published.columns, *published.instants
    if spreadsheet:
        columns, batches = tuple(map(str, map(spreadsheet_cell, columns))), map(spreadsheet_rows, batches)
    if names:
        from lowwater.plan.readings import cells_of
        from lowwater.replay.evidence import owner_of

        _table(columns, batches, cells_of(owner_of(lake, queries, query)[1].logical))
    else:
        FORMATS[form](columns, batches)
    count = published.rows if limit is None else min(limit, published.rows)
    if count < published.rows:
        say(f"{count:,} of {published.rows:,} rows; --limit gives more", err=True)
    notes = as_they_stand(published, queries).notes  # behind the rows, which need not wait for it
    for note in notes[:NOTES]:
        say(f"note: {note}", err=True)
    if len(notes) > NOTES:
        say(f"note: {len(notes) - NOTES:,} more; lowwater status has all", err=True)


@click.command()
@click.argument("statement")
@options.CAPTURE_OF_LINK
@options.LAKE_INSTEAD
@click.option("--from", "start", type=options.INSTANT, help="First instant of packets and rows, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="Their end, ISO 8601, exclusive.")
@LIMIT
@options.form("table", "csv", "json", help="json: a line a row.")
@options.SPREADSHEET
def sql(
    statement: str,
    captures: tuple[str, ...],
    lake: PurePath | None,
    start: int | None,
    end: int | None,
    limit: int | None,
    form: str,
    spreadsheet: bool,
) -> None:
    """Answers one SELECT over capture files, or over a lake, by DuckDB. For a look; GSQL is for what is kept.

    \b
    Names are those of GSQL: main1 has the packets of a link, main1.TCP those of a protocol, TCP those of all links,
    with the columns that * gives there; further ones, such as dns_query, file or position, are there once the text
    names them. malformed and captures tell of the files. A lake has its tables (flows, tables.flows) and its ledgers
    (ledgers.quality) beside its links. SHOW TABLES lists the views, DESCRIBE main1.TCP the columns.
    A statement only reads. It reaches no file and no network. Notes on standard error say what is damaged.
    Examples:
      lowwater sql "SELECT srcIP, sum(len) AS bytes FROM main1 GROUP BY ALL ORDER BY bytes DESC" --capture x.pcap
      lowwater sql "SELECT count(*) FROM a.TCP ANTI JOIN b.TCP USING (srcIP)" --capture a=x.pcap --capture b=y.pcap
      lowwater sql "SELECT max(bytes) FROM flows" --lake var/lake --format json
    """
    from lowwater.cli.looks import open_source
    from lowwater.config import load_config
    from lowwater.replay.look import printable
    from lowwater.replay.row_files import spreadsheet_rows
    from lowwater.replay.sql import Statement
    from lowwater.replay.standing import standing_query

    options.require_range(start, end)
    options.require_csv(spreadsheet, form)
    source = open_source(captures, lake, start, end)
    replay = load_config(lake).replay if lake is not None else None
    bounds = (replay.bytes, replay.threads) if replay else (0, 0)
    if limit is None and form == "table":
        limit = SHOWN
    with Statement(source, statement, *bounds) as asked:
        columns, told = tuple(asked.schema.names), Cut(limit)
        batches = map(printable, told.rows(asked.batches()))
        if spreadsheet:
            columns, batches = tuple(map(str, map(spreadsheet_cell, columns))), map(spreadsheet_rows, batches)
        FORMATS[form](columns, batches)
        if told.is_cut:
            say(f"the first {limit:,} rows; --limit gives more", err=True)
        notes = asked.notes()
        for note in notes[:NOTES]:
            say(f"note: {note}", err=True)
        if len(notes) > NOTES:
            say(f"note: and {len(notes) - NOTES:,} notes more", err=True)
        if form == "table" and (kept := standing_query(statement, asked.schema, source.context())):
            say(f"a standing query of GSQL keeps these rows, interval by interval:\n{kept}", err=True)


class Cut:
    """Ends rows after `most`, None for all; `is_cut` says whether there were more."""

    def __init__(self, most: int | None) -> None:
        self.most, self.is_cut = most, False

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the first rows; reads no further than one behind them."""
        left = self.most
        for batch in batches:
            if left is None:
                yield batch
                continue
            if left:
                yield batch.slice(0, left)
            self.is_cut = batch.num_rows > left
            left -= min(left, batch.num_rows)
            if self.is_cut:
                return


def _table(columns: tuple[str, ...], batches: Iterator[pa.RecordBatch], cells: Cells | None = None) -> None:
    from rich.table import Table

    table = Table(box=None)
    for name in columns:
        table.add_column(styled(name))
    for batch in batches:
        for row in zip(*(_values(column) for column in batch.columns), strict=True):
            texts = ["NULL" if value is None else str(value) for value in row]
            if cells is not None:
                texts = [f"{cell.text} {cell.beside}".rstrip() for cell in map(cells, columns, row)]
            table.add_row(*map(styled, texts))
    open_console().print(table)


def _csv(columns: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    rows = chain.from_iterable(zip(*(_values(column) for column in batch.columns), strict=True) for batch in batches)
    for row in chain([columns], rows):
        writer.writerow([_safe(cell) if isinstance(cell, str) else cell for cell in row])


def _json(_: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        sys.stdout.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())


def _values(column: pa.Array) -> list[Any]:
    from lowwater.replay.row_files import csv_values

    return csv_values(column)


def _safe(text: str) -> str:
    """Returns a text without control sequences if the output is a terminal, else unchanged."""
    return shown(text) if sys.stdout.isatty() else text


FORMATS = {"table": _table, "csv": _csv, "json": _json}
"""Prints columns and batches of rows in a form."""


CONTROL = ("_kind", "_last", "_until", "_version")
"""Columns beside those of the query: row, punctuation or restated; two instants, ns since the epoch; table version."""


@click.command()
@click.argument("stream")
@options.OF_LAKE
@click.option(
    "--from", "start", type=options.INSTANT, help="First instant of the rows, ISO 8601; else the last interval."
)
@click.option("--follow", is_flag=True, help="Wait for more; ends with Ctrl-C or SIGTERM.")
@options.form("csv", "json", help="json: a line a row.")
@click.option(
    "--every", default="1s", type=options.DURATION, help="Time between two looks at the log.", show_default=True
)
@options.SPREADSHEET
def tail(
    stream: str, lake: PurePath, start: int | None, follow: bool, form: str, every: int, spreadsheet: bool
) -> None:
    """Prints the rows of a published stream, and what is promised after each interval.

    \b
    A line of kind `punctuation` follows the rows of an interval: no later row has a smaller value in its columns, and
    no `_last` below its own. A line of kind `restated` says that the rows of [_last, _until) are replaced by those that
    follow. Instants are ns since the epoch.
    Example:
      lowwater tail flows --lake var/lake --from 2026-01-01T00:00Z --follow --format json
    """
    from lowwater.lake.results.subscription import newest_begin, subscribe

    if every <= 0:
        raise click.BadParameter("--every must be above 0")
    options.require_csv(spreadsheet, form)
    begin = newest_begin(lake, stream) if start is None else start
    with subscribe(lake, stream, since=begin, wait=every / 1e9) as subscription, until_stopped(subscription.stop):
        write: Callable[[Change], None]
        columns, instants = subscription.columns, subscription.instants
        write = _Csv(columns, instants, spreadsheet) if form == "csv" else _Json(columns, instants)
        for change in iter(subscription) if follow else iter(subscription.poll, None):
            write(change)
            sys.stdout.flush()


def _promises(change: Change, instants: frozenset[str]) -> dict[str, int | str]:
    """The promises of a change by column, those of instants in ISO 8601."""
    return {name: format_moment(value) if name in instants else value for name, value in change.promise.items()}


class _Csv:
    """Writes changes as CSV, also such that no text is a formula of a spreadsheet."""

    def __init__(self, columns: tuple[str, ...], instants: frozenset[str], spreadsheet: bool) -> None:
        from lowwater.replay.row_files import spreadsheet_rows, with_texts

        self._instants, self._with_texts = instants, with_texts
        self._rows = spreadsheet_rows if spreadsheet else None
        self._columns, self._writer = columns, csv.writer(sys.stdout, lineterminator="\n")
        self._writer.writerow([*(map(spreadsheet_cell, columns) if spreadsheet else columns), *CONTROL])

    def __call__(self, change: Change) -> None:
        if change.late:
            self._control("restated", change, {}, change.start, change.end)
        # As the first line has them: the query may get more while it is followed.
        batches = (self._with_texts(batch.select([*self._columns, "_last"])) for batch in change.batches())
        for batch in map(self._rows, batches) if self._rows else batches:
            for values in zip(*(_values(column) for column in batch.columns), strict=True):
                cells = [_safe(value) if isinstance(value, str) else value for value in values[:-1]]
                self._writer.writerow([*cells, "row", values[-1], "", change.version])
        self._control("punctuation", change, _promises(change, self._instants), max(change.furthest, change.end), None)

    def _control(self, kind: str, change: Change, values: Any, last: int, until: int | None) -> None:
        cells = [values.get(name, "") for name in self._columns]
        self._writer.writerow([*cells, kind, last, "" if until is None else until, change.version])


class _Json:
    def __init__(self, columns: tuple[str, ...], instants: frozenset[str]) -> None:
        from lowwater.replay.row_files import with_texts

        self._columns, self._instants, self._with_texts = columns, instants, with_texts

    def __call__(self, change: Change) -> None:
        if change.late:
            self._line({"_kind": "restated", "_last": change.start, "_until": change.end, "_version": change.version})
        for row in (row for batch in change.batches() for row in self._with_texts(batch).to_pylist()):
            last = row.pop("_last")
            self._line({**row, "_kind": "row", "_last": last, "_version": change.version})
        promises = _promises(change, self._instants)
        values = {name: promises.get(name) for name in self._columns}
        last = max(change.furthest, change.end)
        self._line({**values, "_kind": "punctuation", "_last": last, "_version": change.version})

    def _line(self, values: dict[str, Any]) -> None:
        sys.stdout.writelines([json.dumps(values) + "\n"])


@click.command()
@options.OF_LAKE
@options.QUERIES
@click.option("--json", "as_json", is_flag=True, help="All that is known of them, as JSON; instants in ns.")
def streams(lake: PurePath, queries: Path, as_json: bool) -> None:
    """Lists the streams of a lake: columns, keys, temporal attributes, promises, producers, consumers, freshness.

    \b
    Temporal attributes have their promise after the last interval: no later row has a smaller value. `lag` is captured
    time that is not published yet. Consumers are queries that read the stream, and subscribers with a name.
    Example:
      lowwater streams --lake var/lake --json
    """
    from lowwater.config import load_config
    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.ledgers.files import unread_lines
    from lowwater.replay.registry import VERSION, streams_of

    infos = streams_of(lake, queries)
    if as_json:
        say(json.dumps({"version": VERSION, "streams": [info.document() for info in infos]}, indent=2))
        return
    if not infos:
        say(f"no stream: {lake} has no published table, and no query set in {queries} (--queries) reads its links")
    for info in infos:
        _show(info)
    for line in unread_lines(lake_to_read(lake), load_config(lake)):
        say(line, err=True)


def _show(info: StreamInfo) -> None:
    from rich.table import Table

    from lowwater.replay.registry import stream_facts

    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    for name, text in stream_facts(info).items():
        facts.add_row(styled(f"  {name}"), styled(text, fold=True))
    console = open_console()
    console.print(styled(info.name, "bold"))
    console.print(facts)


def _row(_: click.Context, __: click.Parameter, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not row or any(isinstance(value, list | dict) for value in row.values()):
        raise click.BadParameter(f"{text!r:.80} is no row: write columns and values as JSON, such as '{{\"tb\": 7}}'")
    return row


@click.command()
@click.argument("query")
@options.OF_LAKE
@click.option("--row", required=True, callback=_row, metavar="JSON", help="The row, or columns that only it has.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The archive, NAME.zip; another name is a folder."
)
@options.QUERIES
def evidence(query: str, lake: PurePath, row: dict[str, Any], out: Path, queries: Path) -> None:
    """Writes what a third person needs to check a published row: query, plan, packets, and a script that derives it.

    \b
    The packets are all that the row follows from, also through joins and other queries, a file for each link.
    `python3 check.py` in the archive derives the row from them: by tshark and DuckDB where SQL says what the plan says,
    else by the reference engine. Captures are named with their SHA-256, and the accounts of the interval are there. The
    same row gives the same bytes.
    Example:
      lowwater evidence flows --lake var/lake --row '{"tb": 29453760, "srcIP": "10.0.0.1"}' --out row.zip
    """
    import zipfile
    from tempfile import TemporaryFile

    from lowwater.replay import evidence as evidences

    if out.exists():
        raise click.BadParameter(f"--out {out}: is there already")
    found = evidences.gather(evidences.find_row(*evidences.owner_of(lake, queries, query), row))
    with TemporaryFile() as file:
        manifest = evidences.write(found, file)
        if out.suffix == ".zip":
            file.seek(0)
            out.parent.mkdir(parents=True, exist_ok=True)
            with out.open("wb") as archive:
                shutil.copyfileobj(file, archive)
        else:
            with zipfile.ZipFile(file) as archive:
                archive.extractall(out)
    count = found.packets.count
    how = "tshark and DuckDB" if found.sql else f"the reference engine, since {found.why}"
    say(f"{out}: {count:,} packet{'' if count == 1 else 's'}; check.py derives the row by {how}")
    say(f"manifest.json has the SHA-256 {manifest}")


MOST_DIFFERENCES = 20


@click.command()
@click.argument("query")
@options.OF_LAKE
@click.option("--from", "before", required=True, type=options.VERSION, help="The earlier version.")
@click.option("--with", "after", type=options.VERSION, help="The later one; default the newest.")
@click.option("--at", type=options.INSTANT, help="Only the interval that begins here, ISO 8601; default all rows.")
@click.option(
    "--limit", default=MOST_DIFFERENCES, type=click.IntRange(0), metavar="N", help="Rows to print.", show_default=True
)
@options.form("text", "json", help="How to print.")
@options.QUERIES
def diff(
    query: str,
    lake: PurePath,
    before: VersionChoice,
    after: VersionChoice | None,
    at: int | None,
    limit: int,
    form: str,
    queries: Path,
) -> int:
    """Shows the rows that were added, that are gone and that changed between two versions of a published table.

    \b
    Rows are the same row if the columns of the query's unique key are equal. A version is a commit of the table: each
    publication of an interval makes one; `lowwater history` lists them. VERSION is its number, an ISO 8601 instant at
    which it was the newest, or `previous`: the one before the newest publication, with --at of this interval. Exit code
    0 if the rows are the same, 3 if they differ.
    Example:
      lowwater diff flows --lake var/lake --at 2026-01-01T01:00Z --from previous
    """
    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.results.exploring import TableDiff, compare, result_table
    from lowwater.replay.versions import interval_of, key_of

    opened = lake_to_read(lake)
    span = interval_of(opened, query, at) if at is not None else None
    later = result_table(opened, query, after.find(opened, query, span) if after else None)
    earlier = result_table(opened, query, before.find(opened, query, span))
    start, end = span or (0, 1 << 62)
    compared: TableDiff = compare(earlier, later, key_of(lake, queries, query), start, end, limit)
    if form == "json":

        def named(row: tuple[object, ...] | None) -> dict[str, object] | None:
            return None if row is None else dict(zip(compared.columns, row, strict=True))

        examples = [{"what": kind, "before": named(old), "after": named(new)} for kind, old, new in compared.examples]
        counts = {name: getattr(compared, name) for name in ("same", "added", "gone", "changed")}
        versions = {"before": earlier.version, "after": later.version}
        say(json.dumps({**versions, "key": compared.key, **counts, "examples": examples}, default=str))
        return 0 if compared.equal else 3
    by = f"by {', '.join(compared.key)}" if compared.key else "whole rows, since the plan shows no unique key"
    say(f"{query}: version {earlier.version} to {later.version}, {by}")
    say(str(compared))
    for line in compared.lines():
        say(line)
    return 0 if compared.equal else 3


MOST_VERSIONS = 20
"""Versions that are listed."""


@click.command()
@click.argument("query")
@options.OF_LAKE
@click.option("--at", type=options.INSTANT, help="Only versions of the interval that begins here, ISO 8601.")
@click.option(
    "--limit", default=MOST_VERSIONS, type=click.IntRange(1), metavar="N", help="Versions to list.", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, instants in ns.")
def history(query: str, lake: PurePath, at: int | None, limit: int, as_json: bool) -> None:
    """Lists the versions of a published table, newest first: which interval, when, why, how many rows.

    \b
    A version is a commit that changed rows; `lowwater diff` compares two of them, `lowwater rollback` brings the rows
    of one back. Why: how the inputs differ from those of the version of this interval before.
    Example:
      lowwater history flows --lake var/lake --at 2026-01-01T01:00Z
    """
    from lowwater.lake.layout import lake_to_read
    from lowwater.replay.versions import interval_of, published_versions

    opened = lake_to_read(lake)
    span = interval_of(opened, query, at) if at is not None else None
    versions = published_versions(opened, query, span, limit)
    if as_json:
        say(json.dumps([asdict(version) for version in versions]))
        return
    columns = {"version": NUMBER, "interval": INSTANT, "made": INSTANT, "what": TEXT, "state": TEXT, "rows": COUNT}
    rows = (
        (each.version, each.start, each.at // SECOND * SECOND, each.what, each.state, each.rows, "; ".join(each.why))
        for each in versions
    )
    say_sheet(Sheet({**columns, "why": REASON}, [*rows]))
    if len(versions) == limit:
        say(f"the newest {limit}; --limit N lists more")


@click.command()
@click.argument("query")
@options.OF_LAKE
@click.option("--at", required=True, type=options.INSTANT, help="Begin of the interval, ISO 8601.")
@click.option("--to", "chosen", type=options.VERSION, help="Version whose rows come back.")
@click.option("--lift", is_flag=True, help="Lift a roll back: the interval is due again.")
@click.option("--because", "why", required=True, metavar="TEXT", help="Reason, for the ledger and the pages.")
@options.BY
@click.option("--dry-run", is_flag=True, help="Only count the rows that would change.")
@options.QUERIES
def rollback(
    query: str,
    lake: PurePath,
    at: int,
    chosen: VersionChoice | None,
    lift: bool,
    why: str,
    by: str | None,
    dry_run: bool,
    queries: Path,
) -> None:
    """Makes the rows of an earlier version of a published interval visible again.

    \b
    The act is a commit of its own, and a row of the ledger with who and why. Subscribers get the interval as restated.
    `lowwater status` and the pages show it as rolled back. It stands for the present inputs: the interval runs again
    only once its inputs change, or after --lift. `lowwater history` lists the versions, `lowwater diff` shows what they
    differ in. VERSION is a number, an ISO 8601 instant at which it was the newest, or `previous`.
    Example:
      lowwater rollback flows --lake var/lake --at 2026-01-01T01:00Z --to previous --because "the new skew lost packets"
    """
    from lowwater.replay.versions import RollbackTarget

    if lift == (chosen is not None):
        raise click.UsageError("give either --to VERSION or --lift")
    if not why.strip():
        raise click.UsageError("--because needs a reason")
    target = RollbackTarget.find(lake, queries, query, at)
    person = options.person(by)
    if chosen is None:
        if not dry_run:
            target.lift(person, why)
        say(f"{query}: {'would be' if dry_run else 'is'} due again: `lowwater backfill --lake {lake}` runs it")
        return
    version = chosen.find(target.job.lake, query, (target.start, target.end))
    found = target.compared(version)
    counts = f"{found.added:,} added, {found.gone:,} gone, {found.changed:,} changed, {found.same:,} the same"
    if dry_run:
        say(f"{query}: rolled back to version {version}, rows would be: {counts}")
        return
    rows = target.roll_back(version, person, why)
    say(f"{query}: rolled back to version {version}, {rows:,} rows: {counts}")
