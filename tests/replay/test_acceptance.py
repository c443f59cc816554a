"""Rule T6: a person accepts what is known to be missing, and that holds for what it was, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.instants import HOUR
from lowwater.lake.layout import STATEMENTS, open_lake
from lowwater.lake.ledgers.statements import ACCEPT, UNDO, Defect, about_defect, accepted, covering, state
from lowwater.lake.tables import read_rows
from tests.capturemaker import udp
from tests.pcapngmaker import Section
from tests.replay.support import QUERIES, START, commits, lowwater
from tests.replay.test_unread import QUERY, hour, packets, run, shown, spilled

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

__all__ = ["spilled"]  # a fixture


def accepting(lake: Path, *more: object) -> tuple[int, str]:
    said = lowwater("accept", "q", "--lake", lake, "--queries", QUERIES, *more)
    return said.code, said.out + said.err


@pytest.mark.slow
def test_what_is_accepted_is_done_with_a_note_until_it_grows_or_that_is_taken_back(
    spilled: tuple[Path, Path], runner: Runner
) -> None:
    lake, folder = spilled
    hour(folder, 2, 1, 3).rename(folder / "odd.pcap")
    hour(folder, 2, 0, 3)
    assert lowwater("ingest", "--lake", lake).code == 0
    hour(folder, 2, 0, 3).rename(folder / "cap_2026010102.pcap")
    assert run(lake, runner, 0, 1) == [("done", True), ("done", True)]
    (folder / "cap_2026010103.pcap").write_bytes(hour(folder, 3).read_bytes())
    assert lowwater("ingest", "--lake", lake).code == 0
    assert run(lake, runner, 2, 2) == [("incomplete", True)]
    reason = "link 'cap': not read: odd.pcap (no pattern claims it)"
    assert shown(lake)[2] == ("incomplete", reason)
    at = ("--interval", "2026-01-01T02:00Z", "--cause", "unread")

    # What is not missing is not accepted, and nothing is written.
    for wrong in (("--link", "other"), ("--cause", "drops"), ("--interval", "2026-01-01T01:00Z")):
        code, text = accepting(lake, *at, *wrong, "--why", "no")
        assert code == 1 and "nothing" in text, text
    assert not (lake / "statements").exists()
    assert accepting(lake, *at)[0] == accepting(lake, *at, "--why", "x", "--undo")[0] == 2
    code, text = accepting(lake, "--interval", "2026-01-01T02:30Z", "--cause", "unread", "--why", "x")
    assert code == 1 and "give --interval 2026-01-01T02:00:00Z" in text

    before = commits(lake)
    code, text = accepting(lake, *at, "--link", "cap", "--why", "a test; of the bench", "--by", "Ann")
    assert code == 0 and f"accepted: {reason}" in text
    assert run(lake, runner, 2, 2) == [("done", False)] and commits(lake) == before  # its rows stay
    note = f"accepted: {reason}, by Ann: a test, of the bench"
    assert shown(lake)[2] == ("done", note) and shown(lake)[1] == ("done", "")
    for command in (("status",), ("report",), ("report", "--interval", "2026-01-01T02:00Z")):
        assert "by Ann: a test, of the bench" in " ".join(
            lowwater(*command, "--lake", lake, "--queries", QUERIES).out.split()
        )
    assert accepting(lake, *at, "--why", "again")[0] == 1  # it is accepted

    # It holds for the file as it was.
    hour(folder, 2, 1, 2).rename(folder / "odd.pcap")
    lowwater("ingest", "--lake", lake)
    assert shown(lake)[2] == ("incomplete", reason)
    assert accepting(lake, *at, "--why", "also")[0] == 0 and shown(lake)[2][0] == "done"
    assert accepting(lake, *at, "--undo", "--by", "Bob")[0] == 0
    assert shown(lake)[2] == ("incomplete", reason)
    rows = read_rows(open_lake(lake).statements, STATEMENTS).sort_by("at").to_pylist()
    assert [(row["act"], row["person"], row["link"], row["cause"]) for row in rows][::2] == [
        ("accept", "Ann", "cap", "unread"),
        ("undo", "Bob", "cap", "unread"),
    ]
    assert packets(lake) == [180, 180, 60]


@pytest.mark.slow
def test_drops_that_are_accepted_are_done_with_a_note_until_a_file_says_more(tmp_path: Path, runner: Runner) -> None:
    lake, folder, made = tmp_path / "lake", tmp_path / "cap", Section()
    lake.mkdir(), folder.mkdir()
    (lake / "q.gsql").write_text(QUERY)
    (lake / "lowwater.toml").write_text(
        '[query_sets.q]\nfiles = ["q.gsql"]\n'
        '[links.cap]\ninterfaces = "one"\ncaptures = "../cap/cap_%Y%m%d%H.pcapng"\nrotation = "1h"\n'
    )

    def record(number: int, *lost: int) -> None:
        """An hour of 180 packets, and statistics for each part of it."""
        begin = (START + number * HOUR) // 1000
        blocks = [made.header(), made.interface("eth0")]
        for at in range(180):
            blocks.append(made.packet(begin + 20_000_000 * at, udp("10.0.0.1", "10.0.0.2", 4000, 53)))
            if (at + 1) % (180 // len(lost)) == 0:
                count = sum(lost[: (at + 1) * len(lost) // 180])
                blocks.append(made.statistics(begin + 20_000_000 * at, start=begin, ifdrop=count))
        (folder / f"cap_20260101{number:02}.pcapng").write_bytes(b"".join(blocks))
        assert lowwater("ingest", "--lake", lake).code == 0

    record(0, 0), record(1, 4), record(2, 0)
    assert run(lake, runner, 0, 1) == [("done", True), ("incomplete", True)]
    state, reason = shown(lake)[1]
    reason = reason.partition("; ")[0]  # what to do about it follows
    assert state == "incomplete" and "link 'cap': 4 records were lost between 2026-01-01T01:00:00Z and" in reason
    code, text = accepting(
        lake, "--interval", "2026-01-01T01:00Z", "--link", "cap", "--cause", "drops", "--why", "a test", "--by", "Ann"
    )
    assert code == 0 and f"accepted: {reason}" in text, text
    before = commits(lake)
    assert run(lake, runner, 1, 1) == [("done", False)] and commits(lake) == before  # its rows stay
    assert shown(lake)[:2] == [("done", ""), ("done", f"accepted: {reason}, by Ann: a test")]

    record(1, 4, 3)  # the file of the same packets says more
    state, reason = shown(lake)[1]
    assert state != "done"
    assert run(lake, runner, 1, 1)[0][0] == "incomplete" and "7 records were lost" in shown(lake)[1][1]
    assert shown(lake)[0] == ("done", "") and packets(lake)[:2] == [180, 180]


def test_a_statement_holds_for_the_defects_that_it_names(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    one, two = Defect("a", START, START + HOUR, 5), Defect("b", START, START + HOUR, 7)
    assert covering(accepted(lake), "cap", "drops", [one]) == []

    def say(act: str, *defects: Defect) -> None:
        state(lake, [about_defect(act, "cap", "drops", defect, "Ann", "why") for defect in defects])

    say(ACCEPT, one, two)

    def names(*defects: Defect, link: str = "cap", cause: str = "drops") -> list[str]:
        return [statement.what for statement in covering(accepted(lake), link, cause, defects)]

    assert names(one) == ["a"] and names(two, one) == ["b", "a"]
    assert names(Defect("a", START, START + HOUR, 4)) == ["a"]  # less of it
    grown = Defect("a", START, START + HOUR, 6)
    elsewhere, of_another = Defect("a", START, START + 2 * HOUR, 5), Defect("c", START, START + HOUR, 5)
    for other in (grown, elsewhere, of_another):
        assert names(one, other) == names(other) == []
    assert names(one, link="other") == names(one, cause="damage") == []
    say(ACCEPT, grown)
    assert names(one, grown) == ["a", "a"]
    say(UNDO, one)
    assert names(one) == names(grown) == [] and names(two) == ["b"]
