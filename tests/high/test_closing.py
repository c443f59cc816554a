"""Punctuation closes the parts of a query: while one promise is held back, nothing of it is evaluated."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings, strategies as st

from lowwater.errors import LowwaterError
from lowwater.high.closing import Arriving, least_promise
from lowwater.high.process import InProcess
from lowwater.high.query_runs import HighLevel, HighSettings
from lowwater.high.runner import Task
from lowwater.plan.operators import Node
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import examples
from tests.high.plans import COUNT, group
from tests.high.streams import (
    FLOWS,
    SECOND,
    Row,
    column,
    flows,
    leaf,
    read_stream,
    run_high,
    write_emitted,
    write_stream,
)
from tests.high.test_shares import SPAN, drawn, plans
from tests.replay.support import wait

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

END = 60 * SECOND
LINKS = ("main1", "main2")
SETTINGS = HighSettings(tick=SECOND, slice_rows=10, shares=1)


def grouped() -> Node:
    return group(leaf("s", FLOWS, LINKS), [(FLOWS[0], column("tb")), (FLOWS[1], column("k"))], [COUNT])


def inputs(folder: Path) -> dict[tuple[str, str], list[str]]:
    """The streams of two links."""
    streams = {link: (folder / f"{link}.parquet", flows(50, 50, seed=seed)) for seed, link in enumerate(LINKS)}
    return {("s", link): write_stream(file, FLOWS, rows, END) for link, (file, rows) in streams.items()}


def test_the_least_promise_of_the_links_closes(tmp_path: Path) -> None:
    files = {
        ("s", link): [str(tmp_path / f"{link}-{number}.parquet") for number in range(2)] for link in ("main1", "main2")
    }
    arriving, sources = Arriving(files, coming={*files}), [*files]

    def come(link: str, number: int, promise: int) -> tuple[bool, int, bool]:
        write_emitted(Path(files["s", link][number]), FLOWS, [(1, (0, 1, None, 1), 0)], [promise])
        arriving.look()
        return arriving.news, least_promise(arriving.streams.values(), 50), arriving.whole(sources)

    arriving.look()
    assert not arriving.news
    assert come("main1", 0, 30) == (True, -END_OF_TIME, False)
    assert come("main2", 1, 50) == (False, -END_OF_TIME, False), "a file waits for those before it"
    assert come("main2", 0, 29) == (True, 30, False), "what is promised stays promised"
    assert come("main1", 1, 50) == (True, END_OF_TIME, True)


def test_nothing_closes_while_a_promise_is_held_back(each_runner: Runner, tmp_path: Path) -> None:
    held, files = tmp_path / "held", inputs(tmp_path)
    files["s", "main2"] = write_emitted(tmp_path / "held.parquet", FLOWS, [(1, (0, 1, None, 1), 0)], [])
    said = "query q: the stream of s on link main2 promises up to 1970-01-01T00:00:00.000000001Z only"
    with pytest.raises(LowwaterError, match=said) as failed:
        run_high(each_runner, {"q": grouped()}, files, 0, END, held, SETTINGS)
    assert failed.value.hint == "run the low stage again"
    assert [*held.rglob("*.parquet")] == []
    files["s", "main2"] = inputs(tmp_path)["s", "main2"]
    result = run_high(each_runner, {"q": grouped()}, files, 0, END, tmp_path / "let go", SETTINGS)["q"]
    assert result.rows > 0 and result.batches > 4


CHUNKS = 3


def chunk(file: Path, rows: list[Row], number: int, last: bool) -> None:
    """Puts the file of a chunk of a minute into its place: rows and promises of 20 s."""
    begin, until = number * END // CHUNKS, END if last else (number + 1) * END // CHUNKS - 1
    mine = [(-(-(at + 1) // SECOND) * SECOND, values, at) for values, at in rows if begin <= at < begin + END // CHUNKS]
    draft = file.with_suffix(".draft")
    write_emitted(draft, FLOWS, [(min(tick, until), values, at) for tick, values, at in mine], [until])
    draft.rename(file)


def test_a_link_that_is_held_back_holds_its_queries_only(each_runner: Runner, tmp_path: Path) -> None:
    """While the low level is at work: parts of one link are evaluated, and those of both once the other has come."""
    one = group(leaf("t", FLOWS, LINKS[:1]), [(FLOWS[0], column("tb")), (FLOWS[1], column("k"))], [COUNT])
    queries, streams = {"both": grouped(), "one": one}, {link: flows(90, 60, seed=at) for at, link in enumerate(LINKS)}
    files = {(name, link): [str(tmp_path / f"{name}-{link}-{at}.parquet") for at in range(CHUNKS)]
             for name, link in (("s", "main1"), ("s", "main2"), ("t", "main1"))}  # fmt: skip
    level = HighLevel(queries, files, 0, END, tmp_path / "work", SETTINGS, coming={*files})

    def come(name: str, link: str, number: int) -> None:
        chunk(Path(files[name, link][number]), streams[link], number, number == CHUNKS - 1)

    def made(query: str) -> int:
        return len([*(tmp_path / "work" / query).glob("rows/[0-9]*.parquet")])

    with each_runner.levels() as begin:
        running = begin(level)
        for number in range(CHUNKS):
            come("s", "main1", number)
            come("t", "main1", number)
            assert wait(partial(lambda least: made("one") > least, number), 120)
        assert made("both") == 0 and not running.future.done()
        come("s", "main2", 0)
        assert wait(lambda: made("both") > 0, 120) and not running.future.done()
        for number in (1, 2):
            come("s", "main2", number)
        results = running.result()
    assert {name: result.batches > CHUNKS for name, result in results.items()} == {
        "both": True,
        "one": True,
    }
    whole = run_high(each_runner, queries, files, 0, END, tmp_path / "whole", SETTINGS)
    for name in queries:
        assert read_stream(results[name].files) == read_stream(whole[name].files)
        assert results[name].rows == whole[name].rows > 0


def test_a_stored_file_that_is_lost_is_not_waited_for(tmp_path: Path) -> None:
    """Also while the low level makes other files."""
    files = inputs(tmp_path)
    (lost,) = files["s", LINKS[1]]
    Path(lost).unlink()
    level = HighLevel({"q": grouped()}, files, 0, END, tmp_path / "work", SETTINGS, coming={("s", LINKS[0])})
    with pytest.raises(LowwaterError, match=f"cannot read the stored stream {lost}"):
        InProcess().run(level)


def test_a_level_that_is_ended_begins_again_at_once(each_runner: Runner, tmp_path: Path) -> None:
    files = {("s", link): [str(tmp_path / "never.parquet")] for link in LINKS}
    for number in range(3):
        level = HighLevel({"q": grouped()}, files, 0, END, tmp_path / f"ended-{number}", SETTINGS, coming={*files})
        with each_runner.levels() as begin:
            ended = begin(level)
        with pytest.raises(LowwaterError, match="high level of q: was interrupted"):
            ended.result()
    result = run_high(each_runner, {"q": grouped()}, inputs(tmp_path), 0, END, tmp_path / "whole", SETTINGS)["q"]
    assert result.rows > 0


def divided(folder: Path, name: str, rows: list[Row], chance: Random) -> list[str]:
    """The rows of a stream in some files, each with rows and promises of a part of the time."""
    cuts = sorted({0, *(chance.randrange(1, SPAN) for _ in range(chance.randrange(4)))})
    files = []
    for at, (begin, until) in enumerate(zip(cuts, [*cuts[1:], SPAN], strict=True)):
        closing = until * SECOND - (until < SPAN)
        mine = [(values, last) for values, last in rows if begin * SECOND <= last < until * SECOND]
        emitted = [(min(-(-(last + 1) // SECOND) * SECOND, closing), values, last) for values, last in mine]
        ticks = [chance.randrange(begin, until) * SECOND for _ in range(chance.randrange(4))]
        files += write_emitted(folder / f"{name}-{at}.parquet", FLOWS, emitted, [*ticks, closing])
    return files


def stored(files: list[str]) -> list[str]:
    """All columns of all rows and promises, but for the promises that only say when they were made."""
    return sorted(str(row) for file in files for row in pq.ParquetFile(file).read().to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("name", list(plans()))
@settings(max_examples=examples(5))
@given(seed=st.integers(0, 1 << 30))
def test_rows_and_promises_do_not_depend_on_when_files_come(
    name: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Files come in any order, and outcomes in any; rows, ticks and promises are those of all files at once."""
    node, chance, folder = plans()[name], Random(seed), tmp_path_factory.mktemp("come")
    made = {each: divided(folder / "made", each, rows, chance) for each, rows in drawn(node, seed).items()}
    chosen = HighSettings(
        tick=chance.choice((1, 7, 60, 900)) * SECOND,
        slice_rows=chance.choice((5, 20, 60)),
        shares=chance.choice((0, 1, 3)),
    )
    found, early = [], 0
    for come in (False, True):
        where = folder / f"come-{come}"
        files = {each: [str(where / Path(file).name) for file in of] for each, of in made.items()}
        waiting = [Path(file) for of in made.values() for file in of]
        chance.shuffle(waiting)
        where.mkdir()
        inputs = {(each, "main1"): of for each, of in files.items()}
        level = HighLevel(
            {"q": node}, inputs, 0, SPAN * SECOND, where / "work", chosen, coming={*inputs} if come else ()
        )
        steps, at_work, outcomes = level.steps(), list[Task](), None
        try:
            while True:
                if waiting and (not come or chance.random() < 0.5):
                    for file in waiting if not come else waiting[:1]:
                        file.with_suffix(".copy").write_bytes(file.read_bytes())
                        file.with_suffix(".copy").rename(where / file.name)
                    waiting = waiting[1:] if come else []
                step = steps.send(outcomes)
                at_work += step.tasks
                early += len(step.tasks) if waiting else 0
                chance.shuffle(at_work)
                over = chance.randrange(len(at_work) + 1)
                outcomes, at_work = {task: task() for task in at_work[:over]}, at_work[over:]
        except StopIteration as end:
            results = end.value
        found.append((stored(results["q"].files), results["q"].rows))
    assert found[0] == found[1]
    event(f"parts before the last file: {min(early, 3)}")
