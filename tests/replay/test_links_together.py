"""Links that are ingested side by side where their tasks run on Spark."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from lowwater_generator import generate

from lowwater.cli.main import main
from lowwater.config import load_config
from lowwater.errors import AwayError, LowwaterError
from lowwater.lake.ingestion.arrivals import Watch
from lowwater.lake.layout import open_lake
from lowwater.replay.schedule import ingesting
from lowwater.replay.schedule.ingesting import each_link
from lowwater.replay.stages import runners
from lowwater.spark.tasks import SparkTasks
from tests.replay.support import START

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


def test_an_interruption_does_not_wait_for_a_lock_or_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "GIVEN_UP_WAIT", 0.1)
    freed, waits = threading.Event(), threading.Event()

    def ingested(link: str) -> None:
        if link == LINKS[0]:
            assert waits.wait(30)
            raise KeyboardInterrupt
        waits.set()
        freed.wait(60)

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(each_link(ingested, LINKS[:2], Elsewhere()))
    assert time.monotonic() - begin < 30
    freed.set()


def test_whoever_wants_no_more_links_gives_up_those_at_work() -> None:
    tasks, begun = Elsewhere(), threading.Event()

    def ingested(link: str) -> None:
        if link == LINKS[0]:
            assert begun.wait(30)
        else:
            begun.set()
            assert tasks.given_up.wait(30)

    results = each_link(ingested, LINKS[:2], tasks)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert tasks.given_up.is_set()


class OneIsGone(Elsewhere):
    """Fails for the first link as where a Spark is gone, while the second one is at work, which succeeds."""

    def __init__(self) -> None:
        super().__init__()
        self.second, self.gone = threading.Event(), threading.Event()

    def __call__(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        chosen = list(arguments)
        if chosen and "/a/" in str(chosen[0]):
            assert self.second.wait(30)
            self.gone.set()
            raise AwayError("ingest: Spark has ended, or was started again", "start it again")
        self.second.set()
        assert self.gone.wait(30)
        return super().__call__(function, chosen)


class CrashesOnce(Elsewhere):
    """The first tasks end as where the kernel kills their Python worker."""

    crashed = False

    def __call__(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        if not self.crashed:
            self.crashed = True
            raise LowwaterError("ingest: Spark failed: Python worker exited unexpectedly (crashed)")
        return super().__call__(function, arguments)


def two_links(folder: Path) -> None:
    for link in ("a", "b"):
        (made,) = generate(folder, START, 1, (link,), 0.02, seed=1)[:1]
        os.utime(made.path.rename(folder / link / "1.pcap"), (1, 1))
    lines = [f'[links.{link}]\ncaptures = "{folder}/{link}/*.pcap"' for link in ("a", "b")]
    (folder / "lowwater.toml").write_text("\n".join(lines))


@pytest.mark.slow
def test_an_ingest_tells_of_links_that_were_at_work_when_spark_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two_links(tmp_path)
    monkeypatch.setattr(runners, "ingest_tasks", lambda *_: OneIsGone())
    with pytest.raises(SystemExit) as ended:
        main(["ingest", "--lake", str(tmp_path)])
    told = capsys.readouterr()
    assert ended.value.code == 1 and told.err.count("error: ") == 1 and "Spark has ended" in told.err
    assert " b     added" in told.out


@pytest.mark.slow
def test_a_watch_tells_of_links_that_were_at_work_when_spark_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_links(tmp_path)
    config, lake, said = load_config(tmp_path), open_lake(tmp_path), list[str]()
    monkeypatch.setattr(ingesting, "ingest_tasks", lambda *_: OneIsGone())
    watching = ingesting.Ingesting(lake, Watch(lake, 0), lambda line, _: said.append(line))
    assert watching.take(watching.watch.look(config), config)
    assert isinstance(watching.hindered, AwayError) and watching.files == 1
    told = [line.partition(" ")[0] for line in said if "still being written" not in line]
    assert told == ["error:", "b:"]


@pytest.mark.slow
def test_a_watch_tries_all_files_again_whose_task_spark_could_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no fault of a file, nor of the link."""
    tasks = CrashesOnce()
    monkeypatch.setattr(ingesting, "ingest_tasks", lambda *_: tasks)
    paths = [each.path for each in generate(tmp_path, START, 2, ("a",), 0.02, seed=1)]
    for path in paths:
        os.utime(path, (1, 1))
    (tmp_path / "lowwater.toml").write_text(f'[links.a]\ncaptures = "{tmp_path}/a/*.pcap"')
    config, lake, said = load_config(tmp_path), open_lake(tmp_path), list[str]()
    watching = ingesting.Ingesting(lake, Watch(lake, 0), lambda line, _: said.append(line))
    assert not watching.take(watching.watch.look(config), config)
    assert (watching.hindered is not None, watching.refusals) == (True, [])
    assert watching.take(watching.watch.look(config), config)
    assert watching.files == len(paths) > 1
    assert sum(line.startswith("error: ") for line in said) == 1


def test_a_watch_tells_each_of_two_errors_once_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for link in ("a", "b"):
        (tmp_path / link).mkdir()
        (path := tmp_path / link / "1.pcap").touch()
        os.utime(path, (1, 1))
    (tmp_path / "lowwater.toml").write_text("".join(f'[links.{name}]\ncaptures = "{name}/*.pcap"\n' for name in "ab"))
    broken = {"a": LowwaterError("a is broken"), "b": LowwaterError("b is broken")}
    monkeypatch.setattr(ingesting, "ingest_readable", lambda _, link, *__: ([], {}, broken.get(link)))
    config, lake, said = load_config(tmp_path), open_lake(tmp_path), list[str]()
    watching = ingesting.Ingesting(lake, Watch(lake, 0), lambda line, _: said.append(line))
    found = watching.watch.look(config)
    for _ in range(3):
        watching.take(found, config)
    assert said == ["error: a is broken", "error: b is broken"]
    error = broken.pop("a")
    watching.take(found, config)
    broken["a"] = error
    watching.take(found, config)
    assert said[2:] == ["error: a is broken"], "it is another one"


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
