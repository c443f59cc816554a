"""What the original system wrote for a query over a file of records, beside what Lowwater writes in its dialect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from lowwater.catalog.values import format_ip
from tests.law.compare import PROCESS, REFERENCE
from tests.public.records import Record
from tests.public.runs import Outcome, config_of, evaluated, lake_of, plan_of
from tests.public.sources import ARRIVED, QuerySet, Recorded

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

BEGIN_MS = 1_767_225_600_000
"""Arrival of the first record; all of a file arrive within a second, as the original tests fed them."""


def compare_recorded(queries: QuerySet, planned: Sequence[str], runner: Runner | None, outcome: Outcome) -> None:
    """Adds to an outcome how many recorded lines and files are equal."""
    for each in queries.recorded:
        lines = Counter(_normal(line) for line in _recorded_lines(each))
        ours = Counter(_lines(queries, each, runner)) if each.query in planned else Counter()
        outcome.lines = outcome.lines[0] + lines.total(), outcome.lines[1] + (lines & ours).total()
        outcome.files = outcome.files[0] + 1, outcome.files[1] + (lines == ours)
        if lines != ours:
            outcome.different.append(f"{each.query} recorded: missing {lines - ours}, extra {ours - lines}")


def _recorded_lines(recorded: Recorded) -> list[str]:
    """The lines of an output without the first value, the second of the recording, as the original test compares."""
    lines = recorded.rows.read_text().splitlines()
    return lines if recorded.rows == recorded.records else [line.partition("|")[2] for line in lines]


def _lines(queries: QuerySet, recorded: Recorded, runner: Runner | None) -> list[str]:
    """What we write for a query over the recorded input."""
    link = next(iter(queries.links))
    layout = queries.declared[queries.links[link]].layout
    assert layout is not None
    fields = sorted(
        (each.position or 0, each.name) for each in layout.fields if each.name not in (ARRIVED, "timestamp")
    )
    records: list[Record] = []
    for number, line in enumerate(recorded.records.read_text().splitlines()):
        values: Record = dict(zip((name for _, name in fields), line.split("|"), strict=True))
        records.append({**values, ARRIVED: BEGIN_MS + number, "timestamp": 1})
    lines = []
    with lake_of(queries, {link: records}) as made:
        plan, engine = plan_of(queries, [recorded.query], "gigascope"), REFERENCE if runner is None else PROCESS
        for table in evaluated(plan, config_of(queries), made, engine, runner).rows[recorded.query]:
            names = [name for name in table.column_names if name not in ("_last", "_tick")][1:]
            lines += [_normal("|".join(map(_written, row.values()))) for row in table.select(names).to_pylist()]
    return lines


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value:.6f}"
    return format_ip(value) if isinstance(value, bytes) else str(value)


def _normal(line: str) -> str:
    """A line whose addresses of IPv6 are written in one way."""
    return "|".join(ip_address(part).compressed if part.count(":") > 1 else part for part in line.split("|"))
