"""FILL over the column engine and row by row (SEMANTICS O10): a life that begins in 1970 costs nothing."""

from __future__ import annotations

import pytest

from lowwater.catalog.time import Reported
from lowwater.high.fill import fill
from lowwater.high.process import InProcess
from lowwater.instants import SECOND
from lowwater.plan import operators as ops, temporal
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.stream.fill import FillOperator
from lowwater.stream.operators import Life, Promise, Row
from tests.law.cases import Case
from tests.law.compare import PROCESS, REFERENCE, compare_ticks, evaluated
from tests.law.questions import Question
from tests.law.settings import Choice
from tests.law.worlds import LINKS, Packet, World

FIRST = 1_767_225_600
"""Second of the first capture."""


class Taken(FillOperator):
    """Keeps what it gives."""

    def __init__(self, node: ops.Fill, life: Life) -> None:
        super().__init__(node, life)
        self.rows: list[Row] = []

    def emit(self, message: object) -> None:
        if isinstance(message, Row):
            self.rows.append(message)


@pytest.mark.timeout(60)
def test_a_link_without_since_is_filled_from_its_first_capture_on() -> None:
    """1,767,225,600 epochs are before it."""
    text = "SELECT tb, count(*) AS n FROM [main1, main2].TCP GROUP BY time AS tb FILL"
    (query,) = plan_texts([("q", text)], Links(("main1", "main2"))).queries
    (node,) = (each for each in ops.walk(query.logical) if isinstance(each, ops.Fill))
    end = (FIRST + 9) * SECOND
    # The second link has a gap of its own within the life of the first one.
    known = {
        "main1": Reported((0, end), ((0, FIRST * SECOND),)),
        "main2": Reported((0, end), ((0, (FIRST + 2) * SECOND), ((FIRST + 5) * SECOND, (FIRST + 6) * SECOND))),
    }
    expected = [(FIRST + at, 0) for at in (2, 3, 4, 6, 7, 8)]
    columns = [frame.columns for frame in fill(node, [], (-temporal.END_OF_TIME, temporal.END_OF_TIME), known)]
    names = [each.name for each in node.fields]
    ours = [row for each in columns for row in zip(*(each[name].to_pylist() for name in names), strict=True)]
    assert ours == expected
    operator = Taken(node, Life(reported=known))
    operator.release(0, Promise(temporal.END_OF_TIME))
    assert [row.values for row in operator.rows] == expected


@pytest.mark.parametrize(
    ("item", "linked"), [("interface", "interface"), ("CASE WHEN len > 60 THEN 'long' ELSE 'short' END", "")]
)
@pytest.mark.parametrize("grouped", [False, True])
def test_a_column_with_the_name_of_the_link_is_none(item: str, linked: str, grouped: bool) -> None:
    """Else its values would be links that nobody has, and no epoch of theirs were filled."""
    shown = "interface" if grouped else f"{item} AS interface"
    low = f"SELECT time, {shown} FROM main1.TCP" + f" GROUP BY time, {item} AS interface" * grouped
    text = "SELECT tb, interface, count(*) AS n FROM low GROUP BY time/60 AS tb, interface FILL (interface IN ('long'))"
    plan = plan_texts([("low", low), ("q", text)], Links(("main1",)))
    (node,) = (each for each in ops.walk(plan.queries[-1].logical) if isinstance(each, ops.Fill))
    assert node.linked == linked


@pytest.mark.slow
def test_rows_of_epochs_come_in_time_where_a_link_has_no_record() -> None:
    """A link without a record has no life, and its begin, 1970, made the steps of the timeline hours long."""
    packets = tuple(Packet((FIRST + at) * SECOND, "tcp", "10.0.0.1", "10.0.0.2", 1, 2, 16, b"") for at in (0, 9, 30))
    world = World({"control": (), "main1": (), "main2": packets}, dict.fromkeys(LINKS, 0), dict.fromkeys(LINKS, 0))
    text = "DEFINE{query_name 'q';} SELECT tb, count(*) AS n FROM [pair].TCP GROUP BY time AS tb FILL"
    choice = Choice(None, None, None, SECOND, "periodic", 65536, 65536, 8, False, "immediate", (SECOND, 1), 1, False)
    case = Case(world, (Question("q", text, ""),), choice)
    ours = evaluated(case, PROCESS, InProcess())
    assert sum(table.num_rows for table in ours.rows["q"]) == 31
    compare_ticks(case, ours, evaluated(case, REFERENCE))
