"""Erasure: packets, rows, logs and files of a host go; the rest is what a lake without its packets has."""

from __future__ import annotations

import gzip
import ipaddress
import lzma
import os
import re
import shutil
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import dpkt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lowwater.capture import copies
from lowwater.errors import BehindError, CaptureError
from lowwater.lake import erasure, locks, open_tables, tables
from lowwater.lake.layout import lake_to_read
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.results.subscription import subscribe
from lowwater.lake.sought import Sought
from lowwater.storage import paths
from tests.breadth import each_push
from tests.capturemaker import pcap_bytes
from tests.cli.hostile import clean
from tests.lake.damage import TO, copied, prepare, rows_of
from tests.pcapngmaker import Section

MORE = """DEFINE { query_name 'bytes'; }
SELECT tb, sum(len) AS bytes, count(*) AS cnt FROM DataProtocol GROUP BY time/600 AS tb;

DEFINE { query_name 'both'; }
SELECT A.time, A.srcIP, A.len + B.len AS both
FROM main1.DataProtocol A JOIN main2.DataProtocol B
WHERE A.time = B.time AND A.protocol = B.protocol"""
Rows = dict[str, list[tuple[object, ...]]]
STREAMS = ("flows", "bytes", "both")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two links with sums, a join, reports, and metrics by address; one capture is by gzip, one a pcapng."""
    folder = prepare(tmp_path_factory.mktemp("published"))
    (folder / "q" / "more.gsql").write_text(MORE)
    settings = folder / "lake" / "lowwater.toml"
    text = settings.read_text().replace("%SZ.pcap", "%SZ.*") + '[query_sets.more]\nfiles = ["../q/more.gsql"]\n'
    settings.write_text(text)
    first, second = sorted((folder / "captures" / "main1").iterdir())[:2]
    subprocess.run(["gzip", first], check=True)
    subprocess.run(["editcap", "-F", "pcapng", second, second.with_suffix(".pcapng")], check=True)
    second.unlink()
    make(folder)
    return folder


def make(folder: Path) -> None:
    clean("ingest", "--lake", folder / "lake")
    clean("backfill", "--lake", folder / "lake", "--to", TO)


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path)


@pytest.fixture(scope="module")
def host(published: Path) -> str:
    """A host in bounds of logs, and in metrics by address."""
    found = Counter(str(row[1]) for row in rows_of(published / "lake"))
    return min(found)


def without(folder: Path, host: str) -> None:
    """Writes the captures anew without the packets of a host, by dpkt."""
    address = socket.inet_aton(host)
    for path in sorted((folder / "captures").rglob("*.*")):
        plain = path
        if path.suffix != ".pcap":
            plain = path.with_suffix("") if path.suffix == ".gz" else path.with_suffix(".pcap")
            subprocess.run(["editcap", "-F", "nsecpcap", path, plain], check=True)
            path.unlink()
        data, at = plain.read_bytes(), 24
        order = "<" if data[:4] in (b"\x4d\x3c\xb2\xa1", b"\xd4\xc3\xb2\xa1") else ">"
        kept = [data[:24]]
        while at < len(data):
            size = 16 + struct.unpack_from(f"{order}I", data, at + 8)[0]
            if not is_of(data[at + 16 : at + size], address):
                kept.append(data[at : at + size])
            at += size
        plain.write_bytes(b"".join(kept))


def is_of(frame: bytes, address: bytes) -> bool:
    inside = dpkt.ethernet.Ethernet(frame).data
    return isinstance(inside, dpkt.ip.IP) and address in (inside.src, inside.dst)


@pytest.fixture(scope="module")
def expected(published: Path, host: str, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows of a lake that is made of captures without the host."""
    folder = copied(published, tmp_path_factory.mktemp("expected"))
    settings = (folder / "lake" / "lowwater.toml").read_text()
    shutil.rmtree(folder / "lake")
    (folder / "lake").mkdir()
    (folder / "lake" / "lowwater.toml").write_text(settings)
    without(folder, host)
    make(folder)
    return rows(folder)


def rows(folder: Path) -> Rows:
    return {stream: rows_of(folder / "lake", stream) for stream in STREAMS}


