"""One policy of tries for every request, and few requests."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest

from lowwater.config import Config
from lowwater.errors import LakeError, LowwaterError
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow, read_replays, record_replays
from lowwater.lake.open_tables import CHECKPOINTS, at_version
from lowwater.lake.tables import append_rows, create, open_table, read_rows
from lowwater.lake.upkeep import tidy_ledgers
from lowwater.limits import STORE_PATIENCE
from lowwater.storage import objects, objects as snapshots, paths
from lowwater.storage.failures import store_error
from lowwater.storage.object_paths import ObjectPath
from tests.breadth import each_push
from tests.capturemaker import pcap_bytes, udp
from tests.lake.test_joining import row
from tests.storage.faults import SCHEMA, as_another_process, stored, try_seed
from tests.storage.servers import Proxy, Rule


@pytest.mark.slow
def test_no_row_is_lost_or_twice_in_a_bad_hour(root: ObjectPath, proxy: Proxy, server: int) -> None:
    faults = try_seed(root, proxy, 2, server, 6)
    assert len(faults) > 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    each_push(
        [
            Rule("409", "PUT", r"_delta_log/0+\.json", times=2),
            Rule("412", "PUT", r"_delta_log/0+\.json", times=2),
            Rule("429", times=4),
            Rule("500", times=4),
            Rule("503", times=4),
            Rule("hang", "PUT", r"_delta_log/0+1\.json", times=1),
            Rule("hang", "GET", r"\.parquet", times=1),
            Rule("slow", "GET", r"\.parquet", times=1),
            Rule("reset", times=4),
            Rule("cut", "GET", times=5),
            Rule("lost", "PUT", times=3),
            Rule("twice", "PUT"),
            Rule("stale", "GET", "list-type"),
        ],
        3,
    ),
    ids=lambda rule: f"{rule.fault} {rule.method}",
)
def test_a_fault_that_passes_ends_no_command(
    root: ObjectPath, proxy: Proxy, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_STORE_TIMEOUT", "1")
    path = root / "table"
    proxy.breaks(rule)
    create(path, SCHEMA)
    for value in range(2):
        append_rows(path, row(value))
        as_another_process(path)
    assert stored(path) == [("a", 0), ("a", 1)]
    assert rule.fault == "stale" or rule.fault in {fault for *_, fault in proxy.seen()}


@pytest.mark.slow
@pytest.mark.parametrize("status", ["409", "412"])
def test_a_store_that_is_busy_with_an_object_is_asked_again(
    root: ObjectPath, proxy: Proxy, status: str, tmp_path: Path
) -> None:
    """Also where the request has no condition that could not hold."""
    (tmp_path / "file").write_bytes(b"file")
    requests = (
        lambda: paths.write(root / "a", b"a"),
        lambda: objects.upload(root / "b", tmp_path / "file"),
        lambda: objects.copy(root / "b", root / "c"),
        lambda: objects.delete([root / "a"]),
    )
    for request in requests:
        proxy.breaks(Rule(status, "PUT|DELETE|POST", times=1))
        request()
    assert [path.name for path in objects.below(root)] == ["b", "c"] and objects.read(root / "c")[0] == b"file"
    assert [fault for *_, fault in proxy.seen() if fault] == [status] * 4


@pytest.mark.slow
def test_a_store_that_fails_for_good_is_waited_for_and_said(
    root: ObjectPath, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = root / "table"
    create(path, SCHEMA)
    monkeypatch.setenv("LOWWATER_STORE_PATIENCE", "2")
    monkeypatch.setattr(objects, "TELL", 0.5)
    proxy.breaks(Rule("503"))
    with pytest.raises(LakeError, match=r"overloaded \(503\); tried for (\d+) s") as failed:
        append_rows(path, row(1))
    assert 1 <= int(re.findall(r"tried for (\d+)", str(failed.value))[0]) < STORE_PATIENCE
    assert "going on until" in capsys.readouterr().err


def test_what_a_busy_store_answers_is_told_by_its_status_and_not_by_words_of_its_body() -> None:
    error = store_error(Exception("status code: 500 Internal: <Error>Credential=..., AccessDenied</Error>"))
    assert not error.lasting and error.message == "the object store does not answer (500)"
    assert store_error(Exception("status code: 403 Forbidden: AccessDenied")).lasting
    assert store_error(Exception("Too many open files (os error 24)")).lasting


@pytest.mark.slow
def test_requests_do_not_grow_with_the_commits_of_a_ledger(root: ObjectPath, proxy: Proxy) -> None:
    lake, counts = open_lake(root), []
    for published in (6, 30):
        for at in range(len(read_replays(lake, "set")), published):
            record_replays(lake, [ReplayRow("set", "q", at * 10, at * 10 + 10, PUBLISH, "done", at + 1)])
            tidy_ledgers(lake, lake.run_ledgers())  # as each command at its end
        as_another_process(root)
        snapshots.look_again()
        proxy.seen()
        assert len(read_replays(Lake(root), "set")) == published
        counts.append(len(proxy.seen()))
    assert max(counts) <= 14 and abs(counts[1] - counts[0]) <= 5, counts


@pytest.mark.slow
def test_an_ingest_lists_packets_only_after_one_that_did_not_end(
    root: ObjectPath, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, lists = open_lake(root), []
    for number, wrong in enumerate([False, False, True, False]):
        file = tmp_path / f"{number}.pcap"
        file.write_bytes(pcap_bytes([(number * 10**12 + 10**18, udp("10.0.0.1", "10.0.0.2", 1, 2))]))
        proxy.seen()
        with monkeypatch.context() as broken:
            if wrong:
                broken.setattr("lowwater.lake.ingestion.batch.Batch.commit", lambda _: 1 / 0)
            with suppress(ZeroDivisionError):
                ingest(lake, "main1", [file], Config())
        lists.append([path for _, path, _ in proxy.seen() if "list-type" in path and "hour" not in path])
    assert [sum("packets%2Flink" in path for path in each) for each in lists] == [0, 0, 0, 1]
    assert len(read_captures(lake, ["main1"])["main1"]) == 3
    assert (
        len([path for path in objects.below(root / "packets") if path.suffix == ".parquet" and "link" in str(path)])
        == 3
    )


@pytest.mark.slow
def test_a_command_reads_nothing_twice(root: ObjectPath, proxy: Proxy) -> None:
    for at in range(3):
        record_replays(open_lake(root), [ReplayRow("set", "q", at, at + 1, PUBLISH, "done", at)])
    as_another_process(root)
    snapshots.look_again()
    proxy.seen()
    for _ in range(3):
        read_replays(open_lake(root, make=False), "set")
    seen = [(method, path) for method, path, _ in proxy.seen()]
    assert len(seen) == len(set(seen))


@pytest.mark.slow
def test_older_versions_and_logs_of_other_programs_are_opened(root: ObjectPath, proxy: Proxy) -> None:
    path = root / "table"
    create(path, SCHEMA)
    for value in range(2 * CHECKPOINTS):
        append_rows(path, row(value))
    as_another_process(path)
    assert [at_version(path, version).version() for version in (0, 4, 11)] == [0, 4, 11]
    objects.delete([path / "_delta_log" / "_last_checkpoint"])  # it is only a hint
    as_another_process(path)
    assert len(stored(path)) == 2 * CHECKPOINTS
    objects.delete([path / "_delta_log" / f"{version:020d}.json" for version in range(5)])  # as a clean-up leaves it
    as_another_process(path)
    assert len(stored(path)) == 2 * CHECKPOINTS


@pytest.mark.slow
def test_a_table_in_the_place_of_another_is_another(root: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "table"
    create(path, SCHEMA)
    append_rows(path, row(1))
    assert stored(path) == [("a", 1)]
    objects.delete(objects.below(path))
    monkeypatch.setattr(objects, "LOOK", 0.0)
    snapshots.look_again()
    assert open_table(path) is None and read_rows(path, SCHEMA).num_rows == 0
    snapshots.look_again()
    create(path, SCHEMA)
    append_rows(path, row(2))
    assert stored(path) == [("a", 2)]


def test_a_limit_of_open_files_that_is_too_low_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater import processes as descriptors

    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: (64, 100))
    with pytest.raises(LowwaterError, match="100 files and connections"):
        descriptors.require_descriptors()
