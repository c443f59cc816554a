"""Expectations of an LFTA on a link: every sane record has one outcome, and few expressions fail.

They are the suite `lftas`, on the frame with one row for each LFTA and link.
"""

from __future__ import annotations

from abc import ABC

from .rules import Row, Rule, Within
from .text import count


class LftaRule(Rule, ABC):
    """A rule about one LFTA on one link."""

    noun = "LFTA"
    subjects = ("lfta", "link")

    def about(self, row: Row) -> str:
        return f"LFTA {row['lfta']} on link {row['link']}"


class ExpectLftaOutcomesToAddUp(LftaRule):
    """The number of sane records is the sum of the outcomes of the LFTA (SEMANTICS A1)."""

    rule = "The outcomes of the LFTA add up to the sane records"
    measures = ("sane", "named", "unaccounted")

    def holds(self, row: Row) -> bool:
        return bool(row["unaccounted"] == 0 and row["sane"] == row["named"])

    def reason(self, row: Row) -> str:
        return (
            f"its outcomes add up to {count(row['named'])} of {count(row['sane'], 'sane record')}, "
            f"so {count(row['unaccounted'])} have none"
        )


class ExpectLftasToAgree(LftaRule):
    """All LFTAs of a link saw the same number of sane records (SEMANTICS A1)."""

    rule = "All LFTAs of the link read the same records"
    measures = ("sane", "disagreement")

    def holds(self, row: Row) -> bool:
        return bool(row["disagreement"] == 0)

    def reason(self, row: Row) -> str:
        others = "more" if row["disagreement"] > 0 else "fewer"
        saw = f"it read {count(row['sane'], 'sane record')}"
        return f"{saw}, {count(abs(row['disagreement']))} {others} than the other LFTAs of the link"


class ExpectLftaFailuresToStayWithinLimit(LftaRule, Within):
    """The share of records in which an expression failed is at most a limit of the link (SEMANTICS V2)."""

    rule = "Failed expressions stay within the {limit} limit of the link"
    measures = ("sane", "failed", "failed_share", "failed_{limit}")
    kind = "failed"
    whole = "sane"
    first = ""

    def fault(self, row: Row) -> str:
        return "failed in an expression"
