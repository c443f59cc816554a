"""The settings that DAG files read at parse time: lake, intervals, begin and end of links.

They open no table and plan no query, so that parsing stays fast.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from lowwater.caches import cache_folder
from lowwater.config import Config, kept_sections, load_config
from lowwater.documents import FILE_NAME
from lowwater.errors import ConfigError, LakeError
from lowwater.extras import checkout
from lowwater.instants import DAY, HOUR, SECOND, format_duration
from lowwater.lake.query_sets import is_chained
from lowwater.limits import SETTINGS_BYTES, STORE_PATIENCE
from lowwater.storage import paths
from lowwater.storage.failures import away
from lowwater.storage.objects import patience
from lowwater.storage.paths import lake_path

POOL = "lowwater"
"""The Airflow pool that limits the number of Spark processes; a computing task takes one slot."""

SPARK = "lowwater_spark"
"""Airflow connection of a Spark: of a Spark Connect server (type `spark_connect`), whose clients tasks are; or of a
cluster: host spark://name, port, secret as password."""

LONGEST = 200
"""Most characters of the name of a query set with a DAG; Airflow takes 250 for that of a DAG."""
NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{LONGEST}}}")
"""Names of query sets that can be in those of DAGs, which Airflow shows, and puts into addresses."""

SOON = 5.0
"""Seconds for which a store is asked for settings that this machine has seen before: DAG files are read in 30."""

MINUTE = 60 * SECOND


