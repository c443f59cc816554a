"""Several processes on one lake in an object store, and stores and tables that are not as a lake needs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lowwater_generator import GeneratedCapture

from benchmarks.bench_store import BEGIN, publish as backfill_hours, settings, write_captures
from lowwater.documents import FILE_NAME
from lowwater.errors import BusyError, LakeError
from lowwater.instants import HOUR, format_instant
from lowwater.lake import locks, tables
from lowwater.lake.layout import REPLAYS, Lake, lake_to_read, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.runs import ReplayRow, interval_replays, last_published, record_replays
from lowwater.lake.locks import at_work, run_attempt
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.lake.tables import append_rows, claim, create, open_table, read_rows
from lowwater.replay import interval
from lowwater.replay.interval import _Journal
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.storage import locks as leases, objects, paths
from lowwater.storage.object_paths import ObjectPath
from tests.breadth import each_push
from tests.lake.support import BASE, FIELDS, publish_interval, put_stream, stream
from tests.replay.support import ROOT, lowwater
from tests.storage.faults import as_another_process
from tests.storage.servers import BUCKET, Proxy, Rule
from tests.storage.test_object_store import SCHEMA, row, values

WRITER = """
import sys
import pyarrow as pa
from lowwater.lake.locks import run_attempt
from lowwater.lake.tables import append_rows, create
from lowwater.storage.object_paths import ObjectPath
schema = pa.schema([("value", pa.int64())])
path = ObjectPath(*sys.argv[1].split("|"))
sys.stdin.read()  # until all processes are ready
create(path, schema)
for value in range(int(sys.argv[2]), int(sys.argv[2]) + 5):
    append_rows(path, pa.table({"value": [value]}, schema))
