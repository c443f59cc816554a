"""Accounts of a run (SEMANTICS A1): every record by outcome, for each link, LFTA and query; and their rows in the
ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import errors, instants
from lowwater.config import Config
from lowwater.lake.layout import HEARTBEATS, OUTCOMES
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.ledgers.drops import counted
from lowwater.low import LinkResult
from lowwater.low.runtime.statistics import merge_work
from lowwater.stream.records import SourceCount

# Every engine fills them. They are checked before results are written, and `lowwater run` prints them.

COUNTED = ("sane", *OUTCOMES)
TOTALS = ("rows_out", "punctuations", "ejections", "collisions", "spared")


@dataclass
class LinkCounts:
    """Record counts of one link; a record is in one of them."""

    malformed: int = 0
    violating: int = 0
    duplicates: int = 0
    sane: int = 0

    @property
    def read(self) -> int:
        return self.malformed + self.violating + self.duplicates + self.sane


@dataclass
class Accounts:
    """The accounts of one or more intervals."""

    links: dict[str, LinkCounts] = field(default_factory=dict)  # link -> its counts
    # (LFTA, link) -> counts named in COUNTED and TOTALS
    lftas: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)

    def add_link(self, name: str, sane: int, violations: pa.Table, duplicates: int = 0) -> None:
        link = self.links.setdefault(name, LinkCounts())
        link.sane += sane
        link.violating += violations.num_rows
        link.duplicates += duplicates

    def add_source(self, count: SourceCount) -> None:
        """Adds what the reference engine counted of a source."""
        counts = self.counts(count.source, count.link)
        for name in COUNTED:
            counts[name] += getattr(count, name)

    def add(self, result: LinkResult) -> None:
        """Adds the result of the low stage for a link."""
        self.add_link(result.link, result.sane, result.violations, result.duplicates)
        for statistics in result.statistics:
            counts = self.counts(statistics.lfta, result.link)
            for name in TOTALS:
                counts[name] += getattr(statistics, name)
        minutes = result.minutes
        for lfta in minutes.column("lfta").unique().to_pylist():
            mine = minutes.filter(pc.equal(minutes.column("lfta"), lfta))
            for name in COUNTED:
                self.counts(lfta, result.link)[name] += pc.sum(mine.column(name)).as_py()

    def counts(self, lfta: str, link: str) -> dict[str, int]:
        return self.lftas.setdefault((lfta, link), dict.fromkeys((*COUNTED, *TOTALS), 0))

    def keep(self, links: Container[str]) -> None:
        """Drops the accounts of other links: of a query that failed, not every interval was read."""
        self.links = {name: counts for name, counts in self.links.items() if name in links}

    def check(self) -> None:
        """Checks that every LFTA accounts for every sane record of its link.
        Raises LawError if a record is in no account, or in two."""
        for (lfta, link), counts in self.lftas.items():
            named = sum(counts[name] for name in OUTCOMES)
            if counts["sane"] != named:
                sane = f"{counts['sane']} sane records"
                raise errors.LawError(f"LFTA {lfta} on {link}: {sane}, but its outcomes add up to {named}")

    def check_captures(self, captures: Mapping[str, Sequence[Capture]]) -> None:
        """Checks a run over whole captures against the ledger, and adds the malformed records of the ledger.
        Raises LawError if the records of a link are not all accounted for."""
        for name, counts in self.links.items():
            rows = captures[name]
            counts.malformed = sum(row.malformed for row in rows)
            packets = sum(row.packets for row in rows)
            if packets != counts.sane + counts.violating + counts.duplicates:
                dropped = f", {counts.duplicates} duplicates" if counts.duplicates else ""
                known = f"{counts.sane} sane and {counts.violating} violating{dropped}"
                raise errors.LawError(f"link {name}: {packets} records, {known}")


def lfta_counts(accounts: Accounts, names: set[str]) -> dict[str, dict[str, dict[str, int]]]:
    """Selects the counts of some LFTAs: LFTA -> link -> counts."""
    selected: dict[str, dict[str, dict[str, int]]] = {}
    for (lfta, link), counts in sorted(accounts.lftas.items()):
        if lfta in names:
            selected.setdefault(lfta, {})[link] = dict(counts)
    return selected


def largest_lateness(batches: Iterable[pa.RecordBatch]) -> int:
    """The largest lateness of packets, ns: the skew that admits all of them (T2)."""
    latest = (pc.max(pc.subtract(batch.column("arrival"), batch.column("timestamp"))).as_py() for batch in batches)
    return max((lateness for lateness in latest if lateness is not None), default=0)


def link_summary(
    config: Config,
    accounts: Accounts,
    captures: Sequence[Capture],
    name: str,
    latest: int,
    given: Mapping[str, str],
) -> dict[str, Any]:
    """The entry of a link in the summary.

    Args:
        latest: largest lateness of its records, ns.
        given: path of a file in the ledger -> as the user gave it.
    """
    skew = config.link(name).skew
    paths = [given.get(row.path, row.path) for row in captures]
    ends = zip(paths, captures, strict=True)
    cut = {path: instants.format_instant(row.covers_to) for path, row in ends if not row.ended_cleanly}
    dropped = counted(Captures.of(captures).lost)[0]
    shared: dict[str, Any] = {"captures": paths, "cut": cut, "skew_ns": skew}
    if damage := Captures.of(captures).holes:
        shared["damage"] = [
            {"capture": paths[at], **vars(hole), "from": span[0], "to": span[1], "covered": not hole.is_gap}
            for at, hole, span in damage
        ]
    if name not in accounts.links:  # no query reads the link: its records are only counted
        malformed = sum(row.malformed for row in captures)
        packets = sum(row.packets for row in captures)
        return {**shared, "read": malformed + packets, "malformed": malformed, "dropped": dropped, "queried": False}
    counts = accounts.links[name]
    return {
        **shared,
        "read": counts.read,
        "malformed": counts.malformed,
        "dropped": dropped,
        "violating": counts.violating,
        **({} if config.link(name).duplicates == "keep" else {"duplicates": counts.duplicates}),
        **left_out(captures),
        "sane": counts.sane,
        "skew_that_admits_all_ns": latest,
    }


def left_out(captures: Sequence[Capture]) -> dict[str, dict[str, int]]:
    """The records of other types in the logs of a link, by type; nothing where there are none."""
    counts: Counter[str] = Counter()
    for row in captures:
        counts.update(row.left_out_counts)
    return {"left_out": dict(sorted(counts.items()))} if counts else {}


RECORD_WORDS = {
    "sane": "go on to the queries",
    "malformed": "are malformed",
    "violating": "are later than the skew",
    "duplicates": "are dropped as copies",
    "outside": "are outside of the life of the link",
}
"""Where a record of a link is counted, in words that follow a number of records."""
OUTCOME_WORDS = {
    "not_of_protocol": "are not of the protocol",
    "filtered": "do not meet WHERE",
    "failed": "have no value where WHERE asks for one",
    "sampled_out": "are not in the sample",
    "shed": "are shed",
    "accepted": "go to its joins, groups and HAVING",
}
"""What becomes of a sane record in an LFTA, in words that follow a number of packets."""


_OF_ONE = {"are": "is", "do": "does", "go": "goes", "have": "has"}


def spoken_count(count: int, words: str) -> str:
    """Returns a number and what so many are or do, by words of RECORD_WORDS or OUTCOME_WORDS.

    Example:
        >>> spoken_count(1, "do not meet WHERE"), spoken_count(1_200, "are malformed")
        ('1 does not meet WHERE', '1,200 are malformed')
    """
    verb, _, rest = words.partition(" ")
    return f"{count:,} {_OF_ONE[verb] if count == 1 else verb} {rest}"


def empty_query_notes(queries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Says for each query without rows where its packets went, by link and LFTA.

    Example:
        >>> counts = {"sane": 5, "not_of_protocol": 3, "filtered": 2, "accepted": 0}
        >>> empty_query_notes({"syns": {"rows": 0, "lftas": {"syns_low": {"main1": counts}}}})
        ['query syns has no rows: of 5 packets of main1, 3 are not of the protocol, 2 do not meet WHERE']
    """
    notes = []
    for name, query in queries.items():
        if query.get("rows") != 0:
            continue
        parts = [
            f"of {counts['sane']:,} packet{'' if counts['sane'] == 1 else 's'} of {link}, "
            + ", ".join(spoken_count(counts[key], words) for key, words in OUTCOME_WORDS.items() if counts.get(key))
            for links in query.get("lftas", {}).values()
            for link, counts in links.items()
            if counts["sane"]
        ]
        notes.append(f"query {name} has no rows: " + ("; ".join(dict.fromkeys(parts)) or "no packet was read"))
    return notes


