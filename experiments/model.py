"""Streams of packets and evaluations of the reference engine, for experiments on memory and latency.

Between an experiment and `lowwater.reference`: links with a rate, a number of flows and a delay; what the operators
kept over an evaluation; processor seconds of one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.architectures import IOP, OOP, BufferedWindowsOperator, Experiment, OperatorMeasures, OrderOperator
from lowwater.plan.context import Context, Links
from lowwater.plan.operators import Node
from lowwater.plan.properties import read_from
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.clock import PERIODIC, Clock, Disorder, Link, RecordSelection
from lowwater.reference.engine import Operators, evaluate
from lowwater.stream.groups import GroupOperator
from lowwater.stream.joins import JoinOperator
from lowwater.stream.operators import Life, Promise, Row, StreamOperator
from lowwater.stream.records import merge

SECOND = 1_000_000_000
START = 1_700_000_040 * SECOND
"""Of every stream: the start of a minute."""

PART = 1 << 14


@dataclass(frozen=True)
class Stream:
    """Packets of a link, evenly in time, each of a flow drawn evenly, as a traffic generator makes them.

    Attributes:
        rate: packets/s.
        seconds: how long.
        flows: different ones.
        seed: of the draw.
        delay: seconds from timestamp to arrival.
        answers: whether source and destination change sides, so that the packets answer those of another link.
        late: share of the packets that the delay is of; the others come at once.
        first: number of the first flow: links with different ones share none.
    """

    rate: float
    seconds: float
    flows: int
    seed: int
    delay: float = 0.0
    answers: bool = False
    late: float = 1.0
    first: int = 0

    @property
    def skew(self) -> int:
        """How late a packet may be, ns."""
        return round(self.delay * SECOND)

    def batch(self) -> pa.RecordBatch:
        """The packets in order of arrival."""
        count = round(self.rate * self.seconds)
        random = np.random.default_rng(self.seed)
        flows = self.first + random.integers(0, self.flows, count)
        gap = SECOND / self.rate
        stamps = START + (np.arange(count) * gap + random.uniform(0, gap, count)).astype(np.int64)
        arrivals = stamps + np.where(random.random(count) < self.late, self.skew, 0)
        order = np.argsort(arrivals, kind="stable")
        stamps, arrivals, flows = stamps[order], arrivals[order], flows[order]
        here, there = ("dest", "src") if self.answers else ("src", "dest")
        columns = {
            "timestamp": stamps,
            "arrival": arrivals,
            "len": np.full(count, 100, np.int32),
            "ipversion": np.full(count, 4, np.int32),
            "protocol": np.full(count, 6, np.int32),
            f"{here}IP_hi": np.zeros(count, np.int64),
            f"{here}IP_lo": 0xFFFF_0A00_0000 + flows,
            f"{there}IP_hi": np.zeros(count, np.int64),
            f"{there}IP_lo": 0xFFFF_C0A8_0000 + flows % 65_521,
            f"{here}Port": (1024 + flows % 50_000).astype(np.int32),
            f"{there}Port": np.full(count, 443, np.int32),
        }
        return pa.record_batch([pa.array(values) for values in columns.values()], names=list(columns))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The packets in parts that are small as values of Python."""
        whole = self.batch()
        yield from (whole.slice(at, PART) for at in range(0, whole.num_rows, PART))


def planned(text: str, links: Sequence[str], context: Context | None = None, **sets: tuple[str, ...]) -> Node:
    """The logical plan of the last query of a text."""
    return plan_texts([("query.gsql", text)], Links(tuple(links), sets), context=context).queries[-1].logical


@dataclass(frozen=True)
class Memory:
    """What the operators of an evaluation kept at most.

    Attributes:
        operators: each of them, by name.
        rows: of the result.
        ticks: emission of each row of the result, ns; `lasts` its last instant.
    """

    operators: list[OperatorMeasures]
    rows: int
    ticks: list[int]
    lasts: list[int]

    @property
    def tuples(self) -> int:
        """Sum over the operators of the most that each kept."""
        return sum(each.tuples for each in self.operators)

    @property
    def megabytes(self) -> float:
        """The same in MB of values."""
        return sum(each.bytes for each in self.operators) / 1e6

    def measures(self, scale: float, **kinds: str) -> dict[str, int | float]:
        """The measures of a row: tuples in operators of kinds, of all, MB of values, and these at the paper's rates.

        Args:
            scale: the paper's rate, of that which was measured.
            kinds: column -> kind of operator.
        """
        parts = {column: self.of(kind) for column, kind in kinds.items()}
        megabytes = {"megabytes": self.megabytes, "scaled": self.megabytes * scale}
        return {**parts, "tuples": self.tuples, **megabytes}

    def of(self, kind: str) -> int:
        """Tuples in operators of a kind (`Order`, `Group`, `Join`, `BufferedWindows`)."""
        return sum(each.tuples for each in self.operators if each.operator.split("/")[1] == kind)


def memory(node: Node, streams: Mapping[str, Stream], form: str, period: float = 1.0, policy: str = PERIODIC) -> Memory:
    """Evaluates a plan over streams, and looks at what its operators keep.

    Args:
        node: logical plan.
        streams: by link.
        form: `oop` or `iop`.
        period: of heartbeats, s.
        policy: of heartbeats.
    """
    packets = {name: each.batches() for name, each in streams.items()}
    skews = {name: each.skew for name, each in streams.items()}
    starts = read_from(node, 0)
    found = evaluate(
        node, packets, skews, 0, END_OF_TIME, starts, round(period * SECOND), policy, experiment=Experiment(form)
    )
    return Memory(found.observed, len(found.rows), found.ticks, found.lasts)


