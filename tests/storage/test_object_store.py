"""A lake in an object store: the same tables as in a folder, leases that fence off, and a store that fails."""

from __future__ import annotations

import re
import time
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lowwater_generator import GeneratedCapture

from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake.open_tables import CHECKPOINTS
from lowwater.lake.tables import Options, append_rows, commit, create, open_table, read_rows, swap_files
from lowwater.storage import locks, paths
from lowwater.storage.locks import HeldError, LostError
from lowwater.storage.object_paths import ObjectPath
from tests.capturemaker import pcap_bytes
from tests.replay.support import QUERIES, START, Said, lowwater, replay_range, write_settings
from tests.storage.faults import as_another_process
from tests.storage.servers import Proxy, Rule, kinds_of

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

SCHEMA = pa.schema([("value", pa.int64())])


def values(path: ObjectPath) -> list[int]:
    return sorted(read_rows(path, SCHEMA).column("value").to_pylist())


def row(value: int) -> pa.Table:
    return pa.table({"value": [value]}, SCHEMA)


@pytest.mark.slow
def test_a_holder_that_lives_is_not_taken_over_and_a_silent_one_is_fenced_off(root: ObjectPath) -> None:
    path, lock = root / "table", root / "lock"
    create(path, SCHEMA)
    with locks.hold_lease(lock, 0, 10, length=1.0) as first:
        with pytest.raises(HeldError), locks.hold_lease(lock, 5, 15, length=1.0):
            pass
        with locks.hold_lease(lock, 10, 20, length=1.0) as other:
            assert other.number > first.number  # a range beside it is free
        append_rows(path, row(1), first)
        first.lease._over.set()  # as a process that is stopped: it renews no more
        with locks.hold_lease(lock, 5, 15, length=1.0) as second:
            append_rows(path, row(2), second)
            with pytest.raises(LostError):
                first.require()
            first.lease._renewed = time.monotonic()  # it has not noticed yet; the table has
            with pytest.raises(LakeError, match="no longer the one at work"):
                append_rows(path, row(3), first)
    assert values(path) == [1, 2]


@pytest.mark.slow
def test_a_commit_lists_nothing_and_writes_two_objects(root: ObjectPath, proxy: Proxy) -> None:
    """By itself Delta lists the log thrice, and the whole of it to find old entries; and reads its own commit twice."""
    path = root / "table"
    create(path, SCHEMA)
    append_rows(path, row(1))
    proxy.seen()
    append_rows(path, row(2))
    assert [kinds_of(method, seen) for method, seen, _ in proxy.seen()] == ["PUT data file", "PUT commit"]


@pytest.mark.slow
def test_a_log_of_commits_of_files_gets_checkpoints(root: ObjectPath, proxy: Proxy) -> None:
    """As published tables and streams have: whoever opens one reads few commits, however many there are."""
    path = root / "table"
    create(path, SCHEMA)
    for _ in range(2 * CHECKPOINTS):
        swap_files(path, [], lambda _: [], note=lambda _: {"n": "1"})
    as_another_process(path)
    proxy.seen()
    assert open_table(path) is not None
    kinds = [kinds_of(method, seen) for method, seen, _ in proxy.seen()]
    assert kinds.count("GET checkpoint") == 1 and kinds.count("GET commit") <= CHECKPOINTS + 1


@pytest.mark.slow
def test_a_lease_lost_between_look_and_commit_stops_the_commit(root: ObjectPath) -> None:
    path = root / "table"
    create(path, SCHEMA)
    with locks.hold_lease(root / "lock", 0, 1, length=1.0) as first:
        tries: list[int] = []

        def late(table: object, options: Options) -> None:
            from deltalake import DeltaTable, write_deltalake

            assert isinstance(table, DeltaTable)
            tries.append(table.version())
            if len(tries) == 1:  # the process is stopped here, for longer than the lease
                first.lease._over.set()
                with locks.hold_lease(root / "lock", 0, 1, length=1.0) as second:
                    append_rows(path, row(2), second)
                first.lease._renewed = time.monotonic()
            write_deltalake(table, row(1), mode="append", **options)

        with pytest.raises(LakeError, match="no longer the one at work"):
            commit(path, late, first)
    assert values(path) == [2]


