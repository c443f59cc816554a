"""The law (SEMANTICS): the rows are a function of the admitted packets, and nothing else changes them.

Random packets, random queries, random settings; the oracle is SQL over the packets as they were drawn. The same cases
run on the reference engine here and, some tens of them, on Spark in `test_law_spark`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.progress import Progress
from lowwater.replay.scratch import run
from tests.law.compare import request_of, rows_of, same_rows, sql_rows
from tests.law.questions import Question, questions
from tests.law.settings import Choice, choices
from tests.law.worlds import LINKS, World, worlds


@settings(phases=(Phase.explicit, Phase.generate))
@given(worlds(), questions(), choices())
def test_reference_rows_are_those_of_sql(world: World, question: Question, choice: Choice) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        request = request_of(world, [question], Path(folder), out, choice, "reference")
        summary = run(request, Progress(quiet=True))
        with world.oracle() as oracle:
            assert same_rows(rows_of(out, question), sql_rows(oracle, question))
        read = {name: link for name, link in summary["links"].items() if "sane" in link}
        for link, counts in read.items():
            assert counts["read"] == len(world.packets[link]) == counts["sane"] + counts["violating"]
            assert counts["violating"] == world.violations(link)
        assert json.loads((out / "summary.json").read_text()) == summary


@given(questions(), st.integers(1, 8))
def test_split_plans_read_the_same_packets_as_whole_ones(question: Question, slots: int) -> None:
    plan = plan_texts([("q.gsql", question.text)], Links(LINKS, {"pair": ("main1", "main2")}), 1 << slots)
    (query,) = plan.queries
    assert query.high.fields == query.logical.fields
    assert {lfta.slots for lfta in plan.lftas if lfta.aggregates} <= {1 << slots}
