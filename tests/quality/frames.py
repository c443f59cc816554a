"""Measure frames to validate: one row a subject that keeps every rule, and for each expectation what breaks it."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
from lowwater_expectations.audits import Validation, read_suite, validate

INTERVAL = "2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z"
RUN = "demo 2026-01-01T00:00:00Z"
SECOND = 1_000_000_000
LATE = "a.pcap record 17 (2.3s late), a.pcap record 40 (1.1s late)"
LOST = "1 record was lost between 2026-01-01T00:00:00Z and 2026-01-01T01:00:00Z, as a.pcap says"
OF_LINK = {"link": "main1", "interval": INTERVAL, "captures": "a.pcap, b.pcap"}
OF_QUERY = {"query": "flows", "interval": INTERVAL, "links": "main1, main2", "captures": "a.pcap, b.pcap, c.pcap"}
ROW = "tb=7 srcIP=10.0.0.1 _last=1767225599999999999"


def limits(measure: str, warning: float, critical: float) -> dict[str, float]:
    """The two limits of a measure; the unit is behind them."""
    name, _, unit = measure.partition("/")
    return {f"{name}_warning{unit}": warning, f"{name}_critical{unit}": critical}


LINK: dict[str, Any] = OF_LINK | {
    "read": 1000, "malformed": 1, "violating": 2, "sane": 997, "outcomes": 1000,
    "account": "malformed 1 + violating 2 + sane 997 + outside 0",
    **dict.fromkeys(("duplicates", "outside", "left_out", "uncovered", "misdated", "apart", "shared"), 0),
    **dict.fromkeys(("unaccounted", "uncounted", "untabled", "gap_ns", "excluded_ns"), 0),
    **dict.fromkeys(("undeclared", "silent_ns", "unread", "lost"), 0),
    **dict.fromkeys(("copies", "copies_share", "copies_elsewhere", "copies_elsewhere_share")),
    **dict.fromkeys(("places", "shared_with", "strays", "gaps", "undeclared_files", "silent", "not_read"), ""),
    "damage": "",
    "violating_share": 0.002, **limits("violating", 0.01, 0.1),
    "malformed_share": 0.001, **limits("malformed", 0.01, 0.1),
    "dropped": 0, "drops": "", "dropped_share": 0.0, **limits("dropped", 0, 1),
    "undecoded": 0, "undecoded_share": 0.0, "undecoded_types": "", **limits("undecoded", 0.05, 1.0),
    "latest_ns": 2_300_000_000, "skew_ns": SECOND, "violations": LATE, "offsets": "b.pcap at byte 1234 (cut)",
}  # fmt: skip
SKEW: dict[str, Any] = OF_LINK | {
    "hour": "2026-01-01T00:00:00Z", "read": 999, "violating": 2,
    "violating_share": 2 / 999, "arrived_share": 2 / 999, "judged_share": 2 / 999, **limits("violating", 0.01, 0.1),
    "own_read": 1000, "own_violating": 3, "own_violating_share": 0.003, "own_captures": "b.pcap",
    "latest_ns": 2_300_000_000, **limits("latest/_ns", 600 * SECOND, 3600 * SECOND),
    "week_before_share": None, "growth_share": 0.0, **limits("growth", 0.05, 0.5),
    "skew_ns": SECOND, "first": LATE, "worst_capture": "a.pcap", "worst_capture_share": 1.0,
    "recommended_ns": 5 * SECOND, "recommended_lost": 0, "recommended_lost_share": 0.0, "recommended_held": 2,
}  # fmt: skip
LFTA: dict[str, Any] = OF_LINK | {
    "lfta": "flows_0", "sane": 997, "named": 997,
    **dict.fromkeys(("unaccounted", "disagreement", "ahead", "behind"), 0),
    "failed": 3, "failed_share": 3 / 997, **limits("failed", 0.01, 0.1),
}  # fmt: skip
QUERY: dict[str, Any] = OF_QUERY | {
    "rows": 250, "made": 250, "keys": "tb, srcIP",
    **dict.fromkeys(("changed", "not_owned", "below_promise", "duplicate_keys", "open_ns"), 0),
    **dict.fromkeys(("columns", "damage", "example"), ""),
}  # fmt: skip
ROWS: dict[str, Any] = OF_QUERY | {
    "rule": "port values to be between: min_value 1", "severity": "warning", "why": "",
    "values": 250, "broken": 2, "allowed": 2, "kept": True, "warned": 0, "refused": 0,
    "found": "broken by 2 of 250, 2 allowed", "observed": "", "example": "",
}  # fmt: skip
LINK_HISTORY: dict[str, Any] = {
    "past": 24, "volume": 1000, "usual_volume": 1100, "violations_share": 0.002, "usual_violations_share": 0.001,
    "lateness_ns": 820_000_000, "usual_lateness_ns": 800_000_000,
    "silence_ns": 3 * SECOND, "usual_silence_ns": 2 * SECOND,
    "new_link_types": "", "changed_talkers": "10.0.0.1 20.0% -> 25.0%",
}  # fmt: skip
for _drift, _warning in (
    ("volume", 0.8), ("violating", 0.05), ("lateness", 0.5), ("silence", 0.9), ("link_types", 0.0), ("talkers", 0.5)
):  # fmt: skip
    LINK_HISTORY |= {f"{_drift}_drift": 0.0, **limits(f"{_drift}_drift", _warning, 0.95)}
QUERY_HISTORY: dict[str, Any] = {"past": 24, "volume": 250, "usual_volume": 260, "volume_drift": 0.04}
QUERY_HISTORY |= limits("volume_drift", 0.8, 0.95)


class Case(NamedTuple):
    """An entry of a suite file, by its name, with what breaks it and what the message must say then."""

    name: str
    broken: dict[str, Any]
    says: str


def both(kind: str, drift: str, broken: dict[str, Any], says: str) -> tuple[Case, Case]:
    """The cases of an expectation about a drift: beyond its warning limit, and beyond its critical one."""
    known = "in 24 earlier intervals: a difference of "
    warning, critical = (LINK_HISTORY | QUERY_HISTORY)[f"{drift}_drift_warning"] + 0.01, 0.99
    return (
        Case(
            f"{kind}/warning", {f"{drift}_drift": warning, **broken}, f"{says} {known}{100 * warning:.4g}%, more than"
        ),
        Case(f"{kind}/critical", {f"{drift}_drift": critical, **broken}, f"{says} {known}99%, more than the critical"),
    )


GAP = "2026-01-01T00:59:40Z to 2026-01-01T01:00:00Z"
STRAYS = "2026-01-01T00:17:00Z 3 more in packets/ (a.pcap records 120 to 190)"
BROKEN = {"broken": 3, "warned": 1, "found": "broken by 3 of 250, 2 allowed", "example": ROW}
REFUSED = {"severity": "critical", "refused": 1, "found": "broken by 3 of 250", "why": "port 0 is no port"}
CASES: dict[str, tuple[Case, ...]] = {
    "links": (
        Case("link_to_be_covered", {"gap_ns": 20 * SECOND, "gaps": GAP},
             f"20s of traffic are missing: no capture covers {GAP}"),
        Case("link_to_exclude_nothing", {"excluded_ns": 20 * SECOND, "gaps": GAP},
             f"20s of traffic are missing, so the interval is incomplete: no capture covers {GAP}"),
        Case("link_interface_to_be_declared", {"undeclared": 1, "undeclared_files": "b.pcapng (all of it)"},
             "the interface is not declared by 1 capture, so nothing was seen of it there: b.pcapng (all"),
        Case("link_to_have_nothing_unread", {"unread": 1, "not_read": "a.pcap1 (no pattern claims it)"},
             "traffic of the interval is known and not read, so the interval is incomplete: a.pcap1 (no pattern"),
        Case("link_records_to_be_accounted_for", {"unaccounted": 3, "uncounted": 3, "strays": STRAYS},
             "the ledgers lack 3 records of the table; read 1,000, counted: malformed 1 + violating 2 + sane 997 + "
             f"outside 0; {STRAYS}"),
        Case("link_outcomes_to_add_up", {"sane": 990, "outcomes": 993, "account": "malformed 1 + violating 2"},
             "read 1,000, but the outcomes add up to 993: malformed 1 + violating 2"),
        Case("link_records_to_lie_inside", {"left_out": 7, "uncovered": 2, "apart": 9, "places": "of 1,000 read, 7"},
             "of 1,000 read, 7"),
        Case("link_captures_to_hold_records_to_their_ends", {"silent_ns": 2410 * SECOND, "silent": "a.pcap covers 2"},
             "2410s count as covered without a record, and the recorder may have been stopped: a.pcap covers 2"),
        Case("link_captures_to_be_read_once", {"shared": 1000, "shared_with": "a.pcap is a.pcap.gz of link 'copy'"},
             "a query over both links counts up to 1,000 records twice: a.pcap is a.pcap.gz of link 'copy'"),
        Case("link_captures_to_be_undamaged", {"lost": 12, "damage": "b.pcap is damaged: 9,000 bytes from byte 24 on"},
             "about 12 records of the interval are lost, since b.pcap is damaged: 9,000 bytes from byte 24 on"),
        Case("link_malformed_to_stay_within_limit/warning", {"malformed": 12, "malformed_share": 0.012, "sane": 986},
             "12 of 1,000 records (1.2%) are malformed, more than the warning limit of 1%; the first: b.pcap at byte"),
        Case("link_malformed_to_stay_within_limit/critical", {"malformed": 120, "malformed_share": 0.12, "sane": 878},
             "120 of 1,000 records (12%) are malformed, more than the critical limit of 10%; the first: b.pcap at"),
        Case("link_drops_to_stay_within_limit/warning", {"dropped": 1, "dropped_share": 0.001, "drops": LOST},
             f"{LOST}: 0.1% of the records, more than the warning limit of 0%"),
        Case("link_drops_to_stay_within_limit/critical",
             {"dropped": 900, "dropped_share": 0.5, "dropped_critical": 0.4, "drops": LOST},
             f"{LOST}: 50% of the records, more than the critical limit of 40%"),
        Case("link_packets_to_be_decoded/warning",
             {"undecoded": 60, "undecoded_share": 0.06, "undecoded_types": "0x8874"},
             "0x8874; the warning limit is 5%"),
        Case("link_packets_to_be_decoded/critical",
             {"undecoded": 60, "undecoded_share": 0.06, "undecoded_types": "0x8874", "undecoded_critical": 0.05},
             "0x8874; the critical limit is 5%"),
    ),
    "skew": (
        Case("link_violations_to_stay_within_limit/warning",
             {"violating": 12, "violating_share": 0.012, "judged_share": 0.012},
             "12 of 999 records (1.2%) are later than the skew of 1s by arrival, and 3 of 1,000 (0.3%) by their own "
             "time, more than the warning limit of 1%; the first: a.pcap record 17 (2.3s late), a.pcap record 40 (1.1s "
             "late); of its own time: b.pcap"),
        Case("link_violations_to_stay_within_limit/critical",
             {"read": 0, "violating": 0, "violating_share": 0.0, "first": "", "judged_share": 1.0,
              "own_read": 60, "own_violating": 60, "own_violating_share": 1.0},
             "0 of 0 records (0%) are later than the skew of 1s by arrival, and 60 of 60 (100%) by their own time, "
             "more than the critical limit of 10%; of its own time: b.pcap"),
        Case("link_latest_to_stay_within_limit/warning", {"latest_ns": 601 * SECOND},
             "the latest record came 601s behind the clock of the link, more than the warning limit of 10min; the"),
        Case("link_latest_to_stay_within_limit/critical", {"latest_ns": 4000 * SECOND},
             "the latest record came 4000s behind the clock of the link, more than the critical limit of 1h; the"),
        Case("link_violations_to_grow_within_limit/warning",
             {"arrived_share": 0.009, "week_before_share": 0.0, "growth_share": 0.06},
             "0.9% of the records are later than the skew, a week before 0%: more by 6% than then, and the warning "
             "limit is 5%; recommended skew: 5s"),
        Case("link_violations_to_grow_within_limit/critical",
             {"arrived_share": 0.009, "week_before_share": 0.0, "growth_share": 0.6},
             "0.9% of the records are later than the skew, a week before 0%: more by 60% than then, and the critical"),
    ),
    "lftas": (
        Case("lfta_outcomes_to_add_up", {"named": 995, "unaccounted": 2},
             "its outcomes add up to 995 of 997 sane records, so 2 have none"),
        Case("lftas_to_agree", {"disagreement": -5, "behind": 5},
             "it read 997 sane records, 5 fewer than the other LFTAs of the link"),
        Case("lfta_failures_to_stay_within_limit/warning", {"failed": 20, "failed_share": 20 / 997},
             "20 of 997 records (2.006%) failed in an expression, more than the warning limit of 1%"),
        Case("lfta_failures_to_stay_within_limit/critical", {"failed": 200, "failed_share": 200 / 997},
             "200 of 997 records (20.06%) failed in an expression, more than the critical limit of 10%"),
    ),
    "queries": (
        Case("query_columns_as_planned", {"columns": "cnt is string, not int64"},
             "the columns differ from the plan: cnt is string, not int64"),
        Case("query_rows_as_made", {"rows": 249}, "the stream has 249 rows, but the high stage wrote 250"),
        Case("query_files_as_made", {"changed": 1}, "the files of the stream, 250 rows, have changed since the high"),
        Case("query_keys_to_be_unique", {"duplicate_keys": 1, "example": ROW},
             f"1 key (tb, srcIP) in more than one row; the first: {ROW}"),
        Case("query_rows_to_be_owned", {"not_owned": 2, "example": ROW},
             f"2 rows with _last outside of the interval; the first: {ROW}"),
        Case("query_promises_to_be_kept", {"below_promise": 1, "example": ROW},
             f"1 row below an earlier promise; the first: {ROW}"),
        Case("query_to_be_closed", {"open_ns": 600 * SECOND}, "its last promise is 10min before the interval's end"),
        Case("query_published_rows_to_stand", {"damage": "the table has 8 rows of it, 4 were published"},
             "the published rows of the interval were damaged: the table has 8 rows of it, 4 were published"),
    ),
    "rows": (
        Case("query_rows_to_keep_rule/warning", BROKEN,
             f"port values to be between: min_value 1: broken by 3 of 250, 2 allowed; the first: {ROW}"),
        Case("query_rows_to_keep_rule/critical", REFUSED,
             "port values to be between: min_value 1 (port 0 is no port): broken by 3 of 250"),
    ),
    "link_history": (
        *both("link_volume_as_usual", "volume", {"volume": 100}, "100 records arrived, usually 1,100"),
        *both("link_violations_as_usual", "violating", {"violations_share": 0.2},
              "20% of the records are later than the skew, usually 0.1%"),
        *both("link_lateness_as_usual", "lateness", {"lateness_ns": 2 * SECOND},
              "99.9% of the records are no later than 2s, usually 800ms"),
        *both("link_silence_as_usual", "silence", {"silence_ns": 600 * SECOND},
              "the longest silence was 10min, usually 2s"),
        *both("link_types_as_usual", "link_types", {"new_link_types": "RAW"},
              "captures have the new link type RAW, absent"),
        *both("link_talkers_as_usual", "talkers", {"changed_talkers": "10.0.0.9 0.0% -> 60.0%"},
              "senders changed, most of all 10.0.0.9 0.0% -> 60.0%, compared with those"),
    ),
    "query_history": both("query_volume_as_usual", "volume", {"volume": 1}, "the query gave 1 row, usually 260"),
}  # fmt: skip
"""Per suite, in the order of its file."""

GOOD: dict[str, dict[str, Any]] = {
    "links": LINK | LINK_HISTORY, "skew": SKEW, "lftas": LFTA, "queries": QUERY | QUERY_HISTORY, "rows": ROWS,
}  # fmt: skip
"""Table of measures -> a row that keeps every rule."""
OTHER: dict[str, dict[str, Any]] = {
    "links": {"link": "main2", "captures": "c.pcap", "violations": "", "offsets": ""},
    "skew": {"link": "main2", "captures": "c.pcap", "violating": 0, "violating_share": 0.0, "first": ""},
    "lftas": {"lfta": "flows_1", "link": "main2", "captures": "c.pcap"},
    "queries": {"query": "full_flow", "links": "main2"},
    "rows": {"query": "full_flow", "links": "main2", "rule": "nothing is asked of its rows", "values": 0},
}
"""What tells the second row of a table from the first."""


def frames(suite: str = "", **broken: Any) -> dict[str, pa.Table]:
    """Tables of two rows each that keep every rule, but for the first row of the table of one suite.

    Args:
        suite: the suite to break.
        broken: what differs in its first row.
    """
    rows = {name: [dict(row), row | OTHER[name]] for name, row in GOOD.items()}
    if suite:
        rows[read_suite(suite).meta["table"]][0] |= broken
    return {name: pa.Table.from_pylist(each) for name, each in rows.items()}


def judged(tables: dict[str, pa.Table]) -> tuple[Validation, ...]:
    """What the audit says of measures, judged in this process."""
    from lowwater_expectations.judging import answers  # Great Expectations takes seconds, also of who only collects

    (found,) = validate([tables], [RUN], answers)
    return found


@cache
def audited(suite: str = "", **broken: Any) -> tuple[Validation, ...]:
    """What the audit says of such frames, judged in this process."""
    return judged(frames(suite, **broken))
