"""Binds FILL behind GROUP BY: groups of epochs without rows (SEMANTICS O10).

The aggregation gives its keys and aggregates, `operators.Fill` adds the groups that it lacks, and a selection above
asks HAVING of all of them and makes the items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from lowwater import limits
from lowwater.catalog import expr as ex
from lowwater.errors import QueryError, nearest
from lowwater.gsql import nodes as syntax
from lowwater.plan import operators as ops, properties
from lowwater.plan.bind.expressions import Scope
from lowwater.plan.text import Text, place_of, spot

Made = Callable[[Sequence[ops.Item], ex.Expr | None], ops.Aggregation]
"""Makes the aggregation with items and HAVING."""


def filled(fill: syntax.Fill, made: Made, results: Scope, having: ex.Expr | None, items: Sequence[ops.Item]) -> ops.Map:
    """Returns an aggregation with the groups of epochs without rows.
    Raises QueryError if a variable has no list of values, or UnsupportedError if its groups are not those of one epoch
    of the clock."""
    text, bare = results.text, made((), None)
    columns = [ops.Item(key.name, ex.Column(key.expr.type, key.name)) for key in bare.keys]
    columns += [ops.Item(each.name, ex.Column(each.type, each.name)) for each in bare.aggregates]
    group = made(columns, None)
    times = [field.temporal for field in group.key_fields if field.temporal]
    whole = isinstance(group, ops.Group) and not isinstance(group.input, ops.Expand)
    if not whole or any(isinstance(below, ops.Join) for below in _of_query(group)):
        hint = "name the joined rows, or each grouping, as a query, and write FILL into one that groups them"
        raise text.unsupported(fill.place, "Lowwater fills plain groups of one source", hint)
    if len(times) != 1 or times[0].origin or not times[0].increasing or properties.by_arrival(group):
        hint = "group by one epoch of the clock, such as time/60 AS tb"
        raise text.unsupported(fill.place, "Lowwater fills the epochs of one clock that increases", hint)
    sources = [below for below in ops.walk(group) if isinstance(below, ops.Source)]
    links = tuple(sorted({link for source in sources for link in source.links}))
    listed = _listed(fill, group, results)
    linked = next((key.name for key in group.keys if _is_link(group.input, key.expr)), "")
    keys = tuple(ops.Item(key.name, ex.Column(key.expr.type, key.name)) for key in group.keys)
    values = tuple(listed[key.name] for key in group.key_fields if not key.temporal)
    parts = keys, group.key_fields, links, values, group.aggregates, linked, spot(fill)
    node = ops.Fill(group.query, group.fields, group, *parts)
    return ops.Map(node.query, ops.make_fields(items, ops.temporals(node.fields)), node, having, tuple(items))


def _of_query(group: ops.Aggregation) -> list[ops.Node]:
    """The operators below in the same query."""
    found, stack = [], [group.input]
    while stack:
        node = stack.pop()
        if node.query == group.query:
            found.append(node)
            stack += node.inputs()
    return found


def _is_link(node: ops.Node, expr: ex.Expr) -> bool:
    """Whether an expression over the rows of an operator is the link of their packets, and no column of that name."""
    if expr != ex.Column(ex.Type.STRING, "interface"):
        return False
    if isinstance(node, ops.Map):
        return any(item.name == "interface" and _is_link(node.input, item.expr) for item in node.items)
    if isinstance(node, ops.Aggregation):
        shown = [item.expr for item in node.items if item.name == "interface"]
        return any(ex.Column(key.expr.type, key.name) in shown and _is_link(node.input, key.expr) for key in node.keys)
    return all(_is_link(below, expr) for below in node.inputs())


def _listed(fill: syntax.Fill, group: ops.Aggregation, results: Scope) -> dict[str, tuple[ex.Const, ...]]:
    """The values of each variable that is no epoch."""
    text, names = results.text, [field.name for field in group.key_fields if not field.temporal]
    listed: dict[str, tuple[ex.Const, ...]] = {}
    for each in fill.values:
        name = each.operand.name if isinstance(each, syntax.InList) and isinstance(each.operand, syntax.Name) else ""
        if not isinstance(each, syntax.InList) or each.negated or name not in names or name in listed:
            raise _no_list(each, names, text)
        bound = [results.bind(syntax.BinaryOp("=", each.operand, value, place_of(value))) for value in each.values]
        values = [part.right for part in bound if isinstance(part, ex.Binary) and isinstance(part.right, ex.Const)]
        if len(values) < len(each.values):
            raise text.error(place_of(each), "FILL takes constant values", f"write {name} IN (1, 2)")
        listed[name] = tuple(dict.fromkeys(values))
    if missing := [name for name in names if name not in listed]:
        hint = f"write FILL ({', '.join(f'{name} IN (...)' for name in missing)}), or leave {missing[0]} out"
        message = f"FILL does not know which values {missing[0]} may have: an epoch without rows tells none"
        raise text.error(fill.place, message, hint)
    if (groups := prod(map(len, listed.values()))) > limits.FILLED_GROUPS:
        hint = f"list values for at most {limits.FILLED_GROUPS:,} groups"
        raise text.error(fill.place, f"FILL would have {groups:,} groups in each epoch", hint)
    return listed


def _no_list(node: syntax.Expression, names: Sequence[str], text: Text) -> QueryError:
    if not names:
        hint = "leave the list out: FILL"
        return text.error(place_of(node), "FILL lists values of group-by variables, and there is only the epoch", hint)
    written = node.operand.name if isinstance(node, syntax.InList) and isinstance(node.operand, syntax.Name) else ""
    close = nearest(written, names) if written and written not in names else ""
    hint = close or f"write one list for each variable: FILL ({names[0]} IN (1, 2))"
    return text.error(place_of(node), "FILL takes a list of values for each variable that is no epoch", hint)
