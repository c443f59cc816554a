"""A lease follows the work of its holder, and what a lost holder writes replaces nothing of a later one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lowwater.config import Retention
from lowwater.errors import LakeError, TakenOverError
from lowwater.instants import HOUR
from lowwater.lake.clocks import clock_words
from lowwater.lake.layout import HEARTBEATS, QUALITY, QUARANTINE, Lake, open_lake
from lowwater.lake.ledgers.runs import ReplayRow, record_heartbeats, record_quality
from lowwater.lake.locks import hold, hold_range
from lowwater.lake.maintain import maintain
from lowwater.lake.tables import append_rows, create, fence_off, swap_files
from lowwater.replay.versions import RollbackTarget
from lowwater.storage import failures as progress, locks, objects, paths
from lowwater.storage.locks import LostError
from lowwater.storage.object_paths import ObjectPath
from tests.lake.support import BASE
from tests.lake.test_joining import SCHEMA, row
from tests.lake.test_published import put
from tests.storage.servers import Proxy, Rule

DAY = 24 * HOUR


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processor time is no sign of work: a test has some."""
    monkeypatch.setattr(progress, "SHARE", 1e9)
    monkeypatch.setattr(locks, "LEASE_PATIENCE", 0.6)
    yield


@pytest.mark.slow
@pytest.mark.usefixtures("idle")
def test_a_process_that_hangs_loses_its_lease_and_one_that_works_keeps_it(root: ObjectPath) -> None:
    with locks.hold_lease(root / "lock", 0, 1, length=0.9) as fence:
        for _ in range(15):
            progress.made()
            time.sleep(0.1)
        fence.require()
        time.sleep(1.5)
        with pytest.raises(LostError, match="has done nothing for"):
            fence.require()
        with locks.hold_lease(root / "lock", 0, 1, wait=9.0, length=0.9) as second:
            assert second.taken and second.number > fence.number


