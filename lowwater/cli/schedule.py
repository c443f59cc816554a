"""Implements `lowwater watch`: says what each look does, until a signal stops it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from lowwater.cli.backfills import interval_name
from lowwater.cli.watches import say_line
from lowwater.config import load_config
from lowwater.errors import LowwaterError
from lowwater.instants import SECOND, format_duration
from lowwater.replay.schedule.backfill import BackfillListener, IntervalResult
from lowwater.replay.schedule.due import Due
from lowwater.replay.schedule.looking import Looker, LookResult, pause_after
from lowwater.replay.schedule.looks import BEHIND, Left
from lowwater.signals import pause, until_stopped
from lowwater.storage.failures import away
from lowwater.terminal import say


def watch_lake(
    root: PurePath, names: Sequence[str], queries: Path, workers: int, once: bool, spark: str | None
) -> bool:
    """Looks at a lake once, or until SIGINT or SIGTERM. Returns whether the only look was sound.

    Args:
        root: folder of the lake.
        names: query sets; empty for those of the settings.
        queries: folder of query sets.
        workers: intervals that run at once.
        once: whether to look once.
        spark: as for `named_spark`.

    Raises:
        ConfigError: at the start, the settings are wrong.
    """
    config = load_config(root)
    told = _Told(config.schedule.look_back)
    with until_stopped() as stopped:
        listener = BackfillListener(ends=told.result, waits=told.elsewhere)
        looker = Looker(root, names, queries, say_line, listener, workers, spark, stopped, alone=once)
        if not once:
            every = format_duration(config.schedule.every)
            say(f"looks at {root} every {every}; ends with SIGINT or SIGTERM", err=True)
        hindered = 0
        while True:
            try:
                found = looker.look()
                told.look(found, once)
                hindered = hindered + 1 if found.hindered is not None else 0
                if once:
                    return found.sound
                if found.more and not stopped():
                    continue
                config = load_config(root)
            except LowwaterError as error:  # settings that are being edited, or a store that is away
                if once:
                    raise
                hindered += away(error)
                told.once(f"error: {error}")
            pause(pause_after(hindered, config) / SECOND, stopped)
            if stopped():
                return True


class _Told:
    """Says each thing once for as long as it lasts."""

    def __init__(self, look_back: int) -> None:
        self._look_back = look_back
        self._said: set[str] = set()
        self._now: set[str] = set()
        self._first = True  # a process that starts says what it found

    def once(self, line: str, problem: bool = True) -> None:
        """Says a line, of a problem on standard error, unless the look before said it."""
        if line not in self._said | self._now:
            say(line, err=problem)
        self._now.add(line)

    def look(self, found: LookResult, once: bool) -> None:
        """Says what cannot run, and why: on standard error what is new of it, which cron mails."""
        for name, error in found.unplanned.items():
            self.once(f"query set {name}: {error}")
        for one in found.found:
            for left in one.stuck:
                if left.news or (self._first and not once):
                    self.once(_line(left, "cannot start" if left.due.blocked else "stays"))
            behind = [left for left in one.waits if left.why.startswith(BEHIND)]
            for left in one.waits:
                if left not in behind:
                    self.once(_line(left, "waits"), problem=False)
            if behind:
                count = sum(left.due.intervals for left in behind)
                self.once(f"{one.query_set}: {count:,} later intervals of the chain wait for it", problem=False)
            old = sum(left.due.intervals for left in one.stuck if not left.news)
            if once and old:
                line = f"{one.query_set}: {old:,} more cannot start, as before: `lowwater plan` lists them"
                self.once(line, problem=False)
        ran = any(one.runs or one.waits or one.stuck for one in found.found)
        if once and not ran and not found.unplanned and found.hindered is None:
            say(f"nothing of the last {format_duration(self._look_back)} is due")
        self._said, self._now, self._first = self._now, set(), False

    def result(self, result: IntervalResult) -> None:
        """Says what became of an interval."""
        rows = ", ".join(f"{name} {count:,}" for name, count in result.rows.items())
        details = result.reason if not result.published or not rows else "; ".join(filter(None, (rows, result.reason)))
        line = f"{interval_name(result.due)}: {result.state}, {result.seconds:.1f} s"
        say(f"{line}: {details}" if details else line, err=not result.published)

    def elsewhere(self, due: Sequence[Due], why: str) -> None:
        """Says which intervals run elsewhere."""
        for each in due:
            self.once(f"{interval_name(each)}: runs elsewhere: {why}")


def _line(left: Left, state: str) -> str:
    return f"{interval_name(left.due)}: {state}: {left.why}"
