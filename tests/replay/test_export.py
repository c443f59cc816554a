"""Export against what was captured: the same records, chosen as DuckDB and tshark choose them."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dpkt
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lowwater_generator import generate

from lowwater.catalog.schemas import RECORD
from lowwater.config import Link, load_config
from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import PacketFiles, packet_files
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.packets import Selection, exported_links, read_predicate, select, write_selection
from tests import capturemaker as maker
from tests.replay.frames import records
from tests.replay.support import START

LINKS = ("main1", "main2")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Path]]]:
    """A lake with an hour and a minute of two links, whole frames kept, and their captures."""
    folder = tmp_path_factory.mktemp("export")
    captures: dict[str, list[Path]] = {link: [] for link in LINKS}
    root = folder / "lake"
    for each in generate(folder / "captures", START, 1, LINKS, rate=0.3, seed=3, cut=()):
        captures[each.link].append(each.path)
    for link, paths in captures.items():
        add(root, link, *paths)
    return root, captures


def add(root: Path, link: str, *captures: Path, payload: Any = "all") -> None:
    lake, config = open_lake(root), load_config(root)
    links = {link: Link(payload=payload)}
    ingest(lake, link, captures, config.model_copy(update={"links": links}))


def selected(
    root: Path, *links: str, where: str | None = None, protocol: str = "ETH", start: int = 0, end: int = END_OF_TIME
) -> Selection:
    lake, config = open_lake(root, make=False), load_config(root)
    return select(lake, config, exported_links(lake, config, links), read_predicate(where, protocol), start, end)


def written(selection: Selection, form: str = "pcap") -> bytes:
    parts: list[bytes] = []
    write_selection(selection, form, parts.append)
    return b"".join(parts)


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The blocks of a little-endian pcapng, whose two lengths agree."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert size % 4 == 0 and struct.unpack_from("<I", data, at + size - 4) == (size,)
        yield kind, data[at : at + size]
        at += size


@pytest.mark.slow
def test_whole_captures_come_back(made: tuple[Path, dict[str, list[Path]]]) -> None:
    root, captures = made
    for link, paths in captures.items():
        found = selected(root, link)
        wanted = [record for path in paths for record in records(path.read_bytes())]
        assert len(wanted) > 500
        assert found.packets == len(wanted) and found.cut == 0
        assert records(written(found)) == wanted
    (path, *_) = captures["main1"]
    assert written(selected(root, "main1"))[24:].startswith(path.read_bytes()[24:])


@pytest.mark.slow
def test_links_are_merged_by_arrival(made: tuple[Path, dict[str, list[Path]]]) -> None:
    root, captures = made
    wanted = []
    for place, link in enumerate(LINKS):
        clock = 0
        for record in (record for path in captures[link] for record in records(path.read_bytes())):
            clock = max(clock, record[0])
            wanted.append((clock, place, record))
    wanted.sort(key=lambda row: row[:2])
    found = selected(root)
    assert records(written(found)) == [record for _, _, record in wanted]
    data = written(found, "pcapng")
    interfaces, packets = [], []
    for kind, block in blocks(data):
        if kind == dpkt.pcapng.PCAPNG_BT_IDB:
            interfaces.append(dpkt.pcapng.InterfaceDescriptionBlockLE(block))
        elif kind == dpkt.pcapng.PCAPNG_BT_EPB:
            packets.append(dpkt.pcapng.EnhancedPacketBlockLE(block))
    options = [{each.code: each.data for each in one.opts} for one in interfaces]
    assert options == [{2: link.encode(), 9: b"\x09", 0: b""} for link in LINKS]
    assert {one.linktype for one in interfaces} == {maker.ETHERNET}
    assert [(each.iface_id, (each.ts_high << 32 | each.ts_low, each.pkt_len, each.pkt_data)) for each in packets] == [
        (place, record) for _, place, record in wanted
    ]


@pytest.mark.slow
def test_cut_frames_are_counted_and_absent_ones_read_from_the_capture(tmp_path: Path) -> None:
    frames = [maker.arp(), maker.udp("10.0.0.1", "10.0.0.2", 1, 53, bytes(100)), b""]
    given = [(START + index * SECOND, frame) for index, frame in enumerate(frames)]
    path, root = tmp_path / "a.pcap", tmp_path / "lake"
    path.write_bytes(maker.pcap_bytes(given))
    add(root, "a", path, payload=None)
    found = selected(root)
    assert (found.packets, found.cut) == (3, 0)
    assert records(written(found)) == [(stamp, len(frame), frame) for stamp, frame in given]  # from the capture file
    with pytest.raises(LakeError, match="whose payload the condition asks for") as raised:
        selected(root, where="str_match_start[UDP_data, 'GET']")
    assert "`payload` in [links.a]" in str(raised.value)
    path.write_bytes(maker.pcap_bytes(given) + b"more")
    with pytest.raises(LakeError, match=r"the lake kept no bytes of the frames, and their files .* \(has changed\)"):
        selected(root)
    path.write_bytes(maker.pcap_bytes(given))
    assert selected(root, where="srcPort = 2").packets == 0  # none of them needs a frame
    add(root, "a", path, payload=8)
    found = selected(root)
    assert (found.packets, found.cut, found.kept) == (3, 1, 50)
    assert records(written(found)) == [(stamp, len(frame), frame[:50]) for stamp, frame in given]


INTS = ("len", "srcPort", "destPort", "protocol", "flags", "total_length", "ttl", "sequence_number", "vlan_id", "time")


def condition(chance: random.Random, depth: int) -> tuple[str, str]:
    """A random condition: as GSQL, and as SQL over `packets/`."""
    if depth and chance.random() < 0.7:
        left, right = condition(chance, depth - 1), condition(chance, depth - 1)
        if chance.random() < 0.25:
            return f"NOT ({left[0]})", f"NOT ({left[1]})"
        word = chance.choice(["AND", "OR"])
        return f"({left[0]} {word} {right[0]})", f"({left[1]} {word} {right[1]})"
    kind = chance.random()
    if kind < 0.15:
        name = chance.choice(INTS[:-1])
        return f"{name} IS NULL", f"{name} IS NULL"
    if kind < 0.3:
        word = chance.choice(["SYN", "ACK"])
        return word, f"(flags & {2 if word == 'SYN' else 16}) <> 0"
    (left, sql_left), (right, sql_right) = number(chance), number(chance)
    compare = chance.choice(["=", "<>", "<", "<=", ">", ">="])
    return f"{left} {compare} {right}", f"{sql_left} {compare} {sql_right}"


def number(chance: random.Random) -> tuple[str, str]:
    if chance.random() < 0.4:
        value = str(chance.choice([0, 1, 6, 17, 40, 53, 60, 64, 80, 443, 1000, 1500]))
        return value, value
    name = chance.choice(INTS)
    column = '("timestamp" // 1000000000)' if name == "time" else f"{name}::BIGINT"
    if chance.random() < 0.4:
        operator = chance.choice(["+", "-", "&", "|"])
        return f"({name} {operator} 7)", f"({column} {operator} 7)"
    return name, column


def packets_of(root: Path, capture: Path) -> pa.RecordBatch:
    """The stored packets of a capture of main1, in its order, and their number in it as `number`."""
    lake, config = open_lake(root, make=False), load_config(root)
    captures = read_captures(lake, ["main1"])["main1"]
    (sha256,) = [each.capture for each in captures if each.path == str(capture)]
    read = packet_files(PacketFiles.of(lake), "main1", captures, config.link("main1"), 0, 0, END_OF_TIME)
    files = [file.path for file in read.files if file.capture == sha256]
    parts = [RECORD.empty_table(), *(pq.ParquetFile(path).read() for path in files)]
    table = pa.concat_tables(parts, promote_options="default")  # a column without a value is not in a file
    (batch,) = table.append_column("number", pa.array(range(table.num_rows))).combine_chunks().to_batches()
    return batch


@pytest.mark.slow
@pytest.mark.parametrize("also", ["", " AND str_match_start['GET', 'G']"], ids=["kernel", "row by row"])
def test_random_conditions_select_what_duckdb_does(
    made: tuple[Path, dict[str, list[Path]]], also: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_KERNEL", "python")
    root, captures = made
    batch = packets_of(root, captures["main1"][0])
    database = duckdb.connect()
    database.register("packets", pa.table(batch))
    chance = random.Random(11)
    sizes = []
    for _ in range(40):
        where, sql = condition(chance, 3)
        wanted = database.sql(f"SELECT number FROM packets WHERE {sql} ORDER BY number").fetchnumpy()["number"].tolist()
        test = read_predicate(f"({where}){also}").test("main1")
        assert test(batch).nonzero()[0].tolist() == wanted, where
        sizes.append(len(wanted))
    assert sum(0 < size < batch.num_rows for size in sizes) > 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "where", "shown"),
    [
        ("UDP", "destPort = 53 OR srcPort = 53", "udp.port == 53"),
        ("ETH", "SYN AND NOT ACK AND len > 60", "tcp.flags.syn == 1 and tcp.flags.ack == 0 and frame.len > 60"),
    ],
)
def test_conditions_select_what_tshark_does(
    made: tuple[Path, dict[str, list[Path]]], protocol: str, where: str, shown: str
) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("no tshark on this machine")
    root, captures = made
    path = captures["main1"][0]
    command = ["tshark", "-n", "-r", str(path), "-Y", shown, "-T", "fields", "-e", "frame.number"]
    numbers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    whole = records(path.read_bytes())
    wanted = [whole[int(number) - 1] for number in numbers]
    found = selected(root, "main1", where=where, protocol=protocol, end=START + HOUR)
    assert 0 < len(wanted) < len(whole)
    assert records(written(found)) == [record for record in wanted if record[0] < START + HOUR]
