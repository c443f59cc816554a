"""Facts of a file of records that are no packets: times, order, damage. `capture.inspect` has those of packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow.compute as pc

from lowwater.capture.inspect import CaptureFacts, InterfaceFacts
from lowwater.capture.records.facts import Interface
from lowwater.capture.records.lateness import Lateness
from lowwater.capture.tables.reader import RecordReader, TableOptions


def inspect_records(
    path: Path,
    options: TableOptions,
    max_jump: int,
    skew: int,
    progress: Callable[[int], None] = lambda records: None,
    sha256: str = "",
) -> CaptureFacts:
    """Reads a file of records once and returns its facts; those of packets stay empty.

    Args:
        path: path of the file.
        options: how its records are read.
        max_jump: how far ahead of its neighbours a timestamp may be, ns (SEMANTICS T3).
        skew: bound of the lateness whose refusals are counted, ns (T2).
        progress: called after each batch with the number of records so far.
        sha256: digest of the file, if it is known.

    Raises:
        CaptureError: the file cannot be read, or too many of its records.
    """
    reader = RecordReader(path, options, max_jump, sha256)
    interface = Interface(0, "", -1, options.layout.protocol, 0)
    facts = InterfaceFacts(interface, Lateness(skew))
    for batch in reader:
        facts.add_times(batch.column("timestamp").to_numpy(), batch.column("arrival").to_numpy())
        progress(facts.packets)
    assert reader.summary is not None
    (facts.summary,) = reader.summary.interfaces
    damage = reader.malformed
    facts.malformed = Counter(damage.column("reason").to_pylist())
    return CaptureFacts(path, reader.summary, (facts,), pc.sum(damage.column("length")).as_py() or 0)


def first_timestamp(path: Path, options: TableOptions, max_jump: int) -> int | None:
    """Returns the timestamp of the first sane record of a file, ns; None without one.

    Args:
        path: path of the file.
        options: how its records are read.
        max_jump: how far ahead of its neighbours a timestamp may be, ns (SEMANTICS T3).

    Raises:
        CaptureError: the file cannot be read.
    """
    with closing(iter(RecordReader(path, options, max_jump, ""))) as batches:  # type: ignore[type-var]
        first = next(batches, None)
    return None if first is None else int(first.column("timestamp")[0].as_py())


def refused_fields(facts: Sequence[CaptureFacts]) -> dict[str, int]:
    """Counts the values that cannot be read, by field."""
    counts: Counter[str] = Counter()
    for capture in facts:
        for reason, count in capture.interfaces[0].malformed.items():
            if reason.startswith("value of "):
                counts[reason.removeprefix("value of ")] += count
    return dict(counts)