@dataclass
class Timed:
    """Processor seconds of an evaluation.

    Attributes:
        seconds: of all of it.
        latencies: seconds from a promise of the clock to each row of the result that it releases.
        longest: seconds of the longest promise.
    """

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    longest: float = 0.0

    @property
    def latency(self) -> float:
        """Mean of the latencies."""
        return sum(self.latencies) / max(1, len(self.latencies))


class _TimedClock(Clock):
    """A clock that notes when it begins to make the promises of a tick."""

    began = 0.0
    longest = 0.0
    before: Callable[[int], None] | None = None

    def _promise(self, tick: int, promises: Iterable[tuple[Link, int]]) -> None:
        if self.before is not None:
            self.before(tick)
        self.began = time.process_time()
        super()._promise(tick, promises)
        self.longest = max(self.longest, time.process_time() - self.began)


class _TimedSink(StreamOperator):
    """The end of a plan: notes how long after the promise each row comes."""

    def __init__(self, clock: _TimedClock, timed: Timed) -> None:
        super().__init__()
        self._clock, self._timed = clock, timed

    def row(self, port: int, row: Row) -> None:
        self._timed.latencies.append(time.process_time() - self._clock.began)

    def promise(self, port: int, promise: Promise) -> None:
        """Nothing."""


def timed(node: Node, streams: Mapping[str, Stream], form: str, period: float = 1.0) -> Timed:
    """Evaluates a plan over streams at full speed, without looking at any state."""
    plan, clock, top = _driven(node, streams, form, period)
    found = Timed()
    top.connect(_TimedSink(clock, found), 0)
    records = list(merge({name: each.batches() for name, each in streams.items()}, plan.columns))
    began = time.process_time()
    for record in records:
        clock.record(record)
    clock.close()
    found.seconds, found.longest = time.process_time() - began, clock.longest
    return found


def calls(node: Node, streams: Mapping[str, Stream], form: str, period: float = 1.0) -> int:
    """Evaluates a plan over streams, and counts the calls that the interpreter makes: the same on every machine."""
    plan, clock, top = _driven(node, streams, form, period)
    top.connect(_TimedSink(clock, Timed()), 0)
    records = list(merge({name: each.batches() for name, each in streams.items()}, plan.columns))
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for record in records:
            clock.record(record)
        clock.close()
    finally:
        sys.setprofile(before)
    return counted


@dataclass
class Objects:
    """Most bytes of the objects in the state of operators, with their containers.

    Attributes:
        size: of all operators together.
        each: kind of operator -> mean bytes a tuple, when it kept most.
    """

    size: int = 0
    each: dict[str, float] = field(default_factory=dict)


def objects(node: Node, streams: Mapping[str, Stream], form: str, every: int, period: float = 1.0) -> Objects:
    """Evaluates a plan over streams, and weighs the operators' state every so many seconds before the promises."""
    plan, clock, _ = _driven(node, streams, form, period)
    found = Objects()

    def look(tick: int) -> None:
        if tick % (every * SECOND) == 0:
            total = deep_size([state(operator) for operator in plan.named.values()])
            if total > found.size:
                found.size = total
                for kind in (OrderOperator, JoinOperator):
                    mine = [operator for operator in plan.named.values() if isinstance(operator, kind)]
                    kept = sum(sum(1 for _ in operator.state_rows()) for operator in mine)
                    if kept:
                        size = deep_size([state(operator) for operator in mine])
                        found.each[kind.__name__.removesuffix("Operator")] = size / kept

    clock.before = look
    for record in merge({name: each.batches() for name, each in streams.items()}, plan.columns):
        clock.record(record)
    return found


def state(operator: StreamOperator) -> list[Any]:
    """What an operator keeps rows and groups in."""
    if isinstance(operator, OrderOperator):
        return [operator._waiting]
    if isinstance(operator, JoinOperator):
        return [part for side in operator._sides for part in (side.buckets, side.ends)]
    if isinstance(operator, GroupOperator):
        return [operator._groups, operator._ends]
    return [operator._rows] if isinstance(operator, BufferedWindowsOperator) else []


def deep_size(root: Any) -> int:
    """Bytes of an object and of all that it holds, each object once.

    Example:
        >>> deep_size([(), ()]) == sys.getsizeof([(), ()]) + sys.getsizeof(())
        True
    """
    seen: set[int] = set()
    stack, total = [root], 0
    while stack:
        each = stack.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        if isinstance(each, dict):
            stack += each.keys()
            stack += each.values()
        elif isinstance(each, list | tuple):
            stack += each
        elif hasattr(each, "__dict__") and not callable(each):
            stack.append(vars(each))
    return total


def _driven(
    node: Node, streams: Mapping[str, Stream], form: str, period: float
) -> tuple[Operators, _TimedClock, StreamOperator]:
    life = Life()
    plan = Experiment(form).operators(range(0, END_OF_TIME), read_from(node, 0), life, {}, False)
    top = plan.operator(node)
    disorder = {name: Disorder(each.skew) for name, each in streams.items()}
    span = RecordSelection(0, END_OF_TIME, False, False, False)
    clock = _TimedClock(plan.links(disorder), plan.holders(disorder), span, life, round(period * SECOND), PERIODIC)
    return plan, clock, top


FORMS = (IOP, OOP)


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """A line through points: its rise, and the share of the variance that it explains (R²; 0 of a level one)."""
    xs, ys = np.array([x for x, _ in points]), np.array([y for _, y in points])
    rise, base = np.polyfit(xs, ys, 1)
    rest, whole = float(((ys - rise * xs - base) ** 2).sum()), float(((ys - ys.mean()) ** 2).sum())
    return float(rise), 1 - rest / whole if whole else 0.0
