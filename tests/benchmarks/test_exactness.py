"""The comparison of imports, small: claims of the page hold here too, and Lowwater's rows are equal."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.exactness import lake
from benchmarks.exactness.__main__ import compare
from benchmarks.exactness.inputs import VARIANTS, Captures, generate, variants
from benchmarks.exactness.page import equal
from benchmarks.exactness.programs import PROGRAMS, missing

ALL = set(VARIANTS)
EQUAL = {
    ("nfdump", "five-tuples"): ALL - {"killed"},
    ("softflowd", "five-tuples"): ALL - {"killed"},
    ("pmacct", "five-tuples"): ALL,
    ("tshark", "packets"): ALL,
}
"""Figures of the peers -> variants whose rows are those of one file, whatever the traffic."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Captures]:
    folder = tmp_path_factory.mktemp("exactness")
    return variants(generate(folder / "captures", 1, 7), folder)


@pytest.mark.slow
def test_the_files_of_the_minutes_are_the_hour(inputs: dict[str, Captures]) -> None:
    for link, (whole,) in inputs["one"].files.items():
        pieces = [file.read_bytes() for file in inputs["minutes"].files[link]]
        assert len(pieces) == 60
        assert whole.read_bytes() == pieces[0][:24] + b"".join(piece[24:] for piece in pieces)
        assert sorted(inputs["shuffled"].files[link]) == inputs["minutes"].files[link] != inputs["shuffled"].files[link]


@pytest.mark.bench
@pytest.mark.slow
@pytest.mark.parametrize("name", ["nfdump", "tshark"])
def test_peers_are_as_exact_as_the_page_says(name: str, inputs: dict[str, Captures], tmp_path: Path) -> None:
    absent = list(missing(PROGRAMS[name]))
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    short = {
        variant: Captures({link: files[:5] for link, files in captures.files.items()}, captures.killed)
        for variant, captures in inputs.items()
        if variant in ("minutes", "killed")
    }
    ordered = {link: files[::-1] for link, files in short["minutes"].files.items()}
    result = compare(PROGRAMS[name], {"one": short["minutes"], "shuffled": Captures(ordered), **short}, tmp_path)
    for (program, title), same in EQUAL.items():
        if program == name:
            assert equal(result["variants"], title) == same & set(result["variants"])


@pytest.mark.bench
@pytest.mark.slow
def test_lowwaters_rows_of_shuffled_minutes_are_those_of_the_hour(
    inputs: dict[str, Captures], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake, "_BATCHES", 2)
    monkeypatch.setattr(lake, "QUERIES", {"flows": "flows"})
    rows = [ast.literal_eval(row)[:7] for row in lake.published(inputs["shuffled"], tmp_path / "shuffled")["flows"]]
    words = [sys.executable, "-m", "lowwater.cli.main", "run", lake.ROOT / "queries" / "flows.gsql", "--format", "json"]
    words += [part for link, (file,) in inputs["one"].files.items() for part in ("--capture", f"{link}={file}")]
    words += ["--engine", "reference", "--out", tmp_path / "run"]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    lines = (tmp_path / "run" / "flows.json").read_text(encoding="utf-8").splitlines()
    assert sorted(rows, key=str) == sorted((tuple(json.loads(line).values()) for line in lines), key=str) != []
