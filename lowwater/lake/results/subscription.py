"""Subscriptions to published streams: every row once, across restarts, and restated intervals as such."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as pads

from lowwater import documents, instants, limits
from lowwater.catalog.schemas import LAST
from lowwater.errors import BehindError, BusyError, LakeError, nearest
from lowwater.lake import locks, open_tables
from lowwater.lake.layout import Lake, lake_to_read
from lowwater.lake.ledgers.statements import QUERY, Statement, new_name, retired, retired_words
from lowwater.lake.results.published import LogEntry, commit_digest, last_note, read_entry, table_state
from lowwater.lake.results.published_rows import of_query
from lowwater.lake.tables import lake_errors, live_files, open_table, plain_type, safe_name
from lowwater.storage import paths, untrusted
from lowwater.storage.locks import Fence, HeldError, LostError, hold_lock

if TYPE_CHECKING:
    from deltalake import DeltaTable


# Where positions are kept: by the subscriber, in a file, in the lake.

BEGIN = -(1 << 62)
"""An instant before all rows, ns."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Position:
    """Where a subscriber is in the log of a stream."""

    table: str
    version: int  # the last one that was read
    # while the rows are read that were there at the beginning: end of what was read of them, ns; else None
    within: int | None = None
    since: int | None = None  # first instant that the subscriber asked for, ns; None for all
    # of the commit of this version: after a restore another one may have its number. Empty in older positions
    digest: str = ""

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def parse(text: str, where: str) -> Position:
        """Reads a position. Raises LakeError if it is none."""
        try:
            values = documents.json_value(text)
            within, since = values["within"], values["since"]
            return Position(
                str(values["table"]),
                int(values["version"]),
                None if within is None else int(within),
                None if since is None else int(since),
                str(values.get("digest", "")),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LakeError(
                f"{where}: it is no position of a subscriber: {text[:80]!r}",
                "give what `Change.position` was; without a position a subscription begins again",
            ) from None


@dataclass
class Keeper:
    """Keeps the position of one subscriber, and nobody else writes it meanwhile."""

    stream: str
    file: PurePath | None  # of the position; None if the subscriber keeps it
    known: Position | None  # position that the subscriber gave
    consumer: PurePath | None  # file in the lake that says who subscribes
    name: str
    _fence: Fence | None = None
    _held: ExitStack = field(default_factory=ExitStack)

    def load(self) -> Position | None:
        """Returns the stored position; None at the beginning. Raises LakeError if it cannot be read."""
        if self.file is None:
            return self.known
        try:
            text = paths.read(self.file).decode()
            if self.file == self.consumer:
                text = json.dumps(documents.json_value(text)["position"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "strerror", None) or "it is no position of a subscriber"
            hint = "check the file; without it the subscription begins again"
            raise LakeError(f"{self.file}: cannot be read: {reason}", hint) from None
        return Position.parse(text, str(self.file))

    def store(self, position: str, version: int, end: int) -> None:
        """Stores a position. Raises BusyError if another process has taken the subscription over, and LakeError if it
        cannot be written."""
        try:
            if self._fence is not None:
                self._fence.require()
            if self.file is not None and self.file != self.consumer:
                _write_whole(Path(self.file), position + "\n")
            if self.consumer is not None:
                entry = {"name": self.name, "stream": self.stream, "position": documents.json_value(position)}
                entry |= {"version": version, "until": end, "seen": time.time_ns()}
                paths.write(self.consumer, json.dumps(entry).encode(), fence=self._fence)
        except LostError:
            raise BusyError(f"subscriber {self.name}: another process has taken its position over", ONE) from None
        except OSError as error:
            where = self.file or self.consumer
            raise LakeError(
                f"{where}: the position cannot be written: {error.strerror}", "check that its disk can be written"
            ) from None

    def close(self) -> None:
        self._held.close()


ONE = "let one process subscribe with a position, or give each a position of its own"


def hold_keeper(lake: Lake, stream: str, position: str | Path | None, name: str, after: str | None) -> Keeper:
    """Makes the keeper of a subscriber and holds its lock; the arguments are those of `subscribe`.
    Raises LakeError if the name or the position is none, and BusyError if another process holds the position."""
    if name and not _NAME.fullmatch(name):
        raise LakeError(f"subscriber {name!r}: no name of a subscriber", "write letters, digits, _, . and -")
    if position is not None and after is not None:
        raise LakeError(f"stream {stream}: both a position file and `after`", "keep the position in one place")
    consumer = consumers_folder(lake, stream) / f"{name}.json" if name else None
    known = Position.parse(after, "after") if after else None
    file = Path(position).absolute() if position is not None else consumer if after is None else None
    keeper = Keeper(stream, file, known, consumer, name)
    try:
        if name:
            keeper._fence = keeper._held.enter_context(
                locks.hold(lake, f"subscriber {name} of {stream}", sees=[lake.table(stream)])
            )
        if position is not None:
            keeper._held.enter_context(hold_lock(Path(f"{Path(position).absolute()}.lock")))
    except HeldError as error:
        keeper.close()
        raise BusyError(f"{position}: process {error.holder} subscribes with this position", ONE) from None
    except OSError as error:
        keeper.close()
        raise LakeError(f"{position}: cannot be locked: {error.strerror}", "name a file in a folder of yours") from None
    return keeper


@dataclass(frozen=True)
class Consumer:
    """A subscriber that the lake knows."""

    name: str
    version: int
    until: int  # end of the range that it read last, ns
    seen: int  # when it was done with this range, ns
    digest: str = ""  # of the commit of this version; empty if unknown


def consumers_folder(lake: Lake, stream: str) -> PurePath:
    """Folder of the lake with a file for each named subscriber of a stream."""
    return lake.root / "consumers" / safe_name(stream)


def consumers_of(lake: Lake, stream: str) -> list[Consumer]:
    """Lists the named subscribers of a stream by name; a file that cannot be read is left out."""
    consumers = []
    for path in paths.children(consumers_folder(lake, stream)):
        try:
            entry = documents.json_value(paths.read(path, limits.STATE_BYTES))
            values = int(entry["version"]), int(entry["until"]), int(entry["seen"])
            digest = str(entry.get("position", {}).get("digest", ""))
            consumers.append(Consumer(path.name.removesuffix(".json"), *values, digest))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return consumers


def _write_whole(path: Path, text: str) -> None:
    """Replaces a file by a text, which is on the disk before the name changes."""
    waiting = path.with_name(f"{path.name}.{os.getpid()}")
    with waiting.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(waiting, path)


# `from lowwater import subscribe` is this `subscribe`.


LOOK = 0.1
"""Most seconds until a subscription that waits sees that it is to stop."""

AGAIN = "begin again without a position: each change says which range its rows replace"


def _gone(said: Statement) -> LakeError:
    """The error of who waits for rows of a query that is made no more."""
    hint = f"subscribe to {said.what}" if said.what else "end the subscription"
    return LakeError(
        f"stream {retired_words(said)}",
        f"{hint}; if it is made again: `lowwater retire` query {said.query} with --undo",
    )


@dataclass(frozen=True)
class Change:
    """The rows of a range of time, as a version of a stream has them. They replace all earlier rows of the range."""

    stream: str
    version: int  # version of the table, the number of the commit
    start: int  # first instant of the range, ns since the epoch; `_last` says to which range a row belongs
    end: int  # end of the range, ns since the epoch, exclusive
    restated: bool  # whether a part of the range was published before: its old rows are gone
    late: bool  # whether an earlier promise no longer holds: the range begins before the furthest published instant
    snapshot: bool  # whether it is a part of what was published before the subscription began
    # temporal attribute -> bound: no row to come has a smaller value (greater, if the attribute decreases), unless its
    # change is late. Empty if nothing is promised
    promise: Mapping[str, int]
    furthest: int  # end of all that is published, ns since the epoch; rows to come that are not late are after it
    position: str  # where the subscription goes on after this change; text for `subscribe(..., after=...)`
    _read: Callable[[], Iterator[pa.RecordBatch]] = field(repr=False, compare=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in Arrow batches: the columns of the query, then `_last` (ns).
        Raises BehindError if the files of this version are no longer there, and LakeError if they cannot be read."""
        return self._read()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields the rows one by one, with the errors of `batches`."""
        for batch in self.batches():
            yield from batch.to_pylist()


class Subscription:
    """A subscription to a stream; `subscribe` makes it, and says what its arguments are. It is a context manager, and
    its iterator waits for changes.

    The iterator stores the position of a change when the next one is asked for: then the work on it is done.
    """

    def __init__(self, lake: Lake, stream: str, keeper: Keeper, since: int | None, history: bool, wait: float) -> None:
        self._lake, self._path = lake, lake.table(stream)
        self.stream, self._keeper, self._wait = stream, keeper, wait
        self._stopped = False
        self._parts: list[tuple[int, list[PurePath]]] | None = None
        table = self._table()
        stored = keeper.load()
        self._at = self._start(table, since, history) if stored is None else stored
        self._require(table)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Change]:
        while not self._stopped:
            change = self.poll()
            if change is None:
                self._pause()
                continue
            yield change
            self.done(change)

    def _pause(self) -> None:
        end = time.monotonic() + self._wait
        while not self._stopped and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOK))  # in steps: an event is not safe to set in the handler of a signal

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the query, without `_last`."""
        return tuple(column.name for column in pa.schema(self._table().schema().to_arrow()) if of_query(column))

    @property
    def instants(self) -> frozenset[str]:
        """Columns of the query whose values are instants: their promises are in microseconds since 1970."""
        schema = pa.schema(self._table().schema().to_arrow())
        return frozenset(column.name for column in schema if of_query(column) and pa.types.is_timestamp(column.type))

    def stop(self) -> None:
        """Ends the iterator at its next look at the log; for other threads and handlers of signals."""
        self._stopped = True

    def close(self) -> None:
        self._keeper.close()

    def done(self, change: Change) -> None:
        """Stores the position of a change, if the subscription keeps one. Raises LakeError if it cannot be stored."""
        self._keeper.store(change.position, change.version, change.end)

    def poll(self) -> Change | None:
        """Returns the change after the last one that was returned; None if nothing more is published yet.
        Raises BehindError if the log no longer has what comes next, and LakeError if the log cannot be read, another
        program changed rows, or nothing more comes since the query is retired."""
        while True:
            if self._at.within is not None:
                change = self._next_part()
                if change is not None:
                    return change
            entry = self._next_entry()
            if entry is None:
                if (said := retired(self._lake).get(self.stream)) is not None:
                    raise _gone(said)
                return None
            self._require_history(entry.version)
            at = replace(self._at, version=entry.version, digest=entry.digest)
            change = self._change(entry, at.text())
            self._at = at  # a commit that cannot be told of is met again by whoever asks again
            if change is not None:
                return change

    def _table(self) -> DeltaTable:
        table = open_table(self._path)
        if table is None:
            if (said := retired(self._lake).get(self.stream)) is not None:
                raise _gone(said)
            now, called = new_name(self._lake, QUERY, self.stream)
            if now:
                raise LakeError(called, f"subscribe to {now}, with the same position: nothing is read twice")
            names = [path.name for path in paths.folders(self._path.parent)]
            hint = nearest(self.stream, names) or "`lowwater streams` lists the streams, `lowwater backfill` runs them"
            raise LakeError(f"there is no published stream {self.stream!r}", hint)
        return table

    def _start(self, table: DeltaTable, since: int | None, history: bool) -> Position:
        within = (BEGIN if since is None else since) if history else None
        version = table.version()
        return Position(str(table.metadata().id), version, within, since, commit_digest(self._path, version))

    def _require(self, table: DeltaTable) -> None:
        """Checks that the position is one of this table."""
        if str(table.metadata().id) != self._at.table:
            raise BehindError(
                f"stream {self.stream}: its table was made anew since, or the position is of another stream", AGAIN
            )
        if table.version() < self._at.version:
            raise BehindError(
                f"stream {self.stream}: its log ends at version {table.version()}, before the position "
                f"{self._at.version}: it is not the same log",
                AGAIN,
            )
        self._require_history(table.version())

    def _require_history(self, newest: int) -> None:
        """Checks that the commit of the position is still the one that was read: a restored log has others."""
        if not self._at.digest or (found := commit_digest(self._path, self._at.version)) == self._at.digest:
            return
        if not found and newest == self._at.version:
            return  # the entry went with a clean-up of the log, and nothing has come since
        if not found:
            raise self._gone(self._at.version, newest)
        raise BehindError(
            f"stream {self.stream}: version {self._at.version} of its log has another commit than that which was read: "
            "the table was restored, or values were erased from its log",
            AGAIN,
        )

    def _next_entry(self) -> LogEntry | None:
        """Reads the commit after the position; None if there is none yet."""
        entry = read_entry(self._path, self._at.version + 1)
        if entry is not None:
            return entry
        table = self._table()
        self._require(table)
        if table.version() == self._at.version:
            return None
        entry = read_entry(self._path, self._at.version + 1)  # unless it was written just now
        if entry is None:
            raise self._gone(self._at.version + 1, table.version())
        return entry

    def _gone(self, version: int, newest: int) -> BehindError:
        text = f"stream {self.stream}: version {version} is no longer in its log, which is at version {newest}"
        return BehindError(text, AGAIN)

    def _change(self, entry: LogEntry, position: str) -> Change | None:
        publication = entry.publication
        if publication is None:
            if entry.changes and not self._is_mended(entry):
                raise LakeError(
                    f"stream {self.stream}: version {entry.version} changes rows and does not say of which interval: "
                    "another program wrote it, or an older version of Lowwater",
                    f"run `lowwater backfill`, which publishes its intervals again, then go on; or {AGAIN}",
                )
            return None
        start = publication.start if self._at.since is None else max(publication.start, self._at.since)
        if start >= publication.end:
            return None
        untrusted.require_names(self._path, entry.added)
        files = [self._path / unquote(name) for name in entry.added]
        return Change(
            self.stream,
            entry.version,
            start,
            publication.end,
            publication.restated,
            publication.late,
            False,
            publication.promise,
            publication.ranges[-1][1],
            position,
            lambda: self._rows(files, entry.version, start, publication.end),
        )

    def _is_mended(self, entry: LogEntry) -> bool:
        """Whether all that another program changed was published again since: these changes come later."""
        state = table_state(self._path)
        if state is None or state.note is None or state.note.since is None:
            return False
        left = {damage.why for damage in state.damage}
        return not any(damage.why in left for damage in entry.damage)

    def _next_part(self) -> Change | None:
        """Returns the next part of the rows that were there when the subscription began: those up to the end of an
        hour. The parts cover all time up to the furthest published instant."""
        within, version = self._at.within, self._at.version
        assert within is not None
        if self._parts is None:
            self._parts = self._files_by_hour(within)
        while self._parts and (self._parts[0][0] + 1) * instants.HOUR <= within:
            self._parts.pop(0)
        hour, files = self._parts[0] if self._parts else (None, [])
        end, promise = within if hour is None else (hour + 1) * instants.HOUR, dict[str, int]()
        last = len(self._parts) <= 1
        note = last_note(self._path, version) if last else None
        if note is not None and note.ranges[-1][1] > within:
            end, promise = note.ranges[-1][1], dict(note.promise)
        self._parts = self._parts[1:]  # behind all that may fail: whoever asks again gets this part
        self._at = replace(self._at, within=None if last else end)
        if end <= within:
            return None
        position, rows = self._at.text(), lambda: self._rows(files, version, within, end)
        return Change(self.stream, version, within, end, False, False, True, promise, end, position, rows)

    def _files_by_hour(self, within: int) -> list[tuple[int, list[PurePath]]]:
        """Returns the hours with rows from an instant (ns) on, and the files of each, in order."""
        files: dict[int, list[PurePath]] = {}
        for row in sorted(live_files(self._snapshot()), key=lambda row: (row.get("min._last") or 0, row["path"])):
            if (int(row["partition._hour"]) + 1) * instants.HOUR > within:
                path = self._path / unquote(row["path"])
                files.setdefault(int(row["partition._hour"]), []).append(path)
        return sorted(files.items())

    def _snapshot(self) -> DeltaTable:
        """Opens the table at the version of the position."""
        from deltalake.exceptions import DeltaError

        try:
            return open_tables.at_version(self._path, self._at.version)
        except DeltaError:
            raise BehindError(
                f"stream {self.stream}: version {self._at.version} is no longer in its log", AGAIN
            ) from None

    def _rows(self, files: list[PurePath], version: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of files with `_last` in [start, end), ns."""
        schema = pa.schema(self._table().schema().to_arrow())
        given = [*filter(of_query, schema), schema.field(LAST)]  # a later column of the query lies behind `_last`
        columns = pa.schema([pa.field(column.name, plain_type(column.type)) for column in given])
        chosen = (pads.field("_last") >= start) & (pads.field("_last") < end)
        with lake_errors(f"{self._path}: version {version} cannot be read"):
            try:
                for file in files:
                    dataset = pads.dataset(str(paths.local(file)), columns, format="parquet", partitioning=None)
                    scan = dataset.to_batches(filter=chosen, batch_size=limits.BATCH_ROWS, batch_readahead=2)
                    yield from (batch for batch in scan if batch.num_rows)
            except FileNotFoundError:
                raise BehindError(
                    f"stream {self.stream}: the files of version {version} are gone: `lowwater maintain` removes files "
                    "that were replaced long ago",
                    f"{AGAIN}, and read more often than every [retention] versions",
                ) from None


