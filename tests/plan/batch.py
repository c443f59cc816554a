"""A batch evaluator of plans: every operator over all its rows at once, in canonical order, as SEMANTICS says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from lowwater.catalog.expr import Column, Expr
from lowwater.plan.operators import (
    Bucket,
    Expand,
    Field,
    FilterJoin,
    Group,
    Item,
    Join as JoinNode,
    Lfta,
    LftaInput,
    Map,
    Node,
    Order,
    Running,
    Sampling,
    Source,
    Top,
    Union,
    WatchJoin,
)
from lowwater.plan.properties import ROW
from lowwater.plan.temporal import END_OF_TIME
from tests.plan.batch_joins import filter_join, join, watch_join
from tests.plan.batch_rows import Packet, Row, World
from tests.plan.batch_states import running, sampling
from tests.plan.batch_values import Accumulator, compiled, condition, group_last, hashable, of_partial, order_key


def evaluate(node: Node, world: World) -> list[Row]:
    """The rows of a plan over a world; shared operators are evaluated once."""
    return Batch(world).rows(node)


class Batch:
    """One evaluation."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._done: dict[int, tuple[Node, list[Row]]] = {}

    def rows(self, node: Node) -> list[Row]:
        """The rows of an operator."""
        if id(node) not in self._done:
            self._done[id(node)] = (node, OPERATORS[type(node)](self, node))
        return self._done[id(node)][1]

    def read(self, node: Node, below: Node) -> list[Row]:
        """The rows of an input, with the order that they have for their reader (O1)."""
        found = self.rows(below)
        if below.query == node.query and all(row.order for row in found):
            return found
        return [replace(row, order=by_columns(row, below.fields)) for row in found]

    def ordered(self, node: Node) -> list[Row]:
        """The rows of an operator's input in canonical order."""
        return sorted(self.read(node, node.inputs()[0]), key=lambda row: row.order)


def by_columns(row: Row, fields: Sequence[Field]) -> tuple[Any, ...]:
    """The order of rows that are no packets: the temporal value, then all columns."""
    temporal = [f.name for f in fields if f.temporal][:1]
    return tuple(order_key(row.values[name]) for name in (*temporal, *(f.name for f in fields)))


def of_packets(node: Node, query: str) -> bool:
    """Whether the rows of an operator are packets to a reader in this query."""
    if isinstance(node, Map | Union):
        return node.query == query and all(of_packets(below, query) for below in node.inputs())
    return node.query == query and (
        isinstance(node, Source) or (isinstance(node, LftaInput) and not node.lfta.aggregates)
    )


def selected(row: Row, items: Sequence[tuple[str, Callable[..., Any]]]) -> Row:
    """The row with the items as its columns."""
    return Row({name: made(row.values) for name, made in items}, row.last, row.order, row.link)


def compiled_items(items: Iterable[Item]) -> list[tuple[str, Callable[..., Any]]]:
    """Names with their closures."""
    return [(item.name, compiled(item.expr)) for item in items]


def packet_row(packet: Packet, fields: Iterable[str], number: int) -> Row:
    """A packet as a row of stored columns."""
    values = {name: packet.values.get(name) for name in fields if name not in ("interface", ROW)}
    values |= {"interface": packet.link, ROW: number}
    return Row(values, packet.timestamp, packet.order, packet.link)


def _members(
    world: World, links: Sequence[str], member: Expr | None, fields: Sequence[str], first: int
) -> Iterable[Row]:
    """The admitted packets of a protocol, each with the number that it has among all records of the links (I4)."""
    records = sorted((p for link in links for p in world.links.get(link, ())), key=lambda p: p.arrived)
    belongs = condition(member)
    for number, packet in enumerate(records):
        if packet.admitted and packet.timestamp >= first and belongs({**packet.values, "interface": packet.link}):
            yield packet_row(packet, fields, number)


def _source(batch: Batch, node: Source) -> list[Row]:
    first = batch.world.starts.get(f"{node.query}.{node.alias}", 0)
    found = _members(batch.world, node.links, node.member, [f.name for f in node.fields], first)
    return sorted(found, key=lambda row: row.order)


def _lfta(batch: Batch, node: LftaInput) -> list[Row]:
    lfta, world = node.lfta, batch.world
    packets = list(_members(world, lfta.links, lfta.member, sorted(world.columns), world.starts.get(lfta.name, 0)))
    keep = condition(lfta.predicate)
    kept = [row for row in packets if keep(row.values)]
    if not lfta.aggregates:
        # Where the leaf brings the numbers of its rows, they are those among all records.
        items = compiled_items((*lfta.keys, *(Item(ROW, Column(f.type, ROW)) for f in node.fields if f.name == ROW)))
        return [selected(row, items) for row in kept]
    return [part for link in lfta.links for part in _partial(batch, lfta, [row for row in kept if row.link == link])]


def _partial(batch: Batch, lfta: Lfta, rows: Sequence[Row]) -> list[Row]:
    """The partial groups of one link: each group in as many parts as chance will have it, of any of its rows."""
    random = batch.world.chance(lfta.name)
    keys = compiled_items(lfta.keys)
    partials = [of_partial(partial, batch.world.catalog) for partial in lfta.partials]
    parts: dict[tuple[Any, ...], dict[str, Accumulator]] = {}
    for row in rows:
        key = tuple(made(row.values) for _, made in keys)
        which = (*map(hashable, key), random.randrange(batch.world.parts))
        states = parts.setdefault(which, {p.name: Accumulator(p, partial=True) for p in partials})
        for state in states.values():
            state.add(row.values)
    fields = lfta.fields[: len(keys)]
    found = []
    for which, states in parts.items():
        values = dict(zip((name for name, _ in keys), which[:-1], strict=True))
        last = last_of(fields, which[:-1])
        found.append(Row({**values, **{name: state.value() for name, state in states.items()}}, last))
    return found


