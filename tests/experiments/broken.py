"""Small measurements that tests share, and broken policies, to see that verdicts can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from experiments import model
from experiments.frame import Experiment, Measurement, Size, Verdict
from experiments.model import Stream
from lowwater.plan.operators import Node

_FOUND: dict[Any, Any] = {}


def said(experiment: Experiment, rows: Sequence[Measurement]) -> list[bool | None]:
    """Whether each claim holds."""
    found = experiment.verdicts(rows)
    assert all(isinstance(each, Verdict) and each.claim and each.ours for each in found)
    return [each.holds for each in found]


def small(module: ModuleType) -> list[Measurement]:
    """Rows of the smallest size; they can be shown. Evaluations are kept for the broken policies."""
    experiment: Experiment = module.EXPERIMENT
    with pytest.MonkeyPatch.context() as patch:
        for function in (model.memory, model.timed, model.objects, model.calls):
            if hasattr(module, function.__name__):
                patch.setattr(module, function.__name__, once(function))
        rows = experiment.measure(Size.QUICK)
    assert experiment.panels(rows) and set(experiment.columns) <= {name for row in rows for name in row}
    return rows


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the model that evaluates the same plan over the same streams once."""

    def found(node: Node, streams: Mapping[str, Stream], *others: Any) -> Any:
        key = (function.__name__, repr(node), tuple(streams.items()), others)
        if key not in _FOUND:
            _FOUND[key] = function(node, streams, *others)
        return _FOUND[key]

    return found


def order_is_lost(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Merges that hand rows on: the in-order architecture without what it is about."""
    for function in (model.memory, model.timed, model.objects, model.calls):
        if hasattr(module, function.__name__):
            monkeypatch.setattr(module, function.__name__, _out_of_order(once(function)))


def _out_of_order(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, streams, form, *others: function(node, streams, "oop", *others)


def heartbeats_are_lost(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """No promise before the end."""

    def memory(node: Node, streams: Mapping[str, Stream], form: str, *_: Any) -> Any:
        return once(model.memory)(node, streams, form, 1.0, "none")

    monkeypatch.setattr(module, "memory", memory)
