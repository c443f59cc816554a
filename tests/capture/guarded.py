"""Reads damaged captures by the compiled kernels, where what they read ends at memory that may not be read.

`python -m tests.capture.guarded --first 0 --count 1000`: a kernel that reads a byte too many ends the process by a
signal, and the last line names the seed.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import mmap
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.content.applications import NAMES
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.formats import sources
from lowwater.capture.reader import read
from lowwater.capture.tables import blocks, delimited
from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.reader import RecordReader
from lowwater.errors import CaptureError
from tests.capture import fuzz_inputs
from tests.capture.fuzz_captures import MAX_JUMP
from tests.capture.hostile_inputs import FAMILIES
from tests.capture.tablemaker import BY_NAME, as_csv, as_json, flows, layout

CONTENT = ContentOptions(64, NAMES, True, "content")
LAYOUT = layout(BY_NAME)
SEED_BYTES = 1200
PAGE = mmap.PAGESIZE
_KEPT: list[mmap.mmap] = []
_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A copy of bytes; the one behind them may not be read or written."""
    room = -(-len(data) // PAGE) * PAGE
    memory = mmap.mmap(-1, room + PAGE)
    _KEPT.append(memory)  # views of it live on in records
    array = np.frombuffer(memory, np.uint8)
    assert _protect(array.ctypes.data + room, PAGE, 0) == 0
    array[room - len(data) : room] = data
    return array[room - len(data) : room]


def guard() -> None:
    """From now on each window of a capture, and each block of a text, ends at such memory."""
    fill = sources.FileWindow.fill

    def filled(window: sources.FileWindow) -> int:
        moved = fill(window)
        window._wait()
        window.buffer = guarded(window.buffer[: window.end])
        return moved

    sources.FileWindow.fill = filled  # type: ignore[method-assign]
    for module, name in ((blocks, "_last_lines"), (blocks, "_ipv4"), (delimited, "_is_parted")):
        setattr(module, name, _of_guarded(getattr(module, name)))


def _of_guarded(kernel: Callable[..., Any]) -> Callable[..., Any]:
    return lambda data, *rest: kernel(guarded(data), *rest)


def seeds() -> list[bytes]:
    """Captures of each format, and each hostile shape in small."""
    made = [family.make(SEED_BYTES) for name, family in FAMILIES.items() if family.kind == "capture" and _small(name)]
    return [*fuzz_inputs.files(), *(each for each in made if len(each) < 40 * SEED_BYTES)]


def _small(name: str) -> bool:
    return "16 MiB" not in name and "megabyte" not in name and "many interfaces" not in name


def one(number: int, corpus: list[bytes], path: Path) -> None:
    random = Random(number)
    if number % 4 == 0:  # records as text
        kind, text = random.choice((("csv", as_csv(flows(number, 20))), ("json", as_json(flows(number, 20)))))
        path.write_bytes(fuzz_inputs.damaged(random, [text]))
        with suppress(CaptureError):
            list(RecordReader(path, TableOptions(kind, LAYOUT), 1 << 62, ""))
        return
    data = fuzz_inputs.damaged(random, corpus)
    try:
        for _ in read(io.BytesIO(data), MAX_JUMP, random.choice((24, 100, 1000, 1 << 16)), content=CONTENT):
            pass
    except CaptureError as error:
        assert error.hint
    _KEPT.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    asked = parser.parse_args()
    guard()
    corpus = seeds()
    with tempfile.TemporaryDirectory(prefix="lowwater-guarded-") as folder:
        for number in range(asked.first, asked.first + asked.count):
            print(number, flush=True)
            one(number, corpus, Path(folder) / "records")


if __name__ == "__main__":
    main()
