"""Joins with a watch list on Spark: the list is a table beside the stream, sent to every task.

One operator of the lowering (`lower`). Stateless: nothing waits.
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.catalog.streams import STREAM_TYPES
from lowwater.catalog.watchlists import read_watchlist
from lowwater.high.clock import ET
from lowwater.high.columns import is_row
from lowwater.high.expressions import lower, plain
from lowwater.high.frames import Counts, control, project
from lowwater.plan.nodes import WatchJoin


def lower_watch_join(node: WatchJoin, frame: DataFrame, session: SparkSession, counts: Counts) -> DataFrame:
    """Every row with every row of the list that has its keys and fits the rest; NULL equals NULL in keys (V1).

    Raises:
        ConfigError: the file of the list cannot be read, or a line of it is wrong.
    """
    named = (plain(f.name).alias(f"{node.alias}.{f.name}") for f in node.input.fields)
    frame = frame.select(*named, *control(frame))
    same = [lower(expr).eqNullSafe(plain(name)) for expr, name in node.keys]
    condition = reduce(lambda a, b: a & b, same)
    if node.residual is not None:
        condition = condition & F.when(is_row(F.col(ET)), lower(node.residual)).otherwise(F.lit(False))
    joined = frame.join(F.broadcast(session.createDataFrame(watch_table(node))), condition)
    return project(counts.observe(joined, "lookup", node, rows_out=F.count(F.lit(1))), node.items)


def watch_table(node: WatchJoin) -> pa.Table:
    """The rows of a watch list, with the columns of the operator.

    Raises:
        ConfigError: the file of the list cannot be read, or a line of it is wrong.
    """
    rows = read_watchlist(node.file, [(f.name.removeprefix(f"{node.watch_alias}."), f.type) for f in node.columns])
    columns = zip(*rows, strict=True) if rows else ([] for _ in node.columns)
    arrays = [pa.array(list(values), STREAM_TYPES[f.type]) for values, f in zip(columns, node.columns, strict=True)]
    return pa.table(arrays, names=[f.name for f in node.columns])
