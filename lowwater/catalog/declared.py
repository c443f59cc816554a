"""Declarations of functions -> catalog: the checks, and the Python that they name.

Beside the shipped functions: the scope looks names up in the shipped catalog extended by this one. The text is read by
`lowwater.gsql.declarations`, which the caller hands over, since this folder knows nothing of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.declared_checks import (
    DeclaredFile,
    DeclaredModule,
    Entry,
    Reader,
    Signature,
    error_at,
    extraction,
    mistakes,
    typed,
)
from lowwater.catalog.declared_code import Extracted, aggregate, content, function, load
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction, Catalog, Cost, Function, StateFunction, Udaf
from lowwater.errors import ConfigError, QueryError, raise_all

_AT_LOW_LEVEL = ("LFTA_LEGAL", "LFTA_ONLY")


def load_functions(paths: Iterable[Path | str], read: Reader) -> Catalog:
    """The catalog of what the files declare and Python files define.

    A declaration without a MODULE line before it confirms a shipped function and adds nothing; one that nobody ships
    can be planned with and not be run. One with the name and types of a shipped function takes its place. An aggregate
    depends on order unless its class has `merge`, or it is split.

    Args:
        paths: the paths of the files, in order; a later file comes before an earlier one.
        read: `lowwater.gsql.declarations.parse_declarations`.

    Raises:
        QueryError: all mistakes of the files, as QueryErrors where they are several.
        ConfigError: a file cannot be read.
    """
    files = [read(_text(path), str(path)) for path in paths]
    errors: list[QueryError] = []
    entries: list[Entry] = []
    for file in files:
        for node in file.declarations:
            try:
                entries.append(typed(file, node))
            except QueryError as error:
                errors.append(error)
    # Checks of names would repeat what an unknown type already says.
    raise_all(errors or list(mistakes(entries)))
    found = _catalog([entry for entry in reversed(entries) if entry.node.module])
    return found.extended(_without_code(_unknown(entries)))


def functions_digest(paths: Iterable[Path | str], read: Reader) -> str:
    """The sha256 over the declarations and the Python files that they name, in order: an input of the queries (S1).

    Raises:
        QueryError: a file of declarations is wrong, or names a file that cannot be read.
        ConfigError: a file of declarations cannot be read.
    """
    whole = sha256()
    for path in paths:
        file = read(_text(path), str(path))
        named = {node.module.file: node.module for node in file.declarations if node.module}
        parts = [file.source.encode("utf-8"), *(_code(file, module) for module in named.values())]
        for part in parts:
            whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def _text(path: Path | str) -> str:
    try:
        return content(str(path), "check the path: in lowwater.toml it is relative to that file").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error}",
            "write it again as UTF-8 text, such as `iconv -f latin1 -t utf-8 OLD > NEW` does",
        ) from None


def _module_path(file: DeclaredFile, module: DeclaredModule) -> Path:
    return Path(file.file).parent / module.file


def _code(file: DeclaredFile, module: DeclaredModule) -> bytes:
    try:
        return content(str(_module_path(file, module)))
    except ConfigError as error:
        raise error_at(file, module.place, error.message, error.hint) from None


def _unknown(entries: Sequence[Entry]) -> list[Entry]:
    """Declarations without Python that neither confirm something shipped nor belong to what does."""
    bare = [entry for entry in entries if not entry.node.module]
    groups: tuple[tuple[str, set[str]], ...] = (
        ("FUN", {each.name for each in CATALOG.functions if not each.predicate}),
        ("PRED", {each.name for each in CATALOG.functions if each.predicate}),
        ("UDAF", {each.name for each in CATALOG.aggregates}),
        ("EXTR", {each.name for each in CATALOG.aggregates}),
        ("SFUN", {each.name for each in CATALOG.states}),
        ("STATE", {each.state for each in CATALOG.states}),
    )
    shipped = dict(groups)
    known = {entry.node.name for entry in bare if entry.node.name in shipped[entry.node.kind]}
    waiting = [entry for entry in bare if entry.node.name not in known]
    reached = [entry for entry in bare if entry.node.name in known]
    while reached:
        entry = reached.pop()
        parts = {*entry.node.uses, *(value for _, value in entry.node.modifiers)}
        reached += [each for each in waiting if each.node.name in parts]
        waiting = [each for each in waiting if each.node.name not in parts]
    return waiting


def _catalog(entries: Sequence[Entry]) -> Catalog:
    errors: dict[str, QueryError] = {}

    def each(kinds: tuple[str, ...], make: Callable[[Entry], Any]) -> list[Any]:
        made: dict[Any, Any] = {}
        for entry in entries:
            if entry.node.kind in kinds:
                try:
                    made.setdefault((entry.node.kind, entry.node.name, entry.parameters), make(entry))
                except QueryError as error:
                    # A module that fails is one mistake, however much is declared after it.
                    errors[str(error)] = error
        return list(made.values())

    functions = each(("FUN", "PRED"), _function)
    parts = {entry.modifier("SUBAGGR") for entry in entries}
    aggregates = each(("UDAF",), partial(_aggregate, parts))
    raise_all(_in_order(errors.values()))
    everything = CATALOG.extended(Catalog(tuple(functions), tuple(aggregates)))
    extracted = [one for pair in each(("EXTR",), partial(_extracted, everything)) for one in pair]
    raise_all(_in_order(errors.values()))
    return Catalog(tuple(functions), (*extracted, *aggregates), tuple(each(("SFUN",), _stateful)))


def _without_code(entries: Sequence[Entry]) -> Catalog:
    """What is declared and has no Python: its types and its cost, for a plan."""
    functions = [entry for entry in entries if entry.node.kind in ("FUN", "PRED")]
    aggregates = [entry for entry in entries if entry.node.kind in ("UDAF", "EXTR")]
    return Catalog(
        tuple(_declared_function(entry, None) for entry in functions),
        tuple(_declared_aggregate(entry, None, ordered=True) for entry in aggregates),
        tuple(_stateful(entry) for entry in entries if entry.node.kind == "SFUN"),
    )


def _in_order(errors: Iterable[QueryError]) -> list[QueryError]:
    return sorted(errors, key=lambda error: (error.file, error.line, error.column))


def _loaded(entry: Entry, find: Callable[[Path, str], Any]) -> Any:
    module = entry.node.module
    assert module is not None
    path = _module_path(entry.file, module)
    try:
        load(path)
    except ConfigError as error:
        raise error_at(entry.file, module.place, error.message, error.hint) from error
    try:
        return find(path, entry.node.name)
    except ConfigError as error:
        raise entry.fault(error.message, error.hint) from error


def _cost(entry: Entry) -> Cost:
    return Cost[entry.modifier("COST") or "LOW"]


def _lfta(entry: Entry) -> bool:
    return any(entry.modifier(word) is not None for word in _AT_LOW_LEVEL)


def _function(entry: Entry) -> Function:
    return _declared_function(entry, _loaded(entry, function))


def _declared_function(entry: Entry, value: Callable[..., Any] | None) -> Function:
    parameters = entry.node.parameters
    directions = [each for each in ("increasing", "decreasing") if each in map(str.lower, entry.node.attributes)]
    return Function(
        entry.node.name,
        entry.parameters,
        entry.returns,
        value,
        _cost(entry),
        lfta=_lfta(entry),
        partial=entry.modifier("PARTIAL") is not None,
        predicate=entry.node.kind == "PRED",
        constant=tuple(at for at, each in enumerate(parameters) if each.constant),
        monotone=directions == ["increasing"] and len(parameters) == 1,
        origin=entry.file.file,
    )


def _aggregate(parts: set[str | None], entry: Entry) -> AggregateFunction:
    make = _loaded(entry, aggregate)
    ordered = entry.modifier("SUBAGGR") is None and not hasattr(make.found, "merge")
    found = _declared_aggregate(entry, make, ordered)
    return replace(found, lfta=found.lfta or entry.node.name in parts)


def _declared_aggregate(entry: Entry, make: Callable[[], Udaf] | None, ordered: bool) -> AggregateFunction:
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


def _extracted(everything: Catalog, entry: Entry) -> tuple[AggregateFunction, ...]:
    """The aggregate of an EXTR and, where that below is split, the one over the results of its subaggregate."""
    below, outer = _parts(everything, entry)
    name, taken = entry.node.name, len(below.parameters)
    whole = partial(
        AggregateFunction,
        returns=entry.returns,
        cost=below.cost,
        running=below.running,
        ordered=below.ordered,
        origin=entry.file.file,
    )
    one = partial(whole, name, entry.parameters, make=partial(Extracted, below.make, outer.value), taken=taken)
    if not below.sub:
        return (one(lfta=below.lfta),)
    sub = _exactly(everything, below.sub, below.parameters)
    sup = _exactly(everything, below.sup, (sub.returns,))
    if sup.make is None:
        raise entry.fault(f"{name}: {sup.name} has no Python", f"name a superaggregate that is {_OWN}")
    upper = f"{name}_of_{sup.name}"
    return (
        one(lfta=below.lfta, sub=sub.name, sup=upper),
        whole(upper, (sub.returns, *entry.parameters[taken:]), make=partial(Extracted, sup.make, outer.value)),
    )


_OWN = "not one of the eight that every engine has of its own: they cannot be extracted from"


def _parts(everything: Catalog, entry: Entry) -> tuple[AggregateFunction, Function]:
    """The aggregate and the function of an EXTR.

    Raises:
        QueryError: one of them was declared without Python.
    """
    below_name, outer_name = entry.node.uses
    aggregates = [each for each in everything.aggregates if each.name == below_name and each.make]
    functions = [each for each in everything.functions if each.name == outer_name and not each.predicate]
    taken, fits = extraction(entry, map(_signature, aggregates), map(_signature, functions))
    if not fits:
        hint = f"declare both behind a MODULE line; name an aggregate that is {_OWN}"
        raise entry.fault(f"{entry.node.name}: {below_name} or {outer_name} has no Python", hint)
    below = next(each for each in aggregates if each.parameters == entry.parameters[:taken])
    wanted = (below.returns, *entry.parameters[taken:])
    return below, next(each for each in functions if each.parameters == wanted)


def _signature(each: AggregateFunction | Function) -> Signature:
    return Signature(each.name, each.parameters, each.returns)


def _exactly(everything: Catalog, name: str, parameters: tuple[Type, ...]) -> AggregateFunction:
    # The checks found it.
    return next(each for each in everything.aggregates if each.name == name and each.parameters == parameters)


def _stateful(entry: Entry) -> StateFunction:
    """A stateful function; of a user's own only the types are known: a query that calls it plans and does not run."""
    return StateFunction(entry.node.name, entry.node.uses[0], entry.parameters, entry.returns, entry.file.file)
