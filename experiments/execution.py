"""The execution model of on-demand timestamps (003): a query graph, its schedulers, a clock that counts their work.

Beside `reference.engine`, over the same operators. It gives the same rows, and says when each leaves, how long
operators wait idly and how much the buffers hold. Section numbers are those of 003. A record enters by the wrapper of a
source into a buffer, passes nodes in the order of a schedule, and leaves at the sink.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import NamedTuple, Protocol

import pyarrow as pa

from lowwater.errors import ConfigError
from lowwater.plan.operators import Bucket, Expand, Map, Node as Plan, Source as PlanSource, Union, WatchJoin, walk
from lowwater.plan.properties import by_arrival, read_from
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.clock import Disorder
from lowwater.reference.engine import Operators
from lowwater.stream.operators import LEAST, Life, Message as Given, Promise, Row, StreamOperator
from lowwater.stream.records import Record, merge
from lowwater.stream.values import Values


@dataclass(frozen=True)
class Costs:
    """Time for pieces of work, ns.

    Attributes:
        row: an execution step that takes a tuple.
        punctuation: an execution step that takes a punctuation, and the making of an ETS.
        backtrack: the rule Backtrack, once, to a predecessor.
    """

    row: int
    punctuation: int
    backtrack: int


MEASURED = Costs(row=6_200, punctuation=3_600, backtrack=1_200)
"""Processor time of this package's own Python on an AMD EPYC, Python 3.11: the least of seven runs of 20,000 pieces.

`python -m experiments.x_costs` measures them: the mean step of Figure 4's selections and union, a Backtrack from there.
"""

FREE = Costs(0, 0, 0)
"""No time passes but that between the records."""


class Message(NamedTuple):
    """A tuple, or a punctuation, which has no row.

    Attributes:
        timestamp: ns; no later message of the same arc has a smaller one (section 1).
        bound: ns; no later row of the same arc has a smaller `_last` (SEMANTICS P1). It is the timestamp where both
            are of one clock, and lags by the skew of the link where tuples are stamped on entry.
        entered: the instant (ns) at which the tuple entered the system, or the punctuation was made.
        row: of the tuple; None for a punctuation.
    """

    timestamp: int
    bound: int
    entered: int
    row: Row | None


@dataclass
class Queued:
    """How much all buffers of a graph hold together (section 6, memory usage).

    Attributes:
        tuples: now; `punctuations` now.
        peak: the most of both at once; `punctuation_part` the punctuations of that peak.
        most_tuples: the most tuples at once.
    """

    tuples: int = 0
    punctuations: int = 0
    peak: int = 0
    punctuation_part: int = 0
    most_tuples: int = 0

    def add(self, tuples: int, punctuations: int) -> None:
        """Counts messages that are put in; negative numbers those that are taken out."""
        self.tuples += tuples
        self.punctuations += punctuations
        if self.tuples > self.most_tuples:
            self.most_tuples = self.tuples
        if self.tuples + self.punctuations > self.peak:
            self.peak, self.punctuation_part = self.tuples + self.punctuations, self.punctuations


class Buffer:
    """An arc: its producer puts messages at the tail, its consumer takes them from the front (section 3).

    Attributes:
        messages: in order.
        tuples: how many of them are tuples.
    """

    def __init__(self, queued: Queued) -> None:
        self.messages: deque[Message] = deque()
        self.tuples = 0
        self._queued = queued

    def put(self, message: Message) -> None:
        """Production."""
        self.messages.append(message)
        if message.row is None:
            self._queued.add(0, 1)
        else:
            self.tuples += 1
            self._queued.add(1, 0)

    def take(self) -> Message:
        """Consumption."""
        message = self.messages.popleft()
        if message.row is None:
            self._queued.add(0, -1)
        else:
            self.tuples -= 1
            self._queued.add(-1, 0)
        return message

    def first_tuple(self) -> int | None:
        """The timestamp of the first tuple; None where only punctuation waits, or nothing."""
        if not self.tuples:
            return None
        return next(message.timestamp for message in self.messages if message.row is not None)


class Stamps(Enum):
    """Where the timestamps of tuples come from (section 5)."""

    INTERNAL = "internal"
    """From the system's clock, on entry."""
    EXTERNAL = "external"
    """From the application: the timestamp of the record."""
    LATENT = "latent"
    """None: operators that need one would make it."""


