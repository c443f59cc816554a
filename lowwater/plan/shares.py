"""How a plan is evaluated in pieces: fragments where two operators keep state, aggregation in two phases, and shares
of the keys (query-aware partitioning).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

import pyarrow as pa

from lowwater.catalog import expr as ex, functions, schemas
from lowwater.catalog.native import ADD
from lowwater.plan import operators as ops, properties, temporal

# Fragments of a plan. EXPLAIN shows the fragments, and `high.query_runs` runs them in order: each reads the rows of
# earlier ones. Most plans are evaluated by slices of time and need no split. The slices of an operator whose state
# outlives a slice are evaluated in order (docs/adr/0049).

_REASON = "one of the two carries state from slice to slice, so its slices run in order"


@dataclass(frozen=True)
class Fragment:
    """A plan whose rows another plan reads."""

    name: str  # the name by which a `Cut` reads its rows
    node: ops.Node
    reader: ops.Node
    why: str  # why the reader cannot stand in the same plan


def fragment_plan(node: ops.Node) -> tuple[list[Fragment], ops.Node]:
    """Splits a plan where an operator whose state outlives a slice meets another operator that keeps rows or groups.
    Returns the fragments in the order of their evaluation, and the remaining plan, with a `Cut` in place of each
    fragment."""
    # A plan by arrival is evaluated in one piece.
    if properties.by_arrival(node):
        return [], node
    splitter = _Splitter()
    for part in ops.walk(node):
        splitter.take(part)
    return splitter.fragments, splitter.rewritten[id(node)]


class _Splitter:
    """Splits a plan, inputs first. It visits shared operators once, and needs no recursion for long chains."""

    def __init__(self) -> None:
        self.fragments: list[Fragment] = []
        self.rewritten: dict[int, ops.Node] = {}  # identity of an operator -> the operator after the split
        self._leaves: dict[int, ops.Cut] = {}
        # Identity of an operator -> the nearest operators with state, itself or below it in the same fragment.
        self._nearest: dict[int, list[ops.Node]] = {}

    def take(self, node: ops.Node) -> None:
        """Splits an operator off its inputs where necessary. Its inputs were visited before."""
        inputs = [self._read(node, below) for below in node.inputs()]
        self.rewritten[id(node)] = ops.with_inputs(node, inputs)
        if node.facts.waits:
            self._nearest[id(node)] = [node]
            return
        below = [near for below in node.inputs() for near in self._nearest[id(below)]]
        self._nearest[id(node)] = list({id(near): near for near in below}.values())

    def _read(self, node: ops.Node, below: ops.Node) -> ops.Node:
        """Returns the input of an operator: the rewritten operator below it, or a Cut that reads a fragment."""
        nearest = self._nearest[id(below)]
        outlives = any(operator.facts.outlives for operator in (node, *nearest))
        if not (node.facts.waits and nearest and outlives):
            return self.rewritten[id(below)]
        if id(below) not in self._leaves:
            name = f"{below.query}-part{len(self.fragments) + 1}"
            self.fragments.append(Fragment(name, self.rewritten[id(below)], node, _REASON))
            self._leaves[id(below)] = ops.Cut(below.query, below.fields, name)
        return self._leaves[id(below)]


def by_slices(node: ops.Node) -> bool:
    """Whether any part of an interval can be evaluated by itself, from the records that it reads before that part."""
    return not (properties.by_arrival(node) or any(part.facts.outlives for part in ops.walk(node)))


def waits_for_promises(node: ops.Node) -> bool:
    """Whether a plan holds rows back until a promise."""
    return properties.by_arrival(node) or any(part.facts.waits for part in ops.walk(node))


# Aggregation in two phases. `plan.shares` makes them where no column of GROUP BY divides the rows, as between the two
# levels. They are no operators of a plan: only the high level meets them, in a stage of an evaluation.

ROWS = functions.PartialColumn("_rows", None, ADD)
"""The number of rows of a group. The suffix is the whole name: it belongs to no aggregate."""


def partial_columns(aggregate: ops.Aggregate) -> functions.Columns:
    """Returns a native aggregate in Arrow: its partial columns and its value."""
    native, argument = aggregate.native, aggregate.argument
    assert native is not None, aggregate.function
    return native.columns(None if argument is None else argument.type, aggregate.type)


@dataclass(frozen=True)
class SubGroup(ops.Group, facts=replace(ops.Group.facts, label="sub-aggregation")):
    """First phase: keys and partial aggregates of its rows, and no value yet. A group may have several rows."""

    def key(self, below: Sequence[ops.Key]) -> ops.Key:
        return None


@dataclass(frozen=True)
class SuperGroup(ops.Group, facts=replace(ops.Group.facts, label="aggregation of sub-aggregates")):
    """Second phase: merges the rows of a SubGroup; values, HAVING and items are those of the whole."""


def in_phases(node: ops.Group) -> tuple[SubGroup, SuperGroup]:
    """Divides an aggregation whose aggregates are all native. The second phase has yet the input of the first."""
    parts = {part.name: getattr(node, part.name) for part in fields(node)}
    return SubGroup(**parts | {"fields": (*node.key_fields, *_partial_fields(node))}), SuperGroup(**parts)


def _partial_fields(node: ops.Group) -> Iterator[ops.Field]:
    kinds = {arrow: kind for kind, arrow in reversed(schemas.STREAM_TYPES.items())}
    yield ops.Field(ROWS.suffix, ex.Type.INT)
    for aggregate in node.aggregates:
        empty = None if aggregate.argument is None else pa.array([], schemas.STREAM_TYPES[aggregate.argument.type])
        for column in partial_columns(aggregate).partials:
            kind = ex.Type.INT if column.of is None else kinds[column.of(empty).type]
            yield ops.Field(aggregate.name + column.suffix, kind)


def splits(node: ops.Node) -> bool:
    """Whether an operator can run in two phases."""
    return isinstance(node, ops.Group) and all(each.native is not None for each in node.aggregates)


# Shares of keys: query-aware partitioning (Johnson, Muthukrishnan, Shkapenyuk, Spatscheck, SIGMOD 2008). Rows with
# equal values of chosen columns are in one share, and no operator brings rows of two shares together. The columns are
# those that all grouping keys and join equalities above a leaf have in common. Where an operator has none, its plan is
# cut there: a stage below it, whose rows are exchanged, and one above. `high.query_runs` runs the stages,
# `replay.stages` lets the low level write its rows by share, and EXPLAIN shows both.

ShareKey = Mapping[str, ex.Expr]
"""Leaf -> an expression over its fields. Rows of two leaves that an operator brings together have equal values."""

_MOST_NODES = 30
"""Larger expressions divide no rows: each row would be computed twice."""
_EXACT = (ex.Binary, ex.Case, ex.Column, ex.Const, ex.OneOf, ex.Unary)
"""Expressions that every process computes alike, and fast: no functions of users."""


@dataclass(frozen=True)
class Stage:
    """A plan of which each share of the rows can be evaluated by itself."""

    name: str  # the name by which a Cut of a later stage reads its rows; empty for the last stage
    node: ops.Node  # the plan, over LFTAs and Cuts
    keys: tuple[ShareKey, ...]  # what divides its rows; all together, or any of them
    anywhere: bool  # whether no operator brings rows together, so that any rows may be a share
    why: str  # why it has these keys, or none


def stages_of(node: ops.Node, stored: Mapping[str, frozenset[str]] = MappingProxyType({})) -> list[Stage]:
    """Divides a plan into stages, in the order of their evaluation. The last one gives its rows. `stored`: LFTA ->
    texts of the keys by which its files are divided. Groups of other keys are made in two phases, so that only
    sub-aggregates are exchanged."""
    if properties.by_arrival(node):
        return [Stage("", node, (), False, f"{node.query} takes the records of all its links in order of arrival")]
    planner = _Planner(stored)
    for part in ops.walk(node):
        planner.take(part)
    return [*planner.stages, planner.stage(planner.found[id(node)], "")]


def all_stages(plan: ops.Node) -> list[Stage]:
    """Returns the stages of a query's plan, with those of its fragments."""
    parts, top = fragment_plan(plan)
    return [stage for node in (*(part.node for part in parts), top) for stage in stages_of(node)]


