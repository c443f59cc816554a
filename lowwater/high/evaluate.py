"""Evaluates a plan over the rows of one slice. An operator turns blocks of its inputs into blocks of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog import expr as ex, schemas
from lowwater.columns.files import PLACE
from lowwater.columns.values import Frame, divided, in_blocks, repeated
from lowwater.high import operators
from lowwater.high.fill import Links, fill
from lowwater.plan import operators as ops, properties, shares, temporal

if TYPE_CHECKING:
    from lowwater.high.over import OverChain

DEEP = 16
"""Depth of nested generators after which the evaluation materializes the rows of an operator."""
CARRIED = (schemas.LAST, schemas.TICK, PLACE)
"""Columns that every operator copies to its output."""

Leaves = Mapping[str, Callable[[], Iterator[Frame]]]
"""Name of a leaf -> its rows."""
Blocks = Iterator[Frame]
Points = list[tuple[str, str, Counter[str]]]
"""(kind, query, counts) of the operators, in the order of the plan."""


@dataclass
class Counts:
    """The numbers of input and output rows of the operators, of rows with `_last` (ns) in the slice: so those of all
    slices sum to those of the run.
    """

    slice_: tuple[int, int]
    points: Points = field(default_factory=list)

    def point(self, kind: str, node: ops.Node, *names: str) -> Counter[str]:
        """Adds a point of the plan with zero counts of these names."""
        counts = Counter(dict.fromkeys(names, 0))
        self.points.append((kind, node.query, counts))
        return counts

    def inside(self, frame: Frame) -> npt.NDArray[np.bool_]:
        """Marks the rows of the slice."""
        lasts = frame[schemas.LAST].to_numpy(zero_copy_only=False)
        inside: npt.NDArray[np.bool_] = (lasts >= self.slice_[0]) & (lasts < self.slice_[1])
        return inside

    def number(self, frame: Frame) -> int:
        """The number of the rows of the slice."""
        return int(self.inside(frame).sum())


@dataclass
class Evaluation:
    """The evaluation of a plan over one slice.

    Attributes:
        lists: (file, columns) of a watch list -> its rows.
        folder: for spill files if memory cannot hold the rows; the caller removes it.
        promise: what closes the slice, ns.
        chains: query -> its operator whose state goes on from slice to slice.
        most: rows that an operator keeps in memory; 0 for the usual number.
        reported: what is known of the links, for groups without rows.
    """

    leaves: Leaves
    lists: Mapping[tuple[str, tuple[ops.Field, ...]], Frame]
    counts: Counts
    folder: Path
    promise: int = temporal.END_OF_TIME
    chains: Mapping[str, operators.ChainedOperator | OverChain] = field(default_factory=dict)
    most: int = 0
    reported: Links = field(default_factory=dict)
    _spills: Iterator[int] = field(default_factory=count)
    _held: dict[int, list[Frame]] = field(default_factory=dict)
    _ordered: set[tuple[int, int]] = field(default_factory=set)

    def rows(self, node: ops.Node) -> Blocks:
        """Returns the rows of a plan; the counts are complete after the last one. Rows of an operator with several
        readers are materialized, and those at every `DEEP`th level: a chain of queries may be longer than Python allows
        for nested generators."""
        self._ordered = operators.ordered_inputs(node)
        for part in _in_parts(node):
            self._held[id(part)] = list(self._blocks(part))
        return self._blocks(node)

    def _blocks(self, node: ops.Node) -> Blocks:
        if id(node) in self._held:
            return iter(self._held[id(node)])
        if isinstance(node, ops.LftaInput | ops.Cut):
            return self.leaves[node.lfta.name if isinstance(node, ops.LftaInput) else node.name]()
        inputs = [self._input(node, at) for at in range(len(node.inputs()))]
        if type(node) not in OPERATORS:
            raise TypeError(f"slices have no operator for {type(node).__name__}")
        # The second phase of an aggregation has the predicate of the first, too.
        if (
            isinstance(node, ops.Map | ops.Group | ops.Running)
            and not isinstance(node, shares.SuperGroup)
            and node.predicate is not None
        ):
            counts = self.counts.point("filter", node, "rows_in", "rows_out")
            inputs = [self._filtered(node.predicate, inputs[0], counts)]
        operator, *points = OPERATORS[type(node)]
        counted = [self.counts.point(kind, node, *names) for kind, *names in points]
        blocks: Blocks = operator(self, node, *inputs, *counted)
        return blocks

    def _input(self, node: ops.Node, at: int) -> Blocks:
        below = node.inputs()[at]
        blocks = self._blocks(below)
        return (operators.with_order(below, frame) for frame in blocks) if (id(node), at) in self._ordered else blocks

    def _filtered(self, predicate: ex.Expr, blocks: Blocks, counts: Counter[str]) -> Blocks:
        for frame in blocks:
            passed = frame.filtered(predicate)
            counts["rows_in"] += self.counts.number(frame)
            counts["rows_out"] += self.counts.number(passed)
            yield passed

    def _groups(self, node: ops.Group, blocks: Blocks, counts: Counter[str]) -> Blocks:
        group = operators.grouped_in_python if node.physical().in_python else operators.grouped
        for groups in group(node, in_blocks(blocks), self.counts.slice_, self._folder(), self.most):
            inside, passed = self.counts.inside(groups), groups.filtered(node.having)
            counts["rows_in"] += int(groups[shares.ROWS.suffix].to_numpy(zero_copy_only=False)[inside].sum())
            counts["groups"] += int(inside.sum())
            counts["rows_out"] += self.counts.number(passed)
            yield _items(node.items, passed)

    def _chained(self, node: ops.Running | ops.Sampling, blocks: Blocks, *counts: Counter[str]) -> Blocks:
        chain = self.chains[node.query]
        assert isinstance(chain, operators.ChainedOperator)
        taken = sum(chain.take(frame) for frame in blocks)
        rows, counted = chain.advance(self.promise)
        counts[0].update(counted if isinstance(node, ops.Running) else {"rows_in": taken})
        counts[-1]["rows_out"] += rows.rows
        yield rows

    def _over(self, node: ops.Over, blocks: Blocks, counts: Counter[str]) -> Blocks:
        chain = cast("OverChain", self.chains[node.query])
        counts["rows_in"] += sum(chain.take(frame) for frame in blocks)
        for rows in chain.advance(self.promise):
            counts["rows_out"] += rows.rows
            yield rows

    def _filled(self, node: ops.Fill, blocks: Blocks, counts: Counter[str]) -> Blocks:
        for frame in fill(node, blocks, self.counts.slice_, self.reported):
            counts["rows_out"] += self.counts.number(frame)
            yield frame

    def _first_rows(self, node: ops.Top, blocks: Blocks, counts: Counter[str]) -> Blocks:
        def counted() -> Blocks:
            for frame in in_blocks(blocks):
                ends = operators.top_ends(node, frame)
                counts["rows_in"] += int(((ends >= self.counts.slice_[0]) & (ends < self.counts.slice_[1])).sum())
                yield frame

        for frame in operators.top_rows(node, counted(), self._folder(), self.most):
            counts["rows_out"] += self.counts.number(frame)
            columns = {item.name: frame.of_expr(item.expr) for item in node.items}
            yield Frame(columns | {schemas.LAST: frame[schemas.LAST]}, frame.rows)

    def _joined(self, node: ops.Join, left: Blocks, right: Blocks, counts: Counter[str]) -> Blocks:
        for ours, theirs in self._sides(node, left, right):
            for frame, unmatched in operators.join_rows(node, ours, theirs):
                inside = self.counts.number(frame)
                counts["rows_out"] += inside
                if unmatched:
                    counts[f"{unmatched}_unmatched"] += inside
                yield _items(node.items, frame)

    def _sides(self, node: ops.Join | ops.FilterJoin, left: Blocks, right: Blocks) -> Iterator[tuple[Frame, ...]]:
        """Yields both inputs of a join, in parts of equal keys if it has keys and they exceed memory."""
        nothing = [_empty(below) for below in node.inputs()]
        most = self.most if operators.ties(node) else temporal.INT64_MAX
        return divided(self._folder(), (left, right), partial(operators.join_keys, node), most, nothing)

    def _folder(self) -> Path:
        """Returns the path of a new spill folder; the folder does not exist yet."""
        return self.folder / str(next(self._spills))

    def _filter_joined(self, node: ops.FilterJoin, left: Blocks, right: Blocks, counts: Counter[str]) -> Blocks:
        for ours, theirs in self._sides(node, left, right):
            passed = operators.filter_join_rows(node, ours, theirs)
            counts["rows_out"] += self.counts.number(passed)
            yield _items(node.items, passed)

    def _looked_up(self, node: ops.WatchJoin, blocks: Blocks, counts: Counter[str]) -> Blocks:
        for frame in blocks:
            for matched in operators.watchlist_rows(node, frame, self.lists[node.file, node.columns]):
                counts["rows_out"] += self.counts.number(matched)
                yield _items(node.items, matched)


def _in_parts(node: ops.Node) -> list[ops.Node]:
    """Returns the operators below `node` whose rows the evaluation materializes, inputs first."""
    order = list(ops.walk(node))
    readers = Counter(id(below) for operator in order for below in operator.inputs())
    depths: dict[int, int] = {}
    for operator in order:
        depths[id(operator)] = 1 + max((depths[id(below)] for below in operator.inputs()), default=0)
    inner = [operator for operator in order if operator.inputs() and operator is not node]
    return [operator for operator in inner if readers[id(operator)] > 1 or depths[id(operator)] % DEEP == 0]


def _empty(node: ops.Node) -> Frame:
    """Returns an empty frame with the columns of an operator."""
    columns = {f.name: pa.array([], f.type) for f in properties.value_schema(node.fields)}
    return Frame(columns | {name: pa.array([], pa.int64()) for name in (schemas.LAST, PLACE)}, 0)


def _items(items: Iterable[ops.Item], frame: Frame) -> Frame:
    columns = {item.name: frame.of_expr(item.expr) for item in items}
    carried = {
        name: values for name, values in frame.columns.items() if name in CARRIED or name.startswith(operators.ORDER)
    }
    return Frame(columns | carried, frame.rows)


def _union(evaluation: Evaluation, node: ops.Union, *branches: Blocks) -> Blocks:
    placed = operators.of_packets(node, node.query)
    for number, (branch, blocks) in enumerate(zip(node.branches, branches, strict=True)):
        names = {mine.name: theirs.name for mine, theirs in zip(branch.fields, node.fields, strict=True)}
        for frame in blocks:
            renamed = frame.renamed(
                names | {name: name for name in (schemas.LAST, schemas.TICK) if name in frame.columns}
            )
            if placed and PLACE in frame.columns:
                renamed.columns[PLACE] = operators.of_branch(frame[PLACE], number, len(node.branches))
            yield renamed


def _windows(evaluation: Evaluation, node: ops.Bucket, blocks: Blocks) -> Blocks:
    """Yields a row for every window of an input row, with its number (WID; 002, Figure A-2); none without a value."""
    for frame in blocks:
        array = frame.of_expr(node.attribute)
        value = array.fill_null(0).to_numpy(zero_copy_only=False)
        # For a smaller value, the difference exceeds 64 bits. In every engine, the row is then in no window.
        sane = value >= -(1 << 63) + node.range + node.slide
        valid = array.is_valid().to_numpy(zero_copy_only=False) & sane
        value = np.where(valid, value, 0)
        first, last = (value - node.range) // node.slide + 1, value // node.slide
        counts = np.where(valid, np.maximum(last - first + 1, 0), 0)
        for places, times in repeated(counts):
            tagged = frame.take(places)
            yield Frame(tagged.columns | {node.name: pa.array(first[places] + times)}, tagged.rows)


def _sets(evaluation: Evaluation, node: ops.Expand, blocks: Blocks) -> Blocks:
    """Yields the rows once per grouping set, with the number of the set. A key outside the set is NULL."""
    for frame in blocks:
        for number, keys in enumerate(node.sets):
            columns = dict(frame.columns)
            for key in node.keys:
                if key not in keys:
                    columns[key] = pa.nulls(frame.rows, columns[key].type)
            yield Frame(columns | {node.name: pa.repeat(pa.scalar(number, pa.int64()), frame.rows)}, frame.rows)


_GROUPS = ("group", "rows_in", "groups", "rows_out")
OPERATORS: dict[type[ops.Node], tuple[Any, ...]] = {
    ops.Map: (lambda _, node, blocks: (_items(node.items, frame) for frame in blocks),),
    ops.Group: (Evaluation._groups, _GROUPS),
    shares.SubGroup: (lambda _, node, blocks: operators.sub_grouped(node, in_blocks(blocks)),),
    shares.SuperGroup: (Evaluation._groups, _GROUPS),
    ops.Running: (Evaluation._chained, _GROUPS),
    ops.Sampling: (Evaluation._chained, ("rows", "rows_in"), ("sampling", "rows_out")),
    ops.Fill: (Evaluation._filled, ("filling", "rows_out")),
    ops.Over: (Evaluation._over, ("over", "rows_in", "rows_out")),
    ops.Top: (Evaluation._first_rows, ("top", "rows_in", "rows_out")),
    ops.Join: (Evaluation._joined, ("join", "rows_out", "left_unmatched", "right_unmatched")),
    ops.FilterJoin: (Evaluation._filter_joined, ("join", "rows_out")),
    ops.WatchJoin: (Evaluation._looked_up, ("lookup", "rows_out")),
    ops.Union: (_union,),
    ops.Bucket: (_windows,),
    ops.Expand: (_sets,),
}
"""What evaluates an operator over blocks, and the points at which it counts: a kind, and names of counts."""
