"""What is said beside the rows of a query: what its captures hold that the rows leave out, or count twice."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests import capturemaker as maker
from tests.replay.support import START, lowwater

pytestmark = pytest.mark.slow
SECOND = 1_000_000_000
MINUTE = "GROUP BY time_bucket(INTERVAL '1 minute', timestamp) AS tb"
BYTES = f"SELECT tb, count(*) AS packets, sum(len) AS bytes FROM {{}} {MINUTE}"


def write(path: Path, frames: list[tuple[float, bytes]], nanoseconds: bool = False) -> Path:
    records = [(START + round(at * SECOND), frame) for at, frame in frames]
    path.write_bytes(maker.pcap_bytes(records, nanoseconds=nanoseconds))
    return path


def run(tmp_path: Path, text: str, **captures: Path) -> tuple[list[str], list[str]]:
    """The notes of a run of a query, and the lines of its rows."""
    query = tmp_path / "q.gsql"
    query.write_text(f"DEFINE {{ query_name 'q'; }}\n{text}\n", encoding="utf-8")
    given = [part for link, path in captures.items() for part in ("--capture", f"{link}={path}")]
    said = lowwater("run", query, *given, "--out", tmp_path / "out")
    assert said.code == 0, said
    told = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))["notes"]
    assert all(note.split()[-1] in said.err for note in told), "they are said, too"
    notes = [note.partition("query q: ")[2] for note in told if note.startswith("note: query q: ")]
    return notes, (tmp_path / "out" / "q.csv").read_text(encoding="utf-8").splitlines()[1:]


def datagram(at: float, identity: int, size: int, version: int = 4) -> list[tuple[float, bytes]]:
    """A datagram of UDP in fragments of 1,024 bytes."""
    whole, frames = maker.udp_header(5353, 53, bytes(size)), []
    for begin in range(0, len(whole), 1024):
        part, more = whole[begin : begin + 1024], begin + 1024 < len(whole)
        if version == 4:
            packet = maker.ipv4("10.0.0.1", "10.0.0.2", 17, part, identity=identity, offset=begin, more=more)
            frames.append((at, maker.ethernet(packet)))
        else:
            payload = maker.fragment(17, begin, more, identity) + part
            frames.append((at, maker.ethernet(maker.ipv6("fd00::1", "fd00::2", 44, payload), 0x86DD)))
    return frames


@pytest.mark.parametrize("version", [4, 6])
def test_later_fragments_are_counted_beside_the_rows_of_a_protocol(version: int, tmp_path: Path) -> None:
    frames = [each for number in range(5) for each in datagram(number, number + 1, 2500, version)]
    frames.append((9, maker.udp("10.0.0.1", "10.0.0.2", 1, 2, bytes(100))))
    later = [frame for at, frame in frames if len(frame) > 200 and not _is_first(frame, version)]
    capture = write(tmp_path / "a.pcap", frames)
    notes, (row,) = run(tmp_path, BYTES.format("UDP"), main1=capture)
    assert len(later) == 10 and row.endswith(f",6,{sum(len(f) for _, f in frames) - sum(map(len, later))}")
    said = f"10 later fragments have no header of UDP, and no ports: {sum(map(len, later)):,} bytes are not in FROM UDP"
    assert notes == [f"{said}. FROM DataProtocol with protocol = 17 has them"]
    text = BYTES.format("DataProtocol").replace(" GROUP", " WHERE protocol = 17 GROUP")
    notes, (row,) = run(tmp_path, text, main1=capture)
    assert notes == [] and row.endswith(f",16,{sum(len(frame) for _, frame in frames)}"), "what the note says holds"
    assert run(tmp_path, BYTES.format("TCP"), main1=capture)[0] == []
    notes, (row,) = run(tmp_path, text.replace("protocol = 17", "destPort = 53"), main1=capture)
    left = f"10 later fragments have no port and meet no condition of one: {sum(map(len, later)):,} bytes are left out"
    assert notes == [left] and int(row.rpartition(",")[2]) == sum(len(f) for _, f in frames[:-1]) - sum(map(len, later))
    shown = lowwater("sql", "SELECT sum(len) FROM main1.UDP", "--capture", capture)
    assert f"note: {said}" in shown.err
    assert "fragment" not in lowwater("sql", "SELECT sum(len) FROM main1", "--capture", capture).err


def _is_first(frame: bytes, version: int) -> bool:
    at = 14 + (6 if version == 4 else 42)
    (field,) = struct.unpack_from("!H", frame, at)
    return not field & (0x1FFF if version == 4 else 0xFFF8)


def test_a_length_that_the_header_leaves_out_is_told_where_it_is_summed(tmp_path: Path) -> None:
    segment = maker.tcp_header(1, 80, data=bytes(4000))
    large = maker.ethernet(maker.ipv4("10.0.0.1", "10.0.0.2", 6, segment, total_length=0))
    small = maker.tcp("10.0.0.1", "10.0.0.2", 1, 80)
    capture = write(tmp_path / "a.pcap", [(0, large), (1, small), (2, large)])
    text = "SELECT tb, sum({}) AS bytes FROM TCP GROUP BY time_bucket(INTERVAL '1 minute', timestamp) AS tb"
    notes, (row,) = run(tmp_path, text.format("total_length"), main1=capture)
    assert row.endswith(",40")
    said = (
        "2 packets have no length in the header, as where the card segments: total_length is 0 there, ip_length is not"
    )
    assert notes == [said]
    notes, (row,) = run(tmp_path, text.format("ip_length"), main1=capture)
    assert notes == [] and row.endswith(f",{2 * 4040 + 40}")
    assert said in lowwater("sql", "SELECT sum(total_length) FROM TCP", "--capture", capture).err
    assert said not in lowwater("sql", "SELECT sum(ip_length) FROM TCP", "--capture", capture).err


@pytest.mark.parametrize("shared", [0, 1, 40, 100])
def test_packets_that_two_taps_have_are_told(shared: int, tmp_path: Path) -> None:
    def segment(link: int, number: int) -> tuple[float, bytes]:
        return number * 0.1, maker.tcp("10.0.0.1", "10.0.0.2", 1000 + link, 80, seq=link * 10_000 + number, data=b"x")

    one = [segment(0, number) for number in range(100)]
    other = [(at + 0.003, frame) for at, frame in one[:shared]] + [segment(1, number) for number in range(shared, 100)]
    captures = {"a": write(tmp_path / "a.pcap", one), "b": write(tmp_path / "b.pcap", other)}
    notes, _ = run(tmp_path, BYTES.format("TCP"), **captures)
    many = "packet is" if shared == 1 else "packets are"
    said = f"FROM TCP reads a and b, and {shared:,} {many} on both: each counts twice."
    assert [note[: len(said)] for note in notes] == ([said] if shared else [])
    taps = [part for link, path in captures.items() for part in ("--capture", f"{link}={path}")]
    for text in (
        "SELECT count(*) FROM TCP",
        "SELECT count(*), link FROM TCP GROUP BY link",
        "SELECT 1 FROM a.TCP, b.TCP",
    ):
        assert (said in lowwater("sql", f"{text} LIMIT 1", *taps).err) == bool(
            shared and "FROM TCP" in text and "link" not in text
        )
    grouped = BYTES.replace("tb, count", "tb, link, count").format("TCP") + ", link"
    assert run(tmp_path, grouped, **captures)[0] == [], "rows tell the links apart"
    assert run(tmp_path, BYTES.format("a.TCP"), **captures)[0] == []


def test_packets_that_two_taps_of_a_lake_have_are_told_of_the_newest_time(tmp_path: Path) -> None:
    def segments(hour: int, link: int, shared: int) -> list[tuple[float, bytes]]:
        numbers = [number if number < shared else 10_000 * link + number for number in range(100)]
        times = [3600 * hour + 30 * at + link / 1000 for at in range(100)]
        frames = (maker.tcp("10.0.0.1", "10.0.0.2", 1000, 80, seq=1 + number, data=b"x") for number in numbers)
        return [*zip(times, frames, strict=True)]

    for link, name in enumerate(("a", "b"), 1):
        (tmp_path / name).mkdir()
        for hour, shared in enumerate((0, 40)):
            write(tmp_path / name / f"{name}_20260101T0{hour}0000Z.pcap", segments(hour, link, shared))
    (tmp_path / "q.gsql").write_text(
        f"DEFINE {{ query_name 'q'; }}\n{BYTES.format('TCP')};\n"
        f"DEFINE {{ query_name 'apart'; }}\n{BYTES.replace('tb, count', 'tb, link, count').format('TCP')}, link;\n"
    )
    lake = tmp_path / "lake"
    for words in (
        ("init", tmp_path, "--lake", lake, "--query", tmp_path / "q.gsql"),
        ("ingest", "--lake", lake),
        ("backfill", "--lake", lake, "--through-end"),
    ):
        assert (said := lowwater(*words)).code == 0, said
    note = "note: FROM TCP reads a and b, and 40 packets of 2026-01-01T01:00:00"
    assert note in lowwater("rows", "q", "--lake", lake).err
    assert "are on both" not in lowwater("rows", "q", "--lake", lake, "--to", "2026-01-01T01:00Z").err
    assert "are on both" not in lowwater("rows", "apart", "--lake", lake).err, "rows tell the links apart"


NEW = """
DEFINE {{ query_name 'hosts'; visibility 'internal'; }}
SELECT tb, srcIP, count(*) AS packets FROM TCP GROUP BY time_bucket(INTERVAL '1 minute', timestamp) AS tb, srcIP;
DEFINE {{ query_name 'q'; }}
SELECT N.tb, N.srcIP FROM hosts N ANTI JOIN hosts B ON N.tb = B.tb + {} min AND N.srcIP = B.srcIP
"""


@pytest.mark.parametrize(("minutes", "outer"), [(1, False), (2, False), (2, True)])
def test_what_is_new_before_there_is_anything_to_compare_with(minutes: int, outer: bool, tmp_path: Path) -> None:
    """Also where a LEFT JOIN whose right side IS NULL says it."""
    frames = [
        (60 * minute + 1, maker.tcp(f"10.0.0.{host}", "10.0.0.9", 1, 2))
        for minute in range(4)
        for host in range(1, 4 + minute)
    ]
    query = tmp_path / "new.gsql"
    text = f"{NEW.format(minutes).replace('ANTI', 'LEFT')} WHERE B.srcIP IS NULL" if outer else NEW.format(minutes)
    query.write_text(text, encoding="utf-8")
    capture = write(tmp_path / "a.pcap", frames)
    said = lowwater("run", query, "--capture", f"main1={capture}", "--out", tmp_path / "out")
    rows = (tmp_path / "out" / "q.csv").read_text(encoding="utf-8").splitlines()[1:]
    first = [row for row in rows if row < f"2026-01-01T00:0{minutes}:01"]
    assert said.code == 0 and 0 < len(first) < len(rows)
    early = [row for row in rows if row < f"2026-01-01T00:0{minutes}"]
    note = f"rows are of the first {minutes}min of the data, which begin at 2026-01-01T00:00:01"
    told = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))["notes"]
    counted = [each for each in told if note in each]
    assert len(counted) == 1 and f" of {len(rows)} {note}" in counted[0]
    assert int(counted[0].split("query q: ")[1].split()[0]) >= len(early)


@pytest.mark.parametrize("anti", ["ANTI JOIN {}", "LEFT JOIN {} WHERE A.srcPort IS NULL"])
def test_what_is_unanswered_where_the_data_end(anti: str, tmp_path: Path) -> None:
    """Of nine SYNs in nine seconds the last three could be answered behind the end."""
    frames = [(at, maker.tcp("10.0.0.1", "10.0.0.2", 1000 + at, 2, maker.SYN)) for at in range(9)]
    answers = "TCP A ON S.srcPort = A.destPort AND S.timestamp <= A.timestamp AND A.timestamp <= S.timestamp + 2500 ms"
    text = f"SELECT S.time, S.srcPort AS port FROM TCP S {anti.format(answers)}"
    notes, rows = run(tmp_path, text, main1=write(tmp_path / "a.pcap", frames))
    assert len(rows) == 9
    (note,) = [each for each in notes if "behind the end of the data, 2026-01-01T00:00:08Z" in each]
    assert "3 of 9 rows may still meet" in note
    back = text.replace(
        "S.timestamp <= A.timestamp AND A.timestamp <= S.timestamp + 2500 ms", "S.timestamp = A.timestamp"
    )
    assert not [each for each in run(tmp_path, back, main1=tmp_path / "a.pcap")[0] if "behind the end" in each]


def test_a_ratio_of_whole_numbers_is_told_by_check_and_with_the_rows(tmp_path: Path) -> None:
    frames = [(at, maker.tcp("10.0.0.1", "10.0.0.2", 1, 2, maker.SYN if at % 3 == 0 else maker.ACK)) for at in range(9)]
    capture = write(tmp_path / "a.pcap", frames)
    text = "SELECT tb, {} AS share FROM TCP GROUP BY time_bucket(INTERVAL '1 minute', timestamp) AS tb"
    note = "sum(SYN)/count(*) is a whole number, cut off at the point: for the ratio write FLOAT(sum(SYN))/count(*)"
    notes, (row,) = run(tmp_path, text.format("sum(SYN)/count(*)"), main1=capture)
    assert row.endswith(",0") and [each.partition(": ")[2] for each in notes] == [note]
    assert note in lowwater("check", tmp_path / "q.gsql").out
    notes, (row,) = run(tmp_path, text.format("FLOAT(sum(SYN))/count(*)"), main1=capture)
    assert notes == [] and float(row.rpartition(",")[2]) == pytest.approx(1 / 3)
    for same in ("sum(len)/1000", "avg(len)/2"):
        assert run(tmp_path, text.format(same), main1=capture)[0] == []


def test_union_without_all_is_told_where_rows_of_queries_may_be_equal(tmp_path: Path) -> None:
    frames = [(at, maker.tcp("10.0.0.1", "10.0.0.2", 1, 2)) for at in range(2)]
    one, other = write(tmp_path / "a.pcap", frames), write(tmp_path / "b.pcap", frames)
    both = "WITH a AS (SELECT time, srcIP FROM one.TCP), b AS (SELECT time, srcIP FROM other.TCP) SELECT {} FROM a {} b"
    note = "UNION keeps equal rows, as UNION ALL in SQL: write SELECT DISTINCT, or ALL if that is meant"
    for items, word, number, told in (
        ("*", "UNION ALL", 4, []),
        ("DISTINCT *", "UNION", 2, []),
        ("*", "UNION", 4, [note]),
    ):
        notes, rows = run(tmp_path, both.format(items, word), one=one, other=other)
        assert len(rows) == number and [each.partition(": ")[2] for each in notes] == told
    assert note in lowwater("check", tmp_path / "q.gsql").out


def test_rows_of_a_lake_have_the_notes_of_their_time(tmp_path: Path) -> None:
    folder = tmp_path / "main1"
    folder.mkdir()
    quiet = [(at, maker.udp("10.0.0.1", "10.0.0.2", 1, 2, bytes(100))) for at in (1, 1800, 3599)]
    write(folder / "main1_20260101T000000Z.pcap", quiet)
    torn = [each for number in range(5) for each in datagram(3600 + 700 * number, number + 1, 2500)]
    write(folder / "main1_20260101T010000Z.pcap", torn)
    query = tmp_path / "q.gsql"
    query.write_text(f"DEFINE {{ query_name 'q'; }}\n{BYTES.format('main1.UDP')}\n", encoding="utf-8")
    lake = tmp_path / "lake"
    for words in (("init", tmp_path, "--lake", lake, "--query", query), ("ingest", "--lake", lake)):
        assert (said := lowwater(*words)).code == 0, said
    assert (said := lowwater("backfill", "--lake", lake, "--through-end")).code == 0, said
    shown = lowwater("rows", "q", "--lake", lake, "--to", "2026-01-01T01:00Z")
    assert shown.code == 0 and "fragment" not in shown.err
    shown = lowwater("rows", "q", "--lake", lake)
    assert "note: 10 later fragments have no header of UDP" in shown.err
    asked = lowwater("sql", "SELECT count(*) FROM main1.UDP", "--lake", lake)
    assert "note: 10 later fragments have no header of UDP" in asked.err


def test_fragments_of_a_real_capture_are_those_that_tshark_counts(captures_dir: Path, tmp_path: Path) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    capture = captures_dir / "traffic" / "StopDDoS+packet-captures__amp.dns.RRSIG.fragmented.pcap"
    fields = ["-T", "fields", "-e", "frame.len", "-o", "ip.defragment:FALSE"]
    later = ["tshark", "-n", "-r", str(capture), "-Y", "ip.frag_offset > 0 && ip.proto == 17", *fields]
    sizes = [int(line) for line in subprocess.run(later, capture_output=True, text=True, check=True).stdout.split()]
    notes, _ = run(tmp_path, BYTES.format("UDP"), main1=capture)
    assert sizes and notes[0].startswith(f"{len(sizes):,} later fragments have no header of UDP, and no ports: ")
    assert f" {sum(sizes):,} bytes are not in FROM UDP" in notes[0]


def test_groups_that_are_open_at_the_end_are_told_where_having_leaves_them_out(tmp_path: Path) -> None:
    frames = [(at, maker.tcp(f"10.0.0.{host}", "10.0.0.9", 1, 2)) for at in (1, 61) for host in (1, 2)]
    frames.append((62, maker.tcp("10.0.0.1", "10.0.0.9", 1, 2, maker.FIN)))
    capture = write(tmp_path / "a.pcap", frames)
    text = "SELECT tb, srcIP, running_sum(len) AS bytes FROM TCP GROUP BY time/60 AS tb, srcIP {} CLOSING_WHEN {}"
    said = "HAVING asks for what ends a group, so a group that is open where the data end has no row"
    notes, rows = run(tmp_path, text.format("HAVING or_aggr(FIN)", "or_aggr(FIN) OR count(*) = 0"), main1=capture)
    assert [note.partition(": ")[2] for note in notes] == [said] and len(rows) == 1
    notes, rows = run(tmp_path, text.format("", "or_aggr(FIN) OR count(*) = 0"), main1=capture)
    assert notes == [] and len(rows) == 4
