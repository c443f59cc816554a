"""What is expected of an interval beside those before it: as much, as punctual, as steady, from the same senders.

The suites `link_history` and `query_history`, on frames with one row a link and one an output query. With too few
earlier intervals every drift is 0, and the column `past` says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from .links import LinkRule
from .queries import QueryRule
from .rules import Row, Rule
from .text import count, percent, span


class Usual(Rule, ABC):
    """A measure that drifts from what is usual by no more than one of its limits.

    Attributes:
        limit: which limit: the column `<drift>_warning` or `<drift>_critical`.
        drift: name of the measure; `<drift>_drift` says how far it is from usual.
        now: the columns that say what it is now, and what is usual.
    """

    limit: Literal["warning", "critical"]
    success_keys = ("limit",)
    drift: ClassVar[str]
    now: ClassVar[tuple[str, ...]]

    @abstractmethod
    def fault(self, row: Row) -> str:
        """What it is now and what is usual."""

    def columns(self) -> tuple[str, ...]:
        return (*self.subjects, *self.now, f"{self.drift}_drift", f"{self.drift}_{self.limit}", "past")

    def holds(self, row: Row) -> bool:
        return bool(row[f"{self.drift}_drift"] <= row[f"{self.drift}_{self.limit}"])

    def reason(self, row: Row) -> str:
        share, limit = percent(row[f"{self.drift}_drift"]), percent(row[f"{self.drift}_{self.limit}"])
        known = f"in the {count(row['past'], 'interval')} before"
        return f"{self.fault(row)} {known}: a difference of {share}, more than the {self.limit} limit of {limit}"


class ExpectLinkVolumeAsUsual(LinkRule, Usual):
    """As many records as the median of the intervals before, within a factor."""

    rule = "As many records come as usual, within the {limit} limit"
    now = ("volume", "usual_volume")
    drift = "volume"

    def fault(self, row: Row) -> str:
        return f"{count(row['volume'], 'record')} came, usually {count(row['usual_volume'])}"


class ExpectLinkViolationsAsUsual(LinkRule, Usual):
    """A share of violations that grew by no more than a limit (SEMANTICS T2)."""

    rule = "The share of skew violations is as usual, within the {limit} limit"
    now = ("violations_share", "usual_violations_share")
    drift = "violating"

    def fault(self, row: Row) -> str:
        now, usual = percent(row["violations_share"]), percent(row["usual_violations_share"])
        return f"{now} of the records are later than the skew, usually {usual}"


class ExpectLinkLatenessAsUsual(LinkRule, Usual):
    """A lateness of the latest thousandth that grew by no more than a part of the skew (SEMANTICS T2)."""

    rule = "Records are no later than usual, within the {limit} limit"
    now = ("lateness_ns", "usual_lateness_ns")
    drift = "lateness"

    def fault(self, row: Row) -> str:
        now, usual = span(row["lateness_ns"]), span(row["usual_lateness_ns"])
        return f"99.9% of the records are no later than {now}, usually {usual}"


class ExpectLinkSilenceAsUsual(LinkRule, Usual):
    """A longest silence that is not many times the usual one (SEMANTICS T4)."""

    rule = "The link is no longer silent than usual, within the {limit} limit"
    now = ("silence_ns", "usual_silence_ns")
    drift = "silence"

    def fault(self, row: Row) -> str:
        return f"the longest silence was {span(row['silence_ns'])}, usually {span(row['usual_silence_ns'])}"


class ExpectLinkTypesAsUsual(LinkRule, Usual):
    """No captures of a link type that the link did not have."""

    rule = "Captures are of the link types that the link had, within the {limit} limit"
    now = ("new_link_types",)
    drift = "link_types"

    def fault(self, row: Row) -> str:
        return f"captures are of the type {row['new_link_types']}, which there was not"


class ExpectLinkTalkersAsUsual(LinkRule, Usual):
    """The packets come from the senders that they usually come from."""

    rule = "Packets come from the usual senders, within the {limit} limit"
    now = ("changed_talkers",)
    drift = "talkers"

    def fault(self, row: Row) -> str:
        return f"senders are others than usual, above all {row['changed_talkers']},"


class ExpectQueryVolumeAsUsual(QueryRule, Usual):
    """As many rows as the median of the intervals before, within a factor."""

    rule = "As many rows come out as usual, within the {limit} limit"
    now = ("volume", "usual_volume")
    drift = "volume"

    def fault(self, row: Row) -> str:
        return f"{count(row['volume'], 'row')} came out, usually {count(row['usual_volume'])}"
