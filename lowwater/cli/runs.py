"""`lowwater run`: from its options to a request, and what it says of the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from rich.table import Table

from lowwater import errors, refused, terminal
from lowwater.cli import options
from lowwater.cli.queries import Definitions, settings_of
from lowwater.config import KINDS, Config, Link
from lowwater.instants import format_duration, parse_duration
from lowwater.lake.ledgers.captures import left_out_words
from lowwater.low import Policy
from lowwater.plan.queryset import Plan
from lowwater.replay import accounts, checks
from lowwater.replay.names import config_links
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from lowwater.replay.stages.runners import runner_of
from lowwater.storage.captures import StoredCapture, capture_path, captures_like


@dataclass(frozen=True)
class RunOptions:
    """The options of `lowwater run`."""

    capture: Sequence[tuple[str, str]]  # (link, file); a link may have several files
    out: Path
    form: str  # `csv`, `json` or `parquet`
    query: str | None  # only this output query; None for all
    links: Path | None  # file of settings; None for defaults
    kind: Sequence[tuple[str, str]]  # (link, kind of its files)
    skew: Sequence[tuple[str, str]]  # (link, duration as written)
    heartbeat: str  # period or policy, as written
    engine: str  # `reference` for the oracle of the tests
    spark: str | None  # master URL; None for this process
    interval: int | None  # length of the evaluated intervals, ns; None for one interval
    copies: int | None  # maximum number of windows and groupings that a row may be in; None for the settings' value
    traces: bool
    spreadsheet: bool  # whether to quote texts of the CSV that a spreadsheet would take for formulas
    instants: bool  # whether the instants of temporal columns are written too


def run_files(files: Sequence[Path], chosen: RunOptions, definitions: Definitions) -> None:
    """Runs queries over captures and prints a summary of the results."""
    request, progress = request_of(files, chosen, definitions), Progress()
    runner = runner_of("lowwater run", request.config, progress, chosen.spark) if chosen.spark else None
    try:
        _show(run(request, progress, runner), chosen.out)
    except errors.PartialError as error:
        _show(error.summary, chosen.out)
        raise


def request_of(files: Sequence[Path], chosen: RunOptions, definitions: Definitions) -> RunRequest:
    """Plans query files over captures, by the options of `run`."""
    options.require_csv(chosen.spreadsheet, chosen.form)
    if chosen.interval is not None and chosen.interval <= 0:
        raise click.BadParameter("--interval must be above 0")
    if chosen.traces and chosen.engine == checks.REFERENCE:
        raise click.UsageError("--traces: the reference engine has no heartbeats between nodes")
    config, captures = _links(chosen.links, chosen.capture, options.durations(chosen.skew), dict(chosen.kind))
    period, policy = _heartbeat(chosen.heartbeat)
    links_of_settings = replace(config_links(config, sorted(config.links)), remedy="give --capture {}=FILE")

    def planned(interfaces: Mapping[str, tuple[str, ...]]) -> Plan:
        names = tuple(sorted({*config.links, *chain.from_iterable(interfaces.values())}))
        plan = definitions.plan(files, replace(links_of_settings, names=names, interfaces=interfaces), config)
        plan = plan.only(chosen.query) if chosen.query else plan
        checks.require_lowered(plan, chosen.engine)
        checks.require_affordable(plan, chosen.copies or config.replay.copies)
        checks.require_marked(plan, config)
        return plan

    same = ("out", "form", "engine", "interval", "traces", "spreadsheet", "instants")
    as_given = {name: getattr(chosen, name) for name in same}
    return RunRequest(planned({}), config, captures, period=period, policy=policy, replan=planned, **as_given)


def _links(
    file: Path | None, captures: Sequence[tuple[str, str]], skews: dict[str, int], kinds: dict[str, str]
) -> tuple[Config, list[tuple[str, Path]]]:
    """Combines the links and captures of --links with --capture, --kind and --skew, which take precedence."""
    base = settings_of(file)
    files_of_links = [(link, _capture(link, path)) for link, path in captures]
    for link, path in files_of_links:
        if not path.is_file():
            why = "there is no such file"
            if path.is_dir():
                why = "it is a folder: name a file in it"
            elif path.exists():
                why = "it is no regular file, and captures are read twice: write the stream to a file"
            raise click.BadParameter(f"--capture {link}={path}: {why}")
    named = {link for link, _ in files_of_links}
    for name, settings in base.links.items():
        if name not in named and settings.patterns:
            files_of_links += [(name, path) for path in _matching(settings.patterns, name)]
    _refuse_same_file(files_of_links)
    names = dict.fromkeys([*base.links, *(link for link, _ in files_of_links)])
    if not files_of_links:
        raise click.UsageError("no capture: give --capture LINK=FILE, or captures in the file of --links")
    for option, name in (*(("--skew", name) for name in skews), *(("--kind", name) for name in kinds)):
        if name not in names:
            raise errors.ConfigError(f"{option} {name}: there is no such link", f"there are: {', '.join(names)}")
    for name, word in kinds.items():
        if word not in KINDS:
            raise errors.ConfigError(f"--kind {name}={word}: there is no such kind", f"kinds are: {', '.join(KINDS)}")
    # A run reads only its own files, so life and declared coverage of a link do not apply (T5).
    alone: dict[str, Any] = {"captures": None, "rotation": None, "covers": {}, "since": None, "until": None}
    chosen = {}
    for name in names:
        settings = base.links.get(name, Link())
        if settings.read_by:
            raise errors.ConfigError(
                f"links.{name}: {settings.read_by[0]} differs between its periods, and a run reads all its files alike",
                "ingest them into a lake, or write the settings of one period into a file of its own for --links",
            )
        skew = {"skew": skews[name]} if name in skews else {}
        kind = {"kind": kinds[name]} if name in kinds else {}
        alone["periods"] = () if skew else settings.judged.periods
        chosen[name] = settings.model_copy(update={**alone, **skew, **kind})
    try:
        return Config(links=chosen, sets=base.sets, files=base.files, replay=base.replay), files_of_links
    except ValidationError as error:
        key, text = refused.refusals(error)[0]
        name = key.removeprefix("links.")
        if name in skews:
            reason = text.removeprefix("skew: ").partition("; write")[0]
            raise errors.ConfigError(f"--skew {name}: {reason}", f"write for example --skew {name}=1s") from None
        raise errors.ConfigError(f"{key}: {text}") from None


def _capture(link: str, text: str) -> Path:
    try:
        return capture_path(text)
    except ValueError as error:
        raise click.BadParameter(f"--capture {link}={error}") from None


def _refuse_same_file(files_of_links: Sequence[tuple[str, Path]]) -> None:
    """Refuses a file that a link has twice, perhaps under two names, because it would be read only once."""
    seen: dict[tuple[str, object], Path] = {}
    for link, path in files_of_links:
        status = path.stat()
        same_file = path if isinstance(path, StoredCapture) else (status.st_dev, status.st_ino)
        first = seen.setdefault((link, same_file), path)
        if first is not path:
            same = f" is the file {first}" if first != path else " is given twice"
            raise click.BadParameter(f"--capture {link}={path}:{same}, and a link reads a capture once: leave one out")


def _matching(patterns: Sequence[str], link: str) -> list[Path]:
    """Returns the files that match a link's patterns; strftime fields match any text."""
    from lowwater.lake.files.patterns import wildcard

    paths = {path for pattern in patterns for path in captures_like(wildcard(pattern))}
    if not paths:
        hint = f"correct `captures`, or give --capture {link}=FILE"
        raise errors.ConfigError(f"links.{link}: no file matches {', '.join(patterns)}", hint)
    return sorted(paths)


