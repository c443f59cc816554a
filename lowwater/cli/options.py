"""Types and shared options of the command line, each defined once."""

from __future__ import annotations

import getpass
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import Any
from zoneinfo import available_timezones

import click

from lowwater import extras, instants
from lowwater.lake.query_sets import KINDS
from lowwater.storage.captures import StoredCapture, capture_path
from lowwater.storage.object_paths import ObjectPath, parse

Command = Callable[..., Any]

SHORTEST_PREFIX = 16
"""Minimum length (characters) of a common prefix that is printed once above a table."""


class _QueryFile(click.Path):
    """Parameter type of a query file. Who names a sample of Lowwater that is not in this folder learns where it is."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        path = Path(value)
        if not path.exists() and path.parts[:1] in (("queries",), ("examples",)) and ".." not in path.parts:
            folder = extras.shared(path.parts[0])
            if folder.joinpath(*path.parts[1:]).is_file():
                self.fail(f"File {str(value)!r} does not exist. Copy the samples: cp -r '{folder}' .", param, ctx)
        return super().convert(value, param, ctx)


class _Zone(click.ParamType[str]):
    """Parameter type of a time zone, by its name in the tz database."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in available_timezones():
            self.fail(f"{value!r} is no time zone; write for example UTC or Europe/Berlin", param, ctx)
        return str(value)


