"""Checks declarations of users' functions: types, split of aggregates, extraction, states.

Below `user_functions`. The rules are those of GSQL's compiler. The protocols list the facts of a declaration;
`lowwater.gsql.declarations` makes objects that satisfy them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.expr import Type
from lowwater.errors import QueryError

_INTEGERS = ("ushort", "uint", "int", "ullong", "llong")
_TYPES = {**dict.fromkeys(_INTEGERS, Type.INT), "bool": Type.BOOL, "float": Type.FLOAT, "mac": Type.MAC}
_TYPES |= {"string": Type.STRING, "v_str": Type.STRING, "ip": Type.IP, "ipv6": Type.IP}
_SPLITS = (("SUBAGGR", "SUPERAGGR"), ("HFTA_SUBAGGR", "HFTA_SUPERAGGR"))


class TextPlace(Protocol):
    """A place in a text: line and column, counted from 1."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class DeclaredParameter(Protocol):
    """The parameter of a declaration, as written."""

    @property
    def type(self) -> str: ...
    @property
    def attributes(self) -> tuple[str, ...]: ...
    @property
    def constant(self) -> str: ...
    @property
    def classed(self) -> bool: ...
    @property
    def place(self) -> TextPlace: ...


class DeclaredModule(Protocol):
    """A MODULE line, as written."""

    @property
    def file(self) -> str: ...
    @property
    def place(self) -> TextPlace: ...