class Punctuate(Enum):
    """When sources make punctuation (section 6)."""

    NONE = "none"
    PERIODIC = "periodic"
    ON_DEMAND = "on-demand"


class Reads(NamedTuple):
    """What a source takes of a link.

    Attributes:
        pick: the columns of the operator from the values of a record.
        first: first timestamp (ns) that is read.
        skew: how late (ns) a record may be (SEMANTICS T2).
    """

    pick: Callable[[Values], Values]
    first: int
    skew: int


class Source:
    """One link for one operator.

    Args:
        link: its name.
        arc: the input buffer (section 3).
        stamps: of its tuples.
        reads: what it takes.

    Attributes:
        made: punctuations that it made.
    """

    def __init__(self, link: str, arc: Buffer, stamps: Stamps, reads: Reads) -> None:
        self.link, self.arc, self.made = link, arc, 0
        self._stamps, self._reads = stamps, reads
        self._said = LEAST
        self._latest: tuple[int, int] | None = None
        self._early: list[tuple[int, int, Message]] = []
        self._number = count()

    def start(self, now: int) -> None:
        """The stream starts, which stands for the tuple before the first one."""
        self._latest = now, now

    def enter(self, record: Record, number: int) -> None:
        """The wrapper puts a record into the arc; what is later than the skew is a violation, and left out.

        External tuples wait here until none with a smaller timestamp may come, so that the arc is in order: the input
        manager of Srivastava and Widom, which the paper builds on.
        """
        skew, stamp = self._reads.skew, record.timestamp
        if record.arrival - stamp > skew or stamp < self._reads.first:
            return
        row = Row(self._reads.pick((*record.values, 0)), stamp, (stamp, self.link, number))
        if self._stamps is Stamps.LATENT:
            self.arc.put(Message(LEAST, LEAST, record.arrival, row))
        elif self._stamps is Stamps.INTERNAL:
            self._put(Message(record.arrival, record.arrival - skew, record.arrival, row))
        else:
            assert self._latest is not None
            if stamp >= self._latest[0]:
                self._latest = stamp, record.arrival
            heapq.heappush(self._early, (stamp, next(self._number), Message(stamp, stamp, record.arrival, row)))
            self.let_go(record.arrival)

    def enabling(self, now: int) -> int:
        """The timestamp that an ETS made now has (section 5): (i) internal, (ii) external, t + tau - delta."""
        if self._stamps is Stamps.INTERNAL:
            return now
        assert self._latest is not None
        stamp, arrival = self._latest
        return max(self._said, stamp + (now - arrival) - self._reads.skew)

    def enables_at(self, timestamp: int) -> int:
        """The first instant (ns) at which an ETS is as large as a timestamp."""
        if self._stamps is Stamps.INTERNAL:
            return timestamp
        assert self._latest is not None
        stamp, arrival = self._latest
        return timestamp - stamp + arrival + self._reads.skew

    def let_go(self, now: int) -> None:
        """Puts into the arc the external tuples before which none may come any more."""
        while self._early and self._early[0][0] <= self.enabling(now):
            self._put(heapq.heappop(self._early)[2])

    def due(self) -> int | None:
        """When the first of the tuples that wait in the source may go, ns."""
        return self.enables_at(self._early[0][0]) if self._early else None

    def punctuate(self, now: int) -> None:
        """Makes a punctuation: an ETS, or a periodic one (sections 1 and 5)."""
        value = self.enabling(now)
        self.let_go(now)
        lag = self._reads.skew if self._stamps is Stamps.INTERNAL else 0
        self._put(Message(value, value - lag, now, None))
        self.made += 1

    def close(self, now: int) -> None:
        """The stream has ended: what waits goes, and the last punctuation promises the end of time (SEMANTICS T6)."""
        while self._early:
            self._put(heapq.heappop(self._early)[2])
        self.arc.put(Message(END_OF_TIME, END_OF_TIME, now, None))

    def _put(self, message: Message) -> None:
        self._said = max(self._said, message.timestamp)
        self.arc.put(message)