def _heartbeat(text: str) -> tuple[int, Policy]:
    if text in (Policy.ON_DEMAND, Policy.DATA_DRIVEN, Policy.NONE):
        return 1_000_000_000, Policy(text)
    try:
        period = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"--heartbeat {text}: {error}, on-demand, data-driven or none") from None
    if period <= 0:
        raise click.BadParameter("--heartbeat: the period must be above 0")
    return period, Policy.PERIODIC


def _show(summary: Mapping[str, Any], out: Path) -> None:
    console = terminal.open_console()
    queries = Table("query", "rows", "file", box=None)
    for name, query in summary["queries"].items():
        if "error" in query:
            queries.add_row(name, "-", f"none: {query['error']}")
        else:
            queries.add_row(name, f"{query['rows']:,}", str(out / query["file"]))
    console.print(queries)
    links = Table("link", "read", "malformed", "violating", "skew", "skew that admits all", box=None)
    for name, link in summary["links"].items():
        if "sane" not in link:
            links.add_row(name, f"{link['read']:,}", f"{link['malformed']:,}", "not read by a query", "", "")
            continue
        smallest_skew = format_duration(link["skew_that_admits_all_ns"])
        counts = (f"{link[key]:,}" for key in ("read", "malformed", "violating"))
        links.add_row(name, *counts, format_duration(link["skew_ns"]), smallest_skew)
    console.print(links)
    for name, link in summary["links"].items():
        if link.get("duplicates"):
            console.print(f"note: link {name}: {link['duplicates']:,} duplicates are dropped", soft_wrap=True)
        if link["dropped"]:
            lost = f"{link['dropped']:,} records were lost before they were written, as its captures say"
            console.print(f"note: link {name}: {lost}", soft_wrap=True)
        if link.get("left_out"):
            console.print(f"note: link {name}: {left_out_words(link['left_out'])}", soft_wrap=True)
        for path, end in link["cut"].items():
            console.print(f"note: link {name}: {path} is cut; its last whole record is at {end}", soft_wrap=True)
    for note in accounts.empty_query_notes(summary["queries"]):
        console.print(f"note: {note}", soft_wrap=True)
