"""The page of the figures is made from their JSON, and says who answers less."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from benchmarks import performance

STAGES = {"init": 0.5, "ingest": 1.0, "low": 1.5, "high": 2.0, "audit": 0.5, "publish": 0.25, "rest": 1.25}
OURS: dict[str, Any] = {
    "seconds": 7.0, "stages_seconds": STAGES, "packets": 2_000, "packets_per_s": 286, "lfta_rows": 900,
    "lfta_rows_per_s_high": 450, "peak_memory_bytes": 3_000_000, "staging_peak_bytes": 1_000_000,
    "lake_bytes": 5_000_000, "packets_table_bytes": 4_000_000, "rows_published": 700, "rows": 700, "counted": 1_990,
}  # fmt: skip
PEER: dict[str, Any] = {"seconds": 0.5, "peak_memory_bytes": 2_000_000, "rows": 700, "counted": 1_990}
SAMPLE: dict[str, Any] = {
    "machine": {"processor": "some processor", "cores": 2, "memory_bytes": 1 << 34, "system": "Linux 6",
                "versions": {"python": "3.11", "nfdump": None}},
    "sizes": [{
        "millions": 1, "date": "2026-01-01", "load_average": 0.1,
        "generate": "--hours 1", "packets": 2_000, "capture_bytes": 200_000,
        "queries": {"flows": {
            "lowwater": {"cold": OURS, "warm": OURS},
            "duckdb": {**PEER, "same_answer": True},
            "pyspark_stream": {**PEER, "rows": 690, "same_answer": False, "same_up_to_last_epoch": True},
            "nfdump": None,
            "tshark_duckdb": {**PEER, "sample_packets": 1_000, "same_answer": True},
            "run_csv": {**PEER, "stages_seconds": {"write": 0.1}, "written_rows_per_s": 7_000, "bytes": 9_000_000},
        }},
    }],
    "not_measured": ["nfpcapd and nfdump: not installed"],
}  # fmt: skip


def line(text: str, begin: str) -> list[str]:
    """The cells of the one row of a table that begins so."""
    (found,) = (each for each in text.splitlines() if each.startswith(f"| {begin} |"))
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_the_readme_has_the_tables_of_the_figures() -> None:
    """With what was not installed said as such."""
    readme = performance.README.read_text(encoding="utf-8")
    figures = performance.committed()[0]
    assert performance.with_table(readme, figures) == readme
    versions = {name: version for name, version in figures["machine"]["versions"].items() if name != "nfdump"}
    text = performance.tools({"machine": {"versions": versions}})
    assert line(text, "nfdump")[1] == "not installed" and "nfdump and Zeek and Arkime did not run here" in text


@pytest.mark.slow
def test_plot_depends_on_the_figures_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    for path in (first, second):
        performance.draw(SAMPLE["sizes"][0], path)
    assert first.read_bytes() == second.read_bytes()
    longer = copy.deepcopy(SAMPLE["sizes"][0])
    longer["queries"]["flows"]["lowwater"]["cold"]["stages_seconds"]["high"] = 9.0
    performance.draw(longer, second)
    assert first.read_bytes() != second.read_bytes()


@pytest.fixture(scope="module")
def committed() -> Any:
    return performance.committed()


def test_committed_page_is_what_its_json_gives(committed: Any) -> None:
    assert performance.PAGE.read_text(encoding="utf-8") == performance.page(*committed)
    readme = performance.README.read_text(encoding="utf-8")
    assert readme == performance.with_table(readme, committed[0])
    assert performance.short(committed[0]) in readme


def test_committed_page_has_its_plots(committed: Any) -> None:
    text = performance.PAGE.read_text(encoding="utf-8")
    for size in committed[0]["sizes"]:
        name = f"images/performance-{size['millions']}m.svg"
        assert f"({name})" in text
        assert (performance.PAGE.parent / name).exists()


PROFILE: dict[str, Any] = {
    "date": "2026-01-02", "cores": 2, "load_average": 0.2, "millions": 10,
    "commands": {
        "ingest": {"seconds": 2.0, "python": 2.5, "parts": {"captures: decoded": 2.0, "imports": 1.0}},
        "backfill": {
            "seconds": 5.0, "python": 4.0,
            "parts": {"JVM, Spark": 4.0, "imports": 1.5, "publish": 0.1, performance.SAMPLER: 9.0},
        },
    },
}  # fmt: skip


def test_profile_adds_up_without_its_sampler() -> None:
    text = "\n".join(performance.profile_parts(PROFILE))
    assert line(text, "JVM, Spark")[1:] == ["0.0", "4.0", "4.0"]
    assert line(text, "imports")[1:] == ["1.0", "1.5", "2.5"]
    assert line(text, "other parts")[1:] == ["0.0", "0.1", "0.1"], "small parts share a row"
    assert line(text, "all")[1:] == ["3.0", "5.6", "8.6"]
    assert "need 4.3 s for 8.6 processor seconds" in text
    assert "take 6.5 of them" in text, "what the number of packets does not change"
    assert performance.SAMPLER not in text.replace("its sampler", "")
