"""What a text says about names, also while parts of it are wrong: streams, columns, their types and progress.

Between the binder and `completion`, `meaning` and `places`. Statements with a mistake are left out, and the others are
bound without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from lowwater.catalog.expr import show as show_expression
from lowwater.catalog.protocols import ALIASES, Protocol
from lowwater.editor.words import Outline, Script, SourceWords, without_wrong
from lowwater.errors import LowwaterError, QueryError, QueryErrors
from lowwater.plan.bind.clauses.sources import source_fields
from lowwater.plan.bind.queries import bind_texts
from lowwater.plan.context import Context
from lowwater.plan.explain.gsql import steps
from lowwater.plan.fields import Field, temporals
from lowwater.plan.temporal import Temporal, infer

ROUNDS = 12
"""Most times that a text is bound without the statements that were wrong before."""


MOST = 100
"""Most mistakes of a round whose statements are left out."""


@dataclass(frozen=True)
class ColumnFacts:
    """A column as editors show it.

    Attributes:
        name: the column.
        type: its type.
        progress: how it is temporal, as a sentence; empty if it is not.
        origin: of which protocol or query it is.
        alias_of: the column that it is another name of; empty for none.
    """

    name: str
    type: str
    progress: str
    origin: str
    alias_of: str = ""


@dataclass(frozen=True)
class Knowledge:
    """Names that texts of a query set may use.

    Attributes:
        context: protocols, functions, links and parameters.
        streams: query -> its columns, for every query that could be bound.
        scripts: the texts.
    """

    context: Context
    streams: Mapping[str, tuple[ColumnFacts, ...]] = field(default_factory=dict)
    scripts: tuple[Script, ...] = ()

    def columns(self, source: SourceWords) -> tuple[ColumnFacts, ...]:
        """Returns the columns of a source; none if it is unknown."""
        name = f"{source.library}_{source.name}" if source.library else source.name
        if name in self.streams and not source.links:
            return self.streams[name]
        protocol = self.context.protocols.get(source.name)
        return () if protocol is None else protocol_columns(protocol)

    def column(self, statement: Outline, name: str, qualifier: str = "") -> ColumnFacts | None:
        """Returns a column of the sources of a statement, or of its own result; None for no such column."""
        for source in statement.sources:
            if qualifier in ("", source.alias, source.name):
                for facts in self.columns(source):
                    if facts.name == name:
                        return facts
        return next((facts for facts in self.streams.get(statement.name, ()) if facts.name == name), None)

    def queries(self) -> dict[str, tuple[Script, Outline]]:
        """Query -> where it is written."""
        return {part.name: (script, part) for script in self.scripts for part in script.statements if part.name}


def learn(scripts: Sequence[Script], context: Context, libraries: bool = True) -> Knowledge:
    """Binds what can be bound of some texts.

    Args:
        scripts: the texts of a query set.
        context: names that queries may use.
        libraries: whether queries may read libraries in the folders of the texts and above them.
    """
    folders = tuple(dict.fromkeys(Path(script.file).parent for script in scripts if script.file)) if libraries else ()
    known, left = Knowledge(context, {}, tuple(scripts)), [*scripts]
    for _ in range(ROUNDS):
        try:
            bound = bind_texts([(script.file, script.source) for script in left], folders, context, None)
        except QueryError as error:
            errors = (error.errors if isinstance(error, QueryErrors) else (error,))[:MOST]
            left = without_wrong(left, [(each.file, each.line, each.column) for each in errors])
            if not left:
                return known
        except (LowwaterError, OSError, UnicodeDecodeError):
            return known
        else:
            streams = {name: _stream(name, node.fields) for name, node in bound.plans.items()}
            return replace(known, context=bound.context, streams=streams)
    return known


def _stream(name: str, fields: Sequence[Field]) -> tuple[ColumnFacts, ...]:
    return tuple(
        ColumnFacts(each.name, each.type.value, progress_of(each.temporal), f"query {name}") for each in fields
    )


def progress_of(temporal: Temporal | None) -> str:
    """Says how a column is temporal, in a sentence; empty if it is not."""
    if temporal is None:
        return ""
    direction = "increases" if temporal.increasing else "decreases"
    parts = [f"`{step}`" for step in steps(temporal)]
    clock = f"by {temporal.origin}" if temporal.origin else "with the packet clock (ns)"
    return f"temporal: {direction} {clock}, {' and '.join(parts)}"


@lru_cache(maxsize=256)
def _facts(name: str, protocol: _Held) -> tuple[ColumnFacts, ...]:
    times = temporals(source_fields(protocol.of))
    return tuple(
        ColumnFacts(
            column, expr.type.value, progress_of(infer(expr, times)), f"protocol {name}", ALIASES.get(column, "")
        )
        for column, expr in protocol.of.columns.items()
    )


@dataclass(frozen=True, eq=False)
class _Held:
    """A protocol as a key of the cache: by its identity, since protocols hold dictionaries."""

    of: Protocol

    def __hash__(self) -> int:
        return id(self.of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.of is self.of


def protocol_columns(protocol: Protocol) -> tuple[ColumnFacts, ...]:
    """Returns the columns of a protocol."""
    return _facts(protocol.name, _Held(protocol))


def member_text(protocol: Protocol) -> str:
    """Says which records belong to a protocol."""
    if protocol.layout is not None:
        return f"records of links of the kind {protocol.kind}"
    return "every packet" if protocol.member is None else f"packets with `{show_expression(protocol.member, 0)}`"
