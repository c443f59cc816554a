"""Every packet in the folders of the links is in a row or in a named number, whatever recorders do (A1, T1 to T9)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from lowwater.config import load_config
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import Capture, ingested_links, read_captures, shared_captures
from lowwater.lake.ledgers.files import read_seen
from lowwater.lake.ledgers.places import location
from lowwater.lake.ledgers.states import GONE
from lowwater.lake.tables import open_table
from lowwater.lake.words import BLOCKED, DONE
from lowwater.replay.job import Job
from lowwater.replay.schedule.backfill import backfill
from lowwater.replay.schedule.due import DueSelection, due, statuses
from tests.breadth import each_push, examples
from tests.law.recorders import HOUR, SECOND, File, World, draw
from tests.replay.support import lowwater

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

QUERY = "SELECT tb, srcIP, srcPort, count(*) as cnt FROM TCP GROUP BY time/60 as tb, srcIP, srcPort"
WORLDS = int(os.environ.get("LOWWATER_WORLDS", "0"))
FIRST = int(os.environ.get("LOWWATER_FIRST_WORLD", "0"))


def put(world: World, folder: Path, looks: Sequence[int]) -> None:
    for each in world.files:
        if world.looks[each.name] in looks:
            each.write(folder)


def run(lake: Path, queries: Path, runner: Runner) -> None:
    """What `ingest`, then `backfill` do; what is refused is told and does not end it."""
    said = lowwater("ingest", "--lake", lake)
    assert said.code in (0, 1), said.err
    job = Job.open(lake, "per_minute", queries)
    backfill([job], due(job, DueSelection()), runner=runner)


def rows(lake: Path) -> Counter[tuple[int, str, int]]:
    """(minute, address, port) -> packets, as published."""
    table = open_table(lake / "tables" / "per_minute")
    if table is None:
        return Counter()
    stored = table.to_pyarrow_table(columns=["tb", "srcIP", "srcPort", "cnt"]).to_pylist()
    return Counter({(row["tb"], row["srcIP"], row["srcPort"]): row["cnt"] for row in stored})


def states(lake: Path, queries: Path) -> dict[int, tuple[str, str]]:
    """Begin of an interval, ns -> its state and reason, of all that packets or captures touch."""
    return {row.start: (row.shown, row.why) for row in statuses(lake, queries)}


def of_hour(counted: Counter[tuple[int, str, int]], start: int) -> Counter[tuple[int, str, int]]:
    """The rows of an hour."""
    hour = range(start // (60 * SECOND), (start + HOUR) // (60 * SECOND))
    return Counter({row: count for row, count in counted.items() if row[0] in hour})


def violations(lake: Path) -> Counter[int]:
    """Begin of an hour -> records that arrived in it too late (T2), by the intervals that ran."""
    table = open_table(lake / "skew_violations")
    stored = table.to_pyarrow_table(columns=["arrival"]).column("arrival").to_pylist() if table else []
    return Counter(arrival // HOUR * HOUR for arrival in stored)


def charged(world: World, skew: int) -> Counter[int]:
    """Begin of an hour -> packets that lie there and are charged to it (A1): late ones to the hour of their arrival."""
    hours: Counter[int] = Counter()
    for file in world.files:
        clock = 0
        for each in file.whole if file.name not in world.twins else ():
            if not each.stamp or each.stray:
                continue  # the clock was not set, or wrong for a record: a malformed one (T3)
            clock = max(clock, each.stamp)
            hours[(clock if clock - each.stamp > skew else each.stamp) // HOUR * HOUR] += 1
    return hours


def captures_of(lake: Path) -> list[Capture]:
    opened = open_lake(lake)
    return [each for found in read_captures(opened, ingested_links(opened)).values() for each in found]


def hours_of(capture: Capture) -> range:
    """Begins of the hours that a capture may decide: that it ends or lacks, too, settles the hour before it."""
    if capture.first is None or capture.last is None:
        return range(0)
    return range(capture.first // HOUR * HOUR - HOUR, capture.last + 1, HOUR)


def twice(lake: Path) -> Counter[int]:
    """Begin of an hour -> packets that two links have, which `status` and the audit name: queries count them twice."""
    opened = open_lake(lake)
    shared = shared_captures(read_captures(opened, ingested_links(opened)))
    return Counter({at: pair.most for pairs in shared.values() for pair in pairs for at in hours_of(pair.one)})


def check(world: World, lake: Path, folder: Path, queries: Path) -> None:
    captures = captures_of(lake)
    read: Counter[str] = Counter()
    lost: dict[str, int] = {}  # all interfaces of a file have its damage
    for each in captures:
        name = str(Path(each.path).relative_to(folder))
        read[name] += each.packets + each.malformed
        lost[name] = sum(hole.records for hole in each.damage)
    for file in world.files:  # 1: of each file all records, or the file itself, has a name
        if file.name in read:
            least = len(file.whole) - (0 if file.damage is None else max(2, file.damage[1] // 1000))  # an estimate
            told = read[file.name] + lost[file.name]
            assert told >= least, f"{file.name}: {told} of {len(file.whole)}"
        else:
            assert file.name in world.twins or named(lake, folder, file), f"{file.name} is named nowhere"
    published, late = rows(lake), violations(lake)
    skew = max(link.skew for link in load_config(lake).links.values())
    lies, double, torn = charged(world, skew), twice(lake), lost_records(captures)
    lossy = {each.stamp // HOUR * HOUR for file in world.files if file.drops for each in file.records}
    for start, (state, why) in states(lake, queries).items():  # 2: `done` lacks nothing
        if state == DONE:
            counted = of_hour(published, start).total()
            found = counted + late[start] + torn[start]
            assert found >= lies[start], f"{start}: {counted} + {late[start]} + {torn[start]} of {lies[start]}; {why}"
            assert start not in lossy, f"{start} is done, and a capture says that it lost packets"
            assert counted + late[start] <= lies[start] + double[start], f"{start}: {counted} of {lies[start]}"


def lost_records(captures: Sequence[Capture]) -> Counter[int]:
    """Begin of an hour -> records that damage of a few bytes took there: warned of, and no hole (T5)."""
    hours: Counter[int] = Counter()
    for hole in (hole for each in captures for hole in each.damage if not hole.is_gap):
        for start in {at // HOUR * HOUR for at in (hole.before, hole.after) if at is not None}:
            hours[start] += hole.records + 1
    return hours


def named(lake: Path, folder: Path, file: File) -> bool:
    """Whether the ledger of files names a file, and says why nobody reads it."""
    opened = open_lake(lake)
    rows = {location(opened, row.path): row for row in read_seen(opened).values()}
    row = rows.get(str(folder / file.name))
    return row is not None and row.state != GONE


def follow(world: World, tmp_path: Path, runner: Runner) -> None:
    folder, queries = tmp_path / "captures", tmp_path
    (tmp_path / "per_minute.gsql").write_text(QUERY)
    put(world, folder, [0])
    lake, other = tmp_path / "lake", tmp_path / "other"
    said = lowwater("init", folder, "--lake", lake, "--query", tmp_path / "per_minute.gsql")
    assert said.code == 0, said.err
    settings = (lake / "lowwater.toml").read_bytes()
    run(lake, queries, runner)
    check(
        World([each for each in world.files if not world.looks[each.name]], world.looks, world.twins),
        lake,
        folder,
        queries,
    )
    for look in (1, 2):
        put(world, folder, [look])
        run(lake, queries, runner)
    check(world, lake, folder, queries)
    said = lowwater("init", folder, "--lake", other, "--query", tmp_path / "per_minute.gsql")
    (other / "lowwater.toml").write_bytes(settings)
    run(other, queries, runner)
    # 3: what was published before a file showed that something is missing stays visible, and is stale. Of two files
    # that overlap the first one that comes stands (T1): the hours of these two follow it.
    one, two = ({each.capture: each for each in captures_of(at)} for at in (lake, other))
    contested = {at for each in one.keys() ^ two.keys() for at in hours_of((one | two)[each])}
    found, other_states = states(lake, queries), states(other, queries)
    for start in found.keys() | other_states.keys():
        shown, in_other = (of.get(start, ("", ""))[0] for of in (found, other_states))
        # An hour before the first coverage is listed only where it was published once.
        alike = shown == in_other or {shown, in_other} == {BLOCKED, ""}
        assert alike or start in contested, f"{start}: {shown}, and {in_other} in another order"
        if shown not in (BLOCKED, "") and (start not in contested or shown == in_other == DONE):
            assert of_hour(rows(other), start) == of_hour(rows(lake), start), f"rows of {start} in another order"


@pytest.mark.slow
@pytest.mark.parametrize("seed", each_push(range(FIRST, FIRST + (WORLDS or examples(15))), 2))
def test_nothing_that_lies_there_is_lost(seed: int, tmp_path: Path, runner: Runner) -> None:
    world = draw(Random(seed))
    follow(world, tmp_path, runner)
