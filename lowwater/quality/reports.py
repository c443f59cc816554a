"""The data-quality reports of a lake: the verdicts of its audits, and their pages under reports/."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from hashlib import sha256
from operator import or_
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.instants import SECOND, format_instant
from lowwater.lake import layout, tables
from lowwater.lake.answers import answered
from lowwater.lake.ledgers.runs import AUDIT, read_measures, read_qualities, read_quality
from lowwater.lake.words import DONE, FAILED
from lowwater.storage import locks, paths

if TYPE_CHECKING:
    from lowwater_expectations.audits import Finding, SuiteFile, Validation, Verdict


CRITICAL = "critical"
MESSAGES_SHOWN = 3
"""Messages of one finding that are listed; beyond this number only the first is, with a count."""

KEY = ("query_set", "interval_start", "interval_end")
Key = tuple[str, int, int]


@dataclass(frozen=True)
class IntervalAudit:
    """The newest audit of one interval of a query set."""

    query_set: str  # name of the query set
    start: int  # first instant of the interval, ns since the epoch
    end: int  # end of the interval, ns since the epoch, exclusive
    verdict: Verdict  # passed, warned or failed
    failures: tuple[Finding, ...]  # failed findings without duplicates, critical ones first, without their rows
    pages: dict[str, str]  # suite -> address of its page, relative to `reports/`

    @property
    def key(self) -> Key:
        return self.query_set, self.start, self.end

    @property
    def interval(self) -> str:
        return f"{format_instant(self.start)} to {format_instant(self.end)}"

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(message for finding in self.failures for message in finding.messages)

    def says(self, state: str, reason: str) -> bool:
        """Whether it is why an interval is in a state for a reason, as `status` has them: a run that failed in another
        stage has left the audit of the run before."""
        if state == FAILED:
            return self.verdict == FAILED and reason.startswith(f"{AUDIT}: ")
        return self.verdict == "warned" and state == DONE

    @property
    def brief(self) -> tuple[tuple[str, str], ...]:
        """(severity, message) of the failures; many messages of one finding are shortened to the first and a count."""
        lines = []
        for finding in self.failures:
            more = len(finding.messages) - MESSAGES_SHOWN
            messages = finding.messages if more <= 0 else finding.messages[:1]
            lines += [(finding.severity, message) for message in messages]
            lines += [(finding.severity, f"and {more + MESSAGES_SHOWN - 1} more like it")] if more > 0 else []
        return tuple(lines)

    @property
    def page(self) -> str:
        """The address of the page to read first: the one with the gravest failure."""
        return self.pages[self.failures[0].suite] if self.failures else next(iter(self.pages.values()))


def graver_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The failed findings, critical ones first, otherwise in their order."""
    failed = [finding for finding in findings if not finding.success]
    return tuple(sorted(failed, key=lambda finding: finding.severity != CRITICAL))


def interval_audits(lake: layout.Lake, start: int = 0, end: int = 1 << 62) -> list[IntervalAudit]:
    """Reads the newest audit of every interval that begins in [start, end), ns, sorted by query set and interval."""
    from lowwater_expectations.audits import SUITES, once, verdict

    rows = read_qualities(lake, start, end)
    failed = _findings(rows.filter(pc.invert(rows.column("success"))))
    pages: dict[Key, dict[str, str]] = {}
    for row in rows.select([*KEY, "suite", "page"]).group_by([*KEY, "suite", "page"]).aggregate([]).to_pylist():
        pages.setdefault(_key(row), {})[row["suite"]] = row["page"]
    return [
        IntervalAudit(
            *key,
            verdict(failed.get(key, ())),
            graver_first(once(failed.get(key, ()))),
            dict(sorted(pages[key].items(), key=lambda page: _place(page[0], SUITES))),
        )
        for key in sorted(pages)
    ]


def told_audits(lake: layout.Lake) -> tuple[list[IntervalAudit], dict[Key, list[str]]]:
    """The newest audits of all intervals, without the pages of those in which nothing failed; and what `left_out` says
    of them: an answer that stands as long as no audit comes."""
    from lowwater_expectations.audits import Finding

    def told() -> list[Any]:
        audits = [
            [*each.key, each.verdict, [vars(failure) for failure in each.failures], each.pages if each.failures else {}]
            for each in interval_audits(lake)
        ]
        return [audits, [[*key, lines] for key, lines in left_out(lake).items()]]

    def finding(values: Mapping[str, Any]) -> Finding:
        return Finding(**{**values, "rows": tuple(values["rows"]), "messages": tuple(values["messages"])})

    audits, missing = answered(lake, "audits", "", told)
    return (
        [
            IntervalAudit(name, start, end, verdict, tuple(map(finding, failures)), pages)
            for name, start, end, verdict, failures, pages in audits
        ],
        {(name, start, end): lines for name, start, end, lines in missing},
    )


