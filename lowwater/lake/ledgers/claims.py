"""Which contents of a link are captures, under which name and with which coverage (SEMANTICS T1, T5): a function of
what was decoded, seen and said, and of the settings of the moment. It is not stored, so no order of files counts.

Captures that overlap (`overlaps`), and what captures say of each other's ends (`edges`), are found afterwards, of those
that are left here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater import documents
from lowwater.config import Link
from lowwater.lake.files.patterns import named_coverage, naming
from lowwater.lake.layout import CONTENTS, SIGHTINGS
from lowwater.lake.ledgers.overlaps import first_and_largest
from lowwater.lake.ledgers.statements import ASIDE, Asides, Statement
from lowwater.lake.ledgers.states import GONE, GROWING
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage.captures import capture_path

Span = tuple[int, int]
Where = Callable[[str, str | None], str]
"""Where the file of a path lies now, given its name under the folder of its pattern (`places.Whereabouts`)."""

AGAIN = "read again: a setting of the link, or the decoder, has changed"
CHANGED = "it has changed"
SET_ASIDE = "it is set aside"
UNSEEN = "nobody has seen it in a folder"


@dataclass(frozen=True)
class Left:
    """Why a content is no capture: words for people, and the attempt that stands for it, if there is one.

    Attributes:
        replaced: whether no place has it any more: what was decoded of it may go.
    """

    why: str
    by: str = ""
    replaced: bool = False


@dataclass(frozen=True, eq=False)
class Claims:
    """The view of a link and its interfaces.

    Attributes:
        rows: all contents that were seen, with the columns of `captures.Capture`, in no order.
        left: attempt -> why it is no capture.
    """

    rows: pa.Table
    left: Mapping[str, Left] = field(default_factory=dict)

    @property
    def kept(self) -> set[str]:
        """Attempts whose packets stay: all but those that something else has replaced."""
        replaced = {attempt for attempt, left in self.left.items() if left.replaced}
        return {*self.rows.column("attempt").unique().to_pylist(), *self.left} - replaced

    @cached_property
    def captures(self) -> pa.Table:
        """The rows of captures."""
        if not self.left:
            return self.rows
        return self.rows.filter(pc.invert(pc.is_in(self.rows.column("attempt"), pa.array([*self.left], pa.string()))))


def places(sightings: pa.Table) -> pa.Table:
    """Returns a row for each sighting of a content and each attempt at it, with the `attempt`, in the order of the
    looks; and whether it lies there, by the newest sighting of the place (`lies`). `sightings`: `SEEN` of the table, in
    the order of the looks."""
    paths = sightings.column("path").combine_chunks().dictionary_encode()
    codes, order = paths.indices.to_numpy(), np.arange(sightings.num_rows)
    newest = np.zeros(len(paths.dictionary), np.int64)
    newest[codes] = order
    lies = pc.and_(pa.array(newest[codes] == order), pc.not_equal(sightings.column("state"), GONE))
    attempts = sightings.column("attempts").combine_chunks()
    rows = sightings.drop_columns(["attempts"]).append_column("lies", lies)
    if pc.all(pc.equal(pc.list_value_length(attempts), 1)).as_py() is not True:
        rows = rows.take(pc.list_parent_indices(attempts))
    return rows.append_column("attempt", pc.list_flatten(attempts)).combine_chunks()


SEEN = pa.schema(
    [
        SIGHTINGS.field(name)
        for name in (
            *("path", "state", "reason", "size", "declared_from", "declared_to", "rotated", "named", "name"),
            *("attempts", "sha256", "seen_at"),
        )
    ]
)
"""The columns of the table that a view needs."""
PLACED = pa.schema([*SEEN, pa.field("lies", pa.bool_()), pa.field("attempt", pa.string())]).remove(
    SEEN.get_field_index("attempts")
)
"""Columns of `places`."""


@dataclass
class _Content:
    """An attempt, of those about which more than their own row decides."""

    attempt: str
    facts: list[dict[str, Any]]  # its rows
    seen: list[int] = field(default_factory=list)  # rows of `places`, in order
    hand: Span | None = None  # the coverage that a person declared, of the file of a path
    said_of: str | None = None

    @property
    def row(self) -> dict[str, Any]:
        return self.facts[0]

    @cached_property
    def packets(self) -> int:
        return sum(row["packets"] for row in self.facts)

    @property
    def key(self) -> tuple[str, str]:
        """What two attempts at one content have alike; each empty file is a content of its own."""
        some = self.packets or self.row["erased"] is not None  # of which all may have been erased
        return self.row["source"], self.row["content"] if some else self.attempt

    def extent(self, declared: Span | None) -> Span:
        """The time of its records, ns: those outside of what is declared do not say when it was taken, if others do."""
        rows = [row for row in self.facts if row["first"] is not None and row["largest"] is not None]
        if not rows:
            return END_OF_TIME, 0
        ends = [first_and_largest(row["first"], row["largest"], row["packets"], row["edges"], 0) for row in rows]
        first, last = min(first for first, _ in ends), max(last for _, last in ends)
        begin, end = declared or (0, END_OF_TIME)
        return (max(first, begin), min(last, end)) if first < end and last >= begin else (first, last)


def claims(
    contents: pa.Table,
    placed: pa.Table,
    said: Sequence[Statement],
    asides: Asides,
    settings: Link,
    where: Where,
    ended: bool = False,
) -> Claims:
    """Derives the view of a link and its interfaces.

    Args:
        contents: their rows of the table.
        placed: what `places` has of their attempts.
        said: what people declared that files cover, oldest first; `asides`: which files they set aside.
        settings: of the link.
        where: returns where the file of a path lies, by the settings of the moment.
        ended: whether the settings do not name the link: names of files tell what they told.
    """
    names = _Names(placed, settings, where, ended)
    if not contents.num_rows:
        return Claims(_rows(contents, placed, np.zeros(0, np.int64), names, {}, where))
    attempts = contents.column("attempt").combine_chunks().dictionary_encode()
    numbers = pc.index_in(placed.column("attempt"), attempts.dictionary).fill_null(-1).to_numpy(zero_copy_only=False)
    chosen = np.full(len(attempts.dictionary), -1, np.int64)
    own = numbers >= 0
    chosen[numbers[own]] = np.flatnonzero(own)
    spoken = {*asides.paths, *(each.file for each in said)}
    doubtful = _doubtful(contents, placed, attempts, numbers, spoken)
    view = _Doubts(contents, placed, names, asides, settings, doubtful, attempts, numbers)
    hands = view.judge(chosen, said) if len(doubtful) else {}
    texts = attempts.dictionary.to_pylist()
    left = {texts[at]: Left(UNSEEN) for at in np.flatnonzero(chosen < 0).tolist()} | view.left
    at = chosen[attempts.indices.to_numpy()]
    seen = contents.filter(pa.array(at >= 0)) if (at < 0).any() else contents
    rows = _rows(seen, placed, at[at >= 0], names, hands, where)
    gone = pc.invert(placed.column("lies").take(pa.array(at[at >= 0])))
    return Claims(rows, {**left, **_renamed(rows, gone)})


def _renamed(rows: pa.Table, gone: pa.ChunkedArray) -> dict[str, Left]:
    """Finds the empty files that lie nowhere any more, while another one is declared to begin as they were: they were
    renamed, and have grown."""
    named = pc.and_(pc.is_valid(rows.column("declared_from")), pc.invert(rows.column("by_hand")))
    empty = rows.filter(pc.and_(gone, pc.and_(pc.equal(rows.column("packets"), 0), named)))
    if not empty.num_rows:
        return {}
    having = rows.filter(pc.greater(rows.column("packets"), 0))
    begun = dict(zip(having.column("declared_from").to_pylist(), having.column("attempt").to_pylist(), strict=True))
    pairs = zip(empty.column("attempt").to_pylist(), empty.column("declared_from").to_pylist(), strict=True)
    return {
        attempt: Left("it had no records", begun[begin], replaced=True) for attempt, begin in pairs if begin in begun
    }


def _doubtful(
    contents: pa.Table,
    placed: pa.Table,
    attempts: pa.DictionaryArray,
    numbers: NDArray[Any],
    spoken: Collection[str | None],
) -> NDArray[np.int64]:
    """Returns the numbers of the attempts about which more than one row decides: several were at a place, it was at
    several, it was decoded twice, another one begins with it, or a person spoke of its file (`spoken`: paths)."""
    size = len(attempts.dictionary)
    doubtful = np.zeros(size, bool)
    codes = attempts.indices.to_numpy()
    known = np.flatnonzero(numbers >= 0)
    paths = placed.column("path").combine_chunks().dictionary_encode()
    at, of = paths.indices.to_numpy()[known], numbers[known]
    if np.bincount(of).max(initial=0) > 1:
        at, of = np.divmod(np.unique(at.astype(np.int64) * size + of), size)  # each pair once
    doubtful[np.bincount(of, minlength=size) > 1] = True
    several = np.bincount(at, minlength=len(paths.dictionary)) > 1
    doubtful[of[several[at]]] = True
    if spoken:
        of_them = pc.is_in(paths.dictionary, pa.array([*spoken], pa.string())).to_numpy(zero_copy_only=False)
        doubtful[of[of_them[at]]] = True
    # Each attempt once: interfaces of a file have one content.
    first = np.arange(size) if size == len(codes) else np.unique(codes, return_index=True)[1]
    once = contents.take(pa.array(first))
    content = once.column("content").combine_chunks().dictionary_encode()
    related = np.bincount(content.indices.to_numpy(), minlength=len(content.dictionary)) > 1
    whose = {
        each
        for name in ("begins_with", "begins")
        for text in once.column(name).drop_null().unique().to_pylist()
        for each in documents.stored_texts(text)
    }
    if whose:
        related |= pc.is_in(content.dictionary, pa.array([*whose], pa.string())).to_numpy(zero_copy_only=False)
        speaking = pc.or_(pc.is_valid(once.column("begins_with")), pc.is_valid(once.column("begins")))
        doubtful[codes[first][speaking.to_numpy(zero_copy_only=False)]] = True
    doubtful[codes[first][related[content.indices.to_numpy()]]] = True
    return np.flatnonzero(doubtful)


class _Names:
    """What the names of files say of their coverage, by the settings of the moment."""

    def __init__(self, placed: pa.Table, settings: Link, where: Where, ended: bool) -> None:
        self._placed, self._settings, self._where = placed, settings, where
        self._digest = None if ended else naming(settings)

    def of_rows(
        self, rows: NDArray[np.int64], firsts: pa.ChunkedArray
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Returns begin and end (ns, -1 where nothing is declared) of rows of `places`, and which ends are made up.
        `firsts`: the first record of each, ns."""
        taken = self._placed.select(["declared_from", "declared_to", "rotated", "named"]).take(pa.array(rows))
        begins = pc.fill_null(taken.column("declared_from"), -1).to_numpy().copy()
        ends = pc.fill_null(taken.column("declared_to"), -1).to_numpy().copy()
        rotated = pc.fill_null(taken.column("rotated"), False).to_numpy(zero_copy_only=False).copy()
        if self._digest is not None:
            asked = pc.not_equal(pc.fill_null(taken.column("named"), ""), self._digest).to_numpy(zero_copy_only=False)
            for at in np.flatnonzero(asked).tolist():
                place = capture_path(self._lies(int(rows[at])))
                span, made_up = named_coverage(self._settings, place, firsts[at].as_py())
                begins[at], ends[at] = span or (-1, -1)
                rotated[at] = made_up
        return begins, ends, rotated

    def _lies(self, row: int) -> str:
        path, name = (self._placed.column(name)[row].as_py() for name in ("path", "name"))
        return self._where(path, name)

    def of(self, row: int, first: int | None) -> Span | None:
        begins, ends, _ = self.of_rows(np.array([row], np.int64), pa.chunked_array([pa.array([first], pa.int64())]))
        return None if begins[0] < 0 else (int(begins[0]), int(ends[0]))


