"""The page of capacity is made from its JSON; its arithmetic is that of figures made by a rule."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import capacity

PACKETS = (1_000_000, 3_000_000)
EACH = {"ingest": 1e-6, "low": 2e-6, "high": 4e-6, "audit": 5e-7, "publish": 0.0}
FIXED = 5.0


def run(packets: int, cores: int, late: float) -> dict[str, Any]:
    stages = {
        name: {
            "clock": 1.0 + packets * each / cores + 10 * late,
            "processor": FIXED + packets * each,
            "requests": {"GET": 20, "PUT": 10 + packets // 100_000, "LIST": 5, "DELETE": 7},
        }
        for name, each in EACH.items()
    }
    stored = {
        name: packets * share
        for name, share in zip(("packets", "lfta", "streams", "tables"), (40, 8, 4, 2), strict=True)
    }
    return {"cores": cores, "late": late, "stages": stages, "bytes": stored}


FIGURES: dict[str, Any] = {
    "date": "2026-01-01",
    "command": "python -m benchmarks.bench_capacity",
    "machine": {"cores": 2, "processor": "some"},
    "load_average": 1.0,
    "sizes": [
        {
            "packets": packets,
            "capture_bytes": packets * 100,
            "runs": [run(packets, cores, late) for cores, late in ((1, 0.0), (2, 0.0), (2, 0.05))],
        }
        for packets in PACKETS
    ],
}


def row(begin: str, text: str) -> list[str]:
    """The cells of the first row that begins so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {begin} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_page_counts_requests_as_stores_charge_them() -> None:
    text = capacity.page(FIGURES)
    part = text[text.index("## Requests") :]
    assert row("ingest", part) == ["ingest", "25", "45", "20", "20"], "PUT and LIST, GET"
    # 10 billion packets: one write for each 100,000 and stage, and 15 of every interval and stage.
    writes, reads = 5 * (100_000 + 24 * 15), 5 * 24 * 20
    dollars = writes / 1000 * 0.005 + reads / 1000 * 0.0004
    assert row("24", part) == ["24", f"{writes:,}", f"{reads:,}", f"{dollars:,.2f}"]


def test_committed_page_is_that_of_the_committed_figures() -> None:
    figures = json.loads(capacity.FIGURES.read_text(encoding="utf-8"))
    assert capacity.PAGE.read_text(encoding="utf-8") == capacity.page(figures)
