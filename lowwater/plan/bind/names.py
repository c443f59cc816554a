"""Names of a statement other than columns: PARAM, DEFINE, links, functions and protocols.

`scope` resolves them in expressions; `binder` creates them for each statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowwater.catalog.types import Type
from lowwater.catalog.values import pack_ip
from lowwater.gsql import nodes as syntax
from lowwater.plan.bind.protocols import type_of
from lowwater.plan.context import Context, Value
from lowwater.plan.text import Text

UNSIGNED = ("ushort", "uint", "ullong")


@dataclass(frozen=True)
class Names:
    """Names that one statement may use besides columns.

    Attributes:
        context: the functions, links and protocols of the query set.
        params: parameter -> (type, value); the value is None if the user gave none.
        defines: option of DEFINE -> value as written.
        links: the links that the statement reads, for `@property`.
        assumed: range variables of sources that count as links only because nothing else has their name.
        notes: (line, column) -> remark on the statement; binding adds to it.
    """

    context: Context = field(default_factory=Context)
    params: Mapping[str, tuple[Type, Value | None]] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    notes: dict[tuple[int, int], str] = field(default_factory=dict)

    @staticmethod
    def of(statement: syntax.Statement, context: Context, text: Text) -> Names:
        """Reads the PARAM and DEFINE blocks of a statement.

        Raises:
            QueryError: a type is unknown, or a value does not have the declared type.
        """
        declared: tuple[syntax.ParamDecl, ...] = getattr(statement, "params", ())
        defines: tuple[tuple[str, str], ...] = getattr(statement, "defines", ())
        return Names(context, {p.name: _param(p, context.params.get(p.name), text) for p in declared}, dict(defines))


def _param(declared: syntax.ParamDecl, argument: Value | None, text: Text) -> tuple[Type, Value | None]:
    kind = type_of(declared.type)
    if kind is None:
        raise text.error(declared.place, f"${declared.name} has the type {declared.type}, which is none of ours")
    value = argument if argument is not None or declared.default is None else declared.default.value
    if value is None:
        return kind, None
    try:
        converted = _value(kind, value)
        if isinstance(converted, int) and converted < 0 and declared.type.lower() in UNSIGNED:
            raise ValueError(value)
        return kind, converted
    except ValueError:
        message = f"${declared.name} is {value!r}, which is no {declared.type}"
        raise text.error(declared.place, message, f"give --param {declared.name}=VALUE") from None


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
