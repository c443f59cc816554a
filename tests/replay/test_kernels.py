"""After set-up no process compiles the reader: of no kind of link, no format, no damage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lowwater.capture.headers.links import LAYERS
from lowwater.lake.layout import open_lake
from tests.capturemaker import LINUX_SLL, RADIOTAP, pcap_bytes, udp

FRAME = udp("10.0.0.1", "10.0.0.2", 9, 53)

USED = """
import contextlib, gc, json, runpy, sys
from numba.core.dispatcher import Dispatcher

for sys.argv in json.loads(sys.argv[1]):
    with contextlib.suppress(SystemExit):
        runpy.run_module(sys.argv[0], run_name="__main__")
gc.unfreeze()  # a command freezes its objects at its end
functions = [thing for thing in gc.get_objects() if isinstance(thing, Dispatcher)]
print("USED" + json.dumps([
    [f"{used.py_func.__module__}.{used.py_func.__qualname__}", str(types)]
    for used in functions
    for types in used.signatures
]))
"""
"""Runs modules as programs, and then says which compiled functions they had, each with the types of its arguments."""


@pytest.mark.nightly
@pytest.mark.slow
def test_nothing_is_compiled_after_set_up(tmp_path: Path) -> None:
    """A command needs no function, and no types of arguments, that set-up did not. So all share one cache here."""

    def used(*programs: list[str]) -> set[tuple[str, str]]:
        command = [sys.executable, "-c", USED, json.dumps(programs)]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return {(name, types) for name, types in json.loads(done.stdout.rpartition("USED")[2])}

    compiled = used(["lowwater.replay.kernels"])
    names = {name.rpartition(".")[2] for name, _ in compiled}
    assert {name.split("_")[1] for name in names if name.startswith("rows_")} == {
        *(layer.name for layer in LAYERS),
        "unknown",
    }
    open_lake(tmp_path / "lake")
    packets, programs = [(at * 1_000_000_000, FRAME) for at in range(1, 40)], []
    for number, content in enumerate(
        (
            pcap_bytes(packets, link_type=LINUX_SLL),
            pcap_bytes(packets, nanoseconds=True, link_type=RADIOTAP),
            pcap_bytes(packets)[:-7] + bytes(range(1, 200)) + pcap_bytes(packets)[24:],
        )
    ):
        path = tmp_path / f"link{number}.pcap"
        path.write_bytes(content)
        for words in (["inspect", path], ["ingest", "--lake", tmp_path / "lake", "--link", f"a{number}", path]):
            programs.append(["lowwater.cli.main", *map(str, words)])
    needed = used(*programs)
    assert needed and needed <= compiled, needed - compiled
