"""The query graph of a logical plan: operators as nodes, buffers as arcs, a source for each link (section 3).

Between `reference.plan`, which makes the operators, and the schedulers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowwater.errors import ConfigError
from lowwater.plan.operators import Bucket, Expand, Map, Union, WatchJoin
from lowwater.plan.operators import Node as Plan
from lowwater.plan.operators import Source as PlanSource
from lowwater.plan.properties.ranges import read_from
from lowwater.plan.properties.state import by_arrival
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.tree import walk
from lowwater.reference.clock import Disorder
from lowwater.reference.execution.buffers import Buffer, Queued
from lowwater.reference.execution.nodes import Node
from lowwater.reference.execution.sources import Reads, Source, Stamps
from lowwater.reference.plan import Operators
from lowwater.stream.operators import Life, StreamOperator

TIMELESS = (PlanSource, Map, Union, Expand, Bucket, WatchJoin)
"""Operators that need no timestamp."""


@dataclass
class Graph:
    """A query graph.

    Attributes:
        nodes: the operators, those below before those above; the last one gives its tuples to the sink.
        sources: what fills their input buffers.
        columns: link -> columns that its sources read.
        queued: what all buffers hold.
        life: of the links; told to operators when it is over.
    """

    nodes: list[Node]
    sources: list[Source]
    columns: Mapping[str, list[str]]
    queued: Queued
    life: Life
    feeds: dict[str, list[Source]] = field(init=False)

    def __post_init__(self) -> None:
        self.feeds = {link: [source for source in self.sources if source.link == link] for link in self.columns}
        self._readers = {id(arc): (node, at) for node in self.nodes for at, arc in enumerate(node.inputs)}

    def demand(self, arc: Buffer) -> int | None:
        """The least timestamp that an idle-waiting operator above an empty arc waits for; None where none does."""
        if arc.messages:
            return None
        node, port = self._readers[id(arc)]
        demands = [self.demand(out) for out, _ in node.outputs]
        if node.waiting_prone:
            waiting = [arc.first_tuple() for arc in node.inputs]
            demands += [first for first in waiting if first is not None and first > node.registers[port]]
        return min((demand for demand in demands if demand is not None), default=None)


def build(plan: Plan, skews: Mapping[str, int], stamps: Stamps) -> Graph:
    """The graph of a logical plan.

    Args:
        plan: of one query.
        skews: link -> how late its records may be, ns.
        stamps: of its tuples.

    Raises:
        ConfigError: the plan has an operator that the model does not run.
    """
    _refuse(plan, stamps)
    life = Life()
    operators = Operators(range(END_OF_TIME), read_from(plan, 0), life)
    top = operators.operator(plan)
    queued = Queued()
    disorder = {link: Disorder(skews[link]) for link in operators.columns}
    feeds = [(link.name, feed) for link in operators.links(disorder) for feed in link.feeds]
    if any(feed.attributes for _, feed in feeds):
        raise _refused("progress by an attribute that is no function of the clock")
    consumers = {operator: operator.detach() for operator in operators.named.values()}
    nodes: dict[StreamOperator, Node] = {}
    for name, operator in operators.named.items():
        arcs = [Buffer(queued) for _ in operator.promised]
        nodes[operator] = Node(name, operator, arcs, stamps is Stamps.LATENT)
    before: dict[tuple[Node, int], Node | Source] = {}
    for operator, readers in consumers.items():
        for consumer, port in readers:
            nodes[operator].outputs.append((nodes[consumer].inputs[port], nodes[consumer]))
            before[nodes[consumer], port] = nodes[operator]
    sources = []
    for link, feed in feeds:
        node, reads = nodes[feed.source], Reads(feed.pick, feed.source.read_from, disorder[link].skew)
        sources.append(Source(link, node.inputs[feed.port], stamps, reads))
        before[node, feed.port] = sources[-1]
    for node in nodes.values():
        node.predecessors = [before[node, port] for port in range(len(node.inputs))]
    assert not nodes[top].outputs
    return Graph(list(nodes.values()), sources, operators.columns, queued, life)


def _refuse(plan: Plan, stamps: Stamps) -> None:
    if by_arrival(plan):
        raise _refused("windows of rows, whose order is that of arrival over all links")
    if stamps is Stamps.LATENT:
        for node in walk(plan):
            if not isinstance(node, TIMELESS):
                kind = type(node).__name__
                raise _refused(
                    f"{kind} over latent timestamps: it would make them, and its rows depend on the schedule"
                )


def _refused(what: str) -> ConfigError:
    return ConfigError(
        f"the execution model does not run {what}", "evaluate the query with lowwater.reference.evaluate"
    )
