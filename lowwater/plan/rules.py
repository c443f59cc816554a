"""The rules of the planner in their order: conditions go down, columns nobody reads go, and the plan is cut into LFTAs
and the high plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lowwater.catalog.expr import Column, Expr, Type, columns_of, conjunction, conjuncts, rewrite
from lowwater.catalog.schemas import RECORD_NUMBER
from lowwater.errors import LawError
from lowwater.plan import operators as ops
from lowwater.plan.levels import (
    Rule,
    Setting,
    split_bucket,
    split_group,
    split_grouping_sets,
    split_row_by_row,
    split_selection,
    split_sliding_window,
)

# Rules that rewrite the bound plan of a query: conditions go down, columns that nobody reads go.

# Predicate pushdown: moves a selection below a union, another selection or an aggregation. A predicate commutes with
# a union and a projection. It commutes with an aggregation if it reads group-by variables only: all rows of a group
# have the same variables. Promises stay valid, because they do not concern the dropped rows.


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
    parts = conjuncts(below.predicate)
    if node.predicate is not None:
        parts += conjuncts(ops.substitute(node.predicate, below.items))
    items = tuple(ops.Item(item.name, ops.substitute(item.expr, below.items)) for item in node.items)
    merged = replace(node, input=below.input, predicate=conjunction(parts), items=items)
    return None if ops.outgrows(merged.exprs(), [*node.exprs(), *below.exprs()]) else merged


def _filtered(below: ops.Union, predicate: Expr, setting: Setting) -> ops.Union:
    """Returns the union of the rows for which a predicate over its columns is true."""
    branches = []
    for branch in below.branches:
        keep = tuple(ops.Item(f.name, Column(f.type, f.name)) for f in branch.fields)
        names = [ops.Item(f.name, Column(b.type, b.name)) for f, b in zip(below.fields, branch.fields, strict=True)]
        # A branch with other readers stays unchanged; the filter belongs to the query of the union.
        query = branch.query if setting.one(below, branch) else below.query
        filtered = ops.Map(query, branch.fields, branch, ops.substitute(predicate, names), keep)
        # A selection of the same query adds the predicate to its own predicate.
        same_query = isinstance(branch, ops.Map) and branch.query == below.query
        merged = _through_map(filtered, branch) if same_query and isinstance(branch, ops.Map) else None
        branches.append(filtered if merged is None else merged)
    return replace(below, branches=tuple(branches))


def _into_group(node: ops.Map, below: ops.Group, predicate: Expr) -> ops.Map | None:
    keys = {key.name: key.expr for key in below.keys}
    outputs = {item.name: item.expr for item in below.items}
    down: list[tuple[Expr, Expr]] = []
    stay: list[tuple[Expr, Expr]] = []
    for part in conjuncts(predicate):
        over_groups = rewrite(part, lambda e: outputs.get(e.name, e) if isinstance(e, Column) else e)
        moves = set(columns_of(over_groups)) <= keys.keys() and not ops.outgrows(
            [over_groups], [part, *outputs.values()]
        )
        (down if moves else stay).append((part, over_groups))
    if not down:
        return None
    having = conjunction([*conjuncts(below.having), *(over for _, over in down)])
    return replace(node, input=replace(below, having=having), predicate=conjunction([part for part, _ in stay]))


# Moves the conjuncts of HAVING that read group-by variables only into WHERE. All rows of a group have the same
# variables, so such a conjunct drops a whole group or no row of the group. The number of a sliding window stays in
# HAVING: the low level has panes, and a packet belongs to several windows.


def having_to_where(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns a group with such conjuncts in its predicate; None if HAVING has none."""
    if not isinstance(node, ops.Group) or node.having is None:
        return None
    tagged = {node.input.name} if isinstance(node.input, ops.Bucket) else set()
    keys = {key.name: key.expr for key in node.keys if tagged.isdisjoint(columns_of(key.expr))}
    parts = conjuncts(node.having)
    moved, before = [], []
    for part in parts:
        if columns_of(part) and set(columns_of(part)) <= keys.keys():
            over_rows = rewrite(part, lambda e: keys[e.name] if isinstance(e, Column) else e)
            if not ops.outgrows([over_rows], [part, *keys.values()]):
                moved.append(part)
                before.append(over_rows)
    if not moved:
        return None
    return replace(
        node,
        predicate=conjunction([*conjuncts(node.predicate), *before]),
        having=conjunction([part for part in parts if part not in moved]),
    )


