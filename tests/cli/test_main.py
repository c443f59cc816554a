"""The command line's contract: exit codes, refusals by name, help that teaches, and files that a run leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lowwater.cli.main import STANDS, cli
from lowwater.lake.layout import open_lake
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import QUERIES, lowwater

BEGIN = 1_000_000 * 1_000_000_000
FLOWS = QUERIES / "flows.gsql"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([(BEGIN, tcp("10.0.0.1", "10.0.0.2", 1024, 80))]))
    return path


def test_a_query_without_rows_says_where_its_packets_went(capture: Path, tmp_path: Path) -> None:
    query = tmp_path / "q.gsql"
    texts = {"udp": "FROM UDP", "https": "FROM TCP WHERE destPort = 443", "http": "FROM TCP WHERE destPort = 80"}
    query.write_text(
        ";\n".join(f"DEFINE {{ query_name '{name}'; }} SELECT time {text}" for name, text in texts.items())
    )
    out = lowwater("run", query, "--capture", f"a={capture}", "--engine", "reference", "--out", tmp_path / "out").out
    assert "note: query udp has no rows: of 1 packet of a, 1 is not of the protocol" in out
    assert "note: query https has no rows: of 1 packet of a, 1 does not meet WHERE" in out
    assert "query http has no rows" not in out


@pytest.mark.parametrize("engine", ["spark", "process", "reference"])
def test_run_refuses_what_it_cannot_compute_before_it_starts(engine: str, capture: Path, tmp_path: Path) -> None:
    functions, query, out = tmp_path / "mine.fun", tmp_path / "q.gsql", tmp_path / "out"
    functions.write_text("UINT FUN twice(UINT);")
    query.write_text(
        "DEFINE { query_name 'doubled'; }\n"
        "SELECT time, twice(len) FROM TCP;\n"
        "DEFINE { query_name 'heavy'; }\n"
        "PARAM { n uint; }\n"
        "SELECT tb, srcIP, count(*) FROM TCP WHERE len > $n GROUP BY time/60 AS tb, srcIP\n"
        "CLEANING_WHEN local_count(100) = TRUE CLEANING_BY count(*) > 1\n"
    )
    words = ("run", query, "--capture", f"a={capture}", "--out", out, "--engine", engine, "--functions", functions)
    said = lowwater(*words)
    assert said.code == 1 and not out.exists()
    assert "q.gsql:2:14: query doubled: the function twice is declared without Python" in said.err
    assert "q.gsql:5:49: query heavy: $n has no value" in said.err and "give --param n=VALUE" in said.err
    said = lowwater(*words, "--param", "n=40")
    assert said.code == 1 and not out.exists() and "twice" in said.err and "$n" not in said.err
    if engine == "reference":
        (tmp_path / "mine.py").write_text("def twice(value):\n    return 2 * value\n")
        functions.write_text("MODULE 'mine.py'; UINT FUN twice(UINT);")
        assert lowwater(*words, "--param", "n=40").code == 0
        assert (out / "doubled.csv").read_text().splitlines()[1].split(",")[1] == "108"
        assert (out / "heavy.csv").exists()


def test_run_takes_parameters_and_dialects(capture: Path, tmp_path: Path) -> None:
    query = tmp_path / "q.gsql"
    query.write_text("PARAM { n uint; } SELECT tb, count(*) FROM ETH GROUP BY time/$n AS tb")
    options = ("--capture", f"a={capture}", "--out", tmp_path / "out", "--engine", "reference")
    assert lowwater("run", query, *options, "--param", "n=10", "--dialect", "gigascope").code == 0
    said = lowwater("run", query, *options, "--param", "n=10", "--param", "m=10")
    assert said.code == 2 and "no query has a parameter $m" in said.err
    said = lowwater("run", query, *options, "--param", "n=ten")
    assert said.code == 1 and "$n is 'ten', which is no uint" in said.err


def test_check_reports_every_error(tmp_path: Path) -> None:
    query = tmp_path / "q.gsql"
    query.write_text("SELECT tiem FROM TCP;\nQuery b:\nSELECT len FROM TPC\n")
    said = lowwater("check", query)
    assert said.code == 1 and said.err.count("error: ") == 2 and said.err.endswith("2 errors\n")
    said = lowwater("check", query, "--format", "json")
    errors = json.loads(said.out)["errors"]
    assert said.code == 1 and [(error["line"], error["column"]) for error in errors] == [(1, 8), (3, 17)]
    assert errors[0]["hint"] == "did you mean time?" and errors[0]["source"] == "SELECT tiem FROM TCP;"
    said = lowwater("check", FLOWS)
    assert (said.code, said.out) == (0, "1 file, no error\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("run",), "Missing argument 'FILE.gsql...'"),
        (("run", "no.gsql", "--out", "o"), "File 'no.gsql' does not exist"),
        (("run", "queries/flows.gsql", "--out", "o"), f"does not exist. Copy the samples: cp -r '{FLOWS.parent}' ."),
        (("run", "queries/no.gsql", "--out", "o"), "File 'queries/no.gsql' does not exist."),
        (("run", FLOWS, "--out", "o"), "no capture: give --capture LINK=FILE"),
        (("run", FLOWS, "--capture", "main1", "--out", "o"), "'main1' is not of the form LINK=VALUE"),
        (("run", FLOWS, "--capture", "a.pcap", "--out", "o"), "for a link main1 write main1=a.pcap"),
        (("run", FLOWS, "--capture", "a=.", "--out", "o"), "it is a folder"),
        (("run", FLOWS, "--capture", "a=no.pcap", "--out", "o"), "--capture a=no.pcap: there is no such file"),
        (("run", FLOWS, "--capture", "a=/dev/null", "--out", "o"), "--capture a=/dev/null: it is no regular file"),
        (("run", FLOWS, "--capture", f"a={FLOWS}", "--out", "o", "--skew", "a=soon"), "a=soon: 'soon' is no duration"),
        (("run", FLOWS, "--capture", f"a={FLOWS}", "--out", "o", "--interval", "0"), "--interval must be above 0"),
        (("run", FLOWS, "--capture", f"a={FLOWS}", "--out", "o", "--heartbeat", "0s"), "the period must be above 0"),
        (("run", FLOWS, "--capture", f"a={FLOWS}", "--out", "o", "--engine", "duck"), "'duck' is not one of"),
        (("replay", "demo", "--lake", "x", "--from", "yesterday", "--to", "2026-01-01"), "'yesterday' is no instant"),
        (("replay", "demo", "--lake", "x", "--from", "2026-01-01"), "Missing option '--to'"),
        (("ingest", "--lake", "x", "--link", "a", FLOWS, "--covers", "2026-01-02"), "not of the form FROM/TO"),
        (("ingest", "--lake", "x", "--link", "a", FLOWS, FLOWS, "--covers", "2026-01-01/2026-01-02"), "give one file"),
        (("generate", "--out", "x", "--skew", "main1=-1"), "must not be negative"),
        (("generate", "--out", "x", "--hours", "0"), "0 is not in the range"),
    ],
)
def test_bad_usage_is_exit_2(
    arguments: tuple[object, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = lowwater(*arguments)
    assert said.code == 2
    assert "Usage: lowwater" in said.err and says in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_run_leaves_its_files(capture: Path) -> None:
    out = capture.parent / "out"
    said = lowwater("run", FLOWS, "--capture", f"main1={capture}", "--engine", "reference", "--out", out)
    assert said.code == 0, said.err
    assert sorted(path.name for path in out.iterdir()) == ["flows.csv", "skew_violations.csv", "summary.json"]
    assert "flows" in said.out and str(out / "flows.csv") in said.out
    assert (out / "flows.csv").read_text() == (
        "tb,protocol,srcIP,destIP,srcPort,destPort,cnt\n100000,6,10.0.0.1,10.0.0.2,1024,80,1\n"
    )
    assert (out / "skew_violations.csv").read_text().count("\n") == 1
    summary = json.loads((out / "summary.json").read_text())
    assert summary["links"]["main1"]["read"] == 1 and summary["queries"]["flows"]["rows"] == 1
    assert set(summary["seconds"]) == {"ingest", "reference", "write"}


def test_a_cut_capture_is_named_with_its_end(capture: Path, tmp_path: Path) -> None:
    records = [(BEGIN + at * 10**9, tcp("10.0.0.1", "10.0.0.2", 1024, 80)) for at in range(3)]
    capture.write_bytes(pcap_bytes(records)[:-5])
    options = ("--engine", "reference", "--out", tmp_path / "out")
    said = lowwater("run", FLOWS, "--capture", f"main1={capture}", *options)
    assert said.code == 0, said.err
    assert f"note: link main1: {capture} is cut; its last whole record is at 1970-01-12T13:46:41Z" in said.out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["links"]["main1"]["cut"] == {str(capture): "1970-01-12T13:46:41Z"}


@pytest.mark.slow
def test_help_imports_nothing_slow() -> None:
    code = "import sys; from lowwater.cli.main import cli; [*cli.commands.values()]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numba", "pyarrow", "pydantic", "deltalake", "pandas"} & set(done.stdout.split()) == set()


@pytest.mark.slow
def test_a_command_does_not_import_pandas_and_arrow_finds_it_afterwards(capture: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    words = ["run", str(FLOWS), "--capture", f"main1={capture}", "--out", str(tmp_path / "out")]
    code = f"""