def subscribe(
    lake: str | PurePath,
    stream: str,
    *,
    position: str | Path | None = None,
    name: str = "",
    after: str | None = None,
    since: str | int | None = None,
    history: bool = True,
    wait: float = 1.0,
) -> Subscription:
    """Subscribes to a published stream.

    Each change is the whole content of a range of time: its rows replace those that came before for this range. With
    `after`, exactly once is up to the subscriber: it stores `Change.position` in the transaction that stores the rows.
    With `position` or `name`, a subscriber that dies at work on a change gets the same change again.

    Args:
        lake: folder of the lake, or its address such as `s3://bucket/prefix`.
        position: file of the subscriber in which the position is kept.
        name: name of the subscriber, which `lowwater streams` then shows among the consumers. The lake keeps the
            position, if neither `position` nor `after` is given.
        after: `position` of the last change that was worked on; None to begin, or empty text to begin and keep no
            position elsewhere.
        since: leave out rows before this instant, ISO 8601 or ns since the epoch; of use at the beginning only.
        history: whether to begin with the rows that are published already.
        wait: seconds between two looks at the log.

    Raises:
        LakeError: there is no such lake or stream, or the position cannot be read.
        BehindError: the log no longer has what comes after the position.
        BusyError: another process subscribes with the same position.
    """
    opened = lake_to_read(lake)
    try:
        first = instants.parse_instant(since) if isinstance(since, str) else since
    except ValueError as error:
        raise LakeError(f"since: {error}", "write an instant, or ns since the epoch") from None
    keeper = hold_keeper(opened, stream, position, name, after)
    try:
        return Subscription(opened, stream, keeper, first, history, wait)
    except BaseException:
        keeper.close()
        raise


def newest_begin(lake: str | PurePath, stream: str) -> int | None:
    """Returns the begin of the last interval of a stream, ns since the epoch, if its log tells; else None."""
    path = Lake(paths.lake_path(lake)).table(stream)
    table = open_table(path)
    note = None if table is None else last_note(path, table.version())
    if note is None:
        return None
    # A commit may publish several; older versions of Lowwater wrote no numbers.
    inside = [end - start for start, end in note.recent if note.start <= start and end <= note.end]
    return note.ranges[-1][1] - min(inside, default=note.end - note.start)
