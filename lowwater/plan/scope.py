"""Binds and types expressions: names of the text become columns of the input row.

Between the syntax tree and the logical plan: `binder` builds a Scope per statement and asks it for bound expressions.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from lowwater.catalog.expr import (
    ARITHMETIC,
    BITWISE,
    COMPARISON,
    LOGICAL,
    Binary,
    Const,
    Expr,
    Type,
    Unary,
)
from lowwater.catalog.protocols import UNSTORED
from lowwater.catalog.values import pack_ip, parse_mac
from lowwater.errors import QueryError, UnsupportedError
from lowwater.gsql import nodes as syntax

AGGREGATES = ("count", "sum", "min", "max", "avg")
NUMERIC = (Type.INT, Type.FLOAT)


@dataclass(frozen=True)
class Text:
    """The file that a statement stands in, to mark errors in."""

    file: str = ""
    source: str = ""

    def error(self, place: syntax.Place, message: str, hint: str = "") -> QueryError:
        return QueryError(message, hint, self.file, place.line, place.column, self.source)

    def unsupported(self, place: syntax.Place, message: str, hint: str = "") -> UnsupportedError:
        return UnsupportedError(message, hint, self.file, place.line, place.column, self.source)


def place_of(node: object) -> syntax.Place:
    """Where a syntax node begins; an unknown place where it has none."""
    place = getattr(node, "place", None)
    return place if isinstance(place, syntax.Place) else syntax.Place()


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, or with all of them where they are few, or nothing."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1) or [n for n in names if n.lower() == name.lower()]
    if close:
        return f"did you mean {close[0]}?"
    return f"there are: {', '.join(names)}" if 0 < len(names) <= 12 else ""


@dataclass
class Scope:
    """Names that expressions of one statement may use.

    Attributes:
        text: for errors.
        sources: range variable -> column name -> what it reads of the input row.
        keys: group-by variables, which come before columns.
        on_aggregate: turns an aggregate call into a bound column; None where aggregates are not allowed.
        where: what a misplaced aggregate stands in, for the message.
    """

    text: Text
    sources: Mapping[str, Mapping[str, Expr]]
    keys: Mapping[str, Expr] = field(default_factory=dict)
    on_aggregate: Callable[[syntax.Call], Expr] | None = None
    where: str = "here"

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
            return self._unary(node)
        if isinstance(node, syntax.BinaryOp):
            return self._binary(node)
        if isinstance(node, syntax.Call):
            return self._call(node)
        if isinstance(node, syntax.Parameter):
            raise self.text.unsupported(node.place, f"${node.name}: parameters are not supported yet")
        raise TypeError(type(node).__name__)

    def predicate(self, node: syntax.Expression, clause: str) -> Expr:
        """Binds an expression that must be a condition."""
        bound = self.bind(node)
        if bound.type is not Type.BOOL:
            raise self.text.error(place_of(node), f"{clause} needs a condition, this is of type {bound.type}")
        return bound

    def _literal(self, node: syntax.Literal) -> Expr:
        if node.kind == "ip":
            try:
                return Const(Type.IP, pack_ip(str(node.value)))
            except ValueError:
                raise self.text.error(node.place, f"{node.value!r} is no address", "IP_VAL'10.0.0.1'") from None
        kinds = {"int": Type.INT, "float": Type.FLOAT, "string": Type.STRING, "bool": Type.BOOL}
        if node.kind == "int" and abs(int(node.value)) >= 1 << 63:
            raise self.text.error(node.place, f"{node.value} does not fit 64 bits")
        return Const(kinds[node.kind], node.value)

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
        if node.qualifier not in self.sources:
            raise self.text.error(
                node.place, f"no source is called {node.qualifier}", nearest(node.qualifier, self.sources)
            )
        columns = self.sources[node.qualifier]
        if node.name not in columns:
            raise self._unknown(node, set(columns))
        return columns[node.name]

    def _unknown(self, node: syntax.Name, known: set[str]) -> QueryError:
        if node.name in UNSTORED:
            return self.text.unsupported(node.place, f"column {node.name}: payloads are not kept by ingest yet")
        if self.keys and not self.sources:
            hint = nearest(node.name, known) or "only group-by variables and aggregates can be used here"
            return self.text.error(node.place, f"{node.name} is no group-by variable of this query", hint)
        return self.text.error(node.place, f"unknown column {node.name}", nearest(node.name, known))

    def _unary(self, node: syntax.UnaryOp) -> Expr:
        operand = self.bind(node.operand)
        op = "NOT" if node.op == "!" and operand.type is Type.BOOL else "~" if node.op == "!" else node.op
        if op == "NOT" and operand.type is Type.BOOL:
            return Unary(Type.BOOL, "NOT", operand)
        if op == "-" and operand.type in NUMERIC:
            if isinstance(operand, Const) and isinstance(operand.value, int | float):
                return Const(operand.type, -operand.value)
            return Unary(operand.type, "-", operand)
        if op == "~" and operand.type is Type.INT:
            return Unary(Type.INT, "~", operand)
        raise self.text.error(place_of(node), f"{node.op} does not apply to type {operand.type}")

    def _binary(self, node: syntax.BinaryOp) -> Expr:
        left, right = self.bind(node.left), self.bind(node.right)
        op = node.op
        if op in LOGICAL:
            if left.type is Type.BOOL and right.type is Type.BOOL:
                return Binary(Type.BOOL, op, left, right)
        elif op in COMPARISON:
            left, right = self._addresses(node, left, right), self._addresses(node, right, left)
            if left.type in NUMERIC and right.type in NUMERIC:
                return Binary(Type.BOOL, op, left, right)
            if left.type is right.type and (op in ("=", "<>") or left.type is not Type.BOOL):
                return Binary(Type.BOOL, op, left, right)
        elif op in ARITHMETIC:
            if left.type is Type.INT and right.type is Type.INT:
                return Binary(Type.INT, op, left, right)
            if left.type in NUMERIC and right.type in NUMERIC and op != "%":
                return Binary(Type.FLOAT, op, left, right)
        elif op in BITWISE and left.type is Type.INT and right.type is Type.INT:
            return Binary(Type.INT, op, left, right)
        raise self.text.error(place_of(node), f"{op} does not apply to types {left.type} and {right.type}")

    def _addresses(self, node: syntax.BinaryOp, side: Expr, other: Expr) -> Expr:
        """A string compared with an address is the text of one."""
        if not (isinstance(side, Const) and isinstance(side.value, str) and other.type in (Type.IP, Type.MAC)):
            return side
        try:
            if other.type is Type.IP:
                return Const(Type.IP, pack_ip(side.value))
            return Const(Type.MAC, parse_mac(side.value))
        except (ValueError, ipaddress.AddressValueError):
            raise self.text.error(place_of(node), f"{side.value!r} is no address") from None

    def _call(self, node: syntax.Call) -> Expr:
        if node.name.lower() in AGGREGATES:
            if self.on_aggregate is None:
                raise self.text.error(node.place, f"{node.name}: an aggregate cannot stand in {self.where}")
            return self.on_aggregate(node)
        raise self.text.unsupported(
            node.place, f"{node.name}: this function is not supported yet", f"aggregates: {', '.join(AGGREGATES)}"
        )
