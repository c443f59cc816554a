"""Retention of packets: those of whole captures that are older than the limit of their link go, or that are too many.

Before packets go, the table says to which instant, the horizon of the link (SEMANTICS S11): no interval that reads
before it runs any more. So whoever is killed has at most said more than was done, and the next maintenance does it.
The ledgers keep what they know of the captures, by which all later intervals are what they were.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import PurePath
from typing import Any

from lowwater.config import Config, Keep, Link, Retention
from lowwater.errors import BusyError
from lowwater.instants import HOUR, format_duration, format_instant
from lowwater.lake import layout, open_tables, tables
from lowwater.lake.ledgers.captures import Captures, attempts_of, ingested_links, read_captures
from lowwater.lake.locks import hold
from lowwater.lake.packets import HORIZONS, PacketFiles, horizons_of
from lowwater.link_names import family_of
from lowwater.storage import digests, paths
from lowwater.terminal import size_text


@dataclass(frozen=True)
class Trimmed:
    """What went of a folder, or would go."""

    folder: PurePath
    files: int
    bytes: int
    why: str


@dataclass(frozen=True, order=True)
class _Piece:
    """The packets of a capture and link."""

    end: int  # when it is over: the clock of the link behind it, and the end of its coverage, ns
    clock: int  # the clock of the link behind it, ns
    link: str
    bytes: int


def trim_packets(lake: layout.Lake, retention: Retention, config: Config, now: int, dry_run: bool) -> Iterator[Trimmed]:
    """Removes the packets of whole captures of which links keep no more; yields what went of each link. A link of which
    an ingest is at work waits for the next time.
    Raises LakeError if the lake cannot be read or written."""
    tops = _tops(lake, retention, config, now)
    said = PacketFiles.of(lake).horizons
    for link in sorted({*tops, *said}):
        horizon, why = tops.get(link, (0, ""))
        horizon = max(horizon, said.get(link, 0))
        why = why or "they came after the others of their time had gone"
        folder = lake.table_of(link, _settings(config, link).kind != "pcap")
        if dry_run:
            yield from _closed(lake, config, folder, link, horizon, why)[1]
            continue
        with suppress(BusyError), hold(lake, f"ingest of {family_of(link)}") as fence:
            yield from _trim(replace(lake, fence=fence), config, folder, link, horizon, why)


def _tops(lake: layout.Lake, retention: Retention, config: Config, now: int) -> dict[str, tuple[int, str]]:
    """Returns for each link of which something goes: its horizon (ns), and why."""
    links = ingested_links(lake)
    limits = {link: _settings(config, link).retention.packets for link in links}
    if retention.packets is None and not any(limits.values()):
        return {}
    files, captures = PacketFiles.of(lake), read_captures(lake, links, config)
    pieces = {link: _pieces(files, link, captures[link]) for link in links}
    groups: dict[str, list[str]] = {}  # links with a limit together
    for link in links:
        name = link if link in config.links else family_of(link)
        groups.setdefault(name if limits[link] else "", []).append(link)
    found = {}
    for name, members in groups.items():
        limit = limits[members[0]] if name else retention.packets
        if limit is None:
            continue
        key = f"[links.{name}.retention] packets" if name else "[retention] packets"
        gone = _beyond([piece for link in members for piece in pieces[link]], limit, now)
        for link, horizon in gone.items():
            found[link] = horizon, f"{key} = {_words(limit)}, to {format_instant(horizon)}"
    return found


def _settings(config: Config, link: str) -> Link:
    return config.links.get(link) or config.past_link(family_of(link))


def _words(limit: Keep) -> str:
    return size_text(limit.size) if limit.size is not None else format_duration(limit.age or 0)


def _pieces(files: PacketFiles, link: str, captures: Captures) -> list[_Piece]:
    """Lists the captures of a link in the order of T1, up to one that is still being written."""
    clocks = [*captures.clocks[1:], max(captures.numbers("largest").tolist(), default=0)]
    ends = captures.numbers("covers_to").tolist()
    found: list[_Piece] = []
    for attempt, growing, clock, end in zip(
        captures.values("attempt"), captures.values("growing"), clocks, ends, strict=True
    ):
        if growing:
            break
        size = sum(row["size_bytes"] for row in files.rows(link, attempt))
        found.append(_Piece(max(clock, end, found[-1].end if found else 0), clock, link, size))
    return found


def _beyond(pieces: Sequence[_Piece], limit: Keep, now: int) -> dict[str, int]:
    """Returns the horizon of each link of which something goes. In the order of `end` the pieces of a link are in the
    order of T1, so that those that go are its first ones."""
    ordered = sorted(pieces)
    if limit.size is not None:
        left = sum(piece.bytes for piece in ordered)
        before = accumulate((piece.bytes for piece in ordered), initial=0)
        gone = [piece for piece, done in zip(ordered, before, strict=False) if left - done > limit.size]
    else:
        gone = [piece for piece in ordered if piece.end <= now - (limit.age or 0)]
    return {piece.link: piece.clock + 1 for piece in gone}


def _closed(
    lake: layout.Lake, config: Config, folder: PurePath, link: str, horizon: int, why: str
) -> tuple[list[dict[str, Any]], list[Trimmed]]:
    """Returns the files of a link that go before a horizon, as `live_files`, and what that is, if there are any: of
    captures in the order of T1 up to there, and of those that are not read and lie before it as a whole."""
    captures = read_captures(lake, [link], config)[link]
    clocks = [*captures.clocks[1:], max(captures.numbers("largest").tolist(), default=0)]
    stay = {name for name, clock in zip(captures.values("attempt"), clocks, strict=True) if clock >= horizon}
    files = PacketFiles.of_table(folder)
    gone = []
    for attempt in files.attempts.keys() - stay:
        rows = files.rows(link, attempt)
        if all(max(row["max.arrival"], row["max.timestamp"]) < horizon for row in rows):
            gone += rows
    place = folder / f"link={tables.safe_name(link)}"
    return gone, [Trimmed(place, len(gone), sum(row["size_bytes"] for row in gone), why)] if gone else []


def _trim(lake: layout.Lake, config: Config, folder: PurePath, link: str, horizon: int, why: str) -> Iterator[Trimmed]:
    """Says the horizon of a link, then takes the packets before it out of the log, then removes their files."""
    table = open_tables.existing(folder)
    tables.fence_off([folder], lake.fence)
    said = horizons_of(table)
    if said.get(link, 0) < horizon:
        tables.with_properties(folder, table, {HORIZONS: json.dumps({**said, link: horizon})}, lake.fence)
    gone, told = _closed(lake, config, folder, link, horizon, why)
    names = {row["path"] for row in gone}

    def old(newest: Any) -> list[dict[str, Any]]:
        return [row for row in tables.live_files(newest) if row["path"] in names]

    if names:
        tables.swap_files(folder, [], old, fence=lake.fence)
    left = _left(lake, folder, link, horizon)
    with tables.lake_errors(f"{folder}: packets of link {link!r} cannot be removed"):
        paths.remove(*left)
    yield from told


def _left(lake: layout.Lake, folder: PurePath, link: str, horizon: int) -> list[PurePath]:
    """Lists the files of a link, of captures that the ledger has, which the log does not name and whose hours are over
    before the horizon: these, and those of an earlier maintenance that was ended."""
    known = attempts_of(lake)
    live = {PacketFiles.path(row) for rows in PacketFiles.of_table(folder).attempts.values() for row in rows}
    found = []
    for path in paths.matching(folder / f"link={tables.safe_name(link)}", "hour=*/*"):
        hour = int(path.parent.name.partition("=")[2])
        attempt = digests.bare(path.name.removesuffix(paths.ASIDE)).rpartition("-")[2]
        if hour * HOUR < horizon and attempt in known and path not in live:
            found.append(path)
    return found
