"""Other architectures as forms of the reference engine: the in-order one (IOP), slow flush; measures of operators."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter
from typing import Any

from lowwater.catalog.expr import Expr
from lowwater.errors import ConfigError
from lowwater.plan.operators import (
    Aggregation,
    Bucket,
    Expand,
    Field,
    FilterJoin,
    Join,
    Map,
    Node,
    Source,
    Union,
    substitute,
)
from lowwater.reference.clock import Clock
from lowwater.reference.engine import Operators, has_places
from lowwater.stream.groups import last_values
from lowwater.stream.operators import Life, Promise, Row, StreamOperator, evaluate, names_of
from lowwater.stream.records import PacketSamplings
from lowwater.stream.values import Faults, Values, compile_expr

# The in-order architecture: an order-preserving merge and buffered windows. They replace operators of `stream/` (002,
# sections 1, 3.2 and 5.5). The rows are the same, but come later and need more state: a merge keeps rows until all
# inputs have passed them; buffered windows keep a row until its last window has ended. Every operator gives its rows
# in order of `_last`; a merge stands above operators that do not.


class OrderOperator(StreamOperator):
    """The order-preserving merge: keeps rows until no earlier row can come, and emits them in order.

    Args:
        ports: number of inputs; 1 above a source, whose links are merged, and above a join.
        union: whether it replaces a union; the order of a packet then ends with the number of its branch.
        packets: whether all rows are packets of the union's own query.
    """

    def __init__(self, ports: int, union: bool, packets: bool) -> None:
        super().__init__(ports)
        self._union, self._packets = union, packets
        self._waiting: list[tuple[int, tuple[Any, ...], int, Values]] = []
        self._number = count()

    def row(self, port: int, row: Row) -> None:
        """Keeps a row."""
        order = row.order if not self._union else (*row.order, port) if self._packets else ()
        heapq.heappush(self._waiting, (row.last, order, next(self._number), row.values))

    def promise(self, port: int, promise: Promise) -> None:
        """Takes a promise of the clock and ignores promises of other attributes."""
        if not promise.origin:
            super().promise(port, promise)

    def release(self, port: int, promise: Promise) -> None:
        """Emits the rows that all inputs have passed."""
        least = min(self.promised)
        while self._waiting and self._waiting[0][0] < least:
            last, order, _, values = heapq.heappop(self._waiting)
            self.emit(Row(values, last, order))

    def due(self) -> Iterator[tuple[int, int]]:
        """The promise that releases the oldest row; every input has to make it."""
        ports = [port for port, promised in enumerate(self.promised) if promised == min(self.promised)]
        return iter([(port, self._waiting[0][0] + 1) for port in ports] if self._waiting else [])

    def state_rows(self) -> Iterator[Values]:
        """The waiting rows."""
        return (values for _, _, _, values in self._waiting)

    def saved_state(self) -> Any:
        """The waiting rows, in order."""
        return sorted(self._waiting, key=lambda waiting: waiting[:3])

    def load_state(self, state: Any) -> None:
        """Takes up waiting rows."""
        self._waiting, self._number = state, count(len(state))


class BufferedWindowsOperator(StreamOperator):
    """Sliding windows without WID: keeps a row until its last window has ended, and emits the rows of one window at a
    time.

    It replaces a Bucket over an attribute of the clock. The `_last` of a row is the end of its group: the end of its
    window, or of another epoch of the aggregation above if that ends earlier.

    Args:
        node: operator that assigns the windows.
        epochs: epochs of the aggregation above: expression over the rows, field.
    """

    def __init__(self, node: Bucket, epochs: Sequence[tuple[Expr, Field]]) -> None:
        super().__init__()
        names = names_of(node.fields)
        self._attribute = compile_expr(node.attribute, names_of(node.input.fields), Faults())
        self._range, self._slide = node.range, node.slide
        self._keys = [compile_expr(expr, names, Faults()) for expr, _ in epochs]
        self._fields = [field for _, field in epochs]
        self._rows: list[tuple[list[tuple[int, int]], Row]] = []

    def row(self, port: int, row: Row) -> None:
        """Stores a row with the ends of its windows, the next end last."""
        value = self._attribute(row.values)
        if value is not None:
            numbers = range((value - self._range) // self._slide + 1, value // self._slide + 1)
            ends = [(self._end((*row.values, number)), number) for number in numbers]
            if ends:
                self._rows.append((sorted(ends, reverse=True), row))

    def release(self, port: int, promise: Promise) -> None:
        """Emits the rows of ended windows, with a promise after each, so that the aggregation keeps one window at a
        time."""
        ended_rows: list[tuple[int, int, int, Row]] = []
        for ends, row in self._rows:
            while ends and ends[-1][0] < promise.instant:
                ended_rows.append((*ends.pop(), len(ended_rows), row))
        for last, ended in groupby(sorted(ended_rows), itemgetter(0)):
            for _, number, _, row in ended:
                self.emit(Row((*row.values, number), last, row.order))
            self.emit(Promise(last + 1))
        self._rows = [entry for entry in self._rows if entry[0]]

    def due(self) -> Iterator[tuple[int, int]]:
        """The promise that ends the next window."""
        least = min((ends[-1][0] for ends, _ in self._rows), default=None)
        return iter([] if least is None else [(0, least + 1)])

    def state_rows(self) -> Iterator[Values]:
        """The rows of open windows, each once."""
        return (row.values for _, row in self._rows)

    def saved_state(self) -> Any:
        """The rows, with the ends of their open windows."""
        return [(ends, tuple(row)) for ends, row in self._rows]

    def load_state(self, state: Any) -> None:
        """Restores rows."""
        self._rows = [(ends, Row(*parts)) for ends, parts in state]

    def _end(self, values: Values) -> int:
        return last_values(self._fields, evaluate(self._keys, values))[""]


def epochs_over_windows(node: Aggregation) -> dict[Bucket, list[tuple[Expr, Field]]]:
    """The windows below an aggregation, with its epochs of the clock as expressions over their rows."""
    pairs = zip(node.keys, node.key_fields, strict=True)
    epochs = [(key.expr, f) for key, f in pairs if f.temporal and not f.temporal.origin]
    below = node.input
    while isinstance(below, Map | Expand):
        if isinstance(below, Map):
            epochs = [(substitute(expr, below.items), field) for expr, field in epochs]
        below = below.input
    return {below: epochs} if isinstance(below, Bucket) else {}


# Slow flush: an aggregation emits its finished groups a few at a time. Gigascope spreads the results of an epoch over
# the rows after it, so that readers get no burst (000, section 3.1; 002, section 6). Rows are the same, but come
# later and are stored longer.

RESULTS = 0
"""Port of the results of the aggregation; the other port gets the input of the aggregation, which sets the pace."""


class SlowFlushOperator(StreamOperator):
    """Emits a number of results for each row that the aggregation reads, and the rest when the next epoch ends.

    Its promises stay below the results it still holds.

    Args:
        most: number of results emitted for a row.
        end: end of the interval, ns, exclusive.
    """

    def __init__(self, most: int, end: int) -> None:
        super().__init__()
        self._most, self._end, self._promised = most, end, 0
        self._waiting: list[tuple[int, int, Row]] = []
        self._number = count()

    def row(self, port: int, row: Row) -> None:
        """Stores a result, or emits some for a row that the aggregation reads."""
        if port == RESULTS:
            if self._waiting and self._waiting[0][0] < row.last:
                self.before_release()
            while self._waiting and self._waiting[0][0] < row.last:
                self.emit(heapq.heappop(self._waiting)[2])
            heapq.heappush(self._waiting, (row.last, next(self._number), row))
        elif self._waiting:
            self.before_release()
            self._emit_results(self._most)

    def promise(self, port: int, promise: Promise) -> None:
        """Takes a promise of the aggregation; stored results hold it back."""
        if port == RESULTS and not promise.origin and not promise.of:
            self.before_release()
            self._promised = promise.instant
            self._emit_results(len(self._waiting) if promise.instant >= self._end else 0)

    def state_rows(self) -> Iterator[Values]:
        """The stored results."""
        return (row.values for _, _, row in self._waiting)

    def saved_state(self) -> Any:
        """The stored results, and the last promise of the aggregation."""
        return self._promised, [tuple(row) for _, _, row in sorted(self._waiting)]

    def load_state(self, state: Any) -> None:
        """Restores results."""
        self._promised, rows = state
        self._waiting = [(row.last, next(self._number), row) for row in (Row(*parts) for parts in rows)]

    def _emit_results(self, most: int) -> None:
        for _ in range(min(most, len(self._waiting))):
            self.emit(heapq.heappop(self._waiting)[2])
        least = min(self._promised, self._waiting[0][0] if self._waiting else self._promised)
        super().promise(RESULTS, Promise(least))


class FormedOperators(Operators):
    """The operators of a plan in the form of an experiment."""

    HOLDING = (*Operators.HOLDING, OrderOperator, BufferedWindowsOperator)

    def __init__(
        self,
        experiment: Experiment,
        owned: range,
        read_from: Mapping[str, int],
        life: Life,
        packet_samplings: PacketSamplings,
    ) -> None:
        super().__init__(owned, read_from, life, packet_samplings)
        self._in_order, self._flush, self._end = experiment.form == IOP, experiment.flush, owned.stop
        self._epochs: dict[Bucket, list[tuple[Expr, Field]]] = {}

    def operator(self, node: Node) -> StreamOperator:
        """Returns the operator of a node, connected to its inputs."""
        if isinstance(node, Aggregation):
            self._epochs |= epochs_over_windows(node)
        return super().operator(node)

    def make(self, node: Node, inputs: Sequence[StreamOperator]) -> StreamOperator:
        """Makes the operator of a node: unions restore order, and windows are buffered."""
        if self._in_order and isinstance(node, Union):
            return OrderOperator(len(inputs), True, has_places(node))
        if self._in_order and isinstance(node, Bucket):
            return BufferedWindowsOperator(node, self._epochs[node])
        return super().make(node, inputs)

    def above(self, node: Node, operator: StreamOperator, inputs: Sequence[StreamOperator]) -> StreamOperator:
        """Puts a merge above operators that do not emit rows in order, or a slow flush above an aggregation.

        The other operators emit in order over ordered inputs: an aggregation emits its epochs one after the other.
        """
        if self._flush and isinstance(node, Aggregation):
            slow = self.add(node.query, SlowFlushOperator(self._flush, self._end))
            self.connect(slow, [operator, *inputs])
            return slow
        if self._in_order and isinstance(node, Source | Join | FilterJoin):
            merge = self.add(node.query, OrderOperator(1, False, True))
            self.connect(merge, [operator])
            return merge
        return operator


# The forms, and measures of operators: memory in tuples and bytes, latency in virtual time.

OOP, IOP = "oop", "iop"


@dataclass(frozen=True)
class Experiment:
    """The form of the operators in an experiment about memory and latency (002, section 8).

    Attributes:
        form: `oop`, or `iop`: merges that restore order above every source, union and join, buffered sliding windows.
        flush: results that an aggregation emits for each row it reads (slow flush; 000, section 3.1); 0 emits all at
            once.

    Raises:
        ConfigError: no such form, or a negative number.
    """

    form: str = OOP
    flush: int = 0

    def __post_init__(self) -> None:
        if self.form not in (OOP, IOP):
            raise ConfigError(f"there is no form {self.form!r} of operators", f"there are: {OOP}, {IOP}")
        if self.flush < 0:
            raise ConfigError(f"a slow flush of {self.flush} results for a row", "give 1 or more, or 0 for none")

    def operators(
        self,
        owned: range,
        read_from: Mapping[str, int],
        life: Life,
        packet_samplings: PacketSamplings,
        by_arrival: bool,
    ) -> Operators:
        """Returns operators of this form."""
        if self == Experiment():
            return Operators(owned, read_from, life, packet_samplings)
        if by_arrival:
            raise ConfigError(f"operators as in {self} know the order of the clock only", "leave the experiment away")
        return FormedOperators(self, owned, read_from, life, packet_samplings)

    def observe(self, plan: Operators, clock: Clock) -> list[OperatorMeasures]:
        """Measures every operator."""
        return [probe.observed for probe in probes(plan.named, clock)]


@dataclass
class OperatorMeasures:
    """The measures of one operator over an evaluation.

    Attributes:
        operator: `query/kind/number`.
        rows: number of rows emitted.
        tuples: largest number of stored rows and groups.
        bytes: largest size of their values, bytes.
        latency: sum over the rows of emission time minus `_last`, ns of virtual time.
        longest: largest such difference, ns.
    """

    operator: str
    rows: int = 0
    tuples: int = 0
    bytes: int = 0
    latency: int = 0
    longest: int = 0


class Probe(StreamOperator):
    """Measures the output and the state of an operator."""

    def __init__(self, name: str, operator: StreamOperator, clock: Clock) -> None:
        super().__init__()
        self.observed = OperatorMeasures(name)
        self._operator, self._clock = operator, clock

    def row(self, port: int, row: Row) -> None:
        """Counts a row and its latency."""
        waited = max(self._clock.tick - row.last, 0)
        self.observed.rows += 1
        self.observed.latency += waited
        self.observed.longest = max(self.observed.longest, waited)

    def promise(self, port: int, promise: Promise) -> None:
        """Ignores promises."""

    def measure(self) -> None:
        """Measures the state of the operator."""
        sizes = [size(values) for values in self._operator.state_rows()]
        self.observed.tuples = max(self.observed.tuples, len(sizes))
        self.observed.bytes = max(self.observed.bytes, sum(sizes))


def probes(named: Mapping[str, StreamOperator], clock: Clock) -> list[Probe]:
    """Attaches a probe to every operator."""
    operator_probes = [Probe(name, operator, clock) for name, operator in named.items()]
    for probe, operator in zip(operator_probes, named.values(), strict=True):
        operator.connect(probe, 0)
        # Measured before rows are removed, not at ticks: rows that leave one operator at a promise fill the next at the
        # same tick.
        operator.before_release = probe.measure
    return operator_probes


def size(values: Values) -> int:
    """The size of values in bytes: 8 for a number, the length of a text or an address.

    Example:
        >>> size((1, None, "abc", 2.5))
        19
    """
    return sum(len(v) if isinstance(v, str | bytes) else 0 if v is None else 8 for v in values)
