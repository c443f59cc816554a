"""G1: the verdicts on flush policies, over rates of a small model and over rows that are given."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import g1, kernel_steps
from experiments.frame import Measurement
from experiments.smoothing import Policy
from tests.experiments.broken import said

pytestmark = [pytest.mark.bench, pytest.mark.slow]

KERNEL: dict[str, Any] = {
    "longest": 20.0,
    "system": 15.0,
    "visits": 8,
    "rows": 0.5,
    "counted": 0.5,
    "taken": 40.0,
    "table": 33.0,
}
PART = 64


def kernel(**kept: Any) -> list[Measurement]:
    """Rows of the kernel: new buffers take memory of the system, kept ones do not."""
    without = {"longest": 8.0, "system": 0.0, **kept}
    found: list[Measurement] = [
        {**KERNEL, **(without if buffers == "kept" else {}), "buffers": buffers, "policy": policy, "size": size}
        for buffers in ("new", "kept")
        for policy in g1.POLICIES
        for size in ("1", "2")
    ]
    return [*found, {"packet": 97.0, "row": 20.0, "slot": 4.4}]


def modelled() -> list[Measurement]:
    """The model at a small part of the paper's size."""
    return [
        row
        for groups in g1.GROUPS
        for size in g1.SIZES
        for policy in g1.POLICIES
        for row in g1.model(groups, size, policy, PART)
    ]


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return modelled()


def test_the_verdicts_of_a_small_model(rows: list[Measurement]) -> None:
    found = [*rows, *kernel()]
    assert said(g1.EXPERIMENT, found) == [False, True, True, False, True, False, True, True]
    assert all(each.cause for each in g1.EXPERIMENT.verdicts(found) if not each.holds)
    assert g1.EXPERIMENT.panels(found) and len(g1.shown(found)) == len(g1.GROUPS) * 9 + 13


def test_rows_as_dear_as_packets_turn_the_first_verdict(rows: list[Measurement]) -> None:
    """The experiment that shows the cause."""
    swapped = {g1.OURS: g1.DEAR, g1.DEAR: g1.OURS}
    dear: list[Measurement] = [{**row, "costs": swapped[str(row["costs"])]} for row in rows]
    assert said(g1.EXPERIMENT, [*dear, *kernel()])[:3] == [True, True, True]


def test_a_flush_without_order_turns_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(g1.POLICIES, "IOP", Policy(160, 2, False))
    found = said(g1.EXPERIMENT, [*modelled(), *kernel()])
    assert found[:2] == [False, False] and found[4] is False


def test_a_policy_without_delay_is_a_burst(rows: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(g1.POLICIES, "OOP(sf)", Policy(0, 0, False))
    assert said(g1.EXPERIMENT, [*modelled(), *kernel()])[1] is False


@pytest.mark.parametrize(("kept", "at"), [({"longest": 20.0}, -2), ({"rows": 0.52}, -1)])
def test_another_cause_in_the_kernel_turns_its_verdict(rows: list[Measurement], kept: dict[str, Any], at: int) -> None:
    assert said(g1.EXPERIMENT, [*rows, *kernel(**kept)])[at] is False


@pytest.mark.parametrize("keeps", [False, True])
def test_the_kernel_counts_rows_and_slots(keeps: bool) -> None:
    found = kernel_steps.run("slow 1", 1 << 10, 1 << 11, 20_000, keeps)
    steps = found.first
    assert len(found.seconds) == len(found.rows) == kernel_steps.WINDOWS * steps
    # In a table of twice the groups most groups of a window leave in the first step of the next, which reads the table.
    assert found.rows[0] < 300 and found.rows[steps] > 900
    assert (max(found.taken) > found.table) is not keeps
    assert found.slots[steps] >= 1 << 11 and sum(found.rows) <= found.out * 4 * 20_000


def test_costs_are_those_of_the_steps() -> None:
    made = kernel_steps.Steps(1, rows=[0, 9, 0, 5], slots=[0, 0, 70, 30])
    made.seconds = [
        1.0,
        *((4096 * 100 + 20 * r + 4 * s) / 1e9 for r, s in zip(made.rows[1:], made.slots[1:], strict=True)),
    ]
    assert kernel_steps.costs([made]) == pytest.approx((100, 20, 4))


def test_the_least_of_runs_is_taken_by_step() -> None:
    first, second = (
        kernel_steps.Steps(0, each, [0.0, 0.0], [0, 0], [1, 2], [3, 4]) for each in ([1.0, 4.0], [2.0, 3.0])
    )
    assert kernel_steps.least([first, second]).seconds == [1.0, 3.0]
