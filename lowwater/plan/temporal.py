"""Temporal attributes as monotone functions of the packet clock.

Everything that the planner, the heartbeats and the Spark lowering know of an attribute's progress is here. An
attribute is a set of components, each a chain of steps from the clock (ns since the epoch) to a value. The two
questions are adjoint: `promise(P)`, which values may still come once no packet before P will, and `last(v)`, the
largest instant whose packet may still change a row of value v (SEMANTICS I1, P1, P2). A join adds to an attribute
the other side's components, carried through the match window (P4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from lowwater.catalog.expr import Binary, Call, Column, Const, Expr, Param, Type, Unary

END_OF_TIME = 1 << 62
"""First timestamp (ns) that is out of range (SEMANTICS T3): the promise of a link that has ended."""

INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Step:
    """One step: `add` c, `mul` c > 0, `div` c > 0 (truncating toward zero, V2), or `neg`.

    `param` names the parameter that c is, where its value is not known yet; then no instant can be computed, only the
    direction is known, and nothing runs.
    """

    op: str
    by: int = 0
    param: str = ""

    def __call__(self, value: int) -> int:
        if self.op == "add":
            return value + self.by
        if self.op == "mul":
            return value * self.by
        if self.op == "div":
            return value // self.by if value >= 0 else -(-value // self.by)
        return -value

    def largest(self, value: int) -> int:
        """The largest x whose image is at most `value`; only for the increasing steps."""
        if self.op == "add":
            return value - self.by
        if self.op == "mul":
            return value // self.by
        return value * self.by + (self.by - 1 if value >= 0 else 0)

    def smallest(self, value: int) -> int:
        """The smallest x whose image is at least `value`; only for the increasing steps."""
        if self.op == "add":
            return value - self.by
        if self.op == "mul":
            return -(-value // self.by)
        return value * self.by - (self.by - 1 if value <= 0 else 0)


Component = tuple[Step, ...]


def _apply(steps: Component, instant: int) -> int:
    for step in steps:
        instant = step(instant)
    return instant


def _bound(steps: Component, value: int, at_most: bool) -> int:
    """Carries a bound on the value inward: an upper one stays upper until a `neg` turns it."""
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

    Attributes:
        components: step chains from the clock; all have the same direction.
        origin: empty for the packet clock. Else the temporal attribute whose own values the chains begin with, since
            it is no function of the clock (SEMANTICS T8, I4); then promises and values are in its unit, not in ns.

    Example:
        >>> tenths = Temporal(((Step("div", 10_000_000_000),),))
        >>> tenths.promise(25_000_000_000), tenths.last(2), tenths.first(2)
        (2, 29999999999, 20000000000)
    """

    components: tuple[Component, ...]
    origin: str = ""

    @property
    def increasing(self) -> bool:
        return sum(step.op == "neg" for step in self.components[0]) % 2 == 0

    def promise(self, instant: int) -> int:
        """The bound that no later value passes, once every later packet is at or after `instant`."""
        values = [_apply(steps, instant) for steps in self.components]
        return min(values) if self.increasing else max(values)

    def latest(self, instant: int) -> int:
        """The furthest value that packets up to `instant` can have made."""
        values = [_apply(steps, instant) for steps in self.components]
        return max(values) if self.increasing else min(values)

    def last(self, value: int) -> int:
        """The largest instant (ns) at which a packet may still make or change a row of this value."""
        latest = max(_bound(steps, value, self.increasing) for steps in self.components)
        return min(latest, END_OF_TIME - 1)  # no packet is later, so an unbounded run owns every row

    def first(self, value: int) -> int:
        """The smallest instant (ns) from which rows of this or a later value are made."""
        return min(_bound(steps, value, not self.increasing) for steps in self.components)

    def then(self, *steps: Step) -> Temporal:
        """The attribute that further steps make of this one; added constants are kept as one step or none."""
        components = self.components
        for step in steps:
            components = tuple(_append(component, step) for component in components)
        return Temporal(components, self.origin)

    def joined(self, *others: Temporal) -> Temporal:
        """The attribute whose rows also wait for the components of the others, which have the same origin."""
        merged = dict.fromkeys(self.components)
        for other in others:
            merged.update(dict.fromkeys(other.components))
        return Temporal(tuple(merged), self.origin)

    def alike(self, other: Temporal) -> bool:
        """Whether both progress in one direction and are functions of one clock."""
        return self.increasing == other.increasing and self.origin == other.origin

    def fits(self) -> bool:
        """Whether every sane instant has a 64-bit value at every step."""
        for steps in self.components:
            for instant in (0, END_OF_TIME):
                value = instant
                for step in steps:
                    value = step(value)
                    if abs(value) > INT64_MAX:
                        return False
        return True


