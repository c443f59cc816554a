"""Lookup join of a stream with a watch list."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.plan.fields import Field, Item, Place, exprs_of, written
from lowwater.plan.operators.base import Facts, Physical, Unary
from lowwater.plan.operators.map import CARRIED_THROUGH


@dataclass(frozen=True)
class WatchJoin(Unary, facts=Facts("WATCHLIST_JOIN", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)):
    """Lookup join: pairs a row with the row of a watch list that has its key. The run records the list's hash (S1).

    Attributes:
        alias: range variable of the stream.
        watchlist: name of the list.
        watch_alias: range variable of the list.
        file: path of the list.
        refresh: period of the old engine's reloads, in seconds.
        columns: the columns of the list, as `alias.name`.
        keys: pairs (expression over the input row, column of the list).
        residual: condition over both rows; None for no condition.
        items: the output columns over both rows.
        place: line and column in the text of the query.
    """

    alias: str
    watchlist: str
    watch_alias: str
    file: str
    refresh: int
    columns: tuple[Field, ...]
    keys: tuple[tuple[Expr, str], ...]
    residual: Expr | None
    items: tuple[Item, ...]
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the keys, the residual and the items."""
        return written(*(expr for expr, _ in self.keys), self.residual, *exprs_of(self.items))

    def physical(self) -> Physical:
        """Returns a lookup in a table in memory."""
        return Physical("lookup", "each task holds the list in memory, so no row waits")