@pytest.mark.slow
def test_keys_that_may_not_write_make_no_lake(root: ObjectPath, proxy: Proxy, tmp_path: Path) -> None:
    proxy.breaks(Rule("403", "PUT|POST|DELETE"))
    capture = tmp_path / "a.pcap"
    capture.write_bytes(pcap_bytes([(START, b"")]))
    said = lowwater("init", capture, "--lake", root)
    assert (
        said.code == 1
        and "no lake can be made there" in said.err
        and "does not allow it" in said.err
        and "rights" in said.err
    )


@pytest.mark.slow
def test_the_tables_are_those_of_a_folder(
    root: ObjectPath, proxy: Proxy, tmp_path: Path, captures: list[GeneratedCapture], runner: Runner
) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    write_settings(folder)
    settings = (folder / "lowwater.toml").read_text()
    (folder / "lowwater.toml").write_text(settings.replace("[links.main1]\n", "[links.main1]\npayload = 64\n"))
    paths.write(root / "lowwater.toml", (folder / "lowwater.toml").read_bytes())
    proxy.breaks(
        Rule("lost", "PUT", times=2),
        Rule("500", times=2),
        Rule("500", share=0.02),
        Rule("503", share=0.01),
        Rule("lost", "PUT", share=0.03),
    )
    said, pages = {}, {}
    for lake in (folder, root):
        for capture in captures:
            if capture.end <= START + HOUR:
                covers = "2026-01-01T00:00:00Z/2026-01-01T01:00:00Z"
                done = lowwater("ingest", "--lake", lake, "--link", capture.link, "--covers", covers, capture.path)
                assert done.code == 0, done.err
        replay_range(lake, runner, START, START + HOUR)  # type: ignore[arg-type]
        out = tmp_path / f"out-{len(said)}"
        commands: list[list[object]] = [
            ["rows", "flows"],
            ["rows", "full_flow"],
            ["status", "--queries", QUERIES],
            ["plan", "--queries", QUERIES, "--query-set", "demo"],
            ["backfill", "--queries", QUERIES, "--query-set", "demo"],
            ["skew", "--queries", QUERIES],
            ["export", "--link", "main1", "--where", "destPort = 53", "--out", out.with_suffix(".pcap")],
            ["expect", "--suggest", "--queries", QUERIES],
            ["maintain"],
        ]
        said[lake] = [lowwater(*command, "--lake", lake) for command in commands]
        for command in (["report", "--queries", QUERIES, "--html", out], ["explain", QUERIES / "demo.gsql"]):
            more = ["--with-stats"] if command[0] == "explain" else []
            done = lowwater(*command, *more, "--lake", lake)
            assert done.code == 0, done.err
        pages[lake] = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
        said[lake].append(Said(0, out.with_suffix(".pcap").read_bytes().hex(), ""))
    for one, other in zip(said[root], said[folder], strict=True):
        assert _placeless(one, root, tmp_path) == _placeless(other, folder, tmp_path)
    refused = {command[0] for command, done in zip(commands, said[root], strict=False) if done.code}
    assert refused <= {"plan", "backfill", "expect"}, "what these refuse in a folder, for want of intervals"
    assert pages[root] == pages[folder] and any(name.startswith("docs/") for name in pages[root])
    assert {"500", "lost"} <= {fault for *_, fault in proxy.seen()}


def _placeless(said: Said, lake: PurePath, folder: Path) -> tuple[int, str, str]:
    """What a command said, without the places of the lake and of files, and without the seconds it took."""

    def plain(text: str) -> str:
        text = text.replace(str(lake), "LAKE").replace(str(folder), "FOLDER")
        return re.sub(r"out-\d", "out", re.sub(r"\d+(\.\d+)? ?m?s\b", "TIME", text))

    return said.code, plain(said.out), plain(said.err)