@dataclass(frozen=True)
class _Shared:
    """What holds of the rows of an operator."""

    node: ops.Node
    columns: Mapping[str, ShareKey]  # columns that are functions of a key -> that key; other columns divide no rows
    keys: tuple[ShareKey, ...] | None
    why: str = "no operator brings rows together"

    def key(self, expr: ex.Expr | None) -> ShareKey | None:
        """Returns an expression over the columns as a key; None if it is none."""
        names = ex.columns_of(expr)
        if expr is None or not names or not all(name in self.columns for name in names):
            return None
        if not all(isinstance(part, _EXACT) for part in ex.walk(expr)):
            return None
        key = {
            leaf: ops.with_columns(expr, {name: self.columns[name][leaf] for name in names})
            for leaf in self.columns[names[0]]
        }
        return key if all(over.size <= _MOST_NODES for over in key.values()) else None

    def through(
        self, node: ops.Node, items: Iterable[ops.Item], keys: tuple[ShareKey, ...] | None, why: str = ""
    ) -> _Shared:
        """What holds of the rows of an operator that computes items over these rows."""
        made = ((item.name, self.key(item.expr)) for item in items)
        columns = {name: key for name, key in made if key is not None}
        return _Shared(node, columns, keys, why or self.why)


@dataclass
class _Planner:
    """Visits operators, inputs first. It needs no recursion: chains of queries are long."""

    stored: Mapping[str, frozenset[str]]
    stages: list[Stage] = field(default_factory=list)
    found: dict[int, _Shared] = field(default_factory=dict)  # identity of an operator -> what holds of it

    def take(self, node: ops.Node) -> None:
        below = [self.found[id(each)] for each in node.inputs()]
        self.found[id(node)] = self._of(ops.with_inputs(node, [each.node for each in below]), below)

    def stage(self, shared: _Shared, name: str) -> Stage:
        return Stage(name, shared.node, shared.keys or (), shared.keys is None, shared.why)

    def _of(self, node: ops.Node, below: list[_Shared]) -> _Shared:
        if isinstance(node, ops.LftaInput | ops.Cut):
            return _leaf(node)
        if isinstance(node, ops.Group):
            return self._group(node, *below)
        if isinstance(node, ops.Top):
            return self._top(node, *below)
        if isinstance(node, ops.Join):
            return self._join(node, below)
        if isinstance(node, ops.FilterJoin):
            sides = _sides(node, below)
            keys = _ties(node.keys, sides)
            return _met(node, sides, node.keys, keys, node.items, (False, True), "keys")
        if isinstance(node, ops.Union):
            return _union(node, below)
        if isinstance(node, ops.Running | ops.Sampling):
            return _with_state(node, below[0])
        if isinstance(node, ops.Over):
            return _over(node, below[0])
        if isinstance(node, ops.Fill):
            whole = node.over((below[0] if below[0].keys == () else self._cut(below[0])).node)
            return _Shared(whole, {}, (), f"FILL of {node.query} has to see all groups of an epoch")
        return _one_input(node, below[0])

    def _group(self, node: ops.Group, below: _Shared) -> _Shared:
        if below.keys == ():
            # The rows below are made in one place, or by slices of time; the groups of them need not be.
            below = self._cut(below)
            node = node.over(below.node)
        items = [item for item, of in zip(node.keys, node.key_fields, strict=True) if of.temporal is None]
        keyed = [(item, key) for item in items if (key := below.key(item.expr)) is not None]
        keys = tuple(key for _, key in keyed)
        if keys and (self._agree(keys) or not splits(node)):
            named = below.through(node, node.keys, ())
            return named.through(node, node.items, keys, f"GROUP BY of {node.query}")
        if not splits(node):
            return _Shared(node, {}, (), f"an aggregate of {node.query} takes all rows of an epoch in order")
        first, second = in_phases(node)
        lower = self._cut(_Shared(first, {}, below.keys, below.why))
        why = f"GROUP BY of {node.query}, over its sub-aggregates" if items else f"{node.query} has one group an epoch"
        whole = second.over(lower.node)
        groups = _Shared(whole, {item.name: lower.columns[item.name] for item in node.keys}, ())
        keys = tuple(lower.columns[item.name] for item in items)
        return groups.through(whole, node.items, keys, why)

    def _top(self, node: ops.Top, below: _Shared) -> _Shared:
        items = [item for item, of in zip(node.keys, node.key_fields, strict=True) if of.temporal is None]
        keys = tuple(key for item in items if (key := below.key(item.expr)) is not None)
        if keys and below.keys != ():
            return below.through(node, node.keys, ()).through(node, node.items, keys, f"PER of {node.query}")
        why = f"{node.query} has the first rows of all of an epoch"
        if node.order_dependent and _keeps_order(node.input, node.query):
            return _Shared(node.over(self._gathered(node.input, below)), {}, (), why)
        if below.keys == ():
            return _Shared(node, {}, (), why)
        # The first rows of all are among the first of each share, with whatever their order reads.
        whole = tuple(ops.Item(of.name, ex.Column(of.type, of.name)) for of in node.input.fields)
        lower = self._cut(_Shared(replace(node, fields=node.input.fields, items=whole), {}, below.keys, below.why))
        return _Shared(node.over(lower.node), {}, (), f"{why}, of which each share gives its own")

    def _gathered(self, node: ops.Node, below: _Shared) -> ops.Node:
        """Returns an input whose order is that of packets, or of the rows of another operator, below the columns of
        these: the rows of shares are exchanged where the order is of columns."""
        passing: list[ops.Node] = []
        query, found = node.query, node
        while found.query == query and found.facts.passes and len(found.inputs()) == 1:
            passing.append(found)
            (found,) = found.inputs()
        if not below.keys or found.facts.passes or isinstance(found, ops.LftaInput):
            return node
        found = self._cut(replace(below, node=found)).node
        for each in reversed(passing):
            found = each.over(found)
        return found

    def _agree(self, keys: tuple[ShareKey, ...]) -> bool:
        """Whether the files of all leaves are divided by some of these keys."""
        return all(
            self.stored[leaf] <= {*texts([key[leaf] for key in keys])} for leaf in keys[0] if leaf in self.stored
        )

    def _join(self, node: ops.Join, below: list[_Shared]) -> _Shared:
        ties, sides = node.equalities, _sides(node, below)
        if not (keys := _ties(ties, sides)):
            ordered = [node.order_dependent and _keeps_order(each.node, node.query) for each in below]
            if any(of_packets and each.keys is not None for of_packets, each in zip(ordered, below, strict=True)):
                whole = node.over(*(self._gathered(each.node, each) for each in below))
                return _Shared(whole, {}, (), f"the join of {node.query} takes the rows of a side in order")
            # Rows of the sides are exchanged by the equalities, or at least each side is evaluated by its own keys. A
            # side whose rows have the order of packets is read by its shares: exchanged rows have columns only.
            parts = [
                each if of_packets else self._cut(each) if ties or each.keys else each
                for of_packets, each in zip(ordered, below, strict=True)
            ]
            node = node.over(*(part.node for part in parts))
            sides = _sides(node, parts)
            keys = _ties(ties, sides)
        missing = node.kind.keeps_right, node.kind.keeps_left
        return _met(node, sides, ties, keys, node.items, missing, "equalities")

    def _cut(self, shared: _Shared) -> _Shared:
        node = shared.node
        if isinstance(node, ops.Cut):
            return shared
        name = f"{node.query}-stage{len(self.stages) + 1}"
        self.stages.append(self.stage(shared, name))
        return _leaf(ops.Cut(node.query, node.fields, name))


