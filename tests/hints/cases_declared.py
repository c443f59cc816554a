"""Hints of declarations of functions: what is written before is checked with the text that the hint asks for."""

from __future__ import annotations

from collections.abc import Callable

from lowwater.catalog.user_functions import functions_digest
from lowwater.gsql.declarations import parse_declarations
from tests.catalog.test_user_functions import PYTHON, SPLIT
from tests.hints.desk import Case, Desk
from tests.replay.support import Said

MINE = "MODULE 'mine.py'; "


def _checked(text: str) -> Callable[[Desk], Said]:
    """Checks a query with these declarations, beside which lies mine.py."""

    def checked(desk: Desk) -> Said:
        desk.write("mine.py", PYTHON)
        return desk.run("check", desk.query("SELECT time FROM TCP"), "--functions", desk.write("mine.fun", text))

    return checked


def _case(name: str, wrong: str, hint: str, right: str) -> Case:
    return Case(name, _checked(wrong), hint, _checked(right))


def _digest(name: str) -> Callable[[Desk], None]:
    """The digest of declarations that name this module."""

    def digest(desk: Desk) -> None:
        desk.write("functions/mine.py", PYTHON)
        file = desk.write("functions/mine.fun", f"MODULE '{name}'; int FUN twice(int);")
        assert functions_digest([file], parse_declarations)

    return digest


CASES: list[Case] = [
    _case(
        "EXTR over sum",
        f"{MINE}int UDAF [SUBAGGR lower, SUPERAGGR sum] total int (int); int UDAF lower int (int); "
        "int EXTR share total twice (int); int FUN twice(int);",
        "name a superaggregate that is not one of the eight",
        f"{SPLIT}int EXTR share total twice (int); int FUN twice(int);",
    ),
    Case("a digest of no module", _digest("functions/mine.py"), "relative to the file of the", _digest("mine.py")),
]
