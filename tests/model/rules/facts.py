"""What is known of a lake: facts that never change, in the order in which they were learnt, and the settings of the
moment. Everything else is a function of these (`claims`, `states`). Instants and durations are ns, ranges [start, end).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lowwater.instants import SECOND

Span = tuple[int, int]
Place = tuple[str, str]
"""Folder and name of a file."""
FOREVER = 1 << 62

# Files.


@dataclass(frozen=True)
class Content:
    """The records of a file, and what was found beside them.

    Attributes:
        id: identity of the records (T5).
        stamps: their timestamps within range, in the order of the file.
        chain: digests of the bytes up to the end of each block; the last one is that of all.
        shape: number of bytes and of records: a corrected clock changes neither.
        whole: whether the file ends at the end of a record.
        damaged: stretches of time whose records cannot be read.
        drops: records that the recorder itself says it lost.
        lacks: fields that are missing, while a column has a name that no field has.
        readable: False where nothing could be decoded.
        bytes_there: False for a file of 0 bytes.
    """

    id: str
    stamps: tuple[int, ...] = ()
    chain: tuple[str, ...] = ()
    shape: str = ""
    whole: bool = True
    damaged: tuple[Span, ...] = ()
    drops: int = 0
    lacks: frozenset[str] = frozenset()
    interfaces: frozenset[str] = frozenset()
    readable: bool = True
    bytes_there: bool = True

    def begins_with(self, other: Content) -> bool:
        """Whether it begins with all bytes of another content."""
        return bool(other.chain) and other.id != self.id and other.chain[-1] in self.chain[:-1]


@dataclass(frozen=True)
class Sighting:
    """A file as a look saw it; without a content it is gone."""

    place: Place
    moment: int  # of the host's clock
    content: str | None
    growing: bool = False  # it grew while it was read


@dataclass(frozen=True)
class Look:
    """What one look at the folders found to be new; every other file lay there as before."""

    moment: int  # of the host's clock
    sightings: tuple[Sighting, ...] = ()


# What people said. Each is bound to what it speaks of, so that no later fact changes its meaning.


@dataclass(frozen=True)
class Covers:
    """A content, and what replaces it at its place, covers a range. `place`: where it lay when a person said so."""

    link: str
    content: str
    span: Span
    place: Place = ("", "")


@dataclass(frozen=True)
class Aside:
    """Nobody reads a content that lies at a place, or it counts again; copies of it at other places do."""

    place: Place
    content: str
    aside: bool


@dataclass(frozen=True)
class Accept:
    """A defect is known, and no reason against `done` as long as it is no larger."""

    kind: str
    link: str
    span: Span
    what: str = ""
    number: int = 0


@dataclass(frozen=True)
class Approve:
    """What an audit holds back is published, for the inputs that were audited."""

    span: Span
    want: str


@dataclass(frozen=True)
class RollBack:
    """Earlier rows stand for the inputs of a moment; `wants` has the key of each query then."""

    span: Span
    wants: tuple[tuple[str, Key], ...]


@dataclass(frozen=True)
class Lift:
    """A roll back ends."""

    span: Span


Statement = Covers | Aside | Accept | Approve | RollBack | Lift

# Results, by keys that name all of their inputs.


@dataclass(frozen=True)
class LinkKey:
    """What a query reads of a link: contents with a digest of what became of their records, in order."""

    captures: tuple[tuple[str, str], ...]
    skew: int
    life: tuple[int | None, int | None]  # the bounds within the range that is read


@dataclass(frozen=True)
class Key:
    """All inputs of the rows of a query in an interval."""

    text: str
    links: tuple[tuple[str, LinkKey], ...]
    ended: int | None = None  # where the coverage of all links ended, if a state is handed over and it ended before
    before: str | None = None  # digest of the key of the interval before, if a state comes from there


@dataclass(frozen=True)
class Commit:
    """An entry of the log of a table: rows of a key are those of an interval from now on."""

    span: Span
    key: Key
    rolled_back: bool = False


@dataclass(frozen=True)
class Damage:
    """An entry of another program, or rows that are no longer there. `key`: what a restored table has."""

    span: Span
    cause: str  # cut, files gone, state gone, restored
    key: Key | None = None


@dataclass(frozen=True)
class Result:
    """What a run of a whole set ended with that did not publish: failed, failed for now, warned."""

    span: Span
    want: str
    outcome: str


@dataclass
class Facts:
    """All facts, each kind in the order in which they were learnt."""

    contents: dict[str, Content] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    decoded: set[str] = field(default_factory=set)  # contents whose packets were put into the lake
    removed: set[str] = field(default_factory=set)  # those of them whose packets are no longer there
    statements: list[Statement] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    logs: dict[str, list[Commit | Damage]] = field(default_factory=dict)  # by query


# Settings.


@dataclass(frozen=True)
class Link:
    """The section of a link; of one that is no longer there, its last one.

    Attributes:
        folders: where its files lie; `former`: where they lay before.
        claims: patterns of names.
        named: begin and end that a name tells, each None where it does not.
        violating, max_drops: shares of an hour or interval up to which refused or lost records are no defect.
    """

    name: str
    folders: tuple[str, ...]
    former: tuple[str, ...] = ()
    claims: tuple[str, ...] = ("*.pcap",)
    named: Callable[[str], tuple[int | None, int | None]] = lambda name: (None, None)
    rotation: int | None = None
    skew: int = SECOND
    since: int | None = None
    until: int | None = None
    gap_tolerance: int = 2 * SECOND
    policy: str = "fail"
    outside: str = ""
    max_jump: int | None = None
    violating: float = 0.01
    max_drops: float = 0.001
    patience: int | None = None  # in place of that of the set
    removed: bool = False

    @property
    def jump(self) -> int:
        return self.skew + 60 * SECOND if self.max_jump is None else self.max_jump


@dataclass(frozen=True)
class Query:
    """A query of the set: links that it reads (None: all), how far it reads back, the fields that it reads."""

    name: str
    links: tuple[str, ...] | None = None
    back: int = 0
    text: str = "1"
    reads: frozenset[str] = frozenset()
    chained: bool = False  # its state after an interval is an input of the next one


@dataclass(frozen=True)
class Settings:
    """The settings of a moment: links and the queries of one set."""

    links: Mapping[str, Link]
    queries: Sequence[Query]
    interval: int = 3600 * SECOND
    patience: int = 900 * SECOND
    approval: bool = False
