"""Builds a catalog from declarations of users' functions: checks them, and loads the Python files that they name.

Beside the shipped functions. `lowwater.gsql.declarations` parses the text; the caller passes it in, since this package
does not depend on syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction, Catalog, Cost, Function, StateFunction, Udaf
from lowwater.catalog.user_functions.checks import (
    DeclaredFile,
    DeclaredModule,
    Reader,
    Signature,
    TypedDeclaration,
    declaration_errors,
    error_at,
    extraction,
    resolve_types,
)
from lowwater.catalog.user_functions.code import Extracted, load_module, python_aggregate, python_function, read_content
from lowwater.errors import ConfigError, QueryError, raise_all

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


def functions_digest(paths: Iterable[Path | str], read: Reader) -> str:
    """Returns the sha256 of the declarations and of the Python files that they name, in order: an input of the
    queries (S1).

    Args:
        paths: the files of declarations, in order.
        read: `lowwater.gsql.declarations.parse_declarations`.

    Raises:
        QueryError: a file of declarations has a mistake, or names a Python file that cannot be read.
        ConfigError: a file of declarations cannot be read.
    """
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
    does.
    """
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
    """Returns the inner aggregate and the outer function of an EXTR.

    Raises:
        QueryError: one of them has no Python.
    """
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
    run.
    """
    return StateFunction(entry.node.name, entry.node.uses[0], entry.parameters, entry.returns, entry.file.file)
