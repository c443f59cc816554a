"""The page of the experiments: made from results, and the committed one is of the committed results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import __main__ as everything
from experiments import t4
from experiments.frame import IMAGES, RESULTS, Curve, Experiment, Panel, Size, Verdict, main, write
from experiments.page import PAGE, QUICK, found_experiments, make, page, results_in, summary

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


BOTH = {"Z1": [{"x": 3, "y": 2.5}], "Z2": [{"x": 1, "y": 2.5}]}


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
    assert QUICK in text and QUICK not in page([TOY], {"Z1": {**found, "size": "default"}})
    assert "| more | 2.5 \\| 1 | holds |" in text and "*more*: because" in text
    assert "| x (s) | y |\n| --- | --- |\n| 1 | 2.5 |" in text
    assert "**not measured**" in page([TOY], {})
    assert "**1 of 1 figures hold**, and 0 of 0 claims without one.\n" in text
    turned = page([TOY], {"Z1": {**found, "rows": [{"x": 3, "y": 2.5}]}})
    assert "**does not hold (0 of 1 claims do)**" in turned
    both = page(
        [TOY, replace(TOY, id="Z2", printed=False)], {name: {**found, "rows": rows} for name, rows in BOTH.items()}
    )
    said = "**0 of 1 figures hold**, and 1 of 1 claims without one. Z1: 1 of 1 claims do not, 1 with a cause from rows."
    assert said in both


def test_a_long_table_is_shortened() -> None:
    rows = [{"x": number, "y": 2.5} for number in (1, 2, 3)]
    found = {"size": "default", "command": "c", "seed": 7, "processor_seconds": 1, "machine": "m", "rows": rows}
    short = page([replace(TOY, shown=lambda rows: rows[1:2])], {"Z1": found})
    assert "| 2 | 2.5 |\n\n1 of 3 rows; the result has all." in short and "| 3 | 2.5 |" not in short
    assert "the result has all" not in page([TOY], {"Z1": found})


def test_a_result_that_is_there_is_not_measured_again(tmp_path: Path) -> None:
    path = write({"id": "Z1", "sources": "abc", "rows": [{"x": 1}]}, tmp_path)
    assert everything.done(path, "abc") and not everything.done(path, "abd")
    assert not everything.done(tmp_path / "z2.json", "abc")


@pytest.mark.slow
def test_a_failure_does_not_end_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The toy is no module, so its process fails; the next one is measured, and a second run has nothing to do."""
    asked = [TOY, t4.EXPERIMENT]
    assert everything.measure(asked, Size.QUICK, tmp_path) == ["Z1"]
    lines = list(everything.verdict_lines(asked, ["Z1"], tmp_path))
    assert lines[:2] == ["Z1  failed", "T4  holds"] and lines[-1].endswith(" processor seconds")
    assert sum(line.startswith("    holds: ") for line in lines) == len(lines) - 3 > 1
    capfd.readouterr()
    assert everything.measure(asked[1:], Size.QUICK, tmp_path) == []
    assert capfd.readouterr().out == "T4: measured before\n"


def test_the_committed_page_is_of_the_committed_results() -> None:
    known = found_experiments()
    results = results_in(RESULTS, known)
    assert page(known, results) == PAGE.read_text(), "run python -m experiments.page"
    assert list(results) == [each.id for each in known]
    figures = {f"{each.id.lower()}.png" for each in known if each.panels(results[each.id]["rows"])}
    assert {path.name for path in IMAGES.iterdir()} == figures and len(figures) > 10


@pytest.mark.slow
def test_a_page_is_made_with_its_figures(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (results / "h4.json").write_text((RESULTS / "h4.json").read_text())
    make(results, tmp_path / "page.md", tmp_path / "images")
    text = (tmp_path / "page.md").read_text()
    assert "images/experiments/h4.png" in text and "No result." in text
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["h4.png"]


def test_every_experiment_is_of_the_frame() -> None:
    known = found_experiments()
    ids = ["H1", "H2", "H3", "H4", "H5", "X1", "X2", "X3", "G1", "G2", "G3", "N1", "N2", "N3", "T4"]
    assert [each.id for each in known] == ids
    for each in known:
        assert each.claim.endswith(".") and each.seed >= 0 and each.columns

    assert {Size.QUICK, Size.DEFAULT, Size.FULL} == set(Size)
