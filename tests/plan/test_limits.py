"""Constant arguments outside of what a parameter takes are refused when the query is planned, in one sentence."""

from __future__ import annotations

import pytest

from lowwater.catalog.functions import NOT_EMPTY, ZONE, AggregateFunction, Function, Limit, StateFunction
from lowwater.catalog.values import Type
from lowwater.errors import QueryError
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import Plan, plan_texts

CATALOG = Context().catalog
LIMITED = [one for one in (*CATALOG.functions, *CATALOG.aggregates, *CATALOG.states) if one.limits]
WRITTEN = {
    Type.INT: "len", Type.FLOAT: "FLOAT(len)", Type.STRING: "TCP_data", Type.IP: "srcIP", Type.BOOL: "SYN",
    Type.MAC: "srcMAC", Type.INSTANT: "CAST(timestamp AS TIMESTAMP)",
}  # fmt: skip
CONSTANTS = {Type.INT: "1", Type.FLOAT: "0.5", Type.STRING: "'a'"}


def planned(text: str, **params: int | float | str) -> Plan:
    context = Context(params=params)
    return plan_texts([("q.gsql", text)], Links(), context=context)


def query(one: Function | AggregateFunction | StateFunction, at: int, value: str) -> str:
    """A query that calls an entry with a constant at a position."""
    constant = {position for position, _ in one.limits} | set(getattr(one, "constant", ()))
    if isinstance(one, AggregateFunction):
        constant |= set(range(one.taken, len(one.parameters)))
    arguments = [CONSTANTS[kind] if n in constant else WRITTEN[kind] for n, kind in enumerate(one.parameters)]
    arguments[at] = value
    brackets = "[]" if isinstance(one, Function) and one.predicate else "()"
    call = f"{one.name}{brackets[0]}{', '.join(arguments)}{brackets[1]}"
    if isinstance(one, AggregateFunction):
        closing = "CLOSING_WHEN count(*) = 0" if one.running else ""
        return f"SELECT tb, {call} AS x FROM main1.TCP GROUP BY time/60 AS tb {closing}"
    if isinstance(one, StateFunction):
        cleaning = "CLEANING_WHEN count$(*) > 9 CLEANING_BY TRUE"
        return f"SELECT tb, count(*) FROM main1.TCP WHERE {call} = TRUE GROUP BY time/60 AS tb {cleaning}"
    return f"SELECT time, {call} AS x FROM main1.TCP"


def beyond(limit: Limit) -> list[str]:
    """Texts of values that a limit does not admit."""
    if limit in (NOT_EMPTY, ZONE):
        return ["''"]
    values: list[float] = [limit.least if limit.above else limit.least - 1]
    values += [limit.most + 1] if limit.most < 1 << 62 else []
    return [f"{value:g}" for value in values]


@pytest.mark.parametrize("one", LIMITED, ids=lambda one: f"{one.name}-{'-'.join(one.parameters)}")
def test_each_limit_of_the_catalog_is_checked(one: Function | AggregateFunction | StateFunction) -> None:
    for at, limit in one.limits:
        for value in beyond(limit):
            with pytest.raises(QueryError) as found:
                planned(query(one, at, value))
            assert f"argument {at + 1} of {one.name} is " in found.value.message
            assert found.value.message.endswith(f"and must be {limit.says}")


@pytest.mark.parametrize("width", ["64", "-1", "4294967297"])
def test_a_shift_beyond_the_width_is_noted_as_a_division_by_zero_is(width: str) -> None:
    (note,) = planned(f"SELECT time, len << {width} AS x FROM main1.TCP").notes
    assert note.text == f"len << {width} is NULL in every row: the width of a shift is from 0 to 63"
