"""Pages, filters, searches, plots and versions of published tables: as Python and DuckDB compute them from the rows."""

from __future__ import annotations

import math
import operator
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product
from operator import itemgetter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.results.exploring import (
    DAY_AND_HOUR,
    LARGEST,
    ODD,
    OTHERS,
    SEVERAL,
    Filter,
    Grid,
    RowQuery,
    compare,
    curves,
    grid,
    result_table,
)
from lowwater.lake.tables import append_rows, create, replace_rows
from lowwater.plan.context import Links
from lowwater.plan.properties import Combine, quantities
from lowwater.plan.queryset import plan_texts

ROWS = 5_000
HOSTILE = "<b>'; DROP TABLE rows"


def fill(lake: Lake, *commits: pa.Table, name: str = "flows") -> None:
    """Makes a published table of so many commits."""
    create(lake.table(name), commits[0].schema, ["_hour"], "q")
    for rows in commits:
        append_rows(lake.table(name), rows)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, pa.Table]:
    """A table of two commits over five hours, with NULLs, equal values and a hostile text."""
    lake = open_lake(tmp_path_factory.mktemp("exploring"))
    chance = np.random.default_rng(3)
    lasts = np.sort(chance.integers(0, 5 * HOUR, ROWS))
    names = np.array(["10.0.0.1", "10.0.0.2", "2001:db8::1", HOSTILE, None], object)
    rows = pa.table(
        {
            "tb": lasts // (60 * 10**9),
            "source": pa.array(chance.choice(names, ROWS), pa.string()),
            "cnt": pa.array([None if value % 17 == 0 else int(value) for value in chance.integers(0, 900, ROWS)]),
            "share": chance.integers(0, 50, ROWS) / 8,
            "_last": lasts,
            "_hour": lasts // HOUR,
        }
    )
    fill(lake, rows.slice(0, 3_000), rows.slice(3_000))
    return lake, rows


CASES = [
    RowQuery(0, 5 * HOUR),
    RowQuery(0, 5 * HOUR, descending=True),
    RowQuery(HOUR // 3, 3 * HOUR, sort="cnt", descending=True),
    RowQuery(0, 5 * HOUR, sort="source"),
    RowQuery(0, 5 * HOUR, (Filter("cnt", ">=", "500"), Filter("source", "=", HOSTILE)), "share"),
    RowQuery(0, 5 * HOUR, (Filter("source", "contains", "DB8"),), "cnt"),
    RowQuery(0, 5 * HOUR, (Filter("source", "is null", ""),), "share", True),
    RowQuery(2 * HOUR, 4 * HOUR, (Filter("share", "<", "1.5"), Filter("cnt", "!=", "7"))),
]


COMPARED = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
}


def met(row: dict[str, Any], each: Filter) -> bool:
    """Whether a row meets a filter."""
    value = row[each.column]
    if each.operator == "is null" or value is None:
        return each.operator == "is null" and value is None
    if each.operator == "contains":
        return each.value.lower() in str(value).lower()
    return bool(COMPARED[each.operator](value, each.value if isinstance(value, str) else float(each.value)))


def expected(rows: pa.Table, asked: RowQuery) -> list[tuple[Any, ...]]:
    """The rows of a question, by Python."""
    found = [row for row in rows.to_pylist() if asked.start <= row["_last"] < asked.end]
    found = [row for row in found if all(met(row, each) for each in asked.filters)]
    for at, name in reversed([*enumerate((asked.sort or "_last", "_last", "tb", "source", "cnt", "share"))]):
        known = sorted((row for row in found if row[name] is not None), key=itemgetter(name), reverse=False)
        if at == 0 and asked.descending:
            known = sorted((row for row in found if row[name] is not None), key=itemgetter(name), reverse=True)
        found = known + [row for row in found if row[name] is None]
    return [tuple(row[name] for name in ("tb", "source", "cnt", "share", "_last")) for row in found]


@pytest.mark.slow
@pytest.mark.parametrize("asked", CASES)
def test_pages_have_the_rows_of_the_question(published: tuple[Lake, pa.Table], asked: RowQuery) -> None:
    lake, rows = published
    table, wanted = result_table(lake, "flows"), expected(rows, asked)
    assert len(wanted) > 20 and table.count(asked) == len(wanted)
    for offset in (0, 10, len(wanted) - 5):
        page = table.page(asked, offset, 10)
        assert [tuple(row.values()) for row in page.to_pylist()] == wanted[offset : offset + 10]


