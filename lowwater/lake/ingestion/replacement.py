"""What the ledger holds of a link's files, and which of them a file replaces (SEMANTICS T1, T5).

Beside ingest, under its lock. A file is the rows of one attempt: one, or one for each of its interfaces.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lowwater.capture.content.retention import Keeping
from lowwater.capture.reader import DECODER_VERSION
from lowwater.config import Link, section_of
from lowwater.errors import OverlapError
from lowwater.instants import format_duration, format_instant
from lowwater.lake.files.rotation import covers_key
from lowwater.lake.ingestion.survey import starts_with
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, family_captures, put_captures

Coverage = tuple[int, int]


@dataclass(frozen=True)
class Held:
    """A file in the ledger, or one that is to be: its rows, one a link."""

    rows: tuple[Capture, ...]

    @property
    def row(self) -> Capture:
        """Its first row, for what is the same in all: everything that concerns the file."""
        return self.rows[0]

    @property
    def packets(self) -> int:
        """Sane records of the file."""
        return sum(row.packets for row in self.rows)

    @property
    def covers(self) -> Coverage:
        """Coverage in force."""
        return self.row.covers_from, self.row.covers_to

    @property
    def largest(self) -> int | None:
        """Largest timestamp of the file, ns."""
        return max((row.largest for row in self.rows if row.largest is not None), default=None)

    def fits(self, settings: Link, keeping: Keeping) -> bool:
        """Whether ingesting it now would give the same packets under the same links, with the same kept of them."""
        one, several = settings.interfaces == "one", len(self.rows) > 1
        parted = not several if one else (self.row.interfaces or 1) == 1
        kept = (self.row.kept or "", self.row.key or "") == (str(keeping), keeping.key_digest)
        return parted and kept and self.row.decoder_version == DECODER_VERSION and self.row.admits(settings)

    def declaring(self, said: Coverage | None) -> Coverage | None:
        """What it is declared to cover where the settings say this of its path.

        What `--covers` declared stands; what a line of the settings did goes with the line. Where an older ledger does
        not know which of them it was, it stands unless the settings say otherwise.
        """
        if self.row.by_hand:
            return self.row.declared
        return said or (self.row.declared if self.row.by_hand is None else None)

    def covering(self, declared: Coverage | None, growing: bool, by_hand: bool | None = False) -> Held:
        """With its coverage (T5); `by_hand`: --covers.

        As declared if it ended cleanly; one that is cut or still growing from the declared start to the clock at its
        last good record: that says nothing about its beginning. Without a declaration, from the first record to that
        clock. All interfaces of a file are covered alike, whether they have packets or not.
        """
        first = min((row.first for row in self.rows if row.first is not None), default=None)
        start, end = (first, self.largest) if declared is None else declared
        if declared is not None and (growing or not self.row.ended_cleanly):
            end = max(declared[0], min(declared[1], self.largest or 0))
        if start is None or end is None:
            start = end = 0
        known = declared or (None, None)
        return Held(
            tuple(
                replace(
                    row,
                    covers_from=start,
                    covers_to=end,
                    declared_from=known[0],
                    declared_to=known[1],
                    growing=growing,
                    by_hand=by_hand,
                )
                for row in self.rows
            )
        )


class Files:
    """The files of a link and its interfaces, while the lock of their ingest is held."""

    def __init__(self, lake: Lake, link: str, family: str) -> None:
        self.lake = lake
        self.link = link
        rows: dict[str, list[Capture]] = {}
        for row in family_captures(lake, family):
            rows.setdefault(row.attempt, []).append(row)
        self.all = [Held(tuple(sorted(each, key=lambda row: row.link))) for each in rows.values()]

    @property
    def attempts(self) -> set[str]:
        """Those whose packets are visible."""
        return {held.row.attempt for held in self.all}

    def same(self, sha256: str, declared: Coverage | None) -> Held | None:
        """The file with these bytes; an empty one stands for many hours, so there its coverage tells (T5)."""
        for held in self._mine():
            if held.row.capture == sha256 and (held.packets or held.row.declared == declared):
                return held
        return None

    def declared_by_hand(self, new: Held, settings: Link, unpacked: int) -> Coverage | None:
        """What `--covers` said of the file that a file with packets stands for; None where it said nothing."""
        for held in self._mine():
            if held.row.by_hand and held.row.declared and self._replaces(new, held, settings, unpacked) is not None:
                return held.row.declared
        return None

    def put(self, new: Held, settings: Link, unpacked: int) -> tuple[bool, str]:
        """Writes a file in the place of those that it stands for.

        Args:
            new: the file.
            settings: the settings of the link.
            unpacked: bytes that it holds, decompressed.

        Returns:
            Whether there were any, and what the user should know of them.

        Raises:
            OverlapError: it overlaps another by more than the skew.
        """
        why = {held.row.attempt: self._replaces(new, held, settings, unpacked) for held in self._mine()}
        replaced = [held for held in self.all if why.get(held.row.attempt) is not None]
        rest = [held for held in self.all if why.get(held.row.attempt) is None]
        _refuse_overlap(new.rows, [row for held in rest for row in held.rows], settings)
        put_captures(self.lake, new.rows, [row for held in replaced for row in held.rows])
        self.all = [*rest, new]
        notes = dict.fromkeys(note for note in why.values() if note)
        return bool(replaced), "; ".join(notes)

    def _mine(self) -> list[Held]:
        """Without the files of another link of the family, which were ingested for an interface by name."""
        whole = "/" not in self.link
        return [held for held in self.all if (whole if len(held.rows) > 1 else held.row.link == self.link)]

    def _replaces(self, new: Held, old: Held, settings: Link, unpacked: int) -> str | None:
        """Why a file stands for another, for the user; None where it does not."""
        same_path = is_path_of(new.row.path, old)
        if new.row.capture == old.row.capture:
            # An empty file stands for many hours: for another one, unless the settings now say otherwise of this one.
            said = not new.row.by_hand and old.row.by_hand is False and same_path
            again = bool(new.packets) or new.row.declared == old.row.declared or said
            return "read again: a setting of the link, or the decoder, has changed" if again else None
        if _begins_alike(new, old, same_path) and _is_prefix(new.row, old.row, unpacked):
            grown = "" if not same_path else ": it has grown"
            return f"it begins with all {old.row.bytes:,} bytes of {old.row.path}, which it replaces{grown}"
        if same_path and (_overlap(new.row, old.row) > settings.longest_skew or _declared_alike(new, old)):
            return "the file has changed: its packets replace those of what had its name before"
        return None


def is_path_of(path: str | Path, held: Held) -> bool:
    """Whether a file was ingested from a path."""
    return Path(path).absolute() == Path(held.row.path).absolute()


def _declared_alike(new: Held, old: Held) -> bool:
    return new.row.declared is not None and new.row.declared == old.row.declared


def _begins_alike(new: Held, old: Held, same_path: bool) -> bool:
    """Whether the records do, as far as the ledger knows; all empty files of a kind begin every other one."""
    if not old.packets:
        same_start = new.row.declared_from is not None and new.row.declared_from == old.row.declared_from
        return same_path or same_start
    firsts = {row.first for row in new.rows}
    return all(row.first in firsts for row in old.rows if row.first is not None)


def _is_prefix(new: Capture, old: Capture, unpacked: int) -> bool:
    """Whether a file, as it is stored, begins with all bytes of another; or what it holds with those of a plain one."""
    path = Path(new.path)
    if old.bytes < new.bytes and starts_with(path, old.bytes, old.capture, False):
        return True
    packed = bool(new.compression) and not old.compression and old.bytes <= unpacked
    return packed and starts_with(path, old.bytes, old.capture, True)


def _overlap(row: Capture, other: Capture) -> int:
    return min(row.covers_to, other.covers_to) - max(row.covers_from, other.covers_from)


def _refuse_overlap(rows: Sequence[Capture], others: Sequence[Capture], settings: Link) -> None:
    mine = {row.link: row for row in rows}
    for other in others:
        if (row := mine.get(other.link)) is not None and (overlap := _overlap(row, other)) > settings.longest_skew:
            _refuse(row, other, overlap, settings)


def _refuse(row: Capture, other: Capture, overlap: int, settings: Link) -> None:
    shorter = min(row.covers_to - row.covers_from, other.covers_to - other.covers_from)
    key = _shared_key(row, other, settings)
    beside = key is None and 2 * overlap >= shorter
    why = ": they look like captures of several links" if beside else ""
    hint = several_links(row.link, row.path)
    if not beside:
        hint = f"{hint}; or, if its disorder is as long, set skew to no less in {section_of(row.link)}"
    if key is not None:
        section = section_of(row.link.partition("/")[0], "covers")
        why = f": both have their coverage from the line {key!r} of {section}"
        hint = "write a line for each file; where a name fits several, the first counts"
    elif row.first is not None and row.first == other.first:
        hint = f"if they are two versions of one file, ingest the right one under the name of the other; else {hint}"
    mine, theirs = (f"{each.path} ({span(each)})" for each in (row, other))
    raise OverlapError(
        f"link {row.link!r}: {mine} and {theirs} overlap by {format_duration(overlap)}, more than the link's skew of "
        f"{format_duration(settings.longest_skew)}{why}",
        hint,
        row.link,
        mine,
        theirs,
        beside,
    )


def _shared_key(row: Capture, other: Capture, settings: Link) -> str | None:
    """The key of `covers` that both captures have their coverage from."""
    if row.by_hand or other.by_hand or row.declared != other.declared:
        return None
    key = covers_key(settings, Path(row.path))
    return key if key == covers_key(settings, Path(other.path)) else None


def several_links(link: str, path: str) -> str:
    """What to do about captures of one link that were taken at the same time."""
    return (
        f"captures of one link follow one another: make each a link of its own, as --link {link}-2 or "
        f"--capture {link}-2=FILE, and name all of them in a set; `lowwater init {shlex.quote(str(Path(path).parent))} "
        "--lake NEW` finds and proposes them"
    )


def span(row: Capture) -> str:
    """The coverage of a row, as text."""
    return f"{format_instant(row.covers_from)} to {format_instant(row.covers_to)}"
