"""Which operator runs next: the depth-first strategy of the paper (section 3), and round-robin beside it.

Between the graph and the model. A schedule changes latency and memory, never rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from lowwater.reference.execution.graph import Graph
from lowwater.reference.execution.nodes import Node
from lowwater.reference.execution.sources import Source


class System(Protocol):
    """What a schedule asks of the model."""

    graph: Graph

    def backtrack(self) -> None:
        """Counts the time of the rule Backtrack."""

    def enable(self, source: Source) -> bool:
        """Whether a source whose arc is empty makes an ETS now: on demand, and where one is waited for."""


class Schedule(ABC):
    """Chooses operators."""

    @abstractmethod
    def next(self, system: System) -> Node | None:
        """The operator whose execution step comes next; None where nothing can be done until something arrives."""


class DepthFirst(Schedule):
    """Sends tuples to the next operator down the path as soon as they are there (section 3.1)."""

    def __init__(self) -> None:
        self._current: Node | None = None

    def next(self, system: System) -> Node | None:
        """Repeats the continuation step until it finds an operator that can execute.

        An operator that cannot is passed once only, so that two of them never send the search to each other for ever.
        """
        node, passed = self._current, set[Node]()
        while node is not None:
            if (forward := node.successor(passed)) is not None:
                node = forward
                if node.more:
                    break
                passed.add(node)
            elif node.more:  # Encore
                break
            else:
                node = self._backtrack(system, node, passed)
        self._current = node or self._other_task(system)
        return self._current

    def _backtrack(self, system: System, node: Node, passed: set[Node]) -> Node | None:
        """The operator that feeds the empty input, for the next continuation step (section 3.2).

        A source makes an ETS, and it goes down along the path (section 4); else control returns to the system.
        """
        system.backtrack()
        if node.more:
            return node  # A tuple has entered meanwhile.
        before = node.predecessors[node.empty()]
        if isinstance(before, Source):
            return node if system.enable(before) else None
        if before in passed:
            return None
        passed.add(before)
        return before

    @staticmethod
    def _other_task(system: System) -> Node | None:
        """What the system does when a path has nothing left to do: an operator elsewhere that can execute.

        Where there is none, it asks for the operators that wait: where arcs fork, Forward may have led away from them.
        """
        while True:
            ready = next((node for node in system.graph.nodes if node.more), None)
            if ready is not None or not ask_sources(system):
                return ready


class RoundRobin(Schedule):
    """Gives every operator one execution step in turn; where none can execute, all sources are asked for an ETS."""

    def __init__(self) -> None:
        self._turn = 0

    def next(self, system: System) -> Node | None:
        """The next operator in turn that can execute."""
        nodes, asked = system.graph.nodes, False
        while True:
            for _ in nodes:
                self._turn = (self._turn + 1) % len(nodes)
                if nodes[self._turn].more:
                    return nodes[self._turn]
            if asked:
                return None
            asked = not ask_sources(system)


def ask_sources(system: System) -> bool:
    """Backtracks from every idle-waiting operator to all sources below it; whether one of them made an ETS."""
    enabled = False
    for source in system.graph.sources:
        if system.graph.demand(source.arc) is not None:
            system.backtrack()
            enabled = system.enable(source) or enabled
    return enabled
