"""Answers that take longer than a page: what is shown meanwhile, what is kept, when the work ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from lowwater_review import Ledgers
from lowwater_review.app import create
from lowwater_review.results import answers, packet_pages, pages
from lowwater_review.results.answers import WAITING, WAITING_OF_ONE, Answer, Answers, BusyError, TaskQueue, wait_for

from lowwater.errors import LakeError
from lowwater.lake.results.exploring import ResultTable
from tests.review.asgi import Message, ask, request
from tests.review.conftest import Results

LOOK = 0.1
"""Seconds between two looks at a page, on which the work behind it goes on."""
HOUR = "from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z"


def waited(answer: Answer) -> Answer:
    wait_for(0, answer)
    return answer


@pytest.mark.slow
def test_an_answer_is_computed_once_and_an_error_again() -> None:
    asked: list[str] = []

    def make(name: str, wrong: bool = False) -> Callable[[Callable[[int], None]], str]:
        def made(watch: Callable[[int], None]) -> str:
            asked.append(name)
            watch(1)
            if wrong:
                raise LakeError("no such table")
            return name

        return made

    kept = Answers()
    assert waited(kept.ask("a", 2, make("a"))).ready and waited(kept.ask("a", 2, make("a"))).value == "a"
    assert kept.ask("a", 2, make("a")).share == 0.5 and asked == ["a"]
    for _ in range(2):
        with pytest.raises(LakeError, match="no such table"):
            assert waited(kept.ask("b", 1, make("b", wrong=True))).ready
    assert waited(kept.ask("a", 2, make("again"), fresh=-1)).value == "again"
    assert asked == ["a", "b", "b", "again"]


@pytest.mark.slow
def test_work_ends_once_nobody_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "FORGOTTEN", 0.05)
    begun, kept = threading.Event(), Answers()

    def make(watch: Callable[[int], None]) -> None:
        begun.set()
        while True:
            time.sleep(0.02)
            watch(0)

    answer = kept.ask("endless", 1, make)
    assert begun.wait(300) and answer.done.wait(300)
    with pytest.raises(LakeError, match="nobody has asked"):
        assert answer.ready
    assert not kept._kept


@pytest.mark.slow
def test_a_page_shows_what_is_ready_and_the_rest_when_it_is_looked_at_again(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, goes_on, count = create(Ledgers(*results(tmp_path))), threading.Event(), ResultTable.count
    monkeypatch.setattr(answers, "MUCH", 0)
    monkeypatch.setattr(answers, "give_back", lambda: None)  # a second for each look, among the objects of all tests
    monkeypatch.setattr(ResultTable, "count", lambda *given: goes_on.wait(300) and count(*given))
    address = "/results/q/flows"
    while "<tbody>\n<tr>" not in (early := ask(app, address, query=HOUR).text):
        assert "Look again" in early
        time.sleep(LOOK)
    assert "Look again" in early and "0 % is done" in early and "Rows whose" in early
    goes_on.set()
    while "Look again" in (whole := ask(app, address, query=HOUR).text):
        time.sleep(LOOK)
    assert "Rows whose" not in whole and "<svg" in whole
    while (wrong := ask(app, address, query=f"{HOUR}&column=cnt&op=%3D&value=many")).status == 200:
        assert "Look again" in wrong.text
        time.sleep(LOOK)
    assert wrong.status == 400 and "is no value of column" in wrong.text


@pytest.mark.slow
def test_few_answers_wait_of_one_person_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty people ask for a year each: the first are worked on in turn, the others hear it at once; none is lost."""
    goes_on, worked = threading.Event(), []
    monkeypatch.setattr(answers, "_LARGE", answers.TaskQueue(1))
    monkeypatch.setattr(answers, "give_back", lambda: None)
    monkeypatch.setattr(answers, "PATIENT", 1e9)  # nobody waits that long for what is not begun: it would hang

    def make(number: int) -> Callable[[Callable[[int], None]], int]:
        def made(watch: Callable[[int], None]) -> int:
            goes_on.wait(300)
            worked.append(number)
            return number

        return made

    kept, taken = Answers(), []
    for number in range(60):
        with suppress(BusyError):
            taken.append(kept.ask(number, 10_000, make(number), who=number))
    assert len(taken) == WAITING
    for number in range(3):
        with pytest.raises(BusyError, match="works on other answers"):
            kept.ask(f"more {number}", 10_000, make(0), who="x")
        assert not kept._kept.get(f"more {number}")
        wait_for(0, taken[-1])
    goes_on.set()
    assert all(answer.done.wait(300) for answer in taken)
    assert [answer.value for answer in taken] == worked == list(range(WAITING))
    mine = Answers()
    goes_on.clear()
    of_one = [mine.ask(number, 10_000, make(number), who="me") for number in range(WAITING_OF_ONE)]
    with pytest.raises(BusyError):
        mine.ask("one more", 10_000, make(0), who="me")
    other = mine.ask("of another", 10_000, make(-1), who="you")
    goes_on.set()
    assert all(answer.done.wait(300) and answer.ready for answer in [*of_one, other]) and other.value == -1


@pytest.mark.slow
def test_another_site_makes_nothing_be_computed_and_a_link_does(results: Results, tmp_path: Path) -> None:
    app = create(Ledgers(*results(tmp_path)))
    followed = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-User": "?1"}
    for address in ("/results/q/flows", "/results/q/flows/rows.csv", "/results/q/flows/plot.json", "/act/backfill/q"):
        query = f"{HOUR}&start=2026-01-01T00:00:00Z&end=2026-01-01T01:00:00Z"
        assert ask(app, address, query=query, headers={"Sec-Fetch-Site": "cross-site"}).status == 403, address
        frame = {"Sec-Fetch-Site": "cross-site", **followed, "Sec-Fetch-Dest": "iframe"}
        assert ask(app, address, query=query, headers=frame).status == 403, address
        for site in ({"Sec-Fetch-Site": "cross-site", **followed}, {"Sec-Fetch-Site": "same-origin"}, {}):
            assert ask(app, address, query=query, headers=site).status == 200, address


