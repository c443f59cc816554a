"""Retention: packets of whole captures that are older than the limit of their link go, or that are too many; so do
capture files, malformed rows, quarantined rows and pages of audits.

Before packets go, the table says to which instant, the horizon of the link (SEMANTICS S11): no interval that reads
before it runs any more. So whoever is killed has at most said more than was done, and the next maintenance does it.
The ledgers keep what they know of the captures, by which all later intervals are what they were.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.config import Config, Keep, Retention, section_of
from lowwater.errors import BusyError
from lowwater.instants import HOUR, format_duration, format_instant
from lowwater.lake import layout, open_tables, tables
from lowwater.lake.ledgers.captures import Capture, Captures, attempts_of, ingested_links, read_captures
from lowwater.lake.ledgers.files import seen_by_attempt
from lowwater.lake.ledgers.places import location
from lowwater.lake.ledgers.states import READ
from lowwater.lake.locks import hold
from lowwater.lake.packets import HORIZONS, PacketFiles, horizons_of
from lowwater.lake.results.streams import Replaced
from lowwater.link_names import family_of
from lowwater.storage import digests, paths
from lowwater.storage.captures import is_address
from lowwater.terminal import size_text


@dataclass(frozen=True)
class Trimmed:
    """What went of a folder, or would go."""

    what: str
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
        folder = lake.table_of(link, config.past_link(link).kind != "pcap")
        if dry_run:
            yield from _closed(lake, config, folder, link, horizon, why)[1]
            continue
        with suppress(BusyError), hold(lake, f"ingest of {family_of(link)}") as fence:
            yield from _trim(replace(lake, fence=fence), config, folder, link, horizon, why)


def trim_late(lake: layout.Lake, config: Config, captures: Iterable[Capture]) -> None:
    """Removes the packets of new captures that lie before the horizon of their link: no run reads them, and the link
    keeps none of that time. The caller holds the ingest of the link.
    Raises LakeError if the lake cannot be written."""
    files = PacketFiles.of(lake)
    for link in sorted({row.link for row in captures if files.is_closed(row)} & files.horizons.keys()):
        folder = lake.table_of(link, config.past_link(link).kind != "pcap")
        deque(_trim(lake, config, folder, link, files.horizons[link], ""), maxlen=0)


def _tops(lake: layout.Lake, retention: Retention, config: Config, now: int) -> dict[str, tuple[int, str]]:
    """Returns for each link of which something goes: its horizon (ns), and why."""
    found: dict[str, tuple[int, str]] = {}
    for links, limit, why in _groups(lake, retention, config, "packets"):
        files, captures = PacketFiles.of(lake), read_captures(lake, links, config)
        pieces = [piece for link in links for piece in _pieces(files, link, captures[link])]
        for link, horizon in _beyond(pieces, limit, now).items():
            found[link] = horizon, f"{why}, to {format_instant(horizon)}"
    return found


def _groups(
    lake: layout.Lake, retention: Retention, config: Config, what: str
) -> Iterator[tuple[list[str], Keep, str]]:
    """Yields links that have a limit together, and the limit: a link with a limit of its own and its interfaces, then
    all others; and what the settings say."""
    groups: dict[str, list[str]] = {}
    for link in ingested_links(lake):
        name = link if link in config.links else family_of(link)
        own = getattr(config.past_link(link).retention, what)
        groups.setdefault(name if own else "", []).append(link)
    for name, links in groups.items():
        limit = getattr(config.past_link(name).retention if name else retention, what)
        if limit is not None:
            section = section_of(name, "retention") if name else "[retention]"
            yield links, limit, f"{section} {what} = {_words(limit)}"


def horizon_of_end(lake: layout.Lake, link: str, config: Config) -> int:
    """Returns the horizon (ns) of a link that has ended, and of which nothing is kept: behind all of its captures."""
    return max(_clocks_behind(read_captures(lake, [link], config)[link])) + 1


def drop_link(lake: layout.Lake, config: Config, family: str, captures: bool, dry_run: bool) -> Iterator[Trimmed]:
    """Removes all packets of a link that has ended and of its interfaces, and with them its rows for people: malformed
    records, violations of its skew, its lateness and what audits found wrong in it; with `captures` the files that lie
    on a disk as the lake has taken them in, too. The caller holds the ingest of the link.
    Raises LakeError if the lake cannot be read or written."""
    links = [link for link in ingested_links(lake) if family_of(link) == family]
    folders = {link: lake.table_of(link, config.past_link(link).kind != "pcap") for link in links}
    rows = dict.fromkeys((lake.malformed, lake.violations, lake.lateness), "link") | {lake.quarantine: "subject"}
    why = f"link {family} was retired with --drop"
    if not dry_run:
        tables.fence_off({*folders.values(), *rows}, lake.fence)
    for link, folder in folders.items():
        horizon = max(horizon_of_end(lake, link, config), PacketFiles.of(lake).horizons.get(link, 0))
        if dry_run:
            yield from _closed(lake, config, folder, link, horizon, why)[1]
        else:
            yield from _trim(lake, config, folder, link, horizon, why)
    every = dict.fromkeys(links, 0)
    for path, column in rows.items():
        of_link = pc.field(column).isin(links)
        yield from _trim_rows(lake, path.name, path, of_link, column, every, Keep(age=0), why, 1, dry_run)
    if captures:
        files = {path: size for path, (_, size) in _capture_files(lake, config, links, 0, False).items()}
        yield from _remove_captures(files, why, dry_run)


def gone_before(items: Iterable[tuple[int, int]], limit: Keep, now: int) -> int:
    """Returns the instant (ns) before which things go, given when each is over, ns, and its bytes."""
    if limit.size is None:
        return now - (limit.age or 0)
    ordered, before = sorted(items), 0
    left = sum(size for _, size in ordered)
    for end, size in ordered:
        if left <= limit.size:
            break
        left, before = left - size, end + 1
    return before


def _words(limit: Keep) -> str:
    return size_text(limit.size) if limit.size is not None else format_duration(limit.age or 0)


def _clocks_behind(captures: Captures) -> list[int]:
    """The clock of a link behind each of its captures, in the order of T1, ns."""
    return [*captures.clocks[1:], max(captures.numbers("largest").tolist(), default=0)]


def _pieces(files: PacketFiles, link: str, captures: Captures) -> list[_Piece]:
    """Lists the captures of a link in the order of T1, up to one that is still being written."""
    ends = captures.numbers("covers_to").tolist()
    found: list[_Piece] = []
    for attempt, growing, clock, end in zip(
        captures.values("attempt"), captures.values("growing"), _clocks_behind(captures), ends, strict=True
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
    stay = {
        name
        for name, clock in zip(captures.values("attempt"), _clocks_behind(captures), strict=True)
        if clock >= horizon
    }
    files = PacketFiles.of_table(folder)
    gone = []
    for attempt in files.attempts.keys() - stay:
        rows = files.rows(link, attempt)
        if all(max(row["max.arrival"], row["max.timestamp"]) < horizon for row in rows):
            gone += rows
    place = folder / f"link={tables.safe_name(link)}"
    return gone, [Trimmed("packets", place, len(gone), sum(row["size_bytes"] for row in gone), why)] if gone else []


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
    # Packets of an interface lie in the folder of the link for which their file was read.
    folders = {folder / f"link={tables.safe_name(name)}" for name in (link, family_of(link))}
    for path in (path for place in sorted(folders) for path in paths.matching(place, "hour=*/*")):
        hour = int(path.parent.name.partition("=")[2])
        attempt = digests.bare(path.name.removesuffix(paths.ASIDE)).rpartition("-")[2]
        if hour * HOUR < horizon and attempt in known and path not in live:
            found.append(path)
    return found


# What else goes by age or size. No run of an hour that can still run needs it.


def trim_interval(lake: layout.Lake, path: PurePath, label: str, why: str, dry_run: bool) -> Iterator[Trimmed]:
    """Removes what a table of `lfta/` or `streams/` has of an interval."""
    replaced = Replaced(path, [label])
    rows = replaced.rows(tables.open_table(path))
    if not rows:
        return
    if not dry_run:
        tables.swap_files(path, [], replaced.rows, replaced.rest, lake.fence)
        with tables.lake_errors(f"{path}: rows of {label} cannot be removed"):
            for row in rows:
                paths.remove(path / row["path"])
    yield Trimmed("streams", path / f"interval={label}", len(rows), sum(row["size_bytes"] for row in rows), why)


def trim_captures(
    lake: layout.Lake, retention: Retention, config: Config, now: int, dry_run: bool
) -> Iterator[Trimmed]:
    """Removes capture files that lie on a disk as the lake has taken them in, once all of their records are older than
    the limit of their link; the lake knows them on. In a store its own rules of age do that."""
    for links, limit, why in _groups(lake, retention, config, "captures"):
        files = _capture_files(lake, config, links, now, True)
        before = gone_before(files.values(), limit, now)
        yield from _remove_captures({path: size for path, (end, size) in files.items() if end < before}, why, dry_run)


def _capture_files(
    lake: layout.Lake, config: Config, links: Sequence[str], now: int, settled: bool
) -> dict[Path, tuple[int, int]]:
    """Finds the capture files of links that lie on a disk as they were taken in: when their records are over, ns (one
    that is still written: `now`), and their size. `settled`: only those that a later look has seen unchanged."""
    captures, seen = read_captures(lake, links, config), seen_by_attempt(lake)
    ends: Counter[str] = Counter()
    for link in links:
        rows = captures[link]
        for attempt, growing, largest, covers in zip(
            *(rows.values(name) for name in ("attempt", "growing", "largest", "covers_to")), strict=True
        ):
            ends[attempt] = max(ends[attempt], largest or 0, covers, now if growing else 0)
    files: dict[Path, tuple[int, int]] = {}
    for attempt, end in ends.items():
        for row in seen.get(attempt, ()):
            place = location(lake, row.path)
            if row.state == READ and (row.settled or not settled) and not is_address(place):
                with suppress(OSError):
                    status = Path(place).stat()
                    if row.looks_like(status.st_size, status.st_mtime_ns):
                        files[Path(place)] = end, status.st_size
    return files


def _remove_captures(files: dict[Path, int], why: str, dry_run: bool) -> Iterator[Trimmed]:
    by_folder: dict[Path, list[Path]] = {}
    for path in sorted(files):
        by_folder.setdefault(path.parent, []).append(path)
    for folder, gone in by_folder.items():
        yield Trimmed("captures", folder, len(gone), sum(files[path] for path in gone), why)
        if not dry_run:
            paths.remove(*gone)


def trim_malformed(
    lake: layout.Lake, retention: Retention, config: Config, now: int, dry_run: bool
) -> Iterator[Trimmed]:
    """Removes malformed rows of captures whose packets are gone, or go as well: before, runs count them (A1)."""
    groups = [*_groups(lake, retention, config, "malformed")]
    tops = _tops(lake, retention, config, now) if groups else {}
    for links, limit, why in groups:
        captures, files = read_captures(lake, links, config), PacketFiles.of(lake)
        files = replace(files, horizons={**files.horizons, **{link: top for link, (top, _) in tops.items()}})
        ends = {row.attempt: row.covers_to for link in links for row in captures[link] if files.is_closed(row)}
        if ends:
            where = pc.field("link").isin(links) & pc.field("attempt").isin(list(ends))
            yield from _trim_rows(lake, "malformed", lake.malformed, where, "attempt", ends, limit, why, now, dry_run)


def trim_quarantine(lake: layout.Lake, retention: Retention, now: int, dry_run: bool) -> Iterator[Trimmed]:
    """Removes rows that broke a rule in an interval that is long over."""
    if (limit := retention.quarantine) is not None:
        ends = tables.read_rows(lake.quarantine, pa.schema([layout.QUARANTINE.field("interval_end")]))
        known = {end: end for end in ends.column("interval_end").unique().to_pylist()}
        why = f"[retention] quarantine = {_words(limit)}"
        of_all = pc.field("interval_end") >= 0
        yield from _trim_rows(
            lake, "quarantine", lake.quarantine, of_all, "interval_end", known, limit, why, now, dry_run
        )


def _trim_rows(
    lake: layout.Lake,
    what: str,
    path: PurePath,
    where: Any,
    column: str,
    ends: dict[Any, int],
    limit: Keep,
    why: str,
    now: int,
    dry_run: bool,
) -> Iterator[Trimmed]:
    """Removes rows of a ledger that a condition selects, by when what their `column` names is over, ns. A row has its
    share of the bytes of the ledger."""
    table = tables.open_table(path)
    if table is None:
        return
    schema = pa.schema(pa.schema(table.schema().to_arrow()))
    rows = tables.read_rows(path, pa.schema([schema.field(column)]), where).column(column).to_pylist()
    live = tables.live_files(table)
    share = sum(row["size_bytes"] for row in live) / max(1, sum(row["num_records"] for row in live))
    counts = Counter(rows)
    items = [(ends[value], round(count * share)) for value, count in counts.items()]
    before = gone_before(items, limit, now)
    values = [value for value in counts if ends[value] < before]
    if values:
        count = sum(counts[value] for value in values)
        yield Trimmed(what, path, 0, round(count * share), f"{why}: {count:,} rows")
        if not dry_run:
            tables.replace_rows(path, schema.empty_table(), where & pc.field(column).isin(values), lake.fence)


def trim_reports(lake: layout.Lake, retention: Retention, now: int, dry_run: bool) -> Iterator[Trimmed]:
    """Removes pages of audits that were written long ago; what an audit found stays in its ledgers."""
    if (limit := retention.reports) is None:
        return
    pages = [each for folder in paths.folders(lake.reports) for each in paths.listed(folder)]
    pages = [each for each in pages if each.path.parent.name not in ("assets", "suites")]
    before = gone_before(((each.at, each.size) for each in pages), limit, now)
    if gone := [each for each in pages if each.at < before]:
        size = sum(each.size for each in gone)
        yield Trimmed("reports", lake.reports, len(gone), size, f"[retention] reports = {_words(limit)}")
        if not dry_run:
            paths.remove(*(each.path for each in gone))
