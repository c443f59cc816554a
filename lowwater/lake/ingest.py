"""Captures into the lake: decoded by tasks, each made visible by one last row of the ledger.

The first stage of the pipeline. Files of packets and malformed rows are committed under the name of an attempt, then
the row of `captures` names that attempt, then what it replaced is removed: readers follow the ledger, so a crash
between any two commits shows either the old capture or the new one, and a retry clears the rest.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from lowwater.capture.reader import DECODER_VERSION, digest
from lowwater.config import LINK_NAME, Config, Link, format_duration, format_instant
from lowwater.errors import CaptureError, ConfigError, LakeError, LowwaterError, OverlapError
from lowwater.lake.layout import MALFORMED, Lake
from lowwater.lake.ledger import Capture, put_capture, read_captures
from lowwater.lake.locks import hold
from lowwater.lake.packing import Packed, PackTask, pack
from lowwater.lake.rotation import declared_coverage
from lowwater.lake.tables import append_rows, commit, compact, live_files, quote, read_rows, safe_name, swap_files

Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Applies a picklable function to each argument, in order of the arguments: in-process or on Spark."""

Coverage = tuple[int, int]

WAIT = 3600.0
"""Seconds to wait for another ingest of the same link: it may decode gigabytes first."""


@dataclass(frozen=True)
class Ingested:
    """What became of one file.

    Attributes:
        path: as given.
        capture: its row of the ledger.
        state: `added`, `replaced` (decoder, max_jump or coverage changed) or `known` (nothing was done).
        note: what the user should know, or an empty string.
    """

    path: Path
    capture: Capture
    state: str
    note: str = ""