"""


def program(*arguments: object) -> subprocess.Popen[str]:
    """Starts Python; it begins once its input ends."""
    command = [sys.executable, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, cwd=ROOT, **pipes)  # type: ignore[call-overload,no-any-return]


def ended(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Lets the processes begin at once; returns what each printed as errors, after all have succeeded."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    said = [process.communicate(timeout=600) for process in processes]
    for process, (out, err) in zip(processes, said, strict=True):
        assert process.returncode == 0, out + err
    return [err for _, err in said]


@pytest.mark.slow
def test_processes_that_create_one_table_at_once_all_write_to_it(root: ObjectPath, proxy: Proxy) -> None:
    proxy.breaks(Rule("lost", "PUT", "_delta_log", times=3, share=0.2), Rule("500", share=0.03))
    path = root / "table"
    ended([program("-c", WRITER, "|".join(path.parts), 10 * number) for number in range(3)])
    proxy.breaks()
    assert values(path) == [10 * number + value for number in range(3) for value in range(5)]
    table = open_table(path)
    assert table is not None and table.version() == 15


@pytest.mark.nightly
@pytest.mark.slow
def test_two_clusters_that_ingest_the_same_captures_have_them_once(
    root: ObjectPath, captures: list[GeneratedCapture]
) -> None:
    capture = next(capture for capture in captures if capture.link == "main1")
    paths.write(root / FILE_NAME, b"")
    command = ["-m", "lowwater.cli.main", "ingest", "--lake", root, "--link", "main1", capture.path]
    ended([program(*command), program(*command)])
    lake = open_lake(root)
    assert len(read_captures(lake, ["main1"])["main1"]) == 1
    table = open_table(lake.packets)
    assert table is not None and table.count() == capture.packets


@pytest.mark.slow
def test_a_run_on_an_interval_of_another_cluster_says_who_is_at_work(
    root: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_LENGTH", 3.0)
    lake = Lake(root)
    with run_attempt(lake, "set", BASE, BASE + HOUR) as (_, fence):
        assert fence is not None
        (who,) = at_work(lake, "set").values()
        assert re.fullmatch(r"process \d+ on .* is at work on it", who)
        with monkeypatch.context() as later:
            later.setattr(locks, "LATELY", -60.0)
            assert at_work(lake, "set") == {}, "its holder may be dead"
        with (
            pytest.raises(BusyError, match=r"process \d+ on .* is at work on 2027"),
            run_attempt(lake, "set", BASE + HOUR // 2, BASE + 2 * HOUR),
        ):
            pass


def numbers(lake: Lake) -> list[int]:
    """The column `n` of the published rows."""
    found: list[int] = read_rows(lake.table("q"), pa.schema([("n", pa.int64())])).column("n").to_pylist()
    return found


def put(lake: Lake, number: int) -> str:
    """Writes a stream whose rows all have this number; returns its fingerprint."""
    rows = [("10.0.0.1", number, float(second)) for second in range(5)]
    put_stream(lake.stream("q"), FIELDS, BASE, BASE + HOUR, stream(rows), "set")
    return fingerprint(stream_files(lake.stream("q"), BASE, BASE + HOUR))


@pytest.mark.slow
def test_a_lease_that_lapses_in_the_middle_of_a_publish_publishes_nothing(
    root: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, lock = Lake(root), root / "_locks" / "runs of set"
    swapped = tables.swap_files

    with leases.hold_lease(lock, BASE, BASE + HOUR, length=1.0) as first:
        audited = put(lake, 1)

        # as a process that is stopped between its files and its commit
        def stopped(*arguments: object, **names: object) -> None:
            monkeypatch.setattr(tables, "swap_files", swapped)
            first.lease._over.set()
            with leases.hold_lease(lock, BASE, BASE + HOUR, length=1.0) as second:
                claim(lake.table("q"), second)
                publish_interval(Lake(root, second), "set", "q", FIELDS, BASE, BASE + HOUR, "newer", put(lake, 2))
            first.lease._renewed = time.monotonic()  # it has not noticed
            swapped(*arguments, **names)  # type: ignore[arg-type]

        monkeypatch.setattr(tables, "swap_files", stopped)
        with pytest.raises(LakeError, match="no longer the one at work"):
            publish_interval(Lake(root, first), "set", "q", FIELDS, BASE, BASE + HOUR, "older", audited)
    assert numbers(lake) == [2] * 5


@pytest.mark.slow
@pytest.mark.parametrize("stage", each_push(("publish", "audit", "high", "low"), 4))
def test_a_run_that_is_taken_over_in_a_stage_leaves_what_the_later_one_published(
    stage: str, root: ObjectPath, captures: list[GeneratedCapture], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped as a stage begins, does not notice that its lease has lapsed, and goes on with its work."""
    monkeypatch.setattr(leases, "LEASE_LENGTH", 2.0)
    query = "SELECT tb, count(*) AS c FROM main1.ETH GROUP BY time/60 AS tb"
    (tmp_path / "q.gsql").write_text(f"DEFINE {{ query_name 'n'; }} {query}")
    (first, *_) = (capture for capture in captures if capture.link == "main1")
    lake, end = open_lake(root), first.start + HOUR
    life = f'since = "{format_instant(first.start)}"\nuntil = "{format_instant(end)}"\n'
    paths.write(root / FILE_NAME, f"[links.main1]\n{life}[query_sets.q]\n".encode())
    span = f"{format_instant(first.start)}/{format_instant(end)}"
    assert lowwater("ingest", "--lake", root, "--link", "main1", "--covers", span, first.path).code == 0
    begin, seen = getattr(interval, f"_{stage}"), []

    def stopped(attempt: Any, *arguments: Any) -> Any:
        monkeypatch.setattr(interval, f"_{stage}", begin)
        lease = attempt.job.lake.fence.lease
        lease._over.set()
        time.sleep(2.5)
        (later,) = interval.replay(Job.open(root, "q", tmp_path), first.start, end, None, Progress(quiet=True))
        seen.append((later.state, version(lake)))
        lease._renewed = time.monotonic()  # it has not noticed
        return begin(attempt, *arguments)

    monkeypatch.setattr(interval, f"_{stage}", stopped)
    with pytest.raises(LakeError, match=r"no longer the one at work|taken over|lease"):
        interval.replay(Job.open(root, "q", tmp_path), first.start, end, None, Progress(quiet=True))
    assert seen == [("done", version(lake))], "nothing came behind it"
    states = [row.state for row in interval_replays(lake, "q", first.start, end) if row.stage == "publish"]
    assert states == ["done"]


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.slow
def test_a_batch_that_was_killed_is_taken_over_as_an_interval_is(
    root: ObjectPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is of the whole range, also where one of its intervals runs next."""
    monkeypatch.setattr(leases, "LEASE_LENGTH", 2.0)
    write_captures(tmp_path, 4)
    paths.write(root / FILE_NAME, settings(tmp_path))
    assert lowwater("ingest", "--lake", root).code == 0
    lake, end = Lake(root), BEGIN + 3 * HOUR

    def dies(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as kill:
        kill.setattr(leases.Lease, "release", lambda lease: lease._over.set())
        kill.setattr(interval, "_audit", dies)
        with pytest.raises(Killed):
            backfill_hours(root, BEGIN, end)
    assert [*locks.held_ranges(lake, "demo")] == [(BEGIN, end)]
    as_another_process(root)
    objects.look_again()
    backfill_hours(root, BEGIN + HOUR, BEGIN + 2 * HOUR)
    assert locks.held_ranges(lake, "demo") == {}
    backfill_hours(root, BEGIN, end)
    for query in ("flows", "bytes"):
        lasts = read_rows(lake.table(query), pa.schema([("_last", pa.int64())])).column("_last").to_pylist()
        assert {(last - BEGIN) // HOUR for last in lasts} == {0, 1, 2}
    published = [row for row in interval_replays(lake, "demo", BEGIN, end) if row.stage == "publish"]
    assert len(published) == 6 and {row.state for row in published} == {"done"}, "each once"


def version(lake: Lake) -> int:
    table = open_table(lake.table("n"))
    assert table is not None
    return int(table.version())


@contextmanager
def denied(server: int, *places: ObjectPath) -> Iterator[None]:
    """A policy of the bucket, kept by the server itself, by which nothing below some prefixes is written or removed."""
    resources = [f"arn:aws:s3:::{BUCKET}/{place.key}/*" for place in places]
    actions = ["s3:PutObject", "s3:DeleteObject"]
    statement = {"Effect": "Deny", "Principal": "*", "Action": actions, "Resource": resources}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()
    address = f"http://127.0.0.1:{server}/{BUCKET}?policy"
    urllib.request.urlopen(
        urllib.request.Request(address, policy, {"Content-Type": "application/json"}, method="PUT"), timeout=60
    ).close()
    try:
        yield
    finally:
        urllib.request.urlopen(urllib.request.Request(address, method="DELETE"), timeout=60).close()


@pytest.mark.slow
def test_a_lake_under_a_policy_that_lets_only_read_is_read(
    root: ObjectPath, moto: int, captures: list[GeneratedCapture]
) -> None:
    first, second = [capture for capture in captures if capture.link == "main1"][:2]
    open_lake(root)
    assert lowwater("ingest", "--lake", root, "--link", "main1", first.path).code == 0
    before = sorted(map(str, paths.files_below(root)))
    with denied(moto, root):
        said = lowwater("status", "--lake", root)
        assert said.code == 0, said.err
        assert len(read_captures(lake_to_read(root), ["main1"])["main1"]) == 1
        said = lowwater("ingest", "--lake", root, "--link", "main1", second.path)
        assert said.code == 1 and "the object store does not allow it" in said.err and "rights" in said.err
    assert sorted(map(str, paths.files_below(root))) == before
    assert lowwater("ingest", "--lake", root, "--link", "main1", second.path).code == 0


@pytest.mark.slow
def test_a_policy_against_published_tables_leaves_nothing_half_visible(root: ObjectPath, moto: int) -> None:
    lake = Lake(root)
    audited = put(lake, 1)
    publish_interval(lake, "set", "q", FIELDS, BASE, BASE + HOUR, "first", audited)
    newer = put(lake, 2)
    with denied(moto, root / "tables"), pytest.raises(LakeError, match="does not allow it"):
        publish_interval(lake, "set", "q", FIELDS, BASE, BASE + HOUR, "second", newer)
    assert numbers(lake) == [1] * 5
    publish_interval(lake, "set", "q", FIELDS, BASE, BASE + HOUR, "second", newer)
    assert numbers(lake) == [2] * 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["packets", "tables/q"])
def test_the_table_of_another_program_is_left_alone(root: ObjectPath, name: str) -> None:
    path = root / name
    foreign = pa.table({"n": [1, 2, 3]})
    write_deltalake(str(path), foreign, storage_options=objects.options(path))
    with pytest.raises(LakeError, match="another program made this table") as refused:
        lake = open_lake(root) if name == "packets" else Lake(root)
        publish_interval(lake, "set", "q", FIELDS, BASE, BASE + HOUR, "digest", put(lake, 1))
    assert "prefix" in refused.value.hint
    table = DeltaTable(str(path), storage_options=objects.options(path))
    assert table.version() == 0 and table.to_pyarrow_table().equals(foreign)


@pytest.mark.slow
@pytest.mark.parametrize("off", [-HOUR, HOUR])
def test_a_clock_that_is_an_hour_off_changes_neither_order_nor_leases(
    root: ObjectPath, monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    lake, real, real_ns = Lake(root), time.time, time.time_ns
    create(lake.replays, REPLAYS, ["query_set"])
    rows = [ReplayRow("set", "q", BASE, BASE + HOUR, "publish", "done", real_ns(), "", "first", 1)]
    record_replays(lake, rows)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + off)
    monkeypatch.setattr(time, "time", lambda: real() + off / 1e9)
    journal = _Journal(SimpleNamespace(lake=lake, query_set="set"), BASE, BASE + HOUR, "publish", (BASE, BASE + HOUR))  # type: ignore[arg-type]
    record_replays(lake, [ReplayRow("set", "q", BASE, BASE + HOUR, "publish", "done", journal.now(), "", "second", 2)])
    last = last_published(lake, "set", "q", BASE, BASE + HOUR)
    assert last is not None and last.digest == "second"
    with leases.hold_lease(root / "lock", 0, 1, length=1.0) as fence:
        time.sleep(1.5)
        fence.require()  # renewed, though the clock of the machine is off
        create(root / "table", SCHEMA)
        append_rows(root / "table", row(1), fence)
