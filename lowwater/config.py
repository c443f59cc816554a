"""The schema of `lowwater.toml`. Read by every stage above the kernels."""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from os.path import normpath
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic import Field as Setting

from lowwater.environment import override
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND, format_duration, parse_duration, parse_instant, parse_span
from lowwater.refused import refusals

FILE_NAME = "lowwater.toml"
LINK_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+)?"
LONGEST_SKEW = 50 * 366 * 24 * HOUR
"""Bound of every skew (ns): below the century of SLACK that the watermarks add (SEMANTICS T3)."""

MOST_PAYLOAD = 65_535
"""Longest part of a payload (bytes) that can be asked for; `all` is what was captured."""

TENFOLD = 10
"""How much higher the critical limit of a threshold is where only the warning limit is given."""


def toml_key(name: str) -> str:
    """A name as TOML writes it where a key stands: quoted where it has a dot, a slash or another character.

    Example:
        >>> toml_key("main1"), toml_key("node_10.1.0.11")
        ('main1', '"node_10.1.0.11"')
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=True)


def section_of(link: str, *below: str, of: str = "links") -> str:
    """The header of the section of a link, or of one below it, as it is written in the settings.

    Example:
        >>> section_of("main1"), section_of("main1/eth0", "thresholds"), section_of("flows", of="query_sets")
        ('[links.main1]', '[links."main1/eth0".thresholds]', '[query_sets.flows]')
    """
    return f"[{'.'.join([of, toml_key(link), *below])}]"


def _zone(value: object) -> object:
    try:
        ZoneInfo(str(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder of zones
        raise ValueError(f'{value!r} is no time zone; write for example "UTC" or "Europe/Berlin"') from None
    return value


def _policy(value: object) -> object:
    """`exclude` was the name of `publish`: it sounded as if the link were left out, where only its gap is."""
    return "publish" if value == "exclude" else value


def _heartbeat(value: object) -> object:
    return value if value in ("on-demand", "data-driven", "none") else parse_duration(value)


def _name_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Duration = Annotated[int, BeforeValidator(parse_duration), Setting(ge=0)]
Positive = Annotated[int, BeforeValidator(parse_duration), Setting(gt=0)]
Instant = Annotated[int, BeforeValidator(parse_instant)]
Span = Annotated[tuple[int, int], BeforeValidator(parse_span)]
Heartbeat = Annotated[int | Literal["on-demand", "data-driven", "none"], BeforeValidator(_heartbeat)]
Names = Annotated[tuple[str, ...], BeforeValidator(_name_list)]
LinkName = Annotated[str, Setting(pattern=f"^{LINK_NAME}$")]
SetName = Annotated[str, Setting(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]
Processes = Literal["shared", "each"]
Share = Annotated[float, Setting(ge=0, le=1)]


class Section(BaseModel):
    """Base of the sections: immutable, and an unknown key is an error that names the nearest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        for key in data if isinstance(data, Mapping) else ():
            if key not in cls.model_fields:
                raise ValueError(f"unknown key {key!r}{nearest(str(key), cls.model_fields)}")
        return data


def nearest(name: str, known: Any) -> str:
    """`; did you mean 'x'?` for the nearest known name, else the list of the known ones."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else f"; known are {', '.join(sorted(known))}"


class Interval(Section):
    """`[interval]`: length of a run's data interval (ns), anchored at the epoch (SEMANTICS I3)."""

    length: Positive = HOUR


