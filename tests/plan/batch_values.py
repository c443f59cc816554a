"""Expressions and aggregates for the batch evaluator, as plain as the rules V1, V2 and O1 are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import and_, or_
from typing import Any

from lowwater.catalog.expr import Binary, Call, Case, Column, Const, Expr, StateCall, Type, Unary, conjuncts
from lowwater.catalog.functions import AggregateFunction, Catalog
from lowwater.plan.operators import Aggregate, Field, Partial
from lowwater.stream.values import Faults, compile_expr
from tests import natives

Env = Mapping[str, Any]
Evaluate = Callable[[Env], Any]
OnState = Callable[[StateCall, Sequence[Any]], Any]


def compiled(expr: Expr, on_state: OnState | None = None) -> Evaluate:
    """The closure that evaluates an expression over the columns of a row."""
    if isinstance(expr, Column):
        return lambda env: env[expr.name]
    if isinstance(expr, Const):
        constant = compile_expr(expr, (), Faults())(())
        return lambda env: constant
    parts = [compiled(child, on_state) for child in expr.children()]
    if isinstance(expr, Case):
        return lambda env: _case(env, parts)
    if isinstance(expr, Unary) and expr.op == "IS NULL":
        return lambda env: parts[0](env) is None
    if isinstance(expr, Call):
        return lambda env: _call(expr, [part(env) for part in parts])
    if isinstance(expr, StateCall):
        assert on_state is not None
        return lambda env: on_state(expr, [part(env) for part in parts])
    if isinstance(expr, Binary) and expr.type is Type.IP:
        return lambda env: _masked(expr.op, parts[0](env), parts[1](env))
    names = ("a", "b")[: len(parts)]
    operands = [Column(child.type, name) for child, name in zip(expr.children(), names, strict=True)]
    step = _over(expr, operands, names)
    return lambda env: step(tuple(part(env) for part in parts))


def _over(expr: Expr, operands: Sequence[Column], names: Sequence[str]) -> Callable[[tuple[Any, ...]], Any]:
    if isinstance(expr, Unary):
        return compile_expr(replace(expr, operand=operands[0]), names, Faults())
    assert isinstance(expr, Binary), expr
    return compile_expr(replace(expr, left=operands[0], right=operands[1]), names, Faults())


def _case(env: Env, parts: Sequence[Evaluate]) -> Any:
    for when, then in zip(parts[:-1:2], parts[1::2], strict=True):
        if when(env) is True:
            return then(env)
    return parts[-1](env)


def _call(expr: Call, arguments: Sequence[Any]) -> Any:
    if None in arguments:
        return None
    assert expr.function.value is not None, expr.function.name
    return expr.function.value(*arguments)


def _masked(op: str, a: bytes | None, b: bytes | None) -> bytes | None:
    if a is None or b is None or a[0] != b[0]:
        return None
    merge = and_ if op == "&" else or_
    return a[:1] + bytes(merge(x, y) for x, y in zip(a[1:], b[1:], strict=True))


def condition(expr: Expr | None, on_state: OnState | None = None) -> Callable[[Env], bool]:
    """Whether every conjunct is true; those after one that is not are not asked, which only states notice."""
    parts = [compiled(part, on_state) for part in conjuncts(expr)]
    return lambda env: all(part(env) is True for part in parts)


@dataclass
class Accumulator:
    """One aggregate over the rows of a group, in their order."""

    aggregate: Aggregate
    partial: bool = False
    values: list[Any] = field(default_factory=list)
    state: Any = None

    def __post_init__(self) -> None:
        self._arguments = [compiled(a) for a in (self.aggregate.argument, *self.aggregate.more) if a is not None]
        udaf = self.aggregate.udaf
        self._udaf = udaf.make() if udaf is not None and udaf.make is not None else None
        self._taken = udaf.taken if udaf is not None else 1
        if self._udaf is not None:
            self.state = self._udaf.initialize()

    def add(self, env: Env) -> None:
        """One row more."""
        arguments = [argument(env) for argument in self._arguments[: self._taken]]
        if None in arguments:
            return
        if self._udaf is not None:
            self.state = self._udaf.iterate(self.state, *arguments)
        else:
            self.values.append(arguments[0] if arguments else None)

    def value(self) -> Any:
        """The aggregate of the rows so far."""
        if self._udaf is not None:
            return self._udaf.output(self.state, *(extra({}) for extra in self._arguments[self._taken :]))
        if self.aggregate.function == "count":
            return len(self.values)
        found = natives.FOLDS[self.aggregate.function](self.values) if self.values else None
        # A sum that is NaN has no value (V2); a sub-aggregate hands it on to its superaggregate.
        return None if found != found and not self.partial and self.aggregate.function in ("sum", "avg") else found

    def next_epoch(self) -> None:
        """What CLOSING_WHEN leaves of it at the end of an epoch (O4)."""
        self.values = []
        if self._udaf is not None:
            udaf = self.aggregate.udaf
            if hasattr(self._udaf, "reinit"):
                self.state = self._udaf.reinit(self.state)
            elif udaf is None or not udaf.running:
                self.state = self._udaf.initialize()


def of_partial(partial: Partial, catalog: Catalog) -> Aggregate:
    """A sub-aggregate as an aggregate of its own."""
    known = [
        one
        for one in catalog.named(partial.function)
        if isinstance(one, AggregateFunction)
        and one.parameters == (() if partial.argument is None else (partial.argument.type,))
    ]
    return Aggregate(partial.name, partial.function, partial.argument, partial.type, (), known[0] if known else None)


def order_key(value: Any) -> tuple[bool, Any]:
    """Sorts NULL before everything."""
    return value is not None, 0 if value is None else value


def hashable(value: Any) -> Any:
    """A value as GROUP BY tells values apart: NaN is equal to itself."""
    return "nan" if isinstance(value, float) and value != value else value


def group_last(fields: Sequence[Field], values: Sequence[int | None]) -> int:
    """`_last` (ns) of a group: the least `last(value)` over its temporal keys."""
    pairs = ((f.temporal, v) for f, v in zip(fields, values, strict=True))
    return min(time.last(v) for time, v in pairs if time and not time.origin and v is not None)