def _map(batch: Batch, node: Map) -> list[Row]:
    keep, items = condition(node.predicate), compiled_items(node.items)
    return [selected(row, items) for row in batch.read(node, node.input) if keep(row.values)]


def _group(batch: Batch, node: Group) -> list[Row]:
    keep, keys = condition(node.predicate), compiled_items(node.keys)
    groups: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[Row]]] = {}
    for row in batch.ordered(node):
        if keep(row.values):
            key = tuple(made(row.values) for _, made in keys)
            groups.setdefault(tuple(map(hashable, key)), (key, []))[1].append(row)
    having, items, found = condition(node.having), compiled_items(node.items), []
    for key, rows in groups.values():
        values = dict(zip((name for name, _ in keys), key, strict=True))
        for aggregate in node.aggregates:
            state = Accumulator(aggregate)
            for row in rows:
                state.add(row.values)
            values[aggregate.name] = state.value()
        if having(values):
            found.append(selected(Row(values, last_of(node.key_fields, key)), items))
    return found


def _top(batch: Batch, node: Top) -> list[Row]:
    keys, items = compiled_items(node.keys), compiled_items(node.items)
    parts: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], Row]]] = {}
    for row in batch.ordered(node):
        place = tuple(_before(part, compiled(part.expr)(row.values)) for part in node.order)
        parts.setdefault(tuple(hashable(made(row.values)) for _, made in keys), []).append((place, row))
    found = []
    for key, rows in parts.items():
        rows.sort(key=lambda pair: pair[0])
        border = rows[: node.count][-1][0]
        kept = [row for place, row in rows if place <= border] if node.ties else [row for _, row in rows[: node.count]]
        last = last_of(node.key_fields, key)
        found += [replace(selected(row, items), last=last, order=()) for row in kept]
    return found


def _before(part: Order, value: Any) -> tuple[int, Any]:
    """What sorts a value of ORDER BY; no drawn value is a text or NaN."""
    if value is None:
        return (-1 if part.nulls_first else 1, 0)
    return (0, -value if part.descending else value)


def last_of(fields: Sequence[Field], values: Sequence[Any]) -> int:
    """`_last` of a group (I1); that of a window of rows is not known here."""
    known = [(f, v) for f, v in zip(fields, values, strict=True) if f.temporal and not f.temporal.origin]
    if not any(v is not None for _, v in known):
        return END_OF_TIME - 1
    return group_last(tuple(f for f, _ in known), tuple(v for _, v in known))


def _bucket(batch: Batch, node: Bucket) -> list[Row]:
    attribute, partition = compiled(node.attribute), compiled_items(node.partition)
    numbered = [(attribute(row.values), row) for row in batch.read(node, node.input)]
    if node.counted is not None:
        counted = compiled(node.counted)
        numbered = [(value, row) for value, row in numbered if counted(row.values) is True]
    if node.partition or node.counted is not None:
        counts: dict[tuple[Any, ...], int] = {}
        ranked = []
        for _, row in sorted(numbered, key=lambda pair: pair[0]):
            key = tuple(made(row.values) for _, made in partition)
            ranked.append((counts.setdefault(key, 0), row))
            counts[key] += 1
        numbered = ranked
    found = []
    for value, row in numbered:
        if value is not None:
            for number in range((value - node.range) // node.slide - 1, value // node.slide + 2):
                if number * node.slide <= value < number * node.slide + node.range:
                    found.append(Row({**row.values, node.name: number}, row.last, row.order, row.link))
    return found


def _expand(batch: Batch, node: Expand) -> list[Row]:
    return [
        Row(
            {**{n: None if n in node.keys and n not in kept else v for n, v in row.values.items()}, node.name: number},
            row.last,
            row.order,
            row.link,
        )
        for row in batch.read(node, node.input)
        for number, kept in enumerate(node.sets)
    ]


def _union(batch: Batch, node: Union) -> list[Row]:
    packets = all(of_packets(branch, node.query) for branch in node.branches)
    found = []
    for number, branch in enumerate(node.branches):
        names = [(own.name, its.name) for own, its in zip(node.fields, branch.fields, strict=True)]
        for row in batch.rows(branch):
            made = Row({own: row.values[its] for own, its in names}, row.last, (), row.link)
            order = (*row.order, number) if packets else by_columns(made, node.fields)
            found.append(replace(made, order=order))
    return found


OPERATORS: dict[type[Node], Callable[[Batch, Any], list[Row]]] = {
    Source: _source,
    LftaInput: _lfta,
    Map: _map,
    Group: _group,
    Bucket: _bucket,
    Expand: _expand,
    Union: _union,
    Top: _top,
    Running: lambda batch, node: running(node, batch.ordered(node), batch.world),
    Sampling: lambda batch, node: sampling(node, batch.ordered(node)),
    JoinNode: lambda batch, node: join(node, batch.rows(node.left), batch.read(node, node.right)),
    FilterJoin: lambda batch, node: filter_join(node, batch.rows(node.left), batch.rows(node.right)),
    WatchJoin: lambda batch, node: watch_join(node, batch.rows(node.input), batch.world),
}
