"""Time and memory of every parser against the size of hostile inputs.

`python -m tests.capture.measure_parsers [--size 1048576] [--only TEXT]` reads each family of `hostile_inputs` at one,
two and four times the size; prints processor seconds and MiB, and marks what grows faster than its input.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from lowwater.capture.content.applications import NAMES
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.inspect import inspect
from lowwater.capture.reader import index, read, read_chunk
from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.reader import RecordReader
from lowwater.capture.tables.sniffing import sniff, sniff_log
from lowwater.catalog.protocols import READY
from lowwater.errors import CaptureError
from tests.capture.hostile_inputs import FAMILIES, SECOND
from tests.capture.tablemaker import BY_NAME, layout
from tests.memory import peak_memory

CONTENT = ContentOptions(64, NAMES, True, "content")
JUMP = 61 * SECOND
PATIENCE = 30.0
"""Processor seconds after which a family is not read at a larger size."""


def options(kind: str) -> TableOptions:
    """How the records of a kind of family are read."""
    if kind in READY:
        protocol = READY[kind]
        assert protocol.layout is not None
        return TableOptions(protocol.kind, protocol.layout)
    return TableOptions(kind, layout(BY_NAME))


def passes(kind: str, path: Path) -> list[Callable[[], object]]:
    """What reads a file of a kind, each as a function without arguments."""
    if kind == "capture":
        return [
            lambda: list(read(path, JUMP, content=CONTENT)),
            lambda: [list(read_chunk(chunk)) for chunk in index(path, JUMP).chunks],
            lambda: inspect(path, JUMP, 5 * SECOND, window=SECOND),
        ]
    return [lambda: list(RecordReader(path, options(kind), JUMP, "")), lambda: sniff(path), lambda: sniff_log(path)]


def attempt(work: Callable[[], object]) -> None:
    try:
        work()
    except CaptureError as error:
        assert error.hint, error


def reset() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1 << 20)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    found = 0
    with tempfile.TemporaryDirectory(prefix="lowwater-measure-") as folder:
        path = Path(folder) / "input"
        for name, family in FAMILIES.items():
            if asked.only not in name:
                continue
            path.write_bytes(family.make(1 << 12))
            for work in passes(family.kind, path):
                attempt(work)
            rows: list[tuple[list[float], float]] = []
            for times in (1, 2, 4):
                path.write_bytes(family.make(asked.size * times))
                reset()
                before, spent = peak_memory(), list[float]()
                for work in passes(family.kind, path):
                    begun = time.process_time()
                    attempt(work)
                    spent.append(time.process_time() - begun)
                rows.append((spent, (peak_memory() - before) / (1 << 20)))
                if max(spent) > PATIENCE:
                    break
            sizes = path.stat().st_size / (1 << 20)
            bad = False
            for (one, _), (two, _) in pairwise(rows):
                bad = bad or any(after > 2.6 * before and after > 0.5 for before, after in zip(one, two, strict=True))
            for at, (spent, mib) in enumerate(rows):
                bad = bad or max(spent) > 4 << at or mib > 100 << at
            found += bad
            shown = "; ".join(" ".join(f"{each:.2f}" for each in spent) + f" s {mib:.0f} MiB" for spent, mib in rows)
            print(f"{'LOOK ' if bad else ''}{name}: {shown} ({sizes:.1f})", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
