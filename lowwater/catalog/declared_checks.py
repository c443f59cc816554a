"""Checks of declared functions: types, split of aggregates, extraction, states; the rules are those of GSQL's compiler.

Below `declared`. The protocols say what is read of a declaration; `lowwater.gsql.declarations` makes what fits them.
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


class Spot(Protocol):
    """1-based line and column."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class DeclaredParameter(Protocol):
    """A parameter as written."""

    @property
    def type(self) -> str: ...
    @property
    def attributes(self) -> tuple[str, ...]: ...
    @property
    def constant(self) -> str: ...
    @property
    def classed(self) -> bool: ...
    @property
    def place(self) -> Spot: ...


class DeclaredModule(Protocol):
    """A MODULE line."""

    @property
    def file(self) -> str: ...
    @property
    def place(self) -> Spot: ...


class Declared(Protocol):
    """A declaration as written."""

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
    def place(self) -> Spot: ...


class DeclaredFile(Protocol):
    """A file of declarations with its text."""

    @property
    def file(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def declarations(self) -> Sequence[Declared]: ...


Reader = Callable[[str, str], DeclaredFile]
"""Reads a text, given with the name of its file; raises QueryError."""


@dataclass(frozen=True)
class Entry:
    """A declaration with its types; `returns` is BOOL for a predicate and of no meaning for a state."""

    file: DeclaredFile
    node: Declared
    parameters: tuple[Type, ...]
    returns: Type

    def modifier(self, word: str) -> str | None:
        """The value of a modifier, empty for a flag; None where it is not there."""
        return dict(self.node.modifiers).get(word)

    def fault(self, message: str, hint: str = "", place: Spot | None = None) -> QueryError:
        """An error at the declaration, or at a place in it."""
        return error_at(self.file, place or self.node.place, message, hint)

    def call(self) -> str:
        """Name and types, for messages."""
        return show_call(self.node.name, self.parameters)


@dataclass(frozen=True)
class Signature:
    """What the checks ask of an aggregate or function, declared or shipped."""

    name: str
    parameters: tuple[Type, ...]
    returns: Type
    running: bool = False
    split: bool = False


def error_at(file: DeclaredFile, place: Spot, message: str, hint: str = "") -> QueryError:
    """A QueryError that shows its line.

    Args:
        file: the declarations.
        place: line and column of what is wrong.
        message: what is wrong.
        hint: what to write instead; empty for none.
    """
    return QueryError(message, hint, file.file, place.line, place.column, file.source)


def show_call(name: str, parameters: Iterable[Type]) -> str:
    """A name with types in parentheses."""
    return f"{name}({', '.join(parameters)})"


def typed(file: DeclaredFile, node: Declared) -> Entry:
    """The declaration with its types.

    Raises:
        QueryError: it has an unknown type.
    """

    def known(written: str, place: Spot) -> Type:
        found = _TYPES.get(written.lower())
        if found is None:
            raise error_at(file, place, f"unknown type {written}", f"there are: {', '.join(_TYPES)}")
        return found

    parameters = tuple(known(each.type, each.place) for each in node.parameters)
    return Entry(file, node, parameters, known(node.returns, node.place) if node.returns else Type.BOOL)


def mistakes(entries: Sequence[Entry]) -> Iterator[QueryError]:
    """Everything that is wrong with declarations of known types, in their order."""
    aggregates = [
        Signature(e.node.name, e.parameters, e.returns, e.modifier("RUNNING") is not None, _is_split(e))
        for e in entries
        if e.node.kind == "UDAF"
    ]
    # The engines' own aggregates are their own parts, so these count as not split.
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
            for each in entry.node.parameters:
                if not each.constant and not each.classed:
                    message = f"{entry.node.name} is COMBINABLE, so every parameter is CLASS, CONST or HANDLE"
                    yield entry.fault(message, "write one of them behind this type", each.place)
    yield from _repeated(entries)


def extraction(entry: Entry, aggregates: Iterable[Signature], functions: Iterable[Signature]) -> tuple[int, bool]:
    """How many parameters the aggregate of an EXTR takes (-1: there is none), and whether its function fits."""
    below, name = entry.node.uses
    taken = -1
    made = list(functions)
    for each in aggregates:
        if each.name == below and entry.parameters[: len(each.parameters)] == each.parameters:
            taken = max(taken, len(each.parameters))
            wanted = (each.returns, *entry.parameters[len(each.parameters) :])
            if any(f.name == name and f.parameters == wanted and f.returns == entry.returns for f in made):
                return len(each.parameters), True
    return taken, False


def _is_split(entry: Entry) -> bool:
    return any(entry.modifier(word) is not None for pair in _SPLITS for word in pair)


def _split_mistakes(entry: Entry, aggregates: Sequence[Signature]) -> Iterator[QueryError]:
    name = entry.node.name
    for words in _SPLITS:
        sub, sup = (entry.modifier(word) for word in words)
        if sub is None and sup is None:
            continue
        if sub is None or sup is None:
            there, missing = words if sup is None else reversed(words)
            yield entry.fault(f"{name} has {there} but no {missing}", "write both, or neither")
            continue
        lower = [each for each in aggregates if each.name == sub and each.parameters == entry.parameters]
        if not lower:
            wanted = show_call(sub, entry.parameters)
            yield entry.fault(
                f"{name}: there is no {words[0]} {wanted}", "declare it: it takes the same types as the aggregate"
            )
            continue
        upper = [each for each in aggregates if each.name == sup and each.parameters == (lower[0].returns,)]
        if not upper:
            wanted = show_call(sup, [lower[0].returns])
            yield entry.fault(
                f"{name}: there is no {words[1]} {wanted}", f"declare it: it takes exactly what {sub} returns"
            )
            continue
        yield from _pair_mistakes(entry, words, lower[0], upper[0])


def _pair_mistakes(entry: Entry, words: tuple[str, str], lower: Signature, upper: Signature) -> Iterator[QueryError]:
    name, running = entry.node.name, entry.modifier("RUNNING") is not None
    if upper.returns is not entry.returns:
        yield entry.fault(f"{name} returns {entry.returns}, but its {words[1]} {upper.name} returns {upper.returns}")
    if words == _SPLITS[0] and running != upper.running:
        one, other = (name, upper.name) if running else (upper.name, name)
        yield entry.fault(
            f"{name}: {one} is RUNNING and {other} is not",
            f"write RUNNING for both {name} and {upper.name}, or for neither",
        )
    for part in (lower,) if lower is upper else (lower, upper):
        if part.split:
            yield entry.fault(f"{name}: {part.name} is itself split", "name one that has no SUBAGGR of its own")


def _extraction_mistakes(
    entry: Entry, aggregates: Sequence[Signature], functions: Sequence[Signature]
) -> Iterator[QueryError]:
    name, (below, outer) = entry.node.name, entry.node.uses
    taken, fits = extraction(entry, aggregates, functions)
    if taken < 0:
        yield entry.fault(
            f"{name}: there is no aggregate {below} over its first types",
            f"declare it: {entry.call()} is {outer}({below}(the first of them), the rest)",
        )
    elif not fits:
        rest = "".join(f", {each}" for each in entry.parameters[taken:])
        yield entry.fault(
            f"{name}: there is no function {outer}(result of {below}{rest}) that returns {entry.returns}",
            f"declare it: {entry.call()} is {outer}({below}(the first of them), the rest)",
        )


def _repeated(entries: Sequence[Entry]) -> Iterator[QueryError]:
    seen: dict[tuple[str, str, tuple[Type, ...]], Entry] = {}
    for entry in entries:
        if entry.node.kind == "STATE":
            continue
        before = seen.setdefault((entry.node.kind, entry.node.name, entry.parameters), entry)
        if before.returns is not entry.returns:
            yield entry.fault(
                f"{entry.call()} returns {entry.returns} here and {before.returns} at line {before.node.place.line}",
                "keep one of the two: int, uint, llong, ullong and ushort are one type here",
            )