def holding(lake: Path, host: str) -> list[str]:
    """Which files of a folder have an address: in any value of a column, in any text, or anywhere in their bytes."""
    address = ipaddress.ip_address(host)
    text = re.compile(rb"(?<![0-9.])" + re.escape(host.encode()) + rb"(?![0-9]|\.[0-9])")
    number = re.compile(rb"(?<![0-9])%d(?![0-9])" % int(address))
    found = []
    for path in sorted(each for each in lake.rglob("*") if each.is_file()):
        data = path.read_bytes()
        whole = [data]
        if path.name.endswith(".parquet"):
            for column in pq.read_table(path, partitioning=None).flatten().columns:
                whole += [
                    str(value).encode() if not isinstance(value, bytes) else value for value in column.to_pylist()
                ]
        joined = b"\n".join(whole)
        if text.search(joined) or number.search(joined) or any(address.packed in each for each in whole[1:]):
            found.append(path.relative_to(lake).as_posix())
    return found


def of_host(host: str) -> str:
    return f"srcIP = '{host}' OR destIP = IP_VAL'{host}'"


def erase(folder: Path, host: str, *more: object, code: int = 0) -> str:
    return clean("erase", "--lake", folder / "lake", "--where", of_host(host), *more, code=code).out


YES = ("--yes", "--why", "request 17", "--by", "ann")


def state(folder: Path) -> dict[str, str]:
    """The bytes of each file."""
    files = (each for each in folder.rglob("*") if each.is_file() and "_locks" not in each.parts)
    return {each.relative_to(folder).as_posix(): sha256(each.read_bytes()).hexdigest() for each in files}


def test_a_host_that_is_erased_is_nowhere_and_the_rest_is_as_without_it(
    folder: Path, host: str, expected: Rows
) -> None:
    lake = folder / "lake"
    assert any("_delta_log" in name for name in holding(lake, host))
    assert {"metrics", "tables", "streams", "lfta", "packets"} <= {name.split("/")[0] for name in holding(lake, host)}
    before = state(folder)
    said = erase(folder, host)
    assert "nothing was changed" in said and "the capture files stay as they are" in said and "tables/flows" in said
    assert state(folder) == before
    said = erase(folder, host, *YES)
    assert "nothing is left in the lake" in said and "capture files still have the packets" in said
    assert holding(lake, host) == []
    assert rows(folder) == expected
    status = clean("status", "--lake", lake).out
    assert re.search("stale|damaged|incomplete", status) is None
    gone = sum(int(count) for count in re.findall(r"link main\d: (\d+) packets\n", said))
    told = re.findall(r"link main\d: (\d+) packets were erased", status)
    assert gone == sum(map(int, told)) > 0 and "packets were erased" in clean("report", "--lake", lake).out
    log = " ".join(clean("log", "--lake", lake).out.split())
    assert "ann erase" in log and "request 17" in log and host not in log
    assert "no packet in the lake meets it" in erase(folder, host)
    clean("verify", "--lake", lake, "--data")
    clean("maintain", "--lake", lake)


def test_captures_are_replaced_by_copies_that_are_read(folder: Path, host: str, expected: Rows) -> None:
    files = sorted(path for path in (folder / "captures").rglob("*.*"))
    counts = {path: frames(path) for path in files}
    said = erase(folder, host, "--captures", *YES)
    assert "nothing is left in the lake and its captures" in said
    assert sorted(path for path in (folder / "captures").rglob("*.*")) == files
    for path in files:
        address = socket.inet_aton(host)
        assert frames(path) == [frame for frame in counts[path] if not is_of(frame, address)], path.name
    assert rows(folder) == expected and holding(folder / "lake", host) == []
    clean("ingest", "--lake", folder / "lake")
    assert "stale" not in clean("plan", "--lake", folder / "lake").out


def frames(path: Path) -> list[bytes]:
    """The frames of a capture, as editcap reads them."""
    plain = subprocess.run(["editcap", "-F", "pcap", path, "-"], check=True, capture_output=True).stdout
    made = path.parent / ".frames"
    made.write_bytes(plain)
    with made.open("rb") as file:
        found = [frame for _, frame in dpkt.pcap.Reader(file)]
    made.unlink()
    return found


