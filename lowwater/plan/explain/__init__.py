"""EXPLAIN: a plan as text, JSON or mermaid.

Reads the same plan objects as the engines. `describe` computes the contents once, with both levels as GSQL; `text`
prints them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lowwater.errors import LowwaterError
from lowwater.plan.explain.describe import describe
from lowwater.plan.explain.model import Description, MemoryInfo, render_json
from lowwater.plan.explain.text import render_mermaid, render_text
from lowwater.plan.queryset import Plan

FORMS: dict[str, Callable[[Description], str]] = {
    "text": render_text,
    "json": render_json,
    "mermaid": render_mermaid,
}


def explain(plan: Plan, form: str = "text", memory: MemoryInfo | None = None) -> str:
    """Returns the plan of a query set in one form. Raises LowwaterError if the form is unknown. `memory`: what bounds
    the memory of a run; None to leave it out."""
    if form not in FORMS:
        raise LowwaterError(f"a plan is not explained as {form!r}", f"there are: {', '.join(FORMS)}")
    return FORMS[form](replace(describe(plan), memory=memory))


__all__ = ["FORMS", "describe", "explain"]
