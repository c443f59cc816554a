"""Measures of each operator for experiments: memory in tuples and bytes, latency in virtual time.

`reference.engine` attaches probes only if an experiment asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowwater.errors import ConfigError
from lowwater.reference.clock import Clock
from lowwater.stream.operators import Promise, Row, StreamOperator
from lowwater.stream.values import Values

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
