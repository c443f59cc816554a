"""Implements `explain` and `check`; query files as a command plans them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import click

from lowwater.catalog.user_functions import module_files
from lowwater.config import Config, load_config
from lowwater.errors import QueryError, QueryErrors, UnsupportedError
from lowwater.gsql.declarations import parse_declarations
from lowwater.instants import format_instant
from lowwater.lake.layout import OUTCOMES, Lake, lake_to_read
from lowwater.low.settings import LowSettings
from lowwater.plan import operators as ops, queryset
from lowwater.plan.context import Links
from lowwater.plan.definitions import make_context
from lowwater.plan.text import Note
from lowwater.quality.modules import require_trusted_files
from lowwater.replay import checks
from lowwater.replay.names import config_links, lake_links
from lowwater.replay.stages.runners import memory_of
from lowwater.replay.tuning import Conjunct, LftaStatistics, Tuning, recommended
from lowwater.terminal import say


@dataclass(frozen=True)
class Definitions:
    """Options of a command that define names for its queries."""

    schemas: Sequence[Path] = ()
    functions: Sequence[Path] = ()
    params: Sequence[tuple[str, Any]] = ()  # (name, value) of the parameters `$name`
    dialect: str = "lowwater"  # `lowwater` or `gigascope`

    def plan(self, files: Sequence[Path], links: Links, config: Config) -> queryset.Plan:
        """Plans query files. `config` has protocols of the links, and folders of files that the queries may read."""
        params = dict(self.params)
        schemas = _distinct([*config.link_schemas, *self.schemas])
        context = make_context(links, schemas, self.functions, params, self.dialect, config.files.folders)
        plan = queryset.plan_files(files, links, context=context)
        text = "".join(query.text for query in (*plan.queries, *plan.internal))
        for name in params:
            if not re.search(rf"\b{re.escape(name)} ", text):
                raise click.BadParameter(f"--param {name}: no query has a parameter ${name}")
        return plan

    def plan_over(self, files: Sequence[Path], root: PurePath) -> tuple[Lake, Config, queryset.Plan]:
        """Opens a lake, and plans query files over its links: files of one of its query sets as that set does.
        Raises LakeError if there is no lake in the folder, QueryError if a query is not valid, and ConfigError if the
        Python that the set names may not run on this machine."""
        config, lake = load_config(root), lake_to_read(root)
        definitions, whole = self, files
        for name, section in config.query_sets.items():
            if {path.resolve() for path in files} <= {Path(file).resolve() for file in section.files}:
                require_trusted_files(name, module_files(section.functions, parse_declarations))
                definitions = replace(
                    self,
                    schemas=[*map(Path, section.schemas), *self.schemas],
                    functions=_distinct([*map(Path, section.functions), *self.functions]),
                    params=[*section.params.items(), *self.params],
                )
                whole = _distinct([*files, *map(Path, section.files)])
                break
        return lake, config, definitions.plan(whole, lake_links(config, lake), config)


def settings_of(links: Path | None) -> Config:
    """The settings of a file; defaults without one."""
    return load_config(path=links) if links else Config()


def _distinct(files: Sequence[Path]) -> list[Path]:
    return list({path.resolve(): path for path in files}.values())


def _links_and_settings(links: Path | None) -> tuple[Links, Config]:
    """Returns the links that FROM may name, and the settings; without a file of them any name may be a link."""
    config = settings_of(links)
    return config_links(config, sorted(config.links) if links else None), config


def explain_files(files: Sequence[Path], form: str, links: Path | None, **definitions: Any) -> str:
    """Returns the plan of query files as `text`, `json` or `mermaid`. `definitions`: fields of `Definitions`."""
    from lowwater.plan.explain import explain

    plan, _ = _noted(files, links, definitions)
    return explain(plan, form, memory_of(load_config(path=links)))


def explain_kernels(files: Sequence[Path], links: Path | None, **definitions: Any) -> str:
    """Returns the generated code of each link of query files."""
    from lowwater.low.code.kernel import list_kernels

    plan = Definitions(**definitions).plan(files, *_links_and_settings(links))
    return list_kernels(plan.lftas, LowSettings(skew=0))


def _noted(
    files: Sequence[Path], links: Path | None, definitions: dict[str, Any], lake: PurePath | None = None
) -> tuple[queryset.Plan, Config]:
    """Plans query files, and adds notes on queries that `run` would refuse. Returns the settings too."""
    if lake is not None:
        from lowwater.lake.results.publish import require_types

        opened, config, plan = Definitions(**definitions).plan_over(files, lake)
        for query in plan.queries:
            require_types(opened, query.name, query.high.fields)
    else:
        names, config = _links_and_settings(links)
        plan = Definitions(**definitions).plan(files, names, config)
    notes = *checks.not_run(plan), *checks.cost_notes(plan, config.replay.copies), *checks.estimate_notes(plan, config)
    return replace(plan, notes=(*plan.notes, *notes)), config


def check_files(
    files: Sequence[Path], form: str, links: Path | None, lake: PurePath | None = None, **definitions: Any
) -> bool:
    """Prints every error and note of query files, as `text` or `json`. Returns whether there is no error. `links`: file
    of settings; `lake`: the lake with the settings; without both any name may be a link."""
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


# Measurements of each LFTA, and the settings that they recommend.

_UNKNOWN = "no run has counted it yet: lowwater replay it, with the same parameters"


def explain_statistics(files: Sequence[Path], form: str, root: PurePath, definitions: Mapping[str, Any]) -> str:
    """Returns the statistics of the LFTAs of query files, from the last runs over a lake, as `text` or `json`.
    Raises LakeError if there is no lake in the folder, and QueryError if a query is not valid."""
    lake, config, plan = Definitions(**definitions).plan_over(files, root)
    statistics, tunings = recommended(lake, plan, config)
    if form == "json":
        documents = [_tuning_as_json(lfta, statistics.get(lfta.name), tunings.get(lfta.name)) for lfta in plan.lftas]
        return json.dumps({"tuned": config.replay.tuned, "lftas": documents}, indent=2, ensure_ascii=False) + "\n"
    lines = [line for lfta in plan.lftas for line in _text(lfta, statistics.get(lfta.name), tunings.get(lfta.name))]
    applied = "runs take" if config.replay.tuned else "with tuned = true in [replay] runs take"
    return "\n".join([*lines, f"{applied} what is recommended; rows and accounts are the same", ""])


def _tuning_as_json(lfta: ops.Lfta, statistics: LftaStatistics | None, tuning: Tuning | None) -> dict[str, Any]:
    document: dict[str, Any] = {"lfta": lfta.name, "links": list(lfta.links), "measured": None}
    if statistics is None or tuning is None:
        return document
    document["measured"] = {
        "from": format_instant(statistics.start),
        "to": format_instant(statistics.end),
        **statistics.sums,
        "groups": statistics.groups,
        "slots": statistics.slots,
        "estimated_groups": statistics.alive,
    }
    document["conjuncts"] = [asdict(conjunct) for conjunct in tuning.conjuncts]
    document["advice"] = [{**asdict(advice), "changes": advice.changes} for advice in tuning.advice]
    return document


def _text(lfta: ops.Lfta, statistics: LftaStatistics | None, tuning: Tuning | None) -> Iterator[str]:
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