def test_a_copy_has_nothing_that_was_erased_from_the_lake_before(folder: Path, host: str) -> None:
    """Counterexample: the second erasure wrote a copy with the packets of the first, which was read."""
    lake = folder / "lake"
    erase(folder, host, *YES)
    other = max(str(row[1]) for row in rows_of(lake) if "." in str(row[1]))
    original = {path: frames(path) for path in captures_of(folder)}
    erase(folder, other, "--captures", *YES)
    assert holding(lake, host) == holding(lake, other) == []
    both, mine = [socket.inet_aton(each) for each in (host, other)], socket.inet_aton(other)
    for path, before in original.items():
        gone = both if any(is_of(frame, mine) for frame in before) else []
        assert frames(path) == [frame for frame in before if not any(is_of(frame, each) for each in gone)], path.name
    assert "stale" not in clean("status", "--lake", lake).out


def test_what_was_erased_does_not_come_back(folder: Path, host: str) -> None:
    """By another look, under another name, in another link, by another decoder, in another compression."""
    lake = folder / "lake"
    erase(folder, host, *YES)
    now = rows(folder)
    original = sorted((folder / "captures" / "main2").iterdir())[1]
    os.utime(original)
    assert "of its packets were erased" in " ".join(clean("ingest", "--lake", lake).out.split())
    other = folder / "other.pcap.gz"
    other.write_bytes(subprocess.run(["gzip", "-c", original], check=True, capture_output=True).stdout)
    said = clean("ingest", "--lake", lake, "--link", "main1", other, code=1).err
    assert "it is not read" in said and "erased" in said and "by ann: request 17" in said
    (lake / "lowwater.toml").write_text(
        (lake / "lowwater.toml").read_text().replace('skew = "2s"', 'skew = "2s"\npayload = 64')
    )
    clean("ingest", "--lake", lake)
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows(folder) == now and holding(lake, host) == []


def test_subscribers_and_pages_go_on(folder: Path, host: str) -> None:
    lake = folder / "lake"
    with subscribe(lake, "flows", name="app") as changes:
        while (change := changes.poll()) is not None:
            list(change.rows())
            changes.done(change)
    erase(folder, host, *YES)
    with (
        pytest.raises(BehindError, match="values were erased from its log") as told,
        subscribe(lake, "flows", name="app"),
    ):
        pass
    assert "begin again" in told.value.hint
    found: list[object] = []
    with subscribe(lake, "flows") as changes:
        while (change := changes.poll()) is not None:
            found += list(change.rows())
            changes.done(change)
    assert found and f"'{host}'" not in str(found)
    for command in ("status", "report", "streams", "metrics", "plan"):
        clean(command, "--lake", lake)


def test_it_waits_for_no_run_and_its_reason_does_not_name_the_host(folder: Path, host: str) -> None:
    lake = lake_to_read(folder / "lake")
    before = state(folder)
    said = clean("erase", "--lake", lake.root, "--where", of_host(host), "--yes", "--why", f"all of {host}", code=1)
    assert "the log keeps it for ever" in said.err and state(folder) == before
    clean("erase", "--lake", lake.root, "--where", of_host(host), "--yes", code=2)
    assert "srcIPP" in clean("erase", "--lake", lake.root, "--where", "srcIPP = 1", code=1).err
    with locks.hold_range(lake, "flows", 0, 1 << 60):
        assert "is at work" in clean("erase", "--lake", lake.root, "--where", of_host(host), *YES, code=1).err
    assert "nothing is left" in erase(folder, host, *YES)


def test_rows_whose_hours_nothing_makes_again_are_deleted_and_said(folder: Path, host: str) -> None:
    """The query is retired, and its table was kept."""
    lake = folder / "lake"
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace('[query_sets.flows]\nfiles = ["../q/flows.gsql"]\n', ""))
    no_queries = "--queries", folder / "captures"
    clean("retire", "set", "flows", "--lake", lake, "--keep", "--why", "nobody makes it", *no_queries)
    there = [row for row in rows_of(lake) if host in row]
    assert there
    said = erase(folder, host, *YES, *no_queries)
    assert f"tables/flows: {len(there):,} rows deleted" in said and "sums may still count them" in said
    assert holding(lake, host) == []
    assert not [row for row in rows_of(lake) if host in row] and rows_of(lake)