def _keeps_order(node: ops.Node, query: str) -> bool:
    """Whether the rows of an operator have the order of packets, or of rows below, which no column of it has (O1)."""
    return node.query == query and (node.facts.passes or (isinstance(node, ops.LftaInput) and not node.lfta.aggregates))


def _with_state(node: ops.Running | ops.Sampling, below: _Shared) -> _Shared:
    """What holds of the rows of an operator that keeps its groups, or its states, from epoch to epoch: the shares of
    its keys have states of their own, as long as all of them see the same epochs pass."""
    clause = "SUPERGROUP" if isinstance(node, ops.Sampling) else "GROUP BY"
    keys = tuple(key for _, key in _state_keys(node, below))
    if keys and _same_epochs(node):
        why = f"{clause} of {node.query}, each share with a state of its own"
        return below.through(node, node.keys, ()).through(node, node.items, keys, why)
    why = "its epochs follow from several columns or instants" if keys else f"no column of {clause} divides them"
    return _Shared(node, {}, (), f"{node.label} of {node.query} takes its rows in order, with one state: {why}")


def _over(node: ops.Over, below: _Shared) -> _Shared:
    """What holds of rows with functions of those before them: the shares of PARTITION BY have states of their own."""
    keys = tuple(key for _, key in _state_keys(node, below))
    if not keys:
        why = f"OVER of {node.query} takes its rows in order: no column of PARTITION BY divides them"
        return _Shared(node, {}, (), why)
    columns = {name: key for name, key in below.columns.items() if name not in {each.name for each in node.functions}}
    return _Shared(node, columns, keys, f"PARTITION BY of {node.query}, each share with a state of its own")


