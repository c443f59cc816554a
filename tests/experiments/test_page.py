"""The page of the experiments: made from results, and the committed one is of the committed results."""

from __future__ import annotations

import pytest

from experiments.frame import IMAGES, RESULTS, Size, Verdict
from experiments.page import PAGE, found_experiments, page, results_in, summary


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ([True, True], "holds"),
        ([True, None], "holds"),
        ([True, False], "does not hold (1 of 2 claims do)"),
        ([None], "not measured"),
        ([], "not measured"),
    ],
)
def test_an_experiment_holds_where_all_measured_claims_do(holds: list[bool | None], said: str) -> None:
    assert summary([Verdict("c", "o", each) for each in holds]) == said


def test_the_committed_page_is_of_the_committed_results() -> None:
    known = found_experiments()
    results = results_in(RESULTS, known)
    assert page(known, results) == PAGE.read_text(), "run python -m experiments.page"
    assert list(results) == [each.id for each in known]
    figures = {f"{each.id.lower()}.png" for each in known if each.panels(results[each.id]["rows"])}
    assert {path.name for path in IMAGES.iterdir()} == figures and len(figures) > 10


def test_every_experiment_is_of_the_frame() -> None:
    known = found_experiments()
    ids = ["H1", "H2", "H3", "H4", "H5", "X1", "X2", "X3", "G1", "G2", "G3", "N1", "N2", "N3", "T4"]
    assert [each.id for each in known] == ids
    for each in known:
        assert each.claim.endswith(".") and each.seed >= 0 and each.columns

    assert {Size.QUICK, Size.DEFAULT, Size.FULL} == set(Size)