def keyed_rows(seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    keys = np.sort(chance.choice(600, 400, replace=False))
    lasts = keys.astype(np.int64) * (HOUR // 150)
    counts = chance.integers(0, 3, 400)
    columns = {"tb": keys, "cnt": pa.array([None if count == 2 else int(count) for count in counts]), "_last": lasts}
    return pa.table({**columns, "_hour": lasts // HOUR})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_rows_added_gone_and_changed_are_those_of_duckdb(lake: Lake, seed: int) -> None:
    old, new = keyed_rows(seed), keyed_rows(seed + 100)
    fill(lake, old)
    replace_rows(lake.table("flows"), new, None)
    before, after = result_table(lake, "flows", 1), result_table(lake, "flows", 2)
    start, end = HOUR // 2, 3 * HOUR
    found = compare(before, after, ["tb"], start, end, 1_000)
    both = (
        "SELECT count(*) FILTER (o.tb IS NULL), count(*) FILTER (n.tb IS NULL), "
        "count(*) FILTER (o.tb = n.tb AND o.cnt IS DISTINCT FROM n.cnt), "
        "count(*) FILTER (o.tb = n.tb AND o.cnt IS NOT DISTINCT FROM n.cnt) "
        f"FROM (FROM old WHERE _last >= {start} AND _last < {end}) o "
        f"FULL JOIN (FROM new WHERE _last >= {start} AND _last < {end}) n ON o.tb = n.tb"
    )
    with duckdb.connect() as oracle:
        wanted = oracle.execute(both).fetchone()
    assert wanted is not None and min(wanted) > 10
    assert (found.added, found.gone, found.changed, found.same) == wanted
    assert len(found.examples) == sum(wanted[:3]) and not found.equal
    whole = compare(before, after, [], start, end)
    assert (whole.added, whole.gone, whole.changed) == (wanted[0] + wanted[2], wanted[1] + wanted[2], 0)
    assert compare(before, before, ["tb"], start, end).equal


def test_a_row_with_nan_is_the_same_in_both_versions(lake: Lake) -> None:
    rows = pa.table({"tb": [1, 2], "share": [math.nan, 0.5], "_last": [0, 1], "_hour": [0, 0]})
    fill(lake, rows)
    table = result_table(lake, "flows")
    for key in (["tb"], []):
        found = compare(table, table, key, 0, HOUR)
        assert found.equal and found.same == 2


SEARCHES = {  # words -> whether a row has them
    "10.1.0.0/16": lambda row: str(row["source"]).startswith("10.1.") or str(row["dest"]).startswith("10.1."),
    "10.1.0.3-10.2.0.1": lambda row: any(name in ("10.1.0.3", "10.1.0.7", "10.2.0.1") for name in row["both"]),
    "2001:DB8::1": lambda row: "2001:db8::1" in row["both"],
    "2001:db8::/32 >200": lambda row: "2001:db8::1" in row["both"] and (row["cnt"] > 200 or row["port"] > 200),
    "443": lambda row: 443 in (row["cnt"], row["port"]) or any("443" in str(name) for name in row["both"]),
    "100-200": lambda row: 100 <= row["cnt"] <= 200 or 100 <= row["port"] <= 200,
    "port=443 cnt<300": lambda row: row["port"] == 443 and row["cnt"] < 300,
    "HOST": lambda row: "a host" in row["both"],
    '"a host" !=1': None,  # the second word is a text, which no row has
}


def test_a_search_looks_at_all_columns_and_says_what_it_does_not_understand(lake: Lake) -> None:
    chance = np.random.default_rng(5)
    names = np.array(["10.1.0.3", "10.1.0.7", "10.2.0.1", "10.10.0.1", "2001:db8::1", "a host", None], object)
    rows = pa.table(
        {
            "source": pa.array(chance.choice(names, 900), pa.string()),
            "dest": pa.array(chance.choice(names, 900), pa.string()),
            "port": chance.choice([53, 443, 150], 900),
            "cnt": chance.integers(0, 500, 900),
            "_last": np.sort(chance.integers(0, 3 * HOUR, 900)),
        }
    )
    fill(lake, rows.append_column("_hour", pc.divide(rows.column("_last"), HOUR)))
    table, plain = result_table(lake, "flows"), rows.to_pylist()
    for row in plain:
        row["both"] = (row["source"], row["dest"])
    for words, has in SEARCHES.items():
        wanted = [row for row in plain if has is not None and has(row)]
        asked = RowQuery(0, 3 * HOUR, search=words)
        assert table.count(asked) == len(wanted), words
        assert sum(batch.num_rows for batch in table.batches(asked)) == len(wanted), words
        assert bool(wanted) == (has is not None), words
    for wrong, said in {
        "10.1.0.0/40": "not understood",
        "10.1.0.300": "not understood",
        ">many": "'many' is no number",
        "prot=443": "no column 'prot'",
        "99999999999999999999": "no column has such a number",
    }.items():
        with pytest.raises(LakeError, match=said):
            table.count(RowQuery(0, 3 * HOUR, search=wrong))


STEP = 60 * SECOND


def world(seed: int) -> list[dict[str, Any]]:
    """Rows of epochs of a minute: hours that are away, epochs and rows that HAVING dropped, NULL, odd floats."""
    chance = np.random.default_rng(seed)
    away, rows = chance.integers(0, 4), []
    for epoch in range(4 * 60):
        if epoch // 60 == away or chance.random() < 0.3:
            continue
        for name in ("a", "b", "c", None):
            if chance.random() < 0.4:
                continue
            share = float(chance.choice([0.5, -3.25, 7.0, 1e301], p=[0.5, 0.3, 0.19, 0.01]))
            row = {"tb": epoch, "name": name, "cnt": int(chance.integers(-5, 900)), "share": share}
            row |= {"weight": int(chance.integers(0, 9)), "_last": (epoch + 1) * STEP - 1}
            rows.append(row | {"_hour": row["_last"] // HOUR, "cnt": None if chance.random() < 0.1 else row["cnt"]})
    return rows


def combined(rows: list[dict[str, Any]], number: str, how: Combine) -> float | None:
    """The value of some rows, by Python."""
    known = [(row[number], row["weight"]) for row in rows if row[number] is not None]
    if not known or (how is Combine.ALONE and len(rows) > 1):
        return None
    values = [value for value, _ in known]
    if how is Combine.MEAN:
        weights = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / weights if weights else None
    return {Combine.SUM: sum, Combine.LARGEST: max, Combine.SMALLEST: min, Combine.ALONE: max}[how](values)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_each_number_that_is_drawn_is_that_of_the_table(lake: Lake, seed: int) -> None:
    """Parts of one epoch and of several; a part without a row is no 0, and what cannot be combined is not drawn."""
    rows = world(seed)
    fill(lake, pa.Table.from_pylist(rows))
    table, whole, seen = result_table(lake, "flows"), RowQuery(0, 4 * HOUR), Counter[str]()
    for how, number, key, (most, span) in product(Combine, ("cnt", "share"), ("name", ""), ((2, 4), (6, 1))):
        asked = replace(whole, start=4 * HOUR - span * HOUR)
        found = curves(table, asked, number, key, most, STEP, how, "weight")
        inside = defaultdict(list)
        for row in rows:
            if asked.start <= row["_last"]:
                inside[(row["_last"] - found.start) // found.step].append(row)
        shown = [each.name for each in found.curves if each.name != OTHERS]
        for curve in found.curves:
            for part, value in enumerate(curve.values):
                mine = inside[part]
                if curve.name == OTHERS:
                    mine = [row for row in mine if str(row["name"] or "NULL") not in shown]
                elif key:
                    mine = [row for row in mine if (row["name"] or "NULL") == curve.name]
                wanted = combined(mine, number, how)
                if part in found.absent:
                    seen[found.absent[part]] += 1
                    assert value is None
                else:
                    assert value == (None if wanted is None else pytest.approx(wanted)), (how, curve.name, part)
                    seen["no row" if not mine else "a row"] += 1
    assert all(seen[word] for word in (ODD, SEVERAL, "no row", "a row")), seen


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 4))
def test_each_field_that_is_drawn_is_that_of_the_table(lake: Lake, seed: int) -> None:
    """By one column, by two, by day and hour; NULL is a value of its own, and what has no room is counted."""
    rows = world(seed)
    fill(lake, pa.Table.from_pylist(rows))
    table, whole, seen = result_table(lake, "flows"), RowQuery(0, 4 * HOUR), Counter[str]()
    hours = {"": lambda row: "", DAY_AND_HOUR: lambda row: str(row["_last"] // HOUR % 24)}
    for how, number, across in product(Combine, ("cnt", "share"), ("", "tb", DAY_AND_HOUR)):
        first, second = "0", hours.get(across, lambda row: str(row["tb"]))
        found = grid(table, whole, number, "" if across == DAY_AND_HOUR else "name", across, (3, 40), how, "weight")
        fields: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            fields[first if across == DAY_AND_HOUR else row["name"] or "NULL", second(row)].append(row)
        names = [{name for name, _ in fields}, {name for _, name in fields}]
        beside = {
            column for row, column in fields if row in found.rows
        }  # what stands beside no row that is shown is not
        assert len(found.rows) == min(3, len(names[0])) and len(found.columns) == min(40, len(beside))
        assert found.hidden == (len(names[0]) - len(found.rows), len(names[1]) - len(found.columns))
        places = {(row, column): at for (row, column), at in _places(found).items() if (row, column) in fields}
        assert set(places.values()) == set(found.values)
        for key, at in places.items():
            wanted = combined(fields[key], number, how)
            if at in found.absent:
                seen[found.absent[at]] += 1
                assert found.values[at] is None and (wanted is None or abs(wanted) > LARGEST), (how, key)
            else:
                assert found.values[at] == pytest.approx(wanted), (how, key)
        ranks = [sum(abs(each) for each in [found.values.get((at, 0))] if each) for at in range(len(found.rows))]
        if across == "" and how is Combine.LARGEST and number == "cnt":
            assert ranks == sorted(ranks, reverse=True), "the largest first"
    assert seen[ODD] and seen[SEVERAL] and seen["no value"], seen


def _places(found: Grid) -> dict[tuple[str, str], tuple[int, int]]:
    return {
        (row, column): (at, beyond) for at, row in enumerate(found.rows) for beyond, column in enumerate(found.columns)
    }


def test_how_rows_are_combined_is_what_the_plan_says() -> None:
    text = """
        SELECT tb, srcIP, count(*) AS n, sum(len)*8 AS bits, max(len) AS longest, min(len) AS shortest,
            avg(len) AS mean, avg(srcPort) AS ports, sum(len)/60 AS rate, count(DISTINCT destIP) AS peers
        FROM TCP GROUP BY time/60 AS tb, srcIP"""
    above = "SELECT hour, max(longest) AS longest, sum(n) AS n, avg(mean) AS mean FROM low GROUP BY tb/60 AS hour"
    low, high = plan_texts([("low", text), ("high", above)], Links(("main1",))).queries
    sums = {"n": Combine.SUM, "bits": Combine.SUM}
    extremes = {"longest": Combine.LARGEST, "shortest": Combine.SMALLEST}
    alone = dict.fromkeys(("tb", "srcIP", "ports", "rate", "peers"), Combine.ALONE)
    found = quantities(low.logical)
    assert {name: each.combine for name, each in found.items()} == {**sums, **extremes, **alone, "mean": Combine.MEAN}
    assert found["mean"].weight == "n", "`len` is there in each packet, and a port is not"
    found = quantities(high.logical)
    assert [found[name].combine for name in ("longest", "n", "mean")] == [Combine.LARGEST, Combine.SUM, Combine.ALONE]
    (windows,) = plan_texts(
        [("w", "SELECT window_start, count(*) AS n FROM main1.TCP [RANGE 2 min, SLIDE 1 min, WA time]")],
        Links(("main1",)),
    ).queries
    assert quantities(windows.logical)["n"].combine is Combine.ALONE, "windows that overlap share their packets"


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT tb, sum(count(*)) OVER (ORDER BY tb) AS n FROM main1.TCP GROUP BY time/60 AS tb", "running sums"),
        ("SELECT time, row_number() OVER (ORDER BY timestamp) AS n FROM main1.TCP", "numbers of rows"),
        ("SELECT time, session(timestamp, 5 s) OVER () AS n FROM main1.TCP", "begins of sessions"),
        ("SELECT tb, srcIP, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, CUBE(srcIP, ttl)", "a packet twice"),
        ("SELECT tb, count(*) AS c, avg(100/(len-60)) AS n FROM main1.TCP GROUP BY time/60 AS tb", "failed values"),
        ("MERGE low.tb : high.tb FROM low, high", "counts and the longest"),
    ],
)
def test_what_is_no_sum_stands_alone(text: str, column: str) -> None:
    low = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"
    high = "SELECT tb, max(len) AS n FROM main1.TCP GROUP BY time/60 AS tb"
    *_, query = plan_texts([("low", low), ("high", high), ("query", text)], Links(("main1",))).queries
    assert quantities(query.logical)["n"].combine is Combine.ALONE, column
