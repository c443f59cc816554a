"""The table of 002, section 6, counted in operations: what each step of a flush policy does.

Beside `lowwater.low`, whose kernel takes seconds: here a step has numbers of packets, rows and visited slots. Costs of
these operations make seconds of them, so that the rate that a policy sustains is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit  # type: ignore[import-untyped]
from numpy.typing import NDArray

from experiments.ring import Work

Counts = NDArray[np.int64]
STEP = 1_024
"""Packets of a step, where a window has as many as the paper's."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds of a processor for each operation.

    Attributes:
        packet: a packet that finds its slot.
        row: a group that leaves the table.
        slot: a slot that is visited in search of groups of a closed window.
    """

    packet: float
    row: float
    slot: float


@dataclass(frozen=True)
class Policy:
    """A flush policy.

    Attributes:
        every: packets between two groups that are flushed; 0 for never (lazy).
        windows: windows that a group may stay after its own.
        ordered: whether groups of closed windows leave before any other.
    """

    every: int
    windows: int
    ordered: bool


@dataclass(frozen=True)
class Steps:
    """Operations of each step of the last window.

    Attributes:
        packets: of each step, as are `rows` and `slots`.
    """

    packets: Counts
    rows: Counts
    slots: Counts

    def work(self, costs: Costs) -> Work:
        """The seconds of each step, for the ring buffer; two windows, so that the second begins as the first ended."""
        nanoseconds = costs.packet * self.packets + costs.row * self.rows + costs.slot * self.slots
        return Work(np.tile(self.packets, 2), np.tile(nanoseconds / 1e9, 2))


def steps(policy: Policy, groups: int, slots: int, packets: int, step: int = STEP) -> Steps:
    """Counts the operations of a window, after as many windows as groups may stay, and one.

    Args:
        policy: of the flush.
        groups: different ones; each packet is of one drawn evenly.
        slots: of the table, a power of two.
        packets: of a window.
        step: packets of a step.
    """
    parts = -(-packets // step)
    counted = np.zeros((parts, 2), np.int64)
    table = np.full((slots, 2), -1, np.int32)
    _run(table, counted, groups, packets, policy.every, policy.windows, policy.ordered, step)
    sizes = np.minimum(step, packets - np.arange(parts) * step)
    return Steps(sizes, counted[:, 0].copy(), counted[:, 1].copy())


@njit(cache=True)
def _mix(value):  # type: ignore[no-untyped-def]
    """A number whose bits all depend on all bits of another (splitmix64)."""
    value = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True)
def _flush(table, kept, at, most, before):  # type: ignore[no-untyped-def]
    """Flushes at most `most` groups of windows before one, from a slot on; gives groups, visited slots, next slot.

    `kept` has the groups of each window, so that nobody looks for groups that are not there.
    """
    size, rows, visits = table.shape[0], 0, 0
    most = min(most, kept[:before].sum())
    while rows < most and at < size:
        if -1 < table[at, 1] < before:
            kept[table[at, 1]] -= 1
            table[at, 1] = -1
            rows += 1
        visits += 1
        at += 1
    return rows, visits, at


@njit(cache=True)
def _run(table, counted, groups, packets, every, windows, ordered, length):  # type: ignore[no-untyped-def]
    size, kept = table.shape[0], np.zeros(windows + 2, np.int64)
    mask = size - 1
    for window in range(windows + 2):
        # Counts of the windows before are written over: only the last window is counted.
        counted[:] = 0
        # What has stayed too long leaves at once.
        rows, visits, _ = _flush(table, kept, 0, size, max(window - windows, 0))
        counted[0, 0] += rows
        counted[0, 1] += visits
        at, since = 0, 0
        for number in range(packets):
            step = number // length
            since += 1
            if since == every:
                since = 0
                rows, visits, at = _flush(table, kept, at, 1, window)
                counted[step, 0] += rows
                counted[step, 1] += visits
            drawn = _mix((np.uint64(window + 1) << np.uint64(40)) | np.uint64(number))
            group = np.int64(drawn >> np.uint64(11)) % groups
            s = np.int64(_mix((np.uint64(window) << np.uint64(32)) | np.uint64(group))) & mask
            if table[s, 1] == window and table[s, 0] == group:
                continue
            # The next slot serves too, if it has the group or a better place (002, footnote 1).
            z = (s + 1) & mask
            if table[z, 1] == window and table[z, 0] == group:
                continue
            if table[s, 1] >= 0 and (table[z, 1] < 0 or table[z, 1] < window == table[s, 1]):
                s = z
            if table[s, 1] == window and ordered:
                rows, visits, at = _flush(table, kept, at, size, window)
                counted[step, 0] += rows
                counted[step, 1] += visits
            if table[s, 1] >= 0:
                kept[table[s, 1]] -= 1
                counted[step, 0] += 1
            table[s, 0] = group
            table[s, 1] = window
            kept[window] += 1