# Merges an aggregation with the selection directly below it, so that the next rules can split it over packets. The
# aggregation computes the selection's expressions in its keys, arguments and predicate. A failing expression is NULL
# in either operator (SEMANTICS V2).


def absorb_selection(node: ops.Node, setting: Setting) -> ops.Node | None:
    """Returns the aggregation over the input of its selection; None if the rule does not apply."""
    if (
        not isinstance(node, ops.Aggregation)
        or not isinstance(node.input, ops.Map)
        or not setting.one(node, node.input)
    ):
        return None
    below = node.input

    def over(expr: Expr) -> Expr:
        return ops.substitute(expr, below.items)

    def moved(aggregate: ops.Aggregate) -> ops.Aggregate:
        argument = None if aggregate.argument is None else over(aggregate.argument)
        return replace(aggregate, argument=argument, more=tuple(over(expr) for expr in aggregate.more))

    parts = conjuncts(below.predicate)
    parts += conjuncts(over(node.predicate)) if node.predicate is not None else []
    merged = replace(
        node,
        input=below.input,
        predicate=conjunction(parts),
        keys=tuple(ops.Item(key.name, over(key.expr)) for key in node.keys),
        aggregates=tuple(moved(aggregate) for aggregate in node.aggregates),
    )
    if isinstance(merged, ops.Sampling) and isinstance(node, ops.Sampling):
        merged = replace(merged, supers=tuple(moved(super_aggregate) for super_aggregate in node.supers))
    return None if ops.outgrows(merged.exprs(), [*node.exprs(), *below.exprs()]) else merged


# Projection pushdown: drops the columns of a union that its only reader does not use. The binder projects the inputs
# of other operators, but a MERGE of protocols has all their columns. A reader that depends on the order of rows needs
# every column: the canonical order of a query's rows sorts by all columns (O1).


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
        return columns_of(node.predicate, *(item.expr for item in node.items))
    arguments = [expr for aggregate in node.aggregates for expr in (aggregate.argument, *aggregate.more)]
    return columns_of(node.predicate, *(key.expr for key in node.keys), *arguments)


LOGICAL: tuple[Rule, ...] = (push_filter, having_to_where, absorb_selection, prune_columns)

LEVELS: tuple[Rule, ...] = (
    split_sliding_window,
    split_grouping_sets,
    split_group,
    split_row_by_row,
    split_selection,
    split_bucket,
)


# Rewrites the logical plan of a query into the high plan and its LFTAs, by applying rules. Third stage of the
# pipeline. An operator that reads packets directly becomes an LFTA (000, section 3.1; 004). Queries share the plans
# that they read, so the rewriter remembers its results.


@dataclass
class Rewriter:
    """Applies rules to an operator, then to its inputs, then to the operator again, until no rule applies.

    Attributes:
        rules: the rules, in order.
        setting: the facts of the query set that the rules read.
    """

    rules: Sequence[Rule]
    setting: Setting
    _rewritten: dict[int, tuple[ops.Node, ops.Node]] = field(default_factory=dict)

    def rewrite(self, node: ops.Node) -> ops.Node:
        """Returns the rewritten plan; the same node always gives the same plan.

        Raises:
            LawError: a rule changed the columns of an operator.
        """
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
                        raise LawError(f"rule {rule.__name__} changes the columns of query {node.query}")
                    # An expression that a rule moved down may move further.
                    node = ops.with_inputs(result, [self.rewrite(below) for below in result.inputs()])
                    again = True
        return node


# Adds record numbers to LFTAs whose packets reach an order-dependent operator over several branches (SEMANTICS O1).
# After the rules. The rows of one LFTA are in order. To order the rows of two LFTAs of a link, each LFTA adds the
# record number as its last column.

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
    item, field = ops.Item(NUMBER_COLUMN, Column(Type.INT, RECORD_NUMBER)), ops.Field(NUMBER_COLUMN, Type.INT)
    return replace(lfta, keys=(*lfta.keys, item), fields=(*lfta.fields, field), placed=True)
