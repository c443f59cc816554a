"""`lowwater ask`: the questions of the cookbook over captures or a lake, with a table and a plot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.table import Table

from lowwater import caches, errors, extras, terminal
from lowwater.catalog import expr as ex
from lowwater.cli.looks import named_captures
from lowwater.cli.queries import Definitions
from lowwater.cli.runs import RunOptions, request_of
from lowwater.config import Config, load_config
from lowwater.instants import SECOND, format_duration, format_instant
from lowwater.lake.layout import Lake, lake_to_read
from lowwater.lake.ledgers.captures import Captures, ingested_links, read_captures
from lowwater.lake.ledgers.coverage import gap_text, gaps, hole_line
from lowwater.link_names import family_of
from lowwater.plan import operators as ops
from lowwater.plan.properties import is_instant, published_schema
from lowwater.plan.queryset import QueryPlan, plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay import checks, row_files
from lowwater.replay.names import lake_links, set_context
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, rows_of, run, run_intervals, told_beside
from lowwater.replay.stages.runners import runner_of

# The questions: sections of the cookbook, whose queries a test runs.

MAIN, OTHER = "main1", "main2"
"""Links of the queries of the cookbook."""


_EPOCH = re.compile(r"\b(?:an? |(the ))?(?:minute|hour|five minutes)\b")
"""The length of an epoch in what a query says of itself."""


@dataclass(frozen=True)
class Recipe:
    """A query of the cookbook."""

    name: str  # its `query_name`
    title: str
    question: str
    text: str

    def every(self, length: int | None) -> str:
        """Returns the text with epochs of another length, ns; None leaves them.
        Raises click.BadParameter if the length is no number of seconds, or the query has no such epochs."""
        if length is None:
            return self.text
        if length < SECOND or length % SECOND:
            raise click.BadParameter(f"--every {format_duration(length)}: give whole seconds, such as 10s, 10m or 1d")
        seconds = length // SECOND
        text, count = re.subn(r"INTERVAL '[^']*'(?=[^()]*\) AS tb\b)", f"INTERVAL '{seconds} seconds'", self.text)
        if not count:
            raise click.BadParameter(f"--every: {self.name} has no epochs of one length", param_hint="--every")
        text = re.sub(r"\btb \+ 1 min\b", f"tb + {seconds} s", text)  # the epoch before
        length_of = partial(_EPOCH.sub, rf"\g<1>{format_duration(length)}")
        return re.sub(r"^-- .*$", lambda line: length_of(line[0]), text, flags=re.MULTILINE)

    @property
    def compares(self) -> bool:
        """Whether it is about two links, which may not be one; other joins look for answers on either."""
        return re.search(rf"{OTHER}(?!\.)", self.text) is not None

    def over(self, links: Sequence[str], text: str) -> str:
        """Returns the text over some links: of one link, or of all; of a query of two, over these.
        Raises click.UsageError if it compares two links, and others are given."""
        quoted = [name if name.isidentifier() else f'"{name}"' for name in links]
        if f"{OTHER}." not in text:
            own = f"{quoted[0]}." if len(links) == 1 else ""
            return re.sub(rf"\b{MAIN}\.", own, text)
        if len(links) > 2 or (self.compares and len(links) != 2):
            given = "--capture LINK=FILE" if len(links) < 2 else "--of LINK"
            two = "compares two links" if self.compares else "reads one link, or the two ways of one"
            raise click.UsageError(f"{self.name} {two}, and there are {len(links)}: give {given} twice")
        swapped = {MAIN: quoted[0], OTHER: quoted[-1]}
        return re.sub(rf"\b({MAIN}|{OTHER})\.", lambda found: f"{swapped[found[1]]}.", text)


_SECTION = re.compile(r"^## (.+)$", re.M)
_QUERY = re.compile(r"(?P<before>.*?)^```(?P<kind>\w+)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)


@cache
def recipes() -> tuple[Recipe, ...]:
    """Reads the queries of the cookbook, in its order: each after its question."""
    page = (extras.shared("docs") / "cookbook.md").read_text(encoding="utf-8")
    _, *sections = _SECTION.split(page)
    found = []
    for title, section in zip(sections[::2], sections[1::2], strict=True):
        question = ""
        for part in _QUERY.finditer(section):
            asked = re.search(r"[^.?`\n]*(?:\n[^.?`\n]+)*\?", part["before"])
            question = " ".join(asked[0].split()) if asked else question
            if part["kind"] == "gsql" and question:
                names = re.findall(r"query_name '(\w+)'", part["text"])
                found.append(Recipe(names[-1], title, question, part["text"]))
                question = ""
    return tuple(found)


def recipe(name: str) -> Recipe:
    """Returns the query of a name. Raises click.BadParameter if there is none."""
    found = {each.name: each for each in recipes()}
    if name not in found:
        raise click.BadParameter(f"there is no query {name!r}{errors.nearest(name, found)}", param_hint="QUESTION")
    return found[name]


def list_questions() -> None:
    """Prints the names and the questions."""
    table = Table("name", "question", box=None, pad_edge=False)
    for each in recipes():
        table.add_row(each.name, terminal.styled(each.question, fold=True))
    terminal.open_console().print(table)
    terminal.say("lowwater ask NAME --capture capture.pcap", err=True)


# Its answer.


@dataclass(frozen=True)
class Asked:
    """The options of `ask`."""

    captures: tuple[str, ...]
    lake: PurePath | None
    links: tuple[str, ...]  # of the lake; none for all
    start: int | None  # ns
    end: int | None
    every: int | None  # length of the epochs, ns
    limit: int
    form: str  # `table`, `csv` or `json`


@dataclass(frozen=True)
class Answer:
    """The rows of a question."""

    query: QueryPlan
    rows: pa.Table  # published form, in the order of all columns
    notes: tuple[str, ...]


def answer(question: Recipe, asked: Asked) -> None:
    """Prints the query, its rows and a plot of them, or the rows alone."""
    if bool(asked.captures) == (asked.lake is not None):
        raise click.UsageError("give --capture FILE or --lake LAKE: one of them")
    if asked.lake is None and (asked.links or asked.start is not None or asked.end is not None):
        raise click.UsageError("--of, --from and --to go with --lake")
    text = question.every(asked.every)
    if asked.lake is None:
        captures = named_captures(asked.captures)
        text = question.over([*dict.fromkeys(link for link, _ in captures)], text)
        found = _over_captures(question, text, captures)
    else:
        found = _over_lake(question, text, asked, lake_to_read(asked.lake))
    if asked.form != "table":
        _print_rows(found.rows, asked.form)
    else:
        console = terminal.open_console()
        console.print(terminal.styled(text.rstrip()), style="dim", soft_wrap=True)
        _print_table(found, asked.limit)
    for note in found.notes:
        terminal.say(note if note.startswith("note: ") else f"note: {note}", err=True)


def _over_captures(question: Recipe, text: str, captures: Sequence[tuple[str, Path]]) -> Answer:
    """Runs a query as `run` does, with a skew that admits each record."""
    folder = caches.make_folder("lowwater-ask-")
    try:
        file = folder / f"{question.name}.gsql"
        file.write_text(text, encoding="utf-8")
        skews: dict[str, int] = {}
        while True:
            given = [(link, str(path)) for link, path in captures]
            chosen = RunOptions(
                given, folder / "out", "parquet", question.name, None, (), [*_written(skews)], "1s", "process", None,
                None, None, False, False, True,
            )  # fmt: skip
            request = request_of([file], chosen, Definitions())
            summary = run(request, Progress(quiet=True))
            late = {
                link: each["skew_that_admits_all_ns"]
                for link, each in summary["links"].items()
                if each.get("violating") and link not in skews
            }
            if not late:
                break
            skews |= late
        (query,) = (each for each in request.plan.queries if each.name == question.name)
        rows = pq.read_table(folder / "out" / f"{question.name}.parquet")
        return Answer(query, rows, (*summary["notes"], *_link_notes(summary["links"])))
    finally:
        caches.remove_folder(folder)


def _written(skews: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for link, skew in skews.items():
        yield link, f"{skew}ns"


def _link_notes(links: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, link in links.items():
        if link["malformed"]:
            yield f"link {name}: {link['malformed']:,} malformed records are in no row"
        if link.get("violating"):
            yield f"link {name}: {link['violating']:,} records come too late, and are in no row"
        if link["dropped"]:
            yield f"link {name}: {link['dropped']:,} records were lost before they were written, as its captures say"
        for path, end in link["cut"].items():
            yield f"link {name}: {path} is cut; its last whole record is at {end}"


def _over_lake(question: Recipe, text: str, asked: Asked, lake: Lake) -> Answer:
    """Runs a query over what a lake has, in a folder of its own; the lake stays as it is."""
    config = load_config(lake.root)
    there = sorted({family_of(name) for name in ingested_links(lake) if config.link(name).kind == "pcap"})
    for name in asked.links:
        if family_of(name) not in there:
            raise errors.ConfigError(
                f"--of {name}: the lake has no packets of it",
                errors.nearest(name, there) or f"there are: {', '.join(there)}",
            )
    chosen = list(asked.links) or there
    if not chosen:
        raise errors.LakeError(f"{lake.root}: the lake has no packets", "`lowwater ingest` brings captures into it")
    text = question.over(chosen, text)
    every = lake_links(config, lake)
    context = replace(set_context(config, "", python=False), links=replace(every, names=tuple(chosen)))
    plan = plan_texts([(f"{question.name}.gsql", text)], context.links, None, context).only(question.name)
    checks.require_lowered(plan, "process")
    captures = {name: rows for name, rows in read_captures(lake, plan.links).items() if len(rows)}
    span = _span(asked, captures)
    living = {name: config.link(name).model_copy(update=_life(config, name, span)) for name in plan.links}
    alone = config.model_copy(update={"links": {**config.links, **living}})
    begun = {name: Captures(row for row in rows if (row.smallest or 0) < span[1]) for name, rows in captures.items()}
    folder = caches.make_folder("lowwater-ask-")
    try:
        progress = Progress(quiet=True)
        request = RunRequest(plan, alone, (), folder / "out")
        runner = runner_of("lowwater ask", alone, progress, "none")
        found = run_intervals(request, lake, begun, folder, progress, runner, whole=False)
        (query,) = plan.queries
        rows = rows_of(found, query)
        told = [*told_beside(request, lake, begun, found)]
    finally:
        caches.remove_folder(folder)
    notes = [*told, *(f"query {note.query}: {note}" for note in checks.unkept_notes(plan, config))]
    if late := sum(table.num_rows for table in found.violations):
        notes.append(f"{late:,} records come later than the skew of their link, and are in no row")
    for name in plan.links:
        of_link = captures.get(name, Captures())
        notes += [gap_text(gap, of_link) for gap in gaps(name, of_link, alone.link(name), *span)]
        notes += [f"link {name!r}: {hole_line(*each)}" for each in of_link.holes_in(*span)]
    return Answer(query, rows, tuple(dict.fromkeys(notes)))


def _span(asked: Asked, captures: Mapping[str, Captures]) -> tuple[int, int]:
    """Returns the range of time that is asked about: of all captures, unless it is given.
    Raises click.UsageError if it is empty."""
    smallest = [int(rows.numbers("smallest", END_OF_TIME).min(initial=END_OF_TIME)) for rows in captures.values()]
    largest = [int(rows.numbers("largest", -1).max(initial=-1)) for rows in captures.values()]
    start = min(smallest, default=0) if asked.start is None else asked.start
    end = max(largest, default=0) + 1 if asked.end is None else asked.end
    if start >= end:
        raise click.UsageError("no packets lie between --from and --to")
    return start, end


def _life(config: Config, link: str, span: tuple[int, int]) -> dict[str, int]:
    since, until = config.link(link).since, config.link(link).until
    return {"since": max(span[0], since or 0), "until": min(span[1], until or END_OF_TIME)}


# Tables and plots.


def _print_rows(rows: pa.Table, form: str) -> None:
    from lowwater.cli.commands.results import FORMATS

    FORMATS[form](tuple(rows.column_names), map(row_files.with_texts, rows.to_batches(65_536)))


def figure_of(query: QueryPlan) -> str:
    """Returns the column that is ranked and drawn: the first one with a value of an aggregate, else the first number
    that is no time; empty without one."""
    node: Any = query.logical
    while isinstance(node, ops.Top):
        node = node.input
    numbers = [each.name for each in query.logical.fields if each.type in (ex.Type.INT, ex.Type.FLOAT)]
    aggregates = {each.name for each in getattr(node, "aggregates", ())}
    for item in getattr(node, "items", ()):
        if item.name in numbers and aggregates & set(ex.columns_of(item.expr)):
            return str(item.name)
    times = {each.name for each in query.logical.fields if each.temporal}
    return next((name for name in numbers if name not in times and not _is_port(name)), "")


def _print_table(found: Answer, limit: int) -> None:
    rows, console = found.rows, terminal.open_console()
    names = [each.name for each in published_schema(found.query.high.fields)]
    figure = figure_of(found.query)
    time = next((each.name for each in rows.schema if is_instant(each.type)), "")
    if not rows.num_rows:
        console.print("no rows")
        return
    ordered = rows
    if figure:
        numbered = rows.append_column("_row", pa.array(range(rows.num_rows)))
        keys = [(figure, "descending", "at_end"), ("_row", "ascending", "at_end")]
        ordered = rows.take(pc.sort_indices(numbered, sort_keys=keys))
    table = Table(box=None, pad_edge=False)
    hidden = {time.removesuffix("_start"), time}
    every = [*([time] if time else []), *(name for name in names if name not in hidden)]
    columns = every[: max(console.width // NARROWEST, 2)]
    columns += [figure] if figure and figure not in columns else []
    for name in columns:
        right = not (pa.types.is_string(rows.schema.field(name).type) or name == time)
        table.add_column(terminal.styled(name), justify="right" if right else "left")
    for batch in map(row_files.with_texts, ordered.slice(0, limit).select(columns).to_batches()):
        for row in zip(*(row_files.csv_values(column) for column in batch.columns), strict=True):
            table.add_row(*(terminal.styled("NULL" if cell is None else str(cell)) for cell in row))
    console.print(table)
    if rows.num_rows > limit:
        what = f", those of most {figure}" if figure else ""
        console.print(f"{limit:,} of {rows.num_rows:,} rows{what}; --limit and --format csv give more", soft_wrap=True)
    if left := [name for name in every if name not in columns]:
        console.print(terminal.styled(f"--format csv also has {', '.join(left)}"), soft_wrap=True)
    if figure and rows.num_rows > 1:
        console.print()
        labels = [name for name in columns if name not in (figure, time) and _is_label(rows.schema.field(name))]
        for line in _plot(ordered, figure, time, labels, min(max(console.width, 40), WIDEST)):
            console.print(terminal.styled(line), soft_wrap=True)


def _is_label(kind: pa.Field) -> bool:
    return bool(pa.types.is_string(kind.type)) or _is_port(kind.name) or kind.name == "protocol"


def _is_port(name: str) -> bool:
    return name.lower().endswith("port")


BARS, WIDEST, NARROWEST = 20, 100, 9
"""Most lines of a plot, most characters of one, and the characters that a column of a table has at least."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def _plot(rows: pa.Table, figure: str, time: str, keys: Sequence[str], width: int) -> Iterator[str]:
    """Yields the lines of a plot: the figure by time if there is more than one time, else by row."""
    epochs = sorted({each for each in rows.column(time).to_pylist() if each is not None}) if time else []
    values = [float(each or 0) for each in rows.column(figure).to_pylist()]
    bars: dict[str, float] = {}
    if len(epochs) > 1:
        # Equal parts of the time; several epochs of one part are one bar.
        parts = -(-len(epochs) // BARS)
        place = {epoch: epochs[at - at % parts] for at, epoch in enumerate(epochs)}
        largest: dict[Any, float] = {}
        for epoch, value in zip(rows.column(time).to_pylist(), values, strict=True):
            if epoch is not None:
                largest[place[epoch]] = max(largest.get(place[epoch], 0.0), value)
        bars = {_instant(epoch): largest[epoch] for epoch in sorted(largest)}
        yield f"largest {figure} of a row, by time"
    else:
        first = rows.slice(0, BARS)
        labels = zip(*(first.column(name).to_pylist() for name in keys), strict=True) if keys else ()
        names = [" ".join("NULL" if each is None else str(each) for each in label) for label in labels]
        for at, value in enumerate(values[:BARS]):
            bars.setdefault(names[at] if names else str(at + 1), value)
        yield f"{figure}, by row"
    label = min(max(map(len, bars)), width // 2)
    most = max(bars.values()) or 1.0
    numbers = {name: f"{value:,.0f}" if value == int(value) else f"{value:,.2f}" for name, value in bars.items()}
    room = max(width - label - max(map(len, numbers.values())) - 2, 10)
    for name, value in bars.items():
        eighths = round(max(value, 0) / most * room * 8)
        bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8].strip())
        yield f"{name[:label]:<{label}} {bar} {numbers[name]}"


def _instant(value: Any) -> str:
    return format_instant(round(value.timestamp()) * SECOND) if hasattr(value, "timestamp") else str(value)
