"""The operators of a query graph: an execution step each, TSM registers, the conditions `yield` and `more`.

Between the arcs and the schedulers. What an operator makes of a row is the business of `lowwater.stream`; a node says
which input it takes the row from, when it may, and what it puts on its arcs.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.reference.execution.buffers import Buffer, Message
from lowwater.reference.execution.sources import Source
from lowwater.stream.operators import LEAST, Promise, Row, StreamOperator
from lowwater.stream.operators import Message as Given


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
