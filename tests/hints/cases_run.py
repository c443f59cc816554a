"""Hints of `run`, `check` and `explain`, where a row of the tables cannot give what is wrong."""

from __future__ import annotations

from lowwater.plan.context import Links
from lowwater.plan.explain import explain
from lowwater.plan.queryset import plan_files
from tests.hints.desk import Case, Desk, tried
from tests.replay.support import Said

FLOWS = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"
LEAST = f"PARAM {{ least uint; }} {FLOWS.replace('main1.TCP', 'main1.TCP WHERE len > $least')}"


def _ran(desk: Desk, *more: object, text: str = FLOWS, captures: bool = True) -> Said:
    given = ("--capture", f"main1={desk.capture}") if captures else ()
    return desk.run("run", desk.query(text), *given, "--out", desk.folder / "out", "--engine", "reference", *more)


def _explained(desk: Desk, form: str) -> None:
    assert explain(plan_files([desk.query("SELECT len FROM TCP")], Links()), form)


CASES: list[Case] = [
    Case(
        "a parameter without a value",
        lambda desk: _ran(desk, text=LEAST),
        "give --param least=VALUE",
        lambda desk: _ran(desk, "--param", "least=40", text=LEAST),
    ),
    tried("a plan in another form", _explained, "there are:", "yaml", "json"),
]
