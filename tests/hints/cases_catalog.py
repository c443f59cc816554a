"""Hints of functions, of what they declare, of watch lists, and of the skews and states of the catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowwater.catalog.expr import Type
from lowwater.catalog.state_json import read_state, write_state
from lowwater.catalog.time import link_skews
from lowwater.config import load_config
from tests.hints.desk import Case, Desk
from tests.replay.support import Said

PYTHON = """
class total:
    def initialize(self): return 0
    def iterate(self, state, value): return state + value
    def output(self, state): return state
    def destroy(self, state): pass

class half:
    def initialize(self): return 0

def twice(x): return 2 * x
def wrong(x): return "x"
seven = 7
"""


def _ran(desk: Desk, query: str, *more: object) -> Said:
    """Runs a query over the capture."""
    file = desk.write("q.gsql", query)
    given = ("--capture", f"main1={desk.capture}", "--engine", "reference")
    return desk.run("run", file, *given, "--out", desk.folder / "out", *more)


def _declared(text: str | bytes, query: str = "", python: str = PYTHON) -> Callable[[Desk], Said]:
    """Checks, or runs, a query with declarations beside which lies mine.py."""

    def declared(desk: Desk) -> Said:
        desk.write("mine.py", python)
        file = desk.folder / "mine.fun"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        if query:
            return _ran(desk, query, "--functions", file)
        return desk.run("check", desk.query("SELECT time FROM TCP"), "--functions", file)

    return declared


def _skews(desk: Desk, *lines: str) -> None:
    desk.settle(ingest=False)
    for line in lines:
        desk.settings("[links.main1]", f"[links.main1]\n{line}")
    link_skews(load_config(desk.lake), "main1")


def _grouped(column: str, value: str, *lines: str) -> Callable[[Desk], None]:
    return lambda desk: _skews(desk, *lines, f'group_skew = {{ column = "{column}", values = {{ "{value}" = "2s" }} }}')


def _state(value: Any) -> Callable[[Desk], None]:
    """Writes a state and reads it again."""

    def kept(desk: Desk) -> None:
        assert read_state(write_state(value)) == value

    return kept


CASES: list[Case] = [
    Case(
        "a function of another type",
        _declared("MODULE 'mine.py'; int FUN wrong(int);", "SELECT wrong(len) AS n FROM main1.TCP"),
        "it is to give int or None",
        _declared("MODULE 'mine.py'; string FUN wrong(int);", "SELECT wrong(len) AS n FROM main1.TCP"),
    ),
    Case("a skew of no address", _grouped("srcIP", "10"), "write one as '10.0.0.1'", _grouped("srcIP", "10.0.0.1")),
    Case(
        "a skew and shed",
        _grouped("vlan_id", "7", "shed = 5", "sampling = true"),
        "leave one of them out",
        _grouped("vlan_id", "7"),
    ),
    Case(
        "a state of a class",
        _state((1, object())),
        "keep numbers, strings, bytes, None",
        _state((1, 0.5, "a", b"b", None, [2], {3}, {"n": (4,)})),
    ),
    Case("a state of an enumeration", _state(Type.INT), "keep plain values", _state(str(Type.INT.value))),
]
