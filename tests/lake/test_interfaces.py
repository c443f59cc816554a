"""Interfaces of a pcapng as links (T1): names, coverage, damage, several as one, and what FROM reads of them."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from lowwater.cli.main import cli
from lowwater.config import Config, Link, load_config, section_of
from lowwater.documents import FILE_NAME
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_statement
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion import batch
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import MALFORMED, Lake, open_lake
from lowwater.lake.ledgers.captures import ingested_links, read_captures
from lowwater.lake.tables import read_rows, safe_name
from lowwater.link_names import below, interface_name, is_link_name, unnamed
from lowwater.replay.job import Job
from tests.breadth import examples
from tests.capturemaker import tcp
from tests.lake.support import BASE, at, capture, packet_rows

CONFIG = Config()
ONE = Config(links={"a": Link(interfaces="one")})
COVERS = (BASE, BASE + HOUR)
EACH = ["eth0", "eth1", ""]
PACKETS = [(1, 0), (3, 1), (2, 0), (4, 1), (5, 0)]
"""(second, interface): in order on each interface by itself, one late on both together."""


def block(kind: int, body: bytes) -> bytes:
    padded = body + bytes(-len(body) % 4)
    size = struct.pack("<I", 12 + len(padded))
    return struct.pack("<I", kind) + size + padded + size


def pcapng(
    path: Path, names: Sequence[str | bytes], packets: Iterable[tuple[float, int]], cut: int = 0, kinds: str = ""
) -> Path:
    """A pcapng with nanosecond interfaces of these names, and packets (second, interface)."""
    blocks = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for at_name, name in enumerate(names):
        options = struct.pack("<HHB3x", 9, 1, 9)
        if name:
            text = name.encode() if isinstance(name, str) else name
            options += struct.pack("<HH", 2, len(text)) + text + bytes(-len(text) % 4)
        kind = 101 if kinds[at_name : at_name + 1] == "r" else 1
        blocks.append(block(1, struct.pack("<HxxI", kind, 65535) + options + bytes(4)))
    for second, interface in packets:
        frame = tcp("10.0.0.1", "10.0.0.2", 1000 + round(second) % 60_000, 80)
        frame = frame[14:] if kinds[interface : interface + 1] == "r" else frame
        stamp = at(second)
        head = struct.pack("<IIIII", interface, stamp >> 32, stamp & 0xFFFFFFFF, len(frame), len(frame))
        blocks.append(block(6, head + frame))
    data = b"".join(blocks)
    path.write_bytes(data[: len(data) - cut])
    return path


def contents(lake: Lake, link: str) -> list[tuple[int, int, int]]:
    """(position, arrival, timestamp) of every packet of a link, in seconds after BASE."""
    rows = packet_rows(lake, link)
    return [(row["position"], *((row[name] - BASE) // 10**9 for name in ("arrival", "timestamp"))) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["", "[links.a]"], ids=["ingested", "configured"])
def test_replay_reads_the_interfaces_of_the_lake(lake: Lake, tmp_path: Path, settings: str) -> None:
    (tmp_path / "q.gsql").write_text("DEFINE { query_name 'q'; } SELECT time FROM a.ETH")
    (lake.root / FILE_NAME).write_text(settings)
    for number in (0, 1):
        ingest(lake, f"a/{number}", [capture(tmp_path / f"{number}.pcap", [number + 1])], CONFIG, COVERS)
        job = Job.open(lake.root, "q", tmp_path)
        assert job.plan.links == [f"a/{n}" for n in range(number + 1)]
        assert job.inputs(*COVERS, job.captures()).gaps() == []
    ingest(lake, "a", [capture(tmp_path / "own.pcap", [9])], CONFIG, COVERS)
    assert Job.open(lake.root, "q", tmp_path).plan.links == ["a", "a/0", "a/1"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "chunks", "gzip"])
def test_one_name_with_two_link_types_is_one_link_in_the_order_of_the_file(
    lake: Lake, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "chunks":
        monkeypatch.setattr(batch, "INGEST_CHUNK_BYTES", 100)
        monkeypatch.setattr(batch, "TASK_ROWS", 2)
    names, packets = ["any", "eth0", "any", "any"], [(1, 2), (3, 0), (2, 2), (4, 1), (5, 3)]
    path = pcapng(tmp_path / "a.pcapng", names, packets, kinds="eere")
    if form == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))
    for state in ("added", "known"):
        (done,) = ingest(lake, "a", [path], CONFIG)
        assert (done.state, [(row.link, row.link_type, row.packets) for row in done.captures]) == (
            state,
            [("a/any", "mixed", 4), ("a/eth0", "EN10MB", 1)],
        )
    assert contents(lake, "a/any") == [(0, 1, 1), (1, 3, 3), (2, 3, 2), (4, 5, 5)]
    assert sum(row.undecoded for row in done.captures) == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "gzip"])
def test_several_as_one_in_the_order_of_the_file(lake: Lake, tmp_path: Path, form: str) -> None:
    path = pcapng(tmp_path / "a.pcapng", EACH, PACKETS, cut=5)
    if form == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))
    (done,) = ingest(lake, "a", [path], ONE, COVERS)
    (row,) = done.captures
    assert (row.link, row.interfaces, row.packets, row.median, row.last) == ("a", 3, 4, at(2), at(4))
    assert contents(lake, "a") == [(0, 1, 1), (1, 3, 3), (2, 3, 2), (3, 4, 4)]
    (bad,) = read_rows(lake.malformed, MALFORMED).to_pylist()
    assert (bad["link"], bad["reason"], bad["arrival"]) == ("a", "cut", at(4))
    (each,) = ingest(lake, "a", [path], CONFIG, COVERS)
    assert each.state == "replaced" and len(each.captures) == 3 and contents(lake, "a") == []
    (one,) = ingest(lake, "a", [path], ONE, COVERS)
    assert one.state == "replaced" and len(one.captures) == 1 and contents(lake, "a/eth0") == []
    assert read_rows(lake.malformed, MALFORMED).column("link").to_pylist() == ["a"]


@pytest.mark.slow
def test_a_growing_file_with_several_interfaces_and_one_that_comes_later(lake: Lake, tmp_path: Path) -> None:
    pcapng(tmp_path / "a.pcapng", EACH, PACKETS[:3])
    ingest(lake, "a", [tmp_path / "a.pcapng"], CONFIG, COVERS, growing=True)
    assert {row.covers_to for rows in read_captures(lake, ["a", "a/eth1"]).values() for row in rows} == {at(3)}
    whole = tmp_path / "a.pcapng"
    late = pcapng(tmp_path / "late.pcapng", ["eth9"], [(9, 0)]).read_bytes()
    whole.write_bytes(whole.read_bytes() + late)  # another section, with another interface
    (done,) = ingest(lake, "a", [whole], CONFIG, COVERS)
    assert done.state == "replaced"
    assert [row.link for row in done.captures] == ["a", "a/eth0", "a/eth1", "a/eth9"]
    assert contents(lake, "a/eth9") == [(3, 9, 9)]


def run(tmp_path: Path, query: str, *options: str) -> Any:
    (tmp_path / "q.gsql").write_text(f"DEFINE {{ query_name 'q'; }} {query}")
    capture = f"a={tmp_path / 'a.pcapng'}"
    words = ["run", str(tmp_path / "q.gsql"), "--capture", capture, "--out", str(tmp_path / "out")]
    return CliRunner().invoke(cli, [*words, "--engine", "reference", *options])


@pytest.mark.slow
def test_run_reads_all_interfaces_of_a_link_or_one(tmp_path: Path) -> None:
    pcapng(tmp_path / "a.pcapng", EACH, PACKETS)
    found = {}
    for source in ("a.TCP", '"a/eth1".TCP'):
        result = run(tmp_path, f"SELECT srcPort, interface FROM {source}")
        assert result.exit_code == 0, result.output
        found[source] = (tmp_path / "out/q.csv").read_text().split()[1:]
    assert found["a.TCP"] == ["1001,a/eth0", "1002,a/eth0", "1003,a/eth1", "1004,a/eth1", "1005,a/eth0"]
    assert found['"a/eth1".TCP'] == ["1003,a/eth1", "1004,a/eth1"]
    wrong = run(tmp_path, 'SELECT srcPort FROM "a/eth7".TCP')
    assert wrong.exit_code == 1 and 'did you mean "a/eth0" or "a/eth1"?' in str(wrong.exception)


NAMES = [
    b"../../x",
    b"..",
    b"a/b",
    b"a_b",
    b"a b",
    b" ",
    b"a",
    b"a ",
    b"A",
    b"a\0b",
    b"\x1b[31m",
    b"%1B[31m",
    b"%",
    b"%25",
    b"1",
    b"#1",
    b"#",
    b'"',
    b"'",
    "\u00e9".encode(),
    "e\u0301".encode(),
    "a\u202eb".encode(),
    "以太网".encode(),
    "以太网".encode("gbk"),
    "无线网".encode(),
    "\u00e9".encode() * 300,
    b"x" * 64_000,
    b"x" * 64_001,
    b"x" * 64,
    b"%=" + b"0" * 32,
]


@pytest.mark.slow
@given(st.lists(st.binary(min_size=1, max_size=12) | st.text(min_size=1, max_size=9).map(str.encode), max_size=20))
@settings(max_examples=examples(60), deadline=None)
def test_two_names_of_interfaces_have_two_links_and_two_folders(drawn: list[bytes]) -> None:
    names = list(dict.fromkeys([*NAMES, *drawn, *(interface_name(name).encode() for name in [*NAMES, *drawn])]))
    links = [f"main/{interface_name(name)}" for name in names]
    assert len(set(links)) == len(names) and all(is_link_name(link) for link in links)
    assert not {f"main/{unnamed(number)}" for number in range(30)} & set(links)
    folders = [safe_name(link) for link in links]
    assert len(set(folders)) == len(names)
    assert all("/" not in folder and folder.startswith("main@") and len(folder) < 100 for folder in folders)
    assert all(len(quote(link, safe="")) < 230 for link in links)
    for name, link in zip(names, links, strict=True):
        if name.isascii() and name.decode().isprintable() and len(name) < 60 and b"%" not in name and name[:1] != b"#":
            assert link == f"main/{name.decode()}"
        query = print_statement(parse(f"SELECT time FROM {_quoted(link)}.TCP").statements[0])
        assert parse(query).statements[0].sources[0].links == (link,)
        config = load_config(text=f"{section_of(link)}\nskew = '3s'", path=Path("x.toml"))
        assert config.link(link).skew == 3 * SECOND


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


@st.composite
def worlds(draw: st.DrawFn) -> list[tuple[list[tuple[bytes, str]], list[int]]]:
    """Files of a link: the sections of each as (name, kind) of its interfaces, and the interface of each packet."""
    pool = draw(st.lists(st.binary(max_size=6) | st.sampled_from(NAMES[:24]), min_size=1, max_size=5, unique=True))
    files = []
    for _ in range(draw(st.integers(1, 4))):
        declared = draw(st.lists(st.tuples(st.sampled_from(pool), st.sampled_from("er")), min_size=1, max_size=5))
        files.append((declared, draw(st.lists(st.integers(0, len(declared) - 1), max_size=9))))
    return files


@pytest.mark.slow
@pytest.mark.hypothesis
def test_packets_of_each_exact_name_are_those_that_were_written(tmp_path: Path) -> None:
    made = count()

    @given(worlds(), st.randoms(use_true_random=False))
    @settings(max_examples=examples(20), deadline=None)
    def check(world: list[tuple[list[tuple[bytes, str]], list[int]]], random: Random) -> None:
        folder = tmp_path / str(next(made))
        folder.mkdir()
        lake, written, files = open_lake(folder / "lake"), Counter[str](), []
        for number, (declared, packets) in enumerate(world):
            blank = -1
            names = []
            for name, _ in declared:
                plain = name.rstrip(b"\0")
                blank += not plain
                names.append(interface_name(plain) or unnamed(blank))
            written.update(below("a", names[which]) for which in packets)
            stamps = [(100 * number + at_packet, which) for at_packet, which in enumerate(packets)]
            kinds = "".join(kind for _, kind in declared)
            path = pcapng(folder / f"{number}.pcapng", [name for name, _ in declared], stamps, kinds=kinds)
            files.append((path, (at(100 * number), at(100 * number + 100))))
        random.shuffle(files)
        for path, covers in files:
            ingest(lake, "a", [path], CONFIG, covers)
        links = ingested_links(lake)
        assert {link: len(rows) for link in links if (rows := contents(lake, link))} == dict(written)
        for rows in read_captures(lake, links).values():
            assert rows.spans == [(BASE, at(100 * len(world)))]
        assert all(
            result.state == "known" for path, covers in files for result in ingest(lake, "a", [path], CONFIG, covers)
        )

    check()