@pytest.mark.parametrize("captures", each_push((True, False), 2))
def test_who_is_killed_at_a_write_again_and_again_ends_well(
    captures: bool,
    folder: Path,
    host: str,
    expected: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Killed(BaseException):
        pass

    more = ("--captures",) if captures else ()
    for at in (1, 4, 9, 20) if captures else (0, 2, 3, 6, 12, 30):
        count = iter(range(1 << 30))

        def killing(work: Callable[..., object], count: Iterator[int] = count, at: int = at) -> object:
            def step(*arguments: object, **named: object) -> object:
                if next(count) == at:
                    raise Killed
                return work(*arguments, **named)

            return step

        with monkeypatch.context() as patched:
            for module, name in (
                *((tables, name) for name in ("swap_files", "append_rows", "replace_rows")),
                *((paths, name) for name in ("write", "remove", "remove_tree")),
                (copies, "replace_without"),
                (erasure, "clean"),
            ):
                patched.setattr(module, name, killing(getattr(module, name)))
            try:
                erase(folder, host, *more, *YES)
            except Killed:
                pass
            else:
                break
        open_tables._OPEN.tables.clear()
        clean("status", "--lake", folder / "lake")
    assert at > 3
    assert "nothing is left" in erase(folder, host, *more, *YES)
    assert rows(folder) == expected and holding(folder / "lake", host) == []
    if captures:
        assert not any(is_of(frame, socket.inet_aton(host)) for path in captures_of(folder) for frame in frames(path))


def captures_of(folder: Path) -> list[Path]:
    return sorted((folder / "captures").rglob("*.*"))


# What the condition sees

HOST, OTHER, THIRD = "192.0.2.7", "198.51.100.1", "203.0.113.9"
START = 1_767_225_600_000_000_000


def ip(source: str, target: str, protocol: int, inner: bytes) -> bytes:
    return bytes(
        dpkt.ip.IP(
            src=socket.inet_aton(source), dst=socket.inet_aton(target), p=protocol, data=inner, len=20 + len(inner)
        )
    )


def frame(packet: bytes) -> bytes:
    return bytes(12) + b"\x08\x00" + packet


def udp(payload: bytes) -> bytes:
    return struct.pack(">HHHH", 4000, 53, 8 + len(payload), 0) + payload


PACKETS = {
    "of another host": frame(ip(OTHER, THIRD, 17, udp(b"hello"))),
    "of the host": frame(ip(OTHER, HOST, 17, udp(b"hello"))),
    "in a tunnel": frame(ip(OTHER, THIRD, 4, ip(HOST, OTHER, 17, udp(b"inside")))),
    "an error that quotes it": frame(ip(OTHER, THIRD, 1, b"\x03\x01\0\0\0\0\0\0" + ip(HOST, OTHER, 17, udp(b"")))),
    "a name in a text": frame(ip(OTHER, THIRD, 17, udp(b"Host: 192.0.2.7\r\n"))),
    "of a host whose address begins so": frame(ip(OTHER, "192.0.2.71", 17, udp(b"x"))),
    "an ARP request": bytes(12) + bytes.fromhex("08060001080006040001") + bytes(6) + socket.inet_aton(HOST) + bytes(10),
}
STAYS = ("of another host", "of a host whose address begins so")


def small(folder: Path, link: str, capture: bytes, name: str = "a.pcap") -> Path:
    """A lake with one capture and no query."""
    lake = folder / "lake"
    lake.mkdir()
    (lake / "lowwater.toml").write_text(f'[links.a]\ncaptures = "../captures/a*"\n{link}')
    (folder / "captures").mkdir()
    (folder / "captures" / name).write_bytes(capture)
    clean("ingest", "--lake", lake, "--link", "a", folder / "captures" / name)
    return folder


def packets(lake: Path) -> int:
    table = DeltaTable(str(lake / "packets")).to_pyarrow_table()
    return table.num_rows


PACKED: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gzip": (gzip.compress, gzip.decompress),
    "xz": (lzma.compress, lzma.decompress),
    **{
        name: (
            partial(pa.Codec(name).compress, asbytes=True),
            lambda data, name=name: pa.input_stream(pa.BufferReader(data), compression=name).read(),
        )
        for name in ("zstd", "lz4")
    },
}


