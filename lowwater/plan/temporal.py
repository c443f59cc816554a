"""Temporal attributes as monotone functions of the packet clock.

The planner, the heartbeats and the Spark lowering compute the progress of an attribute here. An attribute is a set of
components. A component is a chain of steps from the clock (ns since the epoch) to a value. Two questions are inverse to
each other (SEMANTICS I1, P1, P2). `promise(P)`: which values may still come when no packet before P will come?
`last(v)`: up to which instant may a packet change a row of value v? A join adds the components of the other side,
shifted by its match window (P4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from lowwater.catalog import expr as ex, localdays, periods

END_OF_TIME = 1 << 62
"""First timestamp (ns) out of range (SEMANTICS T3); a link that has ended promises it."""

INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Step:
    """One step of a component."""

    # `add` c, `mul` c > 0, `div` c > 0 (truncating toward zero, V2), `neg`, `day`: seconds to local days, or `period`:
    # us to the begin of their period of c months
    op: str
    by: int = 0  # the constant c
    # the parameter whose value c will be; empty if c is known. Such a step shows only the direction: no instant can be
    # computed, and the plan cannot run.
    param: str = ""
    zone: str = ""  # the time zone of a `day`

    @property
    def days(self) -> localdays.LocalDays:
        return localdays.local_days(self.zone)

    def __call__(self, value: int) -> int:
        if self.op == "add":
            return value + self.by
        if self.op == "mul":
            return value * self.by
        if self.op == "div":
            return value // self.by if value >= 0 else -(-value // self.by)
        if self.op == "period":
            return int(periods.begin(value, self.by))
        return self.days.value(value) if self.op == "day" else -value

    def largest(self, value: int) -> int:
        """Returns the largest x whose image is at most `value`; for increasing steps only."""
        if self.op == "add":
            return value - self.by
        if self.op == "mul":
            return value // self.by
        if self.op == "day":
            return self.days.last(value)
        if self.op == "period":
            return int(periods.last(value, self.by))
        return value * self.by + (self.by - 1 if value >= 0 else 0)

    def smallest(self, value: int) -> int:
        """Returns the smallest x whose image is at least `value`; for increasing steps only."""
        if self.op == "add":
            return value - self.by
        if self.op == "mul":
            return -(-value // self.by)
        if self.op == "day":
            return self.days.first(value)
        if self.op == "period":
            return int(periods.first(value, self.by))
        return value * self.by - (self.by - 1 if value <= 0 else 0)


Component = tuple[Step, ...]


def _apply(steps: Component, instant: int) -> int:
    for step in steps:
        instant = step(instant)
    return instant


def _bound(steps: Component, value: int, at_most: bool) -> int:
    """Maps a bound on the value back to a bound on the instant; each `neg` turns an upper bound into a lower one."""
    for step in reversed(steps):
        if step.op == "neg":
            value, at_most = -value, not at_most
        else:
            value = step.largest(value) if at_most else step.smallest(value)
    return value


def _append(steps: Component, step: Step) -> Component:
    if step.op == "add" and not step.param and steps and steps[-1].op == "add" and not steps[-1].param:
        steps, step = steps[:-1], Step("add", steps[-1].by + step.by)
    idle = step in (Step("add", 0), Step("mul", 1), Step("div", 1))
    return steps if idle else (*steps, step)


@dataclass(frozen=True)
class Temporal:
    """A temporal attribute of a stream.

    Example:
        >>> tenths = Temporal(((Step("div", 10_000_000_000),),))
        >>> tenths.promise(25_000_000_000), tenths.last(2), tenths.first(2)
        (2, 29999999999, 20000000000)
    """

    components: tuple[Component, ...]  # chains of steps from the clock, all with the same direction
    # empty for the packet clock. Otherwise the attribute with which the chains begin, which is not a function of the
    # clock (SEMANTICS T8, I4). Then `instant` is a value of that attribute, not ns.
    origin: str = ""
    # chains of the values alone, where rows also wait for components of others; empty if the only component is that
    # chain. Several where values of different chains are in one column, as after MERGE.
    own: tuple[Component, ...] = field(default=(), compare=False, repr=False)

    @property
    def chains(self) -> tuple[Component, ...]:
        return self.own or self.components

    @property
    def begins(self) -> Temporal | None:
        """The attribute without what its rows wait for; None if its values have several chains. Its `first(v)` is the
        instant at which the epoch or window of a value begins."""
        return Temporal(self.chains, self.origin) if len(self.chains) == 1 else None

    @property
    def steady(self) -> bool:
        """Whether every whole number is a value: none is left out, as multiples and dates leave some."""
        return all(step.op in ("div", "add") for steps in self.components for step in steps)

    @property
    def increasing(self) -> bool:
        return sum(step.op == "neg" for step in self.components[0]) % 2 == 0

    def promise(self, instant: int) -> int:
        """Returns the bound of all later values, if every later packet is at or after `instant` (ns)."""
        if len(self.components) == 1:  # nearly always, and heartbeats ask for each tick
            return _apply(self.components[0], instant)
        values = [_apply(steps, instant) for steps in self.components]
        return min(values) if self.increasing else max(values)

    def latest(self, instant: int) -> int:
        """Returns the furthest value that packets up to `instant` (ns) can give."""
        values = [_apply(steps, instant) for steps in self.components]
        return max(values) if self.increasing else min(values)

    def last(self, value: int) -> int:
        """Returns the largest instant (ns) at which a packet may still make or change a row of this value."""
        latest = max(_bound(steps, value, self.increasing) for steps in self.components)
        return min(latest, END_OF_TIME - 1)  # no packet is later, so an unbounded run owns all rows

    def first(self, value: int) -> int:
        """Returns the smallest instant (ns) at which a packet can make a row of this value or a later one."""
        return min(_bound(steps, value, not self.increasing) for steps in self.components)

    def then(self, *steps: Step) -> Temporal:
        """Returns the attribute after further steps. Consecutive additions become one step, additions of 0 none."""
        components, own = self.components, self.own
        for step in steps:
            components = tuple(_append(component, step) for component in components)
            own = tuple(dict.fromkeys(_append(chain, step) for chain in own))
        return Temporal(components, self.origin, own)

    def joined(self, *others: Temporal) -> Temporal:
        """Returns the attribute whose rows also wait for the components of the others, which have the same origin."""
        components = dict.fromkeys(component for each in (self, *others) for component in each.components)
        return Temporal(tuple(components), self.origin, self.chains)

    def merged(self, *others: Temporal) -> Temporal:
        """Returns the attribute of a column with values of this one and of others, which have the same origin."""
        chains = dict.fromkeys(chain for each in (self, *others) for chain in each.chains)
        return Temporal(self.joined(*others).components, self.origin, tuple(chains))

    def alike(self, other: Temporal) -> bool:
        """Whether both have the same direction and are functions of the same clock."""
        return self.increasing == other.increasing and self.origin == other.origin

    def fits(self) -> bool:
        """Whether every instant in range has a 64-bit value at every step."""
        for steps in self.components:
            for value in (0, END_OF_TIME):
                for step in steps:
                    value = step(value)
                    if abs(value) > INT64_MAX:
                        return False
        return True


CLOCK = Temporal(((),))
"""The packet timestamp itself, in ns."""


def granularity(times: Sequence[Temporal]) -> int:
    """Returns the clock time (ns) between two values of the finest attribute; 1 if none depends on the clock.

    Example:
        >>> minutes = Temporal(((Step("div", 1_000_000_000), Step("div", 60), Step("mul", 60)),))
        >>> granularity([minutes])
        60000000000
    """
    return min((_grain(steps) for time in times if not time.origin for steps in time.components), default=1)


def grid(times: Sequence[Temporal]) -> int:
    """Returns the greatest time (ns) that divides every instant at which a value of some attribute begins.

    Example:
        >>> seconds = (Step("div", 1_000_000_000),)
        >>> grid([Temporal(((*seconds, Step("div", 6)),)), Temporal(((*seconds, Step("add", 2), Step("div", 10)),))])
        2000000000
    """
    chains = [Temporal((steps,)) for time in times if not time.origin for steps in time.components]
    # Division truncates toward zero, so negative values may begin at other instants than positive ones.
    begins = [chain.first(chain.promise(at)) for chain in chains for at in (1 << 59, 3 << 60)]
    return gcd(*(granularity([chain]) for chain in chains), *begins) or 1


def _grain(steps: Component) -> int:
    """Returns the clock time (ns) of one step of a chain; a divisor of all steps if they are uneven."""
    clock, jump = 1, 1
    for step in steps:
        if step.op == "mul":
            jump *= step.by
        elif step.op == "div" and step.by % jump == 0:
            clock, jump = clock * (step.by // jump), 1
        elif step.op == "div" and jump % step.by == 0:
            jump //= step.by
        elif step.op == "div":
            return clock
        elif step.op == "day":
            return clock * (step.days.grain // jump) if step.days.grain % jump == 0 else clock
        elif step.op == "period":
            return clock * (periods.DAY // jump) if periods.DAY % jump == 0 else clock
    return clock


def infer(expr: ex.Expr, columns: dict[str, Temporal]) -> Temporal | None:
    """Returns the temporal property of an expression; None if the expression is not monotone in the clock.

    Arithmetic with constants keeps the property, because constants do not change. The public compilers give up for `x -
    constant` (shared rules of GSQL, section 4). `columns`: column -> its temporal property."""
    if isinstance(expr, ex.Column):
        return columns.get(expr.name)
    if isinstance(expr, ex.Call):
        step = _step_of(expr)
        time = expr.arguments[-1 if step and step.op == "period" else 0] if expr.arguments else expr
        inner = infer(time, columns) if step or _is_cast(expr) else None
        return inner.then(step) if inner and step else inner
    if isinstance(expr, ex.Unary) and expr.op == "-":
        inner = infer(expr.operand, columns)
        return inner.then(Step("neg")) if inner else None
    if isinstance(expr, ex.Binary):
        steps = _steps_of(expr, columns)
        return steps if steps and steps.fits() else None
    return None


def _steps_of(expr: ex.Binary, columns: dict[str, Temporal]) -> Temporal | None:
    left, right = infer(expr.left, columns), infer(expr.right, columns)
    if left and (constant := _constant(expr.right)):
        by, param = constant
        if expr.op == "-":
            return left.then(Step("add", -by, param))
        return _with_constant(left, expr.op, by, param)
    if right and (constant := _constant(expr.left)):
        by, param = constant
        if expr.op == "-":
            return right.then(Step("neg"), Step("add", by, param))
        return None if expr.op == "/" else _with_constant(right, expr.op, by, param)
    return None


def _with_constant(time: Temporal, op: str, by: int, param: str) -> Temporal | None:
    """Returns an attribute plus, times or divided by a constant; None for any other operator."""
    if op == "+":
        return time.then(Step("add", by, param))
    if op in ("*", "/") and by != 0:
        scaled = time.then(Step("mul" if op == "*" else "div", abs(by), param))
        return scaled if by > 0 else scaled.then(Step("neg"))
    return None


def _is_cast(call: ex.Call) -> bool:
    """Whether a call returns its integer argument unchanged: a cast. Other monotone functions promise other values."""
    function = call.function
    monotone = function.monotone and function.origin == "built-in"
    return monotone and function.returns is ex.Type.INT and function.parameters in ((ex.Type.INT,), (ex.Type.INSTANT,))


def _step_of(call: ex.Call) -> Step | None:
    """Returns the step of a function of the clock and a time zone, or of a period and an instant. A parameter without a
    value counts as UTC."""
    if not call.function.step:
        return None
    if call.function.step == "period":
        months = periods.MONTHS.get(str(getattr(call.arguments[0], "value", "")))
        return Step("period", months) if months else None
    zone = call.arguments[1]
    if isinstance(zone, ex.Param):
        return Step(call.function.step, param=zone.name, zone="UTC")
    if isinstance(zone, ex.Const) and isinstance(zone.value, str):
        return Step(call.function.step, zone=zone.value)
    return None


def _constant(expr: ex.Expr) -> tuple[int, str] | None:
    """Returns an integer constant and its parameter, empty for a literal. A parameter without a value counts as 1."""
    if isinstance(expr, ex.Const) and type(expr.value) is int:
        return expr.value, ""
    if isinstance(expr, ex.Param) and expr.type is ex.Type.INT and not expr.name.startswith("@"):
        return 1, expr.name
    if isinstance(expr, ex.Call) and _is_cast(expr):
        return _constant(expr.arguments[0])
    return None
