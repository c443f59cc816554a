"""Hints of `run`, `check` and `explain`, where a row of the tables cannot give what is wrong."""

from __future__ import annotations

from lowwater.plan.context import Links
from lowwater.plan.explain import explain
from lowwater.plan.queryset import plan_files
from tests.hints.setup import Case, Setup, tried
from tests.replay.support import Said

FLOWS = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"
LEAST = f"PARAM {{ least uint; }} {FLOWS.replace('main1.TCP', 'main1.TCP WHERE len > $least')}"


def _ran(setup: Setup, *more: object, text: str = FLOWS, captures: bool = True) -> Said:
    given = ("--capture", f"main1={setup.capture}") if captures else ()
    return setup.run("run", setup.query(text), *given, "--out", setup.folder / "out", "--engine", "reference", *more)


def _explained(setup: Setup, form: str) -> None:
    assert explain(plan_files([setup.query("SELECT len FROM TCP")], Links()), form)


CASES: list[Case] = [
    Case("a parameter without a value", lambda setup: _ran(setup, text=LEAST), "give --param least=VALUE",
         lambda setup: _ran(setup, "--param", "least=40", text=LEAST)),
    tried("a plan in another form", _explained, "there are:", "yaml", "json"),
]  # fmt: skip
