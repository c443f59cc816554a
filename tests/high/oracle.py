"""Random queries on Spark, above the low level, beside the batch evaluator of `tests.plan`.

The rows of every LFTA are those of the batch evaluator, written as the low stage would: in order of arrival, each link
with its own disorder and promises, partial groups in any order.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowwater.catalog.types import Type
from lowwater.catalog.values import format_ip
from lowwater.high.carry import Carry
from lowwater.high.results import HighSettings
from lowwater.high.run import run_high
from lowwater.plan.nodes import Lfta, LftaInput, Node, WatchJoin
from lowwater.plan.ranges import horizon, read_from
from lowwater.plan.split import lftas_of, with_inputs
from lowwater.plan.state import hands_over
from tests.high.streams import check_law, read_stream, write_emitted
from tests.plan.batch import evaluate
from tests.plan.batch_rows import Row, World, rounded
from tests.plan.batch_worlds import SECOND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Choice:
    """What no row may depend on: length of the intervals (ns; None for one), seed of the disorder, how Spark runs."""

    interval: int | None
    seed: int
    settings: HighSettings


def renamed(node: Node, prefix: str) -> Node:
    """A plan whose LFTAs are told apart from those of other plans."""
    if isinstance(node, LftaInput):
        return replace(node, lfta=replace(node.lfta, name=f"{prefix}.{node.lfta.name}"))
    return with_inputs(node, [renamed(below, prefix) for below in node.inputs()])


def listed(node: Node, world: World, folder: Path) -> Node:
    """A plan whose watch lists are files in a folder, with the rows that they have in a world."""
    node = with_inputs(node, [listed(below, world, folder) for below in node.inputs()])
    if not isinstance(node, WatchJoin):
        return node
    columns = [(f.name.removeprefix(f"{node.watch_alias}."), f.type) for f in node.columns]
    texts = {Type.IP: format_ip}
    lines = [
        ",".join(texts.get(kind, str)(entry[name]) for name, kind in columns) for entry in world.watch[node.watchlist]
    ]
    file = folder / f"{node.watchlist}.csv"
    file.write_text("\n".join(["# a comment", *lines, ""]), encoding="utf-8")
    return replace(node, file=str(file))


def expected(node: Node, world: World) -> Rows:
    """The rows of the batch evaluation with their last instants."""
    return counted(
        [(*(row.values[f.name] for f in node.fields), row.last) for row in evaluate(node, world)],
    )


def counted(rows: Sequence[tuple[Any, ...]]) -> Rows:
    """Rows as a multiset, floats to nine digits."""
    return Counter(tuple(rounded(value) for value in row) for row in rows)


def intervals(node: Node, world: World, length: int | None) -> list[tuple[int, int]]:
    """Every interval up to the last that can own a row (I3)."""
    if length is None:
        return [(0, 1 << 62)]
    stamps = [packet.timestamp for packets in world.links.values() for packet in packets] or [0]
    last = horizon(node, max(stamps))
    return [(at * length, (at + 1) * length) for at in range(min(stamps) // length, last // length + 1)]


def spark_rows(spark: SparkSession, nodes: Mapping[str, Node], world: World, choice: Choice) -> dict[str, Rows]:
    """The rows of high plans on Spark, all of one run, interval by interval."""
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in nodes}
    spans = [intervals(node, world, choice.interval) for node in nodes.values()]
    with tempfile.TemporaryDirectory() as folder:
        held: Path | None = None
        for start, end in sorted({span for each in spans for span in each}):
            here = Path(folder) / str(start)
            carries = {
                name: Carry(start, end, world.latest, held / name if held else None, here / "state" / name)
                if hands_over(node)
                else Carry(end=end, latest=world.latest)
                for name, node in nodes.items()
            }
            inputs = write_inputs(list(nodes.values()), world, start, end, choice.seed, here)
            results = run_high(spark, nodes, inputs, start, end, here / "work", choice.settings, carries)
            for name, result in results.items():
                check_law(result.files)
                assert result.late == 0
                found[name] += read_stream(result.files)[0]
            held = here / "state"
    return {name: counted(rows) for name, rows in found.items()}


def write_inputs(
    nodes: Sequence[Node], world: World, start: int, end: int, seed: int, folder: Path
) -> dict[tuple[str, str], list[str]]:
    """The streams of all LFTAs of some plans, for one interval."""
    starts: dict[str, int] = {}
    for node in nodes:
        for name, first in read_from(node, start, hands_over(node)).items():
            starts[name] = min(first, starts.get(name, first))
    seen = replace(world.before(end), starts=starts)
    arrivals = {packet.order: packet.arrival for packets in world.links.values() for packet in packets}
    files = {}
    for lfta in lftas_of(*nodes):
        rows = evaluate(LftaInput(lfta.name, lfta.fields, lfta), seen)
        for link in lfta.links:
            mine = [row for row in rows if row.link == link] if not lfta.aggregates else _share(rows, link, lfta)
            file = folder / "lfta" / f"{lfta.name}-{link}.parquet"
            chance = random.Random(f"{seed} {lfta.name} {link}")
            files[lfta.name, link] = _written(file, lfta, mine, arrivals, min(end, world.latest + 60 * SECOND), chance)
    return files


def _share(rows: Sequence[Row], link: str, lfta: Lfta) -> list[Row]:
    """Partial groups have no link in the batch evaluation: any part of them is of any link."""
    return [row for number, row in enumerate(rows) if lfta.links[number % len(lfta.links)] == link]


def _written(
    file: Path,
    lfta: Lfta,
    rows: Sequence[Row],
    arrivals: Mapping[tuple[Any, ...], int],
    until: int,
    chance: random.Random,
) -> list[str]:
    period = chance.choice((1, 5, 20)) * SECOND
    emitted = []
    for row in rows:
        at = arrivals[row.order] if row.order else row.last + chance.randint(0, 20 * SECOND)
        values = tuple(row.values[f.name] for f in lfta.fields)
        emitted.append((math.ceil((at + 1) / period) * period, values, row.last))
    first = min((tick for tick, _, _ in emitted), default=until)
    ticks = range(first, until, max(period, (until - first) // 50))
    return write_emitted(file, lfta.fields, emitted, [*ticks, until])