@pytest.mark.slow
def test_a_claim_that_the_store_writes_late_is_held(root: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    written, swap = list[bytes](), objects.swap

    def late(path: ObjectPath, data: bytes, before: str | None) -> str:
        if not written:
            time.sleep(1.5)
        written.append(data)
        return swap(path, data, before)

    monkeypatch.setattr(objects, "swap", late)
    with locks.hold_lease(root / "lock", 0, 1, length=1.0) as fence:
        fence.require()


@pytest.mark.slow
def test_a_lost_run_writes_neither_pages_nor_ledgers(root: ObjectPath) -> None:
    lake = open_lake(root)
    page = lake.reports / "page.html"
    with locks.hold_lease(root / "lock", 0, 1, length=1.0) as first:
        paths.write(page, b"first", fence=first)
        first.lease._over.set()  # as a process that is stopped
        with locks.hold_lease(root / "lock", 0, 1, length=1.0) as second:
            assert second.taken
            held = type(lake)(root, second)
            fence_off(held.run_ledgers(), second)
            paths.write(page, b"second", fence=second)
            first.lease._renewed = time.monotonic()  # it has not noticed
            lost = type(lake)(root, first)
            with pytest.raises(LakeError, match="no longer the one at work"):
                record_heartbeats(lost, "set", 0, HOUR, HEARTBEATS.empty_table().drop_columns(["query_set"]))
            keys = ["query_set", "interval_start", "interval_end"]
            rows, failed = QUALITY.empty_table().drop_columns(keys), QUARANTINE.empty_table().drop_columns(keys)
            with pytest.raises(LakeError, match="no longer the one at work"):
                record_quality(lost, "set", {(0, HOUR): (rows, failed)})
            before, real = objects.read(page), objects.read
            objects_read = iter([(b"first", "an older tag")])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(objects, "read", lambda path: next(objects_read, None) or real(path))
                patch.setattr(first.lease, "require", lost_at_last(first.lease))
                with pytest.raises(LostError):
                    paths.write(page, b"late", fence=first)
            assert objects.read(page) == before


def lost_at_last(lease: locks.Lease) -> object:
    """A lease that is held at the first look, and not at the second."""
    looks: list[int] = []

    def require() -> None:
        looks.append(1)
        if len(looks) > 1:
            raise LostError("it was taken over")

    return require


@pytest.mark.slow
def test_a_commit_that_may_still_come_keeps_its_lease_until_it_lapses(
    root: ObjectPath, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_STORE_PATIENCE", "1")
    create(root / "table", SCHEMA, ["part"])
    with pytest.raises(LakeError), hold(open_lake(root), "thing") as fence:
        proxy.breaks(Rule("500", "PUT", "table/_delta_log"))
        append_rows(root / "table", row(1), fence)
    proxy.breaks()
    assert fence is not None and fence.lease.doubted
    with locks.hold_lease(root / "_locks" / "thing.lock", *locks.WHOLE, length=1.0) as second:
        assert second.taken


@pytest.mark.slow
def test_a_lease_that_was_taken_over_is_kept_until_its_number_is_written(root: ObjectPath) -> None:
    """Also by a holder that fails before it comes to that, as an ingest whose folder for other machines is locked."""
    lock = root / "lock"
    with locks.hold_lease(lock, 0, 1, length=0.6) as first:
        first.lease._over.set()  # as a process that is stopped, whose commit is on its way
        for _ in range(2):
            with pytest.raises(LakeError), locks.hold_lease(lock, 0, 1, length=0.6) as second:
                assert second.taken
                raise LakeError("before `fence_off`", "")
        with pytest.raises(LakeError), locks.hold_lease(lock, 0, 1, length=0.6) as third:
            fence_off([], third)
            raise LakeError("after it", "")
        with locks.hold_lease(lock, 0, 1, length=0.6) as fourth:
            assert third.taken and not fourth.taken, "given up, as the tables have its number"


@pytest.mark.slow
@pytest.mark.parametrize("off", [-30 * DAY, 30 * DAY])
def test_a_clock_that_is_a_month_off_removes_nothing_new(
    root: ObjectPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    real, real_ns = time.time, time.time_ns
    for place in (root, tmp_path / "lake"):
        lake = open_lake(place)
        paths.write(lake.replays / "part-waiting.parquet", b"PAR1")  # of a run that has not committed it
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + off)
        monkeypatch.setattr(time, "time", lambda: real() + off / 1e9)
        assert maintain(lake, Retention(versions="1h")) == []
        assert paths.has_file(lake.replays / "part-waiting.parquet")
        side = "ahead of" if off > 0 else "behind"
        assert f"{side} that of the lake's store" in clock_words(lake)
        monkeypatch.setattr(time, "time_ns", real_ns)
        monkeypatch.setattr(time, "time", real)
        assert clock_words(lake) == ""


def test_a_maintenance_that_lost_its_lease_removes_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is looked at before files go, not only by commits: the error of that look is one line with a hint."""
    lake = open_lake(tmp_path / "lake")
    waiting = Path(lake.replays) / "part-waiting.parquet"
    waiting.write_bytes(b"PAR1")
    os.utime(waiting, (0, 0))

    def silent() -> None:
        raise locks.LostError("the lease was not renewed for 30 s")

    fence = locks.Fence(("maintenance",), 1, SimpleNamespace(require=silent))  # type: ignore[arg-type]
    monkeypatch.setattr("lowwater.lake.maintain.hold", lambda *_, **__: nullcontext(fence))
    with pytest.raises(TakenOverError, match="no longer the one at work on it: the lease was not renewed"):
        maintain(lake, Retention(versions="1h"))
    assert waiting.exists()


@dataclass(frozen=True)
class _Job:
    """What a roll back needs of a query set."""

    lake: Lake
    query_set: str
    plan: Any


@pytest.mark.slow
def test_a_roll_back_keeps_the_run_before_it_from_every_table_of_the_set(
    root: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LEASE_LENGTH", 1.0)
    lake, bounds = open_lake(root), (BASE, BASE + HOUR)
    put(lake, 0, 1)
    queries: Any = [SimpleNamespace(name=name) for name in ("q", "r")]
    target = RollbackTarget(_Job(lake, "set", SimpleNamespace(queries=queries)), queries[0], *bounds)  # type: ignore[arg-type]
    with hold_range(lake, "set", *bounds) as run:
        assert run is not None
        run.lease._over.set()  # it is stopped for longer than its lease

        def act(_: RollbackTarget, last: ReplayRow) -> ReplayRow:
            run.lease._renewed = time.monotonic()  # it goes on, and has not noticed
            with pytest.raises(LakeError, match="no longer the one at work"):
                swap_files(lake.table("r"), [], lambda _: [], fence=run, note=lambda _: {"late": "1"})
            return last

        assert target._record(act).query == "q"
