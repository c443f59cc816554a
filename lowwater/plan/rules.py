"""The rules of the planner in their order: conditions go down, columns nobody reads go, and the plan is cut into LFTAs
and the high plan.

The second list says what runs at the low level, and splits an operator directly above the packets into two levels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lowwater import errors, limits
from lowwater.catalog import builtin, expr as ex, functions, protocols, records
from lowwater.catalog.native import NATIVE, type_of
from lowwater.catalog.schemas import RECORD_NUMBER
from lowwater.plan import operators as ops, properties

# What may run at the low level, and the setting of the planner.

# Facts of a query set that the rules read besides its plans.


@dataclass(frozen=True)
class Setting:
    """Facts of a query set. Queries without an entry in `slots` or `thresholds` have the default."""

    slots: Mapping[str, int] = field(default_factory=dict)  # query -> size of its group tables, a power of two
    # query -> least cost at which a function is not LFTA-safe
    thresholds: Mapping[str, int] = field(default_factory=dict)
    selections: frozenset[str] = frozenset()  # queries that ask for a selection LFTA (`select_lfta`)
    # unpublished queries with one reader; the rules may rewrite them together with their reader
    private: frozenset[str] = frozenset()
    # queries with more than one packet source; the names of their LFTAs contain the range variable
    several: frozenset[str] = frozenset()
    catalog: functions.Catalog = builtin.CATALOG
    ordered: frozenset[str] = frozenset()  # queries whose rows depend on the order of their input
    arrival: bool = False  # whether the planned query is evaluated by arrival, so that its LFTAs read by arrival
    # queries that make progress with records only, and so are always evaluated by arrival. In another query, an LFTA by
    # arrival has a suffix in its name.
    arriving: frozenset[str] = frozenset()

    def threshold(self, query: str) -> int:
        """Returns the least cost at which a function is not LFTA-safe."""
        return self.thresholds.get(query, functions.Cost.HIGH)

    def size(self, query: str) -> int:
        return self.slots.get(query, limits.GROUP_TABLE_SLOTS)

    def one(self, above: ops.Node, below: ops.Node) -> bool:
        """Returns whether rules may rewrite two operators together: of one query, or the lower one of a private query.

        The canonical order of a query's rows is by all of its columns (O1). An order-dependent reader keeps its input.
        """
        if above.query == below.query:
            return True
        return below.query in self.private and above.query not in self.ordered


Rule = Callable[[ops.Node, Setting], ops.Node | None]


# LFTAs. A selection LFTA applies the LFTA-safe conjuncts. It stores the largest LFTA-safe parts of every other
# expression as columns (004, Splitting Selection and Aggregation Queries).

ONE = ops.Item("_value", ex.Const(ex.Type.INT, 1))
BY_ARRIVAL = "_by_arrival"
"""Suffix of an LFTA by arrival, for a query that also has an LFTA by timestamp."""


@dataclass
class Selection:
    """Builder of a selection LFTA."""

    source: ops.Source
    threshold: int  # the least cost at which a function is not LFTA-safe
    arrival: bool = False  # whether the LFTA reads by arrival
    items: list[ops.Item] = field(default_factory=list)
    _columns: dict[ex.Expr, str] = field(default_factory=dict)
    _names: ops.UniqueNames = field(default_factory=ops.UniqueNames)

    @property
    def whole(self) -> bool:
        """Whether the LFTA passes every record on: by arrival, with an attribute that is no function of the clock."""
        return self.arrival and bool(self._own_progress)

    @property
    def _own_progress(self) -> list[ops.Field]:
        """The columns of the source that make progress by themselves."""
        return [f for f in self.source.fields if f.temporal and f.temporal.origin not in ("", ops.ROWS)]

    @staticmethod
    def of(source: ops.Source, query: str, setting: Setting) -> Selection:
        return Selection(source, setting.threshold(query), setting.arrival)

    def column(self, expr: ex.Expr, name: str) -> ex.Column:
        """Returns the LFTA's column of a safe expression; adds the column if the LFTA has none. `name`: name of a new
        column; empty for the name of the expression."""
        if expr not in self._columns:
            name = name or (self._own_name(expr.name) if isinstance(expr, ex.Column) else "_value")
            self._columns[expr] = self._names.unique(name)
            self.items.append(ops.Item(self._columns[expr], expr))
        return ex.Column(expr.type, self._columns[expr], ex.place_of(expr))

    def _own_name(self, name: str) -> str:
        # Queries name the payload by its protocol.
        data = f"{self.source.protocol}_data"
        return data if protocols.ALIASES.get(data) == name else records.field_name(name)

    def over(self, expr: ex.Expr, name: str = "") -> ex.Expr:
        """Returns the expression over the LFTA's columns; the LFTA computes the largest safe parts."""
        if isinstance(expr, ex.Const | ex.Param):
            return expr
        if properties.safe(expr, self.threshold):
            return self.column(expr, name)
        return ex.with_children(expr, [self.over(child) for child in expr.children()])

    def predicate(self, predicate: ex.Expr | None) -> tuple[ex.Expr | None, ex.Expr | None]:
        """Returns the conjuncts of the low level, and the other conjuncts over the LFTA's columns."""
        parts = ex.conjuncts(predicate)
        if self.whole:
            return None, ex.conjunction([self.over(part) for part in parts])
        low = ex.conjunction([part for part in parts if properties.safe(part, self.threshold)])
        high = ex.conjunction([self.over(part) for part in parts if not properties.safe(part, self.threshold)])
        return low, high

    def leaf(self, query: str, name: str, low: ex.Expr | None, numbered: bool = False) -> ops.LftaInput:
        """Returns the finished LFTA as a leaf of the high level. `low`: predicate over packets; None for all of them.
        `numbered`: whether the query counts every record, so that every record becomes a row."""
        if self.arrival:
            return self._by_arrival(query, name, low, numbered)
        if not self.items:
            # A stream needs at least one column: the clock if the source has a clock, else a constant.
            clock = next((f for f in self.source.fields if f.temporal), None)
            self.items.append(ops.Item(clock.name, ex.Column(clock.type, clock.name)) if clock else ONE)
        fields = ops.make_fields(self.items, ops.temporals(self.source.fields))
        lfta = make_lfta(self.source, name, low, tuple(self.items), (), 1, fields)
        return ops.LftaInput(query, fields, lfta)

    def _by_arrival(self, query: str, name: str, low: ex.Expr | None, numbered: bool) -> ops.LftaInput:
        """Returns an LFTA by arrival: its columns make no progress, but its timestamps tell the order of rows."""
        for attribute in self._own_progress:
            self.column(ex.Column(attribute.type, attribute.name), "")
        self.items.append(ops.Item(properties.TIMESTAMP, ex.Column(ex.Type.INT, "timestamp")))
        fields = ops.make_fields(self.items, ops.temporals(self.source.fields))
        plain = tuple(replace(field, temporal=None) for field in fields)
        lfta = make_lfta(self.source, name, low, tuple(self.items), (), 1, plain)
        counted = tuple(field for field in self.source.fields if field.name == properties.ROW)
        return ops.LftaInput(query, fields + counted, replace(lfta, arrival=True, numbered=numbered, whole=self.whole))


