"""Windows of rows beside operators that ask for the order of packets over branches of one link, on Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.high.test_arrival import BRANCHED
from tests.law.cases import case
from tests.law.compare import PROCESS
from tests.law.fuzz import check
from tests.law.questions import Question

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("text", BRANCHED, ids=["groups", "running"])
def test_rows_are_those_of_the_reference_engine_after_kills_too(text: str, runner: Runner) -> None:
    drawn, asked = case(106), text.replace("SOURCE", "main1").replace("WINDOW", "[RANGE 4 ROWS, SLIDE 2 ROWS]")
    run = replace(drawn, asked=(Question("q", asked, "", "law.branched"),), choice=replace(drawn.choice, kills=(2, 7)))
    assert check(run, PROCESS, runner) > 0