class _Doubts:
    """The attempts about which more than their own row decides."""

    def __init__(
        self,
        contents: pa.Table,
        placed: pa.Table,
        names: _Names,
        asides: Asides,
        settings: Link,
        doubtful: NDArray[np.int64],
        attempts: pa.DictionaryArray,
        numbers: NDArray[Any],
    ) -> None:
        self._names, self._asides, self._settings = names, asides, settings
        self.left: dict[str, Left] = {}
        self._borne: list[tuple[Statement, list[str]]] = []  # with the attempts at its path behind it, in order
        self._numbers = {attempts.dictionary[at].as_py(): at for at in doubtful.tolist()}
        codes = attempts.indices.to_numpy()
        rows = contents.filter(pa.array(np.isin(codes, doubtful))) if len(doubtful) else contents.slice(0, 0)
        self._contents: dict[str, _Content] = {}
        for row in rows.select(_FACTS).to_pylist():
            self._contents.setdefault(row["attempt"], _Content(row["attempt"], [])).facts.append(row)
        where = np.flatnonzero(np.isin(numbers, doubtful)) if len(doubtful) else np.zeros(0, np.int64)
        self._rows = where.tolist()
        columns = placed.select(["path", "size", "lies", "seen_at", "attempt", "sha256"]).take(pa.array(where))
        self._seen = dict(zip(self._rows, columns.to_pylist(), strict=True))
        # Place, of a link for which files are read -> its versions in order, each as it was seen last.
        self._versions: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for at, seen in self._seen.items():
            content = self._contents[seen["attempt"]]
            self._at(content, seen["path"]).pop(content.attempt, None)
            self._at(content, seen["path"])[content.attempt] = at
            content.seen.append(at)

    def _at(self, content: _Content, path: str) -> dict[str, int]:
        return self._versions[path, content.row["source"]]

    def judge(self, chosen: NDArray[np.int64], said: Sequence[Statement]) -> dict[str, Span]:
        """Chooses the name of each content, and finds which are no captures; returns the coverage that people declared,
        by attempt."""
        self._decoded_again()
        self._declare(said)
        standing = [each for each in self._contents.values() if each.attempt not in self.left and each.seen]
        standing.sort(key=lambda each: each.seen[-1])
        for content in standing:
            at, aside = self._place(content)
            chosen[self._numbers[content.attempt]] = at
            if aside:
                self.left[content.attempt] = Left(SET_ASIDE)
        # An older version at a place is judged by what is known of the newer ones, so these come first.
        for content in reversed(standing):
            if (left := self._replaced(content)) is not None:
                self.left[content.attempt] = left
        self._parts(standing)
        self._keep_what_bears()
        return {each.attempt: each.hand for each in self._contents.values() if each.hand is not None}

    def _decoded_again(self) -> None:
        """Of attempts at one content the one that was seen last counts, and lies where any of them was seen: the clock
        of a host may be put back."""
        newest: dict[tuple[str, str], _Content] = {}
        for content in sorted(self._contents.values(), key=lambda each: (max(each.seen, default=-1), each.attempt)):
            if (old := newest.get(content.key)) is not None:
                self.left[old.attempt] = Left(AGAIN, content.attempt, replaced=True)
                content.seen = sorted({*old.seen, *content.seen})
                for path in {self._seen[at]["path"] for at in old.seen}:
                    versions = self._at(content, path)
                    last = max(versions.pop(old.attempt, -1), versions.pop(content.attempt, -1))
                    versions[content.attempt] = last
                    self._versions[path, content.row["source"]] = dict(sorted(versions.items(), key=itemgetter(1)))
            newest[content.key] = content

    def _declare(self, said: Sequence[Statement]) -> None:
        """Finds the coverage that people declared: of the content that was seen next at the path, and of those that
        replace it there."""
        current = {name: self._heir(name) for name in self._contents}
        for statement in said:
            own = [
                name for (path, _), of_place in self._versions.items() if path == statement.file for name in of_place
            ]
            after = {
                at
                for name in own
                for at in self._contents[current[name]].seen
                if self._seen[at]["path"] == statement.file and self._seen[at]["seen_at"] > statement.at
            }
            if after:
                bearing = [self._seen[at]["attempt"] for at in sorted(after)]
                content = self._contents[current[bearing[0]]]
                content.hand, content.said_of = (statement.start, statement.end), statement.file
                self._borne.append((statement, bearing))
        for versions in self._versions.values():
            names = list(dict.fromkeys(current[name] for name in versions))
            for old, new in pairwise(names):
                before, behind = self._contents[old], self._contents[new]
                if before.hand is not None and behind.hand is None and not self._lies_anywhere(before):
                    named = self._names.of(versions.get(new, behind.seen[-1]), behind.row["file_first"])
                    if self._replaces(behind, before, named) is not None:
                        behind.hand, behind.said_of = before.hand, before.said_of

    def _heir(self, name: str) -> str:
        while (left := self.left.get(name)) is not None and left.by:
            name = left.by
        return name

    def _place(self, content: _Content) -> tuple[int, bool]:
        """Returns the row of `places` by which a content is known: where it lies, and of several such places that whose
        name tells the time of its first record, else one that tells none; and whether it is set aside at all of them.
        """
        newest = {self._seen[at]["path"]: at for at in content.seen}
        last = {path: next(reversed(self._at(content, path))) for path in newest}
        lying = {path: at for path, at in newest.items() if last[path] == content.attempt and self._seen[at]["lies"]}
        said = {path: self._said(at) for path, at in newest.items()}
        aside = {path: at for path, at in newest.items() if said[path] == ASIDE}  # whatever lies there by now
        moved = {_name(path) for path in aside if path not in lying}
        lying = {
            path: at
            for path, at in lying.items()
            if path not in aside and (said[path] is not None or _name(path) not in moved)
        }
        if aside and not lying:
            return next(iter(aside.values())), True
        candidates = lying or newest
        if len(candidates) == 1:
            return next(iter(candidates.values())), False
        first = content.row["file_first"]

        def order(item: tuple[str, int]) -> tuple[bool, bool, bool, str]:
            span = self._names.of(item[1], first)
            tells = first is None or (span is not None and span[0] <= first < span[1])
            contradicts = span is not None and not tells
            return not tells, contradicts, self._seen[item[1]]["sha256"] != content.row["sha256"], item[0]

        return min(candidates.items(), key=order)[1], False

    def _said(self, at: int) -> str | None:
        """What a person said of the file of a row of `places`: it is set aside, or counts again; None for nothing."""
        seen = self._seen[at]
        said = self._asides.said(seen["path"], seen["size"], seen["sha256"])
        return None if said is None else said.act

    def _replaced(self, content: _Content) -> Left | None:
        """Why a newer version at its place stands for a content that lies nowhere any more; None if none does."""
        if self._lies_anywhere(content):
            return None
        for path in dict.fromkeys(self._paths(content)):
            versions = self._at(content, path)
            names = list(dict.fromkeys(self._heir(name) for name in versions))
            named = self._names.of(versions.get(content.attempt, content.seen[-1]), content.row["file_first"])
            for name in names[names.index(content.attempt) + 1 :]:
                if (why := self._replaces(self._contents[name], content, named)) is not None:
                    return Left(why, name, replaced=True)
        return None

    def _paths(self, content: _Content) -> Iterator[str]:
        return (self._seen[at]["path"] for at in content.seen)

    def _keep_what_bears(self) -> None:
        """Keeps the contents without which what people declared would be lost, or taken for said of another one that
        lay at that path later."""
        borne, kept = self._borne, True
        while kept:  # one that is kept may bear an earlier statement, too
            kept = False
            for statement, bearing in borne:
                stays = (each for each in bearing if each not in self.left or not self.left[each].replaced)
                heir = next((self._contents[self._heir(each)] for each in stays), None)
                said = (statement.start, statement.end), statement.file
                left = self.left.get(bearing[0])
                if left is not None and left.replaced and (heir is None or (heir.hand, heir.said_of) != said):
                    self.left[bearing[0]], kept = replace(left, replaced=False), True

    def _lies_anywhere(self, content: _Content) -> bool:
        return any(self._lies(content, path) for path in self._paths(content))

    def _lies(self, content: _Content, path: str) -> bool:
        name, at = next(reversed(self._at(content, path).items()))
        return self._heir(name) == content.attempt and bool(self._seen[at]["lies"])

    def _replaces(self, new: _Content, old: _Content, named: Span | None) -> str | None:
        """Why a newer version of a place replaces an older one (T5): it begins with all of it, or is of its time; else
        the name was used again. One without records replaces nothing: a recorder begins its file with a header.
        `named`: what the name tells."""
        if not old.packets:
            # One empty file may stand for several hours.
            stands = old.hand not in (None, new.hand) and not new.packets
            return None if stands else "it had no records"
        if not new.packets:
            return None
        if begins_with(new, old):
            return "it has grown"
        before = old.extent(named)
        changed = _are_of_one_time(new.extent(named), before, self._settings.at(before[0]).longest_skew)
        if named is not None:
            # Another part of its time, unless the old one has nothing of it, or the same records by another clock.
            first, largest = old.extent(None)
            counts = [(each.packets, each.row["record_bytes"]) for each in (new, old)]
            changed |= largest < named[0] or first >= named[1] or counts[0] == counts[1]
        return CHANGED if changed else None

    def _parts(self, standing: Iterable[_Content]) -> None:
        """Leaves out the contents that are the beginning of a capture (T1)."""
        standing = [each for each in standing if each.packets and each.attempt not in self.left]
        by_content = {each.key: each for each in standing}
        for content in standing:
            source = content.row["source"]
            for name in documents.stored_texts(content.row["begins_with"] or "[]"):
                self._part(by_content.get((source, name)), content)
            for name in documents.stored_texts(content.row["begins"] or "[]"):
                self._part(content, by_content.get((source, name)))

    def _part(self, part: _Content | None, whole: _Content | None) -> None:
        if part is None or whole is None or part.attempt in self.left:  # it may begin several
            return
        if begins_with(whole, part):
            goes = not self._lies_anywhere(part)
            self.left[part.attempt] = Left(BEGINNING, whole.attempt, replaced=goes)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


