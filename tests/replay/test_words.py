"""One value, one table of words: every command, page and metric says the same of an interval."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from lowwater_notebook import Lake as OpenLake
from lowwater_review.calendar import SIGNS
from lowwater_review.ledgers import Ledgers
from lowwater_review.verdict import GOOD, SENTENCES

from lowwater.cli.report import _states
from lowwater.high.process import InProcess
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake import locks, tables, words
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.query_sets import KINDS
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.days import whole_range
from lowwater.replay.schedule.due import DueSelection, due, statuses
from lowwater.replay.telemetry import metrics_text
from tests.replay.support import ROOT, lowwater
from tests.replay.test_looks import TEXT, at, ingested, lake_of
from tests.replay.test_statement_log import odd

Said = dict[int, str]
"""Number of an hour -> word."""

ONE_OF_EACH = (
    *(words.KEPT, words.INCOMPLETE, words.DONE, words.DAMAGED, words.FAILED, words.ROLLED_BACK),
    *(words.STALE, words.MISSING, words.BLOCKED, words.HELD, words.HALF, words.RUNNING, words.PROVISIONAL),
)
"""The word of each hour of `world`."""
OTHER = TEXT.replace("'hosts'", "'others'")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake with an hour of each word, come to as lakes come to them."""
    folder = tmp_path_factory.mktemp("words")
    job = lake_of(folder, [each for each, word in enumerate(ONE_OF_EACH) if word != words.BLOCKED])
    hour = {word: number for number, word in enumerate(ONE_OF_EACH)}
    lake = job.lake

    def run(word: str, hold: bool = False) -> None:
        now, begin = Job.open(lake.root, "q", folder), at(hour[word])
        replay(now, begin, begin + HOUR, None, Progress(quiet=True), InProcess(), hold)

    text = f"{TEXT.rstrip()};\n{OTHER}"
    (folder / "q.gsql").write_text(text.replace("count(*)", "sum(len)"), encoding="utf-8")
    run(words.KEPT), run(words.STALE), run(words.ROLLED_BACK)
    with (lake.root / "lowwater.toml").open("a", encoding="utf-8") as settings:
        settings.write(f'[retention]\npackets = "{(time.time_ns() - at(1)) // SECOND}s"\n')
    assert lowwater("maintain", "--lake", lake.root).code == 0
    (folder / "q.gsql").write_text(text, encoding="utf-8")
    for word in (words.INCOMPLETE, words.DONE, words.DAMAGED, words.ROLLED_BACK, words.HALF, words.PROVISIONAL):
        run(word)
    run(words.HELD, hold=True)
    for query in ("hosts", "others"):
        back = ("rollback", query, "--at", format_instant(at(hour[words.ROLLED_BACK])), "--to", "previous")
        assert lowwater(*back, "--because", "no", "--lake", lake.root, "--queries", folder).code == 0
    begin = at(hour[words.FAILED])
    record_replays(lake, [ReplayRow("q", "", begin, begin + HOUR, "low", "failed", time.time_ns(), "a full disk")])
    for file in (lake.root / "tables").rglob(f"_hour={at(hour[words.DAMAGED]) // HOUR}/*.parquet"):
        file.unlink()
    # A run that was killed before it told the second table.
    of = f"query = 'others' AND stage = 'publish' AND interval_start = {at(hour[words.HALF])}"
    tables.commit(lake.replays, lambda table, options: table.delete(of, **options))
    odd(folder / "captures", "odd.pcap", hour[words.INCOMPLETE])
    ingested(folder)
    begin = at(hour[words.RUNNING])
    with locks.hold_range(lake, "q", begin, begin + HOUR):
        yield folder


NOTE = rf"(\S+Z) to \S+Z (?:is )?({'|'.join(words.WORDS)}): "


def number(instant: int) -> int:
    return (instant - at(0)) // HOUR


def gravest(said: list[tuple[int, str]]) -> Said:
    return {hour: words.gravest(word for each, word in said if each == hour) for hour, _ in said}


def by_status(folder: Path) -> Said:
    return gravest([(number(row.start), row.shown) for row in statuses(folder / "lake", folder)])


def by_plan(folder: Path) -> Said:
    return {number(each.start): each.word for each in due(Job.open(folder / "lake", "q", folder), DueSelection())}


def by_plan_text(folder: Path) -> Said:
    said = lowwater("plan", "--lake", folder / "lake", "--queries", folder).out
    return _of_lines(said, rf"(\S+Z) +q +({'|'.join(words.WORDS)}) ")


def by_status_text(folder: Path) -> Said:
    said = lowwater("status", "--lake", folder / "lake", "--queries", folder).out
    return _of_lines(said, rf"(\S+Z) +q +(?:hosts|others) +({'|'.join(words.WORDS)})\b")


PUBLISHED = (0, 3), (5, 9), (10, len(ONE_OF_EACH))
"""Hours with rows, and between them: a table whose file is gone is an error of `rows`, which names the file."""


