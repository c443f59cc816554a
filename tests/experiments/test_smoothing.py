"""The table of 002, section 6, in operations: what must be so of each policy."""

from __future__ import annotations

import pytest

from experiments.smoothing import STEP, Costs, Policy, steps

GROUPS, SLOTS, PACKETS = 1 << 8, 1 << 14, 200_000
"""A table that is nearly without collisions."""


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Policy(1, 1, True), Policy(160, 2, False), Policy(0, 2, False)])
def test_each_group_of_a_window_leaves_once(policy: Policy) -> None:
    found = steps(policy, GROUPS, SLOTS, PACKETS)
    assert found.packets.sum() == PACKETS
    assert found.rows.sum() == pytest.approx(GROUPS, rel=0.1)


def test_slow_flush_takes_a_group_every_so_many_packets() -> None:
    found = steps(Policy(160, 2, False), GROUPS, SLOTS, PACKETS)
    assert found.rows[: GROUPS // 7].max() <= STEP // 160 + 2
    # All slots are visited once, and none when nothing is left.
    assert found.slots.sum() <= SLOTS and found.slots[-1] == 0


def test_lazy_flush_leaves_groups_to_the_deadline() -> None:
    found = steps(Policy(0, 2, False), GROUPS, SLOTS, PACKETS)
    assert found.rows[0] > 0.9 * GROUPS and found.rows[1:].sum() < 0.1 * GROUPS


def test_a_collision_flushes_all_in_order_only() -> None:
    full = GROUPS * 16
    ordered, free = (steps(Policy(0, 1, order), full, full, PACKETS) for order in (True, False))
    # A group of the new window leaves after all of the old one, so these go together, in one of the first steps.
    assert ordered.rows[:4].max() > 0.5 * full > free.rows[:4].max()


def test_small_tables_give_more_rows() -> None:
    found = [steps(Policy(160, 2, False), 1 << 12, slots, PACKETS).rows.sum() for slots in (1 << 11, 1 << 12, 1 << 13)]
    assert found == sorted(found, reverse=True)


def test_seconds_are_those_of_the_operations() -> None:
    found = steps(Policy(1, 1, True), GROUPS, SLOTS, PACKETS)
    work = found.work(Costs(100.0, 10.0, 1.0))
    seconds = (100 * PACKETS + 10 * found.rows.sum() + found.slots.sum()) / 1e9
    assert work.seconds.sum() == pytest.approx(2 * seconds) and work.packets.sum() == 2 * PACKETS
