"""A plan over the rows of one slice: each operator makes blocks of rows of the blocks below it.

Between the rows of the LFTAs and the file of a slice. Which operators need no state is said by `choice`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.expr import Expr
from lowwater.high.clock import LAST, TICK
from lowwater.high.slices import spill
from lowwater.high.slices.group import ROWS, grouped
from lowwater.high.slices.join import LINK, filter_joined, has_keys, join_keys, joined, looked_up
from lowwater.high.slices.spill import Spill
from lowwater.high.slices.values import Frame, together
from lowwater.plan.nodes import (
    Bucket,
    Cut,
    Expand,
    Field,
    FilterJoin,
    Group,
    Item,
    Join,
    LftaInput,
    Map,
    Node,
    Union,
    WatchJoin,
)
from lowwater.plan.schemas import value_schema
from lowwater.plan.tree import walk

BLOCK = 1 << 20
"""Rows of a block, about: what windows and grouping sets make of a row counts."""
DEEP = 16
"""Operators that follow one another before rows are held."""
CARRIED = (LAST, TICK, LINK)
"""Columns that every operator passes on."""

Leaves = Mapping[str, Callable[[], Iterator[Frame]]]
Blocks = Iterator[Frame]


@dataclass
class Counts:
    """What operators took and gave, of rows whose `_last` lies in the slice: those of all slices add up.

    Attributes:
        slice_: from which instant (ns) on, and up to which.
        points: counts by number, kind and query of the operator, in the order of the plan.
    """

    slice_: tuple[int, int]
    points: list[tuple[str, str, Counter[str]]] = field(default_factory=list)

    def point(self, kind: str, node: Node, *names: str) -> Counter[str]:
        """A new point of the plan, where these are counted."""
        counts = Counter(dict.fromkeys(names, 0))
        self.points.append((kind, node.query, counts))
        return counts

    def inside(self, frame: Frame) -> npt.NDArray[np.bool_]:
        """Which rows lie in the slice."""
        lasts = frame[LAST].to_numpy(zero_copy_only=False)
        found: npt.NDArray[np.bool_] = (lasts >= self.slice_[0]) & (lasts < self.slice_[1])
        return found


@dataclass
class Evaluation:
    """The evaluation of a plan over one slice.

    Attributes:
        leaves: rows of each LFTA, by its name.
        lists: rows of each watch list, by its file and columns.
        counts: of the operators.
        folder: for files of rows that are too many for memory; the caller removes it.
    """

    leaves: Leaves
    lists: Mapping[tuple[str, tuple[Field, ...]], Frame]
    counts: Counts
    folder: Path
    _spills: Iterator[int] = field(default_factory=count)
    _held: dict[int, list[Frame]] = field(default_factory=dict)

    def rows(self, node: Node) -> Blocks:
        """The rows of a plan; its points are counted when they have been read.

        What several operators read is evaluated once, and so is every operator at some depth: chains of queries may be
        longer than Python lets generators follow one another.
        """
        for each in _in_parts(node):
            self._held[id(each)] = list(self._blocks(each))
        return self._blocks(node)

    def _blocks(self, node: Node) -> Blocks:
        if id(node) in self._held:
            return iter(self._held[id(node)])
        if isinstance(node, LftaInput | Cut):
            return self.leaves[node.lfta.name if isinstance(node, LftaInput) else node.name]()
        below = [self._blocks(each) for each in node.inputs()]
        if isinstance(node, Union):
            return _union(node, below)
        if isinstance(node, Map):
            return (_items(node.items, frame) for frame in self._filtered(node, node.predicate, below[0]))
        if isinstance(node, Bucket):
            return _windows(node, below[0])
        if isinstance(node, Expand):
            return _sets(node, below[0])
        if isinstance(node, Group):
            return self._group(node, self._filtered(node, node.predicate, below[0]))
        if isinstance(node, Join):
            return self._join(node, below[0], below[1])
        if isinstance(node, FilterJoin):
            return self._filter_join(node, below[0], below[1])
        if isinstance(node, WatchJoin):
            return self._watch(node, below[0])
        raise TypeError(type(node).__name__)

    def _filtered(self, node: Node, predicate: Expr | None, blocks: Blocks) -> Blocks:
        if predicate is None:
            return blocks
        return self._kept(predicate, blocks, self.counts.point("filter", node, "rows_in", "rows_out"))

    def _kept(self, predicate: Expr, blocks: Blocks, counts: Counter[str]) -> Blocks:
        for frame in blocks:
            test = frame.of_expr(predicate).fill_null(False)
            inside = self.counts.inside(frame)
            counts["rows_in"] += int(inside.sum())
            counts["rows_out"] += int((inside & test.to_numpy(zero_copy_only=False)).sum())
            yield frame.where(test)

    def _group(self, node: Group, blocks: Blocks) -> Blocks:
        counts = self.counts.point("group", node, "rows_in", "groups", "rows_out")
        return self._groups(node, blocks, counts)

    def _groups(self, node: Group, blocks: Blocks, counts: Counter[str]) -> Blocks:
        for found in grouped(node, gathered(blocks), self.counts.slice_, self._folder()):
            inside = self.counts.inside(found)
            test = pa.repeat(pa.scalar(True), found.rows)
            if node.having is not None:
                test = found.of_expr(node.having).fill_null(False)
            counts["rows_in"] += int(found[ROWS].to_numpy(zero_copy_only=False)[inside].sum())
            counts["groups"] += int(inside.sum())
            counts["rows_out"] += int((inside & test.to_numpy(zero_copy_only=False)).sum())
            yield _items(node.items, found.where(test))

    def _join(self, node: Join, left: Blocks, right: Blocks) -> Blocks:
        counts = self.counts.point("join", node, "rows_out", "left_unmatched", "right_unmatched")
        return self._joined(node, left, right, counts)

    def _joined(self, node: Join, left: Blocks, right: Blocks, counts: Counter[str]) -> Blocks:
        for sides in self._sides(node, left, right):
            for frame, unmatched in joined(node, *sides):
                inside = int(self.counts.inside(frame).sum())
                counts["rows_out"] += inside
                if unmatched:
                    counts[f"{unmatched}_unmatched"] += inside
                yield _items(node.items, frame)

    def _sides(self, node: Join, left: Blocks, right: Blocks) -> Iterator[tuple[Frame, Frame]]:
        """Both inputs of a join; in parts with equal keys where they are too many for memory, if they have keys."""
        held: tuple[list[Frame], list[Frame]] = [], []
        spills: list[Spill] = []
        for side, blocks in enumerate((left, right)):
            for frame in blocks:
                if spills:
                    spills[side].add(frame, join_keys(node, frame, side == 0))
                    continue
                held[side].append(frame)
                if sum(each.rows for frames in held for each in frames) > spill.MOST and has_keys(node):
                    spills = [Spill(self._folder(), empty(below)) for below in node.inputs()]
                    for at, frames in enumerate(held):
                        for each in frames:
                            spills[at].add(each, join_keys(node, each, at == 0))
                        frames.clear()
        if spills:
            yield from zip(spills[0].parts(), spills[1].parts(), strict=True)
        else:
            yield _all(node.left, held[0]), _all(node.right, held[1])

    def _folder(self) -> Path:
        """A folder of its own, not made yet."""
        return self.folder / str(next(self._spills))

    def _filter_join(self, node: FilterJoin, left: Blocks, right: Blocks) -> Blocks:
        counts = self.counts.point("join", node, "rows_out")
        return self._filter_joined(node, left, right, counts)

    def _filter_joined(self, node: FilterJoin, left: Blocks, right: Blocks, counts: Counter[str]) -> Blocks:
        sides = [_all(below, each) for below, each in zip(node.inputs(), (left, right), strict=True)]
        passed = filter_joined(node, *sides)
        counts["rows_out"] += int(self.counts.inside(passed).sum())
        yield _items(node.items, passed)

    def _watch(self, node: WatchJoin, blocks: Blocks) -> Blocks:
        counts = self.counts.point("lookup", node, "rows_out")
        return self._watched(node, blocks, counts)

    def _watched(self, node: WatchJoin, blocks: Blocks, counts: Counter[str]) -> Blocks:
        for frame in blocks:
            for found in looked_up(node, frame, self.lists[node.file, node.columns]):
                counts["rows_out"] += int(self.counts.inside(found).sum())
                yield _items(node.items, found)


def _in_parts(node: Node) -> list[Node]:
    """The operators below one whose rows are held until all that read them have, inputs first."""
    order = list(walk(node))
    readers = Counter(id(below) for each in order for below in each.inputs())
    depths: dict[int, int] = {}
    for each in order:
        depths[id(each)] = 1 + max((depths[id(below)] for below in each.inputs()), default=0)
    inner = [each for each in order if each.inputs() and each is not node]
    return [each for each in inner if readers[id(each)] > 1 or depths[id(each)] % DEEP == 0]


def gathered(blocks: Iterable[Frame]) -> Iterator[Frame]:
    """The same rows in blocks of about BLOCK rows."""
    waiting: list[Frame] = []
    for frame in blocks:
        if frame.rows:
            waiting.append(frame)
        if sum(each.rows for each in waiting) >= BLOCK:
            yield together(waiting)
            waiting = []
    if waiting:
        yield together(waiting)


def _all(node: Node, blocks: Iterable[Frame]) -> Frame:
    """All rows of an operator at once."""
    frames = list(blocks)
    found = [frame for frame in frames if frame.rows] or frames[:1]
    return together(found) if found else empty(node)


def empty(node: Node) -> Frame:
    """No rows of an operator."""
    columns = {f.name: pa.array([], f.type) for f in value_schema(node.fields)}
    return Frame(columns | {name: pa.array([], pa.int64()) for name in (LAST, LINK)}, 0)


def _items(items: Iterable[Item], frame: Frame) -> Frame:
    columns = {item.name: frame.of_expr(item.expr) for item in items}
    return Frame(columns | {name: frame[name] for name in CARRIED if name in frame.columns}, frame.rows)


def _union(node: Union, branches: list[Blocks]) -> Blocks:
    for branch, blocks in zip(node.branches, branches, strict=True):
        names = {mine.name: theirs.name for mine, theirs in zip(branch.fields, node.fields, strict=True)}
        for frame in blocks:
            yield frame.renamed(names | {name: name for name in CARRIED if name in frame.columns})


def _windows(node: Bucket, blocks: Blocks) -> Blocks:
    """The rows with the numbers of their windows (WID; 002, Figure A-2); a row without a value is in none."""
    for frame in blocks:
        array = frame.of_expr(node.attribute)
        value = array.fill_null(0).to_numpy(zero_copy_only=False)
        # Below it 64 bits do not hold the difference, and the row is in no window: as in every engine.
        sane = value >= -(1 << 63) + node.range + node.slide
        given = array.is_valid().to_numpy(zero_copy_only=False) & sane
        value = np.where(given, value, 0)
        first, last = (value - node.range) // node.slide + 1, value // node.slide
        counts = np.where(given, np.maximum(last - first + 1, 0), 0)
        upto = np.cumsum(counts)
        at = 0
        while at < frame.rows:
            done = int(upto[at - 1]) if at else 0
            until = max(at + 1, int(np.searchsorted(upto, done + BLOCK, side="right")))
            own = counts[at:until]
            places = np.repeat(np.arange(at, until), own)
            within = np.arange(len(places)) - np.repeat(np.cumsum(own) - own, own)
            found = frame.take(places)
            yield Frame(found.columns | {node.name: pa.array(first[places] + within)}, found.rows)
            at = until


def _sets(node: Expand, blocks: Blocks) -> Blocks:
    """The rows once for each grouping set, with its number; a key that the set leaves out is NULL."""
    for frame in blocks:
        for number, kept in enumerate(node.sets):
            columns = dict(frame.columns)
            for key in node.keys:
                if key not in kept:
                    columns[key] = pa.nulls(frame.rows, columns[key].type)
            yield Frame(columns | {node.name: pa.repeat(pa.scalar(number, pa.int64()), frame.rows)}, frame.rows)


def owned(frame: Frame, first: int, end: int) -> Frame:
    """The rows whose `_last` lies in [first, end)."""
    lasts = frame[LAST]
    return frame.where(pc.and_(pc.greater_equal(lasts, first), pc.less(lasts, end)))
