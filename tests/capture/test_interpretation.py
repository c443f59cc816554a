"""Kernels as plain Python give what machine code gives, and few records are read without a compiler."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from lowwater.capture import behind
from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import ROWS
from lowwater.capture.headers.batches import decode_batch
from lowwater.capture.inlining import rare
from lowwater.capture.interpretation import FEW, Kernel
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
    monkeypatch.setattr(behind, "at_work", lambda link, task: False)
    counting = Kernel(count, "count", 1)
    first = counting.of(FEW)
    assert first is counting.python and first(5) == 6
    assert counting.of(1) is counting.machine and counting.machine(5) == 6