def test_people_take_turns() -> None:
    """Who asks for much waits for who asks for little."""
    queue, begun, held, order = TaskQueue(1), threading.Event(), threading.Event(), list[str]()

    def hold() -> None:
        begun.set()
        held.wait(300)

    queue.put("much", hold)
    assert begun.wait(300)
    done = threading.Event()
    for name in ("much 1", "much 2", "much 3"):
        queue.put("much", partial(order.append, name))
    queue.put("little", partial(order.append, "little 1"))
    queue.put("other", partial(order.append, "other 1"))
    queue.put("much", done.set)
    held.set()
    assert done.wait(300)
    assert order == ["little 1", "other 1", "much 1", "much 2", "much 3"]


DOWNLOADS = ("rows.csv", "rows.parquet", "plot.json", "diff", "packets", "packets.pcapng", "evidence.zip")


@pytest.mark.slow
def test_downloads_wait_in_one_queue_and_pages_do_not(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty requests of one person: one is worked on, few wait, the others are refused, and a style sheet is there."""
    app, goes_on, at_work = create(Ledgers(*results(tmp_path))), threading.Event(), list[int]()
    running = 0

    def held(*given: object, **named: object) -> None:
        nonlocal running
        running += 1
        at_work.append(running)
        goes_on.wait(300)
        running -= 1
        raise LakeError("a test")

    for module, name in ((pages, "result_table"), (packet_pages, "row_packets"), (packet_pages, "find_row")):
        monkeypatch.setattr(module, name, held)

    async def one(path: str, query: str = HOUR) -> Message:
        scope, receive, sent, send = request(path, {}, query=query)
        await app(scope, receive, send)
        return next(each for each in sent if each["type"] == "http.response.start")

    async def all_of_them() -> Counter[int]:
        row = f"row={quote('{}')}&before=0&after=1&{HOUR}"
        asked = [asyncio.create_task(one(f"/results/q/flows/{DOWNLOADS[at % 6]}", row)) for at in range(40)]
        while sum(each.done() for each in asked) < 40 - WAITING_OF_ONE:
            await asyncio.sleep(0)
        assert (await one("/assets/review.css", ""))["status"] == 200
        assert (await one("/index.html", ""))["status"] == 200
        assert sum(each.done() for each in asked) == 40 - WAITING_OF_ONE
        goes_on.set()
        return Counter(each["status"] for each in await asyncio.gather(*asked))

    statuses = asyncio.run(all_of_them())
    assert statuses.pop(503) == 40 - WAITING_OF_ONE
    assert statuses.total() == WAITING_OF_ONE, "each has said that the lake was a test"
    assert set(at_work) == {1}


@pytest.mark.slow
def test_a_download_counts_until_it_is_sent(results: Results, tmp_path: Path) -> None:
    """Who takes many files slowly gets no further ones, and others do; a reader that leaves gives its place back."""
    app = create(Ledgers(*results(tmp_path)))

    async def one(person: str, taken: asyncio.Event, leaves: bool = False) -> int:
        scope, receive, sent, _ = request("/results/q/flows/rows.csv", {}, query=HOUR)
        scope["client"] = (person, 1)

        async def send(message: Message) -> None:
            sent.append(message)
            if message["type"] == "http.response.body":
                await taken.wait()
                if leaves:
                    raise OSError("the reader has left")

        with suppress(Exception):
            await app(scope, receive, send)
        return int(next(each["status"] for each in sent if each["type"] == "http.response.start"))

    async def all_of_them() -> None:
        slow, at_once = asyncio.Event(), asyncio.Event()
        at_once.set()
        held = [asyncio.create_task(one("10.0.0.1", slow, at % 2 == 0)) for at in range(WAITING_OF_ONE)]
        while answers._PLACES._of["10.0.0.1"] < WAITING_OF_ONE or answers._FILES._of.total():
            await asyncio.sleep(0.01)
        assert await one("10.0.0.1", at_once) == 503
        assert await one("10.0.0.2", at_once) == 200
        slow.set()
        assert await asyncio.gather(*held) == [200] * WAITING_OF_ONE
        assert await one("10.0.0.1", at_once) == 200
        assert not answers._PLACES._of

    asyncio.run(all_of_them())


@pytest.mark.slow
def test_the_work_on_a_download_ends_where_its_reader_leaves(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, begun, ended = create(Ledgers(*results(tmp_path))), threading.Event(), threading.Event()

    def endless(table: ResultTable, *given: object) -> int:
        begun.set()
        try:
            while True:
                time.sleep(0.01)
                table.watch(0)
        finally:
            ended.set()

    monkeypatch.setattr(ResultTable, "count", endless)
    scope, _, _, send = request("/results/q/flows/rows.csv", {}, query=HOUR)

    async def receive() -> Message:
        return {"type": "http.disconnect"} if begun.is_set() else {"type": "http.request"}

    asyncio.run(app(scope, receive, send))
    assert ended.wait(300)


@pytest.mark.parametrize("path", DOWNLOADS)
@pytest.mark.slow
def test_another_site_makes_no_download_be_computed(app: Any, path: str) -> None:
    answer = ask(app, f"/results/q/flows/{path}", query=HOUR, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status == 403