BEGINNING = "its records are the first ones of another file"

_FACTS = [
    *("attempt", "source", "content", "packets", "first", "largest", "edges", "file_first", "file_largest", "bytes"),
    *("sha256", "record_bytes", "ended_cleanly", "begins_with", "begins", "erased"),
]


def begins_with(whole: _Content, part: _Content) -> bool:
    """Whether a content begins with all records of another one of its link, as decoding found."""
    if whole.row["source"] != part.row["source"] or whole.packets < part.packets:
        return False
    told = documents.stored_texts(whole.row["begins_with"] or "[]")
    return part.row["content"] in told or whole.row["content"] in documents.stored_texts(part.row["begins"] or "[]")


def _are_of_one_time(new: Span, old: Span, skew: int) -> bool:
    """Whether the records of two files overlap by more than the skew, or those of one lie within the time of the
    other's. Two files that follow one another overlap by at most the skew (T1), however short they are."""
    both = max(new[0], old[0]), min(new[1], old[1])
    return both[1] - both[0] > skew or (both[0] <= both[1] and both in (new, old))


_UNSEEN_COLUMNS = ("content", "decoded_at", "begins_with", "begins")


def _rows(
    contents: pa.Table,
    placed: pa.Table,
    at: NDArray[np.int64],
    names: _Names,
    hands: Mapping[str, Span],
    where: Where,
) -> pa.Table:
    """Joins contents with the sighting of each, and adds what they cover by themselves (T5)."""
    seen = placed.select(["path", "size", "state", "reason", "sha256", "name"]).take(pa.array(at))
    begins, ends, rotated = names.of_rows(at, contents.column("file_first"))
    by_hand = np.zeros(len(at), bool)
    if hands:
        for place, attempt in enumerate(contents.column("attempt").to_pylist()):
            if (span := hands.get(attempt)) is not None:
                begins[place], ends[place], by_hand[place], rotated[place] = *span, True, False
    declared = begins >= 0
    first = pc.fill_null(contents.column("file_first"), -1).to_numpy()
    largest = pc.fill_null(contents.column("file_largest"), -1).to_numpy()
    state = seen.column("state")
    state = pc.if_else(pc.equal(state, GONE), seen.column("reason"), state)  # which says what it was before
    growing = pc.equal(state, GROWING).to_numpy(zero_copy_only=False)
    whole = contents.column("ended_cleanly").to_numpy() & ~growing
    cut = np.maximum(begins, np.minimum(ends, np.maximum(largest, 0)))
    bare = ~declared & ((first < 0) | (largest < 0))
    covers_from = np.where(declared, begins, np.where(bare, 0, first))
    covers_to = np.where(declared, np.where(whole, ends, cut), np.where(bare, 0, largest))
    keys = zip(seen.column("path").to_pylist(), seen.column("name").to_pylist(), strict=True)
    columns = {name: contents.column(name) for name in CONTENTS.names if name not in _UNSEEN_COLUMNS}
    columns |= {
        "capture": contents.column("content"),
        "ingested_at": contents.column("decoded_at"),
        "path": pa.array([where(path, name) for path, name in keys], pa.string()),
        "place": seen.column("path"),
        "name": seen.column("name"),
        "bytes": seen.column("size"),
        "sha256": pc.coalesce(seen.column("sha256"), contents.column("sha256")),
        "declared_from": pa.array(begins, pa.int64(), mask=~declared),
        "declared_to": pa.array(ends, pa.int64(), mask=~declared),
        "rotated": pa.array(rotated & declared),
        "by_hand": pa.array(by_hand),
        "growing": pa.array(growing),
        "covers_from": pa.array(covers_from, pa.int64()),
        "covers_to": pa.array(covers_to, pa.int64()),
    }
    return pa.table(columns)
