"""Evidence of rows: the script that an archive has derives the row, and refuses what was changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lowwater.instants import format_duration
from lowwater.lake.layout import open_lake
from lowwater.lake.results.exploring import RowQuery, result_table
from lowwater.plan import operators as ops
from lowwater.replay.evidence import EvidenceRow, enough_packets, find_row, gather, owner_of, query_text, write
from lowwater.replay.job import Job
from lowwater.replay.packets import find_packets, row_packets
from lowwater.replay.row_files import with_texts
from tests.breadth import each_push
from tests.capture.tsharkoracle import need_tshark
from tests.law.fuzz import FAMILIES, family_case
from tests.law.worlds import LINKS
from tests.replay.evidencelake import published_lake
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow

QUERIES = {
    "flows": "SELECT tb, srcIP, destIP, count(*) AS n, sum(len) AS bytes, avg(len) AS mean, max(ttl) AS m "
    "FROM main1.IPV4 GROUP BY time/60 AS tb, srcIP, destIP",
    "totals": "SELECT tb/5 AS five, count(*) AS flows, sum(n) AS packets FROM flows GROUP BY tb/5 AS five",
    "widest": "SELECT tb, srcIP, destIP, bytes FROM flows ORDER BY bytes DESC LIMIT 3 PER tb",
    "first": "SELECT time, srcIP, destIP, len FROM main1.TCP "
    "QUALIFY row_number() OVER (PARTITION BY time/60, srcIP ORDER BY len DESC) <= 2",
    "gaps": "SELECT timestamp, srcIP, timestamp - lag(timestamp) OVER (PARTITION BY srcIP, srcPort ORDER BY timestamp) "
    "AS gap, row_number() OVER (PARTITION BY srcIP, srcPort ORDER BY timestamp) AS nth FROM main1.TCP",
    "handshakes": "SELECT S.timestamp, S.srcIP, S.destIP, (A.timestamp - S.timestamp)/1000 AS us FROM main1.TCP S "
    "ASOF JOIN main1.TCP A ON S.srcIP = A.destIP AND S.destIP = A.srcIP AND S.srcPort = A.destPort "
    "AND S.destPort = A.srcPort AND A.SYN AND A.ACK "
    "AND A.timestamp >= S.timestamp AND A.timestamp <= S.timestamp + 3 s "
    "WHERE S.SYN AND NOT S.ACK",
    "once": "SELECT S.timestamp, S.srcIP, S.srcPort, (A.timestamp - S.timestamp)/1000 AS us FROM main1.UDP S "
    "ASOF ONCE LEFT JOIN main1.UDP A ON S.srcIP = A.destIP AND S.destIP = A.srcIP AND S.srcPort = A.destPort "
    "AND A.timestamp >= S.timestamp AND A.timestamp <= S.timestamp + 5 s WHERE S.destPort = 53",
    "unanswered": "SELECT S.timestamp, S.srcIP, S.destIP, S.destPort FROM main1.UDP S ANTI JOIN main1.UDP A "
    "ON S.srcIP = A.destIP AND S.srcPort = A.destPort "
    "AND A.timestamp >= S.timestamp AND A.timestamp <= S.timestamp + 5 s",
    "pairs": "SELECT A.timestamp, A.srcIP AS src, B.len AS size LEFT_OUTER_JOIN FROM main1.UDP A, main1.ICMP B "
    "WHERE A.srcIP = B.destIP AND A.timestamp <= B.timestamp AND B.timestamp <= A.timestamp + 1 s",
    "quiet": "SELECT tb, count(*) AS n, sum(len) AS bytes FROM main1.ICMP GROUP BY time/20 AS tb FILL",
}


def some_rows(root: Path, query: str, number: int, seed: int) -> list[dict[str, Any]]:
    """Some published rows of a query, as `rows` prints them."""
    table = result_table(open_lake(root), query)
    rows = [
        row
        for batch in table.batches(RowQuery(0, 1 << 62))
        for row in with_texts(batch.select(table.columns.names)).to_pylist()
    ]
    return Random(seed).sample(rows, min(number, len(rows)))


def checked(folder: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the script of an archive that lies in a folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "check.py", *map(str, options)]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )


def extracted(row: EvidenceRow, folder: Path) -> dict[str, Any]:
    """Writes the evidence of a row into a folder; returns what its script reads."""
    file = BytesIO()
    write(gather(row), file)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    about: dict[str, Any] = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
    return about


@pytest.fixture(scope="module")
def capture(captures_dir: Path) -> Path:
    need_tshark()
    return next(captures_dir.rglob("*SkypeIRC.cap"))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, capture: Path) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("evidence")
    settings = '[links.main1]\nskew = "1s"\n'
    return published_lake(folder, QUERIES, settings, [("main1", capture)])


@pytest.mark.parametrize("query", list(QUERIES))
def test_tshark_and_duckdb_derive_the_rows_of_a_real_capture(
    real: tuple[Path, Path], capture: Path, query: str, tmp_path: Path
) -> None:
    (tmp_path / "captures").mkdir()
    shutil.copy(capture, tmp_path / "captures")
    job, plan = owner_of(*real, query)
    rows = some_rows(real[0], query, 3, 7)
    assert rows
    for at, row in enumerate(rows):
        folder = tmp_path / str(at)
        about = extracted(find_row(job, plan, row), folder)
        assert about["derive"] == "duckdb", about
        done = checked(folder, "--captures", tmp_path / "captures") if at == 0 else checked(folder)
        assert done.returncode == 0, (row, done.stderr, (folder / "derive.sql").read_text())


def test_a_row_of_a_group_has_the_packets_that_it_counted_and_no_others(real: tuple[Path, Path]) -> None:
    job, plan = owner_of(*real, "flows")
    for row in some_rows(real[0], "flows", 10, 3):
        found = gather(find_row(job, plan, row))
        assert found.packets.count == row["n"] == find_packets(job.lake, job.config, row_packets(plan, row)).count


def test_the_reference_engine_derives_what_sql_does_not_say(capture: Path, tmp_path: Path) -> None:
    texts = {"spread": "SELECT tb, srcIP, median_of(len) AS m FROM main1.IPV4 GROUP BY time/60 AS tb, srcIP"}
    root, queries = published_lake(tmp_path / "made", texts, '[links.main1]\nskew = "1s"\n', [("main1", capture)])
    for name in texts:
        job, plan = owner_of(root, queries, name)
        for at, row in enumerate(some_rows(root, name, 2, 1)):
            folder = tmp_path / f"{name}{at}"
            about = extracted(find_row(job, plan, row), folder)
            assert about["derive"] == "reference" and (folder / "lowwater.toml").exists()
            done = checked(folder)
            assert done.returncode == 0, done.stderr


ROWS = 3
"""Rows of each family that are derived."""


def drawn_lake(name: str, seed: int, folder: Path) -> tuple[Path, Path] | None:
    """A lake with the rows of a drawn question over a drawn world; None if SQL has none."""
    case = family_case(name, seed)
    with case.world.oracle() as oracle:  # most joins of few packets have no row
        if not oracle.execute(case.asked[0].sql).fetchall():
            return None
    folder.mkdir()
    captures = case.world.write(folder)
    settings = "".join(
        f'[links.{link}]\nskew = "{format_duration(case.world.skews[link])}"\nmax_jump = "1000000s"\n' for link in LINKS
    )
    text = case.asked[0].text
    read = [(link, path) for link, path in captures if case.world.packets[link] and link not in case.world.cuts]
    return published_lake(folder, {case.asked[0].name: text}, settings + '[sets]\npair = ["main1", "main2"]\n', read)


@pytest.mark.parametrize("name", each_push(FAMILIES, 3))
def test_drawn_rows_are_derived(name: str, tmp_path: Path) -> None:
    """Of drawn queries and worlds, late packets and reordered ones among them; the first of them that have rows."""
    need_tshark()
    derived = 0
    for seed in range(40):
        made = drawn_lake(name, seed, tmp_path / str(seed)) if derived < ROWS else None
        for at, row in enumerate(some_rows(made[0], "q0", 2, seed) if made else ()):
            folder = tmp_path / f"{seed}-{at}"
            extracted(find_row(*owner_of(*made, "q0"), row), folder)
            done = checked(folder)
            assert done.returncode == 0, (seed, row, done.stderr)
            derived += 1
    assert derived >= ROWS


def test_the_same_row_gives_the_same_bytes(real: tuple[Path, Path], tmp_path: Path) -> None:
    (row,) = some_rows(real[0], "flows", 1, 2)
    for name in ("a.zip", "b.zip"):
        said = lowwater(
            "evidence",
            "flows",
            "--lake",
            real[0],
            "--queries",
            real[1],
            "--row",
            json.dumps(row),
            "--out",
            tmp_path / name,
        )
        assert said.code == 0, said
        assert "check.py derives the row by tshark and DuckDB" in said.out
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert {"README.txt", "check.py", "derive.sql", "packets/main1.pcapng", "plan.txt"} <= set(archive.namelist())


def test_what_was_changed_is_refused(real: tuple[Path, Path], capture: Path, tmp_path: Path) -> None:
    """A byte of a packet; then with a manifest of the changed file; a file more; a capture that is another one."""
    (row,) = some_rows(real[0], "flows", 1, 2)
    job, plan = owner_of(*real, "flows")
    extracted(find_row(job, plan, row), tmp_path / "whole")

    def copy(name: str) -> Path:
        return Path(shutil.copytree(tmp_path / "whole", tmp_path / name))

    folder = copy("byte")
    packets = folder / "packets" / "main1.pcapng"
    content = bytearray(packets.read_bytes())
    content[-8] ^= 1  # of the last frame, before the length of its block
    packets.write_bytes(content)
    done = checked(folder)
    assert done.returncode == 1 and "packets/main1.pcapng is not the file that the manifest has" in done.stderr

    folder = copy("fewer")  # a packet is taken out, and the manifest says so
    cut(folder / "packets" / "main1.pcapng")
    resealed(folder)
    done = checked(folder)
    assert done.returncode == 1 and "the packets give the row 0 times, not 1" in done.stderr

    folder = copy("forged")  # a packet that no capture has
    packets = folder / "packets" / "main1.pcapng"
    packets.write_bytes(content)
    resealed(folder)
    captures = tmp_path / "captures"
    captures.mkdir()
    shutil.copy(capture, captures)
    done = checked(folder, "--captures", captures)
    assert done.returncode == 1 and "1 packets are in none of its captures" in done.stderr

    folder = copy("more")
    (folder / "packets" / "other.pcapng").write_bytes(b"")
    assert "packets/other.pcapng is not in the manifest" in checked(folder).stderr
    (folder / "packets" / "other.pcapng").unlink()
    (folder / "row.json").unlink()
    assert "row.json is missing" in checked(folder).stderr

    (captures / capture.name).write_bytes(capture.read_bytes() + b"more")
    done = checked(tmp_path / "whole", "--captures", captures)
    assert done.returncode == 1 and "has no capture with the SHA-256" in done.stderr


def cut(path: Path) -> None:
    """Takes the last packet out of a pcapng."""
    content = path.read_bytes()
    length = int.from_bytes(content[-4:], "little")
    path.write_bytes(content[:-length])


def resealed(folder: Path) -> None:
    """Makes the manifest one of the changed files."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in manifest["sha256"]}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "sha256": digests}), encoding="utf-8")


