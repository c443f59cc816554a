"""Hints of functions, of what they declare, of watch lists, and of the skews and states of the catalog."""

from __future__ import annotations

from typing import Any

from lowwater.catalog.expr import Type
from lowwater.catalog.state_json import read_state, write_state
from lowwater.catalog.time import link_skews
from lowwater.config import load_config
from tests.hints.setup import Case, Setup, tried
from tests.replay.support import Said

PYTHON = 'def wrong(x): return "x"\n'


def _ran(setup: Setup, query: str, *more: object) -> Said:
    """Runs a query over the capture."""
    file = setup.write("q.gsql", query)
    given = ("--capture", f"main1={setup.capture}", "--engine", "reference")
    return setup.run("run", file, *given, "--out", setup.folder / "out", *more)


def _declared(setup: Setup, text: str) -> Said:
    """Runs a query with a declaration of a function of mine.py."""
    setup.write("mine.py", PYTHON)
    file = setup.write("mine.fun", text)
    return _ran(setup, "SELECT wrong(len) AS n FROM main1.TCP", "--functions", file)


def _skews(setup: Setup, *lines: str) -> None:
    setup.settle(ingest=False)
    for line in lines:
        setup.settings("[links.main1]", f"[links.main1]\n{line}")
    link_skews(load_config(setup.lake), "main1")


def _grouped(setup: Setup, column: str, value: str, *lines: str) -> None:
    _skews(setup, *lines, f'group_skew = {{ column = "{column}", values = {{ "{value}" = "2s" }} }}')


def _state(_: Setup, value: Any) -> None:
    """Writes a state and reads it again."""
    assert read_state(write_state(value)) == value


PLAIN = (1, 0.5, "a", b"b", None, [2], {3}, {"n": (4,)})
CASES: list[Case] = [
    tried("a function of another type", _declared, "it is to give int or None", "MODULE 'mine.py'; int FUN wrong(int);",
          "MODULE 'mine.py'; string FUN wrong(int);"),
    tried("a skew of no address", _grouped, "write one as '10.0.0.1'", ("srcIP", "10"), ("srcIP", "10.0.0.1")),
    tried("a skew and shed", _grouped, "leave one of them out", ("vlan_id", "7", "shed = 5", "sampling = true"),
          ("vlan_id", "7")),
    tried("a state of a class", _state, "keep numbers, strings, bytes, None", ((1, object()),), (PLAIN,)),
    tried("a state of an enumeration", _state, "keep plain values", Type.INT, str(Type.INT.value)),
]  # fmt: skip
