"""`lowwater sql` at a terminal: forms, limits, names of files, hostile text."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import capturemaker as maker
from tests.cli.hostile import HOSTILE, clean
from tests.replay.support import START, lowwater

pytestmark = pytest.mark.slow


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(maker.pcap_bytes([(START + n, maker.udp("10.0.0.1", "10.0.0.2", n, 53, b"x")) for n in range(5)]))
    return path


def test_values_of_every_type_are_printed(capture: Path) -> None:
    text = (
        "SELECT 1::HUGEINT AS a, 170141183460469231731687303715884105727 AS b, 1.50::DECIMAL(5,2) AS c, 'x'::BLOB AS d,"
        " [1, 2] AS e, {'k': DATE '2026-01-01'} AS f, INTERVAL '90 seconds' AS g, 'nan'::DOUBLE AS h, TIME '01:02:03'"
        " AS i, TIMESTAMP '2026-01-01' AS j, NULL AS k, uuid() IS NULL AS l, 7::UTINYINT AS m, 1 AS m"
    )
    for form in ("json", "csv", "table"):
        assert lowwater("sql", text, "--capture", capture, "--format", form).code == 0
    found = json.loads(lowwater("sql", text, "--capture", capture, "--format", "json").out)
    assert found == {
        "a": 1, "b": "170141183460469231731687303715884105727", "c": "1.50", "d": "x", "e": [1, 2],
        "f": '{"k": "2026-01-01"}', "g": "90 s", "h": None, "i": "01:02:03", "j": "2026-01-01T00:00:00Z", "k": None,
        "l": False, "m": 7, "m_1": 1,
    }  # fmt: skip


def test_a_table_shows_the_first_rows_and_says_so(capture: Path) -> None:
    said = lowwater("sql", "FROM range(30)", "--capture", capture)
    assert len(said.out.splitlines()) == 21 and "the first 20 rows; --limit gives more" in said.err
    assert lowwater("sql", "FROM range(20)", "--capture", capture).err == ""
    assert len(lowwater("sql", "FROM range(30)", "--capture", capture, "--format", "csv").out.splitlines()) == 31
    cut = lowwater("sql", "FROM range(30)", "--capture", capture, "--format", "csv", "--limit", 3)
    assert len(cut.out.splitlines()) == 4 and "the first 3 rows" in cut.err


def test_what_is_asked_of_is_named(capture: Path, tmp_path: Path) -> None:
    assert "one of them" in lowwater("sql", "SELECT 1").err
    assert "one of them" in lowwater("sql", "SELECT 1", "--capture", capture, "--lake", tmp_path).err
    assert "no such file" in lowwater("sql", "SELECT 1", "--capture", "main1=nowhere").err
    assert "given twice" in lowwater("sql", "SELECT 1", "--capture", capture, "--capture", capture).err
    odd = tmp_path / "a=b.pcap"
    shutil.copy(capture, odd)
    assert "main1" in lowwater("sql", "SELECT DISTINCT link FROM main1", "--capture", odd).out
    named = lowwater("sql", "SELECT DISTINCT link FROM left1", "--link", f"left1={odd}")
    assert named.code == 0 and "left1" in named.out


def test_hostile_names_and_texts_are_text(tmp_path: Path) -> None:
    folder = tmp_path / HOSTILE.replace("/", "")
    folder.mkdir()
    path = folder / "a.pcap"
    path.write_bytes(maker.pcap_bytes([(START, maker.udp("10.0.0.1", "10.0.0.2", 1, 53, HOSTILE.encode()))])[:-1])
    for form in ("table", "csv", "json"):
        clean("sql", "SELECT file, payload FROM main1.UDP", "--capture", path, "--format", form)
    clean("sql", f"SELECT '{HOSTILE}' AS \"{HOSTILE}\" FROM main1", "--capture", path)
    clean("sql", f"SELECT {HOSTILE}", "--capture", path, code=1)
    clean("sql", "SELECT 1", "--capture", f"{HOSTILE}=x", code=2)


def test_ctrl_c_ends_a_statement_that_has_no_end(capture: Path) -> None:
    """While DuckDB works, and no row has come."""
    endless = "SELECT count(*) FROM range(1000000000000) a(x) WHERE x % 7 = 3"
    # The program says that it is about to ask.
    program = (
        "import sys; from lowwater.replay import sql; from lowwater.cli.main import main\n"
        "batches = sql.Statement.batches\n"
        "def told(self):\n    print('asks', flush=True)\n    return batches(self)\n"
        "sql.Statement.batches = told\n"
        f"sys.argv = ['lowwater', 'sql', {endless!r}, '--capture', {str(capture)!r}]\n"
        "main()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"asks\n"
        try:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130
            assert process.stderr.read().decode().strip() == "stopped"
        finally:
            process.kill()
