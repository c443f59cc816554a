"""A WHERE clause over stored packets: bound as in a query, evaluated batch by batch without one.

Below `replay.extract`. What the low level compiles runs as the kernel of a selection; anything else, such as functions
of the payload, is evaluated row by row by the reference engine. Both keep SEMANTICS V1 and V2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.catalog.expr import Binary, Call, Expr, StateCall, Type, columns_of, conjunction, walk
from lowwater.catalog.packets import stored
from lowwater.catalog.protocols import PAYLOAD, PROTOCOLS
from lowwater.errors import ConfigError, QueryError, QueryErrors, UnsupportedError, raise_all
from lowwater.gsql.nodes import Select
from lowwater.gsql.parser import parse
from lowwater.low.compiler import load
from lowwater.low.kernel import ACCEPTED, Program, generate
from lowwater.low.run import KernelColumns
from lowwater.plan.context import Links
from lowwater.plan.nodes import Lfta, Map, Source
from lowwater.plan.queryset import plan_texts
from lowwater.plan.text import nearest
from lowwater.reference.records import merge
from lowwater.reference.values import Faults, compile_predicate

Test = Callable[[pa.RecordBatch], NDArray[np.bool_]]
"""Which rows of a batch are selected."""

FRAME = "frame"
OPTION = "--where"
_BEFORE = "SELECT timestamp FROM packets.{} "
_FRAME_COLUMNS = (FRAME, "payload_offset", "payload_length")


@dataclass(frozen=True)
class Predicate:
    """Which packets are meant; see `read_predicate`.

    Attributes:
        member: those of the protocol; None for all.
        condition: of the WHERE clause; None for all.
    """

    member: Expr | None
    condition: Expr | None

    @property
    def reads_payload(self) -> bool:
        """Whether what was kept of the frames decides."""
        return PAYLOAD in columns_of(self.condition)

    @property
    def columns(self) -> list[str]:
        """The stored columns that a test reads; of a batch it reads `arrival` and `timestamp` besides."""
        names = columns_of(self.member, self.condition)
        found = stored([name for name in names if name != PAYLOAD])
        return [*found, *(_FRAME_COLUMNS if self.reads_payload else ())]

    def test(self, link: str) -> Test:
        """The test of the packets of one link, whose name is their `interface`."""
        parts = [part for part in (self.member, self.condition) if part is not None]
        called = any(isinstance(node, Call) for part in parts for node in walk(part))
        if not called and not self.reads_payload:
            lfta = Lfta("export", (link,), "ETH", self.member, self.condition, (), (), False, 1, ())
            try:
                return _compiled(generate(lfta, link), link)
            except UnsupportedError:
                pass  # texts in other places than the low level compiles
        return _interpreted(conjunction(parts), link)


def read_predicate(text: str | None, protocol: str = "ETH") -> Predicate:
    """Binds the text of a WHERE clause over the columns of a protocol.

    Raises:
        QueryError: it has no meaning, marked in the text; QueryErrors for several.
        ConfigError: there is no such protocol.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"--protocol {protocol}: no protocol is called so", nearest(protocol, PROTOCOLS))
    if text is None:
        return Predicate(PROTOCOLS[protocol].member, None)
    source = text.replace("\r\n", "\n").replace("\r", "\n")
    query = _BEFORE.format(protocol)
    try:
        statements = parse(query + "WHERE\n" + source).statements
        if [replace(each, where=None) for each in statements if isinstance(each, Select)] != [*parse(query).statements]:
            raise QueryError("more than one condition", "write one expression, for example: srcPort = 53", "", 2, 1)
        plan = plan_texts([("export", query + "WHERE\n" + source)], Links(("packets",)))
    except QueryError as error:
        raise_all([_in_text(each, source) for each in (error.errors if isinstance(error, QueryErrors) else (error,))])
    node = plan.queries[0].logical
    assert isinstance(node, Map) and isinstance(node.input, Source)
    for expr in walk(node.predicate) if node.predicate else ():
        _require_value(expr, source)
    return Predicate(node.input.member, node.predicate)


def _require_value(expr: Expr, source: str) -> None:
    """Refuses what has a meaning to the planner and no value for one packet."""
    if isinstance(expr, StateCall) or (isinstance(expr, Call) and expr.function.value is None):
        line, column = expr.place
        raise UnsupportedError(f"{expr.function.name} has no value of a packet", "", OPTION, line - 1, column, source)
    if isinstance(expr, Binary) and expr.op in ("&", "|") and expr.type is Type.IP:
        raise UnsupportedError(f"{expr.op} of addresses is not evaluated yet", "", OPTION, source=source)


def _in_text(error: QueryError, source: str) -> QueryError:
    """The error at its place in the clause: the query has a line before it."""
    line, column = (error.line - 1, error.column) if error.line > 1 else (1, 1)
    return type(error)(error.message, error.hint, OPTION, line, column, source)


def _compiled(program: Program, link: str) -> Test:
    kernel = load(program)

    def test(batch: pa.RecordBatch) -> NDArray[np.bool_]:
        count = batch.num_rows
        ok, outcome, unread = np.ones(count, np.bool_), np.zeros(count, np.uint8), np.zeros(count, np.int64)
        rows, ticks, lasts = np.empty((count, program.width), np.int64), unread.copy(), unread.copy()
        columns = KernelColumns(batch, link).parameters(program.columns)
        kernel(0, count, ok, unread, 1, outcome, rows, ticks, 0, unread, lasts, *columns)
        chosen: NDArray[np.bool_] = outcome == ACCEPTED
        return chosen

    return test


def _interpreted(condition: Expr | None, link: str) -> Test:
    names = columns_of(condition)
    predicate = compile_predicate(condition, names, Faults())

    def test(batch: pa.RecordBatch) -> NDArray[np.bool_]:
        if PAYLOAD in names:
            batch = batch.append_column(PAYLOAD, _payloads(batch))
        records = merge({link: [batch]}, {link: names})
        return np.fromiter((predicate(record.values) for record in records), np.bool_, batch.num_rows)

    return test


def _payloads(batch: pa.RecordBatch) -> pa.Array:
    """What was kept of each payload, a character a byte; NULL where the packet has none."""
    rows = zip(*(batch.column(name).to_pylist() for name in _FRAME_COLUMNS), strict=True)
    texts = [None if None in row else row[0][row[1] : row[1] + row[2]].decode("latin-1") for row in rows]
    return pa.array(texts, pa.string())
