"""Worlds of the batch evaluator as stored packets, and the reference engine over them, whole or in intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from experiments.architectures import Experiment
from lowwater.catalog.schemas import ADDRESSES, READABLE
from lowwater.catalog.values import format_ip, words_from_ip
from lowwater.plan.operators import Node
from lowwater.plan.properties import carried_state, read_from
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.engine import ReferenceResult, evaluate
from tests.plan.batch_rows import Packet, World, rounded
from tests.plan.batch_worlds import SECOND, SKEW, world

Rows = Counter[tuple[Any, ...]]
NAMES = frozenset(READABLE.names)
"""Of the columns; Arrow makes their list anew whenever it is asked for them."""


def arriving(made: World, skew: int = SKEW) -> World:
    """The world with arrivals that follow from its timestamps."""
    return replace(made, links={link: _arriving(packets, skew) for link, packets in made.links.items()})


def _arriving(packets: Sequence[Packet], skew: int) -> list[Packet]:
    clock, found = 0, []
    for packet in packets:
        clock = max(clock, packet.timestamp)
        found.append(replace(packet, arrival=clock, admitted=clock - packet.timestamp <= skew))
    return found


def write_watch_list(folder: Path) -> None:
    """The watch list of the worlds as the file that the queries name."""
    rows = world(0, ()).watch["watch"]
    text = "".join(f"{format_ip(row['address'])},{row['id']},{row['name']}\n" for row in rows)
    (folder / "w.csv").write_text(text, encoding="utf-8")


def batches(packets: Sequence[Packet], size: int = 7) -> list[pa.RecordBatch]:
    """The packets of a link as they are stored."""
    rows = [_stored(packet) for packet in packets]
    return [pa.RecordBatch.from_pylist(rows[at : at + size], READABLE) for at in range(0, len(rows), size)]


def _stored(packet: Packet) -> dict[str, Any]:
    row = {name: value for name, value in packet.values.items() if name in NAMES}
    row |= {"capture": "c", "position": packet.position, "arrival": packet.arrival}
    for name, family in ADDRESSES.items():
        if packet.values.get(name) is not None:
            row[family], row[f"{name}_hi"], row[f"{name}_lo"] = words_from_ip(packet.values[name])
    if packet.values.get("payload") is not None:
        frame = packet.values["payload"].encode("latin-1")
        row |= {"frame": frame, "payload_offset": 0, "payload_length": len(frame)}
    return row


Skews = Mapping[str, int]
LAST: list[tuple[World, dict[str, list[pa.RecordBatch]]]] = []


def whole(
    node: Node,
    made: World,
    period: int = SECOND,
    policy: str = "periodic",
    experiment: Experiment | None = None,
    skews: Skews = MappingProxyType({}),
) -> ReferenceResult:
    """One evaluation of everything."""
    return _evaluate(node, made, (0, END_OF_TIME), period, policy, None, experiment, skews)


def pieces(
    node: Node,
    made: World,
    cuts: Sequence[int],
    period: int,
    policy: str,
    experiment: Experiment | None = None,
    skews: Skews = MappingProxyType({}),
) -> list[ReferenceResult]:
    """The intervals between the cuts, one after the other; a query that carries a state goes on from the one before."""
    found: list[ReferenceResult] = []
    for bounds in pairwise([0, *cuts, END_OF_TIME]):
        state = found[-1].state if found else None
        assert bool(carried_state(node)) == (state is not None) or not found
        found.append(_evaluate(node, made, bounds, period, policy, state, experiment, skews))
    return found


def _evaluate(
    node: Node,
    made: World,
    bounds: tuple[int, int],
    period: int,
    policy: str,
    state: str | None,
    experiment: Experiment | None,
    skews: Skews,
) -> ReferenceResult:
    packets = _packets(made)
    links = {link: skews.get(link, SKEW) for link in made.links}
    over = max((p.timestamp for each in made.links.values() for p in each), default=0) + 1
    return evaluate(node, packets, links, *bounds, read_from(node, bounds[0]), period, policy, state, over, experiment)


def _packets(made: World) -> dict[str, list[pa.RecordBatch]]:
    """The packets of all links as they are stored; kept for the evaluations that follow of the same world."""
    if not LAST or LAST[0][0] is not made:
        LAST[:] = [(made, {link: batches(packets) for link, packets in made.links.items()})]
    return LAST[0][1]


def rows_of(*results: ReferenceResult) -> Rows:
    """The rows of some results, floats to nine digits."""
    return Counter(tuple(rounded(value) for value in row) for each in results for row in each.rows)


def owned_rows(*results: ReferenceResult) -> Rows:
    """The same with `_last`."""
    return Counter(
        (last, *(rounded(value) for value in row))
        for each in results
        for row, last in zip(each.rows, each.lasts, strict=True)
    )
