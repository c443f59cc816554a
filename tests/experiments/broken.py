"""Broken policies, to see that verdicts can fail."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from experiments import model
from experiments.frame import Experiment, Measurement, Size, Verdict


def said(experiment: Experiment, rows: Sequence[Measurement]) -> list[bool | None]:
    """Whether each claim holds."""
    found = experiment.verdicts(rows)
    assert all(isinstance(each, Verdict) and each.claim and each.ours for each in found)
    return [each.holds for each in found]


def measured(experiment: Experiment) -> list[Measurement]:
    """Rows of the smallest size; they can be shown."""
    rows = experiment.measure(Size.QUICK)
    assert experiment.panels(rows) and set(experiment.columns) <= {name for row in rows for name in row}
    return rows


def order_is_lost(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Merges that hand rows on: the in-order architecture without what it is about."""

    def memory(node: Any, streams: Any, form: str, *others: Any) -> model.Memory:
        return model.memory(node, streams, "oop", *others)

    def timed(node: Any, streams: Any, form: str, *others: Any) -> model.Timed:
        return model.timed(node, streams, "oop", *others)

    monkeypatch.setattr(module, "memory", memory)
    monkeypatch.setattr(module, "timed", timed, raising=False)


def heartbeats_are_lost(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """No promise before the end."""

    def memory(node: Any, streams: Any, form: str, period: float = 1.0, policy: str = "none") -> model.Memory:
        return model.memory(node, streams, form, period, "none")

    monkeypatch.setattr(module, "memory", memory)
