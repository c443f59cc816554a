"""The values of expressions at their edges, written by hand."""

from __future__ import annotations

from dataclasses import dataclass

Value = int | float | bool | str | None

LEAST = "(-9223372036854775807 - 1)"
MOST = "9223372036854775807"
MIN, MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Same:
    """Says that the dialect has the same value."""


SAME = Same()


@dataclass(frozen=True)
class Case:
    """One expression."""

    text: str
    value: Value
    dialect: Value | Same = SAME

    @property
    def old(self) -> Value:
        """The value in the dialect."""
        return self.value if isinstance(self.dialect, Same) else self.dialect


INTEGERS = (
    Case(f"{MOST} + 1", None),
    Case(f"{MOST} - (-1)", None),
    Case(f"{LEAST} - 1", None),
    Case(f"{LEAST} + {MOST}", -1),
    Case("4294967295 + 1", 1 << 32, 0),
    Case("0 - 1", -1, (1 << 32) - 1),
    Case(f"{MOST}*2", None),
    Case(f"{LEAST}*(-1)", None),
    Case("3037000500*3037000500", None, 145474192),
    Case("65536*65536", 1 << 32, 0),
    Case(f"-{LEAST}", None),
    Case(f"-{MOST}", -MAX),
    Case("7/2", 3),
    Case("(-7)/2", -3),
    Case("7/(-2)", -3),
    Case("7%(-2)", 1),
    Case("(-7)%2", -1),
    Case("7/0", None),
    Case("7%0", None),
    Case("0/0", None),
    Case(f"{LEAST}/(-1)", None),
    Case(f"{LEAST}%(-1)", 0),
    Case(f"{LEAST}/{LEAST}", 1),
    Case(f"{MOST}%{LEAST}", MAX),
)

BITS = (
    Case("1 << 0", 1),
    Case("1 << 31", 1 << 31),
    Case("3 << 31", 3 << 31, 1 << 31),
    Case("1 << 32", 1 << 32, 0),
    Case("1 << 62", 1 << 62, 0),
    Case("1 << 63", None, 0),
    Case("3 << 62", None, 0),
    Case("0 << 63", 0),
    Case("(-1) << 31", -(1 << 31)),
    Case("(-1) << 63", MIN, 0),
    Case("(-2) << 63", None, 0),
    Case(f"{MOST} << 1", None),
    Case(f"{LEAST} << 0", MIN),
    Case(f"{LEAST} << 1", None),
    Case("1 << 64", None),
    Case("0 << 64", None),
    Case("1 << (-1)", None),
    Case(f"1 << {LEAST}", None),
    Case("1 << 4294967297", None),
    Case("(-8) >> 1", -4),
    Case("(-8) >> 63", -1),
    Case("8 >> 63", 0),
    Case("8 >> 64", None),
    Case("8 >> (-1)", None),
    Case("8 >> 4294967297", None),
    Case("~0", -1),
    Case(f"~{LEAST}", MAX),
    Case(f"{LEAST} & {MOST}", 0),
    Case(f"{LEAST} | {MOST}", -1),
)

FLOATS = (
    Case("1e308 + 1e308", None),
    Case("0.0 - 1e308 - 1e308", None),
    Case("1e308*10", None),
    Case("1e308/1e-10", None),
    Case("1/(1e308*10)", None),
    Case("1e-308/1e308", 0.0),
    Case("1.5/0", None),
    Case("0.0/0.0", None),
    Case("(-0.0) + 0.0", 0.0),
    Case("1/4.0", 0.25),
    Case("5/2*1.0", 2.0),
    Case(f"{MOST} + 0.0", float(1 << 63)),
    Case("fmod(7.5, 2.0)", 1.5),
    Case("fmod(1.0, 0.0)", None),
    Case("pow(10.0, 400.0)", None),
    Case("pow(0.0, -1.0)", None),
    Case("sqrt(-1.0)", None),
    Case("log(0.0)", None),
)

COMPARISONS = (
    Case(f"{LEAST} < {MOST}", True),
    Case(f"{MOST} = {MOST} + 0.0", True),
    Case(f"{MOST} < 9223372036854775808.0", False),
    Case("0.0 = -0.0", True),
    Case("7/0 = 7/0", None),
    Case("1 << 63 IS NULL", True, False),
    Case("7/0 = 1 AND 1 = 2", False),
    Case("7/0 = 1 OR 1 = 1", True),
    Case("7/0 = 1 AND 1 = 1", None),
    Case("7/0 = 1 OR 1 = 2", None),
    Case("NOT 7/0 = 1", None),
)

FUNCTIONS = (
    Case("INT(2.9)", 2),
    Case("INT(-2.9)", -2),
    Case("INT(9223372036854774784.0)", 9223372036854774784),
    Case("INT(9223372036854775808.0)", None),
    Case("INT(-9223372036854775808.0)", MIN),
    Case("INT(1e300)", None),
    Case("INT(1e308*10)", None),
    Case("UINT(-1)", -1),
    Case("INT(TRUE)", 1),
    Case(f"FLOAT({LEAST})", float(MIN)),
    Case("LLMIN(-1, 1)", -1),
    Case("LLMAX(1e300, 1.0)", None),
    Case("IF(7/0 = 1, 1, 2)", None),
    Case("CASE WHEN 7/0 = 1 THEN 1 ELSE 2 END", 2),
    Case("endian_swap_ui(1)", 1 << 24),
)

PARTS: dict[str, tuple[Case, ...]] = {
    "integers": INTEGERS,
    "bits": BITS,
    "floats": FLOATS,
    "comparisons": COMPARISONS,
    "functions": FUNCTIONS,
}
CASES = tuple(case for cases in PARTS.values() for case in cases)


def shown(value: Value) -> str:
    """A value as the documents write it."""
    if value is None:
        return "NULL"
    return str(value).upper() if isinstance(value, bool) else repr(value)


def query(over_groups: bool, dialect: str) -> str:
    """One query that computes every case: of packets in the low level, of groups in the high level."""
    items = ", ".join(f"{case.text} AS v{at}" for at, case in enumerate(CASES))
    name = f"{'groups' if over_groups else 'packets'}_{dialect}"
    head = f"DEFINE {{ query_name '{name}'; dialect '{dialect}'; }}"
    if over_groups:
        return f"{head}\nSELECT tb, count(*) AS n, {items} FROM main1.TCP GROUP BY time/3600 AS tb"
    return f"{head}\nSELECT time, {items} FROM main1.TCP"


SUMS: tuple[tuple[str, tuple[float, ...], float | None], ...] = (
    ("as far as they go", (1e288, 1e288, -1e288), 1e288),
    ("a value above 2^960, whatever its sign and place", (1e300, -1e300, 1.0), None),
    ("the same in another order", (1.0, -1e300, 1e300), None),
    ("a sum that some order would take beyond a float", (1.7e308, 1.7e308, -1.7e308), None),
    ("nothing to lose", (2.0**960, 2.0**960, -(2.0**960)), 2.0**960),
    ("zeros", (0.0, -0.0), 0.0),
)
"""Sums of floats: what is shown, the values, the sum."""