class Outlet(StreamOperator):
    """Collects what an operator of `lowwater.stream` gives in one execution step."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.bound = 0

    def receive(self, port: int, message: Given) -> None:
        """Keeps a row; of promises the last counts."""
        if isinstance(message, Row):
            self.rows.append(message)
        else:
            self.bound = message.instant


class Node:
    """An operator of the graph.

    Operators of several inputs are idle-waiting prone (IWP, section 2): they take the tuple with the least timestamp.

    Args:
        name: query, kind and number.
        operator: what it makes of rows and promises.
        inputs: an arc for each port.
        latent: whether tuples have no timestamps (section 5), so that it takes them as they come.

    Attributes:
        registers: the Time-Stamp Memory (TSM) of each input (section 4.1): the timestamp of its current message, and
            while the input is empty of the last one.
        outputs: the arcs that leave it, each with the node that reads it; none where the sink does.
        predecessors: what fills each input.
        waiting_prone: whether it is a union or a join (section 2).
        idle: ns that it spent idle-waiting.
        passed: punctuations that it put on its arcs.
    """

    def __init__(self, name: str, operator: StreamOperator, inputs: Sequence[Buffer], latent: bool) -> None:
        self.name, self.inputs = name, list(inputs)
        self.waiting_prone = len(inputs) > 1
        self.registers = [LEAST] * len(inputs)
        self.outputs: list[tuple[Buffer, Node]] = []
        self.predecessors: list[Node | Source] = []
        self.idle = self.passed = 0
        self._operator, self._latent = operator, latent
        self._outlet = Outlet()
        operator.connect(self._outlet, 0)

    @property
    def more(self) -> bool:
        """Whether there is an input with the least timestamp of all registers (Figure 5)."""
        return self._port() is not None if self.waiting_prone else bool(self.inputs[0].messages)

    @property
    def idle_waiting(self) -> bool:
        """Whether tuples are there and none may be taken (section 1)."""
        return self.waiting_prone and any(arc.tuples for arc in self.inputs) and self._port() is None

    def successor(self, but: set[Node]) -> Node | None:
        """Forward: a reader of an arc on which the node has put something (yield), if it is none of some nodes."""
        for arc, reader in self.outputs:
            if arc.messages and reader not in but:
                return reader
        return None

    def empty(self) -> int:
        """The empty input for which the node waits: that of the least register (section 3.2)."""
        ports = [port for port, arc in enumerate(self.inputs) if not arc.messages]
        return min(ports, key=lambda port: self.registers[port])

    def execute(self) -> tuple[Message, list[Message]]:
        """The execution step (Figures 1 and 6): takes a message, and gives it with the messages that are made of it.

        All that it makes has the timestamp of what it took.
        """
        port = self._port()
        assert port is not None
        taken = self.inputs[port].take()
        self.registers[port] = taken.timestamp
        outlet, before = self._outlet, self._outlet.bound
        outlet.rows = []
        if taken.row is not None:
            self._operator.receive(port, taken.row)
        self._operator.receive(port, Promise(taken.bound))
        messages = [Message(taken.timestamp, before, taken.entered, row) for row in outlet.rows]
        if self._passes(taken, messages):
            messages.append(Message(taken.timestamp, outlet.bound, taken.entered, None))
            self.passed += 1
        elif messages:
            messages[-1] = messages[-1]._replace(bound=outlet.bound)
        for arc, _ in self.outputs:
            for message in messages:
                arc.put(message)
        return taken, messages

    def _passes(self, taken: Message, messages: Sequence[Message]) -> bool:
        """Whether a punctuation goes out: all operators let one through that they take (section 4.2).

        Where an IWP operator cannot make a tuple, it makes a punctuation for the IWP operators above it.
        """
        return taken.row is None or (self.waiting_prone and not messages and not self._latent)

    def _port(self) -> int | None:
        """The input that the next step takes from; tuples before punctuation of the same timestamp (Figure 6)."""
        if not self.waiting_prone:
            return 0 if self.inputs[0].messages else None
        if self._latent:
            ready = [port for port, arc in enumerate(self.inputs) if arc.messages]
            return min(ready, key=lambda port: self.inputs[port].messages[0].entered, default=None)
        next_port, least, is_tuple = None, None, False
        for port, arc in enumerate(self.inputs):
            messages = arc.messages
            value = messages[0].timestamp if messages else self.registers[port]
            first = bool(messages) and messages[0].row is not None
            if least is None or value < least:
                least, next_port, is_tuple = value, port if messages else None, first
            elif value == least and messages and (next_port is None or (first and not is_tuple)):
                next_port, is_tuple = port, first
        return next_port


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
        packets: link -> batches of `catalog.schemas.RECORD` in canonical order, `arrival` absolute.
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
        """Runs one cycle of the scheduler (003, Figure 3), or waits for the next record; False after the last."""
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
