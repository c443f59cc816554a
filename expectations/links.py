"""Expectations of a link over an interval: coverage, record counts, skew violations and malformed records.

They are the suite `links`, on the frame with one row for each link of the query set.
"""

from __future__ import annotations

from abc import ABC

from .rules import Row, Rule, Within
from .text import count, span

PARTS = ("malformed", "violating", "duplicates", "sane", "outside")
"""Parts of the records of a link (A1)."""


class LinkRule(Rule, ABC):
    """A rule about one link."""

    noun = "link"
    subjects = ("link",)

    def about(self, row: Row) -> str:
        return f"link {row['link']}"


class ExpectLinkToBeCovered(LinkRule):
    """The coverage of a link has no gap, except gaps that its policy or --through-end permits (SEMANTICS T5, T6)."""

    rule = "The captures of the link cover the whole interval"
    measures = ("gap_ns", "gaps")

    def holds(self, row: Row) -> bool:
        return bool(row["gap_ns"] == 0)

    def reason(self, row: Row) -> str:
        return f"{span(row['gap_ns'])} of traffic are missing: no capture covers {row['gaps']}"


class ExpectLinkToExcludeNothing(LinkRule):
    """The interval has no gap that the policy `publish` of the link or --through-end left out (SEMANTICS T6)."""

    rule = "No gap of the link is excepted"
    measures = ("excluded_ns", "gaps")

    def holds(self, row: Row) -> bool:
        return bool(row["excluded_ns"] == 0)

    def reason(self, row: Row) -> str:
        missing = f"{span(row['excluded_ns'])} of traffic are missing, so the interval is incomplete"
        return f"{missing}: no capture covers {row['gaps']}"


class ExpectLinkInterfaceToBeDeclared(LinkRule):
    """Each capture of the interval declares the interface, as others of its link do (SEMANTICS T5)."""

    rule = "Each capture of the interval declares this interface"
    measures = ("undeclared",)
    message_columns = ("interval", "captures", "undeclared_files")

    def holds(self, row: Row) -> bool:
        return bool(row["undeclared"] == 0)

    def reason(self, row: Row) -> str:
        captures = count(row["undeclared"], "capture")
        return (
            f"the interface is not declared by {captures}, so nothing was seen of it there: {row['undeclared_files']}"
        )


class ExpectLinkToHaveNothingUnread(LinkRule):
    """No file that lies in the folders of the link, and is not read, falls into the interval (SEMANTICS T6, T9)."""

    rule = "Everything that lies in the folders of the link is read"
    measures = ("unread",)
    message_columns = ("interval", "captures", "not_read")

    def holds(self, row: Row) -> bool:
        return bool(row["unread"] == 0)

    def reason(self, row: Row) -> str:
        return f"traffic of the interval is known and not read, so the interval is incomplete: {row['not_read']}"


class ExpectLinkRecordsToBeAccountedFor(LinkRule):
    """Read = malformed + violating + duplicates + sane + outside, counted from the table (SEMANTICS A1)."""

    rule = "The ledgers count every record of the link once"
    measures = ("read", "malformed", "violating", "duplicates", "sane", "outside", "unaccounted")
    message_columns = ("interval", "captures", "strays")

    def holds(self, row: Row) -> bool:
        return bool(row["unaccounted"] == 0 and row["read"] == self._outcomes(row))

    @staticmethod
    def _outcomes(row: Row) -> int:
        return int(sum(row[name] for name in PARTS))

    def reason(self, row: Row) -> str:
        parts = " + ".join(f"{name} {count(row[name])}" for name in PARTS if name != "duplicates" or row[name])
        parts += f"; {row['strays']}" if row["strays"] else ""
        read, stray = f"read {count(row['read'])}", row["unaccounted"]
        if stray > 0:
            return f"the ledgers lack {count(stray, 'record')} of the table; {read}, counted: {parts}"
        if stray < 0:
            return f"the table lacks {count(-stray, 'record')} that the ledgers count; {read}, counted: {parts}"
        return f"{read}, but the outcomes add up to {count(self._outcomes(row))}: {parts}"


class ExpectLinkRecordsToLieInside(LinkRule):
    """No record lies outside the life of the link or the declared coverage of its capture (SEMANTICS T5, A1).

    Captures that are declared to cover the interval hold no records of other times either.
    """

    rule = "Records lie in the life of the link and in the declared coverage of their captures"
    measures = ("read", "left_out", "uncovered", "misdated")
    message_columns = ("interval", "captures", "places", "elsewhere")

    def holds(self, row: Row) -> bool:
        return bool(row["left_out"] == 0 and row["uncovered"] == 0 and row["misdated"] == 0)

    def reason(self, row: Row) -> str:
        parts = []
        if row["left_out"]:
            parts.append(f"{count(row['left_out'], 'record')} outside of since and until, which no query reads")
        if row["uncovered"]:
            parts.append(f"{count(row['uncovered'], 'record')} outside of the declared coverage of their captures")
        reasons = [f"of {count(row['read'])} read, {'; '.join(parts)}: {row['places']}"] if parts else []
        if row["misdated"]:
            reasons.append(
                f"{count(row['misdated'], 'record')} of captures that are declared to cover this interval "
                f"lie at other times: {row['elsewhere']}"
            )
        return "; ".join(reasons)


class ExpectLinkCapturesToHoldRecordsToTheirEnds(LinkRule):
    """No capture covers a time at one of its ends that is silent far beyond the lulls inside of it (SEMANTICS T5)."""

    rule = "Captures hold records to the ends of what they cover"
    measures = ("read", "silent_ns")
    message_columns = ("interval", "captures", "silent")

    def holds(self, row: Row) -> bool:
        return bool(row["silent_ns"] == 0)

    def reason(self, row: Row) -> str:
        silent = f"{span(row['silent_ns'])} count as covered without a record"
        return f"{silent}, and the recorder may have been stopped: {row['silent']}"


class ExpectLinkCapturesToBeReadOnce(LinkRule):
    """No other link of the query set has the same records, in a copy of a capture, whole or cut (SEMANTICS T5)."""

    rule = "No capture of the link is one of another link too"
    measures = ("read", "shared")
    message_columns = ("interval", "captures", "shared_with")

    def holds(self, row: Row) -> bool:
        return bool(row["shared"] == 0)

    def reason(self, row: Row) -> str:
        return f"a query over both links counts up to {count(row['shared'], 'record')} twice: {row['shared_with']}"


class ExpectLinkViolationsToStayWithinLimit(LinkRule, Within):
    """The share of records later than the skew is at most a limit of the link (SEMANTICS T2)."""

    rule = "Skew violations stay within the {limit} limit of the link"
    measures = ("read", "violating", "violating_share", "violating_{limit}", "latest_ns", "skew_ns")
    kind = "violating"
    whole = "read"
    first = "violations"

    def fault(self, row: Row) -> str:
        return f"are later than the skew of {span(row['skew_ns'])}"


class ExpectLinkMalformedToStayWithinLimit(LinkRule, Within):
    """The share of records that cannot be read, or have no sane time, is at most a limit of the link (SEMANTICS T3)."""

    rule = "Malformed records stay within the {limit} limit of the link"
    measures = ("read", "malformed", "malformed_share", "malformed_{limit}")
    kind = "malformed"
    whole = "read"
    first = "offsets"

    def fault(self, row: Row) -> str:
        return "are malformed"