class Limits(Section):
    """When a share of a link's records is too high: above `warning` an audit warns, above `critical` it fails.

    A number stands for the warning limit; the critical one is ten times it, at most 1, where it is not given.
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


class Thresholds(Section):
    """`[thresholds]`: which shares of a link's records an audit bears; rows do not depend on them.

    Attributes:
        violating: later than the skew, of the records read (T2).
        malformed: not readable or without a sane time, of the records read (T3).
        failed: with an expression that failed, of the sane records that an LFTA saw (V2).
    """

    violating: Limits = Limits(warning=0.01, critical=0.1)
    malformed: Limits = Limits(warning=0.01, critical=0.1)
    failed: Limits = Limits(warning=0.01, critical=0.1)


class LinkThresholds(Section):
    """`[links.NAME.thresholds]`: those of one link; what is not given is as in `[thresholds]`."""

    violating: Limits | None = None
    malformed: Limits | None = None
    failed: Limits | None = None


class Warnings(Limits):
    """Limits whose critical one is never exceeded where it is not given."""

    @classmethod
    def _critical(cls, warning: float) -> float:
        return 1.0


class History(Section):
    """`[history]`: how far an interval may differ from those before it (docs/review.md); rows do not depend on it.

    Every measure is a share from 0, as usual, to 1; the critical limit of 1 is never exceeded.

    Attributes:
        intervals: how many earlier intervals the usual is the median of.
        least: with fewer than these nothing is judged.
        season: only intervals count that begin a multiple of it earlier, ns: the same hour of other days.
        volume: of records and of rows: 1 - less / more of what came and what is usual.
        violating: by how much the share of violations grew.
        lateness: by how much the lateness that 99.9% do not exceed grew, in parts of the skew.
        silence: of the longest silence of the link: 1 - usual / now.
        link_types: share of the packets in captures of a link type that the link did not have.
        talkers: share of the packets that other sources sent than usual.
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


class GroupSkew(Section):
    """`[links.NAME.group_skew]`: a skew for some values of one column (group-wise punctuation, T8).

    Attributes:
        column: the column of the packets.
        values: value as text -> its skew, ns; every other value has the link's.
    """

    column: str
    values: dict[str, Duration] = {}


class Link(Section):
    """`[links.NAME]`: a capture interface.

    Attributes:
        captures: pattern of its files, with strftime fields and wildcards, relative to the file of the settings.
        rotation: how long each file covers from the instant in its name, ns.
        timezone: the timezone of the instants in the names; everything else is UTC.
        covers: name of a file, with wildcards -> what it covers, [from, to) in ns; goes over the rotation (T5).
        interfaces: what the interfaces of a capture that has several are: `each` a link (`NAME/interface`), or `one`.
        payload: bytes of each payload that are kept, with the headers before them; `all`, or None for no frames.
        applications: whose fields are kept.
        sampling: whether what sampling and load shedding choose packets by is kept (O5).
        shed: most packets of a second of timestamps that an LFTA takes; None for all (O5).
        anonymise: file with the key by which addresses are replaced.
        kind: how its records are stored.
        skew: bound of its disorder, ns (T2).
        skews: of temporal attributes that are no function of the clock, in their own unit (T8).
        group_skew: a skew for some values of one column (T8).
        max_jump: how far ahead of its neighbours a timestamp may be, ns (T3); skew + 60 s unless set.
        since: start of its life, ns; `until` the end (T5).
        gap_tolerance: longest pause between two captures that is no gap, ns (T5).
        policy: what a gap in its coverage does to a run (T6).
        delay: shifts arrivals and promises alike, ns; for experiments (T2).
        thresholds: which shares of its records an audit bears, over those of all links.
        properties: what queries read as `@name`.
    """

    captures: str | None = None
    rotation: Positive | None = None
    timezone: Annotated[str, BeforeValidator(_zone)] = "UTC"
    covers: dict[str, Span] = {}
    interfaces: Literal["each", "one"] = "each"
    payload: Annotated[int, Setting(ge=0, le=MOST_PAYLOAD)] | Literal["all"] | None = None
    applications: tuple[Literal["dns", "http"], ...] = ()
    sampling: bool = False
    shed: Annotated[int, Setting(ge=1)] | None = None
    anonymise: str | None = None
    kind: Literal["pcap", "csv", "parquet"] = "pcap"
    separator: str | None = None
    skew: Duration = SECOND
    skews: dict[str, int] = {}
    group_skew: GroupSkew | None = None
    max_jump: Duration | None = None
    since: Instant | None = None
    until: Instant | None = None
    gap_tolerance: Duration = 2 * SECOND
    policy: Annotated[Literal["fail", "wait", "publish"], BeforeValidator(_policy)] = "fail"
    delay: Duration = 0
    thresholds: LinkThresholds = LinkThresholds()
    properties: dict[str, str] = {}

    @property
    def longest_skew(self) -> int:
        """The largest skew of any of its records, ns, by which its promises are behind its clock (T8)."""
        own: dict[str, int] = self.group_skew.values if self.group_skew else {}
        return max(self.skew, *own.values()) if own else self.skew

    @property
    def jump(self) -> int:
        """The max_jump in force, ns."""
        return self.longest_skew + 60 * SECOND if self.max_jump is None else self.max_jump

    @model_validator(mode="after")
    def _consistent(self) -> Link:
        if self.separator is not None and (self.kind != "csv" or len(self.separator) != 1):
            raise ValueError('separator: one character, of a link of kind "csv"')
        if self.anonymise is not None and (self.payload is not None or self.applications or self.sampling):
            raise ValueError(
                "anonymise: frames, their digests, and fields of DNS and HTTP hold true addresses and names: leave out "
                "payload, applications and sampling, or take the captures in twice, as two links"
            )
        if self.shed is not None and not self.sampling:
            raise ValueError("shed: chooses packets by what sampling = true keeps of them: write that too")
        if self.longest_skew >= LONGEST_SKEW:
            raise ValueError(f"skew: must be below {format_duration(LONGEST_SKEW)}")
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ValueError("until: must be after since")
        if self.rotation is not None and (self.captures is None or "%" not in self.captures):
            raise ValueError(
                "rotation: needs a pattern with the start of the file in it, as captures = 'a-%Y%m%d%H.pcap'"
            )
        return self


