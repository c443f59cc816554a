"""From a published row to the packets that it counted: its group, turned into conditions over stored packets.

The plan of the query gives each GROUP BY variable as an expression over packets. A condition says that the expressions
have the values of the row. Where the packets are no function of the row, `row_conditions` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type, columns_of, conjunction, rewrite
from lowwater.catalog.expr import Unary as UnaryExpr
from lowwater.catalog.time import Skews, is_late, link_skews
from lowwater.catalog.values import pack_ip, parse_mac
from lowwater.config import Config
from lowwater.errors import LakeError
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.lake.packets import PacketFiles, packet_files
from lowwater.limits import ROW_PACKETS
from lowwater.plan.operators import Field, Group, Item, Join, JoinKind, Map, Node, Source, Union
from lowwater.plan.properties import unique_key
from lowwater.plan.queryset import QueryPlan
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.packets.export import Predicate

SHOWN = ("srcIP", "srcPort", "destIP", "destPort", "protocol", "len")
"""Columns that a list of packets shows beside link, record and time."""


@dataclass(frozen=True)
class SourceCondition:
    """The packets of one source that a row counted.

    Attributes:
        source: the source of the plan.
        parts: conditions over packets that all hold.
    """

    source: Source
    parts: tuple[Expr, ...]

    @property
    def predicate(self) -> Predicate:
        """The condition as export takes it."""
        return Predicate(self.source.member, conjunction([*self.parts]))


@dataclass(frozen=True)
class RowPackets:
    """The packets that a row counted.

    Attributes:
        conditions: one for each source of packets.
        start: first timestamp, ns.
        end: end of the timestamps, ns, exclusive.
    """

    conditions: tuple[SourceCondition, ...]
    start: int
    end: int


def row_packets(query: QueryPlan, row: Mapping[str, Any]) -> RowPackets:
    """Finds the conditions of the packets that a published row counted.

    Raises:
        LakeError: the packets are no function of the row; the message says why.
    """
    node = query.logical
    missing = [item.name for item in node.fields if item.name not in row]
    if missing:
        raise LakeError(f"the row of {query.name} lacks the columns {', '.join(missing)}", "give every column")
    others = [part.label for part in _chain(node) if not (isinstance(part, _KNOWN) or _is_inner(part))]
    if others:
        raise _refused(query, f"it has a {others[0]}, whose packets a row does not tell")
    usable = _from_keys(node)
    grouped = any(isinstance(part, Group) for part in _chain(node))
    key = unique_key(node)
    if grouped and (key is None or not set(key) <= usable):
        raise _refused(query, "its columns do not carry the whole GROUP BY, so several groups may give the same row")
    chosen = [item for item in node.fields if item.name in usable]
    parts = [_equals(query, item, row[item.name]) for item in chosen]
    start, end = _span(node.fields, row)
    if end <= start:
        raise _refused(query, "no column of it tells a time of packets")
    conditions = _together(_conditions(query, node, parts, True))
    # A packet of the other side lies as far from those of this one as the window of the join is wide.
    reach = sum(start - min(join.window.needed(start, join.kind)) for join in _chain(node) if isinstance(join, Join))
    return RowPackets(conditions, max(0, start - reach), end + reach)


_KNOWN = Source | Map | Group | Union


def _is_inner(node: Node) -> bool:
    return isinstance(node, Join) and node.kind is JoinKind.INNER


def _together(conditions: Iterable[SourceCondition]) -> tuple[SourceCondition, ...]:
    """Makes one condition of those over the same packets, so that a packet of both sides of a join counts once."""
    found: dict[tuple[Any, ...], SourceCondition] = {}
    for each in conditions:
        key = each.source.links, each.source.member
        if before := found.get(key):
            sides = [conjunction([*side.parts]) for side in (before, each)]
            either = None if None in sides else Binary(Type.BOOL, "OR", *sides)  # type: ignore[arg-type]
            each = SourceCondition(each.source, () if either is None else (either,))
        found[key] = each
    return tuple(found.values())


def _chain(node: Node) -> Iterator[Node]:
    yield node
    for below in node.inputs():
        yield from _chain(below)


def _from_keys(node: Node) -> set[str]:
    """Returns the output columns that are functions of packets' own columns, not of aggregates."""
    if isinstance(node, Map):
        below = _from_keys(node.input)
        return {item.name for item in node.items if set(columns_of(item.expr)) <= below}
    if isinstance(node, Group):
        below = _from_keys(node.input)
        keys = {key.name for key in node.keys if set(columns_of(key.expr)) <= below}
        return {item.name for item in node.items if set(columns_of(item.expr)) <= keys}
    if isinstance(node, Join):
        below = {f"{alias}.{name}" for alias, side in _sides(node) for name in _from_keys(side)}
        return {item.name for item in node.items if set(columns_of(item.expr)) <= below}
    if isinstance(node, Union):
        branches = [[item.name in _from_keys(branch) for item in branch.fields] for branch in node.branches]
        return {item.name for at, item in enumerate(node.fields) if all(branch[at] for branch in branches)}
    return {item.name for item in node.fields}


