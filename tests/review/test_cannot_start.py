"""A capture that is missing is no harmless gap: one reason, that of `plan`, wherever the interval is shown."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from lowwater_expectations.audits import spoken
from lowwater_review import Ledgers, render

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
    known = Ledgers(*lake).now()
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
