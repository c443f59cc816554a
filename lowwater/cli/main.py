"""The command line: a group of the commands in `cli.commands`, its exit codes, its versions, and what it says of
Ctrl-C.
"""

from __future__ import annotations

import errno
import gc
import os
import platform
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from lowwater import __version__, caches, errors, processes, terminal
from lowwater.cli.commands import CommandFolder
from lowwater.extras import EXTRAS, absent, absent_error, extra_of
from lowwater.storage.paths import private

# Versions that a report of a problem needs, read without importing packages.

PACKAGES = ("numba", "numpy", "pyarrow", "deltalake", "pyspark", "great-expectations", "apache-airflow")
"""Packages that rows, tables or the way of a run depend on."""


def versions() -> list[str]:
    """Returns the lines of `lowwater --version`."""
    packages = [f"{name} {installed}" for name in PACKAGES if (installed := version_of(name))]
    extras = [extra for extra in EXTRAS if not absent(extra)]
    return [
        f"lowwater {__version__}",
        f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}",
        ", ".join(packages),
        f"extras: {', '.join(extras) or 'none'}",
    ]


def version_of(package: str) -> str | None:
    """Returns the version of an installed package; None without it.

    Example:
        >>> version_of("no-such-package")
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


# What a command says that Ctrl-C has ended: what stands, and how to go on.

STANDS = {
    "backfill": "what was published stays; {again} runs the rest",
    "export": "no file was written; {again} begins again",
    "generate": "the captures are not all there, or cut; {again} makes them again",
    "ingest": "captures that were ingested stay, others are not there in part; {again} takes the rest",
    "init": "no settings were written; {again} begins again",
    "maintain": "the lake is whole, and what was removed is nowhere in use; {again} does the rest",
    "replay": "intervals that were published stay; {again} runs the rest",
    "run": "no file of a result is there in part; {again} begins again",
    "serve": "the lake is as it was",
    "try": "what the trial has run stays, and the lake is as it was; {again} runs the rest",
}
"""What stands once Ctrl-C has ended a command, and how to go on. Other commands only read."""


def stopped_line(name: str, again: str) -> str:
    """Returns what a command says that Ctrl-C has ended.

    Example:
        >>> stopped_line("rows", "lowwater rows flows --lake x")
        'stopped'
    """
    return f"stopped: {STANDS[name].format(again=f'`{again}`')}" if name in STANDS else "stopped"


# The command line: a group of the commands in `cli.commands`, and its exit codes. Known errors become one message and
# exit code 1, bad usage exit code 2, Ctrl-C 130; LOWWATER_DEBUG=1 shows tracebacks. The module of a command is
# imported when the command is used, and slow modules inside its functions.

STOPPED = 130
"""Exit code after Ctrl-C."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of any file that a command writes: a full disk is no mistake of the program."""


def _show_versions(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        for line in versions():
            terminal.say(line)
        context.exit()


@click.group(
    commands=CommandFolder(), context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_versions,
    help="Show the versions of Lowwater, Python and the packages that matter, and exit.",
)
def cli() -> None:
    """Replays packet captures through GSQL stream queries, exactly.

    \b
    A question about a capture, without a lake:
      lowwater inspect capture.pcap
      lowwater sql "SELECT srcIP, sum(len) FROM main1 GROUP BY ALL" --capture capture.pcap
      lowwater ask
      lowwater ask largest --capture capture.pcap
      lowwater ask talkers > talkers.gsql
      lowwater run talkers.gsql --capture main1=capture.pcap --out results
    Keep a lake, an interval at a time:
      lowwater init captures --lake var/lake --query talkers.gsql
      lowwater ingest --lake var/lake
      lowwater plan --lake var/lake
      lowwater backfill --lake var/lake
      lowwater rows talkers --lake var/lake
    See its results, and write queries, in a browser:
      lowwater serve --lake var/lake
    """


def main(arguments: Sequence[str] | None = None, stopped: Callable[[], bool] = lambda: False) -> None:
    """Entry point: runs a command and turns known errors into one message and an exit code. `arguments`: None for those
    of the process, which ends with it. `stopped`: whether Ctrl-C came before."""
    # Imports make many objects and next to no garbage: looking for it takes a tenth of their time.
    gc.set_threshold(50_000, 20, 50)
    alone = arguments is None
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if alone:
            processes.interrupt_once(lambda: _leave(given))
        if stopped():
            raise KeyboardInterrupt
        with private():
            code = _guarded(lambda: cli.main(args=list(given), prog_name="lowwater", standalone_mode=False))
        if alone:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # what an end leaves, the next process removes
            # Else Python looks for garbage among all objects once more: half a second after Great Expectations. DuckDB
            # takes frozen objects for leaks, and says so in forty lines.
            if "duckdb" not in sys.modules:
                gc.freeze()
    except KeyboardInterrupt:
        if alone:
            _leave(given)
        terminal.say(_stopped(given), err=True)
        code = STOPPED
    sys.exit(code)


def _leave(given: Sequence[str]) -> NoReturn:
    """Ends a process that was stopped: Python would wait for its threads, or crash."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    caches.remove_all()
    with suppress(OSError, RuntimeError):  # the reader is gone, or the handler interrupts a write
        terminal.say(_stopped(given), err=True)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(STOPPED)


def _guarded(command: Callable[[], Any]) -> int:
    try:
        code = command()
        return code if isinstance(code, int) else 0
    except errors.LowwaterError as error:
        if os.environ.get("LOWWATER_DEBUG"):
            raise
        terminal.say(f"error: {error}", err=True)
        return 1
    except ModuleNotFoundError as error:
        refusal = _absent(error)
        if refusal is None or os.environ.get("LOWWATER_DEBUG"):
            raise
        terminal.say(f"error: {refusal}", err=True)
        return 1
    except click.ClickException as error:
        terminal.say_refused(error)
        return error.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except BrokenPipeError:
        _forget_output()
        return 0
    except OSError as error:
        if error.errno not in NO_ROOM or os.environ.get("LOWWATER_DEBUG"):
            raise
        if error.filename is None:
            _forget_output()
        what = "a file or the output" if error.filename is None else error.filename
        terminal.say(f"error: {what} cannot be written: {error.strerror}\n  hint: make room on its disk", err=True)
        return 1
    except RuntimeError as error:
        # Python 3.11 hides a Ctrl-C while a class is made, which happens during imports, in one of these.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        raise KeyboardInterrupt from error


def _stopped(given: Sequence[str]) -> str:
    name = next((word for word in given if not word.startswith("-")), "")
    return stopped_line(name, shlex.join(["lowwater", *given]))


def _forget_output() -> None:
    """Lets Python flush what is left of the output nowhere at exit: its reader has closed it, or its disk is full."""
    with suppress(OSError):  # it is no file where Python calls the command
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _absent(error: ModuleNotFoundError) -> errors.LowwaterError | None:
    """Translates the failed import of a package of an extra, where no command asked for the extra before."""
    extra = extra_of(error.name or "")
    return absent_error("this command", [str(error.name)], [extra]) if extra else None


if __name__ == "__main__":
    main()
