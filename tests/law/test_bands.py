"""Joins whose rows meet by a band, and by nothing else that Spark joins by, on Spark beside the other engines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.law.cases import case
from tests.law.compare import PROCESS
from tests.law.fuzz import check
from tests.law.questions import Question

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = pytest.mark.slow

BAND = "FROM main1.TCP A, [main2, control].DataProtocol B WHERE A.time - {} <= B.time AND B.time <= A.time + {}"
EQUAL = "FROM main1.TCP A, [main2, control].DataProtocol B WHERE A.time = B.time"
FUNCTION = "EQ(A.len, B.len) = 0"
PAIRS = "SELECT A.time AS ta, B.time AS tb, A.len AS la, B.destPort AS pb"
SELECTS = {
    **{kind: f"{PAIRS} {kind} {{}}" for kind in ("INNER_JOIN", "LEFT_OUTER_JOIN", "RIGHT_OUTER_JOIN")},
    "OUTER_JOIN": f"{PAIRS} OUTER_JOIN {{}} AND A.len <> B.len",
    "a function of both sides": f"{PAIRS} LEFT_OUTER_JOIN {{}} AND {FUNCTION}",
    "a function and an equality": f"{PAIRS} OUTER_JOIN {{}} AND A.destPort = B.destPort AND {FUNCTION}",
    "a function and equal times": f"{PAIRS} OUTER_JOIN {EQUAL} AND {FUNCTION}",
    "groups above": "SELECT tb, port, count(*), sum(A.len) INNER_JOIN {} GROUP BY B.time/10 AS tb, B.destPort AS port",
}


@pytest.mark.parametrize("name", list(SELECTS))
def test_rows_that_meet_by_a_band_alone(name: str, runner: Runner) -> None:
    drawn, text = case(106), SELECTS[name].format(BAND.format(1, 2))
    asked = Question("q", f"DEFINE{{query_name 'q';}} {text}", "", "law.bands")
    rows = check(replace(drawn, asked=(asked,), choice=replace(drawn.choice, kills=())), PROCESS, runner)
    assert rows > 0