@pytest.mark.parametrize(
    "kind",
    ["pcap", "pcapng", "gzip", "zstd", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("xz", "lz4"))],
)
def test_an_address_is_found_in_any_header_and_any_byte_that_is_kept(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_FRAME", 200)
    records = [(START + number * 1_000_000_000, each) for number, each in enumerate(PACKETS.values())]
    made = pcap_bytes(records)
    if kind == "pcapng":
        section = Section()
        blocks = [section.packet(stamp // 1000, each, number % 2) for number, (stamp, each) in enumerate(records)]
        names = section.block(4, section.pack("HH", 1, 4 + 6) + socket.inet_aton(HOST) + b"alice\0\0\0" + bytes(4))
        made = b"".join([section.header(), section.interface("eth0"), section.interface("eth1"), names, *blocks])
    pack, unpack = PACKED.get(kind, (bytes, bytes))
    folder = small(tmp_path, 'payload = "all"\n', pack(made))
    lake, of_lake = folder / "lake", ("erase", "--lake", folder / "lake", "--where", f"destIP = '{HOST}'")
    assert packets(lake) == len(PACKETS)
    clean(*of_lake, "--captures", *YES)
    assert packets(lake) == len(STAYS) and holding(lake, HOST) == []
    (capture,) = (folder / "captures").iterdir()
    data = unpack(capture.read_bytes())
    assert socket.inet_aton(HOST) not in data.replace(socket.inet_aton("192.0.2.71"), b"")
    assert [name for name, each in PACKETS.items() if each in data] == [*STAYS]
    assert "known" in clean("ingest", "--lake", lake, "--link", "a", capture).out


def test_without_the_bytes_the_columns_tell(tmp_path: Path) -> None:
    """A lake of headers has the inner ones and ARP; what an error quotes is not in it."""
    made = pcap_bytes([(START + number * 1_000_000_000, each) for number, each in enumerate(PACKETS.values())])
    lake = small(tmp_path, "", made) / "lake"
    where = "erase", "--lake", lake, "--where", f"srcIP <<= '{HOST}/32'"
    assert "link a: 3 packets" in clean(*where).out
    clean(*where, *YES)
    assert packets(lake) == len(PACKETS) - 3 and holding(lake, HOST) == []


def test_a_condition_with_and_takes_only_what_meets_it(tmp_path: Path) -> None:
    made = pcap_bytes([(START + number * 1_000_000_000, each) for number, each in enumerate(PACKETS.values())])
    lake = small(tmp_path, "", made) / "lake"
    where = "erase", "--lake", lake, "--where", f"destIP = '{HOST}' AND destPort = 53"
    assert "no scan can prove that" in clean(*where).out
    clean(*where, *YES)
    assert packets(lake) == len(PACKETS) - 1


def test_all_packets_of_a_capture_may_go_and_it_covers_what_it_did(tmp_path: Path) -> None:
    made = pcap_bytes([(START + number * 1_000_000_000, PACKETS["of the host"]) for number in range(3)])
    folder = small(tmp_path, "", made)
    lake = folder / "lake"
    before = read_captures(lake_to_read(lake), ["a"])["a"].spans
    clean("erase", "--lake", lake, "--where", of_host(HOST), *YES)
    assert packets(lake) == 0 and holding(lake, HOST) == []
    (capture,) = read_captures(lake_to_read(lake), ["a"])["a"]
    assert (capture.packets, capture.erased) == (0, 3)
    assert read_captures(lake_to_read(lake), ["a"])["a"].spans == before
    os.utime(folder / "captures" / "a.pcap")
    said = " ".join(clean("ingest", "--lake", lake, "--link", "a", folder / "captures" / "a.pcap").out.split())
    assert "3 of its packets were erased" in said and packets(lake) == 0


def test_records_that_are_no_packets_go_from_the_lake_and_their_file_is_named(tmp_path: Path) -> None:
    lines = ["192.0.2.7,closed", "10.0.0.2,open", "10.0.0.1,via 192.0.2.7", "10.0.0.2,open"]
    fields = (
        "llong start get_csv_iso_to_timestamp (increasing, unit ms); IP client get_csv_ip; string state get_csv_string;"
    )
    folder = tmp_path / "lake"
    folder.mkdir()
    (folder / "flow.gsql").write_text(f"PROTOCOL FLOW {{ {fields} }}")
    (folder / "lowwater.toml").write_text('[links.a]\nkind = "csv"\nschemas = ["flow.gsql"]\n')
    for name, chosen in (("f.csv", lines), ("g.csv", ["10.0.0.3,open"] * 3)):
        rows = [f"2026-01-01T0{int(name > 'g')}:00:0{number}Z,{each}" for number, each in enumerate(chosen)]
        (tmp_path / name).write_text("\n".join(["start,client,state", *rows, ""]))
        clean("ingest", "--lake", folder, "--link", "a", tmp_path / name)
    said = clean("erase", "--lake", folder, "--where", f"client = '{HOST}'", "--captures", *YES, code=1).out
    assert "link a: 2 packets" in said and "f.csv" in said and "g.csv" not in said
    assert holding(folder, HOST) == [] and "f.csv: is no pcap or pcapng" in said
    assert DeltaTable(str(folder / "records" / "a")).to_pyarrow_table().num_rows == 5
    assert "nothing is left" in clean("erase", "--lake", folder, "--where", f"client = '{HOST}'", *YES).out


def test_a_capture_that_is_still_written_is_refused(tmp_path: Path) -> None:
    made = pcap_bytes([(START, PACKETS["of the host"])])
    folder = small(tmp_path, "", made)
    lake, capture = folder / "lake", folder / "captures" / "a.pcap"
    clean("ingest", "--lake", lake, "--link", "a", "--growing", capture)
    said = clean("erase", "--lake", lake, "--where", of_host(HOST), *YES, code=1).err
    assert "a.pcap: is still being written" in said and packets(lake) == 1
    clean("ingest", "--lake", lake, "--link", "a", capture)
    clean("erase", "--lake", lake, "--where", of_host(HOST), *YES)


# Values


ADDRESS = Sought((ipaddress.ip_network("192.0.2.7/32"), ipaddress.ip_network("2001:db8::1/128")), (0x0011223344FF,))


@pytest.mark.parametrize(
    ("data", "there"),
    [
        (b'{"max":"192.0.2.7"}', True),
        (b"192.0.2.77 192.0.2.70 1192.0.2.7 192.0.2.7.1", False),
        (b"::ffff:192.0.2.7", True),
        (b"the end is 192.0.2.7.", True),
        (b'"2001:0DB8:0:0::0001"', True),
        (b"2001:db8::10 2001:db8::1:1", False),
        (b"3221225991", True),
        (b"32212259911 0.3221225991", False),
        (b"00-11-22-33-44-FF", True),
        (b"12:30:00", False),
    ],
)
def test_a_value_is_found_in_any_spelling(data: bytes, there: bool) -> None:
    assert ADDRESS.in_text(data) is there


def test_networks_are_found_as_addresses_are() -> None:
    network = Sought((ipaddress.ip_network("10.1.2.0/25"),))
    assert network.in_text(b"10.1.2.127") and not network.in_text(b"10.1.2.128")
    assert network.in_bytes(b"\x0a\x01\x02\x7f") and not network.in_bytes(b"\x0a\x01\x02\x80")
    assert Sought((ipaddress.ip_network("10.0.0.0/8"),)).unseen == ["10.0.0.0/8"]
    words = pa.table(
        {"ipversion": [4, 4, 6, None], "srcIP_hi": [0, 0, 0, 0], "srcIP_lo": [0x0A010203, 0x0B010203, 0x0A010203, 1]}
    )
    assert Sought((ipaddress.ip_network("10.0.0.0/8"),)).rows(words).tolist() == [True, False, False, False]


def test_a_copy_that_is_not_what_was_read_is_refused(tmp_path: Path, published: Path) -> None:
    capture = next(path for path in captures_of(published) if path.suffix == ".pcap")
    mine = tmp_path / capture.name
    shutil.copy(capture, mine)
    with pytest.raises(CaptureError, match="not what the lake has read"):
        copies.replace_without(mine, {0: b"another frame"}, lambda frame: False)
    assert mine.read_bytes() == capture.read_bytes() and [*tmp_path.iterdir()] == [mine]
    mine.write_bytes(mine.read_bytes()[:-3])
    with pytest.raises(CaptureError, match="damaged"):
        copies.without(mine, {}, lambda frame: False, None)
    mine.write_text("time,src\n1,2\n")
    with pytest.raises(CaptureError, match="no pcap"):
        copies.without(mine, {}, lambda frame: False, None)