def in_process(function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
    """The runner without workers."""
    return [function(argument) for argument in arguments]


def identify(path: Path) -> str | LowwaterError:
    """The sha256 of a file: a task, like `packing.pack`."""
    try:
        return digest(path)
    except LowwaterError as error:
        return error
    except OSError as error:
        return CaptureError(f"{path}: cannot be read: {error.strerror}", "check the path")


def ingest(
    lake: Lake,
    link: str,
    files: Iterable[Path],
    config: Config,
    covers: Coverage | None = None,
    runner: Runner = in_process,
) -> list[Ingested]:
    """Ingests captures of one link; idempotent by (link, coverage, sha256).

    Equal bytes with packets are one capture of the link, whatever they are said to cover; an empty file is one for each
    coverage. A file whose records are there already under the same coverage, decoder and effective max_jump
    adds nothing. A new declaration of coverage for the same records replaces the old one.

    Args:
        lake: as `open_lake` gives it.
        link: name of the link.
        files: capture files.
        config: of the lake.
        covers: declared coverage [from, to), ns, of the one file; otherwise the link's pattern and rotation say it.
        runner: runs the tasks.

    Returns:
        One entry a file, in order.

    Raises:
        ConfigError: if the link is not configured while others are, or `covers` is empty or given for several files.
        CaptureError: if files are no captures; the others are ingested nevertheless.
        OverlapError: if a capture overlaps another by more than the skew of the link (T1).
        LakeError: if the lake cannot be written.
    """
    if not re.fullmatch(LINK_NAME, link):
        raise ConfigError(
            f"{link!r} is no name of a link", "use letters, digits, '_', '.', '-', and '/' before an interface"
        )
    paths = [Path(path) for path in files]
    settings = config.link(link)
    if covers is not None and (len(paths) != 1 or covers[1] <= covers[0]):
        raise ConfigError(
            "--covers FROM/TO declares what one file covers, and TO is after FROM", "ingest the files one by one"
        )
    found: dict[int, Ingested] = {}
    errors: list[LowwaterError] = []
    # Held while decoding too: whatever the ledger does not name is then the leftover of a dead attempt.
    with hold(lake, f"ingest of {link}", WAIT):
        rows = _Rows(lake, link)
        tasks: dict[int, PackTask] = {}
        coverage = [covers or declared_coverage(settings, path) for path in paths]
        for index, sha256 in enumerate(runner(identify, paths)):
            if isinstance(sha256, LowwaterError):
                errors.append(sha256)
                continue
            same = rows.same(sha256, coverage[index])
            if same is not None and same.decoder_version == DECODER_VERSION and same.admits(settings):
                found[index] = _redeclare(lake, rows, paths[index], same, coverage[index], settings)
            else:
                tasks[index] = PackTask(lake.packets, link, paths[index], sha256, settings.jump, uuid.uuid4().hex[:12])
        for index, result in zip(tasks, runner(pack, list(tasks.values())), strict=True):
            try:
                if isinstance(result, LowwaterError):
                    raise result
                found[index] = _add(lake, rows, tasks[index], result, coverage[index], settings)
            except LowwaterError as error:
                errors.append(error)
        _clean(lake, link, {row.attempt for row in rows.all})
        for table in (lake.captures, lake.malformed):
            compact(table)
    if errors:
        _raise(errors)
    return [found[index] for index in range(len(paths))]


def _raise(errors: list[LowwaterError]) -> None:
    first = errors[0]
    if len(errors) > 1:
        others = "\n".join(str(error) for error in errors[1:])
        raise type(first)(f"{first.message}\n{others}", first.hint) from first
    raise first


class _Rows:
    """The ledger's rows of one link, while the lock of its ingest is held."""

    def __init__(self, lake: Lake, link: str) -> None:
        self.lake = lake
        self.all = list(read_captures(lake, [link])[link])

    def same(self, sha256: str, declared: Coverage | None) -> Capture | None:
        """The row that a file with this coverage is, or replaces."""
        for row in self.all:
            if row.capture == sha256 and (row.packets or row.declared == declared):
                return row
        return None

    def put(self, row: Capture, settings: Link) -> bool:
        """Writes a row in the place of those it replaces; whether there were any."""
        replaced = [each for each in self.all if _replaces(row, each)]
        rest = [each for each in self.all if not _replaces(row, each)]
        _refuse_overlap(row, rest, settings)
        put_capture(self.lake, row, replaced)
        self.all = [*rest, row]
        return bool(replaced)


def _replaces(new: Capture, old: Capture) -> bool:
    """Whether one row stands for the other's file: the same, or the whole of a file that was cut."""
    if new.capture == old.capture:
        # An empty file stands for many hours, so there its coverage tells (T5).
        return bool(new.packets) or new.declared == old.declared
    return not old.ended_cleanly and old.first is not None and new.first == old.first and new.bytes > old.bytes


def _redeclare(
    lake: Lake, rows: _Rows, path: Path, old: Capture, declared: Coverage | None, settings: Link
) -> Ingested:
    """The same records: nothing to do, or only another declaration of what they cover."""
    if declared is None or declared == old.declared:
        return Ingested(path, old, "known", f"ingested already as {old.path}")
    row = _with_coverage(old, declared)
    rows.put(row, settings)
    return Ingested(path, row, "replaced", f"now covers {_range(row)}")


def _add(
    lake: Lake, rows: _Rows, task: PackTask, packed: Packed, declared: Coverage | None, settings: Link
) -> Ingested:
    row = _with_coverage(_row(task, packed), declared)
    swap_files(lake.packets, packed.files, lambda table: [])
    if packed.malformed:
        append_rows(lake.malformed, _malformed_rows(task, packed))
    replaced = rows.put(row, settings)
    return Ingested(task.path, row, "replaced" if replaced else "added", _note(row))


def _note(row: Capture) -> str:
    if row.covers_from == row.covers_to:
        return "it covers nothing: it has no packet and no declared coverage; ingest it with --covers FROM/TO"
    return "" if row.ended_cleanly else f"it is cut: it covers {_range(row)} only"


def _row(task: PackTask, packed: Packed) -> Capture:
    facts = packed.summary
    only = facts.interfaces[0]
    return Capture(
        link=task.link,
        capture=task.sha256,
        path=str(task.path),
        bytes=facts.bytes,
        format=facts.format,
        link_type=only.interface.link_type,
        packets=facts.packets,
        undecoded=facts.undecoded,
        malformed=facts.malformed,
        first=only.first,
        last=only.last,
        smallest=packed.smallest,
        largest=only.largest,
        median=only.median,
        covers_from=0,
        covers_to=0,
        declared_from=None,
        declared_to=None,
        ended_cleanly=facts.ended_cleanly,
        largest_ahead=facts.largest_ahead,
        smallest_jump=facts.smallest_jump,
        decoder_version=DECODER_VERSION,
        ingested_at=time.time_ns(),
        attempt=task.attempt,
    )


def _with_coverage(row: Capture, declared: Coverage | None) -> Capture:
    """The row with its coverage (T5, and the decision in ARCHITECTURE.md on captures that were cut).

    As declared if it ended cleanly; a cut one from the declared start to the clock at its last good record: that it
    was cut says nothing about its beginning. Without a declaration, from the first record to that clock.
    """
    start, end = (row.first, row.largest) if declared is None else declared
    if declared is not None and not row.ended_cleanly:
        end = max(declared[0], min(declared[1], row.largest or 0))
    if start is None or end is None:
        start = end = 0
    known = declared or (None, None)
    return replace(row, covers_from=start, covers_to=end, declared_from=known[0], declared_to=known[1])


def _refuse_overlap(row: Capture, rows: Sequence[Capture], settings: Link) -> None:
    for other in rows:
        overlap = min(row.covers_to, other.covers_to) - max(row.covers_from, other.covers_from)
        if overlap > settings.skew:
            name = row.link
            raise OverlapError(
                f"link {name!r}: {row.path} ({_range(row)}) and {other.path} ({_range(other)}) overlap by "
                f"{format_duration(overlap)}, more than the link's skew of {format_duration(settings.skew)}",
                f"they are of two interfaces: ingest one as link '{name}-a', the other as '{name}-b', "
                "and name both in a set; or raise the skew of the link",
            )


def _range(row: Capture) -> str:
    return f"{format_instant(row.covers_from)} to {format_instant(row.covers_to)}"


def _malformed_rows(task: PackTask, packed: Packed) -> pa.Table:
    rows = [
        {
            "link": task.link,
            "capture": task.sha256,
            "position": each.position,
            "offset": each.offset,
            "length": each.length,
            "reason": each.reason,
            "arrival": each.arrival,
            "attempt": task.attempt,
        }
        for each in packed.malformed
    ]
    return pa.Table.from_pylist(rows, schema=MALFORMED)


def _clean(lake: Lake, link: str, attempts: set[str]) -> None:
    """Removes what attempts other than the ledger's left of a link: committed files and rows, files on disk."""

    def dead(path: str) -> bool:
        return path.rpartition("-")[2].removesuffix(".parquet") not in attempts

    folder = lake.packets / f"link={safe_name(link)}"
    on_disk = [path for path in folder.glob("hour=*/*.parquet") if dead(path.name)]
    if on_disk:  # a file stays on disk until its commit is undone, so this misses none
        swap_files(
            lake.packets,
            [],
            lambda table: [row for row in live_files(table) if row["partition.link"] == link and dead(row["path"])],
        )
    stray = (pads.field("link") == link) & ~pads.field("attempt").isin(pa.array(sorted(attempts), pa.string()))
    if read_rows(lake.malformed, MALFORMED, stray).num_rows:
        kept = ", ".join(quote(attempt) for attempt in sorted(attempts)) or "''"
        predicate = f"link = {quote(link)} AND attempt NOT IN ({kept})"
        commit(lake.malformed, lambda table: table.delete(predicate))
    try:
        for path in on_disk:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise LakeError(f"{folder}: cannot be cleaned: {error.strerror}", "check that the lake is writable") from error