import sys
from lowwater.cli.main import main
try:
    main({words!r})
except SystemExit as end:
    assert not end.code
assert "pandas" not in sys.modules
import pyarrow as pa
assert list(pa.table({{"n": [1, 2]}}).to_pandas()["n"]) == [1, 2]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_status_tells_of_sets_that_cannot_be_planned_and_shows_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap_bytes([(1_700_000_000_000_000_000, b"")]))
    covers = "2023-11-14T22:00:00Z/2023-11-14T23:00:00Z"
    options = ("--lake", open_lake(tmp_path / "lake").root, "--link", "here", "--covers", covers)
    assert lowwater("ingest", *options, tmp_path / "a.pcap").code == 0
    queries = tmp_path / "queries"
    queries.mkdir()
    for name, link in (("good", "here"), ("other", "elsewhere")):
        (queries / f"{name}.gsql").write_text(f"SELECT tb, count(*) AS n FROM {link}.TCP GROUP BY time/60 AS tb")
    said = lowwater("status", "--lake", tmp_path / "lake", "--queries", queries)
    assert said.code == 0 and "good" in said.out and "other" not in said.out
    assert "query set other: " in said.err and "elsewhere" in said.err


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("rows", "flows", "--lake", "a b"), "stopped"),
        (("export", "--lake", "a b", "--out", "x.pcap"), "no file was written; `lowwater export --lake 'a b' --out x"),
    ],
)
def test_ctrl_c_says_what_stands_and_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...], told: str
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lowwater.lake.layout.is_lake", interrupted)
    said = lowwater(*command)
    assert said.code == 130 and f"{told}" in said.err and "Traceback" not in said.err
    assert set(STANDS) <= set(cli.commands)


def test_explain_prints_the_plan() -> None:
    said = lowwater("explain", QUERIES / "handshakes.gsql")
    assert (said.code, said.err) == (0, "")
    assert "LFTA handshakes.S on main1" in said.out and "read range" in said.out
    assert "memory\n  process: " in said.out and "\n  Spark task: 536,870,912 bytes (as usual)" in said.out
