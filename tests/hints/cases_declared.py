"""Hints of declarations of functions: what is written before is checked with the text that the hint asks for."""

from __future__ import annotations

from collections.abc import Callable

from lowwater.catalog.user_functions import functions_digest
from lowwater.gsql.declarations import parse_declarations
from tests.catalog.test_user_functions import PYTHON, SPLIT
from tests.hints.desk import Case, Desk, Site
from tests.replay.support import Said

MINE = "MODULE 'mine.py'; "
SCALED = "float FUN scaled(int, float); "
SHARE = f"{SPLIT}float EXTR share total scaled (uint, float); "


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


CASES = [
    # -- texts that do not parse
    _case("no semicolon", "int FUN f(int)", "end every declaration with `;`", "int FUN f(int);"),
    _case("FUNN", "int FUNN f(int);", "did you mean FUN?", "int FUN f(int);"),
    _case("a module in an open string", "MODULE 'mine.py;", "end it with `'` on the line", "MODULE 'mine.py';"),
    _case(
        "a comment with #", "int FUN f(int); # text", "comments begin with -- or //", "int FUN f(int); -- text\n// x"
    ),
    _case("a flag with a value", "int FUN [PARTIAL LOW] f();", "write a comma", "int FUN [PARTIAL, COST LOW] f();"),
    _case(
        "SUBAGGR of nothing",
        f"{MINE}int UDAF [SUBAGGR, SUPERAGGR upper] total int (int);",
        "write `SUBAGGR name`",
        SPLIT,
    ),
    _case("a cost that is small", "int FUN [COST SMALL] f();", "there are: FREE, LOW", "int FUN [COST LOW] f();"),
    _case("LFTA_LEGL", "int FUN [LFTA_LEGL] f();", "did you mean LFTA_LEGAL?", "int FUN [LFTA_LEGAL] f();"),
    # -- declarations that do not fit
    _case(
        "a state that is not declared",
        "BOOL SFUN keep s (UINT);",
        "declare it before: `string STATE s;`",
        "string STATE s; BOOL SFUN keep s (UINT);",
    ),
    _case(
        "a parameter of COMBINABLE",
        "PRED [COMBINABLE] near[uint CLASS, uint];",
        "write one of them behind this type",
        "PRED [COMBINABLE] near[uint CLASS, uint CONST];",
    ),
    _case(
        "a half of a split",
        f"{MINE}int UDAF [SUBAGGR lower] total int (int);",
        "write both, or neither",
        f"{MINE}int UDAF total int (int);",
    ),
    _case(
        "a subaggregate of another type",
        SPLIT.replace("lower fstring8 (uint)", "lower fstring8 (float)"),
        "it takes the same types as the aggregate",
        SPLIT,
    ),
    _case(
        "a superaggregate of another type",
        SPLIT.replace("upper fstring8 (int)", "upper fstring8 (string)"),
        "it takes exactly what lower returns",
        SPLIT,
    ),
    _case(
        "RUNNING above",
        SPLIT.replace("int UDAF upper", "int UDAF [RUNNING] upper"),
        "write RUNNING for both total and upper, or for neither",
        SPLIT.replace("int UDAF upper", "int UDAF [RUNNING] upper").replace("[SUBAGGR", "[RUNNING, SUBAGGR"),
    ),
    _case(
        "a split of a split",
        SPLIT.replace("UDAF lower", "UDAF [SUBAGGR last, SUPERAGGR last] lower"),
        "name one that has no SUBAGGR of its own",
        SPLIT,
    ),
    _case(
        "EXTR of no aggregate",
        f"{SPLIT}float EXTR share nothing scaled (uint, float); {SCALED}",
        "declare it: share(int, float) is scaled(nothing(the first of them), the rest)",
        SHARE + SCALED,
    ),
    _case(
        "EXTR of no function",
        f"{SHARE}float FUN scaled(int, int);",
        "declare it: share(int, float) is scaled(total(the first of them), the rest)",
        SHARE + SCALED,
    ),
    _case(
        "EXTR of sum",
        f"{MINE}int EXTR share sum twice (int); int FUN twice(int);",
        "name an aggregate that is not one of the eight",
        f"{MINE}int UDAF last int (int); int EXTR share last twice (int); int FUN twice(int);",
    ),
    _case(
        "EXTR over sum",
        f"{MINE}int UDAF [SUBAGGR lower, SUPERAGGR sum] total int (int); int UDAF lower int (int); "
        "int EXTR share total twice (int); int FUN twice(int);",
        "name a superaggregate that is not one of the eight",
        f"{SPLIT}int EXTR share total twice (int); int FUN twice(int);",
    ),
    _case(
        "one function of two types",
        f"{MINE}int FUN twice(int);\nfloat FUN twice(uint);",
        "keep one of the two",
        f"{MINE}int FUN twice(int);",
    ),
    Case("a digest of no module", _digest("functions/mine.py"), "relative to the file of the", _digest("mine.py")),
]

LEFT: dict[Site, str] = {}
"""Where hints are made that no test can follow, each with the reason."""
