"""Coverage-guided fuzzing of the decoders: `python -m tests.capture.fuzz_guided CORPUS -runs=1000000 [-max_len=400]`.

Atheris follows the branches of the kernels, which therefore run as plain Python here: slow, but it finds its way into
every header, and a read beyond a frame, which compiled code would not tell of, is an IndexError. The first byte of an
input is the link type. What it keeps in CORPUS are seeds for `fuzz_captures`. Options are libFuzzer's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"

import atheris

from lowwater.capture import loads


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
loads.little32 = _load(32, "little")

with atheris.instrument_imports(include=["lowwater.capture"]):
    from lowwater.capture import decode
    from lowwater.capture.header import RECORD_HEADER
    from lowwater.capture.scan import CAPTURED, OFFSET, STAMP, WIRE

from tests.capture import fuzz_inputs  # noqa: E402 - the kernels are to be made after the loads

LINKS = fuzz_inputs.LINK_TYPES


def one_input(data: bytes) -> None:
    """Decodes one frame that ends where its buffer ends."""
    if not data:
        return
    buffer = bytes(RECORD_HEADER) + data[1:]
    size = len(data) - 1
    # A mapping from (row, column) is as good as an array here, and plain Python is slow with arrays.
    records = {(OFFSET, 0): 0, (STAMP, 0): fuzz_inputs.START, (WIRE, 0): size, (CAPTURED, 0): size}
    decode.decode(buffer, records, 1, [0], -1, LINKS[data[0] % len(LINKS)], {}, {}, [0])


def main() -> None:
    """Fills an empty corpus with the seeds, and fuzzes."""
    corpus = next((Path(word) for word in sys.argv[1:] if not word.startswith("-")), None)
    if corpus is None:
        sys.exit("name a folder for the corpus")
    corpus.mkdir(parents=True, exist_ok=True)
    if not any(corpus.iterdir()):
        for number, frame in enumerate(fuzz_inputs.frames()):
            (corpus / f"seed-{number}").write_bytes(bytes([number % len(LINKS)]) + frame)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
