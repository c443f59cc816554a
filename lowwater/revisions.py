"""The versions of the rules by which rows are made, in one table (SEMANTICS S1, T7; docs/adr/0177).

Each operator of a plan and each function has a version: 1, and one more for each `Revision` that names it. A revision
makes stale what was published before of the queries that it concerns, and nothing else. So do the versions of the
decoder of captures and of the reader of other records: of each that the tables below describe, only captures that may
hold what it reads otherwise are to be ingested again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Rules of operators and functions.

LFTA = "lfta"
"""Name of the rules of the low level, which every query uses."""


@dataclass(frozen=True)
class Revision:
    """A rule that gives other rows from a release on.

    Attributes:
        of: names of the operators that it is a rule of (`plan.operators.Facts.label`), of the low level (LFTA), or of
            functions, as `function NAME` or `aggregate NAME`.
        key: its name. What is published under the rule has it among its inputs, so it never changes.
        what: the rule, in words; it is an input, too.
        since: the release that has it first.
        dialect: the dialect of the queries that it concerns; empty for any.
        concerns: whether it may give other rows for one of these operators, or a call of one of these functions.
    """

    of: tuple[str, ...]
    key: str
    what: str
    since: str
    dialect: str = ""
    concerns: Callable[[Any], bool] = lambda part: True

    @property
    def words(self) -> str:
        """Says which version of which rule it is, as in `the rule of join is version 2 (since 0.3): ...`."""
        versions = "/".join(dict.fromkeys(str(version(name, self)) for name in self.of))
        return f"the rule of {', '.join(self.of)} is version {versions} (since {self.since}): {self.key}: {self.what}"


REVISIONS: tuple[Revision, ...] = (
    Revision(
        ("join", "FILTER_JOIN", "WATCHLIST_JOIN", "running aggregation", "sampling"),
        "the dialect in all clauses",
        "every clause wraps",
        "0.3",
        dialect="gigascope",
    ),
    Revision(
        ("FILTER_JOIN", "WATCHLIST_JOIN"),
        "a key that is looked up",
        "a computed NULL equals nothing",
        "0.3",
        concerns=lambda look_up: bool(look_up.computed),
    ),
    Revision(
        ("join",),
        "the rule for a side without a partner",
        "all of its columns are NULL",
        "0.3",
        concerns=lambda join: bool(join.untied()),
    ),
    Revision(
        # The text of a query without ON has its old form only where it also asks for the rows without a match.
        ("selection", "aggregation", "running aggregation", "sampling"),
        "WHERE without ON of an outer join",
        "it is asked of the joined rows",
        "0.3",
        dialect="lowwater",
        concerns=lambda asking: asking.finds_and_drops,
    ),
)
"""The rules that have changed, the oldest first. A new one goes to the end."""


def version(name: str, at: Revision | None = None) -> int:
    """The version of the rule of an operator or function: now, or with a revision of it."""
    mine = [each for each in REVISIONS if name in each.of]
    return 1 + len(mine) if at is None else 2 + mine.index(at)


def revised(parts: Iterable[tuple[str, Any, str]]) -> list[Revision]:
    """Returns the revisions that concern a query, given its operators and calls, as (name, part, dialect)."""
    named: dict[str, list[tuple[Any, str]]] = {}
    for name, part, dialect in parts:
        named.setdefault(name, []).append((part, dialect))
    return [revision for revision in REVISIONS if any(_concerns(revision, named.get(name, ())) for name in revision.of)]


def _concerns(revision: Revision, parts: Iterable[tuple[Any, str]]) -> bool:
    return any(revision.dialect in ("", dialect) and revision.concerns(part) for part, dialect in parts)


def revision_of(key: str) -> Revision | None:
    """Returns the revision of this name; None if there is none, as where a newer release has it."""
    return next((revision for revision in REVISIONS if revision.key == key), None)


# Versions of the decoder of captures and of the reader of records. The ledger of captures has the number under which
# each was ingested.


OTHER = "other"
"""What the ledger of captures calls types beyond those that it keeps apart."""


@dataclass(frozen=True)
class Seen:
    """What the ledger knows of the packets or records of a capture.

    Attributes:
        format: of the file.
        link_type: name of its link type.
        undecoded: types of its packets without an IP header; None where the ledger does not tell.
        kept: what is stored of them beside the headers.
    """

    format: str
    link_type: str
    undecoded: Collection[str] | None
    kept: Collection[str]


@dataclass(frozen=True)
class Decoding:
    """What a version of the decoder, or of the reader of records, reads otherwise. Each collection limits whom it
    concerns; an empty one does not.

    Attributes:
        what: the change, in words.
        formats: of files, as in the ledger: `pcapng`, `csv`.
        link_types: names of link types: `PPP_SERIAL`.
        types: of packets that had no IP header (`capture.headers.undecoded`): `0x8874`.
        kept: what is stored beside the headers: `dns`, `payload`.
    """

    what: str
    formats: frozenset[str] = frozenset()
    link_types: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    def concerns(self, seen: Seen) -> bool:
        """Whether a capture may hold what is read otherwise; where the ledger does not know, it may."""
        return (
            (not self.formats or seen.format in self.formats)
            and (not self.link_types or seen.link_type in self.link_types)
            and (not self.types or seen.undecoded is None or not {*self.types, OTHER}.isdisjoint({*seen.undecoded}))
            and (not self.kept or not self.kept.isdisjoint({*seen.kept}))
        )


DECODINGS: Mapping[int, Decoding] = {}
"""Version of the decoder (`capture.content.retention.DECODER_VERSION`) -> what it reads otherwise. One that is not
here, as all up to 14, concerns every capture."""

READINGS: Mapping[int, Decoding] = {}
"""The same of the reader of records (`capture.tables.options.READER_VERSION`); all up to 4 concern every file."""


def last_version(version: int, records: bool, seen: Callable[[], Seen]) -> int:
    """The last version up to one that concerns a capture: with both, its packets are the same. `records`: whether it is
    of the reader of records."""
    table = READINGS if records else DECODINGS
    if version not in table:
        return version
    known = seen()
    while version in table and not table[version].concerns(known):
        version -= 1
    return version


def changes_of(after: int, version: int, records: bool, seen: Seen) -> str:
    """What the versions behind one, up to another, read otherwise of a capture; empty where no table tells."""
    table = READINGS if records else DECODINGS
    return "; ".join(
        change.what for at, change in sorted(table.items()) if after < at <= version and change.concerns(seen)
    )
