"""Rule T3 over the border of captures against a model: all records of a link, in order, and for each end of a file the
sentence of the rule. Slow and obvious; drawn sets of files come in every order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, permutations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings as settings_of, strategies as st

from lowwater.errors import LowwaterError
from lowwater.instants import SECOND
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.missing import attempt_paths
from lowwater.lake.packets import PacketFiles
from tests.breadth import examples
from tests.lake.support import BASE, stamps
from tests.lake.test_edges import config, taken, written

END, BEHIND, USUAL = 16, 32, 4
JUMP = 60 * SECOND
YEARS = 30 * 365 * 86_400


@dataclass(frozen=True)
class File:
    """A file of a link: the timestamps of its sane records by its own file, and the declared end; ns."""

    name: str
    stamps: tuple[int, ...]
    declared_to: int | None


def pause(records: Sequence[int]) -> int:
    """The longest step of the largest timestamp so far."""
    clocks = [max(records[: at + 1]) for at in range(len(records))]
    return max((after - before for before, after in pairwise(clocks)), default=0)


def begin(file: File) -> int:
    """Where a file begins: behind up to 16 records that lie before the next 32 by more than a jump and four pauses."""
    for at in range(min(END, len(file.stamps) - END - 1), 0, -1):
        before, behind = file.stamps[:at], file.stamps[at : at + BEHIND]
        if min(behind) - max(before) > max(JUMP, USUAL * pause(behind)):
            return behind[0]
    return file.stamps[0]


def is_end(records: Sequence[int], size: int, clock: int | None) -> bool:
    """Whether the last records of a file are an end E, given the largest timestamp of the files before."""
    before, end = records[:-size], records[-size:]
    largest = max([*before, *([] if clock is None else [clock])], default=None)
    if largest is not None and min(end) - largest <= JUMP:
        return False
    return not before or min(end) - max(before) > max(JUMP, USUAL * pause(before[-BEHIND:]))


def is_stray(files: Sequence[File], at: int, size: int, clock: int | None) -> bool:
    """Whether the last records of a file are malformed, given what follows."""
    before, end = files[at].stamps[:-size], files[at].stamps[-size:]
    largest = max([*before, *([] if clock is None else [clock])], default=None)
    low = None if largest is None else largest - JUMP
    behind = [file for file in files[at + 1 :] for _ in file.stamps][:BEHIND]
    below = [file for file in behind if (low is None or begin(file) >= low) and begin(file) < min(end) - JUMP]
    others = len(behind) - len(below)
    as_many_before = len(behind) if largest is not None else 0
    if below and len(below) + as_many_before > size + others:
        return True
    declared_to = files[at].declared_to
    if others or declared_to is None or not before:
        return False
    return max(before) <= declared_to + JUMP < min(end)


def model(files: Sequence[File]) -> dict[str, int]:
    """Returns how many records at the end of each file are malformed."""
    strays, clock = {}, None
    for at, file in enumerate(files):
        sizes = [size for size in range(min(END, len(file.stamps)), 0, -1) if is_end(file.stamps, size, clock)]
        strays[file.name] = next((size for size in sizes if is_stray(files, at, size, clock)), 0)
        kept = file.stamps[: len(file.stamps) - strays[file.name]]
        clock = max([*kept, *([] if clock is None else [clock])], default=None)
    return strays


def files_of(lake: Lake) -> list[File]:
    """The files of link `a`, in the order of T1, with all records that ingest has stored."""
    files, found = PacketFiles.of(lake), []
    for capture in read_captures(lake, ["a"])["a"]:
        parts = [pq.read_table(path, partitioning=None) for path in attempt_paths(files, capture)]
        rows = sorted(
            (at, stamp)
            for part in parts
            for at, stamp in zip(part.column("position").to_pylist(), part.column("timestamp").to_pylist(), strict=True)
        )
        found.append(File(capture.path, tuple(stamp for _, stamp in rows), capture.declared_to))
    return found


LEADS = st.sampled_from([-YEARS, -3 * 3600, -61, 59, 61, 310, 330, 3600, 3 * 3600, 2 * 86_400, YEARS])
ONE_FILE = st.tuples(
    st.sampled_from([1, 2, 5, 15, 16, 17, 20, 33, 40]),  # records
    st.sampled_from([1, 40, 80]),  # seconds between two
    st.one_of(st.none(), st.tuples(st.integers(1, 18), LEADS)),  # of so many at the end
    st.one_of(st.none(), st.none(), st.tuples(st.integers(1, 18), LEADS)),  # of so many at the begin
    st.sampled_from([0, 0, 0, 0, 0, 3600, YEARS]),  # of the whole file
)
World = list[tuple[int, int, tuple[int, int] | None, tuple[int, int] | None, int]]


def worlds(most: int) -> st.SearchStrategy[tuple[World, bool]]:
    """Sets of files, and whether their names have a time; no two are copies of one capture (T5)."""
    lists = st.lists(ONE_FILE, min_size=1, max_size=most)
    return st.tuples(lists.filter(lambda world: len({*map(tuple, drawn_files(world))}) == len(world)), st.booleans())


def drawn_files(world: World) -> list[list[float]]:
    files: list[list[float]] = []
    for hour, (count, step, end, first, lead) in enumerate(world):
        seconds: list[float] = [hour * 3600 + lead + step * number for number in range(count)]
        for what, places in (
            (end, slice(-min(end[0], count), None)) if end else (None, slice(0)),
            (first, slice(0, first[0])) if first else (None, slice(0)),
        ):
            if what:
                seconds[places] = [second + what[1] for second in seconds[places]]
        files.append([max(second, 1 - BASE // SECOND) for second in seconds])
    return files


def agrees(root: Path, world: World, dated: bool, orders: int | None) -> str:
    """Holds that the lake has the strays of the model, in so many orders, or all; returns what was there."""
    settings = config(root / "in", dated, max_jump="60s", skew="1s")
    paths = written(root / "in", drawn_files(world))
    found: list[tuple[dict[str, int], list[File]]] = []
    for number, order in enumerate(islice(permutations(paths), orders)):
        try:
            lake = taken(root / str(number), order, settings, 1)
        except LowwaterError:  # T1 refuses one of two captures of one time, the one that came later
            return "refused"
        strays = {each.path: each.strays for each in read_captures(lake, ["a"])["a"]}
        files = files_of(lake)
        assert strays == model(files), ([file.stamps for file in files], order)
        kept = [stamp for file in files for stamp in file.stamps[: len(file.stamps) - strays[file.name]]]
        assert sorted(stamps(lake, settings)) == sorted(kept)
        found.append((strays, files))
    assert all(each == found[0] for each in found)
    return "strays" if any(found[0][0].values()) else "none"


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.parametrize(("most", "orders", "usual"), [(3, None, 25), (7, 1, 50)])
def test_ends_of_files_are_those_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, most: int, orders: int | None, usual: int
) -> None:
    @settings_of(max_examples=examples(usual), deadline=None)
    @given(worlds(most))
    def drawn(world: tuple[World, bool]) -> None:
        event(agrees(tmp_path_factory.mktemp("model"), *world, orders))

    drawn()


@pytest.mark.slow
def test_the_window_behind_an_end_ends_within_a_capture(tmp_path: Path) -> None:
    """One record is as before, and of the next file 31 are within the window and not all of its 33."""
    world: World = [(40, 80, (1, 3600), None, 0), (1, 80, None, None, 0), (33, 80, None, None, 3600)]
    assert agrees(tmp_path, world, False, None) == "strays"
