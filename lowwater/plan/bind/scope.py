"""Binds and types expressions: names of the text become columns of the input row.

Between the syntax tree and the logical plan: `binder` builds a Scope per statement and asks it for bound expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lowwater.catalog.expr import Binary, Call, Case, Column, Const, Expr, Param, StateCall, Type, Unary
from lowwater.catalog.functions import AggregateFunction, Function, StateFunction
from lowwater.catalog.values import pack_ip
from lowwater.errors import LowwaterError, QueryError
from lowwater.gsql import nodes as syntax
from lowwater.gsql.words import AGGREGATES
from lowwater.plan.bind import operators
from lowwater.plan.bind.operators import NUMERIC, negate
from lowwater.plan.bind.protocols import type_of
from lowwater.plan.context import Context, Value
from lowwater.plan.text import Text, nearest, place_of, spot

LITERALS = {"int": Type.INT, "float": Type.FLOAT, "string": Type.STRING, "bool": Type.BOOL, "null": Type.STRING}


@dataclass(frozen=True)
class Names:
    """What one statement may name besides columns.

    Attributes:
        context: functions, links, protocols.
        params: of PARAM, with their values; None where none is given.
        defines: of DEFINE.
        links: that the statement reads, for `@property`.
        assumed: sources that are taken for links only because nothing else is called so.
    """

    context: Context = field(default_factory=Context)
    params: Mapping[str, tuple[Type, Value | None]] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @staticmethod
    def of(statement: syntax.Statement, context: Context, text: Text) -> Names:
        """The names that a statement's PARAM and DEFINE blocks give.

        Raises:
            QueryError: an unknown type, or a value that is not of the declared type.
        """
        declared: tuple[syntax.ParamDecl, ...] = getattr(statement, "params", ())
        defines: tuple[tuple[str, str], ...] = getattr(statement, "defines", ())
        return Names(context, {p.name: _param(p, context.params.get(p.name), text) for p in declared}, dict(defines))


def _param(declared: syntax.ParamDecl, given: Value | None, text: Text) -> tuple[Type, Value | None]:
    kind = type_of(declared.type)
    if kind is None:
        raise text.error(declared.place, f"${declared.name} has the type {declared.type}, which is none of ours")
    value = given if given is not None or declared.default is None else declared.default.value
    if value is None:
        return kind, None
    try:
        return kind, _value(kind, value)
    except ValueError:
        message = f"${declared.name} is {value!r}, which is no {declared.type}"
        raise text.error(declared.place, message, f"--param {declared.name}=VALUE") from None


def _value(kind: Type, value: Value) -> Value:
    if kind is Type.BOOL:
        words: dict[str, bool] = {"true": True, "false": False}
        if str(value).lower() not in words:
            raise ValueError(value)
        return words[str(value).lower()]
    if kind is Type.INT:
        number = int(str(value))
        if abs(number) >= 1 << 63:
            raise ValueError(value)
        return number
    if kind is Type.IP:
        pack_ip(str(value))
    return float(value) if kind is Type.FLOAT else str(value)


@dataclass
class Scope:
    """Names that expressions of one statement may use.

    Attributes:
        text: for errors.
        sources: range variable -> column name -> what it reads of the input row.
        keys: group-by variables, which come before columns.
        on_aggregate: turns an aggregate call into a bound column; None where aggregates are not allowed.
        on_state: told of every stateful function; None where they are not allowed.
        where: what a misplaced aggregate stands in, for the message.
        names: parameters, functions and the like.
    """

    text: Text
    sources: Mapping[str, Mapping[str, Expr]]
    keys: Mapping[str, Expr] = field(default_factory=dict)
    on_aggregate: Callable[[syntax.Call, Sequence[AggregateFunction]], Expr] | None = None
    where: str = "here"
    names: Names = field(default_factory=Names)
    on_state: Callable[[StateFunction], None] | None = None

    def bind(self, node: syntax.Expression) -> Expr:
        """Binds one expression.

        Raises:
            QueryError: an unknown or ambiguous name, or types that do not go together; marked in the text.
        """
        if isinstance(node, syntax.Literal):
            return self._literal(node)
        if isinstance(node, syntax.Name):
            return self._name(node)
        if isinstance(node, syntax.UnaryOp):
            return self._fitting(node, node.op, operators.unary(node.op, operand := self.bind(node.operand)), operand)
        if isinstance(node, syntax.BinaryOp):
            return self._operation(node, node.op, self.bind(node.left), self.bind(node.right))
        if isinstance(node, syntax.Call):
            return self._call(node)
        if isinstance(node, syntax.Parameter):
            return self._parameter(node)
        if isinstance(node, syntax.Defined):
            return self._defined(node)
        if isinstance(node, syntax.Property):
            return self._property(node)
        return self._wide(node)

    def predicate(self, node: syntax.Expression, clause: str) -> Expr:
        """Binds an expression that must be a condition."""
        bound = operators.typed(self.bind(node), Type.BOOL)
        if bound.type is not Type.BOOL:
            raise self.text.error(place_of(node), f"{clause} needs a condition, this is of type {bound.type}")
        return bound

    def constant(self, node: syntax.Expression, what: str) -> int | float:
        """The number that a constant expression is.

        Raises:
            QueryError: it is none, or a parameter without a value.
        """
        bound = self.bind(node)
        if isinstance(bound, Param):
            raise self.text.error(place_of(node), f"{what} needs the value of ${bound.name}", "give --param NAME=VALUE")
        if not (isinstance(bound, Const) and isinstance(bound.value, int | float)) or isinstance(bound.value, bool):
            raise self.text.error(place_of(node), f"{what} needs a constant number")
        return bound.value

    def _literal(self, node: syntax.Literal) -> Expr:
        if node.kind == "ip":
            return Const(Type.IP, pack_ip(str(node.value)))
        return Const(LITERALS[node.kind], node.value)

    def _name(self, node: syntax.Name) -> Expr:
        if not node.qualifier:
            if node.name in self.keys:
                return self.keys[node.name]
            found = [alias for alias, columns in self.sources.items() if node.name in columns]
            if len(found) > 1:
                choices = " or ".join(f"{alias}.{node.name}" for alias in found)
                raise self.text.error(node.place, f"column {node.name} is ambiguous", f"write {choices}")
            if found:
                return self.sources[found[0]][node.name]
            raise self._unknown(node, {name for columns in self.sources.values() for name in columns} | set(self.keys))
        alias = node.qualifier if node.qualifier in self.sources else node.qualifier.split(".")[-1]
        if alias not in self.sources:
            if not self.sources and node.name in self.keys:
                return self.keys[node.name]
            raise self.text.error(
                node.place, f"no source is called {node.qualifier}", nearest(node.qualifier, self.sources)
            )
        columns = self.sources[alias]
        if node.name not in columns:
            raise self._unknown(node, set(columns))
        return columns[node.name]

    def _unknown(self, node: syntax.Name, known: set[str]) -> QueryError:
        if self.keys and not self.sources:
            hint = nearest(node.name, known) or "only group-by variables and aggregates can be used here"
            return self.text.error(node.place, f"{node.name} is no group-by variable of this query", hint)
        assumed = [alias for alias in self.names.assumed if alias in self.sources]
        if assumed:
            what = f"nothing is called {assumed[0]}, so it is read as a link of packets"
            message = f"unknown column {node.name}; {what}"
            return self.text.error(node.place, message, f"is {assumed[0]} a query of another file, or a PROTOCOL?")
        return self.text.error(node.place, f"unknown column {node.name}", nearest(node.name, known))

    def _operation(self, node: syntax.Expression, op: str, left: Expr, right: Expr) -> Expr:
        try:
            return self._fitting(node, op, operators.binary(op, left, right), left, right)
        except ValueError as error:
            raise self.text.error(place_of(node), f"{str(error)!r} is no address", "IP_VAL'10.0.0.1'") from None

    def _fitting(self, node: syntax.Expression, op: str, bound: Expr | None, *operands: Expr) -> Expr:
        if bound is None:
            types = " and ".join(operand.type for operand in operands)
            plural = "types" if len(operands) > 1 else "type"
            raise self.text.error(place_of(node), f"{op} does not apply to {plural} {types}")
        return bound

    def _wide(self, node: syntax.Expression) -> Expr:
        """The constructs of SQL that GSQL lacks, by what they stand for."""
        if isinstance(node, syntax.IsNull):
            return negate(Unary(Type.BOOL, "IS NULL", self.bind(node.operand)), node.negated)
        if isinstance(node, syntax.InList):
            operand = self.bind(node.operand)
            equals = [self._operation(value, "=", operand, self.bind(value)) for value in node.values]
            whole = equals[0]
            for equal in equals[1:]:
                whole = Binary(Type.BOOL, "OR", whole, equal)
            return negate(whole, node.negated)
        if isinstance(node, syntax.Between):
            operand = self.bind(node.operand)
            low = self._operation(node, ">=", operand, self.bind(node.low))
            return negate(
                Binary(Type.BOOL, "AND", low, self._operation(node, "<=", operand, self.bind(node.high))), node.negated
            )
        if isinstance(node, syntax.Like):
            arguments = [self.bind(node.operand), self.bind(node.pattern)]
            return negate(self._function("like", node, arguments, self._functions("like")), node.negated)
        if isinstance(node, syntax.Case):
            return self._case(node)
        if isinstance(node, syntax.Star):
            raise self.text.error(node.place, "`*` stands for all columns and can only be a select item")
        raise TypeError(type(node).__name__)

    def _case(self, node: syntax.Case) -> Expr:
        operand = self.bind(node.operand) if node.operand is not None else None
        branches = []
        for when, then in node.branches:
            met = self.predicate(when, "WHEN") if operand is None else None
            branches.append((met or self._operation(when, "=", operand or self.bind(when), self.bind(when)), then))
        values = [self.bind(then) for _, then in branches]
        values.append(self.bind(node.otherwise) if node.otherwise is not None else Const(Type.STRING, None))
        types = {value.type for value in values if not (isinstance(value, Const) and value.value is None)}
        kind = Type.FLOAT if types == set(NUMERIC) else min(types, default=Type.STRING)
        if len(types) > 1 and kind is not Type.FLOAT:
            raise self.text.error(node.place, f"CASE has values of the types {' and '.join(sorted(types))}")
        whens = [when for when, _ in branches]
        *thens, otherwise = (_argument(value, kind, False) or value for value in values)
        return Case(kind, tuple(zip(whens, thens, strict=True)), otherwise)

    def _parameter(self, node: syntax.Parameter) -> Expr:
        if node.name not in self.names.params:
            hint = nearest(node.name, self.names.params) or f"PARAM {{ {node.name} uint; }} before SELECT"
            raise self.text.error(node.place, f"the parameter ${node.name} is not declared", hint)
        kind, value = self.names.params[node.name]
        if value is None:
            return Param(kind, node.name)
        return Const(kind, pack_ip(str(value)) if kind is Type.IP else value)

    def _defined(self, node: syntax.Defined) -> Expr:
        if node.name not in self.names.defines:
            hint = nearest(node.name, self.names.defines)
            raise self.text.error(node.place, f"#{node.name}: DEFINE has no entry {node.name}", hint)
        return Const(Type.STRING, self.names.defines[node.name])

    def _property(self, node: syntax.Property) -> Expr:
        """A property of the links: a constant where they agree, else chosen by the link of the row."""
        known = self.names.context.links
        if not self.names.links:
            raise self.text.error(
                node.place, f"@{node.name}: only a query that reads links has their properties", "select it below"
            )
        if known.names is None and not known.properties:
            return Param(Type.STRING, f"@{node.name}")
        values = {}
        for link in self.names.links:
            found = {word.lower(): value for word, value in known.properties.get(link, {}).items()}
            found |= {"interface": link, "name": link}
            if node.name.lower() not in found:
                raise self.text.error(
                    node.place,
                    f"@{node.name}: link {link} has no such property",
                    f'write {node.name} = "..." under [links.{link}.properties]',
                )
            values[link] = Const(Type.STRING, found[node.name.lower()])
        if len(set(values.values())) == 1:
            return next(iter(values.values()))
        interface = Column(Type.STRING, "interface")
        branches = ((Binary(Type.BOOL, "=", interface, Const(Type.STRING, link)), v) for link, v in values.items())
        return Case(Type.STRING, tuple(branches), Const(Type.STRING, None))

    def _functions(self, name: str) -> Sequence[Function | AggregateFunction | StateFunction]:
        return self.names.context.catalog.named(name)

    def _call(self, node: syntax.Call) -> Expr:
        known = self._functions(node.name)
        aggregates = [one for one in known if isinstance(one, AggregateFunction)]
        if aggregates or node.name.lower() in AGGREGATES:
            if self.on_aggregate is None:
                raise self.text.error(node.place, f"{node.name}: an aggregate cannot stand in {self.where}")
            return self.on_aggregate(node, aggregates)
        if node.star or node.distinct or node.over:
            kind = "a superaggregate" if node.over else "an aggregate"
            raise self.text.error(node.place, f"{node.name} is not {kind}", nearest(node.name, AGGREGATES))
        if not known:
            catalog = self.names.context.catalog.names()
            close = nearest(node.name, catalog)
            hint = f"{close} Otherwise declare it: --functions FILE".strip()
            raise self.text.error(node.place, f"no function is called {node.name}", hint)
        return self._function(node.name, node, [self.bind(argument) for argument in node.arguments], known)

    def _function(
        self,
        name: str,
        node: syntax.Expression,
        arguments: list[Expr],
        known: Sequence[Function | AggregateFunction | StateFunction],
    ) -> Expr:
        brackets = isinstance(node, syntax.Call) and node.brackets
        chosen = choose(_written(known, brackets), arguments)
        if chosen is None:
            wanted = " or ".join(dict.fromkeys(f"({', '.join(one.parameters)})" for one in known))
            types = ", ".join(argument.type for argument in arguments)
            raise self.text.error(place_of(node), f"{name} takes {wanted}, not ({types})")
        one, fitted = chosen
        if isinstance(one, StateFunction):
            if self.on_state is None:
                hint = "a query with CLEANING_WHEN and CLEANING_BY has states"
                message = f"{name}: Lowwater does not run a stateful function in {self.where}"
                raise self.text.unsupported(place_of(node), message, hint)
            self.on_state(one)
            return StateCall(one.returns, one, tuple(fitted), spot(node))
        assert isinstance(one, Function)
        for position in one.constant:
            self._check_constant(node, one, position, fitted[position])
        if brackets and not one.predicate:
            raise self.text.error(place_of(node), f"{name} is no predicate", f"write {name}(...)")
        bound = Call(one.returns, one, tuple(fitted), spot(node))
        # The manual writes some predicates as functions that give 1 or 0.
        return operators.number_of(bound) if one.predicate and isinstance(node, syntax.Call) and not brackets else bound

    def _check_constant(self, node: syntax.Expression, one: Function, position: int, argument: Expr) -> None:
        if not isinstance(argument, Const | Param):
            raise self.text.error(place_of(node), f"argument {position + 1} of {one.name} must be a constant")
        if one.check is None or not isinstance(argument, Const) or argument.value is None:
            return
        # The content of a file is looked at when the query runs: a plan may be made where the file is not.
        if position in one.files:
            return
        try:
            one.check(argument.value)
        except ValueError as error:
            raise self.text.error(place_of(node), f"argument {position + 1} of {one.name}: {error}") from None
        except LowwaterError as error:
            raise self.text.error(place_of(node), error.message, error.hint) from None


def _written(
    known: Sequence[Function | AggregateFunction | StateFunction], brackets: bool
) -> Sequence[Function | AggregateFunction | StateFunction]:
    """Those that are written so, with brackets or without; all where none is, since the manual mixes both."""
    fitting = [one for one in known if not isinstance(one, Function) or one.predicate is brackets]
    return fitting or known


def choose(
    known: Sequence[Function | AggregateFunction | StateFunction], arguments: Sequence[Expr]
) -> tuple[Function | AggregateFunction | StateFunction, list[Expr]] | None:
    """The first whose parameters take the arguments: exactly, else with integers as floats and NULL as anything."""
    for exact in (True, False):
        for one in known:
            if len(one.parameters) != len(arguments):
                continue
            fitted = [_argument(a, kind, exact) for a, kind in zip(arguments, one.parameters, strict=True)]
            if all(argument is not None for argument in fitted):
                return one, [argument for argument in fitted if argument is not None]
    return None


def _argument(argument: Expr, kind: Type, exact: bool) -> Expr | None:
    if argument.type is kind:
        return argument
    if exact:
        return None
    if isinstance(argument, Const) and argument.value is None:
        return Const(kind, None)
    if argument.type is Type.INT and kind is Type.FLOAT:
        if isinstance(argument, Const) and isinstance(argument.value, int):
            return Const(kind, float(argument.value))
        return Binary(Type.FLOAT, "*", argument, Const(Type.FLOAT, 1.0))
    return operators.number_of(argument) if argument.type is Type.BOOL and kind is Type.INT else None
