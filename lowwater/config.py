"""The settings of a lake: lowwater.toml, its sections, and the limits by which audits judge."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from itertools import combinations, pairwise
from os.path import normpath
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field as Setting,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from lowwater import errors, link_names, refused
from lowwater.documents import FILE_NAME, json_value, override, toml_table
from lowwater.instants import HOUR, SECOND, format_duration, format_instant, parse_duration, parse_instant, parse_span
from lowwater.limits import SETTINGS_BYTES
from lowwater.storage import paths
from lowwater.storage.captures import is_address
from lowwater.storage.failures import hint_in_lake, lake_error
from lowwater.storage.object_paths import require_pattern

# Sections of the settings file: their base class, and the limits by which audits judge. `config` has the others.

TENFOLD = 10
"""Ratio of the critical to the warning limit of a threshold, if only the warning limit is set."""

Duration = Annotated[int, BeforeValidator(parse_duration), Setting(ge=0)]
Positive = Annotated[int, BeforeValidator(parse_duration), Setting(gt=0)]
Share = Annotated[float, Setting(ge=0, le=1)]


class Section(BaseModel):
    """Base of all sections: immutable; an unknown key is an error that names the nearest key."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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


NEVER = END_OF_TIME = 1 << 62
"""A limit of a duration that nothing exceeds, and an instant behind all others, ns."""


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
        undecoded: packets that may carry IP and are not decoded, of the captures of an interval, by packets or bytes.
        failed: records with an expression that failed, of the sane records that an LFTA read (V2).
        dropped: records that the captures say were lost, of these and the records read (A1).
    """

    violating: Limits = Limits(warning=0.01, critical=0.1)
    growth: Warnings = Warnings(warning=0.05, critical=1)
    latest: Spans = Spans()
    malformed: Limits = Limits(warning=0.01, critical=0.1)
    undecoded: Warnings = Warnings(warning=0.05, critical=1)
    failed: Limits = Limits(warning=0.01, critical=0.1)
    dropped: Warnings = Warnings(warning=0, critical=1)


class LinkThresholds(Section):
    """`[links.NAME.thresholds]`: thresholds of a link; `[thresholds]` gives the others.

    Attributes:
        violating: over the one of `[thresholds]`.
        growth: over the one of `[thresholds]`.
        latest: over the one of `[thresholds]`.
        malformed: over the one of `[thresholds]`.
        undecoded: over the one of `[thresholds]`.
        failed: over the one of `[thresholds]`.
        dropped: over the one of `[thresholds]`.
    """

    violating: Limits | None = None
    growth: Warnings | None = None
    latest: Spans | None = None
    malformed: Limits | None = None
    undecoded: Warnings | None = None
    failed: Limits | None = None
    dropped: Warnings | None = None


class SuiteLimits(Section):
    """`[suites]`: what the suites that people write for the rows of queries may take (docs/great-expectations.md).

    Attributes:
        memory: about the most memory of the rows while they are judged, in Java's notation.
        time: longest time that the suite of one query may take, wall clock, ns.
        code: whether suites may have SQL, regular expressions and conditions, which are code of their author.
        modules: folder of Python modules with expectations of your own, outside of the lake; empty for none.
    """

    memory: str = Setting(default="1g", pattern=r"^\d+[mgMG]$")
    time: Positive = 300 * SECOND
    code: Literal["allowed", "forbidden"] = "allowed"
    modules: str = ""

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


# Settings: the schema of `lowwater.toml`, and how it is read. Used by every stage above the kernels.

DATED = r"(?<!%)(?:%%)*%[YymdjbBHIpMSsFTR]"
"""A field of a date in `captures`."""

LONGEST_SKEW = 50 * 366 * 24 * HOUR
"""Bound of every skew (ns) (SEMANTICS T3)."""

LONGEST_WINDOW = 60 * SECOND
"""Longest time in which copies of a packet are looked for, ns."""

MOST_PAYLOAD = 65_535
"""Most bytes of a payload that a number can request; `all` is the captured length."""


def toml_key(name: str) -> str:
    """Formats a name as a TOML key: quoted if it has a dot, a slash or another special character.

    Example:
        >>> toml_key("main1"), toml_key("node_10.1.0.11"), toml_key("pc/以太网")
        ('main1', '"node_10.1.0.11"', '"pc/以太网"')
    """
    if re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    text = json.dumps(name, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in text)


def section_of(link: str, *below: str, of: str = "links") -> str:
    """Formats the header of a link's section, or of a section below it, as in the settings file.

    Example:
        >>> section_of("main1"), section_of("main1/eth0", "thresholds"), section_of("flows", of="query_sets")
        ('[links.main1]', '[links."main1/eth0".thresholds]', '[query_sets.flows]')
    """
    return f"[{'.'.join([of, toml_key(link), *below])}]"


def _link_name(value: str) -> str:
    if not link_names.is_link_name(value):
        raise ValueError(f"is not a valid name of a link: {link_names.FORM}")
    return value


def _zone(value: object) -> object:
    try:
        ZoneInfo(str(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder of zones
        raise ValueError(f'{value!r} is no time zone; write for example "UTC" or "Europe/Berlin"') from None
    return value


def _policy(value: object) -> object:
    """Accepts the old name `exclude` of `publish`; it sounded as if the link were left out, not only its gap."""
    return "publish" if value == "exclude" else value


def _duplicates(value: object) -> object:
    """Parses `keep`, or `report` or `drop` and a duration."""
    if value == "keep" or isinstance(value, Duplicates):
        return value
    action, _, text = str(value).partition(" ")
    if action not in ("report", "drop") or not text:
        raise ValueError(f'{value!r} is none of "keep", "report 50ms" and "drop 50ms"')
    window = parse_duration(text)
    if not 0 <= window <= LONGEST_WINDOW:
        raise ValueError(f"{value!r}: the time must be at least 0s and at most {format_duration(LONGEST_WINDOW)}")
    return Duplicates(action="drop" if action == "drop" else "report", window=window)


def _heartbeat(value: object) -> object:
    return value if value in ("on-demand", "data-driven", "none") else parse_duration(value)


def _name_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Instant = Annotated[int, BeforeValidator(parse_instant)]
Span = Annotated[tuple[int, int], BeforeValidator(parse_span)]
Heartbeat = Annotated[int | Literal["on-demand", "data-driven", "none"], BeforeValidator(_heartbeat)]
Names = Annotated[tuple[str, ...], BeforeValidator(_name_list)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_name_list), Setting(min_length=1)]
CapturePatterns = Annotated[Patterns, AfterValidator(lambda given: tuple(map(require_pattern, given)))]
LinkName = Annotated[str, AfterValidator(_link_name)]
Connection = Annotated[str, Setting(pattern=r"^[\w.:-]+$", max_length=200)]  # a count in the pattern takes 70 ms
SetName = Annotated[str, Setting(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]
Processes = Literal["shared", "each"]
Kind = Literal["pcap", "csv", "json", "parquet", "zeek", "suricata", "nfdump"]
KINDS: tuple[str, ...] = get_args(Kind)


class Keep(Section):
    """How much of something stays; written as an age, `90d`, or a size, `500GB`.

    Attributes:
        age: what is older goes, ns; None where a size counts.
        size: the oldest goes until no more bytes are left; None where an age counts.
    """

    age: int | None = None
    size: int | None = None


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT])B")
_POWERS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def _keep(value: object) -> object:
    """Parses an age, or a size in bytes."""
    if isinstance(value, Keep) or value is None:
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        return Keep(size=round(float(match[1]) * _POWERS[match[2]]))
    try:
        return Keep(age=parse_duration(value))
    except ValueError as error:
        raise ValueError(f'{value!r} is neither an age nor a size; write for example "90d" or "500GB"') from error


Kept = Annotated[Keep, BeforeValidator(_keep)]


class LinkRetention(Section):
    """`[links.NAME.retention]`: what `lowwater maintain` removes of a link; `[retention]` gives the others.

    Attributes:
        packets: over the one of `[retention]`; a size is that of the link and its interfaces, as of the next two.
        captures: over the one of `[retention]`.
        malformed: over the one of `[retention]`.
    """

    packets: Kept | None = None
    captures: Kept | None = None
    malformed: Kept | None = None


class Interval(Section):
    """`[interval]`: the intervals that runs are about.

    Attributes:
        length: length of an interval, ns; intervals are counted from 1970 (I3).
    """

    length: Positive = HOUR


class Duplicates(Section):
    """Treatment of copies of a packet on a link (SEMANTICS D1 to D6); written as `drop 50ms`.

    Attributes:
        action: `report`: audits count them; `drop`: they do not belong to the link either.
        window: longest time from a packet to its copy, ns.
    """

    action: Literal["report", "drop"]
    window: int


class GroupSkew(Section):
    """`[links.NAME.group_skew]`: a skew for some values of one column (group-wise punctuation, T8).

    Attributes:
        column: column of the packets.
        values: value as text -> its skew, ns; other values have the link's skew.
    """

    column: str
    values: dict[str, Duration] = Setting(default={})


Untimed = Literal["malformed", "file"]
Resolution = Literal["file", "microseconds", "nanoseconds"]
Quote = Annotated[str, Setting(max_length=1)]
READ_BY = ("resolution", "untimed", "separator", "quote", "header", "null", "decimal")
"""Settings by which a file is read, which a period may have."""

OF_WHOLE_LINK = {
    **dict.fromkeys(
        ("payload", "applications", "sampling", "duplicates", "duplicate_bytes", "anonymise", "interfaces", "kind",
         "protocol", "schemas", "properties", "shed", "unmarked_estimates", "group_skew", "skews"),
        "queries read all packets of a link as alike",
    ),
    "covers": "it has the names of files, which are of one period anyway",
    "symbolic_links": "it says whom you trust, whenever a file was recorded",
    "max_jump": "it judges the files on both sides of a change",
    "gap_tolerance": "a pause may lie between files of two periods",
    "until": "a period ends where the next one begins, and the life of the link is in its section",
}  # fmt: skip
"""Settings of links that have no periods, and why; of all others, that they are of the present and change no row."""


class Period(Section):
    """`[[links.NAME.periods]]`: what of the settings of a link is otherwise from an instant on, since its recorder is.

    What is not given is as in the period before, and before the first one as in the section of the link.

    Attributes:
        since: begin of the period, ns since the epoch; it ends with the next one.
        captures: over the one of the link; what the names of these files declare is cut to the period (T5).
        rotation: over the one of the link.
        timezone: over the one of the link.
        skew: over the one of the link, for records whose own time lies in the period (T2).
        resolution: over the one of the link; as all below, for files whose names are of the period.
        untimed: over the one of the link.
        separator: over the one of the link.
        quote: over the one of the link.
        header: over the one of the link.
        null: over the one of the link.
        decimal: over the one of the link.
    """

    since: Instant
    captures: CapturePatterns | None = None
    rotation: Positive | None = None
    timezone: Annotated[str, BeforeValidator(_zone)] | None = None
    skew: Duration | None = None
    resolution: Resolution | None = None
    untimed: Untimed | None = None
    separator: str | None = None
    quote: Quote | None = None
    header: bool | None = None
    null: tuple[str, ...] | None = None
    decimal: Literal[".", ","] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_a_recorder(cls, data: Any) -> Any:
        for key in data if isinstance(data, Mapping) else ():
            if key in Link.model_fields and key not in cls.model_fields:
                why = OF_WHOLE_LINK.get(key, "it changes no row, so the present one is all that counts")
                raise ValueError(f"{key}: has no periods, since {why}: write it in the section of the link")
        return data

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that it gives."""
        return {key: getattr(self, key) for key in self.model_fields_set - {"since"}}


