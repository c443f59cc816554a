"""Fuzzes the parser: `python -m tests.gsql.fuzz_parser --inputs 1000000 --seed 1 --jobs 2`.

Only our own errors leave `parse`, no text takes long, memory does not grow, and what parses prints and parses back.
Not a part of the tests; a finding ends it with 1 and prints a text that shows it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random

from lowwater.errors import LowwaterError, QueryError, QueryErrors
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file
from tests.gsql import fuzz_texts
from tests.memory import peak_memory

CHUNK = 1000
SECONDS = 2.0
"""Most CPU seconds for one text, parsed, printed and parsed again."""
GROWTH = 64
"""Most MiB by which a process may grow after the largest texts have been parsed once."""
_MOST_SHOWN = 20
_LARGE = 50_000
_LARGEST = (
    "SELECT a" + ",a" * (_LARGE // 2 - 20) + " FROM R",
    "SELECT a FROM a" + ",a" * (_LARGE // 2 - 20),
    "SELECT a FROM R WHERE " + "a = 1 OR " * (_LARGE // 9 - 20),
    "SELECT " + "~" * (_LARGE - 20),
    "SELECT a FROM R;" * (_LARGE // 16),
    "SELECT 'a FROM R;\n" * (_LARGE // 18),
    "^" * _LARGE,
)
_baseline = 0.0


@dataclass
class Found:
    """What one chunk of texts gave."""

    kinds: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    growth: float = 0.0
    failures: list[str] = field(default_factory=list)


def check(text: str) -> str:
    """Parses a text; says `parsed`, or the class of our error.

    Raises:
        AssertionError: the parser broke a promise.
    """
    try:
        tree = parse(text, "f.gsql")
    except LowwaterError as error:
        for single in error.errors if isinstance(error, QueryErrors) else (error,):
            assert isinstance(single, QueryError), "not an error of a query"
            assert single.message and single.hint, f"no message or no hint: {single}"
            assert single.file == "f.gsql", "no file"
            assert single.line >= 1 and single.column >= 1, f"no place: {single}"
            assert not single.message.endswith("expected "), f"nothing expected: {single}"
        assert str(error), "no text"
        return type(error).__name__
    printed = print_file(tree)
    again = parse(printed)
    assert again == tree, f"printed as {printed!r}, which parses to another tree"
    assert print_file(again) == printed, f"printed as {printed!r}, which prints otherwise"
    return "parsed"


def run_chunk(job: tuple[int, int, int]) -> Found:
    """Checks the texts of one chunk.

    Args:
        job: the seed, the number of the chunk, and how many texts.
    """
    seed, chunk, count = job
    random = Random(f"{seed}/{chunk}")
    found = Found()
    for number in range(count):
        text = fuzz_texts.text(random)
        begun = time.process_time()
        try:
            found.kinds[check(text)] += 1
        except Exception as error:  # noqa: BLE001 - whatever leaves the parser is a finding, and the run goes on
            found.failures.append(
                f"{seed}/{chunk}/{number}: {type(error).__name__}: {str(error)[:1500]}\n  {text[:1500]!r}"
            )
        taken = time.process_time() - begun
        if taken > SECONDS:
            found.failures.append(
                f"{seed}/{chunk}/{number}: {taken:.2f} s for {len(text)} characters\n  {text[:500]!r}"
            )
        found.slowest = max(found.slowest, (taken, text[:120]))
    found.growth = (peak_memory() - _baseline) / (1 << 20)
    return found


def warm_up() -> None:
    """Parses the largest texts, so that the growth of the process from here on is a leak."""
    global _baseline
    for text in _LARGEST:
        try:
            parse(text)
        except QueryError:
            continue
    _baseline = peak_memory()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the fuzzer and prints what it found; returns 1 for a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    sizes = [min(CHUNK, options.inputs - start) for start in range(0, options.inputs, CHUNK)]
    jobs = [(options.seed, chunk, size) for chunk, size in enumerate(sizes)]
    total = Found()
    begun = time.monotonic()
    with get_context("spawn").Pool(options.jobs, warm_up) as pool:
        for done, found in enumerate(pool.imap_unordered(run_chunk, jobs), 1):
            total.kinds += found.kinds
            total.slowest = max(total.slowest, found.slowest)
            total.growth = max(total.growth, found.growth)
            total.failures += found.failures
            if done % max(len(jobs) // 20, 1) == 0:
                rate = done * CHUNK / (time.monotonic() - begun)
                print(f"{done}/{len(jobs)} chunks, {rate:.0f}/s, {len(total.failures)} failures", flush=True)
    return _report(total, time.monotonic() - begun)


def _report(total: Found, seconds: float) -> int:
    if total.growth > GROWTH:
        total.failures.append(f"memory grew by {total.growth:.0f} MiB, more than {GROWTH}")
    count = sum(total.kinds.values())
    print(f"{count:,} texts in {seconds:.0f} s, {count / seconds:.0f}/s: {dict(total.kinds.most_common())}")
    print(f"slowest: {total.slowest[0]:.2f} s (at most {SECONDS}), {total.slowest[1]!r}")
    print(f"memory: grew by {total.growth:.0f} MiB (at most {GROWTH}) over a process that had read the largest texts")
    for failure in total.failures[:_MOST_SHOWN]:
        print(f"FAILED {failure}")
    print(f"{len(total.failures)} failures")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
