"""Compiled kernels read no byte that is not there: it lies in memory whose reading ends the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.breadth import examples

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="mprotect by ctypes")]

TOO_FAR = """
from lowwater.capture.headers.fields import big32
from numba import njit
from tests.capture.guarded import guarded
import numpy as np
big = njit(lambda buffer, at: big32(buffer, at))
data = guarded(np.zeros(10, np.uint8))
assert big(data, 6) == 0
print("read", flush=True)
big(data, 7)
"""


def test_a_byte_too_many_ends_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", TOO_FAR], capture_output=True, text=True, check=False)
    assert done.stdout == "read\n" and done.returncode < 0, done


def test_damaged_captures_are_read_to_their_last_byte_and_no_further() -> None:
    command = [sys.executable, "-m", "tests.capture.guarded", "--count", str(examples(700))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout[-100:], done.stderr[-2000:])


def test_no_input_makes_a_parser_of_applications_work_long() -> None:
    """Mutations that are kept where they cost more find no input whose work grows faster than its bytes."""
    command = [sys.executable, "-m", "tests.capture.fuzz_work", "--rounds", str(examples(700))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
