"""A stream in place of a file, into which nobody writes, ends a command with one line, and keeps none waiting."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lowwater import limits
from tests.cli.hostile import clean
from tests.lake.support import capture
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow
QUERY = "DEFINE { query_name 'n'; } SELECT tb, count(*) AS n FROM main1.ETH GROUP BY time/60 AS tb"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.parent.parent / "pipe")
    path.symlink_to(path.parent.parent / "pipe")


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(path.parent)  # the path of a socket is short
        listening.bind(path.name)


def terminal(path: Path) -> None:
    path.symlink_to("/dev/ptmx")


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS = {pipe, link_to_a_pipe, unix_socket, terminal, zeros}
Made = Callable[[Path], None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(limits, "STREAM_WAIT", 0.2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "n.gsql").write_text(QUERY)
    return tmp_path


@pytest.mark.parametrize("make", sorted(KINDS, key=lambda kind: kind.__name__))
def test_a_command_that_is_given_it_says_so(make: Made, folder: Path) -> None:
    given = folder / "in" / "silent"
    make(given)
    capture(folder / "main1.pcap", range(20))
    run = ["run", folder / "n.gsql", "--out", folder / "out", "--capture"]
    for command in (
        ["inspect", given],
        ["check", given],
        ["explain", given],
        ["run", given, "--capture", f"main1={folder / 'main1.pcap'}", "--out", folder / "out"],
        [*run, f"main1={given}"],
        [*run, f"main1={folder / 'main1.pcap'}", "--links", given],
        ["check", folder / "n.gsql", "--functions", given],
        ["check", folder / "n.gsql", "--schema", given],
        ["serve", "--lake", folder / "lake", "--token-file", given],
    ):
        said = clean(*command, code=None)
        assert said.code in (1, 2) and said.err.lower().count("error") == 1, (command, said)
        assert str(given) in said.err.replace("\n", ""), (command, said)


@pytest.mark.parametrize("make", sorted(KINDS, key=lambda kind: kind.__name__))
def test_a_folder_of_captures_is_read_beside_it(make: Made, folder: Path) -> None:
    captures, lake = folder / "captures" / "main1", folder / "lake"
    for hour in range(2):
        capture(captures / f"main1_2026010{hour + 1}.pcap", range(20 * hour, 20 * hour + 20))
    make(captures / "main1_20260103.pcap")
    of_lake = ["--lake", lake]
    assert lowwater("init", captures.parent, *of_lake, "--query", folder / "n.gsql").code == 0
    assert clean("ingest", *of_lake).out.count("added") == 2
    by_name = clean("ingest", *of_lake, "--link", "main1", captures / "main1_20260103.pcap", code=None)
    assert by_name.code in (1, 2) and by_name.err.lower().count("error:") == 1, by_name
    for command in (["ingest"], ["status"], ["plan"], ["report"], ["watch", "--once"], ["doctor"]):
        said = clean(*command, *of_lake, code=None)
        assert said.code in (0, 1, 3) and "error:" not in said.err, (command, said)


def test_a_stream_that_comes_slowly_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as <(...) of a shell; the wait is for each byte, not for all of them."""
    path, text = folder / "slow", QUERY.encode()
    os.mkfifo(path)
    monkeypatch.setattr(limits, "STREAM_WAIT", 5.0)

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            for at in range(0, len(text), 20):
                time.sleep(0.02)
                file.write(text[at : at + 20])

    writer = threading.Thread(target=write)
    writer.start()
    assert clean("check", path).code == 0
    writer.join()


def test_a_text_without_an_end_is_not_taken_into_memory(folder: Path) -> None:
    """A file of holes has any size, and takes no place on the disk."""
    (folder / "qlib" / "far").mkdir(parents=True)
    endless, own = folder / "qlib" / "far" / "x.gsql", folder / "own.gsql"
    with endless.open("wb") as file:
        file.truncate(1 << 40)
    own.write_text("SELECT tb, count(*) AS n FROM far/x GROUP BY tb")
    for command in (["check", endless], ["check", own], ["check", folder / "n.gsql", "--functions", endless]):
        said = clean(*command, code=None)
        assert said.code == 1 and str(endless) in said.err.replace("\n", ""), said
    endless.write_bytes(b"SELECT \xff")
    said = clean("check", own, code=1)
    assert "it is not UTF-8 text" in said.err, said
