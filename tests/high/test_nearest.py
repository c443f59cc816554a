"""The nearest right row of each left row over columns (SEMANTICS O9), beside DuckDB's ASOF JOIN."""

from __future__ import annotations

from itertools import product

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from lowwater.catalog import schemas
from lowwater.catalog.expr import Type
from lowwater.columns.values import Frame
from lowwater.high.operators import ORDER, join_rows
from lowwater.plan.operators import Field, JoinKind
from lowwater.plan.temporal import Temporal
from tests.high.plans import join
from tests.high.streams import leaf

CLOCK = Temporal(((),))
FIELDS = (Field("tb", Type.INT, CLOCK), Field("k", Type.INT), Field("x", Type.INT))
WIDE = 1 << 55
"""Between instants: keys and values together are more than 64 bits have numbers for."""


def side(random: np.random.Generator, keys: int, apart: int) -> pa.Table:
    """Rows of which no two have one instant, so that DuckDB's choice is that of O9."""
    rows = int(random.integers(0, 60))
    instants = np.sort(random.choice(100, rows, replace=False)) * apart
    columns = {"tb": instants, "k": random.integers(0, keys, rows), "x": random.integers(0, 9, rows)}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_rows_are_those_of_duckdb(seed: int) -> None:
    random, apart = np.random.default_rng(seed), WIDE if seed % 2 else 1
    keys = int(random.integers(1, 20))
    left, right = side(random, keys, apart), side(random, keys, apart)
    reach = int(random.integers(0, 40)) * apart
    for kind, after in product([kind for kind in JoinKind if kind.nearest], (False, True)):
        below, above = (0, reach) if after else (reach, 0)
        node = join(kind, leaf("l", FIELDS), leaf("r", FIELDS), below=below, above=above, times=(CLOCK, CLOCK))
        frames = [Frame.of(each.combine_chunks().append_column(schemas.LAST, each["tb"])) for each in (left, right)]
        for frame in frames:
            frame.columns[f"{ORDER}0"] = frame["tb"]
        found = [
            row
            for frame, _ in join_rows(node, *frames)
            for row in zip(*(frame[name].to_pylist() for name in ("l.tb", "r.tb", "l.k", "r.x")), strict=True)
        ]
        near = f"abs(r.tb - l.tb) <= {reach}"
        bound = "l.tb <= r.tb" if after else "l.tb >= r.tb"
        first = "row_number() OVER (PARTITION BY {}.tb ORDER BY abs(r.tb - l.tb)) = 1"
        both = f"SELECT l.tb, r.tb, l.k, r.x FROM l JOIN r ON l.k = r.k AND {bound} AND {near} "
        both += f"QUALIFY {first.format('l')} AND {first.format('r')}"
        sql = {
            JoinKind.ASOF: f"SELECT l.tb, r.tb, l.k, r.x FROM l ASOF JOIN r ON l.k = r.k AND {bound} WHERE {near}",
            JoinKind.ASOF_LEFT: f"SELECT l.tb, CASE WHEN {near} THEN r.tb END, l.k, CASE WHEN {near} THEN r.x END "
            f"FROM l ASOF LEFT JOIN r ON l.k = r.k AND {bound}",
            JoinKind.ONCE: both,
            JoinKind.ONCE_LEFT: f"{both} UNION ALL SELECT tb, NULL, k, NULL FROM l WHERE tb NOT IN "
            f"(SELECT t FROM ({both}) AS b(t, u, v, w))",
        }
        with duckdb.connect() as connection:
            connection.register("l", left)
            connection.register("r", right)
            assert sorted(found, key=str) == sorted(connection.execute(sql[kind]).fetchall(), key=str)