class QuerySet(Section):
    """`[query_sets.NAME]`: the files of a query set and the settings that only it has."""

    files: Names = ()
    schemas: Names = ()
    functions: Names = ()
    params: dict[str, str | int | float | bool] = {}
    chain_start: Instant | None = None
    interval: Positive | None = None
    heartbeat: Heartbeat | None = None
    processes: Processes | None = None
    deadline: Positive | None = None
    approval: bool | None = None


class Replay(Section):
    """`[replay]`: how runs are made; changes latency and memory, never rows.

    Attributes:
        heartbeat: period of the ticks in ns, or a policy (T2).
        tick: virtual time between two ticks at which rows of queries come out, ns.
        chunk: packets that a kernel takes at once.
        task_packets: most packets of a link in one task of the low level.
        flush: when groups of closed epochs leave the tables of the low level.
        table: whether a group may also lie in the slot after its own.
        copies: most windows and groupings that a row may be in; a query with more is refused.
        tuned: whether tables, heartbeat period and order of conjuncts are those that the last runs recommend.
        partitions: the partitions of the shuffles; 0 takes the number of cores.
        memory: the memory of the Spark process, as Java writes it.
        patience: how long a scheduled run waits for a link to report before its policy decides (T6), wall clock, ns.
        processes: whether the scheduler runs low, high and audit in one process, or each as a task of its own.
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
    memory: str = Setting(default="2g", pattern=r"^\d+[kmgKMG]$")
    patience: Duration = 900 * SECOND
    processes: Processes = "shared"


class Schedule(Section):
    """`[schedule]`: what Airflow does beside running intervals; rows do not depend on it.

    Attributes:
        deadline: how long after it was queued a run should have ended; one that has not is told of.
        approval: whether an interval whose audit warns waits for a human before it is published.
        maintain: how often the maintenance DAG runs.
    """

    deadline: Positive | None = None
    approval: bool = False
    maintain: Literal["never", "hourly", "daily", "weekly"] = "daily"


class Notify(Section):
    """`[notify]`: who is told of failed runs and missed deadlines.

    Attributes:
        url: a webhook: gets a POST of JSON (`text`, `kind`, `dag`, `run`, `interval`).
        connection: name of the Airflow connection that has the address (host) and a token (password), in its place.
    """

    connection: Annotated[str, Setting(pattern=r"^[\w.:-]{1,200}$")] | None = None
    url: Annotated[str, Setting(pattern=r"^https?://[^\s]+$")] | None = None

    @model_validator(mode="after")
    def _one(self) -> Notify:
        if self.url is not None and self.connection is not None:
            raise ValueError("url and connection both name the webhook; give one of them")
        return self


class Files(Section):
    """`[files]`: what the functions and watch lists of queries may read beside the folders of their query files.

    Attributes:
        folders: files in these folders and below them, relative to the file of the settings.
    """

    folders: Names = ()


class Retention(Section):
    """`[retention]`: what `lowwater maintain` removes, and when; never what a digest or a reader needs.

    Attributes:
        versions: how long files that a table no longer names stay for its readers, ns.
        streams: how long the rows between the stages are kept once an interval is published, ns; for ever unless set.
    """

    versions: Annotated[int, BeforeValidator(parse_duration), Setting(ge=HOUR)] = 7 * 24 * HOUR
    streams: Duration | None = None


class Config(Section):
    """The whole of `lowwater.toml`; `lake` is relative to the file, which is in or beside the lake."""

    lake: Path | None = None
    interval: Interval = Interval()
    links: dict[LinkName, Link] = {}
    sets: dict[SetName, tuple[str, ...]] = {}
    query_sets: dict[SetName, QuerySet] = {}
    thresholds: Thresholds = Thresholds()
    history: History = History()
    replay: Replay = Replay()
    schedule: Schedule = Schedule()
    notify: Notify = Notify()
    files: Files = Files()
    retention: Retention = Retention()

    @model_validator(mode="after")
    def _sets_of_links(self) -> Config:
        for name, links in self.sets.items():
            twice = next((link for at, link in enumerate(links) if link in links[:at]), None)
            if twice is not None:
                raise ValueError(f"sets.{name}: lists {twice!r} twice; name every link once")
            for link in links:
                if link not in self.links and link.partition("/")[0] not in self.links:
                    known = nearest(link, self.links) if self.links else f"; write {section_of(link)}"
                    raise ValueError(f"sets.{name}: no link {link!r}{known}")
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

    def link(self, name: str) -> Link:
        """The settings of a link; where no link is configured at all, the defaults.

        Raises:
            ConfigError: if links are configured and this is none of them.
        """
        if name in self.links:
            return self.links[name]
        parent = name.partition("/")[0]
        if parent in self.links:  # an interface of a pcapng is a link of its own with its file's settings (T1)
            return self.links[parent]
        if self.links:
            raise ConfigError(
                f"links: no link {name!r}{nearest(name, self.links)}", f"add {section_of(name)} to {FILE_NAME}"
            )
        return Link()

    def limits(self, name: str) -> Thresholds:
        """The thresholds in force for a link."""
        own = self.link(name).thresholds
        given = {kind: limits for kind in Thresholds.model_fields if (limits := getattr(own, kind)) is not None}
        return self.thresholds.model_copy(update=given)


def load_config(lake: Path | None = None, path: Path | None = None) -> Config:
    """Reads the settings of a lake; variables `LOWWATER_SECTION__KEY` of the environment go over those of the file.

    Args:
        lake: the lake's directory; overrides the `lake` of the file.
        path: the file; `<lake>/lowwater.toml` unless given, and the defaults where that does not exist.

    Returns:
        The settings, paths (`lake`, `captures`, files of query sets) made absolute from the folder of the file.

    Raises:
        ConfigError: naming file or variable, key and what to write.
    """
    chosen = path or (lake / FILE_NAME if lake else None)
    data: dict[str, Any] = {}
    if chosen is not None and (path is not None or chosen.exists()):
        try:
            data = tomllib.loads(chosen.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{chosen}: cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{chosen}: is no TOML: {error}") from error
    variables = override(data, os.environ)
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        _refuse(chosen or Path(FILE_NAME), error, variables)
    return _absolute(config, chosen.resolve().parent, lake) if chosen else config


def _refuse(path: Path, error: ValidationError, variables: Mapping[str, str]) -> NoReturn:
    lines = []
    for key, text in refusals(error):
        # What a variable of the environment says is in no file.
        where = next((name for at, name in variables.items() if key == at or key.startswith(f"{at}.")), str(path))
        lines.append(f"{where}: {key}: {text}" if key else f"{where}: {text}")
    raise ConfigError("\n".join(dict.fromkeys(lines)))


def _absolute(config: Config, folder: Path, lake: Path | None) -> Config:
    links = {
        name: link.model_copy(
            update={key: normpath(folder / value) for key in ("captures", "anonymise") if (value := getattr(link, key))}
        )
        for name, link in config.links.items()
    }
    query_sets = {
        name: each.model_copy(
            update={
                key: tuple(normpath(folder / f) for f in getattr(each, key))
                for key in ("files", "schemas", "functions")
            }
        )
        for name, each in config.query_sets.items()
    }
    chosen = lake or (folder / config.lake if config.lake else folder)
    files = Files(folders=tuple(normpath(folder / each) for each in config.files.folders))
    return config.model_copy(update={"lake": chosen, "links": links, "query_sets": query_sets, "files": files})
