"""Answers that stand: what is asked again of a lake in which nothing has changed reads none of its rows, however many
there are; whatever changes is answered anew (docs/adr/0206)."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake import answers, layout
from lowwater.lake.ledgers import runs
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.ledgers.statements import ACCEPT, Statement, state
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due, statuses
from lowwater.storage import paths
from tests.lake.support import put_captures
from tests.replay.support import lowwater
from tests.review.ledgers import START, capture, make


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, Path]]:
    """Number of hours -> a lake and its queries."""
    return {hours: make(tmp_path_factory.mktemp("made"), hours) for hours in (5, 50)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOWWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(answers, "FRESH", 0)
    return tmp_path / "cache" / "answers"


def test_what_is_asked_again_costs_a_look_whatever_the_number_of_hours(
    made: dict[int, tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(*given: Any, **named: Any) -> Any:
            counts[name] += 1
            return real(*given, **named)

        monkeypatch.setattr(module, name, call)

    for module, name in ((paths, "_modest"), (runs, "replay_rows"), (Job, "inputs")):
        counted(module, name)
    found = {}
    for hours, (lake, queries) in made.items():
        said = []
        for _ in range(2):
            counts.clear()
            for command in ("status", "report", "metrics"):
                done = lowwater(command, "--lake", lake, "--queries", queries)
                said.append([line for line in done.out.splitlines() if "collect" not in line])
        assert said[3:] == said[:3]
        assert len(said[0]) > hours
        found[hours] = dict(counts)
    assert found[5] == found[50]
    assert not found[50].keys() & {"replay_rows", "inputs"}
    assert found[50].get("_modest", 0) <= 4


def accepted(lake: layout.Lake) -> None:
    said = Statement(
        0, "me", ACCEPT, "it is known", link="control", cause="damage", what="x", start=START, end=START + 1
    )
    state(lake, [said])


def rewritten(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_whatever_changes_is_answered_anew(
    made: dict[int, tuple[Path, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting, a text, a capture, a run, a statement and a lost file: each answer is that of a user without any."""
    source, queries = made[5]
    root = Path(shutil.copytree(source, tmp_path / "lake"))
    queries = Path(shutil.copytree(queries, tmp_path / "queries"))
    lake = layout.open_lake(root)
    data = next((root / "tables" / "flows").glob("_hour=*/*.parquet"))
    row = ReplayRow("q", "flows", START, START + HOUR, "publish", "done", 1 << 62, digest="other", rows=7)
    changes: dict[str, tuple[bool, Callable[[], object]]] = {
        "nothing": (False, lambda: None),
        "a setting": (True, lambda: rewritten(root / "lowwater.toml", "[links.main1]", '[links.main1]\nskew = "7s"')),
        "a text": (True, lambda: rewritten(queries / "q.gsql", "time/60", "time/30")),
        "a capture": (True, lambda: put_captures(lake, [capture("main1", 5), capture("main2", 5)])),
        "a run": (True, lambda: record_replays(lake, [row])),
        "a statement": (False, lambda: accepted(lake)),
        "a cut file": (True, lambda: data.write_bytes(data.read_bytes()[:-1])),
        "a lost file": (False, data.unlink),
    }
    before = statuses(root, queries)
    for name, (other, change) in changes.items():
        change()
        now = statuses(root, queries)
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("LOWWATER_CACHE", str(tmp_path / name))
            assert now == statuses(root, queries), name
        assert now == statuses(root, queries), name
        assert (now != before) == other, name
        before = now


def test_nothing_due_is_said_of_the_range_and_the_settings_that_were_asked(made: dict[int, tuple[Path, Path]]) -> None:
    root, queries = made[5]
    job = Job.open(root, "q", queries)
    done = DueSelection(START + 2 * HOUR, START + 5 * HOUR)
    assert not due(job, done)
    assert not due(job, done)
    assert due(job, DueSelection(START, START + 7 * HOUR))
    changed = job.config.model_copy(
        update={"links": {**job.config.links, "main1": job.config.link("main1").with_skew(9)}}
    )
    assert due(Job.open(root, "q", queries), done) == []
    assert due(replace(job, config=changed), done)


@pytest.mark.parametrize("harm", ["cut", "another digest", "another form", "no folder"])
def test_an_answer_that_cannot_be_read_costs_only_time(
    made: dict[int, tuple[Path, Path]], own_cache: Path, harm: str
) -> None:
    lake = layout.lake_to_read(made[5][0])
    about = repr(load_config(lake.root))
    asked: list[int] = []

    def compute() -> list[int]:
        asked.append(len(asked))
        return [1, 2]

    assert answers.answered(lake, "a", about, compute) == answers.answered(lake, "a", about, compute) == [1, 2]
    assert asked == [0]
    assert answers.answered(lake, "a", about + " ", compute) == [1, 2]
    assert asked == [0, 1]
    (file,) = own_cache.glob("*/*")
    text = file.read_text()
    if harm == "no folder":
        shutil.rmtree(own_cache.parent)
        own_cache.parent.write_text("no folder")
    else:
        file.write_text({"cut": text[:-3], "another digest": "0" * 64 + text[64:], "another form": "[]"}[harm])
    assert answers.answered(lake, "a", about + " ", compute) == [1, 2]
    assert asked == [0, 1, 2]


def test_answers_are_few(made: dict[int, tuple[Path, Path]], own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few lakes; those of one that somebody erases from go."""
    monkeypatch.setattr(answers, "MOST", 1)
    lakes = [layout.lake_to_read(root) for root, _ in made.values()]
    for lake in lakes:
        for name in "abc":
            assert answers.answered(lake, name, "", lambda: 1) == 1
        assert len(list(own_cache.glob("*/*"))) == 3
    answers.forget(lakes[0])
    assert len(list(own_cache.glob("*/*"))) == 3
    answers.forget(lakes[1])
    assert not list(own_cache.glob("*/*"))


def test_an_answer_that_is_made_of_another_depends_on_what_that_looked_at(made: dict[int, tuple[Path, Path]]) -> None:
    lake = layout.lake_to_read(made[5][0])
    file = Path(lake.root) / "told"
    file.write_text("a")

    def inner() -> str:
        return str(answers.answered(lake, "inner", "", lambda: paths.read(file).decode()))

    for said in ("a", "b"):
        file.write_text(said)
        assert inner() == said  # so that it stands when the other one asks
        assert answers.answered(lake, "outer", "", lambda: f"said {inner()}") == f"said {said}"
    file.unlink()


def test_who_asks_first_may_end_first(tmp_path: Path) -> None:
    """Threads of a server ask side by side."""
    one, other = dict[str, object](), dict[str, object]()
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(paths.looking(one))
        second.enter_context(paths.looking(other))
        first.close()
        assert paths.state(tmp_path / "nothing") is None
    assert (one, other) == ({}, {str(tmp_path / "nothing"): None})
