"""Operators own their facts: one that forgets a fact is no class, and one that nobody knows is an error everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pytest

from lowwater.catalog.expr import Const, Expr, Type
from lowwater.high import evaluate
from lowwater.high.evaluate import Counts, Evaluation
from lowwater.plan import dialect, operators
from lowwater.plan.dialect import gigascope
from lowwater.plan.explain.describe import DETAILS, STATEMENTS, HighText, describe_operator
from lowwater.plan.operators import (
    Bucket,
    Cut,
    Expand,
    Facts,
    Field,
    Fill,
    LftaInput,
    Node,
    OneInput,
    Physical,
    Source,
    Union,
)
from lowwater.plan.rules import Setting
from lowwater.plan.shares import SubGroup, SuperGroup
from lowwater.plan.temporal import CLOCK
from lowwater.reference import engine as reference
from lowwater.reference.engine import Operators
from lowwater.stream import maps
from lowwater.stream.operators import Life, Row, StreamOperator

PASSING = Facts("strange", passes=True, waits=False, outlives="", promise="")
EVALUATING = Facts("strange", passes=False, waits=False, outlives="", promise="")
WAITING = Facts("strange", passes=False, waits=True, outlives="", promise="")
FIELDS = (Field("t", Type.INT, CLOCK),)
KINDS = {
    kind
    for kind in vars(operators).values()
    if isinstance(kind, type) and issubclass(kind, Node) and "facts" in vars(kind)
}
LEAVES = {Source, LftaInput, Cut}
PHASES = {SubGroup, SuperGroup}
"""Of a stage, not of a plan."""


@dataclass(frozen=True)
class Strange(OneInput, facts=EVALUATING):
    """An operator that states its facts, and that no engine has."""

    def exprs(self) -> tuple[Expr, ...]:
        return (Const(Type.INT, 1),)

    def physical(self) -> Physical:
        return Physical("strange", "for a test")


@dataclass(frozen=True)
class Twice(OneInput, facts=PASSING):
    """An operator that hands each row on twice, and that only the tuple-at-a-time engine has."""

    def exprs(self) -> tuple[Expr, ...]:
        return ()

    def physical(self) -> Physical:
        return Physical("expansion", "for a test")


class TwiceOperator(StreamOperator):
    """Each row twice, with its number."""

    def __init__(self, node: Twice, below: StreamOperator) -> None:
        super().__init__()

    def row(self, port: int, row: Row) -> None:
        """Emits both."""
        for number in range(2):
            self.emit(row._replace(values=(*row.values, number)))


STRANGE = Strange("q", FIELDS, Cut("q", FIELDS, "below"))


TWICE = Twice("q", (*FIELDS, Field("n", Type.INT)), Cut("q", FIELDS, "below"))


def _evaluated(node: Node) -> Any:
    leaves: dict[str, Any] = {"below": lambda: iter(())}
    return list(Evaluation(leaves, {}, Counts((0, 1)), Path()).rows(node))


@pytest.mark.parametrize(
    "ask",
    [gigascope, _evaluated, lambda node: describe_operator(node, None, [], Setting()),
     lambda node: HighText("q", {id(node.inputs()[0]): "below"}).text(node),
     lambda node: Operators(range(0), {}, Life()).make(node, [])],
)  # fmt: skip
def test_an_operator_that_is_not_known_is_an_error(ask: Callable[[Node], Any]) -> None:
    with pytest.raises(TypeError, match="Strange"):
        ask(STRANGE)


@pytest.mark.parametrize(
    ("table", "without"),
    [(evaluate.OPERATORS, LEAVES), (reference.OPERATORS | maps.OPERATORS, LEAVES | {Union}),
     (dialect.VALUES, {LftaInput, Cut, Bucket, Expand, Fill}), (DETAILS, {Source, Cut, Union}), (STATEMENTS, LEAVES)],
)  # fmt: skip
def test_every_operator_is_in_each_table(table: Mapping[type[Node], Any], without: set[type[Node]]) -> None:
    handed_on = {kind for kind in KINDS if issubclass(kind, OneInput) and kind.facts.passes}
    assert KINDS - PHASES - without - handed_on <= {*table} - PHASES <= KINDS - without


def test_the_reference_engine_makes_an_operator_that_hands_rows_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(maps.OPERATORS, Twice, TwiceOperator)
    assert isinstance(Operators(range(0), {}, Life()).make(TWICE, [StreamOperator()]), TwiceOperator)
    assert describe_operator(TWICE, None, [], Setting()).kind == "strange"


def test_the_dialect_carries_widths_through_an_operator_that_hands_rows_on() -> None:
    source = Cut("below", (Field("t", Type.INT, CLOCK, "uint"),), "below")
    (carried, own) = gigascope(replace(TWICE, input=source)).fields
    assert (carried.declared, own.declared) == ("uint", "")


def test_a_class_that_forgets_a_fact_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Lost: an operator states facts=Facts\(...\)"):

        class Lost(Strange):
            pass

    with pytest.raises(TypeError, match="Bare: an operator with these facts states over, physical"):

        class Bare(Node, facts=PASSING):
            def inputs(self) -> tuple[Node, ...]:
                return ()

            def exprs(self) -> tuple[Expr, ...]:
                return ()

    with pytest.raises(TypeError, match="Still: an operator with these facts states reads_from, ends, final, origins"):

        class Still(Strange, facts=WAITING):
            def over(self, *inputs: Node) -> Self:
                return self

    with pytest.raises(TypeError, match="promise"):
        Facts("strange", passes=True, waits=True, outlives="")  # type: ignore[call-arg]


def test_the_facts_of_every_operator() -> None:
    told = {kind.__name__: kind.facts for kind in KINDS}
    passing = {"Map", "Bucket", "Expand", "Union", "WatchJoin"}
    other = {"Group", "Running", "Sampling", "Join", "FilterJoin", "Source", "LftaInput", "Cut"}
    assert passing <= {name for name, facts in told.items() if facts.passes} <= {*told} - other
    assert {name for name, facts in told.items() if facts.outlives} == {"Over", "Running", "Sampling"}
    assert all(facts.waits for facts in told.values() if facts.outlives)
    assert {name for name, facts in told.items() if facts.passes and facts.waits} == {"Over"}
