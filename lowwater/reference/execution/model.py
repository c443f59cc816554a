"""The execution of a query graph in virtual time: records arrive, operators take time, rows leave.

The top of `reference.execution`: between stored packets and the rows with their latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lowwater.errors import ConfigError
from lowwater.plan.operators import Node as Plan
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.execution.buffers import Message, Queued
from lowwater.reference.execution.costs import MEASURED, Costs
from lowwater.reference.execution.graph import Graph, build
from lowwater.reference.execution.nodes import Node
from lowwater.reference.execution.schedules import DepthFirst, Schedule
from lowwater.reference.execution.sources import Punctuate, Source, Stamps
from lowwater.stream.records import Record, merge
from lowwater.stream.values import Values


@dataclass(frozen=True)
class Setup:
    """How a graph is executed.

    Attributes:
        stamps: of the tuples.
        punctuate: when sources make punctuation.
        periods: link -> ns between its punctuations, where they are periodic; other links make none.
        schedule: makes the schedule.
        costs: of the virtual clock.
        timer: resolution (ns) of the timer that periodic punctuation comes from: what falls due between two of its
            ticks is made at the second; 0 for any instant.

    Raises:
        ConfigError: punctuation of latent timestamps, or periods that are not those of a periodic policy.
    """

    stamps: Stamps = Stamps.INTERNAL
    punctuate: Punctuate = Punctuate.ON_DEMAND
    periods: Mapping[str, int] = field(default_factory=dict)
    schedule: Callable[[], Schedule] = DepthFirst
    costs: Costs = MEASURED
    timer: int = 0

    def __post_init__(self) -> None:
        if self.stamps is Stamps.LATENT and self.punctuate is not Punctuate.NONE:
            raise ConfigError("latent timestamps have no punctuation", "set Punctuate.NONE")
        if bool(self.periods) != (self.punctuate is Punctuate.PERIODIC) or min(self.periods.values(), default=1) <= 0:
            raise ConfigError(
                f"punctuation is {self.punctuate.value}, its periods are {dict(self.periods)}",
                "give a period above 0 ns for a link where punctuation is periodic, and none elsewhere",
            )


@dataclass
class Execution:
    """What an execution gives.

    Attributes:
        rows: values of the rows that left, in that order; `lasts` their `_last`, ns.
        left: when each left, ns of the virtual clock; `latencies` how long after it, or what let it go, had entered.
        made: link -> punctuations that its sources made, without the last ones that close them.
        passed: punctuations that operators put on their arcs.
        idle: operator of several inputs -> share of the time that it spent idle-waiting.
        queued: what the buffers held at most.
        nanoseconds: from the first record to the end of all work; `busy` those spent at work.
    """

    rows: list[Values] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    latencies: list[int] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    passed: int = 0
    idle: dict[str, float] = field(default_factory=dict)
    queued: Queued = field(default_factory=Queued)
    nanoseconds: int = 0
    busy: int = 0

    @property
    def latency(self) -> float:
        """The mean latency, ns; 0 without rows."""
        return sum(self.latencies) / len(self.latencies) if self.latencies else 0.0


def execute(
    plan: Plan, packets: Mapping[str, Iterable[pa.RecordBatch]], skews: Mapping[str, int], setup: Setup
) -> Execution:
    """Executes the graph of a query over all packets.

    Args:
        plan: logical plan.
        packets: link -> batches of `catalog.packets.RECORD` in canonical order, `arrival` absolute.
        skews: link -> how late its records may be, ns (SEMANTICS T2).
        setup: timestamps, punctuation, schedule and costs.

    Raises:
        ConfigError: the model does not run an operator of the plan.
    """
    graph = build(plan, skews, setup.stamps)
    system = Clocked(graph, merge(packets, graph.columns), setup)
    system.run()
    return system.execution


class Clocked:
    """A graph in virtual time, run by one processor.

    Args:
        graph: to be executed.
        records: of all links, by arrival.
        setup: timestamps, punctuation, schedule and costs.
    """

    def __init__(self, graph: Graph, records: Iterator[Record], setup: Setup) -> None:
        self.graph, self.execution, self.now = graph, Execution(), 0
        self._setup, self._schedule = setup, setup.schedule()
        self._records, self._ahead = records, next(records, None)
        self._numbers = dict.fromkeys(graph.columns, 0)
        self._prone = [node for node in graph.nodes if node.waiting_prone]
        self._ticks: dict[Source, int] = {}
        self._alarm: int | None = None
        self._next, self._last = END_OF_TIME, 0

    def run(self) -> None:
        """Executes until the links have ended and nothing is left to do."""
        began = self.now = self._ahead.arrival if self._ahead else 0
        for source in self.graph.sources:
            source.start(began)
            if source.link in self._setup.periods:
                self._ticks[source] = began
        self._enter()
        while self._work():
            pass
        self._finish(began)

    def backtrack(self) -> None:
        """Counts the time of the rule Backtrack."""
        self._spend(self._setup.costs.backtrack)

    def enable(self, source: Source) -> bool:
        """Makes an ETS where an idle-waiting operator waits for it; where it does not do yet, when it will is noted."""
        if self._setup.punctuate is not Punctuate.ON_DEMAND:
            return False
        wanted = self.graph.demand(source.arc)
        if wanted is None:
            return False
        if source.enabling(self.now) < wanted:
            at = source.enables_at(wanted)
            self._alarm = at if self._alarm is None else min(at, self._alarm)
            self._look_ahead()
            return False
        source.punctuate(self.now)
        self._look_ahead()
        self._spend(self._setup.costs.punctuation)
        return True

    def _work(self) -> bool:
        """One cycle of Figure 3, or the time until something comes; False when all is over."""
        node = self._schedule.next(self)
        if node is not None:
            self._step(node)
            return True
        if self._next == END_OF_TIME:
            return False
        self._wait(self._next)
        return True

    def _step(self, node: Node) -> None:
        """The execution step, and the sink where the node is the last: it drops punctuation (section 3.1)."""
        costs = self._setup.costs
        taken, messages = node.execute()
        self._spend(costs.punctuation if taken.row is None else costs.row)
        if not node.outputs:
            self._leave(messages)

    def _leave(self, messages: Iterable[Message]) -> None:
        execution = self.execution
        for message in messages:
            if message.row is not None:
                execution.rows.append(message.row.values)
                execution.lasts.append(message.row.last)
                execution.left.append(self.now)
                execution.latencies.append(self.now - message.entered)

    def _look_ahead(self) -> None:
        """When something comes next, ns: a record, a punctuation that is due, an external tuple that may go."""
        if self._ahead is None:
            self._next = END_OF_TIME
            return
        times = [self._ahead.arrival, self._alarm, *map(self._timed, self._ticks.values())]
        times += [source.due() for source in self.graph.sources]
        self._next = min(time for time in times if time is not None)

    def _timed(self, tick: int) -> int:
        """When the timer has reached an instant, ns."""
        return -(-tick // self._setup.timer) * self._setup.timer if self._setup.timer else tick

    def _spend(self, nanoseconds: int) -> None:
        if nanoseconds:
            self.execution.busy += nanoseconds
            self._wait(self.now + nanoseconds)

    def _wait(self, until: int) -> None:
        """Lets time pass, in which records enter and punctuation falls due."""
        while self._next <= until:
            self._pass(self._next)
            self._enter()
        self._pass(until)

    def _pass(self, until: int) -> None:
        if until > self.now:
            for node in self._prone:
                if node.idle_waiting:
                    node.idle += until - self.now
            self.now = until

    def _enter(self) -> None:
        """What comes at this instant, the records before the punctuation."""
        while self._ahead is not None and self._ahead.arrival <= self.now:
            record, link = self._ahead, self._ahead.link
            self._last = record.arrival
            self._numbers[link] += 1
            for source in self.graph.feeds[link]:
                source.enter(record, self._numbers[link])
            self._ahead = next(self._records, None)
        for source in self.graph.sources:
            source.let_go(self.now)
        for source, tick in self._ticks.items():
            if self._timed(tick) <= self.now:
                source.punctuate(self.now)
                self._ticks[source] = tick + self._setup.periods[source.link]
        if self._alarm is not None and self._alarm <= self.now:
            self._alarm = None
        self._look_ahead()

    def _finish(self, began: int) -> None:
        """The links have ended: what they last say lets everything go."""
        self.graph.life.over = self._last + 1
        for source in self.graph.sources:
            source.close(self.now)
        while (node := self._schedule.next(self)) is not None:
            self._step(node)
        execution, whole = self.execution, max(self.now - began, 1)
        execution.nanoseconds, execution.queued = self.now - began, self.graph.queued
        execution.idle = {node.name: node.idle / whole for node in self._prone}
        execution.passed = sum(node.passed for node in self.graph.nodes)
        for source in self.graph.sources:
            execution.made[source.link] = execution.made.get(source.link, 0) + source.made