class DeclaredItem(Protocol):
    """A declaration, as written."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def returns(self) -> str: ...
    @property
    def attributes(self) -> tuple[str, ...]: ...
    @property
    def modifiers(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def parameters(self) -> Sequence[DeclaredParameter]: ...
    @property
    def uses(self) -> tuple[str, ...]: ...
    @property
    def module(self) -> DeclaredModule | None: ...
    @property
    def place(self) -> TextPlace: ...


class DeclaredFile(Protocol):
    """A file of declarations, with its text."""

    @property
    def file(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def declarations(self) -> Sequence[DeclaredItem]: ...


Reader = Callable[[str, str], DeclaredFile]
"""Parses a text; the second argument is the name of its file. Raises QueryError."""


@dataclass(frozen=True)
class TypedDeclaration:
    """A declaration with its types resolved. `returns` is BOOL for a predicate, and has no meaning for a state."""

    file: DeclaredFile
    node: DeclaredItem
    parameters: tuple[Type, ...]
    returns: Type

    def modifier(self, word: str) -> str | None:
        """Returns the value of a modifier, empty for a flag; None if the declaration does not have it."""
        return dict(self.node.modifiers).get(word)

    def fault(self, message: str, hint: str = "", place: TextPlace | None = None) -> QueryError:
        """Returns an error at the declaration, or at a place in it.

        Args:
            message: the mistake.
            hint: the remedy; empty for none.
            place: the place of the mistake; None for the name of the declaration.
        """
        return error_at(self.file, place or self.node.place, message, hint)

    def call(self) -> str:
        """Returns name and types for messages."""
        return show_call(self.node.name, self.parameters)


@dataclass(frozen=True)
class Signature:
    """The facts of an aggregate or function that the checks compare, declared or shipped."""

    name: str
    parameters: tuple[Type, ...]
    returns: Type
    running: bool = False
    split: bool = False


def error_at(file: DeclaredFile, place: TextPlace, message: str, hint: str = "") -> QueryError:
    """Returns a QueryError that shows its line of the declarations.

    Args:
        file: the declarations.
        place: the place of the mistake.
        message: the mistake.
        hint: the remedy; empty for none.
    """
    return QueryError(message, hint, file.file, place.line, place.column, file.source)


def show_call(name: str, parameters: Iterable[Type]) -> str:
    """Returns a name with types in parentheses."""
    return f"{name}({', '.join(parameters)})"


def resolve_types(file: DeclaredFile, node: DeclaredItem) -> TypedDeclaration:
    """Resolves the types of a declaration.

    Raises:
        QueryError: the declaration has an unknown type.
    """

    def resolve(name: str, place: TextPlace) -> Type:
        kind = _TYPES.get(name.lower())
        if kind is None:
            raise error_at(file, place, f"unknown type {name}", f"there are: {', '.join(_TYPES)}")
        return kind

    parameters = tuple(resolve(parameter.type, parameter.place) for parameter in node.parameters)
    return TypedDeclaration(file, node, parameters, resolve(node.returns, node.place) if node.returns else Type.BOOL)


def declaration_errors(entries: Sequence[TypedDeclaration]) -> Iterator[QueryError]:
    """Yields all mistakes of declarations whose types are resolved, in their order."""
    aggregates = [
        Signature(e.node.name, e.parameters, e.returns, e.modifier("RUNNING") is not None, _is_split(e))
        for e in entries
        if e.node.kind == "UDAF"
    ]
    # An engine splits its own aggregates itself, so they count as not split here.
    aggregates += [Signature(a.name, a.parameters, a.returns, a.running) for a in CATALOG.aggregates]
    functions = [Signature(e.node.name, e.parameters, e.returns) for e in entries if e.node.kind == "FUN"]
    functions += [Signature(f.name, f.parameters, f.returns) for f in CATALOG.functions if not f.predicate]
    states = {e.node.name for e in entries if e.node.kind == "STATE"} | {s.state for s in CATALOG.states}
    for entry in entries:
        kind = entry.node.kind
        if kind == "UDAF":
            yield from _split_mistakes(entry, aggregates)
        elif kind == "EXTR":
            yield from _extraction_mistakes(entry, aggregates, functions)
        elif kind == "SFUN" and entry.node.uses[0] not in states:
            hint = f"declare it before: `string STATE {entry.node.uses[0]};`"
            yield entry.fault(f"{entry.node.name}: there is no state {entry.node.uses[0]}", hint)
        elif kind == "PRED" and entry.modifier("COMBINABLE") is not None:
            for parameter in entry.node.parameters:
                if not parameter.constant and not parameter.classed:
                    message = f"{entry.node.name} is COMBINABLE, so every parameter is CLASS, CONST or HANDLE"
                    yield entry.fault(message, "write one of them behind this type", parameter.place)
    yield from _repeated(entries)


def extraction(
    entry: TypedDeclaration, aggregates: Iterable[Signature], functions: Iterable[Signature]
) -> tuple[int, bool]:
    """Finds the aggregate and the function of an EXTR.

    Args:
        entry: the EXTR.
        aggregates: all aggregates, declared and shipped.
        functions: all functions, declared and shipped.

    Returns:
        The number of parameters of the aggregate, -1 if there is none, and whether its function fits.
    """
    inner, outer = entry.node.uses
    longest = -1
    candidates = [f for f in functions if f.name == outer and f.returns == entry.returns]
    for aggregate in aggregates:
        size = len(aggregate.parameters)
        if aggregate.name == inner and entry.parameters[:size] == aggregate.parameters:
            longest = max(longest, size)
            parameters = (aggregate.returns, *entry.parameters[size:])
            if any(f.parameters == parameters for f in candidates):
                return size, True
    return longest, False


def _is_split(entry: TypedDeclaration) -> bool:
    return any(entry.modifier(word) is not None for pair in _SPLITS for word in pair)


def _split_mistakes(entry: TypedDeclaration, aggregates: Sequence[Signature]) -> Iterator[QueryError]:
    name = entry.node.name
    for words in _SPLITS:
        sub, sup = (entry.modifier(word) for word in words)
        if sub is None and sup is None:
            continue
        if sub is None or sup is None:
            present, missing = words if sup is None else reversed(words)
            yield entry.fault(f"{name} has {present} but no {missing}", "write both, or neither")
            continue
        lower = [
            candidate for candidate in aggregates if candidate.name == sub and candidate.parameters == entry.parameters
        ]
        if not lower:
            call = show_call(sub, entry.parameters)
            yield entry.fault(
                f"{name}: there is no {words[0]} {call}", "declare it: it takes the same types as the aggregate"
            )
            continue
        upper = [
            candidate
            for candidate in aggregates
            if candidate.name == sup and candidate.parameters == (lower[0].returns,)
        ]
        if not upper:
            call = show_call(sup, [lower[0].returns])
            yield entry.fault(
                f"{name}: there is no {words[1]} {call}", f"declare it: it takes exactly what {sub} returns"
            )
            continue
        yield from _pair_mistakes(entry, words, lower[0], upper[0])


def _pair_mistakes(
    entry: TypedDeclaration, words: tuple[str, str], lower: Signature, upper: Signature
) -> Iterator[QueryError]:
    name, running = entry.node.name, entry.modifier("RUNNING") is not None
    if upper.returns is not entry.returns:
        yield entry.fault(f"{name} returns {entry.returns}, but its {words[1]} {upper.name} returns {upper.returns}")
    if words == _SPLITS[0] and running != upper.running:
        running_part, other_part = (name, upper.name) if running else (upper.name, name)
        yield entry.fault(
            f"{name}: {running_part} is RUNNING and {other_part} is not",
            f"write RUNNING for both {name} and {upper.name}, or for neither",
        )
    for part in (lower,) if lower is upper else (lower, upper):
        if part.split:
            yield entry.fault(f"{name}: {part.name} is itself split", "name one that has no SUBAGGR of its own")


def _extraction_mistakes(
    entry: TypedDeclaration, aggregates: Sequence[Signature], functions: Sequence[Signature]
) -> Iterator[QueryError]:
    name, (inner, outer) = entry.node.name, entry.node.uses
    count, fits = extraction(entry, aggregates, functions)
    if count < 0:
        yield entry.fault(
            f"{name}: there is no aggregate {inner} over its first types",
            f"declare it: {entry.call()} is {outer}({inner}(the first of them), the rest)",
        )
    elif not fits:
        rest = "".join(f", {kind}" for kind in entry.parameters[count:])
        yield entry.fault(
            f"{name}: there is no function {outer}(result of {inner}{rest}) that returns {entry.returns}",
            f"declare it: {entry.call()} is {outer}({inner}(the first of them), the rest)",
        )


def _repeated(entries: Sequence[TypedDeclaration]) -> Iterator[QueryError]:
    first_by_call: dict[tuple[str, str, tuple[Type, ...]], TypedDeclaration] = {}
    for entry in entries:
        if entry.node.kind == "STATE":
            continue
        first = first_by_call.setdefault((entry.node.kind, entry.node.name, entry.parameters), entry)
        if first.returns is not entry.returns:
            yield entry.fault(
                f"{entry.call()} returns {entry.returns} here and {first.returns} at line {first.node.place.line}",
                "keep one of the two: int, uint, llong, ullong and ushort are one type here",
            )
