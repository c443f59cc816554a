"""HAVING and the select items of an aggregation on Spark, over groups that are final.

Below the operators of the lowering that group (`lower`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.high.expressions import beforehand, lower
from lowwater.high.frames import Counts, keep, project
from lowwater.plan.nodes import Aggregation


def finish(node: Aggregation, found: DataFrame, counts: Counts) -> DataFrame:
    """HAVING and the select items over finished groups, which say how many `_rows` each has."""
    having = node.having
    if having is not None:
        found, having = beforehand(found, having, "_kept")
    kept = F.lit(True) if having is None else F.coalesce(lower(having), F.lit(False))
    totals = {"rows_in": F.sum("_rows"), "groups": F.count(F.lit(1)), "rows_out": F.count_if(kept)}
    return project(keep(counts.observe(found, "group", node, **totals), having), node.items)
