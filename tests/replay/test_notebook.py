"""`from lowwater import Lake`: tables, packets, records and ledgers in Arrow, pandas, polars and DuckDB."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dpkt
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from lowwater_notebook import HEADERS

from lowwater import Lake
from lowwater.errors import LakeError, QueryError
from lowwater.instants import HOUR, SECOND
from lowwater.lake import layout
from lowwater.lake.tables import replace_rows
from tests.replay.support import ROOT, copy_lake, lowwater
from tests.review.resultlake import START, make_results

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("notebook"))[0]


@pytest.fixture(scope="module")
def lake(root: Path) -> Lake:
    return Lake(root)


def test_every_form_has_the_rows_of_the_files(lake: Lake, root: Path) -> None:
    import polars  # a second of imports, which every worker would take to collect tests

    rows = lake.table("flows")
    files = DeltaTable(str(root / "tables" / "flows")).file_uris()
    wanted = duckdb.sql(
        f"SELECT tb, srcIP, destIP, cnt, bytes, _last FROM read_parquet({files}) ORDER BY _last, tb, srcIP, destIP"
    ).fetchall()
    assert len(wanted) > 100
    arrow = rows.arrow()
    assert arrow.schema.field("_last").type == pa.timestamp("ns", "UTC")
    plain = arrow.set_column(5, "_last", arrow["_last"].cast(pa.int64()))
    assert [tuple(row.values()) for row in plain.to_pylist()] == wanted
    assert rows.count() == len(wanted)
    assert polars.from_arrow(arrow).equals(rows.polars())
    assert polars.DataFrame(rows).equals(rows.polars()), "a library that knows Arrow takes the rows as they are"
    frame = rows.pandas()
    assert frame["bytes"].tolist() == [row[4] for row in wanted]
    assert str(frame["_last"].dtype) == "datetime64[ns, UTC]"
    relation = rows.duckdb()
    assert relation.aggregate("count(*), sum(bytes)").fetchall() == [(len(wanted), sum(row[4] for row in wanted))]
    assert relation.filter("cnt > 1").count("*").fetchall() == [(sum(row[3] > 1 for row in wanted),)], "read again"
    with duckdb.connect() as connection:
        own = rows.duckdb(connection)
        assert own.project("epoch_ns(_last)").order("1").fetchall() == [(row[5],) for row in wanted]


def test_a_version_stays_what_it_was(root: Path, tmp_path: Path) -> None:
    copy = copy_lake(root, tmp_path / "lake")
    lake = Lake(copy)
    before = lake.table("ports")
    wanted = before.arrow()
    path = layout.Lake(copy).table("ports")
    replace_rows(path, DeltaTable(str(path)).to_pyarrow_table().slice(0, 3), pc.field("_hour") == START // HOUR)
    assert before.arrow() == wanted, "rows keep their version"
    assert lake.table("ports").count() == 3
    assert lake.table("ports", version=before.version).arrow() == wanted
    assert lake.table("ports").version == (before.version or 0) + 1
    with pytest.raises(LakeError, match="no version 99"):
        lake.table("ports", version=99)


def test_packets_are_those_of_the_file(lake: Lake, root: Path) -> None:
    """Beside dpkt, which reads the capture itself."""
    seen_files = lake.ledger("sightings").arrow().to_pylist()
    path = root / next(row["path"] for row in seen_files if row["links"] == ["main1"] and row["attempts"])
    rows = lake.packets("main1")
    assert tuple(rows.schema.names) == HEADERS
    table = rows.arrow()
    seen = 0
    with Path(path).open("rb") as file:
        frames = dict(enumerate(dpkt.pcap.Reader(file)))
    for row in table.select(["position", "srcIP", "destPort", "len", "srcMAC"]).to_pylist():
        frame = dpkt.ethernet.Ethernet(frames[row["position"]][1])
        assert row["srcMAC"] == ":".join(f"{byte:02x}" for byte in frame.src)
        if isinstance(frame.data, dpkt.ip.IP):
            seen += 1
            assert row["srcIP"] == ".".join(str(byte) for byte in frame.data.src)
            if isinstance(frame.data.data, dpkt.udp.UDP):
                assert row["destPort"] == frame.data.data.dport
        elif isinstance(frame.data, dpkt.ip6.IP6):
            import ipaddress

            assert row["srcIP"] == str(ipaddress.ip_address(frame.data.src))
    assert seen > 1000
    assert table.num_rows == len(frames)
    assert str(table["timestamp"].type) == "timestamp[ns, tz=UTC]"


def test_packets_are_chosen_by_time_condition_and_column(lake: Lake) -> None:
    every = lake.packets("main1", columns=["timestamp", "srcIP", "len", "protocol"])
    relation = every.duckdb()
    wanted = relation.filter(
        "protocol = 17 AND len > 60 AND timestamp >= TIMESTAMP '2026-01-01 00:10:00' "
        "AND timestamp < TIMESTAMP '2026-01-01 00:20:00'"
    )
    chosen = lake.packets(
        "main1",
        "2026-01-01T00:10:00Z",
        START + 20 * 60 * SECOND,
        where="len > 60",
        protocol="UDP",
        columns=["timestamp", "srcIP", "len", "protocol"],
    )
    assert 0 < chosen.count() < every.count()
    assert chosen.duckdb().fetchall() == wanted.fetchall()


def test_records_are_those_that_export_writes(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    (tmp_path / "log.gsql").write_text(
        "PROTOCOL ACCESS { uint sec get_csv_uint (increasing, unit s); IP client get_csv_ip; "
        "ullong bytes get_csv_ullong; }\n",
        encoding="utf-8",
    )
    (root / "lowwater.toml").write_text(
        f'[links.web]\nkind = "csv"\nprotocol = "ACCESS"\nschemas = ["{tmp_path / "log.gsql"}"]\nskew = "1s"\n',
        encoding="utf-8",
    )
    (tmp_path / "web.csv").write_text("sec,client,bytes\n1767225600,10.0.0.1,5\n1767225601,,7\n", encoding="utf-8")
    said = lowwater("ingest", "--lake", root, "--link", "web", tmp_path / "web.csv")
    assert said.code == 0, said
    said = lowwater("export", "--lake", root, "--link", "web", "--out", tmp_path / "out.parquet")
    assert said.code == 0, said
    lake = Lake(root)
    assert lake.records("web").arrow() == pq.read_table(tmp_path / "out.parquet")
    assert lake.records("web", where="bytes > 5").count() == 1
    with pytest.raises(LakeError, match="no packets"):
        lake.packets("web")


def test_what_is_wrong_is_said(lake: Lake) -> None:
    with pytest.raises(LakeError, match="no published rows"):
        lake.table("flow")
    with pytest.raises(QueryError):
        lake.packets("main1", where="destPort =")
    with pytest.raises(LakeError, match="stores no bytes"):
        lake.packets("main1", where="payload = 'x'", protocol="UDP").count()


def test_an_absent_package_is_named_and_the_import_loads_nothing(root: Path) -> None:
    """In a process where no frame library can be imported, as in the light core."""
    program = (
        "import sys\n"
        "import lowwater\n"
        "assert 'pyarrow' not in sys.modules\n"
        "class Absent:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name in ('pandas', 'polars', 'duckdb'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name in ('pandas', 'polars', 'duckdb') else found(name, *more)\n"
        "import lowwater_notebook as rows\n"
        "rows.find_spec = util.find_spec\n"
        f"table = lowwater.Lake({str(root)!r}).table('flows')\n"
        "assert table.arrow().num_rows\n"
        "for name in ('pandas', 'polars', 'duckdb'):\n"
        "    try:\n"
        "        getattr(table, name)()\n"
        "    except ModuleNotFoundError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in done.stdout.splitlines() if "pip install" in line] == [
        "hint: pip install 'pandas<3'; `arrow` and `batches` need nothing more",
        "hint: pip install polars; `arrow` and `batches` need nothing more",
        "hint: pip install duckdb; `arrow` and `batches` need nothing more",
    ]
