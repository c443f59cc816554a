"""Declarations of functions parse as GSQL's do, and what is wrong with them is said with its place."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from lowwater.errors import QueryError, QueryErrors
from lowwater.gsql.declarations import COSTS, FLAGS, Declaration, FunctionParameter, Module, parse_declarations
from lowwater.limits import DECLARATIONS_BYTES

EVERY_FORM = """
-- one of each, in the forms that GSQL's own file has
// both kinds of comments
MODULE 'mine.py';
        PRED [LFTA_LEGAL, COST HIGH]starts[string, string CONST CLASS];
uint FUN [LFTA_LEGAL, COST EXPENSIVE]
\tmatch( string, string HANDLE);
llong (increasing) FUN next(llong (increasing, snap_len 10));
uint UDAF [RUNNING, SUBAGGR FIRST_lfta, SUPERAGGR FIRST_hfta] FIRST uint (uint);
float EXTR extr_avg avg_udaf extr_avg_fcn (uint, FLOAT);
MODULE 'other''s.py';
fstring20 STATE manku; BOOL SFUN local_count manku (UINT);
        int SFUN current_bucket manku ();
"""


def read(text: str) -> tuple[Declaration, ...]:
    return parse_declarations(text, "x.fun").declarations


def test_every_form() -> None:
    mine, other = Module("mine.py"), Module("other's.py")
    text, number, real = (FunctionParameter(kind) for kind in ("string", "uint", "FLOAT"))
    handle = FunctionParameter("string", (), "HANDLE")
    increasing = FunctionParameter("llong", ("increasing", "snap_len 10"))
    split = (("RUNNING", ""), ("SUBAGGR", "FIRST_lfta"), ("SUPERAGGR", "FIRST_hfta"))
    legal = ("LFTA_LEGAL", "")
    constant = (text, FunctionParameter("string", (), "CONST", True))
    assert read(EVERY_FORM) == (
        Declaration("PRED", "starts", "", (), (legal, ("COST", "HIGH")), constant, (), mine),
        Declaration("FUN", "match", "uint", (), (legal, ("COST", "EXPENSIVE")), (text, handle), (), mine),
        Declaration("FUN", "next", "llong", ("increasing",), (), (increasing,), (), mine),
        Declaration("UDAF", "FIRST", "uint", (), split, (number,), ("uint",), mine),
        Declaration("EXTR", "extr_avg", "float", (), (), (number, real), ("avg_udaf", "extr_avg_fcn"), mine),
        Declaration("STATE", "manku", uses=("fstring20",), module=other),
        Declaration("SFUN", "local_count", "BOOL", (), (), (FunctionParameter("UINT"),), ("manku",), other),
        Declaration("SFUN", "current_bucket", "int", (), (), (), ("manku",), other),
    )


MISTAKES = [  # others, with what their hints ask for: tests/hints/table.txt
    (
        "int FUNN f(int);",
        "x.fun:1:5: unexpected `FUNN`: expected `(`, `EXTR`, `FUN`, `SFUN`, `STATE` or `UDAF`\n  int FUNN f(int);\n"
        "      ^\n  hint: did you mean FUN?",
    ),
    ("int FUN f(uint CONTS);", "unexpected `CONTS`: expected `,`, `(`, `)`, `CLASS`, `CONST` or `HANDLE`"),
    ("PRED p{int};", "x.fun:1:7: unexpected `{`: expected `(` or `[`"),
    ("int UDAF (int);", "x.fun:1:10: unexpected `(`: expected `[` or a name"),
    ("int FUN [] f(int);", "unexpected `]`: expected a name"),
    (";", "x.fun:1:1: unexpected `;`: expected a name, `MODULE` or `PRED`"),
    ("MODULE mine.py;", "x.fun:1:8: unexpected `mine`: expected a string"),
    ("int FUN [LFTA] f();", "x.fun:1:10: unknown modifier LFTA\n  int FUN [LFTA] f();\n           ^"),
    ("int FUN [COST] f();", "COST is no class of costs"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        read(text)
    assert not isinstance(caught.value, QueryErrors)
    assert message in str(caught.value)


def test_a_text_that_is_too_long() -> None:
    with pytest.raises(QueryError, match="more than 1,000,000"):
        read("-" * (DECLARATIONS_BYTES + 1))


TOKENS = ["FUN", "PRED", "UDAF", "EXTR", "SFUN", "STATE", "MODULE", "HANDLE", "CONST", "CLASS", "COST", *COSTS, *FLAGS]
TOKENS += ["(", ")", "[", "]", ",", ";", "int", "f", "'x.py'", "'", "7", "--", "\n", "§", "//", "\x00"]


@pytest.mark.slow
@given(st.lists(st.sampled_from(TOKENS), max_size=40).map(" ".join) | st.text(max_size=60))
def test_random_texts_raise_nothing_else(text: str) -> None:
    try:
        read(text)
    except QueryError as error:
        assert str(error)
