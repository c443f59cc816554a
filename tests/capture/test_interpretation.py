"""Kernels as plain Python give what machine code gives, and few records are read without a compiler."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import ROWS
from lowwater.capture.headers.packet import decode_batch
from lowwater.capture.interpretation import Kernel
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