_LEFT_OUT = {
    "violating": "later than the skew", "malformed": "malformed", "lost": "lost in damaged bytes",
    "dropped": "lost before they were written, as the captures say",
}  # fmt: skip


def left_out(lake: layout.Lake, start: int = 0, end: int = 1 << 62) -> dict[Key, list[str]]:
    """Says of every audited interval that begins in [start, end), ns, which records are in no row of any query, however
    few, in a line for each link; none where all are."""
    numbers = [pa.field(name, pa.int64()) for name in ("read", *_LEFT_OUT)]
    keys = [pa.field(KEY[0], pa.string()), *(pa.field(name, pa.int64()) for name in KEY[1:])]
    some = reduce(or_, (pc.field(name) > 0 for name in _LEFT_OUT))
    chosen = tables.within("interval_start", start, end) & some
    rows = tables.read_rows(lake.measures("links"), pa.schema([*keys, pa.field("link", pa.string()), *numbers]), chosen)
    lines: dict[Key, list[str]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: str(row["link"])):
        counts = [f"{row[name]:,} {words}" for name, words in _LEFT_OUT.items() if row[name]]
        lines.setdefault(_key(row), []).append(
            f"link {row['link']!r}: in no row: {', '.join(counts)}; {row['read']:,} read"
        )
    return lines


def findings(lake: layout.Lake, audit: IntervalAudit) -> list[Finding]:
    """Reads every finding of an audit, in the order of the suites."""
    return _findings(read_quality(lake, *audit.key)).get(audit.key, [])


def _place(suite: str, suites: Sequence[str]) -> int:
    """The place of a suite among those that this version knows; behind them for another one."""
    return suites.index(suite) if suite in suites else len(suites)


def _key(row: dict[str, Any]) -> Key:
    return row["query_set"], row["interval_start"], row["interval_end"]


def _findings(rows: pa.Table) -> dict[Key, list[Finding]]:
    """The findings of each audit, in the order of the suites."""
    by_key = tables.grouped((_key(row), row) for row in rows.to_pylist())
    return {key: _in_order(of_key) for key, of_key in by_key.items()}