def _conditions(query: QueryPlan, node: Node, parts: Sequence[Expr], top: bool) -> Iterator[SourceCondition]:
    """Moves conditions over the columns of a node down to its sources."""
    if isinstance(node, Source):
        if node.kind != "pcap":
            raise _refused(query, f"it reads {node.kind} records, which are no packets")
        if node.sample is not None:
            raise _refused(query, "it samples packets")
        yield SourceCondition(node, tuple(parts))
        return
    if isinstance(node, Union):
        for branch in node.branches:
            renamed = [
                Item(item.name, Column(own.type, own.name))
                for item, own in zip(node.fields, branch.fields, strict=True)
            ]
            yield from _conditions(query, branch, _moved(parts, renamed), False)
        return
    if isinstance(node, Join):
        yield from _joined(query, node, parts)
        return
    if isinstance(node, Map):
        moved = [*_moved(parts, node.items), *_predicate(node.predicate)]
    elif isinstance(node, Group):
        names = {key.name for key in node.keys}
        moved = _moved(parts, node.items)
        if any(not set(columns_of(part)) <= names for part in moved) or (node.having is not None and not top):
            raise _refused(query, f"a condition of {query.name} is on sums or counts of {node.query}, not on packets")
        moved = [*_moved(moved, node.keys), *_predicate(node.predicate)]
    else:
        raise TypeError(type(node).__name__)
    (below,) = node.inputs()
    if any(not set(columns_of(part)) <= _from_keys(below) for part in moved):
        raise _refused(query, f"a condition of {query.name} is on sums or counts of a query below, not on packets")
    yield from _conditions(query, below, moved, False)


def _joined(query: QueryPlan, node: Join, parts: Sequence[Expr]) -> Iterator[SourceCondition]:
    """Divides conditions over the rows of an inner join into those of either side.

    Columns of which the row says the value are replaced by it, so that an equality of the join says the value of the
    other side too. If no condition on both sides is left, every packet of one side meets every one of the other, and
    gives the same row.
    """
    window = node.window
    far, near = (Const(window.left.type, bound) for bound in (window.above, window.below))
    bounds = [
        Binary(Type.BOOL, ">=", window.right, Binary(window.left.type, "-", window.left, near)),
        Binary(Type.BOOL, "<=", window.right, Binary(window.left.type, "+", window.left, far)),
    ]
    ties = [Binary(Type.BOOL, "=", left, right) for left, right in node.equalities]
    left = [*_moved(parts, node.items), *ties, *bounds, *_predicate(node.residual)]
    known: dict[str, Expr] = {}

    def told(expr: Expr) -> Expr:
        return known.get(expr.name, expr) if isinstance(expr, Column) else expr

    while said := {name: value for part in left for name, value in _value(part) if name not in known}:
        known.update(said)
        left = [rewrite(part, told) for part in left if all(name not in known for name, _ in _value(part))]
    left += [Binary(Type.BOOL, "=", Column(value.type, name), value) for name, value in known.items()]
    for alias, side in _sides(node):
        own = [part for part in left if any(name.startswith(f"{alias}.") for name in columns_of(part))]
        if any(not name.startswith(f"{alias}.") for part in own for name in columns_of(part)):
            raise _refused(query, "its columns do not say which packets of one side met those of the other")
        names = {name for part in own for name in columns_of(part)}
        plain = [Item(name, Column(_type(side, name.partition(".")[2]), name.partition(".")[2])) for name in names]
        below = _moved(own, plain)
        if any(not set(columns_of(part)) <= _from_keys(side) for part in below):
            raise _refused(query, f"a condition of {query.name} is on sums or counts of a query below, not on packets")
        yield from _conditions(query, side, below, False)


def _sides(node: Join) -> tuple[tuple[str, Node], tuple[str, Node]]:
    return (node.left_alias, node.left), (node.right_alias, node.right)


def _type(node: Node, name: str) -> Type:
    return next(item.type for item in node.fields if item.name == name)


def _value(part: Expr) -> Iterator[tuple[str, Expr]]:
    """Yields the column of which a condition says the value, and the value."""
    if isinstance(part, Binary) and part.op == "=":
        for column, value in ((part.left, part.right), (part.right, part.left)):
            if isinstance(column, Column) and isinstance(value, Const):
                yield column.name, value


def _predicate(predicate: Expr | None) -> list[Expr]:
    return [] if predicate is None else [predicate]


def _moved(parts: Sequence[Expr], items: Sequence[Item]) -> list[Expr]:
    """Replaces the columns of conditions by the expressions that compute them."""
    by_name = {item.name: item.expr for item in items}

    def change(expr: Expr) -> Expr:
        return by_name.get(expr.name, expr) if isinstance(expr, Column) else expr

    return [rewrite(part, change) for part in parts]