CLOCK = Temporal(((),))
"""The packet timestamp itself, in ns."""


def granularity(times: Sequence[Temporal]) -> int:
    """How much clock (ns) passes between two values of the finest of some attributes.

    Example:
        >>> minutes = Temporal(((Step("div", 1_000_000_000), Step("div", 60), Step("mul", 60)),))
        >>> granularity([minutes])
        60000000000
    """
    return min((_grain(steps) for time in times if not time.origin for steps in time.components), default=1)


def grid(times: Sequence[Temporal]) -> int:
    """The greatest clock (ns) of which every instant is a multiple at which a value of some attribute begins.

    Example:
        >>> seconds = (Step("div", 1_000_000_000),)
        >>> grid([Temporal(((*seconds, Step("div", 6)),)), Temporal(((*seconds, Step("add", 2), Step("div", 10)),))])
        2000000000
    """
    chains = [Temporal((steps,)) for time in times if not time.origin for steps in time.components]
    # Division truncates toward zero, so values below it may begin elsewhere than those above it do.
    begins = [chain.first(chain.promise(at)) for chain in chains for at in (1 << 59, 3 << 60)]
    return gcd(*(granularity([chain]) for chain in chains), *begins) or 1


def _grain(steps: Component) -> int:
    """The clock (ns) in which a chain takes one step; of one whose steps are uneven a part of each of them."""
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
    return clock


def infer(expr: Expr, columns: dict[str, Temporal]) -> Temporal | None:
    """The temporal property of an expression, or None where it is not monotone in the clock.

    Arithmetic with constants keeps the property: sharper than the public compilers for `x - constant`, which they
    call varying (shared rules of GSQL, section 4); safe because constants do not move.
    """
    if isinstance(expr, Column):
        return columns.get(expr.name)
    if isinstance(expr, Call):
        return infer(expr.arguments[0], columns) if _keeps(expr) else None
    if isinstance(expr, Unary) and expr.op == "-":
        inner = infer(expr.operand, columns)
        return inner.then(Step("neg")) if inner else None
    if isinstance(expr, Binary):
        steps = _steps_of(expr, columns)
        return steps if steps and steps.fits() else None
    return None


def _steps_of(expr: Binary, columns: dict[str, Temporal]) -> Temporal | None:
    left, right = infer(expr.left, columns), infer(expr.right, columns)
    known = _constant(expr.right)
    if left and known:
        by, param = known
        if expr.op == "+":
            return left.then(Step("add", by, param))
        if expr.op == "-":
            return left.then(Step("add", -by, param))
        if expr.op in "*/" and by != 0:
            scaled = left.then(Step("mul" if expr.op == "*" else "div", abs(by), param))
            return scaled if by > 0 else scaled.then(Step("neg"))
    known = _constant(expr.left)
    if right and known:
        by, param = known
        if expr.op == "+":
            return right.then(Step("add", by, param))
        if expr.op == "-":
            return right.then(Step("neg"), Step("add", by, param))
        if expr.op == "*" and by != 0:
            scaled = right.then(Step("mul", abs(by), param))
            return scaled if by > 0 else scaled.then(Step("neg"))
    return None


def _keeps(call: Call) -> bool:
    """Whether a call gives the integer that it takes: a cast. What else is monotone has other values to promise."""
    function = call.function
    return (
        function.monotone
        and function.origin == "built-in"
        and function.parameters == (function.returns,) == (Type.INT,)
    )


def _constant(expr: Expr) -> tuple[int, str] | None:
    """An integer that does not move; a parameter without a value counts as 1, above 0."""
    if isinstance(expr, Const) and type(expr.value) is int:
        return expr.value, ""
    if isinstance(expr, Param) and expr.type is Type.INT and not expr.name.startswith("@"):
        return 1, expr.name
    if isinstance(expr, Call) and _keeps(expr):
        return _constant(expr.arguments[0])
    return None
