"""The last section of each link with captures, kept in the lake: a link whose section goes has ended, and its history
stays what it was (SEMANTICS T5)."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from typing import Any

from lowwater.config import SECTIONS, Config, kept_sections, section_of
from lowwater.documents import FILE_NAME, toml_table
from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import ingested_links, read_captures
from lowwater.lake.ledgers.statements import retired_links
from lowwater.limits import SETTINGS_BYTES
from lowwater.link_names import family_of
from lowwater.storage import objects, paths
from lowwater.storage.failures import hint_in_lake


def keep_sections(lake: Lake, config: Config) -> None:
    """Keeps the section of each link with captures, and the end of the coverage of those whose section is gone: also of
    one that no command has known with its section.
    Raises LakeError if the lake cannot be written."""
    before = kept_sections(lake.root)
    links = ingested_links(lake)
    now = dict(before)
    for name, section in _sections(lake).items():
        if name in map(family_of, links) and name not in config.ended:
            now[name] = {"section": section}
    unknown = {*map(family_of, links)} - config.links.keys() if config.links else ()
    now |= {name: {"section": {}} for name in unknown}
    for name in (*config.ended, *unknown):
        own = [link for link in links if family_of(link) == name]
        ends = [rows.end for rows in read_captures(lake, own, config).values() if rows.end is not None]
        if ends:
            now[name] = {**now[name], "end": max(ends)}
    if now != before:
        try:
            paths.write(lake.root / SECTIONS, json.dumps(now, indent=1).encode())
        except OSError as error:
            text = f"{lake.root / SECTIONS}: cannot be written: {error.strerror}"
            raise LakeError(text, hint_in_lake(error)) from error
        if not before:
            objects.look_again(lake.root)  # it may have the first object of its folder


def ended_lines(lake: Lake, config: Config) -> list[str]:
    """Says which links have ended since their section is gone, and what to write."""
    if not config.ended:
        return []
    captures, lines = read_captures(lake, ingested_links(lake), config), list[str]()
    there = {family_of(link) for link, rows in captures.items() if len(rows)} - retired_links(lake).keys()
    empty = sorted(config.links.keys() - config.ended.keys() - set(map(family_of, captures)))
    for name, (end, *_) in sorted(config.ended.items()):
        if name in there:
            called = f"; if it is called {empty[0]} now: `lowwater rename link` {name} {empty[0]}" if empty else ""
            when = "where its captures end" if end is None else f"at {format_instant(end)}, where its captures end"
            until = "" if end is None else f', or write until = "{format_instant(end)}" in it for a link that is over'
            lines.append(
                f"link {name!r}: {FILE_NAME} has no section {section_of(name)} any more: by its last settings it has "
                f"ended {when}, and its history stays; give it its section back{until}; `lowwater retire link` {name} "
                f"with --keep ends this line{called}"
            )
    return lines


def _sections(lake: Lake) -> dict[str, Any]:
    """The sections of links as the settings file of a lake has them, with texts for instants."""
    try:
        links = toml_table(paths.read_lately(lake.root / FILE_NAME, SETTINGS_BYTES + 1).decode()).get("links", {})
    except (OSError, ValueError):
        return {}
    found: dict[str, Any] = json.loads(json.dumps(links, default=_text))
    return found


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date | datetime | time) else str(value)
