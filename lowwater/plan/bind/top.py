"""Binds ORDER BY with LIMIT, and QUALIFY: the first rows of each epoch (SEMANTICS O7).

Called by `queries` around the binding of a SELECT: what ORDER BY and PER read becomes hidden select items, so it means
what it means as a select item; then the operator that keeps the first rows drops these columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowwater.catalog.expr import Column
from lowwater.errors import QueryError
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_expression
from lowwater.plan import operators as ops
from lowwater.plan.text import Text

HIDDEN = "_order"
"""Name of a computed column that only ORDER BY or PER reads."""


def with_hidden(statement: syntax.Select, top: syntax.Top, text: Text) -> syntax.Select:
    """Returns the statement without ORDER BY, with a hidden select item for each of its expressions, then for those of
    PER. An alias, and a number, stand for the item that has it."""
    asked = [*(order.expression for order in top.order), *top.per]
    hidden = tuple(
        syntax.SelectItem(_meant(expression, statement.items, text), "", syntax.begin(expression), hidden=True)
        for expression in asked
    )
    return replace(statement, items=(*statement.items, *hidden), top=None)


def _meant(written: syntax.Expression, items: Sequence[syntax.SelectItem], text: Text) -> syntax.Expression:
    if isinstance(written, syntax.Name) and not written.qualifier:
        return next((item.expression for item in items if item.alias == written.name), written)
    if not (isinstance(written, syntax.Literal) and written.kind == "int"):
        return written
    at = int(written.value or 0)
    if any(isinstance(item.expression, syntax.Star) for item in items):
        raise text.error(written.place, f"{at} may be any column of `*`", "write its name")
    if not 1 <= at <= len(items):
        hint = f"write a number from 1 to {len(items)}, or the expression"
        raise text.error(written.place, f"no select item has the number {at}", hint)
    return items[at - 1].expression


def first_rows(top: syntax.Top, below: ops.Node, text: Text) -> ops.Top:
    """Returns the first rows of each epoch of a bound statement whose last items are the hidden ones.
    Raises QueryError if PER has no column that makes progress, so that no row could ever be among the first."""
    items: list[ops.Item] = list(below.items)  # type: ignore[attr-defined]
    hidden = len(top.order) + len(top.per)
    shown = items[: len(items) - hidden]
    columns = _Columns(below, shown)
    order = [columns.of(item) for item in items[len(shown) : len(shown) + len(top.order)]]
    per = [columns.of(item) for item in items[len(shown) + len(top.order) :]]
    if not top.per:
        per = [columns.of(ops.Item(time.name, Column(time.type, time.name)), time) for time in _epochs(below)]
    node = columns.node()
    times_below = ops.temporals(node.fields)
    if not any(column.name in times_below for column in per):
        raise _endless(top, node, len(shown), text)
    if node.groupwise() and any(times_below[column.name].origin for column in per if column.name in times_below):
        hint = "take windows of the rows of all partitions, or of time"
        raise text.unsupported(top.place, "LIMIT over windows of rows with PARTITION BY", hint)
    keys = tuple(ops.Item(column.name, column) for column in dict.fromkeys(per))
    key_fields = ops.make_fields(keys, times_below)
    kept = tuple(ops.Item(item.name, Column(item.expr.type, item.name)) for item in shown)
    fields = ops.make_fields(kept, ops.temporals(key_fields))
    parts = tuple(
        ops.Order(column, part.descending, part.nulls_first) for column, part in zip(order, top.order, strict=True)
    )
    return ops.Top(below.query, fields, node, keys, key_fields, parts, top.count, top.ties, kept)


def _epochs(node: ops.Node) -> list[ops.Field]:
    """The times of the groups of a statement, as its projection reads them; none of a statement without groups."""
    if isinstance(node, ops.Map) and isinstance(node.input, ops.Over):
        over = node.input.input
        if isinstance(over, ops.ByEpoch) or (isinstance(over, ops.Map) and isinstance(over.input, ops.Fill)):
            return [field for field in over.fields if field.temporal]
        return []
    grouped = node.input if isinstance(node, ops.Map) and isinstance(node.input, ops.Fill) else node
    return [field for field in grouped.key_fields if field.temporal] if isinstance(grouped, ops.ByEpoch) else []


class _Columns:
    """The columns of a statement: the select items, and behind them what only ORDER BY and PER read."""

    def __init__(self, below: ops.Node, shown: Sequence[ops.Item]) -> None:
        self._below, self._items = below, list(shown)
        self._fields = list(below.fields[: len(shown)])
        self._given = dict(zip(below.items, below.fields, strict=True))  # type: ignore[attr-defined]
        self._names = ops.UniqueNames({item.name.lower() for item in shown})

    def of(self, item: ops.Item, field: ops.Field | None = None) -> Column:
        """Returns the column with the value of an item, a shown one if there is one. `field`: of an item that is not
        one of the statement."""
        same = next((other for other in self._items if other.expr == item.expr), None)
        if same is None:
            own = item.expr.name.rpartition(".")[2] if isinstance(item.expr, Column) else HIDDEN
            same = ops.Item(self._names.unique(own), item.expr)
            self._items.append(same)
            self._fields.append(replace(field or self._given[item], name=same.name))
        return Column(same.expr.type, same.name)

    def node(self) -> ops.Node:
        return replace(self._below, items=tuple(self._items), fields=tuple(self._fields))  # type: ignore[call-arg]


def _endless(top: syntax.Top, node: ops.Node, shown: int, text: Text) -> QueryError:
    written = ", ".join(map(print_expression, top.per))
    times = [field.name for field in node.fields[:shown] if field.temporal]
    epoch = times[0] if times and times[0] not in ("time", "timestamp") else "time/60"
    if top.per:
        message = f"no column of PER makes progress, so the rows of {written} never end"
        return text.error(top.place, message, f"add the epoch to PER or PARTITION BY: {epoch}, {written}")
    hint = f"write of what: LIMIT {top.count} PER {epoch}"
    return text.error(top.place, "LIMIT keeps the first rows of each epoch, and a query without groups has none", hint)
