"""Rows of a stream looked up in a watch list."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.plan.fields import Field, Item, Place, exprs_of, written
from lowwater.plan.operators.base import Facts, Physical, Unary
from lowwater.plan.operators.map import CARRIED_THROUGH


@dataclass(frozen=True)
class WatchJoin(Unary, facts=Facts("WATCHLIST_JOIN", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)):
    """Rows of a stream with the row of a watch list that has their key; an input of the run by its hash (S1).

    Attributes:
        watchlist: name of the list; `file` is where it is, `refresh` how often it was read anew, in seconds.
        columns: the columns of the list, as `alias.name`.
        keys: (over the input row, column of the list).
        residual: over both.
        items: over both.
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
        """Keys, residual and items."""
        return written(*(mine for mine, _ in self.keys), self.residual, *exprs_of(self.items))

    def physical(self) -> Physical:
        """A table in memory."""
        return Physical("lookup", "the list is a table in the memory of each task: nothing waits")
