"""Splits an aggregation of packets into partial aggregates below and superaggregates above.

A split needs group-by variables, arguments and conjuncts that are LFTA-safe. Every aggregate must merge exactly for any
partition of its input (SEMANTICS O2). Otherwise only a selection LFTA runs at the low level (004; 000, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lowwater.catalog.expr import Binary, Column, Expr, Type, conjuncts, rewrite
from lowwater.catalog.functions import AggregateFunction, Native
from lowwater.catalog.native import NATIVE, type_of
from lowwater.plan.operators import (
    MOST_COLUMNS,
    Aggregate,
    Aggregation,
    Field,
    Group,
    Item,
    LftaInput,
    Node,
    Partial,
    Source,
)
from lowwater.plan.properties.cost import unkeepable, unsafe
from lowwater.plan.rules.low import Selection, lfta_name, make_lfta
from lowwater.plan.rules.setting import Setting

A = TypeVar("A", bound=Aggregation)


def split_group(node: Node, setting: Setting) -> Node | None:
    """Returns both levels of a Group over packets; None for other plans."""
    if not isinstance(node, Group) or not isinstance(node.input, Source):
        return None
    source = node.input
    if not whole_reason(node, node.keys, setting):
        return aggregated(node, source, node.keys, node.key_fields, setting)
    return selected(node, source, setting)


def whole_reason(node: Aggregation, keys: Sequence[Item], setting: Setting) -> str:
    """Returns why the high level computes a whole aggregation; empty if the rules can split the aggregation.

    Args:
        node: the aggregation.
        keys: group-by variables over packets.
        setting: the facts of the query set.
    """
    threshold = setting.threshold(node.query)
    if setting.arrival:
        return "the query is evaluated by arrival, record by record"
    if node.query in setting.selections:
        return "DEFINE asks for select_lfta"
    for part in conjuncts(node.predicate):
        if reason := unsafe(part, threshold):
            return reason
    for key in keys:
        if reason := unsafe(key.expr, threshold):
            return f"group-by variable {key.name}: {reason}"
    for aggregate in node.aggregates:
        if reason := _aggregate_reason(aggregate, setting, threshold):
            return f"{aggregate.function}: {reason}"
    if max(len(keys), len(Merging.of(node.aggregates, setting).partials)) > MOST_COLUMNS:
        return f"a group table has at most {MOST_COLUMNS} group-by variables and {MOST_COLUMNS} aggregates"
    return ""


def _aggregate_reason(aggregate: Aggregate, setting: Setting, threshold: int) -> str:
    if aggregate.udaf is not None and (reason := _udaf_reason(aggregate.udaf, setting, threshold)):
        return reason
    native = aggregate.native
    picked = aggregate.argument if native is not None and native.picks else None
    order = unkeepable(picked) if picked is not None else ""
    reasons = [unsafe(e, threshold) for e in (aggregate.argument, *aggregate.more) if e is not None]
    return next((reason for reason in reasons if reason), order)


def _udaf_reason(udaf: AggregateFunction, setting: Setting, threshold: int) -> str:
    if not (udaf.sub and udaf.sup):
        return "it has no sub-aggregate: its value needs all rows of a group in one place"
    sub, sup = _halves(udaf, setting)
    if sub is None or sup is None or not sub.lfta or sub.cost >= threshold:
        return "its sub-aggregate is not LFTA-safe"
    if sub.returns is Type.STRING and sub.make is None:
        return "its sub-aggregate is a string, and the group table stores only numbers"
    return "" if udaf.taken <= 1 else "a sub-aggregate takes one argument"


def _halves(udaf: AggregateFunction, setting: Setting) -> tuple[AggregateFunction | None, AggregateFunction | None]:
    """Returns the sub-aggregate with the aggregate's arguments, and the superaggregate over its result."""
    sub = _named(udaf.sub, udaf.parameters[: udaf.taken], setting)
    return sub, _named(udaf.sup, (sub.returns, *udaf.parameters[udaf.taken :]), setting) if sub else None


def _named(name: str, parameters: tuple[Type, ...], setting: Setting) -> AggregateFunction | None:
    overloads = setting.catalog.aggregates_named(name)
    return next((overload for overload in overloads if overload.parameters == parameters), None)


