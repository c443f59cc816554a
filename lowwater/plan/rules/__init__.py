"""Rules of the planner, one per module, in the order of their application.

`LOGICAL` rewrites the bound plan of a query. `LEVELS` splits the operators directly above the packets into two levels.
A rule is a function (node, setting) -> the replacement of the node, or None if it does not apply. A rule looks only at
a node and the operators directly below it.
"""

from __future__ import annotations

from lowwater.plan.rules.levels import (
    split_bucket,
    split_group,
    split_grouping_sets,
    split_row_by_row,
    split_selection,
    split_sliding_window,
)
from lowwater.plan.rules.logical import absorb_selection, having_to_where, prune_columns, push_filter
from lowwater.plan.rules.low import Rule, Setting

LOGICAL: tuple[Rule, ...] = (push_filter, having_to_where, absorb_selection, prune_columns)

LEVELS: tuple[Rule, ...] = (
    split_sliding_window,
    split_grouping_sets,
    split_group,
    split_row_by_row,
    split_selection,
    split_bucket,
)

__all__ = ["LEVELS", "LOGICAL", "Rule", "Setting"]