def _state_keys(node: ops.Running | ops.Sampling | ops.Over, below: _Shared) -> list[tuple[ops.Item, ShareKey]]:
    """Returns the keys that rows which meet in a state have in common, and that divide the rows below."""
    if isinstance(node, ops.Over):
        progress = ops.temporals(node.input.fields)
        columns = [ops.Item(column.name, column) for column in node.partition if column.name not in progress]
        return [(item, key) for item in columns if (key := below.key(item.expr)) is not None]
    common = node.supergroup if isinstance(node, ops.Sampling) else [item.name for item in node.keys]
    items = [item for item, of in zip(node.keys, node.key_fields, strict=True) if of.temporal is None]
    return [(item, key) for item in items if item.name in common and (key := below.key(item.expr)) is not None]


def _same_epochs(node: ops.Aggregation) -> bool:
    """Whether an epoch follows from an instant, so that those without rows are the same in every share."""
    timed = [(item, of.temporal) for item, of in zip(node.keys, node.key_fields, strict=True) if of.temporal]
    packets = isinstance(node.input, ops.LftaInput) and not node.input.lfta.aggregates
    alone = packets or len(ex.columns_of(*(item.expr for item, _ in timed))) == 1
    return alone and all(len(time.components) == 1 and time.chains == time.components for _, time in timed)


