"""Measures what the virtual clock of X1 to X3 counts: `python -m experiments.x_costs` prints the costs of this machine.

Beside the experiments. `experiments.execution.MEASURED` has what it printed once, so that figures are the same
on every machine. A cost is processor time per piece of work of the model's own Python, the least of some runs: an
execution step of the selections and the union of Figure 4, and the rule Backtrack from the union.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from experiments.execution import DepthFirst, Graph, Message, Node, Source, Stamps, build
from experiments.scenarios import RATES, SECOND, START, query
from lowwater.stream.operators import Row

PIECES = 20_000
RUNS = 7


class Idle:
    """A system whose sources make nothing, and in which no time passes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def backtrack(self) -> None:
        """Counts nothing."""

    def enable(self, source: Source) -> bool:
        """Nothing is made."""
        return False


def graph() -> Graph:
    """The graph of Figure 4, empty."""
    return build(query(), dict.fromkeys(RATES, 0), Stamps.INTERNAL)


def step(tuples: bool) -> float:
    """Nanoseconds of an execution step, the mean over all operators of the graph."""
    made = graph()
    for source in made.sources:
        for at in range(PIECES):
            stamp = START + at * SECOND
            row = Row((stamp, 500), stamp, (stamp, source.link, at)) if tuples else None
            source.arc.put(Message(stamp, stamp, stamp, row))
    steps, began = 0, time.process_time_ns()
    for node in made.nodes:
        while node.more:
            node.execute()
            steps += 1
    return (time.process_time_ns() - began) / steps


def backtrack() -> float:
    """Nanoseconds of a Backtrack, the mean of those from the union down to a source."""
    made = graph()
    system, schedule, union = Idle(made), DepthFirst(), made.nodes[-1]
    hops, began = 0, time.process_time_ns()
    for _ in range(PIECES):
        node: Node | None = union
        while node is not None:
            node = schedule._backtrack(system, node, set())
            hops += 1
    return (time.process_time_ns() - began) / hops


def main() -> None:
    """Prints the costs."""
    pieces: dict[str, Callable[[], float]] = {
        "row": lambda: step(True),
        "punctuation": lambda: step(False),
        "backtrack": backtrack,
    }
    for name, measure in pieces.items():
        print(f"{name}: {min(measure() for _ in range(RUNS)):,.0f} ns")


if __name__ == "__main__":
    main()
