"""Coverage-guided fuzzing: `python -m tests.capture.fuzz_guided frames|files CORPUS -runs=1000000 [-max_len=400]`.

Atheris follows the branches of the kernels, which therefore run as plain Python here: slow, but it finds its way into
every header, and a read beyond a frame, which compiled code would not tell of, is an IndexError. Of `frames` the first
byte is the link type; `files` are captures, read as streams by small pieces. What it keeps in CORPUS of frames are
seeds for `fuzz_captures`. Options are libFuzzer's.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"

import atheris

from lowwater.capture.headers import loads


def _load(bits: int, order: Any) -> Any:
    def load(buffer: bytes, at: int) -> int:
        end = at + bits // 8
        if at < 0 or end > len(buffer):
            raise IndexError(f"bytes {at} to {end} of {len(buffer)}")
        # 64 bits are an address: signed, as the compiled load gives them.
        return int.from_bytes(bytes(buffer[at:end]), order, signed=bits == 64)

    return load


# Before anything takes them by name: a load is code of the compiler's, which plain Python cannot call.
loads.big16, loads.big32, loads.big64 = _load(16, "big"), _load(32, "big"), _load(64, "big")
loads.byte, loads.prefetch = _load(8, "big"), lambda buffer, at: None
loads.with_bits = lambda numbers, at, bits: sum(
    (int(number) & bits != 0) << place for place, number in enumerate(numbers[at : at + 8])
)
loads.little16, loads.little32 = _load(16, "little"), _load(32, "little")

with atheris.instrument_imports(include=["lowwater.capture"]):
    from lowwater.capture.formats.header import RECORD_HEADER
    from lowwater.capture.formats.scan import CAPTURED, OFFSET, STAMP, WIRE
    from lowwater.capture.headers import batches
    from lowwater.capture.headers import packet as decode
    from lowwater.capture.reader import read
    from lowwater.capture.records import batches as decoding

from lowwater.errors import CaptureError  # noqa: E402 - the kernels are to be made after the loads
from tests.capture import fuzz_inputs  # noqa: E402
from tests.capture.fuzz_captures import MAX_JUMP, check_sums  # noqa: E402

LINKS = fuzz_inputs.LINK_TYPES
PIECE = 100
"""Bytes read at a time."""


def decode_bytes(buffer: Any, *rest: Any) -> Any:
    """Decodes over Python's numbers: NumPy's bytes would wrap where compiled ones do not."""
    return batches.decode_batch(bytes(buffer), *rest)  # type: ignore[arg-type]


def one_file(data: bytes) -> None:
    """Reads a capture to its end; only an error of ours leaves the reader, and all bytes are accounted for."""
    try:
        reader = read(io.BytesIO(data), MAX_JUMP, PIECE)
        check_sums(reader, list(reader), len(data))
    except CaptureError as error:
        assert error.hint, f"no hint: {error}"


def one_frame(data: bytes) -> None:
    """Decodes one frame that ends where its buffer ends."""
    if not data:
        return
    buffer = bytes(RECORD_HEADER) + data[1:]
    size = len(data) - 1
    # A mapping from (row, column) is as good as an array here, and plain Python is slow with arrays.
    records = {(OFFSET, 0): 0, (STAMP, 0): fuzz_inputs.START, (WIRE, 0): size, (CAPTURED, 0): size}
    decode.decode(buffer, records, 1, [0], -1, LINKS[data[0] % len(LINKS)], decode.Columns({}, {}, decode.EVERY), [0])


def main() -> None:
    """Fills an empty corpus with the seeds, and fuzzes."""
    if len(sys.argv) < 3 or sys.argv[1] not in ("frames", "files"):
        sys.exit("say frames or files, and name a folder for the corpus")
    what, corpus = sys.argv.pop(1), Path(sys.argv[1])
    seeds = fuzz_inputs.files()
    if what == "frames":
        seeds = [bytes([number % len(LINKS)]) + frame for number, frame in enumerate(fuzz_inputs.frames())]
    else:
        decoding.decode_batch = decode_bytes
    corpus.mkdir(parents=True, exist_ok=True)
    if not any(corpus.iterdir()):
        for number, seed in enumerate(seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, one_frame if what == "frames" else one_file)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
