"""Hints of declarations of functions: what is written before is checked with the text that the hint asks for."""

from __future__ import annotations

from lowwater.catalog.user_functions import functions_digest
from lowwater.gsql.declarations import parse_declarations
from tests.catalog.test_user_functions import PYTHON, SPLIT
from tests.hints.setup import Case, Setup, tried
from tests.replay.support import Said


def _checked(setup: Setup, text: str) -> Said:
    """Checks a query with these declarations, beside which lies mine.py."""
    setup.write("mine.py", PYTHON)
    return setup.run("check", setup.query("SELECT time FROM TCP"), "--functions", setup.write("mine.fun", text))


def _digest(setup: Setup, name: str) -> None:
    """The digest of declarations that name this module."""
    setup.write("functions/mine.py", PYTHON)
    file = setup.write("functions/mine.fun", f"MODULE '{name}'; int FUN twice(int);")
    assert functions_digest([file], parse_declarations)


CASES: list[Case] = [
    tried(
        "EXTR over sum",
        _checked,
        "name a superaggregate that is not one of the eight",
        "MODULE 'mine.py'; int UDAF [SUBAGGR lower, SUPERAGGR sum] total int (int); int UDAF lower int (int); "
        "int EXTR share total twice (int); int FUN twice(int);",
        f"{SPLIT}int EXTR share total twice (int); int FUN twice(int);",
    ),
    tried("a digest of no module", _digest, "relative to the file of the", "functions/mine.py", "mine.py"),
]
