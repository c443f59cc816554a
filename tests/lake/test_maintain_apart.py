"""Upkeep does its work on each table apart: one that cannot be read stops none of the others, and is named."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lowwater.config import Retention
from lowwater.errors import AwayError, LakeError
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.maintain import LEFT, Apart, maintain, require_sound
from lowwater.lake.tables import interval_label
from tests.lake.support import BASE, publish_rows, stream

pytestmark = pytest.mark.slow
DAY = 24 * HOUR


def made(root: Path) -> Lake:
    """A lake with two published queries, of which an hour was published twice."""
    lake = open_lake(root)
    for query in ("a", "z"):
        for number in (1, 2):
            publish_rows(lake, BASE, BASE + HOUR, stream([("10.0.0.1", number, 5)]), str(number), query=query)
    return lake


@pytest.mark.parametrize("kind", ["streams", "tables"])
def test_a_table_that_cannot_be_read_stops_none_of_the_others(tmp_path: Path, kind: str) -> None:
    whole, broken = made(tmp_path / "whole"), made(tmp_path / "broken")
    log = max((tmp_path / "broken" / kind / "a" / "_delta_log").glob("*.json"))
    log.write_text("{bad")
    by_lake = []
    for lake in (whole, broken):
        steps = maintain(lake, Retention(versions="1d", streams="1d"), clock=lambda: time.time_ns() + 2 * DAY)
        by_lake.append({(each.what, each.where) for each in steps})
    whole_steps, steps_apart = by_lake
    assert whole_steps >= {
        ("removed files", "tables/z"),
        ("removed streams", f"streams/z/interval={interval_label(BASE, BASE + HOUR)}"),
    }
    missing = {each for each in whole_steps - steps_apart if "/z" in each[1]}
    # Which versions readers are at is told by all published tables together.
    assert missing == ({("removed files", "tables/z")} if kind == "tables" else set())
    assert (LEFT, f"{kind}/a") in steps_apart
    with pytest.raises(LakeError, match=rf"broken/{kind}/a: the table cannot be read") as raised:
        require_sound(maintain(broken, Retention(streams=None)))
    assert "`lowwater verify`" in raised.value.hint and raised.value.message.count("cannot be read") == 1
    require_sound(maintain(whole, Retention(streams=None)))


def test_a_store_that_is_away_ends_it_at_once(tmp_path: Path) -> None:
    apart = Apart(open_lake(tmp_path / "lake"))
    with pytest.raises(AwayError), apart.of(tmp_path / "lake" / "tables" / "a"):
        raise AwayError("no answer", "wait")


@pytest.mark.parametrize(("digest", "kept"), [("2", False), ("3", True)], ids=["the same inputs", "others"])
def test_an_audit_by_hand_of_what_is_published_keeps_no_streams(tmp_path: Path, digest: str, kept: bool) -> None:
    """`replay --stage audit` of an hour that is done: nothing is due, and its streams stayed for ever."""
    lake = made(tmp_path / "lake")
    for stage in ("high", "audit"):
        again = ReplayRow("set", "a", BASE, BASE + HOUR, stage, "done", time.time_ns(), digest=digest, rows=1)
        record_replays(lake, [again])
    steps = maintain(lake, Retention(streams="1d"), clock=lambda: time.time_ns() + 2 * DAY)
    gone = {each.where.partition("/interval")[0] for each in steps if each.what == "removed streams"}
    assert gone == (set() if kept else {"streams/a", "streams/z"})