class Piece(NamedTuple):
    """A link in one period of its recorder, [since, until), ns."""

    since: int
    until: int
    settings: Link


class Link(Section):
    """`[links.NAME]`: a link, which is a capture point.

    Attributes:
        captures: patterns of its files, with strftime fields and wildcards, relative to the settings file.
        symbolic_links: which symbolic links of files and folders are followed: those that lead to the folders of its
            patterns, or all that can be read.
        rotation: time that a file covers from the instant in its name, ns.
        timezone: time zone of the instants in file names; all other instants are UTC.
        covers: file name, with wildcards -> coverage [from, to), ns; overrides the rotation (T5).
        interfaces: `each`: every interface of a capture that has a name is a link (`NAME/interface`); `one`: all are
            this link.
        payload: bytes of every payload to store, with the headers before them; `all`, or None for no frames.
        applications: protocols whose fields are stored.
        sampling: whether the digest that sampling and load shedding need is stored (O5).
        shed: most packets of a second of timestamps that an LFTA reads; None for all (O5).
        unmarked_estimates: whether rows may be published that do not carry the rate of shed packets (O5).
        duplicates: what becomes of copies of a packet (D4); `keep`: they are packets like all others, and not counted.
        duplicate_bytes: bytes above the link layer that are equal in copies (D1); `content`: TTL, hop limit and
            checksums aside.
        anonymise: file with the key that replaces addresses.
        untimed: time of packets that have none, the simple packet blocks of a pcapng (T3): `malformed`: none; `file`:
            that of the packet before them in the file, or the begin of the time that the file is declared to cover.
        resolution: unit of the times in its captures, for files that say another one than they have: `file`: as they
            say; `microseconds` or `nanoseconds` (T3).
        kind: format of its files, or the tool that wrote them.
        protocol: protocol of its records, if they are no packets; None for the only one of `schemas`, or the one that
            queries name.
        schemas: files with PROTOCOL blocks, of records that are no packets.
        separator: separator of a `csv` file, one character; None for a comma.
        quote: character around values of a `csv` file; empty if values are never quoted.
        header: whether a `csv` file begins with the names of its columns; None if the protocol reads columns by name.
        null: texts of a `csv` file that stand for NULL where they are not quoted.
        decimal: character before the fraction of a number of a `csv` file; None for a point.
        skew: bound of its disorder, ns (T2).
        skews: temporal attribute that is no function of the clock -> its skew, in its own unit (T8).
        group_skew: skew for some values of one column (T8).
        max_jump: largest lead of a timestamp over its neighbours, ns (T3); default is skew + 60 s.
        since: begin of its life, ns since the epoch (T5).
        until: end of its life, ns, exclusive (T5).
        outside: what records outside of its life are: `missing`, so that the interval that they are charged to is
            incomplete, or `accepted`, since they are left out on purpose (T6).
        gap_tolerance: longest pause between two captures that is no gap, ns (T5).
        max_drops: largest share of the records of an interval that its captures may say were lost; above it the
            interval is incomplete until a person accepts it (T6).
        policy: effect of a gap in its coverage on a run (T6).
        delay: by how much its promises come later than they could, ns; for experiments (T2).
        thresholds: limits of an audit for this link.
        retention: what of it stays.
        properties: values that queries read as `@name`.
        periods: what is otherwise from an instant on, in order.
    """

    captures: CapturePatterns | None = None
    symbolic_links: Literal["inside", "read"] = "inside"
    rotation: Positive | None = None
    timezone: Annotated[str, BeforeValidator(_zone)] = "UTC"
    covers: dict[str, Span] = Setting(default={})
    interfaces: Literal["each", "one"] = "each"
    payload: Annotated[int, Setting(ge=0, le=MOST_PAYLOAD)] | Literal["all"] | None = None
    applications: tuple[Literal["dns", "http", "quic", "ssh", "tls"], ...] = ()
    sampling: bool = False
    shed: Annotated[int, Setting(ge=1)] | None = None
    unmarked_estimates: bool = False
    duplicates: Annotated[Duplicates | Literal["keep"], BeforeValidator(_duplicates)] = "keep"
    duplicate_bytes: Literal["content", "packet"] = "content"
    anonymise: str | None = None
    untimed: Untimed = "malformed"
    resolution: Resolution = "file"
    kind: Kind = "pcap"
    protocol: str | None = None
    schemas: Names = ()
    separator: str | None = None
    quote: Quote | None = None
    header: bool | None = None
    null: tuple[str, ...] | None = None
    decimal: Literal[".", ","] | None = None
    skew: Duration = SECOND
    skews: dict[str, int] = Setting(default={})
    group_skew: GroupSkew | None = None
    max_jump: Duration | None = None
    since: Instant | None = None
    until: Instant | None = None
    outside: Literal["missing", "accepted"] = "missing"
    gap_tolerance: Duration = 2 * SECOND
    max_drops: Share = 0.001
    policy: Annotated[Literal["fail", "wait", "publish"], BeforeValidator(_policy)] = "fail"
    delay: Duration = 0
    thresholds: LinkThresholds = LinkThresholds()
    retention: LinkRetention = LinkRetention()
    properties: dict[str, str] = Setting(default={})
    periods: tuple[Period, ...] = ()

    def pieces(self) -> list[Piece]:
        """Returns the link in each of its periods, in order; these have no periods of their own."""
        since = [-END_OF_TIME, *(period.since for period in self.periods), END_OF_TIME]
        found, settings = [], self.model_copy(update={"periods": ()}) if self.periods else self
        for at, period in enumerate((None, *self.periods)):
            settings = settings if period is None else settings.model_copy(update=period.changes)
            found.append(Piece(since[at], since[at + 1], settings))
        return found

    @property
    def _patterns_apart(self) -> bool:
        """Whether no two periods that are read otherwise have a pattern in common."""
        given = [(piece.settings.captures or (), piece.settings) for piece in self.pieces()]
        return not any(
            {*one} & {*other} and any(getattr(a, key) != getattr(b, key) for key in READ_BY)
            for (one, a), (other, b) in combinations(given, 2)
        )

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of its files in all periods, each once."""
        given = (self.captures, *(period.captures for period in self.periods))
        return tuple(dict.fromkeys(pattern for patterns in given for pattern in patterns or ()))

    @property
    def read_by(self) -> tuple[str, ...]:
        """What of the settings by which its files are read some period has."""
        return tuple(key for key in READ_BY if any(key in period.model_fields_set for period in self.periods))

    @property
    def turns(self) -> tuple[tuple[int, int], ...]:
        """When its skew is another one: (instant, skew from it on), ns, in order."""
        skews = [(piece.since, piece.settings.skew) for piece in self.pieces()] if self.periods else []
        return tuple(after for before, after in pairwise(skews) if before[1] != after[1])

    def at(self, instant: int) -> Link:
        """Returns the link in the period that has an instant, ns."""
        return next(piece.settings for piece in self.pieces() if instant < piece.until or piece.until == END_OF_TIME)

    def with_skew(self, skew: int) -> Link:
        """Returns the link with one skew, ns, in all of its periods."""
        periods = []
        for period in self.periods:
            given = {"since": period.since, **period.changes}
            given.pop("skew", None)
            periods.append(Period.model_construct({*given}, **given))
        return self.model_copy(update={"skew": skew, "periods": tuple(periods)})

    def during(self, start: int, end: int) -> Link:
        """Returns the link as records of [start, end), ns, are judged: with the skews of this time alone."""
        turns = self.turns
        if not turns:
            return self
        first = next((skew for since, skew in reversed(turns) if since <= start), self.skew)
        periods = tuple(
            Period.model_construct({"since", "skew"}, since=at, skew=skew) for at, skew in turns if start < at < end
        )
        return self.model_copy(update={"skew": first, "max_jump": self.jump, "periods": periods})

    @property
    def judged(self) -> Link:
        """The link with those of its periods alone in which it has another skew."""
        return self.during(-END_OF_TIME, END_OF_TIME) if self.turns else self.model_copy(update={"periods": ()})

    def judging(self, read_from: int, start: int, end: int) -> Link:
        """Returns the link as a run of [start, end) judges records that reads from `read_from` on, ns: what arrives
        after the start may be older by the skew of its own time."""
        if not self.turns:
            return self
        return self.during(min(read_from, start - self.during(-END_OF_TIME, end).longest_skew), end)

    def settled(self, end: int) -> int:
        """Returns the clock at which no earlier record than `end` is admitted any more, ns (T6)."""
        if not self.turns:
            return end + self.longest_skew
        pieces = (piece for piece in self.pieces() if piece.since < end)
        return max(min(piece.until, end) + piece.settings.skew for piece in pieces)

    def oldest(self, clock: int) -> int:
        """Returns the earliest time of a record that is admitted at a clock, ns (T2)."""
        if not self.turns:
            return clock - self.longest_skew
        admitted = ((max(piece.since, clock - piece.settings.skew), piece.until) for piece in self.pieces())
        return min((begin for begin, until in admitted if begin <= clock and begin < until), default=clock)

    @property
    def _skews(self) -> list[int]:
        group_skews: dict[str, int] = self.group_skew.values if self.group_skew else {}
        return [self.skew, *group_skews.values(), *(skew for _, skew in self.turns)]

    @property
    def longest_skew(self) -> int:
        """Largest skew of its records, ns, by which its watermark is behind its clock (T8)."""
        return max(self._skews)

    @property
    def shortest_skew(self) -> int:
        """Smallest skew of its records, ns: what is older than its clock by more may be late (T8)."""
        return min(self._skews)

    @property
    def compared(self) -> str:
        """Bytes of a packet whose hash is stored: `content` or `packet`; empty if copies are not looked for."""
        return "" if self.duplicates == "keep" else self.duplicate_bytes

    @property
    def jump(self) -> int:
        """max_jump in force, ns; that of the section of the link, in all of its periods."""
        groups: dict[str, int] = self.group_skew.values if self.group_skew else {}
        return max([self.skew, *groups.values()]) + 60 * SECOND if self.max_jump is None else self.max_jump

    def lives(self, start: int, end: int) -> bool:
        """Whether its life meets [start, end), ns (T5)."""
        return (self.since is None or self.since < end) and (self.until is None or self.until > start)

    def _check_text(self) -> None:
        if self.separator is not None and (self.kind != "csv" or len(self.separator.encode()) != 1):
            raise ValueError('separator: one character, only for a link with kind = "csv"')
        if self.quote is not None and len(self.quote.encode()) > 1:
            raise ValueError('quote: one character of ASCII, or "" for none')
        self._check_kind()

    def _check_kind(self) -> None:
        for key in ("quote", "header", "null", "decimal"):
            if getattr(self, key) is not None and self.kind != "csv":
                raise ValueError(f'{key}: only for a link with kind = "csv"')
        if len({self.separator or ",", self.quote if self.quote is not None else '"', "\n", "\r"}) < 4:
            raise ValueError("separator and quote: are different characters, and no end of a line")
        if self.kind == "pcap":
            if self.protocol is not None or self.schemas:
                key = "protocol" if self.protocol is not None else "schemas"
                raise ValueError(f'{key}: not for a link with kind = "pcap"')
            return
        for key in ("payload", "anonymise", "shed"):
            if getattr(self, key) is not None:
                raise ValueError(f'{key}: only for a link with kind = "pcap"')
        if self.sampling or self.applications:
            raise ValueError('sampling and applications: only for a link with kind = "pcap"')
        if self.untimed != "malformed":
            raise ValueError('untimed: only for a link with kind = "pcap"')
        if self.resolution != "file":
            raise ValueError('resolution: only for a link with kind = "pcap"')

    @model_validator(mode="after")
    def _consistent(self) -> Link:
        for piece in self.pieces():
            piece.settings._check_text()
        if self.anonymise is not None and (self.payload is not None or self.applications or self.sampling):
            raise ValueError(
                "anonymise: frames, their digests, and fields of applications hold true addresses and names: leave out "
                "payload, applications and sampling, or take the captures in twice, as two links"
            )
        if self.anonymise is not None and self.compared:
            raise ValueError(
                "anonymise: hashes of packets are of true addresses: leave out duplicates, or take the captures in "
                "twice, as two links"
            )
        if self.duplicates != "keep" and self.kind != "pcap":
            raise ValueError('duplicates: copies are found by the bytes of packets: only for a link with kind = "pcap"')
        if self.shed is not None and not self.sampling:
            raise ValueError("shed: needs sampling = true on the same link: add that line")
        if self.unmarked_estimates and self.shed is None:
            raise ValueError("unmarked_estimates: only for a link with shed: add that line, or leave this one out")
        if self.longest_skew >= LONGEST_SKEW:
            raise ValueError(f"skew: must be below {format_duration(LONGEST_SKEW)}")
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ValueError("until: must be after since")
        for before, after in pairwise(self.periods):
            if after.since <= before.since:
                again = format_instant(after.since)
                raise ValueError(f"periods: stand in the order of since, and that of {again} is not behind the others")
        if self.turns and (self.group_skew is not None or self.shed is not None):
            key = "group_skew" if self.group_skew is not None else "shed"
            raise ValueError(f"{key}: not with another skew in periods: give all periods one skew, or leave {key} out")
        if beyond := [skew for _, skew in self.turns if skew > self.jump]:
            # It judges files, whose records may be of two periods.
            longest, better = (format_duration(max(beyond) + more) for more in (0, 60 * SECOND))
            raise ValueError(
                f"max_jump: is {format_duration(self.jump)} in all periods, and a skew of one is longer, {longest}: "
                f'write max_jump = "{better}" in the section of the link'
            )
        told = all(re.search(DATED, each) for each in self.patterns) or self._patterns_apart
        if self.read_by and not (self.patterns and told):
            raise ValueError(
                f"{self.read_by[0]}: a period knows its files by their names, and these are named as those of before: "
                'write captures in the period, or a date in the names, as captures = "a-%Y%m%d%H.pcap"'
            )
        for since, _, settings in self.pieces():
            patterns = settings.captures or ("",)
            if settings.rotation is not None and not all(re.search(DATED, pattern) for pattern in patterns):
                within = "" if since < 0 else f" (from {format_instant(since)} on)"
                raise ValueError(
                    "rotation: needs a pattern with the start of the file in it, as captures = 'a-%Y%m%d%H.pcap'"
                    f"{within}"
                )
        return self


class QuerySet(Section):
    """`[query_sets.NAME]`: files of a query set, and settings of this set.

    Attributes:
        files: query files, relative to the settings file.
        schemas: files with PROTOCOL blocks.
        functions: files that declare functions and aggregates.
        params: values of `$name` in the queries.
        chain_start: begin of the chain of a set that hands state over; None for the first coverage of its links.
        interval: length of its intervals, ns, over `[interval]`.
        heartbeat: over the one of `[replay]`.
        processes: over the one of `[replay]`.
        deadline: over the one of `[schedule]`, ns.
        approval: over the one of `[schedule]`.
    """

    files: Names = ()
    schemas: Names = ()
    functions: Names = ()
    params: dict[str, str | int | float | bool] = Setting(default={})
    chain_start: Instant | None = None
    interval: Positive | None = None
    heartbeat: Heartbeat | None = None
    processes: Processes | None = None
    deadline: Positive | None = None
    approval: bool | None = None


class Replay(Section):
    """`[replay]`: execution of runs; changes latency and memory, never rows.

    Attributes:
        heartbeat: period of the ticks, ns, or a policy (T2).
        tick: virtual time between two ticks at which queries emit rows, ns.
        chunk: packets that a kernel processes at once.
        task_packets: most packets of a link in a task of the low level.
        flush: when groups of closed epochs leave the group tables of the low level.
        table: whether a group may also use the slot after its own.
        copies: most windows and groupings of a row; a query with more is refused.
        tuned: whether to use the tables, heartbeat period and order of conjuncts that earlier runs recommend.
        partitions: without effect, of versions whose Spark had shuffles.
        memory: memory of a process that works on packets and rows, in Java's notation: of a command, whose threads
            share it, or of a task of Spark; unless given that of the machine or its container.
        patience: longest wait of a scheduled run for a link, before its policy decides (T6), wall clock, ns.
        processes: whether the scheduler runs low, high and audit in one process, or each as a task of its own.
        threads: threads of a process; 0 for one a core, fewer where memory is short.
    """

    heartbeat: Heartbeat = SECOND
    tick: Positive = 600 * SECOND
    chunk: int = Setting(default=131072, ge=1)
    task_packets: int = Setting(default=1 << 22, ge=1)
    flush: str = Setting(default="immediate", pattern=r"^(immediate|slow \d+|oop-slow \d+ \d+|lazy \d+)$")
    table: Literal["direct", "adjacent"] = "direct"
    copies: int = Setting(default=4096, ge=1)
    tuned: bool = False
    partitions: int = Setting(default=0, ge=0)
    memory: Annotated[str, Setting(pattern=r"^[1-9]\d*[kmgKMG]$")] | None = None
    patience: Duration = 900 * SECOND
    processes: Processes = "shared"
    threads: int = Setting(default=0, ge=0)

    @property
    def bytes(self) -> int:
        """`memory` in bytes; 0 unless given."""
        return int(self.memory[:-1]) << {"k": 10, "m": 20, "g": 30}[self.memory[-1].lower()] if self.memory else 0


MASTER = r"^(local(\[(\*|\d+)(,\d+)?\])?|(spark|k8s)://\S+|yarn)$"
"""The forms of a master URL of Spark."""
REMOTE = r"^sc://[^\s/;?#]+(/(;\S*)?)?$"
"""The form of the address of a Spark Connect server, with its parameters behind `/;`."""


def names_spark(text: str) -> bool:
    """Whether a text is a master URL of Spark, or the address of a Spark Connect server.

    Example:
        >>> [names_spark(text) for text in ("local[*]", "spark://10.0.0.1:7077", "sc://10.0.0.1:15002", "10.0.0.1")]
        [True, True, True, False]
    """
    return re.fullmatch(f"{MASTER}|{REMOTE}", text) is not None


class Spark(Section):
    """`[spark]`: the Spark that evaluates; without it the process of each command does.

    Attributes:
        master: its master URL: each command starts a driver there, and ends it.
        remote: address of a Spark Connect server that is there already.
    """

    master: Annotated[str, Setting(pattern=MASTER)] | None = None
    remote: Annotated[str, Setting(pattern=REMOTE)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Spark:
        if self.master and self.remote:
            raise ValueError("master and remote are two Sparks; write one of them")
        return self

    @property
    def named(self) -> str | None:
        """The master URL or the address; None for this process."""
        return self.master or self.remote


class Schedule(Section):
    """`[schedule]`: how the lake takes care of itself, and Airflow beside the runs; it changes no rows.

    Attributes:
        runs: whether Airflow's clock says when to look at all intervals, or gives each interval a run of its own.
        every: time between two looks, ns.
        look_back: how long after its end an interval is kept right by looks, ns; older ones are for a backfill.
        longest_pause: longest pause before what failed is tried again on the same inputs, ns; pauses grow up to it.
        longest_outage: how long a task of Airflow waits for a full disk, an absent store or Spark, another process, ns.
        deadline: longest time from the queueing of a run to its end; later runs are reported.
        approval: whether a person must approve the publication of an interval whose audit warns.
        maintain: period of the maintenance DAG.
        verify: number of days in which the DAG that verifies has read all bytes of the lake, a share each; 0 for never.
    """

    runs: Literal["looks", "intervals"] = "looks"
    every: Annotated[int, BeforeValidator(parse_duration), Setting(ge=SECOND)] = 600 * SECOND
    look_back: Positive = 7 * 24 * HOUR
    longest_pause: Positive = HOUR
    longest_outage: Duration = 24 * HOUR
    deadline: Positive | None = None
    approval: bool = False
    maintain: Literal["never", "hourly", "daily", "weekly"] = "daily"
    verify: Annotated[int, Setting(ge=0, le=3650)] = 30


class Notify(Section):
    """`[notify]`: recipients of messages about failed runs, missed deadlines, warnings, and each day.

    Attributes:
        url: webhook that receives a POST of JSON (`text`, `kind`, `dag`, `run`, `interval`).
        connection: Airflow connection with the address (host) and a token (password), instead of `url`.
        email: addresses that receive the same by mail.
        mail_connection: Airflow connection of the mail server.
        warnings: whether an interval that is published with warnings, or incomplete, is told.
        digest: how often a digest of all query sets is told.
    """

    connection: Connection | None = None
    url: Annotated[str, Setting(pattern=r"^https?://[^\s]+$")] | None = None
    email: tuple[Annotated[str, Setting(pattern=r"^[^@\s,;<>]+@[^@\s,;<>]+$")], ...] = ()
    mail_connection: Connection = "smtp_default"
    warnings: bool = True
    digest: Literal["never", "daily"] = "daily"

    @model_validator(mode="after")
    def _one(self) -> Notify:
        if self.url is not None and self.connection is not None:
            raise ValueError("url and connection both name the webhook; give one of them")
        return self


class Files(Section):
    """`[files]`: files that functions and watch lists of queries may read, beside the folders of the query files.

    Attributes:
        folders: folders whose files, at any depth, may be read; relative to the settings file.
    """

    folders: Names = ()


class Retention(Section):
    """`[retention]`: what `lowwater maintain` removes; never what a digest or a reader needs.

    Attributes:
        versions: time that files stay for readers after their table no longer names them, ns.
        streams: how much of the rows between the stages stays, by when their interval was published; None for all.
        low: the same of the rows of LFTAs alone; None for that of `streams`.
        captures: how much of the capture files of links that the lake has taken in stays, by the time of the records;
            None for all.
        malformed: how much of the malformed rows stays that belong to packets which are gone; None for all.
        quarantine: how much of the rows that broke a rule stays, by the time of their interval; None for all.
        reports: how much of the pages of audits stays, by when they were written; None for all.
        packets: how much of the packets of links stays, by the time of the records; None for all. What is published of
            the time before stays, and no run can change it any more (S11).
    """

    versions: Annotated[int, BeforeValidator(parse_duration), Setting(ge=HOUR)] = 7 * 24 * HOUR
    streams: Kept | None = None
    low: Kept | None = None
    packets: Kept | None = None
    captures: Kept | None = None
    malformed: Kept | None = None
    quarantine: Kept | None = None
    reports: Kept | None = None


class Ended(NamedTuple):
    """What is left of a link whose section is no longer there.

    Attributes:
        end: of its life, ns; None where no look has found it.
        captures: the patterns of its files.
        otherwise: whether files of some of its periods were read otherwise than by its section.
    """

    end: int | None
    captures: tuple[str, ...]
    otherwise: bool = False


class Config(Section):
    """All settings of `lowwater.toml`.

    Attributes:
        lake: the lake, relative to the file; None for the folder of the file.
        sets: name -> links that `FROM [name].TCP` reads together.
    """

    lake: str | PurePath | None = None
    interval: Interval = Interval()
    links: dict[LinkName, Link] = Setting(default={})
    sets: dict[SetName, tuple[str, ...]] = Setting(default={})
    query_sets: dict[SetName, QuerySet] = Setting(default={})
    thresholds: Thresholds = Thresholds()
    history: History = History()
    suites: SuiteLimits = SuiteLimits()
    replay: Replay = Replay()
    spark: Spark = Spark()
    schedule: Schedule = Schedule()
    notify: Notify = Notify()
    files: Files = Files()
    retention: Retention = Retention()
    _ended: Mapping[str, Ended] = PrivateAttr(default={})

    @property
    def ended(self) -> Mapping[str, Ended]:
        """Links whose section is no longer there."""
        return self._ended

    @model_validator(mode="after")
    def _sets_of_links(self) -> Config:
        for name, links in self.sets.items():
            twice = next((link for link, times in Counter(links).items() if times > 1), None)
            if twice is not None:
                raise ValueError(f"sets.{name}: lists {twice!r} twice; name every link once")
            for link in links:
                if link not in self.links and link_names.family_of(link) not in self.links:
                    advice = nearest(link, self.links) if self.links else f"; write {section_of(link)}"
                    raise ValueError(f"sets.{name}: no link {link!r}{advice}")
        return self

    @model_validator(mode="after")
    def _names_apart(self) -> Config:
        folded: dict[str, str] = {}
        for name in self.query_sets:
            other = folded.setdefault(name.lower(), name)
            if other != name:
                raise ValueError(
                    f"query_sets.{name}: differs from {other!r} in case only; where a file system folds case, both "
                    "would be one folder of the lake: give one of them another name"
                )
        return self

    def past_link(self, name: str) -> Link:
        """Returns the settings of a link that the lake has, or of an interface of one; the defaults where the settings
        do not name it any more."""
        return self.links.get(name) or self.links.get(link_names.family_of(name), Link())

    def link(self, name: str) -> Link:
        """Returns the settings of a link; the defaults if no link is configured at all.
        Raises ConfigError if other links are configured, and this one is not."""
        if name in self.links:
            return self.links[name]
        parent = link_names.family_of(name)
        if parent in self.links:  # an interface of a pcapng is a link with the settings of its file's link (T1)
            return self.links[parent]
        if self.links:
            advice = f"name another one, or add {section_of(name)} to {FILE_NAME}"
            raise errors.ConfigError(f"{FILE_NAME} has no link {name!r}{nearest(name, self.links)}", advice)
        return Link()

    def length(self, query_set: str = "") -> int:
        """The length of the intervals of a query set, or of the lake, ns."""
        section = self.query_sets.get(query_set)
        return section.interval if section and section.interval else self.interval.length

    def asks(self, query_set: str) -> bool:
        """Whether a person must approve what the schedule publishes of a query set, where the audit warns."""
        section = self.query_sets.get(query_set)
        own = section.approval if section is not None else None
        return self.schedule.approval if own is None else own

    @property
    def link_schemas(self) -> list[Path]:
        """Files with the protocols of links whose records are no packets, each once."""
        return [Path(file) for file in dict.fromkeys(file for link in self.links.values() for file in link.schemas)]

    def limits(self, name: str) -> Thresholds:
        """Returns the thresholds in force for a link."""
        link_thresholds = self.link(name).thresholds
        overrides = {
            kind: limits for kind in Thresholds.model_fields if (limits := getattr(link_thresholds, kind)) is not None
        }
        return self.thresholds.model_copy(update=overrides)


def load_config(
    lake: PurePath | None = None,
    path: Path | None = None,
    text: str | None = None,
    kept: Mapping[str, dict[str, Any]] | None = None,
) -> Config:
    """Reads the settings of a lake; environment variables `LOWWATER_SECTION__KEY` override the file. Returns the
    settings. Paths (`lake`, `captures`, files of query sets, modules) are absolute, from the folder of the file.
    Raises ConfigError if a setting is refused; names the file or variable, the key, and an allowed value. Raises
    LakeError if the sections that the lake keeps cannot be read.

    Args:
        lake: directory of the lake; overrides `lake` in the file.
        path: the settings file; None for `<lake>/lowwater.toml`, or the defaults if that does not exist.
        text: content to read in place of the file's, to see what a change would do.
        kept: sections of links, as `kept_sections` returns them; None for those that the lake has.
    """
    chosen = path or (lake / FILE_NAME if lake else None)
    data: dict[str, Any] = {}
    if chosen is not None:
        try:
            data = toml_table(paths.read_lately(chosen, SETTINGS_BYTES + 1).decode() if text is None else text)
        except OSError as error:
            if path is not None or not isinstance(error, FileNotFoundError | NotADirectoryError):
                hint = hint_in_lake(error, "")
                raise errors.ConfigError(f"{chosen}: cannot be read: {error.strerror}", hint) from error
        except ValueError as error:
            raise errors.ConfigError(f"{chosen}: is not valid TOML: {error}") from error
    variables = override(data, os.environ)
    ended = _ended_links(lake, data, kept)
    try:
        config = Config.model_validate(data)
        config._ended = ended
    except ValidationError as error:
        _refuse(chosen or Path(FILE_NAME), error, variables)
    return _absolute(config, paths.settings_folder(chosen), lake) if chosen else config


SECTIONS = PurePath("_links", "sections.json")
"""File of a lake: name of a link -> its last `section`, as JSON, and, once that is gone, the `end` of its coverage."""

_OF_FOLDERS = ("captures", "rotation", "covers", "timezone", "symbolic_links")


def kept_sections(lake: PurePath) -> dict[str, dict[str, Any]]:
    """Reads SECTIONS; empty where there are none. Raises LakeError if they cannot be read: without them, what is
    published of a link that has ended would be made again without it."""
    try:
        if not paths.may_hold(lake, SECTIONS.parts[0]):
            return {}
        found = json_value(paths.read_lately(lake / SECTIONS, SETTINGS_BYTES + 1))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        hint = hint_in_lake(error, "")
        raise lake_error(error, f"{lake / SECTIONS}: cannot be read: {error.strerror}", hint) from error
    except ValueError:
        found = None
    if isinstance(found, dict) and all(map(_is_section, found.values())):
        return {str(name): kept for name, kept in found.items()}
    raise errors.LakeError(
        f"{lake / SECTIONS}: it does not have the last section of each link: another program changed it",
        f"put a copy of it back, or remove it once {FILE_NAME} has a section for each link with captures",
    )


def _is_section(kept: object) -> bool:
    if not (isinstance(kept, dict) and isinstance(kept.get("section"), dict)):
        return False
    section, end = kept["section"], kept.get("end", 0)
    periods = section.get("periods", [])
    if not (isinstance(periods, list) and all(isinstance(each, dict) for each in periods)):
        return False
    given = [part.get("captures", ()) for part in (section, *periods)]
    named = all(isinstance(each, str | list | tuple) and all(isinstance(name, str) for name in each) for each in given)
    return named and isinstance(end, int) and 0 <= end < 1 << 63


def _ended_links(
    lake: PurePath | None, data: dict[str, Any], sections: Mapping[str, dict[str, Any]] | None
) -> dict[str, Ended]:
    """Adds the links whose sections are no longer in the settings, with their last ones, as links that have ended (T5):
    what is published of them goes on to be what it was. Returns what is left of them."""
    links, ended = data.get("links"), dict[str, Ended]()
    if lake is None or not isinstance(links, dict) or not links:
        return ended
    for name, kept in (kept_sections(lake) if sections is None else sections).items():
        section, end = kept.get("section"), kept.get("end")
        if name not in links and isinstance(section, dict):
            periods = section.get("periods", ())
            given = [part.get("captures", ()) for part in (section, *periods)]
            patterns = tuple(name for each in given for name in ((each,) if isinstance(each, str) else each))
            section = {key: value for key, value in section.items() if key not in _OF_FOLDERS}
            if periods:
                left_out = {*_OF_FOLDERS, *READ_BY}  # which a file without a pattern has none of
                section["periods"] = [
                    {key: value for key, value in period.items() if key not in left_out} for period in periods
                ]
            otherwise = any(key in period for period in periods for key in READ_BY)
            ended[name] = Ended(end if isinstance(end, int) else None, patterns, otherwise)
            if isinstance(end, int):
                section.setdefault("until", format_instant(end))
            links[name] = section
    return ended


def _refuse(path: PurePath, error: ValidationError, variables: Mapping[str, str]) -> NoReturn:
    lines = []
    for key, text in refused.refusals(error):
        # A setting from an environment variable is in no file.
        where = next((name for at, name in variables.items() if key == at or key.startswith(f"{at}.")), str(path))
        lines.append(f"{where}: {key}: {text}" if key else f"{where}: {text}")
    raise errors.ConfigError("\n".join(dict.fromkeys(lines)))


def _located(folder: Path, value: str) -> str:
    """Returns a path of the settings from the folder of their file; an address stays as it is."""
    return value if is_address(value) else normpath(folder / value)


def _absolute(config: Config, folder: Path, lake: PurePath | None) -> Config:
    links = {
        name: link.model_copy(
            update={
                **{
                    key: tuple(_located(folder, value) for value in values)
                    for key in ("captures", "schemas")
                    if (values := getattr(link, key))
                },
                **({"anonymise": normpath(folder / link.anonymise)} if link.anonymise else {}),
                "periods": tuple(
                    period.model_copy(update={"captures": tuple(_located(folder, each) for each in period.captures)})
                    if period.captures
                    else period
                    for period in link.periods
                ),
            }
        )
        for name, link in config.links.items()
    }
    query_sets = {
        name: query_set.model_copy(
            update={
                key: tuple(normpath(folder / f) for f in getattr(query_set, key))
                for key in ("files", "schemas", "functions")
            }
        )
        for name, query_set in config.query_sets.items()
    }
    chosen = lake or (paths.lake_path(_located(folder, str(config.lake))) if config.lake else folder)
    files = Files(folders=tuple(normpath(folder / path) for path in config.files.folders))
    changed: dict[str, Any] = {"lake": chosen, "links": links, "query_sets": query_sets, "files": files}
    if config.suites.modules:
        modules = normpath(folder / config.suites.modules)
        changed["suites"] = config.suites.model_copy(update={"modules": modules})
    return config.model_copy(update=changed)
