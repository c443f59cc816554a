"""`lowwater sql`: rows of captures and lakes beside those of GSQL, tshark and the files; what a text may do."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from lowwater_generator import generate

from lowwater import Lake
from lowwater.errors import CaptureError, LakeError, SqlError
from lowwater.instants import HOUR
from lowwater.replay import sql
from lowwater.replay.look import printable
from lowwater.replay.sql import CaptureFiles, Statement
from tests import capturemaker as maker
from tests.pcapngmaker import Section
from tests.replay.support import START, lowwater
from tests.review.resultlake import make_results

pytestmark = pytest.mark.slow
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """An hour of two links."""
    made = generate(tmp_path_factory.mktemp("captures"), START, 1, ["main1", "main2"], rate=1.5, seed=4)
    return [each.path for each in made if each.start < START + HOUR]


@pytest.fixture(scope="module")
def capture(captures: list[Path]) -> Path:
    return next(path for path in captures if path.name.startswith("main1"))


def rows(text: str, *files: tuple[str, Path], **bounds: tuple[int, int]) -> list[tuple[object, ...]]:
    with Statement(CaptureFiles(files, **bounds), text) as asked:
        return [tuple(row.values()) for batch in asked.batches() for row in printable(batch).to_pylist()]


def run_rows(tmp_path: Path, text: str, *files: tuple[str, Path]) -> list[dict[str, str]]:
    """The rows of a query of GSQL."""
    (tmp_path / "q.gsql").write_text(f"DEFINE {{ query_name 'q'; }}\n{text}\n", encoding="utf-8")
    given = [part for link, path in files for part in ("--capture", f"{link}={path}", "--skew", f"{link}=1h")]
    said = lowwater("run", tmp_path / "q.gsql", *given, "--out", tmp_path / "out")
    assert said.code == 0, said
    with (tmp_path / "out" / "q.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("protocol", ["ETH", "TCP", "DNS", "HTTP", "TLS", "ICMP", "ARP", "IPV6"])
def test_columns_of_a_protocol_are_those_of_gsql(protocol: str, capture: Path, tmp_path: Path) -> None:
    """Every column that `*` gives, of each packet, as `run` writes it."""
    wanted = run_rows(tmp_path, f"SELECT * FROM main1.{protocol}", ("main1", capture))
    with Statement(CaptureFiles([("main1", capture)]), f"SELECT * FROM main1.{protocol}") as asked:
        names = asked.schema.names
        assert set(wanted[0] if wanted else names) - {"interface"} <= set(names)
        shared = [name for name in names if wanted and name in wanted[0] and name != "timestamp"]
    chosen = ", ".join(f'"{name}"' for name in ("ns", *shared))
    found = rows(
        f"WITH p AS (SELECT *, epoch_ns(timestamp) AS ns FROM main1.{protocol}) SELECT {chosen} FROM p",
        ("main1", capture),
    )
    assert wanted or protocol in ("TLS", "ICMP", "ARP", "HTTP"), "the capture has packets of it"
    as_texts = [tuple(_text(value) for value in row) for row in found]
    assert Counter(as_texts) == Counter((row["timestamp"], *(row[name] for name in shared)) for row in wanted)


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def like_tshark(capture: Path) -> None:
    """Number, length, source and SYN of each packet."""
    fields = ["-e", "frame.number", "-e", "frame.len", "-e", "ip.src", "-e", "ipv6.src", "-e", "tcp.flags.syn"]
    asked = ["tshark", "-n", "-r", str(capture), "-T", "fields", "-E", "occurrence=f", *fields]
    lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = [line.split("\t") for line in lines]
    found = rows("SELECT position + 1, len, srcIP, SYN FROM main1", ("main1", capture))
    assert len(found) == len(wanted) > 500
    for (number, size, source, syn), row in zip(found, wanted, strict=True):
        assert (str(number), str(size), source or "") == (row[0], row[1], row[2] or row[3])
        assert (syn is True) == (row[4] in ("1", "True"))


def test_packets_are_those_of_tshark(capture: Path) -> None:
    like_tshark(capture)


@pytest.mark.captures
@pytest.mark.parametrize(
    "name",
    [
        "traffic/ajbanjara+Wireshark__SkypeIRC.cap",
        "breadth/ntop+nDPI__ocs.pcap",
        "breadth/ajbanjara+Wireshark__cap1.pcap",
    ],
)
def test_packets_of_real_captures_are_those_of_tshark(name: str, captures_dir: Path) -> None:
    like_tshark(captures_dir / name)


def test_views_are_of_links_of_protocols_and_of_all(captures: list[Path]) -> None:
    files = [(path.name.partition("_")[0], path) for path in captures]
    each = rows("SELECT (SELECT count(*) FROM main1.tcp), (SELECT count(*) FROM main2.TCP)", *files)
    by_link = rows("SELECT link, count(*) FROM TCP GROUP BY ALL ORDER BY 1", *files)
    assert by_link == [("main1", each[0][0]), ("main2", each[0][1])] and each[0][0] > 0
    assert rows("FROM captures SELECT link, packets", *files) == [
        (link, rows(f"SELECT count(*) FROM {link}", *files)[0][0]) for link, _ in files
    ]
    twice = rows("SELECT count(*), count(DISTINCT file) FROM a", ("a", captures[0]), ("a", captures[1]))
    assert twice == [(sum(row[1] for row in rows("FROM captures SELECT link, packets", *files)), 2)]
    joined = rows("SELECT count(*) FROM main1.TCP a JOIN main1.TCP b USING (file, position)", *files)
    assert joined == [(each[0][0],)], "a view is read as often as the statement says"


def test_interfaces_are_links_below_one(tmp_path: Path) -> None:
    """A view of the link has all of them, one of an interface has its own."""
    made, path = Section(), tmp_path / "two.pcapng"
    packets = [made.packet(START // 1000 + n, maker.udp("10.0.0.1", "10.0.0.2", n, 53), n % 2) for n in range(6)]
    path.write_bytes(made.header() + made.interface("eth0") + made.interface("eth1") + b"".join(packets))
    assert rows("SELECT link, count(*) FROM main1.UDP GROUP BY ALL ORDER BY 1", ("main1", path)) == [
        ("main1/eth0", 3),
        ("main1/eth1", 3),
    ]
    assert rows("""SELECT count(*) FROM "main1/eth1".UDP""", ("main1", path)) == [(3,)]
    assert rows("""SELECT count(*), min(link), max(file) FROM "main1/eth0" """, ("main1", path)) == [
        (3, "main1/eth0", str(path))
    ]
    assert rows("SELECT link, count(*) FROM main1 GROUP BY ALL ORDER BY 1", ("main1", path)) == [
        ("main1/eth0", 3),
        ("main1/eth1", 3),
    ]


def test_only_what_a_statement_reads_is_decoded(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    decode = sql.read_chunk

    def spied(chunk: object, *more: object, **named: object) -> object:
        asked.append(tuple(named["columns"]))  # type: ignore[arg-type, call-overload]
        return decode(chunk, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(sql, "read_chunk", spied)
    ((count,),) = rows("SELECT count(*) FROM main1", ("main1", capture))
    assert not asked, "the survey has counted the packets"
    assert rows("SELECT count(timestamp) FROM main1", ("main1", capture)) == [(count,)]
    rows("SELECT sum(len) FROM main1.TCP WHERE SYN AND srcPort > 1024", ("main1", capture))
    rows("SELECT time, dns_query FROM main1.UDP WHERE dns_query LIKE 'h%'", ("main1", capture))
    stamps, total, names = (set(each) for each in dict.fromkeys(asked))
    assert stamps == {"timestamp"}
    assert total == {"timestamp", "len", "flags", "srcPort", "protocol", "offset"}, "later fragments are counted"
    assert names == {"timestamp", "dns_query", "protocol", "srcPort", "offset"}


def test_what_the_text_names_is_there_and_star_is_that_of_gsql(capture: Path) -> None:
    (described,) = [rows("SELECT list(column_name) FROM (DESCRIBE main1.TCP)", ("main1", capture))[0][0]]
    assert "srcIP" in described and not {"dns_query", "file", "src_ip", "payload"} & set(described)
    found = rows("SELECT src_ip = srcIP, payload, file FROM main1.TCP WHERE payload_length > 0", ("main1", capture))
    assert {row[0] for row in found} == {True} and {row[2] for row in found} == {str(capture)}
    assert any(str(row[1]).startswith("GET / HTTP/1.1\\x0d\\x0a") for row in found)


def test_a_range_of_time(capture: Path) -> None:
    span = (START + 600 * SECOND, START + 1200 * SECOND)
    inside = rows("SELECT count(*) FROM main1", ("main1", capture), span=span)
    assert inside == rows(
        "SELECT count(*) FROM main1 WHERE timestamp >= '2026-01-01 00:10:00' AND timestamp < '2026-01-01 00:20:00'",
        ("main1", capture),
    )
    assert inside[0][0] > 0


@pytest.mark.parametrize("tool", ["gzip", "zstd"])
def test_a_compressed_capture_has_the_same_rows(tool: str, capture: Path, tmp_path: Path) -> None:
    packed = tmp_path / f"a.{tool}"
    packed.write_bytes(subprocess.run([tool, "-c", capture], capture_output=True, check=True).stdout)
    text = "SELECT position, timestamp, srcIP, destIP, len FROM main1 ORDER BY 1"
    assert rows(text, ("main1", packed)) == rows(text, ("main1", capture))


def test_joined_captures_have_the_rows_of_each(captures: list[Path], tmp_path: Path) -> None:
    """The later one first: its records are no jump in time."""
    later = tmp_path / "later.pcap"
    subprocess.run(["editcap", "-F", "pcap", "-t", "86400", captures[1], later], check=True)
    both = tmp_path / "both.pcap"
    both.write_bytes(later.read_bytes() + captures[0].read_bytes())
    count = rows("SELECT count(*), count(DISTINCT timestamp) FROM a", ("a", captures[0]), ("a", later))
    assert rows("SELECT count(*), count(DISTINCT timestamp) FROM a", ("a", both)) == count
    assert rows("SELECT count(*) FROM malformed", ("a", both)) == [(0,)]


def test_damage_is_said_and_is_a_view(capture: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pcap"
    content = bytearray(capture.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 20_000] = bytes(20_000)
    damaged.write_bytes(bytes(content[:-7]))
    with Statement(CaptureFiles([("main1", damaged)]), "SELECT count(len) FROM main1") as asked:
        (count,) = [batch.column(0).to_pylist() for batch in asked.batches()]
        notes = asked.notes()
    assert "in the view `malformed`" in notes[0] and "is damaged: " in notes[1] and "is cut" in notes[2]
    reasons = dict(rows("SELECT reason, count(*) FROM malformed GROUP BY ALL", ("main1", damaged)))
    assert reasons == {"length": 1, "cut": 1}
    (told,) = rows("SELECT packets, malformed, damaged FROM captures", ("main1", damaged))
    assert told[:2] == (count[0], 2) and told[2] > 0
    said = lowwater("sql", "SELECT count(*) AS n FROM main1", "--capture", damaged)
    assert said.code == 0 and str(count[0]) in said.out and said.err.count("note: damaged.pcap") == 3


def test_a_file_that_changes_ends_the_statement(capture: Path, tmp_path: Path) -> None:
    """The error of the scan, and not what DuckDB makes of it."""
    path = tmp_path / "a.pcap"
    shutil.copy(capture, path)
    source = CaptureFiles([("main1", path)])
    path.write_bytes(path.read_bytes()[:1000])
    with Statement(source, "SELECT sum(len) FROM main1") as asked, pytest.raises(CaptureError, match="changed while"):
        list(asked.batches())


ATTACKS = (
    "FROM '/etc/passwd'",
    "FROM read_text('/etc/passwd')",
    "FROM read_csv('{file}')",
    "FROM read_blob('{file}')",
    "FROM read_parquet('http://127.0.0.1:9/x')",
    "FROM glob('/etc/*')",
    "FROM sniff_csv('{file}')",
    "FROM files",
    "SELECT getenv('HOME')",
    "FROM which_secret('s3://a', 's3')",
    "FROM arrow_scan(1, 2, 3)",
    "FROM pandas_scan(1)",
    "FROM delta_scan('/tmp')",
    "COPY main1 TO '{file}'",
    "COPY (SELECT 1) TO '{file}' (FORMAT parquet)",
    "ATTACH '{file}' AS other",
    "EXPORT DATABASE '{file}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET memory_limit = '100GB'",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "CREATE TABLE t AS SELECT 1",
    "CREATE OR REPLACE VIEW main1 AS SELECT 1",
    "DROP VIEW main1",
    "INSERT INTO captures SELECT * FROM captures",
    "EXPLAIN ANALYZE COPY main1 TO '{file}'",
    "CALL pragma_version()",
    "SELECT 1; SELECT 2",
    "",
    "-- nothing",
)


@pytest.mark.parametrize("text", ATTACKS)
def test_a_text_reads_views_only(text: str, tmp_path: Path) -> None:
    """No file is read or written, no setting changes, no variable of this function is a table."""
    files = pa.table({"a": [1]})
    assert files.num_rows == 1
    path = tmp_path / "a.pcap"
    path.write_bytes(maker.pcap_bytes([(START, maker.udp("10.0.0.1", "10.0.0.2", 1, 53, b"x"))]))
    (tmp_path / "there.csv").write_text("a\n1\n", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SqlError):
        rows(text.format(file=tmp_path / "there.csv"), ("main1", path))
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "there.csv").read_text(encoding="utf-8") == "a\n1\n"


def test_memory_is_bounded_and_what_is_beyond_goes_to_the_disk(capture: Path) -> None:
    source = CaptureFiles([("main1", capture)])
    big = "SELECT count(*) FROM (SELECT DISTINCT range AS n, md5(range::VARCHAR) AS m FROM range(3000000))"
    with Statement(source, big, memory=128 << 20) as asked:
        assert [batch.column(0)[0].as_py() for batch in asked.batches()] == [3_000_000]
    listed = Statement(source, "SELECT list(range) FROM range(100000000)", memory=128 << 20)
    with listed as asked, pytest.raises(SqlError, match="more memory") as told:
        list(asked.batches())
    assert "[replay] memory" in told.value.hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("SELECT nosuch FROM main1", 'Referenced column "nosuch" not found', "Candidate bindings"),
        ("SELECT 1 FROM mainn", "Table with name mainn does not exist", "did you mean main1?"),
        ("SELECT window FROM main1.TCP", "syntax error", 'such as "window"'),
        ("SELECT abs(srcIP) FROM main1", "", ""),
        ("SELECT main1", 'Referenced column "main1" was not found', ""),
        ("SELECT ip.src FROM main1", 'Referenced table "ip" not found', "write srcIP"),
        ("SELECT tcp.flags.syn FROM main1", "not found", "write SYN"),
        ("SELECT tcp.stream FROM main1", "not found", "ask conversations"),
        ("SELECT 1 FROM main1 WHERE srcIP <<= '10.0.0.0/8'", "<<=", "srcIP LIKE '10.%'"),
        ("SELECT umin(srcIP, destIP) FROM main1", "umin does not exist", "write least(a, b)"),
        ("SELECT or_aggr(flags) FROM main1", "or_aggr does not exist", "a function of GSQL"),
        ("SELECT count(*) FROM main1 GROUP BY time//60 AS tb", "syntax error", "gets its name in SELECT"),
        ("PIVOT main1 ON destPort USING sum(len)", "no query", "ON destPort IN (80, 443)"),
    ],
)
def test_a_mistake_is_one_line_with_a_hint(text: str, message: str, hint: str, capture: Path) -> None:
    with pytest.raises(SqlError, match=re.escape(message) or ".") as told:
        rows(text, ("main1", capture))
    assert hint in told.value.hint and "\n" not in told.value.message + told.value.hint and told.value.hint


# A lake.


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("sql"))[0]


def test_a_lake_has_packets_tables_and_ledgers(root: Path) -> None:
    lake = Lake(root)
    files = DeltaTable(str(root / "tables" / "flows")).file_uris()
    wanted = duckdb.sql(
        f"SELECT srcIP, sum(bytes), min(_last) FROM read_parquet({files}) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    found = lake.sql("SELECT srcIP, sum(bytes)::BIGINT, epoch_ns(min(_last)) FROM flows GROUP BY 1 ORDER BY 1")
    assert [tuple(row.values()) for row in found.arrow().to_pylist()] == wanted and len(wanted) > 1
    assert found.count() == len(wanted), "a statement is evaluated each time"
    for link in lake.links:
        packets = lake.packets(link, columns=["srcIP", "timestamp", "len"]).arrow()
        asked = lake.sql(f"SELECT srcIP, timestamp, len FROM {link}").arrow()
        assert asked.schema.field("timestamp").type == pa.timestamp("ns", "UTC")
        assert asked.sort_by("timestamp").to_pylist() == packets.cast(asked.schema).sort_by("timestamp").to_pylist()
    for name in ("contents", "replays"):
        assert lake.sql(f'SELECT * FROM ledgers."{name}"').count() == lake.ledger(name).count() > 0
    assert lake.sql("SELECT * FROM tables.flows JOIN flows USING (tb, srcIP, destIP)").count() > 0
    with pytest.raises(SqlError, match="nosuch"):
        lake.sql("SELECT * FROM nosuch")


def test_a_lake_between_two_instants(root: Path) -> None:
    lake = Lake(root)
    (first, last) = (
        lake.sql("SELECT epoch_ns(min(_last)) AS a, epoch_ns(max(_last)) AS b FROM flows")
        .arrow()
        .to_pylist()[0]
        .values()
    )
    middle = (first + last) // 2
    whole, before, after = (lake.sql("SELECT * FROM flows", *span).count() for span in ((), (None, middle), (middle,)))
    assert whole == before + after == lake.table("flows").count() and before and after
    said = lowwater("sql", "SELECT count(*) AS n FROM flows", "--lake", root, "--format", "json")
    assert json.loads(said.out) == {"n": whole}


def test_a_lake_says_what_it_does_not_keep(root: Path) -> None:
    link = Lake(root).links[0]
    asked = Lake(root).sql(f"SELECT count(dns_query) FROM {link}")
    assert any("have no fields of DNS in the lake; there these columns are NULL" in note for note in asked.notes)
    assert not Lake(root).sql(f"SELECT count(*) FROM {link}").notes
    with pytest.raises(LakeError):
        Lake(root).sql("SELECT 1", 5, 5)
