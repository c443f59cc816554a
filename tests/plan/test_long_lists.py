"""ANDs and ORs of any number are a flat list, not nesting; a chain of other operators has a limit that says so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from lowwater.catalog.expr import Binary, Const, Expr, Type, conjuncts, joined, show
from lowwater.cli.main import cli
from lowwater.errors import QueryError
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file
from lowwater.low import LowSettings
from lowwater.plan.context import Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.stream.values import Faults, compile_expr
from tests.lftamaker import SECOND, col, data, lit, make, op as binary, records, run

MANY = 2_000
PACKETS = [{"timestamp": at * SECOND, "len": 60 + at} for at in range(4)]


def text(op: str) -> str:
    """A query that lets the last two of PACKETS through (AND), or the first two (OR)."""
    tests = {
        "AND": [f"len <> {62 - n}" for n in range(1, MANY + 1)],
        "OR": [f"len = {62 - n}" for n in range(1, MANY + 1)],
    }
    return f"SELECT time, len FROM a.UDP WHERE {f' {op} '.join(tests[op])}"


def planned(op: str) -> Plan:
    return plan_texts([("q.gsql", text(op))], Links(("a",)))


@pytest.mark.slow
@pytest.mark.parametrize("op", ["AND", "OR"])
def test_a_list_of_thousands_is_printed_as_it_is_written(op: str) -> None:
    tree = parse(text(op))
    printed = print_file(tree)
    assert parse(printed) == tree
    assert printed.split("WHERE ")[1].strip() == text(op).split("WHERE ")[1]


@pytest.mark.slow
@pytest.mark.parametrize("op", ["AND", "OR"])
def test_a_list_of_thousands_is_planned_and_explained(op: str, tmp_path: Path) -> None:
    (lfta,) = planned(op).lftas
    parts = [part for each in conjuncts(lfta.predicate) for part in show(each).split(" OR ")]
    assert [part for part in parts if part.startswith("len")] == text(op).split("WHERE ")[1].split(f" {op} ")
    path = tmp_path / "q.gsql"
    path.write_text(text(op))
    for form in ("text", "json", "mermaid"):
        found = CliRunner().invoke(cli, ["explain", "--format", form, str(path)])
        assert found.exit_code == 0, found.output[-500:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "compared", "through"), [("AND", "<>", [62, 63]), ("OR", "=", [60, 61]), ("AND", "mod", [62, 63])]
)
def test_a_list_of_thousands_runs_in_the_kernel_and_in_the_reference_engine(
    op: str, compared: str, through: list[int]
) -> None:
    def operand(number: int) -> Expr:
        # What can fail takes another way through the kernel than what cannot.
        value = binary(col("len"), "%", binary(col("len"), "+", lit(number))) if compared == "mod" else col("len")
        return binary(value, "<>" if op == "AND" else "=", lit(62 - number))

    predicate = joined(op, [operand(number) for number in range(1, MANY + 1)])
    lfta = make("q", {"time": col("time"), "len": col("len")}, [], predicate=predicate, protocol="ETH")
    streams, _ = run([lfta], records(PACKETS), LowSettings(skew=0, compiled=False))
    assert [row["len"] for row in data(streams["q"])] == through
    holds = compile_expr(predicate, ["len"], Faults())
    assert [row["len"] for row in PACKETS if holds((row["len"],))] == through


@pytest.mark.slow
@given(
    op=st.sampled_from(["AND", "OR"]), values=st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=600)
)
def test_the_value_is_that_of_one_operand_after_another(op: str, values: Sequence[bool | None]) -> None:
    parts: list[Expr] = [Const(Type.BOOL, value) for value in values]
    leaning = reduce(lambda left, right: Binary(Type.BOOL, op, left, right), parts[:100])
    assert value_of(joined(op, parts[:100])) is value_of(leaning)
    decisive = op == "OR"
    assert value_of(joined(op, parts)) is (decisive if decisive in values else None if None in values else not decisive)
    assert conjuncts(joined("AND", parts)) == parts


def value_of(expr: Expr) -> object:
    return compile_expr(expr, [], Faults())(())


@pytest.mark.parametrize(
    ("chain", "said"),
    [
        ("a" + " + a" * MANY, r"1:8: a chain of 2,000 operators `\+`, more than 199"),
        ("a" + " + a - b" * 100, r"1:8: a chain of 200 operators `\+` and `-`, more than 199"),
        ("3*(a" + " | a" * 200 + ")", r"1:11: a chain of 200 operators `\|`, more than 199"),
    ],
)
def test_a_chain_of_other_operators_is_refused_as_what_it_is(chain: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        parse(f"SELECT {chain} FROM R")
