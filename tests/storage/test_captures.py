"""Captures in an object store: read in ranges, found by patterns, and the same rows as from a folder."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lowwater_generator import GeneratedCapture

from lowwater.capture.reader import read
from lowwater.config import Config, Link
from lowwater.errors import AwayError, LowwaterError
from lowwater.lake.ingestion.arrivals import Watch, arrivals
from lowwater.lake.ingestion.folders import look, set_aside
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.files import read_seen, told_files, unread_lines
from lowwater.lake.packets import PacketFiles
from lowwater.limits import READ_AHEAD_BYTES as LARGEST_READ
from lowwater.storage import objects, paths
from lowwater.storage.captures import ObjectFile, StoredCapture, capture_path
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.objects import file_cache
from tests.lake.support import capture as captured, known_captures
from tests.lake.test_interfaces import pcapng
from tests.lake.test_places import hourly, rows, settings, take
from tests.replay.support import lowwater
from tests.storage.servers import Proxy, Rule

JUMP = 61 * 10**9


def stored(root: ObjectPath, name: str, data: bytes) -> StoredCapture:
    paths.write(root / name, data)
    path = capture_path(str(root / name))
    assert isinstance(path, StoredCapture)
    return path


def plain(data: bytes) -> bytes:
    return data


def zstandard(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.mark.slow
@pytest.mark.parametrize("packed", [plain, gzip.compress, zstandard])
def test_a_capture_in_a_store_has_the_rows_of_a_file(
    root: ObjectPath, proxy: Proxy, captures: list[GeneratedCapture], tmp_path: Path, packed: Callable[[bytes], bytes]
) -> None:
    data = packed(captures[0].path.read_bytes())
    (tmp_path / "a.pcap").write_bytes(data)
    path = stored(root, "a.pcap", data)
    faults = ("cut", "500", "slow")
    proxy.breaks(*(Rule(fault, "GET", "a.pcap", times=2) for fault in faults))
    expected, reader = read(tmp_path / "a.pcap", JUMP), read(path, JUMP)
    assert pa.table(pa.Table.from_batches(list(reader))).equals(pa.Table.from_batches(list(expected)))
    assert reader.summary == expected.summary
    assert {*faults} <= {fault for *_, fault in proxy.seen()}


@pytest.mark.slow
def test_memory_and_disk_do_not_grow_with_the_capture(root: ObjectPath, proxy: Proxy) -> None:
    size = 3 * LARGEST_READ + 1
    path = stored(root, "large", bytes(size))
    proxy.seen()
    with path.open("rb", buffering=0) as file:
        pieces = list(iter(lambda: file.read(64 << 10), b""))
        assert isinstance(file, ObjectFile) and len(file._block) <= LARGEST_READ
        file.seek(size - 5)
        assert file.read(10) == bytes(5) and file.read(1) == b""
    assert sum(map(len, pieces)) == size and max(map(len, pieces)) <= 64 << 10
    requests = [method for method, name, _ in proxy.seen() if name.endswith("/large")]
    assert requests.count("GET") <= 12, "requests grow while a file is read on"
    assert not file_cache().file_of(path).exists()


@pytest.mark.slow
def test_a_capture_that_is_replaced_while_it_is_read_is_an_error(root: ObjectPath) -> None:
    path = stored(root, "a.pcap", bytes(3 * LARGEST_READ))
    with path.open("rb", buffering=0) as file:
        file.read(1)
        stored(root, "a.pcap", b"\1" * 3 * LARGEST_READ)
        file.seek(2 * LARGEST_READ)
        with pytest.raises(OSError, match="replaced while it was read"):
            file.read(1)


@pytest.mark.slow
def test_commands_take_captures_of_a_store(
    root: ObjectPath, proxy: Proxy, captures: list[GeneratedCapture], tmp_path: Path
) -> None:
    folder = tmp_path / "captures"
    (folder / "other").mkdir(parents=True)
    for capture in captures:
        if capture.link == "main1":
            data = capture.path.read_bytes()
            paths.write(folder / "main1" / capture.path.name, data)
            paths.write(root / "captures" / "main1" / capture.path.name, data)
    other = pcapng(folder / "other" / "a.pcapng", ["eth0", "eth1"], [(second, second % 2) for second in range(9)])
    paths.write(root / "captures" / "other" / "a.pcapng", other.read_bytes())
    proxy.breaks(Rule("500", "GET", share=0.02), Rule("cut", "GET", share=0.02))
    said = {}
    for at in (str(folder), f"{root}/captures"):
        lake = tmp_path / ("remote" if at.startswith("s3") else "local")
        out = tmp_path / f"{lake.name}.pcap"
        name = f"{at}/main1/{captures[0].path.name}"
        commands: list[list[object]] = [
            ["init", at, "--lake", lake],
            ["ingest", "--lake", lake],
            ["ingest", "--lake", lake],
            ["inspect", name, "--format", "json"],
            ["export", "--lake", lake, "--link", "main1", "--where", "destPort = 53", "--out", out],
        ]
        done = [lowwater(*commands[0])]
        text = (lake / "lowwater.toml").read_text()
        (lake / "lowwater.toml").write_text(text.replace("[links.main1]\n", "[links.main1]\npayload = 64\n"))
        done += [lowwater(*command) for command in commands[1:]]
        assert [(each.code, each.err) for each in done if each.code] == []
        inspected = json.loads(done[3].out.replace(name, "FILE"))
        settings = [line for line in (lake / "lowwater.toml").read_text().splitlines() if "captures" not in line]
        said[lake.name] = inspected, out.read_bytes() if out.exists() else done[4].out, settings
        assert [each.out.split().count("added") for each in done[1:3]] == [6, 0]
    assert said["remote"] == said["local"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet"])
def test_records_in_a_store_are_those_of_a_file(root: ObjectPath, proxy: Proxy, tmp_path: Path, name: str) -> None:
    rows = pa.table({"time": [1.7e9 + second for second in range(400)], "bytes": list(range(400))})
    path = tmp_path / name
    if name == "a.parquet":
        pq.write_table(rows, path, row_group_size=100)
    elif name == "a.jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows.to_pylist()))
    else:
        text = "time,bytes\n" + "".join(f"{row['time']},{row['bytes']}\n" for row in rows.to_pylist())
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    at = stored(root, name, path.read_bytes())
    proxy.breaks(Rule("500", "GET", name, times=1), Rule("cut", "GET", name, times=1))
    said = [lowwater("inspect", where, "--format", "json") for where in (path, at)]
    assert said[0].code == 0 and said[1].out.replace(str(at), str(path)) == said[0].out


@pytest.mark.slow
def test_a_watch_takes_a_file_of_a_store_once_it_is_complete(root: ObjectPath, tmp_path: Path) -> None:

    config = Config(links={"main1": Link(captures=(f"{root}/main1/*.pcap",))})
    now = [time.time_ns()]
    watch = Watch(open_lake(tmp_path / "lake"), 10 * 10**9, clock=lambda: now[0])
    assert watch.look(config)[0].complete == ()
    path = stored(root, "main1/a.pcap", b"")
    assert watch.look(config)[0].complete == ()
    now[0] += 60 * 10**9
    assert [found for found, _ in watch.look(config)[0].complete] == [path]


@pytest.mark.slow
@pytest.mark.parametrize("far", [False, True])
def test_the_ledger_of_files_knows_what_lies_in_a_store(root: ObjectPath, tmp_path: Path, far: bool) -> None:
    """Rule T9, of captures in a store, and of a lake in one."""

    taps, lake = root / "taps", open_lake(root / "lake" if far else tmp_path / "lake")
    config = Config(links={"a": Link(captures=(f"{taps}/2027-01/a_*.pcap",))})
    for number, name in enumerate(("2027-01/a_1.pcap", "2027-01/a_1.pcap1", "2027-02/a_2.pcap", "2027-01/deep/a.pcap")):
        stored(taps, name, captured(tmp_path / "x", [10 * number + 1, 10 * number + 2]).read_bytes())
    stored(taps, "2027-01/README", b"read me")
    ingest(lake, "a", arrivals(lake, config)["a"].new, config)
    assert look(lake, config) == 2 and look(lake, config) == 0
    states = {path.removeprefix(f"{taps}/"): row.state for path, row in read_seen(lake).items()}
    assert states == {"2027-01/a_1.pcap": "read", "2027-01/a_1.pcap1": "unclaimed", "2027-01/README": "no traffic"}
    assert unread_lines(lake, config)[0].endswith("2 records, from 2027-01-15T08:00:11Z: a_1.pcap1")
    set_aside(lake, config, [f"{taps}/2027-01/*.pcap1"], "a test", "me")
    assert unread_lines(lake, config) == [
        "link 'a': 1 file set aside by me, 2 records, from 2027-01-15T08:00:11Z: a_1.pcap1: a test"
    ]


@pytest.mark.slow
def test_a_capture_of_a_store_that_is_away_is_not_refused(
    root: ObjectPath, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setenv("LOWWATER_STORE_PATIENCE", "0.2")
    lake, config = open_lake(tmp_path / "lake"), Config(links={"a": Link(captures=(f"{root}/taps/*.pcap",))})
    path = stored(root, "taps/a.pcap", captured(tmp_path / "x", [1, 2]).read_bytes())
    refused: dict[Path, LowwaterError] = {}
    proxy.breaks(Rule("refused", "GET", "taps/"))
    with pytest.raises(AwayError, match=r"a\.pcap"):
        ingest(lake, "a", [path], config, refusals=refused)
    assert refused == {} and told_files(lake) == {}
    proxy.breaks()
    (taken,) = ingest(lake, "a", [path], config, refusals=refused)
    assert taken.state == "added"


@pytest.mark.slow
def test_captures_that_moved_within_a_store_are_known(root: ObjectPath, tmp_path: Path) -> None:
    def put(folder: ObjectPath, hour: int, minutes: Sequence[int]) -> None:
        path = hourly(tmp_path / "made", hour, minutes)
        objects.write(folder / path.name, path.read_bytes())

    before, after, lake = root / "taps" / "a", root / "moved" / "b", open_lake(tmp_path / "lake")
    for hour in range(2):
        put(before, hour, (1, 2, 3))
    assert set(take(lake, settings(before)).values()) == {"added"}
    for path in objects.below(before):
        objects.copy(path, after / path.name)
    put(after, 1, (1, 2))
    assert take(lake, settings(after)) == {"a_2027011508.pcap": "known", "a_2027011509.pcap": "replaced"}
    assert [row.packets for row in rows(lake)] == [3, 2]
    (missing,) = arrivals(lake, settings(root / "typo"))["a"].missing
    assert missing.why == "has no object"


@pytest.mark.slow
def test_what_is_replaced_leaves_a_lake_in_a_store(root: ObjectPath, tmp_path: Path) -> None:
    lake, config = open_lake(root), Config(links={"a": Link()})
    for last in (50, 60):
        ingest(lake, "a", [captured(tmp_path / "a.pcap", [0, 1, last])], config)
        (kept,) = known_captures(lake, "a", config)
        assert {*PacketFiles.of(lake).attempts} == {kept.attempt}
