"""What a query hands over from interval to interval (SEMANTICS I4): one file of state for each operator that has one.

Between the stages, which keep the folders, and the operators, which read one before their first row and leave one after
their last promise.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from lowwater.plan.temporal import END_OF_TIME


@dataclass(frozen=True)
class StateHandover:
    """The place of one run of a query in its chain.

    Attributes:
        start: rows of a smaller `_last` (ns) are in the state already.
        end: the end of the interval, ns; the state that is left holds what is before it.
        latest: the largest timestamp (ns) of the links where nothing is known after it, so that idle time ends there;
            None where the coverage of the links goes to the end.
        late: how far (ns) the timestamp of a record may be behind its arrival, for a query that is evaluated so.
        earlier: folder of the states that the interval before left; None for the first of a chain.
        left: folder for the states that this one leaves; None where nobody asks.
    """

    start: int = 0
    end: int = END_OF_TIME
    latest: int | None = None
    late: int = 0
    earlier: Path | None = None
    left: Path | None = None


def state_file(folder: Path, query: str) -> Path:
    """The file of the operator of a query."""
    return folder / f"{sha256(query.encode()).hexdigest()[:32]}.state"


def write_state_file(file: Path, text: str) -> None:
    """Writes a state, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