@dataclass(frozen=True)
class Settings:
    """The lake, its query sets, and the schedule of their intervals."""

    lake: PurePath  # folder of the lake or its prefix in an object store, with `lowwater.toml`
    queries: Path  # folder of the query sets; each file gets a DAG
    config: Config  # settings of the lake

    @staticmethod
    def load() -> Settings:
        """Reads LOWWATER_LAKE and LOWWATER_QUERIES; see `query_folder` for its default.
        Raises ConfigError if the lake is not named, or its settings are wrong; Airflow shows it as an import error."""
        named = os.environ.get("LOWWATER_LAKE")
        if not named:
            raise ConfigError("LOWWATER_LAKE is not set", "start Airflow with LOWWATER_LAKE=<folder of the lake>")
        try:
            lake = lake_path(named)
        except ValueError as error:
            raise ConfigError(f"LOWWATER_LAKE: {error}", "name a folder, or s3://BUCKET/PREFIX") from None
        return Settings(lake, query_folder(lake), _config(lake))

    def query_sets(self) -> list[str]:
        """The names of the query sets: files in the folder, and sets with files in the settings."""
        named = {name for name, section in self.config.query_sets.items() if section.files}
        return sorted({*named, *filter(NAME.fullmatch, self._stems())})

    def require_names(self) -> None:
        """Refuses files of queries of whose names no DAG can have one. The others get theirs.
        Raises ConfigError if there are such files."""
        wrong = sorted(ascii(stem)[1:-1] for stem in self._stems() if not NAME.fullmatch(stem))
        if wrong:
            shown = ", ".join(f"{name[:80]}.gsql" for name in wrong[:5])
            raise ConfigError(
                f"{self.queries}: {len(wrong)} files of queries have no DAG, by their names: {shown}",
                f"name them with letters, digits, _, . and -, and at most {LONGEST} of these",
            )

    def has_runs(self, query_set: str | None = None) -> bool:
        """Whether the intervals of a query set or of the lake can have a run each; looks run those of any length."""
        try:
            cron(self.length(query_set))
        except ConfigError:
            return False
        return True

    def has_days(self, query_set: str) -> bool:
        """Whether days of intervals of a query set can have a run each: they are shorter than a day, and nothing holds
        one of them before it is published."""
        one = self.stages(query_set) == (None,) and not self.approval(query_set)
        return one and self.has_runs(query_set) and self.length(query_set) < DAY

    def require_lengths(self) -> None:
        """Refuses lengths of intervals of which no run can be. The DAGs of other query sets, and all looks, are there.
        Raises ConfigError if there are such lengths."""
        for name in (None, *self.query_sets()):
            try:
                cron(self.length(name))
            except ConfigError as error:
                dag = "capture_ingest" if name is None else f"replay_{name}"
                raise ConfigError(f"there is no DAG {dag}: {error.message}", error.hint) from None

    def _stems(self) -> list[str]:
        return [path.stem for path in self.queries.glob("*.gsql")]

    def files(self, query_set: str) -> list[Path]:
        section = self.config.query_sets.get(query_set)
        named = [Path(file) for file in section.files] if section else []
        return named or [self.queries / f"{query_set}.gsql"]

    def length(self, query_set: str | None = None) -> int:
        """The length of the intervals of a query set or of the lake, ns."""
        return self.config.length(query_set or "")

    def stages(self, query_set: str) -> tuple[str | None, ...]:
        """The stages before publishing, one for each task; None stands for all stages in one process."""
        section = self.config.query_sets.get(query_set)
        processes = (section and section.processes) or self.config.replay.processes
        return ("low", "high", "audit") if processes == "each" else (None,)

    def deadline(self, query_set: str) -> timedelta | None:
        """The time from queueing to the deadline of a run; None for no deadline."""
        section = self.config.query_sets.get(query_set)
        chosen = (section and section.deadline) or self.config.schedule.deadline
        return _duration(chosen) if chosen else None

    def approval(self, query_set: str) -> bool:
        """Whether an interval with warnings needs approval before it is published."""
        return self.config.asks(query_set)

    def chained(self, query_set: str) -> bool:
        """Whether each interval needs the one before it (SEMANTICS I4), by the settings or the last plan."""
        section = self.config.query_sets.get(query_set)
        if section is not None and section.chain_start is not None:
            return True
        try:
            return is_chained(self.lake, query_set)
        except OSError as error:
            if away(error):
                return False  # the process of an interval knows
            raise

    @property
    def looks(self) -> bool:
        """Whether Airflow's clock says when to look; else each interval has a run of its own."""
        return self.config.schedule.runs == "looks"

    @property
    def every(self) -> timedelta:
        return _duration(self.config.schedule.every)

    def intervals(self, query_set: str | None = None) -> Any:
        """The timetable of runs of one interval each: for backfills, and by the clock unless it says when to look."""
        # Imported only here: tasks need no timetable.
        from airflow.sdk import CronDataIntervalTimetable

        from lowwater_airflow.timetables import WhenAsked

        expression = cron(self.length(query_set))
        return (WhenAsked if self.looks else CronDataIntervalTimetable)(expression, timezone="UTC")

    @property
    def maintenance(self) -> str | None:
        often = self.config.schedule.maintain
        return None if often == "never" else f"@{often}"

    @property
    def start(self) -> datetime:
        """The first instant of the schedule: the earliest `since` of the links."""
        starts = [link.since for link in self.config.links.values() if link.since is not None]
        return moment(min(starts)) if starts else datetime(2020, 1, 1, tzinfo=UTC)

    def end(self, query_set: str | None = None) -> datetime | None:
        """The begin of the last interval of the schedule; None unless every link has an `until`."""
        ends = [link.until for link in self.config.links.values()]
        if not ends or None in ends:
            return None
        length = self.length(query_set)
        return moment((max(end for end in ends if end is not None) - 1) // length * length)

    @property
    def patience(self) -> timedelta:
        """The time that a run waits for a link that has not reported."""
        return _duration(self.config.replay.patience)


def _config(lake: PurePath) -> Config:
    """Reads the settings; where the store of the lake is away, as this machine has seen them last: without its DAG a
    task could not even wait."""
    if isinstance(lake, Path):
        return load_config(lake)
    copy = cache_folder() / "settings" / f"{sha256(str(lake).encode()).hexdigest()[:24]}.json"
    try:
        with patience(SOON if copy.is_file() else STORE_PATIENCE):
            text = paths.read_lately(lake / FILE_NAME, SETTINGS_BYTES + 1).decode()
            kept = kept_sections(lake)
    except (OSError, LakeError) as error:
        if not away(error) or not copy.is_file():
            return load_config(lake)
        text, kept = json.loads(copy.read_text(encoding="utf-8"))
        return load_config(lake, text=text, kept=kept)
    seen = json.dumps([text, kept])
    if not copy.is_file() or copy.read_text(encoding="utf-8") != seen:
        with suppress(OSError):
            copy.parent.mkdir(exist_ok=True)
            new = copy.with_suffix(f".{os.getpid()}")
            new.write_text(seen, encoding="utf-8")
            new.replace(copy)
    return load_config(lake, text=text, kept=kept)


def query_folder(lake: PurePath) -> Path:
    """The folder of the query sets: LOWWATER_QUERIES, else `queries/` of the checkout, else `queries/` in the lake.

    The queries of an installed package are samples, which a lake of other links would refuse.
    Raises ConfigError if none of them is a folder of this machine."""
    named = os.environ.get("LOWWATER_QUERIES")
    if named:
        return Path(named)
    home = checkout() or lake
    if not isinstance(home, Path):
        hint = "start Airflow with LOWWATER_QUERIES=<folder of the query sets>"
        raise ConfigError(f"LOWWATER_QUERIES is not set, and {lake} is no folder of this machine", hint)
    return home / "queries"


def cron(length: int) -> str:
    """The cron expression (UTC) of intervals of a length (ns) aligned to the epoch (SEMANTICS I3).

    Raises:
        ConfigError: cron cannot express the length: it must divide an hour or a day in whole minutes or hours.

    Example:
        >>> cron(3600 * 10**9), cron(900 * 10**9), cron(6 * 3600 * 10**9)
        ('0 * * * *', '*/15 * * * *', '0 */6 * * *')
    """
    if length == DAY:
        return "0 0 * * *"
    if length == HOUR:
        return "0 * * * *"
    if length % HOUR == 0 and DAY % length == 0:
        return f"0 */{length // HOUR} * * *"
    if length % MINUTE == 0 and HOUR % length == 0:
        return f"*/{length // MINUTE} * * * *" if length > MINUTE else "* * * * *"
    raise ConfigError(
        f"intervals of {format_duration(length)} cannot be scheduled",
        "choose a length that divides an hour or a day: 1min, 5min, 15min, 1h, 6h, 1d ...",
    )


def _duration(nanoseconds: int) -> timedelta:
    return timedelta(microseconds=nanoseconds // 1000)


def moment(instant: int) -> datetime:
    """Converts an instant, ns since the epoch, to Airflow's form."""
    return datetime.fromtimestamp(instant / SECOND, UTC)


def deployment(host: str, secret: str, extra: Mapping[str, Any]) -> dict[str, str]:
    """Reads the connection of a Spark cluster as the environment of a child.

    Raises:
        ConfigError: drivers are to run on the cluster.

    Example:
        >>> deployment("spark://m:7077", "", {})
        {'LOWWATER_SPARK_MASTER': 'spark://m:7077'}
    """
    mode = extra.get("deploy-mode", "client")
    if mode != "client":
        raise ConfigError(
            f"connection {SPARK}: deploy-mode {mode}: Lowwater starts no drivers on a cluster",
            "leave out deploy-mode; or name a Spark Connect server, by a connection of the type spark_connect",
        )
    return {"LOWWATER_SPARK_MASTER": host} | ({"LOWWATER_SPARK_SECRET": secret} if secret else {})
