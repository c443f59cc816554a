"""`read_packets` against a naive computation in memory, on random captures."""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

from lowwater.config import Config, Link
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import LinkRead, PacketFiles, divide, packet_files
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import examples
from tests.lake.support import at, capture

LINK = Link(skew="100s", max_jump="4h")  # type: ignore[arg-type]
CONFIG = Config(links={"a": LINK})
STEPS = st.lists(st.one_of(st.integers(-90, 60), st.integers(0, 4000)), max_size=25)


def timestamps(steps: list[int]) -> list[int]:
    """Seconds after BASE, in disorder: each a step from the one before."""
    found, now = [], 500
    for step in steps:
        now = max(0, now + step)
        found.append(now)
    return found


def naive(link: Link, stamps: list[int], read_from: int, start: int, end: int) -> list[tuple[int, int]]:
    """(timestamp, arrival) of what a run reads, in order."""
    clock, found = 0, []
    for stamp in stamps:
        clock = max(clock, stamp)
        alive = (link.since or 0) <= stamp and (link.until is None or stamp < link.until)
        if alive and (read_from <= stamp < end or start <= clock < end):
            found.append((stamp, clock))
    return found


def split(stamps: list[int], cuts: list[int]) -> list[list[int]]:
    bounds = sorted({0, len(stamps), *(cut % (len(stamps) + 1) for cut in cuts)})
    return [stamps[a:b] for a, b in pairwise(bounds)]


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(
    steps=STEPS,
    cuts=st.lists(st.integers(0, 30), max_size=3),
    bounds=st.lists(st.integers(0, 12000), min_size=3, max_size=3).map(sorted),
    life=st.sampled_from([(None, None), (1000, None), (None, 5000), (700, 6000)]),
    rows=st.sampled_from([3, 1000]),
    most=st.integers(1, 12),
)
def test_against_the_naive_computation(
    steps: list[int], cuts: list[int], bounds: list[int], life: tuple[int | None, int | None], rows: int, most: int
) -> None:
    # Declared coverage keeps the files in the order in which they were cut, whatever their medians.
    files = split(timestamps(steps), cuts)
    assume(len({tuple(stamps) for stamps in files}) == len(files))  # equal bytes are one capture
    link = LINK.model_copy(update=dict(zip(("since", "until"), (s and at(s) for s in life), strict=True)))
    with tempfile.TemporaryDirectory() as folder:
        lake = open_lake(Path(folder))
        for index, stamps in reversed(list(enumerate(files))):
            path = capture(Path(folder) / f"{index}.pcap", stamps)
            ingest(lake, "a", [path], CONFIG, covers=(at(index), at(index + 1)))
        captures = read_captures(lake, ["a"])["a"]
        low, start, end = (at(second) for second in bounds)
        read = pickle.loads(pickle.dumps(packet_files(PacketFiles.of(lake), "a", captures, link, low, start, end)))
        batches = list(read.batches(["len"], rows))
        assert all(batch.schema == read.schema(["len"]) and 0 < batch.num_rows <= rows for batch in batches)
        check_chunks(read, divide(read, most), batches)
    found = [row for batch in batches for row in batch.to_pylist()]
    ordered = [at(s) for stamps in files for s in stamps]
    assert [(row["timestamp"], row["arrival"]) for row in found] == naive(link, ordered, low, start, end)
    order = [captures_order(captures, row) for row in found]
    assert order == sorted(order)
    assert all(row["len"] == 34 for row in found)


def check_chunks(read: LinkRead, chunks: list[LinkRead], batches: list[pa.RecordBatch]) -> None:
    """Chunks are the packets of the link one after the other, and each knows the clock where it begins and ends."""
    every = replace(read, read_from=0, start=0, end=END_OF_TIME, since=0, until=END_OF_TIME)
    clock = -1
    for chunk in chunks:
        assert chunk.entered == clock < read.end
        window = {name: getattr(every, name) for name in ("read_from", "start", "end", "since", "until")}
        arrivals = [row["arrival"] for batch in replace(chunk, **window).batches() for row in batch.to_pylist()]
        clock = arrivals[-1] if arrivals else clock
        assert chunk.left == (None if chunk is chunks[-1] else clock)
    parts = [batch for chunk in chunks for batch in chunk.batches(["len"])]
    schema = read.schema(["len"])
    assert pa.Table.from_batches(parts, schema).equals(pa.Table.from_batches(batches, schema))


def captures_order(captures: tuple[Any, ...], row: dict[str, Any]) -> tuple[int, int]:
    return [each.capture for each in captures].index(row["capture"]), row["position"]


@pytest.mark.slow
def test_a_late_packet_is_read_by_the_interval_of_its_arrival(tmp_path: Path) -> None:
    """Its capture alone does not know that it is late: the clock of the link does."""
    lake = open_lake(tmp_path / "lake")
    link = Link(skew="1s")  # type: ignore[arg-type]
    config = Config(links={"a": link})
    ingest(lake, "a", [capture(tmp_path / "0.pcap", [10, *range(7181, 7201)])], config, covers=(at(0), at(7200)))
    ingest(lake, "a", [capture(tmp_path / "1.pcap", [20, 7300])], config, covers=(at(7200), at(9000)))
    captures = read_captures(lake, ["a"])["a"]
    read = packet_files(PacketFiles.of(lake), "a", captures, link, at(7200), at(7200), at(7250))
    found = pa.Table.from_batches(read.batches()).select(["timestamp", "arrival"]).to_pylist()
    assert found == [{"timestamp": at(7200), "arrival": at(7200)}, {"timestamp": at(20), "arrival": at(7200)}]
