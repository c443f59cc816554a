"""Functions of users: reads the Python files that declarations name, checks both, and builds the catalog with them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Protocol

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction, Catalog, Cost, Function, StateFunction, Udaf
from lowwater.errors import ConfigError, QueryError, raise_all
from lowwater.limits import FUNCTION_FILE_BYTES
from lowwater.storage.untrusted import open_file

# Python of users. The code belongs to the user: naming its file in a declaration allows it to run.

AGGREGATE_METHODS = ("initialize", "iterate", "output", "destroy")


class PythonReference:
    """A function or class of a Python file. It is pickled with the content of the file, so that any process can call
    it, on a machine without the file too.

    Args:
        source: the content of the file; None to read it.
    """

    def __init__(self, path: str, name: str, source: bytes | None = None) -> None:
        # The process that unpickles the object may run in another folder.
        self.path, self.name = os.path.abspath(path), name
        self._source = read_content(path) if source is None else source
        self.target: Any = getattr(_loaded(self.path, self._source), name)

    def __call__(self, *arguments: Any) -> Any:
        return self.target(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return PythonReference, (self.path, self.name, self._source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PythonReference) and self.target is other.target

    def __hash__(self) -> int:
        return hash((self.path, self.name))


class Extracted:
    """The aggregate of an EXTR: a function of the output of another aggregate."""

    def __init__(self, make: Any, python_function: Any) -> None:
        self._inner = make()
        self._function = python_function
        self.initialize, self.iterate, self.destroy = (
            self._inner.initialize,
            self._inner.iterate,
            self._inner.destroy,
        )
        for optional in ("merge", "reinit"):
            if hasattr(self._inner, optional):
                setattr(self, optional, getattr(self._inner, optional))

    def output(self, state: Any, *extra: Any) -> Any:
        """Returns the function of the inner output; None where that output is None."""
        value = self._inner.output(state)
        return None if value is None else self._function(value, *extra)


def load_module(path: Path) -> ModuleType:
    """Returns the module of a Python file, loaded once for each content of the file.
    Raises ConfigError if the file is missing, or its code fails."""
    return _loaded(str(path), read_content(str(path)))


def _loaded(path: str, source: bytes) -> ModuleType:
    try:
        return _module(os.path.abspath(path), source)
    except Exception as error:
        raise ConfigError(
            f"{path}: fails: {type(error).__name__}: {error}",
            "run the file with Python alone: it shows the line that fails",
        ) from error


def python_function(path: Path, name: str) -> PythonReference:
    """Returns a function of a Python file.
    Raises ConfigError if the file is missing, fails, or has no such function."""
    reference = _attribute(path, name)
    if not callable(reference.target):
        raise ConfigError(f"{name} of {path} is no function", f"write `def {name}(...):` in it")
    return reference


def python_aggregate(path: Path, name: str) -> PythonReference:
    """Returns a class of a Python file that implements an aggregate.
    Raises ConfigError if the file is missing, fails, or has no class with the four methods."""
    reference = _attribute(path, name)
    if not isinstance(reference.target, type):
        raise ConfigError(f"{name} of {path} is no class", f"write `class {name}:` with {', '.join(AGGREGATE_METHODS)}")
    missing = [method for method in AGGREGATE_METHODS if not callable(getattr(reference.target, method, None))]
    if missing:
        raise ConfigError(f"class {name} of {path} lacks {', '.join(missing)}", f"write {', '.join(missing)} in it")
    return reference


def read_content(path: str, hint: str = "a MODULE path is relative to the file of the declarations") -> bytes:
    """Returns the bytes of a file of declarations or of a Python file.
    Raises ConfigError if the file cannot be read, or has more than FUNCTION_FILE_BYTES."""
    try:
        with open_file(path) as file:
            data = file.read(FUNCTION_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {cause}", hint) from None
    if len(data) > FUNCTION_FILE_BYTES:
        raise ConfigError(f"{path}: has more than {FUNCTION_FILE_BYTES:,} bytes", "split it")
    return data


def _attribute(path: Path, name: str) -> PythonReference:
    if not hasattr(load_module(path), name):
        raise ConfigError(f"{path} has no {name}", f"write `{name}` in it, or declare the name that it has there")
    return PythonReference(str(path), name)


class _Loader(SourceFileLoader):
    """Compiles the content that was read. Cached bytecode is not used: Python trusts it by time and size only."""

    source = b""

    def get_code(self, fullname: str) -> CodeType:
        code = self.source_to_code(self.source, self.path)
        assert isinstance(code, CodeType)
        return code


@lru_cache(maxsize=64)
def _module(path: str, source: bytes) -> ModuleType:
    name = f"lowwater_functions_{sha256(path.encode() + b'/' + source).hexdigest()[:16]}"
    loader = _Loader(name, path)
    loader.source = source
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# Checks of declarations. The rules are those of GSQL's compiler. The protocols list the facts of a declaration;
# `lowwater.gsql.declarations` makes objects that satisfy them.

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
        """Returns an error at the declaration, or at a place in it. `place`: the place of the mistake; None for the
        name of the declaration."""
        return error_at(self.file, place or self.node.place, message, hint)

    def call(self) -> str:
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
    """Returns a QueryError that shows its line of the declarations."""
    return QueryError(message, hint, file.file, place.line, place.column, file.source)


def show_call(name: str, parameters: Iterable[Type]) -> str:
    """Returns a name with types in parentheses."""
    return f"{name}({', '.join(parameters)})"


def resolve_types(file: DeclaredFile, node: DeclaredItem) -> TypedDeclaration:
    """Resolves the types of a declaration. Raises QueryError if the declaration has an unknown type."""

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
    """Finds the aggregate and the function of an EXTR. Returns the number of parameters of the aggregate, -1 if there
    is none, and whether its function fits."""
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


_LFTA_MODIFIERS = ("LFTA_LEGAL", "LFTA_ONLY")


def load_functions(paths: Iterable[Path | str], read: Reader, python: bool = True) -> Catalog:
    """Returns the catalog of the functions that the files declare.

    A declaration without a MODULE line before it confirms a shipped function and adds nothing. If no such function is
    shipped, queries with it can be planned but not run. A declaration with the name and types of a shipped function
    replaces it. An aggregate depends on the order of its input unless its class has `merge` or it is split.

    Args:
        paths: the files of declarations; a declaration in a later file takes precedence.
        read: `lowwater.gsql.declarations.parse_declarations`.
        python: whether the Python files of MODULE lines are run. Without them queries can be planned but not run.

    Raises:
        QueryError: the files have a mistake; QueryErrors where they have several.
        ConfigError: a file cannot be read.
    """
    files = [read(_read_declarations(path), str(path)) for path in paths]
    errors: list[QueryError] = []
    entries: list[TypedDeclaration] = []
    for file in files:
        for node in file.declarations:
            try:
                entries.append(resolve_types(file, node))
            except QueryError as error:
                errors.append(error)
    # After an unknown type, the checks of names would report the same mistake again.
    raise_all(errors or list(declaration_errors(entries)))
    coded = [entry for entry in reversed(entries) if entry.node.module]
    catalog = _catalog(coded) if python else _without_code(coded)
    return catalog.extended(_without_code(_unknown(entries)))


def module_files(paths: Iterable[Path | str], read: Reader) -> list[Path]:
    """Returns the Python files that declarations name, without reading them. Raises QueryError and ConfigError as
    `functions_digest`. `read`: `lowwater.gsql.declarations.parse_declarations`."""
    files = [read(_read_declarations(path), str(path)) for path in paths]
    found = (_module_path(file, node.module) for file in files for node in file.declarations if node.module)
    return list(dict.fromkeys(found))


def functions_digest(paths: Iterable[Path | str], read: Reader) -> str:
    """Returns the sha256 of the declarations and of the Python files that they name, in order: an input of the queries
    (S1). Raises QueryError if a file of declarations has a mistake, or names a Python file that cannot be read, and
    ConfigError if a file of declarations cannot be read. `read`: `lowwater.gsql.declarations.parse_declarations`."""
    digest = sha256()
    for path in paths:
        file = read(_read_declarations(path), str(path))
        modules = {node.module.file: node.module for node in file.declarations if node.module}
        parts = [file.source.encode("utf-8"), *(_code(file, module) for module in modules.values())]
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _read_declarations(path: Path | str) -> str:
    try:
        return read_content(str(path), "check the path: in lowwater.toml it is relative to that file").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error}",
            "write it again as UTF-8 text, such as `iconv -f latin1 -t utf-8 OLD > NEW` does",
        ) from None


def _module_path(file: DeclaredFile, module: DeclaredModule) -> Path:
    return Path(file.file).parent / module.file


def _code(file: DeclaredFile, module: DeclaredModule) -> bytes:
    try:
        return read_content(str(_module_path(file, module)))
    except ConfigError as error:
        raise error_at(file, module.place, error.message, error.hint) from None


def _unknown(entries: Sequence[TypedDeclaration]) -> list[TypedDeclaration]:
    """Returns the declarations without Python that do not confirm a shipped function and are no part of one that
    does."""
    bare = [entry for entry in entries if not entry.node.module]
    aggregates = {aggregate.name for aggregate in CATALOG.aggregates}
    shipped: dict[str, set[str]] = {
        "FUN": {function.name for function in CATALOG.functions if not function.predicate},
        "PRED": {function.name for function in CATALOG.functions if function.predicate},
        "UDAF": aggregates,
        "EXTR": aggregates,
        "SFUN": {function.name for function in CATALOG.states},
        "STATE": {function.state for function in CATALOG.states},
    }
    confirmed = {entry.node.name for entry in bare if entry.node.name in shipped[entry.node.kind]}
    unknown = [entry for entry in bare if entry.node.name not in confirmed]
    queue = [entry for entry in bare if entry.node.name in confirmed]
    while queue:
        entry = queue.pop()
        parts = {*entry.node.uses, *(value for _, value in entry.node.modifiers)}
        queue += [other for other in unknown if other.node.name in parts]
        unknown = [other for other in unknown if other.node.name not in parts]
    return unknown


def _catalog(entries: Sequence[TypedDeclaration]) -> Catalog:
    errors: dict[str, QueryError] = {}

    def build(kinds: tuple[str, ...], make: Callable[[TypedDeclaration], Any]) -> list[Any]:
        functions: dict[Any, Any] = {}
        for entry in entries:
            if entry.node.kind in kinds:
                try:
                    functions.setdefault((entry.node.kind, entry.node.name, entry.parameters), make(entry))
                except QueryError as error:
                    # A module that fails is one mistake, however many declarations follow it.
                    errors[str(error)] = error
        return list(functions.values())

    functions = build(("FUN", "PRED"), _function)
    parts = {entry.modifier("SUBAGGR") for entry in entries}
    aggregates = build(("UDAF",), partial(_aggregate, parts))
    raise_all(_in_order(errors.values()))
    catalog = CATALOG.extended(Catalog(tuple(functions), tuple(aggregates)))
    extracted = [aggregate for pair in build(("EXTR",), partial(_extracted, catalog)) for aggregate in pair]
    raise_all(_in_order(errors.values()))
    return Catalog(tuple(functions), (*extracted, *aggregates), tuple(build(("SFUN",), _stateful)))


def _without_code(entries: Sequence[TypedDeclaration]) -> Catalog:
    """Returns the catalog of declarations without Python: types and costs, enough for a plan."""
    functions = [entry for entry in entries if entry.node.kind in ("FUN", "PRED")]
    aggregates = [entry for entry in entries if entry.node.kind in ("UDAF", "EXTR")]
    return Catalog(
        tuple(_declared_function(entry, None) for entry in functions),
        tuple(_declared_aggregate(entry, None, ordered=True) for entry in aggregates),
        tuple(_stateful(entry) for entry in entries if entry.node.kind == "SFUN"),
    )


def _in_order(errors: Iterable[QueryError]) -> list[QueryError]:
    return sorted(errors, key=lambda error: (error.file, error.line, error.column))


def _implementation(entry: TypedDeclaration, find: Callable[[Path, str], Any]) -> Any:
    module = entry.node.module
    assert module is not None
    path = _module_path(entry.file, module)
    try:
        load_module(path)
    except ConfigError as error:
        raise error_at(entry.file, module.place, error.message, error.hint) from error
    try:
        return find(path, entry.node.name)
    except ConfigError as error:
        raise entry.fault(error.message, error.hint) from error


def _cost(entry: TypedDeclaration) -> Cost:
    return Cost[entry.modifier("COST") or "LOW"]


def _lfta(entry: TypedDeclaration) -> bool:
    return any(entry.modifier(word) is not None for word in _LFTA_MODIFIERS)


def _function(entry: TypedDeclaration) -> Function:
    return _declared_function(entry, _implementation(entry, python_function))


def _declared_function(entry: TypedDeclaration, value: Callable[..., Any] | None) -> Function:
    parameters = entry.node.parameters
    attributes = [attribute.lower() for attribute in entry.node.attributes]
    directions = [direction for direction in ("increasing", "decreasing") if direction in attributes]
    return Function(
        entry.node.name,
        entry.parameters,
        entry.returns,
        value,
        _cost(entry),
        lfta=_lfta(entry),
        partial=entry.modifier("PARTIAL") is not None,
        predicate=entry.node.kind == "PRED",
        constant=tuple(at for at, parameter in enumerate(parameters) if parameter.constant),
        monotone=directions == ["increasing"] and len(parameters) == 1,
        origin=entry.file.file,
    )


def _aggregate(parts: set[str | None], entry: TypedDeclaration) -> AggregateFunction:
    make = _implementation(entry, python_aggregate)
    ordered = entry.modifier("SUBAGGR") is None and not hasattr(make.target, "merge")
    declared = _declared_aggregate(entry, make, ordered)
    return replace(declared, lfta=declared.lfta or entry.node.name in parts)


def _declared_aggregate(entry: TypedDeclaration, make: Callable[[], Udaf] | None, ordered: bool) -> AggregateFunction:
    return AggregateFunction(
        entry.node.name,
        entry.parameters,
        entry.returns,
        make,
        taken=len(entry.parameters),
        cost=_cost(entry),
        lfta=_lfta(entry),
        sub=entry.modifier("SUBAGGR") or "" if make is not None else "",
        sup=entry.modifier("SUPERAGGR") or "" if make is not None else "",
        running=entry.modifier("RUNNING") is not None,
        ordered=ordered,
        origin=entry.file.file,
    )


def _extracted(catalog: Catalog, entry: TypedDeclaration) -> tuple[AggregateFunction, ...]:
    """Returns the aggregate of an EXTR. If its inner aggregate is split, also the superaggregate of the EXTR."""
    inner, outer = _parts(catalog, entry)
    name, taken = entry.node.name, len(inner.parameters)
    common = partial(
        AggregateFunction,
        returns=entry.returns,
        cost=inner.cost,
        running=inner.running,
        ordered=inner.ordered,
        origin=entry.file.file,
    )
    aggregate = partial(common, name, entry.parameters, make=partial(Extracted, inner.make, outer.value), taken=taken)
    if not inner.sub:
        return (aggregate(lfta=inner.lfta),)
    sub = _aggregate_of(catalog, inner.sub, inner.parameters)
    sup = _aggregate_of(catalog, inner.sup, (sub.returns,))
    if sup.make is None:
        raise entry.fault(f"{name}: {sup.name} has no Python", f"name a superaggregate that is {_EXTRACTABLE}")
    upper = f"{name}_of_{sup.name}"
    return (
        aggregate(lfta=inner.lfta, sub=sub.name, sup=upper),
        common(upper, (sub.returns, *entry.parameters[taken:]), make=partial(Extracted, sup.make, outer.value)),
    )


_EXTRACTABLE = "not one of the eight that every engine has of its own: they cannot be extracted from"


def _parts(catalog: Catalog, entry: TypedDeclaration) -> tuple[AggregateFunction, Function]:
    """Returns the inner aggregate and the outer function of an EXTR. Raises QueryError if one of them has no Python."""
    inner_name, outer_name = entry.node.uses
    aggregates = [candidate for candidate in catalog.aggregates if candidate.name == inner_name and candidate.make]
    functions = [
        candidate for candidate in catalog.functions if candidate.name == outer_name and not candidate.predicate
    ]
    taken, fits = extraction(entry, map(_signature, aggregates), map(_signature, functions))
    if not fits:
        hint = f"declare both behind a MODULE line; name an aggregate that is {_EXTRACTABLE}"
        raise entry.fault(f"{entry.node.name}: {inner_name} or {outer_name} has no Python", hint)
    inner = next(candidate for candidate in aggregates if candidate.parameters == entry.parameters[:taken])
    parameters = (inner.returns, *entry.parameters[taken:])
    return inner, next(candidate for candidate in functions if candidate.parameters == parameters)


def _signature(function: AggregateFunction | Function) -> Signature:
    return Signature(function.name, function.parameters, function.returns)


def _aggregate_of(catalog: Catalog, name: str, parameters: tuple[Type, ...]) -> AggregateFunction:
    # It exists, or the checks would have failed.
    return next(part for part in catalog.aggregates if part.name == name and part.parameters == parameters)


def _stateful(entry: TypedDeclaration) -> StateFunction:
    """Returns a stateful function. A user's function has types only: a query that calls it can be planned but not
    run."""
    return StateFunction(entry.node.name, entry.node.uses[0], entry.parameters, entry.returns, entry.file.file)
