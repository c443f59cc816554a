"""Operators own their facts: one that forgets a fact is no class, and one that nobody knows is an error everywhere."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from lowwater.catalog.expr import Expr, Type
from lowwater.high.slices import evaluate
from lowwater.high.slices.evaluate import Counts, Evaluation
from lowwater.plan import dialect, operators
from lowwater.plan.dialect import gigascope
from lowwater.plan.explain import gsql
from lowwater.plan.explain import operators as explained
from lowwater.plan.explain.gsql import HighText
from lowwater.plan.operators import Cut, Facts, Field, LftaInput, Node, Physical, Source, Unary, Union
from lowwater.plan.rules import Setting
from lowwater.plan.temporal import CLOCK
from lowwater.reference import plan as reference
from lowwater.reference.plan import Operators
from lowwater.stream.operators import Life

PASSING = Facts("strange", passes=True, waits=False, outlives="", promise="")
WAITING = Facts("strange", passes=False, waits=True, outlives="", promise="")
FIELDS = (Field("t", Type.INT, CLOCK),)
KINDS = [kind for kind in vars(operators).values() if isinstance(kind, type) and hasattr(kind, "facts")]
LEAVES = {Source, LftaInput, Cut}


@dataclass(frozen=True)
class Strange(Unary, facts=PASSING):
    """An operator that states its facts, and that no engine has."""

    def exprs(self) -> tuple[Expr, ...]:
        return ()

    def physical(self) -> Physical:
        return Physical("strange", "for a test")


STRANGE = Strange("q", FIELDS, Cut("q", FIELDS, "below"))


def _evaluated(node: Node) -> Any:
    leaves: dict[str, Any] = {"below": lambda: iter(())}
    return list(Evaluation(leaves, {}, Counts((0, 1)), Path()).rows(node))


@pytest.mark.parametrize(
    "ask",
    [
        gigascope,
        _evaluated,
        lambda node: explained.describe_operator(node, None, [], Setting()),
        lambda node: HighText("q", {id(node.inputs()[0]): "below"}).text(node),
        lambda node: Operators(range(0), {}, Life())._make(node, []),
    ],
)
def test_an_operator_that_is_not_known_is_an_error(ask: Callable[[Node], Any]) -> None:
    with pytest.raises(TypeError, match="Strange"):
        ask(STRANGE)


@pytest.mark.parametrize(
    ("table", "without"),
    [
        (evaluate.OPERATORS, LEAVES),
        (reference.OPERATORS, LEAVES | {Union}),
        (dialect.VALUES, {LftaInput, Cut}),
        (explained.DETAILS, {Source, Cut}),
        (gsql.STATEMENTS, LEAVES),
    ],
)
def test_every_operator_is_in_each_table(table: Mapping[type[Node], Any], without: set[type[Node]]) -> None:
    assert {*table} == {*KINDS} - without


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
    assert {name for name, facts in told.items() if facts.passes} == {"Map", "Bucket", "Expand", "Union", "WatchJoin"}
    assert {name for name, facts in told.items() if facts.outlives} == {"Running", "Sampling"}
    assert all(facts.waits for facts in told.values() if facts.outlives)
    assert not any(facts.passes and facts.waits for facts in told.values())


def test_an_operator_has_a_module_of_its_own() -> None:
    folder = Path(operators.__file__).parent
    for file in folder.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        made = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and _has_facts(node)]
        assert len(made) <= 1, (file.name, made)


def _has_facts(node: ast.ClassDef) -> bool:
    return any(keyword.arg == "facts" for keyword in node.keywords)
