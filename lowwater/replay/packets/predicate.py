"""A WHERE clause over stored packets, evaluated batch by batch without a query.

`capture_export` and the counting of load shedding use it. It is compiled like the conditions of a query, so it follows
SEMANTICS V1 and V2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.catalog.expr import Call, Const, Expr, StateCall, Type, columns_of, conjunction, walk
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.catalog.schemas import PAYLOAD, stored
from lowwater.errors import ConfigError, QueryError, QueryErrors, UnsupportedError, raise_all
from lowwater.gsql.nodes import Select
from lowwater.gsql.parser import parse
from lowwater.low.code.expressions import of_link
from lowwater.low.evaluate import ExpressionKernel
from lowwater.low.runtime.chunk_columns import ChunkColumns
from lowwater.low.runtime.node import Host, gate_of
from lowwater.low.settings import LowSettings
from lowwater.plan.context import Context, Links
from lowwater.plan.operators import Map, Source
from lowwater.plan.queryset import plan_texts
from lowwater.plan.text import nearest

Test = Callable[[pa.RecordBatch], NDArray[np.bool_]]
"""Returns which rows of a batch are selected."""

OPTION = "--where"
QUERY_START = "SELECT 1 AS chosen FROM packets.{} "


@dataclass(frozen=True)
class Predicate:
    """Selects packets; see `read_predicate`.

    Attributes:
        member: condition of the protocol; None for all packets.
        condition: condition of the WHERE clause; None for all packets.
    """

    member: Expr | None
    condition: Expr | None

    @property
    def reads_payload(self) -> bool:
        """Whether the condition reads stored frames."""
        return PAYLOAD in columns_of(self.condition)

    @property
    def columns(self) -> list[str]:
        """The stored columns that a test reads, beside `arrival` and `timestamp`."""
        names = columns_of(self.member, self.condition)
        return stored(names)

    def test(self, link: str) -> Test:
        """Compiles the test for the packets of one link."""
        return _compiled_test(self.member, self.condition, link)


def read_predicate(
    text: str | None, protocol: str = "ETH", context: Context | None = None, kind: str = "pcap"
) -> Predicate:
    """Binds the text of a WHERE clause over the columns of a protocol.

    Args:
        text: the clause; None for every record.
        protocol: name of the protocol.
        context: its protocols; None for the built-in ones.
        kind: kind of the records, as in the settings of a link.

    Raises:
        QueryError: the clause is wrong, marked in the text; QueryErrors for several errors.
        ConfigError: there is no such protocol.
    """
    protocols = PROTOCOLS if context is None else context.protocols
    if protocol not in protocols:
        raise ConfigError(f"--protocol {protocol}: there is no such protocol", nearest(protocol, protocols))
    if text is None:
        return Predicate(protocols[protocol].member, None)
    source = text.replace("\r\n", "\n").replace("\r", "\n")
    query = QUERY_START.format(protocol)
    try:
        statements = parse(query + "WHERE\n" + source).statements
        if [replace(statement, where=None) for statement in statements if isinstance(statement, Select)] != [
            *parse(query).statements
        ]:
            raise QueryError("more than one condition", "write one expression, for example: srcPort = 53", "", 2, 1)
        links = Links(("packets",), kinds={} if kind == "pcap" else {"packets": kind})
        plan = plan_texts([("export", query + "WHERE\n" + source)], links, context=context)
    except QueryError as error:
        raise_all([_in_text(cause, source) for cause in (error.errors if isinstance(error, QueryErrors) else (error,))])
    node = plan.queries[0].logical
    assert isinstance(node, Map) and isinstance(node.input, Source)
    for expr in walk(node.predicate) if node.predicate else ():
        _require_value(expr, source)
    return Predicate(node.input.member, node.predicate)


def _require_value(expr: Expr, source: str) -> None:
    """Refuses expressions that have no value for a single packet."""
    if isinstance(expr, StateCall) or (isinstance(expr, Call) and expr.function.value is None):
        line, column = expr.place
        raise UnsupportedError(
            f"{expr.function.name} cannot be computed for one packet", "", OPTION, line - 1, column, source
        )


def _in_text(error: QueryError, source: str) -> QueryError:
    """Moves an error to its place in the clause: the query has one more line before it."""
    line, column = (error.line - 1, error.column) if error.line > 1 else (1, 1)
    hint = re.sub(r"(?<= at )\d+(?=:\d)", lambda match: str(int(match[0]) - 1), error.hint)
    return type(error)(error.message, hint, OPTION, line, column, source)


def _compiled_test(member: Expr | None, condition: Expr | None, link: str) -> Test:
    parts = [of_link(part, link) for part in (member, condition) if part is not None]
    whole = conjunction(parts) or Const(Type.BOOL, True)
    evaluation = ExpressionKernel(whole, compiled=True)
    host = Host(evaluation.hosted, evaluation.beside, gate_of(member, condition, link), LowSettings(skew=0))

    def test(batch: pa.RecordBatch) -> NDArray[np.bool_]:
        if host.full:
            host.forget()
        columns = ChunkColumns(batch, link)
        beside = host.parameters(columns, np.ones(batch.num_rows, np.bool_))
        chosen = evaluation.of(columns, beside, host.texts).fill_null(False)
        selected: NDArray[np.bool_] = chosen.to_numpy(zero_copy_only=False)
        return selected

    return test
