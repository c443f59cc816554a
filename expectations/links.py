"""What is expected of a link over an interval: covered, accounted for, few violations, few malformed records.

The suite `links`, on the frame with one row a link of the query set.
"""

from __future__ import annotations

from abc import ABC

from .rules import Row, Rule, Within
from .text import count, span


class LinkRule(Rule, ABC):
    """A rule about one link."""

    noun = "link"
    subjects = ("link",)

    def about(self, row: Row) -> str:
        return f"link {row['link']}"


class ExpectLinkToBeCovered(LinkRule):
    """No gap in the coverage of a link, but those that its policy or --through-end let pass (SEMANTICS T5, T6)."""

    rule = "The captures of the link cover the whole interval"
    measures = ("gap_ns", "gaps")

    def holds(self, row: Row) -> bool:
        return bool(row["gap_ns"] == 0)

    def reason(self, row: Row) -> str:
        return f"{span(row['gap_ns'])} are in no capture: {row['gaps']}"


class ExpectLinkToExcludeNothing(LinkRule):
    """No gap that policy `publish` of the link, or --through-end, let pass (SEMANTICS T6)."""

    rule = "Nothing of the link is excluded"
    measures = ("excluded_ns", "gaps")

    def holds(self, row: Row) -> bool:
        return bool(row["excluded_ns"] == 0)

    def reason(self, row: Row) -> str:
        return (
            f"{span(row['excluded_ns'])} are in no capture and left out, so the interval is incomplete: {row['gaps']}"
        )


class ExpectLinkRecordsToBeAccountedFor(LinkRule):
    """Read = malformed + violating + sane + outside, counted from the packets themselves (SEMANTICS A1)."""

    rule = "Every record of the link is malformed, violating, sane or outside of its life"
    measures = ("read", "malformed", "violating", "sane", "outside", "unaccounted")
    told = ("interval", "captures", "strays")

    def holds(self, row: Row) -> bool:
        named = row["malformed"] + row["violating"] + row["sane"] + row["outside"]
        return bool(row["unaccounted"] == 0 and row["read"] == named)

    def reason(self, row: Row) -> str:
        parts = " + ".join(f"{name} {count(row[name])}" for name in ("malformed", "violating", "sane", "outside"))
        parts += f"; {row['strays']}" if row["strays"] else ""
        read, stray = f"read {count(row['read'])}", row["unaccounted"]
        if stray > 0:
            return f"{count(stray, 'record')} of packets/ in no account; {read}, accounts: {parts}"
        if stray < 0:
            return f"{count(-stray, 'record')} in the accounts but not in packets/; {read}, accounts: {parts}"
        return f"{read}, which is not {parts}"


class ExpectLinkRecordsToLieInside(LinkRule):
    """No record outside of the life of the link, or of the declared coverage of its capture (SEMANTICS T5, A1).

    Nor do captures that are declared to cover the interval hold records outside of that which lie in other intervals.
    """

    rule = "Every record lies in the life of the link and in the declared coverage of its capture"
    measures = ("read", "outside", "uncovered", "misdated")
    told = ("interval", "captures", "places", "elsewhere")

    def holds(self, row: Row) -> bool:
        return bool(row["outside"] == 0 and row["uncovered"] == 0 and row["misdated"] == 0)

    def reason(self, row: Row) -> str:
        parts = []
        if row["outside"]:
            parts.append(f"{count(row['outside'], 'record')} outside of since and until, in no row")
        if row["uncovered"]:
            parts.append(f"{count(row['uncovered'], 'record')} outside of what their captures are declared to cover")
        said = [f"of {count(row['read'])} read, {'; '.join(parts)}: {row['places']}"] if parts else []
        if row["misdated"]:
            said.append(
                f"{count(row['misdated'], 'record')} of captures that are declared to cover this interval "
                f"lie at other times: {row['elsewhere']}"
            )
        return "; ".join(said)


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