def by_rows(folder: Path) -> Said:
    found: Said = {}
    for first, last in PUBLISHED:
        of = ("--from", format_instant(at(first)), "--to", format_instant(at(last)))
        said = lowwater("rows", "hosts", "--lake", folder / "lake", "--queries", folder, *of)
        assert said.code == 0, said
        found |= _of_lines(said.err, NOTE)
    return found


def by_lake(folder: Path) -> Said:
    found: Said = {}
    for first, last in PUBLISHED:
        notes = OpenLake(folder / "lake").table("hosts", at(first), at(last)).notes
        found |= _of_lines("\n".join(notes), NOTE)
    return found


def _of_lines(text: str, pattern: str) -> Said:
    found = re.finditer(pattern, " ".join(text.split()) if "is " in pattern else text)
    begins = {format_instant(at(hour)): hour for hour in range(len(ONE_OF_EACH))}
    return gravest([(begins[each[1]], each[2]) for each in found if each[1] in begins])


def by_report(folder: Path) -> Said:
    lake = Job.open(folder / "lake", "q", folder).lake
    return {number(key[1]): row.shown for key, row in _states(lake, folder).items()}


def by_pages(folder: Path) -> Said:
    part = Ledgers(folder / "lake", folder).now().part(0, 1 << 62)
    return {number(each.start): each.state.replace(words.WARNED, words.DONE) for each in part.intervals}


def by_consumers(folder: Path) -> Said:
    job = Job.open(folder / "lake", "q", folder)
    whole = dict.fromkeys(range(len(ONE_OF_EACH)), words.DONE)
    return whole | {number(start): word for start, word, _ in whole_range(job, at(0), at(len(ONE_OF_EACH))).lacking}


def by_why(folder: Path) -> Said:
    found = {}
    for hour in range(len(ONE_OF_EACH)):
        of = ("why", "q", format_instant(at(hour)), "--lake", folder / "lake", "--queries", folder, "--json")
        found[hour] = str(json.loads(lowwater(*of).out)["word"])
    return found


OF_ROWS = {words.KEPT, words.INCOMPLETE, words.ROLLED_BACK, words.STALE, words.BLOCKED, words.PROVISIONAL}
"""`rows` is of one query, which may be done where another one is not. Of what has no rows it says that nothing is
published, or why it cannot start."""
WHOLE = dict(enumerate(ONE_OF_EACH))


@pytest.mark.slow
@pytest.mark.parametrize("told", [by_status, by_status_text, by_report, by_pages, by_why, by_consumers])
def test_who_tells_every_interval_says_its_word(told: object, world: Path) -> None:
    assert callable(told) and told(world) == WHOLE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "of"),
    [
        (by_plan, {*words.DUE, words.BLOCKED, words.RUNNING} - {*words.TO_CONFIRM}),
        (by_plan_text, {*words.DUE, words.BLOCKED, words.RUNNING} - {*words.TO_CONFIRM}),
        (by_rows, OF_ROWS),
        (by_lake, OF_ROWS),
    ],
)
def test_who_tells_some_intervals_says_their_words(told: object, of: set[str], world: Path) -> None:
    wanted = {hour: word for hour, word in WHOLE.items() if word in of}
    assert callable(told) and told(world) == wanted


@pytest.mark.slow
def test_metrics_count_the_same_words(world: Path) -> None:
    text = metrics_text(world / "lake", world)
    found = re.findall(r'lowwater_intervals\{query_set="q",state="([^"]+)"\} (\S+)', text)
    assert {word: int(float(count)) for word, count in found} == dict.fromkeys(words.STATES, 1)
    assert Counter(ONE_OF_EACH) == dict.fromkeys(words.STATES, 1)


def test_every_word_is_drawn_said_and_styled() -> None:
    style = (ROOT / "review" / "assets" / "review.css").read_text(encoding="utf-8")
    for word in words.STATES:
        assert SIGNS[word] and (word in SENTENCES or word in (*GOOD, words.RUNNING))
        assert f"s-{word.replace(' ', '-')}" in style, word
    assert set(KINDS) == {*words.DUE} - {words.HALF, words.HELD}
    assert set(words.VISIBLE) & set(words.DUE) == set(words.TO_CONFIRM)
    assert {word.worth for word in words.WORDS.values()} == set(words.TRUST)


def test_words_of_states_stand_in_the_table_only() -> None:
    """A word that is written beside the table is one that can differ from it."""
    rare = (words.HALF, words.BLOCKED, words.ROLLED_BACK, words.PROVISIONAL, words.INCOMPLETE)
    quoted = re.compile("|".join(f"\"{word}\"|'{word}'" for word in rare))
    folders = (ROOT / name for name in ("lowwater", "review", "plugins", "dags", "notebook"))
    files = [file for folder in folders for file in folder.rglob("*.py") if file.name != "words.py"]
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}" for file in files for line in _code(file) if quoted.search(line)
    ]
    assert found == []


def _code(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").splitlines() if ">>>" not in line]
