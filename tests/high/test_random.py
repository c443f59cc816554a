"""Random queries over random packets on Spark: every operator gives the rows of the batch evaluation."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lowwater.high.results import HighSettings
from lowwater.plan.nodes import Node
from lowwater.plan.queryset import plan_texts
from lowwater.replay.lowered import not_run
from tests.high.oracle import Choice, Rows, expected, listed, renamed, spark_rows
from tests.plan.batch_join_questions import CHAINS
from tests.plan.batch_pools import CONTEXT, KNOWN, LINKS
from tests.plan.batch_questions import FAMILIES, Question
from tests.plan.batch_rows import World
from tests.plan.batch_worlds import SECOND, world
from tests.reference.feeds import arriving, owned_rows, whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

CHOICES = st.builds(
    Choice,
    st.sampled_from((None, None, 40 * SECOND)),
    st.integers(0, 1 << 20),
    st.builds(
        HighSettings,
        tick=st.sampled_from((5 * SECOND, 900 * SECOND)),
        max_batches=st.sampled_from((1, 4)),
        batch_rows=st.just(1),
        interpreted_rows=st.just(20_000),
        partitions=st.sampled_from((1, 2)),
    ),
)


def plan_of(question: Question, name: str) -> Node | None:
    """The high plan of a question; None where it is not run yet."""
    plan = plan_texts([("q.gsql", question.text)], KNOWN, 1, CONTEXT)
    return None if not_run(plan) else renamed(plan.queries[-1].high, name)


def of_reference(question: Question, made: World) -> Rows:
    """The rows of the reference engine with their last instants."""
    plan = plan_texts([("q.gsql", question.text)], KNOWN, 1, CONTEXT).queries[-1]
    return Counter({(*values, last): count for (last, *values), count in owned_rows(whole(plan.logical, made)).items()})


BY_REFERENCE = ("samplings",)
"""What the batch evaluator has stateful functions of its own for, and the reference engine those of the catalog."""


@pytest.mark.parametrize(
    "family",
    ["windows", "cubes", "filter_joins", "watch_joins", "chains", "joins", "aggregations", "runnings", *BY_REFERENCE],
)
def test_rows_are_those_of_the_batch_evaluation(spark: SparkSession, tmp_path: Path, family: str) -> None:
    """Several questions in one run, since a run on Spark takes seconds."""
    rows = 0
    kinds = {**FAMILIES, **CHAINS}[family]()

    @settings(
        max_examples=2 if family in BY_REFERENCE else 3,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(*[kinds] * (3 if family in BY_REFERENCE else 6)), st.integers(0, 1 << 20), CHOICES)
    def check(asked: tuple[Question, ...], seed: int, choice: Choice) -> None:
        nonlocal rows
        made = world(seed, LINKS, catalog=CONTEXT.catalog)
        made = arriving(made) if family in BY_REFERENCE else made
        nodes = {f"q{number}": plan_of(question, f"q{number}") for number, question in enumerate(asked)}
        run = {name: listed(node, made, tmp_path) for name, node in nodes.items() if node is not None}
        found = spark_rows(spark, run, made, choice) if run else {}
        for name, node in run.items():
            wanted = of_reference(asked[int(name[1:])], made) if family in BY_REFERENCE else expected(node, made)
            missing, extra = wanted - found[name], found[name] - wanted
            text = asked[int(name[1:])].text
            assert not missing and not extra, (text, list(missing.items())[:4], list(extra.items())[:4])
            rows += wanted.total()

    check()
    assert rows > 0