@dataclass
class Merging:
    """Both halves of some aggregates.

    Attributes:
        partials: partial aggregates, columns of the LFTA.
        merged: superaggregates over the partial aggregates.
        finish: name of an aggregate -> its value as an expression over the superaggregates.
    """

    partials: list[Partial] = field(default_factory=list)
    merged: list[Aggregate] = field(default_factory=list)
    finish: dict[str, Expr] = field(default_factory=dict)

    @staticmethod
    def of(aggregates: Sequence[Aggregate], setting: Setting) -> Merging:
        """Returns both halves of some aggregates."""
        merging = Merging()
        for aggregate in aggregates:
            merging.add(aggregate, setting)
        return merging

    def add(self, aggregate: Aggregate, setting: Setting) -> None:
        """Splits one aggregate; an aggregate such as avg becomes an expression over two superaggregates."""
        if aggregate.udaf is not None:
            self._declared(aggregate, aggregate.udaf, setting)
            return
        native, argument = aggregate.native, aggregate.argument
        assert native is not None, aggregate.function
        if native.parts is None:
            self._merge(aggregate, native, aggregate.name, aggregate.type)
            return
        assert argument is not None, aggregate.function
        left, right = native.parts.left, native.parts.right
        types = type_of(left, argument.type), type_of(right, argument.type)
        # A sum leaves 64 bits in the merge only: the group table lets a group go before that.
        total = self._merge(aggregate, NATIVE[left], f"{aggregate.name}_{left}", types[0], aggregate.type)
        number = self._merge(aggregate, NATIVE[right], f"{aggregate.name}_{right}", types[1])
        self.finish[aggregate.name] = Binary(aggregate.type, native.parts.operator, total, number)

    def _merge(self, aggregate: Aggregate, native: Native, name: str, part: Type, whole: Type | None = None) -> Column:
        """Adds a partial aggregate and its superaggregate of the same name; returns the superaggregate's column.

        Args:
            aggregate: the aggregate of the query.
            native: the partial aggregate.
            name: the name of both.
            part: the type of the partial aggregate.
            whole: the type of the superaggregate; None for that of the partial aggregate.
        """
        self.partials.append(Partial(name, native.name, aggregate.argument, part))
        value = Column(whole or part, name)
        merged = Aggregate(name, native.superaggregate, Column(part, name), value.type, place=aggregate.place)
        self.merged.append(merged)
        return value

    def _declared(self, aggregate: Aggregate, udaf: AggregateFunction, setting: Setting) -> None:
        sub, sup = _halves(udaf, setting)
        assert sub is not None and sup is not None
        below = sub if sub.make is not None else None
        part = Partial(aggregate.name, sub.name, aggregate.argument, sub.returns, below, aggregate.place)
        self.partials.append(part)
        column = Column(sub.returns, aggregate.name)
        # The constants after the arguments of ITERATE belong to OUTPUT, and the superaggregate runs OUTPUT.
        extra = aggregate.more[max(udaf.taken, 1) - 1 :]
        above = sup if sup.native is None else None
        merged = replace(aggregate, function=sup.name, argument=column, type=sup.returns, more=extra, udaf=above)
        self.merged.append(merged)

    def over(self, expr: Expr) -> Expr:
        """Returns an expression over aggregates as an expression over the superaggregates."""
        return rewrite(expr, lambda e: self.finish.get(e.name, e) if isinstance(e, Column) else e)


def partial_leaf(
    node: Aggregation,
    source: Source,
    keys: tuple[Item, ...],
    key_fields: tuple[Field, ...],
    merging: Merging,
    setting: Setting,
) -> LftaInput:
    """Returns the aggregation LFTA of a query as a leaf of the high level.

    Args:
        node: the aggregation; the LFTA applies its predicate.
        source: the packets below the aggregation.
        keys: group-by variables of the LFTA, over packets.
        key_fields: output columns of the keys.
        merging: both halves of the aggregates.
        setting: slots, thresholds and catalog of the query set.
    """
    fields = key_fields + tuple(Field(p.name, p.type) for p in merging.partials)
    name, slots = lfta_name(node.query, source, setting), setting.size(node.query)
    lfta = make_lfta(source, name, node.predicate, keys, tuple(merging.partials), slots, fields, aggregates=True)
    return LftaInput(node.query, fields, lfta)


def aggregated(
    node: Group, source: Source, keys: tuple[Item, ...], key_fields: tuple[Field, ...], setting: Setting
) -> Group:
    """Returns an aggregation of superaggregates over a partial aggregation in an LFTA.

    Args:
        node: the aggregation over packets.
        source: the packets.
        keys: group-by variables of the LFTA, over packets.
        key_fields: output columns of the keys.
        setting: slots, thresholds and catalog of the query set.
    """
    merging = Merging.of(node.aggregates, setting)
    return replace(
        node,
        input=partial_leaf(node, source, keys, key_fields, merging, setting),
        predicate=None,
        keys=tuple(Item(f.name, Column(f.type, f.name)) for f in key_fields),
        aggregates=tuple(merging.merged),
        having=merging.over(node.having) if node.having else None,
        items=tuple(Item(item.name, merging.over(item.expr)) for item in node.items),
    )


def selected(node: A, source: Source, setting: Setting) -> A:
    """Returns the whole aggregation at the high level, over a selection LFTA."""
    selection = Selection.of(source, node.query, setting)
    keys = tuple(Item(key.name, selection.over(key.expr, key.name)) for key in node.keys)
    aggregates = tuple(over_selection(aggregate, selection) for aggregate in node.aggregates)
    low, high = selection.predicate(node.predicate)
    leaf = selection.leaf(node.query, lfta_name(node.query, source, setting), low)
    return replace(node, input=leaf, predicate=high, keys=keys, aggregates=aggregates)


def over_selection(aggregate: Aggregate, selection: Selection) -> Aggregate:
    """Returns an aggregate with its arguments over the columns of a selection LFTA."""
    return aggregate.over(selection.over)