def state_columns(stage: Stage) -> dict[str, tuple[ex.Column, ...]]:
    """Query of an operator with a state -> the columns of its group keys with the values of the keys of a stage."""
    planner, found = _Planner({}), {}
    for node in ops.walk(stage.node):
        planner.take(node)
        if isinstance(node, ops.Running | ops.Sampling | ops.Over):
            named = _state_keys(node, planner.found[id(node.input)])
            found[node.query] = tuple(
                next(ex.Column(item.expr.type, item.name) for item, key in named if key.items() <= whole.items())
                for whole in stage.keys
            )
    return found


def _leaf(node: ops.LftaInput | ops.Cut) -> _Shared:
    name = ops.leaf_name(node)
    fields = node.lfta.stored if isinstance(node, ops.LftaInput) else node.fields
    return _Shared(node, {f.name: {name: ex.Column(f.type, f.name)} for f in fields}, None)


def _one_input(node: ops.Node, below: _Shared) -> _Shared:
    if isinstance(node, ops.Map):
        return below.through(node, node.items, below.keys)
    if isinstance(node, ops.WatchJoin):
        ours = _aliased(below, node.alias)
        listed = {name: key for expr, name in node.keys if (key := ours.key(expr)) is not None}
        return _Shared(node, {**ours.columns, **listed}, below.keys, below.why).through(node, node.items, below.keys)
    if isinstance(node, ops.Expand):
        columns = {name: key for name, key in below.columns.items() if name not in node.keys}
    elif isinstance(node, ops.Bucket) and not node.rows:
        columns = {name: key for name, key in below.columns.items() if name != node.name}
    elif node.hands_on and not isinstance(node, ops.Bucket):
        columns = {}
    else:
        return _Shared(node, {}, (), f"{node.label} of {node.query} counts all rows, one after another")
    return _Shared(node, columns, below.keys, below.why)


