"""Coverage, gaps and their texts, life of links, the digest of inputs, and status."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowwater.catalog.time import LOST_BYTES
from lowwater.config import Config, Link
from lowwater.instants import HOUR, SECOND
from lowwater.lake.keys import HighKey, link_key, outdated
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import Capture, read_captures
from lowwater.lake.ledgers.coverage import Gap, check, gap_text, gaps, unsettled
from lowwater.lake.ledgers.intervals import StatusInputs, status, timetable
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.plan.temporal import END_OF_TIME
from tests.lake.support import at, covering, put_captures


def row(start: float, end: float, sha: str = "", **changes: Any) -> Capture:
    """A capture that covers [start, end) seconds, with a record at each end and one in the middle."""
    name = sha or f"{start}-{end}"
    return covering(at(start), at(end), **{"capture": name, "attempt": name, "path": f"{start}.pcap", **changes})


def empty(start: float, end: float) -> Capture:
    nothing: dict[str, Any] = dict.fromkeys(("first", "last", "smallest", "largest", "median"))
    return row(start, end, packets=0, declared_from=at(start), declared_to=at(end), **nothing)


LINK = Link()


def test_two_layouts_of_the_same_time_cover_the_same() -> None:
    whole = [row(0, 7200)]
    hourly = [row(0, 3600), row(3600, 5000), empty(5000, 7200)]
    for captures in (whole, hourly):
        assert gaps("a", captures, LINK, at(10), at(7200)) == []
        assert gaps("a", captures, LINK, at(-5), at(7300)) == [Gap("a", at(-5), at(0)), Gap("a", at(7200), at(7300))]


def test_a_hole_stops_the_report_whatever_comes_later() -> None:
    captures = [row(0, 10), row(8, 12), row(20, 30), empty(15, 15)]
    assert gaps("a", captures, LINK, at(0), at(30)) == [Gap("a", at(12), at(20))]
    assert gaps("a", captures, LINK, at(20), at(31)) == [Gap("a", at(30), at(31))]
    assert gaps("a", [], LINK, at(3), at(4)) == [Gap("a", at(3), at(4))]


def test_outside_its_life_a_link_owes_nothing() -> None:
    link = LINK.model_copy(update={"since": at(0), "until": at(10)})
    assert gaps("a", [row(0, 10)], link, at(-100), at(100)) == []
    assert gaps("a", [row(0, 10)], link, at(-100), END_OF_TIME) == []
    assert gaps("a", [], link, at(50), at(100)) == gaps("a", [], link, at(-50), at(-10)) == []
    assert gaps("a", [], link, at(-5), at(5)) == [Gap("a", at(0), at(5))]


def test_check_and_unsettled_name_the_links() -> None:
    config = Config(links={"a": LINK, "b": Link(skew="10s"), "c": LINK})  # type: ignore[arg-type]
    captures = {"a": (row(0, 101),), "b": (row(0, 101),), "c": (row(0, 90),)}
    read_from = {"c": at(0), "b": at(5), "a": at(0)}
    assert check(captures, config, read_from, at(100)) == [Gap("c", at(90), at(100))]
    assert unsettled(captures, config, {"a": 0, "b": 0}, at(100)) == [Gap("b", at(101), at(110))]


def digest(captures: list[Capture], link: Link = LINK, text: str = "q", names: dict[str, str] | None = None) -> str:
    return HighKey(text, names or {}, [link_key("a", captures, link, at(100), at(200))]).digest


NEAR = [row(0, 150), row(150, 300)]
SAME = {
    "added before, clock below": [row(-50, 0), *NEAR],
    "added after": [*NEAR, row(300, 400)],
    "empty in the range": [*NEAR, empty(120, 130)],
    "declared anew": [replace(NEAR[0], declared_from=at(0), declared_to=at(150)), NEAR[1]],
    "ingested anew": [replace(NEAR[0], ingested_at=7, attempt="z", path="/other"), NEAR[1]],
}
OTHER = {
    "added in the range": [*NEAR, row(140, 141)],
    "record before the end in a later file": [*NEAR, row(300, 400, smallest=at(199))],
    "clock moved": [row(-50, 0, largest=at(5)), *NEAR],
    "other file": [replace(NEAR[0], capture="x"), NEAR[1]],
    "other decoder": [replace(NEAR[0], decoder_version=2), NEAR[1]],
    "other records flagged": [replace(NEAR[0], smallest_jump=9), NEAR[1]],
    "a gap": NEAR[1:],
}


@pytest.mark.parametrize("name", SAME)
def test_the_digest_ignores_what_the_law_ignores(name: str) -> None:
    assert digest(SAME[name]) == digest(NEAR)


@pytest.mark.parametrize("name", OTHER)
def test_the_digest_sees_what_rows_depend_on(name: str) -> None:
    assert digest(OTHER[name]) != digest(NEAR)


def test_the_digest_and_settings() -> None:
    def changed(**settings: Any) -> Link:
        return LINK.model_copy(update=settings)

    passing = changed(policy="publish")
    same = [changed(captures="x", delay=3), changed(max_jump=99 * SECOND), passing, changed(gap_tolerance=9 * SECOND)]
    same += [changed(since=at(100)), changed(since=1), changed(until=at(201)), changed(since=1, until=at(900))]
    other = [changed(skew=2), changed(since=at(101)), changed(until=at(200))]
    assert {digest(NEAR, link) for link in same} == {digest(NEAR)}
    dead = [changed(since=at(1), until=at(until)) for until in (2, 50, 100)]
    assert len({digest(NEAR, link) for link in [*dead, changed(since=at(200)), changed(since=at(300))]}) == 2
    assert len({digest(NEAR), *(digest(NEAR, link) for link in other)}) == 4
    assert digest([NEAR[0]], passing) != digest([NEAR[0]]), "a gap lets the policy decide"
    assert len({digest(NEAR), digest(NEAR, text="p"), digest(NEAR, names={"set": "a"})}) == 3


@pytest.mark.slow
def test_the_digest_is_the_same_in_another_process() -> None:
    code = "from lowwater.lake.keys import HighKey as K; print(K('q', {'b': '1', 'a': 'ü'}, [{'link': 'x'}]).digest)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == HighKey("q", {"a": "ü", "b": "1"}, [{"link": "x"}]).digest


def test_outdated_names_the_files() -> None:
    captures = [row(0, 150, decoder_version=1), row(150, 300, decoder_version=2, smallest_jump=5), row(300, 400)]
    first, second = outdated(captures, LINK, 2, at(100), at(200))
    assert "0.pcap" in first and "version 1, now 2" in first
    assert "150.pcap" in second and "max_jump" in second


def test_status(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    for hour in range(5):
        put_captures(lake, [row(hour * 3600, (hour + 1) * 3600, attempt=f"{hour}")])
    _replays(lake)
    times = timetable(read_captures(lake, ["a"]), {"a": LINK}, HOUR, [])
    expected = StatusInputs("s", ("p", "q"), times, lambda query, start, end: "now")
    found = [((r.start - at(0)) // HOUR, r.query, r.state) for r in status(lake, [expected])]
    assert found == [
        (0, "p", "done"),
        (0, "q", "done"),
        (1, "p", "done"),
        (1, "q", "half published"),
        (2, "p", "stale"),
        (2, "q", "provisional"),
        (3, "p", "failed"),
        (3, "q", "failed"),
        (4, "p", "missing"),
        (4, "q", "missing"),
    ]
    reasons = [r.reason for r in status(lake, [expected])]
    assert "published: p; not: q" in reasons[3] and "b has not reported" in reasons[5] and "boom" in reasons[6]
    old = replace(expected, outdated=lambda start, end: "x.pcap: ingest it again")
    assert next(iter(status(lake, [old]))).state == "stale"


def _replays(lake: Lake) -> None:
    def made(hour: int, query: str, state: str, when: int, stage: str = "publish", **more: Any) -> ReplayRow:
        return ReplayRow("s", query, at(hour * 3600), at(hour * 3600 + 3600), stage, state, when, **more)

    record_replays(
        lake,
        [
            made(0, "p", "failed", 1, reason="once"),
            made(0, "p", "done", 2, digest="now"),
            made(0, "q", "done", 3, digest="now"),
            made(1, "", "done", 4, "high"),
            made(1, "p", "done", 5, digest="now"),
            made(2, "p", "done", 6, digest="old"),
            made(2, "q", "provisional", 7, digest="now", reason="b has not reported"),
            made(3, "p", "done", 8, digest="now"),
            made(3, "", "failed", 9, "low", reason="boom"),
        ],
    )


def test_the_old_name_of_the_policy_makes_nothing_stale() -> None:
    """`publish` was `exclude`: old settings are read, and what was published under them is as done as before."""
    old, new = (Link.model_validate({"policy": name}) for name in ("exclude", "publish"))
    assert old == new and new.policy == "publish"
    assert link_key("a", [NEAR[0]], new, at(100), at(200))["policy"] == "exclude"


def holed(start: float, end: float, *stretches: tuple[int | None, ...], **changes: Any) -> Capture:
    return row(start, end, holes=json.dumps(stretches), **changes)


def hole(length: int, before: float | None, after: float | None, pause: int = SECOND) -> tuple[int | None, ...]:
    return 24, length, None if before is None else at(before), None if after is None else at(after), 9, pause


def test_damage_is_a_gap_from_the_clock_before_it_to_the_first_record_behind_it() -> None:
    captures = [holed(0, 100, hole(9000, 10, 20), hole(600, 50, 50), hole(9000, 70, 60)), row(100, 200)]
    expected = [(at(10), at(20)), (at(50), at(50) + 1), (at(60), at(70))]
    found = gaps("a", captures, LINK, at(0), at(200))
    assert [(gap.since, gap.until) for gap in found] == expected
    tolerant = LINK.model_copy(update={"gap_tolerance": 60 * SECOND})
    assert gaps("a", captures, tolerant, at(0), at(200)) == found, "what is damaged did not end cleanly"
    assert "0.pcap is damaged: 9,000 bytes from byte 24 on, about 9 records" in gap_text(found[0], captures)
    assert gaps("a", [row(0, 100), row(100, 200)], LINK, at(0), at(200)) == []


def test_short_damage_is_a_record_lost() -> None:
    for length, lasts, pause, is_gap in (
        (LOST_BYTES, 3, SECOND, False), (LOST_BYTES + 1, 3, SECOND, True), (1, 3.1, SECOND, True), (1, 0, 0, False)
    ):  # fmt: skip
        captures = [holed(0, 100, hole(length, 10, 10 + lasts, pause))]
        assert bool(gaps("a", captures, LINK, at(0), at(100))) == is_gap


def test_damage_before_the_first_record_begins_with_the_coverage() -> None:
    declared = {"declared_from": at(0), "declared_to": at(100), "first": at(7)}
    assert gaps("a", [holed(0, 100, hole(600, None, 7), **declared)], LINK, at(0), at(100)) == [Gap("a", at(0), at(7))]
    lived = LINK.model_copy(update={"since": at(0)})
    captures = [holed(1, 100, hole(600, None, 1))]  # a pause that tolerance would join, but for the damage
    assert gaps("a", captures, lived, at(0), at(100)) == [Gap("a", at(0), at(1) + 1)]
    assert gaps("a", [row(1, 100)], lived, at(0), at(100)) == []


def test_another_capture_that_covers_the_time_of_damage_heals_it() -> None:
    captures = [holed(0, 100, hole(9000, 10, 20)), row(5, 30)]
    assert gaps("a", captures, LINK, at(0), at(100)) == []
