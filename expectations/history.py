"""Expectations that compare an interval with earlier ones: volume, lateness, silence, link types and senders.

They are the suites `link_history` and `query_history`, on frames with one row for each link or output query. With too
few earlier intervals every drift is 0; the column `past` holds their number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from .links import LinkRule
from .queries import QueryRule
from .rules import Row, Rule
from .text import count, percent, span


class Usual(Rule, ABC):
    """A measure differs from its usual value by no more than a limit.

    Attributes:
        limit: selects the column of the limit: `<drift>_warning` or `<drift>_critical`.
        drift: name of the measure; the column `<drift>_drift` holds its difference from the usual value.
        now: columns of the current and the usual value.
    """

    limit: Literal["warning", "critical"]
    success_keys = ("limit",)
    drift: ClassVar[str]
    now: ClassVar[tuple[str, ...]]

    @abstractmethod
    def fault(self, row: Row) -> str:
        """Describes the current and the usual value."""

    def columns(self) -> tuple[str, ...]:
        return (*self.subjects, *self.now, f"{self.drift}_drift", f"{self.drift}_{self.limit}", "past")

    def may_lack(self) -> set[str]:
        return set(self.now[:1])  # of an interval that nothing covers

    def holds(self, row: Row) -> bool:
        return bool(row[f"{self.drift}_drift"] <= row[f"{self.drift}_{self.limit}"])

    def reason(self, row: Row) -> str:
        share, limit = percent(row[f"{self.drift}_drift"]), percent(row[f"{self.drift}_{self.limit}"])
        past = f"in {count(row['past'], 'earlier interval')}"
        return f"{self.fault(row)} {past}: a difference of {share}, more than the {self.limit} limit of {limit}"


class ExpectLinkVolumeAsUsual(LinkRule, Usual):
    """The number of records is the median of earlier intervals, within a factor."""

    rule = "The number of records is as usual, within the {limit} limit"
    now = ("volume", "usual_volume")
    drift = "volume"

    def fault(self, row: Row) -> str:
        return f"{count(row['volume'], 'record')} arrived, usually {count(row['usual_volume'])}"


class ExpectLinkViolationsAsUsual(LinkRule, Usual):
    """The share of skew violations grew by no more than a limit (SEMANTICS T2)."""

    rule = "The share of skew violations is as usual, within the {limit} limit"
    now = ("violations_share", "usual_violations_share")
    drift = "violating"

    def fault(self, row: Row) -> str:
        now, usual = percent(row["violations_share"]), percent(row["usual_violations_share"])
        return f"{now} of the records are later than the skew, usually {usual}"


class ExpectLinkLatenessAsUsual(LinkRule, Usual):
    """The 99.9 % quantile of the lateness grew by no more than a part of the skew (SEMANTICS T2)."""

    rule = "Records are no later than usual, within the {limit} limit"
    now = ("lateness_ns", "usual_lateness_ns")
    drift = "lateness"

    def fault(self, row: Row) -> str:
        now, usual = span(row["lateness_ns"]), span(row["usual_lateness_ns"])
        return f"99.9% of the records are no later than {now}, usually {usual}"


class ExpectLinkSilenceAsUsual(LinkRule, Usual):
    """The longest silence is not many times the usual one (SEMANTICS T4)."""

    rule = "The longest silence of the link is as usual, within the {limit} limit"
    now = ("silence_ns", "usual_silence_ns")
    drift = "silence"

    def fault(self, row: Row) -> str:
        return f"the longest silence was {span(row['silence_ns'])}, usually {span(row['usual_silence_ns'])}"


class ExpectLinkTypesAsUsual(LinkRule, Usual):
    """The link has no captures of a new link type."""

    rule = "Captures have no new link type, within the {limit} limit"
    now = ("new_link_types",)
    drift = "link_types"

    def fault(self, row: Row) -> str:
        return f"captures have the new link type {row['new_link_types']}, absent"


class ExpectLinkTalkersAsUsual(LinkRule, Usual):
    """The packets come from the usual senders."""

    rule = "Packets come from the usual senders, within the {limit} limit"
    now = ("changed_talkers",)
    drift = "talkers"

    def fault(self, row: Row) -> str:
        return f"senders changed, most of all {row['changed_talkers']}, compared with those"


class ExpectQueryVolumeAsUsual(QueryRule, Usual):
    """The number of rows is the median of earlier intervals, within a factor."""

    rule = "The number of rows is as usual, within the {limit} limit"
    now = ("volume", "usual_volume")
    drift = "volume"

    def fault(self, row: Row) -> str:
        return f"the query gave {count(row['volume'], 'row')}, usually {count(row['usual_volume'])}"