def _union(node: ops.Union, branches: Sequence[_Shared]) -> _Shared:
    columns: dict[str, ShareKey] = {}
    for at, of in enumerate(node.fields):
        key = _together(branch.columns.get(branch.node.fields[at].name) for branch in branches)
        if key is not None:
            columns[of.name] = key
    divided = [branch.keys for branch in branches if branch.keys is not None]
    if not divided:
        return _Shared(node, columns, None)
    pairs = [_together(keys) for keys in zip(*divided, strict=False)]
    why = next((branch.why for branch in branches if branch.keys == ()), "")
    why = why or " and ".join(dict.fromkeys(branch.why for branch in branches if branch.keys))
    return _Shared(node, columns, tuple(key for key in pairs if key is not None), why)


def _together(keys: Iterable[ShareKey | None]) -> ShareKey | None:
    """Returns one key of several leaves; None if a leaf has two expressions, or a key is missing."""
    whole: dict[str, ex.Expr] = {}
    for key in keys:
        if key is None or any(whole.setdefault(leaf, expr) != expr for leaf, expr in key.items()):
            return None
    return whole


def _sides(node: ops.TwoInputs, below: Sequence[_Shared]) -> list[_Shared]:
    return [_aliased(each, alias) for each, (alias, _) in zip(below, node.sides, strict=True)]


def _aliased(shared: _Shared, alias: str) -> _Shared:
    columns = {f"{alias}.{name}": key for name, key in shared.columns.items()}
    return replace(shared, columns=columns)


Ties = Sequence[tuple[ex.Expr, ex.Expr]]


def _ties(ties: Ties, sides: Sequence[_Shared]) -> tuple[ShareKey, ...]:
    pairs = [
        _together([side.key(expr) for side, expr in zip(sides, tie, strict=True)])
        for tie in ties
        if tie[0].type == tie[1].type
    ]
    return tuple(pair for pair in pairs if pair is not None)


def _met(
    node: ops.Join | ops.FilterJoin,
    sides: Sequence[_Shared],
    ties: Ties,
    keys: tuple[ShareKey, ...],
    items: Iterable[ops.Item],
    missing: tuple[bool, bool],
    what: str,
) -> _Shared:
    """What holds of the rows of a join."""
    why = f"{what} of the join in {node.query}"
    if not keys:
        none = "its sides have no equality that divides both" if ties else "its sides meet by time alone"
        return _Shared(node, {}, (), f"the join of {node.query} is divided by time only: {none}")
    made = ((item.name, _of_pairs(item.expr, sides, ties, missing)) for item in items)
    return _Shared(node, {name: key for name, key in made if key is not None}, keys, why)


def _of_pairs(expr: ex.Expr, sides: Sequence[_Shared], ties: Ties, missing: tuple[bool, bool]) -> ShareKey | None:
    """Returns an expression over joined rows as a key of both sides, by the equalities of the join (V1)."""
    ties = [tie for tie in ties if tie[0].type == tie[1].type]
    forms = {form: tie for tie in ties for form in ops.either(*tie)}
    # A side that is missing has no value, so its columns are a key only where the other side's value stands for them.
    absent = {name for side, gone in zip(sides, missing, strict=True) if gone for name in side.columns}
    apart = ops.replaced(expr, {form: ex.Const(form.type, None) for form in forms})
    if absent.intersection(ex.columns_of(apart)):
        return None
    mine = [
        ops.replaced(expr, {form: tie[at] for form, tie in forms.items()} | {tie[1 - at]: tie[at] for tie in ties})
        for at in (0, 1)
    ]
    return _together([side.key(over) for side, over in zip(sides, mine, strict=True)])


