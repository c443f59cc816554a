"""Name resolution and types of expressions: turns syntax trees of expressions into bound expressions.

Between the syntax tree and the logical plan. `binder` and `clauses` bind expressions with a Scope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lowwater.catalog.expr import (
    COMPARISON,
    Binary,
    Call,
    Case,
    Column,
    Const,
    Expr,
    Param,
    StateCall,
    Type,
    Unary,
    rewrite,
)
from lowwater.catalog.functions import AggregateFunction, Function, StateFunction
from lowwater.catalog.limits import SHIFT
from lowwater.catalog.native import NATIVE
from lowwater.catalog.values import pack_ip
from lowwater.config import section_of
from lowwater.errors import QueryError, raise_all
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_expression
from lowwater.plan.bind.expressions import hints, operators
from lowwater.plan.bind.expressions.durations import Units, alone, counted, in_seconds, length_of, takes, unit_in
from lowwater.plan.bind.expressions.operators import NUMERIC, choose, fitted, negate, require_limits, written
from lowwater.plan.bind.names import Names
from lowwater.plan.text import Text, nearest, place_of, spot

LITERALS = {"int": Type.INT, "float": Type.FLOAT, "string": Type.STRING, "bool": Type.BOOL, "null": Type.STRING}


@dataclass
class Scope:
    """Names that expressions of one statement may use.

    Attributes:
        text: the file that holds the statement, for messages.
        sources: range variable -> column name -> expression over the input row.
        keys: group-by variable -> expression; a group-by variable hides a column of its name.
        on_aggregate: binds an aggregate call to a column; None if the clause allows no aggregates.
        where: the clause, for the message about a misplaced aggregate.
        names: names of the statement other than columns.
        on_state: called with every stateful function; None if the clause allows none.
        aliases: name of a select item -> hint for a clause that uses the name.
        rows: for a scope over groups, the scope of the input rows, for messages; else None.
        units: column of the input rows -> its unit in ns; without columns of unknown unit.
    """

    text: Text
    sources: Mapping[str, Mapping[str, Expr]]
    keys: Mapping[str, Expr] = field(default_factory=dict)
    on_aggregate: Callable[[syntax.Call, Sequence[AggregateFunction]], Expr] | None = None
    where: str = "here"
    names: Names = field(default_factory=Names)
    on_state: Callable[[StateFunction], None] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    rows: Scope | None = None
    units: Units = field(default_factory=dict)

    def bind(self, node: syntax.Expression) -> Expr:
        """Binds one expression.

        Raises:
            QueryError: an unknown or ambiguous name, or an operator that does not apply to its types.
        """
        if isinstance(node, syntax.Literal):
            return self._literal(node)
        if isinstance(node, syntax.Name):
            return self._name(node)
        if isinstance(node, syntax.UnaryOp):
            return self._fitting(node, node.op, operators.unary(node.op, operand := self.bind(node.operand)), operand)
        if isinstance(node, syntax.BinaryOp):
            return self._operation(node, node.op, *self._operands(node))
        if isinstance(node, syntax.Call):
            return self._call(node)
        if isinstance(node, syntax.Parameter):
            return self._parameter(node)
        if isinstance(node, syntax.Defined):
            return self._defined(node)
        if isinstance(node, syntax.Property):
            return self._property(node)
        if isinstance(node, syntax.Duration):
            raise alone(node, self.text)
        return self._wide(node)

    def all(self, *nodes: syntax.Expression) -> list[Expr]:
        """Binds several expressions. Reports the errors of all together."""
        bound: list[Expr] = []
        errors: list[QueryError] = []
        for node in nodes:
            try:
                bound.append(self.bind(node))
            except QueryError as error:
                errors.append(error)
        raise_all(errors)
        return bound

    def predicate(self, node: syntax.Expression, clause: str) -> Expr:
        """Binds an expression that must be a condition.

        Args:
            node: syntax tree of the expression.
            clause: name of the clause, for messages.
        """
        bound = operators.typed(self.bind(node), Type.BOOL)
        if bound.type is not Type.BOOL:
            message = f"{clause} needs a condition, this is of type {bound.type}"
            raise self.text.error(place_of(node), message, hints.of_condition(node, bound))
        return bound

    def _operands(self, node: syntax.BinaryOp) -> list[Expr]:
        sides = (node.left, node.right)
        for at, side in enumerate(sides):
            if length_of(side) is not None and not takes(node.op, at):
                raise alone(side, self.text)
        return self._together(*sides)

    def _together(self, *nodes: syntax.Expression) -> list[Expr]:
        """Binds expressions of one unit. A duration takes the unit of the first other expression that has one."""
        lengths = [length_of(node) is not None for node in nodes]
        if not any(lengths):
            return self.all(*nodes)
        others = [node for node, length in zip(nodes, lengths, strict=True) if not length]
        if not others:
            raise alone(nodes[0], self.text)
        bound = dict(zip(others, self.all(*others), strict=True))
        units = {node: unit_in(expr, self.units) for node, expr in bound.items()}
        beside = next((node for node, unit in units.items() if unit is not None), others[0])
        return [
            counted(node, beside, units[beside], self.text) if length else bound[node]
            for node, length in zip(nodes, lengths, strict=True)
        ]

    def constant(
        self, node: syntax.Expression, what: str, beside: tuple[syntax.Expression, Fraction | None] | None = None
    ) -> int | float:
        """Evaluates a constant expression to a number.

        Args:
            node: syntax tree of the expression.
            what: name of the number, for messages.
            beside: (expression, unit in ns) that gives a duration its unit; None if a duration is an error.

        Raises:
            QueryError: the expression is no constant number, or a parameter without a value.
        """
        bound = counted(node, *beside, self.text) if beside and length_of(node) is not None else self.bind(node)
        if isinstance(bound, Param):
            raise self.text.error(
                place_of(node), f"{what} needs the value of ${bound.name}", f"give --param {bound.name}=VALUE"
            )
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
            aliases = [alias for alias, columns in self.sources.items() if node.name in columns]
            if len(aliases) > 1:
                choices = " or ".join(f"{alias}.{node.name}" for alias in aliases)
                raise self.text.error(node.place, f"column {node.name} is ambiguous", f"write {choices}")
            if aliases:
                return _placed(self.sources[aliases[0]][node.name], node)
            raise self._unknown(node, {name for columns in self.sources.values() for name in columns} | set(self.keys))
        alias = node.qualifier if node.qualifier in self.sources else node.qualifier.split(".")[-1]
        if alias not in self.sources:
            if not self.sources and node.name in self.keys:
                return self.keys[node.name]
            if self.rows is not None:
                raise self._unknown(node, set(self.keys))
            raise self.text.error(
                node.place, f"no source is called {node.qualifier}", nearest(node.qualifier, self.sources)
            )
        columns = self.sources[alias]
        if node.name not in columns:
            raise self._unknown(node, set(columns))
        return _placed(columns[node.name], node)

    def _unknown(self, node: syntax.Name, candidates: set[str]) -> QueryError:
        if self.rows is not None:
            return self._ungrouped(node, self.rows)
        if not node.qualifier and node.name in self.aliases:
            return self.text.error(node.place, f"unknown column {node.name}", self.aliases[node.name])
        assumed = [alias for alias in self.names.assumed if alias in self.sources]
        if assumed:
            what = f"nothing is called {assumed[0]}, so it is read as a link of packets"
            message = f"unknown column {node.name}; {what}"
            hint = f"name the file of {assumed[0]} too if it is a query, give --schema FILE if it is a PROTOCOL"
            return self.text.error(node.place, message, hint)
        hint = hints.of_name(node.name) or nearest(node.name, candidates)
        return self.text.error(node.place, f"unknown column {node.name}", hint)

    def _ungrouped(self, node: syntax.Name, rows: Scope) -> QueryError:
        """Builds the error of a name over groups that is no group-by variable and stands outside any aggregate."""
        message = f"{node.name} is no group-by variable of this query"
        close = nearest(node.name, self.keys)
        if not node.qualifier and node.name in self.aliases:
            return self.text.error(node.place, message, self.aliases[node.name])
        try:
            rows.bind(node)
        except QueryError as error:
            # A name close to a variable is a misspelling of it. Any other name is an unknown column.
            return self.text.error(node.place, message, close) if close.startswith("did") else error
        written = print_expression(node)
        if close.startswith("did"):
            hint = close
        elif self.keys:
            hint = f"add {written} to GROUP BY, or select an aggregate of it, such as max({written})"
        else:
            clock = next((f"{alias}." for alias in rows.sources if len(rows.sources) > 1), "")
            hint = f"add GROUP BY {clock}time/60 AS tb, {written}"
        return self.text.error(node.place, message, hint)

    def _operation(self, node: syntax.Expression, op: str, left: Expr, right: Expr) -> Expr:
        try:
            return self._fitting(node, op, operators.binary(op, left, right), left, right)
        except ValueError as error:
            kind, other = (left.type, "left") if left.type in (Type.IP, Type.MAC) else (right.type, "right")
            operand = getattr(node, other, None) or getattr(node, "operand", None)
            shown = print_expression(operand) if operand is not None else "it"
            hint = hints.of_address(str(error), kind, shown)
            raise self.text.error(place_of(node), f"{str(error)!r} is no address", hint) from None

    def _fitting(self, node: syntax.Expression, op: str, bound: Expr | None, *operands: Expr) -> Expr:
        if bound is None:
            types = " and ".join(operand.type for operand in operands)
            plural = "types" if len(operands) > 1 else "type"
            hint = hints.of_types(op, node, operands, [unit_in(operand, self.units) for operand in operands])
            raise self.text.error(place_of(node), f"{op} does not apply to {plural} {types}", hint)
        if op in COMPARISON and isinstance(node, syntax.BinaryOp):
            self._note_null(node)
        if op in ("<<", ">>") and isinstance(operands[1], Const) and not SHIFT.admits(operands[1].value):
            said = f"{print_expression(node)} is NULL in every row: the width of a shift is {SHIFT.says}"
            self.names.notes[spot(node)] = said
        if op in ("/", "%") and isinstance(operands[1], Const) and operands[1].value == 0 and not operands[1].param:
            self.names.notes[spot(node)] = f"{print_expression(node)} is NULL in every row: it divides by 0"
        return bound

    def _note_null(self, node: syntax.BinaryOp) -> None:
        for value, other in ((node.left, node.right), (node.right, node.left)):
            if value == syntax.Literal("null", None):
                test = f"{print_expression(other)} IS {'NOT ' if node.op == '<>' else ''}NULL"
                self.names.notes[spot(node)] = f"{print_expression(node)} is never true: write {test}"

    def _wide(self, node: syntax.Expression) -> Expr:
        """Binds the constructs of SQL that GSQL lacks: IS NULL, IN, BETWEEN, LIKE and CASE."""
        if isinstance(node, syntax.IsNull):
            return negate(Unary(Type.BOOL, "IS NULL", self.bind(node.operand)), node.negated)
        if isinstance(node, syntax.InList):
            if len(node.values) > operators.LONGEST:
                hint = "keep the values in a watch list and join it (docs/language/joins.md)"
                said = f"IN takes at most {operators.LONGEST:,} values, not {len(node.values):,}"
                raise self.text.error(place_of(node), said, hint)
            operand, *values = self._together(node.operand, *node.values)
            pairs = zip(node.values, values, strict=True)
            equals = [self._operation(written, "=", operand, value) for written, value in pairs]
            return negate(operators.any_of(operand, equals), node.negated)
        if isinstance(node, syntax.Between):
            operand, low, high = self._together(node.operand, node.low, node.high)
            above, below = self._operation(node, ">=", operand, low), self._operation(node, "<=", operand, high)
            return negate(Binary(Type.BOOL, "AND", above, below), node.negated)
        if isinstance(node, syntax.Like):
            arguments = self.all(node.operand, node.pattern)
            if hint := hints.of_like(arguments[0], node.operand):
                raise self.text.error(place_of(node), f"LIKE compares strings, not {arguments[0].type}", hint)
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
        *thens, otherwise = (fitted(value, kind, False) or value for value in values)
        return Case(kind, tuple(zip(whens, thens, strict=True)), otherwise)

    def _parameter(self, node: syntax.Parameter) -> Expr:
        if node.name not in self.names.params:
            hint = nearest(node.name, self.names.params) or f"write PARAM {{ {node.name} uint; }} before SELECT"
            raise self.text.error(node.place, f"the parameter ${node.name} is not declared", hint)
        kind, value = self.names.params[node.name]
        if value is None:
            return Param(kind, node.name, spot(node))
        return Const(kind, pack_ip(str(value)) if kind is Type.IP else value, node.name)

    def _defined(self, node: syntax.Defined) -> Expr:
        if node.name not in self.names.defines:
            hint = nearest(node.name, self.names.defines)
            raise self.text.error(node.place, f"#{node.name}: DEFINE has no entry {node.name}", hint)
        return Const(Type.STRING, self.names.defines[node.name])

    def _property(self, node: syntax.Property) -> Expr:
        """Binds a property of the links: a constant if all links agree, else a CASE on the link of the row."""
        links = self.names.context.links
        if not self.names.links:
            raise self.text.error(
                node.place,
                f"@{node.name}: only a query that reads links has their properties",
                "select it in the query that reads the links",
            )
        if links.names is None and not links.properties:
            return Param(Type.STRING, f"@{node.name}")
        values = {}
        for link in self.names.links:
            properties = {word.lower(): value for word, value in links.of(links.properties, link, {}).items()}
            properties |= {"interface": link, "name": link}
            if node.name.lower() not in properties:
                raise self.text.error(
                    node.place,
                    f"@{node.name}: link {link} has no such property",
                    f'write {node.name} = "..." under {section_of(link, "properties")}',
                )
            values[link] = Const(Type.STRING, properties[node.name.lower()])
        if len(set(values.values())) == 1:
            return next(iter(values.values()))
        interface = Column(Type.STRING, "interface")
        branches = ((Binary(Type.BOOL, "=", interface, Const(Type.STRING, link)), v) for link, v in values.items())
        return Case(Type.STRING, tuple(branches), Const(Type.STRING, None))

    def _functions(self, name: str) -> Sequence[Function | AggregateFunction | StateFunction]:
        return self.names.context.catalog.named(name)

    def _call(self, node: syntax.Call) -> Expr:
        overloads = self._functions(node.name)
        aggregates = [overload for overload in overloads if isinstance(overload, AggregateFunction)]
        if aggregates:
            if self.on_aggregate is None:
                raise self.text.error(node.place, f"{node.name}: an aggregate cannot stand in {self.where}")
            return self.on_aggregate(node, aggregates)
        if node.star or node.distinct or node.over:
            kind = "a superaggregate" if node.over else "an aggregate"
            raise self.text.error(node.place, f"{node.name} is not {kind}", nearest(node.name, NATIVE))
        if not overloads:
            hint = hints.of_function(node.name, set(self.names.context.catalog.names()))
            raise self.text.error(node.place, f"no function is called {node.name}", hint)
        return self._function(node.name, node, self.all(*node.arguments), overloads)

    def _function(
        self,
        name: str,
        node: syntax.Expression,
        arguments: list[Expr],
        overloads: Sequence[Function | AggregateFunction | StateFunction],
    ) -> Expr:
        brackets = isinstance(node, syntax.Call) and node.brackets
        chosen = choose(written(overloads, brackets), arguments)
        if chosen is None:
            accepted = " or ".join(dict.fromkeys(f"({', '.join(function.parameters)})" for function in overloads))
            types = ", ".join(argument.type for argument in arguments)
            raise self.text.error(place_of(node), f"{name} takes {accepted}, not ({types})")
        function, fitted = chosen
        require_limits(function, fitted, syntax.children(node), self.text)
        if isinstance(function, StateFunction):
            if self.on_state is None:
                hint = "write it into a query with GROUP BY, CLEANING_WHEN and CLEANING_BY"
                message = f"{name}: Lowwater does not run a stateful function in {self.where}"
                raise self.text.unsupported(place_of(node), message, hint)
            self.on_state(function)
            return StateCall(function.returns, function, tuple(fitted), spot(node))
        assert isinstance(function, Function)
        if function.step:
            fitted[0] = in_seconds(fitted[0], self.units, syntax.children(node)[0], self.text)
        for position in function.constant:
            self._check_constant(node, function, position, fitted[position])
        if brackets and not function.predicate:
            raise self.text.error(place_of(node), f"{name} is no predicate", f"write {name}(...)")
        bound = Call(function.returns, function, tuple(fitted), spot(node))
        # The manual calls some predicates as functions that return 1 or 0.
        return (
            operators.number_of(bound)
            if function.predicate and isinstance(node, syntax.Call) and not brackets
            else bound
        )

    def _check_constant(self, node: syntax.Expression, function: Function, position: int, argument: Expr) -> None:
        if not isinstance(argument, Const | Param):
            raise self.text.error(place_of(node), f"argument {position + 1} of {function.name} must be a constant")
        if position in function.files and isinstance(argument, Const) and isinstance(argument.value, str):
            self.text.require_inside(argument.value, place_of(node), self.names.context.folders)
        if function.check is None or not isinstance(argument, Const) or argument.value is None:
            return
        try:
            function.check(argument.value)
        except ValueError as error:
            raise self.text.error(place_of(node), f"argument {position + 1} of {function.name}: {error}") from None


def _placed(expr: Expr, node: syntax.Name) -> Expr:
    """Sets the place of a name on the columns that the name reads."""
    return rewrite(expr, lambda part: replace(part, place=spot(node)) if isinstance(part, Column) else part)
