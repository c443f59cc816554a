"""Links that are ingested side by side where their tasks run on Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from lowwater.errors import LowwaterError
from lowwater.replay.schedule.ingesting import each_link
from lowwater.spark.tasks import SparkTasks

LINKS = ["main1", "main2/eth0", "control", "main2/eth1", "main2"]


class Elsewhere:
    """Stands for tasks on Spark, of which only the kind matters."""

    far = False

    def __init__(self) -> None:
        self.given_up = threading.Event()

    def __call__(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        return list(map(function, arguments))

    def give_up(self) -> None:
        self.given_up.set()


def test_links_are_at_work_together_on_spark_but_not_those_of_one_lock() -> None:
    together, of_family = threading.Barrier(3), threading.Lock()

    def ingested(link: str) -> str:
        if link in LINKS[:3]:
            together.wait(30)
        if link.startswith("main2"):
            assert of_family.acquire(blocking=False), "its interfaces have one lock of the lake"
            time.sleep(0.01)
            of_family.release()
        return link.upper()

    assert list(each_link(ingested, LINKS, Elsewhere())) == [link.upper() for link in LINKS]


def test_in_one_process_a_link_begins_when_the_one_before_it_was_told() -> None:
    begun: list[str] = []
    results = each_link(lambda link: begun.append(link) or link, LINKS, map)  # type: ignore[func-returns-value]
    assert next(results) == LINKS[0] and begun == LINKS[:1]


def test_an_interruption_gives_up_what_is_at_work() -> None:
    tasks, begun = Elsewhere(), threading.Event()

    def ingested(link: str) -> None:
        if link == LINKS[0]:
            assert begun.wait(30)
            raise KeyboardInterrupt
        begun.set()
        assert tasks.given_up.wait(30), "it would wait for gigabytes"

    with pytest.raises(KeyboardInterrupt):
        list(each_link(ingested, LINKS[:2], tasks))


def test_whoever_wants_no_more_links_waits_for_those_at_work() -> None:
    tasks, done = Elsewhere(), list[str]()

    def ingested(link: str) -> None:
        if link != LINKS[0]:
            time.sleep(0.05)
        done.append(link)

    results = each_link(ingested, LINKS[:2], tasks)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert not tasks.given_up.is_set() and done in (LINKS[:1], LINKS[:2])


@pytest.mark.spark
def test_tasks_that_are_given_up_end_and_begin_no_others(spark_address: str) -> None:
    from lowwater.spark.session import build_session

    session = build_session("given up", spark_address)
    tasks, failures = SparkTasks(lambda: session, "ingest"), list[LowwaterError]()

    def waits() -> None:
        try:
            tasks(time.sleep, [600])
        except LowwaterError as error:
            failures.append(error)

    waiting = threading.Thread(target=waits)
    waiting.start()
    while waiting.is_alive():  # it may not have begun yet
        tasks.give_up()
        waiting.join(0.2)
    assert len(failures) == 1
    with pytest.raises(LowwaterError, match=r"^ingest: was interrupted"):
        tasks(len, [""])
    session.stop()
