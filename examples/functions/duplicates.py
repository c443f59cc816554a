"""Counts duplicate TCP sequence numbers: an aggregate of the user's own, by its four functions.

Declared in duplicates.fun; the class has the name that is declared.
"""

from __future__ import annotations

State = tuple[set[int], int]


class sum_of_dups:
    """How many sequence numbers of the epoch had been seen already, in it or in an earlier one of the group.

    State: the numbers seen since the group began, and the duplicates of the epoch.
    """

    def initialize(self) -> State:
        """Nothing seen."""
        return set(), 0

    def iterate(self, state: State, sequence_number: int) -> State:
        """One packet more."""
        seen, again = state
        if sequence_number in seen:
            return seen, again + 1
        seen.add(sequence_number)
        return seen, again

    def merge(self, state: State, other: State) -> State:
        """Both together: what either of them saw is one duplicate more."""
        return state[0] | other[0], state[1] + other[1] + len(state[0] & other[0])

    def reinit(self, state: State) -> State:
        """A new epoch remembers what was seen, and counts anew."""
        return state[0], 0

    def output(self, state: State) -> int:
        """The number of duplicates."""
        return state[1]

    def destroy(self, state: State) -> None:
        """Frees the memory."""
        state[0].clear()
