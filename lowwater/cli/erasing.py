"""What `lowwater erase` says and does, step by step."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath

from lowwater import errors, terminal
from lowwater.cli import backfills, plans
from lowwater.instants import format_instant
from lowwater.lake.erasure import FoundContent, Standing, spans
from lowwater.lake.ledgers.runs import replayed_sets
from lowwater.lake.words import STALE
from lowwater.replay import erasure
from lowwater.replay.erasure import Erasure, FoundCapture
from lowwater.replay.schedule.links import known_sets
from lowwater.terminal import say

SHOWN = 20
"""Most files or captures that are named."""


def run_erase(
    root: PurePath,
    queries: Path,
    where: str,
    captures: bool,
    acts: bool,
    said: tuple[str, str],
    jobs: int,
    spark: str | None,
) -> bool:
    """Says what an erasure would take, or does it. Returns whether nothing is left to do. `said`: who, and why."""
    with terminal.Terminal(stderr=True).working("reading packets") as working:
        what = erasure.look(root, where, captures, working)
        standing = [] if acts else erasure.where(what, working)
    _require_silent(what, said[1])
    _tell_condition(what)
    _tell_packets(what.contents)
    _tell_captures(what, captures)
    if not acts:
        _tell_standing(what, standing)
        say("nothing was changed: --yes erases")
        return True
    with terminal.Terminal(stderr=True).working("erasing") as working:
        erasure.erase(what, *said, working)
    sound = _make_again(what, queries, jobs, spark)
    with terminal.Terminal(stderr=True).working("cleaning") as working:
        left = erasure.finish(root, where, captures, working)
    for table, count in left.rows.items():
        say(f"tables/{table}: {count:,} rows deleted, of hours that nothing can make again; sums may still count them")
    if not sound:
        say("left: hours that could not be made again, whose sums count the packets: `lowwater plan` says why")
    done = not (left.packets or left.files or left.captures)
    if done:
        say("nothing is left in the lake" + (" and its captures" if captures else ""))
    else:
        say("left:")
        if left.packets:
            _tell_packets(left.packets)
        for capture in left.captures:
            say(f"  {capture.path}: {capture.why or f'{capture.packets:,} packets'}")
        if any(capture.why for capture in left.captures):
            name = shlex.quote(str(what.lake.root))
            say(
                f"  of such files make copies yourself, under their names, and read them: lowwater ingest --lake {name}"
            )
        _tell_standing(what, left.files)
    _tell_beyond(what, captures)
    return done and sound


def _make_again(what: Erasure, queries: Path, jobs: int, spark: str | None) -> bool:
    """Makes the stale hours of the query sets that ran again. Returns whether all of them are: what cannot be planned
    or evaluated keeps nothing from being cleaned."""
    root = what.lake.root
    names = tuple(sorted(replayed_sets(what.lake) & known_sets(root, queries)[0]))
    if not names:
        return True
    stale = plans.IntervalSelection(root, None, None, names, (STALE,), False, queries)
    try:
        return backfills.run_backfill(stale, jobs, "oldest", spark)
    except errors.BusyError:
        raise
    except errors.LowwaterError as error:
        say(f"the hours were not made again: {error}", err=True)
        return False


def _require_silent(what: Erasure, why: str) -> None:
    if what.condition.sought and what.condition.sought.in_text(why.encode()):
        raise errors.ConfigError(
            "--why names what is erased, and the log keeps it for ever", "name the request by its number or date"
        )


def _tell_condition(what: Erasure) -> None:
    condition = what.condition
    if condition.sought:
        say(f"looked for, in any header and any byte that is kept: {', '.join(condition.sought.names)}")
    if condition.untold:
        say("a part of the condition names no value by itself: packets are found by it, and no scan can prove that")
    if condition.blind:
        say(f"link {', '.join(condition.blind)}: has no such columns, and only the values are looked for there")
    if condition.sought.unseen:
        say(f"in bytes of frames no network as wide as {', '.join(condition.sought.unseen)} is looked for")


def _tell_packets(found: Sequence[FoundContent]) -> None:
    if not found:
        say("no packet in the lake meets it")
        return
    total = Counter[str]()
    for each in found:
        total.update(each.packets)
    first, last = spans(found)
    for link, count in sorted(total.items()):
        say(f"link {link}: {count:,} packets")
    say(f"from {format_instant(first)} to {format_instant(last)}, in {len(found):,} captures:")
    for each in found[:SHOWN]:
        say(f"  {each.path}: {each.total:,}")
    if len(found) > SHOWN:
        say(f"  and {len(found) - SHOWN:,} more")


def _tell_captures(what: Erasure, looked: bool) -> None:
    if not looked:
        if what.contents:
            say("the capture files stay as they are: --captures puts copies without these packets in their place")
        return
    for each in what.captures:
        say(f"file {each.path}: {_of_capture(each)}")


def _of_capture(each: FoundCapture) -> str:
    return f"no copy can be made: {each.why}" if each.why else f"{each.packets:,} packets"


def _tell_standing(what: Erasure, found: Sequence[Standing]) -> None:
    for each in found[:SHOWN]:
        columns = ", ".join(f"{name} {count:,}" for name, count in each.columns.items() if name)
        say(f"  {each.path.relative_to(what.lake.root)}{f': {columns}' if columns else ''}")
    if len(found) > SHOWN:
        say(f"  and {len(found) - SHOWN:,} more files")


def _tell_beyond(what: Erasure, captures: bool) -> None:
    """Names what a lake cannot reach."""
    if not captures and what.contents:
        say("the capture files still have the packets; they are not read again")
    say(
        "not looked at: backups, copies and exports, subscribers and their targets, logs of Airflow and Spark, and "
        "older versions of objects where a bucket keeps them"
    )
    say(f"who was told, and when: lowwater log --lake {shlex.quote(str(what.lake.root))}")
