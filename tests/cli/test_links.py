"""Links, sets and captures that do not go together: one message before anything is read, that says what to give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import Said, lowwater

SECOND = 1_000_000_000
RECORDS = [((1_000_000 + i) * SECOND, tcp("10.0.0.1", "10.0.0.2", 1024, 80)) for i in range(3)]
LINKS = '[links.main1]\n[links.main2]\n[sets]\nbackbone = ["main1", "main2"]\n'


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes(RECORDS, nanoseconds=True))
    return path


def run(text: str, capture: Path, *options: object) -> Said:
    query = capture.parent / "q.gsql"
    query.write_text(text, encoding="utf-8")
    return lowwater("run", query, "--engine", "reference", "--out", capture.parent / "out", *options)


def check(text: str, folder: Path, links: str) -> Said:
    (folder / "q.gsql").write_text(text, encoding="utf-8")
    (folder / "links.toml").write_text(links, encoding="utf-8")
    return lowwater("check", folder / "q.gsql", "--links", folder / "links.toml")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["TCP", "[backbone].TCP", "main2.TCP"])
def test_a_link_that_is_read_needs_a_capture(source: str, capture: Path) -> None:
    links = capture.parent / "links.toml"
    links.write_text(LINKS, encoding="utf-8")
    said = run(f"SELECT time FROM {source}", capture, "--capture", f"main1={capture}", "--links", links)
    assert said.code == 1
    assert "no capture of main2" in said.err and "--capture main2=FILE" in said.err
    assert not (capture.parent / "out").exists()
    said = run("SELECT time FROM main1.TCP", capture, "--capture", f"main1={capture}", "--links", links)
    assert said.code == 0, said.err


def test_a_link_that_run_does_not_know_is_given_by_an_option(capture: Path) -> None:
    said = run("SELECT time FROM main1.TCP", capture, "--capture", f"main2={capture}")
    assert said.code == 1
    assert "link main1 has no capture" in said.err
    assert "did you mean main2? Otherwise give --capture main1=FILE" in said.err


def test_a_folder_is_no_capture(tmp_path: Path) -> None:
    said = lowwater("run", Path(__file__), "--capture", f"a={tmp_path}", "--out", tmp_path / "out")
    assert said.code == 2 and "it is a folder" in said.err


@pytest.mark.parametrize("source", ["backbone.TCP", "backbone"])
def test_a_set_stands_in_brackets(source: str, tmp_path: Path) -> None:
    said = check(f"SELECT time FROM {source}", tmp_path, LINKS)
    assert said.code == 1 and "backbone is a set of links: write [backbone].PROTOCOL" in said.err


def test_check_speaks_of_links_and_not_of_captures(tmp_path: Path) -> None:
    said = check("SELECT time FROM eth0.TCP", tmp_path, LINKS)
    assert said.code == 1 and "no link is called eth0" in said.err and "capture" not in said.err


def test_a_set_without_its_links_says_what_to_write(tmp_path: Path) -> None:
    said = check("SELECT time FROM TCP", tmp_path, '[sets]\nb = ["main1"]\n')
    assert said.code == 1 and "sets.b: no link 'main1'; write [links.main1]" in said.err


def test_a_cut_capture_is_named_with_its_end(capture: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:-5])
    said = run("SELECT time FROM main1.TCP", capture, "--capture", f"main1={capture}")
    assert said.code == 0, said.err
    assert f"note: link main1: {capture} is cut; its last whole record is at 1970-01-12T13:46:41Z" in said.out
    summary = json.loads((capture.parent / "out" / "summary.json").read_text())
    assert summary["links"]["main1"]["cut"] == {str(capture): "1970-01-12T13:46:41Z"}
