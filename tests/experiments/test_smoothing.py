"""The table of 002, section 6, in operations: what must be so of each policy."""

from __future__ import annotations

import pytest

from experiments.smoothing import Policy, steps

GROUPS, SLOTS, PACKETS = 1 << 8, 1 << 14, 200_000
"""A table that is nearly without collisions."""


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Policy(1, 1, True), Policy(160, 2, False), Policy(0, 2, False)])
def test_each_group_of_a_window_leaves_once(policy: Policy) -> None:
    found = steps(policy, GROUPS, SLOTS, PACKETS)
    assert found.packets.sum() == PACKETS
    assert found.rows.sum() == pytest.approx(GROUPS, rel=0.1)


def test_small_tables_give_more_rows() -> None:
    found = [steps(Policy(160, 2, False), 1 << 12, slots, PACKETS).rows.sum() for slots in (1 << 11, 1 << 12, 1 << 13)]
    assert found == sorted(found, reverse=True)