ZONE = _Zone()
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
QUERY_FILE = _QueryFile(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


class _Lake(click.ParamType[PurePath]):
    """Parameter type of a lake: a folder, or an address in an object store."""

    name = "lake"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PurePath:
        try:
            path = parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if isinstance(path, ObjectPath):
            return path
        return Path(FOLDER.convert(path, param, ctx))


LAKE = _Lake()
BY = click.option("--by", metavar="NAME", help="Who decided it; default the user of this process.")


def person(by: str | None) -> str:
    """Who says something: the one that `--by` names, else the user of this process, by its number where it has no
    name, as in a container."""
    try:
        return by or getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


SPARK = click.option(
    "--spark",
    metavar="URL",
    help="The Spark that evaluates: a master URL such as local[*], or none for this process. Default: [spark] of the "
    "settings, else this process.",
)
OF_LAKE = click.option("--lake", required=True, type=LAKE, help="The lake: its folder, or s3://BUCKET/PREFIX.")
QUERIES = click.option("--queries", default="queries", type=FOLDER, help="Folder of query sets.", show_default=True)
CAPTURE_OF_LINK = click.option(
    "--capture",
    "--link",
    "captures",
    multiple=True,
    metavar="[LINK=]FILE",
    help="A capture, of the link main1 unless another one is named; repeats.",
)
LAKE_INSTEAD = click.option("--lake", type=LAKE, help="The lake: its folder, or s3://BUCKET/PREFIX.")
JOBS = click.option(
    "--jobs", default=1, type=click.IntRange(1, 64), help="Intervals evaluated at once.", show_default=True
)


def form(*forms: str, help: str) -> Callable[[Command], Command]:
    """The option `--format` of a command that prints in one of some forms, by default in the first."""
    return click.option("--format", "form", default=forms[0], type=click.Choice(forms), help=help, show_default=True)


class _Capture(click.ParamType[Path]):
    """Parameter type of a capture: a file, or its address in an object store."""

    name = "capture"

    def __init__(self, local: click.Path, present: bool = True) -> None:
        self._local, self._present = local, present

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        try:
            path = capture_path(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not isinstance(path, StoredCapture):
            return Path(str(self._local.convert(path, param, ctx)))
        if self._present and not ((self._local.dir_okay and path.is_dir()) or path.is_file()):
            self.fail(f"{path}: there is no such object", param, ctx)
        return path


CAPTURE = _Capture(FILE)
CAPTURES = _Capture(click.Path(exists=True, path_type=Path))
"""Captures, and folders of them."""
ANY_CAPTURE = _Capture(click.Path(path_type=Path, allow_dash=True), present=False)
"""Captures whose absence is an error of each."""


class _Parsed(click.ParamType[Any]):
    """Parameter type that a function parses; its ValueError becomes a usage error."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _pair(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name or not value:
        raise ValueError(f"{text!r} is not of the form LINK=VALUE; for a link main1 write main1={text.strip('=')}")
    return name, value


def _param(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise ValueError(f"{text!r} is not of the form NAME=VALUE")
    return name.removeprefix("$"), value


DURATION = _Parsed("duration", instants.parse_duration)
INSTANT = _Parsed("instant", instants.parse_instant)


def _version(text: str) -> Any:
    from lowwater.replay.versions import VersionChoice

    return VersionChoice.parse(text)


VERSION = _Parsed("version", _version)
PAIR = _Parsed("pair", _pair)
PARAM = _Parsed("parameter", _param)
SPAN = _Parsed("span", instants.parse_span)

QUERY_FILES = click.argument("files", nargs=-1, required=True, type=QUERY_FILE, metavar="FILE.gsql...")


INSTANTS = click.option(
    "--instants",
    is_flag=True,
    help="Also show temporal columns as times, ISO 8601: tb as tb_start, the begin of its epoch or window.",
)
SPREADSHEET = click.option(
    "--spreadsheet", is_flag=True, help="With csv: texts that a spreadsheet would take for formulas begin with '."
)


def _together(*given: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in given:
            command = option(command)
        return command

    return add


DEFINITIONS = _together(
    click.option("--links", type=FILE, metavar="FILE", help="TOML file of links and sets that FROM may name."),
    click.option("--schema", "schemas", multiple=True, type=FILE, metavar="FILE", help="PROTOCOL blocks; repeats."),
    click.option(
        "--functions", multiple=True, type=FILE, metavar="FILE", help="FUN, PRED, UDAF declarations; repeats."
    ),
    click.option("--param", "params", multiple=True, type=PARAM, metavar="NAME=VALUE", help="Value of $NAME; repeats."),
    click.option(
        "--dialect",
        default="lowwater",
        type=click.Choice(["lowwater", "gigascope"]),
        help="Whose value semantics, where a query does not say.",
        show_default=True,
    ),
)
"""Names and dialect of queries, for every command that plans query files."""

CHANGES = _together(
    click.option("--skew", "skews", multiple=True, type=PAIR, metavar="LINK=DURATION", help="Skew to try; repeats."),
    click.option(
        "--with",
        "files",
        multiple=True,
        type=FILE,
        metavar="FILE",
        help="Query file to try in place of the one with its name; repeats.",
    ),
)
"""What is tried in place of query files and settings, for `plan` and `try`."""

INTERVALS = _together(
    OF_LAKE,
    click.option("--from", "start", type=INSTANT, help="First instant, ISO 8601; else the first capture."),
    click.option("--to", "end", type=INSTANT, help="End, ISO 8601, exclusive; else the last capture."),
    click.option(
        "--query-set", "names", multiple=True, metavar="NAME", help="Only this one; repeats; default all of them."
    ),
    click.option(
        "--only", "kinds", multiple=True, type=click.Choice(KINDS), help="Only intervals in this state; repeats."
    ),
    click.option(
        "--through-end",
        is_flag=True,
        help="Also intervals that captures cover only from a link's first one on, or up to its last: incomplete.",
    ),
    QUERIES,
)
"""Which intervals of query sets, for `plan` and `backfill`."""

MEETING = _together(
    click.option("--from", "start", type=INSTANT, help="Only what ends behind this instant, ISO 8601."),
    click.option("--to", "end", type=INSTANT, help="Only what begins before this instant, ISO 8601."),
)
"""A range of time, of whose intervals `status` and `report` tell."""
BY_DAY = _together(
    click.option("--by-day", is_flag=True, help="A line for each day and query set."),
    click.option("--zone", type=ZONE, default="UTC", show_default=True, help="Of the days, with --by-day."),
)


def require_range(start: int | None, end: int | None) -> None:
    """Refuses a range of time that is empty."""
    if start is not None and end is not None and start >= end:
        raise click.UsageError("--to must be after --from")


def require_csv(spreadsheet: bool, form: str) -> None:
    """Refuses `--spreadsheet` with another form."""
    if spreadsheet and form != "csv":
        raise click.UsageError("--spreadsheet goes with --format csv")


def shared_beginning(names: Sequence[str]) -> str:
    """Returns the common prefix of names, up to a separator; empty if it is too short to be worth factoring out.

    Example:
        >>> shared_beginning(["captures/lab-2021/node-1.pcap", "captures/lab-2021/node-2.pcap"])
        'captures/lab-2021/node-'
    """
    first, last = min(names, default=""), max(names, default="")
    equal = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    prefix = "".join(char for char, _ in equal)
    cut = max(prefix.rfind(mark) for mark in "/-_.") + 1
    return prefix[:cut] if len(set(names)) > 1 and cut >= SHORTEST_PREFIX else ""


def seconds(pairs: Iterable[tuple[str, str]], signed: bool = False) -> dict[str, float]:
    """Parses LINK=SECONDS options.
    Raises click.BadParameter if a value is not a number, or is negative although `signed` is false."""
    values = {}
    for link, text in pairs:
        try:
            values[link] = float(text)
        except ValueError:
            raise click.BadParameter(f"{link}={text}: {text!r} is not a number of seconds") from None
        if values[link] < 0 and not signed:
            raise click.BadParameter(f"{link}={text}: must not be negative")
    return values


def durations(pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Parses LINK=DURATION options to ns. Raises click.BadParameter if a value is not a duration."""
    values = {}
    for link, text in pairs:
        try:
            values[link] = instants.parse_duration(text)
        except ValueError as error:
            raise click.BadParameter(f"{link}={text}: {error}") from None
    return values
