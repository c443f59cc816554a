"""A condition over stored packets, evaluated batch by batch without a query: for exports, and to count load shedding.

It is compiled like the conditions of a query, so it follows SEMANTICS V1 and V2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.catalog import expr as ex, schemas
from lowwater.low import evaluate, settings
from lowwater.low.code.expressions import of_link
from lowwater.low.runtime.node import Host, gate_of

Test = Callable[[pa.RecordBatch], NDArray[np.bool_]]
"""Returns which rows of a batch are selected."""


@dataclass(frozen=True)
class Predicate:
    """Selects packets.

    Attributes:
        member: condition of the protocol; None for all packets.
        condition: condition of the WHERE clause; None for all packets.
    """

    member: ex.Expr | None
    condition: ex.Expr | None

    @property
    def reads_payload(self) -> bool:
        """Whether the condition reads stored frames."""
        return schemas.PAYLOAD in ex.columns_of(self.condition)

    @property
    def columns(self) -> list[str]:
        """The stored columns that a test reads, beside `arrival` and `timestamp`."""
        names = ex.columns_of(self.member, self.condition)
        return schemas.stored(names)

    def test(self, link: str) -> Test:
        """Compiles the test for the packets of one link."""
        parts = [of_link(part, link) for part in (self.member, self.condition) if part is not None]
        whole = ex.conjunction(parts) or ex.Const(ex.Type.BOOL, True)
        evaluation = evaluate.ExpressionKernel(whole, compiled=True)
        gate = gate_of(self.member, self.condition, link)
        host = Host(evaluation.hosted, evaluation.beside, gate, settings.LowSettings(skew=0))

        def test(batch: pa.RecordBatch) -> NDArray[np.bool_]:
            if host.full:
                host.forget()
            columns = evaluate.ChunkColumns(batch, link)
            beside = host.parameters(columns, np.ones(batch.num_rows, np.bool_))
            chosen = evaluation.of(columns, beside, host.texts).fill_null(False)
            selected: NDArray[np.bool_] = chosen.to_numpy(zero_copy_only=False)
            return selected

        return test
