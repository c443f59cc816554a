"""What goes from interval to interval: idle epochs, the limits of a state, and what a state is refused for."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.catalog.state_json import read_state
from lowwater.catalog.user_functions import load_functions
from lowwater.errors import LawError, LowwaterError
from lowwater.gsql.declarations import parse_declarations
from lowwater.plan.context import Context, Links
from lowwater.plan.operators import Node
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.engine import ReferenceResult, evaluate
from tests.plan.batch_worlds import SECOND
from tests.reference.streams import Link, record

TCP = {"protocol": 6, "flags": 2}
DECLARED = "MODULE 'kept.py'; uint UDAF [RUNNING] kept int (uint); uint UDAF [RUNNING] opaque int (uint);"
PYTHON = """
class kept:
    def initialize(self): return {"seen": [set(), ()]}
    def iterate(self, state, value): state["seen"][0].add(value); return state
    def output(self, state): return len(state["seen"][0])
    def destroy(self, state): pass

class opaque(kept):
    def initialize(self): return {"seen": [set(), object()]}
"""


def plan(query: str, context: Context | None = None) -> Node:
    return plan_texts([("q.gsql", query)], Links(("a",)), context=context).queries[0].logical


def declared(folder: Path) -> Context:
    (folder / "kept.py").write_text(PYTHON, encoding="utf-8")
    (folder / "kept.fun").write_text(DECLARED, encoding="utf-8")
    catalog = load_functions([folder / "kept.fun"], parse_declarations)
    return Context(catalog=Context().catalog.extended(catalog))


def replay(
    node: Node, seconds: list[int], start: int = 0, end: int = END_OF_TIME, state: str | None = None
) -> ReferenceResult:
    """Records of these seconds, those of an interval after a state."""
    link = Link(0, [record(at, second * SECOND, len=10 + at, **TCP) for at, second in enumerate(seconds)])
    over = max(seconds) * SECOND + 1
    return evaluate(
        node, {"a": link.batches()}, {"a": 0}, start, end, {"q.TCP": 0, "default_query.TCP": 0}, SECOND, state=state,
        over=over,
    )  # fmt: skip


RUNNING = "SELECT tb, running_sum(len), count(*) FROM a.TCP GROUP BY time AS tb CLOSING_WHEN {}"


@pytest.mark.slow
def test_idle_epochs_count_up_to_the_end_of_the_link_and_to_a_thousand() -> None:
    node = plan(RUNNING.format("count(*) > 5"))
    assert replay(node, [3, 5]).rows == [(3, 10, 1), (4, 10, 0), (5, 21, 1)]
    assert len(replay(node, [3, 1004]).rows) == 1002
    with pytest.raises(LowwaterError, match="more than 1,000 epochs without rows") as error:
        replay(node, [3, 1005])
    assert "count(*) = 0" in error.value.hint
    # A link that is silent across intervals is silent for as long.
    first = replay(node, [3, 1005], 0, 600 * SECOND)
    assert len(first.rows) == 597
    with pytest.raises(LowwaterError, match="without rows"):
        replay(node, [3, 1005], 600 * SECOND, END_OF_TIME, first.state)


def test_groups_that_close_in_silence_begin_anew_after_it() -> None:
    node = plan(RUNNING.format("count(*) = 0"))
    assert replay(node, [3, 100_000]).rows == [(3, 10, 1), (4, 10, 0), (100_000, 11, 1)]


def test_states_of_declared_aggregates_are_carried_where_they_are_plain(tmp_path: Path) -> None:
    context, text = declared(tmp_path), "SELECT tb, {}(len) FROM a.TCP GROUP BY time/10 AS tb CLOSING_WHEN count(*) = 0"
    node = plan(text.format("kept"), context)
    first = replay(node, [3, 15, 17, 22], 0, 20 * SECOND)
    assert first.state is not None and first.rows == [(0, 1), (1, 3)]
    assert replay(node, [3, 15, 17, 22], 20 * SECOND, END_OF_TIME, first.state).rows == [(2, 4)]
    with pytest.raises(LowwaterError, match="of type object, which cannot be carried"):
        replay(plan(text.format("opaque"), context), [3, 15], 0, 10 * SECOND)


def test_a_state_is_of_one_plan_and_one_instant() -> None:
    node, other = plan(RUNNING.format("count(*) = 0")), plan("SELECT wid, count(*) FROM a.TCP [RANGE 2 ROWS]")
    state = replay(node, [3, 15], 0, 10 * SECOND).state
    assert state is not None and read_state(state)[0] == 10 * SECOND
    for plan_, start in ((node, 11), (other, 10)):
        with pytest.raises(LawError, match="the state is of 10000000000 ns"):
            replay(plan_, [3, 15], start * SECOND, END_OF_TIME, state)
    with pytest.raises(LowwaterError, match="cannot be read"):
        replay(node, [3, 15], 10 * SECOND, END_OF_TIME, state[:-1])
    plain = plan("SELECT tb, count(*) FROM a.TCP GROUP BY time AS tb")
    assert replay(plain, [3, 15], 0, 10 * SECOND).state is None
