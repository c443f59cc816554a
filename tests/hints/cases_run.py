"""Hints of `run`, `check` and `explain`."""

from __future__ import annotations

from tests.hints.desk import Case, Desk, Site
from tests.replay.support import Said

FLOWS = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"
LEAST = f"PARAM {{ least uint; }} {FLOWS.replace('main1.TCP', 'main1.TCP WHERE len > $least')}"


def _ran(desk: Desk, *more: object, text: str = FLOWS, captures: bool = True) -> Said:
    given = ("--capture", f"main1={desk.capture}") if captures else ()
    return desk.run("run", desk.query(text), *given, "--out", desk.folder / "out", "--engine", "reference", *more)


CASES = [
    Case(
        "interval of a nanosecond",
        lambda desk: _ran(desk, "--interval", "1ns"),
        "write --interval",
        lambda desk: _ran(desk, "--interval", "5 min"),
    ),
    Case(
        "a parameter without a value",
        lambda desk: _ran(desk, text=LEAST),
        "give --param least=VALUE",
        lambda desk: _ran(desk, "--param", "least=40", text=LEAST),
    ),
]

LEFT: dict[Site, str] = {}
"""Where hints are made that no test can follow, each with the reason."""
