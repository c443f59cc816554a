"""Interfaces of a pcapng as links (T1): names, coverage, damage, several as one, and what FROM reads of them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lowwater.cli.main import cli
from lowwater.config import FILE_NAME, LINK_NAME, Config, Link
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.interfaces import link_names
from lowwater.lake.layout import MALFORMED, Lake, open_lake
from lowwater.lake.ledgers.captures import interface_links, read_captures
from lowwater.lake.packets import read_packets
from lowwater.lake.tables import read_rows, safe_name
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.job import Job
from tests.capturemaker import tcp
from tests.lake.support import BASE, at, capture

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


def pcapng(path: Path, names: Sequence[str], packets: Iterable[tuple[float, int]], cut: int = 0) -> Path:
    """A pcapng with nanosecond interfaces of these names, and packets (second, interface)."""
    blocks = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for name in names:
        options = struct.pack("<HHB3x", 9, 1, 9)
        if name:
            text = name.encode()
            options += struct.pack("<HH", 2, len(text)) + text + bytes(-len(text) % 4)
        blocks.append(block(1, struct.pack("<HHI", 1, 0, 65535) + options + bytes(4)))
    for second, interface in packets:
        frame = tcp("10.0.0.1", "10.0.0.2", 1000 + round(second), 80)
        stamp = at(second)
        head = struct.pack("<IIIII", interface, stamp >> 32, stamp & 0xFFFFFFFF, len(frame), len(frame))
        blocks.append(block(6, head + frame))
    data = b"".join(blocks)
    path.write_bytes(data[: len(data) - cut])
    return path


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


def contents(lake: Lake, link: str) -> list[tuple[int, int, int]]:
    """(position, arrival, timestamp) of every packet of a link, in seconds after BASE."""
    captures = read_captures(lake, [link])[link]
    batches = read_packets(lake, link, captures, CONFIG.link(link), 0, 0, 1 << 62)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["position"], *((row[name] - BASE) // 10**9 for name in ("arrival", "timestamp"))) for row in rows]


def test_names_of_interfaces_become_names_of_links() -> None:
    names = ["eth0", "\\Device\\NPF_{1}", "eth 0", "eth_0", ""]
    found = link_names("a", names, Path("x"), False)
    assert found == ["a/eth0", "a/_Device_NPF__1_", "a/eth_0", "a/eth_0-2", "a/4"]
    assert link_names("a", ["eth0"], Path("x"), False) == ["a"]
    assert link_names("a", ["eth0", "eth1"], Path("x"), True) == ["a", "a"]


def test_a_link_stands_for_its_interfaces_where_it_has_no_captures_of_its_own() -> None:
    standing = interface_links(["a/0", "a/1", "b", "b/0"])
    links = Links(("a", "a/0", "a/1", "b", "b/0"), {"s": ("a", "b")}, interfaces=standing)

    def read(source: str) -> list[str]:
        return plan_texts([("q.gsql", f"DEFINE {{ query_name 'q'; }} SELECT time FROM {source}")], links).links

    assert read("a.TCP") == read("a") == ["a/0", "a/1"]
    assert read('"a/1".TCP') == ["a/1"]
    assert read("[s].TCP") == ["a/0", "a/1", "b"]
    assert read("b.TCP") == ["b"]
    assert read("TCP") == ["a/0", "a/1", "b", "b/0"]
    with pytest.raises(Exception, match=r"no link is called a/2"):
        read('"a/2".TCP')


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
    assert Job.open(lake.root, "q", tmp_path).plan.links == ["a"]


def test_each_interface_is_a_link_with_the_coverage_of_the_file(lake: Lake, tmp_path: Path) -> None:
    (done,) = ingest(lake, "a", [pcapng(tmp_path / "a.pcapng", EACH, PACKETS)], CONFIG, COVERS)
    assert [(row.link, row.interface, row.packets, row.covers_from, row.covers_to) for row in done.captures] == [
        ("a/2", "2", 0, *COVERS),
        ("a/eth0", "eth0", 3, *COVERS),
        ("a/eth1", "eth1", 2, *COVERS),
    ]
    assert contents(lake, "a/eth0") == [(0, 1, 1), (2, 2, 2), (4, 5, 5)]
    assert contents(lake, "a/eth1") == [(1, 3, 3), (3, 4, 4)]
    assert contents(lake, "a/2") == [] == contents(lake, "a")
    (again,) = ingest(lake, "a", [tmp_path / "a.pcapng"], CONFIG, COVERS)
    assert again.state == "known" and again.captures == done.captures


def test_one_interface_is_the_link_itself(lake: Lake, tmp_path: Path) -> None:
    (done,) = ingest(lake, "a", [pcapng(tmp_path / "a.pcapng", ["eth0"], [(1, 0), (2, 0)])], CONFIG)
    assert [(row.link, row.interface) for row in done.captures] == [("a", "eth0")]
    assert contents(lake, "a") == [(0, 1, 1), (1, 2, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "gzip"])
def test_several_as_one_in_the_order_of_the_file(lake: Lake, tmp_path: Path, form: str) -> None:
    path = pcapng(tmp_path / "a.pcapng", EACH, PACKETS, cut=5)
    if form == "gzip":
        import gzip

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


def test_a_growing_file_with_several_interfaces_and_one_that_comes_later(lake: Lake, tmp_path: Path) -> None:
    pcapng(tmp_path / "a.pcapng", EACH, PACKETS[:3])
    ingest(lake, "a", [tmp_path / "a.pcapng"], CONFIG, COVERS, growing=True)
    assert {row.covers_to for rows in read_captures(lake, ["a/2", "a/eth1"]).values() for row in rows} == {at(3)}
    whole = tmp_path / "a.pcapng"
    late = pcapng(tmp_path / "late.pcapng", ["eth9"], [(9, 0)]).read_bytes()
    whole.write_bytes(whole.read_bytes() + late)  # another section, with another interface
    (done,) = ingest(lake, "a", [whole], CONFIG, COVERS)
    assert done.state == "replaced"
    assert [row.link for row in done.captures] == ["a/2", "a/eth0", "a/eth1", "a/eth9"]
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
    assert wrong.exit_code == 1 and "did you mean a/eth0 or a/eth1" in str(wrong.exception)


def test_any_names_of_interfaces_are_names_of_links_and_folders() -> None:
    names = [
        "../../x",
        "..",
        ".",
        "a/b",
        "a\0b",
        "a_b",
        "\x1b[31m",
        "\u00e9" * 300,
        "x" * 64_000,
        "x" * 64,
        "",
        " ",
        "a_b-2",
        "-",
    ]
    found = link_names("main", names, Path("one.pcapng"), False)
    assert len(set(found)) == len(names) and all(re.fullmatch(LINK_NAME, link) for link in found)
    folders = [safe_name(link) for link in found]
    assert len(set(folders)) == len(names)
    assert all("/" not in folder and folder.startswith("main@") and len(folder) < 100 for folder in folders)