# Rows of the ledger `heartbeats` for one link: accounts and statistics of its LFTAs.

MINUTE = 60_000_000_000
_ROWS = pa.schema([field for field in HEARTBEATS if field.name != "query_set"])


def heartbeat_rows(result: LinkResult, start: int, end: int) -> pa.Table:
    """Builds the accounts and statistics of one link, by LFTA and minute, within an interval. Returns HEARTBEATS
    without `query_set`. A minute without accounts has zeros, a minute without statistics has NULL."""
    rows = {(row["lfta"], row["minute"]): row for row in result.minutes.to_pylist()}
    for row in merge_work([_within(result.work, start, end)]).to_pylist():
        at = row["lfta"], row["minute"]
        rows[at] = {**dict.fromkeys(COUNTED, 0), **rows.get(at, {}), **row}
    ledger_rows = []
    for (_, minute), row in sorted(rows.items()):
        bounds = {"start": max(start, minute * MINUTE), "end": min(end, (minute + 1) * MINUTE)}
        ledger_rows.append({**row, "link": result.link, **bounds})
    return pa.Table.from_pylist(ledger_rows, schema=_ROWS)


def _within(work: pa.Table, start: int, end: int) -> pa.Table:
    """Moves statistics outside the interval to its first or last minute."""
    first, last = (pa.scalar(instant // MINUTE, pa.int64()) for instant in (start, end - 1))
    minutes = pc.min_element_wise(pc.max_element_wise(work.column("minute"), first), last)
    at = work.schema.get_field_index("minute")
    return work.set_column(at, work.schema.field(at), minutes)
