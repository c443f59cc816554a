"""Rules of the planner, one per module, in the order of their application.

`LOGICAL` rewrites the bound plan of a query. `LEVELS` splits the operators directly above the packets into two levels.
A rule is a function (node, setting) -> the replacement of the node, or None if it does not apply. A rule looks only at
a node and the operators directly below it.
"""

from __future__ import annotations

from lowwater.plan.rules.columns import prune_columns
from lowwater.plan.rules.cubes import split_grouping_sets
from lowwater.plan.rules.filters import push_filter
from lowwater.plan.rules.groups import split_group
from lowwater.plan.rules.having import having_to_where
from lowwater.plan.rules.projections import absorb_selection
from lowwater.plan.rules.rows import split_row_by_row
from lowwater.plan.rules.selections import split_selection
from lowwater.plan.rules.setting import Rule, Setting
from lowwater.plan.rules.windows import split_bucket, split_sliding_window

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
