"""The page of the experiments: made from results, and the committed one is of the committed results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import __main__ as everything
from experiments.frame import RESULTS, Curve, Experiment, Panel, Size, Verdict, main, write
from experiments.page import PAGE, found_experiments, make, page, summary

TOY = Experiment(
    id="Z1",
    title="a toy",
    source="nowhere",
    claim="Two is more than one.",
    about="One\nparagraph.\n\nAnother.",
    seed=7,
    measure=lambda size: [{"x": 1, "y": 2.5, "size": size.value}],
    verdicts=lambda rows: [Verdict("more", f"{rows[0]['y']} | {rows[0]['x']}", rows[0]["y"] > rows[0]["x"], "because")],
    panels=lambda rows: [Panel("t", "x (s)", "y (MB)", [Curve("ours", [(1, 2)]), Curve("paper", [(1, 3)], True)])],
    columns={"x": "x (s)", "y": "y"},
)


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


def test_a_result_becomes_a_section(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(TOY, ["--quick", "--out", str(tmp_path)])
    assert "Z1 holds: more: 2.5 | 1" in capsys.readouterr().out
    found = json.loads((tmp_path / "z1.json").read_text())
    assert found["rows"] == [{"x": 1, "y": 2.5, "size": "quick"}] and found["seed"] == 7
    text = page([TOY], {"Z1": found})
    command = "`python -m experiments.z1 --quick`"
    assert f"| [Z1](#z1-a-toy) | nowhere: Two is more than one. | 2.5 \\| 1 | **holds** | 7 | {command} |" in text
    assert "One paragraph.\n\nAnother." in text
    assert "| more | 2.5 \\| 1 | holds |" in text and "*more*: because" in text
    assert "| x (s) | y |\n| --- | --- |\n| 1 | 2.5 |" in text
    assert "**not measured**" in page([TOY], {})
    turned = page([TOY], {"Z1": {**found, "rows": [{"x": 3, "y": 2.5}]}})
    assert "**does not hold (0 of 1 claims do)**" in turned


def test_a_result_that_is_there_is_not_measured_again(tmp_path: Path) -> None:
    path = write({"id": "Z1", "sources": "abc", "rows": [{"x": 1}]}, tmp_path)
    assert everything.done(path, "abc") and not everything.done(path, "abd")
    assert not everything.done(tmp_path / "z2.json", "abc")


def test_the_committed_page_is_of_the_committed_results(tmp_path: Path) -> None:
    make(RESULTS, tmp_path / "page.md", tmp_path)
    assert (tmp_path / "page.md").read_text() == PAGE.read_text(), "run python -m experiments.page"


def test_every_experiment_is_of_the_frame() -> None:
    known = found_experiments()
    assert {"H1", "H2", "H3", "G1", "G2", "G3", "N1", "N2", "N3", "T4"} <= {each.id for each in known}
    for each in known:
        assert each.claim.endswith(".") and each.seed >= 0 and each.columns
        names = (f"test_{each.id.lower()}.py", f"test_{each.id[0].lower()}.py")
        assert any((Path(__file__).parent / name).exists() for name in names)
    assert {Size.QUICK, Size.DEFAULT, Size.FULL} == set(Size)