def _in_order(rows: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Findings of rows of the ledger, in the order of the suites."""
    from lowwater_expectations.audits import SUITES, Finding

    found = list[Finding]()
    for row in sorted(rows, key=lambda row: (_place(row["suite"], SUITES), row["kind"], row["severity"])):
        same = {name: row[name] for name in ("suite", "expectation", "kind", "severity", "success", "evaluated")}
        messages = tuple(filter(None, row["messages"].split("\n")))
        title = row["title"] or row["kind"].removeprefix("expect_").replace("_", " ")
        found.append(Finding(**same, unexpected=row["unexpected"], rows=(), messages=messages, title=title))
    return found


# The data-quality report: `reports/<query set>/<interval>/<suite>.html`. The ledgers have all that a page shows, so it
# is drawn when somebody asks for it. Pages of suites that did not pass are files as well, since messages name them; so
# are all those of an older version (docs/adr/0187).


def page_of(query_set: str, start: int, end: int, suite: str) -> str:
    """The address of a page of the audit of an interval, relative to `reports/`."""
    return f"{folder_of(query_set, start, end)}/{suite}.html"


def folder_of(query_set: str, start: int, end: int) -> str:
    """The folder of the pages of the audit of an interval, relative to `reports/`."""
    return f"{tables.safe_name(query_set)}/{tables.interval_label(start, end)}"


class Page(NamedTuple):
    """A page of an audit."""

    query_set: str  # whose audit it is of
    address: str  # relative to `reports/`
    html: str


def page(lake: layout.Lake, address: str) -> Page | None:
    """Draws the page of an audit at an address; None where the ledgers have none of it.
    Raises LakeError if a ledger cannot be read."""
    try:
        start, _ = tables.label_bounds(PurePath(address).parent.name) or (-1, -1)
    except ValueError:  # an instant that there is not
        return None
    if not 0 <= start < 1 << 62:
        return None
    return next(drawn(lake, start, start + 1, lambda each: each == address), None)


def drawn(lake: layout.Lake, start: int, end: int, wanted: Callable[[str], bool]) -> Iterator[Page]:
    """Draws the pages of the newest audits of intervals that begin in [start, end), ns, whose addresses are wanted. One
    whose measures are of a version that had fewer is left out. Raises LakeError if a ledger cannot be read."""
    from lowwater_expectations.audits import SUITES, read_suite
    from lowwater_expectations.pages import render

    rows = read_qualities(lake, start, end)
    rows = rows.filter(pa.array([wanted(each) for each in rows.column("page").to_pylist()], pa.bool_()))
    suites = [read_suite(name) for name in SUITES if name in pc.unique(rows.column("suite")).to_pylist()]
    names = {"queries", *(suite.meta["table"] for suite in suites)} if suites else ()
    measures = {name: _by_interval(read_measures(lake, name, start, end)) for name in names}
    of_pages = tables.grouped(((_key(row), row["suite"], row["page"]), row) for row in rows.to_pylist())
    for (key, name, place), findings_ in of_pages.items():
        suite = next((each for each in suites if each.name == name), None)
        if suite is None:
            continue  # of another version
        frame = measures[suite.meta["table"]].get(key, [])
        if suite.meta["table"] == "rows":
            frame = [*frame, *_unasked(measures["queries"].get(key, []), frame)]
        if frame and suite.needs() <= frame[0].keys():
            yield Page(key[0], place, render(_validation(suite, key, findings_, frame)))


def _by_interval(rows: pa.Table) -> dict[Key, list[dict[str, Any]]]:
    return tables.grouped((_key(row), row) for row in rows.to_pylist())


def _unasked(queries: Iterable[Mapping[str, Any]], asked: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields rows of queries of whose rows nothing is asked: ledgers do not keep them, and a page says so."""
    from lowwater.quality.streams import RuleResult

    known, nothing = {row["query"] for row in asked}, RuleResult(None).measures()
    for row in queries:
        if row["query"] not in known:
            yield {**{name: row[name] for name in ("query", "interval", "links", "captures")}, **nothing}


def _validation(
    suite: SuiteFile, key: Key, rows: Sequence[Mapping[str, Any]], frame: Sequence[Mapping[str, Any]]
) -> Validation:
    """What an audit found, of rows of the ledgers; which rows of measures broke a rule is what its messages say."""
    from lowwater_expectations.audits import Validation

    entries = {entry.id: entry for entry in suite.expectations}
    known = tables.grouped((finding.expectation, finding) for finding in _in_order(rows))
    findings_ = []
    for name, entry in entries.items():
        for finding in known.get(name, []):
            said = {message.replace("\n", " ") for message in finding.messages}
            at = (at for at, row in enumerate(frame) if said and suite.message(entry, row).replace("\n", " ") in said)
            findings_.append(replace(finding, rows=tuple(at)))
    when = datetime.fromtimestamp(rows[0]["audited_at"] // SECOND, UTC).isoformat()
    return Validation(suite.name, tuple(findings_), frame, f"{key[0]} {format_instant(key[1])}", when)


def write_pages(lake: layout.Lake, pages: Mapping[str, Validation], scratch: Path) -> None:
    """Writes the pages of suites that did not pass, and the assets and descriptions that all share; LakeError where it
    cannot."""
    from lowwater_expectations.pages import render

    def write(page: tuple[str, bytes]) -> None:
        path = lake.reports / page[0]
        _write(path, page[1], scratch / path.parent.name, lake.fence, True)

    rendered = [(address, render(validation).encode()) for address, validation in pages.items()]
    if isinstance(lake.root, Path):
        paths.each_at_once(write, rendered)
    else:
        for page in rendered:
            write(page)
    shared = shared_files()
    note = lake.reports / "assets" / "version.txt"
    version = sha256(b"".join(shared[name] for name in sorted(shared))).hexdigest().encode()
    if _content(note) != version:  # which tells that all of them are there
        for name, data in shared.items():
            _write(lake.reports / name, data, scratch)
        _write(note, version, scratch)


def shared_files() -> dict[str, bytes]:
    """The files that all pages share, by their addresses below `reports/`: styles, and what the suites ask."""
    from lowwater_expectations.pages import assets, render_suites

    shared = {f"assets/{name}": data for name, data in assets().items()}
    return shared | {f"suites/{name}": text.encode() for name, text in render_suites().items()}


def _content(path: PurePath) -> bytes | None:
    with suppress(FileNotFoundError):
        return paths.read_lately(path)
    return None


def _write(path: PurePath, data: bytes, scratch: Path, fence: locks.Fence | None = None, new: bool = False) -> None:
    with tables.lake_errors(f"{path}: the data-quality report cannot be written"):
        try:
            # Under a lease it is compared where it is written.
            if fence is not None or not paths.has_file(path) or paths.read(path) != data:
                paths.write(path, data, scratch, fence, new)
        except locks.LostError as error:
            raise tables.lost(path, str(error)) from None
