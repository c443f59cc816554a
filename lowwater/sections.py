"""Sections of the settings file: their base class, and the limits by which audits judge. `config` has the others."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic import Field as Setting

from lowwater.instants import SECOND, parse_duration

TENFOLD = 10
"""Ratio of the critical to the warning limit of a threshold, if only the warning limit is set."""

Duration = Annotated[int, BeforeValidator(parse_duration), Setting(ge=0)]
Positive = Annotated[int, BeforeValidator(parse_duration), Setting(gt=0)]
Share = Annotated[float, Setting(ge=0, le=1)]


class Section(BaseModel):
    """Base of all sections: immutable; an unknown key is an error that names the nearest key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        for key in data if isinstance(data, Mapping) else ():
            if key not in cls.model_fields:
                raise ValueError(f"unknown key {key!r}{nearest(str(key), cls.model_fields)}")
        return data


def nearest(name: str, names: Any) -> str:
    """Returns `; did you mean 'x'?` with the nearest name, or else the list of all names."""
    matches = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {matches[0]!r}?" if matches else f"; known are {', '.join(sorted(names))}"


class Limits(Section):
    """Limits for a share of a link's records: an audit warns above `warning`, and fails above `critical`.

    A single number is the warning limit. The default of the critical limit is ten times the warning limit, at most 1.
    """

    warning: Share
    critical: Share

    @model_validator(mode="before")
    @classmethod
    def _of_a_number(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            data = {"warning": data}
        warning = data.get("warning")
        if isinstance(warning, bool) or not isinstance(warning, int | float):
            raise ValueError("is no share; write a number from 0 to 1, or { warning = 0.01, critical = 0.1 }")
        return {"critical": cls._critical(warning), **data}

    @classmethod
    def _critical(cls, warning: float) -> float:
        return min(1.0, TENFOLD * warning)

    @model_validator(mode="after")
    def _in_order(self) -> Limits:
        if self.critical < self.warning:
            raise ValueError("critical: must not be below warning")
        return self


class Warnings(Limits):
    """Limits whose critical limit is 1 by default, so that it is never exceeded."""

    @classmethod
    def _critical(cls, warning: float) -> float:
        return 1.0


NEVER = 1 << 62
"""A limit of a duration that nothing exceeds, ns."""


class Spans(Section):
    """Limits for a duration, ns; a single duration is the warning limit."""

    warning: Positive = NEVER
    critical: Positive = NEVER

    @model_validator(mode="before")
    @classmethod
    def _of_a_duration(cls, data: Any) -> Any:
        return data if isinstance(data, Mapping) else {"warning": data}

    @model_validator(mode="after")
    def _in_order(self) -> Spans:
        if self.critical < self.warning < NEVER:
            raise ValueError("critical: must not be below warning")
        return self


class Thresholds(Section):
    """`[thresholds]`: limits for a link's records. They decide audits and do not change rows.

    Attributes:
        violating: share of the records later than the skew, in an hour (T2).
        growth: growth of this share against a week before.
        latest: lateness of the latest record, beyond the skew; no limit unless given.
        malformed: records that are unreadable or without a sane time, of the records read (T3).
        failed: records with an expression that failed, of the sane records that an LFTA read (V2).
    """

    violating: Limits = Limits(warning=0.01, critical=0.1)
    growth: Warnings = Warnings(warning=0.05, critical=1)
    latest: Spans = Spans()
    malformed: Limits = Limits(warning=0.01, critical=0.1)
    failed: Limits = Limits(warning=0.01, critical=0.1)


class LinkThresholds(Section):
    """`[links.NAME.thresholds]`: thresholds of a link; `[thresholds]` gives the others.

    Attributes:
        violating: over the one of `[thresholds]`.
        growth: over the one of `[thresholds]`.
        latest: over the one of `[thresholds]`.
        malformed: over the one of `[thresholds]`.
        failed: over the one of `[thresholds]`.
    """

    violating: Limits | None = None
    growth: Warnings | None = None
    latest: Spans | None = None
    malformed: Limits | None = None
    failed: Limits | None = None


class SuiteLimits(Section):
    """`[suites]`: what the suites that people write for the rows of queries may take (docs/great-expectations.md).

    Attributes:
        memory: about the most memory of the rows while they are judged, in Java's notation.
        time: longest time that the suite of one query may take, wall clock, ns.
        code: whether suites may have SQL, regular expressions and conditions, which are code of their author.
    """

    memory: str = Setting(default="1g", pattern=r"^\d+[mgMG]$")
    time: Positive = 300 * SECOND
    code: Literal["allowed", "forbidden"] = "allowed"

    @property
    def megabytes(self) -> int:
        """`memory` in MiB."""
        return int(self.memory[:-1]) << (10 if self.memory[-1] in "gG" else 0)


class History(Section):
    """`[history]`: limits for changes against earlier intervals (docs/review.md). They do not change rows.

    Every measure is a share from 0 (as usual) to 1; a critical limit of 1 is never exceeded.

    Attributes:
        intervals: number of earlier intervals; their median is the usual value.
        least: fewest earlier intervals for a judgement.
        season: only intervals that begin a multiple of this time earlier count, ns: the same hour of other days.
        volume: change of the number of records and rows: 1 - smaller / larger of the current and the usual number.
        violating: increase of the share of violations.
        lateness: increase of the 99.9% quantile of lateness, in parts of the skew.
        silence: change of the longest silence of a link: 1 - usual / current.
        link_types: share of packets in captures with a link type that is new for the link.
        talkers: share of packets from unusual sources.
    """

    intervals: int = Setting(default=24, ge=1)
    least: int = Setting(default=6, ge=1)
    season: Positive | None = None
    volume: Warnings = Warnings(warning=0.8, critical=1)
    violating: Warnings = Warnings(warning=0.05, critical=1)
    lateness: Warnings = Warnings(warning=0.5, critical=1)
    silence: Warnings = Warnings(warning=0.9, critical=1)
    link_types: Warnings = Warnings(warning=0, critical=1)
    talkers: Warnings = Warnings(warning=0.5, critical=1)
