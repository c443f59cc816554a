"""Groups of epochs without rows over Arrow columns (SEMANTICS O10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater import limits
from lowwater.catalog import schemas
from lowwater.catalog.time import Reported
from lowwater.columns.values import Frame, Numbers, concat_frames, first, last
from lowwater.high.operators import by_keys
from lowwater.plan import operators as ops, temporal
from lowwater.stream.fill import empty_values, next_epochs, reported_of

Links = Mapping[str, Reported]


def fill(node: ops.Fill, blocks: Iterable[Frame], slice_: tuple[int, int], links: Links) -> Iterator[Frame]:
    """Yields the groups of a slice, and then those that are missing. `links`: what is known of each link."""
    names = [key.name for key in node.keys]
    there: list[Frame] = []
    for frame in blocks:
        there.append(Frame({name: frame[name] for name in names}, frame.rows))
        yield frame
    columns = {key.name: pa.array([], schemas.STREAM_TYPES[key.type]) for key in node.key_fields}
    groups = concat_frames([Frame(columns, 0), *there])
    epoch, time = node.epoch, ops.clocks(node.key_fields)[0]
    empty = dict(zip((each.name for each in node.aggregates), empty_values(node), strict=True))
    for values in product(*node.listed):
        known = reported_of(node, dict(zip(_listed(node), (value.value for value in values), strict=True)), links)
        for epochs in _epochs(time, slice_, known):
            begins, ends = first(time.begins or time, epochs), last(time, epochs)
            chosen = epochs[_told(known, begins, ends + 1)]
            given = dict(zip(_listed(node), values, strict=True))
            keys = [
                pa.array(chosen)
                if each.name == epoch.name
                else pa.repeat(pa.scalar(given[each.name].value, schemas.STREAM_TYPES[each.type]), len(chosen))
                for each in node.key_fields
            ]
            lacking = by_keys(keys, [groups[name] for name in names], (len(chosen), groups.rows)).counts == 0
            made = dict(zip(names, keys, strict=True))
            made |= {
                each.name: pa.repeat(pa.scalar(empty[each.name], schemas.STREAM_TYPES[each.type]), len(chosen))
                for each in node.aggregates
            }
            frame = Frame(made | {schemas.LAST: pa.array(last(time, chosen))}, len(chosen)).where(pa.array(lacking))
            if frame.rows:
                yield frame


def _listed(node: ops.Fill) -> list[str]:
    """The keys that are no epoch, in their order."""
    return [key.name for key in node.key_fields if not key.temporal]


def _epochs(time: temporal.Temporal, slice_: tuple[int, int], known: Sequence[Reported]) -> Iterator[Numbers]:
    """Yields the epochs of a slice that meet the life of a link, in blocks."""
    lives = [each for each in known if each.life[0] < each.life[1]]
    if not lives:
        return
    start, end = max(slice_[0], min(each.begins for each in lives)), max(each.life[1] for each in lives)
    if start >= min(slice_[1], end):
        return
    block: list[int] = []
    if time.steady:
        at, until = time.promise(start), time.latest(end - 1)
        if slice_[1] < temporal.END_OF_TIME:
            until = min(until, time.promise(slice_[1]) - 1)
        for begin in range(at, until + 1, limits.ROW_BLOCK_ROWS):
            yield np.arange(begin, min(begin + limits.ROW_BLOCK_ROWS, until + 1))
        return
    for epoch in next_epochs(time, time.promise(start), end):
        if time.last(epoch) >= slice_[1]:
            break
        block.append(epoch)
        if len(block) == limits.ROW_BLOCK_ROWS:
            yield np.array(block, np.int64)
            block = []
    yield np.array(block, np.int64)


def _told(known: Sequence[Reported], begins: Numbers, ends: Numbers) -> npt.NDArray[np.bool_]:
    """Whether epochs [begin, end), ns, meet the life of a link, and no gap of any."""
    alive, whole = np.zeros(len(begins), np.bool_), np.ones(len(begins), np.bool_)
    for each in known:
        if each.life[0] >= each.life[1]:
            continue
        alive |= (begins < each.life[1]) & (ends > each.life[0])
        gaps = np.array(each.gaps, np.int64).reshape(-1, 2)
        met = np.searchsorted(gaps[:, 0], ends, side="left") > np.searchsorted(gaps[:, 1], begins, side="right")
        whole &= ~met
    return alive & whole
