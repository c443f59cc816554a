"""The command line's contract: exit codes, refusals by name, help that teaches, and files that a run leaves."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from lowwater import __version__
from lowwater.cli.main import cli
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import QUERIES, lowwater

BEGIN = 1_000_000 * 1_000_000_000
FLOWS = QUERIES / "flows.gsql"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([(BEGIN, tcp("10.0.0.1", "10.0.0.2", 1024, 80))]))
    return path


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--dialect", "gigascope"), "--dialect gigascope"),
        (("--heartbeat", "on-demand"), "--heartbeat on-demand"),
        (("--schema", FLOWS), "--schema"),
        (("--functions", FLOWS), "--functions"),
        (("--param", "a=1"), "--param"),
    ],
)
def test_run_refuses_by_name_what_is_not_there(options: tuple[object, ...], named: str, capture: Path) -> None:
    out = capture.parent / "out"
    said = lowwater("run", FLOWS, "--capture", f"a={capture}", "--engine", "reference", "--out", out, *options)
    assert (said.code, said.err) == (1, f"error: {named} is not supported yet\n")
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("explain", FLOWS, "--format", "json"), "--format json"),
        (("explain", FLOWS, "--format", "mermaid"), "--format mermaid"),
        (("explain", FLOWS, "--schema", FLOWS), "--schema"),
        (("explain", FLOWS, "--functions", FLOWS), "--functions"),
    ],
)
def test_other_commands_refuse_by_name(arguments: tuple[object, ...], named: str) -> None:
    said = lowwater(*arguments)
    assert (said.code, said.err) == (1, f"error: {named} is not supported yet\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("run",), "Missing argument 'FILE.gsql...'"),
        (("run", "no.gsql", "--out", "o"), "File 'no.gsql' does not exist"),
        (("run", FLOWS, "--out", "o"), "no capture: give --capture LINK=FILE"),
        (("run", FLOWS, "--capture", "main1", "--out", "o"), "'main1' is not of the form LINK=VALUE"),
        (("run", FLOWS, "--capture", "a=no.pcap", "--out", "o"), "--capture a=no.pcap: there is no such file"),
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


def test_links_file_over_which_options_go(capture: Path) -> None:
    links = capture.parent / "links.toml"
    links.write_text(
        '[links.main1]\nskew = "2s"\ncaptures = "a.pcap"\n[links.main2]\n[sets]\nboth = ["main1", "main2"]\n'
    )
    query = capture.parent / "q.gsql"
    query.write_text("SELECT time, interface FROM [both].TCP")
    out = capture.parent / "out"
    run = ("run", query, "--links", links, "--engine", "reference", "--out", out)
    said = lowwater(*run, "--capture", f"main2={capture}", "--skew", "main2=3s")
    assert said.code == 0, said.err
    summary = json.loads((out / "summary.json").read_text())
    assert {name: link["skew_ns"] // 10**9 for name, link in summary["links"].items()} == {"main1": 2, "main2": 3}
    assert (out / "q.csv").read_text() == "time,interface\n1000000,main1\n1000000,main2\n"
    said = lowwater(*run, "--skew", "main3=1s")
    assert said.code == 1 and "--skew main3: there is no such link" in said.err


def test_explain_prints_the_plan() -> None:
    said = lowwater("explain", QUERIES / "handshakes.gsql")
    assert (said.code, said.err) == (0, "")
    assert "LFTA handshakes.S on main1" in said.out and "read range" in said.out


def test_help_teaches_every_command() -> None:
    assert sorted(cli.commands) == ["doctor", "explain", "generate", "ingest", "replay", "report", "run", "status"]
    for name in cli.commands:
        said = lowwater(name, "--help")
        assert said.code == 0 and f"Usage: lowwater {name}" in said.out
        options = [each for each in cli.commands[name].params if isinstance(each, click.Option)]
        assert all(each.help for each in options), name
    assert lowwater("--version").out.strip().endswith(__version__)


def test_debug_raises_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWWATER_DEBUG", "1")
    with pytest.raises(BaseException, match="not supported yet"):
        lowwater("explain", FLOWS, "--format", "json")
