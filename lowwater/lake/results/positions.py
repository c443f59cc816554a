"""Positions of subscribers in the log of a stream, and where they are kept: by the subscriber, in a file, in the lake.

Used by `subscription`; `lowwater streams` lists the subscribers that the lake knows.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath

from lowwater.documents import LARGEST_STATE, json_value
from lowwater.errors import BusyError, LakeError
from lowwater.lake.layout import Lake
from lowwater.lake.locks import hold
from lowwater.lake.tables import safe_name
from lowwater.storage import paths
from lowwater.storage.leases import Fence, LostError
from lowwater.storage.locks import HeldError, hold_lock

BEGIN = -(1 << 62)
"""An instant before all rows, ns."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Position:
    """Where a subscriber is in the log of a stream.

    Attributes:
        table: id of the table.
        version: the last version that was read.
        within: while the rows are read that were there at the beginning: end of what was read of them, ns; else None.
        since: first instant that the subscriber asked for, ns since the epoch; None for all.
        digest: digest of the commit of this version: after a restore another one may have its number. Empty in
            positions of older versions of Lowwater.
    """

    table: str
    version: int
    within: int | None = None
    since: int | None = None
    digest: str = ""

    def text(self) -> str:
        """The position as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def parse(text: str, where: str) -> Position:
        """Reads a position.

        Args:
            text: result of `text`.
            where: where it was, for the message.

        Raises:
            LakeError: it is no position.
        """
        try:
            values = json_value(text)
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
                "give what `change.position` was; without a position a subscription begins again",
            ) from None


@dataclass
class Keeper:
    """Keeps the position of one subscriber, and nobody else writes it meanwhile.

    Attributes:
        place: file of the position; None if the subscriber keeps it.
        known: position that the subscriber gave.
        consumer: file in the lake that says who subscribes, or None.
        name: name of the subscriber.
        stream: name of the stream.
    """

    stream: str
    place: PurePath | None = None
    known: Position | None = None
    consumer: PurePath | None = None
    name: str = ""
    _fence: Fence | None = None
    _held: ExitStack = field(default_factory=ExitStack)

    def load(self) -> Position | None:
        """Returns the stored position; None at the beginning.

        Raises:
            LakeError: it cannot be read.
        """
        if self.place is None:
            return self.known
        try:
            text = paths.read(self.place).decode()
            if self.place == self.consumer:
                text = json.dumps(json_value(text)["position"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "strerror", None) or "it is no position of a subscriber"
            hint = "check the file; without it the subscription begins again"
            raise LakeError(f"{self.place}: cannot be read: {reason}", hint) from None
        return Position.parse(text, str(self.place))

    def store(self, position: str, version: int, end: int) -> None:
        """Stores a position.

        Args:
            position: the position as text.
            version: version of the table that was read.
            end: end of the range that was read, ns since the epoch.

        Raises:
            BusyError: another process has taken the subscription over.
            LakeError: it cannot be written.
        """
        try:
            if self._fence is not None:
                self._fence.require()
            if self.place is not None and self.place != self.consumer:
                _write_whole(Path(self.place), position + "\n")
            if self.consumer is not None:
                entry = {"name": self.name, "stream": self.stream, "position": json_value(position)}
                entry |= {"version": version, "until": end, "seen": time.time_ns()}
                paths.write(self.consumer, json.dumps(entry).encode(), fence=self._fence)
        except LostError:
            raise BusyError(f"subscriber {self.name}: another process has taken its position over", ONE) from None
        except OSError as error:
            where = self.place or self.consumer
            raise LakeError(
                f"{where}: the position cannot be written: {error.strerror}", "check that its disk can be written"
            ) from None

    def close(self) -> None:
        """Frees the position."""
        self._held.close()


ONE = "let one process subscribe with a position, or give each a position of its own"


def hold_keeper(lake: Lake, stream: str, position: str | Path | None, name: str, after: str | None) -> Keeper:
    """Makes the keeper of a subscriber and holds its lock; the arguments are those of `subscribe`.

    Args:
        lake: the lake.
        stream: name of the stream.
        position: file of the position, or None.
        name: name of the subscriber, or empty.
        after: position that the subscriber gives, or None.

    Raises:
        LakeError: the name or the position is none.
        BusyError: another process holds the position.
    """
    if name and not _NAME.fullmatch(name):
        raise LakeError(f"subscriber {name!r}: no name of a subscriber", "write letters, digits, _, . and -")
    if position is not None and after is not None:
        raise LakeError(f"stream {stream}: both a position file and `after`", "keep the position in one place")
    consumer = consumers_folder(lake, stream) / f"{name}.json" if name else None
    known = Position.parse(after, "after") if after else None
    place = Path(position).absolute() if position is not None else consumer if after is None else None
    keeper = Keeper(stream, place, known, consumer, name)
    try:
        if name:
            keeper._fence = keeper._held.enter_context(
                hold(lake, f"subscriber {name} of {stream}", sees=[lake.table(stream)])
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
    """A subscriber that the lake knows.

    Attributes:
        name: name of the subscriber.
        version: version of the table that it has read.
        until: end of the range that it read last, ns since the epoch.
        seen: when it was done with this range, ns since the epoch.
        digest: digest of the commit of this version; empty if unknown.
    """

    name: str
    version: int
    until: int
    seen: int
    digest: str = ""


def consumers_folder(lake: Lake, stream: str) -> PurePath:
    """Folder of the lake with a file for each named subscriber of a stream."""
    return lake.root / "consumers" / safe_name(stream)


def consumers_of(lake: Lake, stream: str) -> list[Consumer]:
    """Lists the named subscribers of a stream by name; a file that cannot be read is left out."""
    consumers = []
    for path in paths.children(consumers_folder(lake, stream)):
        try:
            entry = json_value(paths.read(path, LARGEST_STATE))
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
