"""The state that a query hands from one interval to the next (SEMANTICS I4): a file for each operator with a state.

Stages keep the folders. An operator reads its file before its first row and writes one after its last promise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from lowwater.plan.temporal import END_OF_TIME


@dataclass(frozen=True)
class StateHandover:
    """The place of one interval in the chain of a query.

    Attributes:
        start: rows with a smaller `_last` (ns) are already in the state.
        end: end of the interval, ns, exclusive; the next state contains the rows before it.
        latest: largest timestamp of the links, ns, if nothing is known after it, so that idle time ends there; None
            where coverage reaches the end.
        late: largest time from a timestamp to its arrival, ns, for a query evaluated by arrival; otherwise 0.
        earlier: folder with the states of the interval before; None for the first interval of a chain.
        left: folder for the states of this interval; None where they are not needed.
        disorder: link -> (skew in ns, origin -> allowed disorder of that attribute in its unit), for links of records
            with attributes that are no functions of the clock.
    """

    start: int = 0
    end: int = END_OF_TIME
    latest: int | None = None
    late: int = 0
    earlier: Path | None = None
    left: Path | None = None
    disorder: Mapping[str, tuple[int, Mapping[str, int]]] = field(default_factory=dict)


def state_file(folder: Path, query: str) -> Path:
    """The state file of a query's operator."""
    return folder / f"{sha256(query.encode()).hexdigest()[:32]}.state"


def write_state_file(file: Path, text: str) -> None:
    """Writes a state file by a rename, so that it appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
