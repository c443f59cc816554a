"""From texts to the logical plans of a query set, and what their DEFINE blocks ask of the planner.

The door of `bind`, called by `queryset`: nothing of a plan is rewritten here but for the values of the old dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lowwater.errors import QueryError, raise_all, sort_errors
from lowwater.gsql import nodes as syntax
from lowwater.plan.bind.binder import Binder
from lowwater.plan.bind.clauses.lookups import declare_watch
from lowwater.plan.bind.defines import check_options, keys_of, options, slots_of, threshold_of
from lowwater.plan.bind.protocols import declare
from lowwater.plan.bind.texts import Named, read_texts
from lowwater.plan.context import Context
from lowwater.plan.dialect import gigascope
from lowwater.plan.operators import Node
from lowwater.plan.properties.unique_keys import StatedKeys
from lowwater.plan.text import BelowError, Note, Text

Statements = Mapping[str, Named]


@dataclass(frozen=True)
class Bound:
    """The queries of a set, bound.

    Attributes:
        statements: query -> (statement, text it stands in), in the order of the texts, libraries last.
        plans: query -> logical plan, those that are read before their readers.
        notes: on the queries, in the order of the texts.
        context: what the queries may name, with the protocols that the texts declare.
        hidden: queries that nobody sees: `visibility 'internal'`, and those of libraries.
        private: hidden queries that one source of one other query reads.
        selections: queries that ask for a selection LFTA.
        slots: query -> size of its group tables, where it says.
        thresholds: query -> cost from which on a function is not LFTA-safe, where it says.
        keys: query -> what it says of its unique key.
    """

    statements: Statements
    plans: Mapping[str, Node]
    notes: Sequence[Note]
    context: Context
    hidden: frozenset[str]
    private: frozenset[str]
    selections: frozenset[str]
    slots: Mapping[str, int]
    thresholds: Mapping[str, int]
    keys: Mapping[str, StatedKeys]


def bind_texts(texts: Iterable[tuple[str, str]], folders: Sequence[Path], context: Context, slots: int | None) -> Bound:
    """Parses and binds texts.

    Args:
        texts: (file, text).
        folders: where libraries of queries (`library/query`) are looked for.
        context: what queries may name.
        slots: size of every group table, over what the queries say; None where they decide.

    Raises:
        QueryError: a text has no meaning; QueryErrors for several.
    """
    read = read_texts(texts, folders)
    if read.protocols:
        context = replace(context, protocols=declare(read.protocols, context.protocols))
    plans, notes = _bind(read.statements, context)
    sizes, thresholds = _asked(read.statements, slots)
    chosen = {name: options(read.statements[name][0]) for name in plans}
    hidden = {
        name for name in plans if name in read.library or chosen[name].get("visibility", "").lower() == "internal"
    }
    readers = _readers(read.statements)
    return Bound(
        read.statements,
        plans,
        notes,
        context,
        frozenset(hidden),
        frozenset(name for name in hidden if len(readers.get(name, ())) == 1),
        frozenset(name for name in plans if "select_lfta" in chosen[name]),
        sizes,
        thresholds,
        {name: _keys(read.statements[name], plan) for name, plan in plans.items()},
    )


def _keys(named: Named, plan: Node) -> StatedKeys:
    statement, text = named
    return keys_of(statement, [field.name for field in plan.fields], text)


def _bind(statements: Statements, context: Context) -> tuple[dict[str, Node], list[Note]]:
    """The logical plans, those that are read before their readers; the errors of all queries together."""
    binder = Binder(context, statements)
    errors: list[QueryError] = []
    notes: list[Note] = []

    def attempt(step: Callable[[], object]) -> bool:
        try:
            step()
        except BelowError:
            return False
        except QueryError as error:
            errors.append(error)
            return False
        return True

    for name, (statement, text) in statements.items():
        sound = attempt(partial(_note, notes, name, statement, text))
        if sound and isinstance(statement, syntax.Watchlist):
            sound = attempt(partial(declare_watch, name, statement, text, context.folders))
        if not sound:
            binder.failed.add(name)
    for name in _order(statements):
        statement = statements[name][0]
        if isinstance(statement, syntax.Watchlist) or name in binder.failed:
            continue
        if attempt(partial(binder.query, name)):
            dialect = options(statement).get("dialect", context.dialect)
            if dialect == "gigascope":
                binder.bound[name] = gigascope(binder.bound[name])
    raise_all(sort_errors(errors))
    bound = {name: binder.bound[name] for name in _order(statements) if name in binder.bound}
    at = {name: number for number, name in enumerate(statements)}
    return bound, sorted((*notes, *binder.notes), key=lambda note: (at[note.query], note.place))


def _note(notes: list[Note], name: str, statement: syntax.Statement, text: Text) -> None:
    notes.extend(Note(name, note) for note in check_options(statement, text))


def _order(statements: Statements) -> list[str]:
    """The queries, those that are read before their readers; without recursion, as chains may be long."""
    order: dict[str, None] = {}
    for root in statements:
        stack = [(root, iter(_reads(statements[root][0])))]
        active = {root}
        while stack:
            name, reading = stack[-1]
            step = next((one for one in reading if one in statements and one not in order and one not in active), None)
            if step is None:
                order.setdefault(name)
                active.discard(name)
                stack.pop()
            else:
                active.add(step)
                stack.append((step, iter(_reads(statements[step][0]))))
    return list(order)


def _reads(statement: syntax.Statement) -> list[str]:
    refs = [ref for source in getattr(statement, "sources", ()) for ref in (source, *source.union)]
    return [f"{ref.library}_{ref.name}" if ref.library else ref.name for ref in refs if not ref.links]


def _readers(statements: Statements) -> dict[str, set[tuple[str, int]]]:
    """Query -> the sources that read it: the reader, and the number of the source."""
    readers: dict[str, set[tuple[str, int]]] = {}
    for name, (statement, _) in statements.items():
        for at, read in enumerate(_reads(statement)):
            readers.setdefault(read, set()).add((name, at))
    return readers


def _asked(statements: Statements, slots: int | None) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes of group tables and costs that DEFINE asks for, by query; the errors of all queries together."""
    sizes: dict[str, int] = {}
    thresholds: dict[str, int] = {}
    errors: list[QueryError] = []
    for name, (statement, text) in statements.items():
        try:
            size, threshold = slots or slots_of(statement, text), threshold_of(statement, text)
        except QueryError as error:
            errors.append(error)
            continue
        sizes |= {name: size} if size else {}
        thresholds |= {name: threshold} if threshold is not None else {}
    raise_all(errors)
    return sizes, thresholds
