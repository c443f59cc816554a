"""Implements `explain`, `check` and `run`, which all plan query files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

import click
from pydantic import ValidationError
from rich.table import Table

from lowwater.cli import options
from lowwater.config import KINDS, Config, Link, load_config
from lowwater.errors import ConfigError, PartialError, QueryError, QueryErrors, UnsupportedError
from lowwater.instants import format_duration, format_instant, parse_duration
from lowwater.lake.layout import OUTCOMES, Lake, lake_to_read
from lowwater.lake.ledgers.captures import left_out_words
from lowwater.low import Policy
from lowwater.low.code.kernel import list_kernels
from lowwater.low.settings import LowSettings
from lowwater.plan.context import Links
from lowwater.plan.definitions import make_context
from lowwater.plan.explain import explain
from lowwater.plan.operators import Lfta
from lowwater.plan.queryset import Plan, plan_files
from lowwater.plan.text import Note
from lowwater.refused import refusals
from lowwater.replay import checks
from lowwater.replay.accounts import empty_query_notes
from lowwater.replay.job import lake_links
from lowwater.replay.names import config_links
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from lowwater.replay.stages.runners import memory_of, runner_of
from lowwater.replay.tuning import Conjunct, LftaStatistics, Tuning, recommended
from lowwater.storage.captures import StoredCapture, capture_path, captures_like
from lowwater.terminal import open_console, say


@dataclass(frozen=True)
class Definitions:
    """Options of a command that define names for its queries."""

    schemas: Sequence[Path] = ()
    functions: Sequence[Path] = ()
    params: Sequence[tuple[str, Any]] = ()  # (name, value) of the parameters `$name`
    dialect: str = "lowwater"  # `lowwater` or `gigascope`

    def plan(self, files: Sequence[Path], links: Links, config: Config) -> Plan:
        """Plans query files. `config`: settings: protocols of the links, and folders of files that the queries may
        read."""
        params = dict(self.params)
        schemas = _distinct([*config.link_schemas, *self.schemas])
        context = make_context(links, schemas, self.functions, params, self.dialect, config.files.folders)
        plan = plan_files(files, links, context=context)
        text = "".join(query.text for query in (*plan.queries, *plan.internal))
        for name in params:
            if not re.search(rf"\b{re.escape(name)} ", text):
                raise click.BadParameter(f"--param {name}: no query has a parameter ${name}")
        return plan

    def plan_over(self, files: Sequence[Path], root: PurePath) -> tuple[Lake, Config, Plan]:
        """Opens a lake, and plans query files over its links: files of one of its query sets as that set does.
        Raises LakeError if there is no lake in the folder, and QueryError if a query is not valid."""
        config, lake = load_config(root), lake_to_read(root)
        definitions, whole = self, files
        for section in config.query_sets.values():
            if {path.resolve() for path in files} <= {Path(file).resolve() for file in section.files}:
                definitions = replace(
                    self,
                    schemas=[*map(Path, section.schemas), *self.schemas],
                    functions=_distinct([*map(Path, section.functions), *self.functions]),
                    params=[*section.params.items(), *self.params],
                )
                whole = _distinct([*files, *map(Path, section.files)])
                break
        return lake, config, definitions.plan(whole, lake_links(config, lake), config)


def _settings(links: Path | None) -> Config:
    return load_config(path=links) if links else Config()


def _distinct(files: Sequence[Path]) -> list[Path]:
    """Returns files without those that come again, perhaps by another name."""
    return list({path.resolve(): path for path in files}.values())


def _links_and_settings(links: Path | None) -> tuple[Links, Config]:
    """Returns the links that FROM may name, and the settings."""
    config = _settings(links)
    return config_links(config, sorted(config.links) if links else None), config


def explain_files(files: Sequence[Path], form: str, links: Path | None, **definitions: Any) -> str:
    """Returns the plan of query files as text.

    Args:
        form: `text`, `json` or `mermaid`.
        links: file of settings; None where any name may be a link.
        definitions: fields of `Definitions`.
    """
    plan, _ = _noted(files, links, definitions)
    return explain(plan, form, memory_of(load_config(path=links)))


def explain_kernels(files: Sequence[Path], links: Path | None, **definitions: Any) -> str:
    """Returns the generated code of each link of query files."""
    plan = Definitions(**definitions).plan(files, *_links_and_settings(links))
    return list_kernels(plan.lftas, LowSettings(skew=0))


def _noted(
    files: Sequence[Path], links: Path | None, definitions: dict[str, Any], lake: PurePath | None = None
) -> tuple[Plan, Config]:
    """Plans query files, and adds notes on queries that `run` would refuse. Returns the settings too."""
    if lake is not None:
        _, config, plan = Definitions(**definitions).plan_over(files, lake)
    else:
        names, config = _links_and_settings(links)
        plan = Definitions(**definitions).plan(files, names, config)
    notes = *checks.not_run(plan), *checks.cost_notes(plan, config.replay.copies), *checks.estimate_notes(plan, config)
    return replace(plan, notes=(*plan.notes, *notes)), config


def check_files(
    files: Sequence[Path], form: str, links: Path | None, lake: PurePath | None = None, **definitions: Any
) -> bool:
    """Prints every error and note of query files. Returns whether there is no error.

    Args:
        form: `text` or `json`.
        links: file of settings; None where any name may be a link.
        lake: the lake with the links and settings; None for those of `links`.
        definitions: fields of `Definitions`.
    """
    if lake is not None and links is not None:
        raise click.UsageError("--lake has its own settings: leave --links out")
    errors: tuple[QueryError, ...] = ()
    notes: tuple[Note, ...] = ()
    try:
        plan, config = _noted(files, links, definitions, lake)
        notes = plan.notes
        if lake is not None or links is not None:
            checks.require_kept(plan, config)
    except QueryError as refusal:
        errors = refusal.errors if isinstance(refusal, QueryErrors) else (refusal,)
    if form == "json":
        rows = [{"query": n.query, "note": n.text, "line": n.place[0], "column": n.place[1]} for n in notes]
        document = {"errors": [_as_json(error) for error in errors], "notes": rows}
        say(json.dumps(document, indent=2, ensure_ascii=False))
        return not errors
    for error in errors:
        say(f"error: {error}", err=True)
    for note in notes:
        say(f"note: query {note.query}: {note}")
    count = f"{len(errors)} error{'s' if len(errors) > 1 else ''}"
    say(count if errors else f"{len(files)} file{'s' if len(files) > 1 else ''}, no error", err=bool(errors))
    return not errors


def _as_json(error: QueryError) -> dict[str, Any]:
    lines = error.source.split("\n")
    return {
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "message": error.message,
        "hint": error.hint,
        "source": lines[error.line - 1] if 0 < error.line <= len(lines) else "",
        "kind": "unsupported" if isinstance(error, UnsupportedError) else "error",
    }


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
    request, progress = _request(files, chosen, definitions), Progress()
    runner = runner_of("lowwater run", request.config, progress, chosen.spark) if chosen.spark else None
    try:
        _show(run(request, progress, runner), chosen.out)
    except PartialError as error:
        _show(error.summary, chosen.out)
        raise


def _request(files: Sequence[Path], chosen: RunOptions, definitions: Definitions) -> RunRequest:
    if chosen.spreadsheet and chosen.form != "csv":
        raise click.UsageError("--spreadsheet goes with --format csv")
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

    written = {
        name: getattr(chosen, name) for name in ("form", "engine", "interval", "traces", "spreadsheet", "instants")
    }
    return RunRequest(
        planned({}), config, captures, chosen.out, period=period, policy=policy, replan=planned, **written
    )


def _links(
    file: Path | None, captures: Sequence[tuple[str, str]], skews: dict[str, int], kinds: dict[str, str]
) -> tuple[Config, list[tuple[str, Path]]]:
    """Combines the links and captures of --links with --capture, --kind and --skew, which take precedence."""
    base = _settings(file)
    files_of_links = [(link, _capture(link, path)) for link, path in captures]
    for link, path in files_of_links:
        if not path.is_file():
            streamed = "it is no regular file, and captures are read twice: write the stream to a file"
            missing = streamed if path.exists() else "there is no such file"
            why = "it is a folder: name a file in it" if path.is_dir() else missing
            raise click.BadParameter(f"--capture {link}={path}: {why}")
    named = {link for link, _ in files_of_links}
    for name, settings in base.links.items():
        if name not in named and settings.captures:
            files_of_links += [(name, path) for path in _matching(settings.captures, name)]
    _refuse_same_file(files_of_links)
    names = dict.fromkeys([*base.links, *(link for link, _ in files_of_links)])
    if not files_of_links:
        raise click.UsageError("no capture: give --capture LINK=FILE, or captures in the file of --links")
    for name in skews:
        if name not in names:
            raise ConfigError(f"--skew {name}: there is no such link", f"there are: {', '.join(names)}")
    for name, word in kinds.items():
        if name not in names:
            raise ConfigError(f"--kind {name}: there is no such link", f"there are: {', '.join(names)}")
        if word not in KINDS:
            raise ConfigError(f"--kind {name}={word}: there is no such kind", f"kinds are: {', '.join(KINDS)}")
    # A run reads only its own files, so life and declared coverage of a link do not apply (T5).
    alone: dict[str, Any] = {"captures": None, "rotation": None, "covers": {}, "since": None, "until": None}
    chosen = {}
    for name in names:
        skew = {"skew": skews[name]} if name in skews else {}
        kind = {"kind": kinds[name]} if name in kinds else {}
        chosen[name] = base.links.get(name, Link()).model_copy(update={**alone, **skew, **kind})
    try:
        return Config(links=chosen, sets=base.sets, files=base.files, replay=base.replay), files_of_links
    except ValidationError as error:
        key, text = refusals(error)[0]
        name = key.removeprefix("links.")
        if name in skews:
            reason = text.removeprefix("skew: ").partition("; write")[0]
            raise ConfigError(f"--skew {name}: {reason}", f"write for example --skew {name}=1s") from None
        raise ConfigError(f"{key}: {text}") from None


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
        raise ConfigError(
            f"links.{link}: no file matches {', '.join(patterns)}",
            f"correct `captures`, or give --capture {link}=FILE",
        )
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
    console = open_console()
    queries = Table("query", "rows", "file", box=None)
    for name, query in summary["queries"].items():
        if "error" in query:
            queries.add_row(name, "-", "none: a sum does not fit 64 bits")
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
        if link.get("left_out"):
            console.print(f"note: link {name}: {left_out_words(link['left_out'])}", soft_wrap=True)
        for path, end in link["cut"].items():
            console.print(f"note: link {name}: {path} is cut; its last whole record is at {end}", soft_wrap=True)
    for note in empty_query_notes(summary["queries"]):
        console.print(f"note: {note}", soft_wrap=True)


# Measurements of each LFTA, and the settings that they recommend.

_UNKNOWN = "no run has counted it yet: lowwater replay it, with the same parameters"


def explain_statistics(files: Sequence[Path], form: str, root: PurePath, definitions: Mapping[str, Any]) -> str:
    """Returns the statistics of the LFTAs of query files, from the last runs over a lake.
    Raises LakeError if there is no lake in the folder, and QueryError if a query is not valid.

    Args:
        form: `text` or `json`.
        definitions: fields of `Definitions`.
    """
    lake, config, plan = Definitions(**definitions).plan_over(files, root)
    statistics, tunings = recommended(lake, plan, config)
    if form == "json":
        documents = [_tuning_as_json(lfta, statistics.get(lfta.name), tunings.get(lfta.name)) for lfta in plan.lftas]
        return json.dumps({"tuned": config.replay.tuned, "lftas": documents}, indent=2, ensure_ascii=False) + "\n"
    lines = [line for lfta in plan.lftas for line in _text(lfta, statistics.get(lfta.name), tunings.get(lfta.name))]
    applied = "runs take" if config.replay.tuned else "with tuned = true in [replay] runs take"
    return "\n".join([*lines, f"{applied} what is recommended; rows and accounts are the same", ""])


def _tuning_as_json(lfta: Lfta, statistics: LftaStatistics | None, tuning: Tuning | None) -> dict[str, Any]:
    document: dict[str, Any] = {"lfta": lfta.name, "links": list(lfta.links), "measured": None}
    if statistics is None or tuning is None:
        return document
    totals = {
        **statistics.sums,
        "groups": statistics.groups,
        "slots": statistics.slots,
        "estimated_groups": statistics.alive,
    }
    document["measured"] = {"from": format_instant(statistics.start), "to": format_instant(statistics.end), **totals}
    document["conjuncts"] = [asdict(conjunct) for conjunct in tuning.conjuncts]
    document["advice"] = [{**asdict(advice), "changes": advice.changes} for advice in tuning.advice]
    return document


def _text(lfta: Lfta, statistics: LftaStatistics | None, tuning: Tuning | None) -> Iterator[str]:
    yield f"LFTA {lfta.name} on {', '.join(lfta.links)}"
    if statistics is None or tuning is None:
        yield f"  {_UNKNOWN}"
        yield ""
        return
    sums = statistics.sums
    span = f"{format_instant(statistics.start)} to {format_instant(statistics.end)}"
    yield f"  measured: {span}, {statistics.minutes:,} minutes of its links"
    outcomes = (f"{sums[name]:,} {name.replace('_', ' ')}" for name in OUTCOMES if sums[name])
    yield f"  records in: {sums['sane']:,}: {', '.join(outcomes) or 'none'}"
    yield f"  rows out: {sums['rows_out']:,}, {sums['collisions']:,} collisions, {sums['ejections']:,} ejections"
    if statistics.per_record is not None:
        yield f"  time: {statistics.per_record:,.0f} ns a record, {statistics.beats:.2%} of it for heartbeats"
    for conjunct in tuning.conjuncts:
        yield f"  conjunct {conjunct.text}: {_share(conjunct)}, cost {conjunct.cost}{_place(conjunct)}"
    for advice in tuning.advice:
        to = f"{advice.current} -> {advice.recommended}" if advice.changes else f"{advice.current} is right"
        yield f"  {advice.setting}: {to}"
        yield f"    {advice.why}"
    yield ""


def _share(conjunct: Conjunct) -> str:
    if conjunct.true is None:
        return f"only {conjunct.asked:,} records in the sample"
    return f"true of {conjunct.true:.1%} of {conjunct.asked:,} records in the sample"


def _place(conjunct: Conjunct) -> str:
    return {"prefilter": ", in the prefilter", "first": ", always asked"}.get(conjunct.place, "")