def _equals(query: QueryPlan, item: Field, value: Any) -> Expr:
    column = Column(item.type, item.name)
    if value is None:
        return UnaryExpr(Type.BOOL, "IS NULL", column)
    if item.type is Type.BOOL:
        return column if value else UnaryExpr(Type.BOOL, "NOT", column)
    try:
        if item.type is Type.IP:
            value = pack_ip(value)
        elif item.type is Type.MAC and isinstance(value, str):
            value = parse_mac(value)
        elif item.type is Type.INT:
            value = int(value)
        elif item.type is Type.FLOAT and not math.isfinite(value := float(value)):
            raise _refused(query, f"its column {item.name} is {value}")
        elif item.type is Type.STRING:
            value = str(value)
    except (ValueError, TypeError, OverflowError):
        raise LakeError(f"{value!r:.80} is no value of column {item.name}", f"its type is {item.type}") from None
    return Binary(Type.BOOL, "=", column, Const(item.type, value, f"row_{item.name}"))


def _span(fields: Sequence[Field], row: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the range of timestamps (ns) in which packets of the row lie; empty without a column of the clock."""
    start, end = 0, END_OF_TIME
    clocks = [item for item in fields if item.temporal and not item.temporal.origin and row[item.name] is not None]
    for item in clocks:
        clock = item.temporal
        assert clock is not None
        value = int(row[item.name])
        bounds = clock.first(value), clock.last(value)
        start, end = max(start, min(bounds)), min(end, max(bounds) + 1)
    return (start, end) if clocks else (0, 0)


def _refused(query: QueryPlan, why: str) -> LakeError:
    return LakeError(
        f"the packets of a row of {query.name} are not known: {why}",
        "`lowwater export` selects packets by a condition of your own",
    )


@dataclass
class FoundPackets:
    """Packets of a row.

    Attributes:
        count: number of packets.
        first: the first packets: link, record, timestamp (ns) and the columns SHOWN.
        admitted: link and capture -> positions of the packets that queries read: not late, in the life of the link.
    """

    count: int = 0
    first: list[dict[str, Any]] = field(default_factory=list)
    links: dict[str, int] = field(default_factory=dict)
    admitted: dict[tuple[str, str], list[NDArray[np.int64]]] = field(default_factory=dict)


def find_packets(lake: Lake, config: Config, wanted: RowPackets, shown: int = 100) -> FoundPackets:
    """Reads the packets that a row counted: those that its conditions select and that are not late (T2).

    Args:
        wanted: the conditions, from `row_packets`.

    Raises:
        LakeError: a link drops copies or sheds load, or the lake cannot be read.
    """
    result, files = FoundPackets(), PacketFiles.of(lake)
    for condition in wanted.conditions:
        captures = read_captures(lake, condition.source.links)
        for link in condition.source.links:
            _find_link(files, config, link, captures[link], condition, wanted, shown, result)
    return result


def _find_link(
    files: PacketFiles,
    config: Config,
    link: str,
    captures: Captures,
    condition: SourceCondition,
    wanted: RowPackets,
    shown: int,
    result: FoundPackets,
) -> None:
    settings = config.link(link)
    if settings.shed is not None or settings.duplicates != "keep":
        why = "sheds load" if settings.shed is not None else "looks for copies of packets"
        raise LakeError(
            f"link {link!r} {why}: which packets a row counted is not stored",
            "`lowwater export` selects packets by a condition of your own",
        )
    predicate, skews = condition.predicate, link_skews(config, link)
    test = predicate.test(link)
    columns = list(dict.fromkeys([*predicate.columns, *_columns(), *skews.columns]))
    read = packet_files(files, link, captures, settings, wanted.start, wanted.start, wanted.end)
    for batch in read.batches(
        [name for name in columns if name not in ("arrival", "timestamp", "position", "capture")]
    ):
        rows = batch.filter(_on_time(batch, skews, wanted))
        rows = rows.filter(pa.array(test(rows))) if rows.num_rows else rows
        if not rows.num_rows:
            continue
        result.count += rows.num_rows
        if result.count > ROW_PACKETS:
            raise LakeError(
                f"the row counted more than {ROW_PACKETS:,} packets",
                "`lowwater export` selects packets by a condition of your own",
            )
        result.links[link] = result.links.get(link, 0) + rows.num_rows
        capture = str(rows.column("capture")[0].as_py())
        result.admitted.setdefault((link, capture), []).append(rows.column("position").to_numpy())
        result.first += [{"link": link, **row} for row in rows.slice(0, shown - len(result.first)).to_pylist()]


def _on_time(batch: pa.RecordBatch, skews: Skews, wanted: RowPackets) -> pa.Array:
    stamps, arrivals = batch.column("timestamp").to_numpy(), batch.column("arrival").to_numpy()
    return pa.array(~is_late(arrivals, stamps, skews.of(batch)) & (stamps >= wanted.start) & (stamps < wanted.end))


def _columns() -> list[str]:
    from lowwater.catalog.schemas import stored

    return stored(list(SHOWN))
