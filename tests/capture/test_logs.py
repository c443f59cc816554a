"""Logs of Zeek, Suricata and nfdump: every column has its value, and every byte of a file is accounted for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.reader import RecordReader
from lowwater.catalog.protocols import READY
from lowwater.catalog.records import INSTANT, LIST, PROTOCOL_NAME, RecordField
from lowwater.catalog.values import Type, format_ip, ip_from_words
from tests.breadth import examples
from tests.capture.fuzz_logs import check
from tests.capture.logmaker import BEGIN, SECOND, as_lines, capture, conn, eve, talks, zeek_header, zeek_json, zeek_tsv
from tests.capture.tablemaker import Row, write

JUMP = 10_000 * SECOND
ZEEK = [name for name in READY if name.startswith("ZEEK_")]


def read(path: Path, protocol: str) -> tuple[list[Row], RecordReader]:
    """The records of a log by the names of the fields, addresses as texts; and the reader after its end."""
    layout, kind = READY[protocol].layout, READY[protocol].kind
    assert layout is not None
    reader = RecordReader(path, TableOptions(kind, layout), JUMP, "")
    rows = []
    for batch in reader:
        for stored in batch.to_pylist():
            row = {name.partition(":")[2]: value for name, value in stored.items() if ":" in name}
            for field in layout.fields:
                if field.type is Type.IP:
                    version, high, low = (stored[f"ip.{word}:{field.name}"] for word in ("version", "high", "low"))
                    row[field.name] = None if version is None else format_ip(ip_from_words(version, high, low))
            rows.append(row)
    return rows, reader


def accounted(reader: RecordReader, size: int) -> bool:
    """Whether records, malformed records and overhead add up to the size of the file."""
    assert reader.summary is not None
    lengths = sum(row["length"] for row in reader.malformed.to_pylist())
    return reader.summary.record_bytes + lengths + reader.summary.overhead == size


def reasons(reader: RecordReader) -> list[tuple[int, str]]:
    return [(row["line"], row["reason"]) for row in reader.malformed.to_pylist()]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.BOOL: st.booleans(),
    Type.INT: st.integers(0, 1 << 40),
    Type.FLOAT: st.integers(0, 10**9).map(lambda micros: micros / 1_000_000),
    Type.STRING: TEXT,
    Type.IP: st.sampled_from(("10.0.0.1", "255.255.255.255", "2001:db8::1", "::")),
}


def drawn(field: RecordField) -> st.SearchStrategy[Any]:
    """Values of a column of Zeek."""
    if field.form == INSTANT:
        return st.integers(BEGIN * 1_000_000, (BEGIN + 50) * 1_000_000).map(lambda micros: micros * 1_000)
    if field.form == PROTOCOL_NAME:
        return st.sampled_from(("tcp", "udp", "unknown_transport"))
    if field.form == LIST:
        return st.none() | st.lists(TEXT.filter(lambda text: text not in ("", "-", "(empty)")), max_size=3)
    return st.none() | VALUES[field.type]


def expected(field: RecordField, value: Any) -> Any:
    """The value of a field for a value of its column."""
    if field.form == PROTOCOL_NAME:
        return {"tcp": 6, "udp": 17}.get(value)
    if field.form == LIST and value is not None:
        return ",".join(part.replace(",", "\\x2c") for part in value)
    return value


def columns(protocol: str) -> dict[str, RecordField]:
    """Name of each column of the log -> the field with its type."""
    layout = READY[protocol].layout
    assert layout is not None
    return {field.path[0]: field for field in reversed(layout.fields)}


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.parametrize("protocol", ZEEK)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(12))
@given(data=st.data())
def test_every_column_of_zeek_keeps_its_value(protocol: str, tmp_path: Path, data: st.DataObject) -> None:
    known, layout = columns(protocol), READY[protocol].layout
    assert layout is not None
    one = st.fixed_dictionaries({name: drawn(field) for name, field in known.items()})
    rows = sorted(data.draw(st.lists(one, min_size=1, max_size=4)), key=lambda row: int(row["ts"]))
    wanted = [{field.name: expected(field, row[field.path[0]]) for field in layout.fields} for row in rows]
    form = {"separator": data.draw(st.sampled_from("\t |")), "lists": data.draw(st.sampled_from(",;"))}
    name = layout.member
    text = zeek_header(name, known, **form) + zeek_tsv(rows, list(known), **form) + b"#close\t2026\n"
    got, reader = read(write(tmp_path / "log", text), protocol)
    assert got == wanted
    assert accounted(reader, len(text))
    lines = zeek_json(rows)
    got, reader = read(write(tmp_path / "log", lines), protocol)
    assert got == wanted
    assert accounted(reader, len(lines))


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["", "gzip", "zstd"])
def test_zeek_reads_as_duckdb_does(compression: str, tmp_path: Path) -> None:
    rows = conn(talks(5, 400))
    names = list(rows[0])
    text = zeek_header("conn", names) + zeek_tsv(rows, names) + b"#close\t2026-01-01-00-01-00\n"
    (tmp_path / "plain").write_bytes(text)
    got, reader = read(write(tmp_path / "log", text, compression), "ZEEK_CONN")
    assert not reader.malformed.num_rows
    sql = duckdb.connect()
    types = dict.fromkeys(names, "VARCHAR")
    source = (
        f"read_csv('{tmp_path}/plain', delim='\t', comment='#', header=false, nullstr='-', quote='', escape='', "
        f"auto_detect=false, columns={types})"
    )
    query = (
        f'SELECT round(ts::DECIMAL(20, 6) * 1000000)::BIGINT * 1000, uid, "id.orig_h", "id.orig_p"::INT, '
        f"duration::DOUBLE, orig_bytes::BIGINT, local_orig = 'T', resp_ip_bytes::BIGINT FROM {source}"
    )
    fields = ["timestamp", "uid", "srcIP", "srcPort", "duration", "orig_bytes", "local_orig", "resp_ip_bytes"]
    assert [tuple(row[name] for name in fields) for row in got] == sql.execute(query).fetchall()


@pytest.mark.slow
def test_json_of_suricata_reads_as_duckdb_does(tmp_path: Path) -> None:
    events = eve(talks(6, 300))
    path = write(tmp_path / "eve.json", as_lines(events))
    sql = duckdb.connect()
    source = f"read_json('{path}', format='newline_delimited', maximum_object_size=1048576, sample_size=-1)"
    stamp = "epoch_ns({}::TIMESTAMPTZ)"
    asked = {
        "EVE_FLOW": (
            (
                "timestamp", "flow_end", "logged", "flow_id", "srcIP", "flow_bytes_toclient", "flow_alerted",
                "community_id",
            ),
            f"{stamp.format('flow.start')}, {stamp.format('flow.end')}, {stamp.format('timestamp')}, flow_id, "
            "src_ip, flow.bytes_toclient, flow.alerted, community_id",
        ),
        "EVE_DNS": (
            ("timestamp", "destPort", "dns_rrname", "dns_id"),
            f"{stamp.format('timestamp')}, dest_port, dns.rrname, dns.id",
        ),
        "EVE_ALERT": (("alert_signature", "alert_severity", "proto"), "alert.signature, alert.severity, proto"),
    }  # fmt: skip
    for protocol, (fields, selected) in asked.items():
        got, reader = read(path, protocol)
        member = protocol.partition("_")[2].lower()
        wanted = sql.execute(f"SELECT {selected} FROM {source} WHERE event_type = '{member}'").fetchall()
        assert [tuple(row[name] for name in fields) for row in got] == wanted
        assert len(got) > 50
        assert reader.summary is not None
        counts = dict(sql.execute(f"SELECT event_type, count(*) FROM {source} GROUP BY ALL").fetchall())
        del counts[member]
        assert dict(reader.summary.blocks) == counts
        assert accounted(reader, path.stat().st_size)


NAMES = ["ts", "uid", "id.orig_h", "orig_bytes"]


def line(second: int, uid: str = "C1", source: str = "10.0.0.1", count: str = "1") -> bytes:
    return f"{BEGIN + second}.0\t{uid}\t{source}\t{count}\n".encode()


def test_bad_lines_of_zeek_are_named(tmp_path: Path) -> None:
    bad = [
        (line(0, source="10.0.0.300"), "value of srcIP"),
        (line(0, count="1.5"), "value of orig_bytes"),
        (line(0)[:-3] + b"\n", "columns"),
        (b"-\tC\t10.0.0.1\t1\n", "no-time"),
        (b"yesterday\tC\t10.0.0.1\t1\n", "value of timestamp"),
        (line(0, "C").replace(b"C", b"\xff"), "encoding"),
        (b'{"ts": 1}\n', "columns"),
        (line(1, count="18446744073709551615"), "value of orig_bytes"),
    ]
    header = zeek_header("conn", NAMES)
    data = b"before\n" + header + line(0) + b"".join(text for text, _ in bad) + line(1, r"\x09\\")
    got, reader = read(write(tmp_path / "log", data), "ZEEK_CONN")
    assert [row["uid"] for row in got] == ["C1", "\t\\"]
    first = header.count(b"\n") + 3
    assert reasons(reader) == [(1, "header"), *((first + at, reason) for at, (_, reason) in enumerate(bad))]
    assert accounted(reader, len(data))


LONG = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows"
FAST = (
    "cnt,af,firstSeen,lastSeen,proto,srcAddr,srcPort,dstAddr,dstPort,srcAS,dstAS,input,output,flags,srcTos,"
    "packets,bytes"
)


def test_layouts_of_nfdump(tmp_path: Path) -> None:
    data = "\n".join(
        [
            "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt",
            "2026-01-01 00:00:00,2026-01-01 00:00:02,2.000,10.0.0.1,10.0.0.2,0,2048,ICMP,........,0,0,3,252",
            "Summary",
            "flows,bytes,packets,avg_bps,avg_pps,avg_bpp",
            "1,252,3,0,0,0",
            LONG,
            "2026-01-01 00:00:01.250,0.000,58,2001:db8::1,0,2001:db8::2,128.0,1,104,1",
            "0000-00-00 00:00:00.000,0.000,6,10.0.0.1,1,10.0.0.2,2,1,104,1",
            FAST,
            "1,2,1767225602500,1767225603000,6,10.0.0.1,5,10.0.0.2,80,0,0,1,2,...AP.SF,0,9,999",
            "srcAddr,firstSeen",
            "fe80::1,2026-01-01 00:00:03",
            "",
        ]
    ).encode()
    got, reader = read(write(tmp_path / "flows", data), "NFDUMP")
    fields = "timestamp", "protocol", "srcIP", "srcPort", "destPort", "ipkt", "ibyt", "td", "te"
    begin = BEGIN * SECOND
    assert [tuple(row[name] for name in fields) for row in got] == [
        (begin, 1, "10.0.0.1", 8, 0, 3, 252, 2.0, begin + 2 * SECOND),
        (begin + 1_250_000_000, 58, "2001:db8::1", 128, 0, 1, 104, 0.0, None),
        (begin + 2_500_000_000, 6, "10.0.0.1", 5, 80, 9, 999, None, begin + 3 * SECOND),
        (begin + 3 * SECOND, None, "fe80::1", None, None, None, None, None, None),
    ]
    assert reasons(reader) == [(8, "no-time")]
    assert accounted(reader, len(data))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nfpcapd") is None, reason="nfdump is not installed")
def test_flows_of_nfdump_are_those_of_the_capture(tmp_path: Path) -> None:
    made = talks(8, 60)
    path = write(tmp_path / "a.pcap", capture(made))
    (tmp_path / "nf").mkdir()
    environment = {"TZ": "UTC", "PATH": "/usr/bin:/bin"}
    folder = str(tmp_path / "nf")
    subprocess.run(["nfpcapd", "-r", str(path), "-w", folder], check=True, capture_output=True, env=environment)
    command = ["nfdump", "-R", folder, "-o", "csv"]
    text = subprocess.run(command, check=True, capture_output=True, env=environment).stdout
    got, reader = read(write(tmp_path / "flows.csv", text), "NFDUMP")
    assert not reader.malformed.num_rows
    assert accounted(reader, len(text))
    counted: dict[tuple[str, str, int], int] = {}
    for row in got:
        key = row["srcIP"], row["destIP"], row["protocol"]
        counted[key] = counted.get(key, 0) + row["ipkt"]
    expected: dict[tuple[str, str, int], int] = {}
    for talk in made:
        for of_client, ends in ((True, (talk.client, talk.server)), (False, (talk.server, talk.client))):
            packets = talk.count(of_client)[0]
            if packets:
                key = *ends, talk.protocol
                expected[key] = expected.get(key, 0) + packets
    assert counted == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_noise_is_counted(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    for _ in range(30):
        check(random, tmp_path / "log")
