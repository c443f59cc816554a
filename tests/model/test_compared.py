"""What a lake derives of its facts, and what it says of intervals, is what the rules say, in each case and on drawn
histories, in memory."""

from __future__ import annotations

import pytest

from tests.breadth import examples
from tests.model.cases import Case
from tests.model.compared import compared, drawn, of_case
from tests.model.memory import in_memory
from tests.model.test_cases import OF_PROJECT

WITHOUT = {
    "corrected-clock": "where names tell no time, a ring of equal files looks the same",
    "moved-then-corrected": "folders are found on a disk (`lake.ledgers.places`)",
    "a-section-is-renamed": "captures of several links are compared when the lake reads them",
    "a-probe-from-1970": "looks take up what ended in the last week",
    "found-unchanged-it-is-whole": "whether a file grew while it was read is known to who reads it",
}
"""Cases that ask for more than what the lake in memory knows, and why."""


@pytest.mark.parametrize("case", OF_PROJECT, ids=lambda case: case.name)
def test_a_lake_has_the_captures_and_states_of_a_case(case: Case) -> None:
    with in_memory():
        assert bool(found := [*of_case(case)]) == (case.name in WITHOUT), found


@pytest.mark.slow
def test_captures_and_states_of_drawn_histories_are_those_of_the_rules() -> None:
    with in_memory():
        for seed in range(examples(700)):
            begin, steps = drawn(seed)
            assert not [*compared(begin, steps)], f"python -m tests.model.compared 1 {seed}"


def test_a_file_of_no_time_cuts_nothing_off_one_of_midnight_in_1970(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where clocks begin that nobody has set, 0 is no instant before all others."""
    monkeypatch.setattr("tests.model.cases.BASE", 0)
    (case,) = (case for case in OF_PROJECT if case.name == "an-empty-file-of-no-time")
    with in_memory():
        assert not [*of_case(case)]
