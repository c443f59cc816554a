"""A capture that is missing is no harmless gap: one reason, that of `plan`, wherever the interval is shown."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from lowwater_expectations.audits import spoken
from lowwater_review import Board, render

from lowwater.instants import HOUR
from lowwater.lake.tables import interval_label
from tests.replay.support import Said, lowwater
from tests.review.ledgers import MISSING, START, make

HOURS = 10
REASON = "link 'main1': no capture covers 2025-01-01T07:00:00Z to 2025-01-01T08:00:00Z"
PAGE = f"interval/q/{interval_label(START + MISSING * HOUR, START + (MISSING + 1) * HOUR)}.html"


@pytest.fixture
def lake(tmp_path: Path) -> tuple[Path, Path]:
    """Ten hours, of which one never ran because a capture of main1 is missing."""
    return make(tmp_path, HOURS, absent=frozenset({("main1", MISSING)}))


def asked(command: str, lake: tuple[Path, Path], *more: object) -> Said:
    said = lowwater(command, "--lake", lake[0], "--queries", lake[1], *more)
    assert said.code == 0, said.err
    return said


@pytest.mark.slow
def test_the_reason_of_plan_is_everywhere(lake: tuple[Path, Path]) -> None:
    (planned,) = json.loads(asked("plan", lake, "--format", "json").out)["intervals"]
    assert planned["blocked"].startswith(REASON) and planned["state"] == "missing"
    said = re.sub(r"\s+", " ", asked("status", lake).out)
    assert f"cannot start {planned['blocked']}" in said and "never run" not in said
    said = asked("report", lake).out
    assert f"q, 2025-01-01T07:00:00Z to 2025-01-01T08:00:00Z: cannot start\n  {planned['blocked']}\n" in said
    known = Board(*lake).now()
    overview, page = (str(html.unescape(render(known, each) or "")) for each in ("index.html", PAGE))
    assert 'aria-label="1 Jan 07:00, cannot start"' in overview and 'class="s-cannot-start"' in overview
    assert str(html.unescape(spoken(planned["blocked"]))) in overview and "never run" not in overview
    assert f'<p class="verdict s-cannot-start">{html.unescape(spoken(planned["blocked"]))}</p>' in page


@pytest.mark.slow
def test_the_report_ends_with_a_summary_that_counts_each_interval_once(lake: tuple[Path, Path]) -> None:
    last = asked("report", lake).out.splitlines()[-1]
    assert last.startswith("10 intervals: 0 due, 7 done, 2 provisional, 1 cannot start, 0 failed; `lowwater plan`")
    (lake[0] / "lowwater.toml").write_text(
        (lake[0] / "lowwater.toml").read_text().replace("[links.control]", '[links.control]\nskew = "2s"')
    )
    last = asked("report", lake).out.splitlines()[-1]
    assert last.startswith("10 intervals: 9 due, 0 done, 0 provisional, 1 cannot start, 0 failed; ")


@pytest.mark.slow
def test_report_of_the_interval_that_cannot_start(lake: tuple[Path, Path]) -> None:
    said = asked("report", lake, "--interval", "2025-01-01T07:00Z").out
    assert said.startswith("q, 2025-01-01T07:00:00Z to 2025-01-01T08:00:00Z: cannot start\n  link 'main1'")


@pytest.mark.slow
def test_intervals_that_never_ran_are_told_together(tmp_path: Path) -> None:
    lake = make(tmp_path, HOURS)
    (lake[1] / "r.gsql").write_text(
        "DEFINE { query_name 'others'; } SELECT tb, count(*) AS cnt FROM main2.IPV4 GROUP BY time/60 AS tb;"
    )
    (lake[0] / "lowwater.toml").write_text((lake[0] / "lowwater.toml").read_text() + "[query_sets.r]\n")
    said = asked("report", lake).out
    assert "r, 2025-01-01T00:00:00Z to 2025-01-01T10:00:00Z (10 intervals): missing\n  never run\n" in said
    assert "20 intervals: 11 due, 7 done, 2 provisional, " in said


@pytest.mark.slow
def test_a_stale_interval_shows_its_cause(lake: tuple[Path, Path]) -> None:
    text = (lake[0] / "lowwater.toml").read_text()
    (lake[0] / "lowwater.toml").write_text(text.replace("[links.control]", '[links.control]\nskew = "2s"'))
    cause = "link control: skew was 1s, is 2s"
    known = Board(*lake).now()
    page = f"interval/q/{interval_label(START, START + HOUR)}.html"
    for address in ("index.html", "set/q.html", page):
        assert str(spoken(cause)) in (render(known, address) or ""), address
    assert cause in asked("status", lake).out and f"  stale: {cause}\n" in asked("report", lake).out