def make_lfta(
    source: ops.Source,
    name: str,
    predicate: ex.Expr | None,
    keys: tuple[ops.Item, ...],
    partials: tuple[ops.Partial, ...],
    slots: int,
    fields: tuple[ops.Field, ...],
    aggregates: bool = False,
) -> ops.Lfta:
    """Returns an LFTA over the packets of a source. `source`: the packets; the LFTA takes its links, protocol and
    sampling."""
    return ops.Lfta(
        name=name,
        links=source.links,
        protocol=source.protocol,
        member=source.member,
        predicate=predicate,
        keys=keys,
        partials=partials,
        aggregates=aggregates,
        slots=slots,
        fields=fields,
        kind=source.kind,
        group=source.group,
        sample=source.sample,
        layout=source.layout,
        place=source.place,
    )


def lfta_name(query: str, source: ops.Source, setting: Setting) -> str:
    """Returns the name of an LFTA: its query, then the source if the query has several sources."""
    base = f"{query}.{BY_ARRIVAL}" if setting.arrival and query not in setting.arriving else query
    if query not in setting.several:
        return base
    return f"{base}.{source.alias}" if source.query == query else f"{base}.{source.query}.{source.alias}"


# Rules that split operators directly above the packets into two levels.

# Split of aggregations. A split needs group-by variables, arguments and conjuncts that are LFTA-safe. Every aggregate
# must merge exactly for any partition of its input (SEMANTICS O2). Otherwise only a selection LFTA runs at the low
# level (004; 000, section 3.1).

A = TypeVar("A", bound=ops.Aggregation)