def test_what_is_missing_is_said(capture: Path, tmp_path: Path) -> None:
    capture = Path(shutil.copy(capture, tmp_path / "moved.cap"))
    root, queries = published_lake(
        tmp_path / "made", {"flows": QUERIES["flows"]}, '[links.main1]\nskew = "1s"\n', [("main1", capture)]
    )
    (row,) = some_rows(root, "flows", 1, 2)

    def asked(given: object) -> str:
        command = ["evidence", "flows", "--lake", root, "--queries", queries, "--out", tmp_path / "out.zip"]
        said = lowwater(*command, "--row", json.dumps(given))
        assert said.code != 0 and not (tmp_path / "out.zip").exists()
        return said.err

    assert "no published row has" in asked({**row, "n": 10**9})
    assert "several rows have these values" in asked({"n": 1})
    assert "no column 'bytse'" in asked({"bytse": 1}) and "bytes" in asked({"bytse": 1})
    assert "is no row: write columns and values as JSON" in asked([1])
    (digest,) = {each.file_digest for each in Job.open(root, "q", queries).captures()["main1"]}
    capture.unlink()
    said = asked(row)
    assert f"{capture} (is gone)" in said and digest in said


def test_the_text_of_a_query_is_one_that_plans(real: tuple[Path, Path], tmp_path: Path) -> None:
    for name in QUERIES:
        _, plan = owner_of(*real, name)
        (tmp_path / "query.gsql").write_text(query_text(plan), encoding="utf-8")
        said = lowwater("check", tmp_path / "query.gsql")
        assert said.code == 0, said


def test_packets_of_other_groups_are_left_out_of_joins_and_partitions(real: tuple[Path, Path]) -> None:
    """Of ASOF and OVER the packets are those of the connection, not all that the query reads."""
    for name in ("handshakes", "once", "gaps"):
        job, plan = owner_of(*real, name)
        (row,) = some_rows(real[0], name, 1, 4)
        found = find_row(job, plan, row)
        inputs = job.inputs(0, 1 << 62, job.captures())
        packets = find_packets(job.lake, job.config, enough_packets(found, inputs), 0)
        everything = sum(each.packets for each in job.captures()["main1"])
        assert 0 < packets.count < everything / 2
        assert any(isinstance(each, ops.Over | ops.Join) for each in ops.walk(plan.logical))
