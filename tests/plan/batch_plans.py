"""One query text in all its plans: as it is bound, after the logical rules, on two levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowwater.gsql import nodes as syntax
from lowwater.plan.bind.names import declare
from lowwater.plan.bind.queries import Binder, options, read_texts
from lowwater.plan.context import Context, Links
from lowwater.plan.dialect import gigascope
from lowwater.plan.operators import Lfta, LftaInput, Node, walk
from lowwater.plan.queryset import plan_texts
from tests.plan.batch import evaluate
from tests.plan.batch_rows import World, multiset


@dataclass(frozen=True)
class Plans:
    """The plans of one query: `bound` before any rule, `logical` after the logical ones, `high` on two levels."""

    name: str
    bound: Node
    logical: Node
    high: Node
    links: tuple[str, ...]


def plans_of(text: str, links: Links, context: Context | None = None, folders: Sequence[Path] = ()) -> list[Plans]:
    """The plans of every query of a text, internal ones included."""
    files = [("q.gsql", text)]
    plan = plan_texts(files, links, 1, context, folders)
    known: dict[str, Lfta] = {}
    for node in walk(*(query.high for query in plan.queries)):
        # A low-level query is known by its name, so two of one name are one.
        assert not isinstance(node, LftaInput) or known.setdefault(node.lfta.name, node.lfta) == node.lfta, node
    bound = bound_plans(text, links, context, folders)
    used = tuple(sorted(set(plan.links) | {link for query in plan.internal for link in query.links}))
    return [Plans(q.name, bound[q.name], q.logical, q.high, used) for q in (*plan.internal, *plan.queries)]


def bound_plans(
    text: str, links: Links, context: Context | None = None, folders: Sequence[Path] = ()
) -> dict[str, Node]:
    """The plans before the rules."""
    read = read_texts([("q.gsql", text)], folders)
    context = replace(context or Context(), links=links)
    if read.protocols:
        context = replace(context, protocols=declare(read.protocols, context.protocols))
    binder = Binder(context, read.statements)
    bound = {}
    for name, (statement, _) in read.statements.items():
        if not isinstance(statement, syntax.Watchlist):
            bound[name] = binder.query(name)
            if options(statement).get("dialect", context.dialect) == "gigascope":  # it has no NULL
                bound[name] = binder.bound[name] = gigascope(bound[name])
    return bound


def rows_of(node: Node, world: World) -> Counter[tuple[Any, ...]]:
    """The rows of a plan as a multiset."""
    return multiset(evaluate(node, world), [f.name for f in node.fields])


def same_rows(plans: Plans, world: World) -> Counter[tuple[Any, ...]]:
    """The rows of a query, which are those of all its plans; says which differ."""
    expected = rows_of(plans.bound, world)
    for level in ("logical", "high"):
        found = rows_of(getattr(plans, level), world)
        if found != expected:
            missing, extra = list((expected - found).items())[:4], list((found - expected).items())[:4]
            raise AssertionError(f"{plans.name}, {level}: missing {missing}, too many {extra}")
    return expected