def split_group(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns both levels of a Group over packets; None for other plans."""
    if not isinstance(node, ops.Group) or not isinstance(node.input, ops.Source):
        return None
    source = node.input
    if not whole_reason(node, node.keys, setting):
        return aggregated(node, source, node.keys, node.key_fields, setting)
    return selected(node, source, setting)


def whole_reason(node: ops.Aggregation, keys: Sequence[ops.Item], setting: Setting) -> str:
    """Returns why the high level computes a whole aggregation; empty if the rules can split the aggregation."""
    threshold = setting.threshold(node.query)
    if setting.arrival:
        return "the query is evaluated by arrival, record by record"
    if node.query in setting.selections:
        return "DEFINE asks for select_lfta"
    for part in ex.conjuncts(node.predicate):
        if reason := properties.unsafe(part, threshold):
            return reason
    for key in keys:
        if reason := properties.unsafe(key.expr, threshold):
            return f"group-by variable {key.name}: {reason}"
    for aggregate in node.aggregates:
        if reason := _aggregate_reason(aggregate, setting, threshold):
            return f"{aggregate.function}: {reason}"
    if max(len(keys), len(Merging.of(node.aggregates, setting).partials)) > ops.MOST_COLUMNS:
        return f"a group table has at most {ops.MOST_COLUMNS} group-by variables and {ops.MOST_COLUMNS} aggregates"
    return ""


def _aggregate_reason(aggregate: ops.Aggregate, setting: Setting, threshold: int) -> str:
    if aggregate.udaf is not None and (reason := _udaf_reason(aggregate.udaf, setting, threshold)):
        return reason
    native = aggregate.native
    picked = aggregate.argument if native is not None and native.picks else None
    order = properties.unkeepable(picked) if picked is not None else ""
    reasons = [properties.unsafe(expr, threshold) for expr in aggregate.arguments]
    return next((reason for reason in reasons if reason), order)


def _udaf_reason(udaf: functions.AggregateFunction, setting: Setting, threshold: int) -> str:
    if not (udaf.sub and udaf.sup):
        return "it has no sub-aggregate: its value needs all rows of a group in one place"
    sub, sup = _halves(udaf, setting)
    if sub is None or sup is None or not sub.lfta or sub.cost >= threshold:
        return "its sub-aggregate is not LFTA-safe"
    if sub.returns is ex.Type.STRING and sub.make is None:
        return "its sub-aggregate is a string, and the group table stores only numbers"
    return "" if udaf.taken <= 1 else "a sub-aggregate takes one argument"


def _halves(
    udaf: functions.AggregateFunction, setting: Setting
) -> tuple[functions.AggregateFunction | None, functions.AggregateFunction | None]:
    """Returns the sub-aggregate with the aggregate's arguments, and the superaggregate over its result."""
    sub = _named(udaf.sub, udaf.parameters[: udaf.taken], setting)
    return sub, _named(udaf.sup, (sub.returns, *udaf.parameters[udaf.taken :]), setting) if sub else None


def _named(name: str, parameters: tuple[ex.Type, ...], setting: Setting) -> functions.AggregateFunction | None:
    overloads = setting.catalog.aggregates_named(name)
    return next((overload for overload in overloads if overload.parameters == parameters), None)


@dataclass
class Merging:
    """Both halves of some aggregates."""

    partials: list[ops.Partial] = field(default_factory=list)
    merged: list[ops.Aggregate] = field(default_factory=list)  # superaggregates over the partial aggregates
    # name of an aggregate -> its value as an expression over the superaggregates
    finish: dict[str, ex.Expr] = field(default_factory=dict)

    @staticmethod
    def of(aggregates: Sequence[ops.Aggregate], setting: Setting) -> Merging:
        merging = Merging()
        for aggregate in aggregates:
            merging.add(aggregate, setting)
        return merging

    def add(self, aggregate: ops.Aggregate, setting: Setting) -> None:
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
        self.finish[aggregate.name] = ex.Binary(aggregate.type, native.parts.operator, total, number)

    def _merge(
        self, aggregate: ops.Aggregate, native: functions.Native, name: str, part: ex.Type, whole: ex.Type | None = None
    ) -> ex.Column:
        """Adds a partial aggregate and its superaggregate of the same name; returns the superaggregate's column.
        `whole`: the type of the superaggregate; None for that of the partial aggregate."""
        self.partials.append(ops.Partial(name, native.name, aggregate.argument, part))
        value = ex.Column(whole or part, name)
        merged = ops.Aggregate(name, native.superaggregate, ex.Column(part, name), value.type, place=aggregate.place)
        self.merged.append(merged)
        return value

    def _declared(self, aggregate: ops.Aggregate, udaf: functions.AggregateFunction, setting: Setting) -> None:
        sub, sup = _halves(udaf, setting)
        assert sub is not None and sup is not None
        below = sub if sub.make is not None else None
        part = ops.Partial(aggregate.name, sub.name, aggregate.argument, sub.returns, below, aggregate.place)
        self.partials.append(part)
        column = ex.Column(sub.returns, aggregate.name)
        # The constants after the arguments of ITERATE belong to OUTPUT, and the superaggregate runs OUTPUT.
        extra = aggregate.more[max(udaf.taken, 1) - 1 :]
        above = sup if sup.native is None else None
        merged = replace(aggregate, function=sup.name, argument=column, type=sup.returns, more=extra, udaf=above)
        self.merged.append(merged)

    def over(self, expr: ex.Expr) -> ex.Expr:
        """Returns an expression over aggregates as an expression over the superaggregates."""
        return ops.with_columns(expr, self.finish)

    def above(self, node: ops.Group, **changed: Any) -> ops.Group:
        """Returns an aggregation over the partial one, with other changed fields."""
        return replace(
            node,
            aggregates=tuple(self.merged),
            having=self.over(node.having) if node.having else None,
            items=tuple(ops.Item(item.name, self.over(item.expr)) for item in node.items),
            **changed,
        )


def partial_leaf(
    node: ops.Aggregation,
    source: ops.Source,
    keys: tuple[ops.Item, ...],
    key_fields: tuple[ops.Field, ...],
    merging: Merging,
    setting: Setting,
) -> ops.LftaInput:
    """Returns the aggregation LFTA of a query as a leaf of the high level."""
    fields = key_fields + tuple(ops.Field(p.name, p.type) for p in merging.partials)
    name, slots = lfta_name(node.query, source, setting), setting.size(node.query)
    lfta = make_lfta(source, name, node.predicate, keys, tuple(merging.partials), slots, fields, aggregates=True)
    return ops.LftaInput(node.query, fields, lfta)


def aggregated(
    node: ops.Group, source: ops.Source, keys: tuple[ops.Item, ...], key_fields: tuple[ops.Field, ...], setting: Setting
) -> ops.Group:
    """Returns an aggregation of superaggregates over a partial aggregation in an LFTA."""
    merging = Merging.of(node.aggregates, setting)
    return merging.above(
        node,
        input=partial_leaf(node, source, keys, key_fields, merging, setting),
        predicate=None,
        keys=tuple(ops.Item(f.name, ex.Column(f.type, f.name)) for f in key_fields),
    )


def selected(node: A, source: ops.Source, setting: Setting) -> A:
    """Returns the whole aggregation at the high level, over a selection LFTA."""
    selection = Selection.of(source, node.query, setting)
    keys = tuple(ops.Item(key.name, selection.over(key.expr, key.name)) for key in node.keys)
    aggregates = tuple(aggregate.over(selection.over) for aggregate in node.aggregates)
    low, high = selection.predicate(node.predicate)
    leaf = selection.leaf(node.query, lfta_name(node.query, source, setting), low)
    return replace(node, input=leaf, predicate=high, keys=keys, aggregates=aggregates)


# Split of sliding windows: panes below, windows of panes above. The length of a pane is the greatest common divisor of
# RANGE and SLIDE, so every window consists of whole panes. The low level holds one group per pane instead of one per
# window (paned windows; 002, section 4.1).

PANE = "_pane"
"""Column with the number of a pane."""


def split_sliding_window(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns both levels of a Group over a Bucket over packets; None for other plans."""
    if not isinstance(node, ops.Group) or not isinstance(node.input, ops.Bucket):
        return None
    bucket = node.input
    source = bucket.input
    if not isinstance(source, ops.Source):
        return None
    keys = tuple(key for key in node.keys if key.expr != ex.Column(ex.Type.INT, bucket.name))
    if bucket.rows or whole_reason(node, [*keys, ops.Item(PANE, bucket.attribute)], setting):
        return tagged(node, bucket, source, setting)
    length = bucket.pane
    panes = ops.Item(PANE, ex.Binary(ex.Type.INT, "/", bucket.attribute, ex.Const(ex.Type.INT, length)))
    low = (*keys, panes)
    fields = ops.make_fields(low, ops.temporals(source.fields))
    merging = Merging.of(node.aggregates, setting)
    leaf = partial_leaf(node, source, low, fields, merging, setting)
    start = ex.Binary(ex.Type.INT, "*", ex.Column(ex.Type.INT, PANE), ex.Const(ex.Type.INT, length))
    number = next(field for field in bucket.fields if field.name == bucket.name)
    panes_tagged = replace(bucket, fields=(*leaf.fields, number), input=leaf, attribute=start)
    return merging.above(
        node,
        input=panes_tagged,
        predicate=None,
        keys=tuple(ops.Item(key.name, ex.Column(key.expr.type, key.name)) for key in node.keys),
    )


def split_bucket(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns a Bucket over a selection LFTA, if no other rule splits the Bucket with its reader."""
    if not isinstance(node, ops.Bucket) or not isinstance(node.input, ops.Source):
        return None
    source = node.input
    selection = Selection.of(source, node.query, setting)
    stored = [field for field in source.fields if field.name != properties.ROW]
    items = {field.name: selection.column(ex.Column(field.type, field.name), field.name) for field in stored}
    leaf = selection.leaf(node.query, lfta_name(node.query, source, setting), None, node.every_record)
    if node.rows:
        # The projection drops the additional columns of the LFTA.
        same = tuple(ops.Item(f.name, items.get(f.name, ex.Column(f.type, f.name))) for f in source.fields)
        return replace(node, input=ops.Map(node.query, source.fields, leaf, None, same))
    number = next(field for field in node.fields if field.name == node.name)
    return replace(node, input=leaf, fields=(*leaf.fields, number))


def tagged(node: A, bucket: ops.Bucket, source: ops.Source, setting: Setting) -> A:
    """Returns an aggregation over windows, with a selection LFTA below: the high level assigns the windows."""
    selection = Selection.of(source, node.query, setting)
    # The high level numbers rows, because only there the rows of all links meet.
    attribute = bucket.attribute if bucket.rows else selection.over(bucket.attribute, "_attribute")
    partition = tuple(ops.Item(item.name, selection.over(item.expr, item.name)) for item in bucket.partition)
    wid = ex.Column(ex.Type.INT, bucket.name)
    keys = tuple(
        key if key.expr == wid else ops.Item(key.name, selection.over(key.expr, key.name)) for key in node.keys
    )
    aggregates = tuple(aggregate.over(selection.over) for aggregate in node.aggregates)
    counted = bucket.counted
    if bucket.rows and not bucket.every_record:
        # Rows are counted before WHERE, so the high level needs all of those that are counted.
        high = selection.over(node.predicate) if node.predicate else None
        low, rest = selection.predicate(counted)
        counted = (rest or ex.Const(ex.Type.BOOL, True)) if counted is not None else None
    else:
        low, high = selection.predicate(node.predicate)
    leaf = selection.leaf(node.query, lfta_name(node.query, source, setting), low, bucket.every_record)
    number = ops.Field(bucket.name, ex.Type.INT, next(f.temporal for f in bucket.fields if f.name == bucket.name))
    fields = (*leaf.fields, number)
    tagged = replace(bucket, fields=fields, input=leaf, attribute=attribute, partition=partition, counted=counted)
    return replace(node, input=tagged, predicate=high, keys=keys, aggregates=aggregates)


# Split of grouping sets. The high level expands partial groups instead of packets into the grouping sets. The sub-and
# superaggregates of a data cube make this possible (004).


def split_grouping_sets(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns both levels of a Group over an Expand over a projection of packets; None for other plans."""
    if not isinstance(node, ops.Group) or not isinstance(node.input, ops.Expand):
        return None
    expand = node.input
    below = expand.input
    if not isinstance(below, ops.Map) or not isinstance(below.input, ops.Source):
        return None
    source = below.input
    arguments = {item.name: item.expr for item in below.items}
    names = [key.name for key in node.keys if key.name != expand.name]
    keys = tuple(item for item in below.items if item.name in names)
    aggregates = [aggregate.over(lambda expr: ops.with_columns(expr, arguments)) for aggregate in node.aggregates]
    whole = replace(node, input=source, predicate=below.predicate, aggregates=tuple(aggregates))
    if whole_reason(whole, keys, setting):
        return None
    merging = Merging.of(aggregates, setting)
    key_fields = tuple(field for field in below.fields if field.name in names)
    leaf = partial_leaf(whole, source, keys, key_fields, merging, setting)
    return merging.above(node, input=_expanded(expand, leaf))


def _expanded(expand: ops.Expand, leaf: ops.LftaInput) -> ops.Expand:
    fields = tuple(replace(f, temporal=None) if f.name in expand.keys else f for f in leaf.fields)
    number = next(field for field in expand.fields if field.name == expand.name)
    return replace(expand, input=leaf, fields=(*fields, number))


# Rows one by one: CLOSING_WHEN and the sampling operator. Both operators process rows in canonical order (SEMANTICS O1,
# O4), with all rows of a group in one place. So a group table with ejection cannot do a part of their work.


def split_row_by_row(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns both levels of a Running or Sampling over packets; None for other plans."""
    if isinstance(node, ops.Running):
        below = node.input
        if isinstance(below, ops.Bucket) and isinstance(below.input, ops.Source):
            return tagged(node, below, below.input, setting)
        return selected(node, below, setting) if isinstance(below, ops.Source) else None
    if isinstance(node, ops.Sampling) and isinstance(node.input, ops.Source):
        return _sampled(node, node.input, setting)
    return None


def _sampled(node: ops.Sampling, source: ops.Source, setting: Setting) -> ops.Sampling:
    """Returns the sampling operator over a selection LFTA. Conjuncts after the first stateful one stay high: the state
    sees the rows that pass the conjuncts before it."""
    parts = ex.conjuncts(node.predicate)
    threshold = setting.threshold(node.query)
    first = next((at for at, part in enumerate(parts) if not properties.safe(part, threshold)), len(parts))
    selection = Selection.of(source, node.query, setting)
    supers = tuple(aggregate.over(selection.over) for aggregate in node.supers)
    keys = tuple(ops.Item(key.name, selection.over(key.expr, key.name)) for key in node.keys)
    aggregates = tuple(aggregate.over(selection.over) for aggregate in node.aggregates)
    low, high = selection.predicate(ex.conjunction(parts[:first]))
    late = ex.conjunction([*ex.conjuncts(high), *(selection.over(part) for part in parts[first:])])
    leaf = selection.leaf(node.query, lfta_name(node.query, source, setting), low)
    return replace(node, input=leaf, predicate=late, keys=keys, aggregates=aggregates, supers=supers)


# Split of selections. A selection that is LFTA-safe as a whole becomes an LFTA, without an operator above it.


def split_selection(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns the LFTA of a Map over packets, below the rest of the Map; None for other plans."""
    if not isinstance(node, ops.Map) or not isinstance(node.input, ops.Source):
        return None
    source = node.input
    name, threshold = lfta_name(node.query, source, setting), setting.threshold(node.query)
    parts = [*ex.conjuncts(node.predicate), *(item.expr for item in node.items)]
    if not setting.arrival and all(properties.safe(part, threshold) for part in parts):
        lfta = make_lfta(source, name, node.predicate, node.items, (), 1, node.fields)
        return ops.LftaInput(node.query, node.fields, lfta)
    selection = Selection.of(source, node.query, setting)
    items = tuple(ops.Item(item.name, selection.over(item.expr, item.name)) for item in node.items)
    low, high = selection.predicate(node.predicate)
    return replace(node, input=selection.leaf(node.query, name, low), predicate=high, items=items)


# Rules that rewrite the bound plan of a query: conditions go down, columns that nobody reads go.

# Predicate pushdown. A predicate commutes with a union and a projection. It commutes with an aggregation if it reads
# group-by variables only: all rows of a group have the same variables. Promises stay valid, because they do not concern
# the dropped rows.


def push_filter(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns the operator with its predicate one step further down; None if the rule does not apply."""
    if not isinstance(node, ops.Map | ops.Group | ops.Running) or not setting.one(node, node.input):
        return None
    below = node.input
    if isinstance(below, ops.Union) and node.predicate is not None:
        return replace(node, input=_filtered(below, node.predicate, setting), predicate=None)
    if not isinstance(node, ops.Map):
        return None
    if isinstance(below, ops.Map):
        return _through_map(node, below)
    if node.predicate is None:
        return None
    return _into_group(node, below, node.predicate) if isinstance(below, ops.Group) else None


def _through_map(node: ops.Map, below: ops.Map) -> ops.Map | None:
    """Merges two selections and projections; the names and fields are those of the upper one. None if too large."""
    parts = ex.conjuncts(below.predicate)
    if node.predicate is not None:
        parts += ex.conjuncts(ops.substitute(node.predicate, below.items))
    items = tuple(ops.Item(item.name, ops.substitute(item.expr, below.items)) for item in node.items)
    merged = replace(node, input=below.input, predicate=ex.conjunction(parts), items=items)
    return None if ops.outgrows(merged.exprs(), [*node.exprs(), *below.exprs()]) else merged


def _filtered(below: ops.Union, predicate: ex.Expr, setting: Setting) -> ops.Union:
    """Returns the union of the rows for which a predicate over its columns is true."""
    branches = []
    for branch in below.branches:
        keep = tuple(ops.Item(f.name, ex.Column(f.type, f.name)) for f in branch.fields)
        names = [ops.Item(f.name, ex.Column(b.type, b.name)) for f, b in zip(below.fields, branch.fields, strict=True)]
        # A branch with other readers stays unchanged; the filter belongs to the query of the union.
        query = branch.query if setting.one(below, branch) else below.query
        filtered = ops.Map(query, branch.fields, branch, ops.substitute(predicate, names), keep)
        # A selection of the same query adds the predicate to its own predicate.
        same_query = isinstance(branch, ops.Map) and branch.query == below.query
        merged = _through_map(filtered, branch) if same_query and isinstance(branch, ops.Map) else None
        branches.append(filtered if merged is None else merged)
    return replace(below, branches=tuple(branches))


def _into_group(node: ops.Map, below: ops.Group, predicate: ex.Expr) -> ops.Map | None:
    keys = {key.name: key.expr for key in below.keys}
    outputs = {item.name: item.expr for item in below.items}
    down: list[tuple[ex.Expr, ex.Expr]] = []
    stay: list[tuple[ex.Expr, ex.Expr]] = []
    for part in ex.conjuncts(predicate):
        over_groups = ops.with_columns(part, outputs)
        too_large = ops.outgrows([over_groups], [part, *outputs.values()])
        moves = set(ex.columns_of(over_groups)) <= keys.keys() and not too_large
        (down if moves else stay).append((part, over_groups))
    if not down:
        return None
    having = ex.conjunction([*ex.conjuncts(below.having), *(over for _, over in down)])
    return replace(node, input=replace(below, having=having), predicate=ex.conjunction([part for part, _ in stay]))


# HAVING to WHERE, for conjuncts that read group-by variables only. All rows of a group have the same variables, so such
# a conjunct drops a whole group or no row of the group. The number of a sliding window stays in HAVING: the low level
# has panes, and a packet belongs to several windows.


def having_to_where(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns a group with such conjuncts in its predicate; None if HAVING has none."""
    if not isinstance(node, ops.Group) or node.having is None:
        return None
    tagged = {node.input.name} if isinstance(node.input, ops.Bucket) else set()
    keys = {key.name: key.expr for key in node.keys if tagged.isdisjoint(ex.columns_of(key.expr))}
    parts = ex.conjuncts(node.having)
    moved, before = [], []
    for part in parts:
        if ex.columns_of(part) and set(ex.columns_of(part)) <= keys.keys():
            over_rows = ops.with_columns(part, keys)
            if not ops.outgrows([over_rows], [part, *keys.values()]):
                moved.append(part)
                before.append(over_rows)
    if not moved:
        return None
    return replace(
        node,
        predicate=ex.conjunction([*ex.conjuncts(node.predicate), *before]),
        having=ex.conjunction([part for part in parts if part not in moved]),
    )


# Selection into aggregation. The aggregation computes the selection's expressions in its keys, arguments and predicate.
# A failing expression is NULL in either operator (SEMANTICS V2).


def absorb_selection(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns the aggregation over the input of its selection; None if the rule does not apply."""
    below = node.input if isinstance(node, ops.Aggregation) else None
    if not isinstance(node, ops.Aggregation) or not isinstance(below, ops.Map) or not setting.one(node, below):
        return None
    items = below.items

    def over(expr: ex.Expr) -> ex.Expr:
        return ops.substitute(expr, items)

    parts = ex.conjuncts(below.predicate)
    parts += ex.conjuncts(over(node.predicate)) if node.predicate is not None else []
    merged = replace(
        node,
        input=below.input,
        predicate=ex.conjunction(parts),
        keys=tuple(ops.Item(key.name, over(key.expr)) for key in node.keys),
        aggregates=tuple(aggregate.over(over) for aggregate in node.aggregates),
    )
    if isinstance(merged, ops.Sampling):
        merged = replace(merged, supers=tuple(aggregate.over(over) for aggregate in merged.supers))
    return None if ops.outgrows(merged.exprs(), [*node.exprs(), *below.exprs()]) else merged


# Projection pushdown. The binder projects the inputs of other operators, but a MERGE of protocols has all their
# columns. A reader that depends on the order of rows needs every column: the canonical order of a query's rows sorts by
# all columns (O1).


def prune_columns(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns the selection or aggregation over a narrower union; None if the rule does not apply."""
    if not isinstance(node, ops.Map | ops.Aggregation) or not isinstance(node.input, ops.Union):
        return None
    union = node.input
    if not setting.one(node, union) or node.query in setting.ordered:
        return None
    used = set(_read(node))
    positions = [at for at, field in enumerate(union.fields) if field.name in used]
    # A branch with other readers keeps its columns.
    private = all(isinstance(branch, ops.Map) and setting.one(union, branch) for branch in union.branches)
    if len(positions) == len(union.fields) or not private:
        return None
    # A row in a stream needs at least one column.
    positions = positions or [next((at for at, field in enumerate(union.fields) if field.temporal), 0)]
    branches = tuple(_narrow(branch, positions) for branch in union.branches if isinstance(branch, ops.Map))
    fields = tuple(union.fields[at] for at in positions)
    return replace(node, input=replace(union, fields=fields, branches=branches))


def _narrow(branch: ops.Map, positions: list[int]) -> ops.Map:
    fields = tuple(branch.fields[at] for at in positions)
    return replace(branch, fields=fields, items=tuple(branch.items[at] for at in positions))


def _read(node: ops.Map | ops.Aggregation) -> list[str]:
    if isinstance(node, ops.Map):
        return ex.columns_of(node.predicate, *(item.expr for item in node.items))
    arguments = [expr for aggregate in node.aggregates for expr in aggregate.arguments]
    return ex.columns_of(node.predicate, *(key.expr for key in node.keys), *arguments)


LOGICAL: tuple[Rule, ...] = (push_filter, having_to_where, absorb_selection, prune_columns)

LEVELS: tuple[Rule, ...] = (
    split_sliding_window,
    split_grouping_sets,
    split_group,
    split_row_by_row,
    split_selection,
    split_bucket,
)


# The rewriter. An operator that reads packets directly becomes an LFTA (000, section 3.1; 004). Queries share the plans
# that they read, so the rewriter remembers its results.


@dataclass
class Rewriter:
    """Applies rules to an operator, then to its inputs, then to the operator again, until no rule applies."""

    rules: Sequence[Rule]
    setting: Setting
    _rewritten: dict[int, tuple[ops.Node, ops.Node]] = field(default_factory=dict)

    def rewrite(self, node: ops.Node) -> ops.Node:
        """Returns the rewritten plan; the same node always gives the same plan.
        Raises LawError if a rule changed the columns of an operator."""
        earlier = self._rewritten.get(id(node))
        if earlier is not None:
            return earlier[1]
        # Before the inputs change, because the rules split the levels where packets are read; and again afterwards.
        changed = self._apply(node)
        changed = ops.with_inputs(changed, [self.rewrite(below) for below in changed.inputs()])
        changed = self._apply(changed)
        self._rewritten[id(node)] = (node, changed)
        return changed

    def _apply(self, node: ops.Node) -> ops.Node:
        again = True
        while again:
            again = False
            for rule in self.rules:
                result = rule(node, self.setting)
                if result is not None:
                    if [(f.name, f.type) for f in result.fields] != [(f.name, f.type) for f in node.fields]:
                        raise errors.LawError(f"rule {rule.__name__} changes the columns of query {node.query}")
                    # An expression that a rule moved down may move further.
                    node = ops.with_inputs(result, [self.rewrite(below) for below in result.inputs()])
                    again = True
        return node


# Record numbers, for operators that depend on the order over several branches (SEMANTICS O1). The rows of one LFTA are
# in order. To order the rows of two LFTAs of a link, each LFTA adds the record number as its last column.

NUMBER_COLUMN = "_record"
"""Name of the column with the record number."""


def with_numbers(plans: Sequence[ops.Node]) -> list[ops.Node]:
    """Returns the plans of a query set, with record numbers in the LFTAs whose readers need them. Plans share LFTAs."""
    names = {name for plan in plans for node in ops.walk(plan) for name in unordered_lftas(node)}

    def numbered(node: ops.Node, setting: Setting) -> ops.Node | None:
        if not isinstance(node, ops.LftaInput) or node.lfta.placed or node.lfta.name not in names:
            return None
        return replace(node, lfta=_numbered(node.lfta))

    rewriter = Rewriter((numbered,), Setting())
    return [rewriter.rewrite(plan) if names else plan for plan in plans]


def unordered_lftas(node: ops.Node) -> set[str]:
    """Returns the LFTAs whose packets an order-dependent operator reads together with another LFTA of the same link."""
    if not node.order_dependent:
        return set()
    leaves = [leaf for below in node.inputs() for leaf in _packet_inputs(below, node.query)]
    times = Counter(link for leaf in leaves for link in leaf.lfta.links)
    return {leaf.lfta.name for leaf in leaves if any(times[link] > 1 for link in leaf.lfta.links)}


def _packet_inputs(node: ops.Node, query: str) -> list[ops.LftaInput]:
    """Returns the LFTAs whose rows reach an operator of a query as packets."""
    if isinstance(node, ops.LftaInput):
        return [] if node.lfta.aggregates or node.query != query else [node]
    passes = node.facts.passes and node.query == query
    return [leaf for below in node.inputs() for leaf in _packet_inputs(below, query)] if passes else []


def _numbered(lfta: ops.Lfta) -> ops.Lfta:
    item, field = ops.Item(NUMBER_COLUMN, ex.Column(ex.Type.INT, RECORD_NUMBER)), ops.Field(NUMBER_COLUMN, ex.Type.INT)
    return replace(lfta, keys=(*lfta.keys, item), fields=(*lfta.fields, field), placed=True)
