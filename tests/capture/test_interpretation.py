"""Kernels as plain Python give what machine code gives, and few records are read without a compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lowwater.capture import interpretation
from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import ROWS
from lowwater.capture.headers.batches import decode_batch
from lowwater.capture.inlining import rare
from lowwater.capture.interpretation import FEW, Kernel
from tests import capturemaker as maker
from tests.breadth import some
from tests.capture import fuzz_inputs

POOL = fuzz_inputs.frames()


@pytest.mark.slow
@pytest.mark.parametrize("link", some(fuzz_inputs.LINK_TYPES, 4))
def test_plain_python_decodes_damaged_frames_of_every_link_as_machine_code_does(
    link: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 300
    buffer, begins, lengths = fuzz_inputs.damaged_frames(link, count, POOL, 96)
    records = np.zeros((ROWS, count), np.int64)
    records[0], records[1] = begins - RECORD_HEADER, fuzz_inputs.START
    records[2], records[3] = lengths + Random(link).randrange(50), lengths
    arguments = (buffer, records, np.arange(count), -1, link)
    monkeypatch.setattr(Kernel, "of", lambda self, records: self.machine)
    machine, clock = decode_batch(*arguments)
    monkeypatch.setattr(Kernel, "of", lambda self, records: self.python)
    plain, plain_clock = decode_batch(*arguments)
    assert plain.equals(machine) and clock == plain_clock


def test_a_kernel_is_compiled_once_a_process_has_more_than_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    @rare
    def _one() -> int:
        return 1

    def count(number: int) -> int:
        return number + _one()  # type: ignore[no-any-return]

    monkeypatch.setattr("lowwater.capture.interpretation.has_machine_code", lambda function, name: False)
    monkeypatch.setattr(interpretation, "at_work", lambda link, task: False)
    counting = Kernel(count, "count", 1)
    first = counting.of(FEW)
    assert first is counting.python and first(5) == 6
    assert counting.of(1) is counting.machine and counting.machine(5) == 6


def test_records_are_interpreted_while_another_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(number: int) -> int:
        return number

    ended: list[int | None] = [None]
    begun: list[tuple[int, str]] = []

    def begin(link: int, task: str) -> Any:
        begun.append((link, task))
        return SimpleNamespace(poll=lambda: ended[0])

    monkeypatch.setattr("lowwater.capture.interpretation.has_machine_code", lambda function, name: False)
    monkeypatch.setattr(interpretation, "_begin", begin)
    monkeypatch.setattr(interpretation, "_children", {})
    counting = Kernel(count, "count", 1)
    assert [counting.of(FEW + 1), counting.of(1)] == [counting.python] * 2 and begun == [(1, "count")]
    ended[0] = 0
    assert counting.of(1) is counting.machine


def test_machine_code_of_an_earlier_process_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(number: int) -> int:
        return number

    monkeypatch.setattr("lowwater.capture.interpretation.has_machine_code", lambda function, name: True)
    counting = Kernel(count, "count", 1)
    assert counting.of(1) is counting.machine


@pytest.mark.slow
def test_a_first_capture_compiles_no_kernel_of_headers(tmp_path: Path) -> None:
    records = [(n * 10**9, frame) for n, frame in enumerate([maker.arp(), *POOL[:50]])]
    capture = tmp_path / "a.pcap"
    capture.write_bytes(maker.pcap_bytes(records))
    code = """
import sys
from numba.core import event
names = []
class Names(event.Listener):
    def on_start(self, event): names.append(str(event.data["dispatcher"]))
    def on_end(self, event): pass
event.register("numba:compile", Names())
from lowwater.cli.main import cli
cli.main(["inspect", sys.argv[1]], standalone_mode=False)
assert any("scan" in name for name in names), names
assert not any("rows" in name or "carriers" in name for name in names), names
"""
    environment: dict[str, Any] = {"NUMBA_CACHE_DIR": str(tmp_path / "numba"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code, str(capture)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
