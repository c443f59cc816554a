"""The command `streams`: lists the published streams with schema, keys, promises, producers, consumers, freshness."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from lowwater.cli import options
from lowwater.instants import SECOND, format_duration, format_instant
from lowwater.terminal import open_console, say, styled

if TYPE_CHECKING:
    from lowwater.replay.registry import StreamInfo


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="All that is known of them, as JSON; instants in ns.")
def streams(lake: PurePath, queries: Path, as_json: bool) -> None:
    """Lists the streams of a lake: columns, keys, temporal attributes, promises, producers, consumers, freshness.

    \b
    Temporal attributes have their promise after the last interval: no later row has a smaller value. `lag` is captured
    time that is not published yet. Consumers are queries that read the stream, and subscribers with a name.
    Example:
      lowwater streams --lake var/lake --json
    """
    from lowwater.replay.registry import VERSION, streams_of

    infos = streams_of(lake, queries)
    if as_json:
        say(json.dumps({"version": VERSION, "streams": [info.document() for info in infos]}, indent=2))
        return
    if not infos:
        say(f"no stream: {lake} has no published table, and no query set in {queries} (--queries) reads its links")
    for info in infos:
        _show(info)


def _show(info: StreamInfo) -> None:
    from rich.table import Table

    from lowwater.replay.registry import published_text

    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    key = "unknown" if info.key is None else ", ".join(info.key) or "one row"
    source = [f"query set {info.owner}"]
    source += [f"queries {', '.join(info.queries)}"] * bool(info.queries)
    source += [f"links {', '.join(info.links)}"] * bool(info.links)
    when = f", in version {info.version}, {_second(info.published_at)}" if info.published_at else ""
    lines = {
        "  columns": ", ".join(f"{column.name} {column.type}" for column in info.columns),
        "  key": key,
        "  temporal": "; ".join(_temporal(info)) or "none",
        "  producers": ", ".join(source),
        "  consumers": "; ".join(_readers(info)) or "none known",
        "  published": f"{published_text(info)}{when}",
        "  damaged": "; ".join(_damaged(*each) for each in info.damaged),
        "  pinned": _pinned(info),
        "  lag": "unknown" if info.lag is None else format_duration(info.lag),
        "  problem": info.problem,
    }
    for name, text in lines.items():
        if text:
            facts.add_row(styled(name), styled(text, fold=True))
    console = open_console()
    console.print(styled(info.name, "bold"))
    console.print(facts)


def _damaged(start: int, end: int, why: str) -> str:
    return f"{format_instant(start)} to {format_instant(end)}: {why}"


def _pinned(info: StreamInfo) -> str:
    """Returns the pinned version where it is not the newest one, and why."""
    if not info.unfinished:
        return ""
    version = "no version" if info.pinned is None else f"version {info.pinned}"
    return f"{version}; an interval of the set is published in part, or damaged: `lowwater status`"


def _temporal(info: StreamInfo) -> list[str]:
    shown = []
    for column in info.columns:
        if column.temporal:
            word = ">=" if column.temporal == "increasing" else "<="
            promise = "" if column.promise is None else f", later rows {word} {column.promise}"
            shown.append(f"{column.name} {column.temporal} ({column.of}){promise}")
    return shown


def _readers(info: StreamInfo) -> list[str]:
    shown = []
    for reader in info.readers:
        text = f"{reader.kind} {reader.name}"
        if reader.until is not None and reader.seen is not None:
            behind = f", {reader.behind} versions behind" if reader.behind else ""
            behind += ", of another history of the table: it must begin again" * reader.lost
            text += f" (up to {format_instant(reader.until)}, at {_second(reader.seen)}{behind})"
        shown.append(text)
    return shown


def _second(instant: int) -> str:
    return format_instant(instant - instant % SECOND)