def texts(keys: Iterable[ex.Expr]) -> tuple[str, ...]:
    """Returns keys as the index of a file names them."""
    return tuple(f"{ex.show(key)} {key.type.value}" for key in keys)


def low_shares(plans: Iterable[ops.Node]) -> dict[str, tuple[tuple[ex.Expr, ...], ...]]:
    """Chooses by what the low level divides the rows of each LFTA: by what most plans of a query set agree on. Returns
    LFTA -> expressions over its fields, and then more of them, for rows that the first ones divide unevenly. An LFTA
    that no plan divides is missing, and one whose rows stay in order."""
    chosen: list[list[ShareKey]] = []
    plans = list(plans)
    asked = [stage for plan in plans for stage in all_stages(plan) if stage.keys]
    stateful = [stage for stage in asked if not by_slices(stage.node)]
    within = {node.query for stage in stateful for node in ops.walk(stage.node) if node.facts.outlives}
    placed = {name for plan in plans for name in properties.placed_leaves(plan, within)}
    ordered = _ordered_within(stateful)
    # Plans of several LFTAs first: of one LFTA alone there is always a choice that the others can take.
    for stage in sorted(asked, key=lambda stage: -len(ops.leaves(stage.node))):
        lftas = {ops.leaf_name(leaf) for leaf in ops.leaves(stage.node) if isinstance(leaf, ops.LftaInput)} - placed
        keys: list[ShareKey] = [{leaf: key[leaf] for leaf in key if leaf in lftas} for key in stage.keys]
        keys = [key for key in keys if key]
        meeting = [group for group in chosen if keys and {*group[0]} & {*keys[0]}]
        for group in meeting:
            keys = [whole for mine in group for key in keys if (whole := _together([mine, key])) is not None]
        if keys:  # else the plans disagree, and the rows of this one are exchanged
            chosen = [group for group in chosen if group not in meeting] + [keys]
    common = {leaf: tuple(key[leaf] for key in group) for group in chosen for leaf in group[0]}
    for leaf in {*common} & {*ordered}:
        if not {*common[leaf]} <= ordered[leaf]:
            del common[leaf]
    finest = dict(common)
    for stage in asked:
        for leaf in {*common} & {*stage.keys[0]}:
            asking = tuple(key[leaf] for key in stage.keys)
            if {*asking} <= ordered.get(leaf, {*asking}):
                finest[leaf] = max(finest[leaf], asking, key=len)
    return {leaf: tuple(dict.fromkeys((keys, finest[leaf]))) for leaf, keys in common.items()}


def undivided_spans(plans: Sequence[ops.Node]) -> dict[str, int]:
    """Returns, for each LFTA, the time (ns) whose rows one part of its readers has at least, and which only shares
    divide: the granularity of its promises; all of time for a plan with a state, whose parts have whole intervals."""
    spans = {name: grain for name, (grain, _) in properties.needed_granularity(*plans).items()}
    stateful = [stage for plan in plans for stage in all_stages(plan) if stage.keys and not by_slices(stage.node)]
    whole = {ops.leaf_name(leaf) for stage in stateful for leaf in ops.leaves(stage.node)}
    return {name: temporal.END_OF_TIME if name in whole else span for name, span in spans.items()}


def _ordered_within(stages: Iterable[Stage]) -> dict[str, set[ex.Expr]]:
    """LFTA whose rows plans with a state take in order -> the keys of all of them. Files that are divided by some of
    these keys have rows with equal keys in order."""
    found: dict[str, set[ex.Expr]] = {}
    for stage in stages:
        for leaf in properties.placed_leaves(stage.node):
            keys = {key[leaf] for key in stage.keys if leaf in key}
            found[leaf] = found.get(leaf, keys) & keys
    return found


def shown(key: ShareKey) -> str:
    """Returns a key as text: the expression that its leaves have in common, else each with its leaf."""
    texts = {leaf: ex.show(expr) for leaf, expr in key.items()}
    if len({*texts.values()}) == 1:
        return next(iter(texts.values()))
    return " = ".join(f"{text} of {leaf}" for leaf, text in texts.items())
