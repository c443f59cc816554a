"""The law for native aggregates: each of `tests.natives`, by packets and by groups, on both engines beside DuckDB."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.law.cases import SHARED, Case, case
from tests.law.compare import PROCESS, REFERENCE
from tests.law.fuzz import check
from tests.law.questions import Question
from tests.natives import PAIRS
from tests.plan.batch_worlds import SECOND

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

WORLDS = 4


def asked() -> tuple[Question, Question]:
    """All aggregates in one query, split into both levels, and whole at the high level."""
    items = ", ".join(f"{text} AS a{number}" for number, (text, _) in enumerate(PAIRS))
    sql = ", ".join(f"{own} AS a{number}" for number, (_, own) in enumerate(PAIRS))
    rows = (
        f"SELECT ts // {10 * SECOND} AS tb, dport, {sql} FROM p WHERE link = 'main1' AND flags IS NOT NULL GROUP BY ALL"
    )
    query = f"SELECT tb, destPort, {items} FROM main1.TCP GROUP BY time/10 AS tb, destPort"
    split = Question("split", f"DEFINE{{query_name 'split';}} {query}", rows)
    return split, Question("whole", f"DEFINE{{query_name 'whole'; select_lfta 'yes';}} {query}", rows)


def worlds() -> list[Case]:
    return [replace(case(SHARED * number), asked=asked()) for number in range(WORLDS)]


@pytest.mark.slow
def test_native_aggregates_of_the_reference_engine_are_those_of_duckdb() -> None:
    assert sum(check(run, REFERENCE) for run in worlds()) > 10 * WORLDS


@pytest.mark.slow
def test_native_aggregates_of_the_process_are_those_of_duckdb(runner: Runner) -> None:
    for run in worlds()[:2]:
        check(run, PROCESS, runner)
